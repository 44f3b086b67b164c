from __future__ import annotations

from rarrg.data.evaluation_set import evaluation_set, set_of_every_image
from rarrg.types import Position, Study, View


def study(name: str, *positions: Position) -> Study:
    views = tuple(View(f"{name}-{n}.png", position, f"{name}-{n}") for n, position in enumerate(positions))
    return Study(name, "test", views, "Clear lungs.")


def test_each_study_gives_its_first_frontal_and_first_lateral() -> None:
    studies = [study("a", "lateral", "frontal", "frontal"), study("b", "other"), study("c", "lateral", "lateral")]
    chosen = evaluation_set(studies)
    assert [each.id for each in chosen.studies] == ["a", "c"]
    assert [view.image_id for view in chosen.views] == ["a-1", "a-0", "c-0"]
    assert chosen.members == {
        "study": [(0, (0, 1)), (1, (2,))],
        "frontal": [(0, (0,))],
        "lateral": [(0, (1,)), (1, (2,))],
    }


def test_an_unreadable_image_gives_way_to_the_next_of_its_position() -> None:
    chosen = evaluation_set([study("a", "frontal", "frontal"), study("b", "frontal")], {"a-0", "b-0"})
    assert [view.image_id for view in chosen.views] == ["a-1"]
    assert [each.id for each in chosen.studies] == ["a"]


def test_every_image_may_be_taken() -> None:
    chosen = set_of_every_image([study("a", "frontal", "other", "frontal"), study("b", "lateral")], {"a-2", "b-0"})
    assert [view.image_id for view in chosen.views] == ["a-0", "a-1"]
    assert chosen.members == {"study": [(0, (0, 1))], "frontal": [(0, (0,))], "lateral": []}
