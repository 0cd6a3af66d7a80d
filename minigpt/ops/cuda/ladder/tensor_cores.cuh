// Four instructions that only a GPU has (from the A100 on, sm_80), each by its name in PTX, the assembly language of
// NVIDIA's GPUs. asm(...) writes one: %0, %1, ... are the registers listed after the colons. Tests play them on a
// processor.

typedef unsigned short bfloat16;  // its bits, the upper half of a float. Only tensor cores compute with them.
struct __align__(16) Eight { bfloat16 x[8]; };  // 16 bytes, which a thread moves at once

#ifndef CUDA_ON_CPU

// Loads four matrices (8,8) from shared memory. Lane l gives the address of row l % 8 of matrix l / 8: 16 bytes. With g
// = lane / 4 and t = lane % 4, word[i] gets two numbers of matrix i: row g, columns 2t and 2t + 1. With _trans: column
// g, rows 2t and 2t + 1.
__device__ inline void ldmatrix_x4(unsigned* word, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
__device__ inline void ldmatrix_x4_trans(unsigned* word, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

// c (16,8) += a (16,16) b (16,8), by a whole warp. product_4_tensor_cores.cu draws which lane holds which numbers.
__device__ inline void mma_m16n8k16(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two numbers, rounded to bfloat16, in one word: the first in its lower half.
__device__ inline unsigned cvt_bf16x2(float second, float first) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

#endif
