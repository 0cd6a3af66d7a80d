// Rotary positions: pairs of columns turn by the angle of their place.

#include "common.cuh"

// x (N,H,D) -> out, n numbers. Row i of the N is place i of cos and sin (places,R), counted anew where they end. Of the first
// `heads` heads the first 2 R columns turn, by the angle times `way`: 1 forward, -1 back. The others are copied.
// neighbours: pair i is columns 2 i and 2 i + 1, and otherwise i and i + R. PACK is 1: the halves of a pair lie apart.
extern "C" __global__ void rope(
    real* out, const real* x, long long n, int all_heads, int size, const wide* cos, const wide* sin, int places, int r,
    int heads, int neighbours, wide way
) {
    long long i = my_pack();
    if (i >= n) return;
    int column = i % size, head = i / size % all_heads;
    if (head >= heads || column >= 2 * r) {
        out[i] = x[i];
        return;
    }
    int pair = neighbours ? column / 2 : column % r;
    bool is_second = neighbours ? column % 2 : column >= r;
    int apart = neighbours ? 1 : r;
    long long place = i / size / all_heads % places * r + pair;
    wide c = cos[place], s = way * sin[place], own = x[i];
    wide other = x[is_second ? i - apart : i + apart];
    out[i] = is_second ? other * s + own * c : own * c - other * s;
}
