"""Registers, stack and shared memory of every kernel that GPT-2 small needs, as nvcc reports them, and its occupancy.

    python benchmarks/kernels.py             # compile all for four architectures (minutes), write results
    python benchmarks/kernels.py --limits    # and set the limits that tests hold to what was found
    python benchmarks/kernels.py --file layernorm gelu --architecture sm_90    # a look at these; nothing is written

It needs nvcc and no GPU. Occupancy is the warps that a multiprocessor can hold at once, over the most that it has room
for. A block is placed whole, so it follows from three rooms: the blocks that the registers, the shared memory and the
table of warps of a multiprocessor have room for; the least of the three counts.

    registers of a warp = 32 x registers of a thread, rounded up to a multiple of 256
    warps by registers  = 4 x floor(16384 / registers of a warp): each quarter of a multiprocessor has its own 16,384
    blocks              = min(floor(warps by registers / warps of a block), floor(shared memory / that of a block),
                              floor(most warps / warps of a block), most blocks)
    occupancy           = blocks x warps of a block / most warps

On compute capability 8.0 and later a block also takes 1 KiB of shared memory for the system. (Numbers: CUDA C++
Programming Guide, technical specifications per compute capability; NVIDIA's occupancy calculator.) Low occupancy is no
fault in itself: attention on tensor cores keeps its tiles in registers on purpose.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import kernel_variants
import machine
from kernel_variants import Launch, Variant

LIMITS = machine.ROOT / "tests" / "kernel_limits.toml"
COMMAND = "python benchmarks/kernels.py --limits"
AS_CUPY_DOES = ("-std=c++14", "-ftz=true")


class Room(NamedTuple):
    """What a multiprocessor has room for: warps, blocks, bytes of shared memory; and what each block takes besides."""

    warps: int
    blocks: int
    shared: int
    reserved: int
    unit: int  # shared memory is given out in so many bytes


ROOMS = {
    "sm_75": Room(warps=32, blocks=16, shared=64 << 10, reserved=0, unit=256),
    "sm_80": Room(warps=64, blocks=32, shared=164 << 10, reserved=1 << 10, unit=128),
    "sm_90": Room(warps=64, blocks=32, shared=228 << 10, reserved=1 << 10, unit=128),
    "sm_100": Room(warps=64, blocks=32, shared=228 << 10, reserved=1 << 10, unit=128),
}
REGISTERS = 1 << 14  # of each quarter of a multiprocessor
QUARTERS = 4
MOST_REGISTERS = 255  # of a thread


class Usage(NamedTuple):
    """What a thread of a kernel takes (registers; bytes of stack, spilled and read back), and its block (shared)."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


def occupancy(usage: Usage, threads: int, architecture: str) -> float:
    """The warps that a multiprocessor holds at once, over the most that it can hold."""
    room = ROOMS[architecture]
    warps = _up(threads, 32) // 32
    of_a_warp = _up(32 * usage.registers, 256)
    by_registers = QUARTERS * (REGISTERS // of_a_warp) // warps
    shared = _up(usage.shared + room.reserved, room.unit)
    by_shared = room.shared // shared if shared else room.blocks
    blocks = min(by_registers, by_shared, room.warps // warps, room.blocks)
    return blocks * warps / room.warps


def _up(n: int, unit: int) -> int:
    """The next multiple of unit."""
    return -(-n // unit) * unit


# --- what nvcc says --------------------------------------------------------------------------------------------------


def architectures() -> list[str]:
    """Those of ROOMS that this nvcc compiles for."""
    listed = subprocess.run(["nvcc", "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"compute_(\d+)", listed))
    return [name for name in ROOMS if name.removeprefix("sm_") in known]


def compiler() -> str:
    """The version of nvcc."""
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V([\d.]+)", said)[1]


def usages(source: str, folder: Path, wanted: Iterable[str]) -> dict[tuple[str, str], Usage]:
    """{(architecture, kernel): usage} of a source. Raises AssertionError where nvcc has an error or a warning."""
    path = folder / "source.cu"
    path.write_text(source, encoding="utf-8")
    command = ["nvcc", *AS_CUPY_DOES, "-Werror", "all-warnings", "-Xptxas", "-v", "-fatbin"]
    for name in wanted:
        command += ["-gencode", f"arch=compute_{name.removeprefix('sm_')},code={name}"]
    done = subprocess.run([*command, "-o", str(folder / "out"), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return reported(done.stdout + done.stderr)


REPORT = re.compile(
    r"Compiling entry function '(\w+)' for '(sm_\d+)\w?'\n(?:.*\n)*?"
    r"\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r".*Used (\d+) registers(.*)"
)


def reported(text: str) -> dict[tuple[str, str], Usage]:
    """What ptxas -v has printed for each kernel and architecture."""
    found = {}
    for kernel, architecture, stack, stores, loads, registers, rest in REPORT.findall(text):
        shared = re.search(r"(\d+)(?:\+(\d+))? bytes smem", rest)
        bytes_of_a_block = sum(int(n) for n in shared.groups("0")) if shared else 0
        found[architecture, kernel] = Usage(int(registers), int(stack), int(stores), int(loads), bytes_of_a_block)
    return found


def measured(launches: dict[str, list[Launch]]) -> dict[Launch, dict[str, Usage]]:
    """{launch: {architecture: usage}}, each variant compiled once for all architectures that need it."""
    wanted: dict[Variant, list[str]] = {}
    for architecture, several in launches.items():
        for variant in dict.fromkeys(launch.variant for launch in several):
            wanted.setdefault(variant, []).append(architecture)
    found: dict[Launch, dict[str, Usage]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (variant, names) in enumerate(wanted.items(), 1):
            print(f"{number} of {len(wanted)}: {variant}", flush=True)
            compiled = usages(variant.source, Path(folder), names)
            for architecture in names:
                for launch in launches[architecture]:
                    if launch.variant == variant:
                        usage = compiled[architecture, launch.kernel]
                        usage = usage._replace(shared=usage.shared + launch.shared)
                        found.setdefault(launch, {})[architecture] = usage
    return found


# --- what is kept -----------------------------------------------------------------------------------------------------


def row(launch: Launch, by_architecture: dict[str, Usage]) -> dict:
    """A row of the results: a number for each architecture in each column."""
    columns = {name.replace("_", " "): {} for name in Usage._fields}
    for architecture, usage in by_architecture.items():
        for column, number in zip(columns.values(), usage, strict=True):
            column[architecture] = number
    shares = {name: round(occupancy(usage, launch.threads, name), 3) for name, usage in by_architecture.items()}
    return {"threads": launch.threads, **columns, "occupancy": shares}


def limits(found: dict[Launch, dict[str, Usage]]) -> dict[str, dict[str, list[int]]]:
    """{architecture: {name of a limit: the most of everything, over its constants}}

    Registers are rounded up to a multiple of eight, in which they are given out: up to there nothing is lost.
    """
    most: dict[str, dict[str, list[int]]] = {}
    for launch, by_architecture in found.items():
        for architecture, usage in by_architecture.items():
            usage = usage._replace(registers=min(MOST_REGISTERS, _up(usage.registers, 8)))
            held = most.setdefault(architecture, {})
            before = held.get(limit_of(launch), [0] * len(usage))
            held[limit_of(launch)] = [max(pair) for pair in zip(before, usage, strict=True)]
    return {architecture: dict(sorted(held.items())) for architecture, held in most.items()}


def limit_of(launch: Launch) -> str:
    """The name of the limit that a launch must keep. Attention whose heads share keys has limits of its own."""
    name = f"{launch.variant.file}.{launch.kernel}, {launch.variant.dtype}"
    group = dict(launch.variant.constants).get("KV_GROUP", 1)
    return name if group == 1 else f"{name}, groups of {group}"


def beyond(found: dict[Launch, dict[str, Usage]], allowed: dict[str, dict[str, list[int]]]) -> list[str]:
    """Every number that is above its limit, with both, and every kernel that has no limit."""
    wrong = []
    for launch, by_architecture in found.items():
        for architecture, usage in by_architecture.items():
            held = allowed.get(architecture, {}).get(limit_of(launch))
            if held is None:
                wrong.append(f"{launch}, {architecture}: it has no limit in {LIMITS.name}: {COMMAND}")
                continue
            for name, number, most in zip(Usage._fields, usage, held, strict=True):
                if number > most:
                    what = name.replace("_", " ")
                    wrong.append(f"{launch}, {architecture}: {number} {what}, at most {most} are allowed")
    return wrong


def as_toml(most: dict[str, dict[str, list[int]]]) -> str:
    """The table of limits as a file."""
    lines = [
        "# The most that a kernel may take over its variants for GPT-2 small: registers of a thread, rounded up to the",
        "# eights in which they are given out; bytes of its stack, spilled and read back; and of its block's shared",
        f"# memory. tests/test_cuda_registers.py holds them. Written by {COMMAND}",
        f"# with nvcc {compiler()}; another version may need other numbers.",
    ]
    for architecture, held in most.items():
        lines += ["", f"[{architecture}]"]
        lines += [f'"{name}" = {numbers}' for name, numbers in held.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compile, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", nargs="+", help="only these .cu files; nothing is written")
    parser.add_argument("--architecture", nargs="+", choices=list(ROOMS), help="only these; nothing is written")
    parser.add_argument("--limits", action="store_true", help="write tests/kernel_limits.toml too")
    options = parser.parse_args()
    if not shutil.which("nvcc"):
        sys.exit("there is no nvcc: install NVIDIA's CUDA toolkit, or put its bin folder into PATH")
    wanted = [name for name in architectures() if not options.architecture or name in options.architecture]
    launches = {name: kernel_variants.launches(name) for name in wanted}
    for name in kernel_variants.never_launched([one for several in launches.values() for one in several]):
        print(f"{name}.cu: nothing of it is launched for GPT-2 small")
    if options.file:
        launches = {name: [one for one in several if one.variant.file in options.file]
                    for name, several in launches.items()}  # fmt: skip
    found = measured(launches)
    rows = {str(launch): row(launch, usage) for launch, usage in found.items()}
    for name, one in rows.items():
        print(name, *(f"  {column}: {value}" for column, value in one.items()), sep="\n")
    look = bool(options.file or options.architecture)
    versions = machine.versions() | {"nvcc": compiler()}
    if not look:
        (machine.RESULTS / "kernels.json").unlink(missing_ok=True)  # no rows of kernels that are gone
    machine.save("kernels", rows, machine.cores(), quick=look, versions=versions)
    if options.limits and not look:
        LIMITS.write_text(as_toml(limits(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
