// Embedding: w (V,C), ids (N) -> out (N,C), and the gradient dout (N,C), ids (N) -> dw (V,C).

#include "common.cuh"

// The first of this thread's PACK columns of a row. The columns of block y begin where those of block y - 1 end.
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

const int AHEAD = 8;    // rows whose reading a thread starts before it adds the first one
const int NO_ID = -2;  // the id of places that are not there

// dw[v] = sum of dout[n] over all n with ids[n] = v.
//
// In `order` the positions of one id stand together: a run. But in a text one id may be a fifth of all, and a block that
// had its whole run would still add up when all others have finished. So a block takes `segment` places. The sum of a
// run that begins there goes to dw. The sum of what is left there of an earlier run goes to rests (segments, C). Then
// embedding_join adds to each run its rests, in order: the block where a run begins owns it, so its sum has one order.
// Rows of dw whose ids do not occur are zero already.
extern "C" __global__ void embedding_backward(
    wide* dw, wide* rests, const real* dout, const int* order, const int* sorted, int n, int segment, int rows, int columns
) {
    int first = blockIdx.x * segment, end = first + segment < n ? first + segment : n, c = my_columns();
    if (c >= columns) return;
    bool earlier = first > 0 && sorted[first - 1] == sorted[first];
    Packed<wide> sum = {};
    for (int place = first; place < end; place += AHEAD) {
        int id[AHEAD + 1];
        Packed<real> row[AHEAD];
#pragma unroll
        for (int i = 0; i <= AHEAD; i++) id[i] = place + i < end ? sorted[place + i] : NO_ID;
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (place + i < end) row[i] = pack(dout + (long long)order[place + i] * columns + c);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (place + i == end) break;
            for (int j = 0; j < PACK; j++) sum.x[j] += wide(row[i].x[j]);
            if (id[i + 1] == id[i]) continue;
            if (earlier) pack(rests + (long long)blockIdx.x * columns + c) = sum;
            else if (id[i] >= 0 && id[i] < rows) pack(dw + (long long)id[i] * columns + c) = sum;
            earlier = false;
            sum = {};
        }
    }
}

// dw[v] += the rests of v's run, from the first to the last. The segment where the run begins does it.
extern "C" __global__ void embedding_join(
    wide* dw, const wide* rests, const int* sorted, int n, int segment, int rows, int columns
) {
    int first = blockIdx.x * segment, next = first + segment, c = my_columns();
    if (c >= columns || next >= n) return;
    int id = sorted[next - 1];
    bool begins_here = first == 0 || sorted[first - 1] != id;  // the run of the last place, in this segment
    if (!begins_here || id < 0 || id >= rows || sorted[next] != id) return;
    Packed<wide> sum = pack(dw + (long long)id * columns + c);
    for (bool more = true; more; next += AHEAD * segment) {
        bool has[AHEAD];
        Packed<wide> rest[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) has[i] = next + i * segment < n && sorted[next + i * segment] == id;
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (has[i]) rest[i] = pack(rests + (long long)(next / segment + i) * columns + c);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            for (int j = 0; j < PACK; j++)
                if (has[i]) sum.x[j] += rest[i].x[j];
        more = has[AHEAD - 1];
    }
    pack(dw + (long long)id * columns + c) = sum;
}
