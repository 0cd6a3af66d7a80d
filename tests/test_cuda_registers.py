"""Registers, stack and shared memory of the kernels: nvcc reports them, and none is above its limit.

The limits are in kernel_limits.toml; `python benchmarks/kernels.py --limits` sets them anew where growth is meant.
"""

import sys
import tomllib
from pathlib import Path

import nvcc
import pytest

from minigpt.ops.cuda import kernels as library

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import kernel_variants  # noqa: E402
import kernels  # noqa: E402
import machine  # noqa: E402
from kernels import Usage  # noqa: E402

LIMITS = tomllib.loads(kernels.LIMITS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def launches():
    """{architecture: what is launched there}"""
    pytest.importorskip("ml_dtypes")
    return {name: kernel_variants.launches(name) for name in kernels.ROOMS}


def test_every_source_is_launched_for_gpt2_small(launches):
    assert kernel_variants.never_launched(launches["sm_90"]) == [], "add a call to kernel_variants._others"
    named = {launch.kernel for launch in launches["sm_90"]}
    declared = set()
    for path in library.FOLDER.glob("*.cu"):
        declared |= set(library.parameters(path.read_text(encoding="utf-8")))
    assert declared - named == set(), "these kernels are never launched for GPT-2 small"


def test_variants_are_those_of_the_library(launches):
    words = [str(launch) for launch in launches["sm_90"]]
    assert "layernorm_forward: layernorm, bfloat16, PACK 8 PACKS 3 WARPS 8, 256 threads" in words
    assert len(words) == len(set(words))
    assert {launch.variant.dtype for launch in launches["sm_75"]} == {"float32"}
    assert launches["sm_80"] == launches["sm_90"]


def test_what_was_replaced_is_back(launches):
    assert library._compiled.__module__ == "minigpt.ops.cuda.kernels" and library.address.__name__ == "address"


def test_every_kernel_has_a_limit_and_every_limit_a_kernel(launches):
    named = {name: {kernels.limit_of(launch) for launch in several} for name, several in launches.items()}
    assert named == {name: set(held) for name, held in LIMITS.items()}, f"run {kernels.COMMAND}"


def test_the_recorded_table_is_that_of_the_library(launches):
    recorded = {name: set(row["registers"]) for name, row in machine.recorded("kernels").items()}
    named: dict = {}
    for architecture, several in launches.items():
        for launch in several:
            named.setdefault(str(launch), set()).add(architecture)
    assert named == recorded, f"run {kernels.COMMAND}"


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "architecture", "expected"),
    [
        (32, 0, 256, "sm_90", 1.0),
        (64, 0, 256, "sm_90", 0.5),  # 32 warps of 2,048 registers
        (65, 0, 256, "sm_90", 0.375),  # 72 are given out: 28 warps, which are 3 blocks of 8
        (255, 0, 128, "sm_80", 0.125),
        (168, 47104, 128, "sm_90", 0.1875),  # 12 warps by registers; 4 blocks by shared memory
        (32, 65536, 128, "sm_90", 0.1875),  # 3 blocks of 65 KiB and not of 64: each takes 1 KiB more
        (32, 65536, 128, "sm_75", 0.125),  # the whole of a T4's
        (16, 0, 32, "sm_90", 0.5),  # 32 blocks of one warp
    ],
)
def test_occupancy(registers, shared, threads, architecture, expected):
    """Against NVIDIA's occupancy calculator, worked out by hand."""
    assert kernels.occupancy(Usage(registers, 0, 0, 0, shared), threads, architecture) == expected


SAID = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'f' for 'sm_90'
ptxas info    : Function properties for f
    344 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 47104 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'g' for 'sm_100'
ptxas info    : Function properties for g
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


def test_what_ptxas_says_is_read():
    f, g = Usage(255, 344, 12, 16, 47104), Usage(8, 0, 0, 0, 0)
    assert kernels.reported(SAID) == {("sm_90", "f"): f, ("sm_100", "g"): g}


def test_growth_is_named_with_both_numbers(launches):
    launch = launches["sm_90"][0]
    allowed = kernels.limits({launch: {"sm_90": Usage(33, 0, 0, 0, 100)}})
    assert allowed == {"sm_90": {kernels.limit_of(launch): [40, 0, 0, 0, 100]}}
    assert kernels.beyond({launch: {"sm_90": Usage(40, 0, 0, 0, 100)}}, allowed) == []
    [wrong] = kernels.beyond({launch: {"sm_90": Usage(41, 0, 0, 0, 100)}}, allowed)
    assert wrong == f"{launch}, sm_90: 41 registers, at most 40 are allowed"
    assert len(kernels.beyond({launch: {"sm_90": Usage(41, 8, 4, 4, 101)}}, allowed)) == 5
    [unknown] = kernels.beyond({launch: {"sm_90": Usage(1, 0, 0, 0, 0)}}, {})
    assert "it has no limit" in unknown


def test_a_source_is_compiled_once_for_each_architecture(monkeypatch, tmp_path):
    calls = []

    def compiled(source, folder, wanted):
        calls.append((source, *wanted))
        return {(wanted[0], "f"): Usage(len(source), 0, 0, 0, 0), (wanted[0], "g"): Usage(1, 2, 3, 4, 5)}

    monkeypatch.setattr(nvcc, "built", tmp_path)
    monkeypatch.setattr(nvcc, "compiled", compiled)
    for _ in range(2):
        found = nvcc.usages("one", tmp_path, ["sm_80", "sm_90"])
        assert found["sm_80", "f"].registers == 3 and found["sm_90", "g"] == Usage(1, 2, 3, 4, 5) and len(found) == 4
    assert nvcc.usages("other", tmp_path, ["sm_90"])["sm_90", "f"].registers == 5
    assert calls == [("one", "sm_80"), ("one", "sm_90"), ("other", "sm_90")]


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(path.stem for path in library.FOLDER.glob("*.cu")))
def test_no_kernel_has_grown(file, launches, monkeypatch):
    nvcc.need()
    wanted = {name: [one for one in launches[name] if one.variant.file == file] for name in kernels.architectures()}
    monkeypatch.setattr(kernels, "usages", nvcc.usages)
    found = kernels.measured(wanted)
    assert found
    assert kernels.beyond(found, LIMITS) == []
