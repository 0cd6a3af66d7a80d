// The positions of ids, sorted by id, and within an id in their own order: ids (n) -> order (n), sorted (n), their ids.
//
// A thread for each position counts the positions that stand before it: in its own tile by comparing with all of them, and
// in every other tile, once it is sorted, by binary search. In tiles of 256 that is 256 steps, and 9 for each other tile:
// for 16,384 ids 823 steps for each thread, where comparing with all ids would be 16,384.

#include "common.cuh"

const int LAST = 0x7FFFFFFF;  // greater than every id

// An id in 32 bits; -1 for what no table has.
__device__ inline int shortened(long long id) { return id >= 0 && id < LAST ? (int)id : -1; }

// Each tile by itself: its positions and their ids, sorted. The last one is filled up with LAST. TILE, a power of 2, is
// chosen when this is compiled.
extern "C" __global__ void order_tiles(int* positions, int* tiles, const long long* ids, int n) {
    __shared__ int tile[TILE];
    int first = blockIdx.x * TILE, place = threadIdx.x;
    int id = first + place < n ? shortened(ids[first + place]) : LAST, before = 0;
    tile[place] = id;
    __syncthreads();
    for (int i = 0; i < TILE; i++) before += tile[i] < id || (tile[i] == id && i < place);
    positions[first + before] = first + place;
    tiles[first + before] = id;
}

// How many of a sorted tile's ids are below a bound.
__device__ inline int count_below(const int* tile, int bound) {
    int count = 0;
    for (int step = TILE / 2; step > 0; step /= 2) count += tile[count + step - 1] < bound ? step : 0;
    return count + (tile[count] < bound);
}

// Of the same id, those in earlier tiles stand before, and those in later tiles do not. Each step of a search waits for
// the one before; so a few searches go side by side.
extern "C" __global__ void order_all(int* order, int* sorted, const int* positions, const int* tiles, int n) {
    int my_tile = blockIdx.x * TILE, before = threadIdx.x;
    int position = positions[my_tile + threadIdx.x], id = tiles[my_tile + threadIdx.x];
    if (position >= n) return;
#pragma unroll 4
    for (int first = 0; first < my_tile; first += TILE) before += count_below(tiles + first, id + 1);
#pragma unroll 4
    for (int first = my_tile + TILE; first < n; first += TILE) before += count_below(tiles + first, id);
    order[before] = position;
    sorted[before] = id;
}
