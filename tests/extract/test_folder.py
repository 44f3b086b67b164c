"""Failures, and shards that become one folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rarrg.artifacts import read_json, read_jsonl, write_json, write_jsonl
from rarrg.errors import RarrgError
from rarrg.extract.folder import (
    ANNOTATIONS,
    DISAGREEMENTS,
    FAILED,
    GRAPH_PHRASES,
    QUALITY,
    REMOVED,
    REPLIES,
    merge_shards,
    write_failures,
)
from rarrg.extract.key_phrases import KEY_PHRASES
from rarrg.extract.quality import Quality
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Failure, Shard

TEXTS = ["clear", "effusion", "clear", "scar", "mass", "effusion", "rib", "edema", "cyst", "port"]


def reports() -> list[ReportText]:
    return [ReportText(f"s{number}", "train", text) for number, text in enumerate(TEXTS)]


def write(folder: Path, part: list[ReportText], model: str = "m") -> None:
    """What a run leaves for some reports: a row a text, a row a study, several rows a study or none, and failures."""
    said = [r for r in part if "e" not in r.findings]
    provenance = {"extractor": "llm", "version": 1, "asked_with": {"model": model}}
    write_jsonl(
        folder / KEY_PHRASES,
        (
            {"study_id": r.study_id, "key_phrases": [], "provenance": {**provenance, "text_sha256": r.sha256}}
            for r in said
        ),
    )
    texts = {r.sha256: r for r in reversed(part)}
    first = [r for r in part if texts[r.sha256] is r]
    write_jsonl(folder / GRAPH_PHRASES, ({"text_sha256": r.sha256, "n": 1} for r in first if r.findings != "effusion"))
    for name in (ANNOTATIONS, REPLIES):
        write_jsonl(folder / name, ({"text_sha256": r.sha256, "n": 1} for r in first if "e" not in r.findings))
    for name in (REMOVED, DISAGREEMENTS):
        write_jsonl(folder / name, ({"study_id": r.study_id, "n": n} for r in part for n in range(len(r.findings) % 3)))
    write_json(folder / QUALITY, {**Quality().as_dict(), "reports": len(said)})
    failures = [Failure("", r.sha256, "radgraph", "bad") for r in part if r.findings == "effusion"]
    write_failures(folder, "radgraph", failures, part, part)
    failures = [Failure("", r.sha256, "refine", "bad") for r in part if "e" in r.findings]
    write_failures(folder, "refine", failures, part, part)


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
    assert [row["study_id"] for row in read_jsonl(shards / KEY_PHRASES)] == ["s3", "s4", "s6", "s8", "s9"]
    assert read_json(shards / QUALITY)["reports"] == 5
    assert len(read_jsonl(shards / FAILED)) == 2 + 5


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


def rewrite(path: Path, change) -> None:
    write_jsonl(path, change(read_jsonl(path)))


def test_a_shard_of_other_reports_or_another_model_is_refused(shards):
    shard = next(Shard(number, 3) for number in (1, 2, 3) if Shard(number, 3).holds(reports()[3]))
    path = shards / shard.folder / KEY_PHRASES
    rows = read_jsonl(path)
    rewrite(path, lambda rows: [*rows, {"study_id": "stranger", "key_phrases": []}])
    with pytest.raises(RarrgError, match=r"key_phrases\.jsonl: holds stranger out of the order"):
        merge_shards(shards, reports)
    rewrite(path, lambda _: [row for row in rows if row["study_id"] != "s3"])
    with pytest.raises(RarrgError, match=r"key_phrases\.jsonl: (lacks study s3|holds)"):
        merge_shards(shards, reports)
    other = {**rows[0]["provenance"], "text_sha256": "0"}
    rewrite(path, lambda _: [{**row, "provenance": other} if row["study_id"] == "s3" else row for row in rows])
    with pytest.raises(RarrgError, match="study s3 is of another text"):
        merge_shards(shards, reports)
    write(shards / shard.folder, [report for report in reports() if shard.holds(report)], model="another")
    with pytest.raises(RarrgError, match="was made otherwise than"):
        merge_shards(shards, reports)


def test_failures_of_a_step_without_shards_stay(shards):
    for number in (1, 2, 3):
        folder = shards / f"shard-{number}-of-3"
        for name in (ANNOTATIONS, GRAPH_PHRASES):
            (folder / name).unlink()
        part = [report for report in reports() if Shard(number, 3).holds(report)]
        write_failures(folder, "radgraph", [], part, part)
    graph = [Failure("", reports()[3].sha256, "radgraph", "raised")]
    write_failures(shards, "radgraph", graph, reports(), reports())
    write_failures(shards, "refine", [Failure("", reports()[0].sha256, "refine", "old")], reports(), reports())
    merge_shards(shards, reports)
    found = read_jsonl(shards / FAILED)
    assert [(row["study_id"], row["reason"]) for row in found if row["step"] == "radgraph"] == [("s3", "raised")]
    assert {row["reason"] for row in found if row["step"] == "refine"} == {"bad"}


def failed(folder: Path) -> list[tuple[str, str, str]]:
    return [(row["study_id"], row["step"], row["reason"]) for row in read_jsonl(folder / FAILED)]


def test_failures_are_of_every_study_with_the_report_and_take_the_place_of_earlier_ones(tmp_path):
    raised = [Failure("s1", reports()[1].sha256, "radgraph", "raised")]
    assert write_failures(tmp_path, "radgraph", raised, reports(), reports()) == 2
    write_failures(tmp_path, "refine", [Failure("s0", reports()[0].sha256, "refine", "no JSON")], reports(), reports())
    assert failed(tmp_path) == [
        ("s0", "refine", "no JSON"),
        ("s1", "radgraph", "raised"),
        ("s2", "refine", "no JSON"),
        ("s5", "radgraph", "raised"),
    ]
    # A limited run tells nothing of the reports beyond its limit.
    assert write_failures(tmp_path, "radgraph", [], reports()[:3], reports()) == 0
    assert ("s5", "radgraph", "raised") in failed(tmp_path)
    assert ("s1", "radgraph", "raised") not in failed(tmp_path)
    # Nor does what was said of another text of the same study.
    others = [ReportText(report.study_id, "train", f"new {report.findings}") for report in reports()]
    write_failures(tmp_path, "radgraph", [], others, others)
    assert failed(tmp_path) == []


def test_a_file_that_holds_no_failures_is_named(tmp_path):
    (tmp_path / FAILED).write_text('{"study_id": "s1"}\n')
    with pytest.raises(RarrgError, match=r"failed\.jsonl, row 1: lacks"):
        write_failures(tmp_path, "refine", [], reports(), reports())
