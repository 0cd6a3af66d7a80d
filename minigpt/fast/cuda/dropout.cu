// Dropout: x -> out, elements all alike. The backward pass is the same kernel: the key gives the same bits again.

#include "common.cuh"

// out[i] = x[i] keep[i] / (1 - rate),   keep[i] = random_bits(key, first + i) >= rate 2^32.
//
// first: which number of the whole batch x[0] is, modulo 2^32. One thread for each number; no mask is ever stored.
extern "C" __global__ void dropout(
    real* out, const real* x, long long n, unsigned first, unsigned key, unsigned threshold, wide stretch
) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Dropout drop = {key, threshold, stretch};
    out[i] = drop(x[i], first + (unsigned)i);
}
