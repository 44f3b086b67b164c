"""The training objective of the retriever: matching, then three named terms (RA-RRG Eq. 3 and 7)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rarrg.config import LossConfig
from rarrg.losses.contrastive import soft_contrastive_loss
from rarrg.losses.gathering import Shared, gather_pairs
from rarrg.losses.matching import Matches, match
from rarrg.losses.selection import distribution_balanced_loss, initial_bias


class Criterion(nn.Module):
    """Match queries to the key phrases of their image and score selection, similarity and contrast of the outcome.

    Has no parameters. The terms are:

    - ``selection``: distribution-balanced loss of every query, positive where a phrase was matched to it;
    - ``similarity``: 1 - cosine of every matched pair;
    - ``contrastive``: soft contrastive loss over all matched pairs of the batch, always its mean over pairs.

    ``config.reduction`` says how the first two become scalars:

    - ``sum``: summed over queries and images, Eq. 3 and 7 as printed. Beside a mean contrastive term of weight 0.1
      this leaves the contrast a few ten-thousandths of the objective, and the value grows with the batch.
    - ``batch_mean``: that sum divided by the number of images.
    - ``mean``: selection averaged over all queries, similarity over the matched pairs.

    Args:
        config: Options and weights.
        queries: Number of queries an image, the total class size of the selection loss.
        positives: Mean number of key phrases an image, the positive class size. This argument is used in place of
            ``config.positives``, which may be null until the training set is counted.
        findings: Queries that stand for a finding, bool ``[queries]``; the selection loss of the others is weighed by
            ``config.background``, and the weights have mean 1. None: queries stand for nothing, and weigh alike.

    Inputs:
        +----------------------+-----------------------------+----------------------------------+-------------+
        | logits               | embeddings                  | phrases                          | counts      |
        +======================+=============================+==================================+=============+
        | ``[batch, queries]`` | ``[batch, queries, dim]``,  | ``[batch, phrases, dim]``, unit, | ``[batch]`` |
        |                      | unit                        | padded, with noise in training   |             |
        +----------------------+-----------------------------+----------------------------------+-------------+

    Relations:
        - ``sum`` with weights 1, 1 and lambda is Eq. 7 of the paper.
        - Intermediate decoder layers are not scored (no auxiliary losses as in DETR).

    References:
        RA-RRG, Eq. 1-7, https://arxiv.org/abs/2504.07415.

    Raises:
        RarrgError: ``positives`` is not between 0 and ``queries``.
    """

    query_weights: Tensor

    def __init__(self, config: LossConfig, queries: int, positives: float, findings: Tensor | None = None) -> None:
        super().__init__()
        initial_bias(positives, queries)  # refuses class sizes that have no bias before anything is trained
        self.config = config
        self.queries = queries
        self.positives = positives
        weights = torch.ones(queries)
        if findings is not None and findings.any():
            weights = torch.where(findings, 1.0, config.background)
        self.register_buffer("query_weights", weights / weights.mean(), persistent=False)
        self.weights = {
            "selection": config.selection,
            "similarity": config.similarity,
            "contrastive": config.contrastive,
        }

    def forward(
        self,
        logits: Tensor,
        embeddings: Tensor,
        phrases: Tensor,
        counts: Tensor,
        groups: Tensor | None = None,
        shared: bool = False,
    ) -> tuple[dict[str, Tensor], Matches]:
        """Compute the unweighted terms of a batch.

        Waits for the device once, in the matching; a shared batch also waits for the sizes of the other parts.

        Args:
            logits: Selection logits ``[batch, queries]``.
            embeddings: Semantic embeddings, unit length, ``[batch, queries, dim]``.
            phrases: Text embeddings, unit length, padded, ``[batch, phrases, dim]``.
            counts: Number of real phrases of each image, int64 ``[batch]``.
            groups: Query that each phrase may be matched to, int64 ``[batch, phrases]``; None: any.
            shared: This is one part of a batch of which every process of ``torch.distributed`` has another. Terms, and
                the gradients to the own part, are then such that their means over the processes are those of the whole
                batch in one process.

        Returns:
            Scalars ``selection``, ``similarity`` and ``contrastive``, float32, all connected to the graph even where
            nothing was matched; and the matched pairs.

        Raises:
            ValueError: Another number of queries than announced, or a count that ``phrases`` cannot hold.
            RarrgError: Logits or embeddings hold NaN or infinity.
        """
        if logits.shape[1] != self.queries:
            raise ValueError(f"expected logits of {self.queries} queries, got {logits.shape[1]}")
        matches = match(logits, embeddings, phrases, counts, self.config.match_probability, groups)
        labels = torch.zeros_like(logits, dtype=torch.bool)
        labels[matches.image, matches.query] = True
        text = phrases[matches.image, matches.phrase].float()
        semantic = embeddings[matches.image, matches.query].float()

        selection = distribution_balanced_loss(logits, labels, self.positives, self.queries) * self.query_weights
        similarity = 1 - (text * semantic).sum(dim=1)
        whole = gather_pairs(text, semantic, len(logits)) if shared else Shared(text, semantic, len(logits), 1)
        contrastive = soft_contrastive_loss(
            whole.text, whole.semantic, self.config.temperature, self.config.target_temperature, self.config.targets
        )
        selection_size, similarity_size = {
            "mean": (whole.images * self.queries, max(len(whole.text), 1)),
            "batch_mean": (whole.images, whole.images),
            "sum": (1, 1),
        }[self.config.reduction]
        terms = {
            "selection": selection.sum() / (selection_size / whole.processes),
            "similarity": similarity.sum() / (similarity_size / whole.processes),
            "contrastive": contrastive,
        }
        return terms, matches

    def total(self, terms: dict[str, Tensor]) -> Tensor:
        """The objective: the weighted sum of the terms. The one place where weights are applied."""
        return torch.stack([weight * terms[name] for name, weight in self.weights.items()]).sum()
