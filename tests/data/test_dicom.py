"""DICOM files made here, those of pydicom, and a real pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
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

from rarrg.data.images import read_image
from tests.data.refusals import error_of

pytestmark = pytest.mark.usefixtures("small_images")

RAMP = np.array([[0, 1000, 2000], [3000, 4000, 4095]], dtype=np.uint16)


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


def test_text_named_dcm(tmp_path):
    (tmp_path / "a.dcm").write_text("No pleural effusion. " * 20)
    assert "DICOM" in error_of(tmp_path / "a.dcm")


def test_dicom_bomb(tmp_path):
    dataset = dicom(RAMP, Rows=60000, Columns=60000)
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert "60000 x 60000 pixels" in error_of(tmp_path / "a.dcm")


def test_real_dicom_pair(dicom_root):
    """One radiograph stored as MONOCHROME2 and again as MONOCHROME1 with the same stored values."""
    grey = {}
    for path in dicom_root.glob("*.dcm"):
        grey[pydicom.dcmread(path, stop_before_pixels=True).PhotometricInterpretation] = read_image(path)
    assert grey["MONOCHROME2"].shape == (1024, 1024)
    np.testing.assert_array_equal(grey["MONOCHROME1"], 255 - grey["MONOCHROME2"])
