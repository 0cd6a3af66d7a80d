"""A backward pass that was derived is told apart from one that differentiates its forward pass numerically."""

import contextlib
import types

import numpy as np
import pytest
from handed_in import solution
from test_check_file import DROPOUT

from minigpt import ops
from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.learn.classroom import course
from minigpt.learn.classroom.checking import Limits, check_exercise
from minigpt.learn.classroom.sentences import told
from minigpt.learn.classroom.verdict import RIGHT, WRONG
from minigpt.learn.judging.derived import calls_of_operations, not_derived
from minigpt.learn.judging.rounded import _rounded, rounded

OPERATIONS = {}
for lesson in course.OPERATIONS:
    for name in ops.names:
        if f"def {name}_backward" in (written := solution(f"{lesson}_operations")):
            OPERATIONS[name] = written

TRICK = """

def {op}_forward(*args, **constants):
    result = plain_forward(*args, **constants)
    return result if result is NotImplemented else (result[0], (args, constants, result[1]))


def {op}_backward(dout, cache):
    args, constants, plain = cache
    gradients = plain_backward(dout, plain)
    single = not isinstance(gradients, tuple)
    gradients = [np.array(one) for one in ([gradients] if single else gradients)]
    floats = [k for k, arg in enumerate(args) if getattr(arg, "dtype", None) == np.float64]

    def f(h, kind=np.float64):
        changed = [arg.astype(kind) if k in floats else arg for k, arg in enumerate(args)]
        changed[k].flat[place] = changed[k].flat[place] + h
        return (plain_forward(*changed, **constants)[0] * dout).sum()

    for k, gradient in zip(floats, gradients):
        place = abs(gradient).argmax()
        gradient.flat[place] = {scheme}
    return gradients[0] if single else tuple(gradients)


{op}_forward.__wrapped__ = plain_forward
"""
SCHEMES = {
    "two points": "(f(1e-5) - f(-1e-5)) / 2e-5",
    "one side": "(f(1e-8) - f(0)) / 1e-8",
    "four points": "(8 * (f(1e-3) - f(-1e-3)) - (f(2e-3) - f(-2e-3))) / 12e-3",
    "Richardson": "(4 * (f(5e-4) - f(-5e-4)) / 1e-3 - (f(1e-3) - f(-1e-3)) / 2e-3) / 3",
    "complex step": "f(1e-20j, complex).imag / 1e-20",
    "long double": "(f(np.longdouble(1e-7), np.longdouble) - f(-np.longdouble(1e-7), np.longdouble)) / 2e-7",
}


class Here:
    """A learner's file as the judge has it, in this process."""

    def __init__(self, text):
        self.text = text
        self.module = types.SimpleNamespace()
        self._names = {}
        self._load(text)
        for name, value in self._names.items():
            if name.endswith(("_forward", "_backward")):
                setattr(self.module, name, self._calling(name, value))

    def operations(self):
        return [op for op in ops.names if f"{op}_backward" in self._names]

    def _calling(self, name, function):
        def call(*args, **constants):
            return self._names[name](*args, **constants)

        call.__wrapped__ = function
        return call

    def _load(self, text):
        self._names = {"__name__": "mine"}
        exec(compile(text, "mine.py", "exec"), self._names)

    @contextlib.contextmanager
    def with_text(self, text):
        self._load(text)
        yield
        self._load(self.text)


def found(text: str) -> list:
    remote = Here(text)
    return not_derived(remote, calls_of_operations(remote, seed=5))


def trick(op: str, scheme: str) -> str:
    text = OPERATIONS[op].replace(f"def {op}_forward", "def plain_forward")
    return text.replace(f"def {op}_backward", "def plain_backward") + TRICK.format(op=op, scheme=SCHEMES[scheme])


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_was_derived_is_left_alone(op):
    assert found(OPERATIONS[op]) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("op", ["softmax", "linear", "gelu", "layernorm", "cross_entropy"])
def test_one_entry_that_was_had_numerically_is_enough(op, scheme):
    result = {result.name: result for result in found(trick(op, scheme))}[f"{op}_backward"]
    assert result.error > 1e-6, (scheme, result.error)
    assert "Derive it" in result.diagnosis


@pytest.mark.parametrize("op", sorted({*OPERATIONS} - {"softmax", "linear", "gelu", "layernorm", "cross_entropy"}))
def test_two_points_are_seen_in_every_operation(op):
    assert any(result.error > 1e-6 for result in found(trick(op, "two points")))


HONEST = {  # other ways to write an operation that was derived: longer sums, other sequences, other formulas
    "softmax": """
def softmax_forward(x):
    p = np.exp(x - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) - x.max(-1, keepdims=True))
    return p, p
def softmax_backward(dout, p):
    dx = np.empty_like(p)
    for i in np.ndindex(p.shape[:-1]):
        jacobian = np.diag(p[i]) - np.outer(p[i], p[i])
        for j in reversed(range(p.shape[-1])):
            dx[i][j] = 0
            for k in range(p.shape[-1]):
                dx[i][j] += float(dout[i][k]) * float(jacobian[k, j])
    return dx
""",
    "gelu": """
import math
C, A = 0.7978845608, 0.044715
def gelu_forward(x):
    return x / (1 + np.exp(-2 * C * (x + A * x**3))), x
def gelu_backward(dout, x):
    u = C * (x + A * x**3)
    return dout * (0.5 * (1 + np.tanh(u)) + 0.5 * x * (1 / np.cosh(u)) ** 2 * C * (1 + 3 * A * x**2))
""",
    "layernorm": """
def layernorm_forward(x, g, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    std = np.sqrt((x * x).mean(-1, keepdims=True) - mean**2 + eps)
    return (x - mean) / std * g + b, (x, g, mean, std)
def layernorm_backward(dout, cache):
    x, g, mean, std = cache
    n = x.shape[-1]
    dhat = dout * g
    dstd = (-dhat * (x - mean) / std**2).sum(-1, keepdims=True)
    dx = dhat / std
    dx += dstd / std * (x - mean) / n
    dx -= dhat.sum(-1, keepdims=True) / std / n
    axes = tuple(range(x.ndim - 1))
    dg, db = np.zeros(n), np.zeros(n)
    for row in (dout * (x - mean) / std).reshape(-1, n)[::-1]:
        dg += row
    for row in dout.reshape(-1, n):
        db[:] = db + row
    return dx, dg, db
""",
    "linear": """
def linear_forward(x, w, b=None):
    out = np.einsum("...i,ij->...j", x, w)
    return out if b is None else out + b, (x, w, b)
def linear_backward(dout, cache):
    x, w, b = cache
    dx = np.zeros_like(x)
    for j in range(w.shape[1]):
        dx.reshape(-1, w.shape[0])[...] += np.outer(dout.reshape(-1, w.shape[1])[:, j], w[:, j])
    dw = sum(np.outer(x[i], dout[i]) for i in np.ndindex(x.shape[:-1]))
    db = None if b is None else dout.reshape(-1, w.shape[1]).cumsum(axis=0)[-1]
    return dx, dw, db
""",
    "dropout": DROPOUT,
}
DUAL = """
class Dual:
    def __init__(self, value, slope):
        self.value, self.slope = value, slope
    def __add__(self, other):
        return Dual(self.value + other.value, self.slope + other.slope)
    def __mul__(self, other):
        return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)
    def scaled(self, by):
        return Dual(self.value * by, self.slope * by)
    def tanh(self):
        t = np.tanh(self.value)
        return Dual(t, (1 - t * t) * self.slope)
def curve(x):
    t = (x + (x * x * x).scaled(0.044715)).scaled(np.sqrt(2 / np.pi)).tanh()
    return x.scaled(0.5) + (x * t).scaled(0.5)
def gelu_forward(x):
    return curve(Dual(x, 0 * x)).value, x
def gelu_backward(dout, x):
    return dout * curve(Dual(x, np.ones_like(x))).slope
"""


@pytest.mark.parametrize("op", HONEST)
def test_another_formula_is_left_alone(op):
    assert found("import numpy as np\n" + HONEST[op]) == []


def test_dual_numbers_are_derived():
    assert found("import numpy as np\n" + DUAL) == []


def test_a_file_that_cannot_be_run_with_rounded_numbers_is_left_alone():
    remote = Here(trick("softmax", "two points"))

    @contextlib.contextmanager
    def with_text(text):
        raise RaisedElsewhere("AssertionError")
        yield

    remote.with_text = with_text
    assert not_derived(remote, calls_of_operations(remote, seed=5)) == []


# --- the text with rounded numbers -----------------------------------------------------------------------------------

ODD = '''"""A file."""
from __future__ import annotations
from dataclasses import dataclass
from collections import namedtuple

@dataclass(frozen=True)
class Sizes(namedtuple("Base", "a b")):
    n: int | None = 3
    def __len__(self):
        return super().__len__() + 1

def view(x):
    x.reshape(-1)[1:] += 1
    x[0] *= 3
    total = 0
    total += 1 / 3
    return x, total, f"{1 / 3:.3f}", [i + 1 for i in range(3)]
'''


def test_the_text_does_the_same_with_nine_digits():
    names = {"__name__": __name__}
    exec(rounded(ODD), names)
    x = np.arange(4.0)
    again, total, text, numbers = names["view"](x)
    assert again is x and x.tolist() == [0, 2, 3, 4] and text == "0.333" and numbers == [1, 2, 3]
    assert 1e-10 < abs(total - 1 / 3) < 1e-8


@pytest.mark.parametrize(
    "value", [1 / 3, np.float64(1 / 3), np.array([1 / 3]), np.longdouble(1) / 3, 1e-30 / 3, 1e300 / 3]
)
def test_nine_digits_stay(value):
    shorter = _rounded(np.copy(value) if isinstance(value, np.ndarray) else value)
    error = abs(float(np.max(shorter / value - 1)))
    assert 1e-12 < error < 2e-9 and type(shorter) is type(value)


def test_what_is_rounded_and_what_is_not():
    assert _rounded(1 + 1e-20j) == 1 and _rounded(np.array([1 + 1e-12j]))[0] == 1
    assert _rounded((1 / 3, "x"))[0] == _rounded(1 / 3)
    for value in (3, True, "x", None, np.arange(3), np.float32(1) / 3, 0.0, np.inf):
        assert np.all(_rounded(value) == value)
    assert np.isnan(_rounded(np.nan))
    fixed = np.broadcast_to(np.float64(1 / 3), (2, 2))  # it cannot be written to
    assert _rounded(fixed) is fixed


# --- in an exercise --------------------------------------------------------------------------------------------------


def verdict(tmp_path, key, text):
    exercise = course.exercise_of(key)
    path = tmp_path / exercise.file
    path.write_text(text, encoding="utf-8")
    return check_exercise(exercise, path, Limits(seed=3))


def test_a_copied_trick_does_not_earn_an_exercise(tmp_path, monkeypatch):
    found = verdict(tmp_path, "00_operations", trick("softmax", "complex step"))
    assert found.word == WRONG
    assert [one.mistake for one in found.findings][0].startswith("Its values are right, but where each step is rounded")
    assert any("Derive it" in line for line in found.report)
    monkeypatch.setenv("MINIGPT_LANG", "ko")
    assert "직접 유도하십시오" in told(found.findings[0].mistake)


def test_nor_an_exercise_line_by_line(tmp_path):
    text = solution("06_rmsnorm")
    assert verdict(tmp_path, "06_rmsnorm", text).word == RIGHT
    last = "    return dx, dg\n"
    assert text.count(last) == 1
    loop = """
    def f(x):
        return (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + v.eps) * v.g * dout).sum()
    numeric = np.zeros_like(dx)
    for i in np.ndindex(dx.shape):
        x = v.x.copy()
        x[i] += 1e-5
        up = f(x)
        x[i] -= 2e-5
        numeric[i] = (up - f(x)) / 2e-5
    dx = numeric * 1
"""
    found = verdict(tmp_path, "06_rmsnorm", text.replace(last, loop + last))
    assert found.word == WRONG and "Derive it" in found.findings[0].mistake, found.report
