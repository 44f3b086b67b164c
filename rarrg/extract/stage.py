"""The extraction stage: studies -> ``key_phrases.jsonl``, and the same file back.

One row a study, whichever extractor wrote it::

    {"study_id": "7", "key_phrases": ["no pneumothorax"],
     "provenance": {"extractor": ..., "version": ..., "text_sha256": ...}}

A study with empty findings has no row; a study whose findings gave no phrase has a row with an empty list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rarrg.artifacts import read_jsonl, write_jsonl
from rarrg.errors import RarrgError
from rarrg.extract.rules import EXTRACTOR, VERSION, extract_phrases
from rarrg.types import Study


def extract_with_rules(studies: Sequence[Study], path: Path) -> None:
    """Write the key phrases of every study with findings, by the rules.

    Work is kept as it is done in ``<name>.partial`` beside ``path``, one flushed line a text; a later call goes on
    from there. Rows already in ``path`` are kept where text, extractor and version still match. Equal findings are
    read once. The finished file replaces ``path`` in one step and follows the order of the studies.

    Args:
        studies: Studies with unique ids.
        path: The file to write; its folder is created.

    Raises:
        RarrgError: A study id is there twice, or ``path`` holds another extractor's rows or no rows at all.
    """
    _check_unique(studies)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    known = {**_finished(path), **_finished(partial)}
    texts = {text_sha256(study.findings): study.findings for study in studies if study.findings.strip()}
    missing = [digest for digest in texts if digest not in known]
    if missing:
        _drop_torn_line(partial)
        with partial.open("a", encoding="utf-8") as file:
            for digest in tqdm(missing, desc="key phrases", unit="report"):
                known[digest] = extract_phrases(texts[digest])
                row = {"study_id": "", "key_phrases": known[digest], "provenance": _provenance(digest)}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
    write_jsonl(path, _rows(studies, known))
    partial.unlink(missing_ok=True)


def read_key_phrases(path: Path) -> dict[str, tuple[str, ...]]:
    """Read an extractor's file: study id -> key phrases, in the order of the file.

    Raises:
        RarrgError: The file cannot be read, or a row lacks a key, holds a wrong type, or repeats a study.
    """
    phrases: dict[str, tuple[str, ...]] = {}
    for number, row in enumerate(read_jsonl(path), start=1):
        where = f"{path}, row {number}"
        study_id = row.get("study_id")
        if not isinstance(study_id, str) or not study_id:
            raise RarrgError(f"{where}: study_id must be a non-empty text, got {study_id!r}")
        where = f"{where} (study {study_id})"
        if study_id in phrases:
            raise RarrgError(f"{where}: study_id is there a second time; keep one row a study")
        found = row.get("key_phrases")
        if not isinstance(found, list) or not all(isinstance(phrase, str) and phrase.strip() for phrase in found):
            raise RarrgError(f"{where}: key_phrases must be a list of non-empty texts, got {found!r}")
        if not isinstance(row.get("provenance", {}), dict):
            raise RarrgError(f"{where}: provenance must be an object, got {row['provenance']!r}")
        phrases[study_id] = tuple(found)
    return phrases


def with_key_phrases(studies: Sequence[Study], phrases: Mapping[str, tuple[str, ...]]) -> list[Study]:
    """Attach key phrases by study id; a study without an entry gets none."""
    return [replace(study, key_phrases=tuple(phrases.get(study.id, ()))) for study in studies]


def text_sha256(findings: str) -> str:
    """Hex SHA-256 of a FINDINGS text in UTF-8."""
    return hashlib.sha256(findings.encode("utf-8", "surrogatepass")).hexdigest()


def _check_unique(studies: Sequence[Study]) -> None:
    seen: set[str] = set()
    for study in studies:
        if study.id in seen:
            raise RarrgError(f"study {study.id}: is there twice; a file of key phrases has one row a study")
        seen.add(study.id)


def _provenance(digest: str) -> dict[str, Any]:
    return {"extractor": EXTRACTOR, "version": VERSION, "text_sha256": digest}


def _rows(studies: Sequence[Study], known: Mapping[str, list[str]]) -> Iterator[dict[str, Any]]:
    for study in studies:
        if study.findings.strip():
            digest = text_sha256(study.findings)
            yield {"study_id": study.id, "key_phrases": known[digest], "provenance": _provenance(digest)}


def _finished(path: Path) -> dict[str, list[str]]:
    """Phrases by text digest of the rows that still hold; a torn last line and older versions are left out."""
    if not path.exists():
        return {}
    finished: dict[str, list[str]] = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            phrases, provenance = list(row["key_phrases"]), dict(row["provenance"])
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break
            raise RarrgError(f"{path}, line {number}: is no row of key phrases; name another file to write") from error
        if provenance.get("extractor") != EXTRACTOR:
            raise RarrgError(
                f"{path}, line {number}: was written by extractor {provenance.get('extractor')!r}, not {EXTRACTOR!r}; "
                "name another file to write"
            )
        if provenance == _provenance(str(provenance.get("text_sha256"))):
            finished[provenance["text_sha256"]] = phrases
    return finished


def _drop_torn_line(path: Path) -> None:
    if path.exists():
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            path.write_bytes(content[: content.rfind(b"\n") + 1])
