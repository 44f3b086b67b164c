"""``a and b``: two findings become two phrases, but only where neither can lose a word it shares with the other."""

from __future__ import annotations

import re

from rarrg.extract.lexicon import AFFIRMING, has_head, is_anatomy, names_finding

# where a noun phrase goes on after its noun: "opacity | in the left upper lobe"
_TAIL = re.compile(
    r" (?:in|of|at|within|over|on|throughout|along|near|involving|overlying|projecting|measuring|with|above|below|to"
    r"|adjacent|bilaterally|greater|greatest|more|most)\b.*$"
)
_SIDE = re.compile(r"\b(?:left|right|bilateral|bilaterally|bibasilar|biapical)\b|\b(?:left|right)-sided\b")
# there is one place for it in the body, so no other place or side can be meant for it
_ROOTED = re.compile(
    r"\b(?:cardiomegaly|cardiac enlargement|(?:enlarged|large|prominent) (?:heart|cardiac silhouette)"
    r"|(?:enlarged|tortuous|ectatic|calcified|unfolded) (?:thoracic )?aorta|hyper(?:inflation|expansion|inflated lungs)"
    r"|flattened diaphragms|expansion of the retrosternal (?:clear |air)?space|hiatal hernia|sternotomy"
    r"|(?:endotracheal|nasogastric|orogastric|enteric|feeding|ng|et) tube"
    r"|pacemaker)\b"
)
_STATED = re.compile(
    r"^(?:the )?(?:(?:mild|moderate|severe|slight|marked)(?:ly)? )?(?:normal|clear|intact|enlarged|tortuous|ectatic"
    r"|calcified|prominent|elevated|flattened|low|borderline|hyper\w+|expanded|unfolded|increased|decreased|obscured|blunted)\b"
)
_NODES = re.compile(r"\bcalcified (?:\w+ )?(?:lymph )?nodes?$")
# "stable cardiomegaly and mediastinal contour": a bare part after it takes nothing from it
_TAKES_NO_PART = re.compile(r"\b(?:cardiomegaly|normal size)$")
_AMOUNT = re.compile(r"\bamounts? of ")
# what follows speaks of both sides, or ties them to each other
_BINDING = re.compile(
    r" or |/or\b|\bbetween\b|\b(?:secondary|due|related) to\b|\b(?:corresponding|indicat|respectively|combination)\w*"
)


def split_findings(text: str) -> list[str]:
    """Split ``a and b`` where each side is a finding that stands on its own; otherwise give the text back whole.

    Adjectives, places or sides before one noun ("bibasilar and left perihilar opacities") stay whole, and so does a
    pair that may share a place ("scarring and volume loss in the right upper lobe").

    Args:
        text: A lower-case noun phrase without a negation or a doubt in front.
    """
    parts = text.split(" and ")
    if len(parts) != 2 or _BINDING.search(text):
        return [text]
    left, right = parts
    if text.startswith("normal ") and is_anatomy(left) and is_anatomy(right):
        return [text]
    if _TAKES_NO_PART.search(left) and is_anatomy(right) and not _stands_alone(right):
        return [left, right]
    if not (_stands_alone(left) and _stands_alone(right)):
        return [text]
    if _TAIL.search(right) and not _TAIL.search(left):
        # the end of the text may belong to both, unless the first is placed already
        apart = _ROOTED.search(left) or (_SIDE.search(left) and _SIDE.search(right))
    else:
        apart = _ROOTED.search(right) or _SIDE.search(right) or AFFIRMING.match(right)
    return [left, right] if apart else [text]


def _stands_alone(side: str) -> bool:
    core = _TAIL.sub("", _AMOUNT.sub("", side))
    return (
        names_finding(core)
        or _ROOTED.search(side) is not None
        or _NODES.search(core) is not None
        or (_STATED.match(core) is not None and has_head(core))
    )
