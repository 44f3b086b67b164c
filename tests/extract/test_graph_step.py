"""From reports to RadGraph phrases on disk, with a stand-in for the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rarrg.artifacts import read_jsonl
from rarrg.errors import RarrgError
from rarrg.extract.folder import ANNOTATIONS, GRAPH_PHRASES
from rarrg.extract.graph_step import annotate_reports
from rarrg.extract.radgraph import Annotated, NotAnnotated, Outcome
from rarrg.extract.reports import ReportText

TEXTS = ["no effusion", "raises", "no effusion", "malformed", "says nothing", "mild scar"]


def reports() -> list[ReportText]:
    return [ReportText(f"s{number}", "train", text) for number, text in enumerate(TEXTS)]


def annotation(text: str) -> dict[str, Any]:
    words = text.split()
    entities = {
        str(number): {"tokens": word, "label": "OBS-DP", "start_ix": number, "end_ix": number, "relations": []}
        for number, word in enumerate(words)
    }
    if words[0] == "no":
        entities = {"1": {**entities["1"], "label": "OBS-DA"}}
    if words[0] == "malformed":
        entities = {"1": {**entities["0"], "label": "OBS"}}
    if words[0] == "says":
        entities = {}
    return {"text": text, "entities": entities}


class Annotator:
    model, version = "radgraph", "stand-in 1"

    def __init__(self) -> None:
        self.read: list[str] = []

    def annotate(self, texts: Iterable[str]) -> Iterator[Outcome]:
        ahead = list(texts)  # a pool draws ahead of what it has answered
        for text in ahead:
            self.read.append(text)
            yield NotAnnotated("raised", 0.1) if text == "raises" else Annotated(annotation(text), 0.12345)


def run(folder: Path, annotator: Annotator) -> list[tuple[str, str]]:
    failures = annotate_reports(reports, folder, annotator)  # type: ignore[arg-type]
    return [(failure.study_id, failure.reason) for failure in failures]


def test_annotations_phrases_and_failures(tmp_path):
    annotator = Annotator()
    failures = run(tmp_path, annotator)
    assert annotator.read == ["no effusion", "raises", "malformed", "says nothing", "mild scar"]
    rows = read_jsonl(tmp_path / GRAPH_PHRASES)
    assert [(row["study_id"], row["phrases"]) for row in rows] == [
        ("s0", ["no effusion"]),
        ("s3", []),
        ("s4", []),
        ("s5", ["mild", "scar"]),
    ]
    assert rows[0]["provenance"] == {"model": "radgraph", "version": "stand-in 1", "rule": 1}
    assert rows[0]["text_sha256"] == reports()[0].sha256
    first = read_jsonl(tmp_path / ANNOTATIONS)[0]
    assert first["annotation"] == annotation("no effusion")
    assert first["provenance"] == {"model": "radgraph", "version": "stand-in 1", "seconds": 0.1235}
    assert failures[0] == ("s1", "raised")
    assert failures[1][0] == "s3"
    assert "label" in failures[1][1]
    assert failures[2] == ("s4", "RadGraph's annotation: names nothing")


def test_only_what_failed_is_read_again(tmp_path):
    run(tmp_path, Annotator())
    before = (tmp_path / GRAPH_PHRASES).read_bytes()
    again = Annotator()
    run(tmp_path, again)
    assert again.read == ["raises"]
    assert (tmp_path / GRAPH_PHRASES).read_bytes() == before


def test_another_model_reads_all_again(tmp_path, monkeypatch: pytest.MonkeyPatch):
    run(tmp_path, Annotator())
    monkeypatch.setattr(Annotator, "version", "stand-in 2")
    again = Annotator()
    run(tmp_path, again)
    assert len(again.read) == 5
    assert {row["provenance"]["version"] for row in read_jsonl(tmp_path / ANNOTATIONS)} == {"stand-in 2"}


def test_a_model_that_reads_nothing_any_more_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("rarrg.extract.graph_step.HOPELESS", 3)
    many = [ReportText(str(number), "train", "fine" if number < 2 else f"raises {number}") for number in range(9)]

    class Broken(Annotator):
        def annotate(self, texts: Iterable[str]) -> Iterator[Outcome]:
            for text in texts:
                self.read.append(text)
                yield NotAnnotated("out of memory", 0.1) if "raises" in text else Annotated(annotation(text), 0.1)

    broken = Broken()
    with pytest.raises(RarrgError, match="3 reports in a row could not be read; the last: out of memory"):
        annotate_reports(lambda: many, tmp_path, broken)  # type: ignore[arg-type]
    assert len(broken.read) == 4
