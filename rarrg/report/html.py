"""A report as one self-contained HTML page: images, phrases, scores, and the attention map of each phrase."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from rarrg.report.join import ORDER
from rarrg.types import Position, Report

LONGEST_SIDE = 1024  # pixels; enough for a screen, and keeps the page of a study under about a megabyte
_environment = Environment(
    loader=PackageLoader("rarrg.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _jpeg_uri(image: np.ndarray) -> tuple[str, int, int]:
    """Data URI of a uint8 ``[height, width]`` image, shrunk to the page's size, with its width and height."""
    picture = Image.fromarray(image)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/jpeg;base64,{encoded}", picture.width, picture.height


def _packed_map(attention: np.ndarray) -> dict[str, Any]:
    """A float ``[height, width]`` map as base64 bytes: 0 up to the map's mean, 255 at its peak.

    A peak below twice the mean stays below 255, so that a map that prefers nothing shows little.
    """
    mean = float(attention.mean())
    above = np.maximum(attention - mean, 0) / max(float(attention.max()) - mean, mean, 1e-12)
    scaled = np.rint(255 * above).astype(np.uint8)
    return {
        "height": attention.shape[0],
        "width": attention.shape[1],
        "data": base64.b64encode(scaled.tobytes()).decode("ascii"),
    }


def render(
    report: Report,
    images: Mapping[Position, Sequence[np.ndarray]],
    attention: Mapping[Position, np.ndarray] | None = None,
) -> str:
    """Write the page. A fragment (``page.html#frontal-0``, ``#sentence-2``) opens it with that phrase's map shown.

    Args:
        report: The report; a sentence is linked with the phrases that its grounding names.
        images: Images of each view of the report, uint8 ``[height, width]``.
        attention: Maps of each view's phrases, ``[phrases, height, width]``, not negative, spread over the whole image.

    Returns:
        HTML that asks for nothing outside itself.

    Raises:
        ValueError: A view's maps are not as many as its phrases, or its images not as many as its files.
    """
    attention = attention or {}
    maps: dict[str, dict[str, Any]] = {}
    owners: dict[str, str] = {}
    views = []
    for position in ORDER:
        if position not in report.phrases:
            continue
        phrases = report.phrases[position]
        if position in attention:
            for index, (_, one) in enumerate(zip(phrases, attention[position], strict=True)):
                maps[f"{position}-{index}"] = _packed_map(one)
        for number, (file, image) in enumerate(zip(report.images[position], images[position], strict=True)):
            key = f"{position}-image-{number}"
            own = [(f"{position}-{index}", phrase) for index, phrase in enumerate(phrases) if phrase.image == number]
            owners |= {name: key for name, _ in own}
            dropped = [each for each in report.dropped if (each.view, each.phrase.image) == (position, number)]
            uri, width, height = _jpeg_uri(image)
            views.append(
                {
                    "key": key,
                    "position": position,
                    "file": Path(file).name,
                    "uri": uri,
                    "width": width,
                    "height": height,
                    "phrases": own,
                    "flagged": position in report.below_threshold,
                    "dropped": dropped,
                }
            )
    links = {
        f"sentence-{number}": [f"{position}-{index}" for position, index in sentence.sources]
        for number, sentence in enumerate(report.grounding.sentences)
    }
    return _environment.get_template("report.html.jinja").render(
        report=report, views=views, data={"maps": maps, "links": links, "owners": owners}
    )
