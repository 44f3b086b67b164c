"""A disk that is full, a folder that is not to be written to: one clear error, and what was there stays as it was."""

from __future__ import annotations

import io
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import lightning as L
import pytest
from torch import nn

from rarrg.artifacts import writing
from rarrg.cli import COMMANDS, main
from rarrg.data import features
from rarrg.errors import RarrgError
from rarrg.resuming import load_checkpoint
from rarrg.training import Checkpoints
from tests.robustness import jobs
from tests.robustness.jobs import Artefact, digest, tensors

NOBODY = 65534


class _Module(L.LightningModule):
    def __init__(self, version: int) -> None:
        super().__init__()
        self.held = nn.ParameterDict({name.replace(".", "_"): value for name, value in tensors(version).items()})


def _make_checkpoint(folder: Path, version: int) -> None:
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    module = _Module(version)
    trainer.strategy.connect(module)
    Checkpoints(folder / "checkpoints", 1, best=False).on_train_epoch_end(trainer, module)


def _read_checkpoint(folder: Path) -> dict[str, str]:
    state = load_checkpoint(folder / "checkpoints" / "last.ckpt")["state_dict"]
    return {name: digest([value.numpy()]) for name, value in state.items()}


ARTEFACTS = {**jobs.ARTEFACTS, "checkpoint": Artefact(_make_checkpoint, _read_checkpoint)}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Jobs in this process make shards of a few images; the next test's are as large as ever."""
    monkeypatch.setattr(features, "SHARD_BYTES", features.SHARD_BYTES)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that any user may look into, with the images of the caches."""
    folder = Path(tempfile.mkdtemp(prefix="rarrg-disk-"))
    folder.chmod(0o755)
    jobs.draw_images(folder)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file grow beyond ``size`` bytes: a write that would is cut short or refused, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Progress bars would count where the output is a file.
    with redirect_stderr(io.StringIO()):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def without_root() -> Iterator[None]:
    """Root may write everywhere; be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def failure(name: str, folder: Path) -> RarrgError | None:
    """What writing the second version raises."""
    try:
        ARTEFACTS[name].make(folder, 2)
    except RarrgError as error:
        return error
    return None


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def check_error(error: RarrgError | None, folder: Path, *reasons: str) -> None:
    message = str(error)
    assert len(message.splitlines()) == 1
    assert message.startswith(str(folder)), message
    assert any(f"cannot be written ({reason})" in message for reason in reasons), message
    assert "name another place" in message


def check_kept(name: str, folder: Path, before: dict[str, bytes], held: object) -> None:
    """The earlier version is there, byte for byte; a cache and a list of verdicts may have grown by good rows."""
    now = files_of(folder)
    assert not [file for file in now if ".tmp" in file]
    if ARTEFACTS[name].grows:
        assert all(now[file].startswith(content) for file, content in before.items())
        assert ARTEFACTS[name].read(folder).items() >= held.items()
    else:
        # Rows of an unfinished step lie beside it, and a later run takes them up.
        assert {file: content for file, content in now.items() if not file.endswith((".partial", ".spare"))} == before
        assert ARTEFACTS[name].read(folder) == held


@pytest.mark.parametrize("name", ARTEFACTS)
def test_a_full_disk_leaves_what_was_there(name, place):
    artefact = ARTEFACTS[name]
    artefact.make(place, 1)
    before, held = files_of(place), artefact.read(place)
    whole = place / "whole"
    shutil.copytree(place, whole)
    artefact.make(whole, 2)
    expected = artefact.read(whole)
    assert expected != held
    sizes = {path.stat().st_size for path in whole.rglob("*") if path.is_file() and path.suffix != ".png"}
    shutil.rmtree(whole)
    # Where a file is cut by a byte, by what libraries keep in memory before they write, in the middle, and at once.
    cut = {size - part for size in sizes for part in (1, 700, 5000, size // 2) if part < size}
    limits = sorted({0, max(sizes) - 1, max(sizes) - 700} | set(sorted(cut)[:: max(1, len(cut) // 12)]))
    failed = 0
    for limit in limits:
        with file_size_limit(limit):
            error = failure(name, place)
        if error is None and artefact.grows:  # all that was missing has room
            continue
        check_error(error, place, "File too large")
        check_kept(name, place, before, held)
        failed += 1
    assert failed > 2
    artefact.make(place, 2)
    assert artefact.read(place) == expected


@pytest.fixture
def small_disk(place) -> Iterator[Path]:
    """A disk of 64 kB."""
    disk = place / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0755", "tmpfs", str(disk)]
    if os.getuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("to mount a disk takes root's rights; the limits on file sizes stand for it")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("name", ["store", "model", "checkpoint", "rows"])
def test_a_disk_without_room_and_one_that_is_read_only(name, small_disk):
    ARTEFACTS[name].make(small_disk, 1)
    before, held = files_of(small_disk), ARTEFACTS[name].read(small_disk)
    taken = shutil.disk_usage(small_disk)
    (small_disk / "other").write_bytes(bytes(taken.free - 8192))
    check_error(failure(name, small_disk), small_disk, "No space left on device")
    (small_disk / "other").unlink()
    check_kept(name, small_disk, before, held)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    check_error(failure(name, small_disk), small_disk, "Read-only file system")
    check_kept(name, small_disk, before, held)


@pytest.mark.parametrize("name", ARTEFACTS)
@pytest.mark.parametrize("earlier", [True, False])
def test_a_folder_of_somebody_else_is_left_alone(name, earlier, place):
    if earlier:
        ARTEFACTS[name].make(place, 1)
    before = files_of(place)
    held = ARTEFACTS[name].read(place) if earlier else None
    for path in (place, *place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with without_root():
        error = failure(name, place)
    check_error(error, place, "Permission denied")
    assert files_of(place) == before
    assert not earlier or ARTEFACTS[name].read(place) == held


@pytest.mark.parametrize("name", ARTEFACTS)
def test_a_file_in_place_of_a_folder_is_left_alone(name, place):
    folder = place / "below" / "here"
    (place / "below").write_text("years of work")
    if name in ("features", "verdicts on images"):
        pytest.skip("its images lie in the same folder")
    check_error(failure(name, folder), folder, "Not a directory", "File exists")
    assert (place / "below").read_text() == "years of work"


def test_an_error_about_another_file_is_not_taken_for_one_about_this(tmp_path):
    with pytest.raises(PermissionError), writing(tmp_path / "a" / "b.json"):
        raise PermissionError(13, "Permission denied", "/elsewhere/reports.csv")
    with pytest.raises(FileNotFoundError), writing(tmp_path / "a" / "b.json"):
        raise FileNotFoundError(2, "No such file or directory", str(tmp_path / "a" / "b.json"))
    full = OSError(28, "No space left on device", "part", None, str(tmp_path / "a" / ".b.json.tmp"))
    told = r"b\.json: cannot be written \(No space left on device\); make room"
    with pytest.raises(RarrgError, match=told), writing(tmp_path / "a" / "b.json"):
        raise full


def test_the_command_line_tells_it_in_one_line(tmp_path, capsys, monkeypatch):
    (tmp_path / "run").write_text("a file")
    assert main(["train", "--config=demo.yaml", f"--out={tmp_path / 'run'}", f"--data.cache={tmp_path / 'c'}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1

    def log(_argv, _prog):
        raise OSError(28, "No space left on device")  # as the library that writes the logs does

    monkeypatch.setitem(COMMANDS, "train", log)
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "error: writing failed: No space left on device\n"
