from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rarrg.data.mimic_cxr import position_of, read
from rarrg.errors import RarrgError
from rarrg.types import Study, View

METADATA = """dicom_id,subject_id,study_id,StudyDescription,ViewPosition,Rows,ViewCodeSequence_CodeMeaning
aa-1,10000032,50000001,CHEST (PA AND LAT),PA,3056,postero-anterior
bb-2,11000001,50000002,CHEST (PORTABLE AP),AP,3056,antero-posterior
aa-3,10000032,50000001,CHEST (PA AND LAT),LATERAL,3056,lateral
cc-4,12000007,50000003,CHEST,,2544,left lateral
cc-5,12000007,50000003,CHEST,LAO,2544,
dd-6,12000008,50000004,CHEST,LL,2544,left lateral
"""
SPLIT = """dicom_id,study_id,subject_id,split
aa-1,50000001,10000032,train
aa-3,50000001,10000032,train
bb-2,50000002,11000001,validate
cc-4,50000003,12000007,test
cc-5,50000003,12000007,test
dd-6,50000004,12000008,train
"""
SECTIONED = """study,impression,findings,last_paragraph,comparison
s50000001,Normal.,"The lungs
 are  clear.",,
s50000002,,No effusion.,,None.
s50000003,Normal.,Clear.,,
s50000004,Only an impression.,"
 ",,
"""
REPORTS = {
    "p10/p10000032/s50000001.txt": "Title\n FINDINGS: \n \n The lungs\n are  clear.\n \n IMPRESSION: Normal.\n",
    "p11/p11000001/s50000002.txt": "Title\n PORTABLE CHEST: No effusion.\n",
    "p12/p12000007/s50000003.txt": "Title\n FINDINGS: Old.\n FINDINGS: Clear.\n IMPRESSION: Normal.",
    "p12/p12000008/s50000004.txt": "Title\n IMPRESSION: Only an impression.\n",
}
TABLES = {
    "mimic-cxr-2.0.0-metadata.csv": METADATA,
    "mimic-cxr-2.0.0-split.csv": SPLIT,
    "mimic_cxr_sectioned.csv": SECTIONED,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def expected(root: Path) -> list[Study]:
    files = root / "files"
    patient = files / "p12" / "p12000007" / "s50000003"
    return [
        Study(
            "s50000001",
            "train",
            (
                View(str(files / "p10" / "p10000032" / "s50000001" / "aa-1.jpg"), "frontal", "aa-1"),
                View(str(files / "p10" / "p10000032" / "s50000001" / "aa-3.jpg"), "lateral", "aa-3"),
            ),
            "The lungs are clear.",
            "Normal.",
        ),
        Study(
            "s50000002",
            "val",
            (View(str(files / "p11" / "p11000001" / "s50000002" / "bb-2.jpg"), "frontal", "bb-2"),),
            "No effusion.",
        ),
        Study(
            "s50000003",
            "test",
            (View(str(patient / "cc-4.jpg"), "lateral", "cc-4"), View(str(patient / "cc-5.jpg"), "other", "cc-5")),
            "Clear.",
            "Normal.",
        ),
    ]


def write_reports(root: Path) -> None:
    (root / "mimic_cxr_sectioned.csv").unlink()
    for name, text in REPORTS.items():
        path = root / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def refusal(root: Path) -> str:
    with pytest.raises(RarrgError) as caught:
        read(root)
    message = str(caught.value)
    assert str(root) in message
    assert "\n" not in message
    return message


def test_only_studies_with_findings_are_read(root: Path):
    assert read(root) == expected(root)


def test_gzipped_tables_of_another_version(tmp_path: Path):
    for name, text in TABLES.items():
        (tmp_path / f"{name.replace('2.0.0', '2.1.0')}.gz").write_bytes(gzip.compress(text.encode()))
    assert read(tmp_path) == expected(tmp_path)


def test_newest_version_is_read_and_plain_before_gzipped(root: Path):
    for kind in ("metadata", "split"):
        plain = root / f"mimic-cxr-2.0.0-{kind}.csv"
        plain.rename(root / f"mimic-cxr-2.10.0-{kind}.csv")
        (root / f"mimic-cxr-2.9.0-{kind}.csv").write_text("old\n")
        (root / f"mimic-cxr-2.10.0-{kind}.csv.gz").write_bytes(b"not read")
    assert read(root) == expected(root)


def test_report_texts_give_the_same_studies_as_the_table(root: Path):
    write_reports(root)
    assert read(root) == expected(root)


def test_reports_that_were_cut_by_hand_are_left_out_of_the_texts_too(root: Path):
    for name in ("mimic-cxr-2.0.0-metadata.csv", "mimic-cxr-2.0.0-split.csv"):
        (root / name).write_text(TABLES[name].replace("50000002", "50913680"))
    write_reports(root)
    (root / "files/p11/p11000001/s50913680.txt").write_text("Title\n FINDINGS: No effusion.\n")
    assert [study.id for study in read(root)] == ["s50000001", "s50000003"]


@pytest.mark.parametrize(
    ("view_position", "view_code", "position"),
    [
        ("AP", "", "frontal"),
        ("PA", "lateral", "frontal"),  # the code is asked only where ViewPosition is empty
        ("LATERAL", "", "lateral"),
        ("LL", "", "lateral"),
        ("ll ", "", "lateral"),
        ("LAO", "left lateral", "other"),
        ("XTABLE LATERAL", "", "other"),
        ("AP AXIAL", "antero-posterior", "other"),
        ("", "postero-anterior", "frontal"),
        ("", "antero-posterior", "frontal"),
        ("", "lateral", "lateral"),
        (" ", "Left Lateral", "lateral"),
        ("", "left anterior oblique", "other"),
        ("", "", "other"),
    ],
)
def test_position(view_position: str, view_code: str, position: str):
    assert position_of(view_position, view_code) == position


def test_missing_folder_and_missing_tables(root: Path):
    assert "no such folder" in refusal(root / "nowhere")
    (root / "mimic-cxr-2.0.0-split.csv").unlink()
    assert "holds no mimic-cxr-2.0.0-split.csv(.gz)" in refusal(root)
    (root / "mimic-cxr-2.0.0-metadata.csv").unlink()
    assert "holds no mimic-cxr-2.0.0-metadata.csv(.gz)" in refusal(root)


def test_neither_sections_nor_reports(root: Path):
    (root / "mimic_cxr_sectioned.csv").unlink()
    message = refusal(root)
    assert str(root / "files" / "p10" / "p10000032" / "s50000001.txt") in message
    assert "put mimic_cxr_sectioned.csv into" in message


def test_one_report_missing_or_no_text(root: Path):
    write_reports(root)
    path = root / "files/p12/p12000008/s50000004.txt"
    path.write_bytes(b"Title\n FINDINGS: \xff\xfe")
    assert f"{path}: is not UTF-8 text" in refusal(root)
    path.unlink()
    assert f"{path}: cannot be read" in refusal(root)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("mimic-cxr-2.0.0-metadata.csv", "ViewPosition", "View", "has no column 'ViewPosition'"),
        ("mimic-cxr-2.0.0-metadata.csv", "bb-2", "aa-1", "line 3: image aa-1 is listed twice"),
        ("mimic-cxr-2.0.0-metadata.csv", "bb-2", "zz-9", "line 3: image zz-9 has no row in mimic-cxr-2.0.0-split.csv"),
        ("mimic-cxr-2.0.0-split.csv", "validate", "val", "line 4: unknown split 'val'; expected train, validate, test"),
        ("mimic-cxr-2.0.0-split.csv", "bb-2", "aa-1", "line 4: image aa-1 is listed twice"),
        ("mimic-cxr-2.0.0-split.csv", "32,train\nbb", "32,test\nbb", "s50000001 is in two splits, train and test"),
        ("mimic_cxr_sectioned.csv", "findings", "text", "has no column 'findings'"),
        ("mimic_cxr_sectioned.csv", "s50000002", "s50000001", "line 4: study s50000001 is listed twice"),
        ("mimic_cxr_sectioned.csv", "s5", "5", "line 3: study '50000001'"),
    ],
)
def test_broken_tables(root: Path, name: str, old: str, new: str, words: str):
    (root / name).write_text(TABLES[name].replace(old, new, 1))
    message = refusal(root)
    assert str(root / name) in message
    assert words in message


def test_no_study_with_findings(root: Path):
    (root / "mimic_cxr_sectioned.csv").write_text(SECTIONED.splitlines()[0] + "\n")
    assert "lists no study with a FINDINGS section" in refusal(root)
