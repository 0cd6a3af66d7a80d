"""What is kept of the parts: one JSON file with the rows of all, and for each part how it ended, and with what code.

    {"rows": {name: {column: number, "measured": {...}}},
     "parts": {name: {"outcome": "done", "code": digest, "device": ..., "date": ..., "seconds": ...}}}

The rows are those of every benchmark (see machine.py). A part that is done is not measured again on the same device
while the files that it depends on are the same. So a run that was cut off goes on where it was.
"""

import datetime
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import machine

from gpu_parts.plan import TO_DO, Part
from minigpt.device import gpu

NAME = "gpu"


def digest(part: Part, root: Path = machine.ROOT) -> str:
    """A short digest of every file that a part depends on. Files that are not committed count too."""
    whole = hashlib.sha256()
    for pattern in part.files:
        for path in sorted(root.glob(pattern)):
            whole.update(path.relative_to(root).as_posix().encode())
            whole.update(path.read_bytes())
    return whole.hexdigest()[:12]


def commit(root: Path = machine.ROOT) -> str:
    """The commit that is checked out, for readers; "unknown" where there is no Git."""
    try:
        done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=root, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def is_compiled(part: Part) -> bool:
    """Has this part compiled every kernel, as they are now, on this machine?"""
    path = _compiled()
    return path is not None and path.is_file() and path.read_text(encoding="utf-8") == digest(part)


def note_compiled(part: Part) -> None:
    """It has: say so beside the kernels."""
    path = _compiled()
    if path is not None:
        path.write_text(digest(part), encoding="utf-8")


def _compiled() -> Path | None:
    folder = gpu.kernel_folder()
    return None if folder is None else Path(folder) / "minigpt_compiled"


class Record:
    """The file of results in a folder; None: nothing is read and nothing is written. device: the name of the GPU.

    start: a folder from whose file a new one goes on, where there is one.
    """

    def __init__(self, folder: Path | None, device: str, start: Path | None = None):
        self.folder, self.device = folder, device
        self.path = folder / f"{NAME}.json" if folder else None
        before = start / f"{NAME}.json" if start else None
        if self.path and before and not self.path.is_file() and before.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(before, self.path)

    def state(self, part: Part) -> str:
        """ "done", where it need not be measured again, or "to do"."""
        known = self.parts().get(part.name, {})
        return "done" if known.get("outcome") == "done" and known["code"] == digest(part) else TO_DO

    def keep(self, part: Part, outcome: str, seconds: float, rows: dict[str, dict]) -> None:
        """Keep the rows of a part, however it ended, and how it ended."""
        if self.path is None:
            return
        about = {"device": self.device, "commit": commit(), "part": part.name}
        processor = f"{self.device}, {machine.processor()}"  # a row for each GPU: the last one's, and those elsewhere
        kept = machine.with_rows(self.kept(), rows, machine.cores(), processor=processor, **about)
        ended = {"outcome": outcome, "code": digest(part), "date": datetime.date.today().isoformat()}
        kept.setdefault("parts", {})[part.name] = ended | {"seconds": round(seconds, 1)} | about
        machine.write(self.path, kept)

    def kept(self) -> dict:
        """All that the file holds."""
        if self.path is None or not self.path.is_file():
            return {}
        return json.loads(self.path.read_text(encoding="utf-8"))

    def parts(self) -> dict[str, dict]:
        """How the parts ended on this device."""
        parts = self.kept().get("parts", {})
        return {name: part for name, part in parts.items() if part["device"] == self.device}

    def rows(self) -> dict[str, dict]:
        """The rows that were measured on this device."""
        rows = self.kept().get("rows", {})
        return {name: row for name, row in rows.items() if row["measured"]["device"] == self.device}
