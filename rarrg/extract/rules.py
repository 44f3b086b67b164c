"""FINDINGS -> key phrases without any model.

A key phrase is a short, lower-case noun phrase that states one thing one image can show: "no pleural effusion",
"mild cardiomegaly", "possible left basilar opacity". A negated phrase starts with "no", an uncertain one with
"possible". What is dropped: comparison with earlier studies (:mod:`rarrg.extract.comparison` holds the rule), dates,
names, technique, advice, and every statement that a de-identification mark robs of its meaning.

How a report is read (each step is a module or a function):

1. Sentences, one spelling, marks as one sign; technique and advice leave (:func:`rarrg.extract.sentences.sentences`).
2. Clauses, split where another statement begins (:func:`rarrg.extract.clauses.split_clauses`).
3. The present state of each clause (:func:`rarrg.extract.comparison.to_present`).
4. Its statement: negated lists are distributed, an uncertain reading is set apart from what was seen, a predicate goes
   before its noun, "a and b" is split where each is a finding of its own (:mod:`rarrg.extract.coordination`).
   Alternatives ("scarring or atelectasis") stay one phrase: each alone would claim too much.
5. One surface form for equal facts (:func:`rarrg.extract.canonical.canonical`).

Words that only grade the reader's certainty of an absence ("no definite", "no evidence of") fall away; words that
narrow what is absent ("no large", "no focal", "no displaced") stay.
"""

from __future__ import annotations

from functools import lru_cache

from rarrg.extract.canonical import canonical
from rarrg.extract.clauses import split_clauses
from rarrg.extract.comparison import COMPARISON_TERMS, compares, to_present
from rarrg.extract.sentences import sentences
from rarrg.extract.statements import read_statement

__all__ = ["COMPARISON_TERMS", "EXTRACTOR", "VERSION", "compares", "extract_phrases"]

EXTRACTOR = "rules"
VERSION = 3
"""Raised with every change that can change a phrase, so that files made by older rules are made anew."""

_ROUNDS = 6


def extract_phrases(findings: str) -> list[str]:
    """Extract the key phrases of one report.

    Args:
        findings: The FINDINGS section; any text, empty included.

    Returns:
        Lower-case phrases in the order of the report, each once. A phrase given back as findings yields itself.
    """
    return list(dict.fromkeys(phrase for sentence in sentences(findings) for phrase in _settled(sentence)))


@lru_cache(maxsize=1 << 15)
def _settled(sentence: str) -> tuple[str, ...]:
    """Read a sentence, then read what came out as if it were a report, until nothing changes any more."""
    phrases = _read(sentence)
    for _ in range(_ROUNDS):
        again = tuple(p for phrase in phrases for text in sentences(phrase) for p in _read(text))
        if again == phrases:
            break
        phrases = again
    return phrases


def _read(sentence: str) -> tuple[str, ...]:
    found: list[str] = []
    for clause in split_clauses(sentence):
        for statement in read_statement(to_present(clause)):
            phrase = canonical(statement)
            if phrase and not compares(phrase):
                found.append(phrase)
    return tuple(found)
