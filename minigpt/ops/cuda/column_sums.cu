// Sums of columns: the gradient of whatever was added to every row.

#include "common.cuh"

// sums[g, s] = sum of x[g, n] over the rows n of stripe s: x (G,N,C) -> sums (G,S,C).
//
// A block takes WARP packs of columns of a stripe, each of its WARPS warps every WARPS-th row; then the warps are summed:
// always the same order, always the same bits. Neighbouring threads read neighbouring numbers, of eight rows at a time. (The
// compiler must be told that there are registers for eight. Otherwise it saves them, and waits for one row after another.)
// A second launch sums the stripes. WARPS is chosen when this is compiled.
extern "C" __launch_bounds__(WARPS * WARP, 4) __global__ void column_sums(
    wide* sums, const real* x, int rows, int columns, int stripe
) {
    int c = my_pack();
    x += (long long)blockIdx.z * rows * columns;
    long long first = (long long)blockIdx.y * stripe, end = first + stripe < rows ? first + stripe : rows;
    Packed<wide> sum = {};
    if (c < columns) {
#pragma unroll 8
        for (long long n = first + threadIdx.y; n < end; n += WARPS) {
            Packed<real> row = pack(x + n * columns + c);
            for (int j = 0; j < PACK; j++) sum.x[j] += wide(row.x[j]);
        }
    }
    sum_over_warps<WARPS>(sums + ((long long)blockIdx.z * gridDim.y + blockIdx.y) * columns, sum, c, columns);
}
