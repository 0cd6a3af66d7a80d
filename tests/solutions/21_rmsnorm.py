import math

import numpy as np

WARP_SUM = """
__device__ float warp_sum(float value) {
    for (int apart = 16; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}
"""
FORWARD = """
extern "C" __global__ void rmsnorm(float* out, const float* x, const float* g, int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    x += row * columns;      // now x[c] is column c of my row
    out += row * columns;
    float squares = 0;
    for (int c = lane; c < columns; c += 32) squares += x[c] * x[c];
    float r = 1 / sqrtf(warp_sum(squares) / columns + 1e-5f);
    for (int c = lane; c < columns; c += 32) out[c] = g[c] * x[c] * r;
}
"""
BACKWARD = """
extern "C" __global__ void rmsnorm_backward(
    float* dx, const float* dout, const float* x, const float* g, int rows, int columns
) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    x += row * columns;
    dout += row * columns;
    dx += row * columns;
    float squares = 0, products = 0;
    for (int c = lane; c < columns; c += 32) {
        squares += x[c] * x[c];
        products += dout[c] * g[c] * x[c];
    }
    float r = 1 / sqrtf(warp_sum(squares) / columns + 1e-5f);
    float mean = warp_sum(products) / columns;
    for (int c = lane; c < columns; c += 32) dx[c] = r * (dout[c] * g[c] - x[c] * r * r * mean);
}
"""
