from __future__ import annotations

import json

import pytest

pytest.importorskip("ray", reason="needs rarrg[ray]")

from rarrg.inference_on_ray import _retrieval, _row
from rarrg.report.study import StudyRetrieval
from rarrg.types import Dropped, RetrievedPhrase


def test_what_a_study_retrieved_comes_back_as_it_was():
    clear = RetrievedPhrase("clear lungs", 0.1 + 0.2, 1 / 3, 4)
    effusion = RetrievedPhrase("small left pleural effusion", 0.7, -0.25, 11, image=1)
    study = StudyRetrieval(
        phrases={"frontal": (effusion,), "lateral": ()},
        images={"frontal": ("a.png", "b.png"), "lateral": ("c.png",)},
        below_threshold=("lateral",),
        dropped=(Dropped("lateral", clear, "frontal", effusion, "affirms"),),
    )
    back = _retrieval(json.loads(json.dumps(_row(study))))
    for name in ("phrases", "images", "below_threshold", "dropped", "attention"):
        assert getattr(back, name) == getattr(study, name)
