"""``python -m rarrg``: the command line."""

import sys

from rarrg.cli import main

sys.exit(main())
