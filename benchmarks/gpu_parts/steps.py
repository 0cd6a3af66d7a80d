"""Whole steps: against PyTorch, recorded as a CUDA graph, and decoding."""

import contextlib
import functools
import importlib.util
import itertools
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import numpy as np

from gpu_parts.bench import Bench, Skipped, gradients, products_in
from minigpt import ops
from minigpt.models import costs, decoding
from minigpt.models.gpt2 import GPT2, SIZES
from minigpt.nn.optim import AdamW
from minigpt.ops.cuda.cuda_graph import Recorded

OTHERS_WRITE = "transformers / ours"
OTHERS = "PyTorch / ours"  # the column of their time over our time


class Way(NamedTuple):
    """How PyTorch computes a step: its setting for float32 products, autocast to bfloat16, torch.compile."""

    name: str
    matmul: str
    low: bool = False
    compiled: bool = False
    rows: int | None = None  # of the table of tokens; None: as many as ours has
    kernel: str | None = None  # of attention, by its name in PyTorch; None: PyTorch chooses


RECORDED = {"recorded": 1, "launch by launch": 1 << 30}  # tokens from which on a step of decoding is recorded
MULTIPLE_OF_64 = 50304  # the next one after 50,257: every row of the logits begins at a multiple of 16 bytes
FLASH, CUDNN = "FLASH_ATTENTION", "CUDNN_ATTENTION"
COMPILED = Way("compiled", "high", low=True, compiled=True)
WAYS = {  # precision: the ways that stand beside it
    "float32": [Way("eager", "highest")],
    "tf32": [Way("eager", "high")],
    "bfloat16": [
        Way("eager", "high", low=True),  # first: it takes seconds, and to compile can take minutes
        COMPILED._replace(name=f"compiled, {MULTIPLE_OF_64} rows, {FLASH}", rows=MULTIPLE_OF_64, kernel=FLASH),
        COMPILED._replace(name=f"compiled, {MULTIPLE_OF_64} rows, {CUDNN}", rows=MULTIPLE_OF_64, kernel=CUDNN),
        COMPILED,
        Way(f"eager, {MULTIPLE_OF_64} rows", "high", low=True, rows=MULTIPLE_OF_64),
    ],
}


def bfloat16(bench: Bench) -> None:
    """A whole training step in bfloat16, ours and PyTorch's."""
    _against_torch(bench, ["bfloat16"])


def float32(bench: Bench) -> None:
    """The same in tf32 and float32."""
    _against_torch(bench, ["tf32", "float32"])


def _against_torch(bench: Bench, precisions: list[str]) -> None:
    """The steps of each batch size. A processor, which has float32 alone, plays each way in it."""
    failed = []
    for batch in bench.batches:
        for precision in precisions:
            ours = precision if bench.on_gpu else "float32"
            if ours not in bench.precisions:
                raise Skipped(f"this GPU has no tensor cores for {precision}")
            with products_in(ours):
                failed += _steps(bench, batch, ours, WAYS[precision])
            bench.free()
    assert not failed, f"not measured: {', '.join(failed)}"


def attention(bench: Bench) -> None:
    """Attention by each of PyTorch's kernels."""
    failed = []
    for dtype in reversed(bench.dtypes):
        failed += _attention(bench, dtype)
        bench.free()
    assert not failed, f"not measured: {', '.join(failed)}"


def torch_wait(device: str):
    """Waits until PyTorch's work on the device is done."""
    import torch

    return torch.cuda.synchronize if device == "cuda" else lambda: None


def made(bench: Bench, config: GPT2.Config, precision: str, ids, targets):
    """A function that makes one training step of a fresh model."""
    model = bench.model(config, precision)
    optimizer = AdamW(model.named_parameters())

    def both_ways(ids, targets):
        loss, found = gradients(model, ids, targets)
        return loss, list(found.values())

    repeated = Recorded(both_ways)

    def step(record=False):
        loss, found = (repeated if record else both_ways)(ids, targets)
        for p, gradient in zip(model.parameters(), found, strict=True):
            p.grad = gradient
        optimizer.step(1e-4)
        return loss

    return step


def _steps(bench: Bench, batch: int, precision: str, ways: list[Way]) -> list[str]:
    """Rows of our step and of PyTorch's. Returns the names of those that failed."""
    config = bench.config()
    ids, targets = bench.texts(batch, config)
    ours = made(bench, config, precision, ids, targets)
    seconds = bench.seconds(ours)
    flops = costs.flops_per_token(GPT2, config)[1] * targets.size
    name = f"batch {batch}: step, {precision}"
    bench.note(
        name, seconds=seconds,
        **{"tokens/s": targets.size / seconds, "of peak": flops / seconds / max(bench.rates.values()),
           "GB": bench.held() / 1e9},
    )  # fmt: skip
    del ours
    bench.free()
    failed = []
    for way in ways:
        try:
            other = _their_step(bench, config, way, ids, targets)
        except Exception as error:  # there is no compiler, perhaps: the rest can be measured
            print(f"{name}, PyTorch {way.name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
            failed.append(f"{name}, PyTorch {way.name}")
        else:
            row = {"PyTorch seconds": other["seconds"], OTHERS: other["seconds"] / seconds}
            row |= {"tokens/s": targets.size / other["seconds"], "GB": other["GB"]}
            bench.note(f"{name}, PyTorch {way.name}", **row)
        bench.free()
    return failed


def _their_step(bench: Bench, config: GPT2.Config, way: Way, ids, targets) -> dict[str, float]:
    """Seconds of PyTorch's step, and the GB that its pool held."""
    import torch
    from torch_gpt import GPT, adamw

    if way.compiled and bench.quick:
        way = way._replace(compiled=False)  # to compile takes longer than the whole look
    if way.rows:
        config = bench.config(vocab_size=320 if bench.quick else way.rows)
    torch.set_float32_matmul_precision(way.matmul)
    torch._dynamo.reset()  # otherwise the second batch size would be compiled for all sizes
    model = GPT(config).to(bench.device)
    torch.nn.init.normal_(model.wte.weight, std=0.02)
    run = torch.compile(model) if way.compiled else model
    optimizer = adamw(model, 1e-4)
    pair = [torch.from_numpy(a).to(bench.device) for a in (ids, targets)]
    if bench.on_gpu:
        torch.cuda.reset_peak_memory_stats()

    kernel = _kernel(way.kernel) if bench.on_gpu else contextlib.nullcontext()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(bench.device, torch.bfloat16, enabled=way.low):
            loss = run(*pair)
        loss.backward()
        optimizer.step()

    with kernel:
        seconds = bench.seconds(step, torch_wait(bench.device))
    peak = torch.cuda.max_memory_reserved() / 1e9 if bench.on_gpu else 0.0
    return {"seconds": seconds, "GB": peak}


def _kernel(name: str | None):
    """Inside, PyTorch computes attention by this kernel, or refuses; None: it chooses."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, name)) if name else contextlib.nullcontext()


def _attention(bench: Bench, dtype: str) -> list[str]:
    """Attention of one layer, ours and by each of PyTorch's kernels. Returns the names of those that failed."""
    config = bench.config()
    shape = bench.batch, config.n_positions, config.n_embd
    qkv = bench.normal(*shape[:2], 3 * config.n_embd, dtype=dtype)
    dout = bench.normal(*shape, dtype=dtype)
    _, cache = ops.self_attention_forward(qkv, config.n_head)
    forward = bench.seconds(lambda: ops.self_attention_forward(qkv, config.n_head))
    backward = bench.seconds(lambda: ops.self_attention_backward(dout, cache))
    name = f"batch {bench.batch}: attention, {dtype}"
    bench.note(name, **{"forward seconds": forward, "backward seconds": backward})
    ways = (FLASH, CUDNN, "EFFICIENT_ATTENTION") if bench.on_gpu else ("MATH",)
    failed = []
    for way in ways:
        if dtype == "float32" and way in (FLASH, CUDNN):
            continue  # 16 bits only
        try:
            forward, backward = _their_attention(bench, way, dtype, config)
        except Exception as error:
            print(f"{name}, PyTorch {way}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
            failed.append(f"{name}, PyTorch {way}")
        else:
            bench.note(f"{name}, PyTorch {way}", **{"forward seconds": forward, "backward seconds": backward})
    return failed


def _their_attention(bench: Bench, way: str, dtype: str, config: GPT2.Config) -> tuple[float, float]:
    """Seconds of PyTorch's forward and backward pass by one of its kernels."""
    import torch
    import torch.nn.functional as F

    size = config.n_embd // config.n_head
    shape = bench.batch, config.n_head, config.n_positions, size
    options = {"device": bench.device, "dtype": getattr(torch, dtype), "requires_grad": True}
    q, k, v = (torch.randn(shape, **options) for _ in range(3))
    wait = torch_wait(bench.device)

    def attention():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    with _kernel(way):
        out = attention()
        dout = torch.randn_like(out)
        forward = bench.seconds(attention, wait)
        backward = bench.seconds(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True), wait)
    return forward, backward


def recorded(bench: Bench) -> None:
    """What a recorded step saves where launches take longer than the work: nano, 12 texts."""
    config = GPT2.Config(vocab_size=65, **SIZES["nano"])
    ids, targets = bench.texts(12, config)
    for dtype in bench.dtypes:
        step = made(bench, config, dtype, ids, targets)
        rows = {"launch by launch": functools.partial(step, record=False)}
        if bench.on_gpu:
            rows["recorded as a graph"] = functools.partial(step, record=True)
        for how, run in rows.items():
            bench.note(f"recorded: step of nano, {dtype}, {how}", seconds=bench.seconds(run))


def decode(bench: Bench) -> None:
    """Greedy decoding: a token, recorded and not; and whole calls beside transformers."""
    model = bench.model(bench.config(initializer_range=0.2))
    new = 8 if bench.quick else 64
    _tokens(bench, model, new)
    _whole_calls(bench, model, new)


def _tokens(bench: Bench, model: GPT2, new: int) -> None:
    """A token after the first ones: several texts, short and long prompts.

    The floor is one reading of what a token needs: every weight, and the keys and values of all tokens before.
    """
    config = model.config
    weights = sum(p.data.nbytes for p in model.parameters())
    of_a_token = 2 * config.n_layer * config.n_embd * 4  # bytes of its keys and values
    for batch, length in itertools.product((1, 4, 8), (4,) if bench.quick else (16, 896)):
        ids = _prompts(config, batch, length)
        floor = (weights + batch * (length + new // 2) * of_a_token) / bench.bandwidth
        for how, least in RECORDED.items() if bench.on_gpu else [("launch by launch", 0)]:
            seconds = _of_a_token(model, ids, new, least)
            row = {"floor": floor, "of floor": floor / seconds, "tokens/s": batch / seconds}
            bench.note(f"decoding, {batch} after {length} tokens, {how}", seconds=seconds, **row)


def _whole_calls(bench: Bench, model: GPT2, new: int) -> None:
    """Whole calls, the prompt included, beside those of transformers with the same weights, where it is installed."""
    for batch in (1, 8):
        ids = _prompts(model.config, batch, 4 if bench.quick else 16)
        ours = bench.seconds(lambda ids=ids: model.generate(ids, new, temperature=0), rounds=3)
        row = {}
        theirs = _of_transformers(bench, model, ids, new)
        if theirs is not None:
            row = {"transformers seconds": theirs, OTHERS_WRITE: theirs / ours}
        bench.note(f"decoding, {batch}, a whole call", seconds=ours, **row)


def _prompts(config: GPT2.Config, batch: int, length: int) -> np.ndarray:
    """Random ids (batch, length)."""
    return np.random.default_rng(0).integers(config.vocab_size, size=(batch, length))


def _of_a_token(model: GPT2, ids: np.ndarray, new: int, least: int) -> float:
    """The median time of a token, without the first ones, which read the prompt and record the step.

    least: tokens for which a step is recorded.
    """
    before = decoding.LEAST
    decoding.LEAST = least
    try:
        ends = [time.perf_counter() for _ in model.stream(ids, new, temperature=0)]
    finally:
        decoding.LEAST = before
    return statistics.median(np.diff(ends[new // 4 :]))


def _of_transformers(bench: Bench, model: GPT2, ids: np.ndarray, new: int) -> float | None:
    """Seconds that transformers takes for a call with the same weights; None where it is not installed."""
    if importlib.util.find_spec("transformers") is None:
        return None
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval().to(bench.device)
    prompt = torch.from_numpy(ids).to(bench.device)
    options = {"do_sample": False, "max_new_tokens": new, "min_new_tokens": new, "pad_token_id": 0}

    @torch.no_grad()
    def write():
        theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **options)

    return bench.seconds(write, torch_wait(bench.device), rounds=3)
