"""Run every lesson as a notebook, several at a time, and keep what has run.

The cache of jupyter-cache knows a lesson by its code cells alone. So the folder of the cache is named by a digest of
everything that a lesson can see besides: the package, the data, the recorded measurements, the files beside the
lessons, and the versions of Python and of the libraries. Where one of them changes, all lessons run again.
"""

import copy
import hashlib
import os
import platform
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jupytext
import nbformat
import psutil
from course import LESSONS, ROOT, times_of
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from untouched import Core

from minigpt.errors import InputError
from minigpt.learn import gap
from minigpt.learn.cells import cells, deeper_parts, minutes

SEEN = ("minigpt/**/*", "data/**/*", "benchmarks/results/*.json", "lessons/[!0-9]*.py")  # by lessons, when they run
UNSEEN = {".js", ".html", ".css", ".md", ".pyc"}  # of the browser, of readers, or made by Python
LIBRARIES = ("numpy", "matplotlib", "regex", "safetensors", "ipykernel")
LIMIT = 900  # seconds for one cell
LONG = 1.5  # seconds of processors: a cell that needs more does not run again
KEPT = 3  # folders of the cache
LAID_OUT = """exec('''
import sys
if plot := sys.modules.get("minigpt.plot"):
    plot._write = lambda figure, path: figure.draw_without_rendering()
    plot._notebook = lambda: None
''', {})"""  # pictures are laid out, and not painted: that is most of the time of quick cells
DIGEST = re.compile("[0-9a-f]{12}")  # the name of such a folder
DRAWN = "drawn"  # beside them: what lessons write, pictures above all
os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")  # the kernel of this Python, not one of the user's
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


class LessonFailed(InputError):
    """A cell of a lesson has ended with an error: the message names both, and has the error's last line.

    status: the exit status of the build.
    """

    status = 1


class Ran(NamedTuple):
    """A lesson that has run: its notebook with outputs, and what it took, in seconds of all its processors.

    again: the numbers of the cells that ran again after the end.
    """

    notebook: nbformat.NotebookNode
    seconds: float
    again: list[int]


def files(numbers: Iterable[str] = (), folder: Path = LESSONS) -> list[Path]:
    """The lessons in their order, or only those with these numbers. Raises InputError where there is none."""
    found = sorted(folder.glob("[0-9][0-9]_*.py"))
    unknown = sorted(set(numbers) - {path.name[:2] for path in found})
    if unknown:
        raise InputError(f"there is no lesson {unknown[0]!r}: give two digits, such as 03")
    return [path for path in found if not numbers or path.name[:2] in numbers]


def digest(root: Path = ROOT) -> str:
    """12 hexadecimal digits that change with everything that a lesson can see besides its own cells."""
    found = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    found.update(sys.version.encode())
    for name in LIBRARIES:
        found.update(f"{name} {version(name)}".encode())
    for path in sorted(path for pattern in SEEN for path in root.glob(pattern)):
        if path.is_file() and path.suffix not in UNSEEN:
            found.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def read(path: Path) -> nbformat.NotebookNode:
    """The lesson as a notebook without outputs; its cells are numbered, so that the same file gives the same notebook.

    Raises InputError where there is no cell.
    """
    notebook = jupytext.read(path, fmt="py:percent")
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = nbformat.from_dict({})
    if not notebook.cells:
        raise InputError(f"{path} has no cells: a lesson is a Python file with lines that begin with # %%")
    return notebook


def mark(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Give the cells of the deeper parts of a lesson a tag; JupyterLab collapses what is below their headings.

    The minutes of a part stand in the metadata of the cell that has its heading. An answer has a tag too, and the
    output above it, which gives the answer to a guess away, is collapsed. So is the code of a drawing.
    """
    found = cells(path)
    for part in deeper_parts(found):
        for number in part:
            notebook.cells[number].metadata["tags"] = ["deeper"]
        heading = notebook.cells[part.start]
        heading.metadata["jp-MarkdownHeadingCollapsed"] = True
        heading.metadata["minigpt"] = {"minutes": minutes(found[number] for number in part)}
    for number, cell in enumerate(found):
        if cell.is_answer:
            notebook.cells[number].metadata["tags"] = ["answer"]
            if not found[number - 1].has_gap:
                notebook.cells[number - 1].metadata["jupyter"] = {"outputs_hidden": True}
        if cell.only_draws:
            drawing = notebook.cells[number].metadata
            drawing["tags"] = [*drawing.get("tags", []), "hide-input"]
            drawing["jupyter"] = {"source_hidden": True}


def environment(beside: Path) -> dict[str, str]:
    """The environment of a lesson: one thread, English, this clone's package, no training of its own, and no published
    model: pages are the same whichever lie on the machine.

    beside: the folder of the lesson, whose other modules it imports.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("MINIGPT_LANG", "MINIGPT_TRAIN")}
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    path = os.pathsep.join([str(ROOT), str(beside), *filter(None, [os.environ.get("PYTHONPATH")])])
    none = str(ROOT / "no" / "models")
    return kept | threads | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "MINIGPT_CACHE": none, "HF_HOME": none}


def seconds_to_run(path: Path) -> int:
    """The seconds that a lesson says it runs on a slow machine."""
    return times_of(path.read_text(encoding="utf-8")).most


# --- one lesson ------------------------------------------------------------------------------------------------------


class Runner:
    """Runs lessons in kernels, and can stop those that run.

    folder: where they write their pictures. again: does each quick cell run again, as a reader may do?
    """

    def __init__(self, folder: Path, again: bool = False):
        self.folder = folder
        self.again = again
        self.is_stopped = False
        self.clients: set[NotebookClient] = set()
        self.lock = threading.Lock()

    def run(self, path: Path) -> Ran:
        """Run all cells of a lesson. Raises LessonFailed.

        A kernel is given ports before it opens them. Where another process takes one in between, it dies at once, and
        is started a second time.
        """
        try:
            return self.run_in_a_kernel(path)
        except RuntimeError as error:
            if self.is_stopped or "Kernel died before replying" not in str(error):
                raise
            return self.run_in_a_kernel(path)

    def run_in_a_kernel(self, path: Path) -> Ran:
        """The same, once."""
        notebook = read(path)
        resources = {"metadata": {"path": str(self.folder)}}
        client = NotebookClient(notebook, timeout=LIMIT, resources=resources, record_timing=False)
        client.extra_arguments = ["--IPKernelApp.log_level=40"]  # errors alone
        with self.lock:
            self.clients.add(client)
        try:
            with client.setup_kernel(env=environment(path.parent)):
                seconds, quick = self.run_cells(client, path)
                if self.again:
                    self.run_again(client, path, quick)
        finally:
            with self.lock:
                self.clients.discard(client)
        for cell in notebook.cells:
            cell.metadata = nbformat.from_dict({})
        return Ran(notebook, seconds, quick if self.again else [])

    def run_cells(self, client: NotebookClient, path: Path) -> tuple[float, list[int]]:
        """Run all cells. Returns the seconds of processors, and the numbers of the cells that are not LONG."""
        before, quick = processor_seconds(client), []
        core = Core(cells(path), lambda source: self.printed(client, source)) if self.again else None
        for number, cell in enumerate(client.nb.cells):
            if core and (touched := core.look(number)):
                what = f"the deeper part before it {', '.join(touched)}, which the core takes below"
                raise LessonFailed(f"{place_of(path, number)}: {what}: who leaves that part out has it not")
            if cell.cell_type == "code":
                self.run_cell(client, path, number)
                now = processor_seconds(client)
                if now - before < LONG:
                    quick.append(number)
                before = now
        return before, quick

    def run_again(self, client: NotebookClient, path: Path, numbers: list[int]) -> None:
        """Run these cells once more, from the last to the first. What they showed at first stays.

        A gap is filled in with the answer below it, and must be judged right.
        """
        found = cells(path)
        gaps = {number for number, cell in enumerate(found) if cell.has_gap}
        self.printed(client, LAID_OUT)
        for number in sorted({*numbers, *gaps}, reverse=True):
            shown = copy.deepcopy(client.nb.cells[number])
            self.run_cell(client, path, number, "when it runs again: ")
            if number in gaps:
                self.run_filled(client, path, number, found[number].filled(found[number + 1]))
            client.nb.cells[number] = shown

    def printed(self, client: NotebookClient, source: str) -> str:
        """Run some code where a lesson runs, without a place in its notebook -> what it prints."""
        client.nb.cells.append(nbformat.v4.new_code_cell(source))
        client.execute_cell(client.nb.cells[-1], len(client.nb.cells) - 1, store_history=False)
        return text_of(client.nb.cells.pop())

    def run_filled(self, client: NotebookClient, path: Path, number: int, source: str) -> None:
        """Run a cell whose gap is filled in. Raises LessonFailed where its judge does not find it right."""
        client.nb.cells[number].source = source
        self.run_cell(client, path, number, "with its gap filled in: ")
        printed = text_of(client.nb.cells[number])
        if not printed.endswith(f": {gap.RIGHT}\n"):
            raise LessonFailed(f"{place_of(path, number)}: with its gap filled in, the judge says: {printed.strip()}")

    def run_cell(self, client: NotebookClient, path: Path, number: int, when: str = "") -> None:
        """Run one cell. Raises LessonFailed, which names it. when: in front of the message."""
        if self.is_stopped:
            raise LessonFailed(f"{place_of(path, number)}: stopped")
        try:
            client.execute_cell(client.nb.cells[number], number)
        except CellExecutionError as error:
            last = f"{error.ename}: {error.evalue}".splitlines()[0]
            raise LessonFailed(f"{place_of(path, number)}: {when}{last}") from error
        except CellTimeoutError as error:
            raise LessonFailed(f"{place_of(path, number)}: it took more than {LIMIT} seconds") from error
        except DeadKernelError as error:
            raise LessonFailed(f"{place_of(path, number)}: its process has died") from error

    def stop(self) -> None:
        """End every kernel that runs: what waits for it gets a DeadKernelError."""
        self.is_stopped = True
        with self.lock:
            running = list(self.clients)
        for client in running:
            if process := kernel_process(client):
                process.kill()


def kernel_process(client: NotebookClient) -> psutil.Process | None:
    """The process of a kernel; None where it has ended or has not started."""
    pid = getattr(getattr(client.km, "provisioner", None), "pid", None)
    try:
        return psutil.Process(pid) if pid else None
    except psutil.NoSuchProcess:
        return None


def processor_seconds(client: NotebookClient) -> float:
    """Seconds of processors that a kernel and the processes that it has waited for have used."""
    process = kernel_process(client)
    if process is None:
        return 0.0
    times = process.cpu_times()
    return times.user + times.system + getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)


def text_of(cell: nbformat.NotebookNode) -> str:
    """What a cell has printed."""
    return "".join(output.get("text", "") for output in cell.outputs)


def place_of(path: Path, number: int) -> str:
    """ "03_attention.py, cell 4 (line 120)": where a cell stands; cells are counted from 0."""
    return f"{path.name}, cell {number} (line {cells(path)[number].line})"


# --- all of them -----------------------------------------------------------------------------------------------------


def cache_in(folder: Path, root: Path = ROOT):
    """The cache for the package as it is now; the oldest ones of earlier days are removed, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    here = folder / digest(root)
    here.mkdir(exist_ok=True)
    os.utime(here)
    ours = [path for path in folder.iterdir() if path.is_dir() and DIGEST.fullmatch(path.name)]
    by_age = sorted(ours, key=lambda path: path.stat().st_mtime, reverse=True)
    for old in by_age[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    cache = get_cache(here)
    cache.change_cache_limit(10_000)
    return cache


def cached(cache, path: Path, again: bool = False) -> nbformat.NotebookNode | None:
    """The lesson with the outputs that are kept, and its prose as it is now; None where its cells have not run yet.

    again: None too where its cells have not run again.
    """
    try:
        key, notebook = cache.merge_match_into_notebook(read(path))
    except KeyError:
        return None
    numbers = cache.get_cache_record(key).data.get("again")
    if again and not numbers:
        return None
    if numbers:
        notebook.metadata["minigpt"] = {"run_again": numbers}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs = as_shown(cell.outputs)
    mark(notebook, path)
    return notebook


def as_shown(outputs: list) -> list:
    """The outputs of a cell without stderr, with its progress bars, and warnings that name this machine.

    What a kernel sends in pieces to stdout is one output.
    """
    found = []
    for output in outputs:
        if output.output_type != "stream":
            found.append(output)
        elif output.name == "stderr":
            continue
        elif found and found[-1].output_type == "stream":
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def executed(paths: list[Path], folder: Path, jobs: int, say: Callable[[str], None], again: bool = False) -> dict:
    """{"03_attention": the notebook with its outputs} of all these lessons, in their order.

    folder: of the caches; jobs: how many run at a time; again: does each quick cell run again? Raises LessonFailed for
    the first that fails: the others that run are stopped, and what has run before is kept.
    """
    cache = cache_in(folder)
    missing = [path for path in paths if cached(cache, path, again) is None]
    number = "1 lesson" if len(paths) == 1 else f"{len(paths)} lessons"
    say(f"{number}; to run now: {len(missing)}, {jobs} at a time")
    (folder / DRAWN).mkdir(exist_ok=True)
    runner, used = Runner(folder / DRAWN, again), 0.0
    longest_first = sorted(missing, key=seconds_to_run, reverse=True)
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(timed, runner, path): path for path in longest_first}
        try:
            for done in as_completed(waiting):
                path, (ran, seconds) = waiting[done], done.result()
                bundle = CacheBundleIn(ran.notebook, path.name, data={"again": ran.again})
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
                used += ran.seconds
                say(f"{path.name}: {seconds:.1f} s, {ran.seconds:.1f} s of processors")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runner.stop()
            raise
    if missing:
        say(f"all lessons have run: {used:.0f} s of processors")
    return {path.stem: cached(cache, path) for path in paths}


def timed(runner: Runner, path: Path) -> tuple[Ran, float]:
    """A lesson that has run, and the seconds that passed."""
    began = time.perf_counter()
    return runner.run(path), time.perf_counter() - began
