"""Terms on disk give the measures that they were written of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rarrg.errors import RarrgError
from rarrg.metrics.report_scores import score_reports
from rarrg.metrics.saved_terms import SavedTerms, read_terms, write_terms

REFERENCES = ["Small left effusion.", "Heart is enlarged.", "Lungs are clear."]
HYPOTHESES = ["Small effusion.", "Heart is normal, unchanged.", "Lungs are clear."]
ANNOTATION = {"entities": {"1": {"tokens": "clear", "label": "OBS-DP", "relations": []}}}


THREE = (["a", "b", "c"], ["a", "b", "c"], np.zeros(3, dtype=bool))


def test_every_kind_comes_back_as_it_was(tmp_path: Path) -> None:
    classes = np.random.default_rng(0).integers(0, 2, (2, 3, 14))
    annotations = ([ANNOTATION, None, ANNOTATION], [ANNOTATION] * 3)
    scores = score_reports(
        REFERENCES, HYPOTHESES, chexbert=tuple(classes), radgraph=annotations, radgraph_lower=annotations, draws=5
    )
    seen = np.array([True, False, False])
    write_terms(tmp_path / "t.npz", SavedTerms(["a", "b", "10"], ["p", "p", "q"], seen, scores.measured))
    ids, groups, seen_again, measured = read_terms(tmp_path / "t.npz")
    assert groups == ["p", "p", "q"]
    assert (ids, seen_again.tolist()) == (["a", "b", "10"], seen.tolist())
    assert list(measured) == list(scores.measured)
    for kind, each in scores.measured.items():
        assert measured[kind].values() == each.values()
        assert measured[kind].present.tolist() == each.present.tolist()


def test_other_terms_are_refused(tmp_path: Path) -> None:
    measured = score_reports(REFERENCES, HYPOTHESES, draws=5).measured
    short = type(measured["nlg"])(measured["nlg"].terms[:, :4], {}, (), np.ones(3, dtype=bool))
    write_terms(tmp_path / "t.npz", SavedTerms(*THREE, {"nlg": short}))
    with pytest.raises(RarrgError, match="no measures of this version"):
        read_terms(tmp_path / "t.npz")
    write_terms(
        tmp_path / "t.npz",
        SavedTerms(*THREE, {"odd": measured["nlg"]}),
    )
    with pytest.raises(RarrgError, match="no measures of this version"):
        read_terms(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", ids=np.array(["a"]), seen=np.array([True]))
    with pytest.raises(RarrgError, match="score the reports again"):
        read_terms(tmp_path / "t.npz")  # without groups
    with pytest.raises(RarrgError, match="cannot be read"):
        read_terms(tmp_path / "nothing.npz")
    (tmp_path / "text.npz").write_text("x")
    with pytest.raises(RarrgError, match="no measures of this version"):
        read_terms(tmp_path / "text.npz")
