"""The commands that measure: ``rarrg score``, ``compare``, ``rexrank``, ``ablate`` and ``bench``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rarrg.cli_parsing import find_config, parse, parser_of
from rarrg.config import TrainConfig
from rarrg.writer_config import WriterConfig

if TYPE_CHECKING:
    from rarrg.ablation import AblateOptions
    from rarrg.score_comparison import CompareOptions
    from rarrg.scoring import ScoreOptions


def parse_score(argv: Sequence[str], prog: str = "rarrg score") -> ScoreOptions:
    """Read the options of ``rarrg score``; ``--allow-missing`` without a value means true.

    Args:
        argv: Words after the command.
        prog: Name shown in the help.

    Raises:
        RarrgError: An unknown key, or a value of another type or out of range.
    """
    from rarrg.scoring import ScoreOptions

    parser = parser_of(prog, "Measure the reports of any system.")
    parser.add_class_arguments(ScoreOptions, fail_untyped=True)
    words = ["--allow_missing=true" if word == "--allow-missing" else word for word in argv]
    return ScoreOptions(**parse(parser, words))


def run_score(argv: Sequence[str], prog: str) -> int:
    """Run ``rarrg score``."""
    options = parse_score(argv, prog)

    from rarrg.scoring import score

    score(options, print)
    return 0


def parse_compare(argv: Sequence[str], prog: str = "rarrg compare") -> tuple[Path, Path, CompareOptions]:
    """Read the two folders and the options of ``rarrg compare``.

    Args:
        argv: Words after the command.
        prog: Name shown in the help.

    Raises:
        RarrgError: A folder is missing, an unknown key, or a value of another type or out of range.
    """
    from rarrg.score_comparison import CompareOptions

    parser = parser_of(prog, "Compare two scored systems.")
    parser.add_argument("first", type=Path, help="folder of rarrg score or rarrg evaluate")
    parser.add_argument("second", type=Path, help="that of the other system")
    parser.add_class_arguments(CompareOptions, fail_untyped=True)
    values = parse(parser, argv)
    return values.pop("first"), values.pop("second"), CompareOptions(**values)


def run_compare(argv: Sequence[str], prog: str) -> int:
    """Run ``rarrg compare``."""
    first, second, options = parse_compare(argv, prog)

    from rarrg.score_comparison import compare

    compare(first, second, options, print)
    return 0


def run_rexrank(argv: Sequence[str], prog: str) -> int:
    """Run ``rarrg rexrank``."""
    from rarrg.rexrank import RexrankOptions, convert

    parser = parser_of(prog, "Studies and reports in ReXrank's JSON.")
    parser.add_class_arguments(RexrankOptions, fail_untyped=True)
    convert(RexrankOptions(**parse(parser, argv)), print)
    return 0


def parse_ablate(argv: Sequence[str], prog: str = "rarrg ablate") -> AblateOptions:
    """Read the options of ``rarrg ablate``.

    Args:
        argv: Words after the command.
        prog: Name shown in the help.

    Raises:
        RarrgError: An unknown key, or a value of another type or out of range.
    """
    from rarrg.ablation import AblateOptions

    parser = parser_of(prog, "Train, evaluate and compare the experiments of a grid.")
    parser.add_class_arguments(AblateOptions, fail_untyped=True)
    return AblateOptions(**parse(parser, argv))


def parse_writer(words: Sequence[str]) -> WriterConfig:
    """Read how reports are written.

    Args:
        words: Options, without the name of a section.

    Raises:
        RarrgError: An unknown key, or a value of another type or out of range.
    """
    parser = parser_of("writer", "How phrases become a report.")
    parser.add_class_arguments(WriterConfig, fail_untyped=True)
    return WriterConfig(**parse(parser, words))


def run_ablate(argv: Sequence[str], prog: str, read_config: Callable[[Sequence[str]], TrainConfig]) -> int:
    """Run ``rarrg ablate``.

    Args:
        argv: Words after the command.
        prog: Name shown in the help.
        read_config: Reads a training configuration from words of the command line.
    """
    options = parse_ablate(argv, prog)

    from rarrg.ablation import ablate

    ablate(options, find_config, read_config, parse_writer, print)
    return 0


def run_bench(argv: Sequence[str], prog: str) -> int:
    """Run ``rarrg bench``; ``--quick`` without a value means true."""
    from rarrg.bench import BenchOptions, bench

    parser = parser_of(prog, "Run the speed benchmarks of a checkout and write their page.")
    parser.add_class_arguments(BenchOptions, fail_untyped=True)
    bench(BenchOptions(**parse(parser, ["--quick=true" if word == "--quick" else word for word in argv])), print)
    return 0
