// The residual connection (He et al. 2016, equation 1): what a sub-layer gives is added to its input.

#include "common.cuh"

// out = x + y, n numbers.
//
// Backward: dx = dout, dy = dout. That is a copy, which need not be made. But x was used twice, by the sum and by the
// sub-layer, so two gradients come back to it. The same kernel adds them: a sum becomes a copy, and a copy a sum.
//
// A LayerNorm follows the sum (in the backward pass it comes first): one kernel could do both. It would read and write 4
// arrays instead of 5 forward, and 4 instead of 6 backward, of 25 MB each (16,384 tokens of GPT-2 small in bfloat16). For 24
// sums, at 4.3 TB/s (90 % of an H200's data sheet), that is 0.4 ms of a step of about 33 (predicted, not yet measured; less
// where the cache still holds the sum). But such an operation has two results, the sum and the normalised sum, and its backward takes two
// gradients; and half of the sums are normalised only in the next block. The forward and backward of a block, which say
// x + f(x) and its gradient line by line, are worth more to a reader.
extern "C" __global__ void add(real* out, const real* x, const real* y, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    Packed<real> numbers = pack(x + i), others = pack(y + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = wide(numbers.x[j]) + wide(others.x[j]);
    pack(out + i) = numbers;
}
