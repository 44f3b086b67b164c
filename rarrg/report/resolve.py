"""Of retrieved phrases that contradict each other, keep one (RA-RRG, appendix C, figure 9)."""

from __future__ import annotations

from typing import NamedTuple

from rarrg.extract.claims import read_claims
from rarrg.extract.cues import Labeler
from rarrg.report.contradiction import contradict
from rarrg.report.join import ORDER
from rarrg.types import Dropped, Phrases, Position, Precedence, RetrievedPhrase


class Resolved(NamedTuple):
    """Phrases of which no two contradict each other.

    Attributes:
        phrases: Those that stay, of every view, in their order.
        dropped: Those that gave way, each with the phrase that stayed.
    """

    phrases: dict[Position, tuple[RetrievedPhrase, ...]]
    dropped: tuple[Dropped, ...]


def resolve(phrases: Phrases, label: Labeler, precedence: Precedence) -> Resolved:
    """Drop the phrases that contradict one with precedence.

    Frontal views go before lateral ones, and these before others. Within a view, by ``findings``, a phrase that affirms
    or suspects something goes before one that only denies or calls normal: denials are so frequent that they are nearly
    always the more probable ones, and a finding has passed the selection threshold in spite of that. Then, by either
    precedence, the more probable phrase goes first, and of two as probable, the one that stands first. A phrase stays
    unless it contradicts one that stays already, so a phrase never gives way to one that is itself dropped.

    Args:
        phrases: Retrieved phrases of each view.
        label: Labels the observations of a text.
        precedence: What goes first; ``nothing`` leaves all phrases in.
    """
    if precedence == "nothing":
        return Resolved({view: tuple(own) for view, own in phrases.items()}, ())
    kept: list[tuple[Position, int]] = []
    dropped: list[Dropped] = []
    for view in ORDER:
        own = phrases.get(view, ())
        affirms = [precedence == "findings" and _affirms(phrase.text) for phrase in own]
        for index in sorted(range(len(own)), key=lambda place: (not affirms[place], -own[place].probability)):
            phrase = own[index]
            for kept_view, place in kept:
                rival = phrases[kept_view][place]
                if contradict(phrase.text, rival.text, label):
                    dropped.append(Dropped(view, phrase, kept_view, rival, _reason(view, phrase, kept_view, rival)))
                    break
            else:
                kept.append((view, index))
    stays = {
        view: tuple(phrase for index, phrase in enumerate(own) if (view, index) in set(kept))
        for view, own in phrases.items()
    }
    return Resolved(stays, tuple(dropped))


def _affirms(text: str) -> bool:
    return any(not (claim.general or claim.concepts == {"normal"}) for claim in read_claims(text))


def _reason(view: Position, phrase: RetrievedPhrase, kept_view: Position, kept: RetrievedPhrase) -> str:
    if view != kept_view:
        return f"the {kept_view} view goes before the {view} one"
    if phrase.probability > kept.probability:
        return f"{kept.text!r} affirms, though less probable ({kept.probability:.2f} against {phrase.probability:.2f})"
    if phrase.probability < kept.probability:
        return f"less probable ({phrase.probability:.2f} against {kept.probability:.2f})"
    return "as probable, and said later"
