// Tiles of TILE rows in shared memory, each copied while a block computes with the one before it: for the three kernels of
// attention_mma.cu. (The kernels of attention.cu copy with `load` of squares.cuh, and wait.)

// The length of a row in shared memory: 16 bytes more than HEAD numbers. So the same column of eight rows, one below the
// other, is in different banks of shared memory (squares.cuh says what a bank is).
const int PADDED = HEAD + PIECE;
const int PIECES = HEAD / PIECE;  // of 16 bytes in a row of a head
const int ROWS_AT_ONCE = THREADS / PIECES;  // how many rows a block copies at once, a piece for each thread

typedef real Tile[TILE][PADDED];

// Copies the tiles of a head, one after the other, from the GPU's memory, where rows begin `stride` numbers apart. Each
// thread copies one piece of every ROWS_AT_ONCE-th row. rows: how many rows are left; beyond them a tile gets zeros.
struct TileCopy {
    int row, column, rows;  // row, column: where this thread's first piece is in a tile
    __device__ TileCopy(int rows) : row(threadIdx.x / PIECES), column(threadIdx.x % PIECES * PIECE), rows(rows) {}

    // The address of this thread's first piece of a matrix.
    __device__ const real* first_piece(const real* head, int stride) const { return head + (long long)row * stride + column; }

    // Starts the copy of TILE rows into shared memory. from: this thread's first piece of them.
    __device__ void copy(Tile& tile, const real* from, int stride) const {
#pragma unroll
        for (int r = 0; r < TILE; r += ROWS_AT_ONCE) {
            // no piece for this thread
            if ((THREADS % PIECES && row >= ROWS_AT_ONCE) || (TILE % ROWS_AT_ONCE && row + r >= TILE)) continue;
            cp_async_16(&tile[row + r][column], from + (long long)r * stride, row + r < rows);
        }
    }
};

// The keys and values of a head, tile after tile from the first one on, for the two kernels whose warps own queries.
struct KeysAndValues {
    TileCopy tiles;
    const real* next;  // this thread's first piece of the next keys; their values are `apart` numbers further on
    int stride, apart;
    __device__ KeysAndValues(const real* qkv, const Heads& heads)
        : tiles(heads.length), stride(heads.stride(1)), apart(heads.kv_columns) {
        next = tiles.first_piece(qkv + heads.packed(1, 0), stride);
    }

    // Starts the copy of the next tile.
    __device__ void copy(Tile& k, Tile& v) {
        tiles.copy(k, next, stride);
        tiles.copy(v, next + apart, stride);
        next += (long long)TILE * stride;
        tiles.rows -= TILE;
    }
};

// Waits until all copies that were started have arrived, those of all threads, and no thread reads the previous tile.
__device__ inline void wait_for_tile() {
    cp_async_wait_all();
    __syncthreads();
}
