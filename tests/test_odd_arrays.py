"""Odd arrays and numbers as arguments of operations: the result of the reference in float64, or one line that refuses.

Never an error of NumPy's own, never another value, and never a write to what was given.
"""

from fractions import Fraction

import numpy as np
import pytest
from helpers import error

from minigpt import ops
from minigpt.errors import InputError
from minigpt.ops import reference, shapes
from minigpt.ops.arguments import Arguments
from minigpt.ops.cases import NAMES, case
from minigpt.ops.random_keys import Key

BOTH = [("reference",), ()]  # who runs: () is the default, fast where it can
KEY = Key.of(1)
CONSTANTS = {"dropout": {"rate": 0.3, "key": KEY}, "rope": case("rope").constants}


def strided(a):
    wide = np.zeros([2 * n for n in a.shape], a.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in a.shape)]
    view[...] = a
    return view


def backwards(a):
    turn = tuple(slice(None, None, -1) for _ in a.shape)
    return np.ascontiguousarray(a[turn])[turn]


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def not_aligned(a):
    moved = np.ndarray(a.shape, a.dtype, buffer=bytearray(a.nbytes + 1), offset=1)
    moved[...] = a
    return moved


class Own(np.ndarray):
    """A subclass, as np.memmap is one."""


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "strided": strided,
    "backwards": backwards,
    "one row everywhere": lambda a: np.broadcast_to(a[:1], a.shape),
    "read only": read_only,
    "not aligned": not_aligned,
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "subclass": lambda a: a.view(Own),
}


def through(change, value):
    """The value with this change of every array in it."""
    if isinstance(value, np.ndarray):
        return change(value)
    return tuple(through(change, item) for item in value) if type(value) is tuple else value


def plain(value):
    return through(lambda a: np.array(a, float if a.dtype.kind == "f" else a.dtype.newbyteorder("=")), value)


def content(value):
    found = []
    through(lambda a: found.append(a.tobytes()), value)
    return found


def both_ways(op, args, constants, dout=None):
    """[out, *gradients], and dout."""
    out, cache = getattr(ops, f"{op}_forward")(*args, **constants)
    if dout is None:
        dout = np.random.default_rng(0).standard_normal(np.shape(out))
    gradients = getattr(ops, f"{op}_backward")(np.asarray(dout).astype(out.dtype)[()], cache)
    if not isinstance(gradients, tuple):
        gradients = (gradients,)
    return [out, *[gradient for gradient in gradients if gradient is not None]], dout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_an_array_changes_no_number_and_nothing_is_written(layout):
    failures = []
    for name in NAMES:
        op, args, constants = case(name, dtype=np.float32).call
        args = tuple(through(LAYOUTS[layout], argument) for argument in args)
        constants = {key: through(LAYOUTS[layout], value) for key, value in constants.items()}
        before = content((*args, *constants.values()))
        with ops.using("reference"):
            expected, dout = both_ways(op, map(plain, args), {key: plain(value) for key, value in constants.items()})
        for who in BOTH:
            with ops.using(*who):
                found, _ = both_ways(op, args, constants, dout)
            worst = max(np.abs(a - b).max() / max(np.abs(b).max(), 1) for a, b in zip(found, expected, strict=True))
            if not worst < 1e-4 or before != content((*args, *constants.values())):
                failures.append((name, who, worst))
    assert not failures


NUMBERS = [np.float16(0.25), np.float32(0.25), np.float64(0.25), np.longdouble(0.25), Fraction(1, 4)]
OPTIONS = [
    ("attention", {"scale": 0.25}), ("attention", {"rate": 0.25, "key": KEY}), ("self_attention", {"scale": 0.25}),
    ("self_attention", {"rate": 0.25, "key": KEY}), ("dropout", {"rate": 0.25, "key": KEY}),
    ("layernorm", {"eps": 0.25}), ("rmsnorm", {"eps": 0.25}), ("cosine_loss", {"eps": 0.25}),
    ("cross_entropy", {"normalizer": 0.25}), ("soft_cross_entropy", {"temperature": 0.25}),
    ("linear_cross_entropy", {"normalizer": 0.25}),
]  # fmt: skip


@pytest.mark.parametrize("who", BOTH, ids=["reference", "default"])
@pytest.mark.parametrize(("op", "options"), OPTIONS)
def test_a_number_of_numpy_is_the_same_as_one_of_python(op, options, who):
    """It is not an array: float32 stays float32, and the bits are those of Python's number."""
    _, args, constants = case(op, dtype=np.float32).call
    with ops.using(*who):
        expected, dout = both_ways(op, args, constants | options)
        for number in NUMBERS:
            given = {key: number if value == 0.25 else value for key, value in options.items()}
            found, _ = both_ways(op, args, constants | given, dout)
            for a, b in zip(found, expected, strict=True):
                assert a.dtype == np.float32 and np.array_equal(a, b), type(number)


# --- axes without elements -------------------------------------------------------------------------------------------


def letters_of(op):
    letters = set()
    for tensor in shapes.of(getattr(ops, f"{op}_forward"))[0]:
        if not tensor.optional:
            letters |= {shapes.factors(axis)[1] for axis in tensor.axes if axis != "*"}
    return letters - {""}


def without(op, letter):
    """Arguments whose axes of this letter have no elements."""
    forward = getattr(ops, f"{op}_forward")
    given = shapes.examples(forward, optional=False)
    for tensor in shapes.of(forward)[0]:
        for i, axis in enumerate(tensor.axes):
            if axis != "*" and shapes.factors(axis)[1] == letter and tensor.name in given:
                given[tensor.name] = given[tensor.name].take(range(0), axis=i - len(tensor.axes))
    return given.values()


@pytest.mark.parametrize("who", BOTH, ids=["reference", "default"])
@pytest.mark.parametrize("op", ops.names)
def test_an_axis_without_elements_is_refused_by_its_letter(op, who):
    for letter in letters_of(op) - {"B"}:
        with ops.using(*who), pytest.raises(InputError, match=rf" has \d*{letter} = 0: give at least 1"):
            getattr(ops, f"{op}_forward")(*without(op, letter), **CONSTANTS.get(op, {}))


@pytest.mark.parametrize("who", BOTH, ids=["reference", "default"])
@pytest.mark.parametrize("op", [op for op in ops.names if "B" in letters_of(op)])
def test_a_batch_without_rows_goes_both_ways(op, who):
    with ops.using(*who):
        (out, *gradients), _ = both_ways(op, without(op, "B"), CONSTANTS.get(op, {}))
    assert out.size == 0 and all(not np.any(gradient) for gradient in gradients)


# --- keys ------------------------------------------------------------------------------------------------------------

TABLE = np.array([[5, 6], [7, 8]], np.uint32)
NO_KEYS = [Key(1.5), Key(None), Key("a"), Key(Key(3)), Key(np.zeros(0, np.uint32)), Key(np.zeros(1)), Key(5, 1.0),
           Key(5, None), Key(5, np.array([1])), Key(True), (1, 2), np.array(3)]  # fmt: skip
KEYS = [(Key(np.int64(5)), Key(5)), (Key(np.uint32(5)), Key(5)), (Key(5 - 2**32), Key(5)), (Key(5 + 2**40), Key(5)),
        (Key(5, np.int64(3)), Key(5, 3)), (Key(5, 3 + 2**70), Key(5, 3)), (Key(TABLE), Key(5))]  # fmt: skip
WITH_CHANCE = ["dropout", "attention", "self_attention", "cross_attention"]


@pytest.mark.parametrize("who", BOTH, ids=["reference", "default"])
@pytest.mark.parametrize("op", WITH_CHANCE)
def test_what_is_no_key_is_refused_also_after_one_that_is(op, who):
    _, args, constants = case(op).call
    call = getattr(ops, f"{op}_forward")
    with ops.using(*who):
        call(*args, **constants | {"rate": 0.3, "key": KEY})
        for key in NO_KEYS:
            with pytest.raises(InputError, match="key is .*: give a Key"):
                call(*args, **constants | {"rate": 0.3, "key": key})


@pytest.mark.parametrize("who", BOTH, ids=["reference", "default"])
@pytest.mark.parametrize("op", WITH_CHANCE)
def test_a_key_counts_by_its_low_32_bits(op, who):
    _, args, constants = case(op).call
    call = getattr(ops, f"{op}_forward")
    with ops.using(*who):
        for given, same in KEYS:
            out, expected = (call(*args, **constants | {"rate": 0.3, "key": key})[0] for key in (given, same))
            assert np.array_equal(out, expected), given
    assert Key(np.int64(5)).fold(3) == Key(5).fold(3)


# --- refusals --------------------------------------------------------------------------------------------------------

X, W, G = np.ones((2, 4)), np.ones((4, 3)), np.ones(4)
QKV = np.ones((2, 3, 12))
CALLS = {
    "eps": lambda: ops.layernorm_forward(X, G, G, eps=10**400),
    "scale": lambda: ops.self_attention_forward(QKV, 2, scale=-(10**400)),
    "normalizer": lambda: ops.cross_entropy_forward(X, np.array([0, 1]), normalizer=1e-320),
    "grad": lambda: ops.self_attention_forward(QKV, 2, grad=[1]),
    "w is float32": lambda: ops.linear_forward(X.astype(np.longdouble), W.astype(np.float32)),
    "x is": lambda: ops.linear_forward(X.astype(np.longdouble), W),
    **{f"temperature is {value!r}"[:30]: lambda value=value: ops.soft_cross_entropy_forward(X, X, temperature=value)
       for value in (0, -1.0, float("nan"), float("inf"), 1e300, 1e-300, None, "2", [2.0], 1j)},
}  # fmt: skip


@pytest.mark.parametrize("who", BOTH, ids=["reference", "default"])
@pytest.mark.parametrize("word", CALLS)
def test_a_number_that_cannot_be_used_is_refused(word, who):
    name = word.partition(" is ")[0]
    with ops.using(*who), pytest.raises(InputError, match=name) as raised:
        CALLS[word]()
    assert "\n" not in str(raised.value)


BAD_DOUTS = {
    "masked": lambda dout: np.ma.array(dout),
    "text": lambda dout: np.full(dout.shape, "1"),
    "structured": lambda dout: np.zeros(dout.shape, [("a", float)]),
    "complex": lambda dout: dout.astype(complex),
    "an axis more": lambda dout: dout[None],
    "longdouble": lambda dout: dout.astype(np.longdouble),
}


@pytest.mark.parametrize("who", BOTH, ids=["reference", "default"])
@pytest.mark.parametrize("bad", BAD_DOUTS)
def test_an_upstream_gradient_that_does_not_fit_is_refused_also_of_composites(bad, who):
    for op in ops.names:
        _, args, constants = case(op, dtype=np.float32).call
        if op == "dropout":
            continue  # its cache knows neither shape nor dtype
        with ops.using(*who):
            out, cache = getattr(ops, f"{op}_forward")(*args, **constants)
            dout = np.ones_like(np.asarray(out))
            if dout.ndim == 0 and bad == "longdouble":
                continue  # a number of any kind will do
            with pytest.raises(InputError):
                getattr(ops, f"{op}_backward")(BAD_DOUTS[bad](dout), cache)


def test_what_is_no_array_is_refused_as_an_upstream_gradient_also_where_it_has_a_shape_and_a_dtype():
    class Foreign:
        shape, dtype = (), "float32"

    _, cache = ops.cross_entropy_forward(np.zeros((2, 3)), np.array([0, 1]))
    with pytest.raises(InputError, match="dloss is a Foreign|dout is a Foreign"):
        ops.cross_entropy_backward(Foreign(), cache)


@pytest.mark.parametrize("line", [None, "", "x, not a shape line", "x (a,B) -> out (a)"])
def test_what_is_no_shape_line_is_a_value_error(line):
    def forward(x):
        return x

    forward.__doc__ = line
    with pytest.raises(ValueError, match="shape line"):
        inputs, _ = shapes.of(forward)
        inputs[0].shape()


def test_a_key_whose_bits_are_an_array_says_nothing_of_the_output():
    """Two threads share what is remembered: one may go back before the other has noted what its forward returned."""
    key = Key(np.array([1], np.uint32))
    judge = Arguments("dropout", reference.dropout_forward)
    out, cache = reference.dropout_forward(np.ones((2, 3)), rate=0.5, key=key)
    judge.remember(out, cache)
    judge.check_dout(np.ones((4, 5)), cache)
    out, cache = ops.linear_forward(np.ones((2, 3)), np.ones((3, 4)))
    with pytest.raises(InputError, match=r"dout has shape \(4, 5\)"):
        ops.linear_backward(np.ones((4, 5)), cache)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_key_that_is_hidden_may_hold_what_is_no_number(bad):
    """Queries before it give what they give without it; the rest is as in the reference."""
    qkv = np.random.default_rng(0).standard_normal((2, 5, 24))
    broken = qkv.copy()
    broken[:, 3, 8] = bad  # in a key
    visible = np.ones((5, 5), bool)
    visible[:3, 3:] = False
    for options in ({}, {"mask": visible}):
        out, _ = ops.self_attention_forward(broken, 2, **options)
        expected, _ = ops.self_attention_forward(qkv, 2, **options)
        assert error(out[:, :3], expected[:, :3]) < 1e-12
        with ops.using("reference"):
            of_reference, _ = ops.self_attention_forward(broken, 2, **options)
        assert np.array_equal(np.isnan(out), np.isnan(of_reference))
