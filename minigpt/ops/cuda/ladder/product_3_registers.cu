// Rung 3 of the product: many numbers for each thread. a (rows, inner), b (inner, columns), c = a b, all float.
//
// A block of THREADS x THREADS threads computes TILE x TILE numbers of c, TILE = THREADS * EACH. A thread has EACH x
// EACH of them in registers. For each k it reads EACH numbers of a column of a and EACH of a row of b from shared
// memory:
//
//                        b_row[0]   b_row[1]   ...         Each number is used EACH times
//     a_column[0]         sum        sum                   after it was read once.
//     a_column[1]         sum        sum
//       ...
//
// The numbers of c that a thread computes are not neighbours, but THREADS apart: so neighbouring threads read
// neighbours in b_tile. Shared memory has 32 banks of 4 bytes, and neighbours are in different banks. Two different
// numbers of one bank would be read one after the other.
//
// What it gains (EACH = 8): 16 loads for 64 multiply-adds, where rung 2 had 128. And the larger tile needs fewer bytes
// from the GPU's memory: 2 * 4 / 128 = 0.06 for each multiply-add.
//
// What limits it: instructions. Four of a warp begin per clock, and of 64 + 16 = 80 only 64 are multiply-adds: at most
// 64/80 = 80 % of the peak. (The time in which a block waits for its tiles is not counted: other blocks should compute
// meanwhile.)
//
// The next rung: an instruction that makes 2048 multiply-adds at once, on tensor cores, in bfloat16.

#ifndef THREADS
#define THREADS 16  // of a block, along rows and along columns
#define EACH 8      // numbers of c of a thread, along rows and along columns
#define DEPTH 16    // how many k a tile has
#endif

const int TILE = THREADS * EACH;  // rows, and columns, of c for a block

extern "C" __launch_bounds__(THREADS * THREADS) __global__ void product(
    float* c, const float* a, const float* b, int rows, int columns, int inner
) {
    __shared__ float a_tile[TILE][DEPTH], b_tile[DEPTH][TILE];
    int x = threadIdx.x, y = threadIdx.y, thread = y * THREADS + x;
    int first_column = blockIdx.x * TILE, first_row = blockIdx.y * TILE;  // of this block
    float sums[EACH][EACH] = {};
    for (int first = 0; first < inner; first += DEPTH) {
        for (int n = thread; n < TILE * DEPTH; n += THREADS * THREADS) {
            int row = first_row + n / DEPTH, k = first + n % DEPTH;
            a_tile[n / DEPTH][n % DEPTH] = row < rows && k < inner ? a[(long long)row * inner + k] : 0;
        }
        for (int n = thread; n < DEPTH * TILE; n += THREADS * THREADS) {
            int k = first + n / TILE, column = first_column + n % TILE;
            b_tile[n / TILE][n % TILE] = k < inner && column < columns ? b[(long long)k * columns + column] : 0;
        }
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < DEPTH; k++) {
            float a_column[EACH], b_row[EACH];
            for (int i = 0; i < EACH; i++) a_column[i] = a_tile[y + i * THREADS][k];
            for (int j = 0; j < EACH; j++) b_row[j] = b_tile[k][x + j * THREADS];
            for (int i = 0; i < EACH; i++) {
                for (int j = 0; j < EACH; j++) sums[i][j] += a_column[i] * b_row[j];
            }
        }
        __syncthreads();  // no thread reads these tiles any more
    }
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < EACH; j++) {
            int row = first_row + y + i * THREADS, column = first_column + x + j * THREADS;
            if (row < rows && column < columns) c[(long long)row * columns + column] = sums[i][j];
        }
    }
}
