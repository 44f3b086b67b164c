"""Rows worked on by the machines of a Ray cluster, in batches, with the results in the order of the rows.

Ray Data (https://docs.ray.io/en/latest/data/data.html) sends batches to a pool of actors, each of which loads what it
needs once. An actor that dies is started again and its batch is sent out again, three times at most: Ray itself would
go on for ever with a batch that no worker survives. Only the process that asked writes files, so that a batch done
twice is written once.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn

from rarrg.errors import RarrgError, Terminated
from rarrg.llm.chat import Backend
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.llm_config import LLMConfig
from rarrg.ray_data import cause_of, rows_of

Row = dict[str, Any]
Work = Callable[[list[Row]], list[Row]]
"""Gives a row for each row of a batch, in their order."""

LOCAL = "local"
_DEATHS = 4  # of workers over one batch, after which it is not tried again
_PATIENCE = 10.0  # seconds to reach a cluster


class Cluster:
    """A connection to a Ray cluster.

    Args:
        address: ``auto`` for the cluster that this machine is part of, ``HOST:PORT`` where it is part of several, or
            ``local`` for one of this machine's own cores that ends with the connection.

    Raises:
        RarrgError: Ray is not installed, or there is no cluster, or one that this machine is not part of.
    """

    def __init__(self, address: str) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # what it tells its makers nobody asked for
        try:
            import psutil
            import ray
            import ray.data
            from ray.exceptions import AuthenticationError
        except ImportError as error:
            raise RarrgError("--ray needs Ray; pip install 'rarrg[ray]' here and on every machine of it") from error
        self._ray = ray
        self._on_sigterm = signal.getsignal(signal.SIGTERM)
        try:
            if _knock(address) and not any(each.info["name"] == "raylet" for each in psutil.process_iter(["name"])):
                # Ray would end the process with a stack of C++.
                raise RarrgError(
                    f"--ray {address}: this machine is not part of that Ray cluster; have it join, with no core to "
                    f"work on if you like: `ray start --address={address} --num-cpus=0`"
                )
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False,
            )
        except (OSError, ValueError, RuntimeError, AuthenticationError) as error:
            raise RarrgError(
                f"--ray {address}: no Ray cluster there that lets this machine in "
                f"({str(error).splitlines()[0].split('. ')[0]}); start one with `ray start --head`, or give local; one "
                "that has a token, as Ray's own have, wants RAY_AUTH_MODE=token and its ~/.ray/auth_token here"
            ) from error
        self._address = address
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors come as exceptions

    def check(self, policy: EndpointPolicy) -> None:
        """Make sure that the machines may get text, before any is sent.

        Args:
            policy: Says which machines may.

        Raises:
            LLMError: One of them may not.
        """
        if self._address == LOCAL:
            return
        own = self._ray.util.get_node_ip_address()
        for node in self._ray.nodes():
            if node["Alive"] and node["NodeManagerAddress"] != own:
                policy.addresses(node["NodeManagerAddress"], 0)

    def __enter__(self) -> Cluster:
        # Ray would print a stack of C++ and abort.
        _handle_sigterm(_terminate)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ray.shutdown()
        _handle_sigterm(self._on_sigterm)

    def map(self, rows: Iterable[Row], make: Callable[[], Work], batch: int, gpus: int = 0) -> Iterator[Row]:
        """Work on rows; each actor calls ``make`` once and its result for every batch.

        Args:
            rows: JSON objects; the ``id`` of those that have one names them in errors.
            make: Loads what the work needs, on the machine that does it; sent there by cloudpickle.
            batch: Rows of a batch: the first ``batch`` rows, the next, and so on, whatever machine gets them.
            gpus: GPUs of an actor, where the cluster has any; else an actor has one core.

        Returns:
            The results, in the order of the rows.

        Raises:
            RarrgError: The work raised one, and its message is that of the machine that did the work; or four workers
                died over the same batch; or none could begin.
        """
        from ray.exceptions import RayError, RayTaskError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        source = iter(rows)
        blocks = iter(lambda: list(islice(source, batch)), [])
        batches = [{"number": number, "rows": json.dumps(block)} for number, block in enumerate(blocks)]
        if not batches:
            return
        data = self._ray.data
        actors, on_gpus = self.workers(gpus)
        here = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        kept = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
        tally = self._ray.remote(**kept)(_Tally).remote()
        worked = data.from_items(batches, override_num_blocks=len(batches)).map_batches(
            _Actor,
            fn_constructor_args=(make, Path.cwd(), tally),
            batch_size=1,
            compute=data.ActorPoolStrategy(min_size=1, max_size=min(actors, len(batches))),
            **({"num_gpus": gpus} if on_gpus else {"num_cpus": 1}),
        )
        try:
            for result in rows_of(worked):
                answer = json.loads(result["rows"])
                if "error" in answer:
                    raise RarrgError(answer["error"])
                yield from answer["rows"]
        except RayTaskError:
            raise  # an error in the work itself, with its stack
        except RayError as error:
            raise RarrgError(
                f"--ray {self._address}: the cluster gave up ({cause_of(error)}); every machine of it needs the same "
                "rarrg as this one"
            ) from error

    def workers(self, gpus: int) -> tuple[int, bool]:
        """How many actors there is room for, and whether each has its GPUs; where there are none, it has one core."""
        found = self._ray.cluster_resources()
        on_gpus = bool(gpus) and found.get("GPU", 0) >= gpus
        return max(1, int(found["GPU"] // gpus if on_gpus else found.get("CPU", 1))), on_gpus

    def vllm(self, config: LLMConfig) -> Backend:
        """A model in vLLM on the cluster's GPUs; where there are none, in one engine on a processor.

        Raises:
            RarrgError: Ray's integration of vLLM is not there, or the cluster is too small for an engine.
        """
        from rarrg.llm.vllm_on_ray import VLLMOnRay

        engines, on_gpus = self.workers(config.tensor_parallel)
        found = self._ray.cluster_resources()
        gpus, cores = int(found.get("GPU", 0)), int(found.get("CPU", 0))
        if gpus and not on_gpus:
            raise RarrgError(
                f"llm.tensor_parallel: {config.tensor_parallel} GPUs an engine, but the cluster has {gpus} in all"
            )
        if cores <= config.tensor_parallel:  # Ray would wait for one for ever
            raise RarrgError(
                f"--ray: vLLM takes {config.tensor_parallel} of the cluster's {cores} cores, and at least one more is "
                "needed for prompts; add a machine, or start Ray with a larger --num-cpus"
            )
        return VLLMOnRay(config, engines if on_gpus else 1, on_gpus)

    def ask(self, make: Callable[[], Row], gpus: int = 0) -> Row:
        """What one machine of the cluster answers, as the name of a model that only it can load."""
        return next(self.map([{}], partial(_once, make), 1, gpus))


def _knock(address: str) -> bool:
    """Whether it is a HOST:PORT, and one that answers; Ray itself tries for ten minutes.

    Raises:
        OSError: Nobody answers there.
    """
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdecimal()):
        return False
    with socket.create_connection((host, int(port)), timeout=_PATIENCE):
        return True


def _handle_sigterm(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():  # Python lets no other
        signal.signal(signal.SIGTERM, handler)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated("the same command goes on from what is on disk")


def _once(make: Callable[[], Row]) -> Work:
    return lambda rows: [make() for _ in rows]


class _Tally:
    """How often each batch was begun, kept on the machine of the command, where no death of a worker reaches it."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def begin(self, number: int) -> int:
        self._begun[number] += 1
        return self._begun[number]


class _Actor:
    """Works on batches on a machine of the cluster. A user's mistake comes back as a row: Ray would retry it."""

    def __init__(self, make: Callable[[], Work], folder: Path, tally: Any) -> None:
        self._make = make
        self._tally = tally
        if folder.is_dir():
            os.chdir(folder)  # relative paths mean the same as where the command was given
        self._work: Work | None = None

    def __call__(self, batches: dict[str, Sequence[Any]]) -> dict[str, list[str]]:
        numbered = zip(batches["number"], batches["rows"], strict=True)
        return {"rows": [self._answer(int(number), json.loads(rows)) for number, rows in numbered]}

    def _answer(self, number: int, rows: list[Row]) -> str:
        import ray

        if ray.get(self._tally.begin.remote(number)) > _DEATHS:
            return json.dumps({"error": _deadly(rows)})
        try:
            if self._work is None:
                self._work = self._make()
            return json.dumps({"rows": self._work(rows)})
        except RarrgError as error:
            return json.dumps({"error": str(error)})


def _deadly(rows: list[Row]) -> str:
    named = f" from {rows[0]['id']} to {rows[-1]['id']}" if "id" in rows[0] else ""
    return (
        f"{_DEATHS} workers of the cluster died over the same batch of {len(rows)}{named}; what came before is kept. "
        "Look into Ray's logs on their machines (/tmp/ray/session_latest/logs): a lack of memory is the usual reason"
    )
