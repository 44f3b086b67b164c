"""Phrases that a report bears out, and phrases that it does not. Reports and phrases are made up."""

from __future__ import annotations

import pytest

from rarrg.extract.evidence import Evidence
from rarrg.metrics.findings import label_findings


def fault(report: str, phrase: str, *structure: str) -> str | None:
    return Evidence(report, structure, label_findings).fault(phrase)


@pytest.mark.parametrize(
    ("report", "phrase"),
    [
        ("Atelectasis at the lung bases.", "bibasilar atelectasis"),
        ("Effusions are present.", "bilateral pleural effusions"),
        ("Blunting of the costophrenic angles.", "bilateral blunted costophrenic angles"),
        ("LLL consolidation.", "left lower lobe consolidation"),
        ("RUL nodule is seen.", "right upper lobe nodule"),
        ("Lingular atelectasis.", "left lingular atelectasis"),
        ("Middle lobe collapse.", "right middle lobe collapse"),
        ("Osseous structures are unremarkable.", "normal bones"),
        ("Dextroscoliosis of the spine.", "scoliosis"),
        ("No left effusion. Small right effusion.", "no left effusion"),
        ("Small right effusion, no left effusion.", "no left effusion"),
        ("No hiatal hernia.", "no hiatal hernia"),
        ("There is a hiatal hernia.", "hiatal hernia"),
        ("The lungs are clear.", "clear lungs"),
        ("Tortuous thoracic aorta.", "tortuous aorta"),
        ("Opacity at the right base. This may represent pneumonia.", "possible right basilar pneumonia"),
        ("Right IJ catheter ends in the SVC.", "right ij catheter ending in the svc"),
        ("Sternotomy wires are intact.", "intact sternotomy wires"),
        ("The cardiomediastinal silhouette is normal.", "normal cardiomediastinal silhouette"),
        ("Heart size is normal.", "normal heart size"),
        ("The heart is enlarged.", "cardiomegaly"),
        ("The lung volumes are lower.", "low lung volumes"),
        ("Degenerative changes of the spine.", "degenerative changes of the spine"),
        ("Healed right rib fractures.", "old right rib fractures"),
        ("Trachea is midline.", "midline trachea"),
    ],
)
def test_borne_out(report: str, phrase: str) -> None:
    assert fault(report, phrase) is None


@pytest.mark.parametrize(
    ("report", "phrase", "expected"),
    [
        ("No hiatal hernia.", "hiatal hernia", "negation"),
        ("No free air below the right hemidiaphragm.", "free air below the right hemidiaphragm", "negation"),
        ("No subcutaneous emphysema.", "subcutaneous emphysema", "negation"),
        ("Trachea is midline.", "deviated trachea", "unsupported"),
        ("Right PICC ends in the SVC.", "endotracheal tube 4 cm above the carina", "unsupported"),
        ("Right PICC ends in the SVC.", "swan-ganz catheter", "unsupported"),
        ("Right PICC ends in the SVC.", "dual chamber pacemaker", "unsupported"),
        ("Healed right rib fracture.", "compression fracture of t12", "unsupported"),
        ("Moderate cardiomegaly. Small right pleural effusion.", "normal heart size", "negation"),
        ("Moderate cardiomegaly. Small right pleural effusion.", "no pleural effusion", "negation"),
        ("Small right effusion. No left effusion.", "no pleural effusion", "negation"),
        ("Diffuse bilateral consolidation.", "clear lungs", "unsupported"),
        ("Diffuse bilateral consolidation.", "normal chest", "unsupported"),
        ("No left effusion. Small right effusion.", "small left effusion", "negation"),
        ("Possible pneumonia.", "pneumonia", "certainty"),
        ("Right basilar opacity.", "left basilar opacity", "unsupported"),
        ("Right opacity.", "bilateral opacities", "unsupported"),
        ("The lungs are clear.", "emphysema", "unsupported"),
        ("Left ___ opacity.", "___ opacity", "mark"),
        ("Left XXXX opacity.", "left xxxx opacity", "mark"),
    ],
)
def test_not_borne_out(report: str, phrase: str, expected: str) -> None:
    assert fault(report, phrase) == expected


def test_rule_based_phrases_are_statements_too() -> None:
    assert fault("See above.", "tortuous aorta") == "unsupported"
    assert fault("See above.", "tortuous aorta", "tortuous thoracic aorta") is None
    assert fault("See above.", "small left effusion", "maybe left effusion") == "certainty"


@pytest.mark.parametrize(
    ("report", "phrase"),
    [
        ("Right lower lobe opacities.", "left lower lobe opacity"),
        ("Right lower lobe opacities.", "bilateral lower lobe opacities"),
        ("Right perihilar opacity.", "left perihilar opacity"),
        ("Multiple nodules in the right lung.", "left lung nodules"),
        ("Fractures of the left fourth and fifth ribs.", "right rib fractures"),
        ("The lungs show left basilar atelectasis.", "bibasilar atelectasis"),
        ("The lungs are clear except for right pleural effusion.", "left pleural effusion"),
        ("Left chest tube in place. Heart size is normal. There is a nodule.", "left nodule"),
        ("Left chest tube in place. The aorta is tortuous.", "left tortuous aorta"),
    ],
)
def test_a_side_is_the_sentences_own(report: str, phrase: str) -> None:
    assert fault(report, phrase) is not None


@pytest.mark.parametrize(
    ("report", "phrase"),
    [
        ("The right lung is clear, left effusion.", "clear lungs"),
        ("The aorta is tortuous.", "normal aorta"),
        ("Hilar contours are enlarged.", "normal hilar contours"),
        ("Degenerative changes in the osseous structures.", "normal osseous structures"),
        ("The sternotomy wires are broken.", "intact sternotomy wires"),
        ("The trachea is deviated.", "normal trachea"),
        ("Possible hiatal hernia.", "hiatal hernia"),
        ("Dextroscoliosis.", "levoscoliosis"),
        ("The ET tube has been removed.", "et tube"),
    ],
)
def test_what_is_said_of_a_thing_counts_too(report: str, phrase: str) -> None:
    assert fault(report, phrase) is not None
