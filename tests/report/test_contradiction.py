"""Phrases that contradict each other, and phrases that agree. All are made up."""

from __future__ import annotations

import pytest

from rarrg.metrics.findings import label_findings
from rarrg.report.contradiction import contradict


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no pleural effusion", "small bilateral pleural effusions"),
        ("no pleural effusion or pneumothorax", "small right pneumothorax"),
        ("no effusion", "possible effusion"),
        ("no left effusion", "bilateral effusions"),
        ("no large effusion", "large left effusion"),
        ("no pneumothorax", "tiny left apical pneumothorax"),
        ("no ptx", "small left pneumothorax"),
        ("no focal consolidation", "left basilar consolidation"),
        ("no acute infiltrate", "right lower lobe infiltrate"),
        ("no focal airspace consolidation", "left basilar consolidation"),
        ("no focal airspace disease", "patchy right airspace opacity"),
        ("no pneumonia", "possible pneumonia"),
        ("no pulmonary edema", "mild interstitial edema"),
        ("no rib fracture", "left sixth rib fracture"),
        ("no hiatal hernia", "moderate hiatal hernia"),
        ("heart size normal", "cardiomegaly"),
        ("heart is not enlarged", "severe cardiomegaly"),
        ("normal cardiomediastinal silhouette", "moderate cardiomegaly"),
        ("normal cardiomediastinal silhouette", "widened mediastinum"),
        ("normal aorta", "tortuous aorta"),
        ("normal pulmonary vasculature", "pulmonary vascular congestion"),
        ("sharp costophrenic angles", "blunted left costophrenic angle"),
        ("intact bony structures", "displaced left rib fracture"),
        ("clear lungs", "right lower lobe opacity"),
        ("clear lungs", "left upper lobe nodule"),
        ("clear left lung", "left lower lobe atelectasis"),
        ("low lung volumes", "hyperinflated lungs"),
        ("midline trachea", "trachea deviated to the right"),
        ("normal chest", "small left pneumothorax"),
        ("no acute cardiopulmonary abnormality", "right lower lobe pneumonia"),
        ("no acute abnormality", "small left pneumothorax"),
        ("no acute bony abnormality", "acute rib fracture"),
        ("no infiltrate", "left lower lobe consolidation"),
    ],
)
def test_contradict(one: str, other: str) -> None:
    assert contradict(one, other, label_findings)
    assert contradict(other, one, label_findings)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no large pleural effusion", "small pleural effusion"),
        ("no significant effusion", "trace effusion"),
        ("no left effusion", "right effusion"),
        ("no left effusion", "pleural effusion"),
        ("no pleural effusion", "pericardial effusion"),
        ("no apical pneumothorax", "small basilar pneumothorax"),
        ("possible effusion", "small left effusion"),
        ("small left effusion", "large left effusion"),
        ("no effusion", "no pneumothorax"),
        ("no effusion", "blunted costophrenic angle"),
        ("no mass", "5 mm nodule"),
        ("no suspicious nodule", "calcified nodule"),
        ("no picc", "pacemaker"),
        ("no overt pulmonary edema", "mild interstitial edema"),
        ("no pulmonary edema", "pulmonary vascular congestion"),
        ("no focal consolidation", "diffuse bilateral consolidation"),
        ("no focal consolidation", "right lower lobe opacity"),
        ("no acute osseous abnormality", "old rib fracture"),
        ("no displaced rib fracture", "rib fracture"),
        ("no fracture", "healed rib fracture"),
        ("unremarkable osseous structures", "degenerative changes of the spine"),
        ("normal heart size", "heart size at the upper limits of normal"),
        ("normal mediastinum", "cardiomegaly"),
        ("normal hilar contours", "calcified hilar lymph nodes"),
        ("normal pulmonary vascularity", "left basilar opacity"),
        ("clear lungs", "calcified granuloma in the right upper lobe"),
        ("clear lungs", "small left effusion"),
        ("clear lungs", "emphysema"),
        ("clear lungs", "sclerotic density in the left rib"),
        ("clear right lung", "left lower lobe opacity"),
        ("otherwise clear lungs", "left basilar opacity"),
        ("normal chest", "right picc"),
        ("no pulmonary disease", "degenerative disc disease of the spine"),
        ("no acute cardiopulmonary abnormality", "small pleural effusion"),
        ("no acute cardiopulmonary abnormality", "acute rib fracture"),
        ("no acute bony abnormality", "rib fracture"),
        ("no acute bony abnormality", "right lower lobe pneumonia"),
        ("no additional nodule", "8 mm nodule"),
        ("no pulmonary nodule", "breast nodule"),
    ],
)
def test_agree(one: str, other: str) -> None:
    assert not contradict(one, other, label_findings)
    assert not contradict(other, one, label_findings)
