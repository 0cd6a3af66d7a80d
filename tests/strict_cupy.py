"""CuPy where there is no GPU: arrays that compute with NumPy, and refuse what CuPy's arrays refuse.

They never become NumPy arrays unseen. NumPy arrays and lists are no operands with them. Functions, methods and
options that CuPy does not have are missing here too: where CuPy is installed this is checked against it, without a GPU.
And what computes, computes as CuPy does: an element or a sum is an array without axes, and an element is a view.

While `tape` is a list, what computes is written down in it: a recorded graph, which `repeat` computes again in the same
memory, with the numbers that were given then. Meanwhile no result may be read. And `seen`, where it is a function, is
told each call: its name, its arguments and what it returned.

Refused too, though CuPy allows it: np.exp(x), for which it would take cupy.exp(x); NumPy's array as a value of
x[[0, 1]] = value, which it would copy; and an index out of range, which it would wrap around.

What CuPy does with bfloat16, other than NumPy with ml_dtypes, is in `as_cupy` and `add_at`, each rule with the file of
CuPy 14.2.0 that it is read from.
"""

import functools
import inspect
import re
from types import ModuleType, SimpleNamespace

import numpy as np

from minigpt.device.gpu import cupy as real

NUMBERS = (bool, int, float, complex, np.bool_, np.number)
ATTRIBUTES = {"T", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"}
BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
OTHERS = "lt le eq ne gt ge neg pos abs invert bool int float complex len repr".split()
# Some of what NumPy has and CuPy has not, for where CuPy is not installed.
ABSENT, NO_OPTIONS = "block ctypes errstate insert longdouble nditer setflags vecdot".split(), {"initial", "where"}

# bfloat16: what has no loop for it in CuPy takes the first that fits, that of float32. cupy/_sorting/search.py
# (_where_ufunc), cupy/_core/_routines_statistics.pyx (_argmax, _argmin) and _routines_logic.pyx (_all, _any).
IN_FLOAT32 = {"where", "argmax", "argmin", "all", "any"}
# These add in float32 and round at the end, NumPy after each number: cupy/_core/_routines_math.pyx, _sumprod_types, and
# _routines_statistics.pyx, _ndarray_mean. The same file's _var gives float64 for all but float16 and float32.
ROUNDED_ONCE, IN_FLOAT64 = {"sum", "prod", "mean"}, {"var", "std"}
# thrust has no type for it: cupy/cuda/common.pyx, _get_dtype_id. Of sums as they grow CuPy's own tests have none
# (tests/cupy_tests/core_tests/test_bfloat16.py): they are refused here too.
NOT_OF_BFLOAT16 = {"sort", "argsort", "lexsort", "partition", "argpartition", "cumsum", "cumprod", "searchsorted"}
PRODUCTS = {"matmul", "dot", "__matmul__", "__rmatmul__"}
# cupy/_core/_routines_indexing.pyx, _scatter_op_single: what add.at adds is of one of these.
ADDED_AT = {"int32", "int64", "float16", "float32", "float64", "uint32", "uint64"}
order = None  # a numpy.random.Generator: add.at adds floats in another order each time, as CuPy's atomicAdd may

READING = {"__bool__", "__int__", "__float__", "__complex__", "__repr__"}
tape = None  # while a graph is recorded: [(what computes, what it returned)]
seen = None


def computed(name, operands, work):
    """What work() returns, as strict arrays. While a graph is recorded it is written down."""
    value = wrap(work())
    if seen is not None:
        seen(name, operands, value)
    if tape is not None:
        tape.append((work, value))
    return value


def repeat(recorded):
    """Compute again what was written down. The results arrive where they were, views of operands excepted."""
    for work, value in recorded:
        again = wrap(work())
        if isinstance(value, ndarray) and not np.may_share_memory(again._array, value._array):
            value._array[...] = again._array


def read():
    """Numbers are read on the host. Raises RuntimeError while a graph is recorded, as CUDA does."""
    if seen is not None:
        seen("read", (), None)
    if tape is not None:
        raise RuntimeError("cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing")


def wrap(value):
    """What NumPy returned, with strict arrays for its arrays and for its numbers."""
    if isinstance(value, (np.ndarray, np.generic)):
        return ndarray(np.asarray(value))
    return type(value)(map(wrap, value)) if type(value) in (list, tuple) else value


def unwrap(value):
    """An argument as NumPy takes it. Raises TypeError for an array that is NumPy's already."""
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, ndarray):
        return value._array
    return type(value)(map(unwrap, value)) if type(value) in (list, tuple) else value


def operand(value):
    """An operand as NumPy takes it. Raises TypeError for all but strict arrays and numbers."""
    if not isinstance(value, (ndarray, *NUMBERS)):
        raise TypeError(f"Unsupported type {type(value)}")
    return unwrap(value)


def is_low(value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name == "bfloat16"


def widened(value):
    """An operand, or several, with float32 for bfloat16."""
    if type(value) in (list, tuple):
        return type(value)(map(widened, value))
    return value.astype(np.float32) if is_low(value) else value


@np.errstate(all="ignore")  # CuPy warns of no NaN either, such as there may be in an array that is still empty
def as_cupy(name: str, work, operands: tuple, dtype=None, out=None):
    """work(*operands) with the dtypes that CuPy computes in where one of the operands is bfloat16, and gives.

    dtype, out: the options of this name. Raises TypeError for what CuPy refuses, or is not known to compute.
    """
    low = [value for value in operands if is_low(value)]
    if not low:
        return work(*operands)
    if name in NOT_OF_BFLOAT16:
        raise TypeError(f"{name} of bfloat16")
    if name in PRODUCTS:
        return _product(name, work, operands, low, out)
    if name in IN_FLOAT32:
        return work(*map(widened, operands))
    if name in IN_FLOAT64 and dtype is None and out is None:
        return work(*(value.astype(np.float64) if is_low(value) else value for value in operands))
    if name in ROUNDED_ONCE and dtype is None and out is None:
        return np.asarray(work(*map(widened, operands))).astype(low[0].dtype)
    return work(*operands)


def _product(name, work, operands, low, out):
    """Of two axes: a product of bfloat16 is bfloat16, where NumPy gives float32 (test_bfloat16.py, test_matmul).

    Of more axes it is refused: cupy/_core/_routines_linalg.pyx, matmul, hands what is not in 'efdFD' to a kernel for
    whole numbers, which knows no bfloat16 (github.com/cupy/cupy/pull/10317, "Fix batched/broadcasted matmul BF16
    crash").
    """
    given = [value for value in operands if isinstance(value, np.ndarray)]
    if len(low) < len(given):
        return work(*operands)
    if max(value.ndim for value in given) > 2 and name != "dot":
        raise TypeError("bfloat16 has no product of several matrices in CuPy")
    product = np.matmul(*map(widened, given[::-1] if name == "__rmatmul__" else given)).astype(low[0].dtype)
    if out is None:
        return product
    out[...] = product
    return out


def add_at(array: np.ndarray, index, values) -> None:
    """np.add.at, of what CuPy's atomicAdd adds, and in its order: any.

    Raises TypeError as cupy/_core/_routines_indexing.pyx does, _scatter_op_single.
    """
    if array.dtype.name not in ADDED_AT:
        raise TypeError(f"cupy.add.at only supports {', '.join(sorted(ADDED_AT))} as data type")
    if order is None:
        np.add.at(array, index, values)
        return
    places = np.arange(array.size).reshape(array.shape)[index]
    drawn = order.permutation(places.size)
    values = np.broadcast_to(values, places.shape).ravel()[drawn]
    np.add.at(array, np.unravel_index(places.ravel()[drawn], array.shape), values)


def index_of(index) -> tuple:
    """An index as NumPy takes it: lists and NumPy arrays are allowed here. Its ... makes a view of a single element."""
    parts = index if isinstance(index, tuple) else (index,)
    parts = tuple(part._array if isinstance(part, ndarray) else part for part in parts)
    return parts if any(part is ... for part in parts) else (*parts, ...)


def theirs(owner, name: str):
    """What CuPy has under this name, None where it is not installed. Raises AttributeError where CuPy has nothing."""
    if owner is None and name in ABSENT:
        raise AttributeError(f"CuPy has no {name}")
    return owner and getattr(owner, name)


@functools.cache
def words(function) -> set[str]:
    """The words in how a function of CuPy's is called; what is compiled says that where its documentation begins."""
    if inspect.isfunction(function):
        return set(inspect.signature(function).parameters)
    return set(re.findall(r"\w+", function.__doc__.split("\n")[0]))


def function(ours, known):
    """A function of NumPy's between strict arrays, with the options of its namesake in CuPy, and with its `at`."""
    of_elements = isinstance(ours, np.ufunc)

    def call(*args, **options):
        if wrong := options.keys() & NO_OPTIONS if known is None else options.keys() - words(known):
            raise TypeError(f"Wrong arguments {wrong}")
        args = [*map(operand, args)] if of_elements else unwrap(args)
        options = {name: unwrap(option) for name, option in options.items()}
        name, array = ours.__name__, getattr(ours, "__self__", None)  # of a method: its array
        work, given = ours, tuple(args)
        if isinstance(array, np.ndarray):
            work, given = getattr(np.ndarray, name), (array, *args)
        work = functools.partial(work, **options)
        chosen = options.get("dtype"), options.get("out")
        return computed(name, (array, *args, options.get("out")), lambda: as_cupy(name, work, given, *chosen))

    if of_elements and ours.signature is None:
        call.at = function(add_at if ours is np.add else ours.at, known and known.at)
    return call


class ndarray:
    """An array on a GPU that is not there."""

    __slots__ = ("_array",)
    __array_ufunc__ = None  # NumPy's functions refuse it, and NumPy's arrays leave their operators to it
    __hash__ = None

    def __init__(self, array: np.ndarray):
        self._array = array

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __getitem__(self, index):
        index = index_of(index)
        if "b" in [part.dtype.kind for part in index if isinstance(part, np.ndarray)]:
            read()  # how many there are decides the shape
        return computed("__getitem__", (self._array,), lambda: self._array[index])

    def __setitem__(self, index, value):
        index, value = index_of(index), operand(value)
        computed("__setitem__", (self._array,), lambda: self._array.__setitem__(index, value))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getattr__(self, name: str):
        if name in ATTRIBUTES:
            return wrap(getattr(self._array, name))
        known = theirs(real and real.ndarray, name)
        if name.startswith("_") or not callable(getattr(np.ndarray, name, None)):
            raise AttributeError(f"the stand-in for CuPy's arrays has no {name}")
        return function(getattr(self._array, name), known)

    def _operate(self, *others, name: str):
        """An operator of NumPy's arrays between strict arrays and numbers."""
        if name in READING:
            read()
        others = [*map(operand, others)]
        operands = self._array, *others
        result = computed(name, operands, lambda: as_cupy(name, getattr(np.ndarray, name), operands))
        in_place = isinstance(result, ndarray) and result._array is self._array
        return self if in_place else result


for _name in [*(form + name for form in ("", "r", "i") for name in BINARY if form + name != "imatmul"), *OTHERS]:
    setattr(ndarray, f"__{_name}__", functools.partialmethod(ndarray._operate, name=f"__{_name}__"))


class Module(ModuleType):
    """What stands for cupy."""

    def __getattr__(self, name: str):
        known, ours = theirs(real, name), getattr(np, name)
        return function(ours, known) if callable(ours) and not isinstance(ours, type) else ours


def array(obj, dtype=None) -> ndarray:
    """A new array of what NumPy's or a strict one holds, or of numbers: the way to the GPU, which copies."""
    made = np.array(obj if isinstance(obj, np.ndarray) else unwrap(obj), dtype)
    if seen is not None:
        seen("array", (), made)
    if made.dtype.kind not in "biufc" and made.dtype.name != "bfloat16":
        raise ValueError(f"Unsupported dtype {made.dtype}")
    return ndarray(made)


cupy = Module("cupy")
cupy.ndarray, cupy.array = ndarray, array
cupy.asarray = lambda a, dtype=None: a if isinstance(a, ndarray) and dtype in (None, a.dtype) else array(a, dtype)
cupy.asnumpy = lambda a: read() or np.array(a._array, order="C") if isinstance(a, ndarray) else np.asarray(a)
runtime = SimpleNamespace(getDeviceCount=lambda: 1, memGetInfo=lambda: [1 << 36])
pool = SimpleNamespace(total_bytes=lambda: 0, free_bytes=lambda: 0, free_all_blocks=lambda: None)
cupy.get_default_memory_pool = lambda: pool
cupy.cuda = SimpleNamespace(runtime=runtime)
