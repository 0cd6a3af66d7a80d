// Attention of queries to the keys of the same text, qkv (B,T,C+2G), or of another one, q (B,T,C) and kv (B,S,2G), -> out
// (B,T,C), C = NH * HEAD, G = C / KV_GROUP. T and S are the numbers of queries and keys. PLAIN (see heads.cuh) is causal
// self-attention with nothing else: there the parameters kv, keys, packed_in_one, causal, mask and bias are ignored.
//
// The scores s and probabilities p (B,NH,T,S) are never stored as a whole. A block owns ROWS rows of one head: queries, or
// keys. It meets the other side in tiles of ROWS rows. Both are in shared memory, and each product is one of squares.cuh.
// Tiles that a causal mask hides completely are skipped. (Dao et al. 2022, FlashAttention, algorithms 1 and 4.) HEAD, SIDE,
// EACH, KV_GROUP and PLAIN are chosen when a kernel is compiled: 8 x 8 threads, each with 4 x 4 scores, for heads of 64
// numbers.
//
// Predicted, not yet measured on a GPU: one training step of GPT-2 small (B 16, T 1024, 12 heads of 64, 12 layers) in
// float32 on an H200.
//     Pairs: a head has 32 * 33 / 2 tiles of 32 x 32 pairs of a query and a key: 540,672. There are B * 12 * 12 = 2,304
//     heads. A product needs 2 * 64 = 128 operations for a pair. There are nine products: 2 forward, 3 for dq, 4 for dk and
//     dv. Together 1.44e12 operations.
//     Arithmetic: 60.7e12 operations a second (132 multiprocessors, 256 operations a clock, an assumed 1.8 GHz): 24 ms,
//     5.3 forward and 18.4 backward. It cannot be faster.
//     Shared memory: by the clocks counted in squares.cuh 10 to 21 ms, at the same time as the arithmetic.
//     exp, masks, copies and waiting come on top. At an assumed 60 to 75 % of the peak: 32 to 40 ms.

#include "common.cuh"
#include "heads.cuh"
#include "masks.cuh"
#include "squares.cuh"

// The lse of a row, log sum exp(s), as two numbers that are never added: with a bias of -1e9, or of the lowest float, on
// all keys of a row, the sum of the two would be `largest` again, and all probabilities n times what they are.
struct LogSum {
    wide largest, log_of_sum;  // of the scores; of sum exp(s - largest)

    __device__ wide probability(wide score) const { return exp(score - largest - log_of_sum); }
};

// Writes into the scores of a tile what is added to each. PLAIN adds nothing.
template <bool KEYS_BELOW>
__device__ inline void write_added(Squares& scores, const Rules& rules, int first_query, int first_key) {
    if (PLAIN) return;
    each_score<KEYS_BELOW>(scores, [&](int i, int j, wide& s) { s = rules.added(first_query + i, first_key + j); });
}

// x, or 0 where dropout takes the probability of query i and key j away. Without dropout no random bits are computed.
__device__ inline wide dropped(const Dropout& drop, wide x, const Heads& heads, unsigned first, int i, int j) {
    return drop.threshold ? drop(x, heads.index(first, i, j)) : x;
}

// s = q k^T scale + bias,   p = softmax(s),   out = dropout(p) v,   lse = log sum exp(s), as LogSum keeps it.
//
// The running softmax (lesson 18). After some tiles of keys, for each query:
//     largest = the largest score so far,   sum = sum exp(s - largest),   o = sum exp(s - largest) v.
// If a tile brings a larger score, sum and o are multiplied by rescale = exp(old largest - new largest). At the end out =
// o / sum. A query that sees no key ends with largest = LOWEST and sum = 0: its out and its lse are set to 0.
//
// largest is the same for all threads of a row. sum covers only the columns of this thread, until row_sum at the end.
extern "C" __launch_bounds__(THREADS, BLOCKS_AT_ONCE) __global__ void attention_forward(
    real* out, wide* lse, const real* queries, int length, int n_head, wide scale, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes
) {
    __shared__ Rows q_tile, k_tile, v_tile;
    __shared__ Squares scores;
    Heads heads(blockIdx.y, length, n_head, keys, packed_in_one);
    Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int block_first = (gridDim.x - 1 - blockIdx.x) * ROWS;  // its first query; blocks with most keys start first
    int end = rules.end_of_keys(block_first + ROWS);
    Results o = {};
    wide largest[EACH], sum[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        largest[r] = LOWEST;
        sum[r] = 0;
    }
    load(q_tile, queries + heads.packed(0, block_first), heads.stride(0), length - block_first, scale);

    for (int tile = 0; tile < end; tile += ROWS) {
        __syncthreads();  // all threads have used the previous tile
        load(k_tile, keys_and_values + heads.packed(1, tile), heads.stride(1), end - tile);
        load(v_tile, keys_and_values + heads.packed(2, tile), heads.stride(2), end - tile);
        write_added<false>(scores, rules, block_first, tile);
        __syncthreads();
        Square s = {};
        add_dot_products(s, q_tile, k_tile);
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            int i = block_first + my_row(r);
            wide new_largest = largest[r];
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                wide added = PLAIN ? 0 : scores[my_column(c)][thread_row()].x[r];
                s[r][c] = rules.score(s[r][c], added, i, tile + my_column(c));
                new_largest = max(new_largest, s[r][c]);
            }
            new_largest = row_max(new_largest);
            wide rescale = exp(largest[r] - new_largest);
            largest[r] = new_largest;
            sum[r] *= rescale;
            multiply(o[r], rescale);
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                wide e = exp(s[r][c] - largest[r]);
                sum[r] += e;
                s[r][c] = dropped(drop, e, heads, first, i, tile + my_column(c));
            }
        }
        write(scores, s);
        __syncwarp();
        add_products(o, scores, v_tile);
    }
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        int i = block_first + my_row(r);
        sum[r] = row_sum(sum[r]);
        bool sees_nothing = !PLAIN && sum[r] == 0;
        multiply(o[r], sees_nothing ? 0 : 1 / sum[r]);
        if (thread_column() == 0 && i < length) {
            LogSum of_row = {largest[r], log(sum[r])};
            if (sees_nothing) of_row = {0, 0};
            ((LogSum*)lse)[(long long)blockIdx.y * length + i] = of_row;
        }
    }
    store(out + heads.plain(block_first), heads.columns, length - block_first, o);
}

// dq, and delta (B,NH,T). `keep` is 1 / (1 - rate) for a probability that dropout keeps, and 0 for others; each backward
// line stands beside the forward line that it undoes:
//     p = exp(s - lse)                the probability again, from the lse that was kept of its row
//     dp = keep (dout v^T)            out = (keep p) v
//     ds = p (dp - delta)             p = softmax(s),   delta = sum_j p dp, which is dout . out: so it is known at once
//     dq = ds k scale                 s = q k^T scale + bias
//
// A block has the same queries as in the forward pass. Where the bias needs a gradient, ds (B,NH,T,S) is stored: another
// function sums it. ds must be 0 before the launch, because tiles that are skipped are not written.
extern "C" __launch_bounds__(THREADS, BLOCKS_AT_ONCE) __global__ void attention_backward_q(
    real* dqueries, wide* delta, const real* dout, const real* out, const wide* lse, const real* queries, int length,
    int n_head, wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes,
    wide* ds
) {
    __shared__ Rows q_tile, dout_tile, k_tile, v_tile;
    __shared__ Squares scores;
    Heads heads(blockIdx.y, length, n_head, keys, packed_in_one);
    Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int block_first = (gridDim.x - 1 - blockIdx.x) * ROWS;
    int end = rules.end_of_keys(block_first + ROWS), rows = length - block_first;
    long long first_row = (long long)blockIdx.y * length + block_first;  // in lse, delta and ds
    load(q_tile, queries + heads.packed(0, block_first), heads.stride(0), rows, scale);
    load(dout_tile, dout + heads.plain(block_first), heads.columns, rows);
    __syncthreads();
    LogSum lse_of_row[EACH];
    wide delta_of_row[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        lse_of_row[r] = {0, 0};
        delta_of_row[r] = 0;
        if (my_row(r) < rows) {
            lse_of_row[r] = ((const LogSum*)lse)[first_row + my_row(r)];
            for (int c = thread_column(); c < PIECES; c += SIDE) {
                Piece o = read(out + heads.plain(block_first + my_row(r)) + c * PIECE);
                for (int e = 0; e < PIECE; e++) delta_of_row[r] += o.x[e] * dout_tile[my_row(r)][c].x[e];
            }
        }
        delta_of_row[r] = row_sum(delta_of_row[r]);
        if (thread_column() == 0 && my_row(r) < rows) delta[first_row + my_row(r)] = delta_of_row[r];
    }
    Results dq = {};

    for (int tile = 0; tile < end; tile += ROWS) {
        __syncthreads();
        load(k_tile, keys_and_values + heads.packed(1, tile), heads.stride(1), end - tile);
        load(v_tile, keys_and_values + heads.packed(2, tile), heads.stride(2), end - tile);
        write_added<false>(scores, rules, block_first, tile);
        __syncthreads();
        Square s = {};
        add_dot_products(s, q_tile, k_tile);
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            Column& column = scores[my_column(c)][thread_row()];  // first what is added to s, then p
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                wide score = rules.score(s[r][c], column.x[r], block_first + my_row(r), tile + my_column(c));
                column.x[r] = lse_of_row[r].probability(score);
            }
        }
        Square dp = {};
        add_dot_products(dp, dout_tile, v_tile);
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            Column& column = scores[my_column(c)][thread_row()];  // first p, then ds
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                dp[r][c] = dropped(drop, dp[r][c], heads, first, block_first + my_row(r), tile + my_column(c));
                column.x[r] *= dp[r][c] - delta_of_row[r];
            }
        }
        __syncwarp();
        add_products(dq, scores, k_tile);
        if (!PLAIN && ds) {
            __syncthreads();
            each_score<false>(scores, [&](int i, int j, wide& ds_ij) {
                if (i < rows && tile + j < end) ds[(first_row + i) * heads.keys + tile + j] = ds_ij;
            });
        }
    }
#pragma unroll
    for (int r = 0; r < EACH; r++) multiply(dq[r], scale);
    store(dqueries + heads.packed(0, block_first), heads.stride(0), rows, dq);
}

//     dv = (keep p)^T dout            out = (keep p) v
//     dk = ds^T q scale               s = q k^T scale + bias
//
// dk and dv. Many queries see one key, so dk and dv of a key are sums over queries. Here a block owns keys and meets the
// queries in tiles, from the first to the last of each head that shares the keys: no other block adds to its dk and dv, and
// the sums have a fixed sequence. blockIdx.y counts the heads of keys. The block computes s^T and dp^T: a row is a key, a
// column is a query. p and ds are computed a second time: the price of doing without atomic additions.
extern "C" __launch_bounds__(THREADS, BLOCKS_AT_ONCE) __global__ void attention_backward_kv(
    real* dkv, const wide* delta, const real* dout, const wide* lse, const real* queries, int length, int n_head,
    wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes
) {
    __shared__ Rows k_tile, v_tile, q_tile, dout_tile;
    __shared__ Squares scores;
    Heads first_of_group(blockIdx.y * KV_GROUP, length, n_head, keys, packed_in_one);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int block_first = blockIdx.x * ROWS;  // its first key; blocks with most queries start first
    int rows = first_of_group.keys - block_first;
    load(k_tile, keys_and_values + first_of_group.packed(1, block_first), first_of_group.stride(1), rows);
    load(v_tile, keys_and_values + first_of_group.packed(2, block_first), first_of_group.stride(1), rows);
    Results dk = {}, dv = {};

#pragma unroll 1
    for (int member = 0; member < KV_GROUP; member++) {
        Heads heads(blockIdx.y * KV_GROUP + member, length, n_head, keys, packed_in_one);
        Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
        for (int tile = rules.first_query(block_first); tile < length; tile += ROWS) {
            __syncthreads();
            load(q_tile, queries + heads.packed(0, tile), heads.stride(0), length - tile, scale);
            load(dout_tile, dout + heads.plain(tile), heads.columns, length - tile);
            write_added<true>(scores, rules, tile, block_first);
            __syncthreads();
            Square s = {};
            add_dot_products(s, k_tile, q_tile);
            long long first_row = (long long)heads.number * length + tile;
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                Column& column = scores[my_column(c)][thread_row()];  // first what is added to s, then p
                LogSum lse_of_query = {0, 0};
                if (tile + my_column(c) < length) lse_of_query = ((const LogSum*)lse)[first_row + my_column(c)];
#pragma unroll
                for (int r = 0; r < EACH; r++) {
                    wide score = rules.score(s[r][c], column.x[r], tile + my_column(c), block_first + my_row(r));
                    column.x[r] = lse_of_query.probability(score);
                }
            }
            Square dp = {};
            add_dot_products(dp, v_tile, dout_tile);
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                Column& column = scores[my_column(c)][thread_row()];  // first p, then keep p
                wide delta_of_query = tile + my_column(c) < length ? delta[first_row + my_column(c)] : 0;
#pragma unroll
                for (int r = 0; r < EACH; r++) {
                    int i = tile + my_column(c), j = block_first + my_row(r);
                    dp[r][c] = column.x[r] * (dropped(drop, dp[r][c], heads, first, i, j) - delta_of_query);
                    column.x[r] = dropped(drop, column.x[r], heads, first, i, j);
                }
            }
            __syncwarp();
            add_products(dv, scores, dout_tile);
            __syncwarp();  // keep p has been read
            write(scores, dp);
            __syncwarp();
            add_products(dk, scores, q_tile);  // q_tile came with the scale
        }
    }
    store(dkv + first_of_group.packed(1, block_first), first_of_group.stride(1), rows, dk);
    store(dkv + first_of_group.packed(2, block_first), first_of_group.stride(1), rows, dv);
}
