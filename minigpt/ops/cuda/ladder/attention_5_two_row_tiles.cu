// Rung 5 of causal attention: 32 queries for each warp. q, k, v (heads, length, HEAD) in bfloat16, out in float;
// forward only.
//
// The same as rung 4, but a warp has two row tiles of 16 queries each. Each word of k or v that it reads from shared
// memory is used in two products, one for each row tile.
//
// What it gains: for a tile of 64 keys and HEAD = 64, a warp makes 128 mma with the same 128 clocks of reading, and the
// copy to shared memory serves twice as many queries.
//
// What limits it: the instruction mma. We ASSUME that it reaches 63 % of the tensor cores' peak on an H100 (MMA_SHARE
// in predictions.py; not measured by us): 203 clocks for 128 mma, instead of 128. Other units, at the same time: shared
// memory 128 + 32 clocks; about 580 instructions, 4 per clock, 145 clocks; 2048 powers of 2, 16 per clock, 128 clocks.
// The price is registers: the sums, scores and q of two row tiles take 160 of each thread. (With HEAD = 128 they are
// 256, and a thread has 255: the compiler keeps some in memory, which is slow.)
//
// What could come next: copies of the next tile while this one is used (cp.async), as in ../attention_mma.cu; and
// wgmma, by which four warps of a Hopper GPU (H100, H200) multiply together and read shared memory less often.

#ifndef HEAD
#define HEAD 64  // numbers in a row of q, k and v: a multiple of 16
#define TILE 64  // keys of a tile: a multiple of 16
#define WARPS 4  // of a block
#endif

#include "tensor_cores.cuh"  // four instructions of tensor cores, by their names in PTX

const int THREADS = 32 * WARPS, ROWS = 32 * WARPS;  // of a block; rows: queries
const int PADDED = HEAD + 8;  // 16 bytes more: so 8 rows, one below the other, are in different banks of shared memory
const int R = 2;  // row tiles of a warp: 16 queries each
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
    int block_row = blockIdx.x * ROWS, warp_row = block_row + threadIdx.x / 32 * 16 * R;  // first queries
    long long head = (long long)blockIdx.y * length * HEAD;
    float scale_log2e = scale * 1.4426950408889634f;
    float sums[R][HEAD / 8][4] = {}, largest[R][2], total[R][2] = {}, rescale[2];
    unsigned q_words[R][HEAD / 16][4];
    for (int r = 0; r < R; r++) {
        largest[r][0] = largest[r][1] = LOWEST;
        for (int n = 0; n < HEAD / 16; n++) {
            for (int i = 0; i < 4; i++) {
                int row = warp_row + 16 * r + g + i % 2 * 8, column = 16 * n + 2 * t + i / 2 * 8;
                q_words[r][n][i] = row < length ? *(const unsigned*)(q + head + (long long)row * HEAD + column) : 0;
            }
        }
    }
    int end = min(length, block_row + ROWS);  // causal: this block sees no key from here on
    for (int tile = 0; tile < end; tile += TILE) {
        __syncthreads();  // no warp reads the tiles before any more
        copy_tile(k_tile, k + head + (long long)tile * HEAD, length - tile);
        copy_tile(v_tile, v + head + (long long)tile * HEAD, length - tile);
        __syncthreads();  // the tiles are complete
        if (tile >= warp_row + 16 * R) continue;  // causal: this warp sees none of these keys
        float scores[R][TILE / 8][4] = {};
#pragma unroll
        for (int n = 0; n < HEAD / 16; n++) {
#pragma unroll
            for (int j = 0; j < TILE / 8; j += 2) {
                unsigned words[4];
                ldmatrix_x4(words, &k_tile[8 * j + lane % 8 + lane / 16 * 8][16 * n + lane / 8 % 2 * 8]);
                for (int r = 0; r < R; r++) {  // the same words for both row tiles
                    mma_m16n8k16(scores[r][j], q_words[r][n], words);
                    mma_m16n8k16(scores[r][j + 1], q_words[r][n], words + 2);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            for (int j = 0; j < TILE / 8 && tile + TILE > warp_row + 16 * r + 1; j++) {  // tiles on the diagonal only
                for (int e = 0; e < 4; e++) {  // causal: a query sees the keys up to its own position
                    if (tile + 8 * j + 2 * t + e % 2 > warp_row + 16 * r + g + e / 2 * 8) scores[r][j][e] = LOWEST;
                }
            }
            for (int half = 0; half < 2; half++) {  // row g, row g + 8
                float new_largest = largest[r][half];
                for (int j = 0; j < TILE / 8; j++) {
                    new_largest = fmaxf(new_largest, fmaxf(scores[r][j][2 * half], scores[r][j][2 * half + 1]));
                }
                new_largest = fmaxf(new_largest, __shfl_xor_sync(0xffffffffu, new_largest, 1));
                new_largest = fmaxf(new_largest, __shfl_xor_sync(0xffffffffu, new_largest, 2));
                rescale[half] = exp2f((largest[r][half] - new_largest) * scale_log2e);
                largest[r][half] = new_largest;
                total[r][half] *= rescale[half];
            }
            for (int n = 0; n < HEAD / 8; n++) {
                for (int e = 0; e < 4; e++) sums[r][n][e] *= rescale[e / 2];
            }
            for (int j = 0; j < TILE / 8; j++) {
                for (int e = 0; e < 4; e++) {
                    scores[r][j][e] = exp2f(scores[r][j][e] * scale_log2e - largest[r][e / 2] * scale_log2e);
                    total[r][e / 2] += scores[r][j][e];
                }
            }
        }
#pragma unroll
        for (int j = 0; j < TILE / 8; j += 2) {
            unsigned p_words[R][4];
            for (int r = 0; r < R; r++) {
                for (int i = 0; i < 4; i++) {
                    const float* pair = &scores[r][j + i / 2][i % 2 * 2];
                    p_words[r][i] = cvt_bf16x2(pair[1], pair[0]);
                }
            }
#pragma unroll
            for (int n = 0; n < HEAD / 8; n += 2) {
                unsigned words[4];
                ldmatrix_x4_trans(words, &v_tile[8 * j + lane % 16][8 * n + lane / 16 * 8]);
                for (int r = 0; r < R; r++) {
                    mma_m16n8k16(sums[r][n], p_words[r], words);
                    mma_m16n8k16(sums[r][n + 1], p_words[r], words + 2);
                }
            }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int half = 0; half < 2; half++) {
            total[r][half] += __shfl_xor_sync(0xffffffffu, total[r][half], 1);
            total[r][half] += __shfl_xor_sync(0xffffffffu, total[r][half], 2);
        }
        for (int n = 0; n < HEAD / 8; n++) {
            for (int e = 0; e < 4; e++) {
                int row = warp_row + 16 * r + g + e / 2 * 8, column = 8 * n + 2 * t + e % 2;
                if (row < length) out[head + (long long)row * HEAD + column] = sums[r][n][e] / total[r][e / 2];
            }
        }
    }
}
