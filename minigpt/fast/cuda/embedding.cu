// Embedding: w (V,C), ids (N) -> out (N,C), and the gradient dout (N,C), ids (N) -> dw (V,C).

#include "common.cuh"

const int TILE = 128;  // threads of a block, and ids that they share

// The columns of a row that are mine: those of block y begin where those of block y - 1 end.
__device__ inline int my_columns() { return (blockIdx.y * blockDim.x + threadIdx.x) * PACK; }

// out[n] = w[ids[n]]. An id that the table does not have gives NaN: a kernel cannot raise an error, and must not lie.
extern "C" __global__ void embedding_forward(real* out, const real* w, const long long* ids, int rows, int columns) {
    int n = blockIdx.x, c = my_columns();
    if (c >= columns) return;
    long long id = ids[n];
    Packed<real> row;
    for (int j = 0; j < PACK; j++) row.x[j] = NOT_A_NUMBER;
    if (id >= 0 && id < rows) row = pack(w + id * columns + c);
    pack(out + (long long)n * columns + c) = row;
}

// An id in 32 bits; -1, which no table has, for what does not fit.
__device__ inline int shortened(long long id) { return id == (int)id ? (int)id : -1; }

// order: the positions, sorted by id, and within an id in their own order; sorted: their ids. Everybody counts who stands
// before him: n^2 comparisons, which a GPU makes faster than it sorts, as long as n is that of a batch. Tiles of ids go
// through shared memory; only in our own must places be compared too.
extern "C" __global__ void embedding_order(long long* order, long long* sorted, const long long* ids, int n) {
    __shared__ int tile[TILE];
    int mine = blockIdx.x * TILE, me = mine + threadIdx.x, before = 0, id = me < n ? shortened(ids[me]) : 0;
    for (int first = 0; first < n; first += TILE) {
        __syncthreads();  // everybody is done with the tile before
        if (first + threadIdx.x < n) tile[threadIdx.x] = shortened(ids[first + threadIdx.x]);
        __syncthreads();
        int here = n - first < TILE ? n - first : TILE;
        if (first < mine) for (int i = 0; i < here; i++) before += tile[i] <= id;
        else if (first > mine) for (int i = 0; i < here; i++) before += tile[i] < id;
        else for (int i = 0; i < here; i++) before += tile[i] < id || (tile[i] == id && i < threadIdx.x);
    }
    if (me < n) {
        order[before] = me;
        sorted[before] = id;
    }
}

// dw[v] = sum of dout[n] over all n with ids[n] = v.
//
// In `order` the positions of one id stand together: a run. But in a text one id may be a fifth of all, and a block that
// had its whole run would still add up when all others have finished. So a block takes `segment` places. The sum of a
// run that begins there goes to dw. The sum of what is left there of an earlier run goes to rests (segments, C). Then
// embedding_join adds to each run its rests, in order: the block where a run begins owns it, so its sum has one order.
// Rows of dw that nobody took are zero already.
extern "C" __global__ void embedding_backward(
    wide* dw, wide* rests, const real* dout, const long long* order, const long long* sorted, int n, int segment, int rows,
    int columns
) {
    int first = blockIdx.x * segment, end = first + segment < n ? first + segment : n, c = my_columns();
    if (c >= columns) return;
    bool earlier = first > 0 && sorted[first - 1] == sorted[first];
    Packed<wide> sum = {};
    for (int place = first; place < end; place++) {
        long long id = sorted[place];
        Packed<real> row = pack(dout + order[place] * columns + c);
        for (int j = 0; j < PACK; j++) sum.x[j] += wide(row.x[j]);
        if (place + 1 < end && sorted[place + 1] == id) continue;
        if (earlier) pack(rests + (long long)blockIdx.x * columns + c) = sum;
        else if (id >= 0 && id < rows) pack(dw + id * columns + c) = sum;
        earlier = false;
        sum = {};
    }
}

// dw[v] += the rests of v's run, from the first to the last. The segment where the run begins does it.
extern "C" __global__ void embedding_join(
    wide* dw, const wide* rests, const long long* sorted, int n, int segment, int rows, int columns
) {
    int first = blockIdx.x * segment, next = first + segment, c = my_columns();
    if (c >= columns || next >= n) return;
    long long id = sorted[next - 1];
    bool mine = first == 0 || sorted[first - 1] != id;  // does the run of the last place begin in this segment?
    if (!mine || id < 0 || id >= rows) return;
    Packed<wide> sum = pack(dw + id * columns + c);
    for (int place = next; place < n && sorted[place] == id; place += segment) {
        Packed<wide> rest = pack(rests + (long long)(place / segment) * columns + c);
        for (int j = 0; j < PACK; j++) sum.x[j] += rest.x[j];
    }
    pack(dw + id * columns + c) = sum;
}
