// Products of matrices on ordinary cores, for heads: a block of SIDE x SIDE threads, ROWS rows of HEAD numbers on each side.
//
//     s = a b^T                (ROWS,ROWS)  the dot product of each row of a with each row of b
//     results = s b            (ROWS,HEAD)  to each row the rows of b, times its numbers in s
//
// A thread that read two numbers for each multiplication would wait for shared memory most of the time. So a thread computes a
// square of EACH x EACH numbers of s: it reads EACH rows of a and EACH rows of b, piece by piece, and uses each number EACH
// times. s goes through shared memory once, and then the same threads sum up EACH rows of the results, some columns each.
//
// How fast can it be with EACH = 4 and pieces of 4 floats? For 64 multiplications of s a thread reads 8 pieces. Four warps
// multiply at once, so 64 multiplications of a warp take 16 clocks of a multiprocessor; shared memory, which gives one warp
// 128 bytes a clock, needs 8 clocks for the different pieces among them, or 16 if each half of a warp has a clock of its own.
// For 32 multiplications of the results, 8 clocks, a thread reads 3 pieces: 3 to 6 clocks. (Counted, not measured.)
//
// Chosen when this is compiled: HEAD; SIDE, a power of 2; EACH, 4, 2 or 1: smaller where heads are large, because four times
// ROWS rows must find room in 48 KB.

const int ROWS = SIDE * EACH;
const int THREADS = SIDE * SIDE;

// What is read from memory at once: 16 bytes where HEAD allows it.
const int LONGEST = 16 / sizeof(wide);
const int PIECE = HEAD % LONGEST == 0 ? LONGEST : HEAD % 2 == 0 ? 2 : 1;
const int PIECES = HEAD / PIECE;              // of a row
const int MINE = (PIECES + SIDE - 1) / SIDE;  // of a row of the results, for one thread

// __launch_bounds__: eight blocks of 64 threads with 128 registers each fill the 65,536 registers of a multiprocessor. Heads
// that are larger, or read in short pieces, may take more, and doubles, of which each takes two.
const int BLOCKS = HEAD <= 64 && PIECE == 4 ? 8 : 1;

template <class Number, int N> struct alignas(N * sizeof(Number) < 16 ? N * sizeof(Number) : 16) Numbers {
    Number x[N];
};
typedef Numbers<wide, PIECE> Piece;
typedef wide Square[EACH][EACH];     // of one thread: [my row][my column]
typedef Piece Results[EACH][MINE];   // of one thread: [my row][my pieces]
// In shared memory. From row to row there is room for an odd number of pieces: then eight rows, one below the other, are in
// different banks.
typedef Piece Rows[ROWS][PIECES | 1];
typedef Numbers<wide, EACH> Column;      // of a square
typedef Column Squares[ROWS][SIDE | 1];  // all squares: [column of s][row of threads]

// Where a thread stands among the SIDE x SIDE threads. Two neighbours are below each other, the next two are beside them, and
// so on: a quarter of a warp reads few different pieces, and shared memory can give one to several threads at once. All
// threads of a row are in the same warp.
__device__ inline int thread_row() { return threadIdx.x % 2 + threadIdx.x / (2 * SIDE) * 2; }
__device__ inline int thread_column() { return threadIdx.x / 2 % SIDE; }

// The rows of a thread lie SIDE apart, so that neighbours have neighbouring rows. So do its columns, and its pieces.
__device__ inline int my_row(int r) { return thread_row() + r * SIDE; }
__device__ inline int my_column(int c) { return thread_column() + c * SIDE; }

// The sum, or the largest, of what the threads of a row have. Each of them gets it, with the same bits every time.
__device__ inline wide row_sum(wide value) {
    for (int apart = 2; apart <= SIDE; apart *= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}
__device__ inline wide row_max(wide value) {
    for (int apart = 2; apart <= SIDE; apart *= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, apart));
    return value;
}

__device__ inline Piece read(const real* from) {
    Numbers<real, PIECE> stored = *(const Numbers<real, PIECE>*)from;
    Piece piece;
#pragma unroll
    for (int e = 0; e < PIECE; e++) piece.x[e] = stored.x[e];
    return piece;
}

// ROWS rows, of which `rows` are there, times a factor into shared memory; zeros for the others. In the GPU's memory rows are
// `stride` numbers apart. Neighbouring threads read neighbouring pieces.
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

// The results of all threads to rows that are `stride` apart, of which `rows` are there.
__device__ inline void store(real* to, int stride, int rows, const Results& results) {
#pragma unroll
    for (int r = 0; r < EACH; r++) {
#pragma unroll
        for (int c = 0; c < MINE; c++) {
            if (my_row(r) >= rows || my_column(c) >= PIECES) continue;
            Numbers<real, PIECE> stored;
#pragma unroll
            for (int e = 0; e < PIECE; e++) stored.x[e] = results[r][c].x[e];
            *(Numbers<real, PIECE>*)(to + my_row(r) * stride + my_column(c) * PIECE) = stored;
        }
    }
}

__device__ inline void multiply(Piece (&row)[MINE], wide factor) {
#pragma unroll
    for (int c = 0; c < MINE; c++) {
#pragma unroll
        for (int e = 0; e < PIECE; e++) row[c].x[e] *= factor;
    }
}

// s += a b^T. No thread needs to wait here. But the compiler moves nothing over __syncwarp: without it, it begins what comes
// before and after during the product, and has more numbers at once than registers.
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

// My square into shared memory. Until others read it, each thread may still read and change its own columns there.
__device__ inline void write(Squares& to, const Square& s) {
#pragma unroll
    for (int c = 0; c < EACH; c++) {
        Column column;
#pragma unroll
        for (int r = 0; r < EACH; r++) column.x[r] = s[r][c];
        to[my_column(c)][thread_row()] = column;
    }
}

// results += s b. A row of threads reads the squares that it has written itself, and is in one warp: so it is enough that the
// threads of a warp have met, by __syncwarp.
__device__ inline void add_products(Results& results, const Squares& s, const Rows& b) {
#pragma unroll 1
    for (int n = 0; n < ROWS; n++) {
        Column factor = s[n][thread_row()];
#pragma unroll
        for (int c = 0; c < MINE; c++) {
            if (PIECES % SIDE && my_column(c) >= PIECES) continue;  // too many threads
            Piece y = b[n][my_column(c)];
#pragma unroll
            for (int r = 0; r < EACH; r++) {
#pragma unroll
                for (int e = 0; e < PIECE; e++) results[r][c].x[e] += factor.x[r] * y.x[e];
            }
        }
    }
}
