"""The command ``rarrg index tune``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rarrg.cli_parsing import parse, parser_of
from rarrg.errors import RarrgError

if TYPE_CHECKING:
    from rarrg.index_tuning import TuneOptions


def parse_tune(argv: Sequence[str], prog: str = "rarrg index") -> TuneOptions:
    """Read the options of ``rarrg index tune``.

    Args:
        argv: Words after the command, ``tune`` first.
        prog: Name shown in the help.

    Raises:
        RarrgError: No such command, an unknown key, or a value of another type.
    """
    from rarrg.index_tuning import TuneOptions

    if argv and not argv[0].startswith("-"):
        if argv[0] != "tune":
            raise RarrgError(f"{prog} {argv[0]}: no such command; there is tune")
        argv = argv[1:]
    parser = parser_of(f"{prog} tune", "Measure kinds of index on a store's own phrases and recommend one.")
    parser.add_class_arguments(TuneOptions, fail_untyped=True)
    return TuneOptions(**parse(parser, argv))


def run_index(argv: Sequence[str], prog: str) -> int:
    """Run ``rarrg index``."""
    options = parse_tune(argv, prog)

    from rarrg.index_tuning import tune

    tune(options, print)
    return 0
