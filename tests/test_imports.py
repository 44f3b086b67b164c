"""What commands import: a library that a command has no use for would cost its user seconds at every start."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from tests.test_pipeline import build_model, draw_image

ROOT = Path(__file__).resolve().parents[1]
HELP = {"jsonargparse", "yaml", "typeshed_client", "typing_extensions"}
"""All that the command line itself needs. Not numpy either."""

NEVER = {
    "lightning",
    "pytorch_lightning",
    "torchmetrics",
    "sentence_transformers",
    "matplotlib",
    "ray",
    "openai",
    "vllm",
    "wandb",
}
"""What a report needs on no account: training, the text encoder (the store holds its vectors), language models."""


def imported(statement: str) -> set[str]:
    """Libraries, ours and Python's own aside, that a new process has imported after a statement."""
    code = (
        f"import json, sys\n{statement}\n"
        "files = {name.partition('.')[0]: getattr(m, '__file__', None) or '' for name, m in sys.modules.items()}\n"
        "json.dump(sorted(name for name, file in files.items() if '-packages' in file), sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1])) - {"rarrg", "_distutils_hack", "sitecustomize"}


def test_help_needs_the_parser_alone():
    assert imported("from rarrg.cli import main\nmain(['--help'])") <= HELP


def test_the_package_itself_needs_nothing():
    assert imported("import rarrg") == set()


def test_type_checkers_of_those_who_install_it_read_its_types():
    """PEP 561: without the marker every name of the package is Any to them."""
    assert resources.files("rarrg").joinpath("py.typed").is_file()


def test_a_mistyped_path_is_told_before_torch_is_imported(tmp_path: Path):
    call = f"main(['infer', '--frontal', {str(tmp_path / 'none.png')!r}])"
    assert "torch" not in imported(f"from rarrg.cli import main\nassert {call} == 2")


@pytest.mark.parametrize(
    ("library", "others"),
    [("timm", {"transformers", "sklearn", "scipy", "pandas", "pydicom"}), ("transformers", {"timm", "pydicom"})],
)
def test_infer_imports_the_library_of_its_encoder_and_no_other(
    library: str, others: set[str], tiny_timm: Path, tmp_path: Path
):
    model = build_model(tmp_path, tiny_timm if library == "timm" else None)
    words = ["infer", "--model", str(model), "--frontal", str(draw_image(tmp_path / "a.png", 0)), "--device", "cpu"]
    found = imported(f"from rarrg.cli import main\nassert main({words!r}) == 0")
    assert {"torch", library} <= found
    assert not found & (NEVER | others)


def test_timm_leaves_wandb_to_those_who_import_it():
    """It is kept from timm alone, whichever of them comes first."""
    assert "wandb" in imported("from rarrg.models.timm_library import timm\nimport wandb; wandb.init")
    first = "import wandb, timm.utils.summary\nfrom rarrg.models.timm_library import timm\n"
    assert "wandb" in imported(f"{first}assert timm.utils.summary.wandb is wandb")
