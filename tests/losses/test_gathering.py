"""Processes that share a batch learn what one process learns from the whole of it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rarrg.config import LossConfig
from rarrg.losses.criterion import Criterion

QUERIES, PHRASES, DIM = 6, 8, 5
# Number of phrases of each image, process by process: other numbers of images and pairs, none at all in one or both.
COUNTS = {
    "uneven": ([4, 2, 0], [3, 8]),
    "none in the second": ([4, 2, 1], [0]),
    "none in the first": ([0, 0], [3, 1]),
    "none anywhere": ([0, 0], [0]),
}
LOSSES = [
    LossConfig(reduction=reduction, targets=targets, temperature=0.5, contrastive=1.0)
    for reduction, targets in itertools.product(["mean", "batch_mean", "sum"], ["both", "text"])
]


class Net(nn.Module):
    """Logits and unit embeddings of each image, and the loss of them."""

    def __init__(self, config: LossConfig) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.selection = nn.Linear(7, QUERIES)
        self.semantic = nn.Linear(7, QUERIES * DIM)
        self.criterion = Criterion(config, QUERIES, 1.5)

    def forward(self, images: Tensor, phrases: Tensor, counts: Tensor, shared: bool) -> list[Tensor]:
        embeddings = F.normalize(self.semantic(images).unflatten(1, (QUERIES, DIM)), dim=-1)
        terms, _ = self.criterion(self.selection(images), embeddings, phrases, counts, shared=shared)
        return [self.criterion.total(terms), *terms.values()]


def batch(case: str) -> tuple[Tensor, Tensor, Tensor]:
    counts = torch.tensor([count for part in COUNTS[case] for count in part])
    generator = torch.Generator().manual_seed(1)
    phrases = F.normalize(torch.randn(len(counts), PHRASES, DIM, generator=generator), dim=-1)
    return torch.randn(len(counts), 7, generator=generator), phrases, counts


def learned(net: nn.Module, *inputs: Tensor, shared: bool) -> list[Tensor]:
    """Objective, terms and gradients."""
    values = net(*inputs, shared)
    values[0].backward()
    return [value.detach() for value in values] + [parameter.grad for parameter in net.parameters()]


def process(rank: int, folder: str) -> None:
    """One of two processes: its part of each batch."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    found = {}
    for case, parts in COUNTS.items():
        mine = slice(0, len(parts[0])) if rank == 0 else slice(len(parts[0]), None)
        for number, config in enumerate(LOSSES):
            net = DistributedDataParallel(Net(config))
            found[case, number] = learned(net, *(tensor[mine] for tensor in batch(case)), shared=True)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[tuple[str, int], list[Tensor]]]:
    folder: Path = tmp_path_factory.mktemp("gathering")
    mp.spawn(process, (str(folder),), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("number", range(len(LOSSES)))
@pytest.mark.parametrize("case", COUNTS)
def test_two_processes_learn_what_one_learns_from_the_whole_batch(of_two, case: str, number: int) -> None:
    expected = learned(Net(LOSSES[number]), *batch(case), shared=False)
    first, second = (found[case, number] for found in of_two)
    # Means over the processes, which is what is logged of the terms; gradients are means already.
    for whole, one, other in zip(expected, first, second, strict=True):
        torch.testing.assert_close((one + other) / 2, whole, rtol=1e-5, atol=1e-6)
    for one, other in zip(first[4:], second[4:], strict=True):
        assert torch.equal(one, other)


def test_a_part_alone_would_teach_something_else() -> None:
    whole = learned(Net(LOSSES[0]), *batch("uneven"), shared=False)[4:]
    apart = [learned(Net(LOSSES[0]), *(t[mine] for t in batch("uneven")), shared=False)[4:] for mine in
             (slice(0, 3), slice(3, None))]  # fmt: skip
    assert any(not torch.allclose((a + b) / 2, c, rtol=1e-2) for a, b, c in zip(*apart, whole, strict=True))
