from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from rarrg.data.iu_xray import hashed_split, open_i_positions, read
from rarrg.errors import RarrgError
from rarrg.types import Study, View

MANIFEST = """study_id,view,image_path,findings,impression,split
7,frontal,images/7_IM-0001-1001.dcm.jpg,"The lungs
are clear.",Normal.,train
8,lateral,images/8_IM-0002-2001.dcm.jpg,,Normal.,extra
7,lateral,images/7_IM-0001-2001.dcm.jpg,The lungs are clear.,Normal.,train
"""
REPORTS = """uid,MeSH,Problems,image,indication,comparison,findings,impression
7,normal,normal,PA and lateral,Cough,None,The lungs are clear.,Normal.
8,normal,normal,PA and lateral,Cough,None,,Normal.
9,normal,normal,PA and lateral,Cough,None,No image here.,Normal.
"""
PROJECTIONS = """uid,filename,projection
7,7_IM-0001-1001.dcm.png,Frontal
7,7_IM-0001-2001.dcm.png,Lateral
8,8_IM-0002-2001.dcm.png,Lateral
"""


def xml(uid: str, images: list[str], findings: str = "The heart is <i>not</i>\n enlarged.") -> str:
    parents = "".join(f'<parentImage id="{i}"><caption>PA and lateral</caption></parentImage>' for i in images)
    return (
        f'<?xml version="1.0"?><eCitation><uId id="{uid}"/><MedlineCitation><Article><Abstract>'
        f'<AbstractText Label="INDICATION">Cough</AbstractText><AbstractText Label="FINDINGS">{findings}</AbstractText>'
        f'<AbstractText Label="IMPRESSION">Normal.</AbstractText></Abstract></Article></MedlineCitation>'
        f"{parents}</eCitation>"
    )


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    write(tmp_path / "manifest.csv", MANIFEST)
    return tmp_path


@pytest.fixture
def kaggle(tmp_path: Path) -> Path:
    write(tmp_path / "indiana_reports.csv", REPORTS)
    write(tmp_path / "indiana_projections.csv", PROJECTIONS)
    return tmp_path


@pytest.fixture
def open_i(tmp_path: Path) -> Path:
    reports = tmp_path / "ecgen-radiology"
    write(reports / "7.xml", xml("CXR7", ["CXR7_IM-0001-1001", "CXR7_IM-0001-2001"]))
    write(reports / "10.xml", xml("CXR10", ["CXR10_IM-0003-0001-0001"], findings=""))
    write(reports / "9.xml", xml("CXR9", []))
    write(tmp_path / "NLMCXR_png" / "CXR7_IM-0001-1001.png")
    return tmp_path


def refusal(root: Path) -> str:
    with pytest.raises(RarrgError) as caught:
        read(root)
    message = str(caught.value)
    assert str(root) in message
    assert "\n" not in message
    return message


def test_manifest_layout(manifest: Path):
    images = manifest / "images"
    assert read(manifest) == [
        Study(
            "7",
            "train",
            (
                View(str(images / "7_IM-0001-1001.dcm.jpg"), "frontal", "7_IM-0001-1001"),
                View(str(images / "7_IM-0001-2001.dcm.jpg"), "lateral", "7_IM-0001-2001"),
            ),
            "The lungs are clear.",
            "Normal.",
        ),
        Study(
            "8", "extra", (View(str(images / "8_IM-0002-2001.dcm.jpg"), "lateral", "8_IM-0002-2001"),), "", "Normal."
        ),
    ]


def test_kaggle_layout(kaggle: Path):
    (kaggle / "images" / "images_normalized").mkdir(parents=True)
    studies = read(kaggle)
    assert [(study.id, study.findings, study.impression) for study in studies] == [
        ("7", "The lungs are clear.", "Normal."),
        ("8", "", "Normal."),
    ]
    assert [(view.position, view.image_id) for view in studies[0].views] == [
        ("frontal", "7_IM-0001-1001"),
        ("lateral", "7_IM-0001-2001"),
    ]
    assert studies[0].views[0].path == kaggle / "images" / "images_normalized" / "7_IM-0001-1001.dcm.png"
    assert [study.split for study in studies] == [hashed_split("7"), hashed_split("8")]


def test_kaggle_images_directly_in_images(kaggle: Path):
    assert read(kaggle)[0].views[0].path == kaggle / "images" / "7_IM-0001-1001.dcm.png"


def test_open_i_layout(open_i: Path):
    studies = read(open_i)
    assert [study.id for study in studies] == ["7", "10"]  # by number; 9 has no image
    folder = open_i / "NLMCXR_png"
    assert studies[0] == Study(
        "7",
        hashed_split("7"),
        (
            View(str(folder / "CXR7_IM-0001-1001.png"), "frontal", "CXR7_IM-0001-1001"),
            View(str(folder / "CXR7_IM-0001-2001.png"), "lateral", "CXR7_IM-0001-2001"),
        ),
        "The heart is not enlarged.",
        "Normal.",
    )
    assert studies[1].findings == ""
    assert studies[1].views[0].position == "other"


def test_open_i_reports_and_images_in_one_folder(tmp_path: Path):
    write(tmp_path / "7.xml", xml("CXR7", ["CXR7_IM-0001-1001"]))
    write(tmp_path / "CXR7_IM-0001-1001.png")
    assert read(tmp_path)[0].views[0].path == tmp_path / "CXR7_IM-0001-1001.png"


@pytest.mark.parametrize(
    ("numbers", "positions"),
    [
        (["1001", "2001"], ("frontal", "lateral")),
        (["2001", "1001"], ("lateral", "frontal")),  # the order of the images does not matter
        (["1001", "4004"], ("lateral", "frontal")),
        (["2001"], ("lateral",)),
        (["2001", "3001"], ("other", "other")),
        (["1001", "2001", "3001"], ("other", "other", "other")),
        (["0001-0001", "0001-0002"], ("other", "other")),
        (["1001-2001"], ("other",)),
        ([], ()),
    ],
)
def test_open_i_positions(numbers: list[str], positions: tuple[str, ...]):
    assert open_i_positions([f"CXR12_IM-0135-{number}" for number in numbers]) == positions


def test_open_i_positions_of_the_study_with_a_longer_id():
    assert open_i_positions(["CXR1_1_IM-0001-1001", "CXR1_1_IM-0001-1002"]) == ("frontal", "lateral")


def test_split_proportions_and_known_values():
    counts = Counter(hashed_split(str(number)) for number in range(1, 4000))
    assert counts["train"] / 3999 == pytest.approx(0.7, abs=0.02)
    assert counts["val"] / 3999 == pytest.approx(0.1, abs=0.02)
    assert counts["test"] / 3999 == pytest.approx(0.2, abs=0.02)
    # Written down, for a changed hash would leak test studies into training.
    assert [hashed_split(str(number)) for number in range(1, 9)] == [
        "test",
        "train",
        "val",
        "test",
        "train",
        "train",
        "train",
        "train",
    ]


def test_missing_folder_and_other_layouts(tmp_path: Path):
    assert "no such folder" in refusal(tmp_path / "nowhere")
    assert "is not an IU X-Ray folder" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("study_id,view", "study_id,position", "has no column 'view'"),
        ("8,lateral", "8,Side", "line 4: unknown view 'Side'; expected frontal, PA, AP, lateral, LL or other"),
        ("Normal.,extra", "Normal.,dev", "line 4: unknown split 'dev'"),
        ("8_IM-0002-2001.dcm.jpg", "7_IM-0001-1001.png", "line 4: image 7_IM-0001-1001 is listed twice"),
        ("images/8_IM-0002-2001.dcm.jpg", "", "line 4: names no image file"),
        ("Normal.,train\n", "Abnormal.,train\n", "line 5: split or report of study 7 differs"),
        ("Normal.,train\n", "Normal.,test\n", "line 5: split or report of study 7 differs"),
    ],
)
def test_broken_manifest(manifest: Path, old: str, new: str, words: str):
    write(manifest / "manifest.csv", MANIFEST.replace(old, new, 1))
    assert words in refusal(manifest)


@pytest.mark.parametrize(
    ("view", "position"),
    [(name, "frontal") for name in ("frontal", "Frontal", "PA", "pa", "AP", "Ap")]
    + [(name, "lateral") for name in ("lateral", "LATERAL", "LL", "ll")]
    + [("Other", "other")],
)
def test_manifest_views_have_several_names(manifest: Path, view: str, position: str):
    write(manifest / "manifest.csv", MANIFEST.replace("7,frontal", f"7,{view}"))
    assert read(manifest)[0].views[0].position == position


def test_manifest_without_rows(manifest: Path):
    write(manifest / "manifest.csv", MANIFEST.splitlines()[0] + "\n")
    assert "holds no study with an image" in refusal(manifest)


@pytest.mark.parametrize("name", ["indiana_reports.csv", "indiana_projections.csv"])
def test_kaggle_with_one_table_missing(kaggle: Path, name: str):
    (kaggle / name).unlink()
    assert f"{kaggle / name}: is missing" in refusal(kaggle)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("indiana_reports.csv", "findings", "text", "has no column 'findings'"),
        ("indiana_reports.csv", "\n8,", "\n7,", "line 3: study 7 is listed twice"),
        ("indiana_projections.csv", "projection", "view", "has no column 'projection'"),
        ("indiana_projections.csv", "Frontal", "Oblique", "line 2: unknown projection 'Oblique'"),
        ("indiana_projections.csv", "\n8,", "\n11,", "line 4: study 11 has no report in indiana_reports.csv"),
        ("indiana_projections.csv", "8_IM-0002-2001", "7_IM-0001-1001", "line 4: image 7_IM-0001-1001 is listed twice"),
    ],
)
def test_broken_kaggle_tables(kaggle: Path, name: str, old: str, new: str, words: str):
    path = kaggle / name
    path.write_text(path.read_text().replace(old, new, 1))
    assert f"{path}" in refusal(kaggle)
    assert words in refusal(kaggle)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<eCitation>", "is not valid XML"),
        ("<eCitation/>", "has no <uId id=...>"),
        (xml("CXR7", ["CXR8_IM-0001-1001"]), "study CXR7 is also in another report"),
        (xml("CXR8", ["CXR7_IM-0001-1001"]), "image CXR7_IM-0001-1001 is listed twice"),
        (xml("CXR8", [""]), "names no image file"),
    ],
)
def test_broken_xml(open_i: Path, text: str, words: str):
    path = write(open_i / "ecgen-radiology" / "8.xml", text)
    message = refusal(open_i)
    assert str(path) in message
    assert words in message


def test_folder_in_place_of_a_report(open_i: Path):
    (open_i / "ecgen-radiology" / "8.xml").mkdir()
    assert "8.xml: cannot be read" in refusal(open_i)


def test_open_i_without_images_or_with_two_image_folders(open_i: Path):
    write(open_i / "copy" / "CXR7_IM-0001-1001.png")
    assert "expected them in the folder itself or in one folder below it" in refusal(open_i)
    for image in open_i.rglob("*.png"):
        image.unlink()
    assert "holds no PNG images" in refusal(open_i)


def test_open_i_reports_alone(open_i: Path):
    (open_i / "NLMCXR_png" / "CXR7_IM-0001-1001.png").unlink()
    studies = read(open_i, images=False)
    assert [(study.id, len(study.views), bool(study.findings)) for study in studies] == [
        ("7", 2, True),
        ("9", 0, True),
        ("10", 1, False),
    ]


def test_real_manifest(iu_xray_root: Path):
    studies = read(iu_xray_root)
    with (iu_xray_root / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    views = [(study, view) for study in studies for view in study.views]
    assert len(views) == len(rows)
    assert len({study.id for study in studies}) == len(studies) == len({row["study_id"] for row in rows})
    assert Counter((study.split, view.position, study.findings != "") for study, view in views) == Counter(
        (row["split"], row["view"], row["findings"].strip() != "") for row in rows
    )
    assert all(view.path.is_file() for _, view in views)
    assert not any("\n" in study.findings for study in studies)


def test_open_i_positions_agree_with_labelled_views(iu_xray_root: Path):
    agree: Counter[str] = Counter()
    for study in read(iu_xray_root):
        for view, position in zip(study.views, open_i_positions([v.image_id for v in study.views]), strict=True):
            agree["unknown" if position == "other" else "same" if position == view.position else "different"] += 1
    known = agree["same"] + agree["different"]
    assert agree["same"] / known > 0.955
    assert known / agree.total() > 0.8
