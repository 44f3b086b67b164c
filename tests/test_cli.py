from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rarrg import cli
from rarrg.cli import main, parse_train
from rarrg.cli_parsing import find_config
from rarrg.errors import RarrgError

ROOT = Path(__file__).resolve().parents[1]


def test_train_py_takes_a_bare_config_name_and_overrides_without_a_subcommand() -> None:
    argv = ["--config", "mimic.yaml", "--data.root", "d", "--optim.clip=0.5", "--print_config"]
    done = subprocess.run(
        [sys.executable, "train.py", *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = yaml.safe_load(done.stdout)
    assert printed["optim"] == {"learning_rate": 2e-4, "weight_decay": 0.05, "warmup_steps": 50, "clip": 0.5}
    assert printed["data"]["root"] == "d"


def test_a_config_of_the_working_folder_comes_before_one_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Path(find_config("mimic.yaml")).parent.name == "configs"
    Path("mimic.yaml").write_text("seed: 1\n")
    assert find_config("mimic.yaml") == "mimic.yaml"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--config", "mimick.yaml"], "--config mimick.yaml: no such file; in configs/ there are .*mimic.yaml"),
        (["--data.rot", "x"], "unknown key data.rot; did you mean data.root?"),
        (["--optim.learning_rat", "1"], r"unknown key optim\.learning_rat; did you mean optim\.learning_rate"),
        (["--nonsense", "1"], "unknown key nonsense; --help lists all keys"),
        (["--data.batch_size", "many"], "data.batch_size: expected a whole number, got many"),
        (["--data.source", "mimic"], "data.source: expected one of 'iu_xray', 'mimic_cxr', 'phantom', got mimic"),
        (["--trainer.limit_batches", "x"], "trainer.limit_batches: expected a whole number or null, got x"),
        (["--data.train_splits", "train"], r"data.train_splits: expected a list, as \[one, two\], got train"),
        (["--config", "README.md"], "--config: a named file is not YAML of keys and values"),
        (["--data.batch_size", "0"], "data.batch_size: must be at least 1, got 0"),
        (["--retriever.dim", "100"], r"retriever.dim: must be a multiple of retriever.heads \(8\), got 100"),
        (["--data.source", "iu_xray"], "data.root: name the folder of the iu_xray data set"),
        (["--threshold", "1.5"], r"threshold: must be in \(0, 1\)"),
        (["--config=mimic.yaml", "--data.root", "nowhere"], None),
    ],
)
def test_a_wrong_option_is_one_clear_line(argv: list[str], message: str | None) -> None:
    if message is None:
        parse_train(argv)  # a missing folder is found by the run, not by the parser
        return
    with pytest.raises(RarrgError, match=message) as caught:
        parse_train(argv)
    assert "\n" not in str(caught.value)


def test_an_unknown_key_in_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("data:\n  roott: x\n")
    with pytest.raises(RarrgError, match=r"unknown key data.roott; did you mean data.root\?"):
        parse_train(["--config", str(path)])
    path.write_text("outt: x\n")
    with pytest.raises(RarrgError, match=r"unknown key outt; did you mean out\?"):
        parse_train(["--config", str(path)])


def test_a_user_s_mistake_prints_one_line_and_exits_with_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    argv = ["train", "--config=iu_xray.yaml", f"--data.root={missing}", f"--out={tmp_path / 'out'}"]
    assert main([*argv, f"--data.cache={tmp_path / 'cache'}"]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == f"error: data.root: no folder {missing}"
    assert main(["fly"]) == 2
    assert "unknown command 'fly'" in capsys.readouterr().err


def test_a_name_too_long_for_a_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["infer", "--frontal", "a" * 300]) == 2
    assert capsys.readouterr().err == f"error: {'a' * 300}: File name too long\n"


def test_train_alone_asks_for_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train"], prog="train.py") == 2
    assert "name a configuration, as train.py --config demo.yaml; in configs/ there are" in capsys.readouterr().err


def test_ctrl_c_is_no_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(argv: list[str], prog: str) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, "infer", interrupted)
    assert main(["infer"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    code = "from rarrg import cli\ncli.COMMANDS['infer'] = lambda *_: print('x\\n' * 100_000) or 0\ncli.main(['infer'])"
    done = subprocess.run(
        f'{sys.executable} -c "{code}" | head -1', cwd=ROOT, capture_output=True, text=True, check=False, shell=True
    )
    assert done.stdout == "x\n"
    assert done.stderr == ""


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys\nfrom rarrg.cli import main\nmain(['--help'])\n"
        "try:\n    main(['train', '--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'lightning', 'transformers', 'faiss', 'scipy', 'wandb', 'sentence_transformers', 'timm'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
