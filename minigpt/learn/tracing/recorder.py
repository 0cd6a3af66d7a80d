"""Watching one training step: a recorder is an override of every operation, which calls what would have run anyway.

Composites call primitives through the table, so the calls inside them are seen too. For as long as a trace lasts, the
modules of the model tell whose forward or backward is running, and `ops.add` is watched, which is no pair.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.learn.tracing.rows import BACKWARD, FORWARD, Row, Tensor, Trace
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Module
from minigpt.ops import reference, shapes

IMPLEMENTATIONS = ("reference", "fast")


def trace(
    model: LanguageModel,
    inputs: dict[str, Any],
    implementation: str = "reference",
    keep: int | None = None,
    runs: int = 1,
) -> Trace:
    """Run model.loss(**inputs) and its backward pass, and note every operation. The gradients stay in the model.

    Of a body without a head for words it is model.hidden(**inputs), which has no loss and nothing to go back from.
    implementation: "reference" shows composites and the primitives inside them; "fast" composites alone. keep: the
    number of a row whose arrays are wanted. runs: of the same step; each row has the shortest time that it took,
    because a first run is slower, and other programs get in between. Raises InputError for another implementation.
    """
    if implementation not in IMPLEMENTATIONS:
        raise InputError(f"--implementation {implementation}: choose {', '.join(IMPLEMENTATIONS)}")
    recorder = Recorder(model, implementation, keep)
    others = []
    with recorder.watching():
        for _ in range(runs):
            others.append(recorder.rows)
            recorder.begin()
            model.zero_grad()
            loss, ledger, parameter_paths = _step(model, inputs, recorder)
    take_shortest(recorder.rows, others[1:])
    return Trace(model, loss, recorder.rows, ledger, parameter_paths, recorder.kept)


def _step(
    model: LanguageModel, inputs: dict[str, Any], recorder: "Recorder"
) -> tuple[float | None, dict[str, int], set[str]]:
    """One pass; returns its loss, the ledger of its cache, and those of its lines that are parameters."""
    if not model.tells_words:
        _, cache = model.hidden(**inputs)
        return None, *recorder.settle(cache)
    loss, cache = model.loss(**inputs)
    settled = recorder.settle(cache)
    model.loss_backward(cache)
    return float(loss), *settled


def take_shortest(rows: list[Row], others: list[list[Row]]) -> None:
    """Give each row the shortest time that it took, here or in other runs of the same step."""
    for row, *same in zip(rows, *others, strict=True):
        row.seconds = min(one.seconds for one in (row, *same))
        row.own_seconds = min(one.own_seconds for one in (row, *same))


class Recorder:
    """An override with a forward and a backward for every operation. rows: what was called so far.

    kept: the arrays of the row number `keep`, copied, by their names.
    """

    def __init__(self, model: LanguageModel, implementation: str, keep: int | None = None):
        self._model = model
        self._implementation = implementation
        self._keep = keep
        self._parameters = _arrays_of_parameters(model)
        self.begin()
        for op in ops.names:
            setattr(self, f"{op}_forward", functools.partial(self._forward, op))
            setattr(self, f"{op}_backward", functools.partial(self._backward, op))

    def begin(self) -> None:
        """Forget what was called before: a step begins."""
        self.rows: list[Row] = []
        self.kept: dict[str, Array] = {}
        self._modules = [""]  # whose method is running, the innermost last
        self._open: list[Row] = []  # calls that have not ended
        self._ended: list[Row] = []
        self._count = 0
        self._way = FORWARD
        self._forwards: dict[int, tuple[Row, Any]] = {}  # id of a cache -> the row that made it, and the cache
        self._overhead = 0.0  # seconds that the trace itself has taken

    # ------------------------------------------------------------------------------------------------------- attaching

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, every operation and every module of the model reports here."""
        add = ops.add
        watched = _modules_of(self._model)
        try:
            for path, module in watched:
                self._watch(path, module)
            ops.add = functools.partial(self._add, add)
            with ops.using(self, self._implementation):
                yield
        finally:
            ops.add = add
            for _, module in watched:
                for method in _methods_of(module):
                    vars(module).pop(method, None)

    def _watch(self, path: str, module: Module) -> None:
        for name in _methods_of(module):
            method = getattr(module, name)
            setattr(module, name, functools.partial(self._inside, path, method))

    def _inside(self, path: str, method: Callable, *args, **options) -> Any:
        self._modules.append(path)
        try:
            return method(*args, **options)
        finally:
            self._modules.pop()

    # --------------------------------------------------------------------------------------------------------- calling

    def _forward(self, op: str, *args, **constants) -> tuple[Array, Any]:
        began = perf_counter()
        pair = getattr(reference, f"{op}_forward")
        row = self._open_row(op, FORWARD)
        (out, cache), seconds = self._run(row, self._underneath(f"{op}_forward"), args, constants)
        _, (tensor,) = shapes.of(pair)
        self._describe(row, _given(pair, args, constants), {tensor.name: out})
        if cache is not None:
            row.cache_bytes = ops.nbytes(cache)
            self._forwards[id(cache)] = row, cache
        self._overhead += perf_counter() - began - seconds
        return out, cache

    def _backward(self, op: str, dout: Array, cache: Any) -> Any:
        began = perf_counter()
        made_by, _ = self._forwards.pop(id(cache))
        row = self._open_row(op, BACKWARD, made_by)
        gradients, seconds = self._run(row, self._underneath(f"{op}_backward"), (dout, cache), {})
        (incoming, *_), outgoing = shapes.of(getattr(reference, f"{op}_backward"))
        values = gradients if len(outgoing) > 1 else (gradients,)
        named = {tensor.name: value for tensor, value in zip(outgoing, values, strict=True)}
        self._describe(row, {incoming.name: dout}, named)
        self._overhead += perf_counter() - began - seconds
        return gradients

    def _add(self, add: Callable, x: Array, y: Array) -> Array:
        began = perf_counter()
        row = self._open_row("add", self._way)
        out, seconds = self._run(row, add, (x, y), {})
        self._describe(row, {"x": x, "y": y}, {"out": out})
        self._overhead += perf_counter() - began - seconds
        return out

    def _open_row(self, op: str, way: str, made_by: Row | None = None) -> Row:
        """A new row; that of a backward call has the number of the forward call that made its cache."""
        if made_by is None:
            self._count += 1
        number = self._count if made_by is None else made_by.number
        row = Row(number, way, len(self._open), self._modules[-1], op)
        if made_by is not None:
            row.implementation = made_by.implementation
        self.rows.append(row)
        return row

    def _underneath(self, function: str) -> Callable:
        """What computes this half of a pair: "linear_forward". Through the table it would end here again."""
        if self._implementation == "reference":
            return getattr(reference, function)
        return getattr(ops, function)

    def _run(self, row: Row, call: Callable, args: tuple, constants: dict) -> tuple[Any, float]:
        """Call it; returns what it returns, and the seconds until then, in which the trace may have run too."""
        self._open.append(row)
        with contextlib.ExitStack() as stack:
            calls = []
            if self._implementation != "reference":
                stack.enter_context(ops.using(self._implementation))
                calls = stack.enter_context(ops.tracing())
            before = self._overhead
            start = perf_counter()
            result = call(*args, **constants)
            seconds = perf_counter() - start
        self._open.pop()
        self._ended.append(row)
        row.seconds = seconds - (self._overhead - before)
        row.own_seconds += row.seconds
        if self._open:
            self._open[-1].own_seconds -= row.seconds
        if calls:
            row.implementation = calls[-1].implementation
        return result, seconds

    # ------------------------------------------------------------------------------------------------------ describing

    def _describe(self, row: Row, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        row.inputs = self._tensors(inputs)
        row.outputs = self._tensors(outputs)
        if row.number == self._keep:
            for name, value in (inputs | outputs).items():
                if value is not None:
                    self.kept[name] = np.array(value)  # a gradient may be added to later, in place

    def _tensors(self, named: dict[str, Any]) -> tuple[Tensor, ...]:
        found = []
        for name, value in named.items():
            if value is not None:
                found.append(Tensor.of(name, value, self._parameter(value)))
        return tuple(found)

    def _parameter(self, value: Any) -> str | None:
        """The parameter that an array is, or a view of."""
        own = self._parameters.get(id(value))
        return own or self._parameters.get(id(getattr(value, "base", None)))

    def settle(self, cache: Any) -> tuple[dict[str, int], set[str]]:
        """At the end of the forward pass: give every row the bytes that it keeps, and turn to the backward.

        Returns the ledger of the model's cache, and those of its lines that are parameters.
        """
        ledger = ops.arrays(cache)
        parameter_paths = {path for path, array in ledger.items() if self._parameter(array)}
        unclaimed = {id(array): array.nbytes for path, array in ledger.items() if path not in parameter_paths}
        kept_by = {row.number: one for row, one in self._forwards.values()}
        inside: dict[int, int] = {}  # depth -> bytes of the rows at this depth whose composite has not come yet
        for row in self._ended:
            arrays = ops.arrays(kept_by.get(row.number)).values()
            own = sum(unclaimed.pop(id(array), 0) for array in arrays)
            row.kept_bytes = own + inside.pop(row.depth + 1, 0)
            inside[row.depth] = inside.get(row.depth, 0) + row.kept_bytes
        self._way = BACKWARD
        return {path: array.nbytes for path, array in ledger.items()}, parameter_paths


def _arrays_of_parameters(model: LanguageModel) -> dict[int, str]:
    """The id of each parameter's array, and of the array that this is a view of -> the parameter's name."""
    found = {}
    for name, parameter in model.named_parameters():
        for array in (parameter.value, parameter.value.base):
            if array is not None:
                found.setdefault(id(array), name)
    return found


def _modules_of(model: LanguageModel) -> list[tuple[str, Module]]:
    """Every module with its path, as `named_parameters` has it; one that has two places comes once, with the first."""
    found: dict[int, tuple[str, Module]] = {}

    def walk(module: Module, path: str) -> None:
        if id(module) in found:
            return
        found[id(module)] = path, module
        for name, value in vars(module).items():
            below = f"{path}.{name}" if path else name
            if isinstance(value, Module):
                walk(value, below)
            elif isinstance(value, list):
                for i, one in enumerate(value):
                    if isinstance(one, Module):
                        walk(one, f"{below}.{i}")

    walk(model, "")
    return list(found.values())


def _methods_of(module: Module) -> list[str]:
    """The public methods that its class has beside those of every module: forward, backward, hidden, ..."""
    names = [name for name in dir(type(module)) if not name.startswith("_") and not hasattr(Module, name)]
    return [name for name in names if inspect.isfunction(inspect.getattr_static(type(module), name))]


def _given(function: Callable, args: tuple, constants: dict[str, Any]) -> dict[str, Array]:
    """The arrays among the arguments of a call, by the names that the function has for them."""
    bound = inspect.signature(function).bind(*args, **constants).arguments
    return {name: value for name, value in bound.items() if hasattr(value, "shape")}
