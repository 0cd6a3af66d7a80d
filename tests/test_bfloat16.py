"""Every model of the registry trains in bfloat16 by CuPy's rules, with the same bits again, or is refused by name.

The rules are those of strict_cupy; the kernels run on a processor. benchmarks/bfloat16.py does the same for each dtype.
"""

import sys
from pathlib import Path

import cuda_on_cpu
import gpu_on_cpu
import numpy as np
import pytest
import strict_cupy

from minigpt import models, ops
from minigpt.device.arrays import named_dtype, to_numpy
from minigpt.jobs.pretrain import step
from minigpt.models.family.relative_attention import put_distances, take_distances
from minigpt.nn import Parameter, accumulate
from minigpt.ops.cuda import kernels, widened

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import bfloat16  # noqa: E402

LOW = "bfloat16"
REFUSED = {"lstm", "elmo"}
QUICK = ("deberta", "t5", *REFUSED)
EACH = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in models.names()]


@pytest.fixture
def put(monkeypatch):
    """A GPU on this processor, until the test ends: sets an attribute."""
    pytest.importorskip("ml_dtypes")
    if cuda_on_cpu.problem():
        pytest.skip(cuda_on_cpu.problem())
    bfloat16.install(monkeypatch.setattr)
    yield monkeypatch.setattr
    kernels._compiled.cache_clear()


@pytest.mark.parametrize("name", EACH)
def test_a_model_trains_with_the_same_bits_or_is_refused_by_name(name, put):
    if name in REFUSED:
        put(step, "update", None)  # before any work
        assert f"--dtype bfloat16: --model {name} " in bfloat16.row(name, LOW, put)["refused"]
        return
    row = bfloat16.row(name, LOW, put)
    (losses, *_), _ = bfloat16.trained(name, "float32", put, 0)
    assert row["trains"] and row["same bits"] and abs(row["loss"] / losses[-1] - 1) < 0.01
    assert set(row["by CuPy"]) <= set(bfloat16.WITHOUT_KERNEL), "the reference met bfloat16"


def test_a_loss_is_compared_with_that_in_float32(monkeypatch):
    made = {"float32": 4.0, LOW: 4.01, "float64": 3.9}
    refused = {"trains": 0, "refused": "no"}
    monkeypatch.setattr(bfloat16, "row", lambda name, dtype, put: (
        refused if (name, dtype) == ("lstm", LOW) else {"trains": 1, "loss": made[dtype]}
    ))  # fmt: skip
    found = bfloat16.rows(None, ["t5", "lstm"], ("float32", LOW, "float64"))
    off = {name: round(row["off"], 6) for name, row in found.items() if "off" in row}
    assert off == {f"t5, {LOW}": 0.0025, "t5, float64": 0.025, "lstm, float64": 0.025}
    assert found[f"lstm, {LOW}"] == refused


def test_the_recorded_table_has_every_model_in_every_dtype():
    recorded = bfloat16.machine.recorded("bfloat16")
    assert set(recorded) == {f"{name}, {dtype}" for name in models.names() for dtype in bfloat16.DTYPES}
    refused = {name.partition(",")[0] for name, row in recorded.items() if not row["trains"]}
    assert refused == REFUSED and all(row.get("same bits", 1) for row in recorded.values())


def test_what_has_no_kernel_is_what_is_widened():
    named = {name.removesuffix("_forward") for name in dir(widened) if name.endswith("_forward")}
    assert {*named, "batched_product"} == set(bfloat16.WITHOUT_KERNEL)


def moved(put, array):
    """An array on the stand-in for a GPU."""
    return strict_cupy.cupy.asarray(array)


@pytest.mark.parametrize("dtype", ["float32", "float64", LOW])
def test_products_of_batches_are_rounded_once(dtype, put):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(named_dtype(dtype)) for shape in ((2, 3, 4, 50), (3, 50, 6)))
    got = ops.batched_product(moved(put, a), moved(put, b))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert got.dtype == a.dtype and got.shape == (2, 3, 4, 6)
    limit = {"float32": 1e-5, "float64": 1e-12, LOW: 2**-8}[dtype] * np.abs(expected).max()
    assert np.abs(to_numpy(got).astype(np.float64) - expected).max() <= limit


@pytest.mark.parametrize("dtype", ["float32", "float64", LOW])
def test_rows_are_summed_in_a_fixed_order(dtype, put):
    """Also where atomics would add them in any order; the sums of bfloat16 are in float32."""
    put(strict_cupy, "order", np.random.default_rng(0))
    rng = np.random.default_rng(1)
    rows, ids = rng.standard_normal((300, 5)).astype(named_dtype(dtype)), rng.integers(0, 4, 300)
    first, again = (to_numpy(ops.sum_rows(moved(put, rows), moved(put, ids), 6)) for _ in range(2))
    expected = np.zeros((6, 5))
    np.add.at(expected, ids, rows.astype(np.float64))
    assert first.tobytes() == again.tobytes() and first.dtype == kernels.wide(rows.dtype)
    assert np.abs(first - expected).max() < (1e-12 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize("t", [5, 11])
def test_keys_that_share_a_distance_are_added(t):
    """The gradient of `take_distances`, with a row for each key and with rows that several keys share."""
    rng = np.random.default_rng(t)
    where = (
        np.minimum(np.abs(np.arange(t)[:, None] - np.arange(t)), 4)
        if t > 5
        else np.array([rng.permutation(10)[:5]] * 5)
    )
    products, d = rng.standard_normal((2, 3, t, 10)), rng.standard_normal((2, 3, t, t))
    got = put_distances(d, where, 10, n_alone=5)
    assert got.shape == products.shape
    assert np.isclose((got * products).sum(), (d * take_distances(products, where)).sum()), "one is the other's adjoint"


def test_a_gradient_has_the_dtype_of_the_weights(put):
    """Or those that come later would be added in bfloat16."""
    parameter = Parameter(moved(put, np.zeros(3, np.float32)))
    for _ in range(300):
        accumulate(parameter, moved(put, np.ones(3, named_dtype(LOW))))
    assert to_numpy(parameter.grad).tolist() == [300, 300, 300]


@pytest.mark.parametrize("op", ["attention", "softmax", "cross_entropy"])
def test_what_is_widened_is_taken_only_in_bfloat16(op, put):
    low, x = named_dtype(LOW), np.ones((2, 3, 4, 4))
    args = {"attention": [x, x, x], "softmax": [x], "cross_entropy": [x, np.zeros((2, 3, 4), np.int64)]}[op]

    def runs(dtype):
        given = [moved(put, a.astype(dtype) if a.dtype.kind == "f" else a) for a in args]
        return ops.explain(op, *given).implementation

    assert runs(low) == "cuda" and runs(np.float32) == runs(np.float64) == "reference"


def test_the_stand_in_for_a_gpu_computes_as_the_processor_does(put):
    x = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)
    gains = np.ones(32, np.float32), np.zeros(32, np.float32)
    here, _ = ops.layernorm_forward(x, *gains)
    there, _ = ops.layernorm_forward(*(moved(put, a) for a in (x, *gains)))
    assert isinstance(there, strict_cupy.ndarray) and np.abs(to_numpy(there) - here).max() < 1e-5
    assert gpu_on_cpu.H100.compute_capability == "90"
