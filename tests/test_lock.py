"""The lock of a folder: one writer at a time, nothing left behind, and a killed writer leaves it free."""

import os
import subprocess
import sys

import pytest

from minigpt.errors import InputError
from minigpt.files.disk import in_place_of
from minigpt.files.lock import locked

HOLD = """
import sys
from minigpt.files.lock import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path / "run"."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_writer_is_refused(holder, tmp_path):
    with pytest.raises(InputError, match="another process is writing to .*run"), locked(tmp_path / "run"):
        pass
    holder.stdin.close()
    holder.wait()
    with locked(tmp_path / "run"):
        pass


def test_a_killed_writer_leaves_the_lock_free(holder, tmp_path):
    holder.kill()
    holder.wait()
    with locked(tmp_path / "run"):
        pass


def test_the_same_process_does_not_take_a_lock_twice(tmp_path):
    with locked(tmp_path / "run"), pytest.raises(InputError, match="another process"), locked(tmp_path / "run"):
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows does not remove a file that is open")
def test_a_lock_that_its_last_owner_has_just_removed_is_none(tmp_path, monkeypatch):
    """Between opening the file and locking it the name may go: others would lock a new file beside this one."""
    import fcntl

    lock = fcntl.flock

    def removed_before(file, how):
        (tmp_path / "run" / ".lock").unlink(missing_ok=True)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", removed_before)
    with pytest.raises(InputError, match="another process"), locked(tmp_path / "run"):
        pass


def test_nothing_is_left_behind(tmp_path):
    with locked(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "run"):
        (tmp_path / "run" / "work.txt").touch()
    assert os.listdir(tmp_path / "run") == ["work.txt"]


def test_what_a_killed_writer_left_is_removed(tmp_path):
    left = tmp_path / ".model.safetensors.0a1b2c3d.part"
    left.touch()
    with locked(tmp_path):
        assert not left.exists()


def test_a_planted_link_is_not_written_through(tmp_path, monkeypatch):
    target = tmp_path / "target"
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)
    (tmp_path / ".x.json.00000000.part").symlink_to(target)
    with pytest.raises(InputError, match="cannot write"), in_place_of(tmp_path / "x.json") as beside:
        beside.write_text("written")
    assert not target.exists()
