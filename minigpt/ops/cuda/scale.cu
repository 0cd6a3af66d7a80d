// x times a number.

#include "common.cuh"

// out = factor x, n numbers. If there is a factor in memory it is that one: the processor need not know it.
extern "C" __global__ void scale(real* out, const real* x, const wide* in_memory, wide factor, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    if (in_memory) factor = *in_memory;
    Packed<real> numbers = pack(x + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = wide(numbers.x[j]) * factor;
    pack(out + i) = numbers;
}
