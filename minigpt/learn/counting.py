"""An array that counts kernel launches, a whole training step of them, and a GPU that does nothing: lessons 20 and 22.

x = rng.normal(size=(5, 7)).view(Counted)
(x * x).sum()
LAUNCHES                              # [Launch("multiply", 560, 35, 35), Launch("add", 288, 35, 1)]
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

import numpy as np
import numpy.ma  # noqa: F401  (looks at functions of NumPy by name: not while they are replaced)

from minigpt.models.gpt2 import GPT2, GPT2Config
from minigpt.nn import optim
from minigpt.ops.cuda import kernels, products

LAUNCH = 5e-6  # seconds that CUDA needs for one launch: our assumption. What Python does before it is not in it


class Launch(NamedTuple):
    """One operation that makes new numbers: on a GPU at least one kernel launch."""

    name: str
    nbytes: int  # read and written
    work: int  # additions, multiplications, and whatever else makes a number; exp counts as one
    size: int  # numbers made


LAUNCHES: list[Launch] = []


def launches_of(f: Callable) -> list[Launch]:
    """The launches that f() would make on a GPU, where each operation is one."""
    LAUNCHES.clear()
    f()
    return list(LAUNCHES)


def bare(x):
    """The same numbers in arrays that are not counted."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(bare, x))
    return x.view(np.ndarray) if isinstance(x, Counted) else x


def _launch(name, inputs, result, work):
    read = {id(x): x.nbytes for x in inputs if isinstance(x, np.ndarray)}  # x * x reads x once
    LAUNCHES.append(Launch(name, sum(read.values()) + np.asarray(result).nbytes, work, np.size(result)))
    return result.view(Counted) if isinstance(result, np.ndarray) else result


class Counted(np.ndarray):
    """A NumPy array whose operations are written into LAUNCHES. Views, such as a transpose, are free."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        if out:
            options["out"] = bare(out)
        result = getattr(ufunc, method)(*bare(inputs), **options)
        result = inputs[0] if result is None else result  # add.at works in place
        work = inputs[0].size if method == "reduce" else np.size(result)
        if ufunc is np.matmul:
            work = 2 * np.size(result) * inputs[0].shape[-1]
        made = _launch(ufunc.__name__, inputs, result, work)
        return out[0] if out else made

    def __array_function__(self, function, _, inputs, options):
        result, name = function(*bare(inputs), **options), function.__name__
        inputs = [x for x in (inputs[0] if isinstance(inputs[0], list) else inputs) if isinstance(x, np.ndarray)]
        if isinstance(result, list):  # np.split gives views
            return [x.view(Counted) for x in result]
        if not isinstance(result, np.ndarray):
            return result
        if name == "empty_like" or any(np.may_share_memory(result, x) for x in inputs):
            return result.view(Counted)
        read = {"zeros_like": [], "take": [result]}.get(name, inputs)
        return _launch(name, read, result, inputs[0].size if name == "mean" else 0)

    def mean(self, *args, **options):
        return np.mean(self, *args, **options)  # one launch, as in CuPy; NumPy's method is a sum and a division


def _perhaps_a_copy(name):
    """A method that gives sometimes a view and sometimes a copy."""

    def method(self, *args, **options):
        result = getattr(super(Counted, self), name)(*bare(args), **options)
        free = not isinstance(result, np.ndarray) or np.may_share_memory(result, self)
        return result if free else _launch(name, [result], result, 0)

    return method


for _name in "copy", "astype", "reshape", "__getitem__":
    setattr(Counted, _name, _perhaps_a_copy(_name))


class StepLaunches(NamedTuple):
    """How many launches each part of a training step makes."""

    forward: int
    backward: int
    clipping: int
    adamw: int


def launches_of_a_step(config: GPT2Config, batch: int, length: int, together: bool = False) -> StepLaunches:
    """Count the launches of one training step of a fresh GPT-2, with a batch of (batch, length) tokens.

    together: the library clips and updates in one call, and its launches count as those of AdamW.
    """
    model = GPT2(config, seed=0)
    for parameter in model.parameters():
        parameter.data = parameter.data.view(Counted)
    optimizer = optim.AdamW(model.named_parameters())
    ids = np.random.default_rng(1).integers(config.vocab_size, size=(batch, length)).view(Counted)
    LAUNCHES.clear()
    _, cache = model.loss(ids, ids)
    forward = len(LAUNCHES)
    model.loss_backward(cache)
    backward = len(LAUNCHES)
    if not together:
        optim.clip_by_global_norm(model.named_parameters(), None)
    clipping = len(LAUNCHES)
    optimizer.step(1e-3, 1.0 if together else None)
    return StepLaunches(forward, backward - forward, clipping - backward, len(LAUNCHES) - clipping)


class _Idle:
    """Takes a source as CuPy's compiler does. Its functions count their launches, and do nothing."""

    def __init__(self, source):
        self.source = source

    def get_function(self, name):
        return lambda grid, block, arguments: LAUNCHES.append(Launch(name, 0, 0, 0))


@contextlib.contextmanager
def a_gpu_that_does_nothing() -> Iterator[None]:
    """Inside, the library's CUDA kernels take NumPy arrays and are only counted: every number they make is 0."""

    def empty(*args, make=np.zeros, **options):
        return make(*bare(args), **options).view(Counted)

    def zeros(*args, make=np.zeros, **options):
        return _launch("zeros", [], make(*args, **options), 0)

    def ascontiguousarray(x):
        return x.view(Counted) if x.flags.c_contiguous else x.view(Counted).copy()

    numpys = {"empty": empty, "zeros": zeros, "ascontiguousarray": ascontiguousarray}
    numpys["empty_like"] = functools.partial(empty, make=np.zeros_like)
    kernels._compiled.cache_clear()
    try:
        with (
            mock.patch.multiple(kernels, ARRAY=np.ndarray, compile=_Idle, address=lambda array: 0),
            mock.patch.object(products, "by_cublaslt", False),
            mock.patch.multiple(np, **numpys),  # type: ignore[call-overload]
        ):
            yield
    finally:
        kernels._compiled.cache_clear()
