"""The stand-in for CuPy's arrays refuses what CuPy refuses, and computes what CuPy computes.

Where there is a GPU, CuPy itself is asked the same.
"""

import math

import numpy as np
import pytest
import strict_cupy

from minigpt.device.arrays import array_module, device_of, named_dtype, to_device, to_numpy
from minigpt.device.gpu import cuda_problem
from minigpt.errors import InputError

ON_CUPY = [pytest.param("strict cupy"), pytest.param("cuda", marks=pytest.mark.gpu)]
pytestmark = [pytest.mark.cupy, pytest.mark.parametrize("device", ON_CUPY, indirect=True)]


@pytest.fixture
def three(device) -> tuple:
    """(CuPy, three numbers there, the same three in NumPy)."""
    array = np.array([1.0, 2.0, 4.0])
    moved = to_device(array, device)
    return array_module(moved), moved, array


def assign(array, index, value):
    array[index] = value


def add_in_place(a, b):
    a += b


IMPLICIT = {
    "np.asarray(x)": lambda xp, x, a: np.asarray(x),
    "np.array([x, x])": lambda xp, x, a: np.array([x, x]),
    "np.float32(x)": lambda xp, x, a: np.float32(x.sum()),
    "a[...] = x": lambda xp, x, a: assign(a, ..., x),
    "memoryview(x)": lambda xp, x, a: memoryview(x),
    "range(x)": lambda xp, x, a: range(x.astype(int)[0]),
}
MIXED = {
    "x + a": lambda xp, x, a: x + a,
    "a + x": lambda xp, x, a: a + x,
    "x @ a": lambda xp, x, a: x @ a,
    "a @ x": lambda xp, x, a: a @ x,
    "x < a": lambda xp, x, a: x < a,
    "a < x": lambda xp, x, a: a < x,
    "x += a": lambda xp, x, a: add_in_place(x, a),
    "a += x": lambda xp, x, a: add_in_place(a, x),
    "x + [1, 2, 4]": lambda xp, x, a: x + [1, 2, 4],
    "x[...] = a": lambda xp, x, a: assign(x, ..., a),
    "x[:2] = a[:2]": lambda xp, x, a: assign(x, slice(2), a[:2]),
    "x.dot(a)": lambda xp, x, a: x.dot(a),
    "np.add(a, x)": lambda xp, x, a: np.add(a, x),
    "np.add(x, a)": lambda xp, x, a: np.add(x, a),
    "np.add(a, a, out=x)": lambda xp, x, a: np.add(a, a, out=x),
    "xp.exp(a)": lambda xp, x, a: xp.exp(a),
    "xp.exp([1.0])": lambda xp, x, a: xp.exp([1.0]),
    "xp.add(x, a)": lambda xp, x, a: xp.add(x, a),
    "xp.add(x, x, out=a)": lambda xp, x, a: xp.add(x, x, out=a),
    "xp.where(x > 1, x, a)": lambda xp, x, a: xp.where(x > 1, x, a),
    "xp.where(a > 1, x, x)": lambda xp, x, a: xp.where(a > 1, x, x),
    "xp.concatenate([x, a])": lambda xp, x, a: xp.concatenate([x, a]),
    "xp.add.at(a, i, x)": lambda xp, x, a: xp.add.at(a, xp.arange(3), x),
}
MISSING = {
    "xp.errstate": lambda xp, x, a: xp.errstate(),
    "xp.insert": lambda xp, x, a: xp.insert(x, 0, 1.0),
    "xp.longdouble": lambda xp, x, a: xp.longdouble,
    "x.ctypes": lambda xp, x, a: x.ctypes,
    "x.setflags": lambda xp, x, a: x.setflags(write=False),
    "x.__array_interface__": lambda xp, x, a: x.__array_interface__,
    "xp.sum(where=)": lambda xp, x, a: xp.sum(x, where=x > 1),
    "xp.exp(where=)": lambda xp, x, a: xp.exp(x, out=x, where=x > 1),
    "x.sum(initial=)": lambda xp, x, a: x.sum(initial=1.0),
    "x.max(where=)": lambda xp, x, a: x.max(where=x > 1, initial=0.0),
    "xp.array(words)": lambda xp, x, a: xp.array(["a", "b"]),
}
REFUSED = IMPLICIT | MIXED | MISSING
STRICTER = {  # than CuPy
    "np.exp(x)": lambda xp, x, a: np.exp(x),
    "np.where(x > 1, x, 0)": lambda xp, x, a: np.where(x > 1, x, 0),
    "x[[0, 1]] = a[:2]": lambda xp, x, a: assign(x, [0, 1], a[:2]),
    "x[[3]]": lambda xp, x, a: x[[3]],
}


@pytest.mark.parametrize("what", REFUSED)
def test_refuses_what_numpy_allows(what, three):
    """So tests on NumPy's arrays alone would not see the mistake."""
    _, x, a = three
    REFUSED[what](np, a.copy(), a.copy())
    with pytest.raises((TypeError, ValueError, AttributeError)):
        REFUSED[what](*three)
    assert to_numpy(x).tolist() == a.tolist() == [1, 2, 4], "nothing has changed"


def test_says_what_cupy_says(three):
    xp, x, a = three
    with pytest.raises(TypeError, match="Implicit conversion to a NumPy array is not allowed"):
        np.asarray(x)
    for wrong in (lambda: x + a, lambda: a + x, lambda: xp.exp(a)):
        with pytest.raises(TypeError, match=r"Unsupported type <class 'numpy\.ndarray'>"):
            wrong()


@pytest.mark.parametrize("what", STRICTER)
def test_is_stricter_than_cupy(what, three):
    if three[0] is strict_cupy.cupy:
        with pytest.raises((TypeError, IndexError)):
            STRICTER[what](*three)
    else:
        STRICTER[what](*three)  # or it need not be


@pytest.mark.parametrize("installed", [True, False])
def test_knows_without_cupy_what_cupy_lacks(installed, three, monkeypatch):
    xp, x, _ = three
    if xp is not strict_cupy.cupy:
        pytest.skip("CuPy itself knows")
    if not installed:
        monkeypatch.setattr(strict_cupy, "real", None)
    for name in strict_cupy.ABSENT:
        assert not hasattr(xp, name) and not hasattr(x, name), name
    for wrong in (lambda: x.sum(where=x > 1), lambda: xp.exp(x, where=x > 1)):
        with pytest.raises(TypeError, match="where"):
            wrong()
    xp.add.at(x, xp.asarray([0, 0]), 1.0)
    assert xp.maximum(x, 3.0).tolist() == [3, 3, 4] and x.sum(axis=0, keepdims=True).shape == (1,)


def test_allows_numbers_and_indices_and_what_is_asked_for(three):
    xp, x, a = three
    for made in (x + 1, 1 + x, x + np.float64(1), np.float64(1) + x, np.int64(1) + x, x + x[0], xp.add(x, 1)):
        assert array_module(made) is xp and to_numpy(made).tolist() == [2, 3, 5]
    assert x[np.array([0, 2])].tolist() == x[[0, 2]].tolist() == x[xp.asarray([0, 2])].tolist() == [1, 4]
    assert float(x.sum()) == 7 and int(x[1]) == 2 and bool((x > 0).all()) and math.sqrt(x[2]) == 2 and len(x) == 3
    assert [float(value) for value in x] == [1, 2, 4] and repr(x) == repr(a)
    for wrong in (bool, float, hash, lambda x: next(iter(x[0]))):
        with pytest.raises((TypeError, ValueError)):
            wrong(x)
    matrix = xp.asarray([[1, 2], [3, 4]], dtype=xp.float32)
    assert (matrix @ matrix).tolist() == [[7, 10], [15, 22]] and matrix.T.shape == (2, 2)
    assert [part.shape for part in xp.split(matrix, 2, axis=-1)] == [(2, 1), (2, 1)]


def test_an_element_is_a_view_and_a_sum_an_array(three):
    """NumPy gives numbers, which no one can write into. CuPy gives arrays, which may be the same memory."""
    xp, x, _ = three
    element, total = x[1], x.sum()
    assert element.shape == total.shape == () and {type(element), type(total)} == {type(x)}
    element += 5
    x[2] = total
    assert to_numpy(x).tolist() == [1, 7, 7]


def test_in_place_is_in_place(three):
    xp, x, _ = three
    same, rest, before = x, x[1:], xp.add(x, 1, out=x)
    x -= 1
    x *= 2
    x[1:] += 1
    xp.add.at(x, xp.asarray([0, 0]), xp.asarray([1.0, 1.0]))
    assert x is same and to_numpy(before).tolist() == to_numpy(x).tolist() == [4, 5, 9]
    assert to_numpy(rest).tolist() == [5, 9]
    with pytest.raises(TypeError):
        integers = xp.arange(3)
        integers += 0.5


def test_nothing_is_shared_between_here_and_there(device):
    a = np.ones(3)
    x = to_device(a, device)
    a += 1
    b = to_numpy(x)
    b += 5
    assert to_numpy(x).tolist() == [1, 1, 1] and to_device(x, device) is x


@pytest.mark.parametrize("number", [2, 2.0, True, np.float64(2), np.float32(2), np.int64(2), math.inf], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint32", "bool"])
def test_types_are_promoted_as_by_numpy(dtype, number, three):
    """NEP 50: Python's numbers take the array's type, NumPy's have their own."""
    xp, a = three[0], np.ones(3, dtype)
    x = xp.asarray(a)
    assert (x * number).dtype == (a * number).dtype and (number * x).dtype == (number * a).dtype
    assert xp.where(x > 0, x, number).dtype == np.where(a > 0, a, number).dtype
    assert x.sum().dtype == a.sum().dtype and x.mean().dtype == a.mean().dtype


def test_the_backend_takes_it_for_a_gpu(three):
    xp, x, a = three
    assert cuda_problem() is None and xp.__name__ == "cupy"
    assert device_of(x) == "cuda" and device_of(a) == "cpu"
    with pytest.raises(InputError, match="argument 1 is CuPy, argument 2 is NumPy"):
        array_module(x, a)


# --- bfloat16 ---------------------------------------------------------------------------------------------------------

LOW = "bfloat16"
GIVES = {  # x (2,3) and many (2,3,3) of bfloat16, f (2,3) of float32, i (2,3) of int64
    "x + x": (LOW, lambda xp, x, many, f, i: x + x),
    "x * 2": (LOW, lambda xp, x, many, f, i: x * 2),
    "x * 2.0": ("float32", lambda xp, x, many, f, i: x * 2.0),
    "x + f": ("float32", lambda xp, x, many, f, i: x + f),
    "x + i": ("float64", lambda xp, x, many, f, i: x + i),
    "xp.exp(x)": (LOW, lambda xp, x, many, f, i: xp.exp(x)),
    "xp.maximum(x, x)": (LOW, lambda xp, x, many, f, i: xp.maximum(x, x)),
    "x == 0": ("bool", lambda xp, x, many, f, i: x == 0),
    "xp.where(b, x, x)": ("float32", lambda xp, x, many, f, i: xp.where(x > 0, x, x)),
    "xp.where(b, x, 0)": ("float32", lambda xp, x, many, f, i: xp.where(x > 0, x, 0)),
    "x @ x.T": (LOW, lambda xp, x, many, f, i: x @ x.T),
    "xp.matmul(x, x.T)": (LOW, lambda xp, x, many, f, i: xp.matmul(x, x.T)),
    "x @ f.T": ("float32", lambda xp, x, many, f, i: x @ f.T),
    "many @ f.T": ("float32", lambda xp, x, many, f, i: many @ f.T),
    "x.sum(axis=0)": (LOW, lambda xp, x, many, f, i: x.sum(axis=0)),
    "x.mean(axis=0)": (LOW, lambda xp, x, many, f, i: x.mean(axis=0)),
    "x.max(axis=0)": (LOW, lambda xp, x, many, f, i: x.max(axis=0)),
    "x.sum(dtype=xp.float32)": ("float32", lambda xp, x, many, f, i: x.sum(dtype=xp.float32)),
    "x.var(axis=0)": ("float64", lambda xp, x, many, f, i: x.var(axis=0)),
    "x.argmax(axis=0)": ("int64", lambda xp, x, many, f, i: x.argmax(axis=0)),
    "(x > 0).any()": ("bool", lambda xp, x, many, f, i: (x > 0).any()),
    "xp.concatenate([x, x])": (LOW, lambda xp, x, many, f, i: xp.concatenate([x, x])),
    "x[i]": (LOW, lambda xp, x, many, f, i: x[i]),
}  # fmt: skip
REFUSED_IN_BFLOAT16 = {
    "many @ many": lambda xp, x, many, f, i: many @ many,
    "xp.matmul(many, many)": lambda xp, x, many, f, i: xp.matmul(many, many),
    "x @ many": lambda xp, x, many, f, i: x @ many,
    "xp.add.at(x, i, x)": lambda xp, x, many, f, i: xp.add.at(x, i[0], x[i[0]]),
    "xp.sort(x)": lambda xp, x, many, f, i: xp.sort(x),
}


@pytest.fixture
def of_bfloat16(device) -> tuple:
    pytest.importorskip("ml_dtypes")
    low, x = named_dtype(LOW), np.arange(6).reshape(2, 3) / 8
    made = x.astype(low), np.ones((2, 3, 3), low), x.astype(np.float32), np.zeros((2, 3), np.int64)
    moved = [to_device(array, device) for array in made]
    return array_module(moved[0]), *moved


@pytest.mark.parametrize("what", GIVES)
def test_dtypes_that_bfloat16_gives(what, of_bfloat16):
    dtype, function = GIVES[what]
    assert function(*of_bfloat16).dtype.name == dtype


@pytest.mark.parametrize("what", REFUSED_IN_BFLOAT16)
def test_refuses_in_bfloat16_what_cupy_refuses(what, of_bfloat16):
    """For what of it NumPy computes, float32 is given: it is the dtype that is refused."""
    xp, *made = of_bfloat16
    with pytest.raises((TypeError, ValueError)):
        REFUSED_IN_BFLOAT16[what](xp, *made)
    wide = [array.astype(xp.float32) if array.dtype.name == LOW else array for array in made]
    REFUSED_IN_BFLOAT16[what](xp, *wide)


def test_sums_of_bfloat16_are_rounded_once(of_bfloat16):
    xp, x, *_ = of_bfloat16
    ones = xp.ones(1000, x.dtype)
    assert float(ones.sum()) == 1000 and float(ones.mean()) == 1 and float(ones @ ones) == 1000
    product = xp.empty((1, 1), x.dtype)
    xp.matmul(ones[None], ones[:, None], out=product)
    assert float(product[0, 0]) == 1000
    assert float(to_numpy(ones).sum()) < 1000, "NumPy rounds after each number: then no rule is needed"


def test_the_functions_without_a_loop_for_bfloat16_are_those_of_cupy(of_bfloat16):
    """As the installed CuPy says, for which it needs no GPU."""
    cupy = pytest.importorskip("cupy")
    low = named_dtype(LOW)
    without = set()
    for name in dir(np):
        loops = getattr(getattr(cupy, name, None), "types", None)
        if isinstance(getattr(np, name), np.ufunc) and loops and not any(low.char in loop for loop in loops):
            without.add(name)
    of_whole_numbers = {name for name in without if name.startswith("bitwise") or name.endswith(("shift", "cm", "gcd"))}
    assert without - of_whole_numbers == {"divmod", "float_power", "invert", "logical_not", "logical_xor"}
    assert not any(low.char in loop for loop in cupy._sorting.search._where_ufunc.types)
    from cupy._core import _routines_logic, _routines_math, _routines_statistics

    def has_loop(reduction):
        return any(low in op.in_types for op in reduction._ops.ops)

    assert not has_loop(_routines_logic.all) and not has_loop(_routines_logic.any)
    assert has_loop(_routines_math.sum_auto_dtype) and has_loop(_routines_math.prod_auto_dtype)
    assert has_loop(_routines_statistics.amax) and has_loop(_routines_statistics.amin)


def test_atomic_sums_come_in_any_order(three, monkeypatch):
    """The numbers are added, each time in another order: so two sums differ in their last bits."""
    xp, x, _ = three
    if xp is not strict_cupy.cupy:
        pytest.skip("CuPy itself may or may not")
    monkeypatch.setattr(strict_cupy, "order", np.random.default_rng(0))
    numbers = xp.asarray(np.random.default_rng(1).standard_normal(300))
    where = (slice(None), xp.asarray(np.arange(300) % 2))
    sums = []
    for _ in range(8):
        out = xp.zeros((2, 2))
        xp.add.at(out, where, numbers)
        sums.append(to_numpy(out))
    assert len({found.tobytes() for found in sums}) > 1
    expected = np.zeros((2, 2))
    np.add.at(expected, (slice(None), np.arange(300) % 2), to_numpy(numbers))
    assert np.abs(np.array(sums) - expected).max() < 1e-12
