// Layer normalisation: x (N,C), g (C), b (C) -> out (N,C).

#include "common.cuh"

// out = g x_hat + b,   x_hat = (x - mean) rstd,   rstd = 1 / sqrt(var + eps).
//
// One warp for each row, blockDim.y rows in a block. A lane takes every 32nd column, so that a warp reads memory in one
// piece. The row is read three times, but only the first time from far away.
extern "C" __global__ void layernorm_forward(
    real* out, wide* mean, wide* rstd, const real* x, const wide* g, const wide* b, wide eps, int rows, int columns
) {
    long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    x += row * columns;
    out += row * columns;

    wide sum = 0;
    for (int c = threadIdx.x; c < columns; c += WARP) sum += wide(x[c]);
    wide middle = warp_sum(sum) / columns;

    wide squares = 0;
    for (int c = threadIdx.x; c < columns; c += WARP) squares += (wide(x[c]) - middle) * (wide(x[c]) - middle);
    wide scale = 1 / sqrt(warp_sum(squares) / columns + eps);

    for (int c = threadIdx.x; c < columns; c += WARP) out[c] = g[c] * ((wide(x[c]) - middle) * scale) + b[c];
    if (threadIdx.x == 0) {
        mean[row] = middle;
        rstd[row] = scale;
    }
}

// dx = rstd (d - mean(d) - x_hat mean(d x_hat)),   d = dout g,   both means over the row. One warp for each row.
extern "C" __global__ void layernorm_backward(
    real* dx, const real* dout, const real* x, const wide* mean, const wide* rstd, const wide* g, int rows, int columns
) {
    long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    x += row * columns;
    dout += row * columns;
    dx += row * columns;
    wide middle = mean[row], scale = rstd[row];

    wide shift = 0, stretch = 0;
    for (int c = threadIdx.x; c < columns; c += WARP) {
        wide d = wide(dout[c]) * g[c];
        shift += d;
        stretch += d * ((wide(x[c]) - middle) * scale);
    }
    shift = warp_sum(shift) / columns;
    stretch = warp_sum(stretch) / columns;

    for (int c = threadIdx.x; c < columns; c += WARP)
        dx[c] = scale * (wide(dout[c]) * g[c] - shift - (wide(x[c]) - middle) * scale * stretch);
}

// dg = sum_n dout x_hat,   db = sum_n dout, for one stripe of rows: parts (2, stripes, C), dg first.
//
// A sum over all rows by one thread would be slow, and one by many threads that add to the same number (atomics) would
// come in another order, so with other bits, every time. So each thread sums the rows of its stripe, one column, in
// order; the sum over the stripes is column_sums.
extern "C" __global__ void layernorm_gains(
    wide* parts, const real* dout, const real* x, const wide* mean, const wide* rstd, int rows, int columns, int stripe
) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    long long first = (long long)blockIdx.y * stripe;
    wide dg = 0, db = 0;
    for (long long n = first; n < first + stripe && n < rows; n++) {
        wide d = dout[n * columns + c];
        dg += d * ((wide(x[n * columns + c]) - mean[n]) * rstd[n]);
        db += d;
    }
    parts[(long long)blockIdx.y * columns + c] = dg;
    parts[((long long)gridDim.y + blockIdx.y) * columns + c] = db;
}
