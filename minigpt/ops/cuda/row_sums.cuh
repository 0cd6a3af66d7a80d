// The sum and the maximum of a value over the threads that share a row of scores, for attention.cu (squares.cuh includes this
// file) and attention_mma.cu (mma.cuh includes it). These threads are lanes of one warp, and the including file says which:
// those that are NEAREST, 2 NEAREST, 4 NEAREST, ... and FARTHEST apart.
//
// Each time pairs of lanes exchange their values, so all of them get the result. The pairs are the same in every run, and so
// are the bits. (A whole warp: warp_sum in common.cuh.)

__device__ inline wide row_sum(wide value) {
    for (int apart = NEAREST; apart <= FARTHEST; apart *= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}
__device__ inline wide row_max(wide value) {
    for (int apart = NEAREST; apart <= FARTHEST; apart *= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, apart));
    return value;
}
