"""Reports and their rule-based phrases -> ``replies.jsonl`` (what an LLM said) -> ``key_phrases.jsonl``.

What the LLM said is kept as it was said; what stays of it is decided afterwards, so that a better decision costs no
second call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from rarrg.artifacts import atomic_write, jsonl_line
from rarrg.errors import RarrgError
from rarrg.extract.cues import Labeler
from rarrg.extract.folder import DISAGREEMENTS, GRAPH_STEP, KEPT_STEP, REFINE_STEP, REMOVED, REPLIES, read_failures
from rarrg.extract.key_phrases import KEY_PHRASES
from rarrg.extract.prompt import KeyPhrasePrompt
from rarrg.extract.quality import Quality
from rarrg.extract.refine import Refined, refine
from rarrg.extract.reports import ReportText
from rarrg.extract.rules import VERSION as RULES_VERSION
from rarrg.extract.rules import extract_phrases
from rarrg.extract.stage import KEY_LENGTH, Do, Failure, Item, Items, Row, Rows, in_order, key_of, run_step
from rarrg.llm.asking import Answer, ask
from rarrg.llm.cache import ReplyCache
from rarrg.llm.chat import Backend, Request, Sampling

EXTRACTOR = "llm"
VERSION = 1
"""Version of what is kept of a reply; raised with every change that can change a phrase."""

_BLOCK = 256
_WORTH_PROCESSES = 5000  # reports; the others take less time than processes take to start
_Block = list[tuple[Item, Row]]


def read_structure(
    reports: Callable[[], Iterable[ReportText]], phrases: Path | None, asked_with: dict[str, object]
) -> Items:
    """The items of the step: each report with its rule-based phrases; one without RadGraph phrases is left out.

    Args:
        reports: Gives the reports, the same ones each time it is called.
        phrases: RadGraph phrases, a row a text; None takes those of the rules.
        asked_with: Model, prompt and sampling.
    """

    def from_rules() -> Iterator[Item]:
        for report in reports():
            yield Item(key_of(REFINE_STEP, asked_with, report.sha256, ["rules", RULES_VERSION]), report, ())

    def from_graph() -> Iterator[Item]:
        assert phrases is not None
        for report, found in _with_phrases(reports(), phrases):
            if found:
                yield Item(key_of(REFINE_STEP, asked_with, report.sha256, found), report, found)

    return from_rules if phrases is None else from_graph


def without_structure(reports: Iterable[ReportText], phrases: Path) -> list[Failure]:
    """Reports without RadGraph phrases; the paper trains on no such study (section 4.1.1).

    Raises:
        RarrgError: A report was never annotated, as after a run of ``graph`` over fewer reports.
    """
    failed = {
        row["text_sha256"]
        for rows in read_failures(phrases.parent).values()
        for row in rows
        if row["step"] == GRAPH_STEP
    }
    without: list[Failure] = []
    for report, found in _with_phrases(reports, phrases):
        if found is None and report.sha256 not in failed:
            raise RarrgError(
                f"{phrases}: has no row for the report of study {report.study_id}; run rarrg extract graph on all"
            )
        if not found:
            without.append(Failure(report.study_id, report.sha256, REFINE_STEP, "has no RadGraph phrases"))
    return without


def _with_phrases(reports: Iterable[ReportText], phrases: Path) -> Iterator[tuple[ReportText, tuple[str, ...] | None]]:
    """Each report with its RadGraph phrases, None where it has no row."""
    with Rows([phrases], _key_of_phrases) as rows:
        bare = (Item(_text_key(report.sha256), report) for report in reports)
        for item, row in in_order(lambda: bare, rows):
            yield item.report, None if row is None else tuple(row["phrases"])


def structure_of(item: Item, rules: bool) -> tuple[str, ...]:
    """The rule-based phrases of an item; those of the rules are made when they are needed."""
    return tuple(extract_phrases(item.report.findings)) if rules else item.phrases


def asking(
    backend: Backend, rules: bool, prompt: KeyPhrasePrompt, sampling: Sampling, attempts: int, cache: ReplyCache | None
) -> Do:
    """What asks the LLM about reports.

    Args:
        backend: The LLM.
        rules: Phrases of the items are those of the rules.
        prompt: What it is told.
        sampling: How replies are drawn.
        attempts: How often a report is asked about before it counts as failed.
        cache: Replies of earlier runs.
    """

    def do(todo: Iterator[Item]) -> Iterator[tuple[Item, Row | str]]:
        waiting: dict[str, Item] = {}

        def requests() -> Iterator[Request]:
            for item in todo:
                waiting[item.key] = item
                messages = prompt.messages(item.report.findings, structure_of(item, rules))
                yield Request(item.key, messages, prompt.schema, sampling)

        for outcome in ask(backend, requests(), attempts, cache):
            item = waiting.pop(outcome.request.key)
            yield item, _row(item, outcome, prompt, sampling) if isinstance(outcome, Answer) else outcome.reason

    return do


def ask_for_phrases(items: Items, folder: Path, do: Do) -> list[Failure]:
    """Ask the LLM about the reports that have no reply yet; the rows go into ``replies.jsonl``.

    Args:
        items: Of :func:`read_structure`.
        folder: The extraction folder.
        do: Of :func:`asking`, here or elsewhere.

    Returns:
        Reports without a usable reply.

    Raises:
        LLMError: The backend cannot answer at all.
        RarrgError: The file holds something else.
    """
    return run_step(REFINE_STEP, items, folder / REPLIES, _key, do)


def write_key_phrases(
    items: Items, rules: bool, folder: Path, asked_with: dict[str, object], label: Labeler, keep_unsupported: bool
) -> tuple[Quality, list[Failure]]:
    """Write what stays of the replies: ``key_phrases.jsonl``, ``removed.jsonl`` and ``disagreements.jsonl``.

    Args:
        items: Of :func:`read_structure`.
        rules: Their phrases are those of the rules.
        folder: The extraction folder.
        asked_with: Model, prompt and sampling, for provenance.
        label: Labels the observations of a text.
        keep_unsupported: Keep phrases that the report does not bear out.

    Returns:
        What became of the phrases, and the reports that ended without any.
    """
    quality, empty = Quality(), list[Failure]()
    paths = [folder / name for name in (KEY_PHRASES, REMOVED, DISAGREEMENTS)]
    provenance = {
        "extractor": EXTRACTOR,
        "version": VERSION,
        "asked_with": asked_with,
        "structure": "rules" if rules else "radgraph",
        "keep_unsupported": keep_unsupported,
    }
    with (
        Rows([folder / REPLIES], _key) as rows,
        atomic_write(paths[0]) as phrases_path,
        atomic_write(paths[1]) as removed_path,
        atomic_write(paths[2]) as disagreements_path,
        phrases_path.open("w", encoding="utf-8") as phrases_file,
        removed_path.open("w", encoding="utf-8") as removed_file,
        disagreements_path.open("w", encoding="utf-8") as disagreements_file,
    ):
        judge = partial(_judge, rules=rules, label=label, keep_unsupported=keep_unsupported)
        for block, judged in _in_processes(judge, _replied(items, rows), len(rows)):
            quality = Quality.sum([quality.as_dict(), judged.quality.as_dict()])
            for (item, _), refined, disagreements in zip(block, judged.refined, judged.disagreements, strict=True):
                study = {"study_id": item.report.study_id}
                made_by = {**provenance, "text_sha256": item.report.sha256}
                phrases_file.write(jsonl_line({**study, "key_phrases": list(refined.phrases), "provenance": made_by}))
                for removed in refined.removed:
                    removed_file.write(jsonl_line({**study, **vars(removed)}))
                for phrase in refined.unsupported:
                    kept = {"phrase": phrase, "reason": "unsupported", "became": [phrase]}
                    removed_file.write(jsonl_line({**study, **kept}))
                for disagreement in disagreements:
                    disagreements_file.write(jsonl_line({**study, **disagreement}))
                if not refined.phrases:
                    empty.append(Failure(item.report.study_id, item.report.sha256, KEPT_STEP, "no phrase was left"))
    return quality, empty


@dataclass(frozen=True)
class _Judged:
    """What stays of the replies of a block of reports."""

    refined: list[Refined]
    disagreements: list[list[dict[str, Any]]]
    quality: Quality


def _replied(items: Items, rows: Rows) -> Iterator[list[tuple[Item, Row]]]:
    """Reports with their replies, in blocks."""
    replied = ((item, row) for item, row in in_order(items, rows) if row is not None)
    while block := list(islice(replied, _BLOCK)):
        yield block


def _judge(block: _Block, rules: bool, label: Labeler, keep_unsupported: bool) -> _Judged:
    quality = Quality()
    judged = _Judged([], [], quality)
    for item, row in block:
        said, findings = row["key_phrase"], item.report.findings
        refined = refine(said, findings, structure_of(item, rules), label, keep_unsupported)
        judged.refined.append(refined)
        judged.disagreements.append(quality.add(said, refined, findings, label))
    return judged


def _in_processes(
    judge: Callable[[_Block], _Judged], blocks: Iterable[_Block], reports: int
) -> Iterator[tuple[_Block, _Judged]]:
    """Judge each block, on all cores where that is worth their start; in the order of the blocks."""
    if reports < _WORTH_PROCESSES:
        yield from ((block, judge(block)) for block in blocks)
        return
    waiting: deque[_Block] = deque()

    def drawn() -> Iterator[_Block]:
        for block in blocks:
            waiting.append(block)
            yield block

    pool = Parallel(n_jobs=-1, return_as="generator", pre_dispatch="2*n_jobs", batch_size=1)
    for judged in pool(delayed(judge)(block) for block in drawn()):
        yield waiting.popleft(), judged


def _row(item: Item, answer: Answer, prompt: KeyPhrasePrompt, sampling: Sampling) -> Row:
    completion = answer.completion
    return {
        "key": item.key,
        "study_id": item.report.study_id,
        "text_sha256": item.report.sha256,
        "key_phrase": answer.value["key_phrase"],
        "provenance": {
            "model": completion.model,
            "prompt_sha256": prompt.sha256,
            "sampling": vars(sampling),
            "attempts": answer.attempts,
            "finish_reason": completion.finish_reason,
            # Half of a surrogate pair can stand around the object, and no file can hold it.
            "reply": completion.text.encode("utf-8", "ignore").decode("utf-8"),
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": completion.completion_tokens,
            "seconds": round(completion.seconds, 4),
        },
    }


def _key_of_phrases(row: Row) -> str:
    list(row["phrases"])
    return _text_key(row["text_sha256"])


def _text_key(text_sha256: str) -> str:
    return text_sha256[:KEY_LENGTH]


def _key(row: Row) -> str:
    if not all(isinstance(phrase, str) for phrase in row["key_phrase"]):
        raise TypeError("key_phrase")
    return str(row["key"])
