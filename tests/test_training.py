from __future__ import annotations

import math

import pytest

from rarrg.training import warmup_cosine


def test_warm_up_is_linear_and_ends_at_the_peak() -> None:
    assert [warmup_cosine(step, 4, 104) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_cosine_by_hand() -> None:
    assert warmup_cosine(54, 4, 104) == pytest.approx(0.5)
    assert warmup_cosine(29, 4, 104) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert warmup_cosine(104, 4, 104) == pytest.approx(0)
    assert warmup_cosine(500, 4, 104) == pytest.approx(0)


def test_without_warm_up_the_first_step_is_the_peak() -> None:
    assert warmup_cosine(0, 0, 10) == 1.0
