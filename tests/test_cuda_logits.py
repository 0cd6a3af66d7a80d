"""The logits of a bfloat16 model: rounded once, when they are stored; all that is summed over them is float32."""

import numpy as np
import pytest
from helpers import error
from test_cuda import assert_as_good_as_rounding, assert_losses_as_good_as_rounding

from minigpt.device.arrays import named_dtype
from minigpt.ops import cuda
from minigpt.ops.cuda import cross_entropy


def call(bias, seed=0, rows=40, width=32, vocabulary=600):
    """A call of linear_cross_entropy in float64, with logits of up to about 10."""
    rng = np.random.default_rng(seed)
    h, w = rng.standard_normal((rows, width)), 0.5 * rng.standard_normal((vocabulary, width))
    args = [h, w, rng.integers(vocabulary, size=rows)]
    return "linear_cross_entropy", [*args, rng.standard_normal(vocabulary)] if bias else args, {}


@pytest.mark.parametrize("bias", [False, True])
def test_rounded_logits_err_no_more_than_rounding_does(bias, kernels_on_cpu, constants):
    """The reference rounds its logits too, as all that it computes; here they are large, and the words are many."""
    pytest.importorskip("ml_dtypes")
    constants.set(cuda_logits=600 * 8)
    assert_as_good_as_rounding(*call(bias), first=1)
    assert_losses_as_good_as_rounding([call(bias, seed) for seed in range(8)])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("vocabulary", [600, 9000])  # of the last one all 32 warps have some
def test_only_the_logits_and_their_gradient_are_rounded(vocabulary, bias, kernels_on_cpu):
    """Each row of h picks a column of w, so the logits are numbers of w, exactly, and dw is their gradient."""
    pytest.importorskip("ml_dtypes")
    low, rng, rows = named_dtype("bfloat16"), np.random.default_rng(0), 8
    w = (3 * rng.standard_normal((vocabulary, rows))).astype(low)
    b = rng.standard_normal(vocabulary).astype(low)
    y = rng.integers(vocabulary, size=rows)
    args = [np.eye(rows).astype(low), w, y, *([b] if bias else [])]
    loss, cache = cuda.linear_cross_entropy_forward(*args)
    z = w.T.astype(np.float64) + (b.astype(np.float64) if bias else 0)
    p = np.exp(z)
    total = p.sum(axis=-1)
    exact = (np.log(total) - z[np.arange(rows), y]).mean()
    dz = p / total[:, None]
    dz[np.arange(rows), y] -= 1
    dz /= rows
    assert loss.dtype == np.float32 and error(loss, exact) < 1e-6, "statistics have all digits of float32"
    assert cache.dw.dtype == np.float32
    assert (abs(cache.dw.T - dz) <= 2**-8 * abs(dz)).all(), "rounded to the nearest, and once"


def test_as_many_bytes_hold_twice_as_many_logits_in_bfloat16(kernels_on_cpu, constants, monkeypatch):
    """And they are all that is held: their gradient takes their place."""
    pytest.importorskip("ml_dtypes")
    constants.set(cuda_logits=600 * 10)
    made, padded = [], cross_entropy.padded
    monkeypatch.setattr(cross_entropy, "padded", lambda *how: made.append(padded(*how)) or made[-1])
    _, (h, w, targets), _ = call(False)
    for dtype in ("float32", "bfloat16"):
        low = named_dtype(dtype)
        cuda.linear_cross_entropy_forward(h.astype(low), w.astype(low), targets)
    wide, short = made
    assert (wide.dtype, short.dtype) == (np.float32, named_dtype("bfloat16"))
    assert len(short) == 2 * len(wide) == 20 and short.nbytes == wide.nbytes
