"""``rarrg extract``: reports -> RadGraph annotations -> RadGraph phrases -> key phrases refined by an LLM.

Each step reads the folder of the extraction and writes into it (:mod:`rarrg.extract.folder`), so that it can be run
alone, again, and in another environment than the step before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from rarrg.artifacts import write_json
from rarrg.config import DataConfig
from rarrg.data.card import carried, carry_card
from rarrg.data.studies import read_studies
from rarrg.errors import RarrgError
from rarrg.extract.folder import FAILED, GRAPH_PHRASES, REPORTS, merge_shards, write_failures
from rarrg.extract.key_phrases import KEY_PHRASES
from rarrg.extract.prompt import key_phrase_prompt
from rarrg.extract.reports import ReportText, read_reports, reports_of, write_reports
from rarrg.extract.stage import Failure, Items, Shard
from rarrg.extract_config import ExtractConfig
from rarrg.llm.chat import Sampling
from rarrg.llm.endpoints import EndpointPolicy

log = logging.getLogger(__name__)

QUALITY = "quality.json"
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
        dry_run: Show the first prompts and what the run would take, and do nothing.
    """

    out: str = "runs/extract"
    data: SourceConfig = field(default_factory=SourceConfig)
    extract: ExtractConfig = field(default_factory=ExtractConfig)
    shard: str | None = None
    limit: int | None = None
    dry_run: bool = False

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
        self._limit = options.limit
        self._shard = None if options.shard is None else Shard.parse(options.shard)
        self.folder = self.out if self._shard is None else self.out / self._shard.folder
        self._say = say
        self._write_reports(options.data)

    def _write_reports(self, data: SourceConfig) -> None:
        path = self.out / REPORTS
        if data.root is None:
            if not path.exists():
                raise RarrgError(f"data.root: name the data set (--data.root DIR); {path} is not there yet")
            return
        root = Path(data.root)
        studies = read_studies(DataConfig(source=data.source, root=data.root), seed=0)
        write_reports(reports_of(studies), path)
        carry_card(data.source, root, self.out)
        self._say(f"{path}: {sum(1 for _ in read_reports(path))} reports with findings of {len(studies)} studies")

    def reports(self) -> Iterator[ReportText]:
        """The reports that are asked for, in order."""
        reports = read_reports(self.out / REPORTS, self._limit)
        return reports if self._shard is None else filter(self._shard.holds, reports)

    def graph(self) -> None:
        """Annotate by RadGraph and make RadGraph phrases."""
        from rarrg.extract.graph_step import STEP, annotate_reports
        from rarrg.extract.radgraph import RadGraphAnnotator

        failures = annotate_reports(self.reports, self.folder, RadGraphAnnotator(self.config.radgraph))
        self._conclude(STEP, failures)

    def rules(self) -> None:
        """Make key phrases by the rules, without any model."""
        from rarrg.extract.rules_step import extract_with_rules

        extract_with_rules(self.reports, self.folder / KEY_PHRASES)
        self._say(f"{self.folder / KEY_PHRASES}: key phrases of {sum(1 for _ in self.reports())} reports, by the rules")

    def refine(self) -> None:
        """Have the LLM refine the phrases, and keep what the reports bear out."""
        from rarrg.extract.refine_step import STEP, ask_for_phrases, write_key_phrases
        from rarrg.llm.backends import open_backend
        from rarrg.llm.cache import ReplyCache
        from rarrg.metrics.findings import label_findings

        llm, prompt = self.config.llm, key_phrase_prompt()
        backend = open_backend(llm, EndpointPolicy(carried(self.out), tuple(self.config.allow_hosts)))
        cache = None if llm.cache is None else ReplyCache(Path(llm.cache))
        items, rules, asked_with = self._items()
        failures = ask_for_phrases(items, rules, self.folder, backend, prompt, self._sampling(), llm.attempts, cache)
        self._conclude(STEP, failures)
        quality, empty = write_key_phrases(
            items, rules, self.folder, asked_with, label_findings, self.config.keep_unsupported
        )
        self._conclude("key phrases", empty)
        write_json(self.folder / QUALITY, quality.as_dict())
        for line in (f"{self.folder / KEY_PHRASES}:", *quality.lines()):
            self._say(line)

    def dry_run(self) -> None:
        """Show the first prompts and what the LLM would have to read and write."""
        from rarrg.extract.refine_step import structure_of

        prompt = key_phrase_prompt()
        items, rules, _ = self._items()
        texts: set[str] = set()
        characters = reports = 0
        for item in items():
            reports += 1
            if item.key in texts:
                continue
            texts.add(item.key)
            messages = prompt.messages(item.report.findings, structure_of(item, rules) or ())
            characters += len(messages[-1].content)
            if len(texts) <= SHOWN:
                self._say("\n".join(f"[{message.role}]\n{message.content}\n" for message in messages))
        system = len(prompt.system) / CHARACTERS_A_TOKEN
        own = characters / CHARACTERS_A_TOKEN
        self._say(
            f"{reports} reports, {len(texts)} different ones; to read about {own / 1e6:.2f} million tokens, and "
            f"without prefix caching {len(texts) * system / 1e6:.2f} million of the system prompt; to write about "
            f"{len(texts) * TOKENS_A_REPLY / 1e6:.2f} million"
        )

    def merge(self) -> None:
        """Join the shards' folders."""
        self._say(f"{self.out}: {merge_shards(self.out, self.reports)} shards joined")

    def _items(self) -> tuple[Items, bool, dict[str, object]]:
        from rarrg.extract.refine_step import read_structure

        rules = self.config.structure == "rules"
        graph = None
        if not rules:
            candidates = [self.folder / GRAPH_PHRASES, self.out / GRAPH_PHRASES]
            graph = next((path for path in candidates if path.exists()), None)
            if graph is None:
                raise RarrgError(
                    f"{candidates[0]}: is missing; run rarrg extract graph first, or take the phrases of the rules "
                    "(--extract.structure=rules)"
                )
        prompt = key_phrase_prompt()
        asked_with: dict[str, object] = {
            "model": self.config.llm.model,
            "prompt_sha256": prompt.sha256,
            "sampling": asdict(self._sampling()),
        }
        return read_structure(self.reports, graph, asked_with), rules, asked_with

    def _sampling(self) -> Sampling:
        llm = self.config.llm
        return Sampling(llm.temperature, llm.top_p, llm.max_tokens, llm.seed)

    def _conclude(self, step: str, failures: list[Failure]) -> None:
        count = write_failures(self.folder, step, failures, self.reports())
        total = sum(1 for _ in self.reports())
        listed = f", listed in {self.folder / FAILED}" if count else ""
        self._say(f"{step}: {total} reports, {count} of them failed{listed}")


def extract(command: str, options: ExtractOptions, say: Callable[[str], None]) -> None:
    """Run a command of ``rarrg extract``.

    Args:
        command: ``graph``, ``refine``, ``rules`` or ``merge``; empty for all that ends in refined key phrases.
        options: What is asked for.
        say: Prints a line for the user.

    Raises:
        RarrgError: A step cannot be done.
    """
    extraction = Extraction(options, say)
    if options.dry_run:
        extraction.dry_run()
    elif command:
        {
            "graph": extraction.graph,
            "refine": extraction.refine,
            "rules": extraction.rules,
            "merge": extraction.merge,
        }[command]()
    else:
        if extraction.config.structure == "radgraph":
            extraction.graph()
        extraction.refine()
