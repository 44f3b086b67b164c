"""One training run, from a configuration to a model folder.

The run folder holds what the run needs and makes: ``train.yaml`` (the configuration), ``key_phrases.jsonl``,
``skipped.csv``, ``store/``, ``checkpoints/``, ``logs/``, ``sweep.csv`` and ``queries.csv`` (validation by threshold and
by query) and, once trained, the retriever itself (``model.safetensors``, ``config.yaml``, ``README.md``), so that it is
the folder that ``infer.py --model`` takes.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import uuid
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
import wandb
import yaml
from lightning.pytorch.callbacks import Callback, LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger, Logger, WandbLogger
from torch import Tensor

from rarrg import __version__
from rarrg.artifacts import sha256_of, write_json, write_text
from rarrg.config import LogConfig, TrainConfig
from rarrg.dashboard import QUERIES, SWEEP, Dashboard, Shown, Throughput
from rarrg.data.card import is_credentialed
from rarrg.data.datamodule import PhraseDataModule
from rarrg.data.sampling import rarity_weights
from rarrg.data.studies import Example
from rarrg.devices import device_name
from rarrg.errors import RarrgError
from rarrg.grouping import PhraseGroups, group_phrases
from rarrg.locking import LOCK, held
from rarrg.losses.criterion import Criterion
from rarrg.models.model_folder import ENCODERS, EVALUATION, keep_encoders
from rarrg.models.retriever import ModelInfo, PhraseRetriever
from rarrg.monitoring import PhraseTable, choose_offset, choose_threshold
from rarrg.preparation import Prepared, channel_statistics, prepare
from rarrg.processes import is_first, shared_training, strategy_of
from rarrg.resuming import CHECKPOINTS, bring_best, check_inputs, find_checkpoint, load_checkpoint
from rarrg.stopping import stoppable
from rarrg.training import BEST, LAST, Checkpoints, ProgressBar, RetrieverModule

log = logging.getLogger(__name__)

# Selection threshold of the figures that a run logs while its own is still to be chosen.
PROVISIONAL_THRESHOLD = 0.5
PHRASES_SHA256 = "phrases_sha256"
"""Key of the checksum of ``data.phrases`` in a model's ``training``."""
# What a run makes; removed when another starts in its folder, so that nothing of the two can mix.
PRODUCTS = (
    "model.safetensors",
    "config.yaml",
    "README.md",
    "manifest.json",
    "summary.json",
    "wandb_run.json",
    SWEEP,
    QUERIES,
    f"{CHECKPOINTS}/{LAST}",
    f"{CHECKPOINTS}/{BEST}",
)


def train(config: TrainConfig, ckpt_path: str | None = None) -> Path:
    """Train a phrase retriever.

    Args:
        config: The configuration.
        ckpt_path: ``last`` or the path of a checkpoint to resume from; None starts anew.

    Returns:
        The run folder.

    Raises:
        RarrgError: Data, encoders or the checkpoint are missing or do not fit the configuration, or another run writes
            to the run folder.
    """
    device = _device(config.trainer.accelerator)
    out = Path(config.out)
    checkpoint = find_checkpoint(out, config, ckpt_path)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RarrgError(f"out: {out} cannot be written ({error.strerror})") from error
    if any((out / ENCODERS).resolve() in Path(encoder.spec).resolve().parents for encoder in config.vision.encoders):
        raise RarrgError(f"out: {out} holds an encoder of vision.encoders, which training would remove; name another")
    # The others of one training run under the lock of the first.
    with held(out / LOCK, out) if is_first() else nullcontext():
        _train(config, device, out, checkpoint)
    log.info("model folder: %s", out)
    return out


def _train(config: TrainConfig, device: torch.device, out: Path, checkpoint: Path | None) -> None:
    prepared = prepare(config, device)
    if checkpoint is not None:
        check_inputs(checkpoint, prepared.encoder.fingerprint, prepared.data_fingerprint)
        if config.trainer.monitor == "loss" and is_first():
            bring_best(checkpoint, out / CHECKPOINTS)
    if is_first():
        # Only now, when everything a run needs has been found, does an earlier run in this folder give way.
        if checkpoint is None:
            for name in PRODUCTS:
                (out / name).unlink(missing_ok=True)
            for name in (ENCODERS, EVALUATION):
                shutil.rmtree(out / name, ignore_errors=True)
        write_text(out / "train.yaml", yaml.safe_dump(dataclasses.asdict(config), sort_keys=False))
        prepared.store.save(out / "store")
    train_images = prepared.splits["train"]
    L.seed_everything(config.seed, verbose=False)
    retriever = PhraseRetriever(prepared.encoder.channels_of, prepared.text.dim, config.retriever)
    if config.retriever.standardise:
        retriever.set_standardisation(*channel_statistics(prepared, device, config.seed))
    phrases = PhraseTable.of(list(prepared.phrases), prepared.table.numpy())
    groups = _groups(prepared, phrases, config)
    if groups is not None:
        retriever.set_anchors(torch.from_numpy(groups.anchors))
        if config.retriever.classifier:
            assert prepared.classifier is not None  # checked by TrainConfig
            retriever.set_classifier(prepared.classifier, torch.from_numpy(groups.finding))
    data = PhraseDataModule(
        train_images,
        prepared.splits["val"],
        prepared.phrases,
        prepared.read,
        config.data,
        _sampling_weights(prepared, phrases, config.data.balance),
        config.seed,
        config.trainer.limit_batches,
        config.trainer.devices,
        None if config.data.shuffle_window is None else prepared.shards(config.data.shuffle_window),
    )
    module = RetrieverModule(
        retriever,
        Criterion(
            config.loss,
            config.retriever.queries,
            config.loss.positives or prepared.phrases_per_image,
            None if groups is None else torch.from_numpy(groups.findings),
        ),
        phrases,
        None if groups is None else torch.from_numpy(groups.of_phrase),
        prepared.store,
        prepared.encoder if prepared.cache is None else None,
        config.optim,
        config.trainer.epochs * data.steps_per_epoch,
        PROVISIONAL_THRESHOLD if config.threshold is None else config.threshold,
        config.text.noise,
        config.seed,
        dataclasses.asdict(config),
        prepared.encoder.fingerprint,
        prepared.data_fingerprint,
    )
    dashboard = Dashboard(out, prepared.splits["val"], _shown(config), config.seed)
    trainer = _trainer(config, out, device, data.steps_per_epoch, dashboard, resumed=checkpoint is not None)
    with shared_training(config.trainer.devices), stoppable("go on with --ckpt_path last"):
        trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
    if config.trainer.monitor == "loss":
        module.load_state_dict(load_checkpoint(out / CHECKPOINTS / BEST)["state_dict"])

    if any(isinstance(logger, WandbLogger) for logger in trainer.loggers):
        wandb.finish()
    if groups is not None:
        retriever.set_offset(_adjustment(prepared, phrases, groups, config.retriever.logit_adjustment))
    summary = _summary(config, device, module, data, prepared.splits["test"], groups)
    write_json(out / "summary.json", summary)
    retriever.save_pretrained(
        out,
        ModelInfo(
            retriever=dataclasses.asdict(config.retriever),
            channels=prepared.encoder.channels_of,
            text_dim=prepared.text.dim,
            vision=_references(config, prepared, out),
            text=prepared.text.reference(),
            threshold=module.threshold,
            views=config.views,
            training={
                "data": config.data.source,
                "studies": len({example.study_id for example in train_images}),
                "images": len(train_images),
                "phrases": len(prepared.store.phrases),
                **({} if config.data.phrases is None else {PHRASES_SHA256: sha256_of(Path(config.data.phrases))}),
                "epochs": config.trainer.epochs,
                "seed": config.seed,
                "figures": summary,
                "device": device_name(device),
                "gpus": int(device.type == "cuda"),
                "versions": {"rarrg": __version__, "torch": str(torch.__version__), "lightning": L.__version__},
            },
        ),
    )


def _references(config: TrainConfig, prepared: Prepared, out: Path) -> list[dict[str, Any]]:
    references = prepared.encoder.references()
    if not config.vision.adapt.epochs:
        return references
    before = [encoder.spec for encoder in config.vision.encoders]
    return keep_encoders(out, references, [*[None] * (len(references) - len(before)), *before])


def _shown(config: TrainConfig) -> Shown:
    """What W&B may show of validation images."""
    root = None if config.data.root is None else Path(config.data.root)
    if config.log.log_images:
        if not is_credentialed(config.data.source, root):
            return "images"
        log.warning("log.log_images: off, since the data are credentialed")
    return "phrases" if config.log.log_phrases else None


def _groups(prepared: Prepared, phrases: PhraseTable, config: TrainConfig) -> PhraseGroups | None:
    if not config.retriever.anchors:
        return None
    counts = {phrase.text: phrase.count for phrase in prepared.store.phrases}
    return group_phrases(
        phrases.texts,
        [counts.get(text, 0) for text in phrases.texts],
        phrases.embeddings,
        phrases.findings,
        config.retriever.queries,
        config.seed,
    )


def _sampling_weights(prepared: Prepared, phrases: PhraseTable, balance: float) -> Tensor | None:
    if balance == 0:
        return None
    return rarity_weights(_findings(prepared, phrases), balance)


def _adjustment(prepared: Prepared, phrases: PhraseTable, groups: PhraseGroups, share: float) -> Tensor:
    """What the logits of queries that stand for a finding are moved by, float32 ``[queries]``."""
    affirmed = _findings(prepared, phrases)
    # A finding that all images have has no finite odds.
    odds = torch.logit(torch.from_numpy(affirmed.mean(axis=0)), eps=0.5 / len(affirmed))
    return torch.where(torch.from_numpy(groups.findings), -share * odds[groups.finding], 0.0).float()


def _findings(prepared: Prepared, phrases: PhraseTable) -> np.ndarray:
    """Findings that the phrases of each training image affirm, bool ``[images, findings]``."""
    rows = [np.array([prepared.phrases[text] for text in example.phrases]) for example in prepared.splits["train"]]
    return phrases.findings_of(rows)


def _device(accelerator: str) -> torch.device:
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise RarrgError("trainer.accelerator: cuda, but there is no GPU here; take cpu or auto")
    return torch.device("cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu")


def _precision(wanted: str, device: torch.device) -> Any:
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true"
    # Older versions of torch do not tell. AVX512-BF16 without AMX was half as fast as float32 on a Xeon, and on an EPYC
    # faster or slower by the decoder's width.
    known = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return "bf16-mixed" if known.get("amx_bf16") else "32-true"


def _trainer(
    config: TrainConfig, out: Path, device: torch.device, steps: int, dashboard: Dashboard, resumed: bool
) -> L.Trainer:
    log_every = min(config.log.every, steps)
    callbacks: list[Callback] = [
        # Its figures are waited for, which a GPU should not be at every step.
        ProgressBar(log_every if device.type == "cuda" else 1),
        LearningRateMonitor("step"),
        Throughput(log_every),
        dashboard,
        Checkpoints(out / CHECKPOINTS, config.trainer.checkpoint_every, config.trainer.monitor == "loss"),
    ]
    return L.Trainer(
        max_epochs=config.trainer.epochs,
        accelerator=device.type,
        devices=config.trainer.devices,
        strategy=strategy_of(config.trainer.devices),
        use_distributed_sampler=False,  # the data module deals the batches out
        precision=_precision(config.trainer.precision, device),
        gradient_clip_val=config.optim.clip,
        callbacks=callbacks,
        logger=_loggers(config, out, resumed),
        log_every_n_steps=log_every,
        enable_checkpointing=False,  # Checkpoints does it
        num_sanity_val_steps=0,
        enable_model_summary=False,
    )


def _loggers(config: TrainConfig, out: Path, resumed: bool) -> list[Logger]:
    loggers: list[Logger] = [CSVLogger(out, name="logs")]
    mode = _wandb_mode(config.log)
    if mode != "disabled":
        identity = out / "wandb_run.json"
        # Written before the run starts, so that a killed run goes on as the same one.
        if is_first() and not (resumed and identity.is_file()):
            write_json(identity, {"id": uuid.uuid4().hex[:8]})
        run = json.loads(identity.read_text(encoding="utf-8"))["id"]
        online = WandbLogger(
            name=out.name,
            save_dir=out,
            project=config.log.project,
            id=run,
            resume="allow",
            offline=mode == "offline",
            mode=mode,  # Lightning's `offline` alone comes too late once W&B has looked for a login
        )
        online.log_hyperparams(dataclasses.asdict(config))
        loggers.append(online)
    return loggers


def _wandb_mode(config: LogConfig) -> str:
    if config.wandb != "auto":
        return config.wandb
    return "online" if wandb.login(prompt=False, verify=False) else "offline"


def _summary(
    config: TrainConfig,
    device: torch.device,
    module: RetrieverModule,
    data: PhraseDataModule,
    test: Sequence[Example],
    groups: PhraseGroups | None,
) -> dict[str, Any]:
    """What the kept weights do, at a threshold chosen first where none was given: on validation and test images."""
    # A trainer of its own, so that these figures enter no log as if they were another epoch's.
    trainer = L.Trainer(
        accelerator=device.type,
        devices=1,
        precision=_precision(config.trainer.precision, device),
        callbacks=[ProgressBar()],
        logger=False,
        enable_model_summary=False,
    )
    if config.threshold is None:
        trainer.validate(module, data, verbose=False)
        studies = [example.study_id for example in data.val.examples]
        together = config.views == "together"
        module.threshold = choose_threshold(module.validation, module.phrases, studies, together)
        if groups is not None:
            offset = choose_offset(module.validation, groups, module.threshold, studies, together)
            others = torch.from_numpy(~groups.findings).float()
            module.retriever.set_offset(module.retriever.offset + offset * others.to(module.retriever.offset))
    figures: dict[str, Any] = {"threshold": module.threshold}
    figures |= {
        name: round(float(value), 4) for name, value in trainer.validate(module, data, verbose=False)[0].items()
    }
    if test:
        retrieved = [ids for batch in trainer.predict(module, data.test_loader(test)) or [] for ids in batch]
        figures["test/images"] = len(retrieved)
        figures["test/distinct_phrases"] = len(np.unique(np.concatenate(retrieved)))
        figures["test/phrases_per_image"] = round(sum(map(len, retrieved)) / len(retrieved), 4)
        figures["test/distinct_phrase_sets"] = len({tuple(ids) for ids in retrieved})
    for name, value in figures.items():
        log.info("%s: %s", name, value)
    return figures
