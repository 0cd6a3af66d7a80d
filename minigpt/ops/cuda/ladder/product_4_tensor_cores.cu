// Rung 4 of the product: tensor cores. a (rows, inner) and b (inner, columns) in bfloat16, c = a b in float.
//
// One instruction of a warp, mma.m16n8k16, adds a product of small matrices: c (16,8) += a (16,16) b (16,8). No thread
// has a whole matrix. Each of the 32 lanes holds a fragment of each: a few numbers, in registers. With g = lane / 4 and
// t = lane % 4:
//
//               a (16,16)                       b (16,8)                     c (16,8)
//
//           2t 2t+1    2t+8 2t+9                     g                       2t    2t+1
//     g    | word 0  |  word 2  |           2t   |        |            g    | c[0]  c[1] |
//                                           2t+1 | word 0 |
//     g+8  | word 1  |  word 3  |           2t+8 |        |            g+8  | c[2]  c[3] |
//                                           2t+9 | word 1 |
//
// A word is a register of 4 bytes with two numbers of bfloat16, the first in its lower half. (PTX ISA, "Matrix
// Fragments for mma.m16n8k16"; fragments.py plays it in NumPy.) Another instruction, ldmatrix, loads four matrices
// (8,8) from shared memory into such words: lane l gives the address of row l % 8 of matrix l / 8, and word i of each
// lane gets its two numbers of matrix i, as the picture shows. In b a word has two numbers of one column: so b is
// loaded transposed.
//
// A block has 2 x 2 warps. A warp computes 64 x 64 numbers of c: 4 x 8 fragments, in 128 registers of each thread.
//
// What limits it: mma, and then shared memory. For 16 k, a block needs 128 mma. At their peak the tensor cores of an
// H100 make one per clock: 128 clocks. We ASSUME that mma reaches 63 % of that peak on an H100 (MMA_SHARE in
// predictions.py; not measured by us): 203 clocks. The warps read 4 * (64 + 64) * 16 * 2 bytes of shared memory, 128
// bytes per clock: 128 clocks. The tiles were written there before: 64 clocks. That alone would allow 128/192 = 67 % of
// the peak. Memory: 2 * 2 / 128 = 0.03 bytes for each multiply-add. An H100 makes 495,000 billion of them a second, and
// its memory delivers 3350 GB/s, 0.007 bytes for each: so caches must serve most of it.
//
// What could come next, and is in NVIDIA's library: copy the next tile while this one is used (cp.async, as in
// ../attention_mma.cu), larger tiles, and wgmma, an instruction of Hopper GPUs (H100, H200) that reads shared memory
// itself.

#ifndef WARP_ROWS
#define WARP_ROWS 64     // of c, for each warp: a multiple of 16
#define WARP_COLUMNS 64  // a multiple of 16
#define WARPS_DOWN 2     // warps of a block, along rows
#define WARPS_ACROSS 2   // and along columns
#define DEPTH 32         // how many k a tile has: a multiple of 16
#endif

#include "tensor_cores.cuh"  // four instructions of tensor cores, by their names in PTX

const int ROWS = WARPS_DOWN * WARP_ROWS, COLUMNS = WARPS_ACROSS * WARP_COLUMNS;  // of c, for a block
const int THREADS = 32 * WARPS_DOWN * WARPS_ACROSS;
const int PAD = 8;  // 16 bytes more in each row: so 8 rows, one below the other, are in different banks

// Copies eight neighbours of a row. Only the first `left` exist; the others become zeros. 16 bytes at once if possible.
__device__ void copy_eight(bfloat16* to, const bfloat16* from, int left) {
    if (left >= 8 && (size_t)from % 16 == 0) {
        *(Eight*)to = *(const Eight*)from;
    } else {
        for (int i = 0; i < 8; i++) to[i] = i < left ? from[i] : 0;
    }
}

extern "C" __launch_bounds__(THREADS) __global__ void product(
    float* c, const bfloat16* a, const bfloat16* b, int rows, int columns, int inner
) {
    __shared__ __align__(16) bfloat16 a_tile[ROWS][DEPTH + PAD], b_tile[DEPTH][COLUMNS + PAD];
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    int first_row = blockIdx.y * ROWS, first_column = blockIdx.x * COLUMNS;  // of the block
    int warp_row = warp / WARPS_ACROSS * WARP_ROWS, warp_column = warp % WARPS_ACROSS * WARP_COLUMNS;  // in the tiles
    float sums[WARP_ROWS / 16][WARP_COLUMNS / 8][4] = {};  // in registers: so every loop over them is unrolled
    for (int first = 0; first < inner; first += DEPTH) {
        for (int n = thread * 8; n < ROWS * DEPTH; n += THREADS * 8) {
            int row = first_row + n / DEPTH, k = first + n % DEPTH;
            copy_eight(&a_tile[n / DEPTH][n % DEPTH], a + (long long)row * inner + k, row < rows ? inner - k : 0);
        }
        for (int n = thread * 8; n < DEPTH * COLUMNS; n += THREADS * 8) {
            int k = first + n / COLUMNS, column = first_column + n % COLUMNS;
            int left = k < inner ? columns - column : 0;
            copy_eight(&b_tile[n / COLUMNS][n % COLUMNS], b + (long long)k * columns + column, left);
        }
        __syncthreads();  // the tiles are complete
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            unsigned a_words[WARP_ROWS / 16][4], b_words[4];
#pragma unroll
            for (int i = 0; i < WARP_ROWS / 16; i++) {
                ldmatrix_x4(a_words[i], &a_tile[warp_row + 16 * i + lane % 16][k + lane / 16 * 8]);
            }
#pragma unroll
            for (int j = 0; j < WARP_COLUMNS / 8; j += 2) {
                ldmatrix_x4_trans(b_words, &b_tile[k + lane % 16][warp_column + 8 * j + lane / 16 * 8]);
#pragma unroll
                for (int i = 0; i < WARP_ROWS / 16; i++) {
                    mma_m16n8k16(sums[i][j], a_words[i], b_words);
                    mma_m16n8k16(sums[i][j + 1], a_words[i], b_words + 2);
                }
            }
        }
        __syncthreads();  // no warp reads these tiles any more
    }
#pragma unroll
    for (int i = 0; i < WARP_ROWS / 16; i++) {
#pragma unroll
        for (int j = 0; j < WARP_COLUMNS / 8; j++) {
            for (int e = 0; e < 4; e++) {
                int row = first_row + warp_row + 16 * i + lane / 4 + e / 2 * 8;
                int column = first_column + warp_column + 8 * j + lane % 4 * 2 + e % 2;
                if (row < rows && column < columns) c[(long long)row * columns + column] = sums[i][j][e];
            }
        }
    }
}
