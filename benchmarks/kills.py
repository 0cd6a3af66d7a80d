"""Commands are ended in the middle, given again as they were, and must end with the bytes of an undisturbed run.

    python benchmarks/kills.py               # about 700 attacks, 20 minutes on two cores
    python benchmarks/kills.py --trials 5    # a look at it: five of each kind

Attacks on an operation on files in the command's folder (opening to write, syncing, renaming, removing), whose number
is drawn from all that an undisturbed run makes:

    kill      the process is killed before it; "torn": after half of the file has been written
    random    the process is killed at any moment
    full      from there on the disk is full, until the command ends
    signal    SIGTERM, SIGHUP and SIGINT (Ctrl-C), one after the other: the command ends by itself
    writers   the process is halted there, and the same command is given meanwhile, which must be refused

Everything runs in processes that are forked from this one, which has imported all that a command needs. Compared is
every file of the folder but for the speeds in loss.csv. POSIX only.
"""

import argparse
import contextlib
import csv
import hashlib
import http.server
import importlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from minigpt.cli import main as minigpt
from minigpt.files import hub
from minigpt.jobs import interrupt

FOLDER = "out"  # of the command that is attacked
TINY = "--layers 1 --heads 2 --embd 16 --context 16 --batch 4 --dropout 0.1"
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", ".")
COMMANDS = {
    "train": f"train {TINY} --steps 6 --eval-every 3 --tokenizer char --data words.txt --out {FOLDER}",
    "train gpt2": f"train --model gpt2 {TINY} --steps 6 --tokenizer bpe:270 --data words.txt --out {FOLDER}",
    "train, kept often": f"train {TINY} --steps 200 --eval-every 50 --tokenizer char --data words.txt --out {FOLDER}",
    "tokenizer train": f"tokenizer train --vocab 60 --data words.txt --out {FOLDER}",
    "finetune": f"finetune base --task classification --train train.tsv --epochs 2 --batch 4 --out {FOLDER}",
    "finetune, seeds": "finetune base --task classification --train train.tsv --epochs 2 --batch 4 --seeds 2 "
    f"--out {FOLDER}",
    "download": f"download gpt2 --out {FOLDER}",
}
OFTEN = 0.02  # seconds after which a run is kept in "train, kept often"
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
KINDS = ("kill", "torn", "twice", "random", "full", "signal", "writers")
TRIALS = 15  # with fewer it is only a look, and nothing is written
MANY = 200  # operations: a command that makes more is one whose number depends on the clock
TRIES = 5  # how often a command is given until it must have ended


class Attack(NamedTuple):
    """What happens at operation number `at`; see KINDS. Nothing happens at operation -1. number: of a signal."""

    kind: str = "nothing"
    at: int = -1
    number: int = 0


NOTHING = Attack()


class Outcome(NamedTuple):
    """How it ended: "equal", "differs", "stuck" or "wrong". why: in words."""

    verdict: str
    why: str = ""


# ------------------------------------------------------------------------------------------------ a process of its own


class Watched:
    """In a child: counts the operations on files in a folder, and attacks at one of them."""

    def __init__(self, folder: Path, attack: Attack):
        self.folder = f"{folder}{os.sep}"
        self.attack = attack
        self.count = 0
        self.is_busy = False
        self.sync = os.fsync
        os.fsync = self.fsync
        sys.addaudithook(self.note)

    def note(self, event: str, arguments: tuple) -> None:
        """An audit hook: sees every file that is opened, renamed or removed."""
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
            self.operation(path, needs_room=True)
        elif event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir"):
            path = arguments[1] if event == "os.rename" else arguments[0]
            self.operation(path, needs_room=event == "os.mkdir")

    def fsync(self, handle: int) -> None:
        """In place of os.fsync."""
        path = os.readlink(f"/proc/self/fd/{handle}") if os.path.isdir("/proc/self/fd") else self.folder
        self.operation(path, needs_room=not os.path.isdir(path), handle=handle)
        self.sync(handle)

    def operation(self, path, needs_room: bool, handle: int | None = None) -> None:
        """One operation on a file or a folder."""
        inside = f"{os.path.abspath(os.fspath(path))}{os.sep}".startswith(self.folder)
        if self.is_busy or not inside:
            return
        self.count += 1
        self.is_busy = True
        try:
            self.strike(needs_room, handle)
        finally:
            self.is_busy = False

    def strike(self, needs_room: bool, handle: int | None) -> None:
        """The attack, if this is its operation."""
        kind, at, number = self.attack
        now = self.count == at
        if kind in ("kill", "twice") and now:
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "torn" and self.count >= at > 0 and needs_room and handle is not None:
            os.ftruncate(handle, os.fstat(handle).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "signal" and now:
            os.kill(os.getpid(), number)
        elif kind == "writers" and now:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif kind == "full" and self.count >= at > 0 and needs_room:
            raise OSError(28, "No space left on device")


def start(words: list[str], place: Path, attack: Attack) -> int:
    """Begin a command in a process of its own, in the folder `place`; returns the process's number.

    What it prints goes to `said` there, and the number of its operations to `count`.
    """
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    status = 70
    try:
        # The parent shares tqdm's lock: a child killed while it held the lock would leave the parent waiting forever.
        tqdm.set_lock(threading.RLock())
        os.chdir(place)
        output = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
        watched = Watched(place / FOLDER, attack)
        status = minigpt(words)
        Path("count").write_text(str(watched.count), encoding="utf-8")
    except SystemExit as error:
        status = int(error.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def end_of(process: int) -> int:
    """Wait for a process; its exit status, negative for a signal that has killed it."""
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def run(words: list[str], place: Path, attack: Attack = NOTHING) -> int:
    """Do a command; returns its exit status."""
    return end_of(start(words, place, attack))


def said(place: Path) -> str:
    """The last line that the last command in this place has printed."""
    lines = (place / "said").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][-200:] if lines else ""


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in a folder, without speeds; nothing hidden but what a killed writer might have left."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith(".cache"):
            found[name] = without_speeds(path.read_bytes()) if path.suffix == ".csv" else path.read_bytes()
    return found


def without_speeds(table: bytes) -> bytes:
    """A table without its column of tokens per second."""
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    for row in rows:
        row.pop("tokens_per_second", None)
    return repr(rows).encode()


# ------------------------------------------------------------------------------------------------------------- attacks


class Target:
    """A command, its undisturbed run, and how many operations that makes. place: a folder with what it reads."""

    def __init__(self, name: str, place: Path, more: str = ""):
        self.words = f"{COMMANDS[name]} {more}".split()
        self.place = place
        self.folder = place / FOLDER
        started = time.perf_counter()
        status = run(self.words, place)
        self.seconds = time.perf_counter() - started
        if status:
            raise RuntimeError(f"{name} ended with {status}: {said(place)}")
        self.operations = int((place / "count").read_text(encoding="utf-8"))
        self.expected = contents(self.folder)

    def attack(self, attack: Attack, rng: random.Random) -> Outcome:
        """Do the command from the start, with an attack, then again until it ends."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if attack.kind == "random":
            self._kill_at_any_moment(rng)
        elif attack.kind == "writers":
            wrong = self._two_writers(attack)
            if wrong:
                return Outcome("wrong", wrong)
        else:
            status = run(self.words, self.place, attack)
            allowed = _statuses(attack)
            if status not in allowed:
                return Outcome("wrong", f"status {status}: {said(self.place)}")
            if attack.kind == "twice":
                run(self.words, self.place, attack._replace(at=rng.randint(1, self.operations)))
        return self._again()

    def _again(self) -> Outcome:
        for _ in range(TRIES):
            status = run(self.words, self.place)
            if status == 0:
                break
        if status:
            return Outcome("stuck", f"status {status}: {said(self.place)}")
        found = contents(self.folder)
        if found == self.expected:
            return Outcome("equal")
        names = [name for name in found.keys() | self.expected.keys() if found.get(name) != self.expected.get(name)]
        return Outcome("differs", ", ".join(sorted(names)))

    def _kill_at_any_moment(self, rng: random.Random) -> None:
        process = start(self.words, self.place, NOTHING)
        time.sleep(rng.uniform(0, self.seconds))
        os.kill(process, signal.SIGKILL)
        end_of(process)

    def _two_writers(self, attack: Attack) -> str:
        """What is wrong where the same command is given while the first one is halted; "" where nothing is."""
        first = start(self.words, self.place, attack)
        _, status = os.waitpid(first, os.WUNTRACED)
        if status == 0 and attack.at > MANY:  # it was kept by the clock, and made fewer operations this time
            shutil.rmtree(self.folder)
            return self._two_writers(attack._replace(at=attack.at // 2))
        if not os.WIFSTOPPED(status):
            return f"the first ended before: {said(self.place)}"
        before = contents(self.folder)
        second = run(self.words, self.place)
        words, changed = said(self.place), contents(self.folder) != before
        os.kill(first, signal.SIGCONT)
        ended = end_of(first)
        if second != 2 or "another process" not in words:
            return f"the second ended with {second}: {words}"
        return "the second changed a file" if changed else f"the first ended with {ended}" * (ended != 0)


def _statuses(attack: Attack) -> tuple[int, ...]:
    """The exit statuses that an attack may lead to."""
    if attack.kind == "full":
        return (2, 0)  # 0: nothing that needs room came after
    if attack.kind == "signal":
        # -number: before the work began, there is nothing to save; 0: it was at its end
        return (128 + attack.number, -attack.number, 0) + ((130,) if attack.number == signal.SIGINT else ())
    return (-signal.SIGKILL, 0)


def attacks(kind: str, target: Target, trials: int, rng: random.Random) -> list[Attack]:
    """So many attacks, evenly over the operations."""
    first, last = 1, target.operations
    if kind == "writers":  # the first four make the folder and the lock; the last two remove them
        first, last = 5, target.operations - 2
    chosen = [first + round(i * (last - first) / max(trials - 1, 1)) for i in range(trials)]
    if kind == "twice":
        rng.shuffle(chosen)
    return [Attack(kind, at, SIGNALS[i % len(SIGNALS)]) for i, at in enumerate(chosen)]


# -------------------------------------------------------------------------------------------------- what commands read


def prepare(place: Path, names: list[str]) -> str:
    """Write what the commands read; returns what `download` needs besides, the address of a server."""
    rng = random.Random(0)
    (place / "words.txt").write_text(" ".join(rng.choice(WORDS) for _ in range(1700)), encoding="utf-8")
    animals = [f"the {rng.choice(WORDS)} {rng.choice(['cat', 'dog'])}\tanimal" for _ in range(20)]
    things = [f"the {rng.choice(WORDS)} {rng.choice(['mat', 'cup'])}\tthing" for _ in range(20)]
    lines = ["text\tlabel", *(line for pair in zip(animals, things, strict=True) for line in pair)]
    (place / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if any(name.startswith("finetune") for name in names):
        words = f"train {TINY} --steps 4 --tokenizer bpe:60 --data words.txt --out base".split()
        if run(words, place):
            raise RuntimeError(said(place))
    return serve() if "download" in names else ""


def serve() -> str:
    """Publish four small files on a server of this machine, as gpt2; returns its address. It ends with this process."""
    files = {"config.json": b"{}", "vocab.json": b'{"a": 0}', "merges.txt": b"#version: 0.2\n"}
    files["model.safetensors"] = random.Random(0).randbytes(3_000_000)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    commit = "0123456789abcdef0123456789abcdef01234567"
    hub.PUBLISHED["gpt2"] = hub.PUBLISHED["gpt2"]._replace(commit=commit, sha256=sums)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(b"")

        def do_GET(self):
            self.answer(files[self.path.rsplit("/", 1)[-1]])

        def answer(self, content: bytes):
            name = self.path.rsplit("/", 1)[-1]
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
            self.send_response(206 if start else 200)
            size = len(files[name])
            if start:
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            for header, value in (("ETag", f'"{sums[name]}"'), ("X-Repo-Commit", commit),
                                  ("X-Linked-Etag", f'"{sums[name]}"'), ("X-Linked-Size", str(size)),
                                  ("Content-Length", str(size - start))):  # fmt: skip
                self.send_header(header, value)
            self.end_headers()
            with contextlib.suppress(OSError):  # the other side was killed
                self.wfile.write(content[start:])

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    parent = os.getpid()
    if os.fork() == 0:
        server.timeout = 1
        while os.getppid() == parent:
            server.handle_request()
        os._exit(0)
    return f"--from http://127.0.0.1:{server.server_port}"


@contextlib.contextmanager
def kept_often(seconds: float):
    """Inside, runs are kept that often."""
    before = interrupt.KEEP_SECONDS, interrupt.SHARE
    interrupt.KEEP_SECONDS, interrupt.SHARE = seconds, 1e9
    try:
        yield
    finally:
        interrupt.KEEP_SECONDS, interrupt.SHARE = before


def warm_up() -> None:
    """Import what a command imports when it first needs it, before anything is forked."""
    for name in ("minigpt.jobs.finetune", "minigpt.jobs.pretrain", "minigpt.jobs.vocabulary", "minigpt.jobs.download"):
        importlib.import_module(name)
    with contextlib.suppress(ImportError):
        importlib.import_module("huggingface_hub.file_download")
    from minigpt import plot

    with tempfile.TemporaryDirectory() as folder:
        plot.loss_curve([{"step": 0, "train_loss": 1.0, "val_loss": 1.0}], 2, Path(folder) / "x.png", 0.5)


def attacked(
    name: str, place: Path, kinds: list[str], trials: int, more: str = "", tell: Callable[[str], object] = print
) -> dict[str, int]:
    """Attack a command; how many attacks there were of each kind and outcome. What is not equal is told."""
    rng = random.Random(name)
    counts = {}
    with kept_often(OFTEN) if "often" in name else contextlib.nullcontext():
        target = Target(name, place, more)
        for kind in kinds:
            for attack in attacks(kind, target, trials, rng):
                outcome = target.attack(attack, rng)
                counts[outcome.verdict] = counts.get(outcome.verdict, 0) + 1
                counts[kind] = counts.get(kind, 0) + 1
                if outcome.verdict != "equal":
                    tell(f"{name}, {attack}: {outcome.verdict}: {outcome.why}")
    shutil.rmtree(target.folder)
    return counts | {"operations": target.operations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=TRIALS, help="attacks of each kind on each command")
    parser.add_argument("--commands", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    import machine

    warm_up()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        address = prepare(place, options.commands)
        for name in options.commands:
            more = address if name == "download" else ""
            kinds = [kind for kind in options.kinds if name != "download" or kind not in ("signal", "writers")]
            rows[name] = attacked(name, place, kinds, options.trials, more)
            print(name, rows[name], flush=True)
    columns = ("operations", *options.kinds, "equal", "stuck", "differs", "wrong")
    print(machine.table(rows, columns))
    machine.save("kills", rows, threads=1, quick=options.trials < TRIALS)


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"
    main()
