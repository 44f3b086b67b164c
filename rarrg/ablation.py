"""``rarrg ablate``: experiments that differ from a base configuration by a few keys, trained, evaluated and compared.

The output folder gets ``models/`` (one for each training that differs, and seed), ``EXPERIMENT/seed-N/`` (what
``rarrg evaluate`` writes), and a table named after the grid's file, ``GRID.csv`` and ``GRID.md``. What stands already,
made with the same keys, is not made again, and a training that broke off is resumed. Of a part of the grid the table is
``GRID-E7.csv`` and ``GRID-E7.md``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rarrg.ablation_table import Cell, as_markdown, beside_the_paper, cells_of
from rarrg.artifacts import read_json, write_csv, write_text
from rarrg.comparison import write_sentences
from rarrg.config import TrainConfig
from rarrg.errors import RarrgError, require
from rarrg.evaluated_reports import SCORES_OF_REPORTS
from rarrg.evaluation import EvaluateOptions, EvaluationData
from rarrg.evaluation_once import evaluate_once
from rarrg.later_keys import without_later
from rarrg.protocols import ProtocolName
from rarrg.scorers import RadGraphScorer
from rarrg.scoring import SCORES
from rarrg.training_once import train_once
from rarrg.writer_config import WriterConfig

SENTENCES = "sentences"


@dataclass(frozen=True)
class AblateOptions:
    """Which grid to run, and where.

    Args:
        config: YAML file of the grid.
        root: Folder of the data set.
        cache: Folder of caches, which all runs share.
        out: Folder of models and results.
        only: Experiments to run, as E7; none means all.
        protocol: What is reported on: studies, mimic-single (the paper's Table 8), mimic-multi, iu-promptmrg or
            iu-r2gen.
        chexbert: ``chexbert.pth``, its folder, or ``hub``; null leaves CheXbert out.
        radgraph: RadGraph as a measure of the reports.
        draws: Bootstrap resamples of the studies.
    """

    config: str = "ablation/iu_xray.yaml"
    root: str | None = None
    cache: str = "runs/cache"
    out: Path = Path("runs/ablation")
    only: list[str] = field(default_factory=list)
    protocol: ProtocolName = "studies"
    chexbert: str | None = None
    radgraph: RadGraphScorer = field(default_factory=RadGraphScorer)
    draws: int = 1000

    def __post_init__(self) -> None:
        require(self.draws >= 1, "draws", "at least 1", self.draws)


@dataclass(frozen=True)
class Experiment:
    """A row of the table.

    Attributes:
        name: As E7.
        about: What it is, in a few words.
        train: Keys of the training configuration that it changes, with dots.
        writer: Keys of the writer that it changes.
    """

    name: str
    about: str
    train: Mapping[str, Any]
    writer: Mapping[str, Any]


@dataclass(frozen=True)
class Grid:
    """What is trained and compared.

    Attributes:
        base: Configuration that the experiments change.
        against: Experiment that the others are compared with.
        seeds: Seeds of training.
        experiments: The rows, in their order.
    """

    base: str
    against: str
    seeds: tuple[int, ...]
    experiments: tuple[Experiment, ...]


def read_grid(path: Path) -> Grid:
    """Read a grid.

    Args:
        path: YAML of ``base``, ``against``, ``seeds`` and ``experiments``; an experiment has ``about`` and may have
            ``like`` (one above, whose training it takes), ``train`` and ``writer``.

    Raises:
        RarrgError: The file is no grid; the message names the experiment and key.
    """
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RarrgError(f"--config {path}: cannot be read as YAML") from error
    wanted = {"base": str, "against": str, "seeds": list, "experiments": dict}
    if not isinstance(given, dict) or set(given) != set(wanted):
        raise RarrgError(f"--config {path}: a grid has the keys {', '.join(wanted)}")
    for key, kind in wanted.items():
        if not isinstance(given[key], kind) or not given[key]:
            raise RarrgError(f"--config {path}: {key} must be a {kind.__name__} that is not empty")
    if not all(type(seed) is int for seed in given["seeds"]) or len(set(given["seeds"])) < len(given["seeds"]):
        raise RarrgError(f"--config {path}: seeds must be different whole numbers, got {given['seeds']}")
    found: dict[str, Experiment] = {}
    for name, row in given["experiments"].items():
        where = f"--config {path}: {name}"
        if not isinstance(row, dict) or not {"about"} <= set(row) <= {"about", "like", "train", "writer"}:
            raise RarrgError(f"{where} must have about, and may have like, train and writer")
        for key in ("train", "writer"):
            if not isinstance(row.get(key) or {}, dict):
                raise RarrgError(f"{where}: {key} must be keys and values, got {row[key]}")
        if "like" in row and str(row["like"]) not in found:
            raise RarrgError(f"{where} is like {row['like']}, which does not stand above it")
        like = found[row["like"]].train if "like" in row else {}
        found[name] = Experiment(name, str(row["about"]), {**like, **(row.get("train") or {})}, row.get("writer") or {})
    if given["against"] not in found:
        raise RarrgError(f"--config {path}: against names {given['against']}, which is no experiment")
    return Grid(given["base"], given["against"], tuple(given["seeds"]), tuple(found.values()))


def ablate(
    options: AblateOptions,
    find_config: Callable[[str], str],
    read_config: Callable[[Sequence[str]], TrainConfig],
    read_writer: Callable[[Sequence[str]], WriterConfig],
    say: Callable[[str], None],
) -> list[Cell]:
    """Run the ``ablate`` command.

    Args:
        options: What the user asked for.
        find_config: Finds a configuration file by its name.
        read_config: Reads a training configuration from words of the command line.
        read_writer: Reads a writer from such words.
        say: Takes each line meant for the user.

    Returns:
        The table's cells.

    Raises:
        RarrgError: The grid, a key of it, or the data cannot be used.
    """
    grid = read_grid(Path(find_config(options.config)))
    unknown = sorted(set(options.only) - {each.name for each in grid.experiments})
    if unknown:
        raise RarrgError(f"--only {unknown[0]}: no such experiment in {options.config}")
    chosen = [each for each in grid.experiments if not options.only or each.name in {*options.only, grid.against}]
    # All keys are read before anything is trained.
    planned = [
        (each, seed, _config(grid, each, seed, options, read_config), _writer(each, options, read_writer))
        for seed in grid.seeds
        for each in chosen
    ]
    folders: dict[str, list[Path]] = {}
    for each, seed, config, writer in planned:
        place = options.out / each.name / f"seed-{seed}"
        say(f"\n{each.name}, seed {seed}: {each.about}")
        model = _trained(config, options.out / "models")
        given = {key.name: getattr(writer, key.name) for key in dataclasses.fields(WriterConfig)}
        evaluation = EvaluateOptions(
            model=model,
            data=EvaluationData(root=config.data.root, cache=options.cache),
            protocol=options.protocol,
            chexbert=options.chexbert,
            radgraph=options.radgraph,
            out=place,
            draws=options.draws,
            **given,
        )
        evaluate_once(evaluation, read_config, say)
        folders.setdefault(each.name, []).append(place)
    cells = cells_of(folders, grid.against, options.draws)
    # Grids of the same base may share a folder, and with it models and evaluations; a part leaves the whole table.
    name = "-".join([Path(options.config).stem, *options.only])
    write_csv(options.out / f"{name}.csv", map(dataclasses.asdict, cells), [f.name for f in dataclasses.fields(Cell)])
    about = {each.name: each.about for each in chosen}
    scores = read_json(folders[grid.against][0] / SCORES_OF_REPORTS / SCORES)
    table = as_markdown(cells, about, grid.against, len(grid.seeds)) + beside_the_paper(list(about), scores)
    write_text(options.out / f"{name}.md", table)
    say(f"\n{table}\nwritten to {options.out / name}.md")
    return cells


def _config(
    grid: Grid,
    experiment: Experiment,
    seed: int,
    options: AblateOptions,
    read_config: Callable[[Sequence[str]], TrainConfig],
) -> TrainConfig:
    words = [f"--config={grid.base}", f"--seed={seed}", f"--data.cache={options.cache}", "--log.wandb=disabled"]
    words += [] if options.root is None else [f"--data.root={options.root}"]
    # values of train may themselves be objects
    words += [
        f"--{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in experiment.train.items()
    ]
    try:
        return read_config(words)
    except RarrgError as error:
        raise RarrgError(f"{options.config}, {experiment.name}: {error}") from error


def _writer(
    experiment: Experiment, options: AblateOptions, read_writer: Callable[[Sequence[str]], WriterConfig]
) -> WriterConfig:
    try:
        return read_writer(_words(experiment.writer))
    except RarrgError as error:
        raise RarrgError(f"{options.config}, {experiment.name}: writer: {error}") from error


def _words(given: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Keys of a file as words of the command line."""
    words: list[str] = []
    for key, value in given.items():
        if isinstance(value, Mapping):
            words += _words(value, f"{prefix}{key}.")
        else:
            words.append(f"--{prefix}{key}={value if isinstance(value, str) else json.dumps(value)}")
    return words


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _trained(config: TrainConfig, folder: Path) -> Path:
    """The model of a configuration, trained where it is not there yet."""
    out = folder / _digest({**without_later(dataclasses.asdict(config)), "out": None})
    phrases = config.data.phrases
    if phrases is not None and str(phrases) == SENTENCES:
        out.mkdir(parents=True, exist_ok=True)
        phrases = str(write_sentences(config, out / f"{SENTENCES}.jsonl"))
    return train_once(dataclasses.replace(config, out=str(out), data=dataclasses.replace(config.data, phrases=phrases)))
