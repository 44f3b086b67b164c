"""The phrase retriever: projection, DETR decoder and two heads (RA-RRG 3.2.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rarrg.config import RetrieverConfig
from rarrg.errors import RarrgError
from rarrg.models.decoder import Decoder, sine_position
from rarrg.models.linear_reading import LinearReading, pooled
from rarrg.models.model_folder import WEIGHTS, ModelInfo, model_folder, read_model, upload_model, write_model

__all__ = [
    "ModelInfo",
    "PhraseRetriever",
    "RetrieverOutput",
    "model_folder",
    "select_queries",
    "shared_logits",
    "upload_model",
]


class RetrieverOutput(NamedTuple):
    """What the queries say about each image.

    Attributes:
        logits: Selection logits, ``[batch, queries]``; their sigmoid is the selection probability.
        embeddings: Semantic embeddings, ``[batch, queries, text_dim]``, float32, unit length.
        attention: Cross-attention of the last layer averaged over heads, ``[batch, queries, height, width]``, each map
            summing to 1; None unless asked for.
    """

    logits: Tensor
    embeddings: Tensor
    attention: Tensor | None


class _Member(nn.Module):
    """Projection of the channels it reads, decoder and two heads: the retriever of the paper."""

    channels: Tensor

    def __init__(self, channels: Tensor, text_dim: int, config: RetrieverConfig) -> None:
        super().__init__()
        self.register_buffer("channels", channels, persistent=False)
        self.projection = nn.Linear(len(channels), config.dim)
        self.decoder = Decoder(
            config.queries, config.layers, config.dim, config.heads, config.feedforward, config.dropout
        )
        self.selection = nn.Linear(config.dim, 1)
        self.semantic = nn.Sequential(
            nn.Linear(config.dim, config.dim),
            nn.ReLU(),
            nn.Linear(config.dim, config.dim),
            nn.ReLU(),
            nn.Linear(config.dim, text_dim),
        )

    def forward(
        self, tokens: Tensor, position: Tensor | None, need_attention: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Selection logits ``[batch, queries]``, semantic vectors as they leave the head, and attention."""
        decoded, attention = self.decoder(self.projection(self._read(tokens)), position, need_attention)
        # In float32 under autocast too: losses and the store take what becomes of these for unit vectors.
        return self.selection(decoded).squeeze(-1), self.semantic(decoded).float(), attention

    def _read(self, tokens: Tensor) -> Tensor:
        return tokens if len(self.channels) == tokens.shape[-1] else tokens[..., self.channels]


class _Classifier(nn.Module):
    """Half the say in the selection of some queries, by a linear reading of the features."""

    weight: Tensor
    bias: Tensor
    share: Tensor

    def __init__(self, channels: int, queries: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(queries, channels))
        self.register_buffer("bias", torch.zeros(queries))
        self.register_buffer("share", torch.zeros(queries))

    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        """Logits ``[batch, queries]`` of the members, joined with those of the classifier."""
        read = F.linear(pooled(features), self.weight, self.bias)
        return torch.lerp(logits.float(), read.float(), self.share)


def _channels_read(channels: Sequence[int], reads: Sequence[Sequence[int]] | None) -> list[Tensor]:
    """Channels of the fused features that each kind of member reads."""
    places = torch.arange(sum(channels)).split(list(channels))
    if reads is None:
        return [torch.cat(places)]
    last = max(map(max, reads))
    if last >= len(channels):
        raise RarrgError(
            f"retriever.reads: names encoder {last}, but the last of the {len(channels)} is {len(channels) - 1}"
        )
    return [torch.cat([places[encoder] for encoder in part]) for part in reads]


class PhraseRetriever(nn.Module):
    """Image features in; selection logits and semantic embeddings of N queries out.

    With ``config.members`` above 1 it is an ensemble: members of the same kind, each trained on its own from weights of
    its own, whose logits and attention are averaged (Lakshminarayanan et al., Simple and Scalable Predictive
    Uncertainty Estimation using Deep Ensembles, NeurIPS 2017, https://arxiv.org/abs/1612.01474). The semantic embedding
    of a query is that of the member with its largest logit: a mean of embeddings is nearest to an average phrase.

    With ``config.classifier`` the logit of a query that stands for a finding is the mean of the members' and that of a
    classifier of findings, which was trained beforehand and is frozen.

    Args:
        channels: Channels of each encoder in the fused features; C is their sum.
        text_dim: Dimension of the text embeddings.
        config: Sizes of the decoder and how features enter it.

    Raises:
        RarrgError: ``config.dim`` is no multiple of 4 although ``config.position`` is ``sine2d``, or ``config.reads``
            names an encoder that is not there.
    """

    mean: Tensor
    std: Tensor
    anchors: Tensor
    offset: Tensor

    def __init__(self, channels: Sequence[int], text_dim: int, config: RetrieverConfig) -> None:
        super().__init__()
        if config.position == "sine2d" and config.dim % 4:
            raise RarrgError(f"retriever.dim: must be a multiple of 4 for position sine2d, got {config.dim}")
        self.config = config
        self.register_buffer("mean", torch.zeros(sum(channels)))
        self.register_buffer("std", torch.ones(sum(channels)))
        parts = _channels_read(channels, config.reads)
        self.members = nn.ModuleList(
            _Member(parts[index % len(parts)], text_dim, config) for index in range(config.members)
        )
        self.register_buffer("anchors", torch.zeros(config.queries, text_dim))
        self.register_buffer("offset", torch.zeros(config.queries))
        self.classifier = _Classifier(sum(channels), config.queries) if config.classifier else None

    def set_anchors(self, anchors: Tensor) -> None:
        """Let each query look for phrases near its anchor, and predict nothing but the anchor before training.

        Args:
            anchors: Unit vectors, ``[queries, text_dim]``.

        Raises:
            ValueError: ``config.anchors`` is off, or the shape is wrong.
        """
        if not self.config.anchors:
            raise ValueError("retriever.anchors is off: anchors would not be used")
        if anchors.shape != self.anchors.shape:
            raise ValueError(f"expected {tuple(self.anchors.shape)}, got {tuple(anchors.shape)}")
        self.anchors.copy_(anchors)
        for member in self.members:
            assert isinstance(member, _Member)
            last = member.semantic[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def set_classifier(self, reading: LinearReading, finding: Tensor) -> None:
        """Let a classifier of findings join in the selection of the queries that stand for them.

        Args:
            reading: What it reads in the features, a class for each finding.
            finding: The finding that each query stands for, int64 ``[queries]``; -1 where it is none.

        Raises:
            ValueError: ``config.classifier`` is off, or a shape is wrong.
        """
        if self.classifier is None:
            raise ValueError("retriever.classifier is off: a classifier would not be used")
        if reading.weight.shape[1:] != self.mean.shape or finding.shape != self.offset.shape:
            raise ValueError(
                f"expected {len(self.mean)} channels and {len(self.offset)} queries, got "
                f"{tuple(reading.weight.shape[1:])} and {tuple(finding.shape)}"
            )
        stands = finding >= 0
        self.classifier.weight[stands] = reading.weight[finding[stands]]
        self.classifier.bias[stands] = reading.bias[finding[stands]]
        self.classifier.share[stands] = 0.5

    def set_offset(self, offset: Tensor) -> None:
        """Add a constant to each query's selection logit, so that one threshold serves queries of different kinds.

        Args:
            offset: ``[queries]``.
        """
        self.offset.copy_(offset)

    def set_standardisation(self, mean: Tensor, std: Tensor) -> None:
        """Keep the mean and deviation that each feature channel is standardised with.

        Args:
            mean: ``[channels]``.
            std: ``[channels]``; a channel that never varies is only centred.

        Raises:
            ValueError: ``config.standardise`` is off, or a shape is wrong.
        """
        if not self.config.standardise:
            raise ValueError("retriever.standardise is off: mean and deviation would not be used")
        if mean.shape != self.mean.shape or std.shape != self.std.shape:
            raise ValueError(f"expected {tuple(self.mean.shape)}, got {tuple(mean.shape)} and {tuple(std.shape)}")
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > 1e-6, std, torch.ones_like(std)))

    def forward(self, features: Tensor, need_attention: bool = False) -> RetrieverOutput:
        """Decode the queries of each image, and join what the members say.

        Args:
            features: ``[batch, channels, height, width]``.
            need_attention: Also return cross-attention.
        """
        tokens, position = self._tokens(features)
        logits, vectors, maps = zip(*(member(tokens, position, need_attention) for member in self.members), strict=True)
        attention = torch.stack(maps).mean(dim=0).unflatten(-1, features.shape[-2:]) if need_attention else None
        all_logits = torch.stack(logits)
        vector = torch.stack(vectors).take_along_dim(all_logits.argmax(dim=0)[None, ..., None], dim=0)[0]
        joined = all_logits.mean(dim=0)
        if self.classifier is not None:
            joined = self.classifier(features, joined)
        return self._output(joined, vector, attention)

    def each(self, features: Tensor) -> Iterator[RetrieverOutput]:
        """What each member says on its own, as training asks it to.

        Args:
            features: ``[batch, channels, height, width]``.

        Yields:
            A member's output, without attention.
        """
        tokens, position = self._tokens(features)
        for member in self.members:
            logits, vectors, _ = member(tokens, position, False)
            yield self._output(logits, vectors, None)

    def _tokens(self, features: Tensor) -> tuple[Tensor, Tensor | None]:
        height, width = features.shape[-2:]
        tokens = features.flatten(2).transpose(1, 2)
        if self.config.standardise:
            tokens = (tokens - self.mean) / self.std
        position = None
        if self.config.position == "sine2d":
            position = sine_position(height, width, self.config.dim).to(tokens)
        return tokens, position

    def _output(self, logits: Tensor, vectors: Tensor, attention: Tensor | None) -> RetrieverOutput:
        return RetrieverOutput(logits + self.offset, F.normalize(self.anchors + vectors, dim=-1), attention)

    def save_pretrained(self, folder: str | Path, info: ModelInfo) -> None:
        """Write ``model.safetensors``, ``config.yaml``, ``README.md`` and ``manifest.json`` into a folder."""
        write_model(Path(folder), self.state_dict(), info)

    @classmethod
    def from_pretrained(cls, model: str | Path, revision: str | None = None) -> tuple[PhraseRetriever, ModelInfo]:
        """Load a retriever in evaluation mode, on the CPU.

        Args:
            model: A model folder, or ``ORG/NAME`` on the Hugging Face hub.
            revision: Commit, branch or tag on the hub.

        Returns:
            The retriever, and what was saved with it.

        Raises:
            RarrgError: The model cannot be had, a file is missing or changed, or weights and configuration disagree.
        """
        folder = model_folder(model, revision)
        weights, info = read_model(folder)
        try:
            config = RetrieverConfig(**info.retriever)
        except TypeError as error:
            raise RarrgError(f"{folder / 'config.yaml'}, retriever: {error}") from error
        retriever = cls(info.channels, info.text_dim, config)
        expected = {name: tuple(value.shape) for name, value in retriever.state_dict().items()}
        found = {name: tuple(value.shape) for name, value in weights.items()}
        for name in sorted(expected.keys() | found.keys()):
            if expected.get(name) != found.get(name):
                raise RarrgError(
                    f"{folder / WEIGHTS}: {name} has shape {found.get(name, 'missing')}, "
                    f"config.yaml asks for {expected.get(name, 'none')}"
                )
        retriever.load_state_dict(weights)
        return retriever.eval(), info

    def push_to_hub(self, repo_id: str, info: ModelInfo, private: bool = True) -> str:
        """Upload the retriever to the Hugging Face hub, without a phrase store.

        Args:
            repo_id: ``ORG/NAME``; made where it does not exist.
            info: What belongs to it.
            private: Make a new repository private.

        Returns:
            The model's address.

        Raises:
            RarrgError: The hub refuses, as without a login, or the model's encoders were adapted: they lie in its
                folder, which :func:`upload_model` uploads.
        """
        if any("adapted_from" in reference for reference in info.vision):
            raise RarrgError(f"{repo_id}: the model's encoders were adapted; upload its folder, by upload_model")
        with TemporaryDirectory() as parent:
            folder = Path(parent) / repo_id.rpartition("/")[2]
            self.save_pretrained(folder, info)
            return upload_model(folder, repo_id, private)


def select_queries(logits: Tensor, threshold: float) -> Tensor:
    """Queries that retrieve a phrase: probability above the threshold, or the most probable one where none is.

    Args:
        logits: ``[batch, queries]``.
        threshold: Selection probability, in (0, 1).

    Returns:
        bool ``[batch, queries]``, at least one True in each row.
    """
    selected = logits.float().sigmoid() > threshold
    best = F.one_hot(logits.argmax(dim=1), logits.shape[1]).bool()
    return selected | (best & ~selected.any(dim=1, keepdim=True))


def shared_logits(logits: Tensor, studies: Sequence[int]) -> Tensor:
    """Give the images of a study the mean of their selection probabilities, query by query.

    A query that answers for one group of phrases asks the same of every view, so that two views are two readings of it.

    Args:
        logits: ``[images, queries]``.
        studies: Study of each image.

    Returns:
        Logits of the means, float32 ``[images, queries]``.
    """
    _, index = torch.unique(torch.tensor(list(studies), device=logits.device), return_inverse=True)
    probabilities = logits.float().sigmoid()
    sums = torch.zeros(int(index.max()) + 1, logits.shape[1], device=logits.device).index_add_(0, index, probabilities)
    return (sums / torch.bincount(index)[:, None])[index].logit(eps=1e-6)
