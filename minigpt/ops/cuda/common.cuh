// What the kernels share. Three names are chosen when they are compiled:
//     real   how a number is stored: float, double or bfloat16,
//     wide   what it is computed and summed in, and how gains, statistics and gradients of weights are stored,
//     PACK   how many numbers a thread reads or writes at once: 16 bytes of real, or 1 where arrays do not allow that.

const int WARP = 32;  // threads that mostly run in step and can read each other's registers
#define LOWEST wide(-3.4e38)  // where the search for a largest number begins
#define NOT_A_NUMBER wide(__uint_as_float(0x7FC00000u))

// A read from memory takes long, but many reads can be under way at once. So each thread starts several. Packs of a wider
// type take more than one access of 16 bytes, and those of a narrower type one of less.
template <class Number> struct alignas(PACK * sizeof(Number) < 16 ? PACK * sizeof(Number) : 16) Packed {
    Number x[PACK];
};
template <class Number> __device__ inline Packed<Number>& pack(Number* at) { return *(Packed<Number>*)at; }
template <class Number> __device__ inline const Packed<Number>& pack(const Number* at) {
    return *(const Packed<Number>*)at;
}

// The first of the numbers that are this thread's, where each has PACK of them.
__device__ inline long long my_pack() { return ((long long)blockIdx.x * blockDim.x + threadIdx.x) * PACK; }

// The sum of a value over a warp. Every thread gets it, and, the pairs being always the same, always the same bits.
__device__ inline wide warp_sum(wide value) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

// sums[c] = the sum of what the WARPS warps of a block have of column c, from the first warp to the last. part: what this
// thread has of the pack of columns from `column` on, which is the same for all threads of one lane, and may lie beyond the
// last column.
template <int WARPS> __device__ inline void sum_over_warps(wide* sums, Packed<wide> part, int column, int columns) {
    __shared__ __align__(16) wide parts[WARPS][WARP * PACK];
    __syncthreads();  // all threads are done with what stood there before
    pack(&parts[threadIdx.y][threadIdx.x * PACK]) = part;
    __syncthreads();
    int begin = column - threadIdx.x * PACK;  // of the block
    for (int i = threadIdx.y * WARP + threadIdx.x; i < WARP * PACK && begin + i < columns; i += WARPS * WARP) {
        wide sum = 0;
        for (int w = 0; w < WARPS; w++) sum += parts[w][i];
        sums[begin + i] = sum;
    }
}

// A number that every (key, index) has for itself, and that looks like chance: minigpt/ops/random_keys.py, the same bits.
__device__ inline unsigned random_bits(unsigned key, unsigned index) {
    unsigned x = index ^ key;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x += key;
    x *= 0x846CA68Bu;
    return x ^ x >> 16;
}

// Dropout of one number: 0 with probability rate, otherwise stretched, so that the mean stays.
// threshold = rate 2^32, stretch = 1 / (1 - rate); threshold 0 keeps everything. If there is a table (minigpt/ops/random_keys.py), the
// key is what it begins with: a step that is recorded has the same arguments every time, and another key in memory.
struct Dropout {
    unsigned key, threshold;
    wide stretch;
    __device__ Dropout(const unsigned* table, unsigned key, unsigned threshold, wide stretch)
        : key(table ? *table : key), threshold(threshold), stretch(stretch) {}
    __device__ wide operator()(wide x, unsigned index) const {
        return x * (random_bits(key, index) >= threshold ? stretch : 0);
    }
};
