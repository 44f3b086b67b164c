"""A DICOM radiograph as a viewer shows it, as grey levels."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import partial
from math import isfinite
from pathlib import Path

import numpy as np
import pydicom
from PIL import Image
from pydicom.errors import BytesLengthException, InvalidDicomError
from pydicom.pixels import apply_modality_lut, convert_color_space

from rarrg.data.dicom_pixels import read_dicom, stored_values
from rarrg.data.grey import MAX_BYTES, by_rows, check_size, printable, stretch, strips
from rarrg.errors import ImageError

RADIOGRAPH_MODALITIES = ("CR", "DX", "DR", "RG", "RF", "OT", "SC", "")  # OT, SC and none at all: scans and exports

_ERRORS = (
    *(OSError, ValueError, EOFError, RuntimeError, NotImplementedError, AttributeError, KeyError, TypeError),
    *(IndexError, struct.error, zlib.error, OverflowError, InvalidDicomError, BytesLengthException),
)


def read_dicom_image(path: Path) -> np.ndarray:
    """Read a DICOM file of one radiograph.

    Args:
        path: The file, with a preamble or without, of at most ``MAX_BYTES``.

    Returns:
        Grey levels, uint8 ``[height, width]``, white is dense.

    Raises:
        ImageError: It cannot be decoded, unpacks to more than ``MAX_BYTES``, holds no pixels, several frames, too many
            or too few pixels, or is of a modality that makes no radiographs.
    """
    try:
        dataset = read_dicom(path, MAX_BYTES)
        if "PixelData" not in dataset:
            raise ImageError(f"{path}: is not a DICOM image (it holds no pixel data, or is truncated)")
        modality = str(dataset.get("Modality") or "").strip().upper()
        if modality not in RADIOGRAPH_MODALITIES:
            raise ImageError(f"{path}: is not a radiograph (its modality is {printable(modality)})")
        if int(dataset.get("NumberOfFrames") or 1) > 1:
            raise ImageError(f"{path}: is not one radiograph (it holds {dataset.NumberOfFrames} frames)")
        check_size(path, int(dataset.Columns), int(dataset.Rows))
        return _shown(path, dataset)
    except _ERRORS as error:
        raise ImageError(f"{path}: cannot be decoded as DICOM ({printable(error)})") from error


def _shown(path: Path, dataset: pydicom.Dataset) -> np.ndarray:
    """Grey levels of a DICOM image as a viewer shows them (PS3.3 C.7.6.3, C.11.1, C.11.2).

    PresentationLUTShape is left alone: INVERSE only repeats what MONOCHROME1 says.
    """
    photometric = dataset.PhotometricInterpretation
    colour = dataset.SamplesPerPixel == 3 and photometric.startswith(("RGB", "YBR")) and dataset.BitsAllocated == 8
    if not colour and (dataset.SamplesPerPixel != 1 or photometric not in ("MONOCHROME1", "MONOCHROME2")):
        raise ImageError(f"{path}: has the photometric interpretation {printable(photometric)}, which is not supported")
    stored, space = stored_values(dataset)
    del dataset.PixelData  # as large as what was made of it
    if colour:
        return by_rows(stored, partial(_luma_of, space=space))
    show = _levels(stored, dataset)
    grey = by_rows(stored, show)
    if np.ptp(grey) == 0 < np.ptp(stored):
        raise ImageError(f"{path}: its window or lookup table turns the whole image into one grey level")
    return 255 - grey if photometric == "MONOCHROME1" else grey


def _luma_of(colours: np.ndarray, space: str) -> np.ndarray:
    if space in ("YBR_FULL", "YBR_FULL_422"):
        colours = convert_color_space(colours, space, "RGB")
    return np.asarray(Image.fromarray(colours).convert("L"))


def _levels(stored: np.ndarray, dataset: pydicom.Dataset) -> Callable[[np.ndarray], np.ndarray]:
    """What turns rows of stored values into grey levels, uint8."""

    def values(rows: np.ndarray) -> np.ndarray:
        return _finite(apply_modality_lut(rows, dataset).astype(np.float64))

    if dataset.get("VOILUTSequence"):
        first, table = _voi_table(dataset)
        low, high = float(table.min()), float(table.max())
        last = len(table) - 1
        return lambda rows: stretch(table[np.clip(np.rint(values(rows)) - first, 0, last).astype(np.int64)], low, high)
    if dataset.get("WindowCenter") not in (None, "") and dataset.get("WindowWidth") not in (None, ""):
        return lambda rows: stretch(_through_window(values(rows), dataset), 0.0, 1.0)
    parts = [stored[rows] for rows in strips(stored)]
    plain = (dataset.BitsStored, dataset.PixelRepresentation) == (8, 0)
    if plain and all(np.array_equal(values(part), part) for part in parts):
        return lambda rows: rows.astype(np.uint8)
    exposed = [_limits(values(part[~_padding(part, dataset)])) for part in parts]
    limits = [found for found in exposed if found] or [_limits(values(part)) for part in parts]
    low, high = min(found[0] for found in limits), max(found[1] for found in limits)
    return lambda rows: stretch(values(rows), low, high)


def _limits(values: np.ndarray) -> tuple[float, ...]:
    """The least and the greatest value, or nothing of no values."""
    return (float(values.min()), float(values.max())) if values.size else ()


def _padding(stored: np.ndarray, dataset: pydicom.Dataset) -> np.ndarray:
    """Pixels outside the exposed field, which must not set the range of grey levels (PS3.3 C.7.5.1.1.2)."""
    first = dataset.get("PixelPaddingValue")
    if first is None:
        return np.zeros(stored.shape, dtype=bool)
    last = dataset.get("PixelPaddingRangeLimit", first)
    return (stored >= min(first, last)) & (stored <= max(first, last))


def _voi_table(dataset: pydicom.Dataset) -> tuple[int, np.ndarray]:
    """The first value of the first VOI table, and its entries, float64.

    Not pydicom's ``apply_voi``, which keeps the index in 8 bits when the entries have 8, and so wraps around.
    """
    item = dataset.VOILUTSequence[0]
    count, first = int(item.LUTDescriptor[0]) or 1 << 16, int(item.LUTDescriptor[1])
    table = item.LUTData
    if isinstance(table, bytes):
        word = "<u2" if dataset.original_encoding[1] else ">u2"
        table = np.frombuffer(table, dtype=np.uint8 if len(table) == count else word)
    return first, np.asarray(table, dtype=np.float64)[:count]


def _through_window(values: np.ndarray, dataset: pydicom.Dataset) -> np.ndarray:
    """The first window's output, 0 at its floor and 1 at its ceiling (PS3.3 C.11.2.1.2 and C.11.2.1.3)."""
    center, width = (float(np.atleast_1d(dataset[name].value)[0]) for name in ("WindowCenter", "WindowWidth"))
    if not (isfinite(center) and isfinite(width)):
        raise ValueError(f"window of center {center:g} and width {width:g} is not finite")
    function = str(dataset.get("VOILUTFunction") or "LINEAR").upper()
    if function == "LINEAR":
        if width < 1:
            raise ValueError(f"window width {width:g} is below 1")
        return (values - (center - 0.5)) / max(width - 1, 1e-9) + 0.5
    if width <= 0:
        raise ValueError(f"window width {width:g} is not above 0")
    if function == "LINEAR_EXACT":
        return (values - center) / width + 0.5
    if function == "SIGMOID":
        return 1 / (1 + np.exp(-4 * (values - center) / width))
    raise ValueError(f"VOI LUT function {function} is unknown")


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError("its header gives grey levels that are not finite")
    return values
