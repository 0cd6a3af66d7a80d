"""Is every kernel right? The tests that need a GPU, compute-sanitizer, and NCCL."""

import re
import shutil
import subprocess
import sys

import machine

from gpu_parts.bench import NO_DROPOUT, Bench, Skipped
from minigpt import ops
from minigpt.device import gpu
from minigpt.models.gpt2 import GPT2
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key

KERNELS = ("tests/test_gpu.py", "tests/test_cublaslt.py")  # a test that fails here says which kernel is wrong
WORKERS = 8  # processes that share the other tests and one GPU
TOOLS = ("memcheck", "racecheck", "synccheck")
SECONDS = 70  # that one of them may take


def tests(bench: Bench) -> None:
    """The tests of kernels and products, one after the other."""
    _pytest(bench, "tests", *KERNELS, "--durations=6")


def rest(bench: Bench) -> None:
    """All others, several at a time where pytest-xdist is installed."""
    ignored = [f"--ignore={file}" for file in KERNELS]
    try:
        import xdist  # noqa: F401

        workers = ["-n", str(1 if bench.quick else WORKERS)]
    except ImportError:
        workers = []
    _pytest(bench, "rest", *ignored, *workers)


def _pytest(bench: Bench, name: str, *options: str) -> None:
    """Run the tests that are marked `gpu`; on a processor a few that play kernels. Raises where one fails."""
    selected = ["-m", "gpu"]
    if not bench.on_gpu and name == "tests":
        selected = ["-m", "slow", "-k", "gelu"]
    elif not bench.on_gpu:
        selected = ["-k", "dropout_has_the_same_bits", "tests/test_cuda.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--maxfail=25", "--tb=short", "-rf"]
    done = _output([*command, *selected, *options])
    counts = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout[-300:])}
    bench.note(name, **{"passed": 0, "failed": 0} | counts)
    assert done.returncode == 0 and counts.get("passed"), f"{name}: not every test passed"


def _output(command: list[str], limit: float | None = None) -> subprocess.CompletedProcess:
    """Run a command in the repository's root, and print what it prints."""
    done = subprocess.run(
        command, cwd=machine.ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit
    )  # fmt: skip
    print(done.stdout, flush=True)
    return done


# --- compute-sanitizer ------------------------------------------------------------------------------------------------


def sanitizer(bench: Bench) -> None:
    """Each tool on a small training. Where there is no compute-sanitizer the training alone is run."""
    if not shutil.which("compute-sanitizer"):
        every_kernel(bench)
        print("there is no compute-sanitizer here: every kernel ran without it")
        return
    failed = []
    for tool in TOOLS:
        leaks = ["--leak-check", "no"] if tool == "memcheck" else []
        script = machine.ROOT / "benchmarks" / "gpu.py"
        options = ["--device", bench.device, "--work", "checks.every_kernel", *(["--quick"] if bench.quick else [])]
        command = ["compute-sanitizer", "--tool", tool, *leaks, "--print-limit", "20", sys.executable, str(script)]
        try:
            done = _output([*command, *options], SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{tool}: not ended after {SECONDS} s", flush=True)
            failed.append(tool)
            continue
        found = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", done.stdout)
        if found is None:
            print(f"{tool}: it does not work on this machine, as on some virtual ones", flush=True)
        else:
            bench.note(f"sanitizer: {tool}", errors=int(found[1]))
        if done.returncode or found is None or int(found[1]):
            failed.append(tool)
    assert not failed, f"errors, or no answer: {', '.join(failed)}"


def every_kernel(bench: Bench) -> None:
    """Every kernel once or twice, small: a model with dropout, attention in heads of four sizes, GELU by itself."""
    sizes = {"vocab_size": 301, "n_layer": 1, "n_head": 2, "n_embd": 128, "n_positions": 150}
    config = GPT2.Config(**sizes | dict.fromkeys(NO_DROPOUT, 0.1))
    for precision in bench.dtypes:
        model = bench.model(config, precision)
        optimizer = AdamW(model.named_parameters())
        ids, targets = bench.texts(2, config)
        for step in range(2):
            model.zero_grad()
            loss, cache = model.loss(ids, targets, key=Key.of(0, step))
            model.loss_backward(cache)
            optimizer.step(1e-3, 1.0)
        bench.note(f"sanitizer: a model in {precision}", loss=float(loss))
        for size in (16, 64, 80, 128):
            qkv = bench.normal(2, 130, 3 * size, dtype=precision)
            out, cache = ops.self_attention_forward(qkv, 1)
            ops.self_attention_backward(out, cache)
        x = bench.normal(9, 132, dtype=precision)
        _, cache = ops.gelu_forward(x)
        ops.gelu_backward(x, cache)
    bench.wait()


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
