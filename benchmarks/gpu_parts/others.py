"""What other scripts measure on a GPU, and Nsight Compute."""

import os
import re
import subprocess
import sys

import machine

from gpu_parts.bench import Bench, Skipped, gradients
from gpu_parts.checks import found_tool
from minigpt import ops
from minigpt.nn.optim import AdamW

LESSONS = ("20_the_gpu", "21_one_kernel", "22_graphs_and_sixteen_bits")
PROFILED = r"regex:^(attention_.*|layernorm_.*|cross_entropy|adam|column_sums|add)$"
LAUNCHES = 22  # that ncu looks at: each is repeated many times
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
        command = [sys.executable, str(machine.ROOT / "lessons" / f"{name}.py")]
        done = subprocess.run(command, cwd=machine.ROOT, env=environment, text=True, capture_output=True)
        measured = [line for line in done.stdout.splitlines() if re.search(r"measured|: .* us\b|a step of", line)]
        print(f"--- lesson {name}", *measured, sep="\n", flush=True)
        assert done.returncode == 0, f"lesson {name} failed:\n{done.stderr[-2000:]}"


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
    done = subprocess.run(command, cwd=machine.ROOT, text=True, capture_output=True)
    lines = done.stdout.splitlines()
    print(*(line for line in lines if re.search(COUNTERS, line)), sep="\n", flush=True)
    assert done.returncode == 0, f"ncu failed: {(done.stdout + done.stderr)[-500:]}"


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
