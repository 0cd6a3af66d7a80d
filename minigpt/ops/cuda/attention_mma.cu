// Causal self-attention as in attention.cu, in bfloat16 and on tensor cores: qkv (B,T,3C) -> out (B,T,C), C = NH * HEAD.
//
// Every product is one of mma.cuh: 16 rows, which a warp holds in registers, with 16 rows of a tile in shared memory. A
// block of WARPS warps owns ROWS rows of one head, queries or keys, and meets the other side in tiles of TILE rows. While
// it computes with one tile, the next one comes. (Dao 2023, FlashAttention-2.) Chosen when this is compiled: HEAD, a
// multiple of 16; TILE, a multiple of 16 of which ROWS is one too; and DROPS, whether there is a dropout. Arrays begin at
// multiples of 16 bytes.
//
// Scores, sums and statistics are float; p and ds are rounded to bfloat16, because factors of a product must be.
//
// A product of 16 x 8 x 16 numbers is one instruction. What each score needs besides is many more, so every one of them
// counts. exp(x) = 2^(x log2 e): a power of 2 is one instruction, and log2 e goes into the factor that scores have anyway.
// lse is a logarithm to base 2. The mask is tested only in tiles on the diagonal. And addresses are not computed
// again for every tile.

const int PLAIN = 1;

#include "common.cuh"
#include "heads.cuh"
#include "mma.cuh"

const int WARPS = 4, THREADS = WARPS * WARP, ROWS = WARPS * SIDE;
const int PADDED = HEAD + 8;  // 16 bytes more: eight rows, one below the other, are in different banks of shared memory
const bool FEW = HEAD <= 64;  // numbers in a head, so few that a multiprocessor has registers for three or four blocks
const int WIDE = TILE / 8;  // fragments c that stand side by side over a tile's rows

typedef real Tile[TILE][PADDED];
typedef FragmentA RowsAsA[HEAD / SIDE];  // 16 rows of a head, as the factor a of a product
typedef FragmentC RowsAsC[HEAD / 8];  // and as its result c

const wide LOG2E = 1.4426950408889634;
const int PIECES = HEAD / 8, STEP = THREADS / PIECES;  // pieces of 16 bytes in a row; rows that a block copies at once

// What a thread copies of the tiles of a head, which follow each other: the same piece of every STEP-th row. Rows are
// `stride` numbers apart, and only `rows` of them are there.
struct Stream {
    int row, column, stride, rows;
    const real* from;
    __device__ Stream(const real* head, int stride, int rows)
        : row(threadIdx.x / PIECES), column(threadIdx.x % PIECES * 8), stride(stride), rows(rows),
          from(head + (long long)row * stride + column) {}

    // Begin to copy the next TILE rows, or what stands `beside` numbers behind them, into shared memory.
    __device__ void copy_next(Tile& tile, int beside = 0) {
#pragma unroll
        for (int r = 0; r < TILE; r += STEP) {
            if ((THREADS % PIECES && row >= STEP) || (TILE % STEP && row + r >= TILE)) continue;  // too many threads
            cp_async_16(&tile[row + r][column], from + beside + (long long)r * stride, row + r < rows);
        }
    }
    __device__ void advance() {
        from += (long long)TILE * stride;
        rows -= TILE;
    }
};

// The copies under way have arrived, for every thread, and no thread reads the tile before any more.
__device__ inline void arrive() {
    cp_async_wait_all();
    __syncthreads();
}

// s = q k^T / sqrt(D),   p = softmax(s),   out = dropout(p) v,   lse = log2 sum exp(s).
//
// A softmax that has not seen all keys yet, as in attention.cu; m is the largest score before it is scaled. The sums z
// are of what my own thread has seen: the four that share a row add up at the end. What a dropout keeps is stretched at
// the end too: p keeps its digits when it is rounded to bfloat16 for the product with v.
extern "C" __launch_bounds__(THREADS, FEW ? 4 - DROPS : 1) __global__ void attention_forward(
    real* out, wide* lse, const real* qkv, int length, int n_head, wide scale, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    __shared__ __align__(16) Tile k[2], v[2];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = (gridDim.x - 1 - blockIdx.x) * ROWS;  // its first query; blocks with most keys go first
    int warp_first = block_first + threadIdx.x / WARP * SIDE;  // the first of this warp
    int stride = 3 * heads.columns, end = min(length, block_first + ROWS);
    wide scale_log2e = scale * LOG2E, m[2] = {LOWEST, LOWEST}, z[2] = {0, 0}, shift[2];
    RowsAsA q;
    RowsAsC o = {};
    load(q, qkv + heads.packed(0, warp_first), stride, length - warp_first);

    Stream kv_tiles(qkv + heads.packed(1, 0), stride, length);  // keys, and their values beside them
    auto fetch = [&](int to) {
        kv_tiles.copy_next(k[to]);
        kv_tiles.copy_next(v[to], heads.columns);
        kv_tiles.advance();
    };
    fetch(0);
    for (int tile = 0, current = 0; tile < end; tile += TILE, current = 1 - current) {
        arrive();
        if (tile + TILE < end) fetch(1 - current);  // comes while this one is used
        FragmentC s[WIDE] = {};
#pragma unroll
        for (int n = 0; n < WIDE; n += 2) add_times_transposed(s + n, q, &k[current][n * 8]);
        if (tile + TILE > warp_first + 1) {  // causal: keys up to a query's own place
            each<WIDE>([&](int n, int e, int row, int column) {
                if (tile + column > warp_first + row) s[n].x[e] = LOWEST;
            });
        }

        wide before[2] = {m[0], m[1]};  // the largest before this tile, and then how far it stretches z and o
        each<WIDE>([&](int n, int e, int, int) { m[e / 2] = max(m[e / 2], s[n].x[e]); });
        for (int half = 0; half < 2; half++) {
            m[half] = row_max(m[half]);
            before[half] = exp2f((before[half] - m[half]) * scale_log2e);
            z[half] *= before[half];
            shift[half] = m[half] * scale_log2e;
        }
        each<HEAD / 8>([&](int n, int e, int, int) { o[n].x[e] *= before[e / 2]; });
        each<WIDE>([&](int n, int e, int, int) {
            s[n].x[e] = exp2f(s[n].x[e] * scale_log2e - shift[e / 2]);
            z[e / 2] += s[n].x[e];
        });

        if (DROPS) {
            each<WIDE>([&](int n, int e, int row, int column) {
                s[n].x[e] = drop(s[n].x[e], heads.index(first, warp_first + row, tile + column));
            });
        }
#pragma unroll
        for (int n = 0; n < WIDE; n += 2) add_times(o, round_to_a(s + n), &v[current][n * 8]);
    }
    for (int half = 0; half < 2; half++) {
        int i = warp_first + row_of(2 * half);
        z[half] = row_sum(z[half]);
        if (lane() % 4 == 0 && i < length) lse[(long long)blockIdx.y * length + i] = shift[half] + log2f(z[half]);
    }
    store(out + heads.plain(warp_first), heads.columns, length - warp_first, o, stretch / z[0], stretch / z[1]);
}

// With keep the dropout of each probability, times 1 / (1 - rate):
//     p = 2^(s log2 e - lse)          the probability again, from what was kept of its row
//     dp = keep (dout v^T)            out = (keep p) v
//     ds = p (dp - delta)             p = softmax(s),   delta = sum_j p dp = dout . out: no need to see all keys first
//     dq = ds k scale                 s = q k^T scale
//
// A warp has 16 queries, as in the forward pass, and goes through a tile in chunks of 16 keys.
extern "C" __launch_bounds__(THREADS, FEW ? 4 : 1) __global__ void attention_backward_q(
    real* dqkv, wide* delta, const real* gradients, const real* out, const wide* lse, const real* qkv, int length, int n_head,
    wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    __shared__ __align__(16) Tile k[2], v[2];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = (gridDim.x - 1 - blockIdx.x) * ROWS;
    int warp_first = block_first + threadIdx.x / WARP * SIDE;
    int stride = 3 * heads.columns, end = min(length, block_first + ROWS);
    wide scale_log2e = scale * LOG2E, my_delta[2] = {0, 0}, my_lse[2] = {0, 0};
    RowsAsA q, dout, o;
    RowsAsC dq = {};
    load(q, qkv + heads.packed(0, warp_first), stride, length - warp_first);
    load(dout, gradients + heads.plain(warp_first), heads.columns, length - warp_first);
    load(o, out + heads.plain(warp_first), heads.columns, length - warp_first);
    for (int n = 0; n < HEAD / SIDE; n++) {
        for (int i = 0; i < 4; i++) {  // words 0 and 2 are of row g, words 1 and 3 of row g + 8
            my_delta[i % 2] += first_of(o[n].word[i]) * first_of(dout[n].word[i]);
            my_delta[i % 2] += second_of(o[n].word[i]) * second_of(dout[n].word[i]);
        }
    }
    for (int half = 0; half < 2; half++) {
        int i = warp_first + row_of(2 * half);
        long long row = (long long)blockIdx.y * length + i;
        my_delta[half] = row_sum(my_delta[half]);
        if (i < length) {
            if (lane() % 4 == 0) delta[row] = my_delta[half];
            my_lse[half] = lse[row];
        }
    }

    Stream kv_tiles(qkv + heads.packed(1, 0), stride, length);  // keys, and their values beside them
    auto fetch = [&](int to) {
        kv_tiles.copy_next(k[to]);
        kv_tiles.copy_next(v[to], heads.columns);
        kv_tiles.advance();
    };
    fetch(0);
    for (int tile = 0, current = 0; tile < end; tile += TILE, current = 1 - current) {
        arrive();
        if (tile + TILE < end) fetch(1 - current);  // comes while this one is used
        for (int chunk = 0; chunk < TILE; chunk += SIDE) {
            if (tile + chunk >= warp_first + SIDE) break;  // causal
            FragmentC s[2] = {}, dp[2] = {};
            add_times_transposed(s, q, &k[current][chunk]);
            add_times_transposed(dp, dout, &v[current][chunk]);
            if (tile + chunk == warp_first) {
                each<2>([&](int n, int e, int row, int column) { if (column > row) s[n].x[e] = LOWEST; });
            }
            each<2>([&](int n, int e, int row, int column) {
                if (DROPS) dp[n].x[e] = drop(dp[n].x[e], heads.index(first, warp_first + row, tile + chunk + column));
                s[n].x[e] = exp2f(s[n].x[e] * scale_log2e - my_lse[e / 2]) * (dp[n].x[e] * stretch - my_delta[e / 2]);
            });
            add_times(dq, round_to_a(s), &k[current][chunk]);
        }
    }
    store(dqkv + heads.packed(0, warp_first), stride, length - warp_first, dq, scale, scale);
}

//     dv = (keep p)^T dout            out = (keep p) v
//     dk = ds^T q scale               s = q k^T scale
//
// Many queries look at one key. So here a warp owns 16 keys and meets the queries, in order and in tiles: no other warp
// adds to its dk and dv. What it computes is s^T and dp^T: keys below each other, queries side by side. p and ds are
// computed once more, which is the price of doing without atomics. A query beyond the end is zeros, dout, lse and delta
// too: p is 1, and adds 0.
extern "C" __launch_bounds__(THREADS, FEW ? 3 : 1) __global__ void attention_backward_kv(
    real* dqkv, const wide* delta, const real* gradients, const wide* lse, const real* qkv, int length, int n_head, wide scale,
    unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    __shared__ __align__(16) Tile q[2], dout[2];
    __shared__ wide lses[2][TILE], deltas[2][TILE];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = blockIdx.x * ROWS;  // its first key; blocks with most queries go first
    int warp_first = block_first + threadIdx.x / WARP * SIDE;
    int stride = 3 * heads.columns;
    wide scale_log2e = scale * LOG2E;
    RowsAsA k, v;
    RowsAsC dk = {}, dv = {};
    load(k, qkv + heads.packed(1, warp_first), stride, length - warp_first);
    load(v, qkv + heads.packed(2, warp_first), stride, length - warp_first);

    Stream q_tiles(qkv + heads.packed(0, block_first), stride, length - block_first);
    Stream dout_tiles(gradients + heads.plain(block_first), heads.columns, length - block_first);
    auto fetch = [&](int to, int tile) {
        q_tiles.copy_next(q[to]);
        dout_tiles.copy_next(dout[to]);
        q_tiles.advance();
        dout_tiles.advance();
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
            FragmentC s[2] = {}, dp[2] = {};
            add_times_transposed(s, k, &q[current][chunk]);
            add_times_transposed(dp, v, &dout[current][chunk]);
            if (tile + chunk == warp_first) {
                each<2>([&](int n, int e, int row, int column) { if (row > column) s[n].x[e] = LOWEST; });
            }
            each<2>([&](int n, int e, int row, int column) {
                wide p = exp2f(s[n].x[e] * scale_log2e - lses[current][chunk + column]);
                wide keep = DROPS ? drop(1, heads.index(first, tile + chunk + column, warp_first + row)) : 1;
                s[n].x[e] = p * keep;
                dp[n].x[e] = p * (dp[n].x[e] * keep * stretch - deltas[current][chunk + column]);
            });
            add_times(dv, round_to_a(s), &dout[current][chunk]);
            add_times(dk, round_to_a(dp), &q[current][chunk]);
        }
    }
    store(dqkv + heads.packed(1, warp_first), stride, length - warp_first, dk, scale, scale);
    store(dqkv + heads.packed(2, warp_first), stride, length - warp_first, dv, stretch, stretch);
}
