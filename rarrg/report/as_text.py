"""A report as text for a terminal."""

from __future__ import annotations

from pathlib import Path

from rarrg.types import Report


def describe(report: Report, heading: bool = False) -> str:
    """The report, what was done to it, and a table of each view's phrases, for a terminal.

    Args:
        report: The report.
        heading: Begin with ``FINDINGS:``.
    """
    lines = [f"FINDINGS: {report.text}" if heading else report.text]
    lines += [f"  {note}" for note in _notes(report)]
    for view, phrases in report.phrases.items():
        files = report.images[view]
        lines += ["", f"{view} view: {', '.join(files)}"]
        if view in report.below_threshold:
            lines.append(f"  no query passed the threshold {report.threshold:g}; this is the most probable one")
        lines.append("  probability  similarity  phrase")
        lines += [
            f"  {phrase.probability:11.3f}  {phrase.similarity:10.3f}  {phrase.text}"
            + (f"  ({Path(files[phrase.image]).name})" if len(files) > 1 else "")
            for phrase in phrases
        ]
        lines += [f"  dropped: {each.phrase.text} ({each.reason})" for each in report.dropped if each.view == view]
    return "\n".join(lines)


def _notes(report: Report) -> list[str]:
    """What was done to a language model's drafts."""
    grounding = report.grounding
    notes = [f"fault: {fault.detail}" for fault in grounding.faults]
    for number, faults in enumerate(grounding.drafts, start=1):
        notes += [f"draft {number}: {fault.detail}" for fault in faults]
    notes += [f"taken out: {sentence}" for sentence in grounding.removed]
    notes += [f"added: {phrase}" for phrase in grounding.added]
    if grounding.joined:
        notes.append("no draft could be used; the phrases were joined")
    return notes
