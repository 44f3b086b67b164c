"""What training looks like as DETR and TranSQ write it, for ``benchmarks/training.py`` to compare with.

Every step reads and resizes the original files, runs the frozen image encoders and the sentence encoder, makes the cost
of every query of the batch with every phrase of the batch (DETR's HungarianMatcher), pads each image's assignment to
queries x queries with empty phrases (the paper's Eq. 1), and takes the contrastive loss as the OpenAI-CLIP
re-implementation by M. Shariatnia writes it. Cross-attention is torch's, which projects every token. The rest of the
decoder, heads and selection loss are rarrg's, and so are the seams between the two: what differs is the recipe alone.
Text gets no noise, so that losses can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter

import torch
from PIL import Image
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from rarrg.config import LossConfig
from rarrg.data.studies import Example
from rarrg.losses.selection import distribution_balanced_loss
from rarrg.models.cross_attention import CrossAttention
from rarrg.models.retriever import PhraseRetriever
from rarrg.models.text import TextEncoder
from rarrg.models.vision import FusedEncoder


class Clock:
    """Seconds of the parts of steps, one after another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is within."""
        start = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    @property
    def total(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values())


class Originals(Dataset[tuple[list[Tensor], list[str]]]):
    """Decode, resize and normalise a file each time it is asked for."""

    def __init__(self, examples: Sequence[Example], encoder: FusedEncoder) -> None:
        self.examples = examples
        self.transforms = [
            transforms.Compose(
                [
                    transforms.Resize((each.size, each.size), transforms.InterpolationMode(each.interpolation)),
                    transforms.ToTensor(),
                    transforms.Normalize(each.mean, each.std),
                ]
            )
            for each in encoder.preprocessing
        ]

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> tuple[list[Tensor], list[str]]:
        example = self.examples[index]
        image = Image.open(example.view.path).convert("RGB")
        return [transform(image) for transform in self.transforms], list(example.phrases)


def collate(items: Sequence[tuple[list[Tensor], list[str]]]) -> tuple[list[Tensor], list[list[str]]]:
    """Images of each encoder, and phrases of each image."""
    images, phrases = zip(*items, strict=True)
    return [torch.stack(tensors) for tensors in zip(*images, strict=True)], list(phrases)


@torch.no_grad()
def hungarian(
    logits: Tensor, embeddings: Tensor, texts: Sequence[Tensor], weight: float
) -> list[tuple[Tensor, Tensor]]:
    """Queries and phrases of each image's pairs: DETR's matcher, assignments padded to a square."""
    batch, queries = logits.shape
    probabilities = logits.flatten().sigmoid()[:, None]
    cost = -weight * probabilities - embeddings.flatten(0, 1) @ torch.cat(list(texts)).T
    per_image = cost.view(batch, queries, -1).cpu().split([len(text) for text in texts], dim=-1)
    pairs = []
    for image, block in enumerate(per_image):
        square = torch.zeros(queries, queries)
        square[:, : block.shape[-1]] = block[image]
        query, phrase = map(torch.as_tensor, linear_sum_assignment(square))
        real = phrase < block.shape[-1]
        pairs.append((query[real], phrase[real]))
    return pairs


def objective(
    logits: Tensor, embeddings: Tensor, texts: Sequence[Tensor], config: LossConfig, positives: float
) -> Tensor:
    """Selection, similarity and contrastive loss, weighted (``reduction: mean``, targets from both modalities)."""
    labels = torch.zeros_like(logits)
    text, semantic = [], []
    for image, (query, phrase) in enumerate(hungarian(logits, embeddings, texts, config.match_probability)):
        labels[image, query] = 1
        text.append(texts[image][phrase])
        semantic.append(embeddings[image, query])
    v, w = torch.cat(text), torch.cat(semantic)
    selection = distribution_balanced_loss(logits, labels, positives, logits.shape[1]).mean()
    similarity = torch.nn.functional.cosine_embedding_loss(v, w, torch.ones(len(v)))
    z = v @ w.T / config.temperature
    q = ((v @ v.T + w @ w.T) / 2 / config.target_temperature).softmax(dim=-1)
    of_text = -(q * z.log_softmax(dim=-1)).sum(1)
    of_images = -(q.T * z.T.log_softmax(dim=-1)).sum(1)
    contrastive = ((of_text + of_images) / 2).mean()
    return config.selection * selection + config.similarity * similarity + config.contrastive * contrastive


def with_plain_attention(retriever: PhraseRetriever) -> PhraseRetriever:
    """Let a retriever attend as torch's layer does, with the same weights."""
    for module in retriever.modules():
        if isinstance(module, CrossAttention):
            module.attend = partial(_plain, module)  # type: ignore[method-assign]
    return retriever


def _plain(
    attention: CrossAttention, queries: Tensor, keys: Tensor, values: Tensor, need_weights: bool = False
) -> tuple[Tensor, Tensor | None]:
    return attention(queries, keys, values, need_weights=need_weights)


def reference_epoch(
    examples: Sequence[Example],
    encoder: FusedEncoder,
    text: TextEncoder,
    retriever: PhraseRetriever,
    optimizer: torch.optim.Optimizer,
    config: LossConfig,
    positives: float,
    batch_size: int,
    bfloat16: bool = False,
) -> tuple[Clock, list[float]]:
    """One epoch in order; with ``bfloat16`` networks run under torch's autocast.

    Returns:
        Seconds of its parts, and the loss of each step.
    """
    clock = Clock()
    losses: list[float] = []
    batches = iter(DataLoader(Originals(examples, encoder), batch_size, collate_fn=collate))
    while True:
        with clock.part("data"):
            batch = next(batches, None)
        if batch is None:
            return clock, losses
        images, phrases = batch
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            with clock.part("image encoders"):
                features = encoder(images)
            with clock.part("text encoder"):
                texts = [text.encode(each).float() for each in phrases]
            with clock.part("decoder"):
                output = retriever(features)
        outputs = output.logits.float(), output.embeddings.float()
        leaves = [tensor.detach().requires_grad_() for tensor in outputs]
        with clock.part("criterion"):
            loss = objective(*leaves, texts, config, positives)
            gradients = torch.autograd.grad(loss, leaves)
        with clock.part("decoder"):
            torch.autograd.backward(outputs, list(gradients))
        with clock.part("optimiser"):
            torch.nn.utils.clip_grad_norm_(retriever.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
