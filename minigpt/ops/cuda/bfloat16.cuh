// bfloat16: the upper half of a float. Eight bits of a number instead of twenty-four, and the whole of its range.

struct bfloat16 {
    unsigned short bits;

    bfloat16() = default;

    // To the nearest, and of two that are equally near to the even one.
    __device__ bfloat16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
        unsigned all = __float_as_uint(x);
        bool nan = (all & 0x7FFFFFFFu) > 0x7F800000u;
        bits = nan ? 0x7FFF : (all + 0x7FFF + (all >> 16 & 1)) >> 16;
#endif
    }

    __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};
