"""What holds a learner's process in, tier by tier, and how the process is started in each.

plain: a folder of its own, an environment with nothing secret, the fence (an audit hook), and the limits that the
system offers: of resources on POSIX, a job object on Windows. bubblewrap, where it is installed and works: on top of it
no network, no other processes, and a file tree of Python and NumPy only, read-only. README.md beside says what each
tier cannot stop.
"""

import functools
import json
import math
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigpt import ops
from minigpt.errors import InputError
from minigpt.gradcheck import raised

CHOICES = ("auto", "bubblewrap", "plain")
MEMORY = 2 * 2**30  # bytes of address space
FILE_SIZE = 64 * 2**20  # bytes of one file, and in bubblewrap of the whole folder
OPEN_FILES = 64
START_SECONDS = 60.0  # for Python and NumPy to start
PROBE_SECONDS = 20.0
PARTS = ("program", "stand_in", "wire", "answers", "fence")
HOME = Path(__file__).parent
INSIDE = "/sandbox"  # where bubblewrap shows the program
KEPT = ("SYSTEMROOT", "WINDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # of the environment: where libraries are
SYSTEM = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/nix/store", "/etc/ld.so.cache",
          "/etc/alternatives")  # fmt: skip


class Start(NamedTuple):
    """How to start the process. says: one line for the report, which tier this is, and what is not protected."""

    tier: str
    command: list[str]
    environment: dict[str, str]
    says: str


def start(sandbox: str, folder: Path, seconds: float) -> Start:
    """The command that starts a process in this folder, which may use so many seconds of processor time.

    sandbox: "plain", "bubblewrap", or "auto", which takes bubblewrap where it works. Raises InputError for another
    name, for bubblewrap where it does not work, and where this package does not lie in files of its own.
    """
    if sandbox not in CHOICES:
        raise InputError(f"sandbox is {sandbox!r}: choose {', '.join(CHOICES)}")
    parts = _parts()
    problem = "" if sandbox == "plain" else bubblewrap_problem()
    if sandbox == "bubblewrap" and problem:
        raise InputError(f"sandbox is 'bubblewrap', but {problem}: choose 'plain', or mend this")
    in_bubblewrap = sandbox != "plain" and not problem
    if in_bubblewrap:
        shown = {name: f"{INSIDE}/{path.name}" for name, path in parts.items()}
        prefix = _bubblewrap(parts, folder)
    else:
        shown = {name: str(path) for name, path in parts.items()}
        prefix = []
    program = shown.pop("program")
    settings = json.dumps(_settings(shown, folder, seconds))
    command = [*prefix, *_python(), program, settings]
    return Start("bubblewrap" if in_bubblewrap else "plain", command, _environment(folder), _says(in_bubblewrap))


def _says(in_bubblewrap):
    """The line of the report. At most 110 columns."""
    if in_bubblewrap:
        return "Sandbox: bubblewrap: no network, nothing of yours to read. Not protected: against flaws of the kernel."
    limits = "limits of resources" if os.name == "posix" else "a job object"
    return f"Sandbox: plain: an audit hook, {limits}. Not protected: against a file that means harm."


def _parts() -> dict[str, Path]:
    """The files that the process needs, by name."""
    parts = {name: HOME / f"{name}.py" for name in PARTS} | {"raised": Path(raised.__file__)}
    for path in parts.values():
        if not path.is_file():
            raise InputError(f"{path} is no file: unpack minigpt, it cannot judge from inside an archive")
    return parts


def _python() -> list[str]:
    """Python itself, without a virtual environment, which would start it a second time on Windows."""
    python = getattr(sys, "_base_executable", None) or sys.executable
    return [os.path.realpath(python), "-I", "-S", "-B", "-X", "utf8"]


def _numpy() -> list[Path]:
    """The folders of NumPy: the package, and the libraries that some wheels put beside it."""
    package = Path(np.__file__).parent
    return [package, package.parent / "numpy.libs"]


def _libraries() -> list[Path]:
    """The folders of Python's standard library."""
    paths = sysconfig.get_paths()
    return [Path(paths[name]) for name in ("stdlib", "platstdlib")]


def _packages() -> list[Path]:
    """The folders that hold packages, and the lessons that pip has put beside them: not for learners' files."""
    paths = sysconfig.get_paths()
    found = [Path(paths[name]) for name in ("purelib", "platlib")]
    found += [Path(path) for path in site.getsitepackages()]
    found += [library / name for library in _libraries() for name in ("site-packages", "dist-packages")]
    found += [path for folder in SYSTEM for path in Path(folder).glob("python3*/*-packages")]
    found += [Path(np.__file__).parents[1], HOME.parents[2]]
    found += [Path(prefix) / "share" / "minigpt-by-hand" for prefix in (sys.prefix, sys.base_prefix)]
    return list(dict.fromkeys(found))


def _settings(parts: dict[str, str], folder: Path, seconds: float) -> dict:
    """What the program is told."""
    libraries = [str(path) for path in _libraries()]
    numpy = [str(path) for path in _numpy()]
    return {
        "folder": str(folder),  # also a mark by which its processes are found
        "parts": parts,
        "numpy": str(_numpy()[0].parent),
        "readable": [*libraries, *numpy],
        "hidden": [str(path) for path in _packages()],
        "nobodys": [*{os.path.dirname(path) for path in parts.values()}, *libraries, numpy[0], "<frozen"],
        "operations": ops.names,
        "constants": {"IGNORED": ops.IGNORED},
        "limits": {
            "RLIMIT_CPU": math.ceil(seconds + START_SECONDS),
            "RLIMIT_AS": MEMORY,
            "RLIMIT_FSIZE": FILE_SIZE,
            "RLIMIT_NOFILE": OPEN_FILES,
            "RLIMIT_NPROC": 0,
            "RLIMIT_CORE": 0,
        },
    }


def _environment(folder: Path) -> dict[str, str]:
    """The environment of the process: nothing of one's own, and one thread multiplies small matrices."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    kept["PATH"] = os.defpath if os.name == "posix" else os.environ.get("PATH", "")  # Windows finds libraries by it
    own = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), str(folder))
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return kept | own | threads | {"LANG": "C.UTF-8"}


# --- bubblewrap ------------------------------------------------------------------------------------------------------


@functools.cache
def bubblewrap_problem() -> str:
    """Why bubblewrap cannot be used here, or "" where it can: a trial run in it has worked."""
    if shutil.which("bwrap") is None:
        return "no bwrap is installed"
    command = [*_bubblewrap({}, HOME), *_python(), "-c", "print(6 * 7)"]
    try:
        done = subprocess.run(command, env=_environment(HOME), capture_output=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap cannot be run: {error}"
    if done.stdout.strip() != b"42":
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"bwrap does not work here: {said[-1][:200] if said else 'it says nothing'}"
    return ""


def _bubblewrap(parts: dict[str, Path], folder: Path) -> list[str]:
    """The command that runs what follows it in a file tree of its own, with nothing in it but Python and NumPy."""
    command = [shutil.which("bwrap") or "bwrap"]
    command += ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--proc", "/proc", "--dev", "/dev", "--size", str(FILE_SIZE), "--tmpfs", "/tmp"]
    for path in SYSTEM:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.access(path, os.R_OK):
            command += ["--ro-bind", path, path]
    readable = [*_libraries(), Path(_python()[0]), Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")]
    for path in readable:
        command += _shown(path)
    for path in _packages():
        if path.is_dir() and _is_inside(path, [*map(Path, SYSTEM), *readable]):
            command += ["--tmpfs", str(path.resolve())]
    for path in _numpy():
        command += _shown(path)
    for path in parts.values():
        command += ["--ro-bind", str(path), f"{INSIDE}/{path.name}"]
    return [*command, "--size", str(FILE_SIZE), "--tmpfs", str(folder), "--chdir", str(folder)]


def _shown(path: Path) -> list[str]:
    """Show a file or folder under its own name, read-only, and under the name that a link gives it."""
    there = str(path.resolve())
    if not os.access(there, os.R_OK):  # not there, or not for this user
        return []
    names = dict.fromkeys((str(path), there))
    return [option for name in names for option in ("--ro-bind", there, name)]


def _is_inside(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)
