"""One order for the words before a finding: degree, age, kind, side, level, then the noun."""

from __future__ import annotations

import re

from rarrg.extract.lexicon import words

_DEGREES = words(
    """
    mild minimal moderate severe small large tiny slight subtle trace mildly minimally moderately severely slightly
    marked markedly huge massive vague faint borderline extensive significant prominent low numerous multiple
    several few single scattered subcentimeter mild-to-moderate
    """
)

_AGES = words("old remote healed healing chronic acute subacute")

_KINDS = words(
    """
    patchy streaky hazy focal diffuse dense calcified noncalcified rounded round coarse ill-defined
    well-circumscribed confluent lobar segmental
    """
)

_SIDES = words("left right bilateral")

_LEVELS = words(
    """
    upper middle mid lower lobe lung midlung zone base basilar apex apical hilar bibasilar biapical perihilar
    retrocardiac mediastinal lingular suprahilar infrahilar
    """
)

_REGION = (
    r"(?P<side>left|right) (?P<level>upper lobe|middle lobe|lower lobe|midlung|upper lung|lower lung"
    r"|lung base|base|lung apex|apex|apical region|perihilar region|hilum)"
)

_FRONTED = re.compile(
    rf"^(?P<n>no |possible )?(?P<head>(?:[\w./-]+ ){{0,5}}(?:opacit(?:y|ies)|granulomas?|nodules?"
    rf"|atelectasis|scarring|scar|consolidation|"
    rf"infiltrates?|densit(?:y|ies)|airspace disease|pneumonia|mass|calcifications?)) (?:in|within|of|at"
    rf"|involving|near|over|overlying)(?: the)? {_REGION}$"
)

_ADJECTIVE = {
    "lung base": "basilar",
    "base": "basilar",
    "lung apex": "apical",
    "apex": "apical",
    "apical region": "apical",
    "perihilar region": "perihilar",
    "hilum": "hilar",
}

_BASE_FIRST = re.compile(
    r"\b(left|right) (lung base|base|lung apex|apex) (?=(?:\w+ )?(?:opacit|granuloma|nodul|atelecta|scar"
    r"|consolid|infiltrat|densit|airspace|calcified))"
)

_ON_SIDE = re.compile(
    r"^(?P<n>no |possible )?(?P<d>(?:small|large|moderate|trace|tiny|mild) )?(?P<h>pleural effusion"
    r"|pneumothorax|picc|chest tube|pleural thickening) (?:(?:seen |noted )?on the (?P<a>left|right)"
    r"|(?P<b>bilaterally))$"
)

_RANKED = re.compile(
    r"^(?P<n>no |possible )?(?P<words>(?:[\w-]+ )+)(?P<head>opacity|opacities|granuloma|granulomas|nodule"
    r"|nodules|atelectasis|scarring|scar|consolidation|infiltrate|infiltrates|effusion|effusions|density"
    r"|densities|pneumothorax|airspace disease|pneumonia)$"
)


def front_region(phrase: str) -> str:
    """``calcified granuloma in the left upper lobe`` -> ``calcified left upper lobe granuloma``."""
    if side := _ON_SIDE.match(phrase):
        where = side["a"] or "bilateral"
        phrase = f"{side['n'] or ''}{side['d'] or ''}{where} {side['h']}"
    if match := _FRONTED.match(phrase):
        parts = match["head"].split()
        if not _SIDES & set(parts) and not {"or", "and", "with", "of", "in"} & set(parts):
            place = f"{match['side']} {_ADJECTIVE.get(match['level'], match['level'])}"
            cut = 2 if parts[-2:] == ["airspace", "disease"] else 1
            phrase = f"{match['n'] or ''}{' '.join([*parts[:-cut], place, *parts[-cut:]])}"
    return _BASE_FIRST.sub(lambda base: f"{base[1]} {_ADJECTIVE[base[2]]} ", phrase)


def _rank(word: str) -> int | None:
    if word in _DEGREES:
        return 0
    if word in _AGES:
        return 1
    if word in _SIDES:
        return 3
    if word in _LEVELS:
        return 4
    if word in _KINDS:
        return 2
    return (
        5
        if word
        in {
            "airspace",
            "pleural",
            "interstitial",
            "nodular",
            "subsegmental",
            "platelike",
            "discoid",
            "linear",
            "bandlike",
            "reticular",
        }
        else None
    )


def order_adjectives(phrase: str) -> str:
    """``left lower lobe small calcified granuloma`` -> ``small calcified left lower lobe granuloma``."""
    match = _RANKED.match(phrase)
    if match is None:
        return phrase
    parts = match["words"].split()
    ranks = [_rank(word) for word in parts]
    # two sides, or one word of unknown kind, and the order may carry meaning
    if any(rank is None for rank in ranks) or sum(rank == 3 for rank in ranks) > 1:
        return phrase
    ordered = [word for _, word in sorted(zip(ranks, parts, strict=True), key=lambda pair: pair[0] or 0)]
    return f"{match['n'] or ''}{' '.join(ordered)} {match['head']}"
