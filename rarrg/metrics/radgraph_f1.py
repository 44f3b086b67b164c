"""RadGraph F1 of reports, as CXR-Report-Metric defines it (Yu et al., 2023; paper, sections 4.2 and 5.3.2).

Source: github.com/rajpurkarlab/CXR-Report-Metric, ``CXRMetric/radgraph_evaluate_model.py`` and ``run_eval.py``. It is
not the reward of the ``radgraph`` package, and the model must be the first RadGraph, not RadGraph-XL, for figures that
can be put beside the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rarrg.metrics.bootstrap import Statistic
from rarrg.metrics.measured import Measured, column_mean

Annotation = Mapping[str, Any]
"""What the ``radgraph`` package answers for one report; its ``entities`` are read and nothing else."""

_Entity = tuple[str, str]
_Relation = tuple[_Entity, _Entity, str]

_FIGURES = (
    "entity_precision",
    "entity_recall",
    "entity_f1",
    "relation_precision",
    "relation_recall",
    "relation_f1",
    "f1",
)


def entities_and_relations(annotation: Annotation) -> tuple[set[_Entity], set[_Relation]]:
    """What an annotation says, places in the text aside.

    Args:
        annotation: Its ``entities`` have, by id, ``tokens``, ``label`` (as ``OBS-DA`` or ``Observation::definitely
            absent``) and ``relations``, pairs of a relation and its target's id. Targets that are no entity are passed
            over.

    Returns:
        Entities as (tokens, label), relations as (source, target, relation). Case counts.

    Raises:
        ValueError: The annotation is not of that form; the message names the entity.
    """
    entities: dict[str, _Entity] = {}
    pairs: list[tuple[str, str, str]] = []
    if not isinstance(annotation.get("entities"), Mapping):
        raise ValueError("a RadGraph annotation needs entities by id")
    for name, entity in annotation["entities"].items():
        try:
            entities[name] = (_text(entity["tokens"]), _text(entity["label"]))
            pairs += [(name, target, relation) for relation, target in entity["relations"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"entity {name} needs tokens, label and relations, got {entity!r:.80}") from error
    relations = {
        (entities[source], entities[target], relation) for source, target, relation in pairs if target in entities
    }
    return set(entities.values()), relations


def radgraph_measures(
    references: Sequence[Annotation | None], hypotheses: Sequence[Annotation | None], prefix: str = "radgraph_"
) -> Measured:
    """Mean precision, recall and F1 of entities and of relations over reports, and the mean of both F1.

    Every 0/0 is 0, so a report without relations on both sides has relation F1 0. Case counts: to have a figure without
    it, lower-case both sides' texts before they are annotated.

    A report that one side has no annotation of is not measured. The original takes a missing hypothesis for one without
    entities (F1 0) and leaves out a missing reference; give ``{"entities": {}}`` where a report is to count as empty.

    Args:
        references: Annotation of each reference; None where there is none.
        hypotheses: Annotation of each generated report, likewise.
        prefix: Goes before the names of the measures.

    Returns:
        ``entity_precision``, ``entity_recall``, ``entity_f1``, the same of ``relation``, and ``f1``, the mean of
        entity and relation F1 and the paper's RadGraph F1; all in [0, 1].

    Raises:
        ValueError: There are more of one than of the other, an annotation is not of RadGraph's form, or labels are of
            RadGraph and of RadGraph-XL.
    """
    pairs = list(zip(references, hypotheses, strict=True))
    terms = np.zeros((len(pairs), len(_FIGURES) + 1))
    styles = set()
    for row, (reference, said) in enumerate(pairs):
        if reference is None or said is None:
            continue
        try:
            wanted, found = entities_and_relations(reference), entities_and_relations(said)
        except ValueError as error:
            raise ValueError(f"report {row}: {error}") from error
        styles |= {"::" in label for _, label in wanted[0] | found[0]}
        entities, relations = _scores(wanted[0], found[0]), _scores(wanted[1], found[1])
        terms[row] = [*entities, *relations, (entities[2] + relations[2]) / 2, 1]
    if len(styles) > 1:
        raise ValueError("labels of RadGraph (OBS-DP) and of RadGraph-XL (Observation::definitely present) never match")
    return Measured(
        terms=terms,
        statistics={prefix + figure: _MEANS[figure] for figure in _FIGURES},
        single=tuple(prefix + figure for figure in _FIGURES),
        present=terms[:, -1] > 0,
    )


_MEANS: dict[str, Statistic] = {figure: partial(column_mean, column=column) for column, figure in enumerate(_FIGURES)}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _scores(wanted: set[Any], found: set[Any]) -> tuple[float, float, float]:
    """Precision, recall and F1 of a set."""
    hits = len(wanted & found)
    if hits == 0:
        return 0.0, 0.0, 0.0
    return hits / len(found), hits / len(wanted), 2 * hits / (len(found) + len(wanted))
