// Dropout: x -> out, elements all alike. The backward pass is the same kernel: the key gives the same bits again.

#include "common.cuh"

// out[i] = x[i] keep[i] / (1 - rate),   keep[i] = random_bits(key, first + i) >= rate 2^32.
//
// first: which number of the whole batch x[0] is, modulo 2^32. No mask is ever stored.
extern "C" __global__ void dropout(
    real* out, const real* x, long long n, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    long long i = my_pack();
    if (i >= n) return;
    Dropout drop(table, key, threshold, stretch);
    Packed<real> numbers = pack(x + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = drop(numbers.x[j], first + (unsigned)i + j);
    pack(out + i) = numbers;
}
