from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from rarrg.errors import ImageError, RarrgError
from rarrg.pipeline import Images, ReportGenerator
from rarrg.report.study import StudyRetrieval
from rarrg.study_stages import look_each
from tests.test_pipeline import build_model, draw_image, with_threshold

Listed = list[tuple[str, Images, Images]]


@pytest.fixture(scope="module")
def generate(tmp_path_factory) -> ReportGenerator:
    return ReportGenerator.from_pretrained(build_model(tmp_path_factory.mktemp("tiny")), device="cpu", threshold=0.3)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch runs on one thread, and afterwards on as many as before."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def studies(tmp_path: Path) -> Listed:
    """Six studies of one to three images, of either view or both."""
    shapes = [(50, 40), (64, 64), (33, 70)]
    images = [draw_image(tmp_path / f"{seed}.png", seed, shapes[seed % 3]) for seed in range(11)]
    return [
        ("a", images[0], images[1]),
        ("b", images[2], None),
        ("c", None, str(images[3])),
        ("d", images[4:6], images[6]),
        ("e", [images[7]], []),
        ("f", images[8], images[9:11]),
    ]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_each_study_is_looked_at_as_if_alone_to_the_last_bit(
    generate: ReportGenerator, studies: Listed, together: bool, threads: int, one_thread
):
    generate = with_threshold(generate, 0.3, together)
    torch.set_num_threads(threads)
    found = list(look_each(generate, studies))
    assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    assert [name for name, _ in found] == [name for name, _, _ in studies]
    for (_, frontal, lateral), (_, study) in zip(studies, found, strict=True):
        assert isinstance(study, StudyRetrieval)
        assert asdict(study) == asdict(generate.look(frontal, lateral))


def test_an_unreadable_image_takes_its_study_with_it_and_no_other(
    generate: ReportGenerator, studies: Listed, tmp_path: Path
):
    (tmp_path / "broken.png").write_text("no image")
    spoilt = [*studies[:2], ("broken", studies[0][1], tmp_path / "broken.png"), *studies[2:]]
    found = dict(look_each(generate, spoilt))
    assert list(found) == ["a", "b", "broken", "c", "d", "e", "f"]
    failure = found.pop("broken")
    assert isinstance(failure, ImageError)
    assert "broken.png" in str(failure)
    alone = dict(look_each(generate, studies))
    assert {name: asdict(study) for name, study in found.items()} == {
        name: asdict(study) for name, study in alone.items()
    }


def test_a_study_without_images_is_refused(generate: ReportGenerator, studies: Listed):
    with pytest.raises(RarrgError, match="no image"):
        list(look_each(generate, [studies[0], ("none", None, [])]))


def test_a_long_list_is_drawn_as_it_is_used(generate: ReportGenerator, studies: Listed):
    drawn = 0

    def listed() -> Iterator[tuple[str, Images, Images]]:
        nonlocal drawn
        for number in range(1000):
            drawn += 1
            yield (str(number), *studies[0][1:])

    results = look_each(generate, listed())
    for _ in range(3):
        next(results)
    results.close()
    threads = torch.get_num_threads()
    assert drawn <= 3 + 2 * threads + (threads + 1) + 2
