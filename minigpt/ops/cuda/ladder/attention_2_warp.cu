// Rung 2 of causal attention: one warp for each query. q, k, v, out (heads, length, HEAD), all float; forward only.
//
// The 32 lanes of a warp share a row: lane l holds the numbers l, l + 32, ... of the query and of its sums, in
// registers. For a score, each lane multiplies its numbers of q and k, and five shuffles add the products up over the
// warp (lesson 21, section 5).
//
// What it gains: the lanes read neighbours, so a row of k or v of 64 numbers is two loads of 128 bytes, and every byte
// is used.
//
// What limits it: loads and shuffles, which the same unit executes, one per clock. For one key and one query, HEAD =
// 64: the row of k is read twice, the row of v once, and there are 2 * 5 shuffles: 3 * 2 + 10 = 16 clocks. The 64 * 2
// multiply-adds need 1 clock: so at most 1/16 = 6 % of the peak. And each query reads its keys and values alone: 3 *
// 256 bytes for each pair of a query and a key, from caches or from memory.
//
// The next rung: a block of queries reads each key and each value once, into shared memory. A thread has a whole query
// again, now in registers: no sum over lanes is needed any more. And the keys are visited once.

#ifndef HEAD
#define HEAD 64  // numbers in a row of q, k and v
#define WARPS 4  // queries of a block, a warp for each
#endif

const int EACH = (HEAD + 31) / 32;  // numbers of a row for each lane, rounded up: the last one may not exist

__device__ float warp_sum(float x) {
    for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

// part[n] = row[lane + 32 n]: the numbers of a row that this lane holds
__device__ void read_row(float* part, const float* row) {
    int lane = threadIdx.x % 32;
    for (int n = 0; n < EACH; n++) part[n] = lane + 32 * n < HEAD ? row[lane + 32 * n] : 0;
}

__device__ float dot(const float* a, const float* b) {
    float sum = 0;
    for (int n = 0; n < EACH; n++) sum += a[n] * b[n];
    return warp_sum(sum);
}

extern "C" __global__ void attention(
    float* out, const float* q, const float* k, const float* v, int length, float scale
) {
    int lane = threadIdx.x % 32, i = blockIdx.x * WARPS + threadIdx.x / 32;  // the query of this warp
    if (i >= length) return;  // the same for all of its lanes
    long long head = (long long)blockIdx.y * length * HEAD;
    float query[EACH], row[EACH], sums[EACH] = {}, largest = -3.4e38f, total = 0;
    read_row(query, q + head + (long long)i * HEAD);
    for (int j = 0; j <= i; j++) {
        read_row(row, k + head + (long long)j * HEAD);
        largest = fmaxf(largest, scale * dot(query, row));
    }
    for (int j = 0; j <= i; j++) {
        read_row(row, k + head + (long long)j * HEAD);
        float p = expf(scale * dot(query, row) - largest);
        read_row(row, v + head + (long long)j * HEAD);
        total += p;
        for (int n = 0; n < EACH; n++) sums[n] += p * row[n];
    }
    for (int n = 0; n < EACH; n++) {
        if (lane + 32 * n < HEAD) out[head + (long long)i * HEAD + lane + 32 * n] = sums[n] / total;
    }
}
