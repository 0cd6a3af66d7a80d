// Sums of columns: the gradient of whatever was added to every row.

#include "common.cuh"

// sums[g, s] = sum of x[g, n] over the rows n of stripe s: x (G,N,C) -> sums (G,S,C).
//
// One thread for each column of each stripe, from the first row to the last: always the same order, always the same
// bits. Neighbouring threads read neighbouring numbers. A second launch, with one stripe, sums the sums.
extern "C" __global__ void column_sums(wide* sums, const real* x, int rows, int columns, int stripe) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    x += (long long)blockIdx.z * rows * columns;
    long long first = (long long)blockIdx.y * stripe;
    wide sum = 0;
    for (long long n = first; n < first + stripe && n < rows; n++) sum += wide(x[n * columns + c]);
    sums[((long long)blockIdx.z * gridDim.y + blockIdx.y) * columns + c] = sum;
}
