"""What stays of an LLM's phrases. The labeler is the package's own; a report is what these cases need of it."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from rarrg.extract.refine import Removed, clean, refine
from rarrg.metrics.findings import label_findings

REPORT = "The heart is normal in size. No pneumothorax or pleural effusion. Calcified granuloma in the left lung."


def kept(*said: str, report: str = REPORT, structure: tuple[str, ...] = ()) -> tuple[str, ...]:
    return refine(said, report, structure, label_findings).phrases


def removed(*said: str, report: str = REPORT) -> tuple[Removed, ...]:
    return refine(said, report, (), label_findings).removed


def examples() -> list[dict]:
    text = resources.files("rarrg.extract").joinpath("prompts/key_phrases.json").read_text(encoding="utf-8")
    return json.loads(text)["examples"]


@pytest.mark.parametrize("example", examples())
def test_the_examples_of_the_prompt_stay_as_they_are(example):
    refined = refine(example["key_phrase"], example["report"], example["rule_based"], label_findings)
    assert refined.phrases == tuple(example["key_phrase"])
    assert refined.removed == ()


def test_phrases_are_trimmed_lowered_and_told_once():
    assert kept(" Normal heart size. ", "NORMAL HEART SIZE", "- no pneumothorax;", "", " . ") == (
        "normal heart size",
        "no pneumothorax",
    )


@pytest.mark.parametrize(
    ("phrase", "cleaned"),
    [
        ("“Left” Effusion", "“left” effusion"),
        ('"cardiomegaly",', "cardiomegaly"),
        ("two\n lines", "two lines"),
        ("ﬁbrosis", "fibrosis"),
    ],
)
def test_cleaning(phrase, cleaned):
    assert clean(phrase) == cleaned


@pytest.mark.parametrize(
    ("phrase", "became"),
    [
        ("unchanged calcified granuloma", ("calcified granuloma",)),
        ("calcified granuloma is again seen", ("calcified granuloma",)),
        ("new calcified granuloma", ("calcified granuloma",)),
        ("interval removal of the chest tube", ()),
        ("no change from the prior study", ()),
    ],
)
def test_comparing_phrases_are_put_into_the_present_or_leave(phrase, became):
    (first, *_) = removed(phrase)
    assert (first.phrase, first.reason, first.became) == (phrase, "comparison", became)
    assert kept(phrase) == became


def test_wording_that_only_sounds_like_comparison_stays():
    report = "Degenerative change of the spine. Increased interstitial markings."
    assert kept("degenerative change of the spine", "increased interstitial markings", report=report) == (
        "degenerative change of the spine",
        "increased interstitial markings",
    )


@pytest.mark.parametrize(
    "invented",
    ["left retrocardiac opacity", "pigtail pleural catheter in place", "emphysema", "tortuous aorta", "no fracture"],
)
def test_what_the_report_does_not_speak_of_leaves(invented):
    assert removed(invented) == (Removed(invented, "unsupported"),)
    assert kept(invented) == ()


def test_what_the_rule_based_phrases_say_is_borne_out():
    assert kept("tortuous aorta", structure=("tortuous thoracic aorta",)) == ("tortuous aorta",)


def test_a_denied_finding_must_not_be_affirmed():
    assert removed("pneumothorax") == (Removed("pneumothorax", "negation"),)
    assert kept("no pneumothorax") == ("no pneumothorax",)
    assert kept("no left effusion", "right effusion", report="No left effusion. Small right effusion.") == (
        "no left effusion",
        "right effusion",
    )


def test_what_is_only_denied_must_not_be_suspected_either():
    assert removed("maybe small pneumothorax") == (Removed("maybe small pneumothorax", "negation"),)


def test_a_side_must_be_the_reports():
    report = "Right basilar opacity. Both hemidiaphragms are flat. Left pleural effusion."
    assert kept("left basilar opacity", report="Right basilar opacity.") == ()
    assert kept("right basilar opacity", "bilateral flat hemidiaphragms", report=report) == (
        "right basilar opacity",
        "bilateral flat hemidiaphragms",
    )
    assert kept("left hilar opacity", report="Bilateral hilar opacities.") == ("left hilar opacity",)
    assert kept("bilateral opacities", report="Right opacity.") == ()


def test_another_wording_of_a_finding_is_borne_out():
    assert kept("cardiomegaly", report="The heart is enlarged.") == ("cardiomegaly",)


def test_a_repaired_phrase_must_be_borne_out_too():
    assert removed("new left opacity") == (
        Removed("new left opacity", "comparison", ("left opacity",)),
        Removed("left opacity", "unsupported"),
    )


def test_unsupported_phrases_can_be_kept_and_are_flagged():
    refined = refine(["emphysema", "no pneumothorax"], REPORT, (), label_findings, keep_unsupported=True)
    assert refined.phrases == ("emphysema", "no pneumothorax")
    assert refined.unsupported == ("emphysema",)
    assert refined.removed == ()
