// RMSNorm (Zhang and Sennrich 2019): x (N,C), g (C) -> out (N,C). One warp computes one row, as rows.cuh says.

#include "common.cuh"
#include "rows.cuh"

// out = g x_hat,   x_hat = x r,   r = 1 / sqrt(mean(x^2) + eps),   the mean over the row.
extern "C" __launch_bounds__(WARPS * WARP, SMALL ? 3 : 2) __global__ void rmsnorm_forward(
    real* out, wide* r, const real* x, const wide* g, wide eps, int rows, int columns
) {
    long long n = (long long)blockIdx.x * WARPS + threadIdx.y;
    if (n >= rows) return;
    Row<real> row = load(x + n * columns, columns);

    wide squares = 0;
    each(columns, [&](int i) { squares += wide(row[i]) * wide(row[i]); });
    wide row_r = 1 / sqrt(warp_sum(squares) / columns + eps);

    Row<wide> g_row = load(g, columns);
    each(columns, [&](int i) { row[i] = g_row[i] * (wide(row[i]) * row_r); });
    store(out + n * columns, row, columns);
    if (threadIdx.x == 0) r[n] = row_r;
}

// dx = r (d - x_hat mean(d x_hat)),   d = dout g,   the mean over the row,
// dg = sum_n dout x_hat.
//
// As in layernorm.cu a block takes a stripe of rows, each of its warps every WARPS-th of them. Its part of dg is the sum
// over its stripe: parts (stripes, C), which column_sums adds up. No atomics, so the same bits every time.
extern "C" __launch_bounds__(WARPS * WARP, SMALL ? 2 : 1) __global__ void rmsnorm_backward(
    real* dx, wide* parts, const real* dout, const real* x, const wide* r, const wide* g, int rows, int columns,
    int stripe
) {
    long long first = (long long)blockIdx.x * stripe, end = first + stripe < rows ? first + stripe : rows;
    Row<wide> dg = {};
    for (long long n = first + threadIdx.y; n < end; n += WARPS) {
        Row<real> row = load(x + n * columns, columns), dout_row = load(dout + n * columns, columns);
        Row<wide> g_row = load(g, columns);
        wide row_r = r[n], sum_d_x_hat = 0;
        each(columns, [&](int i) {
            wide x_hat = wide(row[i]) * row_r;
            dg[i] += wide(dout_row[i]) * x_hat;
            sum_d_x_hat += wide(dout_row[i]) * g_row[i] * x_hat;
        });
        wide mean_d_x_hat = warp_sum(sum_d_x_hat) / columns;
        each(columns, [&](int i) {
            row[i] = row_r * (wide(dout_row[i]) * g_row[i] - wide(row[i]) * row_r * mean_d_x_hat);
        });
        store(dx + n * columns, row, columns);
    }
#pragma unroll UNROLL
    for (int e = 0; e < PACKS; e++) {
        sum_over_warps<WARPS>(parts + (long long)blockIdx.x * columns, dg.packs[e], column_of(e), columns);
    }
}
