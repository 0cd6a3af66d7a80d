"""The table of operations: which implementation runs when an operation is called.

An operation is a pair of pure functions, `name_forward(arrays..., constants) -> out, cache` and
`name_backward(dout, cache) -> gradients`. An implementation is anything that has such pairs as attributes: the package
`minigpt.ops.reference`, a learner's file, a class in a test. Which pairs belong together is never left to the caller: a
cache remembers who made it, and `name_backward` goes there.
"""

import contextlib
import functools
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from minigpt.errors import InputError


class GuestCache(NamedTuple):
    """The cache of an implementation from outside: whatever its forward saved, and the backward that understands it."""

    op: str
    saved: Any
    backward: Callable


class Pair(NamedTuple):
    """Forward and backward of one operation by one implementation. Guests are learners' files and tests."""

    op: str
    forward: Callable
    backward: Callable
    guest: bool

    def __call__(self, *args, **constants):
        result = self.forward(*args, **constants)
        if result is NotImplemented or not self.guest:
            return result
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"{self.op}_forward returned a {type(result).__name__}: expected the pair (out, cache)")
        out, cache = result
        return out, GuestCache(self.op, cache, self.backward)


def cache_type(backward: Callable) -> type:
    """The NamedTuple that a backward of this library takes: the annotation of its `cache`."""
    return typing.get_type_hints(backward)["cache"]


class Table:
    """Holds the implementations, in the order in which they are asked.

    `use(*implementations)`: names ("reference") or objects with pairs. The first that has the operation and does not
    return NotImplemented runs it; the reference, which has them all, is always asked last. While a guest replaces a
    primitive, composites run their reference body, which calls primitives through this table: what the guest gave is
    what runs, everywhere.
    """

    def __init__(self):
        self.docs: dict[str, Callable] = {}  # operation -> reference forward: names, signatures and docstrings
        self.composites: set[str] = set()
        self._houses: dict[str, dict[str, Pair]] = {}
        self._made_by: dict[type, Pair] = {}
        self._asked: dict[str, list[Pair]] = {}
        self._current: tuple = ()

    def add(self, name: str, implementation: Any, composites: tuple[str, ...] = ()) -> None:
        """Register an implementation of this library. The first one added is the reference."""
        pairs = dict(_pairs(implementation, _names(implementation), guest=False))
        if not self._houses:
            self.docs = {op: pair.forward for op, pair in pairs.items()}
            self.composites = set(composites)
        self._houses[name] = pairs
        self._made_by.update({cache_type(pair.backward): pair for pair in pairs.values()})
        self.use()

    @property
    def houses(self) -> list[str]:
        """The names of this library's implementations, the reference first."""
        return list(self._houses)

    def use(self, *implementations: Any) -> None:
        """Choose who is asked first, from now on. `use()` goes back to the default: the fastest there is."""
        order, houses = [], self.houses
        for implementation in implementations:
            if isinstance(implementation, str):
                if implementation not in self._houses:
                    raise InputError(f"no implementation is called {implementation!r}: there is {', '.join(houses)}")
                order.append(self._houses[implementation])
            else:
                order.append(self._guest(implementation))
        if not any(isinstance(i, str) for i in implementations):
            order += [self._houses[name] for name in reversed(houses)]
        reference = self._houses[houses[0]]
        guests = [pairs for pairs in order if any(pair.guest for pair in pairs.values())]
        primitive_replaced = any(op not in self.composites for pairs in guests for op in pairs)
        for op in self.docs:
            asked = guests if primitive_replaced and op in self.composites else order
            self._asked[op] = [pairs[op] for pairs in asked if op in pairs] + [reference[op]]
        self._current = implementations

    @contextlib.contextmanager
    def using(self, *implementations: Any):
        """`with ops.using(mine): ...`: the same as `use` for a while; what was chosen before comes back."""
        before = self._current
        self.use(*implementations)
        try:
            yield
        finally:
            self.use(*before)

    def forward(self, op: str) -> Callable:
        """The function `op_forward`, which asks the implementations in order."""

        @functools.wraps(self.docs[op])
        def call(*args, **constants):
            for pair in self._asked[op]:
                result = pair(*args, **constants)
                if result is not NotImplemented:
                    return result
            raise AssertionError("the reference never returns NotImplemented")

        return call

    def backward(self, op: str) -> Callable:
        """The function `op_backward`, which goes to whoever made the cache."""

        @functools.wraps(next(iter(self._houses.values()))[op].backward)
        def call(dout, cache):
            if isinstance(cache, GuestCache):
                maker, function, saved = cache.op, cache.backward, cache.saved
            elif type(cache) in self._made_by:
                pair = self._made_by[type(cache)]
                maker, function, saved = pair.op, pair.backward, cache
            else:
                raise TypeError(f"{op}_backward was given a {type(cache).__name__}: it takes what {op}_forward cached")
            if maker != op:
                raise TypeError(f"{op}_backward was given a cache of {maker}: it takes what {op}_forward cached")
            return function(dout, saved)

        return call

    def __getattr__(self, name: str) -> Callable:
        op, _, way = name.rpartition("_")
        if way not in ("forward", "backward") or op not in self.docs:
            raise AttributeError(f"no operation {name!r}: there are {', '.join(self.docs)}, _forward and _backward")
        function = self.forward(op) if way == "forward" else self.backward(op)
        setattr(self, name, function)  # looked up once; what it calls is decided at every call
        return function

    def _guest(self, implementation: Any) -> dict[str, Pair]:
        pairs = dict(_pairs(implementation, self.docs, guest=True))
        # What a file has merely imported from minigpt.ops is this table: asking it would go round in circles.
        pairs = {op: pair for op, pair in pairs.items() if pair.forward is not getattr(self, f"{op}_forward")}
        if not pairs:
            raise InputError(f"{_title(implementation)} has no pair such as layernorm_forward and layernorm_backward")
        return pairs


def _names(implementation: Any) -> list[str]:
    return [name.removesuffix("_forward") for name in implementation.__all__ if name.endswith("_forward")]


def _pairs(implementation: Any, ops, guest: bool):
    for op in ops:
        forward = getattr(implementation, f"{op}_forward", None)
        backward = getattr(implementation, f"{op}_backward", None)
        if forward and backward:
            yield op, Pair(op, forward, backward, guest)
        elif _is_own(forward, implementation) or _is_own(backward, implementation):
            there, missing = ("forward", "backward") if forward else ("backward", "forward")
            raise InputError(f"{_title(implementation)} has {op}_{there} but no {op}_{missing}: an operation is a pair")


def _is_own(function: Callable | None, implementation: Any) -> bool:
    """Written in this implementation, and not merely imported into it."""
    home = getattr(implementation, "__module__", None) or getattr(implementation, "__name__", None)
    return function is not None and getattr(function, "__module__", None) == home


def _title(implementation: Any) -> str:
    return getattr(implementation, "__name__", type(implementation).__name__)


def arrays(cache: Any, name: str = "cache") -> dict[str, Any]:
    """The arrays that a cache keeps alive, however deep, each once, by the path where it is first met."""
    found = {}
    for path, array in _walk(cache, name):
        found.setdefault(id(array), (path, array))
    return dict(found.values())


def _walk(value: Any, path: str):
    if hasattr(value, "nbytes") and hasattr(value, "dtype"):
        yield path, value
    elif isinstance(value, GuestCache):
        yield from _walk(value.saved, path)
    elif isinstance(value, (tuple, list)):
        for part, item in zip(getattr(value, "_fields", range(len(value))), value, strict=True):
            yield from _walk(item, f"{path}.{part}")


def ledger(cache: Any, name: str = "cache") -> dict[str, int]:
    """What a cache costs, line by line, in bytes: {"cache.fc.x": 3072, "cache.gelu.t": 12288, ...}."""
    return {path: array.nbytes for path, array in arrays(cache, name).items()}


def nbytes(cache: Any) -> int:
    """Bytes that a cache keeps alive: the sum of its ledger."""
    return sum(ledger(cache).values())


table = Table()
