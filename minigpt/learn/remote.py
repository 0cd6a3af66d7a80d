"""The pairs of a learner's file as an implementation whose every call is made in the learner's process."""

import inspect
import itertools
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np

from minigpt import ops
from minigpt.errors import InputError
from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.gradcheck.results import Result
from minigpt.learn.process import Child
from minigpt.ops import reference


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
        return [(path[:40], array) for path, array in found.items() if isinstance(array, (np.ndarray, np.generic))]

    def __del__(self):
        self.child.dropped.append(self.number)


class RemoteFile:
    """A learner's file that runs in a child.

    module: has the passes of the file as functions, with their own signatures; each call goes to the child. written:
    the passes that wrote into what they were given, and into what.
    """

    def __init__(self, child: Child, path: Path, text: str):
        self.child = child
        self.written: set[tuple[str, str]] = set()
        self.module = types.ModuleType(path.stem)
        self._numbers = itertools.count(1)
        try:
            loaded = child.request("load", name=path.stem, path=str(path.resolve()), text=text)
        except NotImplementedError as error:
            raise InputError(f"{path} cannot be run: it raises NotImplementedError outside its functions") from error
        except RaisedElsewhere as error:
            raise InputError(f"{path} cannot be run: {error}") from error
        passes = loaded.get("passes")
        for op in ops.names:
            for way, make in (("forward", self._forward), ("backward", self._backward)):
                name = f"{op}_{way}"
                if isinstance(passes, dict) and isinstance(passes.get(name), dict):
                    self._add(name, make(op, name), passes[name])

    def operations(self) -> list[str]:
        """The operations of which the file has both passes."""
        there = vars(self.module)
        return [op for op in ops.names if f"{op}_forward" in there and f"{op}_backward" in there]

    def findings(self) -> list[Result]:
        """A result for each array that was written into since the last call, and why the process failed, if it did."""
        found = [Result(way, diagnosis=f"It writes into {name}: work on a copy.") for way, name in sorted(self.written)]
        self.written.clear()
        return found

    def _add(self, name: str, function: Callable, described: dict) -> None:
        if str(described.get("home")).partition(".")[0] == "minigpt":
            return  # imported from this package, and not written
        function.__name__ = name
        function.__module__ = self.module.__name__
        try:
            function.__signature__ = _signature(described.get("parameters"))
        except (TypeError, ValueError):
            return
        setattr(self.module, name, function)

    def _forward(self, op, name):
        names = list(inspect.signature(getattr(reference, name)).parameters)

        def forward(*args, **constants):
            number = next(self._numbers)
            reply = self.child.request("forward", name=name, number=number, args=args, constants=constants)
            self._note(reply, "forward", names)
            kind = reply.get("kind")
            if kind == "handed on":
                return NotImplemented
            if kind == "no pair":
                return ""
            if kind != "pair":
                return None
            return _number_or_array(reply.get("out"), name), RemoteCache(self.child, number)

        return forward

    def _backward(self, op, name):
        def backward(dout, cache):
            reply = self.child.request("backward", name=name, number=cache.number, dout=dout)
            self._note(reply, "backward", [])
            gradients = reply.get("gradients")
            if isinstance(gradients, tuple):
                return tuple(_number_or_array(gradient, name) for gradient in gradients)
            return _number_or_array(gradients, name)

        return backward

    def _note(self, reply, way, names):
        """Remember what was written into, by the names of the parameters: "args.0" is the first one."""
        paths = reply.get("written")
        for path in paths if isinstance(paths, tuple) else ():
            place, _, rest = str(path)[:40].partition(".")
            if place == "args" and rest.isdigit() and int(rest) < len(names):
                self.written.add((way, names[int(rest)]))
            else:
                self.written.add((way, rest if place == "constants" else str(path)[:40]))


def _number_or_array(value, name):
    """The value, where it can be a gradient or an output. Raises RaisedElsewhere for anything else."""
    if value is None or value is ... or isinstance(value, (float, int, np.ndarray, np.generic)):
        return value
    raise RaisedElsewhere(f"{name} returned a {type(value).__name__} where an array is expected.")


def _signature(described):
    """The signature that the child described: a list of [name, kind, has a default, the default]."""
    parameters = []
    for name, kind, has_default, default in described:
        default = default if has_default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, inspect._ParameterKind(kind), default=default))
    return inspect.Signature(parameters)
