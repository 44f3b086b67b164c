from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.metrics.findings import label_findings
from rarrg.report.contradiction import contradict
from rarrg.report.resolve import Resolved, resolve
from rarrg.types import Phrases, Precedence, RetrievedPhrase

PHRASES = (
    "no pleural effusion",
    "small left pleural effusion",
    "no left pleural effusion",
    "bilateral pleural effusions",
    "normal heart size",
    "cardiomegaly",
    "mildly enlarged heart",
    "clear lungs",
    "clear left lung",
    "left basilar opacity",
    "right lower lobe consolidation",
    "no focal consolidation",
    "possible pneumonia",
    "no pneumonia",
    "normal chest",
    "low lung volumes",
    "hyperinflated lungs",
    "right picc",
)


def phrase(text: str, probability: float) -> RetrievedPhrase:
    return RetrievedPhrase(text, probability, 0.8, 0)


def resolved(phrases: Phrases, precedence: Precedence = "probability") -> Resolved:
    return resolve(phrases, label_findings, precedence)


def test_the_more_probable_phrase_of_a_view_stays():
    no, small = phrase("no pleural effusion", 0.4), phrase("small left pleural effusion", 0.83)
    phrases, dropped = resolved({"frontal": [no, small]})
    assert phrases == {"frontal": (small,)}
    (drop,) = dropped
    assert (drop.view, drop.phrase, drop.kept_view, drop.kept) == ("frontal", no, "frontal", small)
    assert drop.reason == "less probable (0.40 against 0.83)"


def test_a_finding_goes_before_its_denial_where_findings_have_precedence():
    no, small = phrase("no pleural effusion", 0.83), phrase("small left pleural effusion", 0.4)
    phrases, dropped = resolved({"frontal": [no, small]}, "findings")
    assert phrases == {"frontal": (small,)}
    assert dropped[0].reason == "'small left pleural effusion' affirms, though less probable (0.40 against 0.83)"
    assert resolved({"frontal": [no, small]}).phrases == {"frontal": (no,)}


def test_of_two_findings_the_more_probable_one_stays():
    low, high = phrase("low lung volumes", 0.4), phrase("hyperinflated lungs", 0.6)
    assert resolved({"frontal": [low, high]}, "findings").phrases == {"frontal": (high,)}


def test_findings_of_the_lateral_view_give_way_to_the_frontal_one_all_the_same():
    frontal, lateral = phrase("normal heart size", 0.5), phrase("cardiomegaly", 0.9)
    assert resolved({"frontal": [frontal], "lateral": [lateral]}, "findings").phrases["lateral"] == ()


def test_nothing_is_resolved_where_that_is_asked_for():
    phrases = {"frontal": (phrase("no pleural effusion", 0.83), phrase("small left pleural effusion", 0.4))}
    assert resolved(phrases, "nothing") == (phrases, ())


def test_the_frontal_view_goes_before_the_lateral_one():
    frontal, lateral = phrase("normal heart size", 0.5), phrase("cardiomegaly", 0.9)
    phrases, dropped = resolved({"lateral": [lateral], "frontal": [frontal]})
    assert phrases == {"lateral": (), "frontal": (frontal,)}
    assert [(drop.view, drop.kept_view, drop.kept) for drop in dropped] == [("lateral", "frontal", frontal)]
    assert dropped[0].reason == "the frontal view goes before the lateral one"


def test_of_two_as_probable_the_first_stays():
    first, second = phrase("clear lungs", 0.5), phrase("left basilar opacity", 0.5)
    phrases, dropped = resolved({"frontal": [first, second]})
    assert phrases == {"frontal": (first,)}
    assert dropped[0].reason == "as probable, and said later"


def test_what_agrees_stays_as_it_stands():
    phrases = {"frontal": (phrase("no left effusion", 0.5), phrase("right effusion", 0.9)), "lateral": ()}
    assert resolved(phrases) == (phrases, ())


def test_nothing_gives_way_to_what_is_dropped_itself():
    top, middle, low = phrase("clear lungs", 0.9), phrase("left basilar opacity", 0.8), phrase("normal chest", 0.7)
    phrases, dropped = resolved({"frontal": [top, middle, low]})
    assert phrases == {"frontal": (top, low)}
    assert [drop.phrase for drop in dropped] == [middle]


found = st.lists(
    st.builds(phrase, st.sampled_from(PHRASES), st.sampled_from((0.4, 0.5, 0.6, 0.7, 0.8, 0.9))), max_size=6
)
precedences = st.sampled_from(("findings", "probability"))
studies = st.fixed_dictionaries({"frontal": found, "lateral": found})


@given(studies, precedences)
@settings(deadline=None)
def test_what_stays_holds_no_contradiction(phrases: Phrases, precedence: Precedence):
    stays = [one.text for own in resolved(phrases, precedence).phrases.values() for one in own]
    assert not any(contradict(one, other, label_findings) for one, other in combinations(stays, 2))


@given(studies, precedences)
@settings(deadline=None)
def test_every_drop_is_explained_by_a_phrase_that_stays(phrases: Phrases, precedence: Precedence):
    stays, dropped = resolved(phrases, precedence)
    for drop in dropped:
        assert drop.kept in stays[drop.kept_view]
        assert contradict(drop.phrase.text, drop.kept.text, label_findings)


@given(studies, precedences)
@settings(deadline=None)
def test_every_phrase_stays_or_is_dropped(phrases: Phrases, precedence: Precedence):
    stays, dropped = resolved(phrases, precedence)
    for view, own in phrases.items():
        gone = [drop.phrase for drop in dropped if drop.view == view]
        assert sorted([*stays[view], *gone], key=repr) == sorted(own, key=repr)


@given(studies, precedences)
@settings(deadline=None)
def test_a_second_pass_drops_nothing(phrases: Phrases, precedence: Precedence):
    once = resolved(phrases, precedence)
    assert resolved(once.phrases, precedence) == (once.phrases, ())
