"""DICOM files and their stored values, read only where they take the room that their headers say.

How much a file unpacks to is its maker's to decide: a deflated data set of a megabyte may hold a gigabyte of zeros, and
behind a header of 512 x 512 pixels may stand a compressed frame of 60000 x 60000. So both are measured first.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pydicom
from openjpeg.utils import get_parameters
from pydicom.encaps import get_frame, parse_basic_offsets
from pydicom.filereader import read_dataset, read_preamble
from pydicom.pixels import get_decoder
from pydicom.uid import DeflatedExplicitVRLittleEndian, RLELossless

_GROUP_OF_FILE = 2
_JPEG_START = b"\xff\xd8"
_JPEG_SCAN = 0xDA
# SOF0 to SOF15 without DHT, JPG and DAC, which stand among them; DHP of hierarchical JPEG; SOF55 of JPEG-LS.
_JPEG_SIZES = {*range(0xC0, 0xD0), 0xDE, 0xF7} - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xDA)}


def read_dicom(path: Path, max_bytes: int) -> pydicom.FileDataset:
    """Read a DICOM file.

    Args:
        path: The file, with a preamble or without.
        max_bytes: Most that a deflated data set may unpack to.

    Raises:
        ValueError: It unpacks to more. What else is wrong with a file raises what pydicom and zlib raise.
    """
    # From memory: for an element that says it has four gigabytes, reading a file sets four gigabytes aside.
    file = BytesIO(path.read_bytes())
    read_preamble(file, force=True)
    meta = read_dataset(file, False, True, stop_when=lambda tag, _vr, _length: tag.group != _GROUP_OF_FILE)
    if meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
        unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(file.read(), max_bytes + 1)
        if len(unpacked) > max_bytes:
            raise ValueError(f"its data set unpacks to more than {max_bytes:,} bytes")
        del unpacked
    file.seek(0)
    dataset = pydicom.dcmread(file, force=True)
    dataset.buffer = None  # as large as the pixel data that were read from it
    return dataset


def stored_values(dataset: pydicom.FileDataset) -> tuple[np.ndarray, str]:
    """Decode the first frame as it is stored, colours as they are.

    Args:
        dataset: An image of one frame.

    Returns:
        ``[rows, columns]`` or ``[rows, columns, samples]``, and the photometric interpretation of these values.

    Raises:
        ValueError: The frame is of another size than its header says. What else is wrong raises what pydicom and the
            decoders raise.
    """
    syntax = dataset.file_meta.TransferSyntaxUID
    plugin, index = "", None
    if syntax.is_encapsulated:
        index = 0
        frames = len(parse_basic_offsets(dataset.PixelData))
        if frames > 1:
            raise ValueError(f"it holds {frames} frames")
        frame = get_frame(dataset.PixelData, 0, number_of_frames=1)
        if syntax == RLELossless:
            # The other decoder, in Rust, answers a damaged frame with a panic, which is no Exception.
            plugin = "pydicom"
            _check_run_lengths(frame, dataset.Rows * dataset.Columns)
        else:
            _check_size(frame, (dataset.Columns, dataset.Rows, dataset.SamplesPerPixel))
    values, described = get_decoder(syntax).as_array(dataset, index=index, raw=True, decoding_plugin=plugin)
    return values, str(described["photometric_interpretation"])


def _check_size(frame: bytes, expected: tuple[int, int, int]) -> None:
    found = _frame_size(frame)
    if found != expected:
        frame_has, header_says = ("{} x {} pixels of {} samples".format(*size) for size in (found, expected))
        raise ValueError(f"its frame has {frame_has}, its header says {header_says}")


def _frame_size(frame: bytes) -> tuple[int, int, int]:
    """Width, height and samples a pixel of a JPEG, JPEG-LS or JPEG 2000 frame."""
    if not frame.startswith(_JPEG_START):
        found = get_parameters(frame)
        return int(found["columns"]), int(found["rows"]), int(found["samples_per_pixel"])
    sizes: set[tuple[int, int, int]] = set()
    place = len(_JPEG_START)
    while (marker := frame[place + 1]) != _JPEG_SCAN:
        if frame[place] != 0xFF:
            raise ValueError("its JPEG frame has no marker where one must be")
        if marker in _JPEG_SIZES:
            height, width, samples = struct.unpack_from(">HHB", frame, place + 5)
            sizes.add((width, height, samples))
        if marker == 0xFF:  # a byte of filling
            place += 1
        elif marker in _JPEG_WITHOUT_LENGTH:
            place += 2
        else:
            place += 2 + struct.unpack_from(">H", frame, place + 2)[0]
    if len(sizes) != 1:
        raise ValueError(f"its JPEG frame has {len(sizes)} sizes, must have one")
    return sizes.pop()


def _check_run_lengths(frame: bytes, pixels: int) -> None:
    """Refuse a segment that holds far more than a byte of each pixel; two bytes may stand for 128."""
    count, *offsets = struct.unpack_from("<16I", frame)
    ends = [*offsets[1:count], len(frame)]
    for start, end in zip(offsets[:count], ends, strict=True):
        place, unpacked = start, 0
        while place < min(end, len(frame)) and unpacked <= 2 * pixels:
            header = frame[place]
            place += header + 2 if header < 128 else 2 if header > 128 else 1
            unpacked += header + 1 if header < 128 else 257 - header if header > 128 else 0
        if unpacked > 2 * pixels:
            raise ValueError(f"an RLE segment unpacks to more than twice its {pixels:,} bytes")
