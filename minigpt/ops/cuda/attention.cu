// Attention of queries to the keys of the same text, qkv (B,T,3C), or of another one, q (B,T,C) and kv (B,S,2C), -> out
// (B,T,C), C = NH * HEAD. The last parameters of each kernel, from kv on, count only where it is not PLAIN.
//
// The probabilities (B,NH,T,S) never exist. A block takes QUERIES queries of one head, one thread each, and meets the keys
// in tiles of KEYS, which the threads together bring into shared memory. What a causal mask hides altogether is not
// visited. (Dao et al. 2022, FlashAttention.) HEAD, QUERIES, KEYS and PLAIN are chosen when this is compiled.

#include "common.cuh"
#include "heads.cuh"

__device__ inline wide dot(const wide* a, const wide* b) {
    wide sum = 0;
    for (int d = 0; d < HEAD; d++) sum += a[d] * b[d];
    return sum;
}

__device__ inline void add(wide* sum, wide factor, const wide* a) {
    for (int d = 0; d < HEAD; d++) sum[d] += factor * a[d];
}

__device__ inline void load(wide* a, const real* from, wide factor) {
    for (int d = 0; d < HEAD; d++) a[d] = wide(from[d]) * factor;
}

__device__ inline void store(real* to, const wide* a, wide factor) {
    for (int d = 0; d < HEAD; d++) to[d] = a[d] * factor;
}

#define HIDDEN wide(__uint_as_float(0xFF800000u))  // minus infinity: the score of a key that is not seen

// A mask or a bias of one head, as part of an array (B or 1, NH or 1, T or 1, S or 1). axes: 8, 4, 2 and 1, added up, for
// the axes that are not a single number that stands for all.
template <class Number> struct MaskOrBias {
    const Number* at;
    long long query, key;  // how far apart the numbers of neighbouring queries and keys are
    __device__ MaskOrBias(const Number* all, int axes, const Heads& heads) {
        key = axes & 1 ? 1 : 0;
        long long size = axes & 1 ? heads.keys : 1;
        query = axes & 2 ? size : 0;
        size *= axes & 2 ? heads.length : 1;
        long long head = axes & 4 ? size : 0;
        size *= axes & 4 ? heads.n_head : 1;
        long long batch = axes & 8 ? size : 0;
        at = all ? all + heads.head * head + heads.batch * batch : all;
    }
    __device__ Number operator()(int i, int j) const { return at[i * query + j * key]; }
};

// What makes a score of a product, and which keys are visited.
struct Rules {
    bool causal;  // a query sees the keys up to its own place
    MaskOrBias<bool> mask;
    MaskOrBias<real> bias;
    __device__ Rules(int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes, const Heads& heads)
        : causal(PLAIN || causal), mask(mask, mask_axes, heads), bias(bias, bias_axes, heads) {}

    __device__ wide score(wide product, int i, int j) const {
        if (PLAIN) return product;
        if (mask.at && !mask(i, j)) return HIDDEN;
        return bias.at ? product + wide(bias(i, j)) : product;
    }
    // No query before `end` sees a key from here on.
    __device__ int last_key(int keys, int end) const { return causal ? min(keys, end) : keys; }
    // How many of the tile_keys keys of a tile query i may see.
    __device__ int seen(int tile_keys, int i, int tile) const { return causal ? min(tile_keys, i + 1 - tile) : tile_keys; }
    // The first query that may see a key from j on.
    __device__ int first_query(int j) const { return causal ? j : 0; }
};

// s = q k^T scale + bias,   p = softmax(s),   out = dropout(p) v,   lse = log sum exp(s).
//
// A softmax that has not seen all keys yet: with m the largest score so far, z = sum exp(s - m) and o = sum exp(s - m) v
// are right for the keys so far. When a tile brings a larger m', both are stretched by exp(m - m'). At the end out = o / z.
// A query that sees nothing has m = LOWEST and z = 0: its out is 0, and 0 is called its lse.
extern "C" __global__ void attention_forward(
    real* out, wide* lse, const real* queries, int length, int n_head, wide scale, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes
) {
    __shared__ wide k[KEYS][HEAD], v[KEYS][HEAD], s[KEYS][QUERIES];
    Heads heads(length, n_head, keys, packed_in_one);
    Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int me = threadIdx.x, i = blockIdx.x * QUERIES + me;  // my query
    int end = rules.last_key(heads.keys, (int)(blockIdx.x + 1) * QUERIES);  // the block sees no key from here on
    wide q[HEAD], o[HEAD], m = LOWEST, z = 0;
    for (int d = 0; d < HEAD; d++) o[d] = 0;
    if (i < length) load(q, queries + heads.packed(0, i), scale);

    for (int tile = 0; tile < end; tile += KEYS) {
        int tile_keys = min(KEYS, end - tile);
        __syncthreads();  // all threads are done with the tile before
        for (int n = me; n < tile_keys * HEAD; n += QUERIES) {
            k[n / HEAD][n % HEAD] = keys_and_values[heads.packed(1, tile + n / HEAD) + n % HEAD];
            v[n / HEAD][n % HEAD] = keys_and_values[heads.packed(2, tile + n / HEAD) + n % HEAD];
        }
        __syncthreads();
        if (i >= length) continue;
        int seen = rules.seen(tile_keys, i, tile);

        wide larger = m;
        for (int j = 0; j < seen; j++) {
            s[j][me] = rules.score(dot(q, k[j]), i, tile + j);
            larger = larger < s[j][me] ? s[j][me] : larger;
        }
        wide before = exp(m - larger);
        m = larger;
        z *= before;
        for (int d = 0; d < HEAD; d++) o[d] *= before;
        for (int j = 0; j < seen; j++) {
            wide e = exp(s[j][me] - m);
            z += e;
            add(o, drop(e, heads.index(first, i, tile + j)), v[j]);
        }
    }
    if (i >= length) return;
    bool blind = !PLAIN && z == 0;
    store(out + heads.plain(i), o, blind ? 0 : 1 / z);
    lse[(long long)blockIdx.y * length + i] = blind ? 0 : m + log(z);
}

// With keep the dropout of each probability, times 1 / (1 - rate):
//     p = exp(s - lse)                the probability again, from what was kept of its row
//     dp = keep (dout v^T)            out = (keep p) v
//     ds = p (dp - delta)             p = softmax(s),   delta = sum_j p dp = dout . out: no need to see all keys first
//     dq = ds k scale                 s = q k^T scale + bias
//
// One thread for each query, as in the forward pass.
extern "C" __global__ void attention_backward_q(
    real* dqueries, wide* delta, const real* gradients, const real* out, const wide* lse, const real* queries, int length,
    int n_head, wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes
) {
    __shared__ wide k[KEYS][HEAD], v[KEYS][HEAD];
    Heads heads(length, n_head, keys, packed_in_one);
    Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int me = threadIdx.x, i = blockIdx.x * QUERIES + me;
    int end = rules.last_key(heads.keys, (int)(blockIdx.x + 1) * QUERIES);
    long long row = (long long)blockIdx.y * length + i;
    wide q[HEAD], dout[HEAD], dq[HEAD], my_delta = 0, my_lse = 0;
    for (int d = 0; d < HEAD; d++) dq[d] = 0;
    if (i < length) {
        load(dq, out + heads.plain(i), 1);
        load(dout, gradients + heads.plain(i), 1);
        my_delta = delta[row] = dot(dq, dout);
        my_lse = lse[row];
        load(q, queries + heads.packed(0, i), scale);
        for (int d = 0; d < HEAD; d++) dq[d] = 0;
    }
    for (int tile = 0; tile < end; tile += KEYS) {
        int tile_keys = min(KEYS, end - tile);
        __syncthreads();
        for (int n = me; n < tile_keys * HEAD; n += QUERIES) {
            k[n / HEAD][n % HEAD] = keys_and_values[heads.packed(1, tile + n / HEAD) + n % HEAD];
            v[n / HEAD][n % HEAD] = keys_and_values[heads.packed(2, tile + n / HEAD) + n % HEAD];
        }
        __syncthreads();
        if (i >= length) continue;
        int seen = rules.seen(tile_keys, i, tile);
        for (int j = 0; j < seen; j++) {
            wide p = exp(rules.score(dot(q, k[j]), i, tile + j) - my_lse);
            wide dp = drop(dot(dout, v[j]), heads.index(first, i, tile + j));
            add(dq, p * (dp - my_delta), k[j]);
        }
    }
    if (i < length) store(dqueries + heads.packed(0, i), dq, scale);
}

//     dv = (keep p)^T dout            out = (keep p) v
//     dk = ds^T q scale               s = q k^T scale + bias
//
// Many queries look at one key. So here a thread owns a key and meets the queries, in order and in tiles: no other one
// adds to its dk and dv. p and ds are computed once more, which is the price of doing without atomics. Where there is a
// bias, ds (B,NH,T,S) is stored, to be summed up afterwards; where no query sees a key, it must be 0 already.
extern "C" __global__ void attention_backward_kv(
    real* dkv, const wide* delta, const real* gradients, const wide* lse, const real* queries, int length, int n_head,
    wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch,
    const real* kv, int keys, int packed_in_one, int causal, const bool* mask, int mask_axes, const real* bias, int bias_axes,
    wide* ds
) {
    // Threads read rows of their own: HEAD + 1 puts these into different banks of shared memory.
    __shared__ wide k[QUERIES][HEAD + 1], v[QUERIES][HEAD + 1], q[KEYS][HEAD], dout[KEYS][HEAD];
    Heads heads(length, n_head, keys, packed_in_one);
    Rules rules(causal, mask, mask_axes, bias, bias_axes, heads);
    const real* keys_and_values = PLAIN ? queries : kv;
    Dropout drop(table, key, threshold, stretch);
    int me = threadIdx.x, j = blockIdx.x * QUERIES + me;  // my key
    wide dk[HEAD], dv[HEAD];
    for (int d = 0; d < HEAD; d++) dk[d] = dv[d] = 0;
    if (j < heads.keys) {
        load(k[me], keys_and_values + heads.packed(1, j), 1);
        load(v[me], keys_and_values + heads.packed(2, j), 1);
    }
    for (int tile = rules.first_query(blockIdx.x * QUERIES); tile < length; tile += KEYS) {
        int tile_queries = min(KEYS, length - tile);
        __syncthreads();
        for (int n = me; n < tile_queries * HEAD; n += QUERIES) {
            q[n / HEAD][n % HEAD] = wide(queries[heads.packed(0, tile + n / HEAD) + n % HEAD]) * scale;
            dout[n / HEAD][n % HEAD] = gradients[heads.plain(tile + n / HEAD) + n % HEAD];
        }
        __syncthreads();
        if (j >= heads.keys) continue;
        for (int n = max(0, rules.first_query(j) - tile); n < tile_queries; n++) {
            long long row = (long long)blockIdx.y * length + tile + n;
            unsigned index = heads.index(first, tile + n, j);
            wide p = exp(rules.score(dot(q[n], k[me]), tile + n, j) - lse[row]);
            wide dp = drop(dot(dout[n], v[me]), index);
            add(dv, drop(p, index), dout[n]);
            wide slope = p * (dp - delta[row]);
            add(dk, slope, q[n]);
            if (!PLAIN && ds) ds[row * heads.keys + j] = slope;
        }
    }
    if (j >= heads.keys) return;
    store(dkv + heads.packed(1, j), dk, 1);  // q came with the scale
    store(dkv + heads.packed(2, j), dv, 1);
}
