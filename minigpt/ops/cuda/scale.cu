// x times a number.

#include "common.cuh"

// out = factor x, n numbers. If in_memory is not null, the factor is read there: then the processor need not wait for it.
extern "C" __global__ void scale(real* out, const real* x, const wide* in_memory, wide factor, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    if (in_memory) factor = *in_memory;
    Packed<real> numbers = pack(x + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = wide(numbers.x[j]) * factor;
    pack(out + i) = numbers;
}
