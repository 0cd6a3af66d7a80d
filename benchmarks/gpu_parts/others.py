"""What other scripts measure on a GPU, and Nsight Compute."""

import collections
import os
import re
import subprocess
import sys

import machine

from gpu_parts.bench import Bench, Skipped, gradients
from gpu_parts.checks import found_tool, started
from minigpt import ops
from minigpt.nn.optim import AdamW

LESSONS = ("20_the_gpu", "21_one_kernel", "22_graphs_and_sixteen_bits")
PROFILED = r"regex:^(attention_.*|layernorm_.*|cross_entropy|adam|column_sums|add)$"
LAUNCHES = 22  # that ncu looks at: each is repeated many times
MEASURED = r"measured|: .* us\b|a step of"  # of what a lesson prints
COUNTERS = r"^ +[a-z_]+ \(|Duration|Throughput|Achieved Occ|Registers|Issue|Stall"


def ladder(bench: Bench) -> None:
    """`benchmarks/ladder.py`: it writes its own file."""
    _script(bench, "ladder", "--device", bench.device)


def host(bench: Bench) -> None:
    """`benchmarks/host_cost.py`: it writes its own file."""
    _script(bench, "host_cost")


def _script(bench: Bench, name: str, *options: str) -> None:
    path = machine.ROOT / "benchmarks" / f"{name}.py"
    if not path.is_file():
        raise Skipped(f"benchmarks/{name}.py is not there")
    look = ["--quick"] if bench.quick else []
    look += ["--out", str(bench.out)] if bench.out else []
    subprocess.run([sys.executable, str(path), *options, *look], cwd=machine.ROOT, check=True)


def lessons(bench: Bench) -> None:
    """The lessons on the GPU: the lines in which they say what they measured."""
    for name in LESSONS[:1] if bench.quick else LESSONS:
        environment = os.environ | {"MINIGPT_DEVICE": bench.device, "MPLBACKEND": "agg"}
        print(f"--- lesson {name}", flush=True)
        _show([sys.executable, str(machine.ROOT / "lessons" / f"{name}.py")], MEASURED, environment)


def ncu(bench: Bench) -> None:
    """Occupancy, throughput and stalls of the kernels of a step."""
    program = found_tool("ncu")
    if not bench.on_gpu or not program:
        raise Skipped("there is no ncu, or no GPU")
    sections = ("SpeedOfLight", "Occupancy", "WarpStateStats", "LaunchStats")
    command = [program, "--clock-control", "none", "-k", PROFILED, "-c", str(LAUNCHES)]
    for section in sections:
        command += ["--section", section]
    script = str(machine.ROOT / "benchmarks" / "gpu.py")
    command += [sys.executable, script, "--device", bench.device, "--work", "others.profiled"]
    _show(command, COUNTERS)


def _show(command: list[str], pattern: str, environment: dict[str, str] | None = None) -> None:
    """Run a command, and print each line that matches when it comes. Raises AssertionError where it fails."""
    last: collections.deque[str] = collections.deque(maxlen=20)
    with started(command, environment) as process:
        for line in process.stdout:
            last.append(line)
            if re.search(pattern, line):
                print(line, end="", flush=True)
    assert process.returncode == 0, f"{command[0]} failed:\n{''.join(last)}"


def profiled(bench: Bench) -> None:
    """What ncu looks at: every kernel of a step twice, in the size of GPT-2 small; the second is warm."""
    config = bench.config()
    shape = bench.batch, config.n_positions
    qkv = bench.normal(*shape, 3 * config.n_embd, dtype=bench.lowest)
    dout = bench.normal(*shape, config.n_embd, dtype=bench.lowest)
    gain = bench.normal(config.n_embd)
    for _ in range(2):
        _, cache = ops.self_attention_forward(qkv, config.n_head)
        ops.self_attention_backward(dout, cache)
        _, cache = ops.layernorm_forward(dout, gain, gain)
        ops.layernorm_backward(dout, cache)
        ops.add(dout, dout)
    config = bench.config(n_layer=1)
    model = bench.model(config, bench.lowest)
    optimizer = AdamW(model.named_parameters())
    ids, targets = bench.texts(min(4, bench.batch), config)
    for _ in range(2):
        gradients(model, ids, targets)
        optimizer.step(1e-4, 1.0)
    bench.wait()
