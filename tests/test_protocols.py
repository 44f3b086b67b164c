"""Protocols on small made-up data sets in the real layouts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rarrg.data.annotations import PROMPTMRG, R2GEN
from rarrg.errors import RarrgError
from rarrg.protocols import EXPECTED, Protocol, Sample, as_studies, read_protocol

METADATA = """dicom_id,subject_id,study_id,ViewPosition,ViewCodeSequence_CodeMeaning
tr-1,10000032,50000001,PA,postero-anterior
te-1,11000001,50000002,AP,antero-posterior
te-2,11000001,50000002,PA,postero-anterior
te-3,11000001,50000002,LATERAL,lateral
te-4,11000001,50000002,LL,left lateral
te-5,12000007,50000003,,postero-anterior
te-6,12000007,50000003,LAO,
te-7,12000008,50000004,PA,postero-anterior
te-8,12000009,50000005,PA,postero-anterior
"""
SPLIT = "dicom_id,study_id,subject_id,split\n" + "".join(
    f"{row.split(',')[0]},{row.split(',')[2]},{row.split(',')[1]},{'train' if row.startswith('tr') else 'test'}\n"
    for row in METADATA.splitlines()[1:]
)
SECTIONED = """study,impression,findings,last_paragraph,comparison
s50000001,Normal.,"The lungs
 are  clear.",,
s50000002,,No effusion.,,None.
s50000003,Normal.,"The LUNGS are clear",,
s50000004,Only an impression.,,,
s50000005,,Heart enlarged.,,
"""


@pytest.fixture
def mimic(tmp_path: Path) -> Path:
    (tmp_path / "mimic-cxr-2.0.0-metadata.csv").write_text(METADATA)
    (tmp_path / "mimic-cxr-2.0.0-split.csv").write_text(SPLIT)
    (tmp_path / "mimic_cxr_sectioned.csv").write_text(SECTIONED)
    return tmp_path


def views(sample: Sample) -> dict[str, list[str]]:
    return {view: [path.stem for path in paths] for view, paths in sample.images.items()}


def test_every_image_of_a_test_study_with_findings_is_a_sample(mimic: Path) -> None:
    protocol = read_protocol("mimic-single", mimic, "mimic_cxr", "test")
    assert {sample.id: views(sample) for sample in protocol.samples} == {
        "te-1": {"frontal": ["te-1"]},
        "te-2": {"frontal": ["te-2"]},
        "te-3": {"lateral": ["te-3"]},
        "te-4": {"lateral": ["te-4"]},
        "te-5": {"frontal": ["te-5"]},
        "te-6": {"other": ["te-6"]},  # nothing is filtered
        "te-8": {"frontal": ["te-8"]},
    }
    assert [sample.reference for sample in protocol.samples[:2]] == ["No effusion."] * 2
    patients = {"p11000001": ["te-1", "te-2", "te-3", "te-4"], "p12000007": ["te-5", "te-6"], "p12000009": ["te-8"]}
    assert {sample.id: sample.group for sample in protocol.samples} == {
        name: patient for patient, names in patients.items() for name in names
    }
    # Case and punctuation do not count.
    assert [sample.id for sample in protocol.samples if sample.seen] == ["te-5", "te-6"]
    assert protocol.training_reports == 1
    assert protocol.warning() == (
        "warning: mimic-single has 7 samples here, 3858 in the literature; figures cannot be put beside published ones"
    )


def test_every_pa_or_ap_image_has_one_lateral_of_its_study(mimic: Path) -> None:
    protocol = read_protocol("mimic-multi", mimic, "mimic_cxr", "test")
    found = {sample.id: views(sample) for sample in protocol.samples}
    assert list(found) == ["te-1", "te-2", "te-8"]  # te-5 has no ViewPosition
    assert found["te-8"] == {"frontal": ["te-8"]}
    drawn = found["te-1"]["lateral"]
    assert drawn in (["te-3"], ["te-4"])
    assert found["te-2"] == {"frontal": ["te-2"], "lateral": drawn}
    assert read_protocol("mimic-multi", mimic, "mimic_cxr", "test").samples == protocol.samples


def test_the_lateral_does_not_depend_on_the_order_of_the_rows(mimic: Path) -> None:
    before = {sample.id: views(sample) for sample in read_protocol("mimic-multi", mimic, "mimic_cxr", "test").samples}
    head, *rows = METADATA.splitlines()
    (mimic / "mimic-cxr-2.0.0-metadata.csv").write_text("\n".join([head, *rows[::-1]]) + "\n")
    after = {sample.id: views(sample) for sample in read_protocol("mimic-multi", mimic, "mimic_cxr", "test").samples}
    assert after == before


def test_a_study_has_one_frontal_and_one_lateral_image_at_most(mimic: Path) -> None:
    protocol = read_protocol("studies", mimic, "mimic_cxr", "test")
    assert {sample.id: views(sample) for sample in protocol.samples} == {
        "s50000002": {"frontal": ["te-1"], "lateral": ["te-3"]},
        "s50000003": {"frontal": ["te-5"]},
        "s50000005": {"frontal": ["te-8"]},
    }
    assert protocol.warning() is None
    (train,) = read_protocol("studies", mimic, "mimic_cxr", "train").samples
    assert train.seen


def test_promptmrg_s_references_are_cut_and_its_images_stand_alone(tmp_path: Path) -> None:
    long = " ".join(f"word{number}" for number in range(120))
    rows = [{"image_path": [f"CXR1/{n}.png"], "report": long, "labels": []} for n in (0, 1)]
    (tmp_path / PROMPTMRG).write_text(json.dumps(rows), encoding="utf-8")
    protocol = read_protocol("iu-promptmrg", tmp_path, "iu_xray", "test")
    assert [views(sample) for sample in protocol.samples] == [{"frontal": ["0"]}, {"lateral": ["1"]}]
    assert [sample.group for sample in protocol.samples] == ["CXR1", "CXR1"]
    assert protocol.samples[0].reference.split() == long.split()[:100]
    assert protocol.settings["reference_words"] == 100
    assert protocol.training_reports == 0
    assert "4168 in the literature" in str(protocol.warning())


def test_r2gen_s_test_split_has_both_images(tmp_path: Path) -> None:
    def entry(name: str, report: str) -> dict:
        return {"id": name, "report": report, "image_path": [f"{name}/0.png", f"{name}/1.png"]}

    splits = {
        "train": [entry("a", "Clear .")],
        "val": [entry("v", "x")],
        "test": [entry("b", "clear"), entry("c", "y")],
    }
    (tmp_path / R2GEN).write_text(json.dumps(splits), encoding="utf-8")
    protocol = read_protocol("iu-r2gen", tmp_path, "iu_xray", "test")
    assert [(sample.id, sample.seen) for sample in protocol.samples] == [("b", True), ("c", False)]
    assert views(protocol.samples[0]) == {"frontal": ["0"], "lateral": ["1"]}
    assert "590 in the literature" in str(protocol.warning())


def test_the_real_test_split_and_what_of_it_is_seen(iu_xray_root: Path) -> None:
    protocol = read_protocol("studies", iu_xray_root, "iu_xray", "test")
    assert len(protocol.samples) == 280
    assert sum(sample.seen for sample in protocol.samples) == 129


def test_the_expected_number_is_no_warning() -> None:
    samples = tuple(Sample(str(number), {}, "x") for number in range(EXPECTED["iu-r2gen"]))
    assert Protocol("iu-r2gen", samples).warning() is None


def test_the_checksum_is_of_ids_and_references_alone() -> None:
    one, two = Sample("a", {}, "x"), Sample("b", {}, "y", seen=True)
    checksum = Protocol("studies", (one, two)).checksum()
    assert checksum == Protocol("references", (two, Sample("a", {"frontal": (Path("i"),)}, "x"))).checksum()
    assert checksum != Protocol("studies", (one, Sample("b", {}, "z"))).checksum()
    assert checksum != Protocol("studies", (Sample("ax", {}, ""), two)).checksum()


def test_samples_become_studies_of_their_images(mimic: Path) -> None:
    protocol = read_protocol("mimic-multi", mimic, "mimic_cxr", "test")
    study = as_studies(protocol, "test")[0]
    assert (study.id, study.findings, [view.position for view in study.views]) == (
        "te-1", "No effusion.", ["frontal", "lateral"],
    )  # fmt: skip


def test_mistakes_are_one_line(tmp_path: Path, mimic: Path) -> None:
    with pytest.raises(RarrgError, match=r"data\.root: no folder"):
        read_protocol("studies", tmp_path / "nowhere", "iu_xray", "test")
    with pytest.raises(RarrgError, match="mimic-single is of the test split, got val"):
        read_protocol("mimic-single", mimic, "mimic_cxr", "val")
    with pytest.raises(RarrgError, match="has no sample of studies"):
        read_protocol("studies", mimic, "mimic_cxr", "val")
    with pytest.raises(RarrgError, match=r"annotation\.json: cannot be read"):
        read_protocol("iu-r2gen", tmp_path, "iu_xray", "test")
