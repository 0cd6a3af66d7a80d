// What the kernels of attention share. HEAD, the numbers of a head, is chosen when this is compiled.

// Where the numbers of one head stand: position t of q, k or v begins at first + t * 3C.
struct Heads {
    int batch, head, columns, length, n_head;
    __device__ Heads(int length, int n_head)
        : batch(blockIdx.y / n_head), head(blockIdx.y % n_head), columns(n_head * HEAD), length(length), n_head(n_head) {}

    // part 0, 1, 2: q, k, v
    __device__ long long packed(int part, int t) const {
        return ((long long)batch * length + t) * 3 * columns + part * columns + head * HEAD;
    }
    __device__ long long plain(int t) const { return ((long long)batch * length + t) * columns + head * HEAD; }

    // The number of the probability of key j for query i among all of them, (B,NH,T,T).
    __device__ unsigned index(unsigned first, int i, int j) const {
        return first + (((unsigned)batch * n_head + head) * length + i) * length + j;
    }
};
