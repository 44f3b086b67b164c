"""What both phantom views share: the patient, the findings, brushes on one grid, and the exposure.

Positions are in units of half an image side, x from -1 (left edge) to 1 (right edge), y from -1 (top) to 1 (bottom).
A drawing is a map of density, float32 ``[SIZE, SIZE]``, about 0 in air and 1 in metal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from PIL import Image, ImageDraw
from scipy.interpolate import CubicSpline
from scipy.ndimage import gaussian_filter

SIZE = 256
CHANGED = 4.0  # grey levels, out of 255, from which a pixel counts as changed by a finding

Kind = Literal[
    "cardiomegaly",
    "pleural effusion",
    "pneumothorax",
    "nodule",
    "opacity",
    "endotracheal tube",
    "central venous catheter",
    "nasogastric tube",
    "pacemaker",
    "rib fracture",
    "hyperinflation",
]
Side = Literal["left", "right", ""]
PhantomView = Literal["frontal", "lateral"]
VIEWS: tuple[PhantomView, ...] = ("frontal", "lateral")

_centres = (np.arange(SIZE, dtype=np.float32) + 0.5) * (2 / SIZE) - 1
X, Y = np.meshgrid(_centres, _centres)


@dataclass(frozen=True)
class PhantomFinding:
    """A finding to draw.

    Attributes:
        kind: What it is.
        side: The patient's side; empty where it has none.
        location: Where, in words: ``upper lobe``, ``middle lobe``, ``lower lobe``; empty where the kind says it.
        size: ``small``, ``moderate``, ``large`` or empty.
        jitter: Three numbers in [-1, 1] that vary its place and form.
    """

    kind: Kind
    side: Side = ""
    location: str = ""
    size: str = ""
    jitter: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Patient:
    """Anatomy and exposure of one phantom, the same with and without findings.

    Attributes:
        width: Half the inner width of the chest, in half image sides.
        apex: Height of the lung apices.
        base: Height of the right diaphragm dome.
        heart: Width of the heart over that of the chest.
        midline: Sideways shift of the patient.
        aorta: Radius of the aortic knob.
        ribs: Height of the first drawn rib.
        bone: Density of ribs and clavicles.
        fat: Extra width of the body.
        gas: Size of the gastric bubble.
        gain: Slope of the tone curve.
        gamma: Bend of the tone curve.
        blur: Deviation of the blur, in pixels.
        noise: Deviation of the noise, in grey levels.
        seed: Seed of vessels, unevenness and noise.
    """

    width: float
    apex: float
    base: float
    heart: float
    midline: float
    aorta: float
    ribs: float
    bone: float
    fat: float
    gas: float
    gain: float
    gamma: float
    blur: float
    noise: float
    seed: int

    @classmethod
    def of(cls, rng: np.random.Generator) -> Patient:
        """Draw a patient at random."""
        return cls(
            width=rng.uniform(0.70, 0.80),
            apex=rng.uniform(-0.80, -0.70),
            base=rng.uniform(0.34, 0.46),
            heart=rng.uniform(0.40, 0.47),
            midline=rng.uniform(-0.04, 0.04),
            aorta=rng.uniform(0.07, 0.10),
            ribs=rng.uniform(-0.72, -0.66),
            bone=rng.uniform(0.13, 0.19),
            fat=rng.uniform(0.0, 0.10),
            gas=rng.uniform(0.07, 0.13),
            gain=rng.uniform(0.92, 1.10),
            gamma=rng.uniform(0.85, 1.10),
            blur=rng.uniform(0.5, 0.9),
            noise=rng.uniform(1.5, 4.0),
            seed=int(rng.integers(1 << 32)),
        )


class Scene(Protocol):
    """One view of one patient."""

    def density(self, findings: Sequence[PhantomFinding]) -> np.ndarray:
        """Density of the view with these findings, float32 ``[SIZE, SIZE]``."""

    def heart(self, findings: Sequence[PhantomFinding]) -> np.ndarray:
        """Where the heart lies, bool ``[SIZE, SIZE]``."""

    def lungs(self, findings: Sequence[PhantomFinding]) -> dict[Side, np.ndarray]:
        """Where each lung lies, bool ``[SIZE, SIZE]``; under ``""`` where both lie over each other."""


class Camera:
    """Turns the density of one view into grey levels; its noise does not depend on the findings."""

    def __init__(self, patient: Patient, view: int) -> None:
        rng = np.random.default_rng([patient.seed, view])
        self._patient = patient
        grain = gaussian_filter(rng.standard_normal((SIZE, SIZE), dtype=np.float32), 0.6)
        coarse = Image.fromarray(rng.standard_normal((8, 8), dtype=np.float32))
        uneven = np.asarray(coarse.resize((SIZE, SIZE), Image.Resampling.BICUBIC))
        self._noise = patient.noise * grain / grain.std() + 3 * uneven

    def grey(self, density: np.ndarray) -> np.ndarray:
        """Grey levels in [0, 255] and a little beyond, float32 ``[SIZE, SIZE]``; white is dense."""
        patient = self._patient
        tone = np.clip(density * patient.gain + 0.03, 0, 1.1) ** patient.gamma
        return 235 * gaussian_filter(tone, patient.blur) + self._noise


def to_uint8(grey: np.ndarray) -> np.ndarray:
    """Round and clip grey levels to uint8."""
    return np.rint(np.clip(grey, 0, 255)).astype(np.uint8)


def changed_pixels(with_finding: np.ndarray, without: np.ndarray) -> np.ndarray | None:
    """Pixels that differ by ``CHANGED`` grey levels or more, bool of the same shape; None where fewer than 12 do."""
    changed = np.abs(np.clip(with_finding, 0, 255) - np.clip(without, 0, 255)) >= CHANGED
    return changed if np.count_nonzero(changed) >= 12 else None


def box_round(changed: np.ndarray) -> tuple[int, int, int, int]:
    """Smallest box round the True pixels, of which there must be one.

    Returns:
        ``(x0, y0, x1, y1)`` in pixels, the ends not included.
    """
    columns, rows = np.flatnonzero(changed.any(axis=0)), np.flatnonzero(changed.any(axis=1))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def inside(distance: np.ndarray, softness: float) -> np.ndarray:
    """1 where a signed distance is positive, 0 where negative, with a soft edge; same shape."""
    return np.clip(distance * (0.25 / softness) + 0.5, 0, 1)


def ellipse(x: float, y: float, rx: float, ry: float, softness: float = 0.02, turn: float = 0.0) -> np.ndarray:
    """A filled ellipse with a soft edge, turned by ``turn`` radians; values in [0, 1], ``[SIZE, SIZE]``."""
    cos, sin = math.cos(turn), math.sin(turn)
    along, across = (X - x) * cos + (Y - y) * sin, (Y - y) * cos - (X - x) * sin
    radius = np.sqrt((along / rx) ** 2 + (across / ry) ** 2)
    return inside((1 - radius) * min(rx, ry), softness)


def strokes(lines: Sequence[np.ndarray], width: float) -> np.ndarray:
    """Lines of one width in pixels, each a list of points ``[n, 2]``; values in [0, 1], ``[SIZE, SIZE]``."""
    scale = 3
    canvas = Image.new("L", (SIZE * scale, SIZE * scale))
    pen = ImageDraw.Draw(canvas)
    for line in lines:
        points = (np.asarray(line) + 1) * (SIZE * scale / 2)
        pen.line([(float(x), float(y)) for x, y in points], fill=255, width=round(width * scale), joint="curve")
    return np.asarray(canvas.reduce(scale), dtype=np.float32) / 255


def curve(*points: tuple[float, float], steps: int = 24) -> np.ndarray:
    """A smooth line through points; ``[steps, 2]``."""
    knots = np.asarray(points)
    lengths = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(knots, axis=0).T))])
    return CubicSpline(lengths, knots)(np.linspace(0, lengths[-1], steps))


def tubes(lines: Sequence[np.ndarray], width: float) -> np.ndarray:
    """Bones seen from the side: bright along both edges, fainter between; values in [0, 1], ``[SIZE, SIZE]``."""
    return strokes(lines, width) - 0.35 * strokes(lines, max(width - 3, 1))


def vessels(rng: np.random.Generator, x: float, y: float, away: float, count: int = 11) -> list[np.ndarray]:
    """Branching vessels that leave a hilum at ``(x, y)`` towards the side ``away`` (-1 or 1)."""
    lines = []
    for angle in np.linspace(-1.25, 1.25, count) + rng.normal(0, 0.08, count):
        reach = rng.uniform(0.3, 0.6)
        bend = rng.normal(0, 0.25)
        along = np.linspace(0, 1, 8)
        turned = angle + bend * along
        trunk = np.stack([x + away * reach * along * np.cos(turned), y + 1.2 * reach * along * np.sin(turned)], axis=1)
        fork = trunk[int(rng.integers(2, 5))]
        tip = fork + rng.uniform(0.12, 0.24) * np.array([away * np.cos(angle + 0.5), np.sin(angle + 0.5)])
        lines += [trunk, np.stack([fork, tip])]
    return lines


def texture(finding: PhantomFinding) -> np.ndarray:
    """Uneven cloudiness of mean 1, the same for the same finding; ``[SIZE, SIZE]``."""
    rng = np.random.default_rng([int(1e6 * (1 + value)) for value in finding.jitter])
    cloud = gaussian_filter(rng.standard_normal((SIZE, SIZE), dtype=np.float32), 4)
    return np.clip(1 + 0.35 * cloud / cloud.std(), 0.2, 1.8)
