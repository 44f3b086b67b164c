"""``rarrg extract``: reports -> RadGraph annotations -> RadGraph phrases -> key phrases refined by an LLM.

Each step reads the folder of the extraction and writes into it (:mod:`rarrg.extract.folder`), so that it can be run
alone, again, and in another environment than the step before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal

from rarrg.artifacts import write_json
from rarrg.cluster import Cluster
from rarrg.config import DataConfig
from rarrg.data.card import CARD, carried, carry_card, is_credentialed
from rarrg.data.studies import read_studies
from rarrg.errors import RarrgError
from rarrg.extract.folder import (
    FAILED,
    GRAPH_PHRASES,
    GRAPH_STEP,
    KEPT_STEP,
    QUALITY,
    REFINE_STEP,
    REPORTS,
    merge_shards,
    write_failures,
)
from rarrg.extract.key_phrases import KEY_PHRASES, extractor_of
from rarrg.extract.prompt import KeyPhrasePrompt, key_phrase_prompt
from rarrg.extract.reports import ReportText, read_reports, reports_of, write_reports
from rarrg.extract.stage import Do, Failure, Shard
from rarrg.extract_config import ExtractConfig
from rarrg.extraction_on_ray import spread
from rarrg.llm.chat import Sampling
from rarrg.llm.endpoints import EndpointPolicy
from rarrg.locking import LOCK, held

CACHE = "replies.sqlite"
SHOWN = 2
"""Prompts that a dry run shows."""

CHARACTERS_A_TOKEN = 4.0
"""English text in the vocabulary of Llama 3, roughly."""
TOKENS_A_REPLY = 110
"""Ten phrases as JSON, roughly."""


@dataclass
class SourceConfig:
    """Where the reports come from.

    Args:
        source: ``iu_xray`` or ``mimic_cxr``.
        root: Folder of the data set; not needed once ``reports.jsonl`` stands in the extraction folder.
    """

    source: Literal["iu_xray", "mimic_cxr"] = "iu_xray"
    root: str | None = None


@dataclass
class ExtractOptions:
    """What ``rarrg extract`` is asked for.

    Args:
        out: Folder of the extraction.
        data: Where the reports come from.
        extract: How they become key phrases.
        shard: Part of the reports to work on, as ``3/16``; ``rarrg extract merge`` joins the parts.
        limit: Work on the first reports only.
        dry_run: Show the first prompts and what the run would take, and write nothing.
        ray: Ray cluster that does the work, as ``auto``, ``HOST:6379`` or ``local``; null: this process does it. The
            model of ``extract.llm`` must be there on every machine; replies are not cached.
    """

    out: str = "runs/extract"
    data: SourceConfig = field(default_factory=SourceConfig)
    extract: ExtractConfig = field(default_factory=ExtractConfig)
    shard: str | None = None
    limit: int | None = None
    dry_run: bool = False
    ray: str | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise RarrgError(f"--limit: must be at least 1, got {self.limit}")


class Extraction:
    """One folder of an extraction and what is asked of it.

    Args:
        options: The options.
        say: Prints a line for the user.

    Raises:
        RarrgError: The options do not fit, or the reports cannot be read.
    """

    def __init__(self, options: ExtractOptions, say: Callable[[str], None]) -> None:
        self.out = Path(options.out)
        self.config = options.extract
        self._data = options.data
        self._limit = options.limit
        self._ray = options.ray
        self._shard = None if options.shard is None else Shard.parse(options.shard)
        self.folder = self.out if self._shard is None else self.out / self._shard.folder
        self._say = say
        self._unwritten: list[ReportText] | None = None
        root = None if options.data.root is None else Path(options.data.root)
        self._credentialed = is_credentialed(options.data.source, root)
        if root is not None:
            studies = read_studies(DataConfig(source=options.data.source, root=str(root)), seed=0, images=False)
            reports = list(reports_of(studies))
            self._say(f"{root}: {len(reports)} reports with findings of {len(studies)} studies")
            if options.dry_run:
                self._unwritten = reports
            else:
                self._write_reports(reports, root)
        elif not (self.out / REPORTS).exists():
            raise RarrgError(f"data.root: name the data set (--data.root DIR); {self.out / REPORTS} is not there yet")
        if self._unwritten is None:
            self._credentialed |= carried(self.out)

    def _write_reports(self, reports: list[ReportText], root: Path) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        with held(self.out / ".reports.lock", self.out, seconds=600):
            path = self.out / REPORTS
            same = path.exists() and (self.out / CARD).exists() and carried(self.out) == self._credentialed
            if same and all(mine == there for mine, there in zip_longest(reports, read_reports(path))):
                return
            # A run under way reads them as it goes, under the card that it found.
            for lock in [self.out / LOCK, *self.out.glob(f"shard-*/{LOCK}")]:
                with held(lock, lock.parent):
                    pass
            # Killed in between, the folder holds texts that may leave under a card that forbids it, never the reverse.
            if self._credentialed:
                carry_card(self._data.source, root, self.out)
            write_reports(reports, path)
            carry_card(self._data.source, root, self.out)

    @contextmanager
    def locked(self, merging: bool = False) -> Iterator[None]:
        """Keep other runs out of the folder, and of those of the shards that are merged."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            for folder in [self.folder, *(self.out.glob("shard-*-of-*") if merging else ())]:
                stack.enter_context(held(folder / LOCK, folder))
                # What a killed run was writing.
                for leftover in folder.glob(".*.tmp"):
                    leftover.unlink()
            if (self.out / CARD).exists():
                self._credentialed |= carried(self.out)
            yield

    def reports(self) -> Iterator[ReportText]:
        """The reports that are asked for, in order."""
        return self._of_shard(self._limit)

    def _of_shard(self, limit: int | None = None) -> Iterator[ReportText]:
        if self._unwritten is not None:
            reports: Iterator[ReportText] = islice(self._unwritten, limit)
        else:
            reports = read_reports(self.out / REPORTS, limit)
        return reports if self._shard is None else filter(self._shard.holds, reports)

    def graph(self) -> None:
        """Annotate by RadGraph and make RadGraph phrases."""
        from rarrg.extract.graph_step import annotate_reports, annotating
        from rarrg.extract.radgraph import RadGraphAnnotator

        annotator = RadGraphAnnotator(self.config.radgraph)
        with self._cluster() as cluster:
            do = None if cluster is None else spread(cluster, partial(annotating, annotator), gpus=1)
            failures = annotate_reports(self.reports, self.folder, annotator, do)
        self._conclude(GRAPH_STEP, failures)

    def rules(self) -> None:
        """Make key phrases by the rules, without any model."""
        from rarrg.extract.rules_step import by_rules, extract_with_rules

        with self._cluster() as cluster:
            do = by_rules if cluster is None else spread(cluster, lambda: by_rules)
            extract_with_rules(self.reports, self.folder / KEY_PHRASES, do)
        count = sum(1 for _ in self.reports())
        self._say(f"{self.folder / KEY_PHRASES}: key phrases of {count} reports, by the rules")

    def refine(self) -> None:
        """Have the LLM refine the phrases, and keep what the reports bear out."""
        from rarrg.extract.refine_step import ask_for_phrases, read_structure, without_structure, write_key_phrases
        from rarrg.metrics.findings import label_findings

        if self._credentialed:
            # What these packages tell their makers holds no text, but nobody asked for it.
            os.environ.update(VLLM_NO_USAGE_STATS="1", HF_HUB_DISABLE_TELEMETRY="1")
        path = self.folder / KEY_PHRASES
        if path.exists() and (made_by := extractor_of(path)) not in (None, "llm"):
            raise RarrgError(f"{path}: holds the phrases of extractor {made_by!r}; name another --out")
        graph, rules = self._structure(), self.config.structure == "rules"
        if graph is None and not rules:
            raise RarrgError(
                f"{self.folder / GRAPH_PHRASES}: is missing; run rarrg extract graph first, or take the phrases of the "
                "rules (--extract.structure=rules)"
            )
        llm, prompt = self.config.llm, key_phrase_prompt()
        sampling = Sampling(llm.temperature, llm.top_p, llm.max_tokens, llm.seed)
        with self._asking(rules, prompt, sampling) as (model, do):
            asked_with: dict[str, object] = {
                "model": model,
                "prompt_sha256": prompt.sha256,
                "sampling": asdict(sampling),
            }
            items = read_structure(self.reports, graph, asked_with)
            failures = [] if graph is None else without_structure(self.reports(), graph)
            failures += ask_for_phrases(items, self.folder, do)
            self._conclude(REFINE_STEP, failures)
            quality, empty = write_key_phrases(
                items, rules, self.folder, asked_with, label_findings, self.config.keep_unsupported
            )
            self._conclude(KEPT_STEP, empty)
            write_json(self.folder / QUALITY, quality.as_dict())
        for line in (f"{path}:", *quality.lines()):
            self._say(line)

    @contextmanager
    def _asking(self, rules: bool, prompt: KeyPhrasePrompt, sampling: Sampling) -> Iterator[tuple[str, Do]]:
        """The model's name, and what asks it."""
        from rarrg.extract.refine_step import asking
        from rarrg.llm.backends import open_backend
        from rarrg.llm.cache import ReplyCache

        llm = self.config.llm
        policy = EndpointPolicy(self._credentialed, tuple(self.config.allow_hosts))
        with self._cluster() as cluster:
            if cluster is not None and llm.chosen_backend != "vllm":
                on_gpus = 0 if llm.base_url else llm.tensor_parallel
                name = cluster.ask(lambda: {"model": open_backend(llm, policy).model}, on_gpus)["model"]
                yield (
                    name,
                    spread(
                        cluster,
                        lambda: asking(open_backend(llm, policy), rules, prompt, sampling, llm.attempts, None),
                        on_gpus,
                    ),
                )
                return
            with ReplyCache(Path(llm.cache or self.folder / CACHE)) as cache:
                backend = open_backend(llm, policy) if cluster is None else cluster.vllm(llm)
                yield backend.model, asking(backend, rules, prompt, sampling, llm.attempts, cache)

    @contextmanager
    def _cluster(self) -> Iterator[Cluster | None]:
        if self._ray is None:
            yield None
            return
        with Cluster(self._ray) as cluster:
            cluster.check(EndpointPolicy(self._credentialed, tuple(self.config.allow_hosts)))
            yield cluster

    def count(self) -> None:
        """Say how many reports there are to work on."""
        different = {report.sha256 for report in self.reports()}
        self._say(f"{sum(1 for _ in self.reports())} reports, {len(different)} different ones")

    def show_prompts(self) -> None:
        """Show the first prompts and what the LLM would have to read and write."""
        from rarrg.extract.refine_step import read_structure, structure_of

        prompt = key_phrase_prompt()
        graph, rules = self._structure(), self.config.structure == "rules"
        if graph is None and not rules:
            self._say("There are no RadGraph phrases yet; those of the rules stand in their place below.")
        items = read_structure(self.reports, graph, {})
        texts: set[str] = set()
        characters = 0
        for item in items():
            if item.report.sha256 in texts:
                continue
            texts.add(item.report.sha256)
            messages = prompt.messages(item.report.findings, structure_of(item, graph is None))
            characters += len(messages[-1].content)
            if len(texts) <= SHOWN:
                self._say("\n".join(f"[{message.role}]\n{message.content}\n" for message in messages))
        system = len(prompt.system) / CHARACTERS_A_TOKEN
        self.count()
        self._say(
            f"to read: about {characters / CHARACTERS_A_TOKEN / 1e6:.2f} million tokens, and without prefix caching "
            f"{len(texts) * system / 1e6:.2f} million of the system prompt; to write: about "
            f"{len(texts) * TOKENS_A_REPLY / 1e6:.2f} million"
        )

    def merge(self) -> None:
        """Join the shards' folders."""
        shards = merge_shards(self.out, self._of_shard)
        self._say(f"{self.out}: {shards} shards joined")

    def _structure(self) -> Path | None:
        """Where the RadGraph phrases are: of this shard, or of a run over all reports."""
        places = [] if self.config.structure == "rules" else [self.folder / GRAPH_PHRASES, self.out / GRAPH_PHRASES]
        return next((path for path in places if path.exists()), None)

    def _conclude(self, step: str, failures: list[Failure]) -> None:
        count = write_failures(self.folder, step, failures, self.reports(), self._of_shard())
        total = sum(1 for _ in self.reports())
        listed = f", listed in {self.folder / FAILED}" if count else ""
        self._say(f"{step}: {total} reports, {count} of them failed{listed}")


def extract(step: str, options: ExtractOptions, say: Callable[[str], None]) -> None:
    """Run a step of ``rarrg extract``.

    Args:
        step: ``graph``, ``refine``, ``rules`` or ``merge``; empty for all that end in refined key phrases.
        options: What is asked for.
        say: Prints a line for the user.

    Raises:
        RarrgError: A step cannot be done.
    """
    extraction = Extraction(options, say)
    if options.dry_run:
        if step in ("", "refine"):
            extraction.show_prompts()
        else:
            extraction.count()
        return
    steps = {
        "graph": [extraction.graph],
        "refine": [extraction.refine],
        "rules": [extraction.rules],
        "merge": [extraction.merge],
        "": [extraction.graph, extraction.refine] if options.extract.structure == "radgraph" else [extraction.refine],
    }
    with extraction.locked(merging=step == "merge"):
        for run in steps[step]:
            run()
