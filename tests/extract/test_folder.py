"""Failures, and shards that become one folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rarrg.artifacts import read_jsonl, write_jsonl
from rarrg.errors import RarrgError
from rarrg.extract.folder import FAILED, GRAPH_PHRASES, REMOVED, merge_shards, write_failures
from rarrg.extract.key_phrases import KEY_PHRASES
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Failure, Shard

TEXTS = ["clear", "effusion", "clear", "nodule", "scar", "effusion", "wires", "edema"]


def reports() -> list[ReportText]:
    return [ReportText(f"s{number}", "train", text) for number, text in enumerate(TEXTS)]


def write(folder: Path, part: list[ReportText]) -> None:
    """What a run leaves for some reports: a row a text, a row a study, several rows a study or none, and failures."""
    write_jsonl(folder / KEY_PHRASES, ({"study_id": r.study_id, "key_phrases": [r.findings]} for r in part))
    texts = {r.sha256: r for r in reversed(part)}
    write_jsonl(folder / GRAPH_PHRASES, ({"text_sha256": r.sha256, "n": 1} for r in part if texts[r.sha256] is r))
    removed = ({"study_id": r.study_id, "n": n} for r in part for n in range(len(r.findings) % 3))
    write_jsonl(folder / REMOVED, removed)
    failures = [Failure("", r.sha256, "radgraph", "bad") for r in part if r.findings == "effusion"]
    write_failures(folder, "radgraph", failures, part)
    write_failures(folder, "refine", [Failure("", r.sha256, "refine", "bad") for r in part if "e" in r.findings], part)


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Path]:
    for number in (1, 2, 3):
        shard = Shard(number, 3)
        write(tmp_path / "out" / shard.folder, [report for report in reports() if shard.holds(report)])
    return tmp_path / "out"


def test_merged_shards_equal_a_run_without_shards_byte_for_byte(tmp_path, shards):
    write(tmp_path / "whole", reports())
    assert merge_shards(shards, reports) == 3
    for path in (tmp_path / "whole").iterdir():
        assert (shards / path.name).read_bytes() == path.read_bytes(), path.name
    assert len(read_jsonl(shards / KEY_PHRASES)) == len(TEXTS)


def test_a_missing_an_unfinished_and_a_foreign_shard_are_named(shards):
    (shards / "shard-2-of-3" / f"{KEY_PHRASES}.partial").write_text("{}\n")
    with pytest.raises(RarrgError, match=r"shard-2-of-3.*that shard is not done"):
        merge_shards(shards, reports)
    (shards / "shard-2-of-3" / f"{KEY_PHRASES}.partial").unlink()

    (shards / "shard-1-of-3" / KEY_PHRASES).rename(shards / "kept")
    with pytest.raises(RarrgError, match=r"shard-1-of-3/key_phrases\.jsonl: is missing, although other shards"):
        merge_shards(shards, reports)
    (shards / "kept").rename(shards / "shard-1-of-3" / KEY_PHRASES)

    (shards / "shard-1-of-4").mkdir()
    with pytest.raises(RarrgError, match="holds shards of 3 and of 4"):
        merge_shards(shards, reports)
    (shards / "shard-1-of-4").rmdir()

    (shards / "shard-3-of-3").rename(shards / "away")
    with pytest.raises(RarrgError, match="lacks shard-3-of-3"):
        merge_shards(shards, reports)


def test_no_shards(tmp_path):
    with pytest.raises(RarrgError, match="has no folder shard-1-of-N"):
        merge_shards(tmp_path, reports)


def test_a_shard_of_other_reports_is_refused(shards):
    path = shards / "shard-1-of-3" / KEY_PHRASES
    path.write_text(path.read_text() + json.dumps({"study_id": "stranger", "key_phrases": []}) + "\n")
    with pytest.raises(RarrgError, match=r"shard-1-of-3/key_phrases\.jsonl: holds stranger out of the order"):
        merge_shards(shards, reports)


def test_failures_are_of_every_study_with_the_report_and_take_the_place_of_earlier_ones(tmp_path):
    sha = reports()[1].sha256
    assert write_failures(tmp_path, "radgraph", [Failure("s1", sha, "radgraph", "raised")], reports()) == 2
    write_failures(tmp_path, "refine", [Failure("s0", reports()[0].sha256, "refine", "no JSON")], reports())
    rows = read_jsonl(tmp_path / FAILED)
    assert [(row["study_id"], row["step"], row["reason"]) for row in rows] == [
        ("s0", "refine", "no JSON"),
        ("s1", "radgraph", "raised"),
        ("s2", "refine", "no JSON"),
        ("s5", "radgraph", "raised"),
    ]
    assert write_failures(tmp_path, "radgraph", [], reports()) == 0
    assert {row["step"] for row in read_jsonl(tmp_path / FAILED)} == {"refine"}
