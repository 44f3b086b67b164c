"""From reports to refined key phrases on disk, with a stand-in for the LLM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rarrg.artifacts import read_jsonl, write_jsonl
from rarrg.errors import RarrgError
from rarrg.extract import refine_step
from rarrg.extract.folder import DISAGREEMENTS, GRAPH_STEP, REMOVED, REPLIES, write_failures
from rarrg.extract.key_phrases import KEY_PHRASES, read_key_phrases
from rarrg.extract.prompt import key_phrase_prompt
from rarrg.extract.refine_step import ask_for_phrases, asking, read_structure, without_structure, write_key_phrases
from rarrg.extract.reports import ReportText
from rarrg.extract.stage import Failure
from rarrg.llm.chat import Completion, LLMError, Request, Sampling
from rarrg.metrics.findings import label_findings

TEXTS = [
    "No pneumothorax. Stable cardiomegaly.",
    "Small left effusion.",
    "No pneumothorax. Stable cardiomegaly.",
    "Never answered.",
    "Emphysema.",
]
SAID = {
    TEXTS[0]: ["No pneumothorax", "stable cardiomegaly", "pneumothorax", "right rib fracture"],
    TEXTS[1]: ["small left effusion", "pleural plaque"],
    TEXTS[4]: ["tortuous aorta"],
}
ASKED_WITH = {"model": "stand-in"}


def reports() -> list[ReportText]:
    return [ReportText(f"s{number}", "train", text) for number, text in enumerate(TEXTS)]


class Backend:
    model = "stand-in"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Completion | LLMError]]:
        for request in list(requests)[::-1]:
            question = request.messages[-1].content
            text = next(text for text in TEXTS if text in question)
            self.asked.append(question)
            if text == TEXTS[3]:
                yield request, LLMError("http://127.0.0.1/v1 (stand-in): timed out")
            else:
                reply = json.dumps({"key_phrase": SAID[text]})
                yield request, Completion(reply, "stop", 7, 3, 0.25, "stand-in-1")


def run(folder: Path, backend: Backend, phrases: Path | None = None):
    items, rules = read_structure(reports, phrases, ASKED_WITH), phrases is None
    prompt, sampling = key_phrase_prompt(), Sampling()
    failures = [] if phrases is None else without_structure(reports(), phrases)
    failures += ask_for_phrases(items, folder, asking(backend, rules, prompt, sampling, 2, None))
    quality, empty = write_key_phrases(items, rules, folder, ASKED_WITH, label_findings, False)
    return failures, quality, empty


def test_phrases_of_every_study_and_what_did_not_stay(tmp_path):
    backend = Backend()
    failures, quality, empty = run(tmp_path, backend)
    assert len(backend.asked) == 4  # equal reports once
    assert read_key_phrases(tmp_path / KEY_PHRASES) == {
        "s0": ("no pneumothorax", "cardiomegaly"),
        "s1": ("small left effusion",),
        "s2": ("no pneumothorax", "cardiomegaly"),
        "s4": (),
    }
    row = read_jsonl(tmp_path / KEY_PHRASES)[0]
    assert row["provenance"] == {
        "extractor": "llm",
        "version": 1,
        "text_sha256": reports()[0].sha256,
        "asked_with": {"model": "stand-in"},
        "structure": "rules",
        "keep_unsupported": False,
    }
    assert [(f.study_id, f.reason) for f in failures] == [("s3", "http://127.0.0.1/v1 (stand-in): timed out")]
    assert [f.study_id for f in empty] == ["s4"]
    removed = read_jsonl(tmp_path / REMOVED)
    assert [(r["study_id"], r["phrase"], r["reason"], r["became"]) for r in removed if r["study_id"] != "s2"] == [
        ("s0", "stable cardiomegaly", "comparison", ["cardiomegaly"]),
        ("s0", "pneumothorax", "negation", []),
        ("s0", "right rib fracture", "unsupported", []),
        ("s1", "pleural plaque", "unsupported", []),
        ("s4", "tortuous aorta", "unsupported", []),
    ]
    assert (quality.reports, quality.said, quality.kept) == (4, 11, 5)
    assert read_jsonl(tmp_path / DISAGREEMENTS) == []


def test_processes_judge_as_one_does(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(refine_step, "_BLOCK", 1)
    written = []
    for worth, name in ((100, "one"), (0, "several")):
        monkeypatch.setattr(refine_step, "_WORTH_PROCESSES", worth)
        failures, quality, empty = run(tmp_path / name, Backend())
        files = [(tmp_path / name / file).read_text() for file in (KEY_PHRASES, REMOVED, DISAGREEMENTS)]
        written.append((files, quality, empty, failures))
    assert written[0] == written[1]
    assert written[0][1].said > 0


def test_replies_carry_their_provenance(tmp_path):
    run(tmp_path, Backend())
    rows = read_jsonl(tmp_path / REPLIES)
    assert [row["study_id"] for row in rows] == ["s0", "s1", "s4"]
    assert rows[0]["text_sha256"] == reports()[0].sha256
    assert rows[0]["key_phrase"] == SAID[TEXTS[0]]
    assert rows[0]["provenance"] == {
        "model": "stand-in-1",
        "prompt_sha256": key_phrase_prompt().sha256,
        "sampling": {"temperature": 0.6, "top_p": 0.9, "max_tokens": 1024, "seed": 0},
        "attempts": 1,
        "finish_reason": "stop",
        "reply": json.dumps({"key_phrase": SAID[TEXTS[0]]}),
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "seconds": 0.25,
    }


def test_a_second_run_asks_only_about_what_failed(tmp_path):
    run(tmp_path, Backend())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = Backend()
    run(tmp_path, again)
    assert len(again.asked) == 1
    assert "Never answered." in again.asked[0]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def graph_phrases(path: Path, *rows: tuple[int, list[str]]) -> Path:
    write_jsonl(path, ({"text_sha256": reports()[number].sha256, "phrases": phrases} for number, phrases in rows))
    return path


def test_the_llm_is_given_radgraphs_phrases_and_asked_again_when_they_change(tmp_path):
    path = graph_phrases(tmp_path / "graph.jsonl", (0, ["no pneumothorax"]), (1, ["left effusion small"]), (4, []))
    with pytest.raises(RarrgError, match="has no row for the report of study s3; run rarrg extract graph on all"):
        run(tmp_path / "out", Backend(), path)
    raised = [Failure("s3", reports()[3].sha256, GRAPH_STEP, "raised")]
    write_failures(tmp_path, GRAPH_STEP, raised, reports(), reports())
    backend = Backend()
    failures, _, _ = run(tmp_path / "out", backend, path)
    assert any('["left effusion small"]' in question for question in backend.asked)
    assert [(failure.study_id, failure.reason) for failure in failures] == [
        ("s3", "has no RadGraph phrases"),
        ("s4", "has no RadGraph phrases"),
    ]
    assert len(backend.asked) == 2

    graph_phrases(path, (0, ["no pneumothorax"]), (1, ["small left effusion"]), (4, []))
    again = Backend()
    run(tmp_path / "out", again, path)
    assert len(again.asked) == 1
    assert '["small left effusion"]' in again.asked[0]


def test_another_model_is_asked_about_everything(tmp_path, monkeypatch: pytest.MonkeyPatch):
    run(tmp_path, Backend())
    monkeypatch.setitem(ASKED_WITH, "model", "another")
    again = Backend()
    run(tmp_path, again)
    assert len(again.asked) == 4
