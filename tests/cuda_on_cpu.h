// CUDA kernels on a processor: what a kernel is compiled with. The player, cuda_on_cpu.cc, is compiled once for all
// kernels: so this file is short, and a kernel is compiled in a tenth of a second.

#include <cmath>
#include <cstring>

using std::exp, std::log, std::sqrt, std::tanh;

inline double normcdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * float(M_SQRT1_2)); }

#define CUDA_ON_CPU  // for sources that hold instructions of a GPU
#define __global__
#define __device__
#define __shared__ static __attribute__((section("shared")))
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __expf exp  // with fewer right digits
#define __fdividef(a, b) ((a) / (b))  // likewise

// The shared memory of the kernels of one source; where they use none, both are null.
extern char shared_begin[] __asm__("__start_shared") __attribute__((weak, visibility("hidden")));
extern char shared_end[] __asm__("__stop_shared") __attribute__((weak, visibility("hidden")));

template <class Number> static Number max(Number a, Number b) { return a < b ? b : a; }
template <class Number> static Number min(Number a, Number b) { return b < a ? b : a; }

struct Three { unsigned x, y, z; };
extern Three threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
void __syncwarp();

inline unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
inline float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }

struct float2 { float x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }

namespace cpu {

extern bool bad_address;  // a source may find one

double exchange(double value, int apart);

// Every block of a grid. kernel: a function of the addresses of its arguments. Not 0 where something is wrong.
int run(const unsigned* grid, const unsigned* block, int reverse, void (*kernel)(void**), void** arguments,
        char* shared_begin, char* shared_end);

}  // namespace cpu

template <class Number> static Number __shfl_xor_sync(unsigned, Number value, int apart) {
    return cpu::exchange(value, apart);
}

// The instructions of mma.cuh, which only a GPU has.
void ldmatrix_x4(unsigned* words, const void* row);
void ldmatrix_x4_trans(unsigned* words, const void* row);
void mma_m16n8k16(float* c, const unsigned* a, const unsigned* b);
void mma_m16n8k8(float* c, const unsigned* a, const unsigned* b);
unsigned cvt_rna_tf32(float x);
unsigned cvt_bf16x2(float second, float first);
void cp_async_16(void* to, const void* from, bool there);
void cp_async_4(void* to, const void* from, bool there);
void cp_async_wait_all();
