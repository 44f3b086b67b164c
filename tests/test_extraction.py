"""``rarrg extract`` end to end, with a scripted server for the LLM."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from filelock import FileLock
from tqdm import tqdm

from rarrg.artifacts import read_json, read_jsonl
from rarrg.cli import main
from rarrg.extract.folder import (
    ANNOTATIONS,
    DISAGREEMENTS,
    FAILED,
    GRAPH_PHRASES,
    QUALITY,
    REMOVED,
    REPLIES,
    REPORTS,
)
from rarrg.extract.key_phrases import KEY_PHRASES, read_key_phrases
from rarrg.extract.prompt import key_phrase_prompt
from rarrg.extract.radgraph import Annotated, NotAnnotated, Outcome
from rarrg.extract.reports import read_reports
from rarrg.extract.rules import extract_phrases
from rarrg.extract_config import RadGraphConfig
from rarrg.llm.cache import ReplyCache
from rarrg.llm.chat import Request, Sampling
from tests.llm.scripted_server import Fault, scripted_server

SEED = 11
FINDINGS = [f"There are {number} calcified granulomas. No pneumothorax. Stable cardiomegaly." for number in range(60)]


def write_data(root: Path, findings: Sequence[str]) -> Path:
    """An IU X-Ray folder with these reports, one a study."""
    root.mkdir(parents=True)
    with (root / "manifest.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["study_id", "view", "image_path", "findings", "impression", "split"])
        for number, text in enumerate(findings):
            table.writerow([number, "frontal", f"{number}.jpg", text, "", "train"])
    return root


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data", [*FINDINGS, FINDINGS[0], ""])


def words(out: Path, url: str, *more: str, cache: Path | None = None) -> list[str]:
    return [
        *("extract", "refine", f"--out={out}", "--extract.structure=rules", "--extract.llm.backend=openai"),
        *(f"--extract.llm.base_url={url}", "--extract.llm.model=scripted", "--extract.llm.concurrency=4"),
        *([] if cache is None else [f"--extract.llm.cache={cache}"]),
        *more,
    ]


class Annotator:
    """Stands in for RadGraph: a phrase of two words for each text, and none for every ninth."""

    model, version = "radgraph", "stand-in"

    def __init__(self, config: RadGraphConfig) -> None:
        self.config = config

    def annotate(self, texts: Iterable[str]) -> Iterator[Outcome]:
        for text in texts:
            if text.split()[2].isdigit() and int(text.split()[2]) % 9 == 8:
                yield NotAnnotated("it raised", 0.0)
                continue
            entity = {"tokens": "", "label": "OBS-DP", "relations": []}
            entities = {
                "1": {**entity, "start_ix": 3, "end_ix": 3, "relations": [["modify", "2"]]},
                "2": {**entity, "start_ix": 4, "end_ix": 4},
            }
            yield Annotated({"text": text.replace(".", " ."), "entities": entities}, 0.0)


def test_every_report_has_its_phrases_and_the_counts_are_told(tmp_path, data, capsys):
    out = tmp_path / "out"
    with scripted_server() as server:
        assert main(words(out, server.url, f"--data.root={data}")) == 0
        assert max(server.counts().values()) == 1
        assert len(server.counts()) == len(FINDINGS)
    found = read_key_phrases(out / KEY_PHRASES)
    assert len(found) == len(FINDINGS) + 1
    assert found["7"] == ("there are 7 calcified granulomas", "no pneumothorax", "cardiomegaly")
    assert found["0"] == found[str(len(FINDINGS))]
    printed = capsys.readouterr().out
    assert "61 reports with a reply, 0 of them without a phrase" in printed
    assert "comparing with an earlier study: 61 before, 0 after; 61 put into the present" in printed
    assert read_json(out / "quality.json")["kept"] == 3 * 61
    assert read_jsonl(out / FAILED) == []
    assert len(read_jsonl(out / REMOVED)) == 61


def requests_of(out: Path) -> dict[str, Request]:
    """What is asked about each report."""
    prompt = key_phrase_prompt()
    return {
        report.findings: Request(
            "", prompt.messages(report.findings, extract_phrases(report.findings)), prompt.schema, Sampling()
        )
        for report in read_reports(out / REPORTS)
    }


def answered(cache: Path, requests: dict[str, Request]) -> set[str]:
    """Reports whose reply is on disk."""
    if not cache.exists():
        return set()
    with ReplyCache(cache) as replies:
        return {text for text, request in requests.items() if replies.get(request, "scripted")}


@pytest.mark.slow
def test_killed_twenty_times_it_ends_the_same_and_asks_nothing_twice(tmp_path, capfd):
    data = write_data(
        tmp_path / "data", [text.replace("There", f"In {n} zones there") for n in range(4) for text in FINDINGS]
    )
    whole, out, cache = tmp_path / "whole", tmp_path / "out", tmp_path / "replies.sqlite"
    with scripted_server(delay=0.02) as server:
        assert main(words(whole, server.url, f"--data.root={data}")) == 0

    generator = random.Random(SEED)
    with scripted_server(delay=0.03) as server:
        main(["extract", "rules", f"--data.root={data}", f"--out={out}"])  # writes the reports
        (out / KEY_PHRASES).unlink()
        requests = requests_of(out)
        asked = kills = 0
        progress = set()
        while kills < 20:
            kept = answered(cache, requests)
            child = os.fork()
            if not child:
                tqdm.set_lock(threading.RLock())  # its own is shared with this process, and stays locked at a kill
                os._exit(main(words(out, server.url, cache=cache)))
            # A quarter of the kills come before anything is asked.
            until = time.monotonic() + 20
            while kills % 4 and len(server.log()) == asked and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(generator.uniform(0.0, 0.08))
            os.kill(child, signal.SIGKILL)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL, "the run was over before it was killed"
            kills += 1
            log = server.log()
            assert not kept & {entry["input"] for entry in log[asked:]}, "an answered report was asked about again"
            asked = len(log)
            progress.add(len(answered(cache, requests)))
        kept = answered(cache, requests)
        assert main(words(out, server.url, cache=cache)) == 0
        assert not kept & {entry["input"] for entry in server.log()[asked:]}
    assert len(progress) > 3, "the kills came before anything was done"
    assert (out / KEY_PHRASES).read_bytes() == (whole / KEY_PHRASES).read_bytes()
    assert (out / REMOVED).read_bytes() == (whole / REMOVED).read_bytes()
    assert [row["key_phrase"] for row in read_jsonl(out / REPLIES)] == [
        row["key_phrase"] for row in read_jsonl(whole / REPLIES)
    ]


def test_shards_merge_into_what_one_run_gives(tmp_path, data):
    whole, out, cache = tmp_path / "whole", tmp_path / "out", tmp_path / "replies.sqlite"
    fault = Fault("say", match="13 calcified", text="I cannot say.", times=-1)
    with scripted_server(faults=[fault]) as server:
        assert main(words(whole, server.url, f"--data.root={data}", cache=cache)) == 0
        for number in (1, 2, 3):
            assert main(words(out, server.url, f"--data.root={data}", f"--shard={number}/3", cache=cache)) == 0
    assert main(["extract", "merge", f"--out={out}"]) == 0
    for name in (KEY_PHRASES, REPLIES, REMOVED, FAILED):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    assert len(read_jsonl(out / FAILED)) == 1


def test_faults_of_a_server_end_in_phrases_or_in_the_list_of_failures(tmp_path):
    texts = {
        "busy": "Busy opacity. No effusion.",
        "broken": "Broken opacity. No effusion.",
        "garbage": "Garbage opacity. No effusion.",
        "half": "Half opacity. No effusion.",
        "copies": "Copied opacity. No effusion.",
        "chats": "Chatting opacity. No effusion.",
        "silent": "Silent opacity. No effusion.",
        "fine": "Fine opacity. No effusion.",
    }
    data = write_data(tmp_path / "data", list(texts.values()))
    faults = [
        Fault("status", match="Busy", status=429, headers={"Retry-After": "0"}),
        Fault("status", match="Broken", status=500),
        Fault("garbage", match="Garbage"),
        Fault("half", match="Half"),
        Fault("silence", match="Silent"),
        Fault("example", match="Copied", times=-1),
        Fault("say", match="Chatting", text="There is nothing to see.", times=-1),
    ]
    out = tmp_path / "out"
    with scripted_server(faults=faults) as server:
        assert main(words(out, server.url, f"--data.root={data}", "--extract.llm.timeout=1")) == 0
    found = read_key_phrases(out / KEY_PHRASES)
    number = {name: str(place) for place, name in enumerate(texts)}
    failed = {(row["study_id"], row["step"]) for row in read_jsonl(out / FAILED)}
    assert (number["chats"], "refine") in failed
    for name in ("busy", "broken", "half", "silent", "fine"):
        assert found[number[name]] == (f"{texts[name].split()[0].lower()} opacity", "no effusion")
    assert found[number["copies"]] == ()  # nothing of the example is borne out by this report
    assert (number["copies"], "key phrases") in failed
    assert (number["garbage"], "refine") in failed


def test_graph_for_all_then_refine_in_shards_then_merge(tmp_path, data, monkeypatch, capsys):
    monkeypatch.setattr("rarrg.extract.radgraph.RadGraphAnnotator", Annotator)
    whole, out, cache = tmp_path / "whole", tmp_path / "out", tmp_path / "replies.sqlite"
    refine = ["--extract.structure=radgraph"]
    with scripted_server() as server:
        for folder in (whole, out):
            assert main(["extract", "graph", f"--data.root={data}", f"--out={folder}"]) == 0
        assert main(words(whole, server.url, *refine, cache=cache)) == 0
        for number in (1, 2, 3):
            assert main(words(out, server.url, *refine, f"--shard={number}/3", cache=cache)) == 0
        asked = [message["content"] for message in server.log()[0]["body"]["messages"]]
    assert '["calcified granulomas"]' in asked[-1]
    assert main(["extract", "merge", f"--out={out}"]) == 0
    names = {path.name for path in whole.iterdir()} - {".lock"}
    assert names > {KEY_PHRASES, REPLIES, REMOVED, FAILED, DISAGREEMENTS, QUALITY, ANNOTATIONS, GRAPH_PHRASES}
    for name in names:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    reasons = [(row["step"], row["reason"]) for row in read_jsonl(out / FAILED)]
    assert reasons == 6 * [("radgraph", "it raised"), ("refine", "has no RadGraph phrases")]
    assert len(read_key_phrases(out / KEY_PHRASES)) == 61 - 6


def test_a_shard_of_fewer_reports_is_not_merged(tmp_path, data, capsys):
    out = tmp_path / "out"
    with scripted_server() as server:
        assert main(words(out, server.url, f"--data.root={data}", "--shard=1/2")) == 0
        assert main(words(out, server.url, "--shard=2/2", "--limit=20")) == 0
        assert main(["extract", "merge", f"--out={out}"]) == 2
        assert "shard-2-of-2" in capsys.readouterr().err
        assert main(words(out, server.url, "--shard=2/2")) == 0
        assert main(["extract", "merge", f"--out={out}"]) == 0
    assert len(read_key_phrases(out / KEY_PHRASES)) == 61


def test_a_trial_does_not_starve_the_shards(tmp_path, data, monkeypatch, capsys):
    monkeypatch.setattr("rarrg.extract.radgraph.RadGraphAnnotator", Annotator)
    out = tmp_path / "out"
    with scripted_server() as server:
        argv = [word for word in words(out, server.url, f"--data.root={data}") if word != "refine"]
        argv = [word.replace("structure=rules", "structure=radgraph") for word in argv]
        assert main([*argv, "--limit=5"]) == 0
        assert main([*argv, "--shard=1/2"]) == 0
        assert main([*argv, "--shard=2/2"]) == 0
        assert main(["extract", "merge", f"--out={out}"]) == 0
        assert len(read_key_phrases(out / KEY_PHRASES)) == 61 - 6
        # The whole again, without shards: the phrases of the merged graph are there.
        assert main(words(out, server.url, "--extract.structure=radgraph")) == 0
        capsys.readouterr()
        assert main(["extract", "graph", f"--out={out}", "--limit=5"]) == 0
        assert main(words(out, server.url, "--extract.structure=radgraph")) == 2
        assert "run rarrg extract graph on all" in capsys.readouterr().err


def test_shards_with_other_phrases_beside_the_report_are_not_merged(tmp_path, data, monkeypatch, capsys):
    monkeypatch.setattr("rarrg.extract.radgraph.RadGraphAnnotator", Annotator)
    out = tmp_path / "out"
    with scripted_server() as server:
        assert main(["extract", "graph", f"--data.root={data}", f"--out={out}"]) == 0
        assert main(words(out, server.url, "--shard=1/2")) == 0
        assert main(words(out, server.url, "--shard=2/2", "--extract.structure=radgraph")) == 0
        assert main(["extract", "merge", f"--out={out}"]) == 2
        assert "was made otherwise than" in capsys.readouterr().err


def test_one_run_at_a_time_in_a_folder(tmp_path, data, capsys):
    out = tmp_path / "out"
    rules = ["extract", "rules", f"--data.root={data}", f"--out={out}"]
    assert main(rules) == 0
    (out / ".key_phrases.jsonl.1-ab.tmp").write_text("left by a killed run")
    with FileLock(out / ".lock"):
        assert main(rules) == 2
        assert "another run writes there" in capsys.readouterr().err
    assert main(rules) == 0
    assert not (out / ".key_phrases.jsonl.1-ab.tmp").exists()
    assert main([*rules, "--shard=1/2"]) == 0
    with FileLock(out / "shard-1-of-2" / ".lock"):
        assert main(["extract", "merge", f"--out={out}"]) == 2
        other = write_data(tmp_path / "other", ["Another report."])
        before = (out / REPORTS).read_bytes()
        assert main(["extract", "rules", f"--data.root={other}", f"--out={out}"]) == 2
        assert (out / REPORTS).read_bytes() == before
        assert main([*rules, "--shard=2/2"]) == 0  # the same reports disturb nobody


def test_phrases_of_rules_and_of_an_llm_do_not_take_each_others_place(tmp_path, data, capsys):
    rules, llm = tmp_path / "rules", tmp_path / "llm"
    assert main(["extract", "rules", f"--data.root={data}", f"--out={rules}"]) == 0
    with scripted_server() as server:
        assert main(words(rules, server.url)) == 2
        assert "holds the phrases of extractor 'rules'; name another --out" in capsys.readouterr().err
        assert main(words(llm, server.url, f"--data.root={data}")) == 0
    assert main(["extract", "rules", f"--out={llm}"]) == 2
    assert "was written by extractor 'llm'" in capsys.readouterr().err


def test_radgraph_phrases_are_needed_or_the_rules(tmp_path, data, capsys):
    argv = words(tmp_path / "out", "http://127.0.0.1:9/v1", f"--data.root={data}", "--extract.structure=radgraph")
    assert main(argv) == 2
    assert f"{GRAPH_PHRASES}: is missing; run rarrg extract graph first" in capsys.readouterr().err


def test_credentialed_reports_go_to_this_machine_or_to_an_allowed_host_only(tmp_path, data, capsys):
    (data / "dataset.json").write_text('{"credentialed": true}')
    out = tmp_path / "out"
    elsewhere = words(out, "http://192.0.2.7:8000/v1", f"--data.root={data}")
    assert main(elsewhere) == 2
    error = capsys.readouterr().err
    assert "192.0.2.7" in error
    assert "--allow-host 192.0.2.7" in error
    assert not (out / REPLIES).exists()
    with scripted_server() as server:
        assert main(words(out, server.url)) == 0  # without the data folder; the extraction folder carries the card
    assert read_json(out / "dataset.json")["credentialed"] is True


@pytest.mark.parametrize("root", ['{"credentialed": "yes"}', "{}"])
def test_a_card_that_does_not_say_lets_no_text_in(tmp_path, data, capsys, root):
    out = tmp_path / "out"
    assert main(["extract", "rules", f"--data.root={data}", f"--out={out}"]) == 0
    before = (out / REPORTS).read_bytes()
    secret = write_data(tmp_path / "secret", ["A secret report."])
    (secret / "dataset.json").write_text(root)
    assert main(["extract", "rules", f"--data.root={secret}", f"--out={out}"]) == 2
    assert 'must say "credentialed": true or false' in capsys.readouterr().err
    assert (out / REPORTS).read_bytes() == before


def test_mimic_is_credentialed_even_where_its_folder_says_nothing(tmp_path, data, capsys):
    out = tmp_path / "out"
    assert main(["extract", "rules", f"--data.root={data}", f"--out={out}"]) == 0
    (out / KEY_PHRASES).unlink()
    assert main(words(out, "http://192.0.2.7:8000/v1", "--data.source=mimic_cxr")) == 2
    assert "--allow-host 192.0.2.7" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["", "graph", "refine", "rules"])
def test_a_dry_run_counts_and_writes_nothing(tmp_path, data, capsys, step):
    out = tmp_path / "out"
    argv = ["extract", *([step] if step else []), f"--data.root={data}", f"--out={out}", "--dry-run"]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert "61 reports, 60 different ones" in printed
    assert (FINDINGS[0] in printed) == (step in ("", "refine"))
    assert not out.exists()
    assert main([*argv[:-1], "--dry-run=false", "--limit=0"]) == 2


def test_a_limit_takes_the_first_reports_and_the_rest_follows(tmp_path, data):
    out = tmp_path / "out"
    with scripted_server() as server:
        assert main(words(out, server.url, f"--data.root={data}", "--limit=5")) == 0
        assert list(read_key_phrases(out / KEY_PHRASES)) == ["0", "1", "2", "3", "4"]
        assert main(words(out, server.url)) == 0
        whole = {name: (out / name).read_bytes() for name in (KEY_PHRASES, REPLIES, FAILED, QUALITY)}
        assert main(words(out, server.url, "--limit=5")) == 0
        assert main(words(out, server.url)) == 0
        assert max(server.counts().values()) == 1
    assert {name: (out / name).read_bytes() for name in whole} == whole
    assert len(read_key_phrases(out / KEY_PHRASES)) == len(FINDINGS) + 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["extract", "paint"], "rarrg extract paint: no such step; there are graph, refine, rules, merge"),
        (["extract", "rules", "--shard=4/3", "--data.root=x"], "--shard: must be a part"),
        (["extract", "rules", "--limit=0"], "--limit: must be at least 1"),
        (["extract", "rules", "--out=nowhere"], "data.root: name the data set"),
        (["extract", "--extract.llm.modl=x"], "unknown key extract.llm.modl; did you mean extract.llm.model?"),
        (["extract", "--config=nowhere.yaml"], "--config nowhere.yaml: no such file"),
        (["extract", "merge", "--out=nowhere"], "nowhere"),
        (["extract", "rules", "--out=a-file/inside", "--data.root=data"], "a-file"),
    ],
)
def test_mistakes_are_one_line(argv, message, capsys, tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("")
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert message in error.splitlines()[-1]
    assert "Traceback" not in error


def test_the_sections_of_a_training_configuration_are_read(tmp_path, data, capsys):
    config = {"data": {"source": "iu_xray", "root": str(data), "batch_size": 7}, "extract": {"structure": "rules"}}
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({**config, "out": "runs/model", "seed": 3}))
    out = tmp_path / "out"
    assert main(["extract", f"--config={path}", f"--out={out}", "--limit", "2", "--dry-run"]) == 0
    assert "2 reports, 2 different ones" in capsys.readouterr().out
    path.write_text(json.dumps({**config, "extrakt": {}}))
    assert main(["extract", f"--config={path}", f"--out={out}"]) == 2
    assert "unknown key extrakt" in capsys.readouterr().err
