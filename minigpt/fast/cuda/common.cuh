// What the kernels share. Two names are chosen when they are compiled:
//     real   how a number is stored (float or double),
//     wide   what it is computed and summed in.

const int WARP = 32;  // threads that run in step and can read each other's registers

// The sum of a value over a warp. Every thread gets it, and, the pairs being always the same, always the same bits.
__device__ inline wide warp_sum(wide value) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}
