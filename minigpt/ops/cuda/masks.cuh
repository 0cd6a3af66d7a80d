// Which keys a query sees, and what is added to its scores: Rules for the three kernels of attention.cu, MaskOrBias for them
// and for attention_past.cu, whose new positions stand behind a past. (On tensor cores attention is causal and nothing is
// added: see hide_later_keys in attention_mma.cu.)

#define HIDDEN wide(__uint_as_float(0xFF800000u))  // minus infinity: the score of a key that the query does not see

// The mask or bias of one head, a part of an array (B or 1, NH or 1, T or 1, S or 1). An axis of length 1 is broadcast, as
// in NumPy. axes has a bit for each axis that is not: 8 for B, 4 for NH, 2 for T, 1 for S. at is null where there is none.
// Queries are counted from `first_query` on.
template <class Number> struct MaskOrBias {
    const Number* at;
    int query_stride, key_stride;  // from a query, or a key, to the next one
    __device__ MaskOrBias(const Number* all, int axes, const Heads& heads, int first_query = 0) {
        key_stride = axes & 1 ? 1 : 0;
        query_stride = axes & 2 ? (axes & 1 ? heads.keys : 1) : 0;
        long long size = (axes & 1 ? heads.keys : 1) * (long long)(axes & 2 ? heads.length : 1);
        long long head_stride = axes & 4 ? size : 0;
        size *= axes & 4 ? heads.n_head : 1;
        long long batch_stride = axes & 8 ? size : 0;
        long long begin = heads.head * head_stride + heads.batch * batch_stride + (long long)first_query * query_stride;
        at = all ? all + begin : all;
    }
    __device__ Number operator()(int i, int j) const { return at[(long long)i * query_stride + j * key_stride]; }
};

// Which keys a query sees (i is a query, j a key), what is added to their scores, and so which tiles are visited.
struct Rules {
    bool causal;  // a query sees the keys up to its own position
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
    // The score, from the dot product. A hidden one stays hidden even if the product is NaN.
    __device__ wide score(wide product, wide added, int i, int j) const {
        if (PLAIN) return sees(i, j) ? product : HIDDEN;
        return added == HIDDEN ? HIDDEN : product + added;
    }
    // The end of the keys that queries before `end` may see: they see no key from here on.
    __device__ int end_of_keys(int end) const { return causal ? min(keys, end) : keys; }
    // The first query that may see a key from j on.
    __device__ int first_query(int j) const { return causal ? j : 0; }
};
