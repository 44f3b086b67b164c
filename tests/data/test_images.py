from __future__ import annotations

import csv
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from rarrg.data import grey as limits
from rarrg.data.images import read_image
from rarrg.errors import ImageError
from tests.data.refusals import error_of
from tests.data.test_dicom import RAMP, dicom, through_file

pytestmark = pytest.mark.usefixtures("small_images")

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
    monkeypatch.setattr(limits, "MAX_PIXELS", 19)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "pixels" in error_of(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    monkeypatch.setattr(limits, "MAX_PIXELS", 20)
    assert read_image(tmp_path / "a.png").shape == (4, 5)


def test_real_bomb_is_refused_before_it_is_unpacked(tmp_path):
    Image.new("1", (9000, 9000)).save(tmp_path / "a.png")
    assert "9000 x 9000" in error_of(tmp_path / "a.png")


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


# Real files


def test_real_jpegs(iu_xray_root):
    with (iu_xray_root / "manifest.csv").open(newline="", encoding="utf-8") as file:
        paths = [row["image_path"] for row in csv.DictReader(file)][:1000:50]
    assert len(paths) == 20
    for path in paths:
        grey = read_image(iu_xray_root / path)
        assert grey.shape == (256, 256)
        assert grey.std() > 20
