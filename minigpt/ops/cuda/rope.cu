// Rotary positions (Su et al. 2021, section 3.2.2): x (B,T,H,HEAD) -> out. The first 2 PAIRS columns of the first heads are
// turned by the angles of their position, all other numbers are copied. Chosen when a kernel is compiled: HEAD, PAIRS, and
// NEIGHBOURS: is pair i columns 2i and 2i + 1, or i and i + PAIRS?

#include "common.cuh"

// Both numbers of a pair are read by both threads that write one of them. PACK divides PAIRS, so all numbers of a pack are
// first ones of their pairs, or all are second ones, or, for NEIGHBOURS, the pack holds whole pairs, if it is not 1.
__device__ inline Packed<real> partners(const real* at, int column) {
    Packed<real> found;
    if (NEIGHBOURS) {
        for (int j = 0; j < PACK; j++) found.x[j] = at[(column + j) % 2 ? j - 1 : j + 1];
    } else {
        found = pack(at + (column < PAIRS ? PAIRS : -PAIRS));
    }
    return found;
}

// first:  a cos - b sin
// second: b cos + a sin            for sign = 1, and for the turn back, which is the backward pass, sign = -1.
//
// cos, sin: (positions, PAIRS), where `positions` is T, or B * T if each text has its own. A block has numbers of one
// position; blockIdx.x counts B * T of them. turning: so many of the heads are turned.
extern "C" __global__ void rope(
    real* out, const real* x, const wide* cos, const wide* sin, int positions, int heads, int turning, wide sign
) {
    int i = (blockIdx.y * blockDim.x + threadIdx.x) * PACK, head = i / HEAD, column = i % HEAD;
    if (head >= heads) return;
    long long at = (long long)blockIdx.x * heads * HEAD + i;
    Packed<real> numbers = pack(x + at);
    if (head < turning && column < 2 * PAIRS) {
        Packed<real> others = partners(x + at, column);
        int angles = blockIdx.x % positions * PAIRS;
        for (int j = 0; j < PACK; j++) {
            int c = column + j, pair = NEIGHBOURS ? c / 2 : c % PAIRS;
            bool is_second = NEIGHBOURS ? c % 2 : c >= PAIRS;
            wide of_other = sign * sin[angles + pair];
            numbers.x[j] = wide(numbers.x[j]) * cos[angles + pair] + wide(others.x[j]) * (is_second ? of_other : -of_other);
        }
    }
    pack(out + at) = numbers;
}
