// Products on tensor cores, for the three kernels of attention_mma.cu: c += a b, with a (16, DEPTH), b (DEPTH, 8) and
// c (16, 8) in float. DEPTH, and how the numbers of a and b are stored, depend on `real`: mma_bfloat16.cuh or
// mma_float32.cuh, included in the middle of this file.
//
// A warp computes a product together. No thread holds a whole matrix. Each of the 32 threads (lanes) holds a fragment: a few
// numbers of each matrix, in registers, always from the same places. c, for example, is held by these lanes:
//
//     column       0 1       2 3       4 5       6 7
//     row 0       lane 0    lane 1    lane 2    lane 3
//     row 1       lane 4    lane 5    lane 6    lane 7
//      ...
//     row 7       lane 28   lane 29   lane 30   lane 31
//     row 8       lane 0    lane 1    lane 2    lane 3        and so on to row 15
//
// With g = lane / 4 and t = lane % 4, a lane holds x[0] and x[1] in row g, columns 2t and 2t + 1, and x[2] and x[3] in the
// same columns of row g + 8. Of a it holds four words of 4 bytes, of b two: the included file draws them.
//
// A row tile is 16 rows, as c has. A warp may have M row tiles, and then a fragment b that was loaded once is used in M
// products. So the functions below take all row tiles of a warp together.

const int SIDE = 16;  // rows of a row tile; the smallest number of rows or columns of a factor in shared memory
const int PIECE = 16 / sizeof(real);  // numbers in 16 bytes
const int DEPTH = 2 * PIECE;  // columns of a, rows of b
const int IN_WORD = 4 / sizeof(real);  // numbers in a word of 4 bytes

struct FragmentA {
    unsigned word[4];
};

struct FragmentC {
    wide x[4];
};

__device__ inline int lane() { return threadIdx.x % WARP; }

// The row and the column of x[e] of a FragmentC.
__device__ inline int row_of(int e) { return lane() / 4 + e / 2 * 8; }
__device__ inline int column_of(int e) { return lane() % 4 * 2 + e % 2; }

// Calls f(m, n, e, row, column) for every x[e] of c[m][n]. Together the c[m][n] are a matrix (16 M, 8 N).
template <int M, int N, class F> __device__ inline void each(F f) {
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) f(m, n, e, m * SIDE + row_of(e), n * 8 + column_of(e));
        }
    }
}

// Calls f(m, half, row) for both rows of each row tile that this lane has numbers of: half 0 is row g, half 1 row g + 8.
template <int M, class F> __device__ inline void each_row(F f) {
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) f(m, half, m * SIDE + row_of(2 * half));
    }
}

// Calls f(m, k, i) for every word[i] of a[m][k]. Together the a[m][k] are a matrix (16 M, DEPTH K).
template <int M, int K, class F> __device__ inline void each_word(F f) {
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int k = 0; k < K; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) f(m, k, i);
        }
    }
}

// --- instructions, each by its name in PTX; tests play them on a processor ---

#ifdef __CUDA_ARCH__

__device__ inline unsigned in_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Loads four matrices (8,8) of 16-bit numbers from shared memory. Lanes 8i to 8i + 7 give the addresses of the 8 rows of
// matrix i, 16 bytes each. Afterwards word[i] of each lane holds two numbers of matrix i: row g, columns 2t and 2t + 1; with
// _trans, column g, rows 2t and 2t + 1. (Without _trans they can also be matrices (8,4) of 32-bit numbers: word[i] holds row
// g, column t.)
__device__ inline void ldmatrix_x4(unsigned* word, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "r"(in_shared(row)) : "memory");
}
__device__ inline void ldmatrix_x4_trans(unsigned* word, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "r"(in_shared(row)) : "memory");
}

// Starts to copy 16 bytes, or 4, from the GPU's memory to shared memory; zeros where `exists` is false. The thread does not
// wait: the bytes have arrived after cp_async_wait_all. Both addresses must be multiples of the size.
__device__ inline void cp_async_16(void* to, const void* from, bool exists) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(in_shared(to)), "l"(from), "r"(exists ? 16 : 0) : "memory");
}
__device__ inline void cp_async_4(void* to, const void* from, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(in_shared(to)), "l"(from), "r"(exists ? 4 : 0) : "memory");
}
__device__ inline void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#endif

// multiply, rounded, dot, round_to_a, load_b and store_two, for numbers of type real
#include "mma_REAL.cuh"

// --- rows in registers ---

const int NEAREST = 1, FARTHEST = 2;  // how far apart the four lanes are that share a row of c
#include "row_sums.cuh"

// Loads a (16 M, DEPTH K) from the GPU's memory, where rows begin `stride` numbers apart. Only the first `rows` exist: the
// others become zeros. The numbers are not rounded yet.
template <int M, int K>
__device__ inline void load(FragmentA (&a)[M][K], const real* from, int stride, int rows) {
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int k = 0; k < K; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {  // words 0 and 2 are of row g, words 1 and 3 of row g + 8
                int row = m * SIDE + lane() / 4 + i % 2 * 8;
                int column = k * DEPTH + lane() % 4 * IN_WORD + i / 2 * PIECE;
                a[m][k].word[i] = row < rows ? *(const unsigned*)(from + (long long)row * stride + column) : 0;
            }
        }
    }
}

// Rounds all numbers of a to the type that a product takes.
template <int M, int K> __device__ inline void round_all(FragmentA (&a)[M][K]) {
    each_word<M, K>([&](int m, int k, int i) { a[m][k].word[i] = rounded(a[m][k].word[i]); });
}

// The other way: stores c (16 M, 8 N), times a factor, in the GPU's memory.
template <int M, int N>
__device__ inline void store(real* to, int stride, int rows, const FragmentC (&c)[M][N], wide factor) {
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                int row = m * SIDE + row_of(e);
                if (row < rows) {
                    real* place = to + (long long)row * stride + n * 8 + column_of(e);
                    store_two(place, c[m][n].x[e] * factor, c[m][n].x[e + 1] * factor);
                }
            }
        }
    }
}

// --- products with rows of a matrix in shared memory ---

// c (16 M, 8 N) += a rows^T,   a (16 M, DEPTH K), rows (8 N, DEPTH K). A column of b = rows^T is a row of `rows`.
template <int M, int N, int K, int W>
__device__ inline void add_times_transposed(
    FragmentC (&c)[M][N], const FragmentA (&a)[M][K], const real (*rows)[W]
) {
    int row = lane() % 8 + lane() / 16 * 8, column = lane() / 8 % 2 * PIECE;
#pragma unroll
    for (int n = 0; n < N; n += 2) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            unsigned b[4];  // of columns 8n to 8n + 7 of c, and of the next 8
            ldmatrix_x4(b, &rows[n * 8 + row][k * DEPTH + column]);
#pragma unroll
            for (int i = 0; i < 4; i++) b[i] = rounded(b[i]);
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply(c[m][n], a[m][k], b);
                multiply(c[m][n + 1], a[m][k], b + 2);
            }
        }
    }
}

// c (16 M, 8 N) += p rows,   p (16 M, 8 K), rows (8 K, 8 N). p is the result of earlier products; it is rounded first.
template <int M, int N, int K, int W>
__device__ inline void add_times(FragmentC (&c)[M][N], const FragmentC (&p)[M][K], const real (*rows)[W]) {
    const int STEP_K = DEPTH / 8;  // fragments c in a row of p that become one a
#pragma unroll
    for (int k = 0; k < K; k += STEP_K) {
        FragmentA a[M];
#pragma unroll
        for (int m = 0; m < M; m++) a[m] = round_to_a(&p[m][k]);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            unsigned b[4];
            load_b(b, rows + k * 8, n * 8);
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply(c[m][n], a[m], b);
                multiply(c[m][n + 1], a[m], b + 2);
            }
        }
    }
}
