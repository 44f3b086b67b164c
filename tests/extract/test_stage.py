"""Resumable work: nothing done twice, nothing lost, the same file in the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarrg.errors import RarrgError
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Item, Row, Rows, Shard, in_order, key_of, partial_of, run_step

TEXTS = ["clear", "effusion", "clear", "nodule", "effusion", "scar"]


def items() -> Iterator[Item]:
    return (Item(key_of(text), ReportText(str(number), "train", text)) for number, text in enumerate(TEXTS))


class Worker:
    """Upper-cases texts; fails for those in ``bad``, raises at those in ``deadly``."""

    def __init__(self, bad: str = "", deadly: str = "") -> None:
        self.asked: list[str] = []
        self.bad, self.deadly = bad, deadly

    def __call__(self, todo: Iterator[Item]) -> Iterator[tuple[Item, Row | str]]:
        for item in todo:
            text = item.report.findings
            self.asked.append(text)
            if text == self.deadly:
                raise KeyboardInterrupt
            yield item, "was bad" if text == self.bad else {"key": item.key, "said": text.upper()}


def run(path: Path, worker: Worker) -> list:
    return run_step("test", items, path, lambda row: str(row["key"]), worker)


def said(path: Path) -> list[str]:
    return [json.loads(line)["said"] for line in path.read_text().splitlines()]


def test_equal_texts_are_worked_on_once_and_rows_follow_the_reports(tmp_path):
    worker = Worker()
    assert run(tmp_path / "new" / "rows.jsonl", worker) == []
    assert worker.asked == ["clear", "effusion", "nodule", "scar"]
    assert said(tmp_path / "new" / "rows.jsonl") == ["CLEAR", "EFFUSION", "NODULE", "SCAR"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["rows.jsonl"]


def test_rows_follow_the_reports_in_whatever_order_they_come(tmp_path):
    def backwards(todo: Iterator[Item]) -> Iterator[tuple[Item, Row | str]]:
        yield from reversed([(item, {"key": item.key, "said": item.report.findings}) for item in todo])

    run_step("test", items, tmp_path / "rows.jsonl", lambda row: str(row["key"]), backwards)
    assert said(tmp_path / "rows.jsonl") == ["clear", "effusion", "nodule", "scar"]


def test_a_second_run_works_on_nothing_and_changes_nothing(tmp_path):
    path = tmp_path / "rows.jsonl"
    run(path, Worker())
    before = path.read_bytes()
    again = Worker()
    run(path, again)
    assert again.asked == []
    assert path.read_bytes() == before


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_what_a_killed_run_did_is_kept_but_for_a_torn_row(tmp_path, cut):
    path = tmp_path / "rows.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(path, Worker(deadly="nodule"))
    assert not path.exists()
    partial = partial_of(path)
    content = partial.read_bytes()
    assert content.count(b"\n") == 2  # flushed row by row
    partial.write_bytes(content[: len(content) - cut])
    again = Worker()
    run(path, again)
    assert again.asked == (["nodule", "scar"] if cut == 0 else ["effusion", "nodule", "scar"])
    assert said(path) == ["CLEAR", "EFFUSION", "NODULE", "SCAR"]
    assert not partial.exists()


def test_a_torn_row_longer_than_a_block_is_dropped(tmp_path):
    path = tmp_path / "rows.jsonl"
    whole = json.dumps({"key": key_of("clear"), "said": "CLEAR"}) + "\n"
    partial_of(path).write_text(whole + '{"key": "' + "x" * 200_000)
    worker = Worker()
    run(path, worker)
    assert worker.asked == ["effusion", "nodule", "scar"]


def test_failures_are_told_in_order_and_tried_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    failures = run(path, Worker(bad="effusion"))
    assert [(failure.study_id, failure.step, failure.reason) for failure in failures] == [("1", "test", "was bad")]
    assert said(path) == ["CLEAR", "NODULE", "SCAR"]
    again = Worker()
    assert run(path, again) == []
    assert again.asked == ["effusion"]
    assert said(path) == ["CLEAR", "EFFUSION", "NODULE", "SCAR"]


def test_rows_that_no_longer_hold_are_left_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    run(path, Worker())
    worker = Worker()
    run_step("test", items, path, lambda row: None if row["said"] == "SCAR" else str(row["key"]), worker)
    assert worker.asked == ["scar"]


def first_items(number: int):
    return lambda: list(items())[:number]


def test_a_limited_run_throws_nothing_away(tmp_path):
    path = tmp_path / "rows.jsonl"
    run(path, Worker())
    before = path.read_bytes()
    few = Worker()
    run_step("test", first_items(2), path, lambda row: str(row["key"]), few)
    assert few.asked == []
    assert said(path) == ["CLEAR", "EFFUSION"]
    again = Worker()
    run(path, again)
    assert again.asked == []
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_going_to_another_model_and_back_asks_nothing_twice(tmp_path):
    path = tmp_path / "rows.jsonl"

    def items_of(model: str):
        return lambda: (Item(key_of(model, item.report.findings), item.report) for item in items())

    for model, asked in (("a", 4), ("b", 4), ("a", 0), ("b", 0)):
        worker = Worker()
        run_step("test", items_of(model), path, lambda row: str(row["key"]), worker)
        assert len(worker.asked) == asked
        assert said(path) == ["CLEAR", "EFFUSION", "NODULE", "SCAR"]


def test_rows_carry_the_study_of_this_run(tmp_path):
    path = tmp_path / "rows.jsonl"
    run(path, Worker())
    renamed = [
        Item(item.key, ReportText(f"new {item.report.study_id}", "val", item.report.findings)) for item in items()
    ]
    run_step("test", lambda: renamed, path, lambda row: str(row["key"]), Worker())
    assert [json.loads(line)["study_id"] for line in path.read_text().splitlines()] == [
        "new 0",
        "new 1",
        "new 3",
        "new 5",
    ]


def test_a_worker_that_forgets_a_report_is_an_error(tmp_path):
    def forgetful(todo: Iterator[Item]) -> Iterator[tuple[Item, Row | str]]:
        for item in todo:
            if item.report.findings != "nodule":
                yield item, {"key": item.key, "said": ""}

    with pytest.raises(RarrgError, match="test: 1 of 4 reports got no outcome"):
        run_step("test", items, tmp_path / "rows.jsonl", lambda row: str(row["key"]), forgetful)


def test_a_key_of_another_length_is_no_row(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"key": "short"}\n')
    with pytest.raises(RarrgError, match="line 1: is no row of this step"):
        run(tmp_path / "rows.jsonl", Worker())


def test_another_file_in_the_place_is_left_alone(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("study_id,view\n1,frontal\n")
    with pytest.raises(RarrgError, match=r"rows\.jsonl, line 1: is no row of this step"):
        run(path, Worker())
    assert path.read_text().startswith("study_id")


def test_keys_are_those_of_earlier_releases():
    """Another key would ask about every report again."""
    assert key_of("refine", {"model": "m", "a": [1.5, None]}, "é", ("b",)) == "6664353268d55ff84a76710e2672ecdd"


def test_items_without_a_row_are_none(tmp_path):
    path = tmp_path / "rows.jsonl"
    run(path, Worker(bad="nodule"))
    with Rows([path, tmp_path / "absent.jsonl"], lambda row: str(row["key"])) as rows:
        found = [row and row["said"] for _, row in in_order(items, rows)]
    assert found == ["CLEAR", "EFFUSION", "CLEAR", None, "EFFUSION", "SCAR"]
    with Rows([], lambda row: str(row["key"])) as rows:
        assert rows.get([key_of("clear")]) == [None]


def test_work_is_drawn_as_it_is_done(tmp_path):
    drawn: list[str] = []

    def watched() -> Iterator[Item]:
        for item in items():
            drawn.append(item.report.findings)
            yield item

    def worker(todo: Iterator[Item]) -> Iterator[tuple[Item, Row | str]]:
        drawn.clear()
        item = next(todo)
        assert drawn == ["clear"]
        yield item, {"key": item.key, "said": ""}
        for item in todo:
            yield item, {"key": item.key, "said": ""}

    run_step("test", watched, tmp_path / "rows.jsonl", lambda row: str(row["key"]), worker)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=50), st.integers(1, 7))
def test_every_report_is_in_one_shard_and_equal_ones_together(texts, of):
    shards = [Shard(number, of) for number in range(1, of + 1)]
    for text in texts:
        holding = [shard for shard in shards if shard.holds(ReportText("a", "train", text))]
        assert len(holding) == 1
        assert holding == [shard for shard in shards if shard.holds(ReportText("b", "test", text))]


def test_shards_are_about_equal():
    shard = Shard.parse("3/16")
    held = sum(shard.holds(ReportText("a", "train", f"report {number}")) for number in range(16_000))
    assert abs(held - 1000) < 150  # five deviations


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "3/", "-1/4", "1/0"])
def test_no_shard(text):
    with pytest.raises(RarrgError, match=r"--shard: must be a part and the number of parts, as 3/16"):
        Shard.parse(text)
