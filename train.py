"""Train a phrase retriever: ``python train.py --config mimic.yaml``. The same as ``rarrg train``."""

import sys

from rarrg.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]], prog="train.py"))
