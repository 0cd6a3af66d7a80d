// Sums of exponentials in which nothing overflows, for cross_entropy.cu and soft_cross_entropy.cu.

// exp. Where numbers are stored in 16 bits, the quicker one has digits enough.
__device__ inline wide exponential(wide x) { return sizeof(real) == 2 ? wide(__expf(x)) : exp(x); }

// The sum of exponentials of some numbers, held so that nothing overflows: total exp(largest).
struct ExpSum {
    wide largest, total;

    // Two sums become one: the smaller of the two largest is the one that is stretched down.
    __device__ void add(ExpSum other) {
        wide new_largest = other.largest > largest ? other.largest : largest;
        if (largest < new_largest) total *= exponential(largest - new_largest);
        if (other.largest < new_largest) other.total *= exponential(other.largest - new_largest);
        largest = new_largest;
        total += other.total;
    }
};

// The largest value of a warp. Every thread gets it.
__device__ inline wide warp_largest(wide value) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        wide other = __shfl_xor_sync(0xffffffffu, value, apart);
        if (other > value) value = other;
    }
    return value;
}

// The sums of a warp's lanes become one, which every lane gets.
__device__ inline ExpSum of_warp(ExpSum sum) {
    wide largest = warp_largest(sum.largest);
    return {largest, warp_sum(sum.total * exponential(sum.largest - largest))};
}
