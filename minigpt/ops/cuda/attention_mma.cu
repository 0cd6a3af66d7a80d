// Causal self-attention as in attention.cu, on tensor cores: qkv (B,T,C+2G) -> out (B,T,C). C = NH * HEAD, G = C / KV_GROUP.
//
// Every product is one of mma.cuh: one factor is rows that a warp holds in registers, the other is rows of a tile in shared
// memory. A block of WARPS warps owns some rows of one head, queries or keys, and meets the other side in tiles of TILE
// rows. While it computes with one tile, the next one is copied. (Dao 2023, FlashAttention-2.) Chosen when a kernel is
// compiled: HEAD and TILE, multiples of 16; KV_GROUP (see heads.cuh); DROPS, whether there is dropout; and ROWS_FORWARD,
// ROWS_Q and ROWS_KV, how many rows a warp has in each of the three kernels: 16 or 32. All arrays begin at multiples of 16
// bytes.
//
// Scores, sums and statistics are float. p and ds are rounded to the type that tensor cores multiply.
//
// Tensor cores need one instruction for 16 x 8 x 16 multiply-adds. The other work for each score takes many more, so it is
// kept small:
//     exp(x) = 2^(x log2 e), and a power of 2 is one instruction. (CuPy compiles with -ftz=true: results below 2^-126 are 0.
//     Without it exp2f is four instructions.) scale_log2e = scale * log2 e. lse is a logarithm to base 2, too.
//     The causal mask is tested only in tiles on the diagonal. A hidden score is LOWEST before it is scaled: so the scale
//     must be above 0.
//     Addresses are not computed again for every tile.
//
// Why 32 rows. Each warp reads every row of a tile from shared memory, which delivers 128 bytes a clock to all warps of a
// multiprocessor. 16 rows of k are 2 KB in bfloat16 with HEAD 64, and 16 rows of v too. So in the forward pass a warp with
// 16 queries reads 4,096 bytes for 16 x 16 scores: 16 bytes for each score. The copies to shared memory serve the 64
// queries of a block, and write 4 bytes for each. A warp with 32 queries reads 8 and writes 2: half as much.
//
// Predicted, not yet measured on a GPU (GPT-2 small: B 16, T 1024, 12 heads, 12 layers; 132 multiprocessors at an assumed
// 1.76 GHz, which read 3.0e13 bytes of shared memory a second). There are 1.28e9 scores, if the tiles on the diagonal are
// counted in full. A forward pass reads shared memory for 0.87 ms with 16 rows, and for 0.43 ms with 32. Its products take
// 0.55 ms on the tensor cores, if mma reaches 63 % of their peak (assumed, as in ladder/predictions.py). So it is bound by shared memory with 16 rows, and by its products with 32. In the same way
// attention_backward_q falls from 1.16 to 0.80 ms. Together 0.7 ms less in each training step. attention_backward_kv
// (1.49 ms) keeps 16 rows. It holds four matrices in registers: with 32 rows of HEAD 64 these are 192 of the 255 registers
// that a thread can have, and the scores of a chunk 32 more. The compiler would have to keep some of them in memory.

const int PLAIN = 1;

#include "common.cuh"
#include "heads.cuh"
#include "mma.cuh"

const int WARPS = 4, THREADS = WARPS * WARP;

#include "tile_copy.cuh"

const int TILE_FRAGMENTS = TILE / 8;  // fragments c, side by side, for the scores of one row tile with a whole tile
const int HEAD_A = HEAD / DEPTH, HEAD_C = HEAD / 8;  // fragments a, and fragments c, side by side, for a row of a head

const wide LOG2E = 1.4426950408889634;

// How many blocks a multiprocessor should hold at once, for __launch_bounds__: the compiler then limits the registers of a
// thread, so that those of all blocks fit into the multiprocessor's 65,536. For each row tile a thread holds parts of
// `factors` matrices in fragments a and of `results` matrices in fragments c, each as long as a row of a head, and `scores`
// fragments c. 48 registers are for everything else (an estimate).
__device__ constexpr int blocks_at_once(int rows, int factors, int results, int scores) {
    int registers = rows / SIDE * 4 * (factors * HEAD_A + results * HEAD_C + scores) + 48;
    int blocks = 65536 / THREADS / registers;
    return blocks < 1 || HEAD > 64 ? 1 : blocks > 4 ? 4 : blocks;
}

// The causal mask in a tile on the diagonal: a query sees the keys up to its own position, and later ones get the score
// LOWEST. The rows of s are queries from first_row on and its columns keys, or the other way round if KEYS_BELOW.
template <bool KEYS_BELOW, int M, int N>
__device__ inline void hide_later_keys(FragmentC (&s)[M][N], int first_row, int first_column) {
    each<M, N>([&](int m, int n, int e, int row, int column) {
        int i = first_row + row, j = first_column + column;
        if (KEYS_BELOW ? i > j : j > i) s[m][n].x[e] = LOWEST;
    });
}

// s = q k^T / sqrt(D),   p = softmax(s),   out = dropout(p) v,   lse = log2 sum exp(s).
//
// A running softmax, as in attention.cu. largest is the largest score so far, before it is scaled; largest_log2 is the same
// number, times scale_log2e. sum covers the columns of this thread only, until row_sum at the end adds those of the four
// threads that share a row. What dropout keeps is multiplied by `stretch` at the end, too: so p keeps more of its digits
// when it is rounded for the product with v.
extern "C" __launch_bounds__(THREADS, blocks_at_once(ROWS_FORWARD, 1, 1, TILE_FRAGMENTS + 4 * DROPS))
__global__ void attention_forward(
    real* out, wide* lse, const real* qkv, int length, int n_head, wide scale, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    const int ROWS = ROWS_FORWARD, M = ROWS / SIDE;  // rows and row tiles of a warp
    __shared__ __align__(16) Tile k[2], v[2];
    Heads heads(blockIdx.y, length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = (gridDim.x - 1 - blockIdx.x) * WARPS * ROWS;  // its first query; blocks with most keys start first
    int warp_first = block_first + threadIdx.x / WARP * ROWS;  // the first query of this warp
    int stride = heads.stride(0), end = min(length, block_first + WARPS * ROWS);
    wide scale_log2e = scale * LOG2E;
    wide largest[M][2], rescale[M][2], largest_log2[M][2], sum[M][2] = {};  // for rows g and g + 8 of each row tile
    FragmentA q[M][HEAD_A];
    FragmentC o[M][HEAD_C] = {};
    load(q, qkv + heads.packed(0, warp_first), stride, length - warp_first);
    round_all(q);
#pragma unroll
    for (int m = 0; m < M; m++) largest[m][0] = largest[m][1] = LOWEST;

    KeysAndValues next(qkv, heads);
    next.copy(k[0], v[0]);
    for (int tile = 0, current = 0; tile < end; tile += TILE, current = 1 - current) {
        wait_for_tile();
        if (tile + TILE < end) next.copy(k[1 - current], v[1 - current]);  // while this tile is used
        if (tile >= warp_first + ROWS) continue;  // causal: only other warps of the block see these keys
        FragmentC s[M][TILE_FRAGMENTS] = {};
        add_times_transposed(s, q, k[current]);
        if (tile + TILE > warp_first + 1) hide_later_keys<false>(s, warp_first, tile);

        each_row<M>([&](int m, int half, int) { rescale[m][half] = largest[m][half]; });  // the old one, for now
        each<M, TILE_FRAGMENTS>([&](int m, int n, int e, int, int) {
            largest[m][e / 2] = max(largest[m][e / 2], s[m][n].x[e]);
        });
        each_row<M>([&](int m, int half, int) {
            largest[m][half] = row_max(largest[m][half]);
            rescale[m][half] = exp2f((rescale[m][half] - largest[m][half]) * scale_log2e);
            sum[m][half] *= rescale[m][half];
            largest_log2[m][half] = largest[m][half] * scale_log2e;
        });
        each<M, HEAD_C>([&](int m, int n, int e, int, int) { o[m][n].x[e] *= rescale[m][e / 2]; });
        each<M, TILE_FRAGMENTS>([&](int m, int n, int e, int, int) {
            s[m][n].x[e] = exp2f(s[m][n].x[e] * scale_log2e - largest_log2[m][e / 2]);
            sum[m][e / 2] += s[m][n].x[e];
        });
        if (DROPS) {
            each<M, TILE_FRAGMENTS>([&](int m, int n, int e, int row, int column) {
                s[m][n].x[e] = drop(s[m][n].x[e], heads.index(first, warp_first + row, tile + column));
            });
        }
        add_times(o, s, v[current]);
    }

    each_row<M>([&](int m, int half, int row) {
        int i = warp_first + row;
        sum[m][half] = row_sum(sum[m][half]);
        long long of_all = (long long)blockIdx.y * length + i;
        if (lane() % 4 == 0 && i < length) lse[of_all] = largest_log2[m][half] + log2f(sum[m][half]);
    });
    each<M, HEAD_C>([&](int m, int n, int e, int, int) { o[m][n].x[e] *= stretch / sum[m][e / 2]; });
    store(out + heads.plain(warp_first), heads.columns, length - warp_first, o, 1);
}

// dq, and delta (B,NH,T). `keep` is 1 / (1 - rate) for a probability that dropout keeps, and 0 for others:
//     p = 2^(s log2 e - lse)          the probability again, from the lse that was kept of its row
//     dp = keep (dout v^T)            out = (keep p) v
//     ds = p (dp - delta)             p = softmax(s),   delta = sum_j p dp, which is dout . out: so it is known at once
//     dq = ds k scale                 s = q k^T scale
//
// A warp has queries, as in the forward pass. It goes through a tile in chunks of 16 keys: so it holds few scores at once.
extern "C" __launch_bounds__(THREADS, blocks_at_once(ROWS_Q, 2, 1, 4)) __global__ void attention_backward_q(
    real* dqkv, wide* delta, const real* dout, const real* out, const wide* lse, const real* qkv, int length, int n_head,
    wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    const int ROWS = ROWS_Q, M = ROWS / SIDE;
    __shared__ __align__(16) Tile k[2], v[2];
    Heads heads(blockIdx.y, length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = (gridDim.x - 1 - blockIdx.x) * WARPS * ROWS;
    int warp_first = block_first + threadIdx.x / WARP * ROWS;
    int stride = heads.stride(0), end = min(length, block_first + WARPS * ROWS);
    wide scale_log2e = scale * LOG2E, delta_of_row[M][2] = {}, lse_of_row[M][2] = {};
    FragmentA q[M][HEAD_A], dout_rows[M][HEAD_A];
    FragmentC dq[M][HEAD_C] = {};
    load(dout_rows, dout + heads.plain(warp_first), heads.columns, length - warp_first);
    {
        FragmentA o[M][HEAD_A];
        load(o, out + heads.plain(warp_first), heads.columns, length - warp_first);
        each_word<M, HEAD_A>([&](int m, int k, int i) {
            delta_of_row[m][i % 2] += dot(o[m][k].word[i], dout_rows[m][k].word[i]);
        });
    }
    each_row<M>([&](int m, int half, int row) {
        int i = warp_first + row;
        long long of_all = (long long)blockIdx.y * length + i;
        delta_of_row[m][half] = row_sum(delta_of_row[m][half]);
        if (i >= length) return;
        if (lane() % 4 == 0) delta[of_all] = delta_of_row[m][half];
        lse_of_row[m][half] = lse[of_all];
    });
    load(q, qkv + heads.packed(0, warp_first), stride, length - warp_first);
    round_all(q);
    round_all(dout_rows);

    KeysAndValues next(qkv, heads);
    next.copy(k[0], v[0]);
    for (int tile = 0, current = 0; tile < end; tile += TILE, current = 1 - current) {
        wait_for_tile();
        if (tile + TILE < end) next.copy(k[1 - current], v[1 - current]);  // while this tile is used
        for (int chunk = 0; chunk < TILE; chunk += SIDE) {
            if (tile + chunk >= warp_first + ROWS) break;  // causal
            FragmentC s[M][2] = {}, dp[M][2] = {};
            add_times_transposed(s, q, &k[current][chunk]);
            add_times_transposed(dp, dout_rows, &v[current][chunk]);
            if (tile + chunk >= warp_first) hide_later_keys<false>(s, warp_first, tile + chunk);
            each<M, 2>([&](int m, int n, int e, int row, int column) {
                wide p = exp2f(s[m][n].x[e] * scale_log2e - lse_of_row[m][e / 2]), dp_kept = dp[m][n].x[e] * stretch;
                if (DROPS) dp_kept = drop(dp_kept, heads.index(first, warp_first + row, tile + chunk + column));
                s[m][n].x[e] = p * (dp_kept - delta_of_row[m][e / 2]);
            });
            add_times(dq, s, &k[current][chunk]);
        }
    }
    store(dqkv + heads.packed(0, warp_first), stride, length - warp_first, dq, scale);
}

//     dv = (keep p)^T dout            out = (keep p) v
//     dk = ds^T q scale               s = q k^T scale
//
// dk and dv. Many queries see one key, so dk and dv of a key are sums over queries. Here a warp owns keys and meets the
// queries in tiles, from the first to the last of each head that shares the keys: no other warp adds to its dk and dv, and
// the sums have a fixed sequence. blockIdx.y counts the heads of keys. The warp computes s^T and dp^T: a row is a key, a
// column is a query. p and ds are computed a second time: the price of doing without atomic additions. For a query beyond
// the end, q, dout, lse and delta are zeros: p is 1, and adds 0.
extern "C" __launch_bounds__(THREADS, blocks_at_once(ROWS_KV, 2, 2, 4)) __global__ void attention_backward_kv(
    real* dqkv, const wide* delta, const real* dout, const wide* lse, const real* qkv, int length, int n_head, wide scale,
    unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    const int ROWS = ROWS_KV, M = ROWS / SIDE;
    __shared__ __align__(16) Tile q[2], dout_tile[2];
    __shared__ wide lse_tile[2][TILE], delta_tile[2][TILE];
    Heads first_of_group(blockIdx.y * KV_GROUP, length, n_head);
    Dropout drop(table, key, threshold, 1);
    int block_first = blockIdx.x * WARPS * ROWS;  // its first key; blocks with most queries start first
    int warp_first = block_first + threadIdx.x / WARP * ROWS;
    int stride = first_of_group.stride(0);
    wide scale_log2e = scale * LOG2E;
    FragmentA k[M][HEAD_A], v[M][HEAD_A];
    FragmentC dk[M][HEAD_C] = {}, dv[M][HEAD_C] = {};
    load(k, qkv + first_of_group.packed(1, warp_first), stride, length - warp_first);
    load(v, qkv + first_of_group.packed(2, warp_first), stride, length - warp_first);
    round_all(k);
    round_all(v);

#pragma unroll 1
    for (int member = 0; member < KV_GROUP; member++) {
        if (member > 0) __syncthreads();  // all threads have used the last tile of the head before
        Heads heads(blockIdx.y * KV_GROUP + member, length, n_head);
        TileCopy tiles(length - block_first);
        const real* next_q = tiles.first_piece(qkv + heads.packed(0, block_first), stride);
        const real* next_dout = tiles.first_piece(dout + heads.plain(block_first), heads.columns);
        auto fetch = [&](int to, int tile) {
            tiles.copy(q[to], next_q, stride);
            tiles.copy(dout_tile[to], next_dout, heads.columns);
            next_q += (long long)TILE * stride;
            next_dout += (long long)TILE * heads.columns;
            tiles.rows -= TILE;
            int n = threadIdx.x;
            if (n >= TILE) return;
            long long row = (long long)heads.number * length + tile + n;
            cp_async_4(&lse_tile[to][n], lse + row, tile + n < length);
            cp_async_4(&delta_tile[to][n], delta + row, tile + n < length);
        };
        fetch(0, block_first);  // causal: earlier queries see no key of this block
        for (int tile = block_first, current = 0; tile < length; tile += TILE, current = 1 - current) {
            wait_for_tile();
            if (tile + TILE < length) fetch(1 - current, tile + TILE);
            for (int chunk = 0; chunk < TILE; chunk += SIDE) {
                if (tile + chunk + SIDE <= warp_first) continue;  // causal
                FragmentC s[M][2] = {}, dp[M][2] = {};
                add_times_transposed(s, k, &q[current][chunk]);
                add_times_transposed(dp, v, &dout_tile[current][chunk]);
                if (tile + chunk < warp_first + ROWS) hide_later_keys<true>(s, warp_first, tile + chunk);
                each<M, 2>([&](int m, int n, int e, int row, int column) {
                    wide p = exp2f(s[m][n].x[e] * scale_log2e - lse_tile[current][chunk + column]);
                    wide keep = DROPS ? drop(1, heads.index(first, tile + chunk + column, warp_first + row)) : 1;
                    s[m][n].x[e] = p * keep;
                    dp[m][n].x[e] = p * (dp[m][n].x[e] * keep * stretch - delta_tile[current][chunk + column]);
                });
                add_times(dv, s, &dout_tile[current][chunk]);
                add_times(dk, dp, &q[current][chunk]);
            }
        }
    }
    store(dqkv + first_of_group.packed(1, warp_first), stride, length - warp_first, dk, scale);
    store(dqkv + first_of_group.packed(2, warp_first), stride, length - warp_first, dv, stretch);
}
