"""The list under one negation: how far it reaches and what each member says."""

from __future__ import annotations

import re

from rarrg.extract.lexicon import drop_seen, has_head
from rarrg.extract.organs import ADJECTIVE_ALONE

_ITEM = re.compile(r"(,? *\bor/?and\b *|,? *\band/or\b *|, *(?:and |or |nor )?| (?:and|or|nor) | */ *)")

_EMPTY_HEAD = re.compile(
    r"^(?:(?:any|other|definite|definitely|convincing|obvious|apparent|typical|gross|radiographic|visible"
    r"|visualized|further|evident|additional|"
    r"identifiable|discernible|clear|direct|strong|specific|plain film|active|overt|¤) )*"
    r"(?:(?:evidence|signs?|findings?|indications?|suggestion|sequelae?|features?|area|areas|focus|foci"
    r"|regions?|pattern)(?: (?:of|for|to suggest|suggestive of|suggesting|suggest|suspicious for"
    r"|compatible with|consistent with))+ )?"
    r"(?:(?:an?|the|any|definite|visible|visualized|obvious|gross|convincing|typical|¤) )*"
)

# a comma forgotten between two absent findings
_NO_COMMA = re.compile(
    r"\b(consolidations?|airspace disease|pneumothora(?:x|ces)|effusions?) (?=(?:focal|large|pneumothora"
    r"|pleural effusion))"
)

_FOCAL_AREA = re.compile(r"\b(focal |acute |abnormal )?(?:areas?|foci|focus) of (?:focal )?")

_STOPS = re.compile(
    r"^(?:the |a |an )?(?:mild|mildly|moderate|small|minimal|tiny|stable|low|tortuous|normal|heart|lungs"
    r"|mediastin|cardi|there|calcified|scattered|chronic|old|"
    r"multiple|degenerative|unchanged|left|right|bilateral|clear|intact|elevated|possible|slight|prominent"
    r"|trachea|healed|surgical|status post|"
    r"sternotomy|hyper)(?![a-z]*(?: effusion| pneumothora| or | infiltrate| consolidation))"
)

_GRADED = re.compile(r"(?:a |an )?(?:mild|mildly|moderately|minimal|stable|tortuous|degenerative|scattered)\b")
_LOCATION = re.compile(r" (?:in|within|on|at|throughout) (?:the |either |both |each )?(?!time|this)[^,]*$")

_TO_SUGGEST = re.compile(
    r",? *\b(?:to (?:suggest|indicate)|suggesting|suggestive of|suspicious for|concerning for|worrisome for"
    r"|compatible with|consistent with)\b *(?:the |an? )?"
)

_KIN = (
    {"nodule", "nodules", "mass", "masses", "lesion", "lesions", "opacity", "opacities"},
    {"fracture", "fractures", "dislocation", "dislocations", "subluxation"},
)


def negated_list(body: str) -> tuple[list[str], str]:
    """``focal consolidation, effusion, or pneumothorax`` under one "no" -> one phrase each.

    Args:
        body: What follows the word of negation.

    Returns:
        Phrases with "no" in front, and the rest of the text that the negation does not reach.
    """
    body = drop_seen(f"{body} ")
    body = _NO_COMMA.sub(r"\1, ", body)
    pieces = _ITEM.split(body)
    items: list[str] = []
    rest = ""
    joined = ""
    for index in range(0, len(pieces), 2):
        piece = pieces[index].strip()
        if items and not joined and _ends_reach(piece, pieces[index - 1], "".join(pieces[index + 1 :: 2])):
            rest = "".join(pieces[index:])
            break
        text = f"{joined}{piece}"
        separator = pieces[index + 1] if index + 1 < len(pieces) else ""
        if (separator and not has_head(_EMPTY_HEAD.sub("", text))) or ADJECTIVE_ALONE.match(text):
            joined = f"{text} " if separator.strip() == "," else f"{text} or "
            continue
        joined = ""
        items.append(text)
    if joined.strip():
        items.append(re.sub(r" or $", "", joined))
    place = _LOCATION.search(items[-1]) if len(items) > 1 else None
    where = place[0] if place and not re.search(r"\b(?:view|image|exam|study)", place[0]) else ""
    phrases: list[str] = []
    shared = ""
    for index, item in enumerate(items):
        item = _FOCAL_AREA.sub(lambda area: area[1] or "", _EMPTY_HEAD.sub("", item))
        item = re.sub(r" or $", "", item)
        item = _share_adjective(shared, item)
        shared = item
        if where and index < len(items) - 1 and not _LOCATION.search(item):
            item += where
        parts = _TO_SUGGEST.split(item)
        for part in parts:
            part = _EMPTY_HEAD.sub("", part)
            phrases.append(f"no {part.strip()}")
    return phrases, rest


def _ends_reach(piece: str, separator: str, later: str) -> bool:
    """Say whether a member of the list is affirmed: ``no effusion, mild cardiomegaly``.

    After "or" nothing is; a place or a size alone ("or left effusion") affirms only where no "or" follows.
    """
    if re.search(r"\b(?:is|are|normal|intact)\b", piece):
        return True
    if re.search(r"\b(?:or|nor)\b", separator) or _STOPS.match(piece) is None:
        return False
    return re.search(r"\b(?:or|nor)\b", later) is None or _GRADED.match(piece) is not None


def _share_adjective(before: str, item: str) -> str:
    """``suspicious nodules or masses``: the adjective narrows both, for a bare "no masses" would claim more."""
    words, last = item.split(), before.split()
    for kin in _KIN:
        if len(words) == 1 and words[0] in kin and len(last) > 1 and last[-1] in kin:
            return f"{' '.join(last[:-1])} {item}"
    return item
