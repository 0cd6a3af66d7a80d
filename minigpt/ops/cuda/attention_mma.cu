// Causal self-attention as in attention.cu, on tensor cores: qkv (B,T,3C) -> out (B,T,C), C = NH * HEAD.
//
// Every product is one of mma.cuh: rows which a warp holds in registers, with rows of a tile in shared memory. A block of
// WARPS warps owns some rows of one head, queries or keys, and meets the other side in tiles of TILE rows. While it
// computes with one tile, the next one comes. (Dao 2023, FlashAttention-2.) Chosen when this is compiled: HEAD and TILE,
// multiples of 16; DROPS, whether there is a dropout; and how many rows a warp has in each of the three kernels, 16 or 32:
// ROWS_FORWARD, ROWS_Q and ROWS_KV. Arrays begin at multiples of 16 bytes.
//
// Scores, sums and statistics are float; p and ds are rounded, because factors of a product must be.
//
// A product of 16 x 8 x 16 numbers is one instruction. What each score needs besides is many more, so every one of them
// counts. exp(x) = 2^(x log2 e): a power of 2 is one instruction (CuPy compiles with -ftz=true: results below 2^-126 are
// 0; without it exp2f is four), and log2 e goes into the factor that scores have anyway. lse is a logarithm to base 2.
// The mask is tested only in tiles on the diagonal. And addresses are not computed again for every tile. The scale is
// above 0: a score that is hidden is LOWEST before it is scaled.
//
// Why 32 rows. Each warp reads every row of a tile out of shared memory, which gives 128 bytes a cycle to all warps of a
// multiprocessor. 16 rows of k are 2 KB in bfloat16 with HEAD 64, and so are those of v: a forward pass in which a warp
// has 16 queries reads 4096 bytes for 16 x 16 scores, 16 for each, and the copies to shared memory, which 64 queries of a
// block share, write 4 more. With 32 queries it reads 8 and writes 2: half as much. With B 16, T 1024 and 12 heads, 12
// layers have 1.28e9 scores, those of the diagonal's tiles in full, and 132 multiprocessors at 1.76 GHz read 3.0e13 bytes
// a second: 0.87 ms with 16 rows, 0.43 with 32. The products take 0.56 ms on the tensor cores. So a forward pass is
// bound by shared memory with 16 rows, and by its products with 32. In the same way attention_backward_q falls from 1.16
// to 0.80 ms. Predicted: 0.7 ms a step less; not yet measured on a GPU. The third kernel holds four matrices in
// registers. 32 rows of HEAD 64 are 192 of the 255 that a thread can have, and the scores of a chunk 32 more: registers
// would be kept in memory. So it has 16 rows there, and 1.49 ms.

const int PLAIN = 1;

#include "common.cuh"
#include "heads.cuh"
#include "mma.cuh"

const int WARPS = 4, THREADS = WARPS * WARP;
const int PADDED = HEAD + PIECE;  // 16 bytes more: eight rows, one below the other, are in different banks of shared memory
const int WIDE = TILE / 8;  // fragments c that stand side by side over a tile's rows
const int STEPS = HEAD / DEPTH, COLUMNS = HEAD / 8;  // fragments a and fragments c in a row of a head

typedef real Tile[TILE][PADDED];

const wide LOG2E = 1.4426950408889634;
const int PIECES = HEAD / PIECE, STEP = THREADS / PIECES;  // pieces of 16 bytes in a row; rows that a block copies at once

// How many blocks a multiprocessor should have at the same time, of its 65536 registers: the compiler limits those of a
// thread to make that possible. Of each row tile a thread holds `factors` and `results`, matrices of the size of a head,
// and `scores` fragments; 48 registers are for everything else.
__device__ constexpr int blocks_at_once(int rows, int factors, int results, int scores) {
    int registers = rows / SIDE * 4 * (factors * STEPS + results * COLUMNS + scores) + 48;
    int blocks = 65536 / THREADS / registers;
    return blocks < 1 || HEAD > 64 ? 1 : blocks > 4 ? 4 : blocks;
}

// What a thread copies of the tiles of a head, which follow each other: the same piece of every STEP-th row. Only `rows`
// rows are left, of matrices whose rows are `stride` numbers apart.
struct Stream {
    int row, column, rows;
    __device__ Stream(int rows) : row(threadIdx.x / PIECES), column(threadIdx.x % PIECES * PIECE), rows(rows) {}

    // My first piece of a matrix.
    __device__ const real* mine(const real* head, int stride) const { return head + (long long)row * stride + column; }

    // Begin to copy TILE rows, of which `from` is my first piece, into shared memory.
    __device__ void copy(Tile& tile, const real* from, int stride) const {
#pragma unroll
        for (int r = 0; r < TILE; r += STEP) {
            if ((THREADS % PIECES && row >= STEP) || (TILE % STEP && row + r >= TILE)) continue;  // too many threads
            cp_async_16(&tile[row + r][column], from + (long long)r * stride, row + r < rows);
        }
    }
};

// The copies under way have arrived, for every thread, and no thread reads the tile before any more.
__device__ inline void arrive() {
    cp_async_wait_all();
    __syncthreads();
}

// s = q k^T / sqrt(D),   p = softmax(s),   out = dropout(p) v,   lse = log2 sum exp(s).
//
// A softmax that has not seen all keys yet, as in attention.cu; largest is the largest score before it is scaled. The
// sums are of what my own thread has seen: the four that share a row add up at the end. What a dropout keeps is stretched
// at the end too: p keeps its digits when it is rounded for the product with v.
extern "C" __launch_bounds__(THREADS, blocks_at_once(ROWS_FORWARD, 1, 1, WIDE + 4 * DROPS)) __global__ void attention_forward(
    real* out, wide* lse, const real* qkv, int length, int n_head, wide scale, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    const int ROWS = ROWS_FORWARD, M = ROWS / SIDE;  // rows and row tiles of a warp
    __shared__ __align__(16) Tile k[2], v[2];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = (gridDim.x - 1 - blockIdx.x) * WARPS * ROWS;  // its first query; blocks with most keys go first
    int warp_first = block_first + threadIdx.x / WARP * ROWS;  // the first of this warp
    int stride = 3 * heads.columns, end = min(length, block_first + WARPS * ROWS);
    wide scale_log2e = scale * LOG2E;
    wide largest[M][2], before[M][2], shift[M][2], sum[M][2] = {};  // of rows g and g + 8 of each row tile
    FragmentA q[M][STEPS];
    FragmentC o[M][COLUMNS] = {};
    load(q, qkv + heads.packed(0, warp_first), stride, length - warp_first);
    round_all(q);
#pragma unroll
    for (int m = 0; m < M; m++) largest[m][0] = largest[m][1] = LOWEST;

    Stream tiles(length);
    const real* next = tiles.mine(qkv + heads.packed(1, 0), stride);  // keys, and their values beside them
    auto fetch = [&](int to) {
        tiles.copy(k[to], next, stride);
        tiles.copy(v[to], next + heads.columns, stride);
        next += (long long)TILE * stride;
        tiles.rows -= TILE;
    };
    fetch(0);
    for (int tile = 0, current = 0; tile < end; tile += TILE, current = 1 - current) {
        arrive();
        if (tile + TILE < end) fetch(1 - current);  // comes while this one is used
        if (tile >= warp_first + ROWS) continue;  // causal: other warps of the block see these keys
        FragmentC s[M][WIDE] = {};
        add_times_transposed(s, q, k[current]);
        if (tile + TILE > warp_first + 1) {  // causal: keys up to a query's own place
            each<M, WIDE>([&](int m, int n, int e, int row, int column) {
                if (tile + column > warp_first + row) s[m][n].x[e] = LOWEST;
            });
        }

#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int half = 0; half < 2; half++) before[m][half] = largest[m][half];
        }
        each<M, WIDE>([&](int m, int n, int e, int, int) {
            largest[m][e / 2] = max(largest[m][e / 2], s[m][n].x[e]);
        });
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                largest[m][half] = row_max(largest[m][half]);
                before[m][half] = exp2f((before[m][half] - largest[m][half]) * scale_log2e);  // stretches sum and o
                sum[m][half] *= before[m][half];
                shift[m][half] = largest[m][half] * scale_log2e;
            }
        }
        each<M, COLUMNS>([&](int m, int n, int e, int, int) { o[m][n].x[e] *= before[m][e / 2]; });
        each<M, WIDE>([&](int m, int n, int e, int, int) {
            s[m][n].x[e] = exp2f(s[m][n].x[e] * scale_log2e - shift[m][e / 2]);
            sum[m][e / 2] += s[m][n].x[e];
        });
        if (DROPS) {
            each<M, WIDE>([&](int m, int n, int e, int row, int column) {
                s[m][n].x[e] = drop(s[m][n].x[e], heads.index(first, warp_first + row, tile + column));
            });
        }
        add_times(o, s, v[current]);
    }

#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int i = warp_first + m * SIDE + row_of(2 * half);
            sum[m][half] = row_sum(sum[m][half]);
            if (lane() % 4 == 0 && i < length) lse[(long long)blockIdx.y * length + i] = shift[m][half] + log2f(sum[m][half]);
        }
    }
    each<M, COLUMNS>([&](int m, int n, int e, int, int) { o[m][n].x[e] *= stretch / sum[m][e / 2]; });
    store(out + heads.plain(warp_first), heads.columns, length - warp_first, o, 1);
}

// With keep the dropout of each probability, times 1 / (1 - rate):
//     p = 2^(s log2 e - lse)          the probability again, from what was kept of its row
//     dp = keep (dout v^T)            out = (keep p) v
//     ds = p (dp - delta)             p = softmax(s),   delta = sum_j p dp = dout . out: no need to see all keys first
//     dq = ds k scale                 s = q k^T scale
//
// A warp has queries, as in the forward pass, and goes through a tile in chunks of 16 keys.
extern "C" __launch_bounds__(THREADS, blocks_at_once(ROWS_Q, 2, 1, 4)) __global__ void attention_backward_q(
    real* dqkv, wide* delta, const real* gradients, const real* out, const wide* lse, const real* qkv, int length, int n_head,
    wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    const int ROWS = ROWS_Q, M = ROWS / SIDE;
    __shared__ __align__(16) Tile k[2], v[2];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = (gridDim.x - 1 - blockIdx.x) * WARPS * ROWS;
    int warp_first = block_first + threadIdx.x / WARP * ROWS;
    int stride = 3 * heads.columns, end = min(length, block_first + WARPS * ROWS);
    wide scale_log2e = scale * LOG2E, my_delta[M][2] = {}, my_lse[M][2] = {};
    FragmentA q[M][STEPS], dout[M][STEPS];
    FragmentC dq[M][COLUMNS] = {};
    load(dout, gradients + heads.plain(warp_first), heads.columns, length - warp_first);
    {
        FragmentA o[M][STEPS];
        load(o, out + heads.plain(warp_first), heads.columns, length - warp_first);
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int n = 0; n < STEPS; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) my_delta[m][i % 2] += dot(o[m][n].word[i], dout[m][n].word[i]);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int i = warp_first + m * SIDE + row_of(2 * half);
            long long row = (long long)blockIdx.y * length + i;
            my_delta[m][half] = row_sum(my_delta[m][half]);
            if (i < length) {
                if (lane() % 4 == 0) delta[row] = my_delta[m][half];
                my_lse[m][half] = lse[row];
            }
        }
    }
    load(q, qkv + heads.packed(0, warp_first), stride, length - warp_first);
    round_all(q);
    round_all(dout);

    Stream tiles(length);
    const real* next = tiles.mine(qkv + heads.packed(1, 0), stride);  // keys, and their values beside them
    auto fetch = [&](int to) {
        tiles.copy(k[to], next, stride);
        tiles.copy(v[to], next + heads.columns, stride);
        next += (long long)TILE * stride;
        tiles.rows -= TILE;
    };
    fetch(0);
    for (int tile = 0, current = 0; tile < end; tile += TILE, current = 1 - current) {
        arrive();
        if (tile + TILE < end) fetch(1 - current);  // comes while this one is used
        for (int chunk = 0; chunk < TILE; chunk += SIDE) {
            if (tile + chunk >= warp_first + ROWS) break;  // causal
            FragmentC s[M][2] = {}, dp[M][2] = {};
            add_times_transposed(s, q, &k[current][chunk]);
            add_times_transposed(dp, dout, &v[current][chunk]);
            if (tile + chunk >= warp_first) {
                each<M, 2>([&](int m, int n, int e, int row, int column) {
                    if (tile + chunk + column > warp_first + row) s[m][n].x[e] = LOWEST;
                });
            }
            each<M, 2>([&](int m, int n, int e, int row, int column) {
                wide p = exp2f(s[m][n].x[e] * scale_log2e - my_lse[m][e / 2]), slope = dp[m][n].x[e] * stretch;
                if (DROPS) slope = drop(slope, heads.index(first, warp_first + row, tile + chunk + column));
                s[m][n].x[e] = p * (slope - my_delta[m][e / 2]);
            });
            add_times(dq, s, &k[current][chunk]);
        }
    }
    store(dqkv + heads.packed(0, warp_first), stride, length - warp_first, dq, scale);
}

//     dv = (keep p)^T dout            out = (keep p) v
//     dk = ds^T q scale               s = q k^T scale
//
// Many queries look at one key. So here a warp owns keys and meets the queries, in order and in tiles: no other warp
// adds to its dk and dv. What it computes is s^T and dp^T: keys below each other, queries side by side. p and ds are
// computed once more, which is the price of doing without atomics. A query beyond the end is zeros, dout, lse and delta
// too: p is 1, and adds 0.
extern "C" __launch_bounds__(THREADS, blocks_at_once(ROWS_KV, 2, 2, 4)) __global__ void attention_backward_kv(
    real* dqkv, const wide* delta, const real* gradients, const wide* lse, const real* qkv, int length, int n_head, wide scale,
    unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    const int ROWS = ROWS_KV, M = ROWS / SIDE;
    __shared__ __align__(16) Tile q[2], dout[2];
    __shared__ wide lses[2][TILE], deltas[2][TILE];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = blockIdx.x * WARPS * ROWS;  // its first key; blocks with most queries go first
    int warp_first = block_first + threadIdx.x / WARP * ROWS;
    int stride = 3 * heads.columns;
    wide scale_log2e = scale * LOG2E;
    FragmentA k[M][STEPS], v[M][STEPS];
    FragmentC dk[M][COLUMNS] = {}, dv[M][COLUMNS] = {};
    load(k, qkv + heads.packed(1, warp_first), stride, length - warp_first);
    load(v, qkv + heads.packed(2, warp_first), stride, length - warp_first);
    round_all(k);
    round_all(v);

    Stream tiles(length - block_first);
    const real* next_q = tiles.mine(qkv + heads.packed(0, block_first), stride);
    const real* next_dout = tiles.mine(gradients + heads.plain(block_first), heads.columns);
    auto fetch = [&](int to, int tile) {
        tiles.copy(q[to], next_q, stride);
        tiles.copy(dout[to], next_dout, heads.columns);
        next_q += (long long)TILE * stride;
        next_dout += (long long)TILE * heads.columns;
        tiles.rows -= TILE;
        int n = threadIdx.x;
        if (n >= TILE) return;
        long long row = (long long)blockIdx.y * length + tile + n;
        cp_async_4(&lses[to][n], lse + row, tile + n < length);
        cp_async_4(&deltas[to][n], delta + row, tile + n < length);
    };
    fetch(0, block_first);  // earlier queries see no key of this block
    for (int tile = block_first, current = 0; tile < length; tile += TILE, current = 1 - current) {
        arrive();
        if (tile + TILE < length) fetch(1 - current, tile + TILE);
        for (int chunk = 0; chunk < TILE; chunk += SIDE) {
            if (tile + chunk + SIDE <= warp_first) continue;  // causal
            FragmentC s[M][2] = {}, dp[M][2] = {};
            add_times_transposed(s, k, &q[current][chunk]);
            add_times_transposed(dp, v, &dout[current][chunk]);
            if (tile + chunk < warp_first + ROWS) {
                each<M, 2>([&](int m, int n, int e, int row, int column) {
                    if (warp_first + row > tile + chunk + column) s[m][n].x[e] = LOWEST;
                });
            }
            each<M, 2>([&](int m, int n, int e, int row, int column) {
                wide p = exp2f(s[m][n].x[e] * scale_log2e - lses[current][chunk + column]);
                wide keep = DROPS ? drop(1, heads.index(first, tile + chunk + column, warp_first + row)) : 1;
                s[m][n].x[e] = p * keep;
                dp[m][n].x[e] = p * (dp[m][n].x[e] * keep * stretch - deltas[current][chunk + column]);
            });
            add_times(dv, s, &dout[current][chunk]);
            add_times(dk, dp, &q[current][chunk]);
        }
    }
    store(dqkv + heads.packed(1, warp_first), stride, length - warp_first, dk, scale);
    store(dqkv + heads.packed(2, warp_first), stride, length - warp_first, dv, stretch);
}
