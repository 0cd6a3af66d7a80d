// Attention of new positions to a past and to themselves: qkv (B,T,3C), k_past and v_past (B,NH,P,HEAD) -> out (B,T,C).
//
// A model that writes has one new position at a time: one query for each head, and P + 1 keys. Each number of the past is
// used once, so the time is the time of reading it. A block for each head would leave most of a GPU idle: GPT-2 small has
// 12 heads, an H100 has 132 multiprocessors. So the keys of a head are cut into parts of PART keys. past_parts has a block
// for each part, and past_join adds the parts of a head up, from the first to the last. (Dao, Haziza, Massa and Sizov
// 2023, Flash-Decoding for long-context inference.)
//
// The past is cut from its first key on, and the new keys begin a part of their own. So the parts, and with them the bits
// of the result, do not depend on how many keys follow that a mask hides.
//
// Chosen when this is compiled: HEAD, the numbers of a head; THREADS of a block, LANES of a key, KEYS of a group, and
// PACKS, the packs of a key that one lane reads.

#include "common.cuh"
#include "heads.cuh"

const int GROUPS = THREADS / LANES;  // of LANES threads, neighbours in one warp, that read the same keys
const int PART = KEYS * GROUPS;
const int ROW = HEAD + 2;  // what is kept of some keys, see Found
#define HIDDEN wide(__uint_as_float(0xFF800000u))  // minus infinity: the score of a key that is not seen

// What was found among some keys, with e_j = exp(score_j - largest):
//     sum[d] = sum_j e_j v_j[d],   z = sum_j e_j,   largest = the largest score
// In memory these are ROW numbers: sum, then largest, then z. No key seen: 0, LOWEST, 0.
struct Found {
    wide sum, largest, z;  // of one d
};

__device__ inline wide larger(wide a, wide b) { return a < b ? b : a; }

// Number d of what n sets of keys have found, as if they were one set: each is stretched to the largest score of all.
__device__ inline Found join(const wide* sets, int n, int d) {
    Found all = {0, LOWEST, 0};
    for (int i = 0; i < n; i++) all.largest = larger(all.largest, sets[i * ROW + HEAD]);
    for (int i = 0; i < n; i++) {
        wide stretch = exp(sets[i * ROW + HEAD] - all.largest);
        all.sum += stretch * sets[i * ROW + d];
        all.z += stretch * sets[i * ROW + HEAD + 1];
    }
    return all;
}

// What a mask or a bias, part of an array (B or 1, NH or 1, T or 1, P + T or 1), has for the keys of one query. axes: 8, 4,
// 2 and 1, added up, for the axes that are not a single number that stands for all.
template <class Number> struct ForKeys {
    const Number* at;  // null: there is none
    int step;  // from a key to the next
    __device__ ForKeys(const Number* all, int axes, const Heads& heads, int query) {
        step = axes & 1 ? 1 : 0;
        long long size = axes & 1 ? heads.keys : 1, before = 0;  // size: of the axes so far; before: what comes first
        if (axes & 2) before += query * size, size *= heads.length;
        if (axes & 4) before += heads.head * size, size *= heads.n_head;
        if (axes & 8) before += heads.batch * size;
        at = all ? all + before : all;
    }
    __device__ Number operator()(int key) const { return at[(long long)key * step]; }
};

// One key, or one value, as far as a lane reads it: packs lane, lane + LANES, ... of its row.
struct Piece {
    Packed<real> x[PACKS];

    // row null: zeros. Nothing is read, so what stands there may be anything.
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

// parts (B,NH,T,parts,ROW): what the keys of each part have found for each query. Block (part, head of a text, query).
//
// `apart` numbers of k_past lie between the first keys of two heads, and as many of v_past: only the first `past` keys of
// each are read, and there may be room for more behind them. Without a mask it is causal.
extern "C" __global__ void past_parts(
    wide* parts, const real* qkv, const real* k_past, const real* v_past, int past, long long apart, int length, int n_head,
    wide scale, const bool* mask, int mask_axes, const real* bias, int bias_axes
) {
    __shared__ wide found[GROUPS * ROW];
    int lane = threadIdx.x, group = threadIdx.y, query = blockIdx.z;
    Heads heads(length, n_head, past + length, true);
    ForKeys<bool> sees(mask, mask_axes, heads, query);
    ForKeys<real> added(bias, bias_axes, heads, query);

    // The keys of this part are numbers first to end - 1 of the past, or of the new ones.
    int part = blockIdx.x, parts_of_past = (past + PART - 1) / PART;
    bool is_new = part >= parts_of_past;
    int first = (is_new ? part - parts_of_past : part) * PART;
    int new_keys = mask ? length : query + 1;
    int end = min(first + PART, is_new ? new_keys : past);
    int number = is_new ? past : 0;  // of the first key of the past, or of the new ones, among all keys
    const real* k = is_new ? qkv + heads.packed(1, 0) : k_past + blockIdx.y * apart;
    const real* v = is_new ? qkv + heads.packed(2, 0) : v_past + blockIdx.y * apart;
    long long row = is_new ? 3 * heads.columns : HEAD;  // from one key to the next

    // All reads are started before the first of them is waited for.
    Piece q, keys[KEYS], values[KEYS];
    bool seen[KEYS];
    q.load(qkv + heads.packed(0, query), lane);
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        int j = first + n * GROUPS + group;
        seen[n] = j < end && (!mask || sees(number + j));
        keys[n].load(seen[n] ? k + j * row : nullptr, lane);
        values[n].load(seen[n] ? v + j * row : nullptr, lane);
    }

    wide score[KEYS], largest = LOWEST;
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        wide sum = 0;
#pragma unroll
        for (int i = 0; i < PACKS * PACK; i++) sum += q.number(i) * keys[n].number(i);
        for (int lanes = LANES / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        sum *= scale;
        int j = first + n * GROUPS + group;
        if (seen[n] && bias) sum += wide(added(number + j));
        score[n] = seen[n] ? sum : HIDDEN;
        largest = larger(largest, score[n]);
    }
    wide z = 0, o[PACKS * PACK];
#pragma unroll
    for (int i = 0; i < PACKS * PACK; i++) o[i] = 0;
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        wide e = exp(score[n] - largest);
        z += e;
#pragma unroll
        for (int i = 0; i < PACKS * PACK; i++) o[i] += e * values[n].number(i);
    }

    // The groups of the block become one.
    wide* mine = found + group * ROW;
#pragma unroll
    for (int i = 0; i < PACKS * PACK; i++) {
        int column = (i / PACK * LANES + lane) * PACK + i % PACK;
        if (column < HEAD) mine[column] = o[i];
    }
    if (lane == 0) {
        mine[HEAD] = largest;
        mine[HEAD + 1] = z;
    }
    __syncthreads();
    wide* out = parts + (((long long)blockIdx.y * length + query) * gridDim.x + blockIdx.x) * ROW;
    for (int d = group * LANES + lane; d < HEAD; d += THREADS) {
        Found all = join(found, GROUPS, d);
        out[d] = all.sum;
        if (d > 0) continue;
        out[HEAD] = all.largest;
        out[HEAD + 1] = all.z;
    }
}

// out (B,T,C), a thread for each number. size: of out. A query that sees nothing has z = 0, and gets 0.
extern "C" __global__ void past_join(real* out, const wide* parts, int n_parts, int length, int n_head, long long size) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int d = i % HEAD, head = i / HEAD % n_head;
    long long text_and_query = i / HEAD / n_head;
    long long text = text_and_query / length, query = text_and_query % length;
    const wide* mine = parts + ((text * n_head + head) * length + query) * n_parts * ROW;
    Found all = join(mine, n_parts, d);
    out[i] = all.z == 0 ? wide(0) : all.sum / all.z;
}
