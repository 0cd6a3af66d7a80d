"""The process of a learner's file: its functions called from outside, what it may borrow, and what holds it in."""

import ast
import contextlib
import ctypes
import inspect
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minigpt import ops
from minigpt.device import windows
from minigpt.errors import InputError
from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.learn.sandbox import limits, pipes, process
from minigpt.learn.sandbox.lending import GIVEN_AWAY_BY, Lender, lent_to
from minigpt.learn.sandbox.process import Child
from minigpt.learn.sandbox.remote import Lines, RemoteFile, _has_nan
from minigpt.learn.sandbox.wire import Borrowed
from minigpt.ops import reference
from minigpt.ops.arguments import ACTIVATIONS
from minigpt.ops.random_keys import Key, keep_mask

BUBBLEWRAP = pytest.mark.skipif(bool(limits.bubblewrap_problem()), reason=f"{limits.bubblewrap_problem()}")
TIERS = ["plain", pytest.param("bubblewrap", marks=BUBBLEWRAP)]
FILE = '''
import numpy as np

def swap(pair, *, twice=False):
    """Swap two values."""
    print("swapping", pair[0])
    return tuple(pair) if twice else (pair[1], pair[0])

def kinds(value):
    return type(value).__name__, value

def spoil(x, names, keep):
    x[0] = 99
    names["new"] = 1
    return None

def fails(x):
    y = x + 1
    return y @ x

def open_line(x):
    y = ...
    return y + 1

def merges(words):
    return {tuple(word): len(word) for word in words}

def never_ends():
    while True:
        pass

def backward(dout, v):
    dh = dout * (v.h > 0)
    dx = dh @ v.w.T
    dx += 1
    dw, scale = v.x.T @ dh, lambda: None
    return dx, dw

def stops(dout, v):
    dh = dout * 2
    dx = dh @ v.missing
    return dx

helper = 3
'''


@pytest.fixture(scope="module", params=TIERS)
def remote(request):
    with Child(seconds=60, call_seconds=10, sandbox=request.param) as child:
        yield RemoteFile(child, Path("mine.py"), FILE)


def test_functions_of_a_file_and_their_signatures(remote):
    assert list(remote.signatures) == [
        "swap", "kinds", "spoil", "fails", "open_line", "merges", "never_ends", "backward", "stops",
    ]  # fmt: skip
    swap = remote.function("swap")
    assert swap.name == "swap" and str(swap.signature) == "(pair, *, twice=False)"
    assert inspect.signature(swap) == swap.signature
    with pytest.raises(InputError, match="no function helper: it has swap, kinds"):
        remote.function("helper")


def test_a_call_returns_the_value(remote):
    swap = remote.function("swap")
    assert swap((1, "b")) == ("b", 1)
    assert swap([1, 2], twice=True) == (1, 2)
    assert remote.function("merges")(["ab", "abc"]) == {("a", "b"): 2, ("a", "b", "c"): 3}


@pytest.mark.parametrize("sandbox", TIERS)
def test_what_was_printed_is_kept(sandbox):
    """All of it is there as soon as the process has ended, and none of it is a reply."""
    with Child(seconds=60, sandbox=sandbox) as child:
        swap = RemoteFile(child, Path("mine.py"), FILE).function("swap")
        for number in range(100):
            assert swap((number, "b")) == ("b", number)
        child.finish()
        assert child.printed == "".join(f"swapping {number}\n" for number in range(100))
        assert child.failure == ""


@pytest.mark.parametrize(
    ("value", "name"),
    [([1], "list"), ((1,), "tuple"), ({1: 2}, "dict"), ({1}, "set"), (b"x", "bytes"), (2**100, "int"), (True, "bool"),
     (np.float32(1), "float32"), (np.ones(2), "ndarray"), (Key(3), "Key"), (float("inf"), "float"), (None, "NoneType")],
)  # fmt: skip
def test_a_value_keeps_its_type(remote, value, name):
    there, again = remote.function("kinds")(value)
    assert there == name and type(again) is type(value)
    np.testing.assert_equal(again, value)


def test_inputs_that_a_file_changes_are_not_the_judge_s(remote):
    x, names = np.zeros(2), {"a": 1}
    assert remote.function("spoil")(x, names, keep=np.ones(2)) is None
    assert x[0] == 0 and names == {"a": 1}


def test_an_error_is_told_with_its_line(remote):
    with pytest.raises(RaisedElsewhere, match=r"ValueError in line 20, `return y @ x`: .*x \(2, 3\), y \(2, 3\)|y \("):
        remote.function("fails")(np.ones((2, 3)))
    with pytest.raises(NotImplementedError):
        remote.function("open_line")(1)
    with pytest.raises(RaisedElsewhere, match="TypeError: .*missing 1 required positional argument"):
        remote.function("kinds")()


def whole_numbers(*shape: int) -> np.ndarray:
    """Small ones: their products are exact, so that they are the same in two processes, wherever an array lies."""
    return np.random.default_rng(sum(shape)).integers(-9, 10, shape).astype(float)


def test_lines_of_a_backward_pass(remote):
    x, w, dout = (whole_numbers(*shape) for shape in ((4, 3), (3, 2), (4, 2)))
    h = x @ w
    told = remote.function("backward").lines(dout, {"x": x, "w": w, "h": h})
    assert [name for name, _ in told.assigned] == ["dh", "dx", "dx", "dw"]
    values = [value for _, value in told.assigned]
    dh = dout * (h > 0)
    for mine, true in zip(values, [dh, dh @ w.T, dh @ w.T + 1, x.T @ dh], strict=True):
        np.testing.assert_array_equal(mine, true)
    assert told.read == ["h", "w", "x"] and told.stopped == ""


def test_lines_that_stop(remote):
    told = remote.function("stops").lines(np.ones(2), {"x": np.ones(2)})
    assert isinstance(told, Lines) and [name for name, _ in told.assigned] == ["dh"]
    assert "AttributeError in line 41, `dx = dh @ v.missing`" in told.stopped
    assert "no value 'missing'; it has x" in told.stopped


def test_a_call_without_an_end():
    with Child(seconds=60) as child:
        remote = RemoteFile(child, Path("mine.py"), FILE)
        child.call_seconds = 0.3
        with pytest.raises(RaisedElsewhere, match="no answer after 0.3 s"):
            remote.function("never_ends")()
        with pytest.raises(RaisedElsewhere, match="no answer"):
            remote.function("kinds")(1)


def test_a_loop_without_an_end_that_is_told_line_by_line():
    """What it has told until then is kept in its own process, which is ended."""
    text = "def backward(dout, v):\n    while True:\n        dx = dout + 1\n"
    with Child(seconds=60) as child:
        backward = RemoteFile(child, Path("mine.py"), text).function("backward")
        child.call_seconds = 1
        with pytest.raises(RaisedElsewhere, match="no answer after 1 s"):
            backward.lines(np.ones(2), {})


def test_long_messages_late_ones_an_exit_and_too_much_that_is_printed(monkeypatch):
    with Child(seconds=60) as child:
        remote = RemoteFile(child, Path("mine.py"), FILE)
        x = np.arange(300_000.0)
        np.testing.assert_array_equal(remote.function("kinds")(x)[1], x)
        child.call_seconds = 0.3
        with pytest.raises(RaisedElsewhere, match="no answer after 0.3 s"):
            remote.function("never_ends")()
    with Child(seconds=60) as child:
        with pytest.raises(InputError, match="status 3"):
            RemoteFile(child, Path("mine.py"), "import os\nos._exit(3)")
    monkeypatch.setattr(process, "MAX_PRINTED", 100_000)
    with Child(seconds=60) as child:
        with pytest.raises(InputError, match="printed more than"):
            RemoteFile(child, Path("mine.py"), "while True: print('x' * 1000)")
    with Child(seconds=60) as child:
        with contextlib.suppress(InputError):  # it may be seen before the reply, or when all is done
            RemoteFile(child, Path("mine.py"), "print('x' * 200_000)")
            child.finish()
        assert "printed more than" in child.failure


def test_nan_is_found_wherever_it_is():
    nan = float("nan")
    for value in (nan, np.float32(nan), np.array([1, nan]), (1, [2.0, {"a": np.array([[nan]])}]), {nan}, 1j * nan):
        assert _has_nan(value)
    for value in (0.0, np.inf, "nan", None, ..., np.arange(3), np.ones(2), [1, {"a": (2.0, "x")}], True):
        assert not _has_nan(value)


class Forger:
    """A process that answers anything."""

    def __init__(self, replies):
        self.replies = replies
        self.dropped = []
        self.lender = Lender()

    def request(self, what, **given):
        return self.replies[what]


ANYTHING = [
    None,
    7,
    "text",
    [],
    [1],
    (1, 2),
    {},
    {1: 2},
    {"x": [["a", 9, 1, 1]]},
    b"",
    np.ones(2),
    float("nan"),
    2**90,
    {1},
]


@pytest.mark.parametrize("value", ANYTHING, ids=repr)
def test_replies_are_looked_at_before_use(value):
    function = {"home": "mine", "parameters": [["x", 1, True, value], [value, 1, False, None]]}
    pair = {"gelu_forward": {"parameters": [["x", 1, False, None]]}, "gelu_backward": {"parameters": []}}
    for functions in (value, {"f": value}, {"f": function}, {value if isinstance(value, (int, str)) else 1: function}):
        RemoteFile(Forger({"load": {"functions": functions}}), Path("mine.py"), "")
    replies = {
        "load": {"functions": pair},
        "forward": {"kind": "pair", "out": value, "written": value},
        "backward": {"gradients": [value, value], "written": [value]},
        "look": {"arrays": value},
        "lines": {"assigned": [value, (value, 1)], "read": value, "stopped": value},
    }
    module = RemoteFile(Forger(replies), Path("mine.py"), "").module
    forwarded = isinstance(value, (int, float, np.ndarray)) or value is None
    if not forwarded:
        with pytest.raises(RaisedElsewhere, match="where an array is expected"):
            module.gelu_forward(np.ones(2))
    replies["forward"]["out"] = 1.0
    _, cache = module.gelu_forward(np.ones(2))
    assert list(cache.items()) == []
    if not forwarded:
        with pytest.raises(RaisedElsewhere, match="where an array is expected"):
            module.gelu_backward(np.ones(2), cache)
    told = RemoteFile(Forger(replies), Path("mine.py"), "").function("gelu_forward").lines(1, {})
    assert all(isinstance(name, str) for name in [*told.read, *(name for name, _ in told.assigned)])
    for kind in (value, "other"):
        replies["forward"]["kind"] = kind
        assert module.gelu_forward(np.ones(2)) is None


def test_a_process_that_does_not_read_fills_no_memory():
    """It may ask the judge for large answers, and leave them."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    streams = pipes.Pipes(process, 1000)
    megabyte = bytes(2**20)
    try:
        with pytest.raises(TimeoutError):
            for _ in range(4):
                streams.write(megabyte, time.monotonic() + 0.5)
    finally:
        process.kill()
        process.wait()
        streams.close()
    assert process.stdin.closed and process.stdout.closed and process.stderr.closed


# Borrowed operations

BORROWS = """
import numpy as np
from minigpt import ops
from minigpt.ops import linear_forward, linear_backward
from minigpt.ops.random_keys import keep_mask

def mlp_forward(x, w1, b1, w2, b2, *, grad=True):
    f, fc = linear_forward(x, w1, b1)
    a, gelu = ops.gelu_forward(f)
    out, proj = linear_forward(a, w2, b2)
    return out, (fc, gelu, proj)

def mlp_backward(dout, cache):
    fc, gelu, proj = cache
    da, dw2, db2 = linear_backward(dout, proj)
    dx, dw1, db1 = linear_backward(ops.gelu_backward(da, gelu), fc)
    return dx, dw1, db1, dw2, db2

def mask(key, rate, shape):
    return keep_mask(key, rate, shape, np)

def wrong_cache(x):
    return ops.gelu_backward(x, 7)

def mlp(x):
    return ops.mlp_forward(x, x, x, x, x)

def shapes(x):
    return ops.linear_forward(x, x)

def many(x):
    for _ in range(100):
        ops.gelu_forward(x)
"""


def test_a_file_borrows_operations():
    x, w1, b1, w2, b2 = (np.random.default_rng(0).normal(size=shape) for shape in [(2, 3), (3, 5), 5, (5, 4), 4])
    with Child(seconds=60) as child:
        remote = RemoteFile(child, Path("mine.py"), BORROWS)
        assert remote.operations() == ["mlp"] and "linear_forward" not in remote.signatures
        for allowed, says in ((None, "is not lent while the file is loaded"), ((), "is not lent to this file")):
            child.lender.allowed = allowed
            with pytest.raises(RaisedElsewhere, match=f"linear_forward {says}"):
                remote.module.mlp_forward(x, w1, b1, w2, b2)
        child.lender.allowed = lent_to(["mlp"])
        out, cache = remote.module.mlp_forward(x, w1, b1, w2, b2)
        true, true_cache = reference.mlp_forward(x, w1, b1, w2, b2)
        np.testing.assert_allclose(out, true, rtol=1e-12)
        gradients = remote.module.mlp_backward(out, cache)
        for mine, right in zip(gradients, reference.mlp_backward(out, true_cache), strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-12)
        np.testing.assert_array_equal(
            remote.function("mask")(Key(7, 2), 0.3, (4, 5)), keep_mask(Key(7, 2), 0.3, (4, 5), np)
        )
        for name, says in {
            "wrong_cache": "takes dout, and the cache that its forward gave here",
            "mlp": "mlp_forward is not lent to this file",
            "shapes": r"linear: w has shape \(2, 3\)",
        }.items():
            with pytest.raises(RaisedElsewhere, match=says):
                remote.function(name)(np.ones((2, 3)))
        assert remote.function("many")(np.ones(2)) is None


def test_gradients_in_a_list():
    text = BORROWS.replace("return dx, dw1, db1, dw2, db2", "return [dx, dw1, db1, dw2, db2]")
    with Child(seconds=60) as child:
        remote = RemoteFile(child, Path("mine.py"), text)
        child.lender.allowed = lent_to(["mlp"])
        _, cache = remote.module.mlp_forward(*[np.ones((2, 2))] * 2, np.ones(2), np.ones((2, 2)), np.ones(2))
        assert len(remote.module.mlp_backward(np.ones((2, 2)), cache)) == 5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ((7, (), {}), "that is none"),
        (("linear_forward", [1], {}), "that is none"),
        (("table", (), {}), "has no table"),
        (("__class___forward", (), {}), "has no __class__"),
        (("gelu_forward", (np.ones(2**20 + 1),), {}), "for small arrays only"),
        (("linear_forward", (np.ones((2000, 1)), np.ones((1, 2000))), {}), "for small arrays only"),
        (("attention_forward", (np.ones((3000, 1)),) * 3, {}), "for small arrays only"),
        (("gelu_backward", (np.ones(2), 1), {}), "takes what gelu_forward cached"),
        (("gelu_backward", (np.ones(2), Borrowed("", ([1],), {})), {}), "unhashable"),
        (("gelu_backward", (np.ones(2), Borrowed("", (1,), {})), {}), "takes what gelu_forward cached"),
        (("gelu_backward", (np.ones(2), Borrowed("linear", (np.ones(2),), {})), {}), "takes what gelu_forward cached"),
        (("gelu_backward", (np.ones(2), Borrowed("gelu", None, 7)), {}), "must be an iterable"),
        (("gelu_backward", (np.ones(2**20 + 1), Borrowed("gelu", (np.ones(2),), {})), {}), "for small arrays only"),
        (("gelu_backward", (np.ones(2), Borrowed("gelu", (np.ones(2**20 + 1),), {})), {}), "for small arrays only"),
        (("linear_backward", (1, Borrowed("linear", (np.ones((2000, 1)), np.ones((1, 2000))), {})), {}), "for small"),
        (("gelu_forward", (), {}), "missing"),
        (("softmax_forward", (np.ones(2),), {}), "is not lent"),
        (("keep_mask", (3, 0.5, (2,)), {}), "takes a key"),
        (("keep_mask", (Key(3), 0.5, (2**20, 2**20)), {}), "at most"),
    ],
)
def test_what_is_not_lent(call, says):
    kind, answer = Lender(["gelu", "linear", "attention"]).answer(*call)
    assert kind == "refused" and says in answer[1]


def test_nothing_is_kept_of_what_is_lent():
    lender = Lender(["attention"])
    before = dict(vars(lender))
    q = np.random.default_rng(0).normal(size=(1, 1, 50, 1))
    for _ in range(3):
        kind, out = lender.answer("attention_forward", (q, q, q), {})
        assert kind == "lent" and out.shape == (1, 1, 50, 1)
    assert vars(lender) == before and lender._given == {}
    kind, gradients = lender.answer("attention_backward", (out, Borrowed("attention", (q, q, q), {})), {})
    right = reference.attention_backward(out, reference.attention_forward(q, q, q)[1])
    assert kind == "lent"
    for mine, true in zip(gradients, right, strict=True):
        np.testing.assert_array_equal(mine, true)


def test_a_cache_that_the_judge_has_made_is_lent_by_its_number():
    """So it is in an exercise whose forward pass is given: the process has the number, the judge the cache."""
    lender = Lender(["gelu"])
    x = np.random.default_rng(0).normal(size=3)
    _, cache = ops.gelu_forward(x)
    there = lender.as_borrowed(cache)
    assert isinstance(there, Borrowed) and lender.as_borrowed(x) is x and lender.as_borrowed(Key(3)) == Key(3)
    kind, dx = lender.answer("gelu_backward", (np.ones(3), there), {})
    assert kind == "lent"
    np.testing.assert_array_equal(dx, ops.gelu_backward(np.ones(3), cache))
    lender.allowed = ["gelu", "linear"]
    kind, (_, says) = lender.answer("linear_backward", (np.ones(3), there), {})
    assert kind == "refused" and "it takes what linear_forward cached" in says


def test_what_a_composite_calls_is_not_to_be_had_from_it():
    """Which composite calls which primitive is read from the reference's own lines."""
    assert set(GIVEN_AWAY_BY) == set(ops.names)
    for composite in ops.composites:
        source = inspect.getsource(getattr(reference, f"{composite}_forward"))
        called = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
        parts = [op for op in ops.names if f"{op}_forward" in called]
        assert parts, composite
        for op in parts:
            assert composite not in lent_to([op]) and op in lent_to([composite])
    for op in ACTIVATIONS:  # which an MLP calls by their names
        assert not {"mlp", "gated_mlp"} & lent_to([op]) and op in lent_to(["mlp"]) & lent_to(["gated_mlp"])
    for op in ops.names:
        assert op not in lent_to([op])
    assert not {"gelu", "linear", "mlp"} & lent_to(["gelu", "linear"])
    assert {"linear", "gelu", "softmax"} <= lent_to(["layernorm"])


# Tiers


def test_a_sandbox_by_name():
    with pytest.raises(InputError, match="sandbox is 'strong': choose auto, bubblewrap, plain"):
        Child(sandbox="strong").__enter__()


def test_bubblewrap_where_there_is_none(monkeypatch):
    monkeypatch.setattr(limits, "bubblewrap_problem", lambda: "no bwrap is installed")
    with pytest.raises(InputError, match="sandbox is 'bubblewrap', but no bwrap is installed: choose 'plain'"):
        Child(sandbox="bubblewrap").__enter__()
    with Child() as child:
        assert child.says.startswith("Sandbox: plain: ")


def test_a_bubblewrap_that_does_not_work(monkeypatch, tmp_path):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    problem = limits.bubblewrap_problem.__wrapped__()
    assert problem == "bwrap does not work here: bwrap: No permissions to create new namespace"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert limits.bubblewrap_problem.__wrapped__() == "no bwrap is installed"


def test_a_package_inside_an_archive(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "HOME", tmp_path / "minigpt.zip" / "minigpt")
    with pytest.raises(InputError, match="is no file: unpack minigpt") as error:
        Child(sandbox="plain").__enter__()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("sandbox", TIERS)
def test_what_the_process_sees(sandbox, monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "secret")
    look = """
import os, sys
def environment():
    return dict(os.environ)
def arguments():
    return sys.path, sorted(name for name in sys.modules if name.startswith("minigpt")), sys.flags.isolated
def numpy():
    import numpy
    return numpy.__file__, numpy.ones((300, 300)) @ numpy.ones((300, 300))
def limits():
    import resource
    return [resource.getrlimit(getattr(resource, name))[1] for name in ("RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_CORE")]
def folder():
    return os.getcwd(), os.listdir()
"""
    with Child(sandbox=sandbox) as child:
        remote = RemoteFile(child, Path("mine.py"), look)
        environment = remote.function("environment")()
        assert "secret" not in environment.values() and environment["OPENBLAS_NUM_THREADS"] == "1"
        assert set(environment) <= {
            "HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "LANG", "PATH", "PWD", "OPENBLAS_NUM_THREADS",
            "OMP_NUM_THREADS", "MKL_NUM_THREADS", *limits.KEPT,
        }  # fmt: skip
        paths, modules, isolated = remote.function("arguments")()
        assert not any("packages" in path for path in paths) and isolated
        assert modules == ["minigpt", "minigpt.ops", "minigpt.ops.random_keys"]
        file, product = remote.function("numpy")()
        assert file == np.__file__ and (product == 300).all()
        if os.name == "posix":
            assert remote.function("limits")() == [limits.MEMORY, limits.FILE_SIZE, 0]
        folder, inside = remote.function("folder")()
        assert "minigpt-check-" in folder and inside == []
    assert not os.path.exists(folder)


@pytest.mark.parametrize("sandbox", TIERS)
def test_what_a_file_may_import_and_use(sandbox):
    """The fence is to be noticed by nobody who writes operations."""
    use = """
import abc, collections, copy, dataclasses, decimal, doctest, enum, fractions, functools, inspect, itertools, json
import logging, math, operator, pathlib, pprint, random, re, statistics, string, tempfile, textwrap, time, timeit
import traceback, types, typing, unittest, warnings
import numpy as np
import numpy.fft, numpy.lib.stride_tricks, numpy.linalg, numpy.polynomial, numpy.random, numpy.testing

def use():
    np.testing.assert_allclose(np.linalg.inv(np.eye(3)), np.eye(3))
    np.einsum("ij,jk->ik", np.eye(3), np.eye(3)), np.random.default_rng(0).normal(size=3), np.fft.fft(np.ones(4))
    np.lib.stride_tricks.sliding_window_view(np.ones(5), 2), str(np.ones((3, 3))), np.polynomial.Polynomial([1, 2])(3)
    np.save("x.npy", np.ones(3))
    pathlib.Path("a").mkdir()
    pathlib.Path("a/notes.txt").write_text("x", encoding="utf-8")
    pathlib.Path("a/notes.txt").unlink()
    pathlib.Path("a").rmdir()
    with tempfile.TemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
        file.write(b"x")
    logging.warning("x"), warnings.warn("y", stacklevel=1)
    Point = collections.namedtuple("Point", "x y")
    @dataclasses.dataclass
    class Sizes:
        n: int
    try:
        1 / 0
    except ZeroDivisionError:
        traceback.print_exc()
    return float(np.load("x.npy").sum()), Point(1, 2).x, Sizes(3).n, inspect.getsource(use)[:8]
"""
    with Child(sandbox=sandbox) as child:
        used = RemoteFile(child, Path("mine.py"), use).function("use")
        assert used() == (3.0, 1, 3, "def use(")
        child.finish()
        assert child.failure == "" and "ZeroDivisionError" in child.printed


TRIES = """
import os
here = os.getcwd()
def attempt(text):
    try:
        exec(text, {"os": os})
    except PermissionError as error:
        return str(error)
    finally:
        os.chdir(here)
    return "it went well"
"""
OUTSIDE = "outside its folder"
REFUSED = {  # what a file tries, with FILE for one that is not its own, and what it is told
    "os.fork()": "start processes",
    "os.forkpty()": "start processes",
    "os.execv('/bin/true', ['true'])": "start processes",
    "os.posix_spawn('/bin/true', ['true'], {})": "start processes",
    "os.system('true')": "start processes",
    "import subprocess; subprocess.run(['true'])": "start processes",
    "import subprocess; subprocess.run(['true'], start_new_session=True)": "start processes",
    "import sys; sys.audit('subprocess.Popen', 'a', [], None, None)": "start processes",  # it may be imported before
    "import sys; sys.audit('os.spawn', 1, 'a', [], {})": "start processes",  # this and two more: only Windows has them
    "import sys; sys.audit('os.startfile', 'a', 'open')": "start processes",
    "import sys; sys.audit('_winapi.CreateProcess', 'a', 'b', None)": "start processes",
    "import multiprocessing; multiprocessing.Pool(1)": "start ",
    "import multiprocessing; multiprocessing.get_context('spawn').Process(target=print).start()": "start processes",
    "import threading; threading.Thread(target=print).start()": "start threads",
    "from concurrent.futures import ThreadPoolExecutor as Pool; Pool(1).submit(print)": "start threads",
    "os.kill(os.getppid(), 0)": "send signals",
    "os.kill(0, 0)": "send signals",
    "os.killpg(0, 0)": "send signals",
    "import socket; socket.socket()": "use the network",
    "import http.client; http.client.HTTPConnection('localhost').connect()": "use the network",
    "import ctypes; ctypes.CDLL(None)": "use ctypes",
    "import sqlite3; sqlite3.connect(':memory:')": "open databases",
    "open('FILE')": "read",
    "open(b'FILE')": "read",
    "import pathlib; pathlib.Path('FILE').read_text()": "read",
    "os.open('FILE', os.O_RDONLY)": "read",
    "import numpy; numpy.load('FILE')": "read",
    "open('FILE', 'a')": OUTSIDE,
    "open('FILE', 'r+')": OUTSIDE,
    "open('FILE.new', 'x')": OUTSIDE,
    "import numpy; numpy.ones(3).tofile('FILE')": OUTSIDE,
    "os.chdir(os.path.dirname('FILE')); open('new', 'w')": OUTSIDE,
    "open('../new', 'w')": OUTSIDE,
    "os.remove('FILE')": OUTSIDE,
    "os.rmdir('FILE')": OUTSIDE,
    "os.rename('FILE', 'here')": OUTSIDE,
    "os.rename('here', 'FILE')": OUTSIDE,
    "os.link('FILE', 'here')": OUTSIDE,
    "os.symlink('here', 'FILE.link')": OUTSIDE,
    "os.symlink('FILE', 'link'); open('link', 'w')": OUTSIDE,
    "os.mkdir('FILE.folder')": OUTSIDE,
    "os.truncate('FILE', 0)": OUTSIDE,
    "os.chmod('FILE', 0o777)": OUTSIDE,
    "os.chown('FILE', os.getuid(), os.getgid())": OUTSIDE,
    "os.utime('FILE')": OUTSIDE,
    "import sys; sys.audit('os.setxattr', 'FILE', 'user.x', b'1', 0)": OUTSIDE,  # these two: only Linux has them
    "import sys; sys.audit('os.removexattr', 'FILE', 'user.x')": OUTSIDE,
    "os.listdir(os.path.dirname('FILE'))": "list",
    "os.listdir(os.path.dirname(b'FILE'))": "list",
    "import pathlib; list(pathlib.Path('FILE').parent.iterdir())": "list",
    "import glob, os; os.chdir(os.path.dirname('FILE')); os.listdir()": "list",
    "next(os.scandir('/'))": "list",
}
ALLOWED = [
    "open(os.devnull, 'w')",
    "open('mine', 'w')",
    "open(1, 'w', closefd=False)",
    "import socket, subprocess, threading, multiprocessing",
    "import os; open(os.__file__)",
    "import os; os.listdir(), os.listdir(b'.'), os.listdir(os.path.dirname(os.__file__))",
]


@pytest.fixture(scope="module")
def fenced(tmp_path_factory):
    """A file of another, and what a learner's file is told that tries something with it."""
    path = tmp_path_factory.mktemp("other") / "file.txt"
    path.write_text("kept", encoding="utf-8")
    with Child(seconds=100, sandbox="plain") as child:
        attempt = RemoteFile(child, Path("mine.py"), TRIES).function("attempt")
        yield path, lambda text: attempt(text.replace("FILE", str(path)))


@pytest.mark.skipif(os.name != "posix", reason="calls of POSIX")
@pytest.mark.parametrize("tried", REFUSED)
def test_what_the_fence_refuses(fenced, tried):
    path, attempt = fenced
    told = attempt(tried)
    assert told.startswith("a file that is judged may not ") and REFUSED[tried] in told
    assert os.listdir(path.parent) == ["file.txt"] and path.read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize("tried", ALLOWED)
def test_what_the_fence_does_not_refuse(fenced, tried):
    _, attempt = fenced
    assert attempt(tried) == "it went well"


class Kernel32:
    """Windows as far as a job object needs it; it notes the calls."""

    def __init__(self, fails=""):
        self.fails = fails
        self.calls = []
        self.limits = None

    def __getattr__(self, name):
        def call(*args):
            self.calls.append(name)
            if name == "SetInformationJobObject":
                handle, kind, pointer, size = args
                assert (handle, kind, size) == (7, 9, 144 if ctypes.sizeof(ctypes.c_size_t) == 8 else 112)
                self.limits = windows.ExtendedLimits.from_buffer_copy(pointer._obj)
            if name == "AssignProcessToJobObject":
                assert args == (7, 42)
            return 0 if name == self.fails else 7

        return call


class Process:
    _handle = 42


def test_a_job_object_of_windows():
    system = Kernel32()
    job = windows.Job(Process(), 2**31, system)
    assert system.limits.BasicLimitInformation.LimitFlags == 0x2708
    assert system.limits.BasicLimitInformation.ActiveProcessLimit == 1
    assert system.limits.ProcessMemoryLimit == system.limits.JobMemoryLimit == 2**31
    job.close()
    job.close()
    assert system.calls == [
        "CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject", "TerminateJobObject", "CloseHandle",
    ]  # fmt: skip


@pytest.mark.parametrize("fails", ["CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject"])
def test_a_job_object_that_windows_refuses(fails):
    system = Kernel32(fails)
    with pytest.raises(OSError, match="job object"):
        windows.Job(Process(), 2**31, system)
    assert (system.calls[-1] == "CloseHandle") == (fails != "CreateJobObjectW")
