// Products on tensor cores: c += a b, with a (16, DEPTH), b (DEPTH, 8) and c (16, 8) of float. DEPTH, and how the numbers
// of a and b are stored, depend on `real`: the file mma_bfloat16.cuh, or another one of these names, is in the middle.
//
// A product is the work of a warp. No thread has a whole matrix: each holds a fragment, the same places in every product,
// in registers. Lane after lane, along the rows of c:
//
//     column       0 1       2 3       4 5       6 7
//     row 0       lane 0    lane 1    lane 2    lane 3
//     row 1       lane 4    lane 5    lane 6    lane 7
//      ...
//     row 7       lane 28   lane 29   lane 30   lane 31
//     row 8       lane 0    lane 1    lane 2    lane 3        and so on to row 15
//
// With g = lane / 4 and t = lane % 4, a lane holds x[0] and x[1] of row g, columns 2t and 2t + 1, and x[2] and x[3] of
// row g + 8. Of a it holds four words, b has two: the other file draws them.
//
// A warp may have M row tiles of 16 rows each. Then a fragment b, once it is loaded, serves M products: the functions
// below take all row tiles together.

const int SIDE = 16;  // rows of a row tile; rows or columns that a product with shared memory takes at least
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

// Where x[e] of a FragmentC stands.
__device__ inline int row_of(int e) { return lane() / 4 + e / 2 * 8; }
__device__ inline int column_of(int e) { return lane() % 4 * 2 + e % 2; }

// f(m, n, e, row, column) for every x[e] of c[m][n], which together are a matrix (16 M, 8 N).
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

// --- instructions, each by its name in PTX; tests play them on a processor ---

#ifdef __CUDA_ARCH__

__device__ inline unsigned in_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Four matrices (8,8) of 16 bits out of shared memory. The lanes 8i to 8i + 7 say where the rows of matrix i begin, 16
// bytes each; word[i] becomes its row g, columns 2t and 2t + 1. Transposed: its column g, rows 2t and 2t + 1. So without
// transposing these are also matrices (8,4) of 32 bits: word[i] becomes row g, column t.
__device__ inline void ldmatrix_x4(unsigned* word, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "r"(in_shared(row)) : "memory");
}
__device__ inline void ldmatrix_x4_trans(unsigned* word, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "r"(in_shared(row)) : "memory");
}

// 16 bytes, or 4, from the GPU's memory into shared memory, or zeros where there is nothing. They come while the thread
// goes on, and are there after cp_async_wait_all. Both addresses are multiples of the size.
__device__ inline void cp_async_16(void* to, const void* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(in_shared(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ inline void cp_async_4(void* to, const void* from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(in_shared(to)), "l"(from), "r"(there ? 4 : 0) : "memory");
}
__device__ inline void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#endif

// multiply, rounded, dot, round_to_a, load_b and store_two, for the numbers that there are
#include "mma_REAL.cuh"

// --- rows in registers ---

// The sum or the maximum over a row, from what each of the four lanes that share it has seen of it.
__device__ inline wide row_sum(wide x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline wide row_max(wide x) {
    x = max(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return max(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// The rows of a matrix (16 M, DEPTH K) in the GPU's memory, `stride` numbers apart. Only `rows` of them are there, the
// others are zeros. They are not rounded yet.
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

// Rounded to numbers that a product takes.
template <int M, int K> __device__ inline void round_all(FragmentA (&a)[M][K]) {
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int k = 0; k < K; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) a[m][k].word[i] = rounded(a[m][k].word[i]);
        }
    }
}

// The other way: c (16 M, 8 N) to the GPU's memory. times factor.
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
                    real* at = to + (long long)row * stride + n * 8 + column_of(e);
                    store_two(at, c[m][n].x[e] * factor, c[m][n].x[e + 1] * factor);
                }
            }
        }
    }
}

// --- products with rows of a matrix in shared memory ---

// c (16 M, 8 N) += a rows^T,   a (16 M, DEPTH K), rows (8 N, DEPTH K). b = rows^T has its columns where rows has rows.
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

// c (16 M, 8 N) += p rows,   p (16 M, 8 K), rows (8 K, 8 N). p, the result of other products, is rounded.
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
