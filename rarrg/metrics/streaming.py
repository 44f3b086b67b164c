"""The measures of reports as torchmetrics, for loops that see reports batch by batch and on several devices.

The state is the sum of the reports' terms, so any split of the reports over batches and devices gives the same values.
The one module of this folder that needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from rarrg.metrics.chexbert import chexbert_measures
from rarrg.metrics.comparison_terms import comparison_measures
from rarrg.metrics.finding_terms import OBSERVATIONS
from rarrg.metrics.measured import Measured
from rarrg.metrics.nlg import nlg_measures, tokenise
from rarrg.metrics.radgraph_f1 import Annotation, radgraph_measures


class ReportMetric(Metric):
    """Measures that are functions of sums over reports; its kinds are below.

    Args:
        nothing: The measures of no reports.

    Attributes:
        sums: Sums of the terms of the reports seen, float64.
        missing: Number of reports seen that could not be measured.
    """

    full_state_update = False
    sums: Tensor
    missing: Tensor

    def __init__(self, nothing: Measured) -> None:
        super().__init__()
        self._statistics = nothing.statistics
        self.add_state("sums", torch.zeros(nothing.terms.shape[1], dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("missing", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def _add(self, measured: Measured) -> None:
        self.sums += torch.from_numpy(measured.terms[measured.present].sum(axis=0)).to(self.sums)
        self.missing += int((~measured.present).sum())

    def compute(self) -> dict[str, Tensor]:
        """Each measure over the reports seen, float64 scalars by name."""
        sums = self.sums.cpu().numpy()
        return {name: torch.as_tensor(float(of(sums)), dtype=torch.float64) for name, of in self._statistics.items()}


class NlgMetric(ReportMetric):
    """BLEU-1 to BLEU-4 and ROUGE-L, as :func:`rarrg.metrics.nlg.nlg_measures`."""

    def __init__(self) -> None:
        super().__init__(nlg_measures([], []))

    def update(self, references: Sequence[str], hypotheses: Sequence[str]) -> None:
        """Take in reports and their references, as they were written."""
        self._add(nlg_measures([tokenise(text) for text in references], [tokenise(text) for text in hypotheses]))


class ComparisonTermsMetric(ReportMetric):
    """Comparison terms, as :func:`rarrg.metrics.comparison_terms.comparison_measures`."""

    def __init__(self) -> None:
        super().__init__(comparison_measures([]))

    def update(self, hypotheses: Sequence[str]) -> None:
        """Take in generated reports."""
        self._add(comparison_measures(hypotheses))


class CheXbertMetric(ReportMetric):
    """CheXbert's figures, as :func:`rarrg.metrics.chexbert.chexbert_measures`.

    Args:
        uncertain: Take uncertain for positive.
    """

    def __init__(self, uncertain: bool = False) -> None:
        nothing = np.zeros((0, len(OBSERVATIONS)), dtype=np.int64)
        super().__init__(chexbert_measures(nothing, nothing, uncertain))
        self._uncertain = uncertain

    def update(self, references: np.ndarray, hypotheses: np.ndarray) -> None:
        """Take in CheXbert's classes of references and reports, integers ``[reports, 14]`` each."""
        self._add(chexbert_measures(references, hypotheses, self._uncertain))


class RadGraphMetric(ReportMetric):
    """RadGraph F1, as :func:`rarrg.metrics.radgraph_f1.radgraph_measures`; ``missing`` counts reports left out."""

    def __init__(self) -> None:
        super().__init__(radgraph_measures([], []))

    def update(self, references: Sequence[Annotation | None], hypotheses: Sequence[Annotation | None]) -> None:
        """Take in annotations of references and reports; None for a text that has none."""
        self._add(radgraph_measures(references, hypotheses))
