"""What the tests of products on tensor cores share: a kernel of one block with mma.cuh before it, and whole numbers."""

import numpy as np

from minigpt.device.arrays import named_dtype
from minigpt.ops.cuda import kernels


def run(dtype, body, *arrays, threads=32, declared="real* out, const real* a, const real* b"):
    """A kernel of one block, with mma.cuh for this dtype before it. Returns the first array, which it writes."""
    text = kernels.source("attention_mma", dtype, HEAD=16, KV_GROUP=1)
    text = text[: text.index("const int WARPS")] + f'extern "C" __global__ void f({declared}) {{ {body} }}'
    kernels.compile(text).get_function("f")((1, 1, 1), (threads, 1, 1), arrays)
    return arrays[0]


def there_and_back(dtype, a, b, there, wanted):
    """2 (a b^T) b by the tools of mma.cuh, with a (rows,48) and b (32,48) of this dtype.

    Only `there` rows of a are read, and only `wanted` rows of the result are written: the others stay 7.
    """
    tiles = len(a) // 16
    return run(
        dtype,
        f"""__shared__ __align__(16) real tile[32][48 + PIECE];
            for (int n = threadIdx.x; n < 32 * 48; n += 32) tile[n / 48][n % 48] = b[n];
            __syncwarp();
            FragmentA a_[{tiles}][48 / DEPTH]; FragmentC s[{tiles}][4] = {{}}, c[{tiles}][6] = {{}};
            load(a_, a, 48, there);
            round_all(a_);
            add_times_transposed(s, a_, tile);
            add_times(c, s, tile);
            store(out, 48, wanted, c, 2);""",
        np.full((len(a), 48), 7, named_dtype(dtype)), a, b, np.int32(there), np.int32(wanted),
        declared="real* out, const real* a, const real* b, int there, int wanted",
    )  # fmt: skip


def whole(*shape, dtype=np.float32):
    """Small whole numbers, whose products and sums are exact."""
    return np.random.default_rng(len(shape)).integers(-8, 8, shape).astype(dtype)


def fragments(matrix, layout):
    """(lanes, numbers of a lane), where a layout has (row, column) of each number of each lane"""
    return np.array([[matrix[place] for place in lane] for lane in layout])
