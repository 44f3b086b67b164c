"""Write the report of a study: ``python infer.py --frontal a.jpg --lateral b.jpg``. The same as ``rarrg infer``."""

import sys

from rarrg.cli import main

if __name__ == "__main__":
    sys.exit(main(["infer", *sys.argv[1:]], prog="infer.py"))
