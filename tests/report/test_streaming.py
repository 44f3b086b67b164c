from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarrg.report.streaming import DraftStream


def heard(*pieces: str) -> list[str]:
    said: list[str] = []
    stream = DraftStream(said.append)
    for piece in pieces:
        stream.hear(piece)
    return said


def test_the_report_comes_out_as_it_is_written():
    assert heard("", '{"rep', 'ort": "Clear', " lungs.", '"}') == ["draft 1: ", "Clear", " lungs."]


def test_a_second_draft_is_announced():
    assert heard("", '{"report": "A."}', "", '{"report": "B."}') == ["draft 1: ", "A.", "\ndraft 2: ", "B."]


def test_what_surrounds_the_report_is_not_shown():
    assert heard("", 'Here it is:\n```json\n{ "report" : "A."}\n```\nAnything else?') == ["draft 1: ", "A."]


@given(st.text(), st.lists(st.integers(1, 7), min_size=1))
def test_any_report_comes_out_whole_however_it_is_cut(report: str, lengths: list[int]):
    reply = json.dumps({"report": report})
    pieces, start = [""], 0
    while start < len(reply):
        length = lengths[len(pieces) % len(lengths)]
        pieces.append(reply[start : start + length])
        start += length
    said = heard(*pieces)[1:]
    assert "".join(said) == report
    for text in said:
        text.encode()  # half of a character is never said


def test_half_of_a_surrogate_pair_is_not_said():
    assert heard("", r'{"report": "A \ud83d', r"\ude00", '."}') == ["draft 1: ", "A ", "\U0001f600", "."]
    assert heard("", r'{"report": "A \ud83d.', '"}', "", '{"report": "B."}') == ["draft 1: ", "A ", "\ndraft 2: ", "B."]


@pytest.mark.parametrize("reply", ["no JSON at all", '{"other": "A."}', '{"report": ["A."]}'])
def test_a_reply_without_a_report_shows_nothing(reply: str):
    assert heard("", reply) == ["draft 1: "]
