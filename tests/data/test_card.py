"""Whether data may leave the machine."""

from __future__ import annotations

import pytest

from rarrg.data.card import CARD, carried, carry_card, is_credentialed
from rarrg.errors import RarrgError


def test_mimic_is_credentialed_wherever_it_lies_and_others_by_their_card(tmp_path):
    assert is_credentialed("mimic_cxr", None)
    assert not is_credentialed("phantom", None)
    assert not is_credentialed("iu_xray", tmp_path)
    (tmp_path / CARD).write_text('{"credentialed": true}')
    assert is_credentialed("iu_xray", tmp_path)
    (tmp_path / CARD).write_text('{"credentialed": false}')
    assert not is_credentialed("iu_xray", tmp_path)
    assert is_credentialed("mimic_cxr", tmp_path)  # no card talks its way out of the agreement


def test_the_card_is_carried_to_what_is_made_of_the_data(tmp_path):
    root, out = tmp_path / "data", tmp_path / "out"
    root.mkdir()
    (root / CARD).write_text('{"credentialed": true}')
    carry_card("iu_xray", root, out)
    assert carried(out)
    carry_card("iu_xray", tmp_path, out)
    assert not carried(out)


@pytest.mark.parametrize("card", ["{}", '{"credentialed": "no"}', "[]", "true"])
def test_a_card_that_does_not_say_is_no_permission(tmp_path, card):
    (tmp_path / CARD).write_text(card)
    with pytest.raises(RarrgError, match=r'dataset\.json: must say "credentialed": true or false'):
        is_credentialed("iu_xray", tmp_path)


def test_no_card_is_no_permission(tmp_path):
    with pytest.raises(RarrgError, match=r"dataset\.json: cannot be read"):
        carried(tmp_path)
