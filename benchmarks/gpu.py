"""All that a GPU can show: tests, each kernel against its floor and PyTorch, a step of GPT-2 small, decoding.

    python benchmarks/gpu.py                        # under 10 minutes on a machine with a GPU
    python benchmarks/gpu.py --quick                # a look at it, with a small model
    python benchmarks/gpu.py --quick --device cpu   # does this script run? Where there is no GPU; nothing is written

A kernel's floor is the larger of two times: what it must read and write over the measured speed of a copy, and the
multiplications and additions it must make over the measured speed of a product of the same dtype. Two steps from the
same weights on the same batches must end in the same bits. A step's fraction of the peak counts 6 N + 12 L C T
operations per token (PaLM, appendix B), over the speed of a product in bfloat16, or on a processor in float32. Every
PyTorch step stands below our step of the same precision; "ratio" is its time over ours. In bfloat16 our residual
stream is bfloat16 too, PyTorch's is float32. "GB" is what the memory pools of both hold. What has been measured is
written even if something fails on the way.
"""

import argparse
import contextlib
import copy
import functools
import gc
import signal
import statistics
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import machine
import numpy as np

from minigpt import ops
from minigpt.device import arrays, gpu
from minigpt.errors import InputError
from minigpt.jobs.pretrain.settings import DTYPES
from minigpt.models import costs
from minigpt.models.gpt2 import GPT2, SIZES
from minigpt.nn.optim import AdamW
from minigpt.ops.cuda.cuda_graph import Recorded
from minigpt.ops.random_keys import Key

SMALL = {"n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 32, "vocab_size": 300}
COLUMNS = ("per second", "seconds", "floor", "of floor", "PyTorch", "ratio", "tokens/s", "of peak", "GB")
TURNS = 7


class Bench:
    """A device, how fast it copies and multiplies, and the rows found so far."""

    def __init__(self, device: str, quick: bool):
        self.device, self.quick, self.rows, self.differ = device, quick, {}, []
        on_gpu = device == "cuda"
        self.wait = gpu.synchronize if on_gpu else lambda: None
        self.held = gpu.held_memory if on_gpu else lambda: 0
        n, m = (1 << 14, 128) if quick else (1 << 28, 8192)
        x = self.normal(n)
        self.bandwidth = 2 * x.nbytes / self.seconds(lambda: x.copy())
        self.free()  # or a part of that memory would be cuBLASLt's for good, and none of it could be given back
        self.rows["bytes of a copy, read and written"] = {"per second": self.bandwidth}
        self.rates = {}
        for dtype in self.dtypes:
            a = self.normal(m, m, dtype=dtype)
            self.rates[dtype] = 2 * m**3 / self.seconds(lambda a=a: ops.linear_forward(a, a))
            self.rows[f"operations of a product, {dtype}"] = {"per second": self.rates[dtype]}

    def free(self) -> None:
        """Both libraries give back what their pools only keep: it would stand in the other's way, or be counted."""
        gc.collect()
        if self.device == "cuda":
            gpu.free_memory()
            if "torch" in sys.modules:
                sys.modules["torch"].cuda.empty_cache()

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What arrays can be made of: on a GPU of bfloat16 too, if it has units for that."""
        return ("float32", "bfloat16") if "bfloat16" in self.precisions else ("float32",)

    @functools.cached_property
    def precisions(self) -> list[str]:
        """What a model can compute in here."""
        def possible(name):
            with contextlib.suppress(InputError):
                arrays.check_precision(name, self.device)
                return True

        return [name for name in DTYPES if possible(name)]

    def normal(self, *shape, dtype="float32"):
        """An array on the device."""
        numbers = np.random.default_rng(0).standard_normal(1 << 20, dtype=np.float32)
        return arrays.to_device(np.resize(numbers, shape).astype(arrays.named_dtype(dtype)), self.device)

    def seconds(self, function, wait=None) -> float:
        """The median of a few turns; a turn is as many calls as take 20 ms, and ends when the device has finished."""
        wait = wait or self.wait

        def turn(calls):
            for _ in range(calls):
                function()
            wait()

        turn(2)
        calls = max(1, int(0.02 / machine.seconds(lambda: turn(1))))
        return statistics.median(machine.seconds(lambda: turn(calls)) for _ in range(TURNS)) / calls

    def row(self, name: str, ours, theirs=None, arrays: int = 0, operations: int = 0, dtype="float32") -> None:
        """Measure one operation. arrays: bytes that it must read and write."""
        seconds = self.seconds(ours)
        floor = max(arrays / self.bandwidth, operations / self.rates[dtype])
        self.rows[name] = {"seconds": seconds, "floor": floor, "of floor": floor / seconds}
        if theirs is not None:
            other = self.seconds(theirs, torch_wait(self.device))
            self.rows[name] |= {"PyTorch": other, "ratio": other / seconds}


def torch_wait(device: str):
    """Waits until PyTorch's work on the device is done."""
    import torch

    return torch.cuda.synchronize if device == "cuda" else lambda: None


def operations(bench: Bench, dtype: str, batch: int, time: int, c: int, n_head: int, vocab: int) -> None:
    """Each operation of a block of this size, and the head: forward and backward."""
    import torch
    import torch.nn.functional as F

    normal = functools.partial(bench.normal, dtype=dtype)
    n, width = batch * time, arrays.named_dtype(dtype).itemsize
    size = width * n * c
    x, dout, b = normal(batch, time, c), normal(batch, time, c), normal(c)
    gain, shift = bench.normal(c), bench.normal(c)  # of a LayerNorm: float32 always
    tensor = {}

    def of(array):
        """The same numbers as a tensor that wants a gradient."""
        key = id(array)
        if key not in tensor:
            numbers = torch.from_numpy(arrays.to_numpy(array).astype(np.float32)).to(bench.device)
            tensor[key] = array, numbers.to(getattr(torch, array.dtype.name)).requires_grad_()
        return tensor[key][1]  # the array is kept too: once it is gone, another may have its id

    def pair(name, forward, backward_of, theirs, inputs, bytes_forward, bytes_backward, flops=0):
        """Rows of the forward and the backward pass. theirs: a function of tensors, or None."""
        _, cache = forward()
        gradient = backward_of(cache)
        other_forward = other_backward = None
        if theirs:
            inputs = [of(array) for array in inputs]
            result = theirs(*inputs)
            cotangent = torch.ones_like(result)
            other_forward = lambda: theirs(*inputs)  # noqa: E731
            other_backward = lambda: torch.autograd.grad(result, inputs, cotangent, retain_graph=True)  # noqa: E731
        bench.row(f"{name} forward, {dtype}", forward, other_forward, bytes_forward, flops, dtype)
        bench.row(f"{name} backward, {dtype}", gradient, other_backward, bytes_backward, 2 * flops, dtype)

    pair("layernorm", lambda: ops.layernorm_forward(x, gain, shift),
         lambda cache: lambda: ops.layernorm_backward(dout, cache),
         lambda x, g, b: F.layer_norm(x, (c,), g, b), [x, normal(c), normal(c)], 2 * size, 3 * size)  # fmt: skip
    pair("rmsnorm", lambda: ops.rmsnorm_forward(x, gain), lambda cache: lambda: ops.rmsnorm_backward(dout, cache),
         lambda x, g: F.rms_norm(x, (c,), g, 1e-6), [x, normal(c)], 2 * size, 3 * size)  # fmt: skip
    pair("gelu", lambda: ops.gelu_forward(x), lambda cache: lambda: ops.gelu_backward(dout, cache),
         lambda x: F.gelu(x, approximate="tanh"), [x], 2 * size, 3 * size)  # fmt: skip
    bench.row(f"residual, {dtype}", lambda: ops.add(x, dout), lambda: of(x) + of(dout), 3 * size, 0, dtype)
    key = Key.of(0, 0)
    pair("dropout", lambda: ops.dropout_forward(x, rate=0.1, key=key),
         lambda cache: lambda: ops.dropout_backward(dout, cache), lambda x: F.dropout(x, 0.1), [x],
         2 * size, 2 * size)  # fmt: skip
    w, bias = normal(c, 4 * c), normal(4 * c)
    wide = normal(batch, time, 4 * c)
    pair("linear, C to 4C", lambda: ops.linear_forward(x, w, bias),
         lambda cache: lambda: ops.linear_backward(wide, cache), lambda x, w, b: F.linear(x, w.T, b), [x, w, bias],
         5 * size, 10 * size, 8 * n * c * c)  # fmt: skip
    w2 = normal(4 * c, c)
    pair("mlp", lambda: ops.mlp_forward(x, w, bias, w2, b), lambda cache: lambda: ops.mlp_backward(dout, cache),
         lambda x, w, bias, w2, b: F.linear(F.gelu(F.linear(x, w.T, bias), approximate="tanh"), w2.T, b),
         [x, w, bias, w2, b],
         2 * size, 3 * size, 16 * n * c * c)  # fmt: skip
    qkv = normal(batch, time, 3 * c)

    def attention(qkv):
        heads = (part.view(batch, time, n_head, -1).transpose(1, 2) for part in qkv.split(c, dim=2))
        return F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(batch, time, c)

    pair("self_attention", lambda: ops.self_attention_forward(qkv, n_head),
         lambda cache: lambda: ops.self_attention_backward(dout, cache), attention, [qkv],
         4 * size, 8 * size, 2 * n * time * c)  # fmt: skip
    table = normal(vocab, c)
    ids = arrays.to_device(np.random.default_rng(0).integers(vocab, size=(batch, time)), bench.device)
    targets = torch.from_numpy(arrays.to_numpy(ids)).to(bench.device).flatten()

    def loss(x, table):
        return F.cross_entropy((x.flatten(0, 1) @ table.T).float(), targets)

    both = [of(x), of(table)]
    bench.row(f"linear_cross_entropy both ways, {dtype}",  # the forward computes the gradients too
              lambda: ops.linear_cross_entropy_backward(1.0, ops.linear_cross_entropy_forward(x, table, ids)[1]),
              lambda: torch.autograd.grad(loss(*both), both), 2 * size + (4 + width) * vocab * c,
              6 * n * c * vocab, dtype)  # fmt: skip
    pair("cosine_loss", lambda: ops.cosine_loss_forward(x, dout),
         lambda cache: lambda: ops.cosine_loss_backward(1.0, cache),
         lambda a, b: (1 - F.cosine_similarity(a, b, dim=-1)).mean(), [x, dout], 2 * size, 4 * size)  # fmt: skip
    student, teacher = normal(time, vocab), normal(time, vocab)  # of one text: of a batch they are gigabytes

    def soft_loss(student, teacher):
        q = F.softmax(teacher.float() / 2, dim=-1)
        return 4 * F.cross_entropy(student.float() / 2, q)

    pair("soft_cross_entropy", lambda: ops.soft_cross_entropy_forward(student, teacher, temperature=2.0),
         lambda cache: lambda: ops.soft_cross_entropy_backward(1.0, cache), soft_loss, [student, teacher],
         2 * width * time * vocab, 4 * width * time * vocab)  # fmt: skip
    pair("embedding", lambda: ops.embedding_forward(table, ids),
         lambda cache: lambda: ops.embedding_backward(dout, cache),
         lambda table: F.embedding(targets.view(batch, time), table), [table],
         2 * size, size + 4 * vocab * c)  # fmt: skip


THEIRS = {  # precision: (name, torch.set_float32_matmul_precision, autocast to bfloat16, torch.compile)
    "float32": [("eager", "highest", False, False)],
    "tf32": [("eager", "high", False, False)],
    "bfloat16": [("eager", "high", True, False), ("compiled", "high", True, True)],
}


@functools.cache
def fresh(config: GPT2.Config) -> GPT2:
    """A model on the host, to be copied: to draw the weights of GPT-2 small takes seconds each time."""
    return GPT2(config)


def made(bench: Bench, config, precision: str, ids, targets):
    """A function that makes one training step of a fresh model."""
    model = copy.deepcopy(fresh(config)).to(bench.device)
    model.compute_in("bfloat16" if precision == "bfloat16" else None)
    optimizer = AdamW(model.named_parameters())

    def gradients(ids, targets):
        model.zero_grad()
        loss, cache = model.loss(ids, targets, normalizer=targets.size)
        model.loss_backward(cache)
        return loss, [p.grad for p in model.parameters()]

    repeated = Recorded(gradients)

    def one(record=False):
        loss, grads = (repeated if record else gradients)(ids, targets)
        for p, grad in zip(model.parameters(), grads, strict=True):
            p.grad = grad
        optimizer.step(1e-4)
        return loss

    return one


def step(bench: Bench, sizes: dict, batch: int, precision: str) -> None:
    """A whole training step, against PyTorch eager and compiled; and whether two runs have the same bits."""
    with gpu.products_in("tf32" if precision == "tf32" else "float32"):
        _step(bench, sizes, batch, precision)


def _step(bench: Bench, sizes: dict, batch: int, precision: str) -> None:
    import torch
    from torch_gpt import GPT, adamw

    config = GPT2.Config(**sizes)
    time, rng = config.n_positions, np.random.default_rng(0)
    ids, targets = rng.integers(config.vocab_size, size=(2, batch, time))
    first, second = (made(bench, config, precision, ids, targets) for _ in range(2))
    losses, again = ([float(one()) for _ in range(3)] for one in (first, second))
    if losses != again:
        bench.differ.append(f"batch {batch}, {precision}: {losses} and {again}")
    del second
    bench.free()
    seconds, tokens = bench.seconds(first), batch * time
    flops = costs.flops_per_token(GPT2, config)[1] * tokens
    row = {"seconds": seconds, "tokens/s": tokens / seconds, "of peak": flops / seconds / max(bench.rates.values())}
    bench.rows[f"batch {batch}: step, {precision}"] = row | {"GB": bench.held() / 1e9}
    del first
    bench.free()
    for how, matmul, low, compiled in THEIRS[precision]:
        if bench.quick and compiled:
            continue
        torch.set_float32_matmul_precision(matmul)
        model = GPT.like(fresh(config)).to(bench.device)
        run, optimizer = torch.compile(model) if compiled else model, adamw(model, 1e-4)
        pair = [torch.from_numpy(a).to(bench.device) for a in (ids, targets)]
        torch._dynamo.reset()  # otherwise the second batch size would be compiled for all sizes
        if bench.device == "cuda":
            torch.cuda.reset_peak_memory_stats()

        def one(run=run, optimizer=optimizer, pair=pair, low=low):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(bench.device, torch.bfloat16, enabled=low):
                loss = run(*pair)
            loss.backward()
            optimizer.step()

        try:
            other = bench.seconds(one, torch_wait(bench.device))
        except Exception as error:  # there is no compiler, perhaps: the rest can be measured
            print(f"batch {batch}: step, {precision}, PyTorch {how}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            peak = torch.cuda.max_memory_reserved() / 1e9 if bench.device == "cuda" else 0.0
            row = {"PyTorch": other, "ratio": other / seconds, "tokens/s": tokens / other, "GB": peak}
            bench.rows[f"batch {batch}: step, {precision}, PyTorch {how}"] = row
        del model, run, optimizer, one
        bench.free()


def launches(bench: Bench) -> None:
    """What a recorded step saves where orders take longer than the work: nano, 12 texts."""
    config = GPT2.Config(vocab_size=65, **SIZES["nano"])
    ids, targets = np.random.default_rng(0).integers(65, size=(2, 12, config.n_positions))
    for precision in bench.dtypes:
        one = made(bench, config, precision, ids, targets)
        rows = {"order by order": functools.partial(one, record=False)}
        if bench.device == "cuda":
            rows["recorded as a graph"] = functools.partial(one, record=True)
        for how, run in rows.items():
            bench.rows[f"launches: step of nano, {precision}, {how}"] = {"seconds": bench.seconds(run)}


def decode(bench: Bench, sizes: dict) -> None:
    """Greedy decoding with a cache: 64 tokens after a prompt of 16."""
    model = GPT2(GPT2.Config(**sizes, initializer_range=0.2)).to(bench.device)
    new = 8 if bench.quick else 64
    for batch in (1, 8):
        ids = np.random.default_rng(0).integers(model.config.vocab_size, size=(batch, 16))
        seconds = bench.seconds(lambda ids=ids: model.generate(ids, new, temperature=0)) / new
        weights = sum(p.data.nbytes for p in model.parameters())
        floor = weights / bench.bandwidth
        bench.rows[f"decoding, batch {batch}"] = {
            "seconds": seconds, "floor": floor, "of floor": floor / seconds, "tokens/s": batch / seconds,
        }  # fmt: skip


def tests() -> bool:
    """The tests that need a GPU: did all pass?"""
    machine.require("pytest", "hypothesis", "ml_dtypes")
    home = Path(__file__).resolve().parents[1]
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "gpu"], cwd=home).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--no-tests", action="store_true", help="only measure")
    parser.add_argument("--quick", action="store_true", help="a small model, and no file")
    options = parser.parse_args()
    machine.require("torch")
    if options.device == "cuda" and gpu.cuda_problem():
        sys.exit(f"no GPU can be used: {gpu.cuda_problem()}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # who ends this after ten minutes gets what there is
    look = options.quick or options.device == "cpu"
    keep = functools.partial(machine.save, "gpu", threads=machine.cores(), quick=look)
    device = gpu.device_name(options.device)
    failed = [] if options.no_tests or options.device == "cpu" or tests() else ["tests"]
    bench = Bench(options.device, options.quick)
    try:
        for name, section in sections(bench, options).items():
            print(f"--- {name}", flush=True)
            try:
                section()
                bench.free()
            except Exception:  # the rest can be measured
                traceback.print_exc()
                failed.append(name)
            if not look:
                keep(bench.rows, device=device)
    finally:
        print(machine.table(bench.rows, COLUMNS), flush=True)
        keep(bench.rows, device=device)
    if bench.differ:
        failed.append(f"two runs do not have the same bits: {bench.differ}")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def sections(bench: Bench, options) -> dict[str, Callable[[], None]]:
    """What measures each part, by name, the smallest first."""
    sizes = SMALL if options.quick else {}
    config = GPT2.Config(**sizes)
    shape = config.n_positions, config.n_embd, config.n_head, config.vocab_size
    rows = 2 if options.quick else 64  # so much at a time that a kernel takes longer than asking for it
    parts = {"launches": functools.partial(launches, bench)}
    for dtype in bench.dtypes:
        parts[f"operations, {dtype}"] = functools.partial(operations, bench, dtype, rows, *shape)
    parts["decoding"] = functools.partial(decode, bench, sizes)
    for batch in [2] if options.quick else options.batch:
        for precision in reversed(bench.precisions):
            parts[f"steps, batch {batch}, {precision}"] = functools.partial(step, bench, sizes, batch, precision)
    return parts


if __name__ == "__main__":
    main()
