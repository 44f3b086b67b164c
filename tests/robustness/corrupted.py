"""A seeded fuzzer of radiographs: good files of every kind that is read, and what can happen to them."""

from __future__ import annotations

import io
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pydicom
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.sequence import Sequence
from pydicom.tag import Tag
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    RLELossless,
    SecondaryCaptureImageStorage,
)

Random = np.random.Generator

# One of each transfer syntax that radiographs come in, small; all of them lie in the pydicom package.
PYDICOM_FILES = (
    *("SC_rgb_jpeg_gdcm.dcm", "JPGExtended.dcm", "693_J2KI.dcm", "MR_small_jpeg_ls_lossless.dcm"),
    *(
        "SC_rgb_jls_lossy_line.dcm",
        "MR_small_bigendian.dcm",
        "SC_rgb_rle_16bit.dcm",
        "SC_ybr_full_422_uncompressed.dcm",
    ),
)


class Case(NamedTuple):
    """A corrupted file.

    Attributes:
        name: Number, source and kind of damage: what a failure is reported as.
        suffix: Ending of its file.
        content: Its bytes.
    """

    name: str
    suffix: str
    content: bytes


def picture(mode: str, format: str, **options: object) -> bytes:
    """A gradient with noise, 96 x 80, in one of Pillow's modes."""
    noise = np.random.default_rng(0).integers(0, 60, (80, 96), dtype=np.uint16)
    grey = np.linspace(0, 190, 96, dtype=np.uint16) + noise
    image = Image.fromarray(grey * 257) if mode == "I;16" else Image.fromarray(grey.astype(np.uint8)).convert(mode)
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def dataset(pixels: np.ndarray, **elements: object) -> FileDataset:
    """A DX image of the given grey levels, uncompressed."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    made = FileDataset("made", {}, file_meta=meta, preamble=b"\0" * 128)
    made.SOPClassUID, made.SOPInstanceUID, made.Modality = SecondaryCaptureImageStorage, "1.2.3", "DX"
    made.Rows, made.Columns = pixels.shape[:2]
    made.SamplesPerPixel, made.PhotometricInterpretation, made.PixelRepresentation = 1, "MONOCHROME2", 0
    made.BitsAllocated = pixels.dtype.itemsize * 8
    made.BitsStored = 8 if pixels.dtype == np.uint8 else 12
    made.HighBit = made.BitsStored - 1
    made.PixelData = pixels.tobytes()
    made["PixelData"].VR = "OB" if pixels.dtype == np.uint8 else "OW"
    for name, value in elements.items():
        setattr(made, name, value)
    return made


def saved(made: Dataset) -> bytes:
    """The bytes of a DICOM file."""
    file = io.BytesIO()
    made.save_as(file, enforce_file_format=True)
    return file.getvalue()


def encapsulated(frame: bytes, **elements: object) -> bytes:
    """A DICOM file around an 8-bit JPEG."""
    made = dataset(np.zeros((80, 96), np.uint8), **elements)
    made.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    made.PixelData = encapsulate([frame])
    return saved(made)


def sources(real: list[Path]) -> dict[str, bytes]:
    """Good files by name, the real ones among them."""
    exif = Image.Exif()
    exif[0x0112] = 6
    files = {
        "grey.jpg": picture("L", "JPEG"),
        "progressive.jpg": picture("RGB", "JPEG", progressive=True, exif=exif),
        "cmyk.jpg": picture("CMYK", "JPEG"),
        "grey.png": picture("L", "PNG"),
        "deep.png": picture("I;16", "PNG"),
        "palette.png": picture("P", "PNG", transparency=3),
        "clear.png": picture("RGBA", "PNG"),
    }
    rng = np.random.default_rng(1)
    deep = rng.integers(0, 4096, (80, 96), dtype=np.uint16)
    table = Dataset()
    table.LUTDescriptor, table.LUTData = [4096, 0, 16], np.arange(4096, dtype=np.uint16).tobytes()
    table["LUTData"].VR = "OW"
    files["window.dcm"] = saved(dataset(deep, WindowCenter=2000, WindowWidth=3000, PixelPaddingValue=0))
    files["table.dcm"] = saved(
        dataset(
            deep, VOILUTSequence=[table], RescaleSlope=2, RescaleIntercept=-9, PhotometricInterpretation="MONOCHROME1"
        )
    )
    files["jpeg.dcm"] = encapsulated(files["grey.jpg"])
    for name, syntax in (("rle", RLELossless), ("jpeg2000", JPEG2000Lossless)):
        packed = dataset(deep)
        packed.compress(syntax)
        files[f"{name}.dcm"] = saved(packed)
    deflated = dataset(deep)
    deflated.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    files["deflated.dcm"] = saved(deflated)
    for name in PYDICOM_FILES:
        found = pydicom.dcmread(str(get_testdata_file(name, download=False)))
        found.Modality = "DX"
        files[name] = saved(found)
    return files | {path.name: path.read_bytes() for path in real}


@lru_cache(maxsize=1)
def _sources(real: tuple[Path, ...]) -> dict[str, bytes]:
    return sources(list(real))


def case(number: int, real: tuple[Path, ...]) -> Case:
    """The corrupted file of a number, always the same one."""
    rng = np.random.default_rng([6, number])
    files = _sources(real)
    name = sorted(files)[int(rng.integers(len(files)))]
    suffix = name[-4:]
    kinds = [*_ANY, *_DICOM * 2] if suffix == ".dcm" else list(_ANY)
    kind = kinds[int(rng.integers(len(kinds)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydicom says of nonsense that it is nonsense
        content = kind(files[name], rng)
    if kind is wrong_type:
        suffix = str(rng.choice([".jpg", ".png", ".dcm", ""]))
    return Case(f"{number} {name} {kind.__name__}", suffix, content)


# Of any file


def flipped_bits(content: bytes, rng: Random) -> bytes:
    """1 to 64 bits turned, in half of the cases all of them within the first kilobyte."""
    changed = bytearray(content)
    end = len(changed) if rng.random() < 0.5 else min(len(changed), 1024)
    for place in rng.integers(0, end, int(2 ** rng.integers(0, 7))):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def truncated(content: bytes, rng: Random) -> bytes:
    """The first part of the file."""
    return content[: int(rng.integers(len(content)))]


def hole(content: bytes, rng: Random) -> bytes:
    """A stretch cut out, doubled or filled with zeros or noise."""
    start, end = sorted(int(place) for place in rng.integers(0, len(content), 2))
    stretch = content[start:end]
    filling = [b"", stretch * 2, bytes(len(stretch)), rng.bytes(len(stretch))][int(rng.integers(4))]
    return content[:start] + filling + content[end:]


def wrong_type(content: bytes, rng: Random) -> bytes:
    """Something else under an image's ending."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("image.png", content)
    array = io.BytesIO()
    np.save(array, np.zeros((64, 64), np.uint8))
    others = [
        b"",
        b"\n",
        b"No pneumothorax. " * int(rng.integers(1, 200)),
        "Kein Erguss, größer als 3 cm. ".encode("utf-16") * 20,
        archive.getvalue(),
        archive.getvalue()[:40],
        b"%PDF-1.7\n1 0 obj\n<< >>\n",
        b"<svg xmlns='http://www.w3.org/2000/svg' width='90' height='90'/>",
        pickle.dumps({"a": list(range(50))}),
        array.getvalue(),
        rng.bytes(int(rng.integers(1, 5000))),
        bytes(int(rng.integers(1, 5000))),
        b"\0" * 128 + b"DICM" + rng.bytes(int(rng.integers(0, 500))),
        b"\xff\xd8\xff\xe0" + rng.bytes(400),
        b"\x89PNG\r\n\x1a\n" + rng.bytes(400),
        *(picture("L", kind) for kind in ("GIF", "BMP", "TIFF", "WEBP", "JPEG", "PNG")),
        content,
    ]
    return others[int(rng.integers(len(others)))]


# Of DICOM files


def removed_tags(content: bytes, rng: Random) -> bytes:
    """1 to 3 elements taken out, of the file's meta information too."""
    read = pydicom.dcmread(io.BytesIO(content))
    for _ in range(int(rng.integers(1, 4))):
        part = read.file_meta if rng.random() < 0.2 else read
        if tags := list(part.keys()):
            del part[tags[int(rng.integers(len(tags)))]]
    return _written(read)


_NONSENSE: tuple[tuple[str, bytes], ...] = (
    *(("US", struct.pack("<H", value)) for value in (0, 1, 7, 8, 16, 31, 64, 4095, 65535)),
    *(("US", value) for value in (b"", b"\0", bytes(6), b"\1\0\2\0\3\0")),
    *(("DS", value) for value in (b"", b"abc", b"-1", b"0", b"1e400", b"nan", b"inf", b"-inf", b"1e-320", b"5\\7")),
    *(("IS", value) for value in (b"", b"1.5", b"2", b"-3", b"99999999999999999999", b"\xff\xfe")),
    *(("CS", value) for value in (b"", b"MONOCHROME9", b"RGB", b"YBR_FULL_422", b"PALETTE COLOR", b"x" * 64, b"a\\b")),
    *(("SQ", value) for value in (b"", b"\xfe\xff\x00\xe0\0\0\0\0", b"\xfe\xff\x00\xe0\xff\xff\xff\xff", b"junk")),
    *(("OB", value) for value in (b"", b"\0", b"\xff" * 33)),
    ("FD", struct.pack("<d", float("nan"))),
    ("ZZ", b"no such representation"),
)
_SYNTAXES = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.2", "1.2.840.10008.1.2.1.99", RLELossless, JPEG2000Lossless, "1.2")
_TARGETS = (
    *("Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "SamplesPerPixel"),
    *("PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames", "WindowCenter", "WindowWidth"),
    *("VOILUTFunction", "VOILUTSequence", "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "Modality"),
    *("PixelPaddingValue", "PixelPaddingRangeLimit", "PixelData", "SpecificCharacterSet", "LUTDescriptor", "LUTData"),
)


def nonsense_tags(content: bytes, rng: Random) -> bytes:
    """1 to 3 elements that the reader looks at, given another value, often of another type."""
    read = pydicom.dcmread(io.BytesIO(content))
    for _ in range(int(rng.integers(1, 4))):
        name = _TARGETS[int(rng.integers(len(_TARGETS)))]
        part: Dataset = read
        if name.startswith("LUT") and isinstance(found := read.get("VOILUTSequence"), Sequence) and found:
            part = found[0]
        vr, value = _NONSENSE[int(rng.integers(len(_NONSENSE)))]
        if name in part and rng.random() < 0.5:
            vr = part.get_item(name).VR
        tag = Tag(name)
        part[tag] = RawDataElement(tag, vr, len(value), value, 0, is_implicit_VR=False, is_little_endian=True)
    if rng.random() < 0.1:
        read.file_meta.TransferSyntaxUID = UID(_SYNTAXES[int(rng.integers(len(_SYNTAXES)))])
    return _written(read, otherwise=content)


def cut_pixels(content: bytes, rng: Random) -> bytes:
    """Pixel data that are shorter, longer, or not there, under a header that is whole."""
    read = pydicom.dcmread(io.BytesIO(content))
    pixels = read.PixelData
    place = int(rng.integers(len(pixels)))
    read.PixelData = [pixels[: place // 2 * 2], pixels * 2, b"", pixels[place // 2 * 2 :], rng.bytes(place // 2 * 2)][
        int(rng.integers(5))
    ]
    return _written(read, otherwise=truncated(content, rng))


def _written(read: Dataset, otherwise: bytes = b"") -> bytes:
    """The bytes of a data set that need not be a valid one; ``otherwise`` where it cannot be written at all."""
    file = io.BytesIO()
    try:
        pydicom.dcmwrite(file, read, implicit_vr=False, little_endian=True, force_encoding=True)
    except Exception:  # noqa: BLE001  what pydicom cannot write is no case
        return otherwise
    return file.getvalue()


Damage = Callable[[bytes, Random], bytes]
_ANY: tuple[Damage, ...] = (flipped_bits, truncated, hole, wrong_type)
_DICOM: tuple[Damage, ...] = (removed_tags, nonsense_tags, cut_pixels)
