"""The process in which a learner's file runs: it answers calls, and knows neither cases nor verdicts.

`python -m minigpt.learn.child` is started by `minigpt.learn.process`. It reads requests from its standard input and
writes replies to its standard output; before the file is run, both are moved away, so that what the file prints goes to
the error stream. A reply bears the number of its request. Caches stay here, and are named by numbers.
"""

import inspect
import os
import sys
import types

import numpy as np

from minigpt.gradcheck.evidence import leaves
from minigpt.gradcheck.judge import describe
from minigpt.learn import wire

WAYS = ("_forward", "_backward")


class Answers:
    """Answers the requests of the judge. Each method takes what its request has, and returns its reply as a dict."""

    def __init__(self):
        self.module = None
        self.caches = {}

    def ready(self):
        """Python and NumPy have started."""
        return {}

    def load(self, name, path, text):
        """Run a file; the reply says which passes it has, with their parameters."""
        self.module = types.ModuleType(name)
        self.module.__file__ = path
        sys.modules.setdefault(name, self.module)  # dataclasses look for their module there
        exec(compile(text, path, "exec"), vars(self.module))
        passes = {}
        for name, value in vars(self.module).items():
            if name.endswith(WAYS) and callable(value):
                home = getattr(value, "__module__", None)
                passes[name] = {"home": home, "parameters": _parameters(value)}
        return {"passes": passes}

    def forward(self, name, number, args, constants):
        """Run a forward pass; its cache is kept under this number."""
        before = _copies({"args": args, "constants": constants})
        with np.errstate(all="ignore"):
            result = getattr(self.module, name)(*args, **constants)
        written = _changed(before)
        if result is NotImplemented:
            return {"kind": "handed on", "written": written}
        if result is None or isinstance(result, tuple) and len(result) != 2:
            return {"kind": "nothing", "written": written}
        if not isinstance(result, tuple):
            return {"kind": "no pair", "written": written}
        out, cache = result
        if out is None or out is ... or cache is ...:
            return {"kind": "nothing", "written": written}
        self.caches[number] = cache
        return {"kind": "pair", "out": out, "written": written}

    def backward(self, name, number, dout):
        """Run a backward pass on the cache of this number."""
        cache = self.caches[number]
        before = _copies({"dout": dout, "cache": cache})
        with np.errstate(all="ignore"):
            gradients = getattr(self.module, name)(dout, cache)
        return {"gradients": gradients, "written": _changed(before)}

    def look(self, number):
        """The arrays in the cache of this number."""
        found = {}
        for path, array in leaves(self.caches[number]).items():
            if getattr(array, "dtype", np.dtype("O")).kind in wire.KINDS:
                found[path] = array
        return {"arrays": found}


def _parameters(function):
    """The parameters of a function: name, kind, and whether there is a default, with its value where it is simple."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        has_default = default is not parameter.empty
        simple = default if isinstance(default, (bool, int, float, str)) else None
        found.append([parameter.name, int(parameter.kind), has_default, simple])
    return found


def _copies(value):
    return {path: (array, array.copy()) for path, array in leaves(value).items()}


def _changed(copies):
    """The paths of the arrays that no longer equal their copies."""
    return [path for path, (array, copy) in copies.items() if array.tobytes() != copy.tobytes()]


def _raised(error):
    """The reply where the file raised an error: a line `x = ...` that is not filled in is a gap."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    stub = isinstance(error, NotImplementedError)
    gap = isinstance(error, (TypeError, AttributeError)) and "ellipsis" in text
    return {"kind": "raised", "gap": stub or gap, "says": describe(error)}


def main() -> None:
    """Answer until the judge closes the stream of requests."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    answers = Answers()
    while True:
        try:
            number, what, given, dropped = wire.receive(requests)
        except EOFError:
            os._exit(0)
        for one in dropped:
            answers.caches.pop(one, None)
        try:
            reply = getattr(answers, what)(**given)
        except BaseException as error:  # SystemExit too: the learner's code ends nothing but its own call
            reply = _raised(error)
        try:
            wire.send(replies, (number, reply))
        except (TypeError, ValueError, RecursionError) as error:
            wire.send(replies, (number, {"kind": "raised", "gap": False, "says": f"It returns {error}."}))


if __name__ == "__main__":
    sys.modules["minigpt.learn.child"] = sys.modules["__main__"]
    main()
