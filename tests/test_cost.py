"""What a model costs, as far as it is known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rarrg.config import DataConfig, TrainConfig, TrainerConfig
from rarrg.cost import TIMED, Cost, Trained, Writing, cost_of, cost_tables, training_hours
from rarrg.pipeline import ReportGenerator
from rarrg.score_tables import Table
from tests.test_comparison import studies_in
from tests.test_pipeline import build_model

UNKNOWN = Trained(None, None, None)
JOINED = Writing("join", 0.002, None, None)
TRAINED = TrainConfig(data=DataConfig(batch_size=4))


def log(folder: Path, *speeds: tuple[int, float], version: int = 0) -> Path:
    """A log of steps with their images a second, a line of something else between them."""
    place = folder / "logs" / f"version_{version}"
    place.mkdir(parents=True)
    lines = [f"{step},{speed},\n{step},,0.1" for step, speed in speeds]
    (place / "metrics.csv").write_text("\n".join(["step,train/images_per_second,lr-AdamW", *lines]), encoding="utf-8")
    return folder


def test_the_time_of_training_is_that_of_the_logged_steps(tmp_path: Path) -> None:
    # Ten images: batches of 4, 4 and 2. Steps 0 to 2 at 5 images a second, 3 and 4 at 8; no more is logged.
    found = training_hours(log(tmp_path, (2, 5.0), (4, 8.0)), TRAINED, 10)
    assert found == pytest.approx((10 / 5 + 8 / 8) / 3600)


def test_an_epoch_that_was_cut_short_has_its_first_batches_alone(tmp_path: Path) -> None:
    cut = dataclasses.replace(TRAINED, trainer=TrainerConfig(limit_batches=2))
    assert training_hours(log(tmp_path, (3, 8.0)), cut, 10) == pytest.approx(16 / 8 / 3600)


def test_what_a_folder_does_not_say_is_not_known(tmp_path: Path) -> None:
    assert training_hours(tmp_path, TRAINED, 10) is None
    (tmp_path / "logs" / "version_0").mkdir(parents=True)
    assert training_hours(tmp_path, TRAINED, 10) is None
    assert training_hours(log(tmp_path / "silent"), TRAINED, 10) is None
    once = log(tmp_path / "run", (2, 5.0))
    assert training_hours(once, TRAINED, None) is None
    assert training_hours(log(once, (5, 5.0), version=1), TRAINED, 10) is None  # resumed, or started anew


def test_parameters_are_counted_and_retrieval_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = ReportGenerator.from_pretrained(build_model(tmp_path), device="cpu")
    evaluated = studies_in(tmp_path)
    looked: list[int] = []
    retrieve_batch = generator.retrieve_batch

    def counting(images: list, studies: list[int]) -> list:
        looked.append(len(images))
        return retrieve_batch(images, studies=studies)

    monkeypatch.setattr(generator, "retrieve_batch", counting)
    cost = cost_of(generator, evaluated, UNKNOWN, JOINED)
    assert looked == [2, 2, 2, 2, 1]  # the first study twice: what it sets up is not timed
    assert cost.timed_studies == 4 < TIMED
    assert cost.retrieval_seconds > 0
    # The buffers (anchors, offset, standardisation) are no parameters.
    members = sum(value.numel() for name, value in generator.retriever.state_dict().items() if "members" in name)
    assert cost.retriever_parameters == members
    assert cost.encoder_parameters == sum(value.numel() for value in generator.encoder.state_dict().values())
    assert "thread" in cost.device
    assert cost.writing == JOINED


def values_of(table: Table) -> dict[str, str]:
    return {row[0]: row[1] for row in table.rows}


def test_the_paper_is_quoted_and_what_is_not_known_is_left_open() -> None:
    cost = Cost(1234567, 89, UNKNOWN, "a processor, 2 threads", 20, 0.12345, JOINED)
    training, own = cost_tables(cost)
    assert training.title == "Table 7: cost of training"
    assert training.caution == "Not comparable"
    assert training.rows == [
        ["M4CXR, quoted", "2 × H100", "108", "208"],
        ["LLaVA-Rad, quoted", "8 × A100", "28", "224"],
        ["RA-RRG, quoted", "1 × H100", "18", "18"],
        ["ours", "-", "-", "-"],
    ]
    assert values_of(own) == {
        "parameters of the retriever, trained": "1,234,567",
        "parameters of the image encoders, frozen meanwhile": "89",
        "device": "a processor, 2 threads",
        "retrieval, seconds a study (of 20)": "0.123",
        "writing (join), seconds a report": "0.002",
        "tokens read, a report": "-",
        "tokens written, a report": "-",
    }
    known = Trained("a GPU", 1, 0.5)
    written = dataclasses.replace(cost, trained=known, writing=Writing("a model", None, 512.25, 80.0))
    training, own = cost_tables(written)
    assert training.rows[-1] == ["ours", "a GPU", "0.5", "0.5"]
    on_a_processor = dataclasses.replace(cost, trained=Trained("a processor", 0, 0.5))
    assert cost_tables(on_a_processor)[0].rows[-1] == ["ours", "a processor", "0.5", "-"]
    assert values_of(own)["writing (a model), seconds a report"] == "-"
    assert values_of(own)["tokens read, a report"] == "512.2"
