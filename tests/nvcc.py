"""What NVIDIA's compiler says of a kernel, by the command of benchmarks/kernels.py. Without it a test is skipped.

Several tests look at the same source. It is compiled once for an architecture: all processes of a run of pytest share
what was said, in the folder of the kernels that g++ has compiled.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from cuda_on_cpu import built
from filelock import FileLock

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from kernels import Usage  # noqa: E402
from kernels import usages as compiled  # noqa: E402


def need() -> None:
    """Skip the test where there is no nvcc."""
    if not shutil.which("nvcc"):
        pytest.skip("there is no nvcc")


def usages(source: str, folder: Path, wanted: Iterable[str]) -> dict[tuple[str, str], Usage]:
    """The same as `usages` of benchmarks/kernels.py: {(architecture, kernel): usage}. What was said before is read."""
    found = {}
    for architecture in wanted:
        key = hashlib.sha256(f"{architecture} {source}".encode()).hexdigest()[:16]
        kept = built / f"{key}.json"
        with FileLock(kept.with_suffix(".lock")):
            if not kept.exists():
                said = compiled(source, folder, [architecture])
                kept.write_text(json.dumps([[kernel, *usage] for (_, kernel), usage in said.items()]))
            for kernel, *usage in json.loads(kept.read_text()):
                found[architecture, kernel] = Usage(*usage)
    return found


def used(source: str, folder: Path, architecture: str) -> dict[str, Usage]:
    """{kernel: its registers, its bytes of stack and spills, and of shared memory}. nvcc must have no warnings."""
    need()
    return {kernel: usage for (_, kernel), usage in usages(source, folder, [architecture]).items()}


def spilled(source: str, folder: Path, architecture: str) -> list[int]:
    """How many bytes of registers each kernel keeps in memory."""
    return [usage.spill_stores for usage in used(source, folder, architecture).values()]
