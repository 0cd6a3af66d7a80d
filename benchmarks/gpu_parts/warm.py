"""Every kernel is compiled once, several at a time. CuPy keeps what it has compiled on disk, for all later parts.

A process that meets an empty folder compiles for a minute before it computes: under compute-sanitizer, and within the
limit of a part, there is no such minute.
"""

import functools
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent import futures

import kernel_variants

from gpu_parts import checks, plan, record
from gpu_parts.bench import Bench
from minigpt.device import gpu
from minigpt.ops.cuda import kernels, ladder

MOST = 12  # processes: each holds some memory of the GPU
SLOW = 50  # seconds in which every source should be compiled


def warm(bench: Bench) -> None:
    """Compile ours, then run every kernel, for which CuPy compiles its own. Raises where one of ours cannot be."""
    wrong = []
    with processes() as pool:
        sources = pool.submit(every_source, gpu.tensor_cores() if bench.on_gpu else True).result()
        if bench.on_gpu:
            began = time.monotonic()
            wrong = compiled(sources, compile_one, pool)
            bench.note("warm: sources compiled", sources=len(sources), **{"in seconds": time.monotonic() - began})
        else:
            print(f"{len(sources)} sources: there is no GPU to compile them for")
    checks.every_kernel(bench)
    if bench.on_gpu:
        record.note_compiled(*plan.chosen([plan.WARM], None))
    assert not wrong, f"not compiled: {', '.join(wrong)}"


def processes() -> futures.ProcessPoolExecutor:
    """Some that begin with nothing. To find the sources, one of them lets the operations take arrays of NumPy: the
    process that computes on the GPU must not see that.
    """
    return futures.ProcessPoolExecutor(min(MOST, os.cpu_count() or 1), multiprocessing.get_context("spawn"))


def every_source(tensor_cores: bool) -> dict[str, str]:
    """{name: text} of what GPT-2 small launches, of what `checks.every_kernel` does, and of the ladder.

    tensor_cores: does this GPU have them for bfloat16 and tf32?
    """
    bench = Bench("cpu", True, [2])
    precisions = ("float32", "tf32", "bfloat16") if tensor_cores else ("float32",)
    launches = kernel_variants.launches("sm_80" if tensor_cores else "sm_75")
    for precision in precisions:
        launch_all = functools.partial(checks.launch_all, bench, precision)
        launches += kernel_variants.launches_of(launch_all, tensor_cores)
    sources = {str(launch.variant): launch.variant.source for launch in launches}
    for name, rung in ladder.RUNGS.items():
        if rung.dtype in precisions:
            sources[name] = ladder.source(name, **({"HEAD": 64} if rung.job == "attention" else {}))
    return sources


def compiled(sources: dict[str, str], function: Callable[[str], object], pool: futures.Executor) -> list[str]:
    """Call the function with each text, in several processes. Returns the names of those for which it raises.

    Those that take long are named, and waited for: at the limit of the part everything ends.
    """
    wrong = []
    waiting = {pool.submit(function, text): name for name, text in sources.items()}
    ended, slow = futures.wait(waiting, SLOW)
    for future in slow:
        print(f"not compiled after {SLOW} s: {waiting[future]}", flush=True)
    for future in (*ended, *futures.as_completed(slow)):
        problem = future.exception()
        if problem:
            print(f"FAILED {waiting[future]}: {type(problem).__name__}: {problem}", flush=True)
            wrong.append(waiting[future])
    return wrong


def compile_one(text: str) -> None:
    """As the library does it: the module is kept on disk. CuPy compiles when the first kernel of it is asked for."""
    kernels.compile(text).get_function(next(iter(kernels.parameters(text))))
