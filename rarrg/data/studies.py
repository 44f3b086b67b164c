"""Studies of a configured source, with their key phrases, ready to be split into training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rarrg.config import DataConfig
from rarrg.data import iu_xray, mimic_cxr, phantom
from rarrg.errors import RarrgError
from rarrg.memory import no_collection
from rarrg.types import Split, Study, View


@dataclass(frozen=True, slots=True)
class Example:
    """One image and the key phrases of its study: what training draws (RA-RRG section 4.1.1 trains on all views).

    Attributes:
        view: The image.
        study_id: Its study.
        phrases: The study's key phrases.
    """

    view: View
    study_id: str
    phrases: tuple[str, ...]


@no_collection()
def read_studies(config: DataConfig, seed: int, images: bool = True) -> list[Study]:
    """Read the studies of a source, or draw them for ``phantom``.

    Args:
        config: The source.
        seed: Of drawn studies.
        images: The studies are wanted for their images; without, reports that have none are read too, where the source
            has such.

    Raises:
        RarrgError: The folder is missing or of another layout.
    """
    if config.source == "phantom":
        folder = Path(config.cache) / "phantom" / f"v{phantom.VERSION}-seed{seed}-{config.phantom_studies}"
        if (folder / "studies.jsonl").is_file():
            return phantom.read(folder)
        return phantom.draw_studies(folder, config.phantom_studies, seed)
    assert config.root is not None  # checked by DataConfig
    root = Path(config.root)
    if not root.is_dir():
        raise RarrgError(f"data.root: no folder {root}")
    return iu_xray.read(root, images) if config.source == "iu_xray" else mimic_cxr.read(root)


def examples_of(studies: Sequence[Study], splits: Sequence[Split], require_phrases: bool = True) -> list[Example]:
    """The images of the named splits.

    Args:
        studies: Studies with key phrases attached.
        splits: Splits to take.
        require_phrases: Leave out studies without key phrases. True for training and validation, never for test
            (RA-RRG section 4.1.2).

    Returns:
        One example an image, in the order of the studies.
    """
    return [
        Example(view, study.id, study.key_phrases)
        for study in studies
        if study.split in splits and (study.key_phrases or not require_phrases)
        for view in study.views
    ]
