// Rows that a warp keeps in registers, for layernorm.cu and rmsnorm.cu.
//
// A lane is one of the 32 threads of a warp; threadIdx.x is its number. Lane 0 reads the first pack of a row (PACK
// neighbouring numbers, see common.cuh), lane 1 the second, and so on; after lane 31 it is lane 0's turn again, PACKS
// times. So the reads are coalesced: neighbouring lanes read neighbouring packs. The lanes keep what they read in
// registers, so each row is read from the GPU's memory once. A block has WARPS warps; threadIdx.y is the warp. PACKS and
// WARPS are chosen when a kernel is compiled.

const bool SMALL = PACKS * PACK * sizeof(wide) <= 96;  // at most 24 registers for a lane's part: one block more fits
// Registers have no addresses, so a loop over them must be unrolled: every index is then known to the compiler. A lane's
// part of more than 64 numbers does not fit into registers; it is kept in memory, which is slow.
const int UNROLL = PACKS * PACK <= 64 ? PACKS * PACK : 1;

// What one lane holds of a row: PACKS packs of type Number.
template <class Number> struct Row {
    Packed<Number> packs[PACKS];
    __device__ Number& operator[](int i) { return packs[i / PACK].x[i % PACK]; }
};

// Where pack e of this lane begins in the row, and whether it is inside of the row: only the last pack may be outside.
__device__ inline int column_of(int e) { return (e * WARP + threadIdx.x) * PACK; }
__device__ inline bool is_there(int e, int columns) { return e + 1 < PACKS || column_of(e) < columns; }

// Calls f(i) for each number i of this lane.
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
