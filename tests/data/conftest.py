"""What tests of images share."""

from __future__ import annotations

import pytest

from rarrg.data import grey


@pytest.fixture
def small_images(request, monkeypatch):
    """Images of a few pixels, whose grey levels one can work out by hand."""
    if "real_size" not in request.fixturenames:
        monkeypatch.setattr(grey, "MIN_SIDE", 1)


@pytest.fixture
def real_size():
    """Keeps the limit on small images."""
