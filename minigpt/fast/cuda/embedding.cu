// Embedding: w (V,C), ids (N) -> out (N,C), and the gradient dout (N,C), ids (N) -> dw (V,C).

#include "common.cuh"

const int TILE = 128;  // threads of a block, and ids that they share

// out[n] = w[ids[n]]. An id that the table does not have gives NaN: a kernel cannot raise an error, and must not lie.
extern "C" __global__ void embedding_forward(real* out, const real* w, const long long* ids, int rows, int columns) {
    int n = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    long long id = ids[n];
    out[(long long)n * columns + c] = id >= 0 && id < rows ? wide(w[id * columns + c]) : NOT_A_NUMBER;
}

// order: the positions, sorted by id, and within an id in their own order. Everybody counts who stands before him: n^2
// comparisons, which a GPU makes faster than it sorts, as long as n is that of a batch. Tiles of ids go through shared
// memory.
extern "C" __global__ void embedding_order(long long* order, const long long* ids, int n) {
    __shared__ long long tile[TILE];
    int me = blockIdx.x * TILE + threadIdx.x, before = 0;
    long long id = me < n ? ids[me] : 0;
    for (int first = 0; first < n; first += TILE) {
        __syncthreads();  // everybody is done with the tile before
        if (first + threadIdx.x < n) tile[threadIdx.x] = ids[first + threadIdx.x];
        __syncthreads();
        int here = n - first < TILE ? n - first : TILE;
        for (int i = 0; i < here; i++) before += tile[i] < id || (tile[i] == id && first + i < me);
    }
    if (me < n) order[before] = me;
}

// dw[v] = sum of dout[n] over all n with ids[n] = v.
//
// In `order` the positions of one id stand together. One block for each place there (and 128 columns): it works where a
// new id begins, and sums up to the next one, so that each row of dw has one owner and its sum one order. Rows that nobody
// took are zero already.
extern "C" __global__ void embedding_backward(
    wide* dw, const real* dout, const long long* ids, const long long* order, int n, int rows, int columns
) {
    int place = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
    long long id = ids[order[place]];
    if (c >= columns || id < 0 || id >= rows || (place > 0 && ids[order[place - 1]] == id)) return;
    wide sum = 0;
    for (; place < n && ids[order[place]] == id; place++) sum += wide(dout[order[place] * columns + c]);
    dw[id * columns + c] = sum;
}
