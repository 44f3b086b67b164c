"""Words that turn a statement: its side, its doubt, and where its sentence ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Labeler = Callable[[str], Mapping[str, str]]
"""Text to the state of each observation: ``positive``, ``negative``, ``uncertain`` or ``blank``."""

SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=\S)")
HEDGE = r"possibl[ey]|probabl[ey]|maybe|likely|may|might|could|suspect\w*|questionable|suggest\w*|versus|vs|cannot"

NOR_IS = re.compile(r"\bnor (?:is|are|was|were)(?: there)?\b")

_LEFT = re.compile(r"\b(?:left|l[ul]l|lingula\w*)\b")
_RIGHT = re.compile(r"\b(?:right|r[uml]l|middle lobe)\b")
_BOTH = re.compile(
    r"\b(?:bilateral(?:ly)?|both|bi(?:basilar|basal|apical|hilar|lateral)|(?:on|at|in) (?:either|each) side)\b"
)
# A plural of a paired organ speaks of both sides where no side is named, though a phrase that has it claims neither.
_PAIRED = re.compile(
    r"\b(?:bases|apices|hila|lungs|angles|effusions|(?:hemi)?diaphragms|hemithoraces|lobes|opacities|bronchi|clavicles"
    r"|shoulders|ribs|pneumothoraces|densities|infiltrates|consolidations|nodules|granulomas)\b"
)
_EITHER = frozenset({"left", "right"})


def named_sides(text: str) -> frozenset[str]:
    """The sides, ``left`` and ``right``, that a lower-case text names."""
    if _BOTH.search(text):
        return _EITHER
    return frozenset(side for side, named in (("left", _LEFT), ("right", _RIGHT)) if named.search(text))


def covered_sides(text: str) -> frozenset[str]:
    """The sides that a lower-case text speaks of: those it names, or both for a plural of a paired organ."""
    return named_sides(text) or (_EITHER if _PAIRED.search(text) else frozenset())
