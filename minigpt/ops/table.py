"""The table of operations: which implementation runs when an operation is called.

An operation is a pair of pure functions, `name_forward(arrays..., constants) -> out, cache` and
`name_backward(dout, cache) -> gradients`. An implementation is a set of such pairs: the packages
`minigpt.ops.reference`, `minigpt.ops.fast` and `minigpt.ops.cuda`. An override comes from outside: a learner's file, a
class in a test.

Where the arrays are decides who runs: on a processor `fast`, on a GPU `cuda`, and the reference wherever these do not
support a call. Which forward and backward belong together is never left to the caller: a cache remembers which
implementation made it, and `name_backward` goes there.
"""

import contextlib
import difflib
import functools
import typing
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from minigpt.device.arrays import device_of
from minigpt.errors import InputError
from minigpt.ops import arguments
from minigpt.ops.overrides import Entry, OverrideCache, entries_of


class Explanation(NamedTuple):
    """Which implementation runs a call, and for each other one the reason why it does not."""

    op: str
    implementation: str
    reasons: dict[str, str]

    def __str__(self) -> str:
        others = "; ".join(f"not {name}: {reason}" for name, reason in self.reasons.items())
        return f"{self.op}: {self.implementation}" + (f" ({others})" if others else "")


class Implementation(NamedTuple):
    """Entries by the name of their operation. device: where its arrays live, "cpu" or "cuda"; None: anywhere."""

    name: str
    device: str | None
    entries: dict[str, Entry]


class Table:
    """Holds the implementations, and finds the one that runs a call.

    While an override replaces a primitive, composites run their reference body, which calls primitives through this
    table: so what was given is what runs, everywhere.
    """

    def __init__(self):
        self.docs: dict[str, Callable] = {}  # operation -> reference forward: names, signatures and docstrings
        self.functions: tuple[str, ...] = ()  # entries of the reference that are no pairs
        self.composites: set[str] = set()
        self._arguments: dict[str, arguments.Arguments | None] = {}  # operation -> the check of its calls, if any
        self._implementations: dict[str, Implementation] = {}
        self._made_by: dict[type, Entry] = {}
        self._candidates: dict[str, dict[str, list[Entry]]] = {}  # device -> operation -> who may run it, best first
        self._chosen: dict[str, dict[tuple, Callable]] = {}  # operation -> kind of a call -> what runs it
        self._repeated = weakref.WeakKeyDictionary()  # what is repeated -> {operation: what runs it there}
        self._running: dict[str, Callable] = {}  # the same for what is repeated now
        self._current: tuple = ()
        self._calls: list[Explanation] | None = None

    # ---------------------------------------------------------------------------------------------- who is registered

    def register(
        self, name: str, package: Any, composites: tuple[str, ...] = (), functions: tuple[str, ...] = ()
    ) -> None:
        """Register an implementation of this library. The first one is the reference.

        package: has pairs as attributes, `DEVICE`, and `accepts(*arrays)`, which returns None or a reason; a function
        `linear_supports` in it, with the arguments of linear_forward, takes the place of `accepts` for that operation.
        functions: names of the reference's entries that are no pairs.
        """
        if not self._implementations:
            self.functions = functions
            self.composites = set(composites)
        entries = {}
        for op in _operations(package):
            forward, backward = getattr(package, f"{op}_forward"), getattr(package, f"{op}_backward")
            entries[op] = Entry(op, name, forward, backward, _supports(package, op))
            self._made_by[_cache_type(backward)] = entries[op]
            if op not in self.docs:
                self.docs[op] = forward
                self._arguments[op] = arguments.of(op, forward)
        for op in self.functions:
            if hasattr(package, op):
                function = getattr(package, op)
                entries[op] = Entry(op, name, function, None, _supports(package, op))
                if op not in self._arguments:
                    self._arguments[op] = arguments.of(op, function)
        self._implementations[name] = Implementation(name, package.DEVICE, entries)
        self.use()

    @property
    def implementations(self) -> list[str]:
        """The names of this library's implementations, the reference first."""
        return list(self._implementations)

    # ------------------------------------------------------------------------------------------------- who is chosen

    def use(self, *implementations: Any) -> None:
        """Choose who runs, from now on: names such as "reference", or objects with pairs. `use()`: the default.

        A named implementation runs whatever it supports, and the reference the rest. Objects are overrides: they run
        what they have, and the library the rest. Raises InputError for an unknown name and an object without a pair.
        """
        for calls in self._chosen.values():
            calls.clear()
        self._repeated.clear()
        overrides = [self._override(one) for one in implementations if not isinstance(one, str)]
        named = [self._named(one) for one in implementations if isinstance(one, str)]
        for device in ("cpu", "cuda"):
            library = named or [one for one in self._implementations.values() if one.device == device]
            self._candidates[device] = self._choose(overrides, library)
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

    def is_default(self) -> bool:
        """Is the choice that of `use()`, and are no calls traced? Then an operation need not be called through here."""
        return not self._current and self._calls is None

    def _named(self, name: str) -> Implementation:
        if name not in self._implementations:
            known = ", ".join(self._implementations)
            raise InputError(f"no implementation is called {name!r}: choose {known}")
        return self._implementations[name]

    def _choose(self, overrides: list[dict], library: list[Implementation]) -> dict[str, list[Entry]]:
        """For each operation the entries that may run it, best first; the reference, which has all, comes last."""
        reference = next(iter(self._implementations.values()))
        primitive_replaced = any(op not in self.composites for entries in overrides for op in entries)
        chosen = {}
        for op in (*self.docs, *self.functions):
            sources = list(overrides)
            if not (primitive_replaced and op in self.composites):
                sources += [one.entries for one in library if one is not reference]
            chosen[op] = [entries[op] for entries in sources if op in entries]
            chosen[op].append(reference.entries[op])
        return chosen

    # ------------------------------------------------------------------------------------------------------- calling

    def forward(self, op: str) -> Callable:
        """The function `op_forward` (`op` where it is no pair): it runs the first entry that supports the call.

        Arguments that do not fit together raise InputError before any of them is tried.
        """
        reference = next(iter(self._implementations.values())).entries[op]
        chosen = self._chosen.setdefault(op, {})
        running = self._running

        @functools.wraps(reference.forward)
        def call(*args, **constants):
            if op in running:
                return running[op](*args, **constants)
            kind = arguments.kind(args, constants)
            try:
                function = chosen.get(kind)
                may_be_remembered = True
            except TypeError:  # it has no hash
                function, may_be_remembered = None, False
            if function and self._calls is None:
                return function(*args, **constants)
            plain = arguments.with_plain_numbers(constants)
            entry, result = self._run(op, args, plain)
            may_decline = entry.implementation not in self._implementations
            if may_be_remembered and plain is constants and not may_decline:
                if len(chosen) >= arguments.REMEMBERED:
                    chosen.clear()
                chosen[kind] = entry.forward
            return result

        return call

    def _run(self, op: str, args: tuple, constants: dict[str, Any]) -> tuple[Entry, Any]:
        """Check a call and run it: the first entry that supports it, and what it returned."""
        arguments_of_op = self._arguments[op]
        if arguments_of_op:
            arguments_of_op.check(args, constants)
        reasons = {}
        for entry in self._candidates[_device(args)][op]:
            reason = entry.supports(*args, **constants)
            if reason is None:
                result = entry.forward(*args, **constants)
                if result is not NotImplemented:
                    break
                reason = "it returned NotImplemented"  # so an override may decline a call
            reasons[entry.implementation] = reason
        if self._calls is not None:
            self._calls.append(Explanation(op, entry.implementation, reasons))
        if arguments_of_op and entry.backward and type(result[1]) in self._made_by:
            arguments_of_op.remember(*result)
        return entry, result

    @contextlib.contextmanager
    def repeating(self, repeated: Any) -> Iterator[None]:
        """`with ops.repeating(f): ...`: what is done inside is done again and again, with arrays of the same kinds.

        The first time calls are checked as usual, and it is noted who ran them. Later, operations that one
        implementation of this library ran every time are run by it, without any look at the arguments. repeated: an
        object that stands for what is repeated. `use` forgets all of it, and nothing is skipped while calls are traced.
        """
        functions = self._repeated.get(repeated)
        if self._calls is not None:
            yield
        elif functions is None:
            with self.tracing() as calls:
                yield
            self._repeated[repeated] = self._always_ran(calls)
        else:
            self._running.update(functions)
            try:
                yield
            finally:
                self._running.clear()

    def _always_ran(self, calls: list[Explanation]) -> dict[str, Callable]:
        """{operation: the function that ran all of these calls}, where it is one of this library."""
        names = {}
        for call in calls:
            names.setdefault(call.op, set()).add(call.implementation)
        functions = {}
        for op, several in names.items():
            name = several.pop()
            if not several and name in self._implementations:
                functions[op] = self._implementations[name].entries[op].forward
        return functions

    def backward(self, op: str) -> Callable:
        """The function `op_backward`, which goes to the implementation that made the cache."""
        reference = next(iter(self._implementations.values())).entries[op]
        arguments_of_op = self._arguments[op]
        assert reference.backward is not None, f"{op} is no pair"

        @functools.wraps(reference.backward)
        def call(dout, cache):
            if isinstance(cache, OverrideCache):
                made_for, function, saved = cache.op, cache.backward, cache.saved
            elif type(cache) in self._made_by:
                entry = self._made_by[type(cache)]
                made_for, function, saved = entry.op, entry.backward, cache
            else:
                raise TypeError(f"{op}_backward was given a {type(cache).__name__}: it takes what {op}_forward cached")
            if made_for != op:
                raise TypeError(f"{op}_backward was given a cache of {made_for}: it takes what {op}_forward cached")
            if arguments_of_op and saved is cache:
                arguments_of_op.check_dout(dout, cache)
            return function(dout, saved)  # type: ignore[misc]  # what makes a cache is a pair

        return call

    def __getattr__(self, name: str) -> Callable:
        if name in self.functions:
            function = self.forward(name)
        else:
            op, _, way = name.rpartition("_")
            if way not in ("forward", "backward") or op not in self.docs:
                raise AttributeError(f"no operation {name!r}: there are {', '.join(self.docs)}, _forward and _backward")
            function = self.forward(op) if way == "forward" else self.backward(op)
        setattr(self, name, function)  # looked up once; what it calls is decided at every call
        return function

    def _override(self, given: Any) -> dict[str, Entry]:
        reference = next(iter(self._implementations.values())).entries
        # What a file has merely imported from minigpt.ops is this table: calling it would go round in circles.
        own_functions = {op: getattr(self, f"{op}_forward") for op in self.docs}
        return entries_of(given, {op: reference[op] for op in self.docs}, own_functions)

    # ---------------------------------------------------------------------------------------------------- explaining

    def explain(self, op: str, *args: Any, **constants: Any) -> Explanation:
        """Which implementation would run this call, and why the others would not. Nothing is computed.

        op: an operation's name, such as "self_attention"; args, constants: as for its forward function. Raises
        InputError for another name, and for arguments that do not fit together.
        """
        if op not in self.docs and op not in self.functions:
            alike = difflib.get_close_matches(str(op), (*self.docs, *self.functions))
            raise InputError(f"no operation {op!r}: choose {', '.join(alike or self.docs)}")
        arguments_of_op = self._arguments[op]
        if arguments_of_op:
            arguments_of_op.check(args, constants)
        device = _device(args)
        candidates = self._candidates[device][op]
        chosen, reasons = "", {}  # the last candidate, the reference, supports all calls
        for entry in candidates:
            reason = entry.supports(*args, **constants)
            if chosen:
                reasons[entry.implementation] = f"{chosen} is chosen before it"
            elif reason is None:
                chosen = entry.implementation
            else:
                reasons[entry.implementation] = reason
        for name, implementation in self._implementations.items():
            if name not in (*reasons, chosen):
                reasons[name] = self._why_no_candidate(op, implementation, device)
        return Explanation(op, chosen, reasons)

    def _why_no_candidate(self, op: str, implementation: Implementation, device: str) -> str:
        if op not in implementation.entries:
            return f"it has no {op} of its own"
        if op in self.composites and any(not isinstance(one, str) for one in self._current):
            return "an override is in use, so composites run their reference body"
        if implementation.device not in (None, device):
            return f"it is for arrays on {implementation.device}, and these are on {device}"
        return "ops.use has chosen another one"

    @contextlib.contextmanager
    def tracing(self) -> Iterator[list[Explanation]]:
        """`with ops.tracing() as calls: ...`: afterwards calls holds, for each forward call made inside, who ran it.

        The reasons of a call name only the implementations that were tried before the one that ran.
        """
        before = self._calls
        self._calls = []
        try:
            yield self._calls
        finally:
            self._calls = before


def _operations(package: Any) -> list[str]:
    """The operations of a package that is an implementation, in the order of its `__all__`."""
    return [name.removesuffix("_forward") for name in package.__all__ if name.endswith("_forward")]


def _supports(package: Any, op: str) -> Callable[..., str | None]:
    """What a package says about calls of an operation: by a function of its own, or by the kinds of the arrays."""
    own = getattr(package, f"{op}_supports", None)
    if own is not None:
        return own

    def supports(*args, **constants):
        return package.accepts(*floats_in(args))

    return supports


def floats_in(args: tuple) -> list:
    """The arrays among these arguments that hold no whole numbers."""
    return [a for a in args if hasattr(a, "dtype") and a.dtype.kind not in "iub"]


def _device(args: tuple) -> str:
    """Where the first array among the arguments is, also of an argument that is a list of tuples of arrays."""
    first = args[0] if args else None
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    return device_of(first)


def _cache_type(backward: Callable) -> type:
    """The NamedTuple that a backward of this library takes: the annotation of its `cache`."""
    return typing.get_type_hints(backward)["cache"]


table = Table()
