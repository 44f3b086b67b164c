"""Report -> RadGraph annotation: an adapter over the ``radgraph`` package, or over its port in ``radeval``.

Both give the same answer, that of Jain et al. 2021 (paper, appendix B.1); which one can be used depends on the version
of transformers: ``radgraph`` needs one before 5, ``radeval`` one from 5 on.
"""

from __future__ import annotations

import importlib
import io
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rarrg.artifacts import read_json, weights_digest
from rarrg.errors import RarrgError
from rarrg.extract_config import RadGraphConfig

_MODULES = {"radgraph": "radgraph", "radeval": "radeval.metrics.radgraph"}
_FILES = ("config.json", "weights.th", "vocabulary")
_CHUNK = 16

_Model = Callable[[list[str]], Any]


@dataclass(frozen=True)
class Annotated:
    """A report that RadGraph read.

    Attributes:
        annotation: What the package answers for one report: ``text``, its tokens with one space between, and
            ``entities`` by id. A report without findings has none.
        seconds: How long it took.
    """

    annotation: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class NotAnnotated:
    """A report that RadGraph could not read.

    Attributes:
        reason: One line; what was raised or what the answer lacks.
        seconds: How long it took.
    """

    reason: str
    seconds: float


Outcome = Annotated | NotAnnotated


@dataclass(frozen=True)
class _Source:
    """What a worker needs to load the model.

    Attributes:
        package: ``radgraph`` or ``radeval``.
        model: The model's type.
        folder: Folder with the folder of the model's weights; null for the package's own cache, filled from the hub.
        base: Hub id of the language model below, whose config and tokenizer come from the hub's cache; null if unknown.
    """

    package: str
    model: str
    folder: str | None
    base: str | None


class RadGraphAnnotator:
    """Annotates reports by RadGraph, one outcome a report. The model is loaded when the first report is there.

    Args:
        config: Which model, where its weights lie, and how many processes work.

    Attributes:
        model: The model's type, as ``radgraph``.
        version: Package and version, as ``radgraph 0.1.18``, with a digest of local weights.

    Raises:
        RarrgError: No package is installed, or ``config.weights`` lacks files.
    """

    def __init__(self, config: RadGraphConfig) -> None:
        package, version = _installed()
        folder, base = _weights(config)
        self.model: str = config.model_type
        weights = "" if folder is None else f", weights {weights_digest(Path(folder) / config.model_type)}"
        self.version = f"{package} {version}{weights}"
        self._processes = config.processes
        self._source = _Source(package, config.model_type, folder, base)

    def annotate(self, texts: Iterable[str]) -> Iterator[Outcome]:
        """Annotate texts as they are drawn; a report that fails takes no other with it.

        Args:
            texts: Reports. With several processes a bounded number is drawn ahead.

        Yields:
            One outcome a text, in the order of the texts.

        Raises:
            RarrgError: The model cannot be loaded, or a worker process died.
        """
        if self._processes == 1:
            for text in texts:
                yield _annotate(self._loaded, text)
        else:
            yield from self._annotate_in_processes(texts)

    @cached_property
    def _loaded(self) -> _Model:
        return _load(self._source)

    def _annotate_in_processes(self, texts: Iterable[str]) -> Iterator[Outcome]:
        pool = ProcessPoolExecutor(
            self._processes, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(self._processes,)
        )
        rest = iter(texts)
        under_way: deque[Future[list[Outcome]]] = deque()
        done = 0

        def submit() -> None:
            if chunk := list(islice(rest, _CHUNK)):
                under_way.append(pool.submit(_annotate_chunk, self._source, chunk))

        try:
            # Alone at first: the package does not guard its download against another process's.
            pool.submit(_prepare, self._source).result()
            for _ in range(2 * self._processes):
                submit()
            while under_way:
                outcomes = under_way.popleft().result()
                submit()
                done += len(outcomes)
                yield from outcomes
        except BrokenProcessPool as error:
            raise RarrgError(
                f"RadGraph: a worker process died after {done} reports, most likely for want of memory; "
                f"lower extract.radgraph.processes (now {self._processes})"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _installed() -> tuple[str, str]:
    """The package to use and its version."""
    transformers = metadata.version("transformers")
    new = int(transformers.split(".")[0]) >= 5
    for package in ("radeval", "radgraph") if new else ("radgraph", "radeval"):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        if new and package == "radgraph":
            raise RarrgError(
                f"radgraph {version}: needs transformers before 5, found {transformers}; pip install 'rarrg[extract]', "
                "or pip install radeval, which has a port"
            )
        return package, version
    raise RarrgError("RadGraph: the package radgraph is not installed; pip install 'rarrg[extract]'")


def _weights(config: RadGraphConfig) -> tuple[str | None, str | None]:
    """Folder that the package is to look in, and the base language model's name; null for both with the hub."""
    if config.weights is None:
        return None, None
    named, model = Path(config.weights), config.model_type
    # The package looks for a folder of the model's name; a user may name either that one or the one around it.
    folder = named.parent if named.name == model and (named / "config.json").is_file() else named
    missing = [file for file in _FILES if not (folder / model / file).exists()]
    if missing:
        raise RarrgError(
            f"extract.radgraph.weights: {folder / model} lacks {', '.join(missing)}; fetch {_archive(model)} "
            "and unpack it there"
        )
    path = folder / model / "config.json"
    try:
        base = str(read_json(path)["dataset_reader"]["token_indexers"]["bert"]["model_name"])
    except (KeyError, TypeError) as error:
        raise RarrgError(f"{path}: names no language model, so it is not RadGraph's; unpack it anew") from error
    return str(folder), base


def _archive(model: str) -> str:
    return f"{model}.tar.gz from huggingface.co/StanfordAIMI/RRG_scorers"


def _load(source: _Source) -> _Model:
    """Load the model; only the progress of a download is shown."""
    try:
        network = _network(source.package)
    except (ImportError, AttributeError) as error:
        raise RarrgError(f"{source.package}: cannot be imported ({_first_line(error)}); install it anew") from error
    where = {} if source.folder is None else {"model_cache_dir": source.folder}
    try:
        with redirect_stdout(io.StringIO()):
            # Without model_type, or under another keyword, the package takes radgraph-xl and does not complain.
            return network(model_type=source.model, **where)
    except Exception as error:  # the package wraps what the hub raised in bare Exceptions
        raise _not_loaded(source, error) from error


def _network(package: str) -> Any:
    # The package changes the filters of warnings, and some of its imports print.
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        if package == "radeval":
            # Modules of radeval 2.2.1 know their own package as RadEval, a name that only some file systems find.
            sys.modules.setdefault("RadEval", importlib.import_module("radeval"))
        return importlib.import_module(_MODULES[package]).RadGraph


def _not_loaded(source: _Source, error: Exception) -> RarrgError:
    cause = _first_line(error)
    if source.folder is None:
        return RarrgError(
            f"RadGraph: {source.model} or the language model below it cannot be had ({cause}); see that the network is "
            f"there and HF_HUB_OFFLINE is not set, or fetch {_archive(source.model)}, unpack it to DIR/{source.model} "
            f"(which then holds {', '.join(_FILES)}) and set extract.radgraph.weights: DIR"
        )
    return RarrgError(
        f"RadGraph: {Path(source.folder) / source.model} cannot be loaded ({cause}); beside these files it needs "
        f"config and tokenizer of {source.base} in the hub's cache: hf download {source.base}"
    )


def _annotate(model: _Model, text: str) -> Outcome:
    """Annotate one text. The package goes through a list one by one and loses it all where one raises."""
    import torch

    said = io.StringIO()
    start = time.perf_counter()
    try:
        with redirect_stdout(said), redirect_stderr(said), torch.no_grad():  # the package would build a graph
            answer = model([text])
    except Exception as error:  # noqa: BLE001  whatever a report does to the package, the next one is read
        return NotAnnotated(f"{type(error).__name__}: {_first_line(error)}", time.perf_counter() - start)
    seconds = time.perf_counter() - start
    annotation = answer.get("0") if isinstance(answer, dict) else None
    if annotation is None:
        return NotAnnotated(f"the package skipped it ({_last_line(said.getvalue())})", seconds)
    if not isinstance(annotation, dict) or "entities" not in annotation:
        return NotAnnotated("the answer has no entities", seconds)
    return Annotated(annotation, seconds)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:")[:300] if lines else type(error).__name__


def _last_line(printed: str) -> str:
    """Last line of a printed traceback; the package adds one of its own."""
    lines = [line.strip() for line in printed.splitlines() if line.strip() and not line.startswith("Error in doc key")]
    return lines[-1][:300] if lines else "it does not say why"


def _start_worker(processes: int) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))


def _annotate_chunk(source: _Source, texts: list[str]) -> list[Outcome]:
    model = _load_once(source)
    return [_annotate(model, text) for text in texts]


def _prepare(source: _Source) -> None:
    _load_once(source)


@lru_cache(maxsize=1)
def _load_once(source: _Source) -> _Model:
    return _load(source)
