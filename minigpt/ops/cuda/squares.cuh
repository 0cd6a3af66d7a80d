// Products of matrices on ordinary cores (not tensor cores), and what brings tiles to them and results away, for the three
// kernels of attention.cu. A block of SIDE x SIDE threads computes them for heads of HEAD numbers, from tiles of ROWS rows
// in shared memory (ROWS = SIDE * EACH):
//
//     add_dot_products   s += a b^T         a, b (ROWS,HEAD), s (ROWS,ROWS): each row of a times each row of b
//     add_products       results += s b     results (ROWS,HEAD): a weighted sum of the rows of b, with the weights in s
//
// If a thread read two numbers for each multiplication, it would wait for shared memory most of the time. So a thread
// computes a square of EACH x EACH numbers of s: it reads EACH rows of a and EACH rows of b, one piece (16 bytes) after the
// other, and uses each number EACH times. For the second product s goes through shared memory once. Then the same thread
// computes EACH rows of the results, some columns of each.
//
// How fast can it be, with EACH = 4 and pieces of 4 floats? A clock is one tick of a multiprocessor. In one clock, four
// warps multiply, and one warp reads 128 bytes from shared memory.
//     s: for 64 multiplications (16 clocks) a thread reads 8 pieces: 8 clocks, because threads that need the same piece get
//     it together; or 16, if each half of a warp takes a clock of its own.
//     results: for 32 multiplications (8 clocks) a thread reads 3 pieces: 3 to 6 clocks.
// Counted, not measured.
//
// Chosen when a kernel is compiled: HEAD; SIDE, a power of 2; EACH: 4, 2 or 1. EACH is smaller where heads are large, because
// four tiles of ROWS rows must fit into 48 KB of shared memory.

const int ROWS = SIDE * EACH;
const int THREADS = SIDE * SIDE;

// A piece is what a thread reads at once: 16 bytes where HEAD allows it.
const int LONGEST = 16 / sizeof(wide);                                    // numbers in 16 bytes
const int PIECE = HEAD % LONGEST == 0 ? LONGEST : HEAD % 2 == 0 ? 2 : 1;  // numbers in a piece
const int PIECES = HEAD / PIECE;                                          // pieces in a row
const int PIECES_EACH = (PIECES + SIDE - 1) / SIDE;  // how many of them one thread computes, in a row of the results

// How many blocks a multiprocessor should hold at once, for __launch_bounds__. A multiprocessor has 65,536 registers: they
// suffice for eight blocks of 64 threads with 128 registers each. Heads that are larger, or read in short pieces, may take
// more registers; so may doubles, each of which takes two.
const int BLOCKS_AT_ONCE = HEAD <= 64 && PIECE == 4 ? 8 : 1;

template <class Number, int N> struct alignas(N * sizeof(Number) < 16 ? N * sizeof(Number) : 16) Numbers {
    Number x[N];
};
typedef Numbers<wide, PIECE> Piece;
// In registers, what one thread computes:
typedef wide Square[EACH][EACH];           // of s: [its rows][its columns]
typedef Piece Results[EACH][PIECES_EACH];  // of the results: [its rows][its pieces]
// In shared memory, which has 32 banks of 4 bytes: threads that read from different banks are served in the same clock. The
// length of a row in memory is an odd number of pieces (x | 1 is x or x + 1, whichever is odd): so the same piece of eight
// rows, one below the other, lies in different banks.
typedef Piece Rows[ROWS][PIECES | 1];    // a tile of a or b
typedef Numbers<wide, EACH> Column;      // one column of a square
typedef Column Squares[ROWS][SIDE | 1];  // all of s: [column of s][row of threads]

// The place of a thread among the SIDE x SIDE threads. Threads 0 and 1 are one below the other, threads 2 and 3 are to the
// right of them, and so on. So the eight threads of a quarter of a warp need few different pieces, and shared memory can
// give one piece to several threads at once. All threads of a row are in the same warp.
__device__ inline int thread_row() { return threadIdx.x % 2 + threadIdx.x / (2 * SIDE) * 2; }
__device__ inline int thread_column() { return threadIdx.x / 2 % SIDE; }

// Row r and column c of this thread's square (or piece c of its results), as rows and columns of s. They lie SIDE apart,
// so that neighbouring threads have neighbouring rows.
__device__ inline int my_row(int r) { return thread_row() + r * SIDE; }
__device__ inline int my_column(int c) { return thread_column() + c * SIDE; }

const int NEAREST = 2, FARTHEST = SIDE;  // how far apart the threads of a row are
#include "row_sums.cuh"

// One piece from the GPU's memory, converted to wide.
__device__ inline Piece read(const real* from) {
    Numbers<real, PIECE> stored = *(const Numbers<real, PIECE>*)from;
    Piece piece;
#pragma unroll
    for (int e = 0; e < PIECE; e++) piece.x[e] = stored.x[e];
    return piece;
}

// Copies ROWS rows from the GPU's memory into shared memory, times a factor. Only the first `rows` exist: the others become
// zeros. In the GPU's memory rows begin `stride` numbers apart. Neighbouring threads read neighbouring pieces.
__device__ inline void load(Rows& to, const real* from, int stride, int rows, wide factor = 1) {
    for (int n = threadIdx.x; n < ROWS * PIECES; n += THREADS) {
        int row = n / PIECES, column = n % PIECES;
        Piece piece = {};
        if (row < rows) piece = read(from + row * stride + column * PIECE);
#pragma unroll
        for (int e = 0; e < PIECE; e++) piece.x[e] *= factor;
        to[row][column] = piece;
    }
}

// Copies the results of all threads to the GPU's memory, where rows begin `stride` numbers apart and `rows` of them exist.
__device__ inline void store(real* to, int stride, int rows, const Results& results) {
#pragma unroll
    for (int r = 0; r < EACH; r++) {
#pragma unroll
        for (int c = 0; c < PIECES_EACH; c++) {
            if (my_row(r) >= rows || my_column(c) >= PIECES) continue;
            Numbers<real, PIECE> stored;
#pragma unroll
            for (int e = 0; e < PIECE; e++) stored.x[e] = results[r][c].x[e];
            *(Numbers<real, PIECE>*)(to + my_row(r) * stride + my_column(c) * PIECE) = stored;
        }
    }
}

// One row of a thread's results, times a factor.
__device__ inline void multiply(Piece (&row)[PIECES_EACH], wide factor) {
#pragma unroll
    for (int c = 0; c < PIECES_EACH; c++) {
#pragma unroll
        for (int e = 0; e < PIECE; e++) row[c].x[e] *= factor;
    }
}

// s += a b^T.
//
// No thread needs to wait for another one here. __syncwarp is for the compiler, which moves no instruction across it.
// Without it, the compiler would mix the product with what comes before and after, and would need too many registers.
__device__ inline void add_dot_products(Square& s, const Rows& a, const Rows& b) {
    __syncwarp();
#pragma unroll 1
    for (int d = 0; d < PIECES; d++) {
        Piece x[EACH];
#pragma unroll
        for (int r = 0; r < EACH; r++) x[r] = a[my_row(r)][d];
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            Piece y = b[my_column(c)][d];
#pragma unroll
            for (int r = 0; r < EACH; r++) {
#pragma unroll
                for (int e = 0; e < PIECE; e++) s[r][c] += x[r].x[e] * y.x[e];
            }
        }
    }
    __syncwarp();
}

// Calls f(query, key, score) for every score of a tile, a reference that f may change. The rows of the tile are the block's
// queries, or its keys if KEYS_BELOW. Here neighbouring threads have neighbouring keys, whose masks and biases are
// neighbours in the GPU's memory too; in a product a thread has a square of scores.
template <bool KEYS_BELOW, class F> __device__ inline void each_score(Squares& scores, F f) {
#pragma unroll 1
    for (int n = threadIdx.x; n < ROWS * ROWS; n += THREADS) {
        int query = n / ROWS, key = n % ROWS;
        int row = KEYS_BELOW ? key : query, column = KEYS_BELOW ? query : key;
        f(query, key, scores[column][row % SIDE].x[row / SIDE]);
    }
}

// Copies this thread's square into shared memory. Until other threads read it, a thread may still change its own columns.
__device__ inline void write(Squares& to, const Square& s) {
#pragma unroll
    for (int c = 0; c < EACH; c++) {
        Column column;
#pragma unroll
        for (int r = 0; r < EACH; r++) column.x[r] = s[r][c];
        to[my_column(c)][thread_row()] = column;
    }
}

// results += s b. The threads of a row read only squares that this row wrote. They are in one warp: so the caller needs
// __syncwarp between writing and reading, and not the barrier of the whole block.
__device__ inline void add_products(Results& results, const Squares& s, const Rows& b) {
#pragma unroll 1
    for (int n = 0; n < ROWS; n++) {
        Column factor = s[n][thread_row()];
#pragma unroll
        for (int c = 0; c < PIECES_EACH; c++) {
            if (PIECES % SIDE && my_column(c) >= PIECES) continue;  // the row has no piece for this thread
            Piece y = b[n][my_column(c)];
#pragma unroll
            for (int r = 0; r < EACH; r++) {
#pragma unroll
                for (int e = 0; e < PIECE; e++) results[r][c].x[e] += factor.x[r] * y.x[e];
            }
        }
    }
}
