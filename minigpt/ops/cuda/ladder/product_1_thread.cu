// Rung 1 of the product: one thread for each number of c = a b.
//
// a (rows, inner), b (inner, columns), c (rows, columns), all float. A thread reads a row of a and a column of b:
//
//     c[row][column] = sum over k of a[row][k] * b[k][column]
//
// What limits it: loads. A multiply-add needs two numbers from memory. The 32 threads of a warp compute neighbours in
// one row of c: they read the same number of a, and 32 neighbours of b (coalesced). So a warp makes two loads for each
// multiply-add. In one clock a multiprocessor can begin one load of a warp, or four multiply-adds of a warp: so it
// makes at most 1/2 multiply-add per clock instead of 4, which is 1/8 of the peak.
//
// And if no cache kept anything, all of this would come from the GPU's memory: for 32 multiply-adds, 32 bytes of a (the
// smallest piece that can be read) and 128 bytes of b, so 5 bytes for each. The memory of an H100 delivers 3350 GB/s,
// and its cores make 33500 billion multiply-adds a second (data sheet, H100 SXM): it has 0.1 bytes for each.
//
// The next rung: the threads of a block need the same rows of a and columns of b. They copy them to shared memory,
// once.

#ifndef TILE
#define TILE 32  // threads of a block along rows and along columns
#endif

extern "C" __global__ void product(float* c, const float* a, const float* b, int rows, int columns, int inner) {
    int column = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    if (row >= rows || column >= columns) return;  // the last blocks reach beyond c
    const float* row_of_a = a + (long long)row * inner;
    float sum = 0;
    for (int k = 0; k < inner; k++) sum += row_of_a[k] * b[(long long)k * columns + column];
    c[(long long)row * columns + column] = sum;
}
