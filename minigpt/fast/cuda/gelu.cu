// GELU in the tanh form, with the bias of the layer before it: x (N,C), b (C) -> a (N,C).

#include "common.cuh"

// gelu(z) = z (1 + t) / 2,   t = tanh(u),   u = sqrt(2/pi) (z + 0.044715 z^3)
struct Gelu {
    wide value, slope;
    __device__ Gelu(wide z) {
        const wide C = 0.7978845608028654, A = 0.044715;
        wide t = tanh(C * (z + A * z * z * z));
        value = z * (1 + t) / 2;
        slope = (1 + t) / 2 + z / 2 * (1 - t * t) * C * (1 + 3 * A * z * z);
    }
};

// a = gelu(x + b). b may be null: no bias. One thread for each number.
extern "C" __global__ void gelu_forward(real* a, const real* x, const real* b, long long n, int columns) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    wide z = x[i];
    if (b) z += wide(b[i % columns]);
    a[i] = Gelu(z).value;
}

// dx = da gelu'(x + b). db is the sum of its columns. Where a is not null it gets gelu(x + b) again, which the layer
// behind needs for the gradient of its weights: computing it here costs one write, keeping it would cost the memory.
extern "C" __global__ void gelu_backward(
    real* dx, real* a, const real* da, const real* x, const real* b, long long n, int columns
) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    wide z = x[i];
    if (b) z += wide(b[i % columns]);
    Gelu gelu(z);
    dx[i] = wide(da[i]) * gelu.slope;
    if (a) a[i] = gelu.value;
}
