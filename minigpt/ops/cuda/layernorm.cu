// Layer normalisation: x (N,C), g (C), b (C) -> out (N,C). A warp takes a row, as rows.cuh says.

#include "common.cuh"
#include "rows.cuh"

// out = g x_hat + b,   x_hat = (x - mean) rstd,   rstd = 1 / sqrt(var + eps).
extern "C" __launch_bounds__(WARPS * WARP, SMALL ? 3 : 2) __global__ void layernorm_forward(
    real* out, wide* mean, wide* rstd, const real* x, const wide* g, const wide* b, wide eps, int rows, int columns
) {
    long long n = (long long)blockIdx.x * WARPS + threadIdx.y;
    if (n >= rows) return;
    Row<real> row = load(x + n * columns, columns);

    wide sum = 0;
    each(columns, [&](int i) { sum += wide(row[i]); });
    wide middle = warp_sum(sum) / columns;

    wide squares = 0;
    each(columns, [&](int i) { squares += (wide(row[i]) - middle) * (wide(row[i]) - middle); });
    wide scale = 1 / sqrt(warp_sum(squares) / columns + eps);

    Row<wide> gain = load(g, columns), shift = load(b, columns);
    each(columns, [&](int i) { row[i] = gain[i] * ((wide(row[i]) - middle) * scale) + shift[i]; });
    store(out + n * columns, row, columns);
    if (threadIdx.x == 0) {
        mean[n] = middle;
        rstd[n] = scale;
    }
}

// dx = rstd (d - mean(d) - x_hat mean(d x_hat)),   d = dout g,   both means over the row,
// dg = sum_n dout x_hat,   db = sum_n dout.
//
// A sum over all rows by one thread would be slow, and one by many threads that add to the same number (atomics) would
// come in another order, so with other bits, every time. So a block takes a stripe of rows, each of its warps every
// WARPS-th of them, and adds up what it meets; then the warps are summed: parts (2, stripes, C), dg first. The sum over
// the stripes is column_sums.
extern "C" __launch_bounds__(WARPS * WARP, SMALL ? 2 : 1) __global__ void layernorm_backward(
    real* dx, wide* parts, const real* dout, const real* x, const wide* mean, const wide* rstd, const wide* g, int rows,
    int columns, int stripe
) {
    long long first = (long long)blockIdx.x * stripe, end = first + stripe < rows ? first + stripe : rows;
    Row<wide> dg = {}, db = {};
    for (long long n = first + threadIdx.y; n < end; n += WARPS) {
        Row<real> row = load(x + n * columns, columns), slope = load(dout + n * columns, columns);
        Row<wide> gain = load(g, columns);
        wide middle = mean[n], scale = rstd[n], shift = 0, stretch = 0;
        each(columns, [&](int i) {
            wide x_hat = (wide(row[i]) - middle) * scale, d = wide(slope[i]) * gain[i];
            dg[i] += wide(slope[i]) * x_hat;
            db[i] += wide(slope[i]);
            shift += d;
            stretch += d * x_hat;
        });
        shift = warp_sum(shift) / columns;
        stretch = warp_sum(stretch) / columns;
        each(columns, [&](int i) {
            row[i] = scale * (wide(slope[i]) * gain[i] - shift - (wide(row[i]) - middle) * scale * stretch);
        });
        store(dx + n * columns, row, columns);
    }
#pragma unroll UNROLL
    for (int e = 0; e < PACKS; e++) {
        sum_over_warps<WARPS>(parts + (long long)blockIdx.x * columns, dg.packs[e], column_of(e), columns);
        sum_over_warps<WARPS>(parts + ((long long)gridDim.x + blockIdx.x) * columns, db.packs[e], column_of(e), columns);
    }
}
