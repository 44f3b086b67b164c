"""What the commands share: named configurations, and a wrong option told in one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from rarrg.errors import RarrgError


def parser_of(prog: str, description: str) -> ArgumentParser:
    """A parser that raises and takes no shortened options.

    Args:
        prog: Name shown in the help.
        description: What the command does.
    """
    return ArgumentParser(prog=prog, description=description, exit_on_error=False, allow_abbrev=False)


def _configs() -> list[Path]:
    """Folders of named configurations: of the working folder, of a checkout, of an installed package."""
    package = Path(__file__).resolve().parent
    return [Path("configs"), package.parent / "configs", package / "configs"]


def find_config(name: str) -> str:
    """Find a configuration file: as a path from the working folder, then by name in ``configs/``.

    Raises:
        RarrgError: There is none; the message lists the names there are.
    """
    if Path(name).is_file():
        return name
    for folder in _configs():
        if (folder / name).is_file():
            return str(folder / name)
    raise RarrgError(f"--config {name}: no such file; in configs/ there are {known_configs()}")


def known_configs() -> str:
    """Names of all configurations, for a message."""
    return ", ".join(sorted({str(p.relative_to(f)) for f in _configs() if f.is_dir() for p in f.rglob("*.yaml")}))


def with_found_config(argv: Sequence[str]) -> list[str]:
    """Put the path of a configuration in place of its name.

    Args:
        argv: Words of the command line.

    Raises:
        RarrgError: There is no such configuration.
    """
    found: list[str] = []
    for index, word in enumerate(argv):
        if index and argv[index - 1] == "--config":
            found.append(find_config(word))
        elif word.startswith("--config="):
            found.append("--config=" + find_config(word.removeprefix("--config=")))
        else:
            found.append(word)
    return found


def parse(parser: ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """Read options.

    Args:
        parser: Knows them.
        argv: Words of the command line.

    Raises:
        RarrgError: An unknown key, or a value of another type or out of range, in one line.
    """
    try:
        parsed = parser.parse_args(list(argv))
    except ArgumentError as error:
        raise RarrgError(_one_line(str(error), parser)) from error
    values: dict[str, Any] = parser.instantiate(parsed).as_dict()
    return values


_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "list": "a list, as [one, two]",
    "NoneType": "null",
}


def _one_line(message: str, parser: ArgumentParser) -> str:
    line = re.sub(r"\s+", " ", message).strip()
    unknown = re.search(r"nrecognized arguments: --([^\s=]+)", line)
    in_group = re.search(r"Group '(\S+)' does not accept option '(\S+)'", line)
    at_top = re.search(r"^Option '(\S+)' is not accepted", line)
    if match := unknown or in_group or at_top:
        key = ".".join(match.groups())
        near = difflib.get_close_matches(key, list(vars(parser.get_defaults().as_flat())), n=1)
        return f"unknown key {key}" + (f"; did you mean {near[0]}?" if near else "; --help lists all keys")
    if line.startswith("Problems parsing config"):
        return f"--config: a named file is not YAML of keys and values ({line.partition(': ')[2]})"
    if mistyped := re.search(r'^Parser key "(\S+)": (.*) (?:Got|Given) value: (.*)$', line):
        key, expected, value = mistyped.groups()
        literal = re.search(r"Literal\[(.*?)\]", expected)
        types = re.findall(r"<class '([\w.]+)'>", expected.split("Errors:")[0])
        if literal or types:
            wanted = literal[1] if literal else " or ".join(_TYPE_NAMES.get(name, name) for name in types)
            return f"{key}: expected {'one of ' if literal else ''}{wanted}, got {value}"
    return line
