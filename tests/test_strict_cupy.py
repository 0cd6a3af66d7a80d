"""The stand-in for CuPy's arrays refuses what CuPy refuses, and computes what CuPy computes.

Where there is a GPU, CuPy itself is asked the same.
"""

import math

import numpy as np
import pytest
import strict_cupy

from minigpt.device.arrays import array_module, device_of, to_device, to_numpy
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
