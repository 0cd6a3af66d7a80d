// Sums of exponentials in which nothing overflows, for cross_entropy.cu and soft_cross_entropy.cu.

// exp. Where numbers are stored in 16 bits, the faster and less exact __expf is exact enough.
__device__ inline wide exponential(wide x) { return sizeof(real) == 2 ? wide(__expf(x)) : exp(x); }

// A sum of exponentials, kept so that nothing overflows: the sum is total * exp(largest).
struct ExpSum {
    wide largest, total;

    // Adds another sum. The one with the smaller `largest` is rescaled.
    __device__ void add(ExpSum other) {
        wide new_largest = other.largest > largest ? other.largest : largest;
        if (largest < new_largest) total *= exponential(largest - new_largest);
        if (other.largest < new_largest) other.total *= exponential(other.largest - new_largest);
        largest = new_largest;
        total += other.total;
    }
};

// The maximum of a value over a warp, returned to all 32 threads.
__device__ inline wide warp_largest(wide value) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        wide other = __shfl_xor_sync(0xffffffffu, value, apart);
        if (other > value) value = other;
    }
    return value;
}

// Adds the sums of all lanes of a warp; the result is returned to every lane.
__device__ inline ExpSum of_warp(ExpSum sum) {
    wide largest = warp_largest(sum.largest);
    return {largest, warp_sum(sum.total * exponential(sum.largest - largest))};
}
