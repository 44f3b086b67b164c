"""Agreement of the findings labeler with the human MeSH tags of IU X-Ray, for ``docs/findings.md``.

    python benchmarks/findings_agreement.py data/iu_xray

``manifest.csv`` must have the column ``mesh``: tags separated by ``;``, each a heading and its qualifiers after ``/``.
A label counts as given where it is POSITIVE; what the labeler calls uncertain stands in columns of its own. With
``--disagreements`` the studies where label and tags differ go to a CSV file, for reading; it holds tags of the data
set, so keep it out of any repository.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rarrg.data.iu_xray import MANIFEST
from rarrg.data.tables import read_rows
from rarrg.errors import RarrgError
from rarrg.metrics.classification import confusion, micro_f1, per_label
from rarrg.metrics.findings import Label, label_findings

# Headings of the tags that stand for an observation; with "/", the qualifiers they must have.
TAGS: dict[str, tuple[str, ...]] = {
    "Cardiomegaly": ("cardiomegaly", "cardiac shadow/enlarged"),
    "Pleural Effusion": ("pleural effusion", "hydropneumothorax", "hemothorax", "hemopneumothorax"),
    "Pneumothorax": ("pneumothorax", "hydropneumothorax", "hemopneumothorax"),
    "Atelectasis": ("pulmonary atelectasis",),
    "Lung Opacity": ("opacity", "infiltrate", "airspace disease"),
    "Fracture": ("fractures, bone",),
    "Support Devices": (
        "catheters, indwelling",
        "tube, inserted",
        "medical device",
        "implanted medical device",
        "surgical instruments",
        "stents",
        "sutures",
        "spinal fusion",
    ),
    "Enlarged Cardiomediastinum": ("mediastinum/prominent", "mediastinum/enlarged"),
    "Lung Lesion": ("nodule", "mass"),
    "Edema": ("pulmonary edema", "heart failure"),
    "Consolidation": ("consolidation",),
    "Pneumonia": ("pneumonia",),
    "Pleural Other": ("thickening/pleura", "cicatrix/pleura", "calcinosis/pleura"),
    "No Finding": ("normal",),
}
JUDGED = ("Cardiomegaly", "Pleural Effusion", "Pneumothorax", "Atelectasis", "Lung Opacity", "Fracture")


@dataclass(frozen=True)
class Tagged:
    """A report with its tags.

    Attributes:
        study_id: Its study.
        text: Findings and impression.
        tags: Lower-case tags, ``heading/qualifier/...``.
    """

    study_id: str
    text: str
    tags: tuple[str, ...]


def read_tagged(root: Path, split: str) -> list[Tagged]:
    """Read the reports of a split and their tags, one a study.

    Raises:
        RarrgError: The manifest cannot be read, has no tags, or no study of this split.
    """
    studies: dict[str, Tagged] = {}
    columns = ("study_id", "split", "findings", "impression", "mesh")
    for _, (study_id, of_split, findings, impression, mesh) in read_rows(root / MANIFEST, columns):
        if of_split == split:
            tags = tuple(tag.strip().lower() for tag in mesh.split(";"))
            studies[study_id] = Tagged(study_id, f"{findings} {impression}", tags)
    if not studies:
        raise RarrgError(f"{root / MANIFEST}: no study of the split {split!r}")
    return list(studies.values())


def has_tag(tags: Sequence[str], wanted: Sequence[str]) -> bool:
    """Say whether a report has one of the wanted tags."""
    return any(f"{tag}/".startswith(f"{want}/") for tag in tags for want in wanted)


def agreement(studies: Sequence[Tagged]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tags and labels of the reports.

    Returns:
        Tagged, labelled positive, labelled uncertain: booleans ``[studies, labels]`` in the order of `TAGS`.
    """
    labels = [label_findings(study.text) for study in studies]
    truth = np.array([[has_tag(study.tags, TAGS[name]) for name in TAGS] for study in studies])
    positive = np.array([[label[name] is Label.POSITIVE for name in TAGS] for label in labels])
    uncertain = np.array([[label[name] is Label.UNCERTAIN for name in TAGS] for label in labels])
    return truth, positive, uncertain


def judged_micro_f1(truth: np.ndarray, positive: np.ndarray) -> float:
    """Micro-F1 over the six findings of `JUDGED`."""
    columns = [list(TAGS).index(name) for name in JUDGED]
    return float(micro_f1(confusion(truth[:, columns], positive[:, columns]).sum(axis=0)))


def table(truth: np.ndarray, positive: np.ndarray, uncertain: np.ndarray) -> str:
    """The agreement as a Markdown table."""
    lines = [
        "| label | tagged | labelled | precision | recall | F1 | uncertain | of these tagged |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for column, score in enumerate(per_label(truth, positive, list(TAGS))):
        open_ = uncertain[:, column]
        lines.append(
            f"| {score.label} | {score.support} | {score.predicted} | {score.precision:.3f} | {score.recall:.3f} "
            f"| {score.f1:.3f} | {open_.sum()} | {(open_ & truth[:, column]).sum()} |"
        )
    lines.append(f"\nMicro-F1 over {', '.join(JUDGED)}: {judged_micro_f1(truth, positive):.3f} ({len(truth)} studies)")
    return "\n".join(lines)


def write_disagreements(path: Path, studies: Sequence[Tagged], truth: np.ndarray, positive: np.ndarray) -> None:
    """Write one row for each study and label where label and tags differ."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("label", "study_id", "said", "tags"))
        for column, name in enumerate(TAGS):
            for row in np.flatnonzero(truth[:, column] != positive[:, column]):
                study = studies[int(row)]
                writer.writerow((name, study.study_id, label_findings(study.text)[name].value, ";".join(study.tags)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder of IU X-Ray")
    parser.add_argument("--split", default="train", help="split of the manifest (default: train)")
    parser.add_argument("--disagreements", type=Path, metavar="PATH", help="write the studies that differ to this file")
    arguments = parser.parse_args()
    try:
        studies = read_tagged(arguments.root, arguments.split)
    except RarrgError as error:
        parser.exit(2, f"{error}\n")
    truth, positive, uncertain = agreement(studies)
    sys.stdout.write(table(truth, positive, uncertain) + "\n")
    if arguments.disagreements is not None:
        write_disagreements(arguments.disagreements, studies, truth, positive)


if __name__ == "__main__":
    main()
