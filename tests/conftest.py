"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

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

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def _real_data(variable: str, default: Path) -> Path:
    root = Path(os.environ.get(variable, default))
    if not root.is_dir():
        pytest.skip(f"no real data at {root}; set {variable} to its folder")
    return root


@pytest.fixture(autouse=True, scope="session")
def wandb_staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """W&B keeps copies of tables and images in the home folder otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_DATA_DIR", str(tmp_path_factory.mktemp("wandb")))
        yield


@pytest.fixture(scope="session")
def iu_xray_root() -> Path:
    return _real_data("RARRG_IU_XRAY", SHARED / "iu_xray")


@pytest.fixture(scope="session")
def dicom_root() -> Path:
    return _real_data("RARRG_DICOM", SHARED / "dicom")


@pytest.fixture(scope="session")
def tiny_vision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Dinov2 of 16 channels on a 4x4 grid, saved by transformers."""
    import torch
    from transformers import Dinov2Config, Dinov2Model

    folder = tmp_path_factory.mktemp("vision")
    torch.manual_seed(0)
    config = Dinov2Config(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8)
    Dinov2Model(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_timm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random EfficientNet of five stages (16 to 64 channels), saved as a timm folder."""
    import timm
    import torch

    from rarrg.models.timm_networks import save_timm

    folder = tmp_path_factory.mktemp("timm")
    torch.manual_seed(0)
    save_timm(timm.create_model("test_efficientnet", num_classes=0), folder)
    return folder


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of 12 dimensions with a word-level vocabulary, saved by sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    bert = tmp_path_factory.mktemp("bert")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789-'/.,"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (bert / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizerFast(str(bert / "vocab.txt")).save_pretrained(bert)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(config).save_pretrained(bert)
    folder = tmp_path_factory.mktemp("text")
    transformer = Transformer(str(bert))
    SentenceTransformer(modules=[transformer, Pooling(12)]).save(str(folder))
    return folder


@pytest.fixture
def tiny_config(tiny_vision: Path, tiny_text: Path, tmp_path: Path) -> TrainConfig:
    """A run of 24 phantom studies (36 training images, 9 steps an epoch) with tiny random encoders."""
    return TrainConfig(
        out=str(tmp_path / "run"),
        data=DataConfig(source="phantom", phantom_studies=24, cache=str(tmp_path / "cache"), batch_size=4),
        vision=VisionConfig(encoders=[EncoderConfig(spec=str(tiny_vision))]),
        text=TextConfig(encoder=str(tiny_text)),
        retriever=RetrieverConfig(queries=20, layers=2, dim=16, heads=2, feedforward=32),
        trainer=TrainerConfig(epochs=3, accelerator="cpu", checkpoint_every=4),
        log=LogConfig(wandb="disabled", every=1),
    )
