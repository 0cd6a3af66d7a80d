"""An audit hook that refuses what a learner's file has no reason to do: a fence against accidents, not an attacker.

Python tells the hook before it opens a file, starts a process and so on; what the hook raises is raised there. C code
need not tell it anything, and it runs beside the code that it watches: whoever means harm finds a way around it. This
file needs the standard library only: the learner's process loads it by its path.
"""

import contextlib
import importlib
import os
import sys
from types import MappingProxyType

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
DEVICES = (os.devnull, "/dev/urandom")
REFUSED = {  # an event, or all events of a module: what a file would do by it
    **dict.fromkeys(("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system"), "start processes"),
    **dict.fromkeys(("os.startfile", "os.startfile/2", "subprocess", "pty"), "start processes"),
    "_winapi": "start processes",
    "os.killpg": "send signals to other processes",
    "os.chdir": "leave its folder",
    "os.fchdir": "leave its folder",
    "socket": "use the network",
    "ctypes": "use ctypes",
    "resource": "change its limits",
    "winreg": "use the registry",
    "sqlite3": "open databases",
    "syslog": "write to the system's log",
    "gc": "look at every object",
}
MODULES = {  # what these can do is told to no hook
    "_multiprocessing": "start processes",
    "_posixshmem": "share memory with other processes",
    "_dbm": "open databases",
    "_gdbm": "open databases",
}
UNTOLD = {  # functions that are told to no hook, and what a file would do by them
    "os": ("mkfifo", "mknod", "pidfd_open", "chroot", "unshare", "setns", "setpgid", "setpriority"),
    "signal": ("pidfd_send_signal",),
    "_posixsubprocess": ("fork_exec",),
    "_thread": ("start_new_thread", "start_new", "start_joinable_thread"),
    "threading": ("_start_new_thread", "_start_joinable_thread"),
}
DONE_BY = {"os": "change the system", "signal": "send signals", "_posixsubprocess": "start processes"}
CHANGING = {  # events that change the file tree: which of their arguments are paths
    "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.link": (0, 1), "os.symlink": (1,), "os.mkdir": (0,),
    "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.chflags": (0,), "os.utime": (0,), "os.setxattr": (0,),
    "os.removexattr": (0,),
}  # fmt: skip


def install(folder: str, readable: list[str], hidden: list[str]) -> None:
    """From now on this process opens only files in its folder, and reads those in the readable folders.

    hidden: folders inside the readable ones that are not to be read, unless a readable folder lies inside them. What
    the file then changes in this module does not change the hook, which keeps its own.
    """
    for module, names in UNTOLD.items():
        take_away(module, names, DONE_BY.get(module, "start threads"))
    answers = refusals() | by_path(inside(folder), roots_of(readable, hidden)) | others(os.getpid())
    find = MappingProxyType(answers).get

    def hook(event, args):
        answer = find(event) or find(event.partition(".")[0])
        if answer:
            answer(*args)

    sys.addaudithook(hook)


def take_away(module, names, what):
    """Put a function that refuses in the place of these functions of a module, where there are such."""
    for home in (module, "posix" if module == "os" else "_" + module):
        with contextlib.suppress(ImportError):
            found = importlib.import_module(home)
            for name in names:
                if hasattr(found, name):
                    setattr(found, name, lambda *args, **options: refuse(what))


def refuse(what):
    """Raise the error that tells a file what it may not do."""
    raise PermissionError(f"a file that is judged may not {what}")


def refusals(refuse=refuse):
    """What is refused whatever its arguments are: a function for each event, or each module."""

    def refusing(what):
        return lambda *args: refuse(what)

    return {event: refusing(what) for event, what in REFUSED.items()}


def others(pid, refuse=refuse):
    """Signals, and changes of functions."""

    def kill(to, *args):
        if to != pid:
            refuse("send signals to other processes")

    def set_attribute(thing, name, *args):
        if name == "__defaults__" and thing.__defaults__ is None:
            return  # nothing is changed that was there: a NamedTuple is made so
        if name in ("__code__", "__defaults__", "__kwdefaults__"):
            refuse(f"set the {name} of a function")

    return {"os.kill": kill, "object.__setattr__": set_attribute}


def inside(folder):
    """How the path of everything in a folder begins."""
    return os.path.normcase(os.path.realpath(folder)) + os.sep


def roots_of(readable, hidden):
    """(beginning of paths, may they be read), the longest first: the innermost folder decides."""
    roots = [(inside(one), True) for one in readable] + [(inside(one), False) for one in hidden]
    return tuple(sorted(roots, key=lambda root: (-len(root[0]), not root[1])))


def real(
    path, fsdecode=os.fsdecode, isabs=os.path.isabs, realpath=os.path.realpath, normcase=os.path.normcase,
    devnull=os.devnull,
):  # fmt: skip
    """Where a path leads, as text. A relative one that leads upward leads nowhere: it may start at any open folder."""
    path = fsdecode(path)
    if path == devnull:
        return path
    return devnull + path if ".." in path and not isabs(path) else normcase(realpath(path))


def shown(path, fsdecode=os.fsdecode):
    """A path in a message: not longer than a line."""
    text = repr(fsdecode(path))
    return text if len(text) < 70 else text[:30] + "…" + text[-30:]


def by_path(
    own, roots, real=real, shown=shown, refuse=refuse, isdir=os.path.isdir, sep=os.sep, writes=WRITES, devices=DEVICES,
    modules=MappingProxyType(MODULES),
):  # fmt: skip
    """Functions for the events that have a path."""

    def may_read(place):
        for root, readable in roots:
            if (place + sep).startswith(root):
                return readable
        return False

    def opened(path, mode, flags):
        if isinstance(path, int):
            return
        place = real(path)
        if (place + sep).startswith(own) or place in devices:
            return
        if flags & writes:
            refuse(f"write to {shown(path)}, outside its folder")
        if not may_read(place) or isdir(place):
            refuse(f"read {shown(path)}")

    def imported(name, path, *args):
        if name in modules:
            refuse(f"import {name}, which can {modules[name]}")
        if path and not may_read(real(path)):
            refuse(f"import {shown(path)}")

    def changed(path):
        if not isinstance(path, int) and not (real(path) + sep).startswith(own):
            refuse(f"change {shown(path)}, outside its folder")

    def changing(places):
        return lambda *args: [changed(args[place]) for place in places] and None

    def listed(path, *args):
        place = "." if path is None else path
        if not isinstance(place, int) and not (real(place) + sep).startswith(own) and not may_read(real(place)):
            refuse(f"list {shown(place)}")

    told = {"open": opened, "import": imported, "os.listdir": listed, "os.scandir": listed}
    return told | {event: changing(places) for event, places in CHANGING.items()}
