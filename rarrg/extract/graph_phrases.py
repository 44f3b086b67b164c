"""RadGraph annotation -> RadGraph phrases.

The paper (appendix B.1) groups the entities of a report by their relations, turns every group into a phrase and puts
"no" before what is absent and "maybe" before what is uncertain. How exactly, it shows by the example of its Figure 7;
the rule below gives that example's phrases, all of them and in their order:

1. Entities tied by ``modify`` are one group, whichever way the relation points.
2. Every ``located_at`` between two groups gives a phrase of both, in the order of the report; every ``suggestive_of``
   a phrase "a suggestive of b". Neither draws in what else its groups are tied to.
3. A group without such a tie is a phrase by itself, anatomy included.
4. One prefix a phrase, from all its observations: "no" if any is definitely absent, else "maybe" if any is uncertain.

Where the example is silent: a finding at several places gives a phrase for each, and "no" goes before "maybe".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KINDS = ("OBS", "ANAT", "Observation", "Anatomy")
_CERTAINTIES = {
    "DP": "",
    "DA": "no",
    "U": "maybe",
    "definitely present": "",
    "definitely absent": "no",
    "uncertain": "maybe",
}
_RELATIONS = ("modify", "located_at", "suggestive_of")


@dataclass(frozen=True)
class _Entity:
    tokens: range
    prefix: str
    relations: tuple[tuple[str, str], ...]


def radgraph_phrases(annotation: Mapping[str, Any]) -> list[str]:
    """Turn one report's annotation into RadGraph phrases (paper, appendix B.1 and Figure 7).

    Args:
        annotation: What the ``radgraph`` package answers for one report: ``text``, its tokens with one space between,
            and ``entities``, by id each ``label``, ``start_ix`` and ``end_ix`` (token numbers, both inclusive) and
            ``relations``, pairs of a relation and the id of its target. Labels are those of RadGraph (``OBS-DA``) or of
            RadGraph-XL (``Observation::definitely absent``). Targets that are no entity are passed over.

    Returns:
        Lower-case phrases in the order of the report, each once; none for a report without entities.

    Raises:
        ValueError: The annotation is not of that form; the message names the entity and the key.
    """
    tokens, entities = _read(annotation)
    group = _groups(entities)
    members: dict[str, list[_Entity]] = {}
    for name, entity in entities.items():
        members.setdefault(group[name], []).append(entity)

    ties = {
        (group[name], relation, group[target])
        for name, entity in entities.items()
        for relation, target in entity.relations
        if relation != "modify" and target in entities and group[name] != group[target]
    }
    tied = {end for source, _, target in ties for end in (source, target)}

    phrases = [_phrase(tokens, members[alone], []) for alone in members if alone not in tied]
    for source, relation, target in ties:
        if relation == "located_at":
            phrases.append(_phrase(tokens, members[source] + members[target], []))
        else:
            phrases.append(_phrase(tokens, members[source], members[target]))
    return list(dict.fromkeys(text for _, text in sorted(phrases)))


def _phrase(tokens: list[str], seen: list[_Entity], suggested: list[_Entity]) -> tuple[list[int], str]:
    """Token numbers, which give a phrase its place among the others, and the phrase."""
    first = _numbers(seen)
    second = [number for number in _numbers(suggested) if number not in first]  # spans may overlap
    words = [tokens[number] for number in first]
    if second:
        words += ["suggestive of", *(tokens[number] for number in second)]
    prefixes = {entity.prefix for entity in seen + suggested}
    words[:0] = [prefix for prefix in ("no", "maybe") if prefix in prefixes][:1]
    return first + second, " ".join(words).lower()


def _numbers(entities: list[_Entity]) -> list[int]:
    return sorted({number for entity in entities for number in entity.tokens})


def _groups(entities: Mapping[str, _Entity]) -> dict[str, str]:
    """For every entity the entity that stands for its group. Cycles do no harm to a union-find."""
    parent = {name: name for name in entities}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for name, entity in entities.items():
        for relation, target in entity.relations:
            if relation == "modify" and target in entities:
                parent[root(name)] = root(target)
    return {name: root(name) for name in entities}


def _read(annotation: Mapping[str, Any]) -> tuple[list[str], dict[str, _Entity]]:
    if not isinstance(annotation, Mapping):
        raise ValueError(f"annotation: must be an object, got {annotation!r:.80}")
    text, entities = annotation.get("text"), annotation.get("entities")
    if not isinstance(text, str):
        raise ValueError(f"annotation: text must be a text, got {text!r:.80}")
    if not isinstance(entities, Mapping):
        raise ValueError(f"annotation: entities must be an object, got {entities!r:.80}")
    tokens = text.split()
    return tokens, {str(name): _entity(f"entity {name}", value, len(tokens)) for name, value in entities.items()}


def _entity(where: str, value: Any, length: int) -> _Entity:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: must be an object, got {value!r:.80}")
    start, end, relations = value.get("start_ix"), value.get("end_ix"), value.get("relations")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end < length:
        raise ValueError(
            f"{where}: start_ix and end_ix must be token numbers from 0 to {length - 1} in rising order, "
            f"got {start!r:.80} and {end!r:.80}"
        )
    if not isinstance(relations, list) or not all(_is_relation(relation) for relation in relations):
        raise ValueError(
            f"{where}: relations must be a list of pairs of one of {', '.join(_RELATIONS)} and an entity's id, "
            f"got {relations!r:.80}"
        )
    return _Entity(
        tokens=range(start, end + 1),
        prefix=_prefix(where, value.get("label")),
        relations=tuple((relation, target) for relation, target in relations),
    )


def _is_relation(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and value[0] in _RELATIONS and isinstance(value[1], str)


def _prefix(where: str, label: Any) -> str:
    parts = label.split("::" if "::" in label else "-") if isinstance(label, str) else [""]
    kind, certainty = parts[0], parts[-1]
    if kind not in _KINDS or certainty not in _CERTAINTIES:
        raise ValueError(f"{where}: label must be as OBS-DA or Observation::definitely absent, got {label!r:.80}")
    return _CERTAINTIES[certainty] if kind.startswith(("OBS", "Obs")) else ""
