// Heads of keys and values that several heads of queries share: copied for each of them, and their gradients summed.
// Rows of queries, keys and values, packed: (NH + 2 G) heads of `size` numbers, or 3 NH of them. NH = G group.

#include "common.cuh"

// rows (N,(NH+2G)D) -> out (N,3 NH D), n numbers: each head of keys and of values once for each head of its group.
extern "C" __global__ void widen(real* out, const real* rows, long long n, int n_head, int n_kv_head, int size) {
    long long i = my_pack();
    if (i >= n) return;
    int group = n_head / n_kv_head;
    long long row = i / (3 * n_head * size);
    int column = i % (3 * n_head * size), head = column / size;
    int of_keys = head - n_head;  // which head it is behind those of queries: of keys, and then of values
    int source = head < n_head ? head : n_head + of_keys / n_head * n_kv_head + of_keys % n_head / group;
    long long place = row * (n_head + 2 * n_kv_head) * size + source * size + column % size;
    pack(out + i) = pack(rows + place);
}

// drows (N,3 NH D) -> out (N,(NH+2G)D), n numbers: of keys and values the sum over the heads of the group, first to last.
extern "C" __global__ void narrow(real* out, const real* drows, long long n, int n_head, int n_kv_head, int size) {
    long long i = my_pack();
    if (i >= n) return;
    int group = n_head / n_kv_head, width = (n_head + 2 * n_kv_head) * size;
    long long row = i / width;
    int column = i % width, head = column / size;
    const real* from = drows + row * 3 * n_head * size + column % size;
    if (head < n_head) {
        pack(out + i) = pack(from + head * size);
        return;
    }
    int of_keys = head - n_head;
    int first = n_head + of_keys / n_kv_head * n_head + of_keys % n_kv_head * group;
    wide sum[PACK] = {};
    for (int other = first; other < first + group; other++) {
        Packed<real> numbers = pack(from + other * size);
        for (int j = 0; j < PACK; j++) sum[j] += wide(numbers.x[j]);
    }
    Packed<real> sums;
    for (int j = 0; j < PACK; j++) sums.x[j] = sum[j];
    pack(out + i) = sums;
}
