"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def _real_data(variable: str, default: Path) -> Path:
    root = Path(os.environ.get(variable, default))
    if not root.is_dir():
        pytest.skip(f"no real data at {root}; set {variable} to its folder")
    return root


@pytest.fixture(scope="session")
def iu_xray_root() -> Path:
    return _real_data("RARRG_IU_XRAY", SHARED / "iu_xray")


@pytest.fixture(scope="session")
def dicom_root() -> Path:
    return _real_data("RARRG_DICOM", SHARED / "dicom")
