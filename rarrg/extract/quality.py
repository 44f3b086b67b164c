"""What became of the phrases of an LLM: counts over all reports, and findings in which report and phrases differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rarrg.extract.cues import Labeler
from rarrg.extract.refine import REASONS, Refined, moves


@dataclass
class Quality:
    """Counts of an extraction, report by report.

    Attributes:
        reports: Reports with a reply.
        without_phrases: Reports of which no phrase was left.
        said: Phrases as the LLM wrote them.
        kept: Phrases that stayed.
        comparing_before: Phrases of the LLM that compare with an earlier study or tell how something moved.
        comparing_after: Kept phrases that do; 0 unless the rules fail.
        repaired: Comparing phrases that were put into the present.
        removed: Phrases that left, by reason.
        flagged: Unsupported phrases that were kept, because that was asked for.
        findings: Observations that a report affirms or denies, over all reports.
        turned: Those that the phrases state the other way round.
        lost: Those that no phrase speaks of.
    """

    reports: int = 0
    without_phrases: int = 0
    said: int = 0
    kept: int = 0
    comparing_before: int = 0
    comparing_after: int = 0
    repaired: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    flagged: int = 0
    findings: int = 0
    turned: int = 0
    lost: int = 0

    def add(self, said: Sequence[str], refined: Refined, findings: str, label: Labeler) -> list[dict[str, Any]]:
        """Count one report.

        Args:
            said: The LLM's phrases.
            refined: What stayed of them.
            findings: The report.
            label: Labels the observations of a text.

        Returns:
            A row for each observation that the report affirms or denies and the phrases do not: ``observation``,
            ``report`` and ``phrases`` (the states).
        """
        self.reports += 1
        self.without_phrases += not refined.phrases
        self.said += len(said)
        self.kept += len(refined.phrases)
        self.comparing_before += sum(map(moves, said))
        self.comparing_after += sum(map(moves, refined.phrases))
        self.repaired += sum(bool(removed.became) for removed in refined.removed)
        self.removed.update(removed.reason for removed in refined.removed if not removed.became)
        self.flagged += len(refined.unsupported)
        of_report, of_phrases = label(findings), label(". ".join(refined.phrases))
        rows = []
        for observation, state in of_report.items():
            if observation == "No Finding" or state not in ("positive", "negative"):
                continue
            self.findings += 1
            now = of_phrases[observation]
            if now != state:
                self.lost += now == "blank"
                self.turned += now in ("positive", "negative")
                rows.append({"observation": observation, "report": state, "phrases": now})
        return rows

    def as_dict(self) -> dict[str, Any]:
        """For ``quality.json``."""
        return {**vars(self), "removed": {reason: self.removed[reason] for reason in REASONS}}

    @classmethod
    def sum(cls, parts: Sequence[Mapping[str, Any]]) -> Quality:
        """The counts of several parts, each as :meth:`as_dict` gives them."""
        total = cls()
        for part in parts:
            for name, count in part.items():
                if name == "removed":
                    total.removed.update(count)
                else:
                    setattr(total, name, getattr(total, name) + count)
        return total

    def lines(self) -> list[str]:
        """For people."""
        each = self.kept / max(self.reports, 1)
        removed = ", ".join(f"{self.removed[reason]} that {why}" for reason, why in REASONS.items())
        flagged = f"; {self.flagged} kept all the same" if self.flagged else ""
        return [
            f"{self.reports} reports with a reply, {self.without_phrases} of them without a phrase in the end",
            f"{self.said} phrases written, {self.kept} kept, {each:.2f} a report",
            f"comparing with an earlier study: {self.comparing_before} before, {self.comparing_after} after; "
            f"{self.repaired} put into the present",
            f"left out: {removed}{flagged}",
            f"{self.findings} observations that reports affirm or deny: {self.turned} turned round, {self.lost} lost",
        ]
