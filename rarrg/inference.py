"""What ``infer.py`` does: the report of one study, or of every study of a list.

Free of heavy imports at the top, so that a mistyped path costs no torch import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

import rarrg
from rarrg.artifacts import atomic_write, write_json, write_text, writing
from rarrg.errors import ImageError, RarrgError
from rarrg.locking import LOCK, held
from rarrg.report.as_text import describe
from rarrg.report_list import Settings, append, is_of, reports_in
from rarrg.study_list import VIEWS, ListedStudy, expanded, read_list
from rarrg.writer_config import WriterConfig


@dataclass(frozen=True)
class InferOptions(WriterConfig):
    """What to infer from, how the report is written, and where the results go.

    A leading ``~`` is the home folder. The folders of ``out``, ``html`` and ``attention`` must exist. The exit status
    of a list is 0 once a study has its report, though others failed, and 1 if all failed; the closing line counts them.

    Args:
        frontal: Frontal image of a single study, or several, as ``--frontal a.jpg b.jpg``; an image may be an address
            as ``s3://bucket/a.dcm``.
        lateral: Lateral image or images of a single study.
        model: Model folder, or ORG/NAME of a model on the Hugging Face hub.
        store: Phrase store to use in place of the model's own.
        threshold: Selection probability in (0, 1) above which a query retrieves its phrase; null takes the model's.
        device: auto (a GPU if there is one), cpu, cuda or cuda:INDEX.
        findings: Print the report behind the word FINDINGS, as reports have it.
        out: JSON of the report; with ``input``, JSON Lines of all reports, and OUT.failed.jsonl of the failures.
        html: HTML page of a single study.
        attention: NPZ of a single study's attention maps, one array ``[phrases, height, width]`` a view.
        input: List of studies, CSV or JSON, with the columns ``id``, ``frontal`` and ``lateral``; several images of a
            view stand in one field with ``;`` between them, in JSON as a list.
        ray: Ray cluster that does the work of ``input``, as ``auto``, ``HOST:6379`` or ``local``; the model and the
            images must have the same paths on every machine.
    """

    frontal: list[str | Path] = field(default_factory=list)
    lateral: list[str | Path] = field(default_factory=list)
    model: str = "runs/demo"
    store: Path | None = None
    threshold: float | None = None
    device: str = "auto"
    findings: bool = False
    out: Path | None = None
    html: Path | None = None
    attention: Path | None = None
    input: Path | None = None
    ray: str | None = None


def infer(options: InferOptions, say: Callable[[str], None] = print) -> int:
    """Run the ``infer`` command.

    Args:
        options: What the user asked for.
        say: Takes each line meant for the user.

    Returns:
        Exit status: 1 if every study of a list failed, else 0. A list of which some failed gives 0: its closing line
        counts them, and ``OUT.failed.jsonl`` names them.

    Raises:
        RarrgError: Options contradict each other, or a model, store, list or image cannot be used.
    """
    given = {field.name: getattr(options, field.name) for field in fields(options)}
    paths: dict[str, Any] = {name: expanded(value) for name, value in given.items() if isinstance(value, Path)}
    paths |= {view: [path if "://" in str(path) else expanded(path) for path in given[view]] for view in VIEWS}
    options = replace(options, **paths)
    if options.input is None:
        _infer_one(options, say)
        return 0
    return _infer_list(options, options.input, say)


def _generator(options: InferOptions, hear: Callable[[str], None] | None = None) -> rarrg.ReportGenerator:
    # Training writes to runs/, so a missing runs/demo is a model not yet made, never one to look for on the hub.
    is_hub_name = options.model.count("/") == 1 and not options.model.startswith((".", "/", "~", "runs/"))
    if not is_hub_name and not expanded(options.model).is_dir():
        raise RarrgError(
            f"{options.model}: no such model folder; make one with `python train.py --config demo.yaml` or "
            "`make demo`, or name another with --model"
        )
    return rarrg.ReportGenerator.from_pretrained(
        options.model,
        store=options.store,
        threshold=options.threshold,
        device=options.device,
        writer=options,
        hear=hear,
    )


def _check_target(option: str, path: Path | None) -> None:
    if path is None:
        return
    with writing(path):
        if path.is_dir():
            raise RarrgError(f"{option} {path}: is a folder; name a file")
        if not path.parent.is_dir():
            raise RarrgError(f"{option} {path}: there is no folder {path.parent}; make it first")
        if not os.access(path.parent, os.W_OK):
            raise RarrgError(f"{option} {path}: the folder {path.parent} is not yours to write to")


def _infer_one(options: InferOptions, say: Callable[[str], None]) -> None:
    if options.ray is not None:
        raise RarrgError("--ray: is for a list of studies; name one with --input")
    for view, paths in (("frontal", options.frontal), ("lateral", options.lateral)):
        for path in paths:
            if not isinstance(path, Path):
                continue
            if path.is_dir():
                raise RarrgError(f"--{view} {path}: is a folder, not an image")
            if not path.is_file():
                raise RarrgError(f"--{view} {path}: no such file")
    if not (options.frontal or options.lateral):
        raise RarrgError("nothing to read: give --frontal IMAGE, --lateral IMAGE or both, or a list with --input")
    for name in ("out", "html", "attention"):
        _check_target(f"--{name}", getattr(options, name))

    streamed = options.writer == "llm" and sys.stderr.isatty()
    report, images, attention = _generator(options, _draft if streamed else None).explain(
        options.frontal, options.lateral
    )
    if streamed:
        _draft("\n\n")
    say(describe(report, options.findings))
    if options.out is not None:
        from rarrg.report.as_json import report_to_json

        write_json(options.out, report_to_json(report))
        say(f"Wrote {options.out}")
    if options.html is not None:
        from rarrg.report.html import render

        write_text(options.html, render(report, images, attention))
        say(f"Wrote {options.html}")
    if options.attention is not None:
        import numpy as np

        maps: dict[str, Any] = {str(position): values for position, values in attention.items()}
        with atomic_write(options.attention) as path, path.open("wb") as file:
            np.savez_compressed(file, **maps)
        say(f"Wrote {options.attention}")


def _draft(text: str) -> None:
    """Show a draft while it is written; what is printed in the end is the checked report."""
    sys.stderr.write(text)
    sys.stderr.flush()


def _infer_list(options: InferOptions, source: Path, say: Callable[[str], None]) -> int:
    for name in ("frontal", "lateral", "html", "attention"):
        if getattr(options, name):
            raise RarrgError(f"--{name} is for a single study; leave it out with --input")
    if options.out is None:
        raise RarrgError("--input: name the file for the reports with --out reports.jsonl")
    out = options.out
    studies = read_list(source)
    _check_target("--out", out)

    failed_path = out.with_name(f"{out.name}.failed.jsonl")
    failures = 0
    with ExitStack() as stack:
        stack.enter_context(held(out.with_name(f".{out.name}{LOCK}"), out))
        made_by, report = _reporter(options, stack)
        done = reports_in(out, made_by)
        for study in studies:
            if study.id in done and not is_of(done[study.id], study, source.parent):
                raise RarrgError(
                    f"{out}: the report of study {study.id} is of other images than {source} names; choose another "
                    "--out, or take its line out"
                )
        pending = [study for study in studies if study.id not in done]
        if len(pending) < len(studies):
            say(f"{len(studies) - len(pending)} of {len(studies)} studies are in {out} already")
        with writing(failed_path):
            failed_path.unlink(missing_ok=True)
        for name, found in tqdm(report(pending), total=len(pending), desc="studies", unit="study"):
            if isinstance(found, ImageError):
                append(failed_path, {"id": name, "error": str(found)})
                failures += 1
            else:
                append(out, {"id": name, **found})
    say(f"{len(pending) - failures} reports written to {out}")
    if failures:
        say(f"{failures} of {len(studies)} studies failed: see {failed_path}")
    return 1 if failures == len(studies) else 0


Reporter = Callable[[list[ListedStudy]], Iterator[tuple[str, dict[str, Any] | ImageError]]]


def _reporter(options: InferOptions, stack: ExitStack) -> tuple[Settings, Reporter]:
    """What decides the reports, and what writes them: this process, or a cluster."""
    if options.ray is None:
        from rarrg.study_stages import report_each

        generator = _generator(options)
        return Settings.of(generator), lambda studies: report_each(
            generator, ((study.id, study.frontal, study.lateral) for study in studies)
        )

    from rarrg.cluster import Cluster
    from rarrg.inference_on_ray import reports_of_vllm_on_ray, reports_on_ray
    from rarrg.llm.endpoints import EndpointPolicy

    # No cache of replies: a file that several machines write.
    there = replace(options, ray=None, llm=replace(options.llm, cache=None))
    cluster = stack.enter_context(Cluster(options.ray))
    backend = options.llm.chosen_backend if options.writer == "llm" else None
    if backend == "vllm":
        from rarrg.writers import llm_writer

        looking = replace(there, writer="join")
        # Here it retrieves nothing, and takes no GPU from the engines.
        generator = _generator(replace(looking, device="cpu"))
        cluster.check(EndpointPolicy(generator.store.credentialed, tuple(options.allow_hosts)))
        generator.writer = llm_writer(options, cluster.vllm(options.llm))
        return Settings.of(generator), lambda studies: reports_of_vllm_on_ray(
            cluster, lambda: _generator(looking), generator, studies
        )

    def described() -> dict[str, Any]:
        generator = _generator(there)
        return {"made_by": asdict(Settings.of(generator)), "credentialed": generator.store.credentialed}

    # A language model of the cluster's GPUs may not fit here.
    answer = cluster.ask(described, 1) if backend == "transformers" else described()
    cluster.check(EndpointPolicy(answer["credentialed"], tuple(options.allow_hosts)))
    return Settings(**answer["made_by"]), lambda studies: reports_on_ray(cluster, lambda: _generator(there), studies)
