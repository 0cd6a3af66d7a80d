// x times a number.

#include "common.cuh"

// out = factor x, n numbers.
extern "C" __global__ void scale(real* out, const real* x, wide factor, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    Packed<real> numbers = pack(x + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = wide(numbers.x[j]) * factor;
    pack(out + i) = numbers;
}
