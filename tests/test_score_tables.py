"""The paper's tables beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rarrg.metrics.classification import LabelScore
from rarrg.metrics.comparison_terms import TERMS
from rarrg.metrics.finding_terms import OBSERVATIONS
from rarrg.protocols import EXPECTED, Protocol, Sample
from rarrg.report_files import Reports
from rarrg.score_page import page
from rarrg.score_tables import comparable, paper_figures, score_tables
from rarrg.scorers import ScorerConfig, Scorers
from rarrg.scoring import score_samples

PAPER = paper_figures()
NAMES = [f"s{number}" for number in range(6)]
CLEAR = {"entities": {"1": {"tokens": "clear", "label": "OBS-DP", "relations": []}}}


def scores_of(folder: Path, writer: dict[str, Any], **given: Any) -> tuple[dict[str, Any], str]:
    protocol = Protocol("studies", tuple(Sample(name, {}, "The lungs are clear.") for name in NAMES))
    reports = Reports(dict.fromkeys(NAMES, "The lungs are clear, unchanged."), {"writer": [writer]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scorers, "run", lambda *_: given)
        scores = score_samples(protocol, reports, Scorers(ScorerConfig()), folder, lambda _: None, draws=5)
    return scores, (folder / "report.md").read_text(encoding="utf-8")


def line(text: str, start: str) -> list[str]:
    (found,) = [line for line in text.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_texts_alone_give_the_tables_that_need_no_weights(tmp_path: Path) -> None:
    _, text = scores_of(tmp_path, {"name": "join"})
    titles = [line.split(":")[0] for line in text.splitlines() if line.startswith("## ")]
    assert titles == ["## Tables 1 to 3", "## Table 4", "## Measures that the paper does not have"]
    assert line(text, "RA-RRG, quoted, Table 1 (mimic-single)")[1:] == [
        "58.5", "41.7", "50.7", "26.7", "24.9", "37.9", "8.0", "not comparable",
    ]  # fmt: skip
    assert line(text, "ours")[1:5] == ["-"] * 4
    assert line(text, "unchanged") == ["unchanged", "1", "0.03", "6", "100.00"]
    assert "**Not comparable**: Table 4 is of mimic-single (3858 samples), ours of 6 samples of studies." in text
    assert "chexbert was not computed: --chexbert=PATH" in text


def test_weights_and_a_language_model_add_their_tables(tmp_path: Path) -> None:
    classes = np.zeros((2, 6, 14), dtype=np.int64)
    classes[:, :, -1] = 1
    classes[1, :3, -1] = 0
    annotations = ([CLEAR] * 6, [CLEAR] * 6)
    before, _ = scores_of(tmp_path / "before", {"name": "join"}, chexbert=tuple(classes), radgraph=annotations)
    scores, _ = scores_of(tmp_path, {"name": "llm", "examples": 3}, chexbert=tuple(classes), radgraph=annotations)
    labels = [LabelScore(name, 3, 3, 3, 0, 0, *[0.25] * 5) for name in OBSERVATIONS]
    text = page(scores, score_tables(scores, labels, before)).markdown
    for table in (4, 5, 6, 9, 10):
        assert f"## Table {table}: " in text
    assert line(text, "No Finding") == ["No Finding", "0.371", "0.397", "0.349", "0.953", "0.920", *["0.250"] * 5, "3"]
    assert line(text, "RadGraph entity") == ["RadGraph entity", "0.334", "0.416", "0.360", *["1.000"] * 3]
    assert line(text, "after generation, quoted")[1:] == ["0.585", "0.671", "0.519", "0.881", "0.267"]
    assert line(text, "retrieval only, ours")[1:] == ["0.667", "0.500", "1.000", "1.000", "0.500"]
    assert "- writer of the reports: name llm, examples 3\n" in text
    assert line(text, "3, ours")[1] == "66.7"
    assert line(text, "3, quoted")[1:] == ["58.2", "41.6", "26.7", "25.2", "38.2"]


def test_figures_of_the_same_samples_are_comparable(tmp_path: Path) -> None:
    scores, _ = scores_of(tmp_path, {"name": "join"})
    whole = {"name": "mimic-single", "samples": EXPECTED["mimic-single"]}
    same = {**scores, "protocol": {**scores["protocol"], **whole}}
    assert comparable(same, "mimic-single")
    assert not comparable(same, "mimic-multi")
    assert not comparable({**same, "reports": {**same["reports"], "missing": 1}}, "mimic-single")
    assert not comparable({**same, "protocol": {**same["protocol"], "samples": 7}}, "mimic-single")
    text = page(same, score_tables(same, [])).markdown
    assert "Table 4 is of the same samples (mimic-single)." in text
    assert line(text, "RA-RRG, quoted, Table 1 (mimic-single)")[-1] == "yes"
    assert line(text, "RA-RRG, quoted, Table 3 (mimic-multi)")[-1] == "not comparable"


def test_the_quoted_figures_fit_each_other() -> None:
    assert list(PAPER["terms"]["values"]) == list(TERMS)
    for count, rate in PAPER["terms"]["values"].values():
        assert rate / 100 * 3858 <= count + 0.5  # a report may hold a term twice, none holds it less than once
    assert list(PAPER["labels"]["values"]) == list(OBSERVATIONS)
    for f1, recall, precision, specificity, accuracy in PAPER["labels"]["values"].values():
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall), abs=2e-3)
        assert min(recall, specificity) - 1e-3 <= accuracy <= max(recall, specificity) + 1e-3
    headline = {each["protocol"]: each["values"] for each in PAPER["headline"]}
    after = PAPER["stages"]["values"]["after"]
    assert headline["mimic-single"]["chexbert_micro_f1"] == pytest.approx(100 * after[0])
    assert headline["mimic-single"]["radgraph_f1"] == pytest.approx(100 * after[4])
    entity, relation = (PAPER["levels"]["values"][f"RadGraph {each}"][2] for each in ("entity", "relation"))
    assert (entity + relation) / 2 == pytest.approx(after[4], abs=1e-3)
    one = PAPER["examples"]["values"]["1"]
    assert one[:2] == [headline["mimic-single"][f"chexbert_{each}_f1"] for each in ("micro", "macro")]
    assert {each["protocol"] for each in PAPER["headline"]} < set(EXPECTED)
    for name, (hardware, hours, total) in PAPER["cost"]["values"].items():
        devices = int(hardware.split()[0])
        assert (devices * hours == total) == (name != "M4CXR"), name  # printed as 208, in table and text alike
    assert PAPER["threshold"] == {"figure": 11, "best": 0.4}
