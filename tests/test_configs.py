"""Every file of configs/ is complete, commented, and runs."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from PIL import Image

from rarrg import inference
from rarrg.cli import main, parse_train
from rarrg.config import EncoderConfig, TrainConfig, VisionConfig
from rarrg.data import phantom
from rarrg.data.card import carried
from rarrg.experiment import train
from rarrg.extract.key_phrases import KEY_PHRASES, read_key_phrases
from rarrg.extract_config import ExtractConfig
from rarrg.inference import InferOptions
from rarrg.types import Study
from rarrg.writer_config import WriterConfig

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
WRITERS = sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.glob("writer/*.yaml"))
GRIDS = ["ablation/iu_xray.yaml", "ablation/iu_xray_writers.yaml", "ablation/mimic.yaml"]
NAMES = sorted({str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")} - {*WRITERS, *GRIDS})


def leaves(value: dict, prefix: str = "") -> set[str]:
    found: set[str] = set()
    for key, inner in value.items():
        found |= leaves(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {f"{prefix}{key}"}
    return found


def as_mimic(studies: list[Study], root: Path) -> None:
    """The phantom studies in the layout of MIMIC-CXR-JPG."""
    tables: dict[str, list[dict[str, str]]] = {
        "mimic-cxr-2.0.0-metadata": [],
        "mimic-cxr-2.0.0-split": [],
        "mimic_cxr_sectioned": [],
    }
    for number, study in enumerate(studies):
        subject, name = f"{10_000_000 + number}", f"{50_000_000 + number}"
        sections = {"impression": study.impression, "findings": study.findings, "last_paragraph": "", "comparison": ""}
        tables["mimic_cxr_sectioned"].append({"study": f"s{name}", **sections})
        for index, view in enumerate(study.views):
            dicom = f"{number:08x}-{index:08x}-0-0-0"
            ids = {"dicom_id": dicom, "subject_id": subject, "study_id": name}
            position = "PA" if view.position == "frontal" else "LATERAL"
            tables["mimic-cxr-2.0.0-metadata"].append(
                ids | {"ViewPosition": position, "ViewCodeSequence_CodeMeaning": ""}
            )
            split = "validate" if study.split == "val" else study.split
            tables["mimic-cxr-2.0.0-split"].append(ids | {"split": split})
            target = root / "files" / f"p{subject[:2]}" / f"p{subject}" / f"s{name}" / f"{dicom}.jpg"
            target.parent.mkdir(parents=True, exist_ok=True)
            Image.open(view.path).save(target)
    for table, rows in tables.items():
        (root / f"{table}.csv").write_text(as_csv(rows), encoding="utf-8")


def as_iu_xray(studies: list[Study], root: Path) -> None:
    """The phantom studies in the layout of a manifest."""
    rows = []
    for study in studies:
        for view in study.views:
            target = root / "images" / view.path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            Image.open(view.path).save(target)
            texts = {"findings": study.findings, "impression": study.impression}
            rows.append(
                {"study_id": study.id, "view": view.position, "image_path": f"images/{view.path.name}", **texts}
                | {"split": study.split}
            )
    (root / "manifest.csv").write_text(as_csv(rows), encoding="utf-8")


def as_csv(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


LAYOUTS: dict[str, Callable[[list[Study], Path], None]] = {"mimic_cxr": as_mimic, "iu_xray": as_iu_xray}


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_there_and_has_a_comment_or_one_above(name: str) -> None:
    text = (CONFIGS / name).read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    extract = config.pop("extract", None)
    assert leaves(config) == leaves(dataclasses.asdict(TrainConfig()))
    assert extract is None or leaves(extract) == leaves(dataclasses.asdict(ExtractConfig()))
    assert text.startswith("#")


@pytest.mark.parametrize("name", WRITERS)
def test_every_key_of_a_writer_is_there_and_is_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[InferOptions] = []
    monkeypatch.setattr(inference, "infer", lambda options: asked.append(options) or 0)
    assert main(["infer", "--config", name, "--frontal", "a.jpg"]) == 0
    text = (CONFIGS / name).read_text(encoding="utf-8")
    given = yaml.safe_load(text)
    assert leaves(given) == leaves(dataclasses.asdict(WriterConfig()))
    (options,) = asked
    assert {key: dataclasses.asdict(options)[key] for key in given} == given
    assert text.startswith("#")


def test_reports_are_extracted_by_the_configuration_of_training(tmp_path: Path) -> None:
    as_mimic(phantom.draw_studies(tmp_path / "phantom", 12, 0), tmp_path / "data")
    argv = ["--config=mimic.yaml", f"--data.root={tmp_path / 'data'}", f"--out={tmp_path / 'out'}"]
    assert main(["extract", "rules", *argv]) == 0
    assert len(read_key_phrases(tmp_path / "out" / KEY_PHRASES)) == 12
    assert carried(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_file_runs(name: str, tiny_config: TrainConfig, tiny_timm: Path, tmp_path: Path) -> None:
    argv = ["--config", str(CONFIGS / name), f"--out={tmp_path / 'run'}", f"--data.cache={tmp_path / 'cache'}"]
    source = yaml.safe_load((CONFIGS / name).read_text(encoding="utf-8"))["data"]["source"]
    if source in LAYOUTS:
        LAYOUTS[source](phantom.draw_studies(tmp_path / "phantom", 24, 0), tmp_path / "data")
        argv.append(f"--data.root={tmp_path / 'data'}")
    config, _ = parse_train([*argv, "--trainer.epochs=1", "--data.phantom_studies=24", "--data.num_workers=0"])
    # Sizes that a laptop trains in seconds; all else is the file's.
    small = dataclasses.replace(config.retriever, queries=20, layers=1, dim=16, heads=2, feedforward=32)
    vision = tiny_config.vision
    if config.vision.adapt.epochs:
        briefly = dataclasses.replace(config.vision.adapt, epochs=1)
        vision = VisionConfig([EncoderConfig(str(tiny_timm), size, None, [3, 4]) for size in (56, 60, 64)], briefly)
    config = dataclasses.replace(
        config,
        vision=vision,
        text=dataclasses.replace(config.text, encoder=tiny_config.text.encoder),
        retriever=small,
        log=tiny_config.log,
    )
    assert (train(config) / "model.safetensors").is_file()
