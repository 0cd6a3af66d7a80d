// Rung 1 of causal attention: one thread for each query.
//
// q, k, v, out (heads, length, HEAD), all float: each head is a matrix whose rows follow each other. (The library packs
// the three in one array; then only the place where a row begins is another one.) Forward only: ../attention.cu has the
// backward. For query i, over the keys j = 0 ... i:
//
//     score[j] = scale * sum over d of q[i][d] * k[j][d]
//     out[i]   = sum over j of p[j] * v[j],      p[j] = exp(score[j] - largest) / sum over j of exp(score[j] - largest)
//
// The thread goes through the keys twice: to find the largest score, and to add up. Nothing is kept between the two.
//
// What limits it: loads. The 32 threads of a warp have 32 queries, whose rows are HEAD numbers apart. A read of q[i][d]
// by all of them brings 32 pieces of memory, of which one number each is used; so does every addition to out[i][d].
// They come one after the other: 32 clocks. Reading k[j][d] is one: all read the same number. For a key and 32 queries,
// HEAD = 64: 2 * 64 * (32 + 1) + 64 * (1 + 32 + 32) = 8384 clocks, while 2 * 64 multiply-adds of 32 threads need 32:
// 0.4 % of the peak.
//
// The next rung: the threads of a warp share one query, side by side, with q and the sums in registers.

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
    int i = blockIdx.x * THREADS + threadIdx.x;  // my query
    if (i >= length) return;
    long long head = (long long)blockIdx.y * length * HEAD;  // where this head begins
    const float* query = q + head + (long long)i * HEAD;
    float* sums = out + head + (long long)i * HEAD;  // they stand in memory
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
