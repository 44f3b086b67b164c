"""``key_phrases.jsonl``: what every extractor writes and training reads.

One row a study::

    {"study_id": "7", "key_phrases": ["no pneumothorax"],
     "provenance": {"extractor": ..., "version": ..., "text_sha256": ...}}

A study with empty findings has no row; a study whose findings gave no phrase has a row with an empty list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rarrg.artifacts import iterate_jsonl
from rarrg.errors import RarrgError
from rarrg.types import Study

KEY_PHRASES = "key_phrases.jsonl"


def read_key_phrases(path: Path) -> dict[str, tuple[str, ...]]:
    """Read an extractor's file: study id -> key phrases, in the order of the file.

    Raises:
        RarrgError: The file cannot be read, or a row lacks a key, holds a wrong type, or repeats a study.
    """
    phrases: dict[str, tuple[str, ...]] = {}
    known: dict[str, str] = {}  # a phrase is kept once, however many studies have it
    for number, row in enumerate(iterate_jsonl(path), start=1):
        where = f"{path}, row {number}"
        study_id = row.get("study_id")
        if not isinstance(study_id, str) or not study_id:
            raise RarrgError(f"{where}: study_id must be a non-empty text, got {study_id!r}")
        where = f"{where} (study {study_id})"
        if study_id in phrases:
            raise RarrgError(f"{where}: study_id is there a second time; keep one row a study")
        found = row.get("key_phrases")
        # Not a loop of its own: there are millions of phrases.
        if not isinstance(found, list) or {*map(type, found)} - {str} or not all(map(str.strip, found)):
            raise RarrgError(f"{where}: key_phrases must be a list of non-empty texts, got {found!r}")
        if not isinstance(row.get("provenance", {}), dict):
            raise RarrgError(f"{where}: provenance must be an object, got {row['provenance']!r}")
        phrases[study_id] = tuple(map(known.setdefault, found, found))
    return phrases


def with_key_phrases(studies: Sequence[Study], phrases: Mapping[str, tuple[str, ...]]) -> list[Study]:
    """Attach key phrases by study id; a study without an entry gets none."""
    return [replace(study, key_phrases=tuple(phrases.get(study.id, ()))) for study in studies]


def extractor_of(path: Path) -> str | None:
    """Which extractor wrote a file, by its first row; None where that does not say.

    Raises:
        RarrgError: The file cannot be read.
    """
    row = next(iterate_jsonl(path), None)
    provenance = None if row is None else row.get("provenance")
    return provenance.get("extractor") if isinstance(provenance, dict) else None
