"""``rarrg reproduce``: from reports and images to the paper's table beside one's own, in one command.

Extraction (where the configuration has a section ``extract`` and names no phrases), training, and an evaluation for
each protocol of the data set; each is taken up where it stands already. The output folder gets ``extraction/``,
``model/``, ``PROTOCOL/`` (what ``rarrg evaluate`` writes), ``reproduce.md`` and ``reproduce.csv``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from rarrg.artifacts import read_json, write_csv, write_text
from rarrg.config import TrainConfig
from rarrg.errors import RarrgError, require
from rarrg.evaluated_reports import SCORES_OF_REPORTS
from rarrg.evaluation import EvaluateOptions, EvaluationData
from rarrg.evaluation_once import evaluate_once
from rarrg.extract.key_phrases import KEY_PHRASES
from rarrg.extraction import ExtractOptions, extract
from rarrg.protocols import ProtocolName
from rarrg.score_tables import JOINED, comparable, paper_figures
from rarrg.scorers import RadGraphScorer
from rarrg.scoring import SCORES, SHOWN
from rarrg.training_once import train_once
from rarrg.writer_config import WriterConfig

PROTOCOLS: dict[str, tuple[ProtocolName, ...]] = {"mimic_cxr": ("mimic-single", "mimic-multi"), "iu_xray": ("studies",)}
Verdict = Literal["within the interval", "above", "below", "not measured", "not comparable"]


@dataclass(frozen=True)
class ReproduceData:
    """The data set.

    Args:
        root: Its folder.
    """

    root: str | None = None


@dataclass(frozen=True)
class ReproduceOptions(WriterConfig):
    """What to reproduce, and how reports are written.

    Args:
        config: Training configuration, a file or a name in configs/.
        data: The data set.
        out: Folder of everything that is made.
        cache: Folder of caches.
        chexbert: ``chexbert.pth``, its folder, or ``hub``; null leaves CheXbert out.
        radgraph: RadGraph as a measure of the reports.
        draws: Bootstrap resamples.
    """

    config: str = "mimic.yaml"
    data: ReproduceData = field(default_factory=ReproduceData)
    out: Path = Path("runs/reproduce")
    cache: str = "runs/cache"
    chexbert: str | None = None
    radgraph: RadGraphScorer = field(default_factory=RadGraphScorer)
    draws: int = 1000

    def __post_init__(self) -> None:
        require(self.draws >= 1, "draws", "at least 1", self.draws)


@dataclass(frozen=True)
class Compared:
    """A figure of the paper and one's own.

    Attributes:
        protocol: What both are over.
        measure: Its name.
        paper: The paper's, in percent; None where it has none for this protocol.
        value: One's own, in percent; None where it was not measured.
        low: Lower end of its 95 % interval.
        high: Upper end.
        verdict: Where one's own lies: the paper's figure is within its interval, or it is above or below the paper's.
    """

    protocol: str
    measure: str
    paper: float | None
    value: float | None
    low: float | None
    high: float | None
    verdict: Verdict


def reproduce(
    options: ReproduceOptions,
    find_config: Callable[[str], str],
    read_config: Callable[[Sequence[str]], TrainConfig],
    read_extract: Callable[[Sequence[str]], ExtractOptions],
    say: Callable[[str], None],
) -> list[Compared]:
    """Run the ``reproduce`` command.

    Args:
        options: What the user asked for.
        find_config: Finds a configuration file by its name.
        read_config: Reads a training configuration from words of the command line.
        read_extract: Reads options of extraction from words of the command line.
        say: Takes each line meant for the user.

    Returns:
        The figures.

    Raises:
        RarrgError: Data, configuration, weights or a model are missing or do not fit.
    """
    path = find_config(options.config)
    words = [f"--config={path}", f"--out={options.out / 'model'}", f"--data.cache={options.cache}"]
    words += [] if options.data.root is None else [f"--data.root={options.data.root}"]
    config = read_config(words)
    if config.data.source not in PROTOCOLS:
        raise RarrgError(f"{options.config}: data.source {config.data.source} has no reports of patients to reproduce")
    if config.data.phrases is None and "extract" in yaml.safe_load(Path(path).read_text(encoding="utf-8")):
        say("\nkey phrases")
        folder = options.out / "extraction"
        extract("", read_extract([f"--config={path}", f"--data.root={config.data.root}", f"--out={folder}"]), say)
        data = dataclasses.replace(config.data, phrases=str(folder / KEY_PHRASES))
        config = dataclasses.replace(config, data=data)
    say("\ntraining")
    model = train_once(config)
    paper = paper_figures()
    compared: list[Compared] = []
    for protocol in PROTOCOLS[config.data.source]:
        say(f"\n{protocol}")
        evaluation = _evaluation(options, config, model, protocol)
        scores = read_json(evaluate_once(evaluation, read_config, say) / SCORES_OF_REPORTS / SCORES)
        compared += compare_with_paper(paper, protocol, scores, options.writer)
    write_csv(
        options.out / "reproduce.csv", map(dataclasses.asdict, compared), [f.name for f in dataclasses.fields(Compared)]
    )
    table = as_markdown(compared, options)
    write_text(options.out / "reproduce.md", table)
    say(f"\n{table}\nwritten to {options.out}")
    return compared


def compare_with_paper(
    paper: Mapping[str, Any], protocol: str, scores: Mapping[str, Any], writer: str
) -> list[Compared]:
    """Put the paper's figures beside one's own.

    Args:
        paper: The quoted figures.
        protocol: The protocol of the scores.
        scores: What ``scores.json`` holds.
        writer: Who wrote the reports: figures of joined phrases are put beside the paper's of joined phrases (Table 8,
            E10), those of a language model beside Tables 1 to 3.
    """
    ablation = paper["ablation"]
    joined = {ablation["protocol"]: ablation["values"][JOINED]}
    written = {each["protocol"]: each["values"] for each in paper["headline"]}
    quoted: Mapping[str, float] = (joined if writer == "join" else written).get(protocol, {})
    whole = bool(quoted) and comparable(scores, protocol)
    measured = scores["scopes"]["all"]
    rows = []
    for measure in dict.fromkeys([*quoted, *(name for name in SHOWN if name in measured)]):
        theirs, found = quoted.get(measure), measured.get(measure)
        if found is None:
            rows.append(Compared(protocol, measure, theirs, None, None, None, "not measured"))
            continue
        value, low, high = (100 * found[end] for end in ("value", "low", "high"))
        verdict: Verdict = "not comparable"
        if theirs is not None and whole:
            verdict = "within the interval" if low <= theirs <= high else "above" if value > theirs else "below"
        rows.append(Compared(protocol, measure, theirs, value, low, high, verdict))
    return rows


def as_markdown(compared: Sequence[Compared], options: ReproduceOptions) -> str:
    """The table, a figure a row, and what it compares.

    Args:
        compared: Of :func:`compare_with_paper`.
        options: How the reports were written.
    """
    lines = ["| protocol | measure | paper, quoted | here | 95 % interval | verdict |", "|---|---|---|---|---|---|"]
    for row in compared:
        quoted = "-" if row.paper is None else f"{row.paper:.1f}"
        here = "-" if row.value is None else f"{row.value:.1f}"
        interval = "-" if row.low is None or row.high is None else f"{row.low:.1f} to {row.high:.1f}"
        lines.append(f"| {row.protocol} | {row.measure} | {quoted} | {here} | {interval} | {row.verdict} |")
    if options.writer == "join":
        what = "Phrases are joined; beside them stands the paper's experiment of joined phrases (Table 8, E10)."
    else:
        what = "A language model wrote the reports; beside them stand Tables 1 and 3, which GPT-4o wrote."
    if options.resolve != "nothing":
        what += f" Phrases that contradict were dropped (resolve: {options.resolve}), which the paper does not do."
    lines += [
        "",
        f"{what} Table 2 is of another data set and not run here: rarrg evaluate --model {options.out / 'model'} "
        "--protocol iu-promptmrg --data.root DIR.",
        "",
        "In percent. Within the interval: the paper's figure lies in the interval of ours. Above, below: ours is. Not "
        "comparable: the paper has no such figure, or one of other samples.",
    ]
    return "\n".join(lines) + "\n"


def _evaluation(options: ReproduceOptions, config: TrainConfig, model: Path, protocol: ProtocolName) -> EvaluateOptions:
    writer = {key.name: getattr(options, key.name) for key in dataclasses.fields(WriterConfig)}
    return EvaluateOptions(
        model=model,
        data=EvaluationData(root=config.data.root, cache=options.cache),
        protocol=protocol,
        chexbert=options.chexbert,
        radgraph=options.radgraph,
        out=options.out / protocol,
        draws=options.draws,
        **writer,
    )
