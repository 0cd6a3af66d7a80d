// Rung 3 of causal attention: tiles in shared memory. q, k, v, out (heads, length, HEAD), all float; forward only.
//
// A block has QUERIES queries of one head, one for each thread, with the query and its sums in registers. It goes
// through the keys in tiles of KEYS. All threads together copy a tile of keys, and their values, to shared memory.
//
// The keys are visited once, by a running softmax (lesson 18; Dao et al. 2022, FlashAttention, algorithm 1). After each
// tile, `largest` is the largest score so far, `total` is the sum of exp(score - largest), and `sums` is the sum of
// exp(score - largest) * v. If a tile brings a larger score, total and sums are multiplied by `rescale` = exp(old
// largest - new largest).
//
// What it gains: a key and its value come from the GPU's memory once for QUERIES queries: 2 * 256 / 128 = 4 bytes for
// each pair of a query and a key, instead of 768.
//
// What limits it: instructions. For one key and the 32 queries of a warp, HEAD = 64: 128 multiply-adds; 35 loads and
// stores of shared memory (a load brings four numbers of k or v); about 10 more for the softmax. Four begin per clock:
// at most 128/173 = 74 % of the peak of float32. (Registers: q and sums take 128 of at most 255.)
//
// The next rung: both products on tensor cores, in bfloat16.

#ifndef HEAD
#define HEAD 64      // numbers in a row of q, k and v
#define QUERIES 128  // of a block, a thread for each
#define KEYS 32      // of a tile
#endif

extern "C" __launch_bounds__(QUERIES) __global__ void attention(
    float* out, const float* q, const float* k, const float* v, int length, float scale
) {
    __shared__ __align__(16) float k_tile[KEYS][HEAD], v_tile[KEYS][HEAD];
    __shared__ float scores[KEYS][QUERIES];  // a column for each thread, which no other thread uses
    int thread = threadIdx.x, i = blockIdx.x * QUERIES + thread;  // the query of this thread
    long long head = (long long)blockIdx.y * length * HEAD;
    float query[HEAD], sums[HEAD] = {}, largest = -3.4e38f, total = 0;
    for (int d = 0; d < HEAD; d++) query[d] = i < length ? scale * q[head + (long long)i * HEAD + d] : 0;

    int end = min(length, (int)(blockIdx.x + 1) * QUERIES);  // causal: this block sees no key from here on
    for (int tile = 0; tile < end; tile += KEYS) {
        int keys = min(KEYS, end - tile);  // of this tile
        for (int n = thread; n < keys * HEAD; n += QUERIES) {
            k_tile[n / HEAD][n % HEAD] = k[head + (long long)tile * HEAD + n];
            v_tile[n / HEAD][n % HEAD] = v[head + (long long)tile * HEAD + n];
        }
        __syncthreads();  // the tiles are complete
        int seen = i < length ? min(keys, i + 1 - tile) : 0;  // causal; may be negative
        float new_largest = largest;
        for (int j = 0; j < seen; j++) {
            float score = 0;
            for (int d = 0; d < HEAD; d++) score += query[d] * k_tile[j][d];
            scores[j][thread] = score;
            new_largest = fmaxf(new_largest, score);
        }
        float rescale = expf(largest - new_largest);
        largest = new_largest;
        total *= rescale;
        for (int d = 0; d < HEAD; d++) sums[d] *= rescale;
        for (int j = 0; j < seen; j++) {
            float p = expf(scores[j][thread] - largest);
            total += p;
            for (int d = 0; d < HEAD; d++) sums[d] += p * v_tile[j][d];
        }
        __syncthreads();  // no thread reads these tiles any more
    }
    if (i >= length) return;
    for (int d = 0; d < HEAD; d++) out[head + (long long)i * HEAD + d] = sums[d] / total;
}
