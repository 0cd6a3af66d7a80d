// What may stand between the two products of an MLP beside GELU in the tanh form: exact GELU, ReLU and SiLU.

#include "common.cuh"

// x Phi(x), where Phi(x) is the probability that a normal number is below x, and its slope Phi(x) + x phi(x).
struct GeluExact {
    wide value, slope;
    __device__ GeluExact(wide z) {
        const wide DENSITY_AT_0 = 0.3989422804014327;  // 1 / sqrt(2 pi)
        wide cdf = sizeof(wide) == 8 ? wide(normcdf(double(z))) : wide(normcdff(float(z)));
        value = z * cdf;
        slope = cdf + z * DENSITY_AT_0 * exp(wide(-0.5) * z * z);
    }
};

// max(x, 0), and NaN where x is NaN.
struct Relu {
    wide value, slope;
    __device__ Relu(wide z) : value(z <= 0 ? 0 : z), slope(z > 0) {}
};

// x s, where s = sigmoid(x), and its slope s + x s (1 - s).
struct Silu {
    wide value, slope;
    __device__ Silu(wide z) {
        wide s = sigmoid(z);
        value = z * s;
        slope = s + value * (1 - s);
    }
};

// out = act(x), n numbers.
template <class Activation> __device__ inline void forward(real* out, const real* x, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    Packed<real> numbers = pack(x + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = Activation(numbers.x[j]).value;
    pack(out + i) = numbers;
}

// dx = dout act'(x). dx may be dout.
template <class Activation> __device__ inline void backward(real* dx, const real* dout, const real* x, long long n) {
    long long i = my_pack();
    if (i >= n) return;
    Packed<real> numbers = pack(dout + i), inputs = pack(x + i);
    for (int j = 0; j < PACK; j++) numbers.x[j] = wide(numbers.x[j]) * Activation(inputs.x[j]).slope;
    pack(dx + i) = numbers;
}

extern "C" __global__ void gelu_exact_forward(real* out, const real* x, long long n) { forward<GeluExact>(out, x, n); }
extern "C" __global__ void gelu_exact_backward(real* dx, const real* dout, const real* x, long long n) {
    backward<GeluExact>(dx, dout, x, n);
}

extern "C" __global__ void relu_forward(real* out, const real* x, long long n) { forward<Relu>(out, x, n); }
extern "C" __global__ void relu_backward(real* dx, const real* dout, const real* x, long long n) {
    backward<Relu>(dx, dout, x, n);
}

extern "C" __global__ void silu_forward(real* out, const real* x, long long n) { forward<Silu>(out, x, n); }
extern "C" __global__ void silu_backward(real* dx, const real* dout, const real* x, long long n) {
    backward<Silu>(dx, dout, x, n);
}
