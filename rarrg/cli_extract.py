"""``rarrg extract``: its steps, its options, and the sections of a configuration file that it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from rarrg.config import TrainConfig
from rarrg.errors import RarrgError

STEPS = ("graph", "refine", "rules", "merge")

HELP = (
    "Turn reports into key phrases. graph: RadGraph annotations and their phrases. refine: an LLM's key phrases, from "
    "the reports and the phrases of graph. rules: key phrases without any model. merge: join the folders of "
    "--shard 1/N to N/N. Without a step: graph, then refine."
)


def split_step(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The step that the first word names, empty for all, and the words after it.

    Raises:
        RarrgError: The first word is neither a step nor an option.
    """
    if not argv or argv[0].startswith("-"):
        return "", list(argv)
    if argv[0] not in STEPS:
        raise RarrgError(f"rarrg extract {argv[0]}: no such step; there are {', '.join(STEPS)}")
    return argv[0], list(argv[1:])


def plain_words(argv: Sequence[str], find: Callable[[str], str]) -> list[str]:
    """Spell the options as the parser knows them, and put the sections of a file in place of its name.

    Args:
        argv: Words after the step.
        find: Finds a configuration file by its name.

    Raises:
        RarrgError: A file is missing or holds something else.
    """
    words: list[str] = []
    given = iter(argv)
    for word in given:
        name, equals, value = word.partition("=")
        if name == "--dry-run":
            words.append(f"--dry_run={value or 'true'}")
        elif name in ("--allow-host", "--config"):
            value = value if equals else next(given, "")
            words.append(
                f"--extract.allow_hosts+={value}" if name == "--allow-host" else f"--config={_sections(find(value))}"
            )
        else:
            words.append(word)
    return words


def _sections(path: str) -> str:
    """The sections of a training configuration that extraction reads, as YAML text."""
    try:
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RarrgError(f"--config {path}: is not YAML of keys and values") from error
    known = {field.name for field in fields(TrainConfig)} | {"extract"}
    if not isinstance(config, dict) or not set(config) <= known:
        unknown = sorted(map(str, set(config) - known)) if isinstance(config, dict) else []
        raise RarrgError(f"--config {path}: " + (f"unknown key {unknown[0]}" if unknown else "has no keys"))
    data: dict[str, Any] = config.get("data") or {}
    wanted = {key: data[key] for key in ("source", "root") if key in data}
    return yaml.safe_dump(
        {"data": wanted, "extract": config.get("extract") or {}}, default_flow_style=True, width=10**6
    )
