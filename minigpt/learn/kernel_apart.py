"""Kernels of a learner in a process of their own: machine code that ends, hangs or damages it harms no judge.

    with kernel_apart.launches(seconds=60):
        kernel.run(SOURCE, "rmsnorm", …)        # runs in another process, and its numbers come back

What comes back is numbers only, and the judge compares them. The process may read files and use the network, as any
program of the same user may: against that it is no protection.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from minigpt.errors import InputError
from minigpt.learn import kernel
from minigpt.learn.sandbox import wire

POSIX = os.name == "posix"


@contextlib.contextmanager
def launches(seconds: float) -> Iterator[None]:
    """Inside, `kernel.run` launches in another process, which has so many seconds for each launch.

    Raises InputError where that process fails or gives no numbers, and what `kernel.run` raises.
    """

    def run(source, name, grid, block, *arguments):
        answer = _answer((source, name, grid, block, arguments), seconds)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InputError("the process of the kernel gave no numbers")
        kind, found = answer
        if kind != "numbers":
            raise (AssertionError if kind == "assertion" else InputError)(" ".join(str(found).split())[:500])
        for given, one in zip(arguments, found, strict=True):
            if isinstance(given, np.ndarray):
                if not isinstance(one, np.ndarray) or (one.dtype, one.shape) != (given.dtype, given.shape):
                    raise InputError("the process of the kernel gave other arrays than it was given")
                given[...] = one

    original, kernel.run = kernel.run, run
    try:
        yield
    finally:
        kernel.run = original


def _answer(message: tuple, seconds: float):
    """What the process answers. Raises InputError where it ends without an answer, or has not ended in time."""
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))}
    process = subprocess.Popen(
        [sys.executable, "-m", "minigpt.learn.kernel_apart"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment, start_new_session=POSIX,
    )  # fmt: skip
    try:
        said, _ = process.communicate(wire.Wire().pack(message), timeout=seconds)
        return wire.Wire().unpack(*wire.split(said))
    except subprocess.TimeoutExpired:
        raise InputError(f"the kernel has not ended after {seconds:g} s: is there a loop without an end?") from None
    except Exception as error:  # nothing, or what is no message
        raise InputError(f"the process of the kernel ended without numbers (status {process.poll()})") from error
    finally:
        _end(process)


def _end(process: subprocess.Popen) -> None:
    """End the process and, on POSIX, all that it started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL) if POSIX else process.kill()
    process.wait()


def main() -> None:
    """Launch the kernel of one message, and write what its arrays hold then."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what the kernel prints is no answer
    source, name, grid, block, arguments = wire.Wire().unpack(*wire.split(sys.stdin.buffer.read()))
    try:
        kernel.run(source, name, grid, block, *arguments)
        answer = ("numbers", arguments)
    except AssertionError as error:
        answer = ("assertion", str(error))
    except Exception as error:
        answer = ("error", str(error))
    with os.fdopen(replies, "wb") as stream:
        stream.write(wire.Wire().pack(answer))


if __name__ == "__main__":
    main()
