"""What ``rarrg evaluate`` does: a trained model on studies it has not seen, alone or beside its baselines.

The output folder gets ``metrics.json`` (study level), ``metrics.csv`` (study level and per view), ``findings.csv`` (the
confusion of each finding), ``predictions.jsonl`` (what was said of each study), ``sweep.csv`` (other thresholds),
``cost.json``, ``skipped.csv`` and, with baselines, ``leads.csv`` (the model minus each other system). The reports and
their scores are those of :mod:`rarrg.evaluated_reports`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rarrg.adapt_config import AdaptConfig
from rarrg.artifacts import write_csv, write_json, write_jsonl
from rarrg.comparison import Outputs, baseline_outputs, probe_outputs, retrieve, spoken
from rarrg.config import TrainConfig
from rarrg.cost import Trained, cost_of, cost_tables, training_hours
from rarrg.data.evaluation_set import SCOPES, EvaluationSet, evaluation_set, set_of_every_image
from rarrg.data.screening import screen_images, write_skipped
from rarrg.errors import RarrgError
from rarrg.evaluated_reports import looked_at, score_reports, write_reports
from rarrg.evaluation_files import Results, as_table, predictions, write_figures
from rarrg.extract.key_phrases import KEY_PHRASES, read_key_phrases, with_key_phrases
from rarrg.extract.reports import reports_of
from rarrg.extract.rules_step import extract_with_rules
from rarrg.metrics.bootstrap import weights_by_group
from rarrg.metrics.findings import positive_findings
from rarrg.metrics.systems import SystemOutput, lead, measure
from rarrg.models.model_folder import EVALUATION, ModelInfo, model_folder, read_model
from rarrg.models.text import embed_phrases, load_text_encoder
from rarrg.pipeline import ReportGenerator
from rarrg.protocols import Protocol, ProtocolName, samples_of, training_reports
from rarrg.scorers import RadGraphScorer, ScorerConfig, Scorers
from rarrg.threshold_sweep import lowest, sweep, sweep_table
from rarrg.types import Split
from rarrg.writer_config import WriterConfig

log = logging.getLogger(__name__)

OURS = "ours"


@dataclass(frozen=True)
class EvaluationData:
    """The studies to evaluate on.

    Args:
        root: Folder of the data set.
        source: iu_xray, mimic_cxr or phantom; null takes the source that the model was trained on.
        phrases: JSONL of reference key phrases; null runs the rule-based extractor on the findings.
        cache: Folder of cached features.
        max_bad_images: Share of unreadable images above which the run stops; below it they are listed in skipped.csv.
    """

    root: str | None = None
    source: Literal["iu_xray", "mimic_cxr", "phantom"] | None = None
    phrases: Path | None = None
    cache: str = "runs/cache"
    max_bad_images: float = 0.01


@dataclass(frozen=True)
class TrainingData:
    """The studies that the model was trained on, which the baselines need.

    Args:
        root: Their folder; null takes the one the model was trained from.
    """

    root: str | None = None


@dataclass(frozen=True)
class EvaluateOptions(WriterConfig):
    """What to evaluate, how reports are written, and where the results go.

    Args:
        model: Model folder.
        data: The studies to evaluate on.
        train: The studies that the model was trained on.
        protocol: What is reported on: studies, mimic-single, mimic-multi, iu-promptmrg or iu-r2gen.
        chexbert: ``chexbert.pth``, its folder, or ``hub``; null leaves CheXbert out.
        radgraph: RadGraph as a measure of the reports.
        split: Split to evaluate on; of a protocol other than studies the test split.
        baselines: Compare with frequent phrases, the nearest training image, a model of whole sentences, the paper's
            losses as printed, and a linear probe. The two models are trained once and kept in MODEL/baselines. On the
            command line --baselines alone means true.
        parity: Configuration with the paper's losses.
        out: Folder of the results; null takes MODEL/evaluation.
        threshold: Selection probability in (0, 1); null takes the model's.
        device: auto (a GPU if there is one), cpu, cuda or cuda:INDEX.
        draws: Bootstrap resamples of the studies.
        seed: Seed of the resamples.
    """

    model: Path = Path("runs/iu_xray")
    data: EvaluationData = field(default_factory=EvaluationData)
    train: TrainingData = field(default_factory=TrainingData)
    protocol: ProtocolName = "studies"
    chexbert: str | None = None
    radgraph: RadGraphScorer = field(default_factory=RadGraphScorer)
    split: Split = "test"
    baselines: bool = False
    parity: str = "ablation/iu_xray_parity.yaml"
    out: Path | None = None
    threshold: float | None = None
    device: str = "auto"
    draws: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise RarrgError(f"draws: must be at least 1, got {self.draws}")


def evaluate(
    options: EvaluateOptions, read_config: Callable[[Sequence[str]], TrainConfig], say: Callable[[str], None]
) -> Results:
    """Run the ``evaluate`` command.

    Args:
        options: What the user asked for.
        read_config: Reads a training configuration from words of the command line.
        say: Takes each line meant for the user.

    Returns:
        The measured figures, as they were written.

    Raises:
        RarrgError: Model, data or configuration are missing or do not fit, or no study of the split has findings.
    """
    folder = model_folder(options.model)
    _, info = read_model(folder)
    training = folder / "train.yaml"
    if not training.is_file():
        raise RarrgError(f"{training}: is missing; evaluate a model folder as train.py left it")
    trained = read_config([f"--config={training}"])
    out = options.out or folder / EVALUATION
    cache = Path(options.data.cache)
    writer = _with_cache(options, out)
    replies = writer.llm.cache if writer.writer == "llm" else None
    kept = replies is not None and Path(replies).exists()
    generator = ReportGenerator.from_pretrained(
        folder, threshold=options.threshold, device=options.device, writer=writer
    )
    scorers = Scorers(ScorerConfig(options.chexbert, options.radgraph), str(generator.device))
    evaluated, protocol = _evaluation_set(options, trained, out)

    low = retrieve(generator, evaluated, cache, lowest(generator.threshold))
    found = low.above(generator.threshold)
    systems = {OURS: spoken(evaluated, found.texts())}
    if options.baselines:
        config = _baseline_config(trained, options, folder / "baselines")
        paper = read_config([f"--config={options.parity}", f"--data.root={config.data.root}"])
        systems |= baseline_outputs(evaluated, config, parity_of(config, paper), generator.device)
        if trained.vision.adapt.epochs:
            own = dataclasses.replace(config, vision=trained.vision)
            systems["adapted_probe"] = probe_outputs(evaluated, own, generator.device)
    reference = _reference(evaluated)

    encoder = load_text_encoder(info.text["encoder"], info.text["revision"])
    texts = sorted(_phrases([reference, *systems.values()]))
    embeddings = dict(zip(texts, embed_phrases(encoder, texts, cache / "phrases").numpy(), strict=True))
    results: Results = {}
    leads: list[dict[str, Any]] = []
    group_of = {sample.id: sample.group for sample in protocol.samples}
    for scope in SCOPES:
        groups = [group_of[evaluated.studies[index].id] for index, _ in evaluated.members[scope]]
        if not groups:
            continue
        weights = weights_by_group(groups, options.draws, options.seed)
        truth = reference[scope]
        results[scope] = {name: measure(said[scope], truth, embeddings, weights) for name, said in systems.items()}
        for name, said in systems.items():
            if name != OURS:
                ahead = lead(systems[OURS][scope], said[scope], truth, weights)
                leads += [{"scope": scope, "over": name, "measure": key, **ahead[key]._asdict()} for key in ahead]
        say(f"\n{scope}: {len(groups)} studies")
        for line in as_table(results[scope]):
            say(line)

    write_figures(out, results, leads, systems, reference)
    write_jsonl(out / "predictions.jsonl", predictions(evaluated, found.in_study, systems[OURS], reference))
    swept = sweep(evaluated, low, reference["study"], generator.threshold)
    write_csv(out / "sweep.csv", swept, list(swept[0]))
    studies = looked_at(generator, evaluated, found.in_study)
    writing = write_reports(generator, studies, out, timed=not kept)
    cost = cost_of(generator, evaluated, _trained(folder, trained, info), writing)
    write_json(out / "cost.json", dataclasses.asdict(cost))
    score_reports(
        generator,
        studies,
        protocol,
        scorers,
        out,
        say,
        options.draws,
        options.seed,
        [sweep_table(swept), *cost_tables(cost)],
    )
    say(f"\nthreshold {generator.threshold:g}; written to {out}")
    return results


def _baseline_config(trained: TrainConfig, options: EvaluateOptions, folder: Path) -> TrainConfig:
    data = dataclasses.replace(
        trained.data, root=options.train.root or trained.data.root, cache=options.data.cache, cache_features=True
    )
    return dataclasses.replace(
        trained,
        out=str(folder),
        data=data,
        # What a user has who adapts nothing; the probe of the adapted encoders stands beside.
        vision=dataclasses.replace(trained.vision, adapt=AdaptConfig()),
        retriever=dataclasses.replace(
            trained.retriever, classifier=False, reads=None if trained.vision.adapt.keep else trained.retriever.reads
        ),
        log=dataclasses.replace(trained.log, wandb="disabled"),
    )


def parity_of(config: TrainConfig, paper: TrainConfig) -> TrainConfig:
    """The paper's losses on the studies, phrases and encoders of a model.

    Args:
        config: What the model was trained with.
        paper: A configuration with the paper's losses, of which sampling, decoder, losses, optimiser, choice of
            weights, threshold and views are taken.
    """
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, balance=paper.data.balance),
        retriever=paper.retriever,
        loss=paper.loss,
        optim=paper.optim,
        trainer=dataclasses.replace(config.trainer, epochs=paper.trainer.epochs, monitor=paper.trainer.monitor),
        threshold=paper.threshold,
        views=paper.views,
    )


def _with_cache(options: EvaluateOptions, out: Path) -> WriterConfig:
    """The writer; a language model's replies are kept in the output folder, so that a run that broke off goes on."""
    if options.writer == "join" or options.llm.cache is not None:
        return options
    out.mkdir(parents=True, exist_ok=True)
    return dataclasses.replace(options, llm=dataclasses.replace(options.llm, cache=str(out / "replies.sqlite")))


def _evaluation_set(options: EvaluateOptions, trained: TrainConfig, out: Path) -> tuple[EvaluationSet, Protocol]:
    """Studies with findings, their reference phrases, and which of their images can be read; the protocol's samples."""
    data = dataclasses.replace(
        trained.data,
        source=options.data.source or trained.data.source,
        root=options.data.root or trained.data.root,
        cache=options.data.cache,
    )
    split, protocol = samples_of(options.protocol, data, options.split, trained.seed)
    training = dataclasses.replace(trained.data, root=options.train.root or trained.data.root)
    protocol = protocol.looked_up_in(training_reports(training, trained.seed))
    studies = [study for study in split if study.findings]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RarrgError(f"--out {out}: cannot be written ({error.strerror})") from error
    phrases = options.data.phrases
    if phrases is None:
        phrases = out / KEY_PHRASES
        extract_with_rules(lambda: reports_of(studies), phrases)
        given = read_key_phrases(phrases)
    else:
        given = _of_samples(read_key_phrases(phrases), protocol, phrases)
    studies = with_key_phrases(studies, given)
    views = [view for study in studies for view in study.views]
    faults = screen_images(views, Path(data.cache) / "screened.jsonl")
    write_skipped(out / "skipped.csv", views, faults, options.data.max_bad_images)
    evaluated = (evaluation_set if protocol.name == "studies" else set_of_every_image)(studies, faults)
    if not evaluated.studies:
        raise RarrgError(f"data.root: no {options.split} study has a readable frontal or lateral image")
    log.info(
        "%d of %d %s studies: %d have no findings, %d no readable frontal or lateral image",
        len(evaluated.studies),
        len(split),
        options.split,
        len(split) - len(studies),
        len(studies) - len(evaluated.studies),
    )
    return evaluated, protocol


def _of_samples(given: Mapping[str, tuple[str, ...]], protocol: Protocol, path: Path) -> dict[str, tuple[str, ...]]:
    """Key phrases of studies by the ids of their samples."""
    found = {
        sample.id: given[name]
        for sample in protocol.samples
        for name in [sample.study if sample.study in given else sample.id]
        if name in given
    }
    if not any(found.values()):
        raise RarrgError(
            f"data.phrases: {path} has phrases of none of the {len(protocol.samples)} samples of {protocol.name}; its "
            "study_id must be those of the data set"
        )
    if len(found) < len(protocol.samples):
        log.warning("%s: has no entry of %d samples", path, len(protocol.samples) - len(found))
    return found


def _trained(folder: Path, trained: TrainConfig, info: ModelInfo) -> Trained:
    hours = training_hours(folder, trained, info.training.get("images"))
    return Trained(info.training.get("device"), info.training.get("gpus"), hours)


def _reference(evaluated: EvaluationSet) -> Outputs:
    """What the reports say: findings of the whole text, and its key phrases."""
    findings = positive_findings([study.findings for study in evaluated.studies])
    outputs: Outputs = {}
    for scope in SCOPES:
        rows = [study for study, _ in evaluated.members[scope]]
        outputs[scope] = SystemOutput(findings[rows], [evaluated.studies[row].key_phrases for row in rows])
    return outputs


def _phrases(systems: Sequence[Outputs]) -> set[str]:
    return {
        phrase for outputs in systems for output in outputs.values() for said in output.phrases or () for phrase in said
    }
