"""What the labeler makes of sentences, of phrases joined to a report, and of the tagged reports of IU X-Ray."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarrg.metrics.findings import OBSERVATIONS, Label, label_findings, positive_findings

ROOT = Path(__file__).resolve().parents[2]
P, N, U, B = Label.POSITIVE, Label.NEGATIVE, Label.UNCERTAIN, Label.BLANK
ECM, CARDIOMEGALY, OPACITY, LESION, EDEMA, CONSOLIDATION, PNEUMONIA = OBSERVATIONS[:7]
ATELECTASIS, PNEUMOTHORAX, EFFUSION, PLEURAL, FRACTURE, DEVICES, NONE = OBSERVATIONS[7:]

# observation: (affirmed, denied, uncertain)
BY_OBSERVATION = {
    ECM: ("The mediastinum is widened.", "No mediastinal widening.", "possible widening of the mediastinum"),
    CARDIOMEGALY: ("The heart is mildly enlarged.", "Heart size is normal.", "possible mild cardiomegaly"),
    OPACITY: ("Patchy opacity in the left base.", "No focal airspace disease.", "possible right infiltrate"),
    LESION: ("6 mm nodule in the left upper lobe.", "No suspicious nodules or masses.", "questionable nodule"),
    EDEMA: ("Mild interstitial edema.", "No overt pulmonary edema.", "mild pulmonary vascular congestion"),
    CONSOLIDATION: ("Left lower lobe consolidation.", "No focal consolidation.", "possible early consolidation"),
    PNEUMONIA: ("Right middle lobe pneumonia.", "No evidence of pneumonia.", "Opacity suspicious for pneumonia."),
    ATELECTASIS: ("Bibasilar subsegmental atelectasis.", "no atelectasis", "This may represent atelectasis."),
    PNEUMOTHORAX: ("Small left apical pneumothorax.", "Pneumothorax is not seen.", "A pneumothorax is suspected."),
    EFFUSION: ("Small bilateral pleural effusions.", "no pleural effusion", "A small effusion is not excluded."),
    PLEURAL: ("Biapical pleural thickening.", "No pleural thickening.", "possible pleural plaques"),
    FRACTURE: ("Old healed left rib fractures.", "No acute fracture.", "possible nondisplaced rib fracture"),
    DEVICES: ("Right PICC with tip in the SVC.", "The chest tube has been removed.", "possible catheter fragment"),
}


@pytest.mark.parametrize("observation", BY_OBSERVATION)
def test_each_observation_affirmed_denied_and_uncertain(observation):
    labels = [label_findings(text)[observation] for text in BY_OBSERVATION[observation]]
    assert labels == [P, N, U]


def test_there_are_fourteen_and_every_one_is_a_key():
    assert len(OBSERVATIONS) == 14
    assert list(label_findings("Clear lungs.")) == list(OBSERVATIONS)
    assert list(BY_OBSERVATION) == list(OBSERVATIONS[:-1])


@pytest.mark.parametrize(
    ("text", "observation", "label"),
    [
        # lists under one negation
        ("No focal consolidation, infiltrate, or effusion.", EFFUSION, N),
        ("No pneumothorax, large pleural effusion, or consolidation.", EFFUSION, N),
        ("No consolidation, large effusion/pneumothorax.", PNEUMOTHORAX, N),
        ("Negative for pneumothorax or pleural effusion.", EFFUSION, N),
        ("Neither effusion nor pneumothorax.", PNEUMOTHORAX, N),
        ("The lungs do not demonstrate focal infiltrate or effusion.", OPACITY, N),
        ("Effusion and pneumothorax are not seen.", EFFUSION, N),
        ("Consolidation, effusion, and atelectasis have cleared.", CONSOLIDATION, N),
        # where a list ends
        ("No pneumothorax, small left effusion.", EFFUSION, P),
        ("No pneumothorax, left basilar opacity.", OPACITY, P),
        ("No pleural effusion and mild cardiomegaly.", CARDIOMEGALY, P),
        ("There is no pneumothorax but a small left pleural effusion.", EFFUSION, P),
        ("No evidence of edema or effusion, the heart is mildly enlarged.", CARDIOMEGALY, P),
        ("Small bilateral effusions without pneumothorax.", EFFUSION, P),
        ("No pneumothorax following chest tube placement.", DEVICES, P),
        ("Effusion has improved and pneumothorax is no longer seen.", EFFUSION, P),
        ("Effusion has improved and pneumothorax is no longer seen.", PNEUMOTHORAX, N),
        # words of negation that deny nothing
        ("No change in small left pleural effusion.", EFFUSION, P),
        ("No significant interval change in the left effusion.", EFFUSION, P),
        ("Not only effusion but pneumothorax.", EFFUSION, P),
        ("No hardware complication.", DEVICES, P),
        # double negation leaves it open
        ("Cannot exclude a small effusion.", EFFUSION, U),
        ("It is not possible to exclude a small effusion.", EFFUSION, U),
        ("Pneumothorax is not excluded.", PNEUMOTHORAX, U),
        ("The rib fracture is not well seen.", FRACTURE, U),
        # uncertainty, and how far it reaches
        ("Opacity may represent pneumonia.", OPACITY, P),
        ("Opacity may represent pneumonia or atelectasis.", ATELECTASIS, U),
        ("Opacity which may be due to atelectasis.", ATELECTASIS, U),
        ("Atelectasis versus infiltrate.", ATELECTASIS, U),
        ("Atelectasis vs. infiltrate.", OPACITY, U),
        ("Opacity likely represents atelectasis.", ATELECTASIS, P),
        ("Probable small effusion.", EFFUSION, P),
        ("Findings suggestive of pneumonia.", PNEUMONIA, P),
        ("possible small effusion, mild cardiomegaly", CARDIOMEGALY, P),
        ("Small right effusion, which may be partially loculated.", EFFUSION, P),
        # comparison
        ("Interval resolution of the right effusion.", EFFUSION, N),
        ("The effusion has resolved.", EFFUSION, N),
        ("Nearly resolved right effusion.", EFFUSION, P),
        ("The effusion has almost completely resolved.", EFFUSION, P),
        ("Previously seen opacity is not visualized.", OPACITY, N),
        ("Interval removal of the endotracheal tube.", DEVICES, N),
        ("Removal of chest tube with small residual pneumothorax.", PNEUMOTHORAX, P),
        # asked, advised, past
        ("Evaluate for pneumothorax.", PNEUMOTHORAX, B),
        ("Rule out pneumonia.", PNEUMONIA, B),
        ("History of pneumonia.", PNEUMONIA, B),
        ("Recommend CT to exclude an underlying nodule.", LESION, B),
        # the heart and the mediastinum
        ("Heart size is at the upper limits of normal.", CARDIOMEGALY, U),
        ("Borderline heart size.", CARDIOMEGALY, U),
        ("The heart is not enlarged.", CARDIOMEGALY, N),
        ("Heart size and pulmonary vascularity appear within normal limits.", CARDIOMEGALY, N),
        ("Normal heart size and mediastinum.", ECM, N),
        ("The cardiomediastinal silhouette is moderately enlarged.", ECM, P),
        ("The cardiomediastinal silhouette is moderately enlarged.", CARDIOMEGALY, P),
        ("The heart is normal in size and the aorta is enlarged.", CARDIOMEGALY, N),
        ("Heart size normal, stable mediastinal contours, large effusion.", ECM, B),
        ("Heart size is unchanged.", CARDIOMEGALY, B),
        # words that look like a mention
        ("Pericardial effusion.", EFFUSION, B),
        ("Blunting of the costophrenic angle.", EFFUSION, B),
        ("Calcified nodule in the right lung.", LESION, B),
        ("No noncalcified nodules.", LESION, N),
        ("Vertebral body collapse.", ATELECTASIS, B),
        ("Catheter fracture.", FRACTURE, B),
        ("Prior granulomatous infection.", PNEUMONIA, B),
        ("Degenerative endplate changes.", DEVICES, B),
        ("Status post median sternotomy.", DEVICES, B),
        ("Atelectasis may lead to volume loss.", DEVICES, B),
        # devices, the words taken out by de-identification too
        ("Dual lead pacemaker.", DEVICES, P),
        ("Sternotomy wires and surgical clips.", DEVICES, P),
        ("Left chest XXXX with tip in the mid SVC.", DEVICES, P),
        ("Right XXXX-A-XXXX in place.", DEVICES, P),
        # roundabout denials
        ("Pneumonia is unlikely.", "Pneumonia", Label.NEGATIVE),
        ("It is unlikely that this represents pneumonia.", "Pneumonia", Label.NEGATIVE),
        ("This is less likely pneumonia.", "Pneumonia", Label.UNCERTAIN),
        ("Nothing to suggest pneumonia.", "Pneumonia", Label.NEGATIVE),
        ("Neither lung shows consolidation.", "Consolidation", Label.NEGATIVE),
        ("Pleural effusion: none.", "Pleural Effusion", Label.NEGATIVE),
        ("Non-enlarged heart.", "Cardiomegaly", Label.NEGATIVE),
        ("Effusion is absent on the right but present on the left.", "Pleural Effusion", Label.POSITIVE),
        ("There are no pleural effusions other than a tiny one on the right.", "Pleural Effusion", Label.POSITIVE),
    ],
)
def test_what_surrounds_a_mention_decides(text, observation, label):
    assert label_findings(text)[observation] is label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Lungs are clear. Heart normal.", P),
        ("No acute cardiopulmonary abnormality.", P),
        ("Right PICC. Lungs are clear.", P),
        ("", P),
        ("Small effusion.", B),
        ("possible small effusion", B),
        ("Lungs are clear. Degenerative changes of the spine.", B),
        ("Hyperinflated lungs.", B),
    ],
)
def test_no_finding_means_nothing_but_devices(text, label):
    assert label_findings(text)[NONE] is label


def test_the_strongest_label_of_a_report_stands():
    assert label_findings("No acute fracture. Old rib fractures. Possible clavicle fracture.")[FRACTURE] is P
    assert label_findings("No effusion. A small effusion cannot be excluded.")[EFFUSION] is U


def test_case_spacing_and_ends_of_sentences_do_not_matter():
    text = "No pneumothorax.  Small effusion;\nthe heart is enlarged"
    assert label_findings(text) == label_findings(text.upper()) == label_findings(text.lower().replace(".  ", "."))
    assert label_findings(text)[PNEUMOTHORAX] is N
    assert label_findings("A 1.5 cm nodule. No effusion.")[LESION] is P


MORE = ("normal heart size", "no effusion or pneumothorax", "degenerative changes of the spine", "hyperinflated lungs")
PHRASES = st.sampled_from(
    sorted({text.rstrip(".").lower() for texts in (*BY_OBSERVATION.values(), MORE) for text in texts})
)
RANK = [B, N, U, P]


@settings(max_examples=200, deadline=None)
@given(st.lists(PHRASES, min_size=1, max_size=6))
def test_a_phrase_says_the_same_alone_and_in_a_report(phrases):
    alone = [label_findings(phrase) for phrase in phrases]
    joined = label_findings(". ".join(phrases) + ".")
    for name in OBSERVATIONS[:-1]:
        assert joined[name] is max((labels[name] for labels in alone), key=RANK.index)
    assert (joined[NONE] is P) == all(labels[NONE] is P for labels in alone)


@given(st.text(alphabet="no effusion.,;:()-x/\n", max_size=80))
def test_any_text_is_labelled(text):
    assert set(label_findings(text)) == set(OBSERVATIONS)


def test_positive_findings_are_the_affirmed_ones_alone():
    found = positive_findings([BY_OBSERVATION[EFFUSION][0], "possible effusion. no edema.", ""])
    assert found.shape == (3, 13)
    assert found.dtype == bool
    assert [OBSERVATIONS[column] for column in np.flatnonzero(found[0])] == [EFFUSION]
    assert not found[1:].any()


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = ROOT / "benchmarks" / "findings_agreement.py"
    if not path.is_file():
        pytest.skip("benchmarks are not part of the source distribution")
    spec = importlib.util.spec_from_file_location("findings_agreement", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_tags_are_matched_by_heading_and_qualifiers(benchmark):
    assert benchmark.has_tag(("cardiac shadow/enlarged/mild",), ("cardiac shadow/enlarged",))
    assert benchmark.has_tag(("nodule",), ("nodule",))
    assert not benchmark.has_tag(("cardiac shadow/borderline", "pneumothoraxes"), ("cardiac shadow/enlarged", "pneumo"))


def test_labels_agree_with_the_tags_of_real_reports(benchmark, iu_xray_root):
    studies = benchmark.read_tagged(iu_xray_root, "train")
    truth, positive, uncertain = benchmark.agreement(studies)
    assert len(studies) > 2000
    assert benchmark.judged_micro_f1(truth, positive) >= 0.96
    devices = list(benchmark.TAGS).index(DEVICES)
    tp = (truth & positive)[:, devices].sum()
    assert 2 * tp / (truth[:, devices].sum() + positive[:, devices].sum()) >= 0.88
    # the page prints this table
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert benchmark.table(truth, positive, uncertain).split("\n\n")[0] in page
