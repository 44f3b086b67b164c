"""Figures over a probability as lines: where everything goes; ``templates/line_chart.svg.jinja`` draws it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEFT, RIGHT, TOP, BOTTOM = FRAME = (46.0, 626.0, 12.0, 236.0)
"""Where the axes end, in units of the view box of 640 by 280."""

STEPS = 5
"""Most steps of the vertical axis."""


@dataclass(frozen=True)
class Chart:
    """Lines over one probability.

    Attributes:
        title: What the lines are.
        across: What the horizontal axis is.
        x: Its values, in [0, 1], rising.
        lines: Values of each line, one for each of ``x``, none below 0.
        mark: A value of the horizontal axis that is pointed out.
        marked: What it is.
    """

    title: str
    across: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    mark: float
    marked: str


@dataclass(frozen=True)
class Dot:
    """A value on a line: its place, and what it says when pointed at."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Drawing:
    """A chart in units of the view box.

    Attributes:
        columns: Places and names of the steps of the horizontal axis.
        rows: Those of the vertical axis.
        lines: The dots of each line.
        mark: Place of the value that is pointed out.
        frame: Left, right, upper and lower end of the axes.
    """

    columns: Sequence[tuple[float, str]]
    rows: Sequence[tuple[float, str]]
    lines: Mapping[str, Sequence[Dot]]
    mark: float
    frame: tuple[float, float, float, float] = FRAME


def draw(chart: Chart) -> Drawing:
    """Lay a chart out; its vertical axis begins at 0 and ends at the first step that no value is above.

    Args:
        chart: What to draw.

    Raises:
        ValueError: A line has more or fewer values than the horizontal axis.
    """
    highest = max(max(values) for values in chart.lines.values())
    step = _step(highest)
    steps = max(1, math.ceil(round(highest / step, 9)))

    def across(value: float) -> float:
        return round(LEFT + value * (RIGHT - LEFT), 1)

    def up(value: float) -> float:
        return round(BOTTOM - value / (step * steps) * (BOTTOM - TOP), 1)

    return Drawing(
        columns=[(across(tenth / 10), f"{tenth / 10:g}") for tenth in range(0, 11, 2)],
        rows=[(up(step * number), f"{step * number:g}") for number in range(steps + 1)],
        lines={
            name: [
                Dot(across(x), up(y), f"{name} {y:.3g} at {chart.across} {x:g}")
                for x, y in zip(chart.x, values, strict=True)
            ]
            for name, values in chart.lines.items()
        },
        mark=across(chart.mark),
    )


def _step(highest: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that reaches the highest value in ``STEPS`` steps."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest / STEPS))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * STEPS >= highest * (1 - 1e-9))
