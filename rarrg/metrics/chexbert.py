"""What CheXbert's labels of generated reports are worth against those of the references.

CheXbert (Smit et al., 2020) gives each of the 14 ``OBSERVATIONS`` a class. The paper takes what is not positive for
negative (section 4.2), as PromptMRG (``modules/metrics_clinical.py``) and M4CXR do; the packages ``f1chexbert`` and
``radeval`` take uncertain for positive. Figures of the two readings cannot be compared, so each has its own names.
"""

from __future__ import annotations

import numpy as np

from rarrg.metrics.classification import LabelScore, label_measures, per_label
from rarrg.metrics.finding_terms import OBSERVATIONS
from rarrg.metrics.measured import Measured

BLANK, POSITIVE, NEGATIVE, UNCERTAIN = range(4)
"""CheXbert's classes; No Finding has the first two alone."""


def positive(classes: np.ndarray, uncertain: bool = False) -> np.ndarray:
    """Which observations are there.

    Args:
        classes: CheXbert's classes, integers ``[reports, 14]`` in the order of ``OBSERVATIONS``.
        uncertain: Take uncertain for positive; otherwise it is as negative.

    Returns:
        Booleans ``[reports, 14]``.

    Raises:
        ValueError: The shape is another, or a value is no class.
    """
    classes = np.asarray(classes)
    if classes.ndim != 2 or classes.shape[1] != len(OBSERVATIONS) or not np.issubdtype(classes.dtype, np.integer):
        raise ValueError(f"classes must be integers [reports, 14], got {classes.dtype} {classes.shape}")
    if not ((classes >= BLANK) & (classes <= UNCERTAIN)).all() or (classes[:, -1] > POSITIVE).any():
        raise ValueError("classes must lie between 0 and 3, those of No Finding between 0 and 1")
    return np.isin(classes, (POSITIVE, UNCERTAIN) if uncertain else POSITIVE)


def chexbert_measures(references: np.ndarray, hypotheses: np.ndarray, uncertain: bool = False) -> Measured:
    """Micro-, macro- and example-averaged precision, recall and F1 over the 14 observations, and micro specificity.

    F1 of an observation is TP / (TP + (FP + FN) / 2), macro-F1 the mean of the 14; the example-averaged figures are
    means over reports. Every 0/0 is 0, so a report with no observation on either side scores 0 (Nicolson et al., 2023).

    Args:
        references: Classes of the references, integers ``[reports, 14]``.
        hypotheses: Classes of the generated reports, likewise.
        uncertain: Take uncertain for positive.

    Returns:
        Measures whose names begin with ``chexbert_``, or with ``chexbert_uncertain_`` for that reading.

    Raises:
        ValueError: The shapes differ or are others, or a value is no class.
    """
    prefix = "chexbert_uncertain_" if uncertain else "chexbert_"
    return label_measures(positive(references, uncertain), positive(hypotheses, uncertain), prefix)


def chexbert_labels(references: np.ndarray, hypotheses: np.ndarray) -> list[LabelScore]:
    """Scores of each observation, positive alone counting (paper, Table 9).

    Args:
        references: Classes of the references, integers ``[reports, 14]``.
        hypotheses: Classes of the generated reports, likewise.

    Raises:
        ValueError: As in :func:`chexbert_measures`.
    """
    return per_label(positive(references), positive(hypotheses), OBSERVATIONS)
