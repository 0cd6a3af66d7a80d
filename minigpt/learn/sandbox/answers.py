"""What a learner's process answers to each request. This file needs the standard library and NumPy only."""

import ast
import contextlib
import inspect
import itertools
import linecache
import sys
import textwrap
import types
from collections.abc import Callable

import numpy as np

REPORT = "__report"  # what a copy of a function calls after each assignment


class Answers:
    """Answers the requests of the judge. Each method takes what its request has, and returns its reply as a dict."""

    def __init__(self, wire, of_stream, said):
        self.wire = of_stream
        self.kinds = wire.KINDS
        self.split = wire.split
        self.said = said  # tells of an error in one line
        self.module = None
        self.caches = {}

    def ready(self):
        """Python and NumPy have started."""
        return {}

    def load(self, name, path, text):
        """Run a file; the reply describes its functions: where they come from, and their parameters."""
        self.module = types.ModuleType(name)
        self.module.__file__ = path
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        sys.modules.setdefault(name, self.module)  # dataclasses look for their module there
        exec(compile(text, path, "exec"), vars(self.module))
        functions = {}
        for name, value in list(vars(self.module).items()):
            if isinstance(name, str) and callable(value) and not isinstance(value, type):
                home = str(getattr(value, "__module__", None))
                with contextlib.suppress(TypeError, ValueError):
                    functions[name] = {"home": home, "parameters": parameters_of(value)}
        return {"functions": functions}

    def forward(self, name, number, args, constants):
        """Run a forward pass; its cache is kept under this number."""
        before = copies({"args": args, "constants": constants})
        with np.errstate(all="ignore"):
            result = getattr(self.module, name)(*args, **constants)
        written = changed(before)
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
        before = copies({"dout": dout, "cache": cache})
        with np.errstate(all="ignore"):
            gradients = getattr(self.module, name)(dout, cache)
        return {"gradients": gradients, "written": changed(before)}

    def look(self, number):
        """The arrays in the cache of this number."""
        found = {}
        for path, array in arrays_in(self.caches[number]).items():
            if getattr(getattr(array, "dtype", None), "kind", "O") in self.kinds:
                found[path] = array
        return {"arrays": found}

    def define(self, text):
        """Run text of the judge in the names of the file."""
        path = "given.py"
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        exec(compile(text, path, "exec"), vars(self.module))
        return {}

    def value(self, name):
        """The value of a name of the file, such as a constant."""
        return {"value": getattr(self.module, name)}

    def call(self, name, args, constants):
        """Call a function of the file; the reply has its value."""
        with np.errstate(all="ignore"):
            return {"value": getattr(self.module, name)(*args, **constants)}

    def lines(self, name, dout, values):
        """Run backward(dout, v) line by line; the reply has each assignment as (name, value), in their sequence.

        read: the names of the forward values that were read from v. stopped: why it did not come to its end, or "".
        returned: what it returned.
        """
        found = []

        def report(name, value):
            copy = self.as_sent(value)
            if copy is not None or value is None:
                found.append((name, copy))
            return value

        v = Values(values)
        function = getattr(self.module, name)
        call = reporting(definition_of(function), function)
        stopped, returned = "", None
        try:
            with np.errstate(all="ignore"):
                returned = call(report, dout, v)
        except BaseException as error:
            stopped = self.said(error)
        returned = self.as_sent(returned)
        return {"assigned": found, "read": list(v._read), "stopped": stopped, "returned": returned}

    def as_sent(self, value):
        """A copy of the value, as it arrives; None where it cannot be sent, such as a function."""
        try:
            data = self.wire.pack(value)
        except (TypeError, ValueError, RecursionError):
            return None
        return self.wire.unpack(*self.split(data))


class Values:
    """The values of a forward pass by name, `v.x_hat`. It notes which of them are read."""

    def __init__(self, values):
        self._values = values
        self._read = {}

    def __getattr__(self, name):
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"the forward pass has no value {name!r}; it has {', '.join(values)}")
        self._read[name] = values[name]
        return values[name]

    def __repr__(self):
        return f"Values({', '.join(self._values)})"


def parameters_of(function):
    """The parameters of a function: name, kind, and whether there is a default, with its value where it is simple."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        has_default = default is not parameter.empty
        simple = default if type(default) in (bool, int, float, str) else None
        found.append([parameter.name, int(parameter.kind), has_default, simple])
    return found


def copies(value):
    """Each array in a value with its copy, by its path."""
    return {path: (array, array.copy()) for path, array in arrays_in(value).items()}


def changed(pairs):
    """The paths of the arrays that no longer equal their copies."""
    return [path for path, (array, copy) in pairs.items() if array.tobytes() != copy.tobytes()]


def arrays_in(value):
    """The arrays in a value of dicts, tuples and lists, each once, by their paths."""
    found, seen, todo = {}, set(), [("", value)]
    while todo:
        path, one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (np.ndarray, np.generic)):
            found[path] = one
        elif isinstance(one, (tuple, list, dict)):
            named = one.items() if isinstance(one, dict) else zip(getattr(one, "_fields", itertools.count()), one)  # noqa: B905
            inner = [(f"{path}.{name}" if path else str(name), part) for name, part in named]
            todo += reversed(inner)
    return found


# --- a copy of a function that reports what each of its lines assigns ------------------------------------------------


def assigned(statement: ast.AST) -> list[str]:
    """The names that a statement assigns: `a = …`, `a, b = …`, `a += …`."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    else:
        return []
    names = []
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names += [part.id for part in parts if isinstance(part, ast.Name)]
    return names


def definition_of(function: Callable) -> ast.AST:
    """The syntax tree of a function, whose lines have their numbers in the file."""
    source, first = inspect.getsourcelines(function)
    (definition,) = ast.parse(textwrap.dedent("".join(source))).body
    ast.increment_lineno(definition, first - 1)
    return definition


def names_around(function: Callable) -> dict:
    """The names outside a function that its lines may use."""
    return function.__globals__ | inspect.getclosurevars(function).nonlocals


def reporting(definition: ast.FunctionDef, function: Callable) -> Callable:
    """call(report, *args, **constants) runs a copy of the function that calls report(name, value) at each assignment.

    What report returns becomes the value of the name. The definition itself is changed.
    """
    copy = _Reporting().visit(definition)
    copy.decorator_list = []
    code = compile(ast.fix_missing_locations(ast.Module([copy], [])), function.__code__.co_filename, "exec")
    around = names_around(function)

    def call(report, *args, **constants):
        names = around | {REPORT: report}
        exec(code, names)
        return names[definition.name](*args, **constants)

    return call


class _Reporting(ast.NodeTransformer):
    """Puts `name = __report("name", name)` after every assignment."""

    def _with_reports(self, statement):
        reports = []
        for name in assigned(statement):
            reported = ast.parse(f"{name} = {REPORT}({name!r}, {name})").body
            reports += [ast.copy_location(node, statement) for node in reported]
        return [statement, *reports]

    visit_Assign = _with_reports
    visit_AugAssign = _with_reports
