from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from rarrg.data.images import read_image
from rarrg.data.phantom import VIEWS, case, draw_studies, draw_view, read, read_places
from rarrg.data.phantom_drawing import CHANGED, SIZE, Patient, PhantomFinding, box_round, changed_pixels
from rarrg.data.phantom_reports import write_report
from rarrg.errors import RarrgError

COUNT = 24
EVERY = [
    PhantomFinding("cardiomegaly"),
    PhantomFinding("hyperinflation"),
    PhantomFinding("endotracheal tube"),
    PhantomFinding("nasogastric tube"),
    *(
        PhantomFinding(kind, side)
        for kind in ("central venous catheter", "pacemaker", "rib fracture")
        for side in ("left", "right")
    ),
    *(
        PhantomFinding(kind, side, size=size)
        for kind in ("pleural effusion", "pneumothorax")
        for side in ("left", "right")
        for size in ("small", "moderate", "large")
    ),
    *(
        PhantomFinding(kind, side, f"{lobe} lobe")
        for kind in ("nodule", "opacity")
        for side, lobes in (("left", ("upper", "lower")), ("right", ("upper", "middle", "lower")))
        for lobe in lobes
    ),
]


def name(finding: PhantomFinding) -> str:
    return " ".join(part for part in (finding.size, finding.side, finding.location, finding.kind) if part)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phantom")
    draw_studies(folder, COUNT, seed=3)
    return folder


@pytest.fixture(scope="module", params=range(2))
def patient(request):
    return Patient.of(np.random.default_rng(request.param))


# The folder


def test_read_gives_what_was_drawn(tmp_path):
    drawn = draw_studies(tmp_path, 9, seed=0)
    assert read(tmp_path) == drawn
    assert [study.split for study in drawn] == ["train"] * 6 + ["val", "test", "train"]
    assert len({study.id for study in drawn}) == 9
    for study in drawn:
        assert [view.position for view in study.views] == list(VIEWS)
        assert study.findings
        assert study.impression
        assert "\n" not in study.findings + study.impression
        for view in study.views:
            grey = read_image(view.path)
            assert grey.shape == (SIZE, SIZE)
            with Image.open(view.path) as image:
                np.testing.assert_array_equal(np.asarray(image), grey)
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_folder_can_move(tmp_path):
    draw_studies(tmp_path / "here", 1, seed=0)
    (tmp_path / "here").rename(tmp_path / "there")
    assert read(tmp_path / "there")[0].views[0].path.is_file()


def test_a_study_does_not_depend_on_the_count(tmp_path, folder):
    draw_studies(tmp_path, 2, seed=3)
    for path in tmp_path.rglob("*.png"):
        assert path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes()
    lines = [(root / "studies.jsonl").read_text().splitlines() for root in (tmp_path, folder)]
    assert lines[0] == lines[1][:2]


def test_another_seed_gives_other_studies(tmp_path, folder):
    draw_studies(tmp_path, 1, seed=4)
    image = "images/phantom00000_frontal.png"
    assert (tmp_path / image).read_bytes() != (folder / image).read_bytes()


def test_drawing_again_with_fewer_studies_replaces_the_set(tmp_path):
    draw_studies(tmp_path, 3, seed=0)
    draw_studies(tmp_path, 2, seed=0)
    assert len(read(tmp_path)) == 2
    assert {place.study for place in read_places(tmp_path)} <= {"phantom00000", "phantom00001"}


def test_an_interrupted_drawing_is_no_set(tmp_path, monkeypatch):
    draw_studies(tmp_path, 2, seed=0)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("rarrg.data.phantom.write_report", interrupt)
    with pytest.raises(KeyboardInterrupt):
        draw_studies(tmp_path, 2, seed=1)
    with pytest.raises(RarrgError, match="no phantom studies"):
        read(tmp_path)


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (3, -1)])
def test_count_and_seed_are_checked(tmp_path, count, seed):
    with pytest.raises(RarrgError, match=f"got {count} and {seed}"):
        draw_studies(tmp_path, count, seed)


def test_malformed_folders(tmp_path):
    with pytest.raises(RarrgError, match="no phantom studies"):
        read(tmp_path)
    with pytest.raises(RarrgError, match=r"findings\.jsonl"):
        read_places(tmp_path)
    (tmp_path / "studies.jsonl").write_text('{"id": "a"}\n')
    (tmp_path / "findings.jsonl").write_text('{"study": "a", "box": [1, 2]}\n')
    with pytest.raises(RarrgError, match=r"studies\.jsonl, row 1"):
        read(tmp_path)
    with pytest.raises(RarrgError, match=r"findings\.jsonl, row 1"):
        read_places(tmp_path)


def test_places_match_the_studies(folder):
    places = read_places(folder)
    assert places
    for index, study in enumerate(read(folder)):
        drawn = {(f.kind, f.side, f.location, f.size) for f in case(3, index)[1]}
        kept = {(p.finding, p.side, p.location, p.size) for p in places if p.study == study.id and p.view == "frontal"}
        assert kept == drawn
    row = json.loads((folder / "findings.jsonl").read_text().splitlines()[0])
    assert set(row) == {"study", "view", "finding", "side", "location", "size", "box"}


# The pixels


@pytest.mark.parametrize("finding", EVERY, ids=name)
def test_a_finding_changes_its_box_and_nothing_else(patient, finding):
    for view in VIEWS:
        base = draw_view(patient, [], view)[0].astype(float)
        pixels, boxes = draw_view(patient, [finding], view)
        changed = np.abs(pixels - base)
        if boxes[0] is None:
            assert (view, finding.kind) == ("lateral", "rib fracture")
            assert changed.max() == 0
            continue
        x0, y0, x1, y1 = boxes[0]
        assert 0 <= x0 < x1 <= SIZE
        assert 0 <= y0 < y1 <= SIZE
        within = changed[y0:y1, x0:x1].copy()
        changed[y0:y1, x0:x1] = 0
        assert changed.max() <= CHANGED + 1
        assert np.percentile(within, 99) > 20, "too faint to be learned"


@pytest.mark.parametrize("finding", [finding for finding in EVERY if finding.side], ids=name)
def test_the_left_is_on_the_right_of_the_frontal(patient, finding):
    base = draw_view(patient, [], "frontal")[0].astype(float)
    changed = np.abs(draw_view(patient, [finding], "frontal")[0] - base)
    half = changed.sum(axis=0)
    left, right = half[SIZE // 2 :].sum(), half[: SIZE // 2].sum()
    if finding.kind in ("pacemaker", "central venous catheter"):  # leads and tips cross the midline
        rows = changed[:80]
        left, right = rows[:, SIZE // 2 + 12 :].sum(), rows[:, : SIZE // 2 - 12].sum()
    assert left > 3 * right if finding.side == "left" else right > 3 * left


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["nodule", "opacity"])
def test_lobes_lie_one_below_the_other(patient, kind, view):
    heights = []
    for lobe in ("upper lobe", "middle lobe", "lower lobe"):
        box = draw_view(patient, [PhantomFinding(kind, "right", lobe)], view)[1][0]
        heights.append((box[1] + box[3]) / 2)
    assert heights[0] + 20 < heights[1]
    assert heights[1] + 10 < heights[2]


@pytest.mark.parametrize("kind", ["pleural effusion", "pneumothorax"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_larger_ones_change_more(patient, kind, side):
    base = draw_view(patient, [], "frontal")[0].astype(float)
    changed = []
    for size in ("small", "moderate", "large"):
        pixels = draw_view(patient, [PhantomFinding(kind, side, size=size)], "frontal")[0]
        changed.append(np.count_nonzero(np.abs(pixels - base) > 10))
    assert changed[0] * 1.3 < changed[1]
    assert changed[1] * 1.3 < changed[2]


@pytest.mark.parametrize(
    ("kind", "brighter"), [("pleural effusion", True), ("opacity", True), ("nodule", True), ("pneumothorax", False)]
)
def test_fluid_and_solid_are_bright_and_air_is_dark(patient, kind, brighter):
    location = "upper lobe" if kind in ("nodule", "opacity") else ""
    finding = PhantomFinding(kind, "right", location, "" if location else "moderate")
    base = draw_view(patient, [], "frontal")[0].astype(float)
    pixels, boxes = draw_view(patient, [finding], "frontal")
    x0, y0, x1, y1 = boxes[0]
    assert ((pixels - base)[y0:y1, x0:x1].mean() > 0) == brighter


def test_heart_widens_by_a_third_or_more(patient):
    """Cardiothoracic ratio, measured on the pixels where the heart is drawn over the lungs."""
    base = draw_view(patient, [], "frontal")[0].astype(float)
    pixels, boxes = draw_view(patient, [PhantomFinding("cardiomegaly")], "frontal")
    x0, _, x1, _ = boxes[0]
    assert (x1 - x0) / (patient.width * SIZE) > 0.52
    assert (pixels - base).sum() > 0


def test_boxes_of_findings_drawn_together():
    patient = Patient.of(np.random.default_rng(5))
    findings = [
        PhantomFinding("nodule", "left", "upper lobe"),
        PhantomFinding("pleural effusion", "right", size="small"),
    ]
    together = draw_view(patient, findings, "frontal")[1]
    alone = [draw_view(patient, [finding], "frontal")[1][0] for finding in findings]
    np.testing.assert_allclose(together, alone, atol=2)


def test_changed_pixels_and_their_box_by_hand():
    without = np.full((8, 8), 100.0)
    with_finding = without.copy()
    with_finding[2:5, 1:6] += CHANGED
    changed = changed_pixels(with_finding, without)
    np.testing.assert_array_equal(changed, with_finding > without)
    assert box_round(changed) == (1, 2, 6, 5)
    assert changed_pixels(without + CHANGED / 2, without) is None
    assert changed_pixels(np.full((8, 8), 300.0), np.full((8, 8), 255.0)) is None  # both are white


# The mix of studies


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), index=st.integers(0, 10**6))
def test_cases_hold_together(seed, index):
    findings = case(seed, index)[1]
    kinds = {finding.kind for finding in findings}
    assert len(kinds) <= 3
    assert not {"cardiomegaly", "hyperinflation"} <= kinds
    for finding in findings:
        assert (finding.location == "middle lobe") <= (finding.side == "right")
        assert bool(finding.location) == (finding.kind in ("nodule", "opacity"))
        assert bool(finding.size) == (finding.kind in ("pleural effusion", "pneumothorax"))
    assert case(seed, index) == case(seed, index)


def test_every_kind_occurs_and_three_in_ten_are_normal():
    cases = [case(0, index)[1] for index in range(600)]
    assert 0.25 < sum(not findings for findings in cases) / len(cases) < 0.35
    assert {finding.kind for findings in cases for finding in findings} == {finding.kind for finding in EVERY}
    assert {name(finding) for findings in cases for finding in findings} == {name(finding) for finding in EVERY}


# The report

WORDS = {
    "cardiomegaly": r"cardiomegaly|enlarged",
    "hyperinflation": r"hyperinflat",
    "pleural effusion": r"effusion",
    "pneumothorax": r"pneumothorax",
    "nodule": r"nodul",
    "opacity": r"opacity",
    "endotracheal tube": r"endotracheal",
    "central venous catheter": r"central venous",
    "nasogastric tube": r"nasogastric",
    "pacemaker": r"pacemaker",
    "rib fracture": r"rib fracture",
}
COMPARING = r"unchanged|stable|compared|again|prior|previous|increased|decreased|earlier|interval|remain"


def statements(text: str) -> list[str]:
    """Clauses that state something present: sentences cut at "and", less those that deny."""
    sentences = [s for s in re.split(r"(?<=\.) ", text) if not re.match(r"(There is )?[Nn]o\b|Negative", s)]
    return [clause for sentence in sentences for clause in re.split(r" and (?=an? )", sentence)]


@pytest.mark.parametrize("seed", range(100))
def test_report_states_what_was_drawn_and_nothing_else(seed):
    findings = case(seed, 0)[1]
    text, impression = write_report(findings, np.random.default_rng(seed))
    for stated in (statements(text), statements(impression)):
        for kind, pattern in WORDS.items():
            drawn = [finding for finding in findings if finding.kind == kind]
            clauses = [clause for clause in stated if re.search(pattern, clause, re.IGNORECASE)]
            expected = 1 if len(drawn) == 2 and drawn[0].size == drawn[1].size else len(drawn)
            assert len(clauses) == expected, (kind, text)
            for finding in drawn:
                side = "bilateral" if expected == 1 < len(drawn) else finding.side
                wanted = [side, finding.location.split(" ")[0], finding.size]
                matching = [clause for clause in clauses if all(word in clause.lower() for word in wanted)]
                assert matching, (wanted, text)
                other = {"left": "right", "right": "left"}.get(side)
                assert other is None or not any(other in clause.lower() for clause in matching), text
    for finding in findings:  # what is there is not denied
        denied = [s for s in re.split(r"(?<=\.) ", text) if re.match(r"(There is )?[Nn]o\b", s)]
        assert not any(re.search(WORDS[finding.kind], sentence) for sentence in denied), text


def test_wording_varies():
    reports = [write_report(case(0, index)[1], np.random.default_rng(index))[0] for index in range(300)]
    assert len(set(reports)) > 270
    comparing = sum(bool(re.search(COMPARING, text, re.IGNORECASE)) for text in reports)
    assert 90 < comparing < 240
    assert sum("possible" in text.lower() or "may be" in text for text in reports) > 5
    assert sum("effusion or pneumothorax" in text for text in reports) > 30
    for text in reports:
        assert re.fullmatch(r"([A-Z][^.{}]*\.)( [A-Z][^.{}]*\.)*", text), text
        assert not re.search(r"\ba [aeiou]|  |\ban [^aeiou]", text), text
