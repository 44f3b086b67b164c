"""What stays of an LLM's phrases. The labeler is the package's own; a report is what these cases need of it."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from rarrg.extract.refine import Removed, clean, refine
from rarrg.metrics.findings import label_findings

REPORT = "The heart is normal in size. No pneumothorax or pleural effusion. Calcified granuloma in the left lung."


CHANGES = """
    new newly improved improving worsened worsening increasing decreasing enlarging developing progressing progressive
    persisting remaining recurrent constant static larger smaller reduced redemonstrated re-demonstrated stable
    unchanged persistent increased decreased
    """.split()


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
        ("right opacity (possible pneumonia)", "right opacity (possible pneumonia)"),
        ("(left effusion)", "left effusion"),
        ("left effusion)", "left effusion"),
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
    sides = "bilateral effusions larger on the right"
    assert kept(sides, report="Bilateral effusions, larger on the right.") == (sides,)


def test_what_the_report_does_not_bear_out_leaves_and_is_told():
    assert removed("emphysema", "pneumothorax", "maybe small effusion") == (
        Removed("emphysema", "unsupported"),
        Removed("pneumothorax", "negation"),
        Removed("maybe small effusion", "negation"),
    )
    assert kept("no pneumothorax", "no effusion") == ("no pneumothorax", "no effusion")


def test_what_the_rule_based_phrases_say_is_borne_out():
    assert kept("tortuous aorta", structure=("tortuous thoracic aorta",)) == ("tortuous aorta",)


@pytest.mark.parametrize(
    "phrase",
    [
        *(f"{word} left pleural effusion" for word in CHANGES),
        "left pleural effusion is larger",
        "left pleural effusion as before",
        "left pleural effusion, still",
        "left pleural effusion has improved",
        "left pleural effusion is unchanged from the prior study",
    ],
)
def test_every_word_of_change_leaves_the_finding(phrase):
    assert kept(phrase, report="Left pleural effusion.") == ("left pleural effusion",)


@pytest.mark.parametrize("phrase", ["complete resolution of left pleural effusion", "left effusion is no longer seen"])
def test_what_is_gone_is_not_there(phrase):
    assert kept(phrase, report="Left pleural effusion.") == ()


def test_what_is_nearly_gone_is_there():
    assert kept("near complete resolution of left pleural effusion", report="Left pleural effusion.") == (
        "left pleural effusion",
    )


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
