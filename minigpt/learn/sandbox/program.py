"""The program of a learner's process: it answers calls, and has neither minigpt nor cases nor verdicts.

`python -I -S -B program.py SETTINGS` is started by `minigpt.learn.sandbox.process`. It reads requests from its standard
input and writes replies to its standard output; before the file is run, both are moved away, so that what the file
prints goes to the error stream. A reply bears the number of its request. Caches stay here, and are named by numbers.

An operation that the file calls from `minigpt.ops` is borrowed: the call goes to the judge in the middle of the
request, and the judge answers with numbers. The standard library and NumPy are all that is needed here.
"""

import contextlib
import importlib.util
import json
import os
import sys


def part(name, path):
    """A file beside this one, as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Stream:
    """Messages from the judge and to it, and calls of borrowed operations in the middle of a request."""

    def __init__(self, wire_module, requests, replies):
        self.wire = wire_module.Wire()
        self.lengths = wire_module.lengths
        self.head = wire_module.LENGTHS.size
        self.requests = requests
        self.replies = replies

    def send(self, message):
        self.replies.write(self.wire.pack(message))
        self.replies.flush()

    def receive(self):
        n_text, n_numbers = self.lengths(self._exactly(self.head))
        text = self._exactly(n_text)
        return self.wire.unpack(text, self._exactly(n_numbers))

    def _exactly(self, n):
        found = self.requests.read(n)
        if len(found) < n:
            os._exit(0)  # the judge has closed the stream of requests
        return found

    def borrow(self, name, args, constants):
        """What the judge computes."""
        self.send(("borrow", name, args, constants))
        kind, answer = self.receive()
        if kind == "refused":
            error, message = answer
            raise TypeError(message) if error == "TypeError" else ValueError(message)
        return answer


# --- one answer after the other --------------------------------------------------------------------------------------


def streams():
    """The streams of requests and replies, after both were moved away from the numbers 0 and 1."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return requests, replies


def limit(limits):
    """Set the limits of resources, by their names in the module resource; never above those that there are."""
    try:
        import resource
    except ImportError:  # Windows: the judge sets them from outside
        return
    for name, value in limits.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            _, hard = resource.getrlimit(kind)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            with contextlib.suppress(ValueError, OSError):  # some systems know a limit, and do not set it
                resource.setrlimit(kind, (value, value))


def raised(error, said):
    """The reply where the file raised an error: a line `x = ...` that is not filled in is a gap."""
    says = said(error)[:1000]
    stub = isinstance(error, NotImplementedError)
    gap = isinstance(error, (TypeError, AttributeError)) and "'ellipsis'" in says
    if isinstance(error, ModuleNotFoundError):
        says += ": your file runs with Python's standard library and NumPy alone"
    return {"kind": "raised", "gap": stub or gap, "says": says}


def answer(stream, answers, said):
    """Answer one request."""
    number, what, given, dropped = stream.receive()
    for one in dropped:
        answers.caches.pop(one, None)
    try:
        reply = getattr(answers, what)(**given)
    except BaseException as error:  # SystemExit too: the learner's code ends nothing but its own call
        reply = raised(error, said)
    for printed in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            printed.flush()
    try:
        stream.send(("reply", number, reply))
    except (TypeError, ValueError, RecursionError) as error:
        stream.send(("reply", number, {"kind": "raised", "gap": False, "says": f"It returns {error}."}))


def main():
    """Set everything up, and answer until the judge closes the stream of requests."""
    settings = json.loads(sys.argv[1])
    requests, replies = streams()
    limit(settings["limits"])
    parts = settings["parts"]
    stand_in = part("stand_in", parts["stand_in"])
    sys.meta_path.append(stand_in.Finder(settings["numpy"]))
    wire = part("wire", parts["wire"])
    modules = {name: part(name, path) for name, path in parts.items() if name not in ("wire", "stand_in")}
    stream = Stream(wire, requests, replies)
    stand_in.put_in_place(settings["operations"], settings["constants"], wire, stream.borrow)
    hidden = tuple(settings["nobodys"])

    def said(error):
        return modules["raised"].described(error, hidden)

    answers = modules["answers"].Answers(wire, stream.wire, said)
    modules.pop("fence").install(os.getcwd(), [*settings["readable"], *sys.path], settings["hidden"])
    while True:
        answer(stream, answers, said)


if __name__ == "__main__":
    main()
