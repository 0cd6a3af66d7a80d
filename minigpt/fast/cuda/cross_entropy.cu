// Cross-entropy: logits z (N,V), targets y (N), share (N) -> loss (N), dz (N,V).

#include "common.cuh"

// The sum of exponentials of some numbers, held so that nothing overflows: total exp(largest).
struct ExpSum {
    wide largest, total;

    // Two sums become one: the smaller of the two largest is the one that is stretched down.
    __device__ void add(wide other_largest, wide other_total) {
        wide both = other_largest > largest ? other_largest : largest;
        if (largest < both) total *= exp(largest - both);
        if (other_largest < both) other_total *= exp(other_largest - both);
        largest = both;
        total += other_total;
    }
};

const int WARPS = 8;  // of a block, which takes one row

// loss = share (lse - z[y]),   lse = log sum_v exp(z[v]),   dz = share (exp(z - lse) - onehot(y)).
//
// The row is read once for largest and total together, and once more for its gradient, if that is wanted: dz, which may
// be z itself. Both have rows of `stride` numbers, of which the first `columns` count.
extern "C" __global__ void cross_entropy(
    real* dz, const wide* z, wide* loss, const long long* y, const wide* share, int columns, int stride
) {
    __shared__ wide largest[WARPS], total[WARPS];
    z += (long long)blockIdx.x * stride;
    int target = y[blockIdx.x];
    wide weight = share[blockIdx.x], picked = z[target];

    ExpSum sum = {LOWEST, 0};
    for (int v = threadIdx.x; v < columns; v += WARPS * WARP) sum.add(z[v], 1);
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        wide other_largest = __shfl_xor_sync(0xffffffffu, sum.largest, apart);
        wide other_total = __shfl_xor_sync(0xffffffffu, sum.total, apart);
        sum.add(other_largest, other_total);
    }
    if (threadIdx.x % WARP == 0) {
        largest[threadIdx.x / WARP] = sum.largest;
        total[threadIdx.x / WARP] = sum.total;
    }
    __syncthreads();  // from here on z may change: everybody has read what it was
    sum = {LOWEST, 0};
    for (int w = 0; w < WARPS; w++) sum.add(largest[w], total[w]);

    if (threadIdx.x == 0) loss[blockIdx.x] = weight * (log(sum.total) + (sum.largest - picked));
    if (!dz) return;
    wide share_of_total = 1 / sum.total;
    dz += (long long)blockIdx.x * stride;
    for (int v = threadIdx.x; v < columns; v += WARPS * WARP) {
        wide p = exp(z[v] - sum.largest) * share_of_total;
        dz[v] = weight * (p - (v == target ? 1 : 0));
    }
}

// out = factor x, number by number.
extern "C" __global__ void scale(real* out, const real* x, wide factor, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = wide(x[i]) * factor;
}
