// The cosine loss: a (N,C), b (N,C) -> cosine (N). A warp takes a row, WARPS warps are a block.

#include "common.cuh"

// cosine = a.b / sqrt(a_square b_square),   a_square = a.a + eps,   b_square = b.b + eps,   for each row.
//
// The three sums need one pass over a and b.
extern "C" __launch_bounds__(WARPS * WARP) __global__ void cosine_loss_forward(
    wide* cosine, wide* a_square, wide* b_square, const real* a, const real* b, wide eps, int rows, int columns
) {
    long long n = (long long)blockIdx.x * WARPS + threadIdx.y;
    if (n >= rows) return;
    wide aa = 0, bb = 0, ab = 0;
#pragma unroll 4
    for (int c = threadIdx.x * PACK; c < columns; c += WARP * PACK) {
        Packed<real> some_a = pack(a + n * columns + c), some_b = pack(b + n * columns + c);
        for (int j = 0; j < PACK; j++) {
            wide x = some_a.x[j], y = some_b.x[j];
            aa += x * x;
            bb += y * y;
            ab += x * y;
        }
    }
    aa = warp_sum(aa) + eps;
    bb = warp_sum(bb) + eps;
    ab = warp_sum(ab);
    if (threadIdx.x == 0) {
        a_square[n] = aa;
        b_square[n] = bb;
        cosine[n] = ab / sqrt(aa * bb);
    }
}

// loss = sum_n share[n] (1 - cosine[n]), so with dloss
// da = -dloss share (b / sqrt(a_square b_square) - cosine a / a_square), and db the same with a and b exchanged.
//
// Given the sums of its row, each number is computed from one of a and one of b.
extern "C" __launch_bounds__(WARPS * WARP) __global__ void cosine_loss_backward(
    real* da, real* db, const real* a, const real* b, const wide* cosine, const wide* a_square, const wide* b_square,
    const wide* share, wide dloss, int rows, int columns
) {
    long long n = (long long)blockIdx.x * WARPS + threadIdx.y;
    if (n >= rows) return;
    wide dcosine = -dloss * share[n];
    wide along_other = dcosine / sqrt(a_square[n] * b_square[n]);
    wide along_a = dcosine * cosine[n] / a_square[n], along_b = dcosine * cosine[n] / b_square[n];
#pragma unroll 4
    for (int c = threadIdx.x * PACK; c < columns; c += WARP * PACK) {
        Packed<real> some_a = pack(a + n * columns + c), some_b = pack(b + n * columns + c);
        for (int j = 0; j < PACK; j++) {
            wide x = some_a.x[j], y = some_b.x[j];
            some_a.x[j] = along_other * y - along_a * x;
            some_b.x[j] = along_other * x - along_b * y;
        }
        pack(da + n * columns + c) = some_a;
        pack(db + n * columns + c) = some_b;
    }
}
