// Where queries, keys and values are, for all kernels of attention: attention.cu, attention_mma.cu and attention_past.cu.
// Chosen when a kernel is compiled: HEAD, how many numbers a query, key or value of one head has; KV_GROUP, how many heads
// of queries share one head of keys and values (Ainslie et al. 2023); and PLAIN: plain causal self-attention. Each position
// sees itself and the positions before it, and nothing is added to the scores.

// Where the numbers of one head of queries are, and of the keys and values that it reads. They may be packed in one array
// (B,T,C+2G), as they always are where PLAIN. C is the width of all heads of queries, G that of all heads of keys. Then
// position t of each begins at first + t * (C+2G). Otherwise queries are (B,T,C), keys and values (B,S,2G). A block works on
// one head of one text, or on the heads of a group: number counts the heads of queries of all texts.
struct Heads {
    int number, batch, head, columns, kv_columns, length, n_head, keys;
    bool packed_in_one;
    __device__ Heads(int number, int length, int n_head, int keys = 0, bool packed_in_one = true)
        : number(number), batch(number / n_head), head(number % n_head), columns(n_head * HEAD),
          kv_columns(columns / KV_GROUP), length(length), n_head(n_head), keys(PLAIN ? length : keys),
          packed_in_one(PLAIN || packed_in_one) {}

    // Where position t of q (part 0), k (1) or v (2) begins.
    __device__ long long packed(int part, int t) const {
        int in_row = part == 0 ? head * HEAD : (part - 1) * kv_columns + head / KV_GROUP * HEAD;
        if (packed_in_one) return ((long long)batch * length + t) * stride(0) + (part == 0 ? 0 : columns) + in_row;
        return part == 0 ? plain(t) : ((long long)batch * keys + t) * stride(part) + in_row;
    }
    // How many numbers lie from one position of a part to the next.
    __device__ int stride(int part) const {
        if (packed_in_one) return columns + 2 * kv_columns;
        return part == 0 ? columns : 2 * kv_columns;
    }
    // Where position t of an array (B,T,C) begins.
    __device__ long long plain(int t) const { return ((long long)batch * length + t) * columns + head * HEAD; }

    // The index of the probability of query i and key j in (B,NH,T,S), from `first` on: what its dropout depends on.
    __device__ unsigned index(unsigned first, int i, int j) const {
        return first + (((unsigned)batch * n_head + head) * length + i) * keys + j;
    }
};
