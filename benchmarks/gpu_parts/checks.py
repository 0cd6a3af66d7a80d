"""Is every kernel right? The tests that need a GPU, compute-sanitizer, and NCCL."""

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import machine

from gpu_parts.bench import NO_DROPOUT, Bench, Skipped, products_in
from minigpt import ops
from minigpt.device import gpu
from minigpt.models.gpt2 import GPT2
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key

# Every file with a test that needs a GPU. They are named so that pytest need not read all the others.
KERNELS = ("tests/test_gpu.py", "tests/test_cublaslt.py")  # a test that fails here says which kernel is wrong
REFERENCE = ("tests/test_reference.py",)
LADDER = ("tests/test_cuda_ladder.py",)
OTHERS = (
    "tests/test_devices.py", "tests/test_generation.py", "tests/test_gpt1.py", "tests/test_lstm.py",
    "tests/test_refusals.py", "tests/test_strict_cupy.py",
)  # fmt: skip
WORKERS = 8  # processes that share tests and one GPU
HANGS = 40  # seconds that no test takes
CUDA = "/usr/local/cuda/bin"  # where its tools lie, also where the search path does not lead to them


def kernel_tests(bench: Bench) -> None:
    """The tests of kernels and products."""
    _pytest(bench, "tests", KERNELS, played="every_kernel and gelu and float32")


def reference_tests(bench: Bench) -> None:
    """The reference, with arrays of CuPy."""
    _pytest(bench, "reference", REFERENCE, played="known_gelu")


def ladder_tests(bench: Bench) -> None:
    """The kernels to learn CUDA from."""
    _pytest(bench, "rungs", LADDER, played="product_1")


def other_tests(bench: Bench) -> None:
    """All that is left."""
    _pytest(bench, "rest", OTHERS, played="takes_it_for_a_gpu")


def _pytest(bench: Bench, name: str, files: tuple[str, ...], played: str) -> None:
    """Run the tests of some files that are marked `gpu`, several at a time where pytest-xdist is installed.

    played: on a processor, words in the names of a few tests that play kernels. Raises AssertionError where one fails.
    """
    selected = ["-m", "gpu"] if bench.on_gpu else ["-m", "not gpu and not parity", "-k", played]
    command = [sys.executable, "-m", "pytest", *files, *selected, "-q", "--tb=short", "--no-summary", "--maxfail=25"]
    command += ["-p", "no:cacheprovider", "-p", "benchmarks.gpu_parts.at_once"]
    command += ["-o", f"faulthandler_timeout={HANGS}"]  # where a test waits for ever its place is printed
    with contextlib.suppress(ImportError):
        import xdist  # noqa: F401

        command += ["-n", str(1 if bench.quick else WORKERS)]
    row = {}
    with started(command) as process:
        for line in process.stdout:
            if not line.startswith("so far: "):
                print(line, end="", flush=True)
                continue
            row = {outcome: int(n) for n, outcome in re.findall(r"(\d+) (\w+)", line)}
            bench.note(name, **row)
    assert process.returncode == 0 and row.get("passed"), f"{name}: not every test passed"


def started(command: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen:
    """A command in the repository's root; what it prints can be read line by line."""
    return subprocess.Popen(
        command, cwd=machine.ROOT, env=environment, text=True, errors="replace", stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip


# --- compute-sanitizer ------------------------------------------------------------------------------------------------


def memcheck(bench: Bench) -> None:
    """Does a kernel read or write outside its arrays?"""
    _sanitizer(bench, "memcheck", "--leak-check", "no")


def racecheck(bench: Bench) -> None:
    """Do threads meet in shared memory without a barrier between them?"""
    _sanitizer(bench, "racecheck")


def synccheck(bench: Bench) -> None:
    """Do all threads of a block meet every barrier?"""
    _sanitizer(bench, "synccheck")


def _sanitizer(bench: Bench, tool: str, *options: str) -> None:
    """One of its tools on a small training. Where there is no compute-sanitizer the training alone is run."""
    program = found_tool("compute-sanitizer")
    if not program:
        every_kernel(bench)
        raise Skipped("there is no compute-sanitizer here: every kernel ran without it")
    command = [program, "--tool", tool, *options, "--print-limit", "20"]
    command += [sys.executable, str(machine.ROOT / "benchmarks" / "gpu.py")]
    command += ["--device", bench.device, "--work", "checks.every_kernel", *(["--quick"] if bench.quick else [])]
    errors = None
    with started(command) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            found = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", line)
            errors = int(found[1]) if found else errors
    assert errors is not None, f"{tool}: no answer: it does not work on this machine, as on some virtual ones"
    bench.note(tool, errors=errors)
    assert process.returncode == 0 and errors == 0, f"{tool}: {errors} errors, exit status {process.returncode}"


def found_tool(name: str) -> str | None:
    """Where a tool of CUDA is; None where there is none."""
    return shutil.which(name) or shutil.which(name, path=CUDA)


@contextlib.contextmanager
def plain_allocations(bench: Bench) -> Iterator[None]:
    """Inside, every array is an allocation of its own.

    CuPy's pool gives out pieces of larger blocks: memcheck would not see an access beyond an array, but inside its
    block, nor one to an array that is gone.
    """
    if not bench.on_gpu:
        yield
        return
    pool = gpu.cupy.get_default_memory_pool()
    gpu.cupy.cuda.set_allocator(None)
    try:
        yield
    finally:
        gpu.cupy.cuda.set_allocator(pool.malloc)


def every_kernel(bench: Bench) -> None:
    """Every kernel once or twice, small, in each precision."""
    with plain_allocations(bench):
        for precision in bench.precisions:
            bench.note(f"every kernel: a model in {precision}", loss=float(launch_all(bench, precision)))
        bench.wait()


def launch_all(bench: Bench, precision: str):
    """Two steps of a model with dropout, attention in heads of four sizes, GELU by itself. Returns the last loss."""
    with products_in(precision):
        loss = _train(bench, precision)
        dtype = "bfloat16" if precision == "bfloat16" else "float32"
        for size in (16, 64, 80, 128):
            qkv = bench.normal(2, 130, 3 * size, dtype=dtype)
            out, cache = ops.self_attention_forward(qkv, 1)
            ops.self_attention_backward(out, cache)
        x = bench.normal(9, 132, dtype=dtype)
        _, cache = ops.gelu_forward(x)
        ops.gelu_backward(x, cache)
    return loss


def _train(bench: Bench, precision: str):
    """The loss of the second of two steps."""
    sizes = {"vocab_size": 301, "n_layer": 1, "n_head": 2, "n_embd": 128, "n_positions": 150}
    config = GPT2.Config(**sizes | dict.fromkeys(NO_DROPOUT, 0.1))
    model = bench.model(config, precision)
    optimizer = AdamW(model.named_parameters())
    ids, targets = bench.texts(2, config)
    for step in range(2):
        model.zero_grad()
        loss, cache = model.loss(ids, targets, key=Key.of(0, step))
        model.loss_backward(cache)
        optimizer.step(1e-3, 1.0)
    return loss


# --- NCCL -------------------------------------------------------------------------------------------------------------


def nccl(bench: Bench) -> None:
    """Sums over one process by NCCL, in place, on a second stream as in training: the library is found, and works."""
    if not bench.on_gpu:
        raise Skipped("NCCL needs a GPU")
    from cupy.cuda import nccl as library

    assert library.available, "CuPy finds no NCCL: pip install nvidia-nccl-cu12 (or nvidia-nccl-cu13)"
    all_reduce = gpu.nccl(1, 0, lambda value: value)
    stream = gpu.second_stream()
    given = [bench.normal(1000, 1000), bench.normal(3)]
    gradients = [2 * array for array in given]
    with gpu.on_stream(stream):
        all_reduce(gradients)
    gpu.wait_for(stream)
    right = all(bool((total == 2 * array).all()) for total, array in zip(gradients, given, strict=True))
    bench.note("nccl: one process", version=library.get_version(), right=right)
    assert right, "the sum over one process is not the array itself"
