"""Whether a query's attention peaks where its finding was drawn, for ``docs/evidence.md``.

    python benchmarks/pointing.py --model runs/demo

Phantom studies are drawn from a seed that the model was not trained on. A finding that is present counts where a phrase
of its image says it: the same observation by the labeler, the same device by its name, the same side. Of several such
phrases the most probable one is taken; a phrase of both sides points well at either. The tables compare:

- attention: what the report page shows, the cross-attention of the phrase's query in the last layer;
- gradient: the same, weighted by the gradient of the query's selection logit (Chefer et al., 2021,
  https://arxiv.org/abs/2103.15679): product of both, negative values dropped, mean over heads;
- other study: the attention for the same finding and side in the next study that has it. As good as attention, it
  would say that the map knows where such findings are, not where this one is;
- random: expected value of a random point of the image;
- lung: centre of mass of the lung that the phrase names; of both lungs if it names none or both, or in a lateral view.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import trange

from rarrg.data.phantom import case
from rarrg.data.phantom_drawing import SIZE, VIEWS, Kind, PhantomFinding, PhantomView
from rarrg.data.phantom_places import Places, draw_places
from rarrg.errors import RarrgError
from rarrg.metrics.bootstrap import differences, ratio, resampling_weights
from rarrg.metrics.findings import Label, label_findings
from rarrg.metrics.pointing import cell_of, cells_on, hit, middle, random_hit, wilson
from rarrg.models.decoder import Decoder, DecoderLayer
from rarrg.models.retriever import PhraseRetriever
from rarrg.pipeline import ReportGenerator
from rarrg.report.study import Retrieval

# The observation of each finding that has a place, and what its phrases must name besides.
SAID: dict[Kind, tuple[str, str]] = {
    "cardiomegaly": ("Cardiomegaly", ""),
    "pleural effusion": ("Pleural Effusion", ""),
    "pneumothorax": ("Pneumothorax", ""),
    "nodule": ("Lung Lesion", ""),
    "opacity": ("Lung Opacity", ""),
    "rib fracture": ("Fracture", ""),
    "endotracheal tube": ("Support Devices", "endotracheal tube"),
    "nasogastric tube": ("Support Devices", "nasogastric tube"),
    "central venous catheter": ("Support Devices", "central venous catheter"),
    "pacemaker": ("Support Devices", "pacemaker"),
}
COLUMNS = ("attention", "gradient", "other study", "random", "lung")


@dataclass(frozen=True)
class Found:
    """A present finding that a phrase of its image says.

    Attributes:
        study: Number of the study.
        view: The view.
        finding: What it is.
        sides: Sides that the phrase names.
        cells: Cells of the map on the drawn place, bool ``[rows, columns]``.
        attention: Attention of the phrase's query, ``[rows, columns]``.
        hits: Hit of each of ``COLUMNS``, in [0, 1].
    """

    study: int
    view: PhantomView
    finding: Kind
    sides: frozenset[str]
    cells: np.ndarray
    attention: np.ndarray
    hits: dict[str, float]


def gradient_weighted(retriever: PhraseRetriever, features: Tensor) -> Tensor:
    """Last cross-attention times the gradient of each query's own selection logit, both of each head.

    In the last layer a query's logit depends on no other query's attention, so one backward pass serves all queries.

    Args:
        retriever: In evaluation mode.
        features: ``[batch, channels, height, width]``.

    Returns:
        Not negative, ``[batch, queries, height, width]``.
    """
    calls: dict[nn.Module, tuple[tuple[Tensor, ...], Tensor]] = {}

    def keep(module: nn.Module, arguments: tuple[Tensor, ...], output: tuple[Tensor, None]) -> None:
        calls[module] = (arguments, output[0])

    lasts = [module.layers[-1] for module in retriever.modules() if isinstance(module, Decoder)]
    attentions = [last.cross_attention for last in lasts if isinstance(last, DecoderLayer)]
    hooks = [attention.register_forward_hook(keep) for attention in attentions]
    logits = retriever(features).logits
    for hook in hooks:
        hook.remove()
    maps = []
    slopes = torch.autograd.grad(logits.sum(), [calls[attention][1] for attention in attentions])
    with torch.no_grad():
        for attention, slope in zip(attentions, slopes, strict=True):
            query, keys, memory = calls[attention][0]
            weights = attention(query, keys, memory, average_attn_weights=False)[1]
            heads = (attention.num_heads, -1)
            values = F.linear(memory, attention.in_proj_weight.chunk(3)[2], attention.in_proj_bias.chunk(3)[2])
            back = (slope @ attention.out_proj.weight).unflatten(-1, heads)
            gradient = torch.einsum("bqhd,bthd->bhqt", back, values.unflatten(-1, heads))
            maps.append((weights * gradient).clamp(min=0).mean(dim=1))
    return torch.stack(maps).mean(dim=0).unflatten(-1, features.shape[-2:])


def sides_of(phrase: str) -> frozenset[str]:
    """Sides that a phrase names."""
    if "bilateral" in phrase:
        return frozenset(("left", "right"))
    return frozenset(re.findall(r"\b(left|right)\b", phrase))


def says(phrase: str, finding: Kind, side: str, present: frozenset[str]) -> bool:
    """Whether a phrase affirms or suspects a finding on its side, and on no side that does not have it.

    Args:
        phrase: What was retrieved.
        finding: What is present.
        side: Its side; empty for neither.
        present: All sides that have such a finding.
    """
    observation, name = SAID[finding]
    sides = sides_of(phrase)
    fits = side in sides and sides <= present if side else not sides
    return fits and name in phrase and label_findings(phrase)[observation] in (Label.POSITIVE, Label.UNCERTAIN)


def found_in(
    study: int,
    view: PhantomView,
    findings: Sequence[PhantomFinding],
    places: Places,
    retrieval: Retrieval,
    weighted: np.ndarray,
) -> list[Found]:
    """The present findings of one view that its phrases say."""
    assert retrieval.attention is not None
    found = []
    for finding, place in zip(findings, places.findings, strict=True):
        if place is None:
            continue
        present = frozenset(each.side for each in findings if each.kind == finding.kind)
        said = [says(phrase.text, finding.kind, finding.side, present) for phrase in retrieval.phrases]
        if not any(said):
            continue
        index = said.index(True)
        phrase, attention = retrieval.phrases[index], retrieval.attention[index]
        sides = sides_of(phrase.text)
        masks = [
            mask
            for each, mask in zip(findings, places.findings, strict=True)
            if mask is not None and each.kind == finding.kind and each.side in (sides or {""})
        ]
        cells = cells_on(np.any(masks, axis=0), attention.shape)
        lungs = [mask for side, mask in places.lungs.items() if side in sides] or list(places.lungs.values())
        centre = cell_of(middle(np.any(lungs, axis=0)), (SIZE, SIZE), attention.shape)
        hits = {
            "attention": hit(attention, cells),
            "gradient": hit(weighted[phrase.query], cells),
            "random": random_hit(cells),
            "lung": float(cells[centre]),
        }
        found.append(Found(study, view, finding.kind, sides, cells, attention, hits))
    return found


def play(generator: ReportGenerator, seed: int, count: int) -> tuple[list[Found], Counter[tuple[PhantomView, Kind]]]:
    """Draw studies and retrieve their phrases.

    Returns:
        What was said of what is present, and how many findings are present in each view.
    """
    found: list[Found] = []
    present: Counter[tuple[PhantomView, Kind]] = Counter()
    for study in trange(count, unit="study"):
        patient, findings = case(seed, study)
        if not findings:
            continue
        drawn = [draw_places(patient, findings, view) for view in VIEWS]
        prepared = zip(*(generator.encoder.preprocess(places.image) for places in drawn), strict=True)
        with torch.no_grad():
            features = generator.encoder([torch.stack(batch).to(generator.device) for batch in prepared])
        weighted = gradient_weighted(generator.retriever, features).cpu().numpy()
        retrieved = generator.retrieve_features(features, need_attention=True, studies=[0] * len(VIEWS))
        for view, places, retrieval, maps in zip(VIEWS, drawn, retrieved, weighted, strict=True):
            pairs = zip(findings, places.findings, strict=True)
            present.update((view, finding.kind) for finding, place in pairs if place is not None)
            found += found_in(study, view, findings, places, retrieval, maps)
    return with_other_study(found), present


def with_other_study(found: Sequence[Found]) -> list[Found]:
    """Add what the map of another study hits; a finding that was found in a single study is left out."""
    alike: dict[tuple[PhantomView, Kind, frozenset[str]], list[Found]] = defaultdict(list)
    for each in found:
        alike[each.view, each.finding, each.sides].append(each)
    kept = []
    for group in alike.values():
        for index, each in enumerate(group):
            later = group[index + 1 :] + group[:index]
            other = next((one for one in later if one.study != each.study), None)
            if other is not None:
                each.hits["other study"] = hit(other.attention, each.cells)
                kept.append(each)
    return kept


def table(found: Sequence[Found], present: Counter[tuple[PhantomView, Kind]], view: PhantomView) -> str:
    """Hits of one view as a Markdown table, in percent with Wilson's 95 % interval; random is an expected value."""
    lines = [
        f"| {view} | present | said | {' | '.join(COLUMNS)} |",
        "|---" * (3 + len(COLUMNS)) + "|",
    ]
    for finding in (*SAID, "all"):
        of_finding = [each for each in found if each.view == view and finding in (each.finding, "all")]
        drawn = sum(number for (where, what), number in present.items() if where == view and finding in (what, "all"))
        if not drawn:
            continue
        cells = ["-"] * len(COLUMNS)
        if of_finding:
            cells = [_cell(column, [each.hits[column] for each in of_finding]) for column in COLUMNS]
        lines.append(f"| {finding} | {drawn} | {len(of_finding)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(column: str, hits: Sequence[float]) -> str:
    share = f"{100 * float(np.mean(hits)):.0f}"
    if column == "random":
        return share
    low, high = wilson(sum(hits), len(hits))
    return f"{share} ({100 * low:.0f}-{100 * high:.0f})"


def leads(found: Sequence[Found]) -> str:
    """Lead of attention over each other column, in points, with a paired bootstrap 95 % interval over studies."""
    numbers = {study: row for row, study in enumerate(sorted({each.study for each in found}))}
    terms = {column: np.zeros((len(numbers), 2)) for column in COLUMNS}
    for each in found:
        for column in COLUMNS:
            terms[column][numbers[each.study]] += (each.hits[column], 1)
    weights = resampling_weights(len(numbers), 1000, 0)
    statistic = {"": lambda sums: ratio(sums[..., 0], sums[..., 1])}
    lines = []
    for column in COLUMNS[1:]:
        lead = differences(terms["attention"], terms[column], statistic, weights)[""]
        lines.append(f"attention - {column}: {100 * lead.value:+.0f} ({100 * lead.low:+.0f} to {100 * lead.high:+.0f})")
    return "\n".join(lines)


def main() -> None:
    """Print a table and the leads for each view, and the leads over both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model folder, trained on phantom studies")
    parser.add_argument("--seed", type=int, default=2000, help="seed of the studies (default: 2000)")
    parser.add_argument("--studies", type=int, default=2000, help="how many to draw (default: 2000)")
    arguments = parser.parse_args()
    try:
        generator = ReportGenerator.from_pretrained(arguments.model)
        training = PhraseRetriever.from_pretrained(arguments.model)[1].training
        if (training["data"], training["seed"]) == ("phantom", arguments.seed):
            raise RarrgError(f"--seed {arguments.seed}: the model was trained on these studies; name another seed")
    except RarrgError as error:
        parser.exit(2, f"{error}\n")
    found, present = play(generator, arguments.seed, arguments.studies)
    for view in VIEWS:
        of_view = [each for each in found if each.view == view]
        sys.stdout.write(f"{table(found, present, view)}\n\n{leads(of_view)}\n\n")
    sys.stdout.write(f"Both views:\n{leads(found)}\n")


if __name__ == "__main__":
    main()
