"""The command line: ``rarrg train``, ``infer``, ``evaluate``, ``score`` and more. Commands import what is heavy."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jsonargparse import ActionConfigFile, ArgumentParser

from rarrg import __version__
from rarrg.artifacts import NOT_WRITABLE
from rarrg.cli_index import run_index
from rarrg.cli_parsing import find_config, known_configs, parse, parser_of, with_found_config
from rarrg.cli_scores import run_ablate, run_bench, run_compare, run_rexrank, run_score
from rarrg.config import TrainConfig
from rarrg.errors import RarrgError, Terminated
from rarrg.extract_config import ExtractConfig
from rarrg.memory import keep_freed_memory

if TYPE_CHECKING:
    from rarrg.evaluation import EvaluateOptions
    from rarrg.extraction import ExtractOptions

USAGE = f"""rarrg {__version__}: chest X-ray reports by phrase retrieval

usage: rarrg COMMAND [options]     (rarrg COMMAND --help lists a command's options)

commands:
  train     train a phrase retriever:      rarrg train --config iu_xray.yaml --data.root DIR
  infer     write a report of an image:    rarrg infer --frontal a.jpg --lateral b.jpg --model runs/demo
  evaluate  measure on unseen studies:     rarrg evaluate --model runs/iu_xray --data.root DIR --baselines
  score     measure reports of any system: rarrg score --reports FILE --protocol studies --data.root DIR --out DIR
  compare   two scored systems, paired:    rarrg compare DIR OTHER
  rexrank   studies, reports of ReXrank:   rarrg rexrank --input FILE --reports FILE --out FILE
  ablate    experiments of a grid:         rarrg ablate --config ablation/iu_xray.yaml --root DIR
  reproduce all, to the paper's table:     rarrg reproduce --config mimic.yaml --data.root DIR
  extract   reports to key phrases:        rarrg extract --config mimic.yaml --data.root DIR --out DIR
  phrases   count and compare key phrases: rarrg phrases stats DIR [OTHER]
  index     which kind of phrase index:    rarrg index tune --store DIR
  bench     speed beside other ways:       rarrg bench
  demo      train on drawn studies (or an IU X-Ray folder) and report a held-out pair"""


def _train_parser(prog: str) -> ArgumentParser:
    parser = parser_of(prog, "Train a phrase retriever.")
    parser.add_argument(
        "--config", action=ActionConfigFile, help="YAML file, or a bare name that is looked up in configs/"
    )
    parser.add_argument(
        "--ckpt_path", type=str | None, default=None, help="'last' or a checkpoint file: resume a killed run"
    )
    parser.add_class_arguments(TrainConfig, fail_untyped=True)
    parser.add_class_arguments(ExtractConfig, "extract", fail_untyped=True)  # read by rarrg extract from the same file
    return parser


def _train(argv: Sequence[str], prog: str) -> int:
    if not argv:
        raise RarrgError(f"name a configuration, as {prog} --config demo.yaml; in configs/ there are {known_configs()}")
    config, ckpt_path = parse_train(argv, prog)

    from rarrg.experiment import train

    _quiet_lightning()
    train(config, ckpt_path)
    return 0


def _quiet_lightning() -> None:
    # After its import, which sets the level itself: its notes on hardware and other products are no part of our output.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*is deprecated")  # torch and Lightning among themselves
    warnings.filterwarnings("ignore", message="Found .* in eval mode at the start")  # layers that are frozen on purpose
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")  # as when resuming


def parse_train(argv: Sequence[str], prog: str = "rarrg train") -> tuple[TrainConfig, str | None]:
    """Read a training configuration from the command line and the files it names.

    Args:
        argv: Words after the command.
        prog: Name shown in the help.

    Returns:
        The configuration, and the checkpoint to resume from.

    Raises:
        RarrgError: An unknown key, a value of another type or out of range, or no such file.
    """
    values = parse(_train_parser(prog), with_found_config(argv))
    ckpt_path = values.pop("ckpt_path")
    values.pop("config")
    values.pop("extract")
    return TrainConfig(**values), ckpt_path


def _infer(argv: Sequence[str], prog: str) -> int:
    from rarrg.cli_infer import plain_words
    from rarrg.inference import InferOptions, infer

    parser = parser_of(prog, "Write the report of a study.")
    parser.add_argument("--config", action=ActionConfigFile, help="YAML file of these keys")
    parser.add_class_arguments(InferOptions, fail_untyped=True)
    values = parse(parser, plain_words(with_found_config(argv)))
    values.pop("config")
    return infer(InferOptions(**values))


def parse_evaluate(argv: Sequence[str], prog: str = "rarrg evaluate") -> EvaluateOptions:
    """Read the options of ``rarrg evaluate``; ``--baselines`` without a value means true.

    Args:
        argv: Words after the command.
        prog: Name shown in the help.

    Raises:
        RarrgError: An unknown key, or a value of another type or out of range.
    """
    from rarrg.cli_infer import plain_words
    from rarrg.evaluation import EvaluateOptions

    parser = parser_of(prog, "Measure a model on unseen studies.")
    parser.add_class_arguments(EvaluateOptions, fail_untyped=True)
    words = [
        "--baselines=true" if word == "--baselines" and after.startswith("-") else word
        for word, after in zip(argv, [*argv[1:], "--"], strict=False)
    ]
    return EvaluateOptions(**parse(parser, plain_words(words)))


def _evaluate(argv: Sequence[str], prog: str) -> int:
    options = parse_evaluate(argv, prog)

    from rarrg.evaluation import evaluate

    _quiet_lightning()
    evaluate(options, lambda words: parse_train(words)[0], print)
    return 0


def _ablate(argv: Sequence[str], prog: str) -> int:
    _quiet_lightning()
    return run_ablate(argv, prog, lambda words: parse_train(words)[0])


def _reproduce(argv: Sequence[str], prog: str) -> int:
    from rarrg.cli_infer import plain_words
    from rarrg.reproduction import ReproduceOptions, reproduce

    parser = parser_of(prog, "Extract, train, evaluate, and put the paper's table beside the result.")
    parser.add_class_arguments(ReproduceOptions, fail_untyped=True)
    options = ReproduceOptions(**parse(parser, plain_words(argv)))
    _quiet_lightning()
    reproduce(options, find_config, lambda words: parse_train(words)[0], lambda words: parse_extract(words)[1], print)
    return 0


def parse_extract(argv: Sequence[str], prog: str = "rarrg extract") -> tuple[str, ExtractOptions]:
    """Read a step and the options of ``rarrg extract``.

    Args:
        argv: Words after the command.
        prog: Name shown in the help.

    Returns:
        The step, empty for all of them, and the options.

    Raises:
        RarrgError: No such step, an unknown key, a value of another type or out of range, or no such file.
    """
    from rarrg.cli_extract import HELP, STEPS, plain_words, split_step
    from rarrg.extraction import ExtractOptions

    step, words = split_step(argv)
    parser = parser_of(f"{prog} [{'|'.join(STEPS)}]", HELP)
    parser.add_argument("--config", action=ActionConfigFile, help="YAML file of which data and extract are read")
    parser.add_class_arguments(ExtractOptions, fail_untyped=True)
    values = parse(parser, plain_words(words, find_config))
    values.pop("config")
    return step, ExtractOptions(**values)


def _extract(argv: Sequence[str], prog: str) -> int:
    step, options = parse_extract(argv, prog)

    from rarrg.extraction import extract

    extract(step, options, print)
    return 0


def _phrases(argv: Sequence[str], prog: str) -> int:
    from rarrg.phrase_stats import stats

    if argv and not argv[0].startswith("-"):
        if argv[0] != "stats":
            raise RarrgError(f"{prog} {argv[0]}: no such command; there is stats")
        argv = argv[1:]
    parser = parser_of(f"{prog} stats", "Count the phrases of an extraction, or compare two.")
    parser.add_argument("places", nargs="+", type=str, help="folder of an extraction, or file of key phrases; or two")
    stats(parse(parser, argv)["places"], print)
    return 0


# What changes when the demo gets a real data set: less of everything an epoch costs.
IU_XRAY_DEMO = ["--data.source=iu_xray", "--data.batch_size=64", "--trainer.epochs=6", "--out=runs/demo_iu_xray"]


def _demo(argv: Sequence[str], prog: str) -> int:
    parser = parser_of(prog, "Train on drawn studies and report one.")
    parser.add_argument(
        "--data", type=str | None, default=None, help="IU X-Ray folder to use in place of drawn studies"
    )
    data = parse(parser, argv)["data"]
    overrides = [] if data is None else [*IU_XRAY_DEMO, f"--data.root={data}"]
    config, _ = parse_train(["--config=demo.yaml", *overrides])

    from rarrg.demo import demo

    _quiet_lightning()
    demo(config)
    return 0


COMMANDS: dict[str, Callable[[Sequence[str], str], int]] = {
    "train": _train,
    "infer": _infer,
    "evaluate": _evaluate,
    "score": run_score,
    "compare": run_compare,
    "rexrank": run_rexrank,
    "ablate": _ablate,
    "reproduce": _reproduce,
    "extract": _extract,
    "phrases": _phrases,
    "index": run_index,
    "bench": run_bench,
    "demo": _demo,
}


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Run a command.

    Args:
        argv: Command and its options; None takes the process's.
        prog: Program name shown in a command's help; None shows ``rarrg COMMAND``.

    Returns:
        Exit status: the command's; 2 after a user's mistake, told in one line on standard error; 130 after Ctrl-C, 143
        after a SIGTERM that training was told of.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0] in {"-h", "--help"}:
        print(USAGE)
        return 0
    if argv[0] == "--version":
        print(__version__)
        return 0
    logging.basicConfig(format="%(message)s")
    logging.getLogger("rarrg").setLevel(logging.INFO)
    keep_freed_memory()
    command, *rest = argv
    try:
        if command not in COMMANDS:
            raise RarrgError(f"unknown command {command!r}; there are {', '.join(COMMANDS)}")
        return COMMANDS[command](rest, prog or f"rarrg {command}")
    except RarrgError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Terminated as error:
        print(f"terminated: {error}", file=sys.stderr)
        return 143
    except BrokenPipeError:
        # The reader went away, as `| head` does; keep the interpreter from failing once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.errno not in NOT_WRITABLE:
            raise
        print(f"error: {error.filename or 'writing failed'}: {error.strerror}", file=sys.stderr)
        return 2
