// Attention of queries to the keys of the same text, qkv (B,T,3C), or of another one, q (B,T,C) and kv (B,S,2C), -> out
// (B,T,C), C = NH * HEAD. The parameters kv, keys, packed_in_one, causal, mask and bias count only where it is not PLAIN.
//
// The probabilities (B,NH,T,S) never exist as a whole. A block owns ROWS rows of one head, queries or keys, and meets the
// other side in tiles of ROWS rows. Both stand in shared memory, and each product is one of squares.cuh. What a causal mask
// hides altogether is not visited. (Dao et al. 2022, FlashAttention.) HEAD, SIDE, EACH and PLAIN are chosen when this is
// compiled: 8 x 8 threads, for heads of 64 numbers with squares of 4 x 4 scores.
//
// Predicted, not yet measured on a GPU: GPT-2 small, B 16, T 1024, 12 heads of 64, 12 layers, float32, on an H200.
//     32 * 33 / 2 tiles of 32 x 32 are 540,672 pairs a head, of B * 12 * 12 = 2,304 heads. A product takes 128 operations a
//     pair. There are nine: 2 forward, 3 for dq, 4 for dk and dv. All: 1.44e12 operations.
//     Arithmetic, 60.7e12 a second: 24 ms (5.3 forward, 18.4 backward). It cannot be faster.
//     Shared memory, 128 bytes a clock: by the clocks counted in squares.cuh 10 to 21 ms, at the same time.
//     exp, masks, copies and waiting come on top. At 60 to 75 % of the peak: 32 to 40 ms.

#include "common.cuh"
#include "heads.cuh"
#include "squares.cuh"

#define HIDDEN wide(__uint_as_float(0xFF800000u))  // minus infinity: the score of a key that is not seen

// A mask or a bias of one head, as part of an array (B or 1, NH or 1, T or 1, S or 1). axes: 8, 4, 2 and 1, added up, for
// the axes that are not a single number that stands for all.
template <class Number> struct MaskOrBias {
    const Number* at;
    int query, key;  // how far apart the numbers of neighbouring queries and keys are
    __device__ MaskOrBias(const Number* all, int axes, const Heads& heads) {
        key = axes & 1 ? 1 : 0;
        query = axes & 2 ? (axes & 1 ? heads.keys : 1) : 0;
        long long size = (axes & 1 ? heads.keys : 1) * (long long)(axes & 2 ? heads.length : 1);
        long long head = axes & 4 ? size : 0;
        size *= axes & 4 ? heads.n_head : 1;
        long long batch = axes & 8 ? size : 0;
        at = all ? all + heads.head * head + heads.batch * batch : all;
    }
    __device__ Number operator()(int i, int j) const { return at[(long long)i * query + j * key]; }
};

// What makes a score of a dot product, and which tiles are visited.
struct Rules {
    bool causal;  // a query sees the keys up to its own place
    int length, keys;
    MaskOrBias<bool> mask;
    MaskOrBias<real> bias;
    __device__ Rules(int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes, const Heads& heads)
        : causal(PLAIN || causal), length(heads.length), keys(heads.keys), mask(mask, mask_axes, heads),
          bias(bias, bias_axes, heads) {}

    __device__ bool sees(int i, int j) const {  // a tile may reach beyond the last query or key
        if (i >= length || j >= keys || (causal && j > i)) return false;
        return PLAIN || !mask.at || mask(i, j);
    }
    // What is added to the score of query i with key j.
    __device__ wide added(int i, int j) const {
        if (!sees(i, j)) return HIDDEN;
        return bias.at ? wide(bias(i, j)) : 0;
    }
    // The score. A hidden one is hidden whatever the product is.
    __device__ wide score(wide product, wide added, int i, int j) const {
        if (PLAIN) return sees(i, j) ? product : HIDDEN;
        return added == HIDDEN ? HIDDEN : product + added;
    }
    // No query before `end` sees a key from here on.
    __device__ int last_key(int end) const { return causal ? min(keys, end) : keys; }
    // The first query that may see a key from j on.
    __device__ int first_query(int j) const { return causal ? j : 0; }
};

// f(query, key, number) for every number of a tile of scores, of which a block owns queries, or keys if KEYS_BELOW. So
// neighbouring threads have neighbouring keys, as they stand in the GPU's memory, and not the squares of a product.
template <bool KEYS_BELOW, class F> __device__ inline void each_score(Squares& scores, F f) {
#pragma unroll 1
    for (int n = threadIdx.x; n < ROWS * ROWS; n += THREADS) {
        int query = n / ROWS, key = n % ROWS;
        int row = KEYS_BELOW ? key : query, column = KEYS_BELOW ? query : key;
        f(query, key, scores[column][row % SIDE].x[row / SIDE]);
    }
}

// The dropout of what belongs to query i and key j. Without dropout no random bits are computed.
__device__ inline wide dropped(const Dropout& drop, wide x, const Heads& heads, unsigned first, int i, int j) {
    return drop.threshold ? drop(x, heads.index(first, i, j)) : x;
}

// s = q k^T scale + bias,   p = softmax(s),   out = dropout(p) v,   lse = log sum exp(s).
//
// A softmax that has not seen all keys yet: with m the largest score so far, z = sum exp(s - m) and o = sum exp(s - m) v
// are right for the keys so far. When a tile brings a larger m', both are stretched by exp(m - m'). At the end out = o / z.
// A query that sees nothing has m = LOWEST and z = 0: its out is 0, and 0 is called its lse. m is the same for all threads of
// a row; z is of what a thread has seen itself, until the end.
extern "C" __launch_bounds__(THREADS, BLOCKS) __global__ void attention_forward(
    real* out, wide* lse, const real* queries, int length, int n_head, wide scale, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes
) {
    __shared__ Rows q, k, v;
    __shared__ Squares scores;
    Heads heads(length, n_head, keys, packed_in_one);
    Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int block_first = (gridDim.x - 1 - blockIdx.x) * ROWS;  // its first query; blocks with most keys go first
    int end = rules.last_key(block_first + ROWS);
    Results o = {};
    wide m[EACH], z[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        m[r] = LOWEST;
        z[r] = 0;
    }
    load(q, queries + heads.packed(0, block_first), heads.stride(0), length - block_first, scale);

    for (int tile = 0; tile < end; tile += ROWS) {
        __syncthreads();  // all threads are done with the tile before
        load(k, keys_and_values + heads.packed(1, tile), heads.stride(1), end - tile);
        load(v, keys_and_values + heads.packed(2, tile), heads.stride(2), end - tile);
        if (!PLAIN) {
            each_score<false>(scores, [&](int i, int j, wide& s) { s = rules.added(block_first + i, tile + j); });
        }
        __syncthreads();
        Square s = {};
        add_dot_products(s, q, k);
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            int i = block_first + my_row(r);
            wide larger = m[r];
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                wide added = PLAIN ? 0 : scores[my_column(c)][thread_row()].x[r];
                s[r][c] = rules.score(s[r][c], added, i, tile + my_column(c));
                larger = max(larger, s[r][c]);
            }
            larger = row_max(larger);
            wide before = exp(m[r] - larger);
            m[r] = larger;
            z[r] *= before;
            multiply(o[r], before);
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                wide e = exp(s[r][c] - m[r]);
                z[r] += e;
                s[r][c] = dropped(drop, e, heads, first, i, tile + my_column(c));
            }
        }
        write(scores, s);
        __syncwarp();
        add_products(o, scores, v);
    }
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        int i = block_first + my_row(r);
        z[r] = row_sum(z[r]);
        bool blind = !PLAIN && z[r] == 0;
        multiply(o[r], blind ? 0 : 1 / z[r]);
        if (thread_column() == 0 && i < length) lse[(long long)blockIdx.y * length + i] = blind ? 0 : m[r] + log(z[r]);
    }
    store(out + heads.plain(block_first), heads.columns, length - block_first, o);
}

// With keep the dropout of each probability, times 1 / (1 - rate):
//     p = exp(s - lse)                the probability again, from what was kept of its row
//     dp = keep (dout v^T)            out = (keep p) v
//     ds = p (dp - delta)             p = softmax(s),   delta = sum_j p dp = dout . out: no need to see all keys first
//     dq = ds k scale                 s = q k^T scale + bias
//
// A block has the same queries as in the forward pass. Where there is a bias, ds (B,NH,T,S) is stored, to be summed up
// afterwards; in tiles that are not visited it must be 0 already.
extern "C" __launch_bounds__(THREADS, BLOCKS) __global__ void attention_backward_q(
    real* dqueries, wide* delta, const real* gradients, const real* out, const wide* lse, const real* queries, int length,
    int n_head, wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes,
    wide* ds
) {
    __shared__ Rows q, dout, k, v;
    __shared__ Squares scores;
    Heads heads(length, n_head, keys, packed_in_one);
    Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int block_first = (gridDim.x - 1 - blockIdx.x) * ROWS;
    int end = rules.last_key(block_first + ROWS), rows = length - block_first;
    long long first_row = (long long)blockIdx.y * length + block_first;  // in lse, delta and ds
    load(q, queries + heads.packed(0, block_first), heads.stride(0), rows, scale);
    load(dout, gradients + heads.plain(block_first), heads.columns, rows);
    __syncthreads();
    wide my_lse[EACH], my_delta[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        my_lse[r] = my_delta[r] = 0;
        if (my_row(r) < rows) {
            my_lse[r] = lse[first_row + my_row(r)];
            for (int c = thread_column(); c < PIECES; c += SIDE) {
                Piece o = read(out + heads.plain(block_first + my_row(r)) + c * PIECE);
                for (int e = 0; e < PIECE; e++) my_delta[r] += o.x[e] * dout[my_row(r)][c].x[e];
            }
        }
        my_delta[r] = row_sum(my_delta[r]);
        if (thread_column() == 0 && my_row(r) < rows) delta[first_row + my_row(r)] = my_delta[r];
    }
    Results dq = {};

    for (int tile = 0; tile < end; tile += ROWS) {
        __syncthreads();
        load(k, keys_and_values + heads.packed(1, tile), heads.stride(1), end - tile);
        load(v, keys_and_values + heads.packed(2, tile), heads.stride(2), end - tile);
        if (!PLAIN) {
            each_score<false>(scores, [&](int i, int j, wide& s) { s = rules.added(block_first + i, tile + j); });
        }
        __syncthreads();
        Square s = {};
        add_dot_products(s, q, k);
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            Column& column = scores[my_column(c)][thread_row()];  // what is added to s, and then p
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                wide score = rules.score(s[r][c], column.x[r], block_first + my_row(r), tile + my_column(c));
                column.x[r] = exp(score - my_lse[r]);
            }
        }
        Square dp = {};
        add_dot_products(dp, dout, v);
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            Column& column = scores[my_column(c)][thread_row()];  // p, and then ds
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                dp[r][c] = dropped(drop, dp[r][c], heads, first, block_first + my_row(r), tile + my_column(c));
                column.x[r] *= dp[r][c] - my_delta[r];
            }
        }
        __syncwarp();
        add_products(dq, scores, k);
        if (!PLAIN && ds) {
            __syncthreads();
            each_score<false>(scores, [&](int i, int j, wide& slope) {
                if (i < rows && tile + j < end) ds[(first_row + i) * heads.keys + tile + j] = slope;
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
// Many queries look at one key. So here a block owns keys and meets the queries, in order and in tiles: no other block adds to
// its dk and dv. What it computes is s^T and dp^T: keys below each other, queries side by side. p and ds are computed once
// more, which is the price of doing without atomics.
extern "C" __launch_bounds__(THREADS, BLOCKS) __global__ void attention_backward_kv(
    real* dkv, const wide* delta, const real* gradients, const wide* lse, const real* queries, int length, int n_head,
    wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes
) {
    __shared__ Rows k, v, q, dout;
    __shared__ Squares scores;
    Heads heads(length, n_head, keys, packed_in_one);
    Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int block_first = blockIdx.x * ROWS;  // its first key; blocks with most queries go first
    int rows = heads.keys - block_first;
    load(k, keys_and_values + heads.packed(1, block_first), heads.stride(1), rows);
    load(v, keys_and_values + heads.packed(2, block_first), heads.stride(2), rows);
    Results dk = {}, dv = {};

    for (int tile = rules.first_query(block_first); tile < length; tile += ROWS) {
        __syncthreads();
        load(q, queries + heads.packed(0, tile), heads.stride(0), length - tile, scale);
        load(dout, gradients + heads.plain(tile), heads.columns, length - tile);
        if (!PLAIN) {
            each_score<true>(scores, [&](int i, int j, wide& s) { s = rules.added(tile + i, block_first + j); });
        }
        __syncthreads();
        Square s = {};
        add_dot_products(s, k, q);
        long long first_row = (long long)blockIdx.y * length + tile;
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            Column& column = scores[my_column(c)][thread_row()];  // what is added to s, and then p
            wide my_lse = tile + my_column(c) < length ? lse[first_row + my_column(c)] : 0;
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                wide score = rules.score(s[r][c], column.x[r], tile + my_column(c), block_first + my_row(r));
                column.x[r] = exp(score - my_lse);
            }
        }
        Square dp = {};
        add_dot_products(dp, v, dout);
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            Column& column = scores[my_column(c)][thread_row()];  // p, and then keep p
            wide my_delta = tile + my_column(c) < length ? delta[first_row + my_column(c)] : 0;
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                int i = tile + my_column(c), j = block_first + my_row(r);
                dp[r][c] = column.x[r] * (dropped(drop, dp[r][c], heads, first, i, j) - my_delta);
                column.x[r] = dropped(drop, column.x[r], heads, first, i, j);
            }
        }
        __syncwarp();
        add_products(dv, scores, dout);
        __syncwarp();  // keep p has been read
        write(scores, dp);
        __syncwarp();
        add_products(dk, scores, q);  // q came with the scale
    }
    store(dkv + heads.packed(1, block_first), heads.stride(1), rows, dk);
    store(dkv + heads.packed(2, block_first), heads.stride(2), rows, dv);
}
