"""CUDA graphs where there is no GPU: what `Recorded` uses of CuPy, played by strict_cupy's tape and a small memory."""

import contextlib
from types import SimpleNamespace

import strict_cupy


class OutOfMemoryError(MemoryError):
    """CuPy's error is no RuntimeError."""

    __module__ = "cupy.cuda.memory"


class Graph:
    """What was recorded."""

    launches = 0

    def __init__(self, tape: list):
        self.tape = tape

    def launch(self) -> None:
        """Compute all of it again."""
        self.launches += 1
        strict_cupy.repeat(self.tape)


class Stream:
    """Records what computes between `begin_capture` and `end_capture`."""

    def __init__(self, non_blocking: bool = False):
        self.non_blocking = non_blocking

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self) -> None:
        assert strict_cupy.tape is None, "nothing can be waited for while a graph is recorded"

    def begin_capture(self) -> None:
        assert self.non_blocking, "another stream cannot be recorded"
        strict_cupy.tape = []

    def end_capture(self) -> Graph:
        recorded, strict_cupy.tape = strict_cupy.tape, None
        return Graph(recorded)


class Pool:
    """A private memory pool. `alive` counts those that still hold their memory."""

    alive = 0

    def __init__(self):
        Pool.alive += 1

    def malloc(self, size: int) -> None:
        """Named, and never called: the arrays here are NumPy's."""

    def __del__(self):
        Pool.alive -= 1


def install(put, **more) -> None:
    """Let the stand-in for CuPy record graphs. put(owner, name, value) sets an attribute. more: names of cupy.cuda."""
    names = {
        "runtime": strict_cupy.runtime,
        "Stream": Stream,
        "MemoryPool": Pool,
        "using_allocator": lambda malloc: contextlib.nullcontext(),
        "get_current_stream": Stream,
    }
    put(strict_cupy.cupy, "cuda", SimpleNamespace(**names | more))
    put(strict_cupy, "tape", None)
