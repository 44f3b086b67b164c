"""What a data set allows: whether its images and texts may leave the machine.

MIMIC-CXR is credentialed: PhysioNet's agreement forbids passing it to third parties, services included
(https://physionet.org/news/post/llm-responsible-use). A folder of any source becomes so with a file ``dataset.json``
that says ``{"credentialed": true}``.
"""

from __future__ import annotations

from pathlib import Path

from rarrg.artifacts import read_json, write_json
from rarrg.errors import RarrgError

CARD = "dataset.json"


def is_credentialed(source: str, root: Path | None) -> bool:
    """Whether the data of a source, or of a folder with a card, must stay on this machine.

    Args:
        source: ``mimic_cxr``, ``iu_xray`` or ``phantom``.
        root: The data folder.

    Raises:
        RarrgError: The folder's card does not say.
    """
    return source == "mimic_cxr" or (root is not None and (root / CARD).exists() and _says(root / CARD))


def carry_card(source: str, root: Path, folder: Path) -> None:
    """Write the card of what was made from a data set, beside it."""
    write_json(folder / CARD, {"source": source, "credentialed": is_credentialed(source, root)})


def carried(folder: Path) -> bool:
    """Whether a folder of :func:`carry_card` is credentialed.

    Raises:
        RarrgError: There is no card, or it does not say.
    """
    return _says(folder / CARD)


def _says(path: Path) -> bool:
    card = read_json(path)
    said = card.get("credentialed") if isinstance(card, dict) else None
    if not isinstance(said, bool):
        raise RarrgError(f'{path}: must say "credentialed": true or false')
    return said
