"""The table of an ablation, of evaluations made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rarrg.ablation_table import DISTINCT, as_markdown, beside_the_paper, cells_of
from rarrg.artifacts import write_json, write_jsonl
from rarrg.errors import RarrgError
from rarrg.evaluated_reports import SCORES_OF_REPORTS
from rarrg.metrics.measured import Measured
from rarrg.metrics.nlg import nlg_measures
from rarrg.metrics.saved_terms import SavedTerms, write_terms
from rarrg.scoring import SCORES, TERMS

REFERENCES = ["small left effusion .", "the heart is enlarged .", "clear lungs .", "no effusion ."] * 6
WORDS = ("the", "heart", "lungs", "clear", "effusion", "left", "small", "no")


def reports(seed: int, right: float) -> list[str]:
    generator = np.random.default_rng(seed)
    return [
        text if generator.random() < right else " ".join(generator.choice(WORDS, 3).tolist()) for text in REFERENCES
    ]


def evaluated(folder: Path, texts: list[str], version: str = "1", missing: tuple[int, ...] = ()) -> Path:
    place = folder / SCORES_OF_REPORTS
    place.mkdir(parents=True)
    whole = nlg_measures(REFERENCES, texts)
    present = ~np.isin(np.arange(len(texts)), missing)
    measured = Measured(np.where(present[:, None], whole.terms, 0), whole.statistics, whole.single, present)
    names = list(map(str, range(len(texts))))
    write_terms(place / TERMS, SavedTerms(names, names, np.zeros(len(texts), dtype=bool), {"nlg": measured}))
    scores = {"protocol": {"references_sha256": "r"}, "measured_with": {"rarrg": version}}
    write_json(place / SCORES, scores)
    write_jsonl(folder / "reports.jsonl", ({"text": text} for text in texts))
    return folder


def rouge(texts: list[str], rows: np.ndarray) -> float:
    measured = nlg_measures([REFERENCES[row] for row in rows], [texts[row] for row in rows])
    return measured.values()["rouge_l"]


def test_differences_are_paired_and_of_the_mean_over_seeds(tmp_path: Path) -> None:
    said = {name: [reports(3 * seed + row, right) for seed in (0, 1)] for row, (name, right) in enumerate([
        ("E7", 0.5), ("E8", 0.9), ("E9", 0.1),
    ])}  # fmt: skip
    folders = {
        name: [evaluated(tmp_path / name / str(seed), texts) for seed, texts in enumerate(runs)]
        for name, runs in said.items()
    }
    cells = {(cell.experiment, cell.measure): cell for cell in cells_of(folders, "E7", draws=200)}
    everything = np.arange(len(REFERENCES))
    picked = np.random.default_rng(0).integers(len(REFERENCES), size=(200, len(REFERENCES)))
    for name, runs in said.items():
        own = [rouge(texts, everything) for texts in runs]
        base = [rouge(texts, everything) for texts in said["E7"]]
        apart = [
            np.mean([rouge(texts, rows) for texts in runs]) - np.mean([rouge(texts, rows) for texts in said["E7"]])
            for rows in picked
        ]
        cell = cells[name, "rouge_l"]
        assert (cell.value, cell.lowest, cell.highest) == pytest.approx((np.mean(own), min(own), max(own)))
        assert cell.difference == pytest.approx(np.mean(own) - np.mean(base))
        assert (cell.low, cell.high) == pytest.approx(tuple(np.quantile(apart, [0.025, 0.975])))
        assert cells[name, DISTINCT].value == np.mean([len(set(texts)) for texts in runs])
    table = as_markdown(list(cells.values()), {"E7": "base", "E8": "better", "E9": "worse"}, "E7", 2)
    marks = {row.split(" | ")[0].strip("| "): ("▲" in row, "▼" in row) for row in table.splitlines()[2:5]}
    assert marks == {"E7": (False, False), "E8": (True, False), "E9": (False, True)}


def test_what_one_side_lacks_is_left_out_of_the_difference(tmp_path: Path) -> None:
    ours, theirs = reports(0, 0.9), reports(1, 0.5)
    folders = {
        "E7": [evaluated(tmp_path / "7", theirs, missing=(3, 4))],
        "E8": [evaluated(tmp_path / "8", ours, missing=(5,))],
    }
    cells = {(cell.experiment, cell.measure): cell for cell in cells_of(folders, "E7", draws=20)}
    both = np.delete(np.arange(len(REFERENCES)), [3, 4, 5])
    cell = cells["E8", "rouge_l"]
    assert cell.difference == pytest.approx(rouge(ours, both) - rouge(theirs, both))
    assert cell.value == pytest.approx(rouge(ours, np.delete(np.arange(len(REFERENCES)), 5)))


def test_another_version_is_refused(tmp_path: Path) -> None:
    texts = reports(0, 0.5)
    folders = {"E7": [evaluated(tmp_path / "7", texts)], "E8": [evaluated(tmp_path / "8", texts, version="2")]}
    with pytest.raises(RarrgError, match="8: was evaluated against other references or by another version of rarrg"):
        cells_of(folders, "E7", draws=5)


def test_the_paper_s_rows_stand_below_where_the_protocol_is_the_paper_s() -> None:
    scores = {
        "protocol": {"name": "mimic-single", "samples": 3858},
        "reports": {"missing": 0},
        "not_computed": {"chexbert": "give --chexbert"},
    }
    below = beside_the_paper(["E1", "E10", "other"], scores)
    assert "chexbert: not computed; give --chexbert" in below
    assert "| E10 | 58.8 | 42.3 | 51.1 | 25.7 | 23.5 | 36.2 | 7.4 |" in below
    assert "other" not in below
    assert "Not comparable" not in below
    assert "Not comparable" in beside_the_paper(["E1"], {**scores, "protocol": {"name": "mimic-single", "samples": 7}})
    assert "E10" not in beside_the_paper(["E10"], {**scores, "protocol": {"name": "studies", "samples": 7}})
