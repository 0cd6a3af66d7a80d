// One update of Adam, for all tensors of a model in one launch. Most tensors are small: a launch for each would cost
// more than the work.

#include "common.cuh"

// m += (1 - beta1) (g - m),   v += (1 - beta2) (g^2 - v),   p -= rate m / (sqrt(v) + eps) + decay p
//
// addresses (5, tensors): where p, g, m and v of each tensor begin, and the copy of p in bfloat16 if there is one: size[t]
// numbers each. Block i takes `chunk` numbers of tensor[i], from start[i] on. The bias corrections are in rate and eps, and the learning rate is in decay.
extern "C" __global__ void adam(
    const unsigned long long* addresses, const long long* size, const wide* decays, const int* tensor,
    const long long* start, int tensors, int chunk, wide rate, wide eps, wide beta1_left, wide beta2_left
) {
    int t = tensor[blockIdx.x];
    real* p = (real*)addresses[t];
    const real* g = (const real*)addresses[tensors + t];
    real* m = (real*)addresses[2 * tensors + t];
    real* v = (real*)addresses[3 * tensors + t];
    bfloat16* low = (bfloat16*)addresses[4 * tensors + t];
    wide decay = decays[t];
    long long first = start[blockIdx.x], end = first + chunk < size[t] ? first + chunk : size[t];

    for (long long i = first + threadIdx.x; i < end; i += blockDim.x) {
        wide slope = g[i], old = p[i], mean = m[i], square = v[i];
        mean += beta1_left * (slope - mean);
        square += beta2_left * (slope * slope - square);
        m[i] = mean;
        v[i] = square;
        p[i] = old -= rate * mean / (sqrt(square) + eps) + decay * old;
        if (low) low[i] = old;
    }
}
