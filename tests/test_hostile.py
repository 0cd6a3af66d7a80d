"""Files that do harm, by accident or not: the verdict stays right, the report short, and nothing of it stays behind.

Each file of tests/hostile stands below a right pair, right_forward and right_backward, and spoils it. In the lists here
stands what is to be said of it. The files are run in the best sandbox of this machine, and some without the fence.
"""

import contextlib
import os
import signal
import socket
import sys
import time
import unittest
from pathlib import Path

import pytest

from minigpt.errors import InputError
from minigpt.learn.judging import check_file
from minigpt.learn.sandbox import limits, process
from minigpt.learn.sandbox.process import marked
from minigpt.ops import reference

HOSTILE = Path(__file__).parent / "hostile"
RIGHT = """
import math
import numpy as np

C, A = math.sqrt(2 / math.pi), 0.044715

def gelu_forward(x):
    t = np.tanh(C * (x + A * x**3))
    return 0.5 * x * (1 + t), (x, t)

def gelu_backward(dout, cache):
    x, t = cache
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * C * (1 + 3 * A * x * x))

right_forward, right_backward = gelu_forward, gelu_backward
"""

WRONG = {  # a file: what its report says
    "endless_loop": "no answer after 0.5 s",
    "endless_borrowing": "no answer after 0.5 s",
    "borrow_and_not_read": "no answer after 0.5 s",
    "borrow_much_memory": "linear_forward is lent for small arrays only",
    "fork_bomb": "may not start processes",
    "fork_and_exit": "may not start processes",
    "daemon": "may not start processes",
    "daemon_by_fork": "may not start processes",
    "sys_exit": "SystemExit in line",
    "os_exit": "ended with status 0 in the middle of a call",
    "kill_itself": "(SIGKILL)",
    "stop_itself": "no answer after 0.5 s",
    "kill_the_judge": "may not send signals to other processes",
    "much_memory": "Unable to allocate",
    "much_to_stdout": "It printed more than 10 MB",
    "much_to_stderr": "It printed more than 10 MB",
    "huge_file": "OSError in line",
    "deep_recursion": "RecursionError",
    "deeper_recursion": "ended with status",
    "delete_files": "Error in line",
    "delete_one_file": "outside its folder",
    "write_outside": "outside its folder",
    "write_by_symlink": "outside its folder",
    "write_by_folder": "may not read",
    "connect": "may not use the network",
    "listen": "may not use the network",
    "write_to_the_pipe": "does the file write to the judge's stream?",
    "close_everything": "in the middle of a call",
    "patch_numpy": "wrong",
    "patch_builtins": "outside its folder",
    "patch_the_program": "wrong",
    "change_inputs": "It writes into x",
    "change_dout": "It writes into dout",
    "change_cache": "It writes into cache",
    "second_call_differs": "wrong",
    "wrong_shape": "shape",
    "wrong_dtype": "float32",
    "object_array": "this one has dtype object",
    "nan_everywhere": "wrong",
    "call_the_library": "gelu_forward is not lent to this file: write it yourself",
    "call_a_composite": "mlp_forward is not lent to this file: write it yourself",
    "read_memory": "may not read '/proc/",
    "walk_frames": "wrong",
    "walk_objects": "wrong",
    "stored_answers": "wrong",
    "trick_object": "shape",
    "generator": "It returns a generator: expected an array",
    "long_messages": "ValueError",
}
CANNOT_RUN = {
    "loop_at_import": "no answer after 0.5 s",
    "thread_that_stays": "may not start threads",
    "thread_that_answers": "may not start threads",
    "missing_import": "No module named 'torch'",
    "import_minigpt": "there is no minigpt.ops.reference here",
    "re_export": "no pair such as",
    "read_the_reference": "may not read",
}
HAPPY = ["noisy_and_right", "trick_array"]
PAST_THE_FENCE_BY_ITSELF = "remove_the_fence"  # in the plain tier nothing stops it: README.md of the sandbox says so
IN_ONE_PROCESS = {  # what these are refused, raise or return leaves nothing behind in their process
    "fork_bomb", "fork_and_exit", "daemon", "daemon_by_fork", "sys_exit", "kill_the_judge", "delete_one_file",
    "connect", "write_outside", "write_by_symlink", "write_by_folder", "listen", "change_inputs", "change_dout",
    "change_cache", "second_call_differs", "wrong_shape", "wrong_dtype", "object_array", "nan_everywhere",
    "call_the_library", "call_a_composite", "read_memory", "walk_objects", "stored_answers", "trick_object",
    "generator", "long_messages",
}  # fmt: skip
NO_FENCE = '"""No fence."""\n\n\ndef install(*args):\n    """Nothing."""\n'
BUBBLEWRAP = pytest.mark.skipif(bool(limits.bubblewrap_problem()), reason=f"{limits.bubblewrap_problem()}")
POSIX = pytest.mark.skipif(os.name != "posix", reason="processes of POSIX")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Folders: of the file, of what must stay as it is, and of what the judge makes for the time of the judgement."""
    for name in ("file", "sentinel", "own"):
        (tmp_path / name).mkdir()
    (tmp_path / "sentinel" / "kept.txt").write_text("kept", encoding="utf-8")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "own"))
    yield tmp_path
    assert {path.name: path.read_bytes() for path in (tmp_path / "sentinel").iterdir()} == {"kept.txt": b"kept"}
    assert [path.name for path in (tmp_path / "file").iterdir()] == ["mine.py"]
    assert list((tmp_path / "own").iterdir()) == []
    left = marked(os.fsencode(tmp_path))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


class SameProcess:
    """Stands in the place of Child: one process for several files, begun anew where it has failed."""

    def __init__(self):
        self.child = None

    def __call__(self, *_):
        if self.child is None or self.child.failure:
            self.close()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("tempfile.tempdir", None)  # a folder that no single test sees
                self.child = process.Child(seconds=600, call_seconds=20)
                self.child.__enter__()
            self.child.finish = lambda: None
        self.child._pipes.printed = b""
        return contextlib.nullcontext(self.child)

    def close(self):
        if self.child is not None:
            self.child.__exit__()


@pytest.fixture(scope="module")
def same_process():
    same = SameProcess()
    yield same
    same.close()


def judged(place, text: str | bytes, **options) -> tuple[bool, str]:
    """The verdict and the report; the report is short, and the time was kept."""
    text = text if isinstance(text, bytes) else text.encode()
    (place / "file" / "mine.py").write_bytes(text)
    lines, started = [], time.monotonic()
    try:
        limits_of_time = {"time_limit": 10, "call_limit": 2}
        happy = check_file.run(place / "file" / "mine.py", say=lines.append, **limits_of_time | options)
    finally:
        assert time.monotonic() - started < 30
    lines = "\n".join(lines).split("\n")
    assert len(lines) <= 40 and max(map(len, lines)) <= 110, "\n".join(lines)
    assert all(line.isprintable() for line in lines)
    return happy, "\n".join(lines)


def limits_for(says: str) -> dict:
    """A short limit of time where it is what ends the file."""
    return {"call_limit": 0.5} if says.startswith("no answer") else {}


def text_of(name: str, place: Path) -> str:
    text = (HOSTILE / f"{name}.py").read_text(encoding="utf-8")
    gelu = sys.modules[reference.gelu_forward.__module__].__file__
    text = text.replace("PORT", "9").replace("SENTINEL", str(place / "sentinel")).replace("REFERENCE", gelu)
    return RIGHT + text.replace("MARK", str(place))


def test_every_hostile_file_is_judged():
    assert {path.stem for path in HOSTILE.glob("*.py")} == {*WRONG, *CANNOT_RUN, *HAPPY, PAST_THE_FENCE_BY_ITSELF}
    assert len(WRONG) + len(CANNOT_RUN) >= 40


@pytest.mark.parametrize("name", WRONG)
def test_a_hostile_file_is_not_happy(place, same_process, monkeypatch, name):
    if name in IN_ONE_PROCESS:
        monkeypatch.setattr(check_file, "Child", same_process)
    happy, text = judged(place, text_of(name, place), **limits_for(WRONG[name]))
    assert not happy and WRONG[name] in " ".join(text.split()), text


@pytest.mark.parametrize("name", CANNOT_RUN)
def test_a_hostile_file_cannot_be_run(place, name):
    text = text_of(name, place)
    if name in ("import_minigpt", "re_export", "read_the_reference"):
        text = text.removeprefix(RIGHT)  # the pair is to come from elsewhere
    with pytest.raises(InputError) as error:
        judged(place, text, **limits_for(CANNOT_RUN[name]))
    said = str(error.value)
    assert CANNOT_RUN[name] in said and "\n" not in said and len(said) < 600


@pytest.mark.parametrize("name", HAPPY)
def test_a_file_that_is_right_in_spite_of_noise(place, name):
    happy, text = judged(place, text_of(name, place))
    assert happy, text


def test_windows_line_ends(place):
    assert judged(place, RIGHT.replace("\n", "\r\n"))[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"# caf\xe9\n" + RIGHT.encode(), "not Python"),
        (RIGHT.encode() + b"def f(:\n", "line 16"),
        (b"\0", "not Python"),
    ],
)
def test_what_is_not_python(place, text, says):
    with pytest.raises(InputError, match=says):
        judged(place, text)


# One tier without the other


IN_PLAIN = ["kill_the_judge", "much_memory", "huge_file", "write_by_symlink", "connect", "deeper_recursion", "daemon"]


@pytest.mark.parametrize("name", IN_PLAIN)
def test_the_plain_tier(place, name):
    happy, text = judged(place, text_of(name, place), sandbox="plain")
    assert not happy and WRONG[name] in " ".join(text.split()), text
    assert text.startswith("Sandbox: plain: an audit hook, ")


@pytest.fixture
def no_fence(place, monkeypatch):
    """Files run without the fence, as if they had come past it."""
    path = place / "no_fence.py"
    path.write_text(NO_FENCE, encoding="utf-8")
    parts = limits._parts() | {"fence": path}
    monkeypatch.setattr(limits, "_parts", lambda: parts)
    return place


PAST_THE_FENCE = {
    "daemon": None,  # right, or not: as the number of processes is limited or not
    "daemon_by_fork": None,
    "fork_and_exit": None,
    "fork_bomb": None,
    "much_memory": "Unable to allocate",
    "huge_file": "OSError in line",
}
ONLY_BUBBLEWRAP = {
    "kill_the_judge": None,
    "delete_files": "FileNotFoundError",
    "write_outside": "FileNotFoundError",
    "write_by_symlink": "FileNotFoundError",
    "write_by_folder": "FileNotFoundError",
}


@POSIX
@pytest.mark.parametrize("sandbox", ["plain", pytest.param("bubblewrap", marks=BUBBLEWRAP)])
@pytest.mark.parametrize("name", PAST_THE_FENCE)
def test_the_system_s_limits_hold_without_the_fence(no_fence, name, sandbox):
    """The fixture sees that no process is left."""
    happy, text = judged(no_fence, text_of(name, no_fence), sandbox=sandbox)
    if PAST_THE_FENCE[name]:
        assert not happy and PAST_THE_FENCE[name] in text


@POSIX
def test_a_process_group_is_ended_where_the_system_lists_no_processes(no_fence, monkeypatch):
    monkeypatch.setattr(process, "marked", lambda mark: [])
    judged(no_fence, text_of("fork_and_exit", no_fence), sandbox="plain")
    deadline = time.monotonic() + 5  # what was killed needs some time to end
    while (left := marked(os.fsencode(no_fence))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


@BUBBLEWRAP
@pytest.mark.parametrize("name", ONLY_BUBBLEWRAP)
def test_bubblewrap_holds_without_the_fence(no_fence, name):
    happy, text = judged(no_fence, text_of(name, no_fence), sandbox="bubblewrap")
    assert text.startswith("Sandbox: bubblewrap: no network")
    if ONLY_BUBBLEWRAP[name]:
        assert not happy and ONLY_BUBBLEWRAP[name] in text


@BUBBLEWRAP
def test_bubblewrap_holds_where_a_file_removes_the_fence(place):
    happy, text = judged(place, text_of(PAST_THE_FENCE_BY_ITSELF, place), sandbox="bubblewrap")
    assert not happy and "FileNotFoundError" in text


@POSIX
@pytest.mark.parametrize("sandbox", ["plain", pytest.param("bubblewrap", marks=BUBBLEWRAP)])
def test_only_bubblewrap_has_a_network_of_its_own(no_fence, sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = (HOSTILE / "connect.py").read_text(encoding="utf-8").replace("PORT", str(server.getsockname()[1]))
        happy, said = judged(no_fence, RIGHT + text, sandbox=sandbox)
    assert happy == (sandbox == "plain")
    assert happy or "ConnectionRefusedError in line" in said


@BUBBLEWRAP
def test_packages_beside_python_are_hidden(no_fence, monkeypatch):
    """A folder of the standard library plays the packages that an installation has."""
    packages = Path(unittest.__file__).parent
    text = f"import os\nassert os.listdir({str(packages.parent)!r}) and not os.listdir({str(packages)!r})\n" + RIGHT
    with pytest.raises(InputError, match="AssertionError"):
        judged(no_fence, text, sandbox="bubblewrap")
    monkeypatch.setattr(limits, "_packages", lambda: [packages])
    assert judged(no_fence, text, sandbox="bubblewrap")[0]


@BUBBLEWRAP
def test_in_bubblewrap_there_is_no_minigpt_to_read(no_fence):
    """Neither the reference nor the lessons, nor any other package, wherever they are."""
    with pytest.raises(InputError, match="FileNotFoundError"):
        judged(no_fence, text_of("read_the_reference", no_fence).removeprefix(RIGHT), sandbox="bubblewrap")
    look = """
import os
found = []
for folder, inside, files in os.walk("/"):
    inside[:] = [name for name in inside if name not in ("proc", "dev", "sys")]
    found += [os.path.join(folder, name) for name in files if name in ("gelu.py", "mistakes.py", "tqdm.py")]
    is_package = "__init__.py" in files  # a clone may be called minigpt too, and have the environment in it
    found += [folder] * (is_package and folder.endswith(("/minigpt", "/safetensors")))
assert not found, found
"""
    happy, text = judged(no_fence, RIGHT + look, sandbox="bubblewrap", call_limit=10, time_limit=20)
    assert happy, text
