// Cross-entropy: logits z (N,V), bias (V), targets y (N), share (N) -> loss (N), dz (N,V). BIASED, whether there is a bias,
// is chosen when this is compiled.

#include "common.cuh"
#include "exp_sum.cuh"

// PACK logits from column v on, with their bias. Each was rounded when the product stored it; it is not rounded again here.
__device__ inline Packed<wide> logits(const real* z, const real* bias, int v, int columns) {
    Packed<real> stored = pack(z + v);
    Packed<wide> z_and_bias;
    for (int j = 0; j < PACK; j++) z_and_bias.x[j] = stored.x[j];
    if (BIASED) {
        for (int j = 0; j < PACK && v + j < columns; j++) z_and_bias.x[j] += wide(bias[v + j]);
    }
    return z_and_bias;
}

// With the bias in z:   loss = share (lse - z[y]),   lse = log sum_v exp(z[v]),   dz = share (exp(z - lse) - onehot(y)).
//
// A block of WARPS warps computes one row; WARPS is chosen when a kernel is compiled. The row is read once for its largest
// logit and its sum together, and once more for its gradient dz. dz may be z itself, and is null where no gradient is needed.
// With 32 warps and more than 32 registers for each thread a multiprocessor has room for one block, so few rows are in work
// at the same time. The second time a row is read from its end to its beginning: what was read last may still be in a cache.
// Rows begin `stride` numbers apart, a multiple of PACK; the first `columns` of them are logits.
extern "C" __launch_bounds__(WARPS * WARP, 1) __global__ void cross_entropy(
    real* dz, const real* z, const real* bias, wide* loss, const long long* y, const wide* share, int columns, int stride
) {
    __shared__ wide largest[WARPS], total[WARPS];
    const int STEP = WARPS * WARP * PACK;
    z += (long long)blockIdx.x * stride;
    int target = y[blockIdx.x], first = threadIdx.x * PACK;
    wide weight = share[blockIdx.x], picked = wide(z[target]);
    if (BIASED) picked += wide(bias[target]);

    ExpSum sum = {LOWEST, 0};
#pragma unroll 2
    for (int v = first; v < columns; v += STEP) {
        Packed<wide> z_and_bias = logits(z, bias, v, columns);
        ExpSum of_pack = {LOWEST, 0};
        for (int j = 0; j < PACK; j++) {
            if (v + j >= columns) z_and_bias.x[j] = LOWEST;
            if (z_and_bias.x[j] > of_pack.largest) of_pack.largest = z_and_bias.x[j];
        }
        for (int j = 0; j < PACK; j++) of_pack.total += exponential(z_and_bias.x[j] - of_pack.largest);
        sum.add(of_pack);
    }
    sum = of_warp(sum);
    int lane = threadIdx.x % WARP;
    if (lane == 0) {
        largest[threadIdx.x / WARP] = sum.largest;
        total[threadIdx.x / WARP] = sum.total;
    }
    __syncthreads();  // from here on z may change: all threads have read what it was
    sum = of_warp(lane < WARPS ? ExpSum{largest[lane], total[lane]} : ExpSum{LOWEST, 0});

    if (threadIdx.x == 0) loss[blockIdx.x] = weight * (log(sum.total) + (sum.largest - picked));
    if (!dz) return;
    wide one_over_total = 1 / sum.total;
    dz += (long long)blockIdx.x * stride;
    for (int v = (columns - 1) / STEP * STEP + first; v >= 0; v -= STEP) {
        if (v >= columns) continue;
        Packed<wide> z_and_bias = logits(z, bias, v, columns);
        Packed<real> gradient;
        for (int j = 0; j < PACK; j++) {
            wide p = v + j < columns ? exponential(z_and_bias.x[j] - sum.largest) * one_over_total : 0;
            gradient.x[j] = weight * (p - (v + j == target ? 1 : 0));
        }
        pack(dz + v) = gradient;
    }
}
