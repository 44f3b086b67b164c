"""The one image reader: a JPEG, PNG or DICOM file becomes one grey uint8 image, in training and in inference alike.

Grey levels follow one rule. 8-bit values stay as they are. Deeper values are stretched from the least to the greatest
one of the image, because a 16-bit file seldom says how many of its bits are used (radiographs often fill 12). A DICOM
file that brings a VOI table or window is shown through it, as its maker meant it to be seen: black is the window's
floor, white its ceiling. This holds for images FOR PRESENTATION too (DICOM PS3.3 C.8.11.3 demands a window of them).
"""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pydicom
from PIL import Image, ImageOps, UnidentifiedImageError
from pydicom.errors import BytesLengthException, InvalidDicomError
from pydicom.pixels import apply_modality_lut

from rarrg.errors import ImageError

MAX_PIXELS = 64_000_000  # a radiograph has about 10 million
MIN_SIDE = 32
RADIOGRAPH_MODALITIES = ("CR", "DX", "DR", "RG", "RF", "OT", "SC", "")  # OT, SC and none at all: scans and exports

_DICOM_SUFFIXES = (".dcm", ".dicom")
_PILLOW_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)
_DICOM_ERRORS = (
    *(OSError, ValueError, EOFError, RuntimeError, NotImplementedError, AttributeError, KeyError, TypeError),
    *(IndexError, struct.error, InvalidDicomError, BytesLengthException),
)


def read_image(path: Path) -> np.ndarray:
    """Read one radiograph.

    The kind of file is told by its content, not its name; only a DICOM file without a preamble needs its suffix
    ``.dcm`` or ``.dicom``. EXIF rotation is applied, transparency is laid on black, colour becomes luma
    (ITU-R 601), MONOCHROME1 is inverted. Of a JPEG with several pictures (MPO) the main one is read.

    Args:
        path: A JPEG, PNG or DICOM file.

    Returns:
        Grey levels, uint8 ``[height, width]``, white is dense.

    Raises:
        ImageError: The file is missing, empty, truncated, of another kind, animated or multi-frame, over
            ``MAX_PIXELS``, below ``MIN_SIDE`` pixels on a side, of one grey level everywhere, or a DICOM file of a
            modality that makes no radiographs (CT, MR, ...).
    """
    try:
        if path.is_dir():
            raise ImageError(f"{path}: is a folder, not an image")
        with path.open("rb") as file:
            head = file.read(132)
    except OSError as error:
        raise ImageError(f"{path}: cannot be read ({error.strerror})") from error
    if not head:
        raise ImageError(f"{path}: is an empty file")
    is_dicom = head[128:] == b"DICM" or path.suffix.lower() in _DICOM_SUFFIXES
    grey = _read_dicom(path) if is_dicom else _read_picture(path)
    if np.ptp(grey) == 0:
        raise ImageError(f"{path}: shows nothing; the whole image has one grey level")
    return grey


def _read_picture(path: Path) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(path, formats=("JPEG", "PNG"))
        with opened:
            _check_size(path, *opened.size)
            if getattr(opened, "n_frames", 1) > 1 and opened.format != "MPO":
                raise ImageError(f"{path}: holds several pictures; give one radiograph a file")
            opened.load()
            return _grey(ImageOps.exif_transpose(opened))
    except UnidentifiedImageError as error:
        raise ImageError(f"{path}: is not a JPEG, PNG or DICOM image") from error
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise ImageError(f"{path}: has more than {MAX_PIXELS:,} pixels, which no radiograph has") from error
    except _PILLOW_ERRORS as error:
        raise ImageError(f"{path}: cannot be decoded; it is truncated or damaged ({error})") from error


def _grey(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        return _stretch(np.asarray(image).astype(np.float64))
    if image.has_transparency_data:
        opaque = Image.new("RGBA", image.size, "black")
        opaque.alpha_composite(image.convert("RGBA"))
        image = opaque
    if image.mode not in ("1", "L"):
        image = image.convert("RGB")
    return np.array(image.convert("L"))


def _read_dicom(path: Path) -> np.ndarray:
    try:
        dataset = pydicom.dcmread(path, force=True)
        if "PixelData" not in dataset:
            raise ImageError(f"{path}: is not a DICOM image (it holds no pixel data, or is truncated)")
        modality = str(dataset.get("Modality") or "").strip().upper()
        if modality not in RADIOGRAPH_MODALITIES:
            raise ImageError(f"{path}: is not a radiograph (its modality is {modality})")
        if int(dataset.get("NumberOfFrames") or 1) > 1:
            raise ImageError(f"{path}: is not one radiograph (it holds {dataset.NumberOfFrames} frames)")
        _check_size(path, int(dataset.Columns), int(dataset.Rows))
        return _shown(path, dataset)
    except _DICOM_ERRORS as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImageError(f"{path}: cannot be decoded as DICOM ({reason[:200]})") from error


def _shown(path: Path, dataset: pydicom.Dataset) -> np.ndarray:
    """Grey levels of a DICOM image as a viewer shows them (PS3.3 C.7.6.3, C.11.1, C.11.2).

    PresentationLUTShape is left alone: INVERSE only repeats what MONOCHROME1 says.
    """
    stored = dataset.pixel_array
    photometric = dataset.PhotometricInterpretation
    if stored.ndim == 3 and stored.dtype == np.uint8 and photometric.startswith(("RGB", "YBR")):
        return np.array(Image.fromarray(stored).convert("L"))
    if stored.ndim != 2 or photometric not in ("MONOCHROME1", "MONOCHROME2"):
        raise ImageError(f"{path}: has the photometric interpretation {photometric}, which is not supported")
    values = apply_modality_lut(stored, dataset).astype(np.float64)
    if dataset.get("VOILUTSequence"):
        grey = _stretch(*_through_table(values, dataset))
    elif dataset.get("WindowCenter") not in (None, "") and dataset.get("WindowWidth") not in (None, ""):
        grey = _stretch(_through_window(values, dataset), 0.0, 1.0)
    elif dataset.BitsStored == 8 and dataset.PixelRepresentation == 0 and np.array_equal(values, stored):
        grey = stored.astype(np.uint8)
    else:
        inside = values[~_padding(stored, dataset)]
        grey = _stretch(values, inside.min(), inside.max()) if inside.size else _stretch(values)
    if np.ptp(grey) == 0 < np.ptp(stored):
        raise ImageError(f"{path}: its window or lookup table turns the whole image into one grey level")
    return 255 - grey if photometric == "MONOCHROME1" else grey


def _padding(stored: np.ndarray, dataset: pydicom.Dataset) -> np.ndarray:
    """Pixels outside the exposed field, which must not set the range of grey levels (PS3.3 C.7.5.1.1.2)."""
    first = dataset.get("PixelPaddingValue")
    if first is None:
        return np.zeros(stored.shape, dtype=bool)
    last = dataset.get("PixelPaddingRangeLimit", first)
    return (stored >= min(first, last)) & (stored <= max(first, last))


def _through_table(values: np.ndarray, dataset: pydicom.Dataset) -> tuple[np.ndarray, float, float]:
    """Values of the first VOI table, with its least and greatest entry.

    Not pydicom's ``apply_voi``, which keeps the index in 8 bits when the entries have 8, and so wraps around.
    """
    item = dataset.VOILUTSequence[0]
    count, first = int(item.LUTDescriptor[0]) or 1 << 16, int(item.LUTDescriptor[1])
    table = item.LUTData
    if isinstance(table, bytes):
        word = "<u2" if dataset.original_encoding[1] else ">u2"
        table = np.frombuffer(table, dtype=np.uint8 if len(table) == count else word)
    table = np.asarray(table, dtype=np.float64)[:count]
    index = np.clip(np.rint(values) - first, 0, len(table) - 1).astype(np.int64)
    return table[index], float(table.min()), float(table.max())


def _through_window(values: np.ndarray, dataset: pydicom.Dataset) -> np.ndarray:
    """The first window's output, 0 at its floor and 1 at its ceiling (PS3.3 C.11.2.1.2 and C.11.2.1.3)."""
    center, width = (float(np.atleast_1d(dataset[name].value)[0]) for name in ("WindowCenter", "WindowWidth"))
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


def _stretch(values: np.ndarray, low: float | None = None, high: float | None = None) -> np.ndarray:
    """Map ``low`` to 0 and ``high`` to 255, clipped and rounded; by default the least and the greatest value."""
    low = float(values.min()) if low is None else low
    high = float(values.max()) if high is None else high
    if high <= low:
        return np.zeros(values.shape, dtype=np.uint8)
    return np.rint(np.clip((values - low) / (high - low), 0, 1) * 255).astype(np.uint8)


def _check_size(path: Path, width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ImageError(f"{path}: has {width} x {height} pixels; a radiograph has at most {MAX_PIXELS:,}")
    if min(width, height) < MIN_SIDE:
        raise ImageError(f"{path}: has {width} x {height} pixels; a radiograph has at least {MIN_SIDE} on each side")
