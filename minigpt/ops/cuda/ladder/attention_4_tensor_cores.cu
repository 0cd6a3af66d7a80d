// Rung 4 of causal attention: tensor cores. q, k, v (heads, length, HEAD) in bfloat16, out in float; forward only.
//
// A warp has 16 queries, and a block has WARPS warps. They go through the keys in tiles of TILE, as in rung 3, with the
// same running softmax. Both products are computed by mma.m16n8k16, c (16,8) += a (16,16) b (16,8);
// product_4_tensor_cores.cu draws which lane holds which numbers:
//
//     scores (16, TILE) = q (16, HEAD) k^T        a: q, in registers from the beginning;   b: k^T, from shared memory
//     sums (16, HEAD) += p (16, TILE) v           a: p;                                    b: v, from shared memory
//
// With g = lane / 4 and t = lane % 4, a lane holds columns 2t and 2t + 1 of rows g and g + 8 of c. Two c side by side
// are held exactly as one a: so the probabilities, rounded to bfloat16, are the next factor a, and no number moves to
// another lane. Only the largest score and the total of a row need shuffles, between the four lanes with the same g,
// which share the row.
//
// exp(x) = 2^(x log2 e), and a power of 2 is one instruction: so scores are multiplied by scale_log2e = scale * log2 e.
// (One instruction as CuPy compiles it, with -ftz=true: results below 2^-126 are 0. Otherwise four.)
//
// What limits it: shared memory. For a tile of 64 keys and HEAD = 64, a warp makes 64 mma: 64 clocks of an H100's
// tensor cores at their peak. It reads k and v from shared memory, 16 KB at 128 bytes per clock: 128 clocks. Its
// quarter of the copy to shared memory takes 32 more: at most 64/160 = 40 % of the peak. (Other units, at the same
// time: 1024 powers of 2, 16 per clock, 64 clocks; about 330 instructions, 4 per clock, 83 clocks.)
//
// The next rung: 32 queries for each warp. Then each word of k and v that it reads is used in two products.

#ifndef HEAD
#define HEAD 64  // numbers in a row of q, k and v: a multiple of 16
#define TILE 64  // keys of a tile: a multiple of 16
#define WARPS 4  // of a block
#endif

#include "tensor_cores.cuh"  // four instructions of tensor cores, by their names in PTX

const int THREADS = 32 * WARPS, ROWS = 16 * WARPS;  // of a block; rows: queries
const int PADDED = HEAD + 8;  // 16 bytes more: so 8 rows, one below the other, are in different banks of shared memory
const float LOWEST = -3.4e38f;

// Copies TILE rows of k or v to shared memory, 16 bytes at once. Rows beyond the end become zeros. They are multiplied
// by a probability of 0, and 0 times an old number there could be nan.
__device__ void copy_tile(bfloat16 (*to)[PADDED], const bfloat16* from, int rows) {
    for (int n = threadIdx.x * 8; n < TILE * HEAD; n += THREADS * 8) {
        Eight zeros = {};
        *(Eight*)&to[n / HEAD][n % HEAD] = n / HEAD < rows ? *(const Eight*)(from + n) : zeros;
    }
}

extern "C" __launch_bounds__(THREADS) __global__ void attention(
    float* out, const bfloat16* q, const bfloat16* k, const bfloat16* v, int length, float scale
) {
    __shared__ __align__(16) bfloat16 k_tile[TILE][PADDED], v_tile[TILE][PADDED];
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int block_row = blockIdx.x * ROWS, warp_row = block_row + threadIdx.x / 32 * 16;  // first queries
    long long head = (long long)blockIdx.y * length * HEAD;
    float scale_log2e = scale * 1.4426950408889634f;
    float sums[HEAD / 8][4] = {}, largest[2] = {LOWEST, LOWEST}, total[2] = {}, rescale[2];
    unsigned q_words[HEAD / 16][4];
    for (int n = 0; n < HEAD / 16; n++) {
        for (int i = 0; i < 4; i++) {
            int row = warp_row + g + i % 2 * 8, column = 16 * n + 2 * t + i / 2 * 8;
            q_words[n][i] = row < length ? *(const unsigned*)(q + head + (long long)row * HEAD + column) : 0;
        }
    }
    int end = min(length, block_row + ROWS);  // causal: this block sees no key from here on
    for (int tile = 0; tile < end; tile += TILE) {
        __syncthreads();  // no warp reads the tiles before any more
        copy_tile(k_tile, k + head + (long long)tile * HEAD, length - tile);
        copy_tile(v_tile, v + head + (long long)tile * HEAD, length - tile);
        __syncthreads();  // the tiles are complete
        if (tile >= warp_row + 16) continue;  // causal: this warp sees none of these keys
        float scores[TILE / 8][4] = {};
#pragma unroll
        for (int n = 0; n < HEAD / 16; n++) {
#pragma unroll
            for (int j = 0; j < TILE / 8; j += 2) {
                unsigned words[4];
                ldmatrix_x4(words, &k_tile[8 * j + lane % 8 + lane / 16 * 8][16 * n + lane / 8 % 2 * 8]);
                mma_m16n8k16(scores[j], q_words[n], words);
                mma_m16n8k16(scores[j + 1], q_words[n], words + 2);
            }
        }
        for (int j = 0; j < TILE / 8 && tile + TILE > warp_row + 1; j++) {  // tiles on the diagonal only
            for (int e = 0; e < 4; e++) {  // causal: a query sees the keys up to its own position
                if (tile + 8 * j + 2 * t + e % 2 > warp_row + g + e / 2 * 8) scores[j][e] = LOWEST;
            }
        }
        for (int half = 0; half < 2; half++) {  // row g, row g + 8
            float new_largest = largest[half];
            for (int j = 0; j < TILE / 8; j++) {
                new_largest = fmaxf(new_largest, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
            }
            new_largest = fmaxf(new_largest, __shfl_xor_sync(0xffffffffu, new_largest, 1));
            new_largest = fmaxf(new_largest, __shfl_xor_sync(0xffffffffu, new_largest, 2));
            rescale[half] = exp2f((largest[half] - new_largest) * scale_log2e);
            largest[half] = new_largest;
            total[half] *= rescale[half];
        }
        for (int n = 0; n < HEAD / 8; n++) {
            for (int e = 0; e < 4; e++) sums[n][e] *= rescale[e / 2];
        }
        for (int j = 0; j < TILE / 8; j++) {
            for (int e = 0; e < 4; e++) {
                scores[j][e] = exp2f(scores[j][e] * scale_log2e - largest[e / 2] * scale_log2e);
                total[e / 2] += scores[j][e];
            }
        }
#pragma unroll
        for (int j = 0; j < TILE / 8; j += 2) {
            unsigned p_words[4];
            for (int i = 0; i < 4; i++) {
                const float* pair = &scores[j + i / 2][i % 2 * 2];
                p_words[i] = cvt_bf16x2(pair[1], pair[0]);
            }
#pragma unroll
            for (int n = 0; n < HEAD / 8; n += 2) {
                unsigned words[4];
                ldmatrix_x4_trans(words, &v_tile[8 * j + lane % 16][8 * n + lane / 16 * 8]);
                mma_m16n8k16(sums[n], p_words, words);
                mma_m16n8k16(sums[n + 1], p_words, words + 2);
            }
        }
    }
    for (int half = 0; half < 2; half++) {
        total[half] += __shfl_xor_sync(0xffffffffu, total[half], 1);
        total[half] += __shfl_xor_sync(0xffffffffu, total[half], 2);
    }
    for (int n = 0; n < HEAD / 8; n++) {
        for (int e = 0; e < 4; e++) {
            int row = warp_row + g + e / 2 * 8, column = 8 * n + 2 * t + e % 2;
            if (row < length) out[head + (long long)row * HEAD + column] = sums[n][e] / total[e / 2];
        }
    }
}
