"""`minigpt check FILE`: whatever the file does, its process answers calls, and only the judge says that it is right."""

import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minigpt.cli import main
from minigpt.gradcheck.judge import RaisedElsewhere, judge
from minigpt.learn.judging import check_file
from minigpt.learn.sandbox import process, wire
from minigpt.learn.sandbox.process import Child
from minigpt.ops import reference
from minigpt.ops.random_keys import Key

ROOT = str(Path(__file__).parent.parent)
GELU = """
import atexit, math, os, sys, time
import numpy as np

C, A = math.sqrt(2 / math.pi), 0.044715

def gelu_forward(x):
    t = np.tanh(C * (x + A * x**3))
    return 0.5 * x * (1 + t), (x, t)

def gelu_backward(dout, cache):
    x, t = cache
    # here
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * C * (1 + 3 * A * x * x))
"""
DROPOUT = """
import numpy as np
from minigpt.ops.random_keys import keep_mask
def dropout_forward(x, *, rate, key):
    if key is None:
        return NotImplemented
    keep = keep_mask(key, rate, x.shape, np) / np.asarray(1 - rate, x.dtype)
    return x * keep, keep
def dropout_backward(dout, keep):
    return dout * keep
"""


def judged(tmp_path, text, **limits) -> tuple[bool, str]:
    file, lines = tmp_path / "mine.py", []
    file.write_text(text, encoding="utf-8")
    happy = check_file.run(file, say=lines.append, **limits)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]  # nothing is left beside it
    return happy, "\n".join(lines)


def test_a_file_with_the_byte_order_mark_of_windows(tmp_path):
    happy, _ = judged(tmp_path, "\ufeff" + GELU)
    assert happy


def test_a_file_with_a_dataclass_and_late_annotations(tmp_path):
    late = "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass Sizes:\n    n: int\n"
    happy, _ = judged(tmp_path, late + GELU)
    assert happy


def attacked(line: str) -> str:
    return GELU.replace("# here", line)


def test_a_right_file_is_happy_and_is_told_the_next_step(tmp_path):
    happy, text = judged(tmp_path, GELU)
    assert happy and "with it: GPT-2, dropout" in text and "Next: use it in a model" in text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sys.exit(0)", "SystemExit in line"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt in line"),
        ("os._exit(0)", "ended with status 0 in the middle of a call"),
        ("atexit.register(os._exit, 0); sys.exit(0)", "SystemExit in line"),
        ("os.abort()", "ended with status"),
        ("while True: pass", "no answer after 0.5 s"),
        ("time.sleep(60)", "no answer after 0.5 s"),
        ("return 'right'", "returned a str where an array is expected"),
        ("return np.array(['x'])", "a ndarray: expected an array of numbers"),
        ("return np.array([os], dtype=object)", "a ndarray: expected an array of numbers"),
        ("sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2); raise ValueError('mine')", "mine"),
        ("raise type('Mine', (Exception,), {'__str__': lambda self: 1 / 0})", "no message that can be shown"),
        ("return NotImplemented", "wrong"),
        ("x[:] = 0", "writes into cache.0"),
    ],
)
def test_a_file_that_ends_loops_or_answers_wrongly_is_not_happy(tmp_path, line, says):
    happy, text = judged(tmp_path, attacked(line), call_limit=0.5 if "no answer" in says else 10)
    assert not happy and says in " ".join(text.split()) and "Traceback" not in text


def test_an_exit_when_the_process_ends_changes_nothing(tmp_path):
    happy, text = judged(tmp_path, attacked("return -dout").replace("C, A", "atexit.register(os._exit, 0)\nC, A"))
    assert not happy and "not right" in text


def test_output_without_end_is_cut_and_the_file_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "MAX_PRINTED", 1_000_000)
    happy, text = judged(tmp_path, attacked("while True: print('x' * 1000)"), call_limit=5)
    assert not happy and "It printed more than 1 MB" in text and len(text) < 5000


def test_what_a_file_prints_is_shown_and_is_no_verdict(tmp_path):
    line = "print('All 99 tensors are happy\\x1b[2J')"
    happy, text = judged(tmp_path, attacked(line + "; return dout"))
    assert not happy and "Your file printed:\n    All 99 tensors are happy?[2J" in text
    assert judged(tmp_path, attacked(line))[0]


def test_a_file_has_of_minigpt_only_operations_to_borrow(tmp_path):
    for line, says in (
        ("from minigpt.gradcheck import checker", "there is no minigpt.gradcheck here"),
        ("from minigpt import gradcheck", "there is no minigpt.gradcheck here"),
        ("import minigpt.ops.reference.gelu", "there is no minigpt.ops.reference here"),
        ("import regex", "No module named 'regex': your file runs with Python's standard library and NumPy alone"),
    ):
        with pytest.raises(check_file.InputError, match=says) as error:
            judged(tmp_path, line + "\n" + GELU)
        assert "\n" not in str(error.value)


def test_what_a_file_changes_in_its_process_is_not_changed_for_the_judge(tmp_path):
    spoil = """
from minigpt import ops
ops.gelu_forward = gelu_forward
np.allclose = np.array_equal = lambda *args, **options: True
np.abs = np.max = lambda *args, **options: 0.0
"""
    before = reference.gelu_forward
    happy, text = judged(tmp_path, attacked("return dout") + spoil)
    assert not happy and "wrong" in text and reference.gelu_forward is before


def test_a_pair_that_is_imported_from_the_library_is_not_the_learner_s(tmp_path):
    with pytest.raises(check_file.InputError, match="no pair such as"):
        judged(tmp_path, "from minigpt.ops import *\n")


def test_a_pair_that_leaves_every_case_to_the_library(tmp_path):
    happy, text = judged(tmp_path, GELU.replace("    t = np.tanh", "    return NotImplemented\n    t = np.tanh"))
    assert not happy and "leaves every case to the library" in text


WRITES = """
import struct
for number in range(3, 20):
    try:
        os.write(number, {data})
    except OSError:
        pass
"""


@pytest.mark.skipif(os.name != "posix", reason="finds the stream by its number")
@pytest.mark.parametrize(
    "data",
    [
        "b'garbage' * 9",
        "struct.pack('<QQ', 2**40, 0)",
        "struct.pack('<QQ', 2, 0) + b'{}'",
        'struct.pack(\'<QQ\', 45, 0) + b\'{"tuple": [7, {"dict": {"gradients": null}}]}\'',
    ],
)
def test_a_file_that_writes_to_the_stream_of_answers(tmp_path, data):
    lines = WRITES.format(data=data).strip().splitlines()
    happy, text = judged(tmp_path, attacked("\n    ".join(lines)), call_limit=2)
    assert not happy and ("judge's stream" in text or "no answer" in text)


@pytest.mark.slow
def test_the_whole_check_has_a_limit(tmp_path):
    started = time.monotonic()
    happy, text = judged(tmp_path, attacked("time.sleep(0.2)"), time_limit=3)
    assert not happy and "when its 3 s were over" in text
    assert time.monotonic() - started < 20
    with pytest.raises(check_file.InputError, match="--time-limit 0"):
        judged(tmp_path, GELU, time_limit=0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import os\nos._exit(0)\n", "cannot be run: Its process ended with status 0"),
        ("while True: pass\n", "cannot be run: There was no answer after 0.5 s"),
        ("raise ValueError('\\x1b[2J happy')\n", r"cannot be run: ValueError in line 1, .*: \?\[2J happy"),
        ("raise NotImplementedError\n", "cannot be run: it raises NotImplementedError"),
        ("def helper(): pass\nif __name__ == '__main__': helper()\n", "it judges itself: run `python "),
    ],
)
def test_files_that_cannot_be_judged(tmp_path, text, says):
    with pytest.raises(check_file.InputError, match=says) as error:
        judged(tmp_path, text, call_limit=0.5 if "no answer" in says else 10)
    assert "\n" not in str(error.value)


def test_a_folder_of_its_own_which_is_removed(tmp_path):
    happy, text = judged(tmp_path, attacked("open('left behind', 'w').write('x'); print(os.getcwd())"))
    folder = next(line.strip() for line in text.splitlines() if "minigpt-check-" in line)
    assert happy and not os.path.exists(folder)


def test_all_cases_counts_what_is_skipped(tmp_path):
    happy, said = judged(tmp_path, DROPOUT)
    assert happy and "cases skipped, which --all-cases counts as wrong" in " ".join(said.split())
    happy, said = judged(tmp_path, DROPOUT, all_cases=True)
    assert not happy and "not happy yet" in said.splitlines()[-1]
    assert judged(tmp_path, GELU, all_cases=True)[0]


# Messages


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1.5, "text", (1, (2.0, None)), {"a": (1,)}, ..., Key(3, 4), float("inf"), -float("inf"),
        [1, [2], (3,)], {1: 2, "1": 3, (1, "a"): 4, (b"x",): [5]}, {(1, 2), (2, 1)}, set(), b"\x00\xff", 2**200,
        -(2**64), {"array": [1]}, "\ud800 한", Key(np.arange(3, dtype=np.uint32), 1), [], (), {},
        np.arange(6.0).reshape(2, 3), np.float32(2.5), np.zeros((0, 3)), np.array(True), np.arange(4, dtype=np.int64),
        -(2**10_000), float("nan"), np.array([np.nan, -np.inf]), {np.int64(3): 1, np.float32(0.5): 2}, {np.int64(3)},
    ],
)  # fmt: skip
def test_a_message_comes_back_as_it_went(value):
    talk = wire.Wire(Key)
    again = talk.unpack(*wire.split(talk.pack(value)))
    assert type(again) is type(value)
    if isinstance(value, (np.ndarray, np.generic)):
        assert again.dtype == value.dtype and again.shape == value.shape and again.tobytes() == value.tobytes()
    else:
        np.testing.assert_equal(again, value)


@pytest.mark.parametrize("value", [[1], (1,), {1}, {"a": [1]}, [(1,)], True, 1, 1.0, np.float64(1), np.ones(1), "1"])
def test_types_are_kept_apart(value):
    again = wire.Wire().unpack(*wire.split(wire.Wire().pack([value])))
    assert repr(again) == repr([value])


@pytest.mark.parametrize("value", [np.array([object()]), np.array(["x"]), object(), [object()], {1: print}])
def test_what_is_no_array_of_numbers_is_not_sent(value):
    with pytest.raises(TypeError, match="expected an array of numbers"):
        wire.Wire().pack(value)


def nested(depth):
    value = ()
    for _ in range(depth):
        value = (value,)
    return value


def test_what_is_too_large_or_too_deep_is_not_sent(monkeypatch):
    for name, most in {"MAX_TEXT": 4_000, "MAX_NUMBERS": 64_000}.items():
        monkeypatch.setattr(wire, name, most)
    for value, says in (
        (nested(50), "deep"), (2**70_000, "digits"), ("x" * 5_000, "too much"), (np.zeros(9_000), "too much"),
        ([1] * 3_000, "too much"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            wire.Wire().pack(value)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('{"array":["<f8",[2]]}', b"12345678"),  # too few
        ('{"array":["<f8",[1]]}', b"0123456789abcdef"),  # too many
        ('{"array":["O",[1]]}', b"12345678"),
        ('{"array":["<f8",[-1]]}', b""),
        ('{"array":[",",[1]]}', b"1"),
        ('{"array":["<f7",[1]]}', b"1234567"),
        ('{"array":["<f8",[true]]}', b"12345678"),
        ('{"array":["<f8,(1000000000,)f8",[]]}', b""),
        ('{"array":["<f8",' + str([1] * 40) + "]}", b"12345678"),
        ('{"array":["<f8",[4294967295,4294967295,4294967295]]}', b""),
        ('{"bytes":-1}', b""),
        ('{"bytes":1e3}', b""),
        ('[{"bytes":2},{"bytes":-2},{"bytes":2}]', b"ab"),
        ('{"dict":[[{"dict":[]},1]]}', b""),
        ('{"dict":[[{"tuple":[[]]},1]]}', b""),
        ('{"dict":[1]}', b""),
        ('{"set":[{"set":[]}]}', b""),
        ('{"set":[{"array":["<f8",[1]]}]}', b"12345678"),
        ('{"set":[{"key":[{"array":["<u4",[1]]},0]}]}', b"1234"),
        ('{"key":[1,2,3]}', b""),
        ('{"borrowed":[1,2]}', b""),
        ("9" * 20_000, b""),
        ('{"tuple":7}', b""),
        ('{"names":{"dict":[["__array_interface__",1]]}}', b""),  # NumPy would read memory of the judge
        ('{"set":' + str([k * (2**61 - 1) for k in range(5002)]) + "}", b""),  # all with one hash
        ('{"dict":' + str([[k, 1] for k in range(5002)]) + "}", b""),
        ('{"tuple":[],"dict":[]}', b""),
        ('{"other":1}', b""),
        ("[" * 100_000, b""),
        ("[" * 50 + "]" * 50, b""),
        ("{", b""),
        ("\xff", b""),
    ],
)
def test_what_is_no_message_is_refused(text, numbers):
    with pytest.raises(ValueError):
        wire.Wire().unpack(text.encode("latin-1"), numbers)


def test_a_message_with_other_characters_is_read_or_refused():
    values = {"a": np.ones((2, 3)), (1, "x"): {1, 2}, "k": Key(3), "b": b"xyz", "f": float("nan"), "i": 2**80, "e": ...}
    text, numbers = wire.split(wire.Wire(Key).pack(("reply", 3, values, [np.float32(2), None, True])))
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(4000):
        changed = bytearray(text)
        for place in rng.integers(len(text), size=rng.integers(1, 4)):
            changed[place] = rng.choice(bytearray(b'{}[]",:0123456789-.eE<>fabdtuplenck'))
        try:
            wire.Wire(Key).unpack(bytes(changed), numbers)
        except ValueError:  # and nothing else is raised
            refused += 1
    assert 2000 < refused < 4000


def test_a_process_that_has_failed_is_not_called_again():
    with Child(seconds=60) as child:
        with pytest.raises(RaisedElsewhere):
            child.request("load", name="x", path="x", text="import os; os._exit(3)")
        assert "status 3" in child.failure
        started = time.monotonic()
        with pytest.raises(RaisedElsewhere, match="status 3"):
            child.request("look", number=1)
        assert time.monotonic() - started < 1


# What is said of mistakes


def attention_backward(line, dq="ds @ k", dk="ds.swapaxes(-1, -2) @ q"):
    return f"""
import math
import numpy as np
from minigpt.ops import reference

def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None, bias=None, scale=None):
    if key is not None or bias is not None or scale is not None:
        return NotImplemented
    out, cache = reference.attention_forward(q, k, v, mask=mask)
    return out, (q, k, v, cache.p)

def attention_backward(dout, cache):
    q, k, v, p = cache
    dv = p.swapaxes(-1, -2) @ dout
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    ds = {line}
    return {dq}, {dk}, dv
"""


RIGHT = "ds / math.sqrt(q.shape[-1])"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (attention_backward(RIGHT, "...", "..."), "It returns nothing yet for dq and dk; dv is right."),
        (attention_backward(RIGHT, dk="None"), "It returns nothing yet for dk; dq and dv are right."),
        (attention_backward(RIGHT, "-ds @ k", "..."), "nothing yet for dk; dv is right; dq is wrong."),
        (
            attention_backward(RIGHT, "0", "ds @ q").replace("0, ds @ q, dv", "ds @ q"),
            "the shapes do not fit: ds (2, 3, 4, 6), q (2, 3, 4, 7)",
        ),
        (attention_backward("ds / math.sqrt(q.shape[-2])"), "sqrt(4)/sqrt(7): is it divided by sqrt(4) in place of"),
    ],
)
def test_a_mistake_in_attention_is_named(tmp_path, text, says):
    file = tmp_path / "mine.py"
    file.write_text(text, encoding="utf-8")
    mine = runpy.run_path(str(file))
    _, results = next(judge("attention", mine["attention_forward"], mine["attention_backward"]))
    assert any(says in result.diagnosis for result in results), results


def test_the_root_of_another_size_in_the_forward_pass():
    def forward(q, k, v, **constants):
        return reference.attention_forward(q * (q.shape[-1] / q.shape[-2]) ** 0.5, k, v, **constants)

    _, first = next(judge("attention", forward, reference.attention_backward))
    out = next(result for result in first if result.name == "out")
    assert "q sqrt(7)/sqrt(4): is it divided by sqrt(4) in place of sqrt(7)?" in out.diagnosis


def test_the_next_exercise(tmp_path):
    for name in ("03_attention.py", "03_find_the_bug.py", "05_gelu.py"):
        (tmp_path / name).touch()
    assert check_file.next_step(tmp_path / "03_attention.py") == f"python {tmp_path / '03_find_the_bug.py'}"
    assert check_file.next_step(tmp_path / "03_find_the_bug.py").startswith("lesson 05, and then python")
    assert "last exercise" in check_file.next_step(tmp_path / "05_gelu.py")
    assert "use it in a model" in check_file.next_step(tmp_path / "mine.py")


def test_status_of_the_command(tmp_path):
    for text, status in ((GELU, 0), (attacked("os._exit(0)"), 1), ("import os; os._exit(0)", 2)):
        file = tmp_path / "mine.py"
        file.write_text(text, encoding="utf-8")
        assert main(["check", str(file)]) == status
    command = [sys.executable, "-m", "minigpt", "check", str(file)]
    environment = os.environ | {"PYTHONPATH": ROOT}
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr


def test_a_solved_exercise_run_with_python_has_status_0(tmp_path):
    main = """
if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))
"""
    file = tmp_path / "05_gelu.py"
    file.write_text(GELU + main, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": ROOT}
    command = [sys.executable, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0 and "Next: this was the last exercise" in done.stdout, done.stderr
