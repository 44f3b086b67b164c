"""The folder that a trained retriever is kept in, and its way to and from the Hugging Face hub.

``model.safetensors`` (weights), ``config.yaml`` (:class:`ModelInfo`), ``README.md`` (model card), ``encoders/`` (image
encoders that were adapted, which are published nowhere else) and ``manifest.json`` (format version and checksums).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from huggingface_hub import HfApi, ModelCard, ModelCardData, snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from rarrg.artifacts import MANIFEST, Manifest, atomic_write, sha256_of, write_text, writing
from rarrg.config import EncoderConfig
from rarrg.errors import RarrgError
from rarrg.hub import LOAD_ERRORS, first_line, unavailable

NAME = "phrase-retriever"
VERSION = 1
WEIGHTS = "model.safetensors"
CONFIG = "config.yaml"
CARD = "README.md"
ENCODERS = "encoders"
EVALUATION = "evaluation"
"""Where ``rarrg evaluate`` writes unless told otherwise."""
_UPLOADED = (WEIGHTS, CONFIG, CARD, MANIFEST, f"{ENCODERS}/*")
# Encoders known to be under Apache-2.0, besides the packaged ones.
_APACHE = (
    "hf:StanfordAIMI/dinov2-base-xray-224",
    "sentence-transformers/all-mpnet-base-v2",
    "sentence-transformers/all-MiniLM-L6-v2",
)
_DATA_LICENCES = {
    "mimic_cxr": "MIMIC-CXR, under the PhysioNet credentialed data use agreement",
    "iu_xray": "IU X-Ray, published on Open-i under CC BY-NC-ND 4.0",
}
_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")


@dataclass(frozen=True)
class ModelInfo:
    """What belongs to a retriever besides its weights. Plain values only: numbers, strings, lists, dicts.

    Attributes:
        retriever: Fields of the ``RetrieverConfig``.
        channels: Channels of each image encoder.
        text_dim: Dimension of the text embeddings.
        vision: References of the image encoders, in the order of their channels. The ``spec`` of an adapted one is its
            place in the model folder, and ``adapted_from`` says what it was.
        text: Reference of the text encoder.
        threshold: Selection probability above which a query retrieves its phrase.
        views: ``together`` where the views of a study select phrases by the mean of their probabilities, or ``apart``.
        training: Data, counts, epochs, seed, figures and versions, for the model card.
    """

    retriever: dict[str, Any]
    channels: list[int]
    text_dim: int
    vision: list[dict[str, Any]]
    text: dict[str, Any]
    threshold: float
    views: str = "apart"
    training: dict[str, Any] = field(default_factory=dict)


def write_model(folder: Path, weights: Mapping[str, Tensor], info: ModelInfo) -> None:
    """Write a model folder, or another model into it.

    All files are written before the first of an earlier model is replaced, and the manifest is what makes them a model:
    it goes first and comes last, so that no moment shows files of two.

    Raises:
        RarrgError: The folder cannot be written to; an earlier model is as it was.
    """
    tensors = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    size = sum(value.numel() for value in weights.values())
    adapted = sorted(path for path in (folder / ENCODERS).rglob("*") if path.is_file())
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".model-", suffix=".tmp", dir=folder) as place:
            made = Path(place)
            # Not save_file, whose errors are no OSError.
            (made / WEIGHTS).write_bytes(save(tensors))
            write_text(made / CONFIG, yaml.safe_dump(asdict(info), sort_keys=False, allow_unicode=True))
            write_text(made / CARD, model_card(folder.resolve().name, info, size))
            # The card is left out: its words may be changed.
            manifest = Manifest.of(made, NAME, VERSION, [WEIGHTS, CONFIG], {"vision": info.vision, "text": info.text})
            manifest.sha256.update({path.relative_to(folder).as_posix(): sha256_of(path) for path in adapted})
            manifest.save(made)
            (folder / MANIFEST).unlink(missing_ok=True)
            for name in (WEIGHTS, CONFIG, CARD, MANIFEST):
                (made / name).replace(folder / name)


def weights_checksum(folder: Path) -> str:
    """SHA-256 of a model's weights, by its manifest, which :func:`read_model` has compared with the file."""
    return Manifest.load(folder, NAME, VERSION).sha256[WEIGHTS]


def read_model(folder: Path) -> tuple[dict[str, Tensor], ModelInfo]:
    """Read a model folder.

    Raises:
        RarrgError: A file is missing or changed, or the folder is of another format version.
    """
    if not (folder / MANIFEST).is_file():
        raise RarrgError(
            f"{folder}: holds no trained model, or one whose writing was cut short (no {MANIFEST}); train one with "
            "python train.py"
        )
    manifest = Manifest.load(folder, NAME, VERSION)
    if unlisted := {WEIGHTS, CONFIG} - set(manifest.sha256):
        raise RarrgError(f"{folder / MANIFEST}: does not list {', '.join(sorted(unlisted))}; train the model again")
    manifest.verify(folder)
    try:
        info = ModelInfo(**yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8")))
    except (TypeError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RarrgError(f"{folder / CONFIG}: is not a model's configuration ({first_line(error)})") from error
    try:
        return load_file(folder / WEIGHTS), info
    except SafetensorError as error:
        raise RarrgError(f"{folder / WEIGHTS}: is no safetensors file ({first_line(error)})") from error


def keep_encoders(
    folder: Path, references: Sequence[Mapping[str, Any]], adapted_from: Sequence[str | None]
) -> list[dict[str, Any]]:
    """Copy adapted encoders into a model folder.

    Args:
        folder: The model folder.
        references: Of the encoders; the spec of an adapted one is its folder.
        adapted_from: What each was before, None for one that was not adapted.

    Returns:
        The references, those of adapted encoders to their copies.
    """
    kept = []
    for reference, before in zip(references, adapted_from, strict=True):
        if before is None:
            kept.append(dict(reference))
            continue
        source = Path(reference["spec"])
        spec = f"{ENCODERS}/{source.name}"
        for path in source.rglob("*"):
            place = path.relative_to(source)
            if path.is_file() and "logs" not in place.parts:
                with atomic_write(folder / spec / place) as temporary:
                    shutil.copy(path, temporary)
        kept.append({**reference, "spec": spec, "adapted_from": before})
    return kept


def encoders_of(folder: Path, info: ModelInfo) -> list[EncoderConfig]:
    """The image encoders of a model, in the order of their channels, adapted ones where the folder has them."""
    return [
        EncoderConfig(
            str(folder / reference["spec"]) if "adapted_from" in reference else reference["spec"],
            reference["size"],
            reference["revision"],
            reference["stages"],
        )
        for reference in info.vision
    ]


def model_folder(model: str | Path, revision: str | None = None) -> Path:
    """Local folder of a model: the folder itself, or the download of a model on the Hugging Face hub.

    Args:
        model: A folder, or ``ORG/NAME``.
        revision: Commit, branch or tag on the hub.

    Raises:
        RarrgError: There is no such folder, and no such model on the hub.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    owner, _, name = str(model).partition("/")
    # A folder that is not there yet, as runs/demo, must not be looked for on the hub.
    local = isinstance(model, Path) or not name or "/" in name or owner in ("", ".", "..", "~", "runs")
    if local or Path(owner).is_dir():
        raise RarrgError(
            f"{model}: no such folder; train a model with python train.py, or name one on the hub: ORG/NAME"
        )
    try:
        found = snapshot_download(str(model), revision=revision, allow_patterns=[*_UPLOADED, "store/*"])
    except LOAD_ERRORS as error:
        raise unavailable(str(model), error, "the folder of a model trained with python train.py") from error
    return Path(found)


def upload_model(folder: Path, repo_id: str, private: bool) -> str:
    """Upload a model folder's weights, configuration, card, manifest and adapted encoders to the Hugging Face hub.

    A phrase store beside them stays where it is: it holds wording of the training reports.

    Args:
        folder: The model folder.
        repo_id: ``ORG/NAME``; made where it does not exist.
        private: Make a new repository private.

    Returns:
        The model's address.

    Raises:
        RarrgError: The hub refuses, as without a login.
    """
    api = HfApi()
    try:
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            allow_patterns=list(_UPLOADED),
            delete_patterns=[f"{ENCODERS}/*"],  # those of an earlier upload
            commit_message="Upload phrase retriever",
        )
    except LOAD_ERRORS as error:
        raise RarrgError(
            f"{repo_id}: cannot be uploaded ({first_line(error)}); log in with hf auth login and a token that may write"
        ) from error
    return str(address)


def model_card(name: str, info: ModelInfo, size: int) -> str:
    """The model card: what the model is, data, figures, encoders, licence, use.

    Args:
        name: Title.
        info: The model's configuration.
        size: Number of values in the weights file.
    """
    vision = (str(encoder.get("adapted_from", encoder["spec"])) for encoder in info.vision)
    encoders = [*vision, str(info.text["encoder"])]
    non_commercial = any("xrayclip" in encoder.lower() for encoder in encoders)
    known = all(encoder in _APACHE or encoder.startswith("packaged:") for encoder in encoders)
    data = ModelCardData(
        license="cc-by-nc-4.0" if non_commercial else "apache-2.0" if known else "other",
        library_name="rarrg",
        pipeline_tag="image-to-text",
        tags=["radiology", "chest-x-ray", "report-generation", "retrieval"],
    )
    card = ModelCard.from_template(
        data,
        template_path=str(_TEMPLATE),
        name=name,
        info=asdict(info),
        size=size,
        licence=data.license,
        data_licence=_DATA_LICENCES.get(info.training.get("data", "")),
    )
    return str(card)
