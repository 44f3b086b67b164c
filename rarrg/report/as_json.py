"""A report as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rarrg.types import Fault, Report


def report_to_json(report: Report) -> dict[str, Any]:
    """A report as JSON values.

    Returns:
        ``text``; ``phrases`` (of each view: ``id``, ``text``, ``probability``, ``similarity``, ``query``, ``image``);
        ``dropped`` (phrases that contradicted others: ``view``, ``text``, ``probability``, ``kept_view``, ``kept``,
        ``reason``); ``grounding`` (``sentences`` with ``text`` and the ids of their ``phrases``, ``faults``,
        ``drafts``, ``removed``, ``added``, ``joined``; see :class:`rarrg.types.Grounding`); ``writer``, ``resolve``,
        ``images``, ``below_threshold``, ``version``, ``model``, ``store`` and ``thresholds``.
    """
    grounding = report.grounding
    return {
        "text": report.text,
        "phrases": {
            view: [{"id": f"{view}-{place}", **asdict(phrase)} for place, phrase in enumerate(phrases)]
            for view, phrases in report.phrases.items()
        },
        "dropped": [
            {
                "view": each.view,
                "text": each.phrase.text,
                "probability": each.phrase.probability,
                "kept_view": each.kept_view,
                "kept": each.kept.text,
                "reason": each.reason,
            }
            for each in report.dropped
        ],
        "grounding": {
            "sentences": [
                {"text": sentence.text, "phrases": [f"{view}-{place}" for view, place in sentence.sources]}
                for sentence in grounding.sentences
            ],
            "faults": _plain(grounding.faults),
            "drafts": [_plain(faults) for faults in grounding.drafts],
            "removed": list(grounding.removed),
            "added": list(grounding.added),
            "joined": grounding.joined,
        },
        "writer": report.writer,
        "resolve": report.resolve,
        "images": {view: list(files) for view, files in report.images.items()},
        "below_threshold": list(report.below_threshold),
        "version": report.version,
        "model": report.model,
        "store": report.store,
        "thresholds": {"selection": report.threshold},
    }


def _plain(faults: tuple[Fault, ...]) -> list[dict[str, str]]:
    return [asdict(fault) for fault in faults]
