"""Whatever the bytes of an image are, reading it gives an image or one clear error, in a second and a gigabyte."""

from __future__ import annotations

import io
import os
import re
import struct
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLSLossless,
    RLELossless,
)

from rarrg.data.grey import MAX_BYTES, MAX_PIXELS
from tests.conftest import SHARED
from tests.robustness.corrupted import case, dataset, picture, saved
from tests.robustness.reading import GIGABYTE, read_all

IMAGES = 2000
# Real radiographs join the fuzzer's sources where they are; without them its cases are others, as many.
REAL = tuple(sorted((SHARED / "dicom").glob("*.dcm")))


def fuzzed(number: int, folder: Path) -> tuple[str, Path]:
    made = case(number, REAL)
    path = folder / f"image{made.suffix}"
    path.write_bytes(made.content)
    return made.name, path


@pytest.mark.slow
def test_two_thousand_corrupted_images(tmp_path):
    outcomes = list(read_all(fuzzed, range(IMAGES), tmp_path))
    faults = [f"{outcome.name}: {outcome.fault}" for outcome in outcomes if outcome.fault]
    assert not faults, "\n".join(faults)
    assert len(outcomes) == IMAGES
    # The fuzzer damages in every way, lightly and beyond repair.
    kinds = Counter(outcome.name.split()[-1] for outcome in outcomes)
    assert set(kinds) == {
        *("flipped_bits", "truncated", "hole", "wrong_type", "removed_tags", "nonsense_tags", "cut_pixels")
    }
    assert min(kinds.values()) > IMAGES / 20
    refused = sum(outcome.error is not None for outcome in outcomes)
    assert IMAGES / 4 < refused < IMAGES * 9 / 10


def test_a_case_is_the_same_every_time():
    assert [case(number, ()) for number in range(40)] == [case(number, ()) for number in range(40)]


# Files that unpack to more than they look like


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    header = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    written = b"\x89PNG\r\n\x1a\n"
    for name, content in ((b"IHDR", header), *chunks, (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")):
        check = zlib.crc32(name + content)
        written += struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)
    return written


def jpeg(width: int, height: int, marker: int = 0xC0, again: tuple[int, int] | None = None) -> bytes:
    """A small JPEG that says it is of another size; with ``again``, of a second one too."""
    content = picture("L", "JPEG")
    place = content.index(b"\xff\xc0")
    frame = content[place : place + 13]
    sized = bytes([0xFF, marker]) + frame[2:5] + struct.pack(">HH", height, width) + frame[9:]
    if again is not None:
        sized += frame[:5] + struct.pack(">HH", again[1], again[0]) + frame[9:]
    return content[:place] + sized + content[place + 13 :]


def jpeg2000(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.open(io.BytesIO(picture("L", "PNG"))).save(file, "JPEG2000", no_jp2=True)
    content = file.getvalue()
    # The tile grows with the image, or there would be more tiles than the format allows.
    size = struct.pack(">8I", width, height, 0, 0, width, height, 0, 0)
    return content[:8] + size + content[40:]


def framed(frame: bytes, syntax: str, rows: int = 80, columns: int = 96) -> bytes:
    made = dataset(np.zeros((rows, columns), np.uint8))
    made.file_meta.TransferSyntaxUID = syntax
    made.PixelData = encapsulate([frame])
    return saved(made)


def run_lengths() -> bytes:
    """Segments of 256 kB that unpack to 16 MB each, under a header of 96 x 80 pixels."""
    segment = b"\x81\0" * (1 << 17)
    return struct.pack("<16I", 1, 64, *[0] * 14) + segment * 60


def zeros(count: int = 1280) -> bytes:
    """A deflated stream of ``count`` megabytes of zeros, without its end."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)) * count


def deflated() -> bytes:
    made = dataset(np.zeros((80, 96), np.uint8))
    made.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    whole = saved(made)
    start = whole.index(DeflatedExplicitVRLittleEndian.encode()) + len(DeflatedExplicitVRLittleEndian)
    return whole[:start] + zeros()


def huge_header(rows: int, columns: int) -> bytes:
    made = dataset(np.zeros((80, 96), np.uint16))
    made.Rows, made.Columns = rows, columns
    return saved(made)


def long_element() -> bytes:
    """An element that says it has four gigabytes."""
    whole = saved(dataset(np.zeros((80, 96), np.uint16)))
    place = whole.index(b"\xe0\x7f\x10\x00OW")
    return whole[: place + 8] + struct.pack("<I", 0xFFFFFFF0) + whole[place + 12 :]


def nested(depth: int = 20_000) -> bytes:
    whole = saved(dataset(np.zeros((80, 96), np.uint16)))
    item = b"\x08\x00\x15\x11SQ\0\0\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff"
    place = whole.index(b"\x28\x00\x02\x00US")
    return whole[:place] + item * depth + whole[place:]


BOMBS = {
    "png of 65500 x 65500": (
        ".png",
        lambda: png(65500, 65500),
        f"65500 x 65500 pixels|more than {MAX_PIXELS:,} pixels",
    ),
    "png of 8000 x 8000, cut": (".png", lambda: png(8000, 8000), "truncated"),
    "png of 1 x 60000000": (".png", lambda: png(1, 60_000_000), "at least 32 on each side"),
    "png with text": (
        ".png",
        lambda: png(96, 80, (b"zTXt", b"a\0\0\x78\x9c" + zeros())),
        "cannot be decoded",
    ),
    "png with a colour profile": (
        ".png",
        lambda: png(96, 80, (b"iCCP", b"a\0\0\x78\x9c" + zeros())),
        "cannot be decoded",
    ),
    "jpeg of 65500 x 65500": (".jpg", lambda: jpeg(65500, 65500), "pixels"),
    "jpeg of 8000 x 8000, cut": (".jpg", lambda: jpeg(8000, 8000)[:-40], "truncated"),
    "dicom of 65535 x 65535": (".dcm", lambda: huge_header(65535, 65535), "65535 x 65535 pixels"),
    "dicom of 8000 x 8000, cut": (".dcm", lambda: huge_header(8000, 8000), "cannot be decoded"),
    "dicom around a jpeg of 65500 x 65500": (
        ".dcm",
        lambda: framed(jpeg(65500, 65500), JPEGBaseline8Bit),
        "its frame has 65500 x 65500 pixels of 1 samples, its header says 96 x 80",
    ),
    "dicom around a jpeg of two sizes": (
        ".dcm",
        lambda: framed(jpeg(96, 80, again=(65500, 65500)), JPEGBaseline8Bit),
        "2 sizes",
    ),
    "dicom around a jpeg-ls of 65500 x 65500": (
        ".dcm",
        lambda: framed(jpeg(65500, 65500, marker=0xF7), JPEGLSLossless),
        "its frame has 65500 x 65500 pixels",
    ),
    "dicom around a jpeg 2000 of 60000 x 60000": (
        ".dcm",
        lambda: framed(jpeg2000(60000, 60000), JPEG2000Lossless),
        "its frame has 60000 x 60000 pixels",
    ),
    "dicom around long runs": (".dcm", lambda: framed(run_lengths(), RLELossless), "unpacks to more than"),
    "dicom of deflated zeros": (".dcm", deflated, f"unpacks to more than {MAX_BYTES:,} bytes"),
    "dicom with an element of 4 GB": (".dcm", long_element, "shows nothing"),
    "dicom of nested sequences": (".dcm", nested, "DICOM"),
}


def bomb(name: str, folder: Path) -> tuple[str, Path]:
    suffix, make, _ = BOMBS[name]
    path = folder / f"image{suffix}"
    path.write_bytes(make())
    return name, path


def test_files_that_unpack_to_gigabytes_are_refused_before(tmp_path):
    outcomes = {outcome.name: outcome for outcome in read_all(bomb, BOMBS, tmp_path)}
    assert outcomes.keys() == BOMBS.keys()
    wrong = [
        f"{name}: {outcomes[name].fault or outcomes[name].error}"
        for name, (_, _, message) in BOMBS.items()
        if outcomes[name].fault or not re.search(message, str(outcomes[name].error))
    ]
    assert not wrong, "\n".join(wrong)


def no_image(name: str, folder: Path) -> tuple[str, Path]:
    path = folder / name
    if name == "pipe.png":
        os.mkfifo(path)
    elif name == "device.dcm":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.write(saved(dataset(np.zeros((80, 96), np.uint16))))
            file.truncate(3 * GIGABYTE)
    return name, path


def test_pipes_devices_and_files_of_gigabytes_are_not_read(tmp_path):
    outcomes = {o.name: o for o in read_all(no_image, ["pipe.png", "device.dcm", "large.dcm"], tmp_path)}
    assert not [outcome for outcome in outcomes.values() if outcome.fault]
    assert "is a pipe or device" in str(outcomes["pipe.png"].error)
    assert "is a pipe or device" in str(outcomes["device.dcm"].error)
    assert f"has {3 * GIGABYTE:,} bytes" in str(outcomes["large.dcm"].error)


# Good files as large as they may be

SIDE = 3000


def large(name: str, folder: Path) -> tuple[str, Path]:
    path = folder / name
    grey = Image.linear_gradient("L").resize((SIDE, SIDE), Image.Resampling.NEAREST)
    deep = np.asarray(grey).astype(np.uint16) * 16
    turned = Image.Exif()
    turned[0x0112] = 6
    if name == "deep.png":
        Image.fromarray(deep).save(path, compress_level=1)
    elif name == "clear.png":
        clear = grey.convert("RGBA")
        clear.putpixel((0, 0), (9, 9, 9, 9))
        clear.save(path, compress_level=1)
    elif name == "colour.jpg":
        grey.convert("RGB").save(path, progressive=True, subsampling=0, exif=turned)
    elif name == "colour.dcm":
        colour = {"SamplesPerPixel": 3, "PhotometricInterpretation": "YBR_FULL", "PlanarConfiguration": 1}
        path.write_bytes(saved(dataset(np.asarray(grey.convert("YCbCr")), **colour)))
    elif name == "window.dcm":
        path.write_bytes(saved(dataset(deep, WindowCenter=2000, WindowWidth=3000)))
    elif name == "padded.dcm":
        path.write_bytes(saved(dataset(deep, PixelPaddingValue=0, RescaleSlope=2, RescaleIntercept=-5)))
    elif name == "table.dcm":
        table = Dataset()
        table.LUTDescriptor, table.LUTData = [4096, 0, 16], np.arange(4096, dtype=np.uint16).tobytes()
        table["LUTData"].VR = "OW"
        path.write_bytes(saved(dataset(deep, VOILUTSequence=[table])))
    return name, path


@pytest.mark.slow
def test_good_images_take_sixteen_bytes_a_pixel_at_most(tmp_path):
    names = ["deep.png", "clear.png", "colour.jpg", "colour.dcm", "window.dcm", "padded.dcm", "table.dcm"]
    allowed = 16 * SIDE**2
    assert allowed / SIDE**2 * MAX_PIXELS < GIGABYTE
    outcomes = list(read_all(large, names, tmp_path, memory=allowed + (32 << 20)))
    assert [(o.name, o.fault, o.error) for o in outcomes if o.fault or o.error] == []
