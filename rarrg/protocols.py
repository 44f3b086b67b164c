"""What is reported on and against which reference: the test sets of papers, by name.

Figures of different protocols cannot be compared. Image files are named here and not opened.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rarrg.config import DataConfig
from rarrg.data import mimic_cxr
from rarrg.data.annotations import Annotated, read_promptmrg, read_r2gen
from rarrg.data.evaluation_set import evaluation_set
from rarrg.data.studies import read_studies
from rarrg.errors import RarrgError
from rarrg.metrics.nlg import first_words
from rarrg.types import Position, Split, Study, View

log = logging.getLogger(__name__)

ProtocolName = Literal["studies", "mimic-single", "mimic-multi", "iu-promptmrg", "iu-r2gen"]

EXPECTED: dict[str, int] = {
    "mimic-single": 3858,  # RA-RRG, section 4.1.2
    "mimic-multi": 2461,  # the same
    "iu-promptmrg": 4168,  # the same
    "iu-r2gen": 590,  # R2Gen's test split
}
"""Samples of the protocols that have a fixed number."""

PROMPTMRG_WORDS = 100
"""Tokens of a reference that PromptMRG scores (its ``dataset/utils.py``)."""


@dataclass(frozen=True)
class Sample:
    """What one report is written of, and what it is measured against.

    Attributes:
        id: Unique within its protocol.
        images: The image files of each view.
        reference: What the radiologist wrote.
        seen: A training report says the same, word for word; case, punctuation and spacing do not count.
        study: The study it is of, where it has an id of its own.
        of: What several samples may be of: the patient (MIMIC-CXR), or the study. Intervals resample them together.
    """

    id: str
    images: Mapping[Position, tuple[Path, ...]]
    reference: str
    seen: bool = False
    study: str = ""
    of: str = ""

    @property
    def group(self) -> str:
        """What it is of; itself where nothing else is."""
        return self.of or self.id


@dataclass(frozen=True)
class Protocol:
    """Samples and how they came about.

    Attributes:
        name: Its name; ``references`` where a file of references stands in for it.
        samples: The samples.
        settings: What the samples depend on, as JSON values.
        training_reports: Number of training reports that ``seen`` was looked up in; 0: nothing is known of them.
    """

    name: str
    samples: tuple[Sample, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    training_reports: int = 0

    def checksum(self) -> str:
        """Hex SHA-256 of all ids and references, whatever their order."""
        digest = hashlib.sha256()
        for name, reference in sorted((sample.id, sample.reference) for sample in self.samples):
            for text in (name, reference):
                digest.update(hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()

    def looked_up_in(self, training: Sequence[str]) -> Protocol:
        """The same samples, those marked as seen whose reference is one of the training reports.

        Args:
            training: Findings of all training reports; empty where they are not known.
        """
        known = {_key(text) for text in training}
        samples = tuple(replace(sample, seen=_key(sample.reference) in known) for sample in self.samples)
        return replace(self, samples=samples, training_reports=len(training))

    def warning(self) -> str | None:
        """A line that names the expected number of samples where the data give another."""
        expected = EXPECTED.get(self.name)
        if expected is None or len(self.samples) == expected:
            return None
        return (
            f"warning: {self.name} has {len(self.samples)} samples here, {expected} in the literature; "
            "figures cannot be put beside published ones"
        )


def read_protocol(name: ProtocolName, root: Path, source: Literal["iu_xray", "mimic_cxr"], split: Split) -> Protocol:
    """Read the samples of a protocol.

    Args:
        name: The protocol.
        root: Folder of the data set, or of the annotation file and its folder ``images``.
        source: Source of ``studies``; the other protocols have theirs.
        split: Split of ``studies``; the others are of the test split.

    Raises:
        RarrgError: The folder lacks something, or has no sample.
    """
    if not root.is_dir():
        raise RarrgError(f"data.root: no folder {root}")
    if name != "studies" and split != "test":
        raise RarrgError(f"split: {name} is of the test split, got {split}; another split is for the protocol studies")
    if name == "studies":
        studies = read_studies(DataConfig(source=source, root=str(root)), seed=0, images=False)
        return protocol_of_studies(studies, split)
    if name in ("mimic-single", "mimic-multi"):
        return _mimic(name, root)
    if name == "iu-r2gen":
        splits = read_r2gen(root)
        samples = [_sample(each, _by_number(each.images)) for each in splits["test"]]
        return _protocol(name, samples, [each.report for each in splits["train"]], {"split": "test", "images": "all"})
    cut = []
    for each in read_promptmrg(root):
        study = each.id.rpartition("/")[0]  # of CXR1000_IM-0003-1001/0
        report = first_words(each.report, PROMPTMRG_WORDS)
        cut.append(replace(_sample(each, _by_number(each.images), report), study=study, of=study))
    return _protocol(
        name, cut, [], {"split": "the whole list", "images": "each alone", "reference_words": PROMPTMRG_WORDS}
    )


def protocol_of_studies(studies: Sequence[Study], split: Split) -> Protocol:
    """The protocol ``studies``: each study of a split with findings, one frontal and one lateral image at most.

    Args:
        studies: Studies of every split; ``seen`` is looked up in the split ``train``.
        split: The split to report on.

    Raises:
        RarrgError: No study of the split has findings and a frontal or lateral image.
    """
    chosen = evaluation_set([study for study in studies if study.split == split and study.findings])
    samples = [
        Sample(
            chosen.studies[index].id,
            {chosen.views[image].position: (chosen.views[image].path,) for image in images},
            chosen.studies[index].findings,
        )
        for index, images in chosen.members["study"]
    ]
    training = [study.findings for study in studies if study.split == "train" and study.findings]
    return _protocol("studies", samples, training, {"split": split, "images": "one frontal and one lateral at most"})


def as_studies(protocol: Protocol, split: Split) -> list[Study]:
    """A study for each sample, with its images, and its reference for findings.

    Args:
        protocol: The samples.
        split: The split that the studies are said to be of.
    """
    return [
        Study(
            sample.id,
            split,
            tuple(View(str(path), view, str(path)) for view, paths in sample.images.items() for path in paths),
            sample.reference,
        )
        for sample in protocol.samples
    ]


def samples_of(name: ProtocolName, data: DataConfig, split: Split, seed: int) -> tuple[list[Study], Protocol]:
    """The studies of a split, or a study for each sample of another protocol, and the protocol.

    Args:
        name: The protocol.
        data: The data set.
        split: The split; of a protocol other than ``studies`` the test split.
        seed: Of drawn studies.

    Raises:
        RarrgError: The data are missing or of another layout, or have no sample.
    """
    if name != "studies":
        if data.root is None:
            raise RarrgError(f"data.root: name the folder of {name} (--data.root DIR)")
        protocol = read_protocol(name, Path(data.root), "iu_xray", split)
        return as_studies(protocol, split), protocol
    studies = read_studies(data, seed)
    of_split = [study for study in studies if study.split == split]
    if not any(study.findings for study in of_split):
        raise RarrgError(f"data.root: {data.root} has {len(of_split)} {split} studies, none of them with findings")
    return of_split, protocol_of_studies(studies, split)


def training_reports(data: DataConfig, seed: int) -> list[str]:
    """Findings that a model was trained on; none where their folder is not there.

    Args:
        data: What it was trained on.
        seed: Of drawn studies.

    Raises:
        RarrgError: The folder is of another layout.
    """
    if data.source != "phantom" and not Path(data.root or "").is_dir():
        log.info("%s is not there: which references the model was trained on is not known", data.root)
        return []
    studies = read_studies(data, seed, images=False)
    return [study.findings for study in studies if study.split in data.train_splits and study.findings]


def _mimic(name: ProtocolName, root: Path) -> Protocol:
    studies = mimic_cxr.read(root)
    test = [study for study in studies if study.split == "test"]
    training = [study.findings for study in studies if study.split == "train"]
    settings: dict[str, Any] = {"split": "test", "images": "each alone"}
    if name == "mimic-single":
        samples = [
            Sample(view.image_id, {view.position: (view.path,)}, study.findings, study=study.id, of=_patient(view))
            for study in test
            for view in study.views
        ]
        return _protocol(name, samples, training, settings)
    settings["images"] = "each PA or AP image with one lateral of its study, by the SHA-256 of the study's id"
    frontal = mimic_cxr.frontal_images(root)
    return _protocol(name, [pair for study in test for pair in _pairs(study, frontal)], training, settings)


def _pairs(study: Study, frontal: set[str]) -> Iterator[Sample]:
    """Every frontal image of a study with the same lateral one, or alone where there is none."""
    laterals = sorted((view.image_id, view.path) for view in study.views if view.position == "lateral")
    drawn: dict[Position, tuple[Path, ...]] = {}
    if laterals:
        seed = int.from_bytes(hashlib.sha256(study.id.encode()).digest(), "big")
        drawn = {"lateral": (laterals[seed % len(laterals)][1],)}
    for view in study.views:
        if view.image_id in frontal:
            images: Mapping[Position, tuple[Path, ...]] = {"frontal": (view.path,), **drawn}
            yield Sample(view.image_id, images, study.findings, study=study.id, of=_patient(view))


def _patient(view: View) -> str:
    """The patient of an image of MIMIC-CXR-JPG: ``files/p10/p10000032/s50414267/IMAGE.jpg``."""
    return view.path.parent.parent.name


def _sample(entry: Annotated, images: Mapping[Position, tuple[Path, ...]], report: str | None = None) -> Sample:
    return Sample(entry.id, images, entry.report if report is None else report)


def _by_number(images: Sequence[Path]) -> dict[Position, tuple[Path, ...]]:
    """Frontal and lateral by the numbers that R2Gen gave the files: ``0.png`` is mostly frontal, the others lateral."""
    views: dict[Position, tuple[Path, ...]] = {
        "frontal": tuple(path for path in images if path.stem == "0"),
        "lateral": tuple(path for path in images if path.stem != "0"),
    }
    return {view: paths for view, paths in views.items() if paths}


def _protocol(
    name: ProtocolName, samples: Sequence[Sample], training: Sequence[str], settings: dict[str, Any]
) -> Protocol:
    if not samples:
        raise RarrgError(f"data.root: has no sample of {name}; needed are reports with findings and their images")
    return Protocol(name, tuple(samples), settings).looked_up_in(training)


def _key(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
