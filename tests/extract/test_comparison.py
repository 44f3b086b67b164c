"""When a phrase compares with an earlier study, and what becomes of comparing clauses."""

from __future__ import annotations

import pytest

from rarrg.extract.comparison import COMPARISON_TERMS, compares, speaks_of_change, without_change
from rarrg.extract.rules import extract_phrases


def test_there_are_eighteen_terms():
    assert len(COMPARISON_TERMS) == len(set(COMPARISON_TERMS)) == 18


@pytest.mark.parametrize("term", COMPARISON_TERMS)
def test_each_term_compares_by_itself_in_any_case(term):
    assert compares(f"pleural effusion {term}")
    assert compares(term.upper())


@pytest.mark.parametrize(
    "phrase",
    [
        "degenerative changes of the spine",
        "degenerative change of the spine",
        "left base atelectatic change",
        "increased interstitial markings",
        "increased AP diameter of the chest",
        "increased kyphosis",
        "decreased bone density",
        "opacities worse at the bases",
        "blunting, left worse than right",
        "prior granulomatous disease",
        "previous cabg",
        "mild cardiomegaly",
        "instability of the shoulder",
        "against the chest wall",
    ],
)
def test_uses_that_do_not_compare(phrase):
    assert not compares(phrase)


@pytest.mark.parametrize(
    "phrase",
    [
        "no change in the effusion",
        "without significant change",
        "increased pleural effusion",
        "increased size of the mass",
        "increased interstitial markings since the last study",
        "lung volumes decreased from prior",
        "worse opacities",
        "as on the prior chest film",
        "degenerative change, stable",
        "prior study",
    ],
)
def test_uses_that_compare(phrase):
    assert compares(phrase)


@pytest.mark.parametrize(
    ("findings", "phrases"),
    [
        ("Stable mild cardiomegaly.", ["mild cardiomegaly"]),
        ("Mild cardiomegaly, unchanged from the prior study.", ["mild cardiomegaly"]),
        ("The effusion has increased, now moderate.", ["moderate pleural effusion"]),
        ("There has been interval increase in the left effusion, which is now large.", ["large left pleural effusion"]),
        ("Unchanged position of the left PICC.", ["left picc"]),
        ("Again seen is a right upper lobe nodule.", ["right upper lobe nodule"]),
        ("Compared to the prior exam, there is a new small left effusion.", ["small left pleural effusion"]),
        ("Pulmonary edema is slightly worse.", ["pulmonary edema"]),
        ("No change in the small left effusion.", ["small left pleural effusion"]),
        ("Hiatal hernia is redemonstrated.", ["hiatal hernia"]),
        ("Lung volumes remain low.", ["low lung volumes"]),
        ("Heart size is normal and stable.", ["normal heart size"]),
        ("Prior granulomatous disease.", ["old granulomatous disease"]),
        ("Bilateral effusions, left worse than right.", ["bilateral pleural effusions left greater than right"]),
        (
            "Right middle lobe mass of 4.5 cm, increased in size compared to prior, most compatible with neoplasm.",
            ["right middle lobe mass of 4.5 cm", "possible neoplasm"],
        ),
        ("Right midlung opacity noted, not visualized on prior.", ["right midlung opacity"]),
        ("A small nodule, not seen on the previous study.", ["small nodule"]),
        ("Resolved interstitial edema.", ["no interstitial edema"]),
        ("There continues to be some left basilar opacities.", ["left basilar opacities"]),
        ("The heart continues to be enlarged.", ["cardiomegaly"]),
        ("The heart size is persistently enlarged.", ["cardiomegaly"]),
        ("An opacity persists in the right midlung.", ["right midlung opacity"]),
        ("There is persistence of a calcified nodule.", ["calcified nodule"]),
        ("There is continued cardiomegaly.", ["cardiomegaly"]),
        ("The calcified nodule is less prominent than previously.", ["calcified nodule"]),
        ("The right effusion is larger than before.", ["right pleural effusion"]),
        ("The hiatal hernia identified previously is unchanged since the last study.", ["hiatal hernia"]),
        ("Redemonstration and stable appearance of calcified granulomas.", ["calcified granulomas"]),
        # described, not compared
        ("There are increased interstitial markings.", ["increased interstitial markings"]),
        ("The interstitial markings are increased.", ["increased interstitial markings"]),
        # nothing of the present is left
        ("No interval change.", []),
        ("Interval removal of the endotracheal tube.", []),
        ("The right chest tube has been removed.", []),
        ("The mediastinum is stable.", []),
        ("No new infiltrate.", []),
        ("The prior study showed an effusion.", []),
    ],
)
def test_the_present_state_is_what_remains(findings, phrases):
    assert extract_phrases(findings) == phrases
    assert not any(map(compares, phrases))


@pytest.mark.parametrize(
    ("findings", "phrases"),
    [
        (
            "There is mild cardiomegaly and the left effusion has resolved.",
            ["mild cardiomegaly", "no left pleural effusion"],
        ),
        (
            "Left basilar opacity persists and the right effusion is no longer seen.",
            ["left basilar opacity", "no right pleural effusion"],
        ),
        ("The lungs are clear and previously noted infiltrate has resolved.", ["clear lungs", "no infiltrate"]),
        (
            "No effusion, and the previously seen right opacity has cleared.",
            ["no pleural effusion", "no right opacity"],
        ),
        (
            "Interval resolution of right effusion and improvement of left effusion.",
            ["no right pleural effusion", "left pleural effusion"],
        ),
        (
            "The left effusion has resolved and the right effusion persists.",
            ["no left pleural effusion", "right pleural effusion"],
        ),
        ("A small right pneumothorax is present and the chest tube has been removed.", ["small right pneumothorax"]),
        ("The nasogastric tube has been removed, and the ET tube is unchanged.", ["et tube"]),
        (
            "Effusion is absent on the right but present on the left.",
            ["no right pleural effusion", "left pleural effusion"],
        ),
        ("There are no pleural effusions other than a tiny one on the right.", ["tiny right pleural effusion"]),
        (
            "No effusion on the right, but a small one on the left.",
            ["no right pleural effusion", "small left pleural effusion"],
        ),
        ("Nothing to suggest pneumonia.", ["no pneumonia"]),
        ("It does not appear that there is a pneumothorax.", ["no pneumothorax"]),
        ("Neither lung shows consolidation.", ["no consolidation"]),
        ("A nodule seen previously is no longer apparent.", ["no nodule"]),
        ("Previously enlarged heart is now normal in size.", ["normal heart size"]),
        ("The right pleural effusion has nearly completely resolved.", ["right pleural effusion"]),
        ("The effusion has not completely resolved.", ["pleural effusion"]),
        ("The right apical pneumothorax has not fully resolved.", ["right apical pneumothorax"]),
        ("The effusion has yet to resolve.", ["pleural effusion"]),
        ("The right pleural effusion has almost resolved.", ["right pleural effusion"]),
        ("The heart is no longer enlarged.", ["no cardiomegaly"]),
        ("There is no longer a pneumothorax.", ["no pneumothorax"]),
        ("No residual or recurrent pneumothorax.", ["no pneumothorax"]),
        ("There is less pulmonary edema than before.", ["pulmonary edema"]),
        ("Lung volumes are lower than on the prior exam.", []),
        ("Near complete resolution of right upper lobe pneumonia.", ["right upper lobe pneumonia"]),
        ("There is partial resolution of right upper lobe pneumonia.", ["right upper lobe pneumonia"]),
        ("There has been no resolution of the right lower lobe consolidation.", ["right lower lobe consolidation"]),
        ("Slightly smaller right apical pneumothorax.", ["right apical pneumothorax"]),
        ("The 8 mm nodule in the left upper lobe was 6 mm on the prior exam.", ["8 mm left upper lobe nodule"]),
        ("ET tube has been advanced and now lies 3 cm above the carina.", ["et tube lies 3 cm above the carina"]),
        ("The dialysis catheter has been replaced by a PICC with tip in the SVC.", ["picc with tip in the svc"]),
        ("No pneumothorax status post thoracentesis.", ["no pneumothorax"]),
        ("The heart is neither enlarged nor displaced.", ["no cardiomegaly"]),
        ("None of the nodules is calcified.", []),
        ("Interstitial markings are not increased.", ["no increased interstitial markings"]),
        ("Kyphosis is not increased.", ["no increased kyphosis"]),
        ("There is not a pneumothorax.", ["no pneumothorax"]),
        ("Pneumothorax: none.", ["no pneumothorax"]),
        ("Effusions: None.", ["no pleural effusion"]),
        ("Heart: Not enlarged.", ["no cardiomegaly"]),
        ("No pneumothorax following removal of the right chest tube.", ["no pneumothorax"]),
        ("There is no pneumothorax and chest tube has been removed.", ["no pneumothorax"]),
        ("There is no evidence of recurrence of the pneumothorax.", ["no pneumothorax"]),
        ("Pleural effusions are not appreciably changed.", ["pleural effusions"]),
        ("No improvement in the left lower lobe consolidation.", ["left lower lobe consolidation"]),
        ("No progression of the left effusion.", ["left pleural effusion"]),
        ("No worsening of the moderate left effusion.", ["moderate left pleural effusion"]),
        ("The endotracheal tube has been removed and a tracheostomy tube is now in place.", ["tracheostomy tube"]),
        ("Interval increase in size of the right pleural effusion, now moderate.", ["moderate right pleural effusion"]),
        ("Pneumothorax is unchanged in size, still small.", ["small pneumothorax"]),
    ],
)
def test_what_is_gone_or_moved_takes_nothing_else_with_it(findings, phrases):
    assert extract_phrases(findings) == phrases
    assert not any(map(compares, phrases))


@pytest.mark.parametrize(
    ("phrase", "without"),
    [
        ("continued cardiomegaly", "cardiomegaly"),
        ("new small effusion", "small effusion"),
        ("effusion is larger", "effusion"),
        ("persistence of the effusion", None),
        ("continues to be enlarged", None),
    ],
)
def test_words_of_change_beside_the_terms_are_known(phrase, without):
    assert speaks_of_change(phrase)
    if without is not None:
        assert without_change(phrase) == without
        assert not speaks_of_change(without)


@pytest.mark.parametrize(
    "phrase", ["larger on the left", "smaller than the right", "continuous lucency", "discontinued"]
)
def test_words_like_them_are_none(phrase):
    assert not speaks_of_change(phrase)
