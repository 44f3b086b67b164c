"""The lateral phantom view. The patient faces the image's left; both lungs lie over each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rarrg.data.phantom_drawing import (
    Patient,
    PhantomFinding,
    Side,
    X,
    Y,
    curve,
    ellipse,
    inside,
    strokes,
    texture,
    tubes,
    vessels,
)

_EFFUSION_HEIGHT = {"small": 0.20, "moderate": 0.42, "large": 0.75}
_LOBES = {  # x, and height over that of the lung, the same as in the frontal view
    ("right", "upper lobe"): (-0.08, 0.30),
    ("right", "middle lobe"): (-0.24, 0.66),
    ("right", "lower lobe"): (0.30, 0.92),
    ("left", "upper lobe"): (-0.12, 0.32),
    ("left", "lower lobe"): (0.34, 0.84),
}


class Lateral:
    """Draws the lateral view of a patient.

    Args:
        patient: Whom to draw.
    """

    def __init__(self, patient: Patient) -> None:
        self._patient = patient
        rng = np.random.default_rng([patient.seed, 11])
        self._spine_x = 0.50 + patient.midline + 0.10 * (1 - (Y + 0.1) ** 2)
        front = -0.64 - patient.fat + 0.55 * np.clip(-Y - 0.45, 0, None) - 0.05 * np.clip(Y, 0, None)
        back = self._spine_x + 0.24 + patient.fat - 0.30 * np.clip(-Y - 0.70, 0, None)
        self._body = inside(np.minimum(X - front, back - X), 0.02) * (0.60 + 0.6 * patient.fat)
        self._top = patient.apex + 0.45 * (X - 0.22) ** 2
        near = np.abs(X - self._spine_x)
        discs = 0.5 + 0.5 * np.tanh(4 * np.cos(2 * np.pi * Y / 0.165) + 2.5)
        self._spine = inside(0.075 - near, 0.010) * (0.09 + 0.11 * discs)
        ribs = [self._rib(rib, shift) for shift in (0.0, 0.05) for rib in range(8)]
        breastbone = [np.stack([self._front(y) - 0.035, y], axis=1) for y in [np.linspace(-0.55, 0.20, 20)]]
        self._bones = patient.bone * (0.55 * tubes(ribs, 7) + 1.2 * tubes(breastbone, 7))
        lines = [line for away in (-1, 1) for line in vessels(rng, 0.08, -0.04, away, 8)]
        nearness = np.exp(-(((X - 0.08) ** 2 + (Y + 0.04) ** 2) / 0.13))
        self._vessels = 0.11 * nearness * strokes(lines, 1.6) + 0.14 * ellipse(0.07, -0.04, 0.10, 0.12, 0.05)

    def density(self, findings: Sequence[PhantomFinding]) -> np.ndarray:
        """Density of the view with these findings, float32 ``[SIZE, SIZE]``."""
        kinds = {finding.kind for finding in findings}
        deep = "hyperinflation" in kinds
        heart, lungs = self._heart("cardiomegaly" in kinds, deep), self._lungs(deep)
        extra = np.zeros_like(X)
        for finding in findings:
            if finding.kind == "pleural effusion":
                extra += 0.22 * lungs * (1 - 0.5 * heart) * self._fluid(finding)
            elif finding.kind == "pneumothorax":
                extra += lungs * self._free_air(finding)
            elif finding.kind in ("nodule", "opacity"):
                extra += lungs * self._density_in_lobe(finding, deep)
            elif finding.kind not in ("cardiomegaly", "hyperinflation", "rib fracture"):
                extra += self._device(finding)
        density = self._body - lungs * (0.48 if deep else 0.43) * (1 - 0.62 * heart)
        density += 0.06 * heart + self._upper() + self._abdomen(deep) + self._spine
        return density + self._bones * self._body + self._vessels * lungs * (1 - 0.6 * heart) + extra

    def heart(self, findings: Sequence[PhantomFinding]) -> np.ndarray:
        """Where the heart lies, bool ``[SIZE, SIZE]``."""
        kinds = {finding.kind for finding in findings}
        return self._heart("cardiomegaly" in kinds, "hyperinflation" in kinds) > 0.5

    def lungs(self, findings: Sequence[PhantomFinding]) -> dict[Side, np.ndarray]:
        """Where both lungs lie, one over the other, bool ``[SIZE, SIZE]``."""
        return {"": self._lungs(any(finding.kind == "hyperinflation" for finding in findings)) > 0.5}

    def _front(self, y: np.ndarray) -> np.ndarray:
        """Inner front wall of the chest at a height."""
        return -0.54 + 0.30 * np.clip(-y - 0.05, 0, None) ** 1.3

    def _diaphragm(self, deep: bool, back: float = 0.0) -> np.ndarray:
        fall = 0.16 if deep else 0.42
        base = self._patient.base + (0.15 if deep else 0.0) + back
        return base + fall * np.clip(X + 0.10, 0, None) ** 1.6 + 0.10 * np.clip(-X - 0.25, 0, None)

    def _lungs(self, deep: bool) -> np.ndarray:
        front = self._front(Y) - (0.05 if deep else 0.0)
        floor = self._diaphragm(deep)
        edge = np.minimum.reduce([X - front, self._spine_x + 0.13 - X, floor - Y, Y - self._top])
        second = inside(floor + 0.07 - Y, 0.010) * inside(edge + 0.07, 0.010) * inside(X - front, 0.010)
        return 0.7 * inside(edge, 0.010) + 0.3 * second * inside(self._spine_x + 0.13 - X, 0.010)

    def _heart(self, large: bool, deep: bool) -> np.ndarray:
        patient = self._patient
        width = patient.heart * (0.80 if large else 0.50 if deep else 0.60)
        low = patient.base - (0.24 if large else 0.18) + (0.10 if deep else 0.0)
        return ellipse(-0.46 + width, low, width, 0.37 if large else 0.28, 0.018, turn=0.35)

    def _upper(self) -> np.ndarray:
        """Shoulders and arms, windpipe and the aortic arch."""
        arms = 0.16 * inside(-0.62 - Y, 0.06) * (self._body > 0.3)
        windpipe = strokes([curve((-0.02, -1.0), (0.04, -0.6), (0.11, -0.20), steps=8)], 8)
        arch = strokes([curve((-0.12, -0.22), (0.02, -0.40), (0.22, -0.36), (0.36, -0.10), (0.40, 0.3))], 11)
        return arms - 0.12 * windpipe + 0.05 * arch

    def _abdomen(self, deep: bool) -> np.ndarray:
        floor = self._diaphragm(deep)
        bubble = ellipse(-0.02, self._patient.base + (0.33 if deep else 0.20), 0.15, self._patient.gas * 0.7, 0.02)
        belly = inside(np.minimum(X + 0.55, self._spine_x + 0.13 - X), 0.03)
        return 0.10 * inside(Y - floor - 0.05, 0.05) * belly - 0.22 * bubble

    def _rib(self, rib: int, shift: float) -> np.ndarray:
        start = self._patient.ribs + 0.10 + 0.145 * rib + shift
        x = np.linspace(0.62, -0.38, 14)
        along = (0.62 - x) / 1.0
        return np.stack([x, start + 0.34 * along**1.25], axis=1)

    def _fluid(self, finding: PhantomFinding) -> np.ndarray:
        """Fluid in the posterior gutter, with a meniscus that climbs the back wall."""
        height = _EFFUSION_HEIGHT[finding.size] * (1 + 0.12 * finding.jitter[0])
        floor = self._patient.base + (0.30 if finding.side == "right" else 0.34)
        backward = np.clip((X + 0.3) / 1.0, 0, 1)
        return inside(Y - (floor - height + 0.08 - 0.20 * backward**3), 0.02)

    def _free_air(self, finding: PhantomFinding) -> np.ndarray:
        """A dark band behind the breastbone and under the apex, with the line of the visceral pleura."""
        gap = {"small": 0.08, "moderate": 0.13, "large": 0.20}[finding.size] * (1 + 0.12 * finding.jitter[0])
        depth = np.minimum(X - self._front(Y), 0.8 * (Y - self._top))
        above = inside(self._patient.base - 0.45 - Y, 0.05)
        return above * (0.16 * np.exp(-(((depth - gap) / 0.012) ** 2)) - 0.08 * inside(gap - depth, 0.008))

    def _density_in_lobe(self, finding: PhantomFinding, deep: bool) -> np.ndarray:
        patient = self._patient
        x, down = _LOBES[finding.side, finding.location]
        base = patient.base + (0.05 if finding.side == "left" else 0.0) + (0.17 if deep else 0.0)
        x += 0.05 * finding.jitter[2]
        y = patient.apex + down * (base - patient.apex) + 0.05 * finding.jitter[1]
        if finding.kind == "nodule":
            radius = 0.068 + 0.012 * finding.jitter[2]
            return 0.30 * ellipse(x, y, radius, radius, 0.010)
        radius = 0.19 + 0.03 * finding.jitter[2]
        return 0.30 * ellipse(x, y, radius, 0.85 * radius, 0.035, turn=-0.5) * texture(finding)

    def _device(self, finding: PhantomFinding) -> np.ndarray:
        nudge, low = 0.02 * finding.jitter[0], self._patient.base
        tip = -0.02 + 0.08 * finding.jitter[1]
        if finding.kind == "endotracheal tube":
            line = curve((-0.02, -1.02), (0.03, -0.65), (0.08, -0.36 + 0.04 * finding.jitter[1]))
            return 0.34 * strokes([line], 5) - 0.16 * strokes([line], 2)
        if finding.kind == "nasogastric tube":
            line = curve((0.04, -1.02), (0.17, -0.3), (0.20, low - 0.15), (0.10, low + 0.14), (-0.08, low + 0.26))
            return 0.34 * strokes([line], 3)
        if finding.kind == "central venous catheter":
            top = -0.10 if finding.side == "right" else -0.22
            return 0.32 * strokes([curve((top, -1.02), (top + 0.02 + nudge, -0.60), (-0.02, tip))], 2.6)
        generator = ellipse(-0.40 + nudge, -0.62 + 0.04 * finding.jitter[1], 0.05, 0.11, 0.012, turn=0.35)
        leads = [
            curve((-0.38, -0.70), (-0.16, -0.62), (-0.02, -0.30), (-0.06, low - 0.24)),
            curve((-0.38, -0.68), (-0.14, -0.58), (0.0, -0.25), (-0.06, low - 0.06), (-0.34, low - 0.04)),
        ]
        return 0.55 * generator + 0.34 * strokes(leads, 2.4)
