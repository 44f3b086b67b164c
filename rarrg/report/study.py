"""What the images of one study retrieved, brought together by view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rarrg.report.join import ORDER
from rarrg.types import Dropped, Phrases, Position, RetrievedPhrase


@dataclass(frozen=True, eq=False)
class Retrieval:
    """What an image retrieved.

    Attributes:
        phrases: Different phrases, most probable first.
        below_threshold: No query passed the threshold, and the most probable one was taken.
        attention: Cross-attention of each phrase's query in the decoder's last layer, averaged over heads, float32
            ``[phrases, height, width]``; each map covers the whole image and sums to 1. None unless asked for.
    """

    phrases: tuple[RetrievedPhrase, ...]
    below_threshold: bool
    attention: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class StudyRetrieval:
    """What a study retrieved: all that a report is written from.

    Attributes:
        phrases: Different phrases of each view, most probable first.
        images: The image files of each view.
        below_threshold: Views of which no image passed the threshold.
        dropped: Phrases that contradicted others.
        attention: Attention maps of each view's phrases, ``[phrases, height, width]``, each on the phrase's own image;
            empty unless asked for.
    """

    phrases: dict[Position, tuple[RetrievedPhrase, ...]]
    images: dict[Position, tuple[str, ...]]
    below_threshold: tuple[Position, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    attention: dict[Position, np.ndarray] = field(default_factory=dict)

    def keep(self, phrases: Phrases, dropped: Sequence[Dropped]) -> StudyRetrieval:
        """The same study with some of its phrases only.

        Args:
            phrases: Phrases that stay, of every view.
            dropped: Those that do not, and why.
        """
        maps = {}
        for view, attention in self.attention.items():
            stays = set(phrases.get(view, ()))
            maps[view] = attention[[phrase in stays for phrase in self.phrases[view]]]
        kept = {view: tuple(said) for view, said in phrases.items()}
        return replace(self, phrases=kept, dropped=tuple(dropped), attention=maps)


def by_view(found: Sequence[tuple[Position, str, Retrieval]]) -> StudyRetrieval:
    """Bring the images of a study together.

    A phrase that several images of a view retrieved stands once, as the image where it is most probable retrieved it.
    Of a view with several images, one of which passed the threshold, those that did not are passed over.

    Args:
        found: View, file and retrieval of each image.
    """
    phrases: dict[Position, tuple[RetrievedPhrase, ...]] = {}
    images: dict[Position, tuple[str, ...]] = {}
    attention: dict[Position, np.ndarray] = {}
    below: list[Position] = []
    for view in ORDER:
        of_view = [(path, retrieval) for position, path, retrieval in found if position == view]
        if not of_view:
            continue
        images[view] = tuple(path for path, _ in of_view)
        if all(retrieval.below_threshold for _, retrieval in of_view):
            below.append(view)
        candidates = [
            (replace(phrase, image=image), None if retrieval.attention is None else retrieval.attention[place])
            for image, (_, retrieval) in enumerate(of_view)
            if view in below or not retrieval.below_threshold
            for place, phrase in enumerate(retrieval.phrases)
        ]
        candidates.sort(key=lambda candidate: -candidate[0].probability)
        best: dict[str, tuple[RetrievedPhrase, np.ndarray | None]] = {}
        for phrase, one in candidates[: 1 if view in below else None]:
            best.setdefault(phrase.text, (phrase, one))
        phrases[view] = tuple(phrase for phrase, _ in best.values())
        maps = [one for _, one in best.values() if one is not None]
        if maps:
            attention[view] = np.stack(maps)
    return StudyRetrieval(phrases, images, tuple(below), (), attention)
