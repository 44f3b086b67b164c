"""BLEU and ROUGE-L against pycocoevalcap, and numbers worked out by hand."""

from __future__ import annotations

from string import printable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.metrics.bootstrap import resampling_weights
from rarrg.metrics.nlg import first_words, nlg_measures, tokenise

NAMES = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l"]
# Few words, so that they repeat and n-grams are clipped; any spacing, so that both ways of splitting are met.
TEXTS = st.lists(st.sampled_from(["no", "effusion", "a", "b", "."]), max_size=12).flatmap(
    lambda words: st.sampled_from([" ".join(words), "  ".join(words), f" {' '.join(words)}"])
)


def by_the_library(references: list[str], hypotheses: list[str]) -> tuple[list[float], list[np.ndarray]]:
    """Values over the corpus and of each report."""
    bleu = pytest.importorskip("pycocoevalcap.bleu.bleu").Bleu(4)
    rouge = pytest.importorskip("pycocoevalcap.rouge.rouge").Rouge()
    wanted = {row: [text] for row, text in enumerate(references)}
    said = {row: [text] for row, text in enumerate(hypotheses)}
    scores, each = bleu.compute_score(wanted, said, verbose=0)
    mean, lengths = rouge.compute_score(wanted, said)
    return [*scores, float(mean)], [*map(np.array, each), lengths]


def test_the_papers_example():
    measured = nlg_measures(
        [tokenise("Bilateral pleural effusions are present")], [tokenise("Bilateral pleural effusions are not present")]
    )
    values = measured.values()
    assert list(values) == NAMES
    assert round(values["rouge_l"], 4) == 0.9242
    assert round(values["bleu_1"], 4) == 0.8333
    assert round(values["bleu_4"], 4) == 0.5373
    # One report: its own scores are those of the corpus.
    assert {name: float(scores[0]) for name, scores in measured.per_sample().items()} == values


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_scores_are_the_librarys(pairs):
    references, hypotheses = map(list, zip(*pairs, strict=True))
    values, each = by_the_library(references, hypotheses)
    measured = nlg_measures(references, hypotheses)
    assert list(measured.values().values()) == pytest.approx(values, rel=1e-9, abs=1e-12)
    for scores, expected in zip(measured.per_sample().values(), each, strict=True):
        assert scores == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_scores_worked_out_by_hand():
    measured = nlg_measures(["the the cat sat", "a b"], ["the the the", "a b"])
    # "the" is clipped to 2 of 3, and 2 of 2 words of the second match; 5 words said for 6.
    assert measured.values()["bleu_1"] == pytest.approx(4 / 5 * np.exp(1 - 6 / 5))
    # of bigrams 1 of 2 "the the", and 1 of 1
    assert measured.values()["bleu_2"] == pytest.approx(np.sqrt(4 / 5 * 2 / 3) * np.exp(1 - 6 / 5))
    # P 2/3, R 2/4, beta 1.2
    first = (1 + 1.44) * (2 / 3) * (1 / 2) / (1 / 2 + 1.44 * 2 / 3)
    assert measured.per_sample()["rouge_l"] == pytest.approx([first, 1])
    assert measured.values()["rouge_l"] == pytest.approx((first + 1) / 2)


def test_resamples_of_corpus_bleu_are_those_of_resampled_reports():
    rng = np.random.default_rng(0)
    words = np.array("no pleural effusion heart size is normal .".split())
    references, hypotheses = ([" ".join(rng.choice(words, rng.integers(4, 15))) for _ in range(12)] for _ in range(2))
    weights = resampling_weights(12, 25, seed=3)
    drawn = []
    for counts in weights:
        picked = np.repeat(np.arange(12), counts)
        values, _ = by_the_library([references[row] for row in picked], [hypotheses[row] for row in picked])
        drawn.append(values)
    measured = nlg_measures(references, hypotheses).estimates(
        np.ones(12, dtype=bool), list("abcdefghijkl"), draws=25, seed=3
    )
    for name, values in zip(NAMES, np.array(drawn).T, strict=True):
        assert measured[name][1:] == pytest.approx(np.percentile(values, [2.5, 97.5]))
        assert measured[name].low < measured[name].high


@given(st.text(alphabet=printable, max_size=60))
@settings(deadline=None)
def test_tokens_are_those_of_nltk(text):
    nltk = pytest.importorskip("nltk.tokenize")
    if not text.lower().lstrip().startswith("findings"):
        assert tokenise(text) == " ".join(nltk.wordpunct_tokenize(text.lower()))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("FINDINGS: No left-sided\n effusion.", "no left - sided effusion ."),
        (" Findings :clear lungs", "clear lungs"),
        ("The findings: stable.", "the findings : stable ."),
        ("Size 1.5 cm (prior ___).", "size 1 . 5 cm ( prior ___ )."),
        ("", ""),
    ],
)
def test_tokens(text, tokens):
    assert tokenise(text) == tokens


def test_first_words_are_counted_as_tokens_and_kept_as_written():
    text = "FINDINGS: Left-sided PICC. No effusion."
    assert first_words(text, 5) == "FINDINGS: Left-sided PICC."
    assert tokenise(first_words(text, 3)) == "left - sided"
    assert first_words(text, 8) == first_words(text, 100) == text
    with pytest.raises(ValueError, match="at least 1"):
        first_words(text, 0)


def test_reports_without_references_are_refused():
    with pytest.raises(ValueError, match="longer"):
        nlg_measures(["a"], ["a", "b"])
