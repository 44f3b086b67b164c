from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rarrg.report.html import render
from rarrg.report.join import join_phrases, phrase_sentences
from rarrg.types import Dropped, Fault, Grounding, Report, RetrievedPhrase

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; fails on an unbalanced tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def keys(self) -> list[str]:
        return [values["data-key"] or "" for tag, values in self.elements if tag == "a"]


def phrase(text: str, probability: float = 0.9, similarity: float = 0.8, query: int = 0) -> RetrievedPhrase:
    return RetrievedPhrase(text, probability, similarity, query)


def make_report(**changes) -> Report:
    phrases = changes.pop(
        "phrases",
        {
            "frontal": (phrase("mild cardiomegaly", 0.91, 0.72), phrase("no pleural effusion", 0.55, 0.97)),
            "lateral": (phrase("no pleural effusion", 0.31, 0.64),),
        },
    )
    values = {
        "text": join_phrases(phrases),
        "phrases": phrases,
        "grounding": Grounding(tuple(phrase_sentences(phrases))),
        "images": {position: (f"folder/{position}.jpg",) for position in phrases},
        "threshold": 0.4,
        "version": "1.2.3",
        "model": {"name": "tiny-model", "sha256": "a1" * 32},
        "store": {"name": "tiny-store", "sha256": "b2" * 32},
    }
    return Report(**(values | changes))


def images_of(report: Report) -> dict:
    ramp = np.linspace(0, 255, 40 * 60).reshape(40, 60).astype(np.uint8)
    return {position: [ramp] * len(files) for position, files in report.images.items()}


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def test_page_asks_for_nothing_outside_itself():
    report = make_report()
    page = render(report, images_of(report))
    for tag, values in Page(page).elements:
        for name in ("src", "href"):
            if name in values:
                assert (values[name] or "").startswith(("data:", "#")), (tag, values)
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page


def test_page_says_report_phrases_scores_and_provenance():
    report = make_report()
    words = Page(render(report, images_of(report))).words
    for expected in (
        "Mild cardiomegaly.", "mild cardiomegaly", "0.91", "0.72", "0.55", "0.97", "0.31", "0.64",
        "frontal.jpg", "lateral.jpg", "tiny-model", "a1a1a1a1a1a1", "tiny-store", "b2b2b2b2b2b2",
        "Selection threshold 0.40", "1.2.3", "Not for clinical use",
    ):  # fmt: skip
        assert expected in words


def test_images_are_inside_the_page():
    report = make_report(phrases={"frontal": (phrase("clear lungs"),)})
    image = np.zeros((1500, 3000), dtype=np.uint8)
    image[:, 1500:] = 200
    page = Page(render(report, {"frontal": [image]}))
    (shown,) = [values for tag, values in page.elements if tag == "img"]
    decoded = np.asarray(Image.open(BytesIO(base64.b64decode((shown["src"] or "").split(",")[1]))))
    assert decoded.shape == (512, 1024)
    assert abs(int(decoded[256, 900]) - 200) < 4
    assert abs(int(decoded[256, 100])) < 4


def test_maps_reach_the_page_row_by_row_from_their_mean_to_their_peak():
    report = make_report(phrases={"lateral": (phrase("a"), phrase("b"), phrase("c"))})
    maps = np.array(
        [
            [[0.1, 0.2, 0.6], [0.0, 0.0, 0.3]],  # mean 0.2, peak 0.4 above it
            [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
            [[0.9, 1.1, 1.0], [1.0, 1.0, 1.0]],  # prefers little, so shows little
        ]
    )
    data = data_of(render(report, images_of(report), {"lateral": maps}))["maps"]
    assert [(one["height"], one["width"]) for one in data.values()] == [(2, 3)] * 3
    shown = {key: list(base64.b64decode(one["data"])) for key, one in data.items()}
    assert shown == {
        "lateral-0": [0, 0, 255, 0, 0, 64],
        "lateral-1": [0] * 6,
        "lateral-2": [0, 26, 0, 0, 0, 0],
    }


def test_maps_must_be_as_many_as_phrases():
    report = make_report()
    with pytest.raises(ValueError, match="shorter"):
        render(report, images_of(report), {"frontal": np.ones((1, 2, 2))})


def test_sentences_point_at_all_their_phrases():
    report = make_report()
    page = render(report, images_of(report))
    assert data_of(page)["links"] == {"sentence-0": ["frontal-0"], "sentence-1": ["frontal-1", "lateral-0"]}
    assert Page(page).keys() == ["sentence-0", "sentence-1", "frontal-0", "frontal-1", "lateral-0"]


def test_a_text_without_grounding_is_shown_plain():
    report = make_report(text="The heart is mildly enlarged.", grounding=Grounding())
    page = render(report, images_of(report))
    assert data_of(page)["links"] == {}
    assert "The heart is mildly enlarged." in Page(page).words


def test_several_images_of_a_view_have_their_own_phrases_and_maps():
    phrases = {"frontal": (phrase("clear lungs"), RetrievedPhrase("old rib fracture", 0.6, 0.5, 3, image=1))}
    report = make_report(phrases=phrases, images={"frontal": ("a/one.jpg", "a/two.jpg")})
    page = render(report, images_of(report), {"frontal": np.ones((2, 3, 3))})
    parsed = Page(page)
    assert "one.jpg" in parsed.words
    assert "two.jpg" in parsed.words
    assert data_of(page)["owners"] == {"frontal-0": "frontal-image-0", "frontal-1": "frontal-image-1"}
    sections = [values["data-view"] for _, values in parsed.elements if "data-view" in values]
    assert sections == ["frontal-image-0", "frontal-image-1"]


def test_the_page_tells_what_was_done_to_a_draft_and_what_was_dropped():
    kept, lost = phrase("no pleural effusion", 0.8), phrase("small left pleural effusion", 0.5)
    grounding = Grounding(
        tuple(phrase_sentences({"frontal": (kept,)})),
        drafts=((Fault("unsupported", "There is a nodule.", "'nodule': no phrase speaks of it"),),),
        removed=("There is a nodule.",),
        added=("no pleural effusion",),
    )
    dropped = (Dropped("frontal", lost, "frontal", kept, "less probable than 'no pleural effusion'"),)
    report = make_report(phrases={"frontal": (kept,)}, grounding=grounding, dropped=dropped)
    words = Page(render(report, images_of(report))).words
    for expected in (
        "The report was mended",
        "Draft 1: 'nodule': no phrase speaks of it",
        "Taken out: There is a nodule.",
        "Added: no pleural effusion",
        "small left pleural effusion less probable than",
    ):
        assert expected in words


def test_flagged_view_is_said_plainly():
    report = make_report()
    assert "passed the selection threshold" not in Page(render(report, images_of(report))).words
    flagged = make_report(below_threshold=("lateral",))
    page = Page(render(flagged, images_of(flagged)))
    assert page.words.count("No phrase of this view passed the selection threshold of 0.40") == 1


def test_one_view_alone():
    report = make_report(phrases={"lateral": (phrase("clear lungs"),)})
    page = Page(render(report, images_of(report)))
    assert "lateral view" in page.words
    assert "frontal" not in page.words


def test_names_and_phrases_cannot_inject_markup():
    evil = "</script><script>alert(1)</script><b>"
    report = make_report(
        phrases={"frontal": (phrase(evil),)},
        images={"frontal": ("<img onerror=1>.jpg",)},
        model={"name": evil, "sha256": "0" * 64},
    )
    page = Page(render(report, images_of(report), {"frontal": np.ones((1, 2, 2))}))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2
    assert tags.count("b") == 2  # the two meters of the one phrase
    assert tags.count("img") == 1
    assert evil in page.words


@pytest.mark.slow
def test_a_fragment_opens_the_page_with_a_phrase_shown(tmp_path: Path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    report = make_report()
    maps = {"frontal": np.random.default_rng(0).random((2, 5, 4)), "lateral": np.ones((1, 5, 4))}
    (tmp_path / "page.html").write_text(render(report, images_of(report), maps), encoding="utf-8")
    options = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
    ]
    dump = subprocess.run(
        [*options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{tmp_path}/page.html#sentence-1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    page = Page(dump)
    lit = [values for _, values in page.elements if "lit" in (values.get("class") or "").split()]
    assert sorted(values.get("data-row") or values.get("data-key") or "" for values in lit) == [
        "frontal-1",
        "lateral-0",
        "sentence-1",
    ]
    assert page.words.count("Where the model looked for “no pleural effusion”") == 2
