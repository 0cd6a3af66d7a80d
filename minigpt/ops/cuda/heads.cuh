// What the kernels of attention share. HEAD, the numbers of a head, and PLAIN are chosen when this is compiled. PLAIN: the
// positions of a text look at themselves and at those before, and nothing is added to their scores.

// Where the numbers of one head stand. Queries, keys and values may be packed in one array (B,T,3C), as they always are
// where PLAIN: position t of each begins at first + t * 3C. Otherwise queries are (B,T,C), keys and values (B,S,2C).
struct Heads {
    int batch, head, columns, length, n_head, keys;
    bool packed_in_one;
    __device__ Heads(int length, int n_head, int keys = 0, bool packed_in_one = true)
        : batch(blockIdx.y / n_head), head(blockIdx.y % n_head), columns(n_head * HEAD), length(length), n_head(n_head),
          keys(PLAIN ? length : keys), packed_in_one(PLAIN || packed_in_one) {}

    // part 0, 1, 2: q, k, v
    __device__ long long packed(int part, int t) const {
        if (packed_in_one) return ((long long)batch * length + t) * 3 * columns + part * columns + head * HEAD;
        if (part == 0) return plain(t);
        return ((long long)batch * keys + t) * 2 * columns + (part - 1) * columns + head * HEAD;
    }
    // How far apart two positions of a part are.
    __device__ int stride(int part) const {
        if (packed_in_one) return 3 * columns;
        return part == 0 ? columns : 2 * columns;
    }
    __device__ long long plain(int t) const { return ((long long)batch * length + t) * columns + head * HEAD; }

    // The number of the probability of key j for query i among all of them, (B,NH,T,S).
    __device__ unsigned index(unsigned first, int i, int j) const {
        return first + (((unsigned)batch * n_head + head) * length + i) * keys + j;
    }
};
