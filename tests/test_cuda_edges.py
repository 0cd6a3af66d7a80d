"""What is rare, and would be wrong without a word: a scale that is not above 0, heads that lie in an odd place."""

import cuda_on_cpu
import numpy as np
import pytest
from helpers import error
from test_cuda import assert_as_good_as_rounding, normal

from minigpt import ops
from minigpt.device.arrays import named_dtype
from minigpt.ops import cuda
from minigpt.ops.cuda import attention

pytestmark = pytest.mark.usefixtures("kernels_on_cpu")


@pytest.fixture
def bfloat16():
    pytest.importorskip("ml_dtypes")
    return named_dtype("bfloat16")


@pytest.mark.parametrize("scale", [-0.5, 0.0, 1e-38])
def test_a_scale_that_cannot_hide_the_lowest_float(scale, bfloat16):
    """On tensor cores a hidden score is the lowest float, times the scale: with -0.5 it would be the largest of all."""
    assert attention.plan(32, bfloat16, scale=0.125)[0] == "attention_mma"
    assert attention.plan(32, bfloat16, scale=scale)[0] == "attention"
    qkv = normal(1, 40, 3 * 32, dtype=np.float64)
    assert_as_good_as_rounding("self_attention", [qkv, 1], {"scale": scale})


@pytest.mark.parametrize("size", [4, 8])
def test_heads_of_a_past_that_begin_between_packs(size):
    """A lane reads 16 bytes of a key at once: so each head, and not only the first, must begin at a multiple of 16."""
    b, n_head, p = 2, 3, 5
    apart = p * size + 1
    numbers = np.random.default_rng(0).standard_normal(2 * b * n_head * apart).astype(np.float32)
    strides = tuple(4 * n for n in (n_head * apart, apart, size, 1))
    k, v = (np.lib.stride_tricks.as_strided(part, (b, n_head, p, size), strides) for part in np.split(numbers, 2))
    qkv = normal(b, 1, 3 * n_head * size)
    with ops.using("reference"):
        expected, _ = ops.self_attention_forward(qkv, n_head, past=(k, v), grad=False)
    read = []
    launch = cuda_on_cpu.Module._run

    def seen(self, name, grid, block, arguments):
        read.append((name, arguments))
        return launch(self, name, grid, block, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_on_cpu.Module, "_run", seen)
        got, _ = cuda.self_attention_forward(qkv, n_head, past=(k, v), grad=False)
    [arguments] = [given for name, given in read if name == "past_parts"]
    assert int(arguments[5]) % 4 == 0, "heads are so many numbers apart, and packs are read from each"
    assert error(got, expected) < 1e-5


def test_adam_takes_no_weights_of_bfloat16(bfloat16):
    """Its kernels hold sums, and which tensors decay, in the dtype of the weights."""
    four = tuple(np.ones(8, bfloat16) for _ in range(4))
    assert "bfloat16" in cuda.adam_update_supports([four])
    assert cuda.adam_update_supports([tuple(np.ones(8, np.float32) for _ in range(4))]) is None
