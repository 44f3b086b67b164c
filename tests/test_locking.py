from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rarrg.errors import RarrgError
from rarrg.locking import LOCK, held

HOLDER = """
import sys, time
from pathlib import Path
from rarrg.locking import held
with held(Path(sys.argv[1]), Path(sys.argv[1]).parent):
    print("held", flush=True)
    time.sleep(600)
"""


def test_another_process_is_kept_out_until_the_first_ends_however_it_ends(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / LOCK)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            with pytest.raises(RarrgError, match="another run writes there") as error, held(tmp_path / LOCK, tmp_path):
                pass
            assert str(error.value).startswith(str(tmp_path))
        finally:
            process.kill()
    with held(tmp_path / LOCK, tmp_path):
        pass


def test_an_error_within_lets_go(tmp_path: Path):
    with pytest.raises(KeyError), held(tmp_path / LOCK, tmp_path):
        raise KeyError
    with held(tmp_path / LOCK, tmp_path, seconds=0):
        pass


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RarrgError, match="cannot be written"), held(tmp_path / "file" / LOCK, tmp_path / "file"):
        pass
