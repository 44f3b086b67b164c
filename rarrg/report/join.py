"""The retrieval-only report: phrases joined into sentences, without a language model (RA-RRG, section 3.3)."""

from __future__ import annotations

import unicodedata

from rarrg.types import Phrases, Position, Sentence

ORDER: tuple[Position, ...] = ("frontal", "lateral", "other")


def comparison_key(text: str) -> str:
    """What makes two phrases the same: case, punctuation and spacing do not count; ``<``, ``>`` and ``+`` do."""
    spaced = "".join(" " if unicodedata.category(character).startswith("P") else character for character in text)
    return " ".join(spaced.casefold().split())


def _sentence(text: str) -> str:
    words = " ".join(text.split()).rstrip(" .,;:")
    return words[:1].upper() + words[1:] + "."


def phrase_sentences(phrases: Phrases) -> list[Sentence]:
    """One sentence for each different phrase: the frontal's first, then what only the lateral adds.

    The first of a sentence's sources gave it its words.

    Args:
        phrases: Retrieved phrases of each view, in the order they shall be said.
    """
    texts: dict[str, str] = {}
    sources: dict[str, list[tuple[Position, int]]] = {}
    for position in ORDER:
        for index, phrase in enumerate(phrases.get(position, ())):
            key = comparison_key(phrase.text)
            texts.setdefault(key, phrase.text)
            sources.setdefault(key, []).append((position, index))
    return [Sentence(_sentence(text), tuple(sources[key])) for key, text in texts.items() if key]


def join_phrases(phrases: Phrases) -> str:
    """Write the report: the sentences of :func:`phrase_sentences` on one line.

    Args:
        phrases: Retrieved phrases of each view, in the order they shall be said.
    """
    return " ".join(sentence.text for sentence in phrase_sentences(phrases))
