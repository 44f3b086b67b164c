from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rarrg.data import screening
from rarrg.data.screening import image_key, screen_images, write_skipped
from rarrg.errors import ImageError, RarrgError
from rarrg.types import View


@pytest.fixture
def views(tmp_path: Path) -> list[View]:
    for name in ("a", "b", "c"):
        Image.fromarray(np.tile(np.arange(40, dtype=np.uint8), (40, 1))).save(tmp_path / f"{name}.png")
    (tmp_path / "broken.jpg").write_text("no image")
    return [
        View(str(tmp_path / name), "frontal", name) for name in ("a.png", "broken.jpg", "b.png", "c.png", "gone.png")
    ]


def test_unreadable_and_missing_images_are_found(views: list[View], tmp_path: Path) -> None:
    faults = screen_images(views, tmp_path / "ledger.jsonl")
    assert set(faults) == {"broken.jpg", "gone.png"}
    assert all(str(tmp_path / name) in reason for name, reason in faults.items())


def test_an_unchanged_image_is_read_once_and_a_changed_one_again(
    views: list[View], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    first = screen_images(views, ledger)
    read: list[str] = []
    original = screening.read_image
    monkeypatch.setattr(screening, "read_image", lambda path: (read.append(path.name), original(path))[1])
    assert screen_images(views, ledger) == first
    assert read == []
    Image.fromarray(np.tile(np.arange(41, dtype=np.uint8), (41, 1))).save(tmp_path / "broken.jpg", format="JPEG")
    assert set(screen_images(views, ledger)) == {"gone.png"}
    assert read == ["broken.jpg"]


def test_an_image_that_could_not_be_opened_is_tried_again(
    views: list[View], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise ImageError(f"{path}: cannot be read (Permission denied)") from PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(screening, "read_image", refused)
        assert len(screen_images(views, tmp_path / "ledger.jsonl")) == len(views)
    assert set(screen_images(views, tmp_path / "ledger.jsonl")) == {"broken.jpg", "gone.png"}


def test_an_image_has_one_key_however_its_folder_is_named(views: list[View], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    named = [views[0].path, tmp_path / "link" / "a.png", tmp_path / ".." / tmp_path.name / "a.png"]
    assert len({image_key(path) for path in named}) == 1


def test_a_torn_ledger_line_costs_one_reading(views: list[View], tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    first = screen_images(views, ledger)
    ledger.write_bytes(ledger.read_bytes()[:-7])
    assert screen_images(views, ledger) == first
    assert screen_images(views, ledger) == first


def test_skipped_images_are_listed_and_too_many_stop_the_run(views: list[View], tmp_path: Path) -> None:
    faults = screen_images(views, tmp_path / "ledger.jsonl")
    path = tmp_path / "skipped.csv"
    write_skipped(path, views, faults, limit=0.4)
    with path.open(newline="") as file:
        assert [row["image_id"] for row in csv.DictReader(file)] == ["broken.jpg", "gone.png"]
    with pytest.raises(RarrgError, match=r"2 of 5 images cannot be read \(40.0%, data.max_bad_images is 39.0%\)"):
        write_skipped(path, views, faults, limit=0.39)
    with pytest.raises(RarrgError, match="2 of 2"):
        write_skipped(path, [views[1], views[4]], faults, limit=1.0)


def test_nothing_skipped_still_leaves_the_list(views: list[View], tmp_path: Path) -> None:
    write_skipped(tmp_path / "skipped.csv", views[:1], {}, limit=0.01)
    assert (tmp_path / "skipped.csv").read_text().splitlines() == ["image_id,path,reason"]


def test_a_key_names_the_real_file_however_it_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "real" / "study"
    folder.mkdir(parents=True)
    image = folder / "a.png"
    image.write_bytes(b"1")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "b.png").symlink_to(image)
    monkeypatch.chdir(folder)
    ways = [
        image,
        tmp_path / "linked" / "study" / "a.png",
        tmp_path / "b.png",
        folder / ".." / "study" / "a.png",
        tmp_path / "linked" / ".." / "real" / "study" / "a.png",
        Path("a.png"),
        Path("../study/a.png"),
    ]
    assert {image_key(way) for way in ways} == {f"{image.resolve()}|1|{image.stat().st_mtime_ns}"}
    with pytest.raises(FileNotFoundError):
        image_key(folder / "none.png")
