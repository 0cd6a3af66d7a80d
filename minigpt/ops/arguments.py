"""Are the arguments of a call what the shape line of its operation says? One check, before any implementation runs.

    ops.layernorm_forward(x, g, b)      with x (2,4) and g (3,)
    layernorm: g has shape (3,); x (2, 4) has C = 4, so g must be (4,)   [x (*,C), g (C,), b (C,) -> out (*,C)]

Only types, shapes and dtypes are read, and never the numbers in an array: those may be on a GPU, which would be waited
for. What was found right once is remembered by its `kind`, its shapes and dtypes, so that a repeated call costs one
look-up.
"""

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from minigpt.device.arrays import device_of
from minigpt.errors import InputError, check_number, check_whole, is_number, is_whole, shown
from minigpt.ops import masks, shapes
from minigpt.ops.random_keys import Key, is_key
from minigpt.ops.shapes import Tensor
from minigpt.ops.sizes import ANY, Sizes

REMEMBERED = 10_000  # calls of one operation that are remembered; then all are forgotten
OWN_RULES = (np.matrix, np.ma.MaskedArray)  # arrays that multiply by rules of their own
PLAIN = (type(None), bool, int, float, str)  # values that are remembered as they are

# Axes of the scores of attention, to which masks and biases are broadcast; S counts earlier positions too.
SCORES = {"attention": "*,T,S", "self_attention": "B,NH,T,S", "cross_attention": "B,NH,T,S"}
PAST = ("B", "NKV", "P", "HS")
PACKED = ("B", "T", "E")  # queries, keys and values where there are fewer of the latter two
PAIRINGS = ("halves", "neighbours")
MAY_BE_NONE = {"mlp": ("b1", "b2")}  # inputs that have no default and may be None nevertheless
MAY_BE_EMPTY = (ANY, "B", "P")  # a batch without rows, and a past of nothing; every other axis has an element

ACTIVATIONS = ("gelu", "gelu_exact", "relu", "silu")  # operations that may stand inside an MLP
A_RATE = "a dropout rate from 0 up to, but not including, 1"
AN_EPS = "a number of 0 or more, such as 1e-5"
A_TEMPERATURE = "a number from 1e-6 up to, but not including, 1e6, such as 2"
A_NORMALIZER = "the number of targets of the whole batch, above 0; None counts those of this call"
WIDE = np.dtype(np.float64).itemsize
LEAST_NORMALIZER = 1e-30  # what is smaller may be 0 in float32


class Arguments:
    """Checks the calls of one operation, `op_forward` and `op_backward`, whose reference forward is given."""

    def __init__(self, op: str, forward: Callable):
        self.op = op
        self.line = (inspect.getdoc(forward) or "").partition("\n")[0]
        self.inputs, outputs = shapes.parse(self.line)
        self.output = outputs[0]
        self.signature = inspect.signature(forward)
        self._outputs: dict[tuple | None, set] = {}  # what a cache looks like -> (shape, dtype) of forward's result

    # --- forward -----------------------------------------------------------------------------------------------------

    def check(self, args: tuple, constants: dict[str, Any]) -> None:
        """Check a call of op_forward.

        Raises InputError for arguments that do not fit together, and TypeError for others than the operation has.
        """
        try:
            given = self.signature.bind(*args, **constants).arguments
        except TypeError as error:
            raise TypeError(f"{self.op}: {error}; its arguments are {self.signature}") from None
        inputs = self._inputs(given)
        further = {}
        for name in ("mask", "weights", "cos", "sin"):
            if given.get(name) is not None:
                self._check_is_array(name, given[name])
                further[name] = given[name]
        self._check_dtypes(inputs)
        self._check_devices(inputs | further)
        sizes = self._check_shapes(inputs, given)
        if "weights" in further:
            self._check_weights(further["weights"], sizes)
        if self.op in SCORES:
            self._check_past(given.get("past"), sizes)
            self._check_scores(given.get("mask"), given.get("bias"), sizes)
        self._check_numbers(given)

    def _inputs(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arrays of the shape line that are there, by name."""
        inputs = {}
        for tensor in self.inputs:
            name = tensor.name
            value = given.get(name)
            default = self.signature.parameters[name].default
            if value is None and (default is None or name in MAY_BE_NONE.get(self.op, ())):
                continue
            self._check_array(name, value, tensor.integer)
            inputs[name] = value
        return inputs

    # --- kinds -------------------------------------------------------------------------------------------------------

    def _check_is_array(self, name: str, value: Any) -> None:
        if isinstance(value, OWN_RULES):
            self._refuse(f"{name} is a {type(value).__name__}, which multiplies by rules of its own: give np.array(…)")
        dtype = getattr(value, "dtype", None)
        if not hasattr(value, "shape") or not isinstance(dtype, np.dtype):
            what = "None" if value is None else f"a {type(value).__name__}"
            self._refuse(f"{name} is {what}: give a NumPy array, such as np.array(…)")

    def _check_array(self, name: str, value: Any, integer: bool = False) -> None:
        self._check_is_array(name, value)
        dtype = value.dtype
        if integer and dtype.kind not in "iu":
            self._refuse(f"{name} holds {dtype}: give whole numbers, such as {name}.astype(np.int64)")
        if not integer and not is_float(dtype):
            self._refuse(f"{name} holds {dtype}: give floats, such as {name}.astype(np.float32)")

    def _check_dtypes(self, arrays: dict[str, Any]) -> None:
        """float64 goes with no other floats: the result would be of one dtype, and as exact as the other."""
        floats = {name: array.dtype for name, array in arrays.items() if is_float(array.dtype)}
        if not floats:
            return
        wide = max(floats, key=lambda name: floats[name].itemsize)
        for name, dtype in floats.items():
            if dtype.itemsize != floats[wide].itemsize and floats[wide].itemsize >= WIDE:
                self._refuse(f"{wide} is {floats[wide]} and {name} {dtype}: give both in one dtype, by .astype")

    def _check_devices(self, arrays: dict[str, Any]) -> None:
        places = {name: device_of(array) for name, array in arrays.items()}
        (first, there), *others = places.items()
        for name, place in others:
            if place != there:
                self._refuse(f"{first} is on {there} and {name} on {place}: move one of them with to_device")

    # --- shapes ------------------------------------------------------------------------------------------------------

    def _check_shapes(self, inputs: dict[str, Any], given: dict[str, Any]) -> Sizes:
        """Returns what every letter stands for. The bias of attention may have any shape that broadcasts."""
        sizes = Sizes()
        for tensor in self.inputs:
            is_broadcast = tensor.optional and self.op in SCORES
            if given.get("n_kv_head") is not None and tensor.name == "qkv":
                tensor = tensor._replace(axes=PACKED)
            if tensor.name in inputs and not is_broadcast:
                self._take(sizes, tensor, inputs[tensor.name])
        for letter, known in sizes.known.items():
            if known.size == 0 and letter not in MAY_BE_EMPTY:
                self._refuse(f"{known.source}: give at least 1")
        if "n_head" in given:
            self._check_heads(given["n_head"], given.get("n_kv_head"), sizes)
        if self.op == "rope":
            self._check_turns(given, sizes)
        return sizes

    def _take(self, sizes: Sizes, tensor: Tensor, array: Any) -> None:
        problem = sizes.take(tensor, array.shape)
        if problem:
            self._refuse(problem)

    def _check_heads(self, n_head: Any, n_kv_head: Any, sizes: Sizes) -> None:
        """Without n_kv_head the width C is known; with it C follows from the width of queries, keys and values."""
        check_whole(f"{self.op}: n_head", n_head, "a whole number from 1 up", least=1)
        if n_kv_head is not None:
            self._check_groups(n_head, n_kv_head, sizes)
        c = sizes["C"]
        if c % n_head:
            self._refuse(f"n_head {n_head} does not divide the width C = {c}: give a divisor of {c}")
        sizes.set("NH", n_head, f"n_head is {n_head}")
        sizes.set("NKV", n_kv_head or n_head, f"there are {n_kv_head or n_head} heads of keys")
        sizes.set("HS", c // n_head, f"C / n_head is {c // n_head}")

    def _check_groups(self, n_head: int, n_kv_head: Any, sizes: Sizes) -> None:
        check_whole(f"{self.op}: n_kv_head", n_kv_head, "a whole number from 1 up, or None", least=1)
        if n_head % n_kv_head:
            self._refuse(f"n_kv_head {n_kv_head} does not divide n_head {n_head}: give a divisor of {n_head}")
        width, heads = sizes["E"], n_head + 2 * n_kv_head
        if width % heads:
            self._refuse(f"qkv is {width} wide, and {heads} heads of q, k and v do not divide that")
        c = width // heads * n_head
        sizes.set("C", c, f"the heads of q are {c} wide")

    def _check_turns(self, given: dict[str, Any], sizes: Sizes) -> None:
        """cos and sin are (T,R) or (B,T,R), of at most D / 2 pairs."""
        for name in ("cos", "sin"):
            self._check_array(name, given[name])
            axes = ("B", "T", "R") if given[name].ndim == 3 else ("T", "R")
            self._take(sizes, Tensor(name, axes), given[name])
        if not sizes["R"]:
            self._refuse(f"cos has shape {given['cos'].shape}, without any angle: give at least 1")
        if 2 * sizes["R"] > sizes["D"]:
            self._refuse(f"cos has {sizes['R']} angles: a head of {sizes['D']} columns has {sizes['D'] // 2} pairs")
        if given.get("pairing", "halves") not in PAIRINGS:
            self._refuse(f"pairing is {shown(given['pairing'])}: give one of {', '.join(PAIRINGS)}")
        heads = given.get("heads")
        if heads is not None:
            check_whole("rope: heads", heads, f"how many heads turn, from 0 to {sizes['H']}", least=0)
            if heads > sizes["H"]:
                self._refuse(f"heads is {heads}, and there are {sizes['H']}")

    def _check_weights(self, weights: Any, sizes: Sizes) -> None:
        is_integer = weights.dtype.kind in "iu"
        self._check_array("weights", weights, is_integer)
        self._take(sizes, Tensor("weights", (ANY,)), weights)

    def _check_past(self, past: Any, sizes: Sizes) -> None:
        """Earlier keys and values. In self-attention the keys are these, and those of the T positions themselves."""
        if past is not None:
            if not isinstance(past, tuple) or len(past) != 2:
                self._refuse(f"past is {shown(past)}: give the pair (k, v), each (B,NH,P,C/NH)")
            for name, array in zip(("past k", "past v"), past, strict=True):
                self._check_array(name, array)
                self._take(sizes, Tensor(name, PAST), array)
        if self.op == "self_attention":
            keys = sizes.get("P", 0) + sizes["T"]
            sizes.set("S", keys, f"there are {keys} keys")

    def _check_scores(self, mask: Any, bias: Any, sizes: Sizes) -> None:
        scores = []
        for axis in SCORES[self.op].split(","):
            if axis == ANY:
                scores += sizes[ANY]
            else:
                scores.append(sizes[axis])
        problem = masks.problem(mask, bias, tuple(scores))
        if problem:
            self._refuse(problem)

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _check_numbers(self, given: dict[str, Any]) -> None:
        if "activation" in given and given["activation"] not in ACTIVATIONS:
            self._refuse(f"activation is {shown(given['activation'])}: give one of {', '.join(ACTIVATIONS)}")
        if "rate" in given:
            check_number(f"{self.op}: rate", given["rate"], A_RATE, least=0, below=1)
        if "eps" in given:
            check_number(f"{self.op}: eps", given["eps"], AN_EPS, least=0)
        if given.get("scale") is not None:
            check_number(f"{self.op}: scale", given["scale"], "a finite number")
        if "temperature" in given:
            check_number(f"{self.op}: temperature", given["temperature"], A_TEMPERATURE, least=1e-6, below=1e6)
        if not isinstance(given.get("grad", True), (bool, np.bool)):
            self._refuse(f"grad is {shown(given['grad'])}: give True, or False to keep nothing for backward")
        if given.get("normalizer") is not None:
            self._check_normalizer(given["normalizer"])
        key = given.get("key")
        if key is not None and not is_key(key):
            self._refuse(f"key is {shown(key)}: give a Key, such as ops.Key.of(seed, step), or None")

    def _check_normalizer(self, normalizer: Any) -> None:
        is_number_in_array = getattr(normalizer, "shape", None) == ()
        if is_number_in_array and device_of(normalizer) != "cpu":
            return  # a number on a GPU is not read
        if is_number_in_array:
            normalizer = normalizer.item()
        check_number(f"{self.op}: normalizer", normalizer, A_NORMALIZER, least=LEAST_NORMALIZER)

    # --- backward ----------------------------------------------------------------------------------------------------

    def remember(self, out: Any, cache: Any) -> None:
        """Note what forward returned, by what its cache looks like, for `check_dout`."""
        look = _look(cache)
        if look is None or not hasattr(out, "dtype"):
            return
        if len(self._outputs) >= REMEMBERED:
            self._outputs.clear()
        known = self._outputs.setdefault(look, set())
        known.add((out.shape, out.dtype))

    def check_dout(self, dout: Any, cache: Any) -> None:
        """Raises InputError for an upstream gradient that is no array of floats, or has another shape than the output.

        Where the output is a single number, any number will do. Caches are told apart by the arrays in them; one
        without arrays, such as that of dropout, says nothing of the output.
        """
        shape = getattr(dout, "shape", None)
        outputs = self._outputs.get(_look(cache), ())
        dtype = getattr(dout, "dtype", None)
        is_plain = not isinstance(dout, OWN_RULES)
        if is_plain and (shape, dtype) in outputs:
            return
        out_is_a_number = not self.output.axes
        is_number_in_array = False
        if is_plain and shape == () and isinstance(dtype, np.dtype):
            is_number_in_array = is_float(dtype) or dtype.kind in "iu"
        if out_is_a_number and (is_number(dout) or is_number_in_array):
            return
        out = self.output.name
        self._check_array(f"d{out}", dout)
        if not outputs:
            return
        expected, dtype = next(iter(outputs))
        if shape not in [known for known, _ in outputs]:
            self._refuse(f"d{out} has shape {shape}; the {out} of this cache had {expected}")
        self._check_dtypes({f"d{out}": dout, out: np.empty(0, dtype)})

    def _refuse(self, problem: str) -> None:
        raise InputError(f"{self.op}: {problem}   [{self.line}]")


def kind(args: tuple, constants: dict[str, Any]) -> tuple:
    """What is remembered of a call: of arrays of floats shape and dtype, of other values themselves.

    Who runs a call, and whether its arguments fit together, depends on nothing else. The tuple has no hash where the
    call has a list, or an array of whole numbers, which may be out of range: such a call is looked at every time.
    """
    return (*map(_kind, args), *constants, *map(_kind, constants.values()))


def of(op: str, forward: Callable) -> Arguments | None:
    """The check of an operation; None for a function whose docstring does not begin with a shape line."""
    try:
        return Arguments(op, forward)
    except ValueError:
        return None


def with_plain_numbers(constants: dict[str, Any]) -> dict[str, Any]:
    """Numbers of NumPy, and fractions, become Python's: np.float64 would make the result of a float32 array wider."""
    changed = {}
    for name, value in constants.items():
        if type(value) in PLAIN or not is_number(value):
            continue
        with contextlib.suppress(OverflowError):  # too large for a float: the check refuses it
            changed[name] = int(value) if is_whole(value) else float(value)
    return constants | changed if changed else constants


def is_float(dtype: np.dtype) -> bool:
    """Does an array of this dtype hold real numbers, bfloat16 among them?"""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def _kind(value: Any) -> Any:
    """What is remembered of an argument: of an array its shape and dtype, of another value itself."""
    given = type(value)
    if given is np.ndarray and value.shape:
        return value if value.dtype.kind in "iu" else (value.shape, value.dtype)
    if given in PLAIN:
        return given, value
    if given is Key:
        bits = value.bits
        return Key, type(value.row), type(bits), getattr(bits, "shape", None), getattr(bits, "dtype", None)
    if given is tuple:
        return tuple(map(_kind, value))
    if isinstance(value, (np.ndarray, np.generic)) and not value.shape:
        return given, value.dtype, value.tobytes()
    shape = getattr(value, "shape", value)
    dtype = getattr(value, "dtype", None)
    return given, shape, dtype


def _look(cache: Any) -> tuple | None:
    """What a cache of this library looks like: its type, and the shape and dtype of each array in it, however deep.

    A key says nothing of the output, also where its bits are an array.
    """
    if cache is None:
        return None
    arrays: list[tuple | None] = []
    for field in cache:
        if is_key(field):
            continue
        if hasattr(field, "dtype"):
            arrays.append((field.shape, field.dtype))
        elif hasattr(field, "_fields"):  # the cache of an operation inside a composite
            arrays.append(_look(field))
    return (type(cache), *arrays) if any(arrays) else None
