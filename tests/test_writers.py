"""From a configuration to the writer that it asks for, over a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rarrg.cli import main
from rarrg.llm.chat import LLMError
from rarrg.llm_config import LLMConfig
from rarrg.pipeline import ReportGenerator
from rarrg.report.study import StudyRetrieval
from rarrg.report.writing import JoinWriter
from rarrg.types import RetrievedPhrase
from rarrg.writer_config import WriterConfig
from rarrg.writers import open_writer
from tests.llm.scripted_server import MODEL, Fault, scripted_server
from tests.test_pipeline import build_model, draw_image


def config(url: str, **changes) -> WriterConfig:
    llm = LLMConfig(base_url=url, model=MODEL, concurrency=4, timeout=5, cache=changes.pop("cache", None))
    return WriterConfig(writer="llm", llm=llm, **changes)


def study(*texts: str) -> StudyRetrieval:
    phrases = tuple(RetrievedPhrase(text, 0.9, 0.8, query) for query, text in enumerate(texts))
    return StudyRetrieval({"frontal": phrases}, {"frontal": ("a.jpg",)})


def test_joining_needs_no_model():
    assert isinstance(open_writer(WriterConfig(), credentialed=True), JoinWriter)


def test_a_server_writes_and_its_replies_are_kept(tmp_path: Path):
    with scripted_server() as server:
        chosen = config(server.url, cache=str(tmp_path / "replies.sqlite"))
        asked, texts = [], []
        for _ in range(2):
            writer = open_writer(chosen, credentialed=True)
            ((_, written),) = writer.write([("a", study("clear lungs", "no pneumothorax"))])
            assert written.writer["name"] == "llm"
            asked.append(len(server.log()))
            texts.append(written.text)
        assert asked[0] == asked[1] > 0
        assert texts[0] == texts[1]


def test_phrases_of_credentialed_data_stay_here_unless_a_host_is_allowed():
    elsewhere = "http://203.0.113.7:8000/v1"
    with pytest.raises(LLMError, match=r"--allow-host 203\.0\.113\.7"):
        open_writer(config(elsewhere), credentialed=True)
    open_writer(config(elsewhere, allow_hosts=["203.0.113.7"]), credentialed=True)
    open_writer(config(elsewhere), credentialed=False)


def test_a_store_that_says_nothing_else_counts_as_credentialed(tmp_path: Path):
    model = build_model(tmp_path)
    with pytest.raises(LLMError, match="--allow-host"):
        ReportGenerator.from_pretrained(model, device="cpu", writer=config("http://203.0.113.7:8000/v1"))


def test_a_list_is_written_by_a_server_that_copies_its_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = build_model(tmp_path / "tiny")
    for seed in range(3):
        draw_image(tmp_path / f"{seed}.png", seed)
    (tmp_path / "l.csv").write_text("id,frontal,lateral\na,0.png;1.png,2.png\nb,1.png,\nc,,missing.png\n")
    copied = "The cardiac silhouette is enlarged. A nodule has grown since the prior study."
    out = tmp_path / "reports.jsonl"
    with scripted_server([Fault("say", times=-1, text=json.dumps({"report": copied}))]) as server:
        words = ["infer", "--model", str(model), "--input", str(tmp_path / "l.csv"), "--out", str(out), "--device=cpu"]
        words += ["--writer=llm", f"--llm.base_url={server.url}", f"--llm.model={MODEL}", "--threshold=0.1"]
        assert main(words) == 0
        asked = len(server.log())
        assert main(words) == 0  # nothing is asked twice; the missing image is tried again
        assert len(server.log()) == asked
        assert main([*words, "--examples=3"]) == 2  # made otherwise: not continued
        assert main([*words, "--writer=join"]) == 2
        # nor are joined reports gone on with by a language model
        joined = [*words, f"--out={tmp_path / 'joined.jsonl'}"]
        assert main([*joined, "--writer=join"]) == 0
        capsys.readouterr()
        assert main(joined) == 2
        assert "this run has model" in capsys.readouterr().err
    rows = {row["id"]: row for row in map(json.loads, out.read_text(encoding="utf-8").splitlines())}
    assert set(rows) == {"a", "b"}
    assert rows["a"]["images"]["frontal"] == [str(tmp_path / "0.png"), str(tmp_path / "1.png")]
    for row in rows.values():
        assert "nodule" not in row["text"]
        assert len(row["grounding"]["drafts"]) == 2
        phrases = {phrase["id"] for said in row["phrases"].values() for phrase in said}
        assert all(set(sentence["phrases"]) <= phrases for sentence in row["grounding"]["sentences"])


def test_a_draft_is_shown_while_it_is_written_on_a_terminal(tmp_path: Path, capsys, monkeypatch):
    model = build_model(tmp_path / "tiny")
    image = draw_image(tmp_path / "a.png", 0)
    with scripted_server() as server:
        words = ["infer", "--model", str(model), "--frontal", str(image), "--device=cpu", "--writer=llm"]
        words += [f"--llm.base_url={server.url}", f"--llm.model={MODEL}"]
        assert main(words) == 0
        assert "draft 1: " not in capsys.readouterr().err
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        assert main(words) == 0
        printed = capsys.readouterr()
        assert [bool(entry["body"].get("stream")) for entry in server.log()].count(True) > 0
    shown = printed.err.split("draft 1: ")[1].split("\n")[0]
    assert shown
    assert printed.out.strip()
