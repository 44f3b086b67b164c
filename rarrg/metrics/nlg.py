"""BLEU and ROUGE-L of reports, to the number as pycocoevalcap 1.2 (paper, appendix D) gives them.

The package is 104 MB of Java archives around these formulas, has had no release since 2020, and gives no sums that
intervals could be made of; it is what the tests compare with. Its tokeniser, which needs Java and drops punctuation, is
not used by the paper's authors either; :func:`tokenise` is what they do
(github.com/deepnoid-ai/M4CXR-TNNLS, ``exp/cxr_llm/metrics.py``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice

import numpy as np

from rarrg.metrics.bootstrap import Statistic
from rarrg.metrics.measured import Measured, column_mean

_PREFIX = re.compile(r"\s*findings\s*:", re.IGNORECASE)
_TOKEN = re.compile(r"\w+|[^\w\s]+")  # NLTK's wordpunct

_ORDERS = 4
# pycocoevalcap adds these to numerators and denominators.
_TINY, _SMALL = 1e-15, 1e-9
_BETA = 1.2


def tokenise(text: str) -> str:
    """Lower-case a report and put spaces around its punctuation.

    Args:
        text: A report; a leading ``FINDINGS:`` is dropped.

    Returns:
        Its tokens with one space between; marks that stand together, as ``).``, are one token.
    """
    return " ".join(_TOKEN.findall(text[_body(text) :].lower()))


def first_words(text: str, words: int) -> str:
    """Cut a report after so many tokens.

    PromptMRG cuts its references after 100 before it scores them (``dataset/utils.py``, ``my_pre_caption``). Its own
    cleaning comes before that and drops commas, so its 100 reach a little further.

    Args:
        text: A report; a leading ``FINDINGS:`` does not count.
        words: Tokens of :func:`tokenise` to keep, at least 1.

    Returns:
        The report up to its last token that is kept, as it was written.

    Raises:
        ValueError: ``words`` is below 1.
    """
    if words < 1:
        raise ValueError(f"keeps at least 1 word, got {words}")
    last = next(islice(_TOKEN.finditer(text, _body(text)), words - 1, None), None)
    return text if last is None else text[: last.end()]


def _body(text: str) -> int:
    """Where a report begins after its heading."""
    heading = _PREFIX.match(text)
    return heading.end() if heading else 0


def bleu(sums: np.ndarray, order: int) -> np.ndarray:
    """Corpus BLEU: geometric mean of the clipped precisions of 1- to ``order``-grams, times the brevity penalty.

    Args:
        sums: Sums of the terms of :func:`nlg_measures`, ``[..., 12]``; those of one report give its own BLEU.
        order: Longest n-gram, 1 to 4.

    Returns:
        ``[...]``, in [0, 1].
    """
    correct, guessed = sums[..., :order], sums[..., _ORDERS : _ORDERS + order]
    precision = np.prod((correct + _TINY) / (guessed + _SMALL), axis=-1) ** (1 / order)
    length = (sums[..., 2 * _ORDERS] + _TINY) / (sums[..., 2 * _ORDERS + 1] + _SMALL)
    score: np.ndarray = precision * np.exp(np.minimum(1 - 1 / length, 0))
    return score


def nlg_measures(references: Sequence[str], hypotheses: Sequence[str]) -> Measured:
    """BLEU-1 to BLEU-4 over the corpus, and mean ROUGE-L.

    The terms of a report are its clipped n-gram matches and its n-grams of 1 to 4 words, the words of hypothesis and
    reference, its ROUGE-L, and 1: 12 in all.

    Args:
        references: A reference for each report, tokens with one space between.
        hypotheses: The reports, tokenised alike.

    Returns:
        ``bleu_1`` to ``bleu_4`` and ``rouge_l``, each in [0, 1].

    Raises:
        ValueError: There are more of one than of the other.
    """
    rows = [_terms(reference, said) for reference, said in zip(references, hypotheses, strict=True)]
    return Measured(
        terms=np.array(rows, dtype=np.float64).reshape(len(rows), 2 * _ORDERS + 4),
        statistics=_STATISTICS,
        single=tuple(_STATISTICS),
        present=np.ones(len(rows), dtype=bool),
    )


_STATISTICS: dict[str, Statistic] = {
    **{f"bleu_{order}": partial(bleu, order=order) for order in range(1, _ORDERS + 1)},
    "rouge_l": partial(column_mean, column=-2),
}


def _terms(reference: str, hypothesis: str) -> list[float]:
    wanted, said = reference.split(), hypothesis.split()
    matches, guesses = [], []
    for order in range(1, _ORDERS + 1):
        grams = _grams(said, order)
        matches.append((grams & _grams(wanted, order)).total())
        guesses.append(grams.total())
    # ROUGE splits at single spaces, so an empty text is one empty token.
    return [*matches, *guesses, len(said), len(wanted), _rouge_l(reference.split(" "), hypothesis.split(" ")), 1]


def _grams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


def _rouge_l(reference: list[str], hypothesis: list[str]) -> float:
    common = _longest_common_subsequence(reference, hypothesis)
    if common == 0:
        return 0.0
    precision, recall = common / len(hypothesis), common / len(reference)
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _longest_common_subsequence(first: list[str], second: list[str]) -> int:
    """Length of it, a row of the table at a time as the bits of one integer (Hyyrö, 2004)."""
    places: dict[str, int] = {}
    for place, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << place
    full = (1 << len(first)) - 1
    row = full  # a bit is 0 where the length grows by one
    for token in second:
        here = row & places.get(token, 0)
        row = (row + here) | (row - here)
    return len(first) - (row & full).bit_count()
