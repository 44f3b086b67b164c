"""The command line: ``rarrg train``, ``infer``, ``evaluate``, ``extract``, ``demo``. Commands import what is heavy."""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ActionConfigFile, ArgumentError, ArgumentParser

from rarrg import __version__
from rarrg.config import TrainConfig
from rarrg.errors import RarrgError
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
  extract   reports to key phrases:        rarrg extract --config mimic.yaml --data.root DIR --out DIR
  phrases   count and compare key phrases: rarrg phrases stats DIR [OTHER]
  demo      train on drawn studies (or an IU X-Ray folder) and report a held-out pair"""


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
    raise RarrgError(f"--config {name}: no such file; in configs/ there are {_known_configs()}")


def _known_configs() -> str:
    return ", ".join(sorted({str(p.relative_to(f)) for f in _configs() if f.is_dir() for p in f.rglob("*.yaml")}))


def _with_found_config(argv: Sequence[str]) -> list[str]:
    found: list[str] = []
    for index, word in enumerate(argv):
        if index and argv[index - 1] == "--config":
            found.append(find_config(word))
        elif word.startswith("--config="):
            found.append("--config=" + find_config(word.removeprefix("--config=")))
        else:
            found.append(word)
    return found


def _train_parser(prog: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=prog, description="Train a phrase retriever.", exit_on_error=False, allow_abbrev=False, default_env=False
    )
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
        raise RarrgError(
            f"name a configuration, as {prog} --config demo.yaml; in configs/ there are {_known_configs()}"
        )
    config, ckpt_path = parse_train(argv, prog)

    from rarrg.experiment import train

    _quiet_lightning()
    train(config, ckpt_path)
    return 0


def _quiet_lightning() -> None:
    # After its import, which sets the level itself: its notes on hardware and other products are no part of our output.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*is deprecated")  # torch and Lightning among themselves
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")  # as when resuming


def _parse(parser: ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    try:
        parsed = parser.parse_args(list(argv))
    except ArgumentError as error:
        raise RarrgError(_one_line(str(error), parser)) from error
    values: dict[str, Any] = parser.instantiate(parsed).as_dict()
    return values


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
    values = _parse(_train_parser(prog), _with_found_config(argv))
    ckpt_path = values.pop("ckpt_path")
    values.pop("config")
    values.pop("extract")
    return TrainConfig(**values), ckpt_path


_TYPE_NAMES = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "NoneType": "null"}


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


def _infer(argv: Sequence[str], prog: str) -> int:
    from rarrg.cli_infer import plain_words
    from rarrg.inference import InferOptions, infer

    parser = ArgumentParser(
        prog=prog, description="Write the report of a study.", exit_on_error=False, allow_abbrev=False
    )
    parser.add_argument("--config", action=ActionConfigFile, help="YAML file of these keys")
    parser.add_class_arguments(InferOptions, fail_untyped=True)
    values = _parse(parser, plain_words(_with_found_config(argv)))
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
    from rarrg.evaluation import EvaluateOptions

    parser = ArgumentParser(
        prog=prog, description="Measure a model on unseen studies.", exit_on_error=False, allow_abbrev=False
    )
    parser.add_class_arguments(EvaluateOptions, fail_untyped=True)
    words = [
        "--baselines=true" if word == "--baselines" and after.startswith("-") else word
        for word, after in zip(argv, [*argv[1:], "--"], strict=False)
    ]
    return EvaluateOptions(**_parse(parser, words))


def _evaluate(argv: Sequence[str], prog: str) -> int:
    options = parse_evaluate(argv, prog)

    from rarrg.evaluation import evaluate

    _quiet_lightning()
    evaluate(options, lambda words: parse_train(words)[0], print)
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
    parser = ArgumentParser(
        prog=f"{prog} [{'|'.join(STEPS)}]", description=HELP, exit_on_error=False, allow_abbrev=False
    )
    parser.add_argument("--config", action=ActionConfigFile, help="YAML file of which data and extract are read")
    parser.add_class_arguments(ExtractOptions, fail_untyped=True)
    values = _parse(parser, plain_words(words, find_config))
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
    parser = ArgumentParser(
        prog=f"{prog} stats",
        description="Count the phrases of an extraction, or compare two.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("places", nargs="+", type=str, help="folder of an extraction, or file of key phrases; or two")
    stats(_parse(parser, argv)["places"], print)
    return 0


# What changes when the demo gets a real data set: less of everything an epoch costs.
IU_XRAY_DEMO = ["--data.source=iu_xray", "--data.batch_size=64", "--trainer.epochs=6", "--out=runs/demo_iu_xray"]


def _demo(argv: Sequence[str], prog: str) -> int:
    parser = ArgumentParser(
        prog=prog, description="Train on drawn studies and report one.", exit_on_error=False, allow_abbrev=False
    )
    parser.add_argument(
        "--data", type=str | None, default=None, help="IU X-Ray folder to use in place of drawn studies"
    )
    data = _parse(parser, argv)["data"]
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
    "extract": _extract,
    "phrases": _phrases,
    "demo": _demo,
}


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Run a command.

    Args:
        argv: Command and its options; None takes the process's.
        prog: Program name shown in a command's help; None shows ``rarrg COMMAND``.

    Returns:
        Exit status: the command's; 2 after a user's mistake, told in one line on standard error; 130 after Ctrl-C.
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
    except (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away, as `| head` does; keep the interpreter from failing once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
