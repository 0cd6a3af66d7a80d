"""A device, how fast it copies and multiplies, how a call is timed, and the rows that a part has measured so far."""

import contextlib
import copy
import functools
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import machine
import numpy as np

from minigpt import ops
from minigpt.device import arrays, gpu
from minigpt.errors import InputError
from minigpt.jobs.pretrain.settings import DTYPES
from minigpt.models.gpt2 import GPT2

SMALL = {"n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 32, "vocab_size": 300}
NO_DROPOUT = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
ROUNDS = 7


class Skipped(Exception):
    """This machine cannot play a part, or a tool that it needs is not there; the message says which."""


class Bench:
    """What the parts share. device: "cuda" or "cpu". quick: small sizes. batches: of a training step, the last counts.

    keep: a function of all rows so far, called whenever one is added, so that none is lost where a part is ended.
    out: a folder for the files of other scripts; None: where they always write.
    """

    def __init__(
        self, device: str, quick: bool, batches: list[int], keep: Callable[[dict], None] = lambda rows: None,
        out: Path | None = None,
    ):  # fmt: skip
        self.device, self.quick, self.batches, self.keep, self.out = device, quick, batches, keep, out
        self.rows: dict[str, dict] = {}
        self.on_gpu = device == "cuda"
        self.sizes = SMALL if quick else {}
        self.batch = batches[-1]

    def note(self, name: str, **numbers) -> None:
        """Add a row, keep it and print it: who reads the line finds the row kept."""
        self.rows[name] = self.rows.get(name, {}) | numbers
        self.keep(self.rows)
        cells = [f"{key} {in_words(key, value)}" for key, value in numbers.items()]
        print(f"{name:<58} {'  '.join(cells)}", flush=True)

    # ------------------------------------------------------------------------------------------------ what there is

    @functools.cached_property
    def precisions(self) -> list[str]:
        """What a model can compute in here."""
        return [name for name in DTYPES if self._possible(name)]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What arrays can be made of: on a GPU of bfloat16 too, if it has units for that."""
        return ("float32", "bfloat16") if "bfloat16" in self.precisions else ("float32",)

    @property
    def lowest(self) -> str:
        """bfloat16, where there is such a thing here."""
        return self.dtypes[-1]

    def _possible(self, precision: str) -> bool:
        with contextlib.suppress(InputError):
            arrays.check_precision(precision, self.device)
            return True
        return False

    @functools.cached_property
    def bandwidth(self) -> float:
        """Bytes that a copy reads and writes in a second."""
        x = self.normal(1 << 14 if self.quick else 1 << 28)
        rate = 2 * x.nbytes / self.seconds(x.copy)
        del x
        self.free()  # or a part of that memory would be cuBLASLt's for good, and none of it could be given back
        return rate

    @functools.cached_property
    def rates(self) -> dict[str, float]:
        """Additions and multiplications of a large product in a second, for each dtype."""
        m = 128 if self.quick else 8192
        found = {}
        for dtype in self.dtypes:
            a = self.normal(m, m, dtype=dtype)
            found[dtype] = 2 * m**3 / self.seconds(lambda a=a: ops.linear_forward(a, a))
        return found

    # --------------------------------------------------------------------------------------------------------- time

    def wait(self) -> None:
        """Until everything launched is done."""
        if self.on_gpu:
            gpu.synchronize()

    def moment(self):
        """A moment on the device's clock: an event, or the time of a processor."""
        if not self.on_gpu:
            return time.perf_counter()
        event = gpu.cupy.cuda.Event()
        event.record()
        return event

    def between(self, first, last) -> float:
        """Seconds from one moment to another, which must have come."""
        return gpu.cupy.cuda.get_elapsed_time(first, last) / 1e3 if self.on_gpu else last - first

    def seconds(self, function: Callable, wait: Callable | None = None, least: float = 0.02, rounds: int = ROUNDS):
        """The median time of a call, as `machine.median_seconds` measures it."""
        return machine.median_seconds(function, wait or self.wait, least, rounds)

    # ------------------------------------------------------------------------------------------------------- arrays

    def normal(self, *shape, dtype="float32"):
        """Random numbers on the device; the same million again and again, for it takes long to draw more."""
        numbers = np.random.default_rng(0).standard_normal(1 << 20, dtype=np.float32)
        return arrays.to_device(np.resize(numbers, shape).astype(arrays.named_dtype(dtype)), self.device)

    def held(self) -> int:
        """Bytes that CuPy's pool holds."""
        return gpu.held_memory() if self.on_gpu else 0

    def free(self) -> None:
        """Both libraries give back what their pools only keep: it would stand in the other's way, or be counted."""
        gc.collect()
        if self.on_gpu:
            gpu.free_memory()
            if "torch" in sys.modules:
                sys.modules["torch"].cuda.empty_cache()

    # ------------------------------------------------------------------------------------------------------- models

    def config(self, **sizes) -> GPT2.Config:
        """GPT-2 small without dropout, or a small model; sizes: what is different."""
        return GPT2.Config(**NO_DROPOUT | self.sizes | sizes)

    def model(self, config: GPT2.Config, precision: str = "float32", device: str | None = None) -> GPT2:
        """A model with the same weights each time. In tf32 it is the products that differ: see gpu.products_in."""
        made = copy.deepcopy(_drawn(config)).to(device or self.device)
        made.compute_in("bfloat16" if precision == "bfloat16" else None)
        return made

    def texts(self, batch: int, config: GPT2.Config) -> np.ndarray:
        """Random ids and targets (2,batch,n_positions)."""
        return np.random.default_rng(0).integers(config.vocab_size, size=(2, batch, config.n_positions))


@functools.cache
def _drawn(config: GPT2.Config) -> GPT2:
    """A model on the host, to be copied: to draw the weights of GPT-2 small takes seconds each time."""
    return GPT2(config)


def gradients(model: GPT2, ids, targets, **options) -> tuple:
    """The loss, and {name: gradient} after a forward and a backward pass."""
    model.zero_grad()
    loss, cache = model.loss(ids, targets, normalizer=targets.size, **options)
    model.loss_backward(cache)
    return loss, {name: p.grad for name, p in model.named_parameters()}


def products_in(precision: str):
    """`with products_in("tf32"): ...`: products of float32 matrices are as a model in this precision has them."""
    return gpu.products_in("tf32" if precision == "tf32" else "float32")


def in_words(key: str, value) -> str:
    """Seconds in a unit that can be read; other numbers with four digits."""
    if not isinstance(value, float):
        return str(value)
    if key.split()[-1] == "seconds":
        return f"{1e3 * value:.3f} ms" if value > 1e-3 else f"{1e6 * value:.1f} us"
    return f"{value:.4g}"
