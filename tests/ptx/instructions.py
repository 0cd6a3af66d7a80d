"""The instructions that only compute: each is a function of arrays, which have a number for each thread.

`how` are the modifiers of the instruction. The names of the functions are those of PTX, and so are the sequences of
arguments. A function returns a new array.

types_of(instruction) tells the types of the result and of the arguments; flushing, where an instruction says .ftz, and
.sat, are the player's.
"""

import operator

import numpy as np

from . import arithmetic
from .reader import DTYPES, Instruction

WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
TABLE = {}
MODIFIERS = {  # what may stand between the name and the types, beside rn, ftz and sat
    "mul": {"lo", "hi", "wide"}, "mad": {"lo", "wide"}, "fma": {"rm"},
    "div": {"approx", "full"}, "rcp": {"approx"}, "rsqrt": {"approx"}, "ex2": {"approx"}, "lg2": {"approx"},
    "cvt": {"rni", "rzi", "rmi", "rpi", "rna", "bf16x2", "tf32"},
    "setp": {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "and", "or", "xor", "num", "nan",
             "equ", "neu", "ltu", "leu", "gtu", "geu"},
}  # fmt: skip


def instruction(function):
    """Puts a function into the table, under its name without the underscore that keeps it apart from Python's."""
    TABLE[function.__name__.rstrip("_")] = function
    return function


def types_of(one: Instruction) -> tuple[str, list[str]]:
    """The type of the result, and those of the arguments. NotImplementedError for what is not played."""
    known = {*DTYPES, "rn", "ftz", "sat", *MODIFIERS.get(one.name, ())}
    if one.name not in TABLE or set(one.modifiers) - known:
        raise NotImplementedError(f"an instruction that is not played: {one.text}")
    kind = one.modifiers[-1]
    n = len(one.operands) - 1
    if one.name == "setp":
        return "pred", [kind, kind, "pred"][:n]
    if one.name == "selp":
        return kind, [kind, kind, "pred"]
    if one.name in ("shl", "shr"):
        return kind, [kind, "u32"]
    if one.name == "bfi":
        return kind, [kind, kind, "u32", "u32"]
    if one.name == "cvt":
        to, of = one.modifiers[-2:]
        return {"bf16x2": "b32", "tf32": "b32"}.get(to, to), [of] * n
    if one.name in ("mul", "mad") and "wide" in one.modifiers:
        return WIDER[kind], [kind, kind, WIDER[kind]][:n]
    return kind, [kind] * n


# --- arithmetic ---


@instruction
def add(how, a, b):
    return a + b


@instruction
def sub(how, a, b):
    return a - b


@instruction
def mul(how, a, b):
    if "wide" in how:
        wider = DTYPES[WIDER[how[-1]]]
        return a.astype(wider) * b.astype(wider)
    return arithmetic.upper_half(a, b) if "hi" in how else a * b


@instruction
def mad(how, a, b, c):
    return mul(how, a, b) + c


@instruction
def fma(how, a, b, c):
    if a.dtype == np.float64:
        return arithmetic.fma64(a, b, c)
    return arithmetic.fma32(a, b, c, down="rm" in how)


@instruction
def div(how, a, b):
    return a / b if a.dtype.kind == "f" else arithmetic.divide(a, b)


@instruction
def rem(how, a, b):
    return arithmetic.remainder(a, b)


@instruction
def neg(how, a):
    return -a if a.dtype.kind == "f" else 0 - a


@instruction
def abs_(how, a):
    return np.abs(a)


@instruction
def copysign(how, sign, a):
    return np.copysign(a, sign)


@instruction
def max_(how, a, b):
    return np.fmax(a, b)


@instruction
def min_(how, a, b):
    return np.fmin(a, b)


@instruction
def sqrt(how, a):
    return np.sqrt(a)


@instruction
def rcp(how, a):
    if "approx" in how and a.dtype == np.float64:  # only the upper half of the bits
        return ((1 / a).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    return 1 / a


@instruction
def ex2(how, a):
    return arithmetic.approximate(np.exp2, a)


@instruction
def lg2(how, a):
    return arithmetic.approximate(np.log2, a)


@instruction
def rsqrt(how, a):
    return arithmetic.approximate(lambda x: 1 / np.sqrt(x), a)


# --- bits ---


@instruction
def and_(how, a, b):
    return a & b


@instruction
def or_(how, a, b):
    return a | b


@instruction
def xor(how, a, b):
    return a ^ b


@instruction
def not_(how, a):
    return ~a


@instruction
def shl(how, a, places):
    bits = 8 * a.dtype.itemsize
    return np.where(places < bits, a << (places % bits).astype(a.dtype), 0).astype(a.dtype)


@instruction
def shr(how, a, places):
    """Of a signed number copies of the sign come in, and zeros otherwise."""
    bits = 8 * a.dtype.itemsize
    beyond = a >> a.dtype.type(bits - 1) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(places < bits, a >> (places % bits).astype(a.dtype), beyond)


@instruction
def bfi(how, a, b, place, length):
    """The lowest bits of a, so many, in b at this place."""
    mask = ((np.uint64(1) << length.astype(np.uint64)) - np.uint64(1)) << place.astype(np.uint64)
    inside = (a.astype(np.uint64) << place.astype(np.uint64)) & mask
    return (inside | (b.astype(np.uint64) & ~mask)).astype(a.dtype)


# --- choices ---

COMPARISONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
COMBINED = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


@instruction
def setp(how, a, b, other=None):
    """A comparison, and perhaps combined with another predicate. With a NaN it is false; with a u at its end, true."""
    found = _compared(how[0], a, b)
    return found if other is None else COMBINED[how[1]](found, other)


def _compared(how, a, b):
    if a.dtype.kind != "f":
        return COMPARISONS[how](a, b)
    not_numbers = np.isnan(a) | np.isnan(b)
    if how == "nan":
        return not_numbers
    if how == "num":
        return ~not_numbers
    if how in COMPARISONS:
        return COMPARISONS[how](a, b) & ~not_numbers
    return COMPARISONS[how.removesuffix("u")](a, b) | not_numbers


@instruction
def selp(how, a, b, condition):
    return np.where(condition, a, b)


# --- other types ---

ROUNDED = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@instruction
def mov(how, a):
    return a.copy()


@instruction
def cvt(how, a, b=None):
    to, of = how[-2:]
    if to == "bf16x2":  # the second is the lower half
        return arithmetic.to_bfloat16(a).astype(np.uint32) << np.uint32(16) | arithmetic.to_bfloat16(b)
    if to == "bf16":
        return arithmetic.to_bfloat16(a)
    if to == "tf32":
        return arithmetic.to_tf32(a)
    if of == "bf16":
        return arithmetic.from_bfloat16(a)
    whole = next((ROUNDED[one] for one in how if one in ROUNDED), None)
    a = a if whole is None else whole(a)
    if of.startswith("f") and not to.startswith("f"):
        return arithmetic.to_whole(a, DTYPES[to])
    return a.astype(DTYPES[to])
