from __future__ import annotations

import csv
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.pixels import apply_windowing
from pydicom.uid import (
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    RLELossless,
    SecondaryCaptureImageStorage,
    generate_uid,
)

from rarrg.data import images
from rarrg.data.images import read_image
from rarrg.errors import ImageError

RAMP = np.array([[0, 1000, 2000], [3000, 4000, 4095]], dtype=np.uint16)


@pytest.fixture(autouse=True)
def small_images(request, monkeypatch):
    """Images of a few pixels, whose grey levels one can work out by hand."""
    if "real_size" not in request.fixturenames:
        monkeypatch.setattr(images, "MIN_SIDE", 1)


@pytest.fixture
def real_size():
    """Keeps the limit on small images."""


def dicom(pixels: np.ndarray, **elements: Any) -> FileDataset:
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    dataset = FileDataset("made", {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPClassUID = meta.MediaStorageSOPClassUID
    dataset.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    dataset.Modality = "DX"
    dataset.Rows, dataset.Columns = pixels.shape[:2]
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME2"
    dataset.PixelRepresentation = int(pixels.dtype.kind == "i")
    dataset.BitsAllocated = pixels.dtype.itemsize * 8
    dataset.BitsStored = 8 if pixels.dtype == np.uint8 else 12
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelData = pixels.tobytes()
    dataset["PixelData"].VR = "OB" if pixels.dtype == np.uint8 else "OW"
    for name, value in elements.items():
        setattr(dataset, name, value)
    return dataset


def through_file(dataset: FileDataset, path: Path) -> np.ndarray:
    dataset.save_as(path, enforce_file_format=True)
    return read_image(path)


def error_of(path: Path) -> str:
    with pytest.raises(ImageError) as caught:
        read_image(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


# Pictures


def test_grey_png_is_returned_as_it_is(tmp_path):
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    Image.fromarray(pixels).save(tmp_path / "a.png")
    grey = read_image(tmp_path / "a.png")
    assert grey.dtype == np.uint8
    assert grey.flags.writeable
    np.testing.assert_array_equal(grey, pixels)


def test_grey_jpeg_stays_close(tmp_path):
    pixels = np.tile(np.linspace(0, 255, 64).astype(np.uint8), (48, 1))
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=95)
    assert np.abs(read_image(tmp_path / "a.jpg").astype(int) - pixels).max() <= 3


def test_16_bit_png_is_stretched_over_its_range(tmp_path):
    Image.fromarray(RAMP + 100).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), [[0, 62, 125], [187, 249, 255]])


@pytest.mark.parametrize(("kind", "channels", "said"), [
    (2, 3, "colours"), (4, 2, "transparency"), (6, 4, "colours and transparency")
])  # fmt: skip
def test_16_bit_channels_that_pillow_would_cut_are_refused(tmp_path, kind, channels, said):
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    levels = np.linspace(0, 4095, 64 * 64).astype(">u2").reshape(64, 64, 1).repeat(channels, 2)
    rows = b"".join(b"\0" + row.tobytes() for row in levels)
    header = struct.pack(">IIBBBBB", 64, 64, 16, kind, 0, 0, 0)
    path = tmp_path / "deep.png"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )
    assert error_of(path) == f"{path}: has 16 bits a channel and {said}; save it as 16-bit grey"


@pytest.mark.parametrize("name", ["a\0b.png", "a\udc80b\ud800.png"])
def test_what_is_no_path_is_one_line(tmp_path, name):
    with pytest.raises(ImageError, match=r"^'.*\\x00b|^'.*\\udc80b.*: is no path"):
        read_image(tmp_path / name)


def test_colour_becomes_luma(tmp_path):
    image = Image.new("RGB", (2, 1))
    image.putpixel((0, 0), (200, 100, 50))  # 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 124.2
    image.putpixel((1, 0), (90, 90, 90))
    image.save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").tolist() == [[124, 90]]


def test_palette_holds_colours_not_indices(tmp_path):
    image = Image.new("P", (3, 1))
    image.putpalette([250, 250, 250, 0, 0, 0, 128, 128, 128])
    image.putdata([0, 1, 2])
    image.save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").tolist() == [[250, 0, 128]]


def test_palette_transparency_is_laid_on_black(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([250, 250, 250, 128, 128, 128])
    image.putdata([0, 1])
    image.save(tmp_path / "a.png", transparency=0)
    assert read_image(tmp_path / "a.png").tolist() == [[0, 128]]


@pytest.mark.parametrize(("mode", "clear", "half"), [("RGBA", (200,) * 3 + (0,), (200,) * 3 + (128,)),
                                                     ("LA", (200, 0), (200, 128))])  # fmt: skip
def test_transparency_is_laid_on_black(tmp_path, mode, clear, half):
    image = Image.new(mode, (3, 1), (200,) * (len(mode) - 1) + (255,))
    image.putpixel((0, 0), clear)
    image.putpixel((1, 0), half)
    image.save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").tolist() == [[0, 100, 200]]


def test_one_bit_png_is_black_and_white(tmp_path):
    Image.fromarray(np.array([[True, False]])).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").tolist() == [[255, 0]]


def test_cmyk_jpeg_is_read(tmp_path):
    pixels = np.repeat(np.array([[180, 40]], np.uint8), 16, axis=1).repeat(16, axis=0)
    Image.fromarray(pixels).convert("RGB").convert("CMYK").save(tmp_path / "a.jpg")
    assert np.abs(read_image(tmp_path / "a.jpg").astype(int) - pixels).max() <= 3


def test_exif_rotation_is_applied(tmp_path):
    pixels = np.zeros((8, 16), np.uint8)
    pixels[:, 8:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to show
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=95)
    grey = read_image(tmp_path / "a.jpg")
    assert grey.shape == (16, 8)
    assert grey[:8].mean() < 5
    assert grey[8:].mean() > 250


def test_content_decides_not_the_name(tmp_path):
    pixels = np.array([[8, 9]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / "a.jpg")
    np.testing.assert_array_equal(read_image(tmp_path / "a.jpg"), pixels)
    dicom(pixels).save_as(tmp_path / "b.jpg", enforce_file_format=True)
    np.testing.assert_array_equal(read_image(tmp_path / "b.jpg"), pixels)


# Files that are no radiograph


def test_missing_folder_and_empty(tmp_path):
    assert "No such file" in error_of(tmp_path / "none.jpg")
    assert "folder" in error_of(tmp_path)
    (tmp_path / "empty.jpg").touch()
    assert "empty" in error_of(tmp_path / "empty.jpg")


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a"])
def test_text_named_as_an_image(tmp_path, name):
    (tmp_path / name).write_text("No pleural effusion. " * 20)
    assert "is not a JPEG, PNG or DICOM image" in error_of(tmp_path / name)


def test_text_named_dcm(tmp_path):
    (tmp_path / "a.dcm").write_text("No pleural effusion. " * 20)
    assert "DICOM" in error_of(tmp_path / "a.dcm")


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_truncated_picture(tmp_path, suffix, kept):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    assert "truncated" in error_of(path)


def test_animated_and_other_formats(tmp_path):
    frames = [Image.new("L", (8, 8), grey) for grey in (0, 200)]
    frames[0].save(tmp_path / "a.png", save_all=True, append_images=frames[1:])
    assert "several pictures" in error_of(tmp_path / "a.png")
    frames[0].save(tmp_path / "b.gif", save_all=True, append_images=frames[1:])
    assert "is not a JPEG, PNG or DICOM image" in error_of(tmp_path / "b.gif")


def test_main_picture_of_a_phone_jpeg_is_read(tmp_path):
    main, extra = Image.new("L", (16, 16), 50), Image.new("L", (8, 8), 200)
    main.paste(90, (8, 0, 16, 16))
    main.save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[extra])
    grey = read_image(tmp_path / "a.jpg")
    assert grey.shape == (16, 16)
    assert np.abs(grey.astype(int) - np.asarray(main)).max() <= 2


@pytest.mark.parametrize("pillow_limit", [5, 15, 1000])  # its error, its warning, and below both
def test_decompression_bomb(tmp_path, monkeypatch, pillow_limit):
    Image.fromarray(np.eye(4, 5, dtype=bool)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillow_limit)
    monkeypatch.setattr(images, "MAX_PIXELS", 19)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "pixels" in error_of(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    monkeypatch.setattr(images, "MAX_PIXELS", 20)
    assert read_image(tmp_path / "a.png").shape == (4, 5)


def test_real_bomb_is_refused_before_it_is_unpacked(tmp_path):
    Image.new("1", (9000, 9000)).save(tmp_path / "a.png")
    assert "9000 x 9000" in error_of(tmp_path / "a.png")


def test_dicom_bomb(tmp_path):
    dataset = dicom(RAMP, Rows=60000, Columns=60000)
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert "60000 x 60000 pixels" in error_of(tmp_path / "a.dcm")


@pytest.mark.parametrize("pixels", [np.full((2, 2), 7, np.uint8), np.full((2, 2), 777, np.uint16)])
def test_an_image_of_one_grey_level_shows_nothing(tmp_path, pixels):
    Image.fromarray(pixels).save(tmp_path / "a.png")
    dicom(pixels).save_as(tmp_path / "a.dcm", enforce_file_format=True)
    for name in ("a.png", "a.dcm"):
        assert "shows nothing; the whole image has one grey level" in error_of(tmp_path / name)


@pytest.mark.usefixtures("real_size")
@pytest.mark.parametrize(("height", "width"), [(31, 400), (400, 31), (1, 1)])
def test_an_image_of_few_pixels_is_refused(tmp_path, height, width):
    pixels = np.random.default_rng(0).integers(0, 256, (height, width), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    dicom(pixels).save_as(tmp_path / "a.dcm", enforce_file_format=True)
    for name in ("a.png", "a.dcm"):
        assert f"has {width} x {height} pixels; a radiograph has at least 32 on each side" in error_of(tmp_path / name)


@pytest.mark.usefixtures("real_size")
def test_the_smallest_image_is_read(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), pixels)
    np.testing.assert_array_equal(through_file(dicom(pixels), tmp_path / "a.dcm"), pixels)


# DICOM


def test_12_bits_without_a_window_are_stretched(tmp_path):
    grey = through_file(dicom(RAMP[:, :2] + 5), tmp_path / "a.dcm")  # 5 .. 4005
    assert grey.tolist() == [[0, 64], [191, 255]]


def test_8_bits_without_a_window_stay(tmp_path):
    pixels = np.array([[10, 20], [30, 40]], np.uint8)
    np.testing.assert_array_equal(through_file(dicom(pixels), tmp_path / "a.dcm"), pixels)
    inverted = through_file(dicom(pixels, PhotometricInterpretation="MONOCHROME1"), tmp_path / "b.dcm")
    assert inverted.tolist() == [[245, 235], [225, 215]]


def test_monochrome1_is_inverted_after_the_window(tmp_path):
    elements = {"PhotometricInterpretation": "MONOCHROME1", "WindowCenter": 2000.5, "WindowWidth": 2001}
    grey = through_file(dicom(RAMP, **elements), tmp_path / "a.dcm")  # window from 1000 to 3000
    assert grey.tolist() == [[255, 255, 127], [0, 0, 0]]


def test_window_applies_to_rescaled_values(tmp_path):
    elements = {"RescaleSlope": 2, "RescaleIntercept": -1000, "WindowCenter": 3000.5, "WindowWidth": 4001}
    grey = through_file(dicom(RAMP, **elements), tmp_path / "a.dcm")  # stored 1000 to 3000
    assert grey.tolist() == [[0, 0, 128], [255, 255, 255]]


def test_negative_slope_turns_the_grey_scale(tmp_path):
    grey = through_file(dicom(RAMP[:, :2], RescaleSlope=-1, RescaleIntercept=4095), tmp_path / "a.dcm")
    assert grey.tolist() == [[255, 191], [64, 0]]


def test_signed_pixels(tmp_path):
    pixels = np.array([[-1000, 0], [500, 1000]], np.int16)
    assert through_file(dicom(pixels), tmp_path / "a.dcm").tolist() == [[0, 128], [191, 255]]


@pytest.mark.parametrize("intent", ["FOR PRESENTATION", "FOR PROCESSING"])
@pytest.mark.parametrize("function", ["LINEAR", "LINEAR_EXACT", "SIGMOID"])
def test_window_functions_agree_with_pydicom(tmp_path, intent, function):
    dataset = dicom(
        RAMP, WindowCenter=[2100, 9], WindowWidth=[2500, 9], VOILUTFunction=function, PresentationIntentType=intent
    )
    expected = apply_windowing(RAMP, dataset) / 4095 * 255
    grey = through_file(dataset, tmp_path / "a.dcm")
    np.testing.assert_allclose(grey, expected, atol=0.51)


def voi_table(entries: list[int], first: int, depth: int, packed: bool = False) -> Dataset:
    item = Dataset()
    item.LUTDescriptor = [len(entries), first, depth]
    item.LUTData = np.array(entries, np.uint8 if packed else np.uint16).tobytes()
    item["LUTData"].VR = "OW"
    return item


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_voi_table(tmp_path, packed, syntax):
    # 8-bit entries for values from 1000 on; below the first and above the last, the ends hold.
    entries = [10 + index // 10 for index in range(2000)]  # 10 .. 209
    dataset = dicom(RAMP, VOILUTSequence=[voi_table(entries, 1000, 8, packed)], WindowCenter=5, WindowWidth=3)
    dataset.file_meta.TransferSyntaxUID = syntax
    grey = through_file(dataset, tmp_path / "a.dcm")
    # value 2000 -> entry 110 -> (110 - 10) / 199 * 255 = 128.1
    assert grey.tolist() == [[0, 0, 128], [255, 255, 255]]


def test_modality_table_comes_before_the_window(tmp_path):
    item = voi_table([0, 100, 400, 900], 0, 16)
    item.ModalityLUTType = "US"
    pixels = np.array([[0, 1], [2, 3]], np.uint16)
    dataset = dicom(pixels, ModalityLUTSequence=[item], WindowCenter=250.5, WindowWidth=501)
    assert through_file(dataset, tmp_path / "a.dcm").tolist() == [[0, 51], [204, 255]]


def test_padding_does_not_set_the_range(tmp_path):
    pixels = np.array([[0, 1000], [1500, 2000]], np.uint16)
    assert through_file(dicom(pixels, PixelPaddingValue=0), tmp_path / "a.dcm").tolist() == [[0, 0], [128, 255]]
    grey = through_file(dicom(pixels, PixelPaddingValue=0, PixelPaddingRangeLimit=1000), tmp_path / "b.dcm")
    assert grey.tolist() == [[0, 0], [0, 255]]
    dicom(np.zeros((2, 2), np.uint16), PixelPaddingValue=0).save_as(tmp_path / "c.dcm", enforce_file_format=True)
    assert "shows nothing" in error_of(tmp_path / "c.dcm")


def test_rgb_dicom_becomes_luma(tmp_path):
    pixels = np.array([[[200, 100, 50], [90, 90, 90]]], np.uint8)
    dataset = dicom(pixels, SamplesPerPixel=3, PhotometricInterpretation="RGB", PlanarConfiguration=0)
    assert through_file(dataset, tmp_path / "a.dcm").tolist() == [[124, 90]]


@pytest.mark.parametrize("syntax", [RLELossless, JPEG2000Lossless])
def test_compressed_files_equal_the_plain_one(tmp_path, syntax):
    pixels = np.random.default_rng(0).integers(0, 4096, (64, 48), dtype=np.uint16)
    plain = through_file(dicom(pixels), tmp_path / "plain.dcm")
    packed = dicom(pixels)
    packed.compress(syntax)
    np.testing.assert_array_equal(through_file(packed, tmp_path / "packed.dcm"), plain)


@pytest.mark.parametrize("name", ["MR_small_jpeg_ls_lossless.dcm", "MR_small_jp2klossless.dcm", "MR_small_RLE.dcm"])
def test_compressed_examples_of_pydicom(tmp_path, name):
    greys = []
    for source in ("MR_small.dcm", name):
        dataset = pydicom.dcmread(get_testdata_file(source, download=False))
        dataset.Modality = "DX"
        greys.append(through_file(dataset, tmp_path / source))
    np.testing.assert_array_equal(greys[0], greys[1])
    assert np.ptp(greys[0]) > 200


def test_dicom_without_preamble_needs_its_suffix(tmp_path):
    dataset = dicom(np.array([[8, 9]], np.uint8))
    dataset.save_as(tmp_path / "full.dcm", enforce_file_format=True)
    bare = (tmp_path / "full.dcm").read_bytes()[132:]
    (tmp_path / "bare.DCM").write_bytes(bare)
    (tmp_path / "bare.bin").write_bytes(bare)
    assert read_image(tmp_path / "bare.DCM").tolist() == [[8, 9]]
    assert "is not a JPEG, PNG or DICOM" in error_of(tmp_path / "bare.bin")


@pytest.mark.parametrize("name", ["CT_small.dcm", "MR_small.dcm"])
def test_slices_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(Path(get_testdata_file(name, download=False)).read_bytes())
    assert f"is not a radiograph (its modality is {name[:2]})" in error_of(tmp_path / name)


@pytest.mark.parametrize("modality", ["PT", "US", "NM", "XA", "MG"])
def test_other_modalities_are_refused(tmp_path, modality):
    dicom(RAMP, Modality=modality).save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert modality in error_of(tmp_path / "a.dcm")


@pytest.mark.parametrize("modality", ["CR", "DX", "OT", "SC", "", None])
def test_radiographs_and_exports_are_read(tmp_path, modality):
    assert np.ptp(through_file(dicom(RAMP, Modality=modality), tmp_path / "a.dcm")) == 255


def test_multi_frame_is_refused(tmp_path):
    dataset = dicom(RAMP, NumberOfFrames=2, PixelData=RAMP.tobytes() * 2)
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert "2 frames" in error_of(tmp_path / "a.dcm")


@pytest.mark.parametrize("elements", [{"WindowCenter": 1e6, "WindowWidth": 10}, {"WindowCenter": 0, "WindowWidth": 0},
                                      {"WindowCenter": 9, "WindowWidth": 9, "VOILUTFunction": "CUBIC"},
                                      {"PhotometricInterpretation": "PALETTE COLOR"}])  # fmt: skip
def test_headers_that_cannot_be_shown(tmp_path, elements):
    dicom(RAMP, **elements).save_as(tmp_path / "a.dcm", enforce_file_format=True)
    error_of(tmp_path / "a.dcm")


def test_dicom_without_pixels(tmp_path):
    dataset = dicom(RAMP)
    del dataset.PixelData
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert "no pixel data" in error_of(tmp_path / "a.dcm")


@pytest.mark.parametrize("kept", [10, 140, 300, 0.6, 0.97])
@pytest.mark.parametrize("syntax", [None, RLELossless, JPEG2000Lossless])
@pytest.mark.filterwarnings("ignore:End of file reached")
def test_truncated_dicom(tmp_path, kept, syntax):
    dataset = dicom(np.random.default_rng(0).integers(0, 4096, (64, 64), dtype=np.uint16))
    if syntax is not None:
        dataset.compress(syntax)
    path = tmp_path / "a.dcm"
    dataset.save_as(path, enforce_file_format=True)
    whole = path.read_bytes()
    path.write_bytes(whole[: kept if kept > 1 else int(len(whole) * kept)])
    assert "DICOM" in error_of(path)


# Real files


def test_real_dicom_pair(dicom_root):
    """One radiograph stored as MONOCHROME2 and again as MONOCHROME1 with the same stored values."""
    grey = {}
    for path in dicom_root.glob("*.dcm"):
        grey[pydicom.dcmread(path, stop_before_pixels=True).PhotometricInterpretation] = read_image(path)
    assert grey["MONOCHROME2"].shape == (1024, 1024)
    np.testing.assert_array_equal(grey["MONOCHROME1"], 255 - grey["MONOCHROME2"])


def test_real_jpegs(iu_xray_root):
    with (iu_xray_root / "manifest.csv").open(newline="", encoding="utf-8") as file:
        paths = [row["image_path"] for row in csv.DictReader(file)][:1000:50]
    assert len(paths) == 20
    for path in paths:
        grey = read_image(iu_xray_root / path)
        assert grey.shape == (256, 256)
        assert grey.std() > 20
