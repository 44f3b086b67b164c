"""What the image reader says of a file that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from rarrg.data.images import read_image
from rarrg.errors import ImageError


def error_of(path: Path) -> str:
    with pytest.raises(ImageError) as caught:
        read_image(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message
