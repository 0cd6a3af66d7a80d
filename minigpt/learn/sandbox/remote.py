"""A learner's file on the judge's side: its operations and functions, whose every call is made in its process.

with Child(seconds=60) as child:
    mine = RemoteFile(child, path, text)
    mine.module.gelu_forward(x)                            # an operation: what stays in its process is the cache
    mine.function("merge")(words)                          # any function, with any values that can be sent
    mine.function("backward").lines(dout, values)          # line by line
    child.finish()
"""

import contextlib
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.errors import InputError
from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.gradcheck.results import Result
from minigpt.learn.sandbox.lending import lent_to
from minigpt.learn.sandbox.process import Child, one_line
from minigpt.ops import reference

MOST_CALLS = 50  # of backward passes that are noted
IN_PLACE_OF_A_PAIR = {"handed on": NotImplemented, "no pair": ""}  # what a forward pass returned; otherwise None


class RemoteCache(dict):
    """A cache that stays in the learner's process; its items are fetched when a diagnosis looks at them."""

    def __init__(self, child: Child, number: int):
        super().__init__()
        self.child = child
        self.number = number

    def items(self):
        """Paths and arrays of the cache; none where it cannot be read."""
        try:
            found = self.child.request("look", number=self.number).get("arrays")
        except (RaisedElsewhere, NotImplementedError):
            return []
        if not isinstance(found, dict):
            return []
        return [(str(path)[:40], one) for path, one in found.items() if isinstance(one, (np.ndarray, np.generic))]

    def __del__(self):
        self.child.dropped.append(self.number)


class Lines(NamedTuple):
    """What a backward pass did, line by line.

    assigned: (name, value) of each assignment, in their sequence. read: names of the forward values that it read.
    stopped: why it did not come to its end, or "" where it did. returned: what it returned.
    """

    assigned: list[tuple[str, Any]]
    read: list[str]
    stopped: str
    returned: Any = None


class Call(NamedTuple):
    """A call of a backward pass, and what it returned. again: makes it once more."""

    name: str
    again: Callable
    returned: Any


class RemoteFunction:
    """A function of a learner's file; a call runs it in the child, and returns its value.

    Values may be None, bool, int, float, text, bytes, arrays and numbers of NumPy, keys, and tuples, lists, sets and
    dicts of these. A call raises RaisedElsewhere where the function raises or does not answer, and NotImplementedError
    where a line of it is left open. name, signature: its own. gave_nan: did any call return NaN? calls: where those of
    a backward pass are noted.
    """

    def __init__(self, child: Child, name: str, signature: inspect.Signature, calls: list[Call] | None = None):
        self.child = child
        self.calls = [] if calls is None else calls
        self.name = self.__name__ = name
        self.signature = self.__signature__ = signature
        self.gave_nan = False

    def __call__(self, *args: Any, **constants: Any) -> Any:
        value = self.child.request("call", name=self.name, args=args, constants=constants).get("value")
        self.gave_nan = self.gave_nan or _has_nan(value)
        self._note(functools.partial(self, *args, **constants), value)
        return value

    def lines(self, dout: Any, values: dict[str, Any]) -> Lines:
        """Run this function as backward(dout, v) line by line, where v has these values by name.

        An error in it is told in `stopped`. Raises RaisedElsewhere where its process does not answer.
        """
        reply = self.child.request("lines", name=self.name, dout=dout, values=values)
        found = []
        for one in reply["assigned"] if isinstance(reply.get("assigned"), list) else ():
            if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
                found.append(one)
        stopped = one_line(reply.get("stopped"))
        returned = reply.get("returned")
        self._note(lambda: self.lines(dout, values).returned, returned)
        return Lines(found, _texts(reply.get("read")), stopped, returned)

    def _note(self, again, returned):
        if self.name.endswith("backward") and len(self.calls) < MOST_CALLS:
            self.calls.append(Call(self.name, again, returned))


class RemoteFile:
    """A learner's file that runs in a child.

    module: has the passes of the file as functions, with their own signatures; each call goes to the child. written:
    the passes that wrote into what they were given, and into what. signatures: of all functions of the file, by name.
    calls: of its functions that are backward passes, the first ones. It may borrow what gives none of its operations
    away; `child.lender.allowed` is there to be changed. Raises InputError where the file cannot be run.
    """

    def __init__(self, child: Child, path: Path, text: str):
        self.child = child
        self.written: set[tuple[str, str]] = set()
        self.module = types.ModuleType(path.stem)
        self.calls: list[Call] = []
        self.path = path
        self.text = text
        self._numbers = itertools.count(1)
        try:
            loaded = self._load(text)
        except NotImplementedError as error:
            raise InputError(f"{path} cannot be run: it raises NotImplementedError outside its functions") from error
        except RaisedElsewhere as error:
            raise InputError(f"{path} cannot be run: {error}") from error
        self.signatures = _signatures(loaded.get("functions"))
        for op in ops.names:
            self._add(f"{op}_forward", self._forward(op, f"{op}_forward"))
            self._add(f"{op}_backward", self._backward(op, f"{op}_backward"))
        child.lender.allowed = lent_to(self.operations())

    def function(self, name: str) -> RemoteFunction:
        """The function of this name. Raises InputError where the file has none."""
        if name not in self.signatures:
            raise InputError(f"the file has no function {name}: it has {', '.join(self.signatures) or 'none'}")
        return RemoteFunction(self.child, name, self.signatures[name], self.calls)

    @contextlib.contextmanager
    def with_text(self, text: str) -> Iterator[None]:
        """Another text of the file runs for a time; caches stay as they are."""
        self._load(text)
        try:
            yield
        finally:
            self._load(self.text)

    def _load(self, text):
        return self.child.request("load", name=self.path.stem, path=self.path.name, text=text)

    def define(self, text: str) -> None:
        """Put functions in the place of those that the file has under these names."""
        if text:
            self.child.request("define", text=text)

    def value(self, name: str) -> Any:
        """The value of a name of the file, such as a constant. Raises RaisedElsewhere where it has none."""
        return self.child.request("value", name=name).get("value")

    def operations(self) -> list[str]:
        """The operations of which the file has both passes."""
        there = vars(self.module)
        return [op for op in ops.names if f"{op}_forward" in there and f"{op}_backward" in there]

    def findings(self) -> list[Result]:
        """A result for each array that was written into since the last call, and why the process failed, if it did."""
        found = [Result(way, diagnosis=f"It writes into {name}: work on a copy.") for way, name in sorted(self.written)]
        self.written.clear()
        return found

    def _add(self, name: str, function: Callable) -> None:
        if name in self.signatures:
            function.__name__ = name
            function.__module__ = self.module.__name__
            function.__signature__ = self.signatures[name]  # type: ignore[attr-defined]  # `inspect` looks there
            setattr(self.module, name, function)

    def _forward(self, op, name):
        names = list(inspect.signature(getattr(reference, name)).parameters)

        def forward(*args, **constants):
            number = next(self._numbers)
            reply = self.child.request("forward", name=name, number=number, args=args, constants=constants)
            self._note(reply, "forward", names)
            kind = str(reply.get("kind"))
            if kind != "pair":
                return IN_PLACE_OF_A_PAIR.get(kind)
            return _number_or_array(reply.get("out"), name), RemoteCache(self.child, number)

        return forward

    def _backward(self, op, name):
        def backward(dout, cache):
            reply = self.child.request("backward", name=name, number=cache.number, dout=dout)
            self._note(reply, "backward", [])
            gradients = reply.get("gradients")
            if isinstance(gradients, (tuple, list)):
                return tuple(_number_or_array(gradient, name) for gradient in gradients)
            return _number_or_array(gradients, name)

        return backward

    def _note(self, reply, way, names):
        """Remember what was written into, by the names of the parameters: "args.0" is the first one."""
        for path in _texts(reply.get("written")):
            self.written.add((way, _named(path, names)[:40]))


def _has_nan(value: Any) -> bool:
    """Is there a number in it that is none?"""
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    if isinstance(value, (list, tuple, set)):
        return any(map(_has_nan, value))
    is_float = isinstance(value, (float, complex, np.ndarray, np.generic)) and np.asarray(value).dtype.kind in "fc"
    return bool(is_float and np.isnan(value).any())


def _texts(found: Any) -> list[str]:
    """The texts in a list that came from the child, each on one short line."""
    return [one_line(one, 80) for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _named(path: str, names: list[str]) -> str:
    """The path of an input by the names of the parameters: "args.0" is the first one."""
    place, _, rest = path.partition(".")
    first, dot, inner = rest.partition(".")
    if place == "args" and first.isdigit() and int(first) < len(names):
        return names[int(first)] + dot + inner
    return rest if place == "constants" else path


def _number_or_array(value, name):
    """The value, where it can be a gradient or an output. Raises RaisedElsewhere for anything else."""
    if value is None or value is ... or isinstance(value, (float, int, np.ndarray, np.generic)):
        return value
    raise RaisedElsewhere(f"{name} returned a {type(value).__name__} where an array is expected.")


def _signatures(described: Any) -> dict[str, inspect.Signature]:
    """The signatures of the functions that the child described, without those that were merely borrowed."""
    found = {}
    for name, about in described.items() if isinstance(described, dict) else ():
        is_own = isinstance(about, dict) and str(about.get("home")).partition(".")[0] != "minigpt"
        if isinstance(name, str) and name.isidentifier() and is_own:
            with contextlib.suppress(TypeError, ValueError):
                found[name] = _signature(about.get("parameters"))
    return found


def _signature(described: Any) -> inspect.Signature:
    """The signature that the child described: a list of [name, kind, has a default, the default]."""
    parameters = []
    for name, kind, has_default, default in described:
        default = default if type(default) in (bool, int, float, str) else None  # as answers.parameters_of sends it
        default = default if has_default is True else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, inspect._ParameterKind(kind), default=default))
    return inspect.Signature(parameters)
