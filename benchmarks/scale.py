"""What a data set of the size of MIMIC-CXR costs before the first step: seconds and memory, at two sizes.

    python benchmarks/scale.py [--json FILE] [--quick]

Made-up tables, reports and key phrases in the layout of MIMIC-CXR-JPG; 377,110 images of 227,835 studies at full size,
their files empty and already found readable, features not read; in a file system in memory, where there is room, since
disks can take longer to remove so many files than all else here takes. A process of its own for each size goes from
the folder to the first batch, as ``rarrg train`` does, and beside it one that reads the same tables into dictionaries
and joins them, which is what a script starts with.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Goal, Report, Table, arguments, finish

STUDIES = 227_835
IMAGES = 377_110
PHRASES = 243_064  # different ones, as the paper counts
PHRASES_A_STUDY = 7
SUBJECTS = 65_379
VERSION = "mimic-cxr-2.0.0"
IN_MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that are free there, if it is used; the files and what the kernel notes of each take 1 GB."""


def images_of(studies: int) -> Iterator[tuple[str, str, str, str]]:
    """Dicom id, subject, study and position of every image: every study has one, two of three a second."""
    seconds = round(studies * (IMAGES - STUDIES) / STUDIES)
    for study in range(studies):
        for view in range(1 + (study < seconds)):
            subject = str(10_000_000 + study * SUBJECTS // STUDIES)  # the tables are in the subjects' order
            yield f"{study:08x}-{view}", subject, str(50_000_000 + study), ("PA", "LATERAL")[view]


def study_folder(root: str, subject: str, study: str) -> str:
    """Where MIMIC-CXR-JPG keeps the images of a study."""
    return f"{root}/files/p{subject[:2]}/p{subject}/s{study}"


def write(root: Path, studies: int) -> None:
    """Write the tables, empty image files, the verdicts on them, and key phrases."""
    from rarrg.data.screening import image_key

    generator = np.random.default_rng(0)
    (root / "cache").mkdir(parents=True)
    with (
        (root / f"{VERSION}-metadata.csv").open("w", newline="") as metadata,
        (root / f"{VERSION}-split.csv").open("w", newline="") as split,
        (root / "cache" / "screened.jsonl").open("w") as screened,
    ):
        rows, splits = csv.writer(metadata), csv.writer(split)
        rows.writerow(["dicom_id", "subject_id", "study_id", "ViewPosition", "ViewCodeSequence_CodeMeaning"])
        splits.writerow(["dicom_id", "study_id", "subject_id", "split"])
        for dicom, subject, study, position in images_of(studies):
            rows.writerow([dicom, subject, study, position, ""])
            part = "validate" if int(study) % 128 == 0 else "test" if int(study) % 70 == 1 else "train"
            splits.writerow([dicom, study, subject, part])
            folder = study_folder(str(root), subject, study)
            if position == "PA":
                os.makedirs(folder)  # noqa: PTH103
            with open(path := f"{folder}/{dicom}.jpg", "w"):  # noqa: PTH123
                pass
            screened.write(json.dumps([image_key(path), None]) + "\n")
    with (
        (root / "mimic_cxr_sectioned.csv").open("w", newline="") as sectioned,
        (root / "key_phrases.jsonl").open("w") as phrases,
    ):
        texts = csv.writer(sectioned)
        texts.writerow(["study", "findings", "impression"])
        for number in range(studies):
            chosen = generator.integers(PHRASES, size=PHRASES_A_STUDY)
            said = [f"a phrase of the usual length that is number {index}" for index in chosen]
            texts.writerow([f"s{50_000_000 + number}", ". ".join(said), "No acute cardiopulmonary process."])
            phrases.write(json.dumps({"study_id": f"s{50_000_000 + number}", "key_phrases": said}) + "\n")


def place() -> Path | None:
    """Where the folder goes; none stands for the usual place of temporary files."""
    return IN_MEMORY if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free >= ROOM else None


def memory() -> float:
    """Largest resident set of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(root: Path) -> dict[str, float]:
    """From the folder to the first batch, in this process; imports are not counted in seconds, but in memory."""
    import torch

    from rarrg.config import DataConfig, TrainConfig, VisionConfig
    from rarrg.data.datamodule import PhraseDataModule
    from rarrg.data.studies import read_studies
    from rarrg.preparation import read_examples, stored_phrases

    imported = memory()
    data = DataConfig(
        source="mimic_cxr",
        root=str(root),
        phrases=str(root / "key_phrases.jsonl"),
        cache=str(root / "cache"),
        num_workers=0,
    )
    config = TrainConfig(out=str(root / "out"), data=data, vision=VisionConfig())
    (root / "out").mkdir()
    start = perf_counter()
    splits = read_examples(read_studies(data, 0), config)
    stored = stored_phrases(splits["train"])
    rows = {
        phrase: row
        for row, phrase in enumerate(sorted({p for s in ("train", "val") for e in splits[s] for p in e.phrases}))
    }
    feature = torch.zeros(8, 4, 4)
    module = PhraseDataModule(splits["train"], splits["val"], rows, lambda _: (feature,), data, None, 0, None)
    batch = next(iter(module.train_dataloader()))
    seconds = perf_counter() - start
    assert len(batch.counts) == data.batch_size
    images = sum(map(len, splits.values()))
    return {"seconds": seconds, "memory": memory(), "imported": imported, "images": images, "stored": len(stored)}


def plain(root: Path) -> dict[str, float]:
    """The same tables read into dictionaries and joined by a script's own loops; nothing is checked."""
    imported = memory()
    start = perf_counter()

    def table(name: str) -> list[dict[str, str]]:
        with (root / name).open(newline="") as lines:
            return list(csv.DictReader(lines))

    splits = {row["dicom_id"]: row["split"] for row in table(f"{VERSION}-split.csv")}
    reports = {row["study"]: row for row in table("mimic_cxr_sectioned.csv")}
    with (root / "key_phrases.jsonl").open() as lines:
        phrases = {row["study_id"]: row["key_phrases"] for row in map(json.loads, lines)}
    examples = [
        {
            **row,
            **reports[f"s{row['study_id']}"],
            "split": splits[row["dicom_id"]],
            "phrases": phrases[f"s{row['study_id']}"],
        }
        for row in table(f"{VERSION}-metadata.csv")
    ]
    return {"seconds": perf_counter() - start, "memory": memory(), "imported": imported, "images": len(examples)}


def main() -> None:
    """Print the table."""
    options = arguments(__doc__).parse_args()
    sizes = [2_000] if options.quick else [STUDIES // 16, STUDIES]
    rows = []
    for studies in sizes:
        with tempfile.TemporaryDirectory(dir=place()) as folder:
            root = Path(folder) / "mimic"
            root.mkdir()
            write(root, studies)
            for name, measure in (("csv and json alone", plain), ("rarrg", ours)):
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    found = pool.submit(measure, root).result()
                rows.append(
                    (
                        name,
                        f"{studies:,}",
                        f"{found['images']:,.0f}",
                        f"{found['seconds']:.1f}",
                        f"{found['imported']:.0f}",
                        f"{found['memory']:.0f}",
                    )
                )
    columns = ("", "studies", "images", "start-up, s", "memory after imports, MiB", "largest memory, MiB")
    goals = [
        Goal("start-up on 377,110 images: under 20 s", f"{found['seconds']:.1f} s", found["seconds"] < 20),
        Goal("start-up on 377,110 images: under 1.5 GB", f"{found['memory']:.0f} MiB", found["memory"] < 1.5e9 / 2**20),
    ]
    note = "Ours also checks every row, looks at every image file, and counts the phrases of the store."
    table = Table("From the folder to the first batch", columns, rows, note)
    finish(
        Report(
            "A data set of the size of MIMIC-CXR", " ".join((__doc__ or "").split("\n\n")[2].split()), [table], goals
        ),
        options,
    )


if __name__ == "__main__":
    main()
