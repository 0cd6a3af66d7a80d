// Rows that a warp keeps in registers, for layernorm.cu and rmsnorm.cu.
//
// A warp takes a row: lane 0 the first pack of it, lane 1 the second, and after 32 of them lane 0 again, PACKS times. The
// lanes keep what they have read in registers, so that a row comes from far away once. WARPS warps are a block. PACKS and
// WARPS are chosen when this is compiled.

const bool SMALL = PACKS * PACK * sizeof(wide) <= 96;  // so little of a row that registers suffice for one block more
const int UNROLL = PACKS * PACK <= 64 ? PACKS * PACK : 1;  // of a longer row a lane's part is in memory, and is slow

// What one lane has of a row of Number.
template <class Number> struct Row {
    Packed<Number> packs[PACKS];
    __device__ Number& operator[](int i) { return packs[i / PACK].x[i % PACK]; }
};

// The column of my pack e, and whether there is one: only in the last some lanes may have none.
__device__ inline int column_of(int e) { return (e * WARP + threadIdx.x) * PACK; }
__device__ inline bool is_there(int e, int columns) { return e + 1 < PACKS || column_of(e) < columns; }

// f(i) for all my numbers of a row.
template <class F> __device__ inline void each(int columns, F f) {
#pragma unroll UNROLL
    for (int i = 0; i < PACKS * PACK; i++) {
        if (is_there(i / PACK, columns)) f(i);
    }
}

template <class Number> __device__ inline Row<Number> load(const Number* from, int columns) {
    Row<Number> row;
#pragma unroll UNROLL
    for (int e = 0; e < PACKS; e++) {
        if (is_there(e, columns)) row.packs[e] = pack(from + column_of(e));
    }
    return row;
}

template <class Number> __device__ inline void store(Number* to, const Row<Number>& row, int columns) {
#pragma unroll UNROLL
    for (int e = 0; e < PACKS; e++) {
        if (is_there(e, columns)) pack(to + column_of(e)) = row.packs[e];
    }
}
