"""A job object of Windows: it holds a process and all that it starts, limits their memory, and ends them together.

https://learn.microsoft.com/windows/win32/procthread/job-objects. Not seen on Windows by its authors.
"""

import ctypes
from typing import Any

KILL_ON_CLOSE = 0x2000
DIE_ON_UNHANDLED_EXCEPTION = 0x400
JOB_MEMORY = 0x200
PROCESS_MEMORY = 0x100
ACTIVE_PROCESSES = 0x8
EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = [
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    ]


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = [
        ("BasicLimitInformation", BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    ]


class Job:
    """A job with one process in it, which may start no other.

    memory: bytes that it may have. kernel32: the library of the system; tests give another one. Raises OSError where
    the system refuses.
    """

    def __init__(self, process: Any, memory: int, kernel32: Any = None):
        self._kernel32 = kernel32 or _kernel32()
        self._handle = self._kernel32.CreateJobObjectW(None, None)
        if not self._handle:
            raise OSError("Windows gives no job object")
        limits = ExtendedLimits()
        basic = limits.BasicLimitInformation
        basic.LimitFlags = KILL_ON_CLOSE | DIE_ON_UNHANDLED_EXCEPTION | JOB_MEMORY | PROCESS_MEMORY | ACTIVE_PROCESSES
        basic.ActiveProcessLimit = 1
        limits.ProcessMemoryLimit = limits.JobMemoryLimit = memory
        pointer, size = ctypes.byref(limits), ctypes.sizeof(limits)
        if not self._kernel32.SetInformationJobObject(self._handle, EXTENDED_LIMITS, pointer, size):
            self._refuse("sets no limits")
        if not self._kernel32.AssignProcessToJobObject(self._handle, int(process._handle)):
            self._refuse("takes no process in")

    def close(self) -> None:
        """End every process of the job."""
        if self._handle:
            self._kernel32.TerminateJobObject(self._handle, 1)
            self._kernel32.CloseHandle(self._handle)
            self._handle = None

    def _refuse(self, what):
        self.close()
        raise OSError(f"a job object of Windows {what}")


def _kernel32():
    """The system's library, with the types of the functions that are called here."""
    library = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]  # on Windows there is one
    handle = ctypes.c_void_p
    types = {
        "CreateJobObjectW": (handle, [handle, ctypes.c_wchar_p]),
        "SetInformationJobObject": (ctypes.c_int, [handle, ctypes.c_int, handle, ctypes.c_uint32]),
        "AssignProcessToJobObject": (ctypes.c_int, [handle, handle]),
        "TerminateJobObject": (ctypes.c_int, [handle, ctypes.c_uint32]),
        "CloseHandle": (ctypes.c_int, [handle]),
    }
    for name, (result, arguments) in types.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
