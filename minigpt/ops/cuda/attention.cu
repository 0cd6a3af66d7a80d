// Causal self-attention on the packed projection: qkv (B,T,3C) -> out (B,T,C), C = NH * HEAD.
//
// The probabilities (B,NH,T,T) never exist. A block takes QUERIES queries of one head, one thread each, and meets the keys
// in tiles of KEYS, which the threads together bring into shared memory. What the causal mask hides altogether is not
// visited. (Dao et al. 2022, FlashAttention.) HEAD, QUERIES and KEYS are chosen when this is compiled.

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

// s = q k^T / sqrt(D),   p = softmax(s),   out = dropout(p) v,   lse = log sum exp(s).
//
// A softmax that has not seen all keys yet: with m the largest score so far, z = sum exp(s - m) and o = sum exp(s - m) v
// are right for the keys so far. When a tile brings a larger m', both are stretched by exp(m - m'). At the end out = o / z.
extern "C" __global__ void attention_forward(
    real* out, wide* lse, const real* qkv, int length, int n_head, wide scale, unsigned first,
    const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    __shared__ wide k[KEYS][HEAD], v[KEYS][HEAD], s[KEYS][QUERIES];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, stretch);
    int me = threadIdx.x, i = blockIdx.x * QUERIES + me;  // my query
    int end = min(length, (int)(blockIdx.x + 1) * QUERIES);  // no query of this block sees a key from here on
    wide q[HEAD], o[HEAD], m = LOWEST, z = 0;
    for (int d = 0; d < HEAD; d++) o[d] = 0;
    if (i < length) load(q, qkv + heads.packed(0, i), scale);

    for (int tile = 0; tile < end; tile += KEYS) {
        int here = min(KEYS, end - tile);
        __syncthreads();  // everybody is done with the tile before
        for (int n = me; n < here * HEAD; n += QUERIES) {
            k[n / HEAD][n % HEAD] = qkv[heads.packed(1, tile + n / HEAD) + n % HEAD];
            v[n / HEAD][n % HEAD] = qkv[heads.packed(2, tile + n / HEAD) + n % HEAD];
        }
        __syncthreads();
        if (i >= length) continue;
        int seen = min(here, i + 1 - tile);  // causal: keys up to my own place

        wide larger = m;
        for (int j = 0; j < seen; j++) {
            s[j][me] = dot(q, k[j]);
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
    store(out + heads.plain(i), o, 1 / z);
    lse[(long long)blockIdx.y * length + i] = m + log(z);
}

// With keep the dropout of each probability, times 1 / (1 - rate):
//     p = exp(s - lse)                the probability again, from what was kept of its row
//     dp = keep (dout v^T)            out = (keep p) v
//     ds = p (dp - delta)             p = softmax(s),   delta = sum_j p dp = dout . out: no need to see all keys first
//     dq = ds k scale                 s = q k^T scale
//
// One thread for each query, as in the forward pass.
extern "C" __global__ void attention_backward_q(
    real* dqkv, wide* delta, const real* dout, const real* out, const wide* lse, const real* qkv, int length, int n_head,
    wide scale, unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    __shared__ wide k[KEYS][HEAD], v[KEYS][HEAD];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, stretch);
    int me = threadIdx.x, i = blockIdx.x * QUERIES + me;
    int end = min(length, (int)(blockIdx.x + 1) * QUERIES);
    long long row = (long long)blockIdx.y * length + i;
    wide q[HEAD], go[HEAD], dq[HEAD], my_delta = 0, my_lse = 0;
    for (int d = 0; d < HEAD; d++) dq[d] = 0;
    if (i < length) {
        load(dq, out + heads.plain(i), 1);
        load(go, dout + heads.plain(i), 1);
        my_delta = delta[row] = dot(dq, go);
        my_lse = lse[row];
        load(q, qkv + heads.packed(0, i), scale);
        for (int d = 0; d < HEAD; d++) dq[d] = 0;
    }
    for (int tile = 0; tile < end; tile += KEYS) {
        int here = min(KEYS, end - tile);
        __syncthreads();
        for (int n = me; n < here * HEAD; n += QUERIES) {
            k[n / HEAD][n % HEAD] = qkv[heads.packed(1, tile + n / HEAD) + n % HEAD];
            v[n / HEAD][n % HEAD] = qkv[heads.packed(2, tile + n / HEAD) + n % HEAD];
        }
        __syncthreads();
        if (i >= length) continue;
        int seen = min(here, i + 1 - tile);
        for (int j = 0; j < seen; j++) {
            wide p = exp(dot(q, k[j]) - my_lse);
            wide dp = drop(dot(go, v[j]), heads.index(first, i, tile + j));
            add(dq, p * (dp - my_delta), k[j]);
        }
    }
    if (i < length) store(dqkv + heads.packed(0, i), dq, scale);
}

//     dv = (keep p)^T dout            out = (keep p) v
//     dk = ds^T q scale               s = q k^T scale
//
// Many queries look at one key. So here a thread owns a key and meets the queries, in order and in tiles: nobody else
// adds to its dk and dv. p and ds are computed once more, which is the price of doing without atomics.
extern "C" __global__ void attention_backward_kv(
    real* dqkv, const wide* delta, const real* dout, const wide* lse, const real* qkv, int length, int n_head, wide scale,
    unsigned first, const unsigned* table, unsigned key, unsigned threshold, wide stretch
) {
    // Threads read rows of their own: HEAD + 1 puts these into different banks of shared memory.
    __shared__ wide k[QUERIES][HEAD + 1], v[QUERIES][HEAD + 1], q[KEYS][HEAD], go[KEYS][HEAD];
    Heads heads(length, n_head);
    Dropout drop(table, key, threshold, stretch);
    int me = threadIdx.x, j = blockIdx.x * QUERIES + me;  // my key
    wide dk[HEAD], dv[HEAD];
    for (int d = 0; d < HEAD; d++) dk[d] = dv[d] = 0;
    if (j < length) {
        load(k[me], qkv + heads.packed(1, j), 1);
        load(v[me], qkv + heads.packed(2, j), 1);
    }
    for (int tile = blockIdx.x * QUERIES; tile < length; tile += KEYS) {  // earlier queries see no key of this block
        int here = min(KEYS, length - tile);
        __syncthreads();
        for (int n = me; n < here * HEAD; n += QUERIES) {
            q[n / HEAD][n % HEAD] = wide(qkv[heads.packed(0, tile + n / HEAD) + n % HEAD]) * scale;
            go[n / HEAD][n % HEAD] = dout[heads.plain(tile + n / HEAD) + n % HEAD];
        }
        __syncthreads();
        if (j >= length) continue;
        for (int n = max(0, j - tile); n < here; n++) {  // causal: queries from my own place on
            long long row = (long long)blockIdx.y * length + tile + n;
            unsigned index = heads.index(first, tile + n, j);
            wide p = exp(dot(q[n], k[me]) - lse[row]);
            wide dp = drop(dot(go[n], v[me]), index);
            add(dv, drop(p, index), go[n]);
            add(dk, p * (dp - delta[row]), q[n]);
        }
    }
    if (j >= length) return;
    store(dqkv + heads.packed(1, j), dk, 1);  // q came with the scale
    store(dqkv + heads.packed(2, j), dv, 1);
}
