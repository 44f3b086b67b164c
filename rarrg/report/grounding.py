"""Each sentence of a report traced to the retrieved phrases that bear it out (RA-RRG, section 3.3).

A language model that writes the report may only say what the phrases say. Sentences and phrases are read into claims
(:mod:`rarrg.extract.claims`), and each claim of the report is held to the claims of the phrases. What no phrase bears
out is a fault, and so is a phrase that the report does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rarrg.extract.claims import Claim, read_claims
from rarrg.extract.concepts import concept
from rarrg.extract.cues import NOR_IS, SENTENCE_END, Labeler
from rarrg.extract.earlier import compares_with_earlier
from rarrg.extract.pieces import Reading
from rarrg.report.join import ORDER, comparison_key
from rarrg.report.support import Support, support
from rarrg.types import Fault, FaultKind, Grounding, Phrases, Position, Sentence

__all__ = ["Labeler", "ground"]

_VIEW = re.compile(r"\b(frontal|lateral) (?:chest )?(?:view|projection|radiograph|image|film|x-?ray)")
_READINGS: tuple[Reading, ...] = ("last", "first", "every")


@dataclass(frozen=True)
class _Phrase:
    place: tuple[Position, int]
    text: str
    claims: tuple[Claim, ...]


def ground(report: str, phrases: Phrases, label: Labeler) -> Grounding:
    """Trace a report to its phrases.

    A finding, device, place, side, size or degree of certainty that no phrase bears out is a fault; so are a finding
    that phrases deny, one denied that they affirm, any other word that adds something ("history of", "recommend"), a
    view without phrases, a comparison with an earlier study, and a phrase that no sentence says. A phrase is said, too,
    where more than it is said. A sentence that claims nothing has neither sources nor faults.

    Args:
        report: The report; it may be empty.
        phrases: Retrieved phrases of each view.
        label: Labels the observations of a text.

    Returns:
        The sentences with their sources, and the faults: of the sentences in their order, then the omissions. An
        omission names the first of the phrases that have its words.
    """
    said = [
        _Phrase((view, index), phrase.text, read_claims(phrase.text))
        for view in ORDER
        for index, phrase in enumerate(phrases.get(view, ()))
    ]
    texts = [text for text in SENTENCE_END.split(report.strip()) if text]
    sentences: list[Sentence] = []
    faults: list[Fault] = []
    for text in texts:
        sources, details = _hold(text, said)
        details = [*_of_the_study(text, said, phrases), *_of_the_view(text, sources, said, phrases), *details]
        # whatever its claims were read as
        details = details or list(_unobserved(text, [phrase.text for phrase in said], label))
        sentences.append(Sentence(text, sources))
        faults += dict.fromkeys(Fault(_kind(kind, quoted, label), text, detail) for kind, quoted, detail in details)
    faults += _omissions(said, texts)
    return Grounding(tuple(sentences), tuple(faults))


_Found = tuple[FaultKind, str, str]
"""Kind, words and detail of a fault."""


def _hold(text: str, said: Sequence[_Phrase]) -> tuple[tuple[tuple[Position, int], ...], list[_Found]]:
    """Hold the claims of a sentence to those of the phrases: its sources, and what is lacking."""
    theirs = [(index, claim) for index, phrase in enumerate(said) for claim in _shared(phrase.claims)]
    claims = [claim for _, claim in theirs]
    readings = [_read(read_claims(text, reading), theirs, claims) for reading in _READINGS]
    # what one reading bears out is borne out
    sources, found = next((read for read in readings if not read[1]), readings[0])
    return tuple(said[index].place for index in sorted(sources)), found


def _read(
    told: Iterable[Claim], theirs: Sequence[tuple[int, Claim]], claims: Sequence[Claim]
) -> tuple[set[int], list[_Found]]:
    sources: set[int] = set()
    found: list[_Found] = []
    for claim in told:
        held = support(claim, claims)
        sources.update(theirs[index][0] for index in held.by)
        if held.lack is not None:
            found.append((held.lack, claim.text, f"{claim.text!r}: {_why(claim, held)}"))
    return sources, found


def _shared(claims: Sequence[Claim]) -> Iterator[Claim]:
    """The claims of one text with its places: "left opacity, likely atelectasis" names the side of both."""
    affirmed = [claim for claim in claims if not claim.general]
    covered = frozenset[str]().union(*(claim.covered for claim in affirmed))
    places = frozenset[str]().union(*(claim.places for claim in affirmed))
    for claim in claims:
        yield claim if claim.general else replace(claim, covered=claim.covered or covered, places=places)


def _why(claim: Claim, held: Support) -> str:
    if held.lack == "negation":
        return "the phrases say the opposite"
    if held.lack == "certainty":
        return f"the phrases are {'sure' if claim.hedged else 'not sure'} of it"
    if held.lack == "size":
        return "no phrase gives it this size"
    if held.lack == "side":
        return f"no phrase speaks of it on the {' or the '.join(sorted(held.missing))}"
    if claim.general:
        return "no phrase says so"
    words = [word for word in claim.text.split() if concept(word) in held.missing]
    return f"no phrase says {' '.join(words)!r} of it" if words else "no phrase says so"


def _kind(kind: FaultKind, words: str, label: Labeler) -> FaultKind:
    """The kind of a fault; what is wrong with a device is a kind of its own."""
    device = kind in ("unsupported", "side", "size") and label(words).get("Support Devices", "blank") != "blank"
    return "device" if device else kind


def _of_the_study(text: str, said: Sequence[_Phrase], phrases: Phrases) -> Iterator[_Found]:
    if compares_with_earlier(text):
        yield "comparison", text, f"{text!r}: it compares with an earlier study, of which nothing is known"
    for view in _VIEW.findall(text.lower()):
        if view not in phrases and not any(view in phrase.text.lower() for phrase in said):
            yield "unsupported", view, f"'{view} view': there is none"


def _of_the_view(
    text: str, sources: Sequence[tuple[Position, int]], said: Sequence[_Phrase], phrases: Phrases
) -> Iterator[_Found]:
    """A view that a sentence names, though what bears it out was retrieved for another one."""
    views = {view for view in _VIEW.findall(text.lower()) if view in phrases}
    borne = [phrase for phrase in said if phrase.place in sources]
    seen = {view for phrase in borne for view in _VIEW.findall(phrase.text.lower()) or [phrase.place[0]]}
    if borne and views and not views & seen:
        yield "unsupported", text, f"{text!r}: no phrase of the {' or the '.join(sorted(views))} view says so"


def _unobserved(text: str, phrases: Iterable[str], label: Labeler) -> Iterator[_Found]:
    """Observations that a sentence affirms or suspects and no phrase does."""
    labels = [label(phrase) for phrase in phrases]
    for name, state in label(NOR_IS.sub("or", text)).items():
        if name == "No Finding" or state not in ("positive", "uncertain"):
            continue
        states = {each.get(name, "blank") for each in labels}
        if not states & {"positive", "uncertain"}:
            kind: FaultKind = "negation" if "negative" in states else "unsupported"
            yield kind, text, f"{text!r}: no phrase speaks of {name.lower()} as present"


def _omissions(said: Sequence[_Phrase], texts: Sequence[str]) -> Iterator[Fault]:
    told = [claim for text in texts for reading in _READINGS for claim in _shared(read_claims(text, reading))]
    seen: set[str] = set()
    for phrase in said:
        key = comparison_key(phrase.text)
        if key not in seen and any(support(claim, told).lack not in (None, "certainty") for claim in phrase.claims):
            yield Fault("omission", phrase.text, f"{phrase.text!r}: the report does not say it")
        seen.add(key)
