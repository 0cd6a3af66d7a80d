// Layer normalisation: x (N,C), g (C), b (C) -> out (N,C). One warp computes one row; rows.cuh says how its lanes share it.

#include "common.cuh"
#include "rows.cuh"

// out = g x_hat + b,   x_hat = (x - mean) rstd,   rstd = 1 / sqrt(var + eps).
//
// n is the row. mean (N) and rstd (N) are kept for the backward pass.
extern "C" __launch_bounds__(WARPS * WARP, SMALL ? 3 : 2) __global__ void layernorm_forward(
    real* out, wide* mean, wide* rstd, const real* x, const wide* g, const wide* b, wide eps, int rows, int columns
) {
    long long n = (long long)blockIdx.x * WARPS + threadIdx.y;
    if (n >= rows) return;
    Row<real> row = load(x + n * columns, columns);

    wide sum = 0;
    each(columns, [&](int i) { sum += wide(row[i]); });
    wide row_mean = warp_sum(sum) / columns;

    wide squares = 0;
    each(columns, [&](int i) {
        wide deviation = wide(row[i]) - row_mean;
        squares += deviation * deviation;
    });
    wide row_rstd = 1 / sqrt(warp_sum(squares) / columns + eps);

    Row<wide> g_row = load(g, columns), b_row = load(b, columns);
    each(columns, [&](int i) { row[i] = g_row[i] * ((wide(row[i]) - row_mean) * row_rstd) + b_row[i]; });
    store(out + n * columns, row, columns);
    if (threadIdx.x == 0) {
        mean[n] = row_mean;
        rstd[n] = row_rstd;
    }
}

// dx = rstd (d - mean(d) - x_hat mean(d x_hat)),   d = dout g,   both means over the row,
// dg = sum_n dout x_hat,   db = sum_n dout.
//
// dg and db are sums over all rows. One thread would be slow. Many threads that add to one number (atomic additions) would
// add in another sequence in every run, and round to other bits. So the rows are cut into stripes, one for each block.
// Warp w of a block takes rows w, w + WARPS, ... of its stripe and adds up its own dg and db in registers; sum_over_warps
// adds those of the block's warps. The result is parts (2, stripes, C), dg first, db second. A second kernel, column_sums,
// adds up the stripes.
extern "C" __launch_bounds__(WARPS * WARP, SMALL ? 2 : 1) __global__ void layernorm_backward(
    real* dx, wide* parts, const real* dout, const real* x, const wide* mean, const wide* rstd, const wide* g, int rows,
    int columns, int stripe
) {
    long long first = (long long)blockIdx.x * stripe, end = first + stripe < rows ? first + stripe : rows;
    Row<wide> dg = {}, db = {};
    for (long long n = first + threadIdx.y; n < end; n += WARPS) {
        Row<real> row = load(x + n * columns, columns), dout_row = load(dout + n * columns, columns);
        Row<wide> g_row = load(g, columns);
        wide row_mean = mean[n], row_rstd = rstd[n], sum_d = 0, sum_d_x_hat = 0;
        each(columns, [&](int i) {
            wide x_hat = (wide(row[i]) - row_mean) * row_rstd, d = wide(dout_row[i]) * g_row[i];
            dg[i] += wide(dout_row[i]) * x_hat;
            db[i] += wide(dout_row[i]);
            sum_d += d;
            sum_d_x_hat += d * x_hat;
        });
        wide mean_d = warp_sum(sum_d) / columns;
        wide mean_d_x_hat = warp_sum(sum_d_x_hat) / columns;
        each(columns, [&](int i) {
            row[i] = row_rstd * (wide(dout_row[i]) * g_row[i] - mean_d - (wide(row[i]) - row_mean) * row_rstd * mean_d_x_hat);
        });
        store(dx + n * columns, row, columns);
    }
#pragma unroll UNROLL
    for (int e = 0; e < PACKS; e++) {
        sum_over_warps<WARPS>(parts + (long long)blockIdx.x * columns, dg.packs[e], column_of(e), columns);
        sum_over_warps<WARPS>(parts + ((long long)gridDim.x + blockIdx.x) * columns, db.packs[e], column_of(e), columns);
    }
}
