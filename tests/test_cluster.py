"""Work on a Ray cluster of two workers on this machine: the same as without, also when one of them is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer

from rarrg.cli import main
from rarrg.cluster import Cluster, Row, Work
from rarrg.errors import RarrgError, Terminated
from rarrg.extract.key_phrases import KEY_PHRASES
from rarrg.llm.endpoints import EndpointPolicy
from tests.llm.scripted_server import scripted_server
from tests.llm.tiny_llama import build as build_llm
from tests.test_extraction import FINDINGS, words, write_data
from tests.test_pipeline import build_model, draw_image

ray = pytest.importorskip("ray", reason="needs rarrg[ray]")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from ray.cluster_utils import Cluster as LocalCluster

    memory = 150 * 2**20
    # Workers import the code of these tests.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    cluster = LocalCluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": memory, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=1, object_store_memory=memory)
    yield cluster.address
    cluster.shutdown()


def squares(seen: Path) -> Work:
    """Squares, told late enough that both workers get some; notes who did which batch."""

    def work(rows: list[Row]) -> list[Row]:
        import time

        time.sleep(0.1)
        (seen / f"{rows[0]['number']}-{os.getpid()}").touch()
        return [{"square": row["number"] ** 2, "by": os.getpid()} for row in rows]

    return work


def test_results_are_complete_and_in_order_though_a_worker_is_killed(address, tmp_path):
    rows = [{"number": number} for number in range(200)]
    found, killed = [], None
    with Cluster(address) as cluster:
        for result in cluster.map(iter(rows), partial(squares, tmp_path), batch=4):
            found.append(result["square"])
            if len(found) == 40:
                killed = result["by"]
                os.kill(killed, signal.SIGKILL)
    assert found == [number**2 for number in range(200)]
    workers = {name.name.split("-")[1] for name in tmp_path.iterdir()}
    assert str(killed) in workers
    assert len(workers) >= 2, "another worker had to take over"


def test_a_mistake_on_a_worker_is_one_line_here(address):
    def refuse() -> Work:
        raise RarrgError("model/: no such folder")

    with Cluster(address) as cluster, pytest.raises(RarrgError, match=r"^model/: no such folder$"):
        list(cluster.map([{}], refuse, 1))


def test_a_batch_that_no_worker_survives_ends_the_run_and_keeps_what_came_before(address, tmp_path):
    def dies_of_the_fifth() -> Work:
        def work(rows: list[Row]) -> list[Row]:
            if rows[0]["id"] == "s5":
                (tmp_path / str(os.getpid())).touch()
                os._exit(1)
            return rows

        return work

    found = []
    with Cluster(address) as cluster:
        results = cluster.map([{"id": f"s{number}"} for number in range(1, 13)], dies_of_the_fifth, 2)
        with pytest.raises(RarrgError, match=r"^4 workers .* same batch of 2 from s5 to s6; what came before is kept"):
            found.extend(row["id"] for row in results)
    assert found == ["s1", "s2", "s3", "s4"]
    assert len(list(tmp_path.iterdir())) == 4


class OnlyHere:
    """What the machines of a cluster can't load, as rarrg where it is not installed."""

    def __reduce__(self) -> Any:
        return import_module, ("not_installed_there",)


def test_a_machine_without_rarrg_is_one_line(address):
    with Cluster(address) as cluster, pytest.raises(RarrgError) as caught:
        list(cluster.map([{}], OnlyHere(), 1))  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"--ray {address}: the cluster gave up (ModuleNotFoundError: No module named 'not_installed_there'); every "
        "machine of it needs the same rarrg as this one"
    )


def test_an_error_in_the_work_itself_keeps_its_stack(address):
    def wrong() -> Work:
        return lambda rows: [{"square": row["missing"]} for row in rows]

    with Cluster(address) as cluster, pytest.raises(ray.exceptions.RayTaskError, match="missing"):
        list(cluster.map([{}], wrong, 1))


def test_sigterm_ends_the_work_and_not_the_process(address, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    done = []

    def work() -> None:
        with Cluster(address) as cluster:
            for row in cluster.map([{"number": number} for number in range(40)], partial(squares, tmp_path), 1):
                done.append(row["square"])
                if len(done) == 3:
                    os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Terminated, match=r"^the same command goes on from what is on disk$"):
        work()
    assert 3 <= len(done) < 40
    assert signal.getsignal(signal.SIGTERM) == before


def test_no_rows_ask_nobody(address):
    with Cluster(address) as cluster:
        assert list(cluster.map([], partial(squares, Path()), 1)) == []


def test_credentialed_text_stays_on_this_machine(address, monkeypatch):
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "NodeManagerAddress": "203.0.113.7"}])
    with Cluster(address) as cluster:
        with pytest.raises(RarrgError, match=r"203\.0\.113\.7.*credentialed text may not leave"):
            cluster.check(EndpointPolicy(credentialed=True))
        cluster.check(EndpointPolicy(credentialed=True, allow_hosts=("203.0.113.7",)))
        cluster.check(EndpointPolicy(credentialed=False))


def test_no_cluster_there_is_one_line():
    with pytest.raises(RarrgError, match=r"--ray 127\.0\.0\.1:1: no Ray cluster there .*Connection refused"):
        Cluster("127.0.0.1:1")


def test_a_machine_outside_the_cluster_is_one_line(address, monkeypatch):
    monkeypatch.setattr("psutil.process_iter", lambda names: iter([SimpleNamespace(info={"name": "python"})]))
    with pytest.raises(RarrgError, match=rf"not part of .*`ray start --address={address} --num-cpus=0`"):
        Cluster(address)


def test_a_token_that_is_not_here_is_one_line(address, tmp_path):
    (tmp_path / "studies.csv").write_text("id,frontal\na,a.png\n")
    words = ["infer", f"--input={tmp_path / 'studies.csv'}", f"--out={tmp_path / 'reports.jsonl'}", f"--ray={address}"]
    # A process of its own: Ray reads its settings once.
    asked = subprocess.run(
        [sys.executable, "-m", "rarrg", *words],
        env={**os.environ, "HOME": str(tmp_path), "RAY_AUTH_MODE": "token"},
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 2
    assert re.fullmatch(
        rf"error: --ray {address}: no Ray cluster there that lets this machine in \(.*no authentication token was found"
        r"\); .*RAY_AUTH_MODE=token and its ~/\.ray/auth_token here",
        asked.stderr.strip().splitlines()[-1],
    )


def rules(out: Path, url: str, data: Path, *more: str) -> list[str]:
    del url
    return ["extract", "rules", f"--out={out}", f"--data.root={data}", *more]


def refine(out: Path, url: str, data: Path, *more: str) -> list[str]:
    return words(out, url, f"--data.root={data}", *more)


@pytest.mark.parametrize("step", [rules, refine])
def test_key_phrases_are_the_same_bytes(step: Callable[..., list[str]], address, tmp_path):
    data = write_data(tmp_path / "data", [*FINDINGS, *(text.replace("granulomas", "nodules") for text in FINDINGS), ""])
    with scripted_server() as server:
        assert main(step(tmp_path / "here", server.url, data)) == 0
        assert main(step(tmp_path / "there", server.url, data, f"--ray={address}")) == 0
    here, there = ((tmp_path / place / KEY_PHRASES).read_bytes() for place in ("here", "there"))
    assert here.count(b"\n") == 2 * len(FINDINGS)
    assert here == there


def test_reports_are_the_same_bytes_also_after_a_kill(address, tmp_path, monkeypatch):
    model = build_model(tmp_path / "model")
    folder = tmp_path / "list"
    folder.mkdir()
    for number in range(6):
        draw_image(folder / f"{number}.png", number)
    (folder / "torn.png").write_bytes((folder / "0.png").read_bytes()[:90])
    lines = [f"{number},{'torn' if number == 7 else number % 6}.png,{number % 5}.png" for number in range(40)]
    (folder / "studies.csv").write_text("\n".join(["id,frontal,lateral", *lines]))
    monkeypatch.chdir(tmp_path)  # paths are relative, here and there

    def run(name: str, *more: str) -> bytes:
        words = ["infer", "--input=list/studies.csv", f"--model={model}", "--device=cpu", "--threshold=0.1"]
        assert main([*words, f"--out={name}", *more]) == 0
        assert json.loads(Path(f"{name}.failed.jsonl").read_text())["id"] == "7"
        return Path(name).read_bytes()

    here = run("here.jsonl")
    assert here.count(b"\n") == 39
    assert run("there.jsonl", f"--ray={address}") == here
    Path("resumed.jsonl").write_bytes(here[: len(here) // 2])
    assert run("resumed.jsonl", f"--ray={address}") == here


SAID = json.dumps({"report": "There is no pneumothorax."})


def processor(config: Any, preprocess: Callable, postprocess: Callable) -> Callable:
    """Stands for Ray's vLLM: a reply in as many tokens as it has letters."""

    def answer(row: Row) -> Row:
        asked = preprocess(row)
        found = {"generated_text": SAID, "num_input_tokens": len(asked["tokenized_prompt"]), "time_taken_llm": 0.1}
        return {**postprocess({**asked, **found, "num_generated_tokens": len(SAID)}), "__inference_error__": ""}

    assert config.batch_size
    return lambda data: data.map(answer)


class InProcess:
    """Stands for vLLM in this process, with the same reply."""

    def __init__(self, model: str, **settings: Any) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(model)

    def chat(self, messages: list[list[Row]], **_: Any) -> list[SimpleNamespace]:
        read = [
            self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=False)
            for turns in messages
        ]
        reply = SimpleNamespace(text=SAID, token_ids=SAID, finish_reason="stop")
        return [SimpleNamespace(outputs=[reply], prompt_token_ids=tokens) for tokens in read]


def test_reports_of_vllm_are_the_same_bytes(address, tmp_path, monkeypatch):
    model, llm = build_model(tmp_path / "model"), build_llm(tmp_path / "llm")
    for number in range(6):
        draw_image(tmp_path / f"{number}.png", number)
    (tmp_path / "torn.png").write_bytes((tmp_path / "0.png").read_bytes()[:90])
    lines = [f"{number},{'torn' if number == 7 else number % 6}.png,{number % 5}.png" for number in range(20)]
    (tmp_path / "studies.csv").write_text("\n".join(["id,frontal,lateral", *lines]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ray.data.llm.build_processor", processor)
    monkeypatch.setattr("rarrg.inference_on_ray.LOOKED", 6)
    vllm, parameters = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    vllm.LLM, vllm.SamplingParams, parameters.StructuredOutputsParams = InProcess, SimpleNamespace, SimpleNamespace
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", parameters)

    def run(name: str, *more: str) -> list[str]:
        words = ["infer", "--input=studies.csv", f"--model={model}", "--device=cpu", "--threshold=0.1"]
        words += ["--writer=llm", "--llm.backend=vllm", f"--llm.model={llm}", f"--out={name}"]
        assert main([*words, *more]) == 0
        assert json.loads(Path(f"{name}.failed.jsonl").read_text())["id"] == "7"
        return Path(name).read_text().splitlines()

    here, there = run("here.jsonl"), run("there.jsonl", f"--ray={address}")
    assert len(here) == 19
    assert sorted(here) == sorted(there)
    told = [json.loads(line)["grounding"]["drafts"] for line in there]
    assert all(len(drafts) == 2 for drafts in told), "what no phrase supports is asked about twice"


def test_a_cluster_is_for_lists(tmp_path, capsys):
    draw_image(tmp_path / "a.png", 0)
    assert main(["infer", f"--frontal={tmp_path / 'a.png'}", "--ray=local"]) == 2
    assert "--ray: is for a list of studies" in capsys.readouterr().err
