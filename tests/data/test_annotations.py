"""The annotation files of R2Gen and PromptMRG, made up in their layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.data.annotations import PROMPTMRG, R2GEN, read_promptmrg, read_r2gen
from rarrg.errors import RarrgError


def r2gen_entry(name: str, report: str = "Lungs are\n clear .") -> dict:
    return {"id": name, "report": report, "image_path": [f"{name}/0.png", f"{name}/1.png"], "split": "test"}


def promptmrg_entry(image: str, *more: str) -> dict:
    return {"image_path": [image, *more], "report": "heart is normal .", "labels": [0] * 14, "clip_indices": [1, 2]}


def test_r2gen_is_read_by_split(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    splits = {"train": [r2gen_entry("CXR2_IM-0652")], "val": [], "test": [r2gen_entry("CXR9_IM-2407")]}
    (tmp_path / R2GEN).write_text(json.dumps(splits), encoding="utf-8")
    read = read_r2gen(tmp_path)
    assert {split: [entry.id for entry in entries] for split, entries in read.items()} == {
        "train": ["CXR2_IM-0652"], "val": [], "test": ["CXR9_IM-2407"],
    }  # fmt: skip
    (entry,) = read["test"]
    folder = tmp_path / "images" / "CXR9_IM-2407"
    assert (entry.report, entry.images) == ("Lungs are clear .", (folder / "0.png", folder / "1.png"))


def test_promptmrg_has_one_image_an_entry_and_an_id_of_its_own(tmp_path: Path) -> None:
    rows = [promptmrg_entry("CXR1_IM-0001/0.png", "CXR1_IM-0001/1.png"), promptmrg_entry("CXR1_IM-0001/1.png")]
    (tmp_path / PROMPTMRG).write_text(json.dumps(rows), encoding="utf-8")
    first, second = read_promptmrg(tmp_path)
    assert [first.id, second.id] == ["CXR1_IM-0001/0", "CXR1_IM-0001/1"]
    assert first.images == (tmp_path / "CXR1_IM-0001" / "0.png",)  # no folder images


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"test": []}, "must have the lists train, val, test"),
        ({"train": [], "val": [], "test": [{"id": "a"}]}, "test entry 0: needs report, a list image_path and id"),
        ({"train": [], "val": [], "test": [r2gen_entry("")]}, "and id"),
        ({"train": [r2gen_entry("a")], "val": [], "test": [r2gen_entry("a")]}, "test entry 0: a occurs twice"),
        ({"train": [], "val": [], "test": [r2gen_entry("a") | {"image_path": "a/0.png"}]}, "a list image_path"),
    ],
)
def test_another_r2gen_form_is_one_line(tmp_path: Path, value: object, message: str) -> None:
    (tmp_path / R2GEN).write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(RarrgError, match=message):
        read_r2gen(tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"test": []}, "must be a list"),
        ([{"image_path": [], "report": "x"}], "entry 0: needs report, a list image_path$"),
        ([promptmrg_entry("a/0.png"), promptmrg_entry("a/0.png")], "entry 1: a/0 occurs twice"),
    ],
)
def test_another_promptmrg_form_is_one_line(tmp_path: Path, value: object, message: str) -> None:
    (tmp_path / PROMPTMRG).write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(RarrgError, match=message):
        read_promptmrg(tmp_path)
