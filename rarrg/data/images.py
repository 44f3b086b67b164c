"""The one image reader: a JPEG, PNG or DICOM file becomes one grey uint8 image, in training and in inference alike.

Grey levels follow one rule. 8-bit values stay as they are. Deeper values are stretched from the least to the greatest
one of the image, because a 16-bit file seldom says how many of its bits are used (radiographs often fill 12). A DICOM
file that brings a VOI table or window is shown through it, as its maker meant it to be seen: black is the window's
floor, white its ceiling. This holds for images FOR PRESENTATION too (DICOM PS3.3 C.8.11.3 demands a window of them).
"""

from __future__ import annotations

import stat
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from math import isfinite
from pathlib import Path

import numpy as np
import pydicom
from PIL import Image, ImageOps, UnidentifiedImageError
from pydicom.errors import BytesLengthException, InvalidDicomError
from pydicom.pixels import apply_modality_lut, convert_color_space

from rarrg.data.dicom_pixels import read_dicom, stored_values
from rarrg.errors import ImageError

MAX_PIXELS = 64_000_000  # a radiograph has about 10 million
MAX_BYTES = 6 * MAX_PIXELS  # three samples of 16 bits a pixel
MIN_SIDE = 32
STRIP = 1 << 20  # pixels worked on at a time
RADIOGRAPH_MODALITIES = ("CR", "DX", "DR", "RG", "RF", "OT", "SC", "")  # OT, SC and none at all: scans and exports

_DICOM_SUFFIXES = (".dcm", ".dicom")
# Place of the bit depth in a PNG file (RFC 2083, 4.1.1), the type of its colours after it.
_PNG_DEPTH = 24
_PNG_CHANNELS = {2: "colours", 4: "transparency", 6: "colours and transparency"}
_PILLOW_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)
_DICOM_ERRORS = (
    *(OSError, ValueError, EOFError, RuntimeError, NotImplementedError, AttributeError, KeyError, TypeError),
    *(IndexError, struct.error, zlib.error, OverflowError, InvalidDicomError, BytesLengthException),
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
        ImageError: The file is missing, empty, no file at all, truncated, of another kind, animated or multi-frame,
            over ``MAX_BYTES`` or ``MAX_PIXELS``, below ``MIN_SIDE`` pixels on a side, of one grey level everywhere, or
            a DICOM file of a modality that makes no radiographs (CT, MR, ...).
    """
    try:
        status = path.stat()
    except ValueError as error:  # a zero byte, or half a character
        raise ImageError(f"{str(path)!r}: is no path ({error})") from error
    except OSError as error:
        raise ImageError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(status.st_mode):  # to open a pipe is to wait for its other end
            kind = "folder" if stat.S_ISDIR(status.st_mode) else "pipe or device"
            raise ImageError(f"{path}: is a {kind}, not an image")
        with path.open("rb") as file:
            head = file.read(132)
    except OSError as error:
        raise ImageError(f"{path}: cannot be read ({error.strerror})") from error
    if not head:
        raise ImageError(f"{path}: is an empty file")
    if status.st_size > MAX_BYTES:
        raise ImageError(f"{path}: has {status.st_size:,} bytes; a radiograph has at most {MAX_BYTES:,}")
    is_dicom = head[128:] == b"DICM" or path.suffix.lower() in _DICOM_SUFFIXES
    grey = _read_dicom(path) if is_dicom else _read_picture(path)
    if np.ptp(grey) == 0:
        raise ImageError(f"{path}: shows nothing; the whole image has one grey level")
    return grey


def _read_picture(path: Path) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            # From memory: for a chunk that says it has gigabytes, reading a file sets gigabytes aside.
            content = path.read_bytes()
            opened = Image.open(BytesIO(content), formats=("JPEG", "PNG"))
        with opened:
            _check_size(path, *opened.size)
            if opened.format == "PNG" and content[_PNG_DEPTH] == 16 and content[_PNG_DEPTH + 1] in _PNG_CHANNELS:
                # Pillow would keep the upper byte: of 12-bit levels, 16.
                raise ImageError(
                    f"{path}: has 16 bits a channel and {_PNG_CHANNELS[content[_PNG_DEPTH + 1]]}; save it "
                    "as 16-bit grey"
                )
            if getattr(opened, "n_frames", 1) > 1 and opened.format != "MPO":
                raise ImageError(f"{path}: holds several pictures; give one radiograph a file")
            opened.load()
            ImageOps.exif_transpose(opened, in_place=True)
            return _grey(opened)
    except UnidentifiedImageError as error:
        raise ImageError(f"{path}: is not a JPEG, PNG or DICOM image") from error
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise ImageError(f"{path}: has more than {MAX_PIXELS:,} pixels, which no radiograph has") from error
    except _PILLOW_ERRORS as error:
        raise ImageError(f"{path}: cannot be decoded; it is truncated or damaged ({_line(error)})") from error


def _grey(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        deep = np.asarray(image)
        low, high = float(deep.min()), float(deep.max())
        return _by_rows(deep, lambda rows: _stretch(rows.astype(np.float64), low, high))
    grey = np.empty((image.height, image.width), dtype=np.uint8)
    for rows in _strips(grey):
        grey[rows] = _luma(image.crop((0, rows.start, image.width, rows.stop)))
    return grey


def _luma(image: Image.Image) -> np.ndarray:
    if image.has_transparency_data:
        opaque = Image.new("RGBA", image.size, "black")
        opaque.alpha_composite(image.convert("RGBA"))
        image = opaque
    if image.mode not in ("1", "L"):
        image = image.convert("RGB")
    return np.asarray(image.convert("L"))


def _strips(array: np.ndarray) -> Iterator[slice]:
    """Rows by the megapixel, so that work on an image takes eight bytes a pixel of a strip, not of the whole."""
    height, width = array.shape[:2]
    step = max(1, STRIP // width)
    return (slice(top, min(top + step, height)) for top in range(0, height, step))


def _by_rows(array: np.ndarray, show: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    grey = np.empty(array.shape[:2], dtype=np.uint8)
    for rows in _strips(array):
        grey[rows] = show(array[rows])
    return grey


def _read_dicom(path: Path) -> np.ndarray:
    try:
        dataset = read_dicom(path, MAX_BYTES)
        if "PixelData" not in dataset:
            raise ImageError(f"{path}: is not a DICOM image (it holds no pixel data, or is truncated)")
        modality = str(dataset.get("Modality") or "").strip().upper()
        if modality not in RADIOGRAPH_MODALITIES:
            raise ImageError(f"{path}: is not a radiograph (its modality is {_line(modality)})")
        if int(dataset.get("NumberOfFrames") or 1) > 1:
            raise ImageError(f"{path}: is not one radiograph (it holds {dataset.NumberOfFrames} frames)")
        _check_size(path, int(dataset.Columns), int(dataset.Rows))
        return _shown(path, dataset)
    except _DICOM_ERRORS as error:
        raise ImageError(f"{path}: cannot be decoded as DICOM ({_line(error)})") from error


def _line(found: object) -> str:
    """What a file or a decoder says, fit for a line: short, and without what a terminal would act on."""
    text = " ".join(str(found).split()) or type(found).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])


def _shown(path: Path, dataset: pydicom.Dataset) -> np.ndarray:
    """Grey levels of a DICOM image as a viewer shows them (PS3.3 C.7.6.3, C.11.1, C.11.2).

    PresentationLUTShape is left alone: INVERSE only repeats what MONOCHROME1 says.
    """
    photometric = dataset.PhotometricInterpretation
    colour = dataset.SamplesPerPixel == 3 and photometric.startswith(("RGB", "YBR")) and dataset.BitsAllocated == 8
    if not colour and (dataset.SamplesPerPixel != 1 or photometric not in ("MONOCHROME1", "MONOCHROME2")):
        raise ImageError(f"{path}: has the photometric interpretation {_line(photometric)}, which is not supported")
    stored, space = stored_values(dataset)
    del dataset.PixelData  # as large as what was made of it
    if colour:
        return _by_rows(stored, partial(_luma_of, space=space))
    show = _levels(stored, dataset)
    grey = _by_rows(stored, show)
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
        return lambda rows: _stretch(table[np.clip(np.rint(values(rows)) - first, 0, last).astype(np.int64)], low, high)
    if dataset.get("WindowCenter") not in (None, "") and dataset.get("WindowWidth") not in (None, ""):
        return lambda rows: _stretch(_through_window(values(rows), dataset), 0.0, 1.0)
    parts = [stored[rows] for rows in _strips(stored)]
    plain = (dataset.BitsStored, dataset.PixelRepresentation) == (8, 0)
    if plain and all(np.array_equal(values(part), part) for part in parts):
        return lambda rows: rows.astype(np.uint8)
    exposed = [_limits(values(part[~_padding(part, dataset)])) for part in parts]
    limits = [found for found in exposed if found] or [_limits(values(part)) for part in parts]
    low, high = min(found[0] for found in limits), max(found[1] for found in limits)
    return lambda rows: _stretch(values(rows), low, high)


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


def _stretch(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Map ``low`` to 0 and ``high`` to 255, clipped and rounded."""
    if high <= low:
        return np.zeros(values.shape, dtype=np.uint8)
    return np.rint(np.clip((values - low) / (high - low), 0, 1) * 255).astype(np.uint8)


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError("its header gives grey levels that are not finite")
    return values


def _check_size(path: Path, width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ImageError(f"{path}: has {width} x {height} pixels; a radiograph has at most {MAX_PIXELS:,}")
    if min(width, height) < MIN_SIDE:
        raise ImageError(f"{path}: has {width} x {height} pixels; a radiograph has at least {MIN_SIDE} on each side")
