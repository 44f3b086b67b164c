"""Distribution-balanced selection loss (RA-RRG section 3.2.2 and appendix D; Wu et al., 2020)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from rarrg.errors import RarrgError

# COCO-MLT settings of Wu et al., which appendix D takes over.
MAP_ALPHA = 0.1
MAP_BETA = 10.0
MAP_GAMMA = 0.2
INIT_BIAS = 0.05  # kappa
NEGATIVE_SCALE = 2.0  # lambda
FOCAL_GAMMA = 2.0
BALANCE = 2.0


def initial_bias(positives: float, total: float) -> float:
    """The class-specific bias nu = ``-ln(total / positives - 1) * kappa / lambda`` that is added to every logit.

    Raises:
        RarrgError: ``positives`` is not between 0 and ``total``.
    """
    if not 0 < positives < total:
        raise RarrgError(f"loss.positives: must be above 0 and below retriever.queries ({total:g}), got {positives:g}")
    return -math.log(total / positives - 1) * INIT_BIAS / NEGATIVE_SCALE


def distribution_balanced_loss(logits: Tensor, labels: Tensor, positives: float = 7.16, total: float = 50) -> Tensor:
    """Focal binary cross-entropy in which the many unselected queries weigh less than the few selected ones.

    The loss of Wu et al. with one class, in which every query is a sample of its own: logits and labels of shape
    ``[batch * queries, 1]``, class sizes ``positives`` and ``total - positives``. With one class the re-balancing
    weight is the same for all positives (their class is the only one they have: r = 1) and for all negatives (they
    have none: r is infinite and its sigmoid 1), which leaves the closed form below. It looks at one query at a time,
    so the shape of the input does not matter and no reshaping is needed::

        z = logit + nu
        positive:  2 * (0.1 + sigmoid(10 * (1 - 0.2)))  * sigmoid(-z)**2     * softplus(-z)
        negative:  2 * (0.1 + 1) / lambda               * sigmoid(lambda z)**2 * softplus(lambda z)

    Args:
        logits: Raw selection logits, any shape; the probability used elsewhere is ``sigmoid(logits)``, without nu.
        labels: 1 or True where the query is matched to a phrase, same shape.
        positives: Mean number of matched queries an image (7.16 key phrases in MIMIC-CXR).
        total: Number of queries an image.

    Inputs:
        +----------------------+--------------------+------------------------------+
        | logits               | labels             | loss                         |
        +======================+====================+==============================+
        | any shape, any float | same shape, 0 or 1 | same shape, at least float32 |
        +----------------------+--------------------+------------------------------+

    Relations:
        - The general loss on ``[batch * queries, 1]`` is this one, number for number.
        - The general loss on ``[batch, queries]`` (as in TranSQ) is another: queries count as classes, and every
          query of an image with m matched ones weighs ``0.1 + sigmoid(10 * (1 / m - 0.2))``, from 1.10 at m = 1 down
          to 0.37 at m = 10, matched or not.
        - With nu = 0, lambda = 1 and both weights 1 it is twice the focal loss with gamma 2.

    References:
        Wu et al., Distribution-Balanced Loss for Multi-Label Classification in Long-Tailed Datasets, ECCV 2020,
        https://arxiv.org/abs/2007.09654. RA-RRG, L_cls of Eq. 3 and appendix D, https://arxiv.org/abs/2504.07415.

    Returns:
        The loss of each query, not reduced.

    Raises:
        RarrgError: ``positives`` is not between 0 and ``total``.
    """
    positive_weight = MAP_ALPHA + 1 / (1 + math.exp(-MAP_BETA * (1 - MAP_GAMMA)))
    negative_weight = (MAP_ALPHA + 1) / NEGATIVE_SCALE
    matched = labels.bool()
    biased = logits.to(torch.promote_types(logits.dtype, torch.float32)) + initial_bias(positives, total)
    error = torch.where(matched, -biased, NEGATIVE_SCALE * biased)  # logit of being wrong
    weight = torch.where(matched, positive_weight, negative_weight)
    return BALANCE * weight * error.sigmoid() ** FOCAL_GAMMA * F.softplus(error)
