"""What NVIDIA's compiler says of a kernel, by the command of benchmarks/kernels.py. Without it a test is skipped."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import kernels as benchmark  # noqa: E402


def need() -> None:
    """Skip the test where there is no nvcc."""
    if not shutil.which("nvcc"):
        pytest.skip("there is no nvcc")


def used(source: str, folder: Path, architecture: str) -> dict[str, benchmark.Usage]:
    """{kernel: its registers, its bytes of stack and spills, and of shared memory}. nvcc must have no warnings."""
    need()
    found = benchmark.usages(source, folder, [architecture])
    return {kernel: usage for (_, kernel), usage in found.items()}


def spilled(source: str, folder: Path, architecture: str) -> list[int]:
    """How many bytes of registers each kernel keeps in memory."""
    return [usage.spill_stores for usage in used(source, folder, architecture).values()]
