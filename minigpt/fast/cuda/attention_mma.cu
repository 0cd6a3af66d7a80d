// Causal self-attention as in attention.cu, in bfloat16 and on tensor cores: qkv (B,T,3C) -> out (B,T,C), C = NH * HEAD.
//
// Every product is one of mma.cuh: 16 rows, which a warp holds in registers, with 16 rows of a tile in shared memory. A
// block of WARPS warps owns ROWS rows of one head, queries or keys, and meets the other side in tiles of TILE rows. While
// it computes with one tile, the next one comes. (Dao 2023, FlashAttention-2.) HEAD, a multiple of 16, and TILE, a
// multiple of 16 of which ROWS is one too, are chosen when this is compiled. Arrays begin at multiples of 16 bytes.
//
// Scores, sums and statistics are float; p and ds are rounded to bfloat16, because factors of a product must be. __expf
// is exp with fewer right digits, but more than bfloat16 has.

#include "common.cuh"
#include "heads.cuh"
#include "mma.cuh"

const int WARPS = 4, THREADS = WARPS * WARP, ROWS = WARPS * SIDE;
const int PADDED = HEAD + 8;  // 16 bytes more: eight rows, one below the other, are in different banks of shared memory
const int WIDE = TILE / 8;  // fragments c that stand side by side over a tile's rows

typedef real Tile[TILE][PADDED];
typedef FragmentA Held[HEAD / SIDE];  // 16 rows of a head, as a
typedef FragmentC Sums[HEAD / 8];  // and as c

// TILE rows of a head, `stride` numbers apart, on their way into shared memory. Only `rows` of them are there.
__device__ inline void fetch(Tile& tile, const real* from, int stride, int rows) {
    const int PIECES = HEAD / 8;  // of 16 bytes, in a row
    for (int n = threadIdx.x; n < TILE * PIECES; n += THREADS) {
        int row = n / PIECES, column = n % PIECES * 8;
        cp_async_16(&tile[row][column], from + (long long)row * stride + column, row < rows);
    }
}

// What was on its way is there, for every thread, and nobody reads the tile before any more.
__device__ inline void arrive() {
    cp_async_wait_all();
    __syncthreads();
}

// s = q k^T / sqrt(D),   p = softmax(s),   out = dropout(p) v,   lse = log sum exp(s).
//
// A softmax that has not seen all keys yet, as in attention.cu; m is the largest score before it is scaled. The sums z
// are of what my own thread has seen: the four that share a row add up at the end. What a dropout keeps is stretched at
// the end too: p keeps its digits when it is rounded to bfloat16 for the product with v.
extern "C" __global__ void attention_forward(
    real* out, wide* lse, const real* qkv, int length, int n_head, wide scale, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    __shared__ __align__(16) Tile k[2], v[2];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block = (gridDim.x - 1 - blockIdx.x) * ROWS;  // my block's first query; those with most keys go first
    int mine = block + threadIdx.x / WARP * SIDE;  // my warp's
    int stride = 3 * heads.columns, end = min(length, block + ROWS);
    wide m[2] = {LOWEST, LOWEST}, z[2] = {0, 0};
    Held q;
    Sums o = {};
    load(q, qkv + heads.packed(0, mine), stride, length - mine);

    auto fetch_keys = [&](int to, int tile) {
        fetch(k[to], qkv + heads.packed(1, tile), stride, length - tile);
        fetch(v[to], qkv + heads.packed(2, tile), stride, length - tile);
    };
    fetch_keys(0, 0);
    for (int tile = 0, now = 0; tile < end; tile += TILE, now = 1 - now) {
        arrive();
        if (tile + TILE < end) fetch_keys(1 - now, tile + TILE);  // comes while this one is used
        FragmentC s[WIDE] = {};
#pragma unroll
        for (int n = 0; n < WIDE; n += 2) add_times_transposed(s + n, q, &k[now][n * 8]);
        if (tile + TILE > mine + 1) {  // causal: keys up to a query's own place
            each<WIDE>([&](int n, int e, int row, int column) {
                if (tile + column > mine + row) s[n].x[e] = LOWEST;
            });
        }

        wide before[2] = {m[0], m[1]};  // the largest before this tile, and then how far it stretches z and o
        each<WIDE>([&](int n, int e, int, int) { m[e / 2] = max(m[e / 2], s[n].x[e]); });
        for (int half = 0; half < 2; half++) {
            m[half] = row_max(m[half]);
            before[half] = __expf((before[half] - m[half]) * scale);
            z[half] *= before[half];
        }
        each<HEAD / 8>([&](int n, int e, int, int) { o[n].x[e] *= before[e / 2]; });
        each<WIDE>([&](int n, int e, int, int) {
            s[n].x[e] = __expf((s[n].x[e] - m[e / 2]) * scale);
            z[e / 2] += s[n].x[e];
        });

        if (threshold) {
            each<WIDE>([&](int n, int e, int row, int column) {
                s[n].x[e] = drop(s[n].x[e], heads.index(first, mine + row, tile + column));
            });
        }
#pragma unroll
        for (int n = 0; n < WIDE; n += 2) add_times(o, round_to_a(s + n), &v[now][n * 8]);
    }
    for (int half = 0; half < 2; half++) {
        int i = mine + row_of(2 * half);
        z[half] = row_sum(z[half]);
        if (lane() % 4 == 0 && i < length) lse[(long long)blockIdx.y * length + i] = m[half] * scale + log(z[half]);
    }
    store(out + heads.plain(mine), heads.columns, length - mine, o, stretch / z[0], stretch / z[1]);
}

// With keep the dropout of each probability, times 1 / (1 - rate):
//     p = exp(s - lse)                the probability again, from what was kept of its row
//     dp = keep (dout v^T)            out = (keep p) v
//     ds = p (dp - delta)             p = softmax(s),   delta = sum_j p dp = dout . out: no need to see all keys first
//     dq = ds k scale                 s = q k^T scale
//
// A warp has 16 queries, as in the forward pass, and goes through a tile in chunks of 16 keys.
extern "C" __global__ void attention_backward_q(
    real* dqkv, wide* delta, const real* dout, const real* out, const wide* lse, const real* qkv, int length, int n_head,
    wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    __shared__ __align__(16) Tile k[2], v[2];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block = (gridDim.x - 1 - blockIdx.x) * ROWS;
    int mine = block + threadIdx.x / WARP * SIDE;
    int stride = 3 * heads.columns, end = min(length, block + ROWS);
    wide my_delta[2] = {0, 0}, my_lse[2] = {0, 0};
    Held q, go, o;
    Sums dq = {};
    load(q, qkv + heads.packed(0, mine), stride, length - mine);
    load(go, dout + heads.plain(mine), heads.columns, length - mine);
    load(o, out + heads.plain(mine), heads.columns, length - mine);
    for (int n = 0; n < HEAD / SIDE; n++) {
        for (int i = 0; i < 4; i++) {  // words 0 and 2 are of row g, words 1 and 3 of row g + 8
            my_delta[i % 2] += first_of(o[n].word[i]) * first_of(go[n].word[i]);
            my_delta[i % 2] += second_of(o[n].word[i]) * second_of(go[n].word[i]);
        }
    }
    for (int half = 0; half < 2; half++) {
        int i = mine + row_of(2 * half);
        long long row = (long long)blockIdx.y * length + i;
        my_delta[half] = row_sum(my_delta[half]);
        if (i < length) {
            if (lane() % 4 == 0) delta[row] = my_delta[half];
            my_lse[half] = lse[row];
        }
    }

    auto fetch_keys = [&](int to, int tile) {
        fetch(k[to], qkv + heads.packed(1, tile), stride, length - tile);
        fetch(v[to], qkv + heads.packed(2, tile), stride, length - tile);
    };
    fetch_keys(0, 0);
    for (int tile = 0, now = 0; tile < end; tile += TILE, now = 1 - now) {
        arrive();
        if (tile + TILE < end) fetch_keys(1 - now, tile + TILE);  // comes while this one is used
        for (int chunk = 0; chunk < TILE; chunk += SIDE) {
            if (tile + chunk >= mine + SIDE) break;  // causal
            FragmentC s[2] = {}, dp[2] = {};
            add_times_transposed(s, q, &k[now][chunk]);
            add_times_transposed(dp, go, &v[now][chunk]);
            if (threshold) {
                each<2>([&](int n, int e, int row, int column) {
                    dp[n].x[e] = drop(dp[n].x[e], heads.index(first, mine + row, tile + chunk + column));
                });
            }
            each<2>([&](int n, int e, int row, int column) {
                wide p = __expf(s[n].x[e] * scale - my_lse[e / 2]);
                if (tile + chunk + column > mine + row) p = 0;
                s[n].x[e] = p * (dp[n].x[e] * stretch - my_delta[e / 2]);
            });
            add_times(dq, round_to_a(s), &k[now][chunk]);
        }
    }
    store(dqkv + heads.packed(0, mine), stride, length - mine, dq, scale, scale);
}

//     dv = (keep p)^T dout            out = (keep p) v
//     dk = ds^T q scale               s = q k^T scale
//
// Many queries look at one key. So here a warp owns 16 keys and meets the queries, in order and in tiles: nobody else
// adds to its dk and dv. What it computes is s^T and dp^T: keys below each other, queries side by side. p and ds are
// computed once more, which is the price of doing without atomics. A query beyond the end is zeros, dout, lse and delta
// too: p is 1, and adds 0.
extern "C" __global__ void attention_backward_kv(
    real* dqkv, const wide* delta, const real* dout, const wide* lse, const real* qkv, int length, int n_head, wide scale,
    unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    __shared__ __align__(16) Tile q[2], go[2];
    __shared__ wide lses[2][TILE], deltas[2][TILE];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block = blockIdx.x * ROWS;  // my block's first key; those with most queries go first
    int mine = block + threadIdx.x / WARP * SIDE;
    int stride = 3 * heads.columns;
    Held k, v;
    Sums dk = {}, dv = {};
    load(k, qkv + heads.packed(1, mine), stride, length - mine);
    load(v, qkv + heads.packed(2, mine), stride, length - mine);

    auto fetch_queries = [&](int to, int tile) {
        fetch(q[to], qkv + heads.packed(0, tile), stride, length - tile);
        fetch(go[to], dout + heads.plain(tile), heads.columns, length - tile);
        long long row = (long long)blockIdx.y * length + tile;
        for (int n = threadIdx.x; n < TILE; n += THREADS) {
            cp_async_4(&lses[to][n], lse + row + n, tile + n < length);
            cp_async_4(&deltas[to][n], delta + row + n, tile + n < length);
        }
    };
    fetch_queries(0, block);  // earlier queries see no key of this block
    for (int tile = block, now = 0; tile < length; tile += TILE, now = 1 - now) {
        arrive();
        if (tile + TILE < length) fetch_queries(1 - now, tile + TILE);
        for (int chunk = 0; chunk < TILE; chunk += SIDE) {
            if (tile + chunk + SIDE <= mine) continue;  // causal
            FragmentC s[2] = {}, dp[2] = {}, keep[2];
            add_times_transposed(s, k, &q[now][chunk]);
            add_times_transposed(dp, v, &go[now][chunk]);
            each<2>([&](int n, int e, int, int) { keep[n].x[e] = 1; });
            if (threshold) {
                each<2>([&](int n, int e, int row, int column) {
                    keep[n].x[e] = drop(1, heads.index(first, tile + chunk + column, mine + row));
                });
            }
            each<2>([&](int n, int e, int row, int column) {
                wide p = __expf(s[n].x[e] * scale - lses[now][chunk + column]);
                if (mine + row > tile + chunk + column) p = 0;
                s[n].x[e] = p * keep[n].x[e];
                dp[n].x[e] = p * (dp[n].x[e] * keep[n].x[e] * stretch - deltas[now][chunk + column]);
            });
            add_times(dv, round_to_a(s), &go[now][chunk]);
            add_times(dk, round_to_a(dp), &q[now][chunk]);
        }
    }
    store(dqkv + heads.packed(1, mine), stride, length - mine, dk, scale, scale);
    store(dqkv + heads.packed(2, mine), stride, length - mine, dv, stretch, stretch);
}
