// The part of mma.cuh for numbers of float32, whose products are made in tf32: DEPTH is 8, and a word is one number.
//
// tf32 is float32 with only 10 of its 23 bits behind the point: the instruction ignores the others. So each factor is
// rounded to the nearest number of tf32 before a product. Sums stay float32.
//
// What a lane holds, with g = lane / 4 and t = lane % 4 (PTX ISA, "Matrix Fragments for mma.m16n8k8", .tf32):
//
//                  a (16,8)                          b (8,8)                       c (16,8)
//
//                t         t+4                           g                        2t    2t+1
//     g      | word 0  |  word 2  |              t    | word 0 |           g     | x[0]  x[1] |
//     g + 8  | word 1  |  word 3  |              t+4  | word 1 |           g + 8 | x[2]  x[3] |
//
// A c is not held as an a is: a lane has columns 2t and 2t + 1 of c, but columns t and t + 4 of a. How can a c become a
// factor a, and no number move to another lane? The terms of a sum may be added in any sequence. So column 2t of c is used
// as column t of a, and column 2t + 1 as column t + 4. The rows of b must then be exchanged in the same way: row 2t is
// used as row t, and row 2t + 1 as row t + 4.

#ifdef __CUDA_ARCH__

__device__ inline void mma_m16n8k8(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Rounds to the nearest number of tf32; if two are equally near, to the one farther from 0.
__device__ inline unsigned cvt_rna_tf32(float x) {
    unsigned word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
    return word;
}

#endif

// c += a b
__device__ inline void multiply(FragmentC& c, const FragmentA& a, const unsigned* b) { mma_m16n8k8(c.x, a.word, b); }

// Rounded to tf32, which a product takes.
__device__ inline unsigned rounded(unsigned word) { return cvt_rna_tf32(__uint_as_float(word)); }

// The product of two numbers.
__device__ inline wide dot(unsigned a, unsigned b) { return __uint_as_float(a) * __uint_as_float(b); }

// A c (16,8), rounded to tf32: a fragment a. Columns 2t of c become columns t, columns 2t + 1 become columns t + 4.
__device__ inline FragmentA round_to_a(const FragmentC* c) {
    return {{cvt_rna_tf32(c->x[0]), cvt_rna_tf32(c->x[2]), cvt_rna_tf32(c->x[1]), cvt_rna_tf32(c->x[3])}};
}

// Loads two fragments b from 8 rows in shared memory: one of the 8 columns from `first` on, one of the next 8. Rows 2t
// become rows t, rows 2t + 1 become rows t + 4. ldmatrix can transpose 16-bit numbers only, so each number is read alone.
// The length of a row in memory, W, is 4 more than a multiple of 8 numbers: so rows 0, 2, 4 and 6 begin 8 banks of shared
// memory apart, in some sequence, and the 32 lanes of a warp read from 32 different banks.
template <int W> __device__ inline void load_b(unsigned* b, const real (*rows)[W], int first) {
    static_assert(W % 8 == 4, "lanes would read from the same banks");
    int row = lane() % 4 * 2, column = first + lane() / 4;
#pragma unroll
    for (int i = 0; i < 4; i++) b[i] = cvt_rna_tf32(rows[row + i % 2][column + i / 2 * 8]);
}

// Stores two neighbouring numbers in the GPU's memory.
__device__ inline void store_two(real* to, wide first, wide second) { *(float2*)to = make_float2(first, second); }
