from __future__ import annotations

from pathlib import Path

import pytest

from rarrg.config import DataConfig
from rarrg.data import phantom
from rarrg.data.studies import examples_of, read_studies
from rarrg.errors import RarrgError
from rarrg.types import Study, View


def test_examples_are_all_views_of_studies_with_phrases() -> None:
    views = (
        View("f.png", "frontal", "f"),
        View("l.png", "lateral", "l"),
        View("o.png", "other", "o"),
    )
    studies = [
        Study("a", "train", views, "…", key_phrases=("clear lungs",)),
        Study("b", "train", views, "…"),
        Study("c", "test", views[:1], "…"),
    ]
    assert [(e.study_id, e.view.image_id) for e in examples_of(studies, ["train"])] == [("a", i) for i in "flo"]
    assert examples_of(studies, ["test"]) == []
    assert [e.phrases for e in examples_of(studies, ["test"], require_phrases=False)] == [()]


def test_phantom_studies_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = DataConfig(source="phantom", phantom_studies=10, cache=str(tmp_path))
    drawn = read_studies(config, seed=3)
    monkeypatch.setattr(phantom, "draw_studies", None)
    assert read_studies(config, seed=3) == drawn


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RarrgError, match=r"data\.root: no folder .*nowhere"):
        read_studies(DataConfig(source="iu_xray", root=str(tmp_path / "nowhere")), seed=0)
