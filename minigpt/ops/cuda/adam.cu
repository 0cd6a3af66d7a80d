// Clipping and one update of Adam for all tensors of a model, in three launches. Most tensors are small: launches for
// each would cost more than the work.
//
// All kernels find the tensors in the same tables: addresses (5, tensors) say where p, g, m and v of each tensor begin,
// and the copy of p in bfloat16 if there is one; tensor t has size[t] numbers. Block i takes `chunk` numbers of
// tensor[i], from start[i] on.
//
// A thread takes PACK neighbouring numbers, 16 bytes, then the pack that is blockDim.x packs further, and so on. An
// update reads p, g, m and v and writes p, m, v and the copy: 30 bytes for a float32 weight. The norm reads g once
// more: 34 bytes, for the 124 million weights of GPT-2 small 4.2 GB, which is 0.9 ms at the 4.8 TB/s of an H200. If a
// read takes 0.8 microseconds (an assumption), 4.8 TB/s need 3.8 MB under way at any time, 29 KB on each of 132
// multiprocessors. With one number at a time, 1536 threads with four reads of 4 bytes had 24 KB under way, and in the
// norm 2048 threads with one read 8 KB. In packs 1280 threads have 80 KB, and in the norm 2048 threads 32 KB.
// Predicted: 0.1 to 0.3 ms less for a step of GPT-2 small; not yet measured on a GPU.

#include "common.cuh"

const int WARPS = 8;  // of a block

// May an array be read in packs from here on? A tensor may begin anywhere, and a chunk need not be a multiple of PACK.
template <class Number> __device__ inline bool is_aligned(const Number* at) {
    return (unsigned long long)at % alignof(Packed<Number>) == 0;
}

// The sum of a value over all threads of a block, for its first thread. The numbers are added in the same sequence in
// every run.
__device__ inline wide block_sum(wide value) {
    __shared__ wide sums[WARPS];
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = value;
    __syncthreads();
    value = 0;
    for (int w = 0; w < WARPS; w++) value += sums[w];
    return value;
}

// The sum of f(x[i]) over this thread's indices i in first ... end - 1. It adds the same numbers in the same sequence,
// whether it reads them in packs or not.
template <class Number, class F>
__device__ inline wide my_sum(const Number* x, long long first, long long end, F f) {
    bool aligned = is_aligned(x + first);
    long long i = first + threadIdx.x * PACK, step = blockDim.x * PACK;
    wide sum = 0;
    for (; aligned && i + PACK <= end; i += step) {
        Packed<Number> some = pack(x + i);
        for (int j = 0; j < PACK; j++) sum += f(wide(some.x[j]));
    }
    for (; i < end; i += step) {
        for (long long k = i; k < i + PACK && k < end; k++) sum += f(wide(x[k]));
    }
    return sum;
}

// squares[i] = sum of g^2 over the numbers of block i.
extern "C" __global__ void adam_squares(
    wide* squares, const unsigned long long* addresses, const long long* size, const int* tensor, const long long* start,
    int tensors, int chunk
) {
    int t = tensor[blockIdx.x];
    const real* g = (const real*)addresses[tensors + t];
    long long first = start[blockIdx.x], end = first + chunk < size[t] ? first + chunk : size[t];
    wide sum = block_sum(my_sum(g, first, end, [](wide x) { return x * x; }));
    if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// clip[0] = min(1, max_norm / norm),   clip[1] = norm = sqrt(sum of all squares). max_norm 0 clips nothing. One block.
extern "C" __global__ void adam_clip(wide* clip, const wide* squares, int n, wide max_norm) {
    wide norm = sqrt(block_sum(my_sum(squares, 0, n, [](wide x) { return x; })));
    if (threadIdx.x > 0) return;
    clip[0] = max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
    clip[1] = norm;
}

// beta1_left = 1 - beta1, beta2_left = 1 - beta2, factor: what gradients are multiplied by to clip them.
//
// m += (1 - beta1) (g - m),   v += (1 - beta2) (g^2 - v),   p -= rate m / (sqrt(v) + eps) + decay p
struct Update {
    wide factor, rate, eps, decay, beta1_left, beta2_left;

    // One number of each tensor. Returns the new p, for its copy.
    __device__ wide operator()(real& p, real g, real& m, real& v) const {
        wide gradient = wide(g) * factor, weight = p, mean = m, square = v;
        mean += beta1_left * (gradient - mean);
        square += beta2_left * (gradient * gradient - square);
        weight -= rate * mean / (sqrt(square) + eps) + decay * weight;
        m = mean;
        v = square;
        p = weight;
        return weight;
    }
};

// The update of all tensors.
//
// g is taken times clip[0], and where the norm clip[1] is not finite nothing is done; clip may be null. decaying[t] is
// 1 or 0. The bias corrections are in rate and eps, and the learning rate is in decay.
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
    long long first = start[blockIdx.x], end = first + chunk < size[t] ? first + chunk : size[t];

    bool aligned = is_aligned(p + first) && is_aligned(g + first) && is_aligned(m + first) && is_aligned(v + first);
    if (low) aligned = aligned && is_aligned(low + first);
    Update update = {clip ? clip[0] : 1, rate, eps, decay * decaying[t], beta1_left, beta2_left};

    long long i = first + threadIdx.x * PACK, step = blockDim.x * PACK;
    for (; aligned && i + PACK <= end; i += step) {
        Packed<real> weight = pack(p + i), gradient = pack(g + i), mean = pack(m + i), square = pack(v + i);
        Packed<bfloat16> copy;
        for (int j = 0; j < PACK; j++) copy.x[j] = update(weight.x[j], gradient.x[j], mean.x[j], square.x[j]);
        pack(m + i) = mean;
        pack(v + i) = square;
        pack(p + i) = weight;
        if (low) pack(low + i) = copy;
    }
    for (; i < end; i += step) {
        for (long long k = i; k < i + PACK && k < end; k++) {
            wide weight = update(p[k], g[k], m[k], v[k]);
            if (low) low[k] = weight;
        }
    }
}
