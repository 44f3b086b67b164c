"""What each choice in ``configs/iu_xray.yaml`` does, by cross-validation, for ``docs/iu_xray.md``.

    python benchmarks/ablations.py data/iu_xray --out runs/ablations [--only kept "3 layers"] [--cache runs/cache]

The test split is too small to tell configurations apart (99 positive findings) and is left for the end. Here the
studies of all other splits that have findings are dealt to eight parts; fold k is trained on six of them, validates on
part k + 1 and is judged on part k. Four folds judge every second part, and validate on the others. Each variant has one
member, to be done in a third of the time, and changes some keys of the configuration. Confusions are summed over folds
before F1 is taken, the other figures are means of folds. A run that has finished is not run again, so that several
processes may share the work, each with its ``--only``.
The data set must have ``manifest.csv``.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rarrg.artifacts import write_jsonl
from rarrg.cli import parse_train
from rarrg.config import DataConfig
from rarrg.data.iu_xray import MANIFEST
from rarrg.data.studies import read_studies
from rarrg.errors import RarrgError
from rarrg.evaluation import EvaluateOptions, EvaluationData, evaluate
from rarrg.experiment import train
from rarrg.extract.sentences import sentences
from rarrg.extract.spelling import MARK
from rarrg.metrics.classification import macro_f1, micro_f1

PARTS = 8
FOLDS = (0, 2, 4, 6)
# What an evaluation writes last.
LAST = "predictions.jsonl"
LITE0 = "{spec: 'packaged:efficientnet-lite0', size: %d, stages: %s}"
LITE2 = "{spec: 'packaged:efficientnet-lite2', size: %d, stages: %s}"

VARIANTS: dict[str, list[str]] = {
    "kept": [],
    "three members": ["--retriever.members=3"],
    "whole sentences": [],
    "last features": [f"--vision.encoders=[{LITE0 % (256, 'null')}, {LITE2 % (256, 'null')}]"],
    "lite0 alone": [f"--vision.encoders=[{LITE0 % (256, '[3, 4]')}]"],
    "128 pixels": [f"--vision.encoders=[{LITE0 % (128, '[3, 4]')}, {LITE2 % (128, '[3, 4]')}]"],
    "free queries": ["--retriever.anchors=false"],
    "free queries, 20": ["--retriever.anchors=false", "--retriever.queries=20"],
    "30 queries": ["--retriever.queries=30"],
    "100 queries": ["--retriever.queries=100"],
    "2 layers": ["--retriever.layers=2"],
    "3 layers": ["--retriever.layers=3"],
    "width 64": ["--retriever.dim=64", "--retriever.feedforward=256"],
    "width 256": ["--retriever.dim=256", "--retriever.feedforward=1024"],
    "no text noise": ["--text.noise=false"],
    "temperatures 1": ["--loss.temperature=1", "--loss.target_temperature=1"],
    "contrastive 0.1": ["--loss.contrastive=0.1"],
    "targets of text and image": ["--loss.targets=both"],
    "background 1": ["--loss.background=1"],
    "balance 0.5": ["--data.balance=0.5"],
    "views apart": ["--views=apart"],
    "10 epochs": ["--trainer.epochs=10"],
}


def write_folds(root: Path, out: Path) -> None:
    """Write ``out/fold-K/manifest.csv`` for each fold: the images of ``root``, in other splits."""
    with (root / MANIFEST).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] != "test" and row["findings"].strip()]
    studies = sorted({row["study_id"] for row in rows})
    part = dict(zip(studies, (np.random.default_rng(7).permutation(len(studies)) % PARTS).tolist(), strict=True))
    for fold in FOLDS:
        folder = out / f"fold-{fold}"
        folder.mkdir(parents=True, exist_ok=True)
        splits = {fold: "test", fold + 1: "val"}
        with (folder / MANIFEST).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            for row in rows:
                split = splits.get(part[row["study_id"]], "train")
                image = str((root / row["image_path"]).resolve())
                table.writerow({**row, "split": split, "image_path": image})


def write_sentences(fold: Path) -> Path:
    """Whole sentences of the findings as key phrases."""
    path = fold / "sentences.jsonl"
    studies = read_studies(DataConfig(source="iu_xray", root=str(fold)), seed=0)
    said = ((study.id, dict.fromkeys(sentences(study.findings))) for study in studies)
    rows = ({"study_id": name, "key_phrases": [text for text in texts if MARK not in text]} for name, texts in said)
    write_jsonl(path, rows)
    return path


def run(name: str, fold: Path, cache: str, seed: int) -> None:
    """Train and evaluate one variant on one fold, unless that has been done."""
    model = fold / f"{name.replace(' ', '-').replace(',', '')}-{seed}"
    if (model / "evaluation" / LAST).is_file():
        return
    words = ["--log.wandb=disabled", "--retriever.members=1", *VARIANTS[name]]
    words += [f"--data.root={fold}", f"--data.cache={cache}", f"--out={model}", f"--seed={seed}"]
    if name == "whole sentences":
        words.append(f"--data.phrases={write_sentences(fold)}")
    train(parse_train(["--config=iu_xray.yaml", *words])[0])
    options = EvaluateOptions(model=model, data=EvaluationData(root=str(fold), cache=cache), draws=1)
    evaluate(options, lambda words: parse_train(words)[0], lambda line: None)


def summarise(name: str, folds: Sequence[Path]) -> str | None:
    """A line of the Markdown table, over the folds and seeds that have been run; None where none has."""
    stem = name.replace(" ", "-").replace(",", "")
    found = [path.parent for fold in folds for path in sorted(fold.glob(f"{stem}-[0-9]/evaluation/{LAST}"))]
    if not found:
        return None
    cells = []
    for scope in ("study", "frontal", "lateral"):
        confusions = []
        for path in found:
            with (path / "findings.csv").open(encoding="utf-8", newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["scope"] == scope]
            confusions.append(np.array([int(row[key]) for key in ("tp", "fp", "fn") for row in rows]))
        total = np.sum(confusions, axis=0)
        cells += [f"{float(micro_f1(total)):.3f}", f"{float(macro_f1(total)):.3f}"]
        if scope == "study":
            each = [float(micro_f1(confusion)) for confusion in confusions]
            cells.append(f"{min(each):.2f} to {max(each):.2f}")
    metrics = [json.loads((path / "metrics.json").read_text(encoding="utf-8"))["ours"] for path in found]
    studies = [len((path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()) for path in found]
    phrase = np.mean([each["phrase_f1"]["value"] for each in metrics])
    distinct = np.mean([each["distinct_phrases"]["value"] for each in metrics])
    share = np.mean([each["distinct_reports"]["value"] / of for each, of in zip(metrics, studies, strict=True)])
    return f"| {name} | {len(found)} | {' | '.join(cells)} | {phrase:.3f} | {distinct:.0f} | {share:.0%} |"


def main() -> None:
    """Run the variants that are asked for and print the table of all that have been run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--cache", default="runs/cache")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--folds", nargs="+", type=int, choices=FOLDS, default=list(FOLDS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folds = [arguments.out / f"fold-{fold}" for fold in FOLDS]
    if not all((fold / MANIFEST).is_file() for fold in folds):
        write_folds(arguments.root, arguments.out)
    try:
        for name in arguments.only:
            for fold in arguments.folds:
                run(name, arguments.out / f"fold-{fold}", arguments.cache, arguments.seed)
    except RarrgError as error:
        sys.exit(str(error))
    lines = [
        "| variant | runs | micro F1 | macro F1 | micro F1 of the runs | frontal: micro | macro "
        "| lateral: micro | macro | phrase F1 | distinct phrases | distinct reports |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *filter(None, (summarise(name, folds) for name in VARIANTS)),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
