// What the kernels share. Three names are chosen when a kernel is compiled:
//     real   the type in which arrays are stored: float, double or bfloat16,
//     wide   the type in which kernels compute and sum: float, or double where real is double. Gains, statistics (such as
//            mean and rstd) and gradients of weights are stored in it too,
//     PACK   how many numbers a thread reads or writes at once: 16 bytes of real, or 1 where arrays do not allow that.

const int WARP = 32;  // threads that mostly run in step and can read each other's registers
// The lowest number of the type, where the search for a largest number begins. Not -3.4e38: a bias that hides keys is
// often the lowest float, -3.4028...e38, and would never be found.
#define LOWEST (sizeof(wide) == 8 ? wide(-1.7976931348623157e308) : wide(-3.4028234663852886e38))
#define NOT_A_NUMBER wide(__uint_as_float(0x7FC00000u))

// PACK neighbouring numbers. A read from memory takes long, but many reads can be under way at once: so each thread reads
// up to 16 bytes, the most that one instruction can read. A pack of a type wider than real takes several such accesses,
// one of a narrower type takes a shorter access.
template <class Number> struct alignas(PACK * sizeof(Number) < 16 ? PACK * sizeof(Number) : 16) Packed {
    Number x[PACK];
};
// The pack that begins at an address, which must be a multiple of the size of a pack (at most 16 bytes).
template <class Number> __device__ inline Packed<Number>& pack(Number* at) { return *(Packed<Number>*)at; }
template <class Number> __device__ inline const Packed<Number>& pack(const Number* at) {
    return *(const Packed<Number>*)at;
}

// The index of this thread's first number, where each thread has PACK numbers.
__device__ inline long long my_pack() { return ((long long)blockIdx.x * blockDim.x + threadIdx.x) * PACK; }

// 1 / (1 + exp(-x)), for bfloat16 with fewer right digits, but more than it has.
__device__ inline wide sigmoid(wide x) {
    return sizeof(real) == 2 ? __fdividef(1, 1 + __expf(-x)) : 1 / (1 + exp(-x));
}

// The sum of a value over a warp, returned to all 32 threads. Lanes that are 16, 8, 4, 2 and 1 apart exchange their values
// and add. The pairs are the same in every run, and so are the bits of the sum.
__device__ inline wide warp_sum(wide value) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

// Adds up, for each column, the values that the WARPS warps of a block have for it, from the first warp to the last, and
// stores the sum in sums[column]. part: this thread's values for the PACK columns from `column` on. Lane l of every warp
// must have the same `column`; it may lie beyond the last one, and is then ignored.
template <int WARPS> __device__ inline void sum_over_warps(wide* sums, Packed<wide> part, int column, int columns) {
    __shared__ __align__(16) wide parts[WARPS][WARP * PACK];
    __syncthreads();  // all threads have read the values of the call before
    pack(&parts[threadIdx.y][threadIdx.x * PACK]) = part;
    __syncthreads();
    int begin = column - threadIdx.x * PACK;  // the block's first column
    for (int i = threadIdx.y * WARP + threadIdx.x; i < WARP * PACK && begin + i < columns; i += WARPS * WARP) {
        wide sum = 0;
        for (int w = 0; w < WARPS; w++) sum += parts[w][i];
        sums[begin + i] = sum;
    }
}

// 32 random bits for each (key, index), by a hash. The same bits as minigpt/ops/random_keys.py.
__device__ inline unsigned random_bits(unsigned key, unsigned index) {
    unsigned x = index ^ key;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x += key;
    x *= 0x846CA68Bu;
    return x ^ x >> 16;
}

// Dropout of one number: 0 with the probability `rate`, otherwise multiplied by stretch = 1 / (1 - rate), so that the
// expected value stays. threshold = rate 2^32; a threshold of 0 keeps every number. If there is a `table` in memory
// (minigpt/ops/random_keys.py), its first number is the key: a recorded CUDA graph repeats the same arguments at every
// step, but reads a new key.
struct Dropout {
    unsigned key, threshold;
    wide stretch;
    __device__ Dropout(const unsigned* table, unsigned key, unsigned threshold, wide stretch)
        : key(table ? *table : key), threshold(threshold), stretch(stretch) {}
    __device__ wide operator()(wide x, unsigned index) const {
        return x * (random_bits(key, index) >= threshold ? stretch : 0);
    }
};
