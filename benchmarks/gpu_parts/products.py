"""Every matrix product of a step: cuBLASLt's first algorithm, the best of eight, and what an epilogue costs.

"first" is the algorithm that cuBLASLt thinks best, and the one that the library uses unless it has timed them;
"best" is the fastest of those it offers; "any" is the fastest where partial sums may also be rounded to the dtype of
the result, or added in place, which the library does not allow. A row that ends in "alone" is the same product without
its epilogue: the difference is what bias, GELU or the column sums (BGRADA) cost.

On a processor the stand-in for cuBLASLt of the tests answers: it has one algorithm, and sees wrong calls.
"""

import contextlib
import ctypes
import functools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import machine

from gpu_parts.bench import Bench
from minigpt.device import gpu
from minigpt.device.arrays import array_module, named_dtype
from minigpt.models.gpt2 import GPT2
from minigpt.ops.cuda import algorithms as timed
from minigpt.ops.cuda import column_major, cublaslt, kernels
from minigpt.ops.cuda import products as library
from minigpt.ops.cuda.cublaslt import Epilogue

ALGORITHMS = timed.OFFERED
LIBRARY, ANY = cublaslt.CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 7  # masks of ways to sum; 7 is every one
ROWS = 4096  # of logits at once


class Product(NamedTuple):
    """a (M,K), b (K,N) -> out (M,N) with an epilogue."""

    a: Any
    b: Any
    out: Any
    epilogue: Epilogue = Epilogue.DEFAULT
    bias: Any = None
    aux: Any = None


def products(bench: Bench) -> None:
    """A row for each product. A product that fails does not stop the others."""
    failed = []
    with contextlib.nullcontext() if bench.on_gpu else stand_in():
        for name, make in _of_a_step(bench).items():
            try:
                _measure(bench, name, make())
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                failed.append(name)
            bench.free()
    if bench.on_gpu:
        _by_our_kernels(bench)
    assert not failed, f"products that failed: {', '.join(failed)}"


def _measure(bench: Bench, name: str, product: Product) -> None:
    """The row of one product, by its first algorithm, the best, and the best with any way to sum."""
    m, k = product.a.shape
    n = product.b.shape[1]
    operations = 2 * m * k * n
    seconds = functools.partial(bench.seconds, least=0.004, rounds=3)
    times = [seconds(call) for call in algorithms(product, ALGORITHMS if bench.on_gpu else 1, LIBRARY)]
    assert times, f"cuBLASLt has no algorithm: {product.epilogue.name}, {product.a.dtype} to {product.out.dtype}"
    row = {"first seconds": times[0], "best seconds": min(times), "algorithms": len(times)}
    row["number of the best"] = times.index(min(times))
    if bench.on_gpu:
        anyhow = [seconds(call) for call in algorithms(product, ALGORITHMS, ANY)]
        row["any seconds"] = min(anyhow, default=math.nan)
    row["operations/s"] = operations / min(times)
    row["of peak"] = operations / min(times) / bench.rates[bench.lowest]
    bench.note(f"products: {name}, {m} x {k} x {n}", **row)


def _of_a_step(bench: Bench) -> dict[str, Callable[[], Product]]:
    """{name: a function that makes the arrays of this product}"""
    config = bench.config()
    c, vocabulary = config.n_embd, config.vocab_size
    rows = bench.batch * config.n_positions
    return _of_a_block(bench, rows, c) | _of_the_head(bench, min(rows, ROWS), c, vocabulary)


def _of_a_block(bench: Bench, n: int, c: int) -> dict[str, Callable[[], Product]]:
    """The products of a block, forward and backward. n: rows, c: width."""
    normal = functools.partial(bench.normal, dtype=bench.lowest)
    xp = array_module(normal(1))
    low = named_dtype(bench.lowest)
    E = Epilogue

    def forward(inside, outside, epilogue=E.DEFAULT):
        """x w + b"""
        bias = None if epilogue == E.DEFAULT else normal(outside)
        aux = normal(n, outside) if epilogue == E.GELU_AUX_BIAS else None
        w = normal(inside, outside)
        return Product(normal(n, inside), w, xp.empty((n, outside), low), epilogue, bias, aux)

    def inputs(outside, inside, epilogue=E.DEFAULT):
        """dout w^T, where w is (inside,outside)"""
        aux = normal(n, inside) if epilogue == E.DGELU else None
        w = normal(inside, outside)
        return Product(normal(n, outside), w.T, xp.empty((n, inside), low), epilogue, None, aux)

    def weights(inside, outside, epilogue=E.BGRADA):
        """x^T dout, and the column sums of dout; both in float32"""
        sums = xp.empty(outside, "float32") if epilogue == E.BGRADA else None
        out = xp.empty((inside, outside), "float32")
        return Product(normal(n, inside).T, normal(n, outside), out, epilogue, sums)

    part = functools.partial
    return {
        "qkv": part(forward, c, 3 * c, E.BIAS), "qkv alone": part(forward, c, 3 * c),
        "attention's projection": part(forward, c, c, E.BIAS),
        "mlp, first, and GELU": part(forward, c, 4 * c, E.GELU_AUX_BIAS), "mlp, first, alone": part(forward, c, 4 * c),
        "mlp, second": part(forward, 4 * c, c, E.BIAS),
        "gradient before the second, and GELU'": part(inputs, c, 4 * c, E.DGELU),
        "gradient before the second, alone": part(inputs, c, 4 * c),
        "gradient before the first": part(inputs, 4 * c, c),
        "gradient before qkv": part(inputs, 3 * c, c), "gradient before the projection": part(inputs, c, c),
        "dw of qkv, and db": part(weights, c, 3 * c), "dw of qkv alone": part(weights, c, 3 * c, E.DEFAULT),
        "dw of the first, and db": part(weights, c, 4 * c),
        "dw of the first alone": part(weights, c, 4 * c, E.DEFAULT),
        "dw of the projection, and db": part(weights, c, c),
        "dw of the projection alone": part(weights, c, c, E.DEFAULT),
        "dw of the second, and db": part(weights, 4 * c, c),
        "dw of the second alone": part(weights, 4 * c, c, E.DEFAULT),
    }  # fmt: skip


def _of_the_head(bench: Bench, n: int, c: int, v: int) -> dict[str, Callable[[], Product]]:
    """The products of the tied head: its logits are kept in rows that begin at multiples of 64 numbers."""
    normal = functools.partial(bench.normal, dtype=bench.lowest)
    xp = array_module(normal(1))
    low = named_dtype(bench.lowest)

    def logits(dtype, words=v):
        out = library.padded(xp, n, v, dtype)
        return Product(normal(n, c), normal(words, c).T, out[:, :words])

    def slopes():
        filled = library.padded(xp, n, v, low)
        filled[...] = 0.01
        return filled[:, :v]

    whole = kernels.blocks(v, library.ALIGNED) * library.ALIGNED
    part = functools.partial
    return {
        "logits in float32": part(logits, "float32"),
        f"logits in {bench.lowest}": part(logits, low),
        f"logits in float32 of {whole} words": part(logits, "float32", whole),
        "gradient before the head": lambda: Product(slopes(), normal(v, c), xp.empty((n, c), low)),
        "dw of the head": lambda: Product(slopes().T, normal(n, c), xp.empty((v, c), "float32")),
    }


def _by_our_kernels(bench: Bench) -> None:
    """What stands beside a product without an epilogue: the column sums, and GELU."""
    config: GPT2.Config = bench.config()
    y = bench.normal(bench.batch * config.n_positions, 4 * config.n_embd, dtype=bench.lowest)
    bench.note("products: column sums by our kernel", seconds=bench.seconds(lambda: kernels.column_sums(y[None])))
    out = array_module(y).empty_like(y)
    bench.note("products: GELU by our kernel", seconds=bench.seconds(lambda: library.gelu(y, out)))


# --- what cuBLASLt offers --------------------------------------------------------------------------------------------


def algorithms(product: Product, count: int, mask: int) -> Iterator[Callable[[], None]]:
    """Functions that compute the product, one for each of at most `count` algorithms, cuBLASLt's first choice first.

    mask: the ways in which partial sums over K may be added (CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK).
    """
    a, b, out, epilogue, bias, aux = product
    matrices = column_major.as_stored(b, a, out, aux)
    assert matrices is not None, "cuBLASLt does not take an array as it lies"
    address = None if bias is None else kernels.address(bias)
    device, stream = gpu.current_stream()
    alignment = address and column_major.alignment_of(address)
    plan = cublaslt._plan(array_module(out), device, False, epilogue, alignment, *matrices)
    if plan is None:
        return
    if bias is not None:
        pointer = ctypes.c_void_p(address)
        cublaslt._set("MatmulDesc", plan.description, {cublaslt.CUBLASLT_MATMUL_DESC_BIAS_POINTER: pointer})
    if aux is not None:
        pointer = ctypes.c_void_p(kernels.address(aux))
        cublaslt._set("MatmulDesc", plan.description, {cublaslt.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: pointer})
    d = kernels.address(out)
    layout_a, layout_b, layout_d = plan.layouts
    for algorithm in _offered(plan, matrices, count, mask):
        arguments = (
            plan.handle, plan.description,
            plan.one, kernels.address(b), layout_a, kernels.address(a), layout_b,
            plan.zero, d, layout_d, d, layout_d,
            algorithm, kernels.address(plan.workspace), cublaslt.WORKSPACE, stream,
        )  # fmt: skip
        yield functools.partial(cublaslt._call, "Matmul", *arguments)


def _offered(plan, matrices, count: int, mask: int) -> list:
    """At most `count` of the algorithms that the heuristic offers for a plan."""
    preference = cublaslt._preference(*matrices[:3])
    scheme = {cublaslt.CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: ctypes.c_uint32(mask)}
    cublaslt._set("MatmulPreference", preference, scheme)
    offered = cublaslt._offered(plan.handle, plan.description, plan.layouts, preference)
    return [ctypes.byref(found) for found in offered[:count]]


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """The library of the tests in the place of cuBLASLt, for arrays of NumPy. Raises AssertionError for wrong calls."""
    sys.path.append(str(machine.ROOT / "tests"))
    import cublaslt_on_cpu
    import cuda_on_cpu

    played = cublaslt_on_cpu.Library()
    places = {
        (kernels, "address"): cuda_on_cpu.address,
        (cublaslt, "_load"): lambda: played,
        (cublaslt, "plans"): {},
        (gpu, "current_stream"): lambda: (0, cublaslt_on_cpu.STREAM),
    }
    caches = [function for function in vars(cublaslt).values() if hasattr(function, "cache_clear")]
    try:
        for cache in caches:
            cache.cache_clear()
        with machine.replaced(places):
            yield
    finally:
        for cache in caches:
            cache.cache_clear()
        sys.path.remove(str(machine.ROOT / "tests"))
    assert not played.complaints, f"wrong calls of cuBLASLt: {played.complaints[:3]}"
