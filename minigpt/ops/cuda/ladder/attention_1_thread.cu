// Rung 1 of causal attention: one thread for each query.
//
// q, k, v, out (heads, length, HEAD), all float: each head is a matrix (length, HEAD), in one piece. (The library packs
// q, k and v in one array; there a row begins at another address.) Forward only: ../attention.cu has the backward. For
// query i, over the keys j = 0 ... i:
//
//     score[j] = scale * sum over d of q[i][d] * k[j][d]
//     out[i]   = sum over j of p[j] * v[j],      p[j] = exp(score[j] - largest) / sum over j of exp(score[j] - largest)
//
// The thread goes through the keys twice: first to find the largest score, then to add up. It computes each score
// twice.
//
// What limits it: loads. The 32 threads of a warp have 32 queries, whose rows begin HEAD numbers apart. So when all of
// them read q[i][d], they need 32 pieces of memory, and use one number of each. The pieces come one after the other: 32
// clocks. out[i][d] is the same, once to read and once to write. k[j][d] and v[j][d] take one clock: all threads read
// the same number. For one key and 32 queries, with HEAD = 64:
//     loads          2 * 64 * (32 + 1) for the two scores, 64 * (1 + 32 + 32) for the sums: 8384 clocks
//     multiply-adds  2 * 64 that the result needs, 4 per clock: 32 clocks
// So at most 32/8384 = 0.4 % of the peak.
//
// The next rung: the 32 threads of a warp share one query; q and the sums are in registers.

#ifndef HEAD
#define HEAD 64       // numbers in a row of q, k and v
#define THREADS 128   // queries of a block
#endif

__device__ float dot(const float* a, const float* b) {
    float sum = 0;
    for (int d = 0; d < HEAD; d++) sum += a[d] * b[d];
    return sum;
}

extern "C" __global__ void attention(
    float* out, const float* q, const float* k, const float* v, int length, float scale
) {
    int i = blockIdx.x * THREADS + threadIdx.x;  // the query of this thread
    if (i >= length) return;
    long long head = (long long)blockIdx.y * length * HEAD;  // where this head begins
    const float* query = q + head + (long long)i * HEAD;
    float* sums = out + head + (long long)i * HEAD;  // the sums are in memory, not in registers
    float largest = -3.4e38f, total = 0;
    for (int j = 0; j <= i; j++) {
        largest = fmaxf(largest, scale * dot(query, k + head + (long long)j * HEAD));
    }
    for (int d = 0; d < HEAD; d++) sums[d] = 0;
    for (int j = 0; j <= i; j++) {
        float p = expf(scale * dot(query, k + head + (long long)j * HEAD) - largest);
        const float* value = v + head + (long long)j * HEAD;
        total += p;
        for (int d = 0; d < HEAD; d++) sums[d] += p * value[d];
    }
    for (int d = 0; d < HEAD; d++) sums[d] /= total;
}
