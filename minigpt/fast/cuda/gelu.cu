// GELU in the tanh form.

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

// out = gelu(x). One thread for each number.
extern "C" __global__ void gelu_forward(real* out, const real* x, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = Gelu(x[i]).value;
}

// dx = dout gelu'(x). dx may be dout.
extern "C" __global__ void gelu_backward(real* dx, const real* dout, const real* x, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = wide(dout[i]) * Gelu(x[i]).slope;
}
