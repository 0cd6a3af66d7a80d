// Rung 2 of the product: tiles in shared memory. a (rows, inner), b (inner, columns), c = a b (rows, columns), all
// float.
//
// A block computes TILE x TILE numbers of c, one for each thread. It goes along `inner` in steps of TILE. In each step
// all threads together copy a tile of a and a tile of b to shared memory, a small memory inside of the multiprocessor.
// Then each thread reads what it needs from there.
//
//                            b   . T .          T: the tiles of this step. Each number of them is
//                                . . .          read from the GPU's memory once for the block,
//                       a        c              and used by TILE threads.
//                     . T .      [block]
//
// What it gains: a multiply-add needs 2 * 4 / TILE = 0.25 bytes from the GPU's memory, instead of 5.
//
// What limits it: loads again, now from shared memory. A multiply-add still needs two of them: at most 1/8 of the peak.
//
// The next rung: a thread computes many numbers of c, so that a number in a register is used several times.

#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void product(float* c, const float* a, const float* b, int rows, int columns, int inner) {
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * TILE + x;
    int row = blockIdx.y * TILE + y;
    float sum = 0;
    for (int first = 0; first < inner; first += TILE) {
        // Beyond an edge there are zeros, which add nothing. No thread may return: the barriers wait for all of them.
        bool a_is_there = row < rows && first + x < inner;
        bool b_is_there = first + y < inner && column < columns;
        a_tile[y][x] = a_is_there ? a[(long long)row * inner + first + x] : 0;
        b_tile[y][x] = b_is_there ? b[(long long)(first + y) * columns + column] : 0;
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < TILE; k++) sum += a_tile[y][k] * b_tile[k][x];
        __syncthreads();  // no thread reads these tiles any more
    }
    if (row < rows && column < columns) c[(long long)row * columns + column] = sum;
}
