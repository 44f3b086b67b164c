"""Write the report of a chest X-ray: ``python infer.py --frontal a.jpg --lateral b.jpg`` (``--help`` says more)."""

from __future__ import annotations

import sys

from rarrg.cli import main

if __name__ == "__main__":
    sys.exit(main(["infer", *sys.argv[1:]]))
