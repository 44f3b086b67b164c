"""Reports held to their phrases. Phrases and reports are made up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.metrics.findings import label_findings
from rarrg.report.grounding import ground
from rarrg.report.join import join_phrases, phrase_sentences
from rarrg.types import Grounding, RetrievedPhrase

HERE = Path(__file__).parent


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


FAITHFUL, UNFAITHFUL = read("faithful.jsonl"), read("unfaithful.jsonl")
TEXTS = sorted({text for case in FAITHFUL for view in case["phrases"].values() for text in view})
VOCABULARY = """
    no possible left right bilateral effusion effusions opacity and or with without small large clear lungs lung normal
    heart enlarged not seen versus 4 cm mild cardiomegaly is are in the of a upper lobe base tip catheter likely
    pneumonia may represent neither nor , ; / free unremarkable mediastinum calcified aorta tortuous both views lateral
    view there which but fracture rib old acute focal
""".split()


def retrieved(*texts: str) -> tuple[RetrievedPhrase, ...]:
    return tuple(RetrievedPhrase(text, 0.9, 0.8, query) for query, text in enumerate(texts))


def held(case: dict[str, Any]) -> Grounding:
    phrases = {view: retrieved(*texts) for view, texts in case["phrases"].items()}
    return ground(case["report"], phrases, label_findings)


def kinds(report: str, *phrases: str) -> list[str]:
    return [fault.kind for fault in ground(report, {"frontal": retrieved(*phrases)}, label_findings).faults]


def details(report: str, *phrases: str) -> list[str]:
    return [fault.detail for fault in ground(report, {"frontal": retrieved(*phrases)}, label_findings).faults]


def test_at_most_one_faithful_report_in_twenty_is_blamed():
    faults = [{fault.kind for fault in held(case).faults} for case in FAITHFUL]
    assert sum(bool(found - {"omission"}) for found in faults) <= len(FAITHFUL) / 20
    assert sum("omission" in found for found in faults) <= len(FAITHFUL) / 20


def caught(case: dict[str, Any]) -> bool:
    grounding = held(case)
    if "omitted" in case:
        return any((fault.kind, fault.text) == ("omission", case["omitted"]) for fault in grounding.faults)
    sentence = grounding.sentences[case["sentence"]].text
    return any(fault.text == sentence and fault.kind in case["accepted"] for fault in grounding.faults)


def test_nineteen_in_twenty_planted_faults_are_found_where_they_are():
    missed = [case for case in UNFAITHFUL if not caught(case)]
    assert len(missed) <= len(UNFAITHFUL) / 20
    assert [case for case in missed if case["planted"] in ("invented finding", "invented device")] == []


INVENTED = """
    cardiomegaly; an enlarged heart; mediastinal widening; patchy opacities; a left upper lobe nodule; a lung mass;
    pulmonary edema; congestive heart failure; consolidation; pneumonia; right basilar atelectasis;
    a small pneumothorax; bilateral effusions; pleural thickening; a rib fracture; a central venous catheter;
    a chest tube; a pacemaker; surgical clips
"""


def with_invented() -> Iterator[dict[str, Any]]:
    """Faithful reports with a finding that none of their phrases has."""
    for case in FAITHFUL[::5]:
        found = observed(*(text for view in case["phrases"].values() for text in view))
        first, *rest = case["report"].split(". ")
        for name in " ".join(INVENTED.split()).split("; "):
            if not observed(name) & found:
                yield {**case, "report": f"{case['report']} There is {name}."}
                yield {**case, "report": f"{case['report']} This likely represents {name}."}
                yield {**case, "report": ". ".join([f"{first.rstrip('.')}, with {name}", *rest]).rstrip(".") + "."}


def observed(*texts: str) -> set[str]:
    labels = [label_findings(text) for text in texts]
    return {name for each in labels for name, state in each.items() if state in ("positive", "uncertain")} - {
        "No Finding"
    }


def test_no_invented_finding_of_the_observations_passes():
    cases = list(with_invented())
    assert len(cases) > 500
    passed = [case for case in cases if {fault.kind for fault in held(case).faults} <= {"omission", "comparison"}]
    assert passed == []


@pytest.mark.parametrize(
    "added",
    [
        "The patient has a history of CHF.",
        "Recommend chest CT for further evaluation.",
        "Clinical correlation is recommended.",
        "This is a 54-year-old woman.",
        "Portable technique limits evaluation.",
        "The findings were discussed by telephone.",
        "Consider follow-up radiographs.",
    ],
)
def test_what_no_phrase_can_say_is_unsupported(added: str):
    report = f"No pneumothorax. {added}"
    faults = ground(report, {"frontal": retrieved("no pneumothorax")}, label_findings).faults
    assert {(fault.kind, fault.text) for fault in faults} == {("unsupported", added)}


@pytest.mark.parametrize(
    "tail", [" in this patient with known COPD", " as seen on CT", " following thoracentesis", ", likely malignant"]
)
def test_nothing_slips_in_behind_a_denial(tail: str):
    assert set(kinds(f"No pneumothorax{tail}.", "no pneumothorax")) - {"omission"}


@pytest.mark.parametrize(
    ("report", "phrases", "expected"),
    [
        ("Left effusion.", ["right effusion"], ["side", "omission"]),
        ("Bilateral effusions.", ["right effusion"], ["side"]),
        ("Large effusion.", ["small effusion"], ["size", "omission"]),
        ("Large left effusion.", ["small left effusion", "large right effusion"], ["size", "omission", "omission"]),
        ("No effusion.", ["small effusion"], ["negation", "omission"]),
        ("Effusion.", ["no effusion"], ["negation", "omission"]),
        ("The heart is enlarged.", ["normal heart size"], ["negation", "omission"]),
        ("The left lung is clear.", ["clear right lung"], ["side", "omission"]),
        ("No effusion.", ["no left effusion"], ["side"]),
        ("No effusion.", ["no large effusion"], ["unsupported"]),
        ("Pneumonia.", ["possible pneumonia"], ["certainty"]),
        ("Possible pneumonia.", ["pneumonia"], ["certainty"]),
        ("Right PICC.", ["left picc"], ["device", "omission"]),
        ("PICC in the right atrium.", ["picc in the svc"], ["device", "omission"]),
        ("Calcified aorta.", ["calcified granuloma", "tortuous aorta"], ["unsupported", "omission", "omission"]),
        ("Stable cardiomegaly.", ["cardiomegaly"], ["comparison"]),
        ("Nodule with cavitation in the left lung.", ["right nodule", "cavitation"], ["side", "omission"]),
        ("Bilateral nodules with an effusion on the right.", ["nodules", "left effusion"], ["side", "omission"]),
        ("Bilateral effusions, small on the left.", ["large bilateral effusions"], ["size", "omission"]),
        ("The lateral view shows an effusion.", ["effusion"], ["unsupported"]),
        ("", ["effusion"], ["omission"]),
    ],
)
def test_kinds_of_faults(report: str, phrases: list[str], expected: list[str]):
    assert kinds(report, *phrases) == expected


@pytest.mark.parametrize(
    ("report", "phrases"),
    [
        # what is denied of a finding is not lost
        ("The nasogastric tube tip is not in the stomach.", ["nasogastric tube with tip in the stomach"]),
        ("The PICC tip is not in the SVC.", ["picc tip in the svc"]),
        ("The endotracheal tube tip does not lie above the carina.", ["endotracheal tube tip above the carina"]),
        ("The opacity is not in the left lower lobe.", ["left lower lobe opacity"]),
        ("The left effusion is not large.", ["large left effusion"]),
        ("The granuloma is not calcified.", ["calcified granuloma"]),
        ("The rib fracture is not displaced.", ["displaced rib fracture"]),
        ("A PICC is not on the left.", ["left picc"]),
        # what is affirmed behind a denial
        ("There is no effusion on the right but one is present on the left.", ["no pleural effusion"]),
        ("No right pneumothorax, although one is present on the left.", ["no pneumothorax"]),
        ("No pleural effusion other than a small left one.", ["no pleural effusion"]),
        ("No pneumothorax except on the left.", ["no pneumothorax"]),
        ("Pulmonary edema is not absent.", ["no pulmonary edema"]),
        ("The lungs are not without pneumothorax.", ["no pneumothorax"]),
        # what only nearly holds
        ("The lungs are only partially clear.", ["clear lungs"]),
        ("The heart is nearly normal in size.", ["normal heart size"]),
        ("Heart size is above normal.", ["normal heart size"]),
        # what another phrase says of another thing
        (
            "The endotracheal tube is in the stomach.",
            ["endotracheal tube tip 4 cm above the carina", "nasogastric tube in the stomach"],
        ),
        ("Large right upper lobe mass.", ["small right upper lobe mass", "large right lower lobe mass"]),
        (
            "9 mm nodule in the right upper lobe.",
            ["4 mm nodule in the right upper lobe", "9 mm nodule in the right lower lobe"],
        ),
        (
            "Right internal jugular catheter in the right atrium.",
            ["right internal jugular catheter in the svc", "right subclavian catheter in the right atrium"],
        ),
        ("Acute rib fracture.", ["old rib fracture", "acute clavicle fracture"]),
        (
            "Opacities in the right lower lobe and left middle lobe.",
            ["right middle lobe opacity", "left lower lobe opacity"],
        ),
        ("Bilateral effusions.", ["left effusion", "possible right effusion"]),
        # what compares without a term
        ("The right effusion is of the same size.", ["right effusion"]),
        ("A right pleural effusion has appeared.", ["right effusion"]),
    ],
)
def test_no_twist_of_a_phrase_passes(report: str, phrases: list[str]):
    assert set(kinds(report, *phrases)) - {"omission"}


def test_what_a_view_shows_was_retrieved_for_it():
    phrases = {"frontal": retrieved("left effusion"), "lateral": retrieved("degenerative changes of the spine")}
    report = "The lateral view shows a left effusion. The lateral view shows degenerative changes of the spine."
    faults = ground(report, phrases, label_findings).faults
    assert [(fault.kind, fault.text) for fault in faults] == [("unsupported", report.split(". ")[0] + ".")]


@pytest.mark.parametrize(
    ("report", "phrases"),
    [
        (
            "Opacities are present in the right middle lobe and left lower lobe.",
            ["right middle lobe opacity", "left lower lobe opacity"],
        ),
        ("Opacities in the RML and LLL.", ["right middle lobe opacity", "left lower lobe opacity"]),
        (
            "Right middle and left lower lobe opacities.",
            ["right middle lobe opacity", "left lower lobe opacity"],
        ),
        ("There is a 0.8 cm nodule in the RUL.", ["right upper lobe 8 mm nodule"]),
        ("A right-sided PICC line has its tip in the lower SVC.", ["right picc tip terminates in the low svc"]),
        ("The AP diameter of the chest is increased.", ["increased ap diameter of the chest"]),
        ("There is a small pleural effusion on either side.", ["small bilateral pleural effusions"]),
        ("Pneumonia is unlikely.", ["no pneumonia"]),
    ],
)
def test_other_words_for_the_same_are_not_blamed(report: str, phrases: list[str]):
    assert kinds(report, *phrases) == []


@pytest.mark.parametrize(
    ("report", "phrases"),
    [
        ("Small bilateral effusions.", ["small left effusion", "small right effusion"]),
        ("No effusion.", ["no left effusion", "no right effusion"]),
        ("No left effusion.", ["no left effusion"]),
        ("The lungs are clear.", ["clear lungs", "no focal consolidation"]),
        ("Mild cardiomegaly.", ["mild cardiomegaly", "cardiomegaly", "enlarged heart"]),
        ("The heart is not enlarged.", ["normal heart size"]),
        ("Effusion blunting the left costophrenic angle.", ["effusion", "blunted left costophrenic angle"]),
        ("Cardiomegaly.", ["stable cardiomegaly"]),
        ("A nodule with cavitation is seen in the left upper lobe.", ["nodule in the left upper lobe", "cavitation"]),
        ("A nodule with cavitation is seen in the left upper lobe.", ["nodule", "left upper lobe cavitation"]),
        ("Bilateral effusions, large on the right and small on the left.", ["large right and small left effusion"]),
        ("Effusions are larger on the left.", ["bilateral effusions", "left greater than right"]),
        ("A 6 mm left nodule.", ["left nodule", "6 mm"]),
        ("Nodules are seen, likely chronic in nature.", ["nodules", "likely chronic"]),
        ("The lungs are underinflated.", ["low lung volumes"]),
        ("The pleural spaces are clear.", ["no pleural effusion"]),
        ("Lines and tubes: Right PICC is in place.", ["right picc"]),
        ("There is no consolidation, nor is there any effusion.", ["no consolidation", "no effusion"]),
        ("Aside from a nodule, the lungs are clear.", ["nodule", "clear lungs"]),
    ],
)
def test_merged_and_implied_phrases_are_said(report: str, phrases: list[str]):
    assert kinds(report, *phrases) == []


@pytest.mark.parametrize("text", ["The following findings are noted.", "Frontal view of the chest."])
def test_a_sentence_that_claims_nothing_has_neither_sources_nor_faults(text: str):
    grounding = ground(f"{text} Effusion.", {"frontal": retrieved("effusion")}, label_findings)
    assert [sentence.sources for sentence in grounding.sentences] == [(), (("frontal", 0),)]
    assert grounding.faults == ()


def test_a_sentence_names_every_phrase_it_rests_on():
    phrases = {
        "frontal": retrieved("small left effusion", "mild cardiomegaly", "small right effusion"),
        "lateral": retrieved("small left effusion"),
    }
    grounding = ground("Small bilateral effusions. The heart is mildly enlarged.", phrases, label_findings)
    assert [sentence.text for sentence in grounding.sentences] == [
        "Small bilateral effusions.",
        "The heart is mildly enlarged.",
    ]
    assert [sentence.sources for sentence in grounding.sentences] == [
        (("frontal", 0), ("frontal", 2), ("lateral", 0)),
        (("frontal", 1),),
    ]


def test_details_can_be_told_to_a_language_model():
    assert details("A left pleural effusion is seen.", "right pleural effusion") == [
        "'left pleural effusion': no phrase speaks of it on the left",
        "'right pleural effusion': the report does not say it",
    ]
    assert details("Effusion in a known smoker.", "effusion") == [
        "'effusion in a known smoker': no phrase says 'known smoker' of it"
    ]
    assert details("Pneumonia.", "possible pneumonia") == ["'pneumonia': the phrases are not sure of it"]


subsets = st.lists(st.sampled_from(TEXTS), unique=True, min_size=1, max_size=8)


@given(frontal=subsets, lateral=subsets)
@settings(deadline=None)
def test_joined_phrases_are_grounded_in_themselves(frontal: list[str], lateral: list[str]):
    phrases = {"frontal": retrieved(*frontal), "lateral": retrieved(*lateral)}
    grounding = ground(join_phrases(phrases), phrases, label_findings)
    assert {fault.kind for fault in grounding.faults} <= {"comparison"}
    for sentence, joined in zip(grounding.sentences, phrase_sentences(phrases), strict=True):
        assert sentence.text == joined.text
        assert set(sentence.sources) >= set(joined.sources) or not sentence.sources


@given(st.lists(st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=9).map(" ".join), min_size=1, max_size=4))
@settings(deadline=None)
def test_so_are_phrases_that_make_no_sense(texts: list[str]):
    phrases = {"frontal": retrieved(*texts)}
    assert {fault.kind for fault in ground(join_phrases(phrases), phrases, label_findings).faults} <= {"comparison"}


@given(st.sampled_from(FAITHFUL + UNFAITHFUL), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_phrases_within_a_view_is_no_matter(case: dict[str, Any], random: Any):
    shuffled = {view: random.sample(texts, len(texts)) for view, texts in case["phrases"].items()}
    one, other = held(case), held({**case, "phrases": shuffled})
    assert set(one.faults) == set(other.faults)

    def said(grounding: Grounding, phrases: dict[str, list[str]]) -> list[set[tuple[str, str]]]:
        return [{(view, phrases[view][at]) for view, at in sentence.sources} for sentence in grounding.sentences]

    assert said(one, case["phrases"]) == said(other, shuffled)


@given(subsets, st.data())
@settings(deadline=None)
def test_a_sentence_without_its_only_phrase_is_blamed(texts: list[str], data: st.DataObject):
    phrases = {"frontal": retrieved(*texts)}
    grounding = ground(join_phrases(phrases), phrases, label_findings)
    alone = [sentence for sentence in grounding.sentences if len(sentence.sources) == 1]
    if not alone:
        return
    sentence = data.draw(st.sampled_from(alone))
    ((_, index),) = sentence.sources
    rest = {"frontal": retrieved(*texts[:index], *texts[index + 1 :])}
    faults = ground(join_phrases(phrases), rest, label_findings).faults
    assert sentence.text in {fault.text for fault in faults if fault.kind not in ("comparison", "omission")}
