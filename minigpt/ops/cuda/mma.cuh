// One product on tensor cores: c += a b, with a (16,16), b (16,8) of bfloat16 and c (16,8) of float.
//
// It is the work of a warp. No thread has a whole matrix: each holds a fragment, the same places in every product, in
// registers. Lane after lane, along the rows of c:
//
//     column       0 1       2 3       4 5       6 7
//     row 0       lane 0    lane 1    lane 2    lane 3
//     row 1       lane 4    lane 5    lane 6    lane 7
//      ...
//     row 7       lane 28   lane 29   lane 30   lane 31
//     row 8       lane 0    lane 1    lane 2    lane 3        and so on to row 15
//
// With g = lane / 4 and t = lane % 4, what a lane holds (PTX ISA, "Matrix Fragments for mma.m16n8k16"):
//
//                  a (16,16)                         b (16,8)                      c (16,8)
//
//             2t 2t+1    2t+8 2t+9                       g                        2t    2t+1
//     g      | word 0  |  word 2  |              2t   |        |           g     | x[0]  x[1] |
//                                                2t+1 | word 0 |
//     g + 8  | word 1  |  word 3  |              2t+8 |        |           g + 8 | x[2]  x[3] |
//                                                2t+9 | word 1 |
//
// A word is two numbers of bfloat16, the first in its lower half. So the four lanes of one g share the rows g and g + 8
// of a and c, and two c side by side lie just as one a does: what one product gives, the next one takes without a
// number changing hands.

const int SIDE = 16;  // rows and columns of a

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

// f(n, e, row, column) for every x[e] of N fragments side by side, (16, 8 N).
template <int N, class F> __device__ inline void each(F f) {
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) f(n, e, row_of(e), n * 8 + column_of(e));
    }
}

// --- instructions, each by its name in PTX; tests play them on a processor ---

#ifdef __CUDA_ARCH__

__device__ inline void mma_m16n8k16(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline unsigned in_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Four matrices (8,8) out of shared memory. The lanes 8i to 8i + 7 say where the rows of matrix i begin, 16 bytes each;
// word[i] becomes its row g, columns 2t and 2t + 1. Transposed: its column g, rows 2t and 2t + 1.
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

// --- fragments ---

// Two numbers as a word, and a word as two numbers.
__device__ inline unsigned word_of(wide first, wide second) {
#ifdef __CUDA_ARCH__
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
#else
    return real(first).bits | (unsigned)real(second).bits << 16;
#endif
}
__device__ inline wide first_of(unsigned word) { return __uint_as_float(word << 16); }
__device__ inline wide second_of(unsigned word) { return __uint_as_float(word & 0xFFFF0000u); }

// Two c side by side, (16,16), rounded to an a.
__device__ inline FragmentA round_to_a(const FragmentC* c) {
    return {{word_of(c[0].x[0], c[0].x[1]), word_of(c[0].x[2], c[0].x[3]),
             word_of(c[1].x[0], c[1].x[1]), word_of(c[1].x[2], c[1].x[3])}};
}

// The sum or the maximum over a row, from what each of the four lanes that share it has seen of it.
__device__ inline wide row_sum(wide x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline wide row_max(wide x) {
    x = max(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return max(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// The rows of a matrix (16, 16 N) in the GPU's memory, `stride` numbers apart, as N fragments. Only `rows` of them are
// there, the others are zeros.
template <int N> __device__ inline void load(FragmentA (&a)[N], const real* from, int stride, int rows) {
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < 4; i++) {
            int row = lane() / 4 + i % 2 * 8, column = n * SIDE + lane() % 4 * 2 + i / 2 * 8;
            a[n].word[i] = row < rows ? *(const unsigned*)(from + (long long)row * stride + column) : 0;
        }
    }
}

// The other way: c (16, 8 N) to the GPU's memory, row g times factor, row g + 8 times factor_8.
template <int N> __device__ inline void store(
    real* to, int stride, int rows, const FragmentC (&c)[N], wide factor, wide factor_8
) {
    for (int n = 0; n < N; n++) {
        for (int e = 0; e < 4; e += 2) {
            wide f = e ? factor_8 : factor;
            if (row_of(e) < rows) {
                *(unsigned*)(to + (long long)row_of(e) * stride + n * 8 + column_of(e)) =
                    word_of(c[n].x[e] * f, c[n].x[e + 1] * f);
            }
        }
    }
}

// --- products with 16 rows of a matrix in shared memory ---

// c (16,16) += a rows^T,   a (16, 16 N), rows (16, 16 N). b = rows^T has its columns where rows has rows.
template <int N, int W>
__device__ inline void add_times_transposed(FragmentC* c, const FragmentA (&a)[N], const real (*rows)[W]) {
    int row = lane() % 8 + lane() / 16 * 8, column = lane() / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < N; n++) {
        unsigned b[4];  // of columns 0 to 7 of c, and of 8 to 15
        ldmatrix_x4(b, &rows[row][n * SIDE + column]);
        mma_m16n8k16(c[0].x, a[n].word, b);
        mma_m16n8k16(c[1].x, a[n].word, b + 2);
    }
}

// c (16, 8 N) += a rows,   a (16,16), rows (16, 8 N). A word of b holds numbers of two rows: it is loaded transposed.
template <int N, int W>
__device__ inline void add_times(FragmentC (&c)[N], const FragmentA& a, const real (*rows)[W]) {
    int row = lane() % 16, column = lane() / 16 * 8;
#pragma unroll
    for (int n = 0; n < N; n += 2) {
        unsigned b[4];
        ldmatrix_x4_trans(b, &rows[row][n * 8 + column]);
        mma_m16n8k16(c[n].x, a.word, b);
        mma_m16n8k16(c[n + 1].x, a.word, b + 2);
    }
}
