// Sums of columns: the gradient of whatever was added to every row.

#include "common.cuh"

// sums[g, s] = sum of x[g, n] over the rows n of stripe s: x (G,N,C) -> sums (G,S,C).
//
// A thread adds up PACK columns of a stripe, from the first row to the last: always the same order, always the same
// bits. Neighbouring threads read neighbouring numbers, of eight rows at a time. Further launches sum the sums.
extern "C" __global__ void column_sums(wide* sums, const real* x, int rows, int columns, int stripe) {
    int c = my_pack();
    if (c >= columns) return;
    x += (long long)blockIdx.z * rows * columns;
    long long first = (long long)blockIdx.y * stripe, end = first + stripe < rows ? first + stripe : rows;
    Packed<wide> sum = {};
#pragma unroll 8
    for (long long n = first; n < end; n++) {
        Packed<real> row = pack(x + n * columns + c);
        for (int j = 0; j < PACK; j++) sum.x[j] += wide(row.x[j]);
    }
    pack(sums + ((long long)blockIdx.z * gridDim.y + blockIdx.y) * columns + c) = sum;
}
