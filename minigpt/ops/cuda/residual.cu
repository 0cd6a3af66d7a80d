// The residual connection (He et al. 2016, equation 1): what a sub-layer gives is added to its input.

#include "common.cuh"

// out = x + y, n numbers.
//
// Backward: dx = dout, dy = dout. That is a copy, which need not be made. But x was used twice, by the sum and by the
// sub-layer, so two gradients come back to it. The same kernel adds them: a sum becomes a copy, and a copy a sum.
extern "C" __global__ void add(real* out, const real* x, const real* y, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    Packed<real> numbers = pack(x + i), others = pack(y + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = wide(numbers.x[j]) + wide(others.x[j]);
    pack(out + i) = numbers;
}
