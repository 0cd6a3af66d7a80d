"""What is rare, and would be wrong without a word: a scale that is not above 0, heads that lie in an odd place."""

import numpy as np
import pytest
from test_cuda import assert_as_good_as_rounding, normal

from minigpt.device.arrays import named_dtype
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
