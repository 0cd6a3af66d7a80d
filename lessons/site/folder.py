"""A folder that takes over the files of another one, and leaves alone what is the same: so only changes are built."""

import shutil
from pathlib import Path


class Folder:
    """The folder at this path."""

    def __init__(self, path: Path):
        self.path = path

    def files(self) -> dict[str, Path]:
        """{"lessons/index.md": its path} of all files in it."""
        found = (path for path in self.path.rglob("*") if path.is_file())
        return {path.relative_to(self.path).as_posix(): path for path in found}

    def become(self, other: Path) -> None:
        """Take the files of the other folder, which is removed; files with the same bytes are not touched."""
        mine, theirs = self.files(), Folder(other).files()
        for name in mine.keys() - theirs.keys():
            mine[name].unlink()
        for name, path in theirs.items():
            if name not in mine or mine[name].read_bytes() != path.read_bytes():
                place = self.path / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
        shutil.rmtree(other)
