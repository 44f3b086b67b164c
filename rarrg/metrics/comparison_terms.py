"""Words that compare with an earlier examination, which a report of a single one has no ground for.

The 18 terms are those of the paper's Table 4, after Ramesh et al. (2022). The paper does not say how it counts; its
counts fit whole words in the form listed: ``change`` is rare where ``unchanged`` is frequent, and ``improve`` and
``redemonstrate`` never occur.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import numpy as np

from rarrg.metrics.bootstrap import Statistic
from rarrg.metrics.measured import Measured, column_mean

# Each term and the pattern of its inflected forms.
_FORMS = {
    "change": r"chang(?:e|es|ed|ing)",
    "unchanged": r"unchanged",
    "prior": r"priors?",
    "stable": r"stabl[ey]",
    "interval": r"intervals?",
    "previous": r"previous(?:ly)?",
    "again": r"again",
    "increased": r"increas(?:e|es|ed|ing|ingly)",
    "improve": r"improv(?:e|es|ed|ing|ements?)",
    "remain": r"remain(?:s|ed|ing)?",
    "worse": r"wors(?:e|en|ens|ened|ening|t)",
    "persistent": r"persist(?:s|ed|ing|ent|ently|ence)?",
    "removal": r"remov(?:e|es|ed|ing|als?)",
    "similar": r"similar(?:ly|ity)?",
    "earlier": r"earli(?:er|est)",
    "decreased": r"decreas(?:e|es|ed|ing|ingly)",
    "recurrence": r"recur(?:s|red|ring|rent|rences?)?",
    "redemonstrate": r"redemonstrat(?:e|es|ed|ing|ions?)",
}
TERMS = tuple(_FORMS)
"""The terms in the order of the table."""


def count_terms(texts: Sequence[str], stem: bool = False) -> np.ndarray:
    """How often each term occurs in each text, as a whole word in any case.

    Args:
        texts: Reports.
        stem: Count inflected forms as well, as ``improving`` for ``improve``.

    Returns:
        int64 ``[texts, 18]`` in the order of ``TERMS``.
    """
    forms = _FORMS.values() if stem else TERMS
    pattern = re.compile(rf"\b(?:{'|'.join(f'({form})' for form in forms)})\b", re.IGNORECASE)
    counts = np.zeros((len(texts), len(TERMS)), dtype=np.int64)
    for row, text in enumerate(texts):
        for found in pattern.finditer(text):
            assert found.lastindex is not None
            counts[row, found.lastindex - 1] += 1
    return counts


def comparison_measures(texts: Sequence[str], stem: bool = False) -> Measured:
    """Number of comparison terms, and share of the reports that hold them.

    Args:
        texts: Generated reports.
        stem: As in :func:`count_terms`.

    Returns:
        ``comparison_count`` and ``comparison_rate`` over all terms together, and ``comparison_count/TERM`` and
        ``comparison_rate/TERM`` of each. A count is the sum over the reports, a rate lies in [0, 1].
    """
    counts = count_terms(texts, stem)
    each = np.concatenate([counts, counts.sum(axis=1, keepdims=True)], axis=1)
    return Measured(
        terms=np.concatenate([each, each > 0, np.ones((len(counts), 1))], axis=1),
        statistics=_STATISTICS,
        single=("comparison_count",),
        present=np.ones(len(counts), dtype=bool),
    )


def _column(sums: np.ndarray, column: int) -> np.ndarray:
    return sums[..., column]


_COLUMNS = {"": len(TERMS), **{f"/{term}": column for column, term in enumerate(TERMS)}}
_STATISTICS: dict[str, Statistic] = {
    **{f"comparison_count{name}": partial(_column, column=column) for name, column in _COLUMNS.items()},
    **{
        f"comparison_rate{name}": partial(column_mean, column=len(TERMS) + 1 + column)
        for name, column in _COLUMNS.items()
    },
}
