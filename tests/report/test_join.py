from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rarrg.report.join import comparison_key, join_phrases, phrase_sentences
from rarrg.types import RetrievedPhrase


def phrases(*texts: str) -> tuple[RetrievedPhrase, ...]:
    return tuple(RetrievedPhrase(text, 0.9, 0.8, query) for query, text in enumerate(texts))


def test_each_phrase_becomes_a_sentence_in_its_order():
    text = join_phrases({"frontal": phrases("mild cardiomegaly", "no pleural effusion")})
    assert text == "Mild cardiomegaly. No pleural effusion."


def test_what_the_lateral_repeats_is_left_out_and_what_it_adds_comes_last():
    text = join_phrases(
        {
            "lateral": phrases("No pleural effusion.", "degenerative changes of the spine"),
            "frontal": phrases("no pleural effusion", "right-sided PICC line"),
        }
    )
    assert text == "No pleural effusion. Right-sided PICC line. Degenerative changes of the spine."


def test_lateral_alone():
    assert join_phrases({"lateral": phrases("clear lungs")}) == "Clear lungs."


def test_only_the_first_letter_is_raised():
    assert join_phrases({"frontal": phrases("PICC tip in the SVC", "5.2 mm nodule")}) == (
        "PICC tip in the SVC. 5.2 mm nodule."
    )


def test_spaces_and_closing_punctuation_are_tidied():
    assert join_phrases({"frontal": phrases(" clear \n lungs ..", "no effusion;")}) == "Clear lungs. No effusion."


def test_case_hyphens_and_stops_do_not_make_phrases_differ():
    assert comparison_key("Right-sided  PICC line.") == comparison_key("right sided picc line")


def test_words_numbers_and_signs_make_phrases_differ():
    assert comparison_key("no effusion") != comparison_key("effusion")
    assert comparison_key("1.2 cm nodule") != comparison_key("12 cm nodule")
    assert comparison_key("nodule < 1 cm") != comparison_key("nodule > 1 cm")


def test_a_sentence_knows_all_its_phrases():
    sentences = phrase_sentences(
        {"frontal": phrases("clear lungs", "normal heart"), "lateral": phrases("normal heart.", "old fracture")}
    )
    assert [sentence.sources for sentence in sentences] == [
        (("frontal", 0),),
        (("frontal", 1), ("lateral", 0)),
        (("lateral", 1),),
    ]


WORDS = st.lists(st.sampled_from(["no", "Left", "effusion", "nodule,", "(small)", "heart."]), min_size=1, max_size=4)
VIEW = st.lists(WORDS.map(" ".join), max_size=6)


@given(frontal=VIEW, lateral=VIEW)
def test_every_phrase_is_said_exactly_once(frontal: list[str], lateral: list[str]):
    sentences = phrase_sentences({"frontal": phrases(*frontal), "lateral": phrases(*lateral)})
    said = [comparison_key(sentence.text) for sentence in sentences]
    assert len(said) == len(set(said))
    assert set(said) == {comparison_key(text) for text in frontal + lateral}
    assert sum(len(sentence.sources) for sentence in sentences) == len(frontal) + len(lateral)
    assert all(sentence.text.endswith(".") and sentence.text[0] != " " for sentence in sentences)
