"""An audit hook that refuses what a learner's file has no reason to do: a fence against accidents, not an attacker.

Python tells the hook before it opens a file, starts a process and so on; what the hook raises is raised there. Python
cannot hide the hook from code that looks for it in memory, and C code need not tell it anything: so whoever means harm
gets past it. This file needs the standard library only: the learner's process loads it by its path.
"""

import contextlib
import os
import signal
import sys

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = {  # the beginning of an event's name: what a file would do by it
    "os.fork": "start processes",
    "os.exec": "start processes",
    "os.posix_spawn": "start processes",
    "os.spawn": "start processes",
    "os.system": "start processes",
    "os.startfile": "start processes",
    "subprocess.": "start processes",
    "pty.": "start processes",
    "os.killpg": "send signals to other processes",
    "socket.": "use the network",
    "ctypes.": "use ctypes",
    "resource.": "change its limits",
    "winreg.": "use the registry",
    "sqlite3.": "open databases",
    "syslog.": "write to the system's log",
    "os.chdir": "leave its folder",
    "os.fchdir": "leave its folder",
}
MODULES = {  # what these can do is told to no hook
    "_posixsubprocess": "start processes",
    "_winapi": "start processes",
    "_multiprocessing": "start processes",
    "_posixshmem": "share memory with other processes",
    "_dbm": "open databases",
    "_gdbm": "open databases",
}
UNTOLD = (  # functions of os and signal that are told to no hook
    "mkfifo", "mknod", "pidfd_open", "pidfd_send_signal", "chroot", "unshare", "setns", "setpgid", "setpriority",
)  # fmt: skip
CHANGING = {  # events that change the file tree: which of their arguments are paths
    "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.link": (0, 1), "os.symlink": (1,), "os.mkdir": (0,),
    "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.chflags": (0,), "os.utime": (0,), "os.setxattr": (0,),
    "os.removexattr": (0,),
}  # fmt: skip


def install(folder: str, readable: list[str], hidden: list[str]) -> None:
    """From now on this process opens only files in its folder, and reads those in the readable folders.

    hidden: folders inside the readable ones that are not to be read, unless a readable folder lies inside them.
    """
    fence = Fence(folder, readable, hidden)
    for name in UNTOLD:
        for module in (os, signal, sys.modules.get("posix"), sys.modules.get("_signal")):
            with contextlib.suppress(AttributeError):
                delattr(module, name)
    sys.addaudithook(fence)


class Fence:
    """The hook: called with the name of an event and its arguments."""

    def __init__(self, folder, readable, hidden):
        self.own = _inside(folder)
        self.roots = [(_inside(one), True) for one in readable] + [(_inside(one), False) for one in hidden]
        self.roots.sort(key=lambda root: -len(root[0]))  # the innermost one decides
        self.pid = os.getpid()
        self.here = __file__

    def __call__(self, event, args):
        kind = event.partition(".")[0]
        if event == "open":
            self.opened(*args)
        elif event == "import":
            self.imported(*args[:2])
        elif kind == "os" and event in CHANGING:
            for place in CHANGING[event]:
                self.changed(args[place])
        elif event in ("os.listdir", "os.scandir"):
            self.listed(args[0])
        elif event == "os.kill":
            if args[0] != self.pid:
                refuse("send signals to other processes")
        elif event == "object.__setattr__":
            if getattr(getattr(args[0], "__code__", None), "co_filename", "") == self.here:
                refuse("change the fence")
        elif kind in ("os", "subprocess", "pty", "socket", "ctypes", "resource", "winreg", "sqlite3", "syslog"):
            for beginning, what in REFUSED.items():
                if event.startswith(beginning):
                    refuse(what)

    def opened(self, path, mode, flags):
        if isinstance(path, int):
            return
        place = real(path)
        if place == os.devnull or place == "/dev/urandom" or place.startswith(self.own):
            return
        if flags & WRITES:
            refuse(f"write to {shown(path)}, outside its folder")
        if not self.is_readable(place) or os.path.isdir(place):
            refuse(f"read {shown(path)}")

    def imported(self, name, path):
        if name in MODULES:
            refuse(f"import {name}, which can {MODULES[name]}")
        if path and not self.is_readable(real(path)):
            refuse(f"import {shown(path)}")

    def changed(self, path):
        if isinstance(path, int):
            return
        if not (real(path) + os.sep).startswith(self.own) or ".." in os.fsdecode(path):
            refuse(f"change {shown(path)}, outside its folder")

    def listed(self, path):
        place = os.getcwd() if path is None else path
        if not isinstance(place, int) and not self.is_readable(real(place)):
            refuse(f"list {shown(place)}")

    def is_readable(self, place):
        inside = place + os.sep
        if inside.startswith(self.own):
            return True
        for root, readable in self.roots:
            if inside.startswith(root):
                return readable
        return False


def _inside(folder):
    return os.path.realpath(folder) + os.sep


def real(path):
    """Where a path leads, as text. A relative one that leads upward leads nowhere: it may start at any open folder."""
    path = os.fsdecode(path)
    if not os.path.isabs(path) and ".." in path:
        return os.devnull + path
    return os.path.realpath(path)


def shown(path):
    """A path in a message: not longer than a line."""
    text = repr(os.fsdecode(path))
    return text if len(text) < 70 else text[:30] + "…" + text[-30:]


def refuse(what):
    """Raise the error that tells a file what it may not do."""
    raise PermissionError(f"a file that is judged may not {what}")
