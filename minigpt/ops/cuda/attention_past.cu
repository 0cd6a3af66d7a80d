// Attention of new positions to earlier ones (the past) and to themselves: qkv (B,T,C+2G), k_past and v_past (B,NKV,P,HEAD)
// -> out (B,T,C). T new positions, P earlier ones; NKV = NH / KV_GROUP heads of keys and values, G columns in all.
//
// A model that generates text has one new position at a time: one query for each head, and P + 1 keys. Each number of the
// past is read once and used once, or once for each head of queries that shares it, so memory limits the time. One block for
// each head would leave most of a GPU without work: GPT-2 small has 12 heads, an H100 has 132 multiprocessors. So the keys
// of a head are cut into parts of PART keys, in two launches: past_parts has a block for each part, and past_join adds the
// parts of a head, from the first to the last. (Dao, Haziza, Massa and Sizov 2023, Flash-Decoding for long-context
// inference.)
//
// The past is cut from its first key on, and the new keys begin a part of their own. So the parts do not depend on how many
// hidden keys follow, and neither do the bits of the result.
//
// Chosen when a kernel is compiled: HEAD and KV_GROUP (see heads.cuh); THREADS, of a block; LANES, how many threads read a
// key together (a group); KEYS, how many keys a group reads; PACKS, how many packs of a key (common.cuh) one lane reads.

#include "common.cuh"
#include "heads.cuh"
#include "masks.cuh"

const int GROUPS = THREADS / LANES;  // of a block; the LANES threads of a group are neighbours in one warp
const int PART = KEYS * GROUPS;  // keys of a block
const int PARTIAL = HEAD + 2;  // numbers that are kept for a set of keys: see Partial

// A softmax over a set of keys, not yet divided by its sum. With e_j = exp(score_j - largest):
//     o[d] = sum_j e_j v_j[d],   sum = sum_j e_j,   largest = the largest score
// In memory these are PARTIAL numbers: o, then largest, then sum. If no key of the set is seen: 0, LOWEST, 0.
struct Partial {
    wide o, largest, sum;  // o: one of its numbers
};

__device__ inline wide maximum(wide a, wide b) { return a < b ? b : a; }

// Number d of the partial softmax over n sets of keys together, from theirs: each is rescaled to the largest score of all.
__device__ inline Partial join(const wide* sets, int n, int d) {
    Partial all = {0, LOWEST, 0};
    for (int i = 0; i < n; i++) all.largest = maximum(all.largest, sets[i * PARTIAL + HEAD]);
    for (int i = 0; i < n; i++) {
        wide rescale = exp(sets[i * PARTIAL + HEAD] - all.largest);
        all.o += rescale * sets[i * PARTIAL + d];
        all.sum += rescale * sets[i * PARTIAL + HEAD + 1];
    }
    return all;
}

// The part of one query, key or value that one lane reads: packs lane, lane + LANES, ... of its row.
struct Piece {
    Packed<real> x[PACKS];

    // If row is null, zeros, and nothing is read.
    __device__ void load(const real* row, int lane) {
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int column = (p * LANES + lane) * PACK;
            if (row && column < HEAD) x[p] = pack(row + column);
            else x[p] = {};
        }
    }
    __device__ wide number(int i) const { return x[i / PACK].x[i % PACK]; }
};

// parts (B,NH,T,parts,PARTIAL): the partial softmax of each query over the keys of each part. Block (part, head of a text,
// query).
//
// head_stride: how many numbers lie from the first key of a head to that of the next, in k_past and in v_past. Only the first
// `past` keys of each head are read; there may be room for more behind them. Without a mask attention is causal.
extern "C" __global__ void past_parts(
    wide* parts, const real* qkv, const real* k_past, const real* v_past, int past, long long head_stride, int length,
    int n_head, wide scale, const bool* mask, int mask_axes, const real* bias, int bias_axes
) {
    __shared__ wide of_groups[GROUPS * PARTIAL];
    int lane = threadIdx.x, group = threadIdx.y, query = blockIdx.z;
    Heads heads(blockIdx.y, length, n_head, past + length);
    MaskOrBias<bool> mask_of(mask, mask_axes, heads, query);
    MaskOrBias<real> bias_of(bias, bias_axes, heads, query);

    // The keys of this part: keys first to end - 1 of the past, or of the new ones.
    int part = blockIdx.x, parts_of_past = (past + PART - 1) / PART;
    bool is_new = part >= parts_of_past;
    int first = (is_new ? part - parts_of_past : part) * PART;
    int new_keys = mask ? length : query + 1;
    int end = min(first + PART, is_new ? new_keys : past);
    int offset = is_new ? past : 0;  // key j of the past, or of the new ones, is key offset + j of all
    const real* k = is_new ? qkv + heads.packed(1, 0) : k_past + blockIdx.y / KV_GROUP * head_stride;
    const real* v = is_new ? qkv + heads.packed(2, 0) : v_past + blockIdx.y / KV_GROUP * head_stride;
    long long stride = is_new ? heads.stride(1) : HEAD;  // from one key to the next one

    // All reads are started here; the first instruction that uses one of the numbers waits for it.
    Piece q, keys[KEYS], values[KEYS];
    bool seen[KEYS];
    q.load(qkv + heads.packed(0, query), lane);
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        int j = first + n * GROUPS + group;
        seen[n] = j < end && (!mask || mask_of(0, offset + j));
        keys[n].load(seen[n] ? k + j * stride : nullptr, lane);
        values[n].load(seen[n] ? v + j * stride : nullptr, lane);
    }

    wide score[KEYS], largest = LOWEST;
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        wide dot = 0;
#pragma unroll
        for (int i = 0; i < PACKS * PACK; i++) dot += q.number(i) * keys[n].number(i);
        for (int apart = LANES / 2; apart > 0; apart /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, apart);
        dot *= scale;
        int j = first + n * GROUPS + group;
        if (seen[n] && bias) dot += wide(bias_of(0, offset + j));
        score[n] = seen[n] ? dot : HIDDEN;
        largest = maximum(largest, score[n]);
    }
    wide sum = 0, o[PACKS * PACK];
#pragma unroll
    for (int i = 0; i < PACKS * PACK; i++) o[i] = 0;
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        wide e = exp(score[n] - largest);
        sum += e;
#pragma unroll
        for (int i = 0; i < PACKS * PACK; i++) o[i] += e * values[n].number(i);
    }

    // The partial results of the groups are joined.
    wide* of_group = of_groups + group * PARTIAL;
#pragma unroll
    for (int i = 0; i < PACKS * PACK; i++) {
        int column = (i / PACK * LANES + lane) * PACK + i % PACK;
        if (column < HEAD) of_group[column] = o[i];
    }
    if (lane == 0) {
        of_group[HEAD] = largest;
        of_group[HEAD + 1] = sum;
    }
    __syncthreads();
    wide* out = parts + (((long long)blockIdx.y * length + query) * gridDim.x + blockIdx.x) * PARTIAL;
    for (int d = group * LANES + lane; d < HEAD; d += THREADS) {
        Partial all = join(of_groups, GROUPS, d);
        out[d] = all.o;
        if (d > 0) continue;
        out[HEAD] = all.largest;
        out[HEAD + 1] = all.sum;
    }
}

// out (B,T,C), a thread for each number. size: numbers of out. A query that sees no key has sum = 0, and gets 0.
extern "C" __global__ void past_join(real* out, const wide* parts, int n_parts, int length, int n_head, long long size) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int d = i % HEAD, head = i / HEAD % n_head;
    long long text_and_query = i / HEAD / n_head;
    long long text = text_and_query / length, query = text_and_query % length;
    const wide* of_query = parts + ((text * n_head + head) * length + query) * n_parts * PARTIAL;
    Partial all = join(of_query, n_parts, d);
    out[i] = all.sum == 0 ? wide(0) : all.o / all.sum;
}
