// GELU in the tanh form.

#include "common.cuh"

// gelu(z) = z (1 + tanh(u)) / 2 = z s,   s = sigmoid(2u),   u = sqrt(2/pi) (z + 0.044715 z^3)
//
// tanh(u) = 2 sigmoid(2u) - 1: one exponential and one division, and nothing is subtracted where tanh is near -1.
struct Gelu {
    wide value, slope;
    __device__ Gelu(wide z) {
        const wide C = 2 * 0.7978845608028654, A = 0.044715;
        wide s = sigmoid(C * (z + A * z * z * z));
        value = z * s;
        slope = s + z * s * (1 - s) * C * (1 + 3 * A * z * z);
    }
};

// out = gelu(x), n numbers.
extern "C" __global__ void gelu_forward(real* out, const real* x, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    Packed<real> numbers = pack(x + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = Gelu(numbers.x[j]).value;
    pack(out + i) = numbers;
}

// dx = dout gelu'(x). dx may be dout.
extern "C" __global__ void gelu_backward(real* dx, const real* dout, const real* x, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    Packed<real> numbers = pack(dout + i), inputs = pack(x + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = wide(numbers.x[j]) * Gelu(inputs.x[j]).slope;
    pack(dx + i) = numbers;
}
