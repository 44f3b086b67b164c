"""An evaluation that stands already is taken up."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from rarrg import __version__
from rarrg.artifacts import MANIFEST, read_json, write_json
from rarrg.config import TrainConfig
from rarrg.evaluated_reports import SCORES_OF_REPORTS
from rarrg.evaluation import EvaluateOptions, evaluate
from rarrg.scoring import SCORES

MADE_FROM = "made_from.json"


def evaluate_once(
    options: EvaluateOptions, read_config: Callable[[Sequence[str]], TrainConfig], say: Callable[[str], None]
) -> Path:
    """Evaluate, unless the output folder holds one of the same weights and phrases by the same options and version.

    Args:
        options: What to evaluate; ``out`` is given.
        read_config: Reads a training configuration from words of the command line.
        say: Takes each line meant for the user.

    Returns:
        The output folder.

    Raises:
        RarrgError: Model, data or weights are missing or do not fit.
    """
    assert options.out is not None
    out = options.out
    asked = {name: value for name, value in dataclasses.asdict(options).items() if name not in ("model", "out")}
    made_of = {
        "rarrg": __version__,  # rules and labeler are part of it
        "weights": read_json(options.model / MANIFEST)["sha256"],
        "store": read_json(options.model / "store" / MANIFEST)["sha256"],
        "options": asked,
    }
    made = json.loads(json.dumps(made_of, default=str))
    done = out / MADE_FROM
    if done.is_file() and (out / SCORES_OF_REPORTS / SCORES).is_file() and read_json(done) == made:
        say(f"{out}: was evaluated before")
        return out
    done.unlink(missing_ok=True)
    evaluate(options, read_config, say)
    write_json(done, made)
    return out
