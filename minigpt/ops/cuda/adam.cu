// Clipping and one update of Adam for all tensors of a model, in three launches. Most tensors are small: launches for
// each would cost more than the work.
//
// All kernels find the tensors in the same tables: addresses (5, tensors) say where p, g, m and v of each tensor begin,
// and the copy of p in bfloat16 if there is one; tensor t has size[t] numbers. Block i takes `chunk` numbers of
// tensor[i], from start[i] on.

#include "common.cuh"

const int WARPS = 8;  // of a block

// The sum of a value over all threads of a block, for its first thread: always in the same order.
__device__ inline wide block_sum(wide value) {
    __shared__ wide sums[WARPS];
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = value;
    __syncthreads();
    value = 0;
    for (int w = 0; w < WARPS; w++) value += sums[w];
    return value;
}

// squares[i] = sum of g^2 over the numbers of block i.
extern "C" __global__ void adam_squares(
    wide* squares, const unsigned long long* addresses, const long long* size, const int* tensor, const long long* start,
    int tensors, int chunk
) {
    int t = tensor[blockIdx.x];
    const real* g = (const real*)addresses[tensors + t];
    long long first = start[blockIdx.x], end = first + chunk < size[t] ? first + chunk : size[t];
    wide sum = 0;
    for (long long i = first + threadIdx.x; i < end; i += blockDim.x) sum += wide(g[i]) * wide(g[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// clip[0] = min(1, max_norm / norm),   clip[1] = norm = sqrt(sum of all squares). max_norm 0 clips nothing. One block.
extern "C" __global__ void adam_clip(wide* clip, const wide* squares, int n, wide max_norm) {
    wide sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += squares[i];
    wide norm = sqrt(block_sum(sum));
    if (threadIdx.x > 0) return;
    clip[0] = max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
    clip[1] = norm;
}

// m += (1 - beta1) (g - m),   v += (1 - beta2) (g^2 - v),   p -= rate m / (sqrt(v) + eps) + decay p
//
// g is taken times clip[0], and where the norm clip[1] is not finite nothing is done; clip may be null. decaying[t] is 1
// or 0. The bias corrections are in rate and eps, and the learning rate is in decay.
extern "C" __global__ void adam(
    const wide* clip, const unsigned long long* addresses, const long long* size, const int* tensor,
    const long long* start, int tensors, int chunk, const wide* decaying, wide rate, wide eps, wide decay,
    wide beta1_left, wide beta2_left
) {
    if (clip && !(clip[1] - clip[1] == 0)) return;  // of infinity and of NaN the difference is NaN
    int t = tensor[blockIdx.x];
    real* p = (real*)addresses[t];
    const real* g = (const real*)addresses[tensors + t];
    real* m = (real*)addresses[2 * tensors + t];
    real* v = (real*)addresses[3 * tensors + t];
    bfloat16* low = (bfloat16*)addresses[4 * tensors + t];
    wide factor = clip ? clip[0] : 1;
    decay *= decaying[t];
    long long first = start[blockIdx.x], end = first + chunk < size[t] ? first + chunk : size[t];

    for (long long i = first + threadIdx.x; i < end; i += blockDim.x) {
        wide slope = wide(g[i]) * factor, old = p[i], mean = m[i], square = v[i];
        mean += beta1_left * (slope - mean);
        square += beta2_left * (slope * slope - square);
        m[i] = mean;
        v[i] = square;
        p[i] = old -= rate * mean / (sqrt(square) + eps) + decay * old;
        if (low) low[i] = old;
    }
}
