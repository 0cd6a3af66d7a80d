"""A stand-in for cuBLASLt without a GPU: functions of C that read what lies at the addresses they are given.

They are called as the library is, through ctypes, and know no more of what is passed than C does: where the types of
arguments are not said, addresses come cut. What the header and the manual forbid is refused, and written down in
`complaints`. Every address must be that of an array whose address was read, and must not lead beyond its end.

It offers as many algorithms as a test says, and has a clock that goes on with each product. An algorithm is 64 bytes
that mean the same in every process, as those of the library do for one version of it.
"""

import collections
import ctypes
import dataclasses
import functools
import hashlib
from ctypes import c_char, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from types import SimpleNamespace

import cuda_on_cpu
import numpy as np
from numpy.lib.stride_tricks import as_strided

from minigpt.device.arrays import named_dtype

NAMES = {7: b"CUBLAS_STATUS_INVALID_VALUE", 13: b"CUBLAS_STATUS_EXECUTION_FAILED", 14: b"CUBLAS_STATUS_INTERNAL_ERROR"}
STREAM = 7 << 33  # more than 32 bits
SUCCESS, INVALID_VALUE, INTERNAL_ERROR, NOT_SUPPORTED = 0, 7, 14, 15
DTYPES = {0: "float32", 1: "float64", 14: "bfloat16"}
COMBINATIONS = {  # compute type, scale type, A, B, C and D
    (68, 0, 0, 0, 0, 0), (77, 0, 0, 0, 0, 0), (70, 1, 1, 1, 1, 1), (68, 0, 14, 14, 14, 14), (68, 0, 14, 14, 0, 0),
}  # fmt: skip
EPILOGUES = {1: "DEFAULT", 4: "BIAS", 164: "GELU_AUX_BIAS", 192: "DGELU", 256: "BGRADA"}
OF_DESCRIPTION = {  # attribute: name, C type, what it is until it is set
    3: ("transa", "i", 0), 4: ("transb", "i", 0), 7: ("epilogue", "I", 1), 8: ("bias", "P", None),
    11: ("aux", "P", None), 12: ("aux_ld", "q", 0), 22: ("aux_type", "i", -1), 26: ("bias_type", "i", -1),
}  # fmt: skip
OF_PREFERENCE = {
    1: ("workspace", "Q", 0), 3: ("reductions", "I", 7), 5: ("align_a", "I", 256), 6: ("align_b", "I", 256),
    7: ("align_c", "I", 256), 8: ("align_d", "I", 256),
}  # fmt: skip
FORMATS = {"i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64, "P": c_void_p}
HEURISTIC = np.dtype([("algo", "u8", 8), ("workspace", "u8"), ("state", "i4"), ("waves", "f4"), ("reserved", "i4", 4)])


ALIGNED = ("align_a", "align_b", "align_c", "align_d", "align_bias", "align_aux")  # as an algorithm was promised


@dataclasses.dataclass
class Offer:
    """An algorithm that the heuristic names."""

    seconds: float = 1e-3  # that it takes
    status: int = 0  # of a product by it
    workspace: int | None = None  # bytes; None is all that is allowed
    factor: float = 1.0  # by which its results are wrong
    known: bool = True  # to AlgoCheck


class Refused(Exception):
    """A status that is not success, and why."""


def require(truth, why, status=INVALID_VALUE):
    if not truth:
        raise Refused(status, why)


def tanh_gelu(z):
    """gelu(z) and its slope."""
    t = np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))
    return z * (1 + t) / 2, (1 + t) / 2 + z / 2 * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * z * z)


class Library:
    """Has the functions of cuBLASLt that the kernels' products use."""

    def __init__(self):
        self.made = []  # the epilogue and the dtypes of every product
        self.complaints = []  # calls that were wrong, or that the stand-in is not made for
        self.refuses = lambda problem: False  # a test may say for which problems there is no algorithm
        self.state = SUCCESS  # of every algorithm that is found
        self.offers = [Offer()]  # the best guess first
        self.used = []  # the number of the offer, for every product that was begun
        self.clock = 0.0  # seconds
        self.slower = {}  # epilogue: seconds that it takes more
        self.version = 130200
        self.recording = False
        self.gelu = tanh_gelu
        self._things = {}
        self._given = 0  # so many were made, those that are destroyed included
        self.calls = []  # names of functions
        self._names = {status: ctypes.create_string_buffer(name) for status, name in NAMES.items()}
        p = c_void_p
        self._expose("Create", self._create, p)
        self._expose("MatrixLayoutCreate", self._create_layout, p, c_int, c_uint64, c_uint64, c_int64)
        self._expose("MatmulDescCreate", self._create_description, p, c_int, c_int)
        self._expose("MatmulDescSetAttribute", self._set(OF_DESCRIPTION, "description"), p, c_int, p, c_size_t)
        self._expose("MatmulPreferenceCreate", self._create_preference, p)
        self._expose("MatmulPreferenceSetAttribute", self._set(OF_PREFERENCE, "preference"), p, c_int, p, c_size_t)
        made = {"MatrixLayout": "layout", "MatmulDesc": "description", "MatmulPreference": "preference"}
        for name, kind in made.items():
            self._expose(f"{name}Destroy", functools.partial(self._destroy, kind), p)
        self._expose("MatmulAlgoGetHeuristic", self._heuristic, *[p] * 7, c_int, p, p)
        self._expose("MatmulAlgoCheck", self._check, *[p] * 8)
        self._expose("GetVersion", lambda: self.version, result=c_size_t)
        self._expose("Matmul", self._multiply, *[p] * 14, c_size_t, p)
        self._expose("GetStatusName", lambda status: ctypes.addressof(self._names[status]), c_int, result=p)

    def _expose(self, name, method, *types, result=c_int):
        def called(*arguments):
            self.calls.append(name)
            try:
                return method(*arguments) or SUCCESS
            except Refused as refused:
                status, why = refused.args
                if status != NOT_SUPPORTED:
                    self.complaints.append(f"{name}: {why}")
                return status
            except Exception as error:  # ctypes would print it and go on
                self.complaints.append(f"{name}: {error!r}")
                return INTERNAL_ERROR

        class Function(ctypes._CFuncPtr):  # as CDLL makes them: nothing is known of its arguments
            _flags_, _restype_ = ctypes._FUNCFLAG_CDECL, c_int

        callback = ctypes.CFUNCTYPE(result, *types)(called)
        function = Function(ctypes.cast(callback, c_void_p).value)
        function.callback = callback  # it lives as long
        setattr(self, f"cublasLt{name}", function)

    def _give(self, where, kind, **fields):
        require(where, "nowhere to write to")
        handle = 0x7F0000000000 + 64 * self._given
        self._given += 1
        self._things[handle] = SimpleNamespace(kind=kind, **fields)
        c_void_p.from_address(where).value = handle

    def _take(self, handle, kind):
        require(handle in self._things and self._things[handle].kind == kind, f"{handle} is no {kind}")
        return self._things[handle]

    def _destroy(self, kind, handle):
        self._take(handle, kind)
        del self._things[handle]

    def alive(self) -> dict[str, int]:
        """{kind: how many of it were made and not destroyed}"""
        return dict(collections.Counter(thing.kind for thing in self._things.values()))

    def _create(self, where):
        self._give(where, "handle")

    def _create_layout(self, where, dtype, rows, columns, ld):
        require(dtype in DTYPES and rows > 0 and columns > 0 and ld >= rows, f"layout {dtype, rows, columns, ld}")
        self._give(where, "layout", dtype=dtype, rows=rows, columns=columns, ld=ld)

    def _create_description(self, where, compute, scale):
        defaults = {name: default for name, _, default in OF_DESCRIPTION.values()}
        self._give(where, "description", compute=compute, scale=scale, **defaults)

    def _create_preference(self, where):
        self._give(where, "preference", **{name: default for name, _, default in OF_PREFERENCE.values()})

    def _set(self, attributes, kind):
        def set(handle, attribute, where, size):
            require(attribute in attributes, f"{kind} has no attribute {attribute}")
            name, c_type, _ = attributes[attribute]
            require(where and size == ctypes.sizeof(FORMATS[c_type]), f"{name} has not {size} bytes")
            setattr(self._take(handle, kind), name, FORMATS[c_type].from_address(where).value)

        return set

    def _problem(self, handle, description, a, b, c, d):
        """Everything that an algorithm depends on, but for addresses."""
        self._take(handle, "handle")
        x = self._take(description, "description")
        a, b, c, d = (self._take(layout, "layout") for layout in (a, b, c, d))
        sizes = [(m.columns, m.rows) if turned else (m.rows, m.columns) for m, turned in ((a, x.transa), (b, x.transb))]
        require(x.transa in (0, 1) and x.transb in (0, 1), "neither N nor T")
        require(c == d and (d.rows, d.columns) == (sizes[0][0], sizes[1][1]) and sizes[0][1] == sizes[1][0], "shapes")
        types = x.compute, x.scale, a.dtype, b.dtype, c.dtype, d.dtype
        require(types in COMBINATIONS, f"types {types}", NOT_SUPPORTED)
        require(x.epilogue in EPILOGUES, f"epilogue {x.epilogue}")
        require((x.bias is not None) == (x.epilogue in (4, 164, 256)), "a bias is missing, or too many")
        require((x.aux is not None) == (x.epilogue in (164, 192)), "aux is missing, or too many")
        require(x.aux is None or (x.aux_ld % 8 == 0 and x.aux_ld >= d.rows), f"aux's leading dimension is {x.aux_ld}")
        require(x.bias_type in (-1, d.dtype) and x.aux_type in (-1, d.dtype), "types of bias or aux", NOT_SUPPORTED)
        require(x.epilogue != 256 or not x.transa, "BGRADA of a transposed A", NOT_SUPPORTED)
        problem = SimpleNamespace(x=x, a=a, b=b, d=d, epilogue=EPILOGUES[x.epilogue], types=types)
        require(not self.refuses(problem), "told to refuse", NOT_SUPPORTED)
        return problem

    @staticmethod
    def _key(problem):
        x, layouts = problem.x, [vars(layout) for layout in (problem.a, problem.b, problem.d)]
        return [x.transa, x.transb, x.epilogue, x.aux_ld, problem.types, *layouts]

    def _heuristic(self, handle, description, a, b, c, d, preference, wanted, results, number):
        preference = self._take(preference, "preference")
        problem = self._problem(handle, description, a, b, c, d)
        require(wanted >= 1 and results and number, "nowhere to write algorithms to")
        require(preference.reductions == 2, "partial sums may be rounded")
        aligned = [getattr(preference, name) for name in ALIGNED[:4]]
        for name in ("bias", "aux"):
            where = getattr(problem.x, name)
            aligned.append(min(256, where & -where) if where else 1)
        found = np.zeros(len(self.offers), HEURISTIC)
        fit = [i for i, offer in enumerate(self.offers) if (offer.workspace or 0) <= preference.workspace][:wanted]
        for result, i in zip(found, fit, strict=False):
            workspace = self.offers[i].workspace
            result["algo"] = [i, self._digest(problem), *aligned]
            result["workspace"] = preference.workspace if workspace is None else workspace
            result["state"] = self.state
        ctypes.memmove(results, found.ctypes.data, len(fit) * HEURISTIC.itemsize)
        c_int.from_address(number).value = len(fit)

    def _check(self, handle, description, a, b, c, d, algo, result):
        problem = self._problem(handle, description, a, b, c, d)
        number, digest, *_ = np.frombuffer((c_char * 64).from_address(algo), np.uint64)
        require(number < len(self.offers) and self.offers[number].known, "of another version", NOT_SUPPORTED)
        require(digest == self._digest(problem), "an algorithm for another problem", NOT_SUPPORTED)
        found = np.zeros(1, HEURISTIC)
        found["workspace"] = self.offers[number].workspace or 0
        ctypes.memmove(result, found.ctypes.data, HEURISTIC.itemsize)

    def seconds_of(self, functions):
        """In place of gpu.seconds_of, by the clock."""
        assert not self.recording, "an event that is recorded has no time"
        times = []
        for function in functions:
            before = self.clock
            function()
            times.append(self.clock - before)
        return times

    def _digest(self, problem) -> int:
        return int.from_bytes(hashlib.sha256(repr(self._key(problem)).encode()).digest()[:8], "little")

    def _multiply(self, handle, description, alpha, a, la, b, lb, beta, c, lc, d, ld, algo, workspace, size, stream):
        problem = self._problem(handle, description, la, lb, lc, ld)
        x = problem.x
        require(stream == STREAM, f"stream {stream}")
        number, digest, *aligned = np.frombuffer((c_char * 64).from_address(algo), np.uint64).tolist()
        require(digest == self._digest(problem), "an algorithm for another problem")
        offer = self.offers[number]
        self.used.append(number)
        self.clock += offer.seconds + self.slower.get(problem.epilogue, 0)
        room = cuda_on_cpu._known[workspace].nbytes
        needed = size if offer.workspace is None else offer.workspace
        require(workspace % 16 == 0 and needed <= size <= room, f"workspace of {size} bytes in {room}")
        addresses = {"a": a, "b": b, "c": c, "d": d, "bias": x.bias, "aux": x.aux}
        for promised, (name, where) in zip(aligned, addresses.items(), strict=True):
            require(not where or where % promised == 0, f"{name} is not aligned as promised")
        if offer.status:
            return offer.status
        scalar = c_double if x.scale == 1 else c_float
        one, kept = (scalar.from_address(where).value for where in (alpha, beta))
        require(one == 1 and kept in (0, 1) and c == d, "alpha, beta or C")

        wide = np.float64 if x.compute == 70 else np.float32
        left, right = (self._stored(*pair).astype(wide) for pair in ((a, problem.a), (b, problem.b)))
        left, right = left.T if x.transa else left, right.T if x.transb else right
        if x.compute == 77:
            left, right = ten_bits(left), ten_bits(right)
        z, out = left @ right * wide(offer.factor), self._stored(d, problem.d)
        aux = x.aux and self._stored(x.aux, SimpleNamespace(**{**vars(problem.d), "ld": x.aux_ld}))
        bias = x.bias and self._stored(x.bias, SimpleNamespace(**{**vars(problem.d), "columns": 1}))[:, 0]
        if problem.epilogue in ("BIAS", "GELU_AUX_BIAS"):
            z = z + bias.astype(wide)[:, None]
        if problem.epilogue == "GELU_AUX_BIAS":
            aux[...], z = z, self.gelu(z)[0]
        elif problem.epilogue == "DGELU":
            z = z * self.gelu(aux.astype(wide))[1]
        elif problem.epilogue == "BGRADA":
            bias[...] = left.sum(axis=1)
        out[...] = z + out if kept else z
        self.made.append((problem.epilogue, DTYPES[problem.a.dtype], DTYPES[problem.d.dtype]))

    def _stored(self, where, layout):
        """A column-major matrix at an address. It must lie in the array whose address was read."""
        dtype = named_dtype(DTYPES[layout.dtype])
        array = cuda_on_cpu._known[where]
        end = where + sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) + array.itemsize
        size = ((layout.columns - 1) * layout.ld + layout.rows) * dtype.itemsize
        assert array.dtype == dtype and where + size <= end, "beyond the end of an array"
        flat = np.frombuffer((c_char * size).from_address(where), np.uint8).view(dtype)
        return as_strided(flat, (layout.rows, layout.columns), (dtype.itemsize, layout.ld * dtype.itemsize))


def ten_bits(x):
    """float32 numbers rounded to the ten bits behind the point that TF32 has."""
    return ((x.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)
