// The part of mma.cuh for numbers of bfloat16: DEPTH is 16, and a word is two numbers, the first in its lower half.
//
// What a lane holds, with g = lane / 4 and t = lane % 4 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point
// type"):
//
//                  a (16,16)                         b (16,8)                      c (16,8)
//
//             2t 2t+1    2t+8 2t+9                       g                        2t    2t+1
//     g      | word 0  |  word 2  |              2t   |        |           g     | x[0]  x[1] |
//                                                2t+1 | word 0 |
//     g + 8  | word 1  |  word 3  |              2t+8 |        |           g + 8 | x[2]  x[3] |
//                                                2t+9 | word 1 |
//
// So the four lanes with the same g share rows g and g + 8 of a and of c. And two c, side by side, are held exactly as one a:
// the result of one product can be a factor of the next one, and no number moves to another lane.

#ifdef __CUDA_ARCH__

__device__ inline void mma_m16n8k16(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif

// c += a b
__device__ inline void multiply(FragmentC& c, const FragmentA& a, const unsigned* b) { mma_m16n8k16(c.x, a.word, b); }

// A product takes bfloat16 as it is stored: there is nothing to round.
__device__ inline unsigned rounded(unsigned word) { return word; }

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

// The sum of the products of the numbers in two words.
__device__ inline wide dot(unsigned a, unsigned b) {
    return first_of(a) * first_of(b) + second_of(a) * second_of(b);
}

// Two c side by side, (16,16), rounded to bfloat16: a fragment a.
__device__ inline FragmentA round_to_a(const FragmentC* c) {
    return {{word_of(c[0].x[0], c[0].x[1]), word_of(c[0].x[2], c[0].x[3]),
             word_of(c[1].x[0], c[1].x[1]), word_of(c[1].x[2], c[1].x[3])}};
}

// Loads two fragments b from 16 rows in shared memory: one of the 8 columns from `first` on, one of the next 8. A word of b
// holds numbers of two rows, so they are loaded transposed.
template <int W> __device__ inline void load_b(unsigned* b, const real (*rows)[W], int first) {
    ldmatrix_x4_trans(b, &rows[lane() % 16][first + lane() / 16 * 8]);
}

// Stores two neighbouring numbers in the GPU's memory.
__device__ inline void store_two(real* to, wide first, wide second) { *(unsigned*)to = word_of(first, second); }
