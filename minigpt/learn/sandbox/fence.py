"""An audit hook that refuses what a learner's file has no reason to do: a fence against accidents, not an attacker.

Python tells the hook before it opens a file, starts a process and so on; what the hook raises is raised there. It
stands in the process that it watches, and defends itself against nothing: a file that means harm removes it with a few
lines of Python. What holds such a file in is bubblewrap. This file needs the standard library only: the learner's
process loads it by its path.
"""

import contextlib
import importlib
import os
import sys
import threading

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = {  # an event, or all events of a module: what a file would do by it
    "os.fork": "start processes",
    "os.forkpty": "start processes",
    "os.exec": "start processes",
    "os.posix_spawn": "start processes",
    "os.spawn": "start processes",
    "os.system": "start processes",
    "os.startfile": "start processes",
    "subprocess": "start processes",
    "_winapi": "start processes",
    "os.killpg": "send signals to other processes",
    "socket": "use the network",
    "ctypes": "use ctypes",
    "sqlite3": "open databases",
}
CHANGING = {  # events that change the file tree: which of their arguments are paths
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.rename": (0, 1),
    "os.link": (0, 1),
    "os.symlink": (1,),
    "os.mkdir": (0,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.utime": (0,),
    "os.setxattr": (0,),
    "os.removexattr": (0,),
}
LISTING = ("os.listdir", "os.scandir")


def install(folder: str, readable: list[str], hidden: list[str]) -> None:
    """From now on this process opens only files in its folder, and reads those in the readable folders.

    hidden: folders inside the readable ones that are not to be read, unless a readable folder lies inside them.
    """
    own = inside(folder)
    roots = [(inside(one), True) for one in readable] + [(inside(one), False) for one in hidden]
    roots.sort(key=lambda root: (-len(root[0]), not root[1]))  # the innermost folder decides
    pid = os.getpid()

    def is_own(path):
        return isinstance(path, int) or os.fsdecode(path) == os.devnull or inside(path).startswith(own)

    def may_read(path):
        place = inside(path)
        for root, is_readable in roots:
            if place.startswith(root):
                return is_readable
        return False

    def hook(event, args):
        what = REFUSED.get(event) or REFUSED.get(event.partition(".")[0])
        if what:
            refuse(what)
        if event == "os.kill" and args[0] != pid:
            refuse("send signals to other processes")
        if event == "open" and not is_own(args[0]):
            if args[2] & WRITES:
                refuse(f"write to {shown(args[0])}, outside its folder")
            if not may_read(args[0]):
                refuse(f"read {shown(args[0])}")
        if event in LISTING:
            place = "." if args[0] is None else args[0]
            if not is_own(place) and not may_read(place):
                refuse(f"list {shown(place)}")
        for place in CHANGING.get(event, ()):
            if not is_own(args[place]):
                refuse(f"change {shown(args[place])}, outside its folder")

    sys.addaudithook(hook)
    threading.Thread.start = no_thread  # type: ignore[method-assign] # Python 3.11 tells no hook of it
    with contextlib.suppress(ImportError):  # on Windows there is none
        subprocesses = importlib.import_module("_posixsubprocess")  # multiprocessing calls it, and tells no hook
        vars(subprocesses)["fork_exec"] = lambda *args: refuse("start processes")


def no_thread(thread):
    """In the place of `Thread.start`."""
    refuse("start threads")


def refuse(what):
    """Raise the error that tells a file what it may not do."""
    raise PermissionError(f"a file that is judged may not {what}")


def inside(path):
    """How the path of everything in a folder begins; of a file, its path with one character more."""
    return os.path.normcase(os.path.realpath(os.fsdecode(path))) + os.sep


def shown(path):
    """A path in a message: not longer than a line."""
    text = repr(os.fsdecode(path))
    return text if len(text) < 70 else text[:30] + "…" + text[-30:]
