"""Measures on disk: the terms of each report, from which two systems can be compared later.

Macro-F1 and BLEU are no means over reports, so scores of single reports are not enough to compare two systems in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from rarrg.artifacts import atomic_write
from rarrg.errors import RarrgError
from rarrg.metrics.chexbert import chexbert_measures
from rarrg.metrics.classification import label_measures
from rarrg.metrics.comparison_terms import comparison_measures
from rarrg.metrics.finding_terms import OBSERVATIONS
from rarrg.metrics.measured import Measured
from rarrg.metrics.nlg import nlg_measures
from rarrg.metrics.radgraph_f1 import radgraph_measures

_LABELS = np.zeros((0, len(OBSERVATIONS)), dtype=np.int64)
_FINDINGS = np.zeros((0, len(OBSERVATIONS) - 1), dtype=bool)
# The measures of no report, by kind as rarrg.metrics.report_scores names them.
_NOTHING: dict[str, Callable[[], Measured]] = {
    "nlg": lambda: nlg_measures([], []),
    "comparison": lambda: comparison_measures([]),
    "findings": lambda: label_measures(_FINDINGS, _FINDINGS, "findings_"),
    "chexbert": lambda: chexbert_measures(_LABELS, _LABELS),
    "chexbert_uncertain": lambda: chexbert_measures(_LABELS, _LABELS, uncertain=True),
    "radgraph": lambda: radgraph_measures([], [], "radgraph_"),
    "radgraph_lower": lambda: radgraph_measures([], [], "radgraph_lower_"),
}


class SavedTerms(NamedTuple):
    """Terms of reports.

    Attributes:
        ids: Id of each report.
        groups: What each report is of, as its patient; intervals resample reports of one group together.
        seen: Which references a training report says as well, bool ``[reports]``.
        measured: Measures by kind, of :class:`rarrg.metrics.report_scores.ReportScores`.
    """

    ids: Sequence[str]
    groups: Sequence[str]
    seen: np.ndarray
    measured: Mapping[str, Measured]


def write_terms(path: Path, saved: SavedTerms) -> None:
    """Write the terms of each report as an NPZ file.

    Args:
        path: The file.
        saved: The terms.
    """
    arrays = {
        "ids": np.array(saved.ids),
        "groups": np.array(saved.groups),
        "seen": np.asarray(saved.seen, dtype=bool),
    }
    for kind, each in saved.measured.items():
        arrays[f"{kind}/terms"], arrays[f"{kind}/present"] = each.terms, each.present
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # its stub has an option in the way


def read_terms(path: Path) -> SavedTerms:
    """Read a file of :func:`write_terms`.

    Args:
        path: The file.

    Raises:
        RarrgError: The file is missing, or was written by a version with other measures.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            ids, groups = ([str(name) for name in arrays[key]] for key in ("ids", "groups"))
            seen = arrays["seen"]
            measured = {
                kind: _measured(_NOTHING[kind](), arrays[f"{kind}/terms"], arrays[f"{kind}/present"])
                for kind in (name.removesuffix("/terms") for name in arrays.files if name.endswith("/terms"))
            }
    except OSError as error:
        raise RarrgError(f"{path}: cannot be read ({error.strerror or error}); rarrg score writes it") from error
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise RarrgError(f"{path}: holds no measures of this version; score the reports again") from error
    return SavedTerms(ids, groups, seen, measured)


def _measured(nothing: Measured, terms: np.ndarray, present: np.ndarray) -> Measured:
    if terms.shape[1:] != nothing.terms.shape[1:]:
        raise ValueError("other terms")
    return Measured(terms, nothing.statistics, nothing.single, present)
