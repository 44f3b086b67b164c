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
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from rarrg.data.grey import MAX_BYTES, MAX_PIXELS, by_rows, check_size, printable, stretch, strips
from rarrg.errors import ImageError

_DICOM_SUFFIXES = (".dcm", ".dicom")
# Place of the bit depth in a PNG file (RFC 2083, 4.1.1), the type of its colours after it.
_PNG_DEPTH = 24
_PNG_CHANNELS = {2: "colours", 4: "transparency", 6: "colours and transparency"}
_PILLOW_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)


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
    if is_dicom:
        # pydicom takes a fifth of a second to import.
        from rarrg.data.dicom import read_dicom_image

        grey = read_dicom_image(path)
    else:
        grey = _read_picture(path)
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
            check_size(path, *opened.size)
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
        raise ImageError(f"{path}: cannot be decoded; it is truncated or damaged ({printable(error)})") from error


def _grey(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        deep = np.asarray(image)
        low, high = float(deep.min()), float(deep.max())
        return by_rows(deep, lambda rows: stretch(rows.astype(np.float64), low, high))
    grey = np.empty((image.height, image.width), dtype=np.uint8)
    for rows in strips(grey):
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
