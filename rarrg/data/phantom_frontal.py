"""The frontal phantom view. The patient faces the viewer: the patient's left is on the image's right."""

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

SIGN: dict[Side, int] = {"right": -1, "left": 1}
_EFFUSION_HEIGHT = {"small": 0.17, "moderate": 0.42, "large": 0.80}
_LOBES = {  # distance from the midline over the chest's half width, height over that of the lung
    ("right", "upper lobe"): (0.52, 0.30),
    ("right", "middle lobe"): (0.48, 0.66),
    ("right", "lower lobe"): (0.66, 0.92),
    ("left", "upper lobe"): (0.55, 0.32),
    ("left", "lower lobe"): (0.80, 0.84),
}


class Frontal:
    """Draws the frontal view of a patient.

    Args:
        patient: Whom to draw.
    """

    def __init__(self, patient: Patient) -> None:
        self._patient = patient
        rng = np.random.default_rng([patient.seed, 10])
        middle = patient.midline
        posterior = [self._posterior_rib(side, rib) for side in SIGN for rib in range(9)]
        anterior = [self._anterior_rib(side, rib) for side in SIGN for rib in range(6)]
        clavicles = [
            curve((middle + sign * 0.09, -0.60), (middle + sign * 0.40, -0.68), (middle + sign * 0.82, -0.80))
            for sign in SIGN.values()
        ]
        blades = sum(
            strokes([curve((middle + s * 0.70, -0.72), (middle + s * 0.66, -0.40), (middle + s * 0.80, -0.05))], 4)
            for s in SIGN.values()
        )
        self._bones = patient.bone * (tubes(posterior, 8) + 0.6 * tubes(anterior, 9) + 1.1 * tubes(clavicles, 9))
        self._bones += 0.4 * patient.bone * blades
        lines = [line for s in SIGN.values() for line in vessels(rng, middle + s * 0.17, -0.06, s)]
        hila = sum(ellipse(middle + s * 0.20, -0.07, 0.07, 0.13, 0.05) for s in SIGN.values())
        nearness = np.exp(-(((np.abs(X - middle) - 0.2) ** 2 + (Y + 0.06) ** 2) / 0.13))
        self._vessels = nearness * (0.13 * strokes(lines, 1.6) + 0.13 * strokes(lines[::4], 2.6)) + 0.16 * hila
        torso = 0.90 + 0.06 * Y + patient.fat
        shoulder = torso * inside(Y + 0.86, 0.05) + 0.24 + patient.fat
        self._body = inside(np.minimum(torso, shoulder) - np.abs(X - middle), 0.02) * (0.60 + 0.6 * patient.fat)
        self._spine = 0.10 * inside(0.095 - np.abs(X - middle), 0.012) * (0.85 + 0.15 * np.cos(2 * np.pi * Y / 0.155))

    def density(self, findings: Sequence[PhantomFinding]) -> np.ndarray:
        """Density of the view with these findings, float32 ``[SIZE, SIZE]``."""
        kinds = {finding.kind for finding in findings}
        deep = "hyperinflation" in kinds
        heart = self._heart("cardiomegaly" in kinds, deep)
        lungs = {side: self._lung(side, deep) for side in SIGN}
        marks = {side: np.ones_like(X) for side in SIGN}  # how much of the vessels is left
        extra = np.zeros_like(X)
        for finding in findings:
            if finding.kind == "pleural effusion":
                fluid = lungs[finding.side] * self._fluid(finding)
                extra += 0.42 * fluid * (1 - 0.75 * heart)
            elif finding.kind == "pneumothorax":
                air, line = self._free_air(finding)
                marks[finding.side] *= 1 - air
                extra += lungs[finding.side] * (1 - heart) * (0.20 * line - 0.11 * air)
            elif finding.kind in ("nodule", "opacity"):
                extra += lungs[finding.side] * self._density_in_lobe(finding, deep)
            elif finding.kind == "rib fracture":
                extra += self._fracture(finding)
            elif finding.kind not in ("cardiomegaly", "hyperinflation"):
                extra += self._device(finding)
        air = lungs["left"] + lungs["right"]
        density = self._body - air * (0.50 if deep else 0.46) * (1 - 0.88 * heart)
        density += 0.12 * heart + self._mediastinum() + self._abdomen(deep) + self._spine
        kept = lungs["left"] * marks["left"] + lungs["right"] * marks["right"]
        return density + self._bones * self._body + self._vessels * kept * (1 - 0.7 * heart) + extra

    def heart(self, findings: Sequence[PhantomFinding]) -> np.ndarray:
        """Where the heart lies, bool ``[SIZE, SIZE]``."""
        kinds = {finding.kind for finding in findings}
        return self._heart("cardiomegaly" in kinds, "hyperinflation" in kinds) > 0.5

    def lungs(self, findings: Sequence[PhantomFinding]) -> dict[Side, np.ndarray]:
        """Where each lung lies, bool ``[SIZE, SIZE]``."""
        deep = any(finding.kind == "hyperinflation" for finding in findings)
        return {side: self._lung(side, deep) > 0.5 for side in SIGN}

    def _across(self, side: Side) -> np.ndarray:
        return SIGN[side] * (X - self._patient.midline)

    def _dome(self, side: Side, deep: bool) -> float:
        return self._patient.base + (0.05 if side == "left" else 0.0) + (0.17 if deep else 0.0)

    def _wall(self, y: np.ndarray | float) -> np.ndarray | float:
        """Inner chest wall: distance from the midline at a height."""
        patient = self._patient
        rise = np.clip((np.asarray(y) - patient.apex) / (0.75 * (patient.base - patient.apex)), 0, 1)
        return patient.width * (0.30 + 0.70 * np.sqrt(1 - (1 - rise) ** 2))

    def _lung(self, side: Side, deep: bool) -> np.ndarray:
        across, patient = self._across(side), self._patient
        bend = 0.07 if deep else 0.20
        diaphragm = self._dome(side, deep) + bend * ((across - 0.42 * patient.width) / (0.55 * patient.width)) ** 2
        edge = np.minimum.reduce([across - 0.15, self._wall(Y) - across, diaphragm - Y, Y - patient.apex])
        return inside(edge, 0.010)

    def _heart(self, large: bool, deep: bool) -> np.ndarray:
        patient = self._patient
        ratio = patient.heart * (1.42 if large else 0.85 if deep else 1.0)
        height = (0.38 if large else 0.33) * (1.08 if deep else 1.0)
        low = patient.base - (0.20 if large else 0.18) + (0.10 if deep else 0.0)
        return ellipse(patient.midline + 0.30 * ratio, low, ratio * patient.width, height, 0.014, turn=0.30)

    def _mediastinum(self) -> np.ndarray:
        patient = self._patient
        middle = patient.midline
        knob = ellipse(middle + 0.13, -0.36, patient.aorta, patient.aorta * 1.1, 0.012)
        strip = inside(0.16 - np.abs(X - middle), 0.02) * inside(0.25 - Y, 0.08) * inside(Y + 0.78, 0.05)
        windpipe = strokes([curve((middle, -1.0), (middle - 0.01, -0.6), (middle, -0.24), steps=8)], 8)
        bronchi = strokes(
            [
                np.array([(middle, -0.24), (middle - 0.13, -0.10)]),
                np.array([(middle, -0.24), (middle + 0.15, -0.08)]),
            ],
            5,
        )
        return 0.20 * knob + 0.08 * strip - 0.13 * windpipe - 0.07 * bronchi

    def _abdomen(self, deep: bool) -> np.ndarray:
        patient, low = self._patient, self._dome("left", deep)
        liver = 0.10 * inside(Y - low - 0.10, 0.06) * inside(patient.width - np.abs(X - patient.midline), 0.03)
        bubble = ellipse(patient.midline + 0.40, low + 0.20, patient.gas * 1.5, patient.gas * 0.8, 0.02)
        return liver - 0.26 * bubble

    def _posterior_rib(self, side: Side, rib: int) -> np.ndarray:
        height = self._patient.ribs + 0.155 * rib
        turn = np.linspace(0, np.pi / 2, 16)
        end = float(self._wall(height + 0.12)) + 0.02
        across = 0.10 + (end - 0.10) * np.sin(turn)
        down = height - 0.05 * np.sin(2 * turn) + (0.16 + 0.01 * rib) * (1 - np.cos(turn))
        return np.stack([self._patient.midline + SIGN[side] * across, down], axis=1)

    def _anterior_rib(self, side: Side, rib: int) -> np.ndarray:
        start = self._posterior_rib(side, rib)[-1]
        end = abs(start[0] - self._patient.midline)
        turn = np.linspace(0, np.pi / 2, 16)
        across = end - (end - 0.34) * (1 - np.cos(turn))
        return np.stack([self._patient.midline + SIGN[side] * across, start[1] + 0.22 * np.sin(turn)], axis=1)

    def _fluid(self, finding: PhantomFinding) -> np.ndarray:
        """Fluid with a meniscus that climbs the chest wall."""
        patient = self._patient
        outward = np.clip(self._across(finding.side) / patient.width, 0, 1)
        height = _EFFUSION_HEIGHT[finding.size] * (1 + 0.12 * finding.jitter[0])
        floor = self._dome(finding.side, False) + 0.22
        return inside(Y - (floor - height + 0.06 - 0.16 * outward**4), 0.02)

    def _free_air(self, finding: PhantomFinding) -> tuple[np.ndarray, np.ndarray]:
        """Air between the chest wall and the lung, and the thin line of the visceral pleura."""
        patient = self._patient
        gap = {"small": 0.12, "moderate": 0.20, "large": 0.34}[finding.size] * (1 + 0.12 * finding.jitter[0])
        depth = np.minimum(self._wall(Y) - self._across(finding.side), 0.8 * (Y - patient.apex))
        end = patient.base + (0.20 if finding.size == "large" else -0.25) + 0.08 * finding.jitter[1]
        above = inside(end - Y, 0.05)
        return inside(gap - depth, 0.008) * above, np.exp(-(((depth - gap) / 0.012) ** 2)) * above

    def _density_in_lobe(self, finding: PhantomFinding, deep: bool) -> np.ndarray:
        patient = self._patient
        outward, down = _LOBES[finding.side, finding.location]
        x = patient.midline + SIGN[finding.side] * (outward * patient.width + 0.05 * finding.jitter[0])
        y = patient.apex + down * (self._dome(finding.side, deep) - patient.apex) + 0.05 * finding.jitter[1]
        if finding.kind == "nodule":
            radius = 0.068 + 0.012 * finding.jitter[2]
            return 0.34 * ellipse(x, y, radius, radius, 0.010)
        radius = 0.19 + 0.03 * finding.jitter[2]
        return 0.34 * ellipse(x, y, radius, 0.85 * radius, 0.035, turn=finding.jitter[0]) * texture(finding)

    def _fracture(self, finding: PhantomFinding) -> np.ndarray:
        """A gap across a posterior rib and the outer fragment, displaced downwards."""
        line = self._posterior_rib(finding.side, 3 + round(1.5 * (1 + finding.jitter[0])))
        start = 8 + round(finding.jitter[1])
        outer = line[start : start + 5]
        inner = line[start - 3 : start]
        bone = self._patient.bone
        moved = outer + np.array([0.0, 0.07])
        return bone * (2.4 * strokes([moved], 7) + 1.2 * strokes([inner], 7) - strokes([outer], 8))

    def _device(self, finding: PhantomFinding) -> np.ndarray:
        middle, nudge = self._patient.midline, 0.02 * finding.jitter[0]
        tip = -0.02 + 0.08 * finding.jitter[1]
        if finding.kind == "endotracheal tube":
            line = curve((middle + nudge, -1.02), (middle, -0.7), (middle, -0.36 + 0.04 * finding.jitter[1]))
            return 0.34 * strokes([line], 5) - 0.16 * strokes([line], 2)
        if finding.kind == "nasogastric tube":
            low = self._patient.base
            return 0.34 * strokes(
                [curve((middle, -1.02), (middle + 0.03, -0.2), (middle + 0.05, low - 0.1),
                       (middle + 0.16, low + 0.18), (middle + 0.40, low + 0.26 + nudge))], 3)  # fmt: skip
        if finding.kind == "central venous catheter":
            cava = middle - 0.13
            if finding.side == "right":
                line = curve((middle - 0.36, -1.02), (middle - 0.22 + nudge, -0.72), (cava, -0.45), (cava + 0.01, tip))
            else:
                line = curve((middle + 0.46, -1.02), (middle + 0.28 + nudge, -0.70), (middle + 0.05, -0.52),
                             (cava + 0.01, -0.36), (cava, tip))  # fmt: skip
            return 0.32 * strokes([line], 2.6)
        sign = SIGN[finding.side]
        x, y = middle + sign * (0.58 + nudge), -0.50 + 0.04 * finding.jitter[1]
        box = inside(1 - (((X - x) / 0.125) ** 4 + ((Y - y) / 0.10) ** 4), 0.08)
        low = self._patient.base
        leads = [
            curve((x - sign * 0.05, y - 0.08), (middle + sign * 0.22, -0.60), (middle - 0.10, -0.36),
                  (middle - 0.15, 0.05), (middle - 0.10, low - 0.22)),
            curve((x - sign * 0.05, y - 0.06), (middle + sign * 0.20, -0.56), (middle - 0.08, -0.30),
                  (middle - 0.08, 0.10), (middle + 0.08, low - 0.04), (middle + 0.28, low - 0.08)),
        ]  # fmt: skip
        return 0.55 * box + 0.34 * strokes(leads, 2.4)
