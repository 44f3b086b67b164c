from __future__ import annotations

import pytest

from rarrg.line_chart import BOTTOM, LEFT, RIGHT, TOP, Chart, draw


def chart(*values: float) -> Chart:
    x = [number / 10 for number in range(len(values))]
    return Chart("Findings", "threshold", x, {"F1": values}, 0.4, "in use")


def test_values_lie_where_the_axes_say() -> None:
    drawing = draw(Chart("Findings", "threshold", [0.0, 0.5, 1.0], {"F1": [0, 0.5, 1]}, 0.25, "in use"))
    dots = drawing.lines["F1"]
    assert [(dot.x, dot.y) for dot in dots] == [(LEFT, BOTTOM), ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2), (RIGHT, TOP)]
    assert dots[1].text == "F1 0.5 at threshold 0.5"
    assert drawing.mark == LEFT + (RIGHT - LEFT) / 4
    assert drawing.columns[0] == (LEFT, "0")
    assert drawing.columns[-1] == (RIGHT, "1")


@pytest.mark.parametrize(
    ("highest", "names"),
    [
        (1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0.93, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0.3, ["0", "0.1", "0.2", "0.3"]),
        (17.2, ["0", "5", "10", "15", "20"]),
        (51.0, ["0", "20", "40", "60"]),
        (0.0, ["0", "1"]),
    ],
)
def test_the_vertical_axis_has_round_steps_up_to_the_highest_value(highest: float, names: list[str]) -> None:
    drawing = draw(chart(0, highest))
    assert [name for _, name in drawing.rows] == names
    assert [drawing.rows[0][0], drawing.rows[-1][0]] == [BOTTOM, TOP]
    assert all(TOP <= dot.y <= BOTTOM for dot in drawing.lines["F1"])


def test_a_line_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        draw(Chart("Findings", "threshold", [0.1, 0.2], {"F1": [0.1]}, 0.1, "in use"))
