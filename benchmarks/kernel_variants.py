"""Which kernels the library launches for GPT-2 small, and with what: found by a training step that computes nothing.

Every operation of the CUDA folder is called on NumPy arrays, and each launch is written down in place of being made.
So no list must be kept by hand: a new kernel, or another tile, is here as soon as an operation launches it.
"""

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import machine  # first: it makes the package importable where it is not installed
import numpy as np

from minigpt import ops
from minigpt.device import arrays, gpu
from minigpt.models.gpt2 import GPT2
from minigpt.nn.optim import AdamW
from minigpt.ops.arguments import PAIRINGS
from minigpt.ops.cuda import kernels, products
from minigpt.ops.random_keys import Key

BATCH, TIME = 2, 64  # sizes that no constant of a kernel depends on
VOCABULARY = 9001  # odd, and some for every warp, as that of GPT-2, whose 50,257 rows would take seconds
CAPABILITIES = {"sm_75": 75, "sm_80": 80, "sm_90": 90, "sm_100": 100}  # a T4, an A100, an H100, a B200
TENSOR_CORES = 80  # the first capability that has them for bfloat16 and tf32


class Variant(NamedTuple):
    """A source as it is compiled. constants: what the compiler knows, as pairs of names and numbers."""

    file: str
    dtype: str
    constants: tuple[tuple[str, int], ...]

    @property
    def source(self) -> str:
        """The whole text."""
        return kernels.source(self.file, self.dtype, **dict(self.constants))

    def __str__(self) -> str:
        words = " ".join(f"{name} {value}" for name, value in self.constants)
        return f"{self.file}, {self.dtype}" + (f", {words}" if words else "")


class Launch(NamedTuple):
    """A kernel of a variant, the threads of a block, and the bytes of shared memory that the launch adds."""

    variant: Variant
    kernel: str
    threads: int
    shared: int = 0

    def __str__(self) -> str:
        return f"{self.kernel}: {self.variant}, {self.threads} threads"


def launches(architecture: str) -> list[Launch]:
    """Every kernel that is launched for GPT-2 small on this architecture, the same one once, in a fixed sequence.

    bfloat16 and tf32 are refused where there are no tensor cores for them.
    """
    return list(_launches(CAPABILITIES[architecture] >= TENSOR_CORES))


@functools.cache
def _launches(cores: bool) -> list[Launch]:
    """The same. cores: are there tensor cores for bfloat16 and tf32? Nothing else of an architecture matters here."""
    def everything():
        for precision in ("float32", "tf32", "bfloat16") if cores else ("float32",):
            with gpu.products_in("tf32" if precision == "tf32" else "float32"):
                _train(precision)
                _decode(precision)
                _others("bfloat16" if precision == "bfloat16" else "float32")

    return launches_of(everything, cores)


def launches_of(function: Callable[[], object], cores: bool) -> list[Launch]:
    """Every kernel that a function would launch, which works with NumPy arrays. cores: as above."""
    found: set[Launch] = set()
    with _written_down(found, cores):
        function()
    return sorted(found, key=lambda launch: (launch.variant, launch.kernel, launch.threads))


@contextlib.contextmanager
def _written_down(found: set[Launch], cores: bool) -> Iterator[None]:
    """Inside, operations take NumPy arrays for CuPy's, products give zeros, and a launch only adds to found."""
    def compiled(file, dtype, constants):
        variant = Variant(file, dtype, constants)
        functions = {}
        for kernel, kinds in kernels.declared(variant.source, dtype).items():
            functions[kernel] = functools.partial(launched, variant, kernel), kinds
        return functions

    def launched(variant, kernel, grid, block, arguments, shared_mem=0, **others):
        found.add(Launch(variant, kernel, math.prod(block), shared_mem))

    def product(a, b, out, *rest, **more):
        out[...] = 0

    places = {
        (kernels, "ARRAY"): np.ndarray,
        (kernels, "address"): lambda array: array.ctypes.data // 256 * 256,  # as aligned as those of CuPy's pool
        (kernels, "_compiled"): functools.cache(compiled),
        (products, "_compute"): product,
        (products, "by_cublaslt"): False,  # nothing is computed that could be timed
        (gpu, "tensor_cores"): lambda: cores,
        (gpu, "current_stream"): lambda: (0, 0),
        (sys.modules["minigpt.ops.table"], "device_of"): lambda array: "cuda",
    }
    with machine.replaced(places), np.errstate(all="ignore"):  # nothing is computed: arrays hold anything
        yield


@functools.cache
def _model() -> GPT2:
    """GPT-2 small with one layer and fewer words: the others launch the same."""
    return GPT2(GPT2.Config(n_layer=1, vocab_size=VOCABULARY))


def _train(precision: str) -> None:
    """Forward, backward and update, without and with dropout."""
    model = _model()
    model.compute_in("bfloat16" if precision == "bfloat16" else None)
    optimizer = AdamW(model.named_parameters())
    ids, targets = np.random.default_rng(0).integers(model.config.vocab_size, size=(2, BATCH, TIME))
    for key in (None, Key.of(0, 0)):
        model.zero_grad()
        _, cache = model.loss(ids, targets, key=key)
        model.loss_backward(cache)
        optimizer.step(0.0, 1.0)
    model.loss(ids, targets, grad=False)


def _decode(precision: str) -> None:
    """A prompt, and one token after it. In bfloat16 a model decodes in float32."""
    model = _model()
    past = model.new_past(TIME, np.zeros(BATCH, int))
    with model.exact():
        for length in (TIME // 2, 1):
            model.next_logits(np.zeros((BATCH, length), int), past)


def _others(dtype: str) -> None:
    """What GPT-2 itself does not call: losses of a student, what LLaMA has, attention with masks, activations alone."""
    config = _model().config
    c, v, heads = config.n_embd, config.vocab_size, config.n_head
    low = arrays.named_dtype(dtype)
    x, table = np.ones((BATCH, TIME, c), low), np.ones((4, v), low)
    gain = np.ones(c, kernels.wide(low))
    mask, bias = np.ones((TIME, TIME), bool), np.ones((1, heads, TIME, TIME), low)
    kv, qkv = np.ones((BATCH, TIME, 2 * c), low), np.ones((BATCH, TIME, 3 * c), low)
    ids = np.zeros((BATCH, TIME), int)
    few = {"n_kv_head": heads // 3}  # heads of keys: three heads of queries share one
    grouped = np.ones((BATCH, TIME, c // heads * (heads + 2 * few["n_kv_head"])), low)
    packed = grouped.reshape(BATCH, TIME, -1, c // heads)
    angle = np.ones((TIME, c // heads // 2), gain.dtype)
    calls = {
        "gelu": [((x,), {})],
        "gelu_exact": [((x,), {})],
        "relu": [((x,), {})],
        "silu": [((x,), {})],
        "rmsnorm": [((x, gain), {})],
        "rope": [((packed,), {"cos": angle, "sin": angle, "pairing": pairing}) for pairing in PAIRINGS],
        "soft_cross_entropy": [((table, table), {})],
        "cosine_loss": [((x, x), {})],
        "self_attention": [
            ((qkv, heads), {"mask": mask}), ((qkv, heads, bias), {}),
            ((grouped, heads), few), ((grouped, heads), few | {"mask": mask}),
        ],
        "cross_attention": [((x, kv, heads), {})],
        "linear_cross_entropy": [((x, np.ones((v, c), low), ids, np.ones(v, low)), {})],
    }
    for op, several in calls.items():
        for args, constants in several:
            out, cache = getattr(ops, f"{op}_forward")(*args, **constants)
            upstream = out if np.ndim(out) else 2.0  # of a loss; where it is 1 nothing is scaled
            getattr(ops, f"{op}_backward")(upstream, cache)
    past = np.ones((BATCH, few["n_kv_head"], TIME, c // heads), low)
    ops.self_attention_forward(grouped[:, :1], heads, **few, past=(past, past), grad=False)


def never_launched(found: list[Launch]) -> list[str]:
    """The .cu files of the library that no launch has come from."""
    files = {path.stem for path in kernels.FOLDER.glob("*.cu")}
    return sorted(files - {launch.variant.file for launch in found})
