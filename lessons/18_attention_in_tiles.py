# %% [markdown]
# # Lesson 18: attention in tiles
#
# You will compute attention without ever holding its T x T table of shares. For this you will
# build a softmax that starts before it has seen the whole row, called the *online softmax*. Then
# you will write the backward pass, which computes the shares again, one tile at a time, from a
# single number for each row. You will measure the memory that this saves, and what it costs.
#
# Reading: 40 minutes. Running: 3 to 8 seconds. Before it: lessons 02 (log-sum-exp), 03 (attention)
# and 17 (the cache).
#
# Papers: Milakov and Gimelshein 2018 (arXiv 1805.02867), algorithm 3: the online softmax. Dao et
# al. 2022 (FlashAttention, arXiv 2205.14135), algorithms 1 and 4: attention in tiles, forward and
# backward.

# %% [markdown]
# ## 1. Why: a table that grows with the square
#
# The backward pass of attention (lesson 03) reads the shares p: for each head a table of T rows
# and T columns. All else that a layer keeps has T rows and a fixed number of columns. If the text
# is twice as long, the table is four times as large. For one text through GPT-2 small, with 12
# layers of 12 heads, in float32:

# %%
import math
import timeit
import tracemalloc

import numpy as np

from minigpt import gradcheck, ops, plot
from minigpt.device.threads import set_threads
from minigpt.learn import lines

set_threads(1)  # small arrays: a second thread would only be in the way
HEADS = 12 * 12  # of GPT-2 small, in all layers
MB = 1e6
print("positions   all shares p      one number for each row")
table_mb, row_mb = {}, {}
for length in (512, 1024, 4096, 32_768):
    table_mb[length] = 4 * HEADS * length**2 / MB
    row_mb[length] = 4 * HEADS * length / MB
    print(f"{length:9,}   {table_mb[length]:9,.0f} MB   {row_mb[length]:12.2f} MB")
gpt1_batch = 64 * table_mb[512] / 1000
print(f"GPT-1's batch, 64 texts of 512 positions: {gpt1_batch:.1f} GB of shares")
assert round(table_mb[1024]) == 604, "604 MB for one text of 1,024 positions"
assert round(gpt1_batch, 1) == 9.7, "9.7 GB for GPT-1's batch"

# %% [markdown]
# The last column is what this lesson will keep instead. The idea is to cut the keys and values
# into pieces, called *tiles*, and to finish with one tile before the next one comes. The left
# panel shows the whole table. The right panel shows one tile of four keys. Only the blue part is in
# memory; the grey part is there no more, or not yet. What the causal mask hides is white, and a
# tile needs no rows above its first key.

# %%
figure, panels = plot.plt.subplots(1, 2, figsize=(9.4, 5.2))
POSITIONS, WIDE = 12, 4  # a small example: positions, and keys of a tile
seen = np.tri(POSITIONS)
SHOWN = (("All shares at once", slice(0, 12)), ("In tiles: the second of three", slice(4, 8)))
for axes, (title, part) in zip(panels, SHOWN, strict=True):
    in_memory = np.zeros_like(seen)
    in_memory[:, part] = seen[:, part]
    colors = np.where(in_memory[..., None] > 0, (0.4, 0.6, 0.85), (0.9, 0.9, 0.9))
    axes.imshow(np.where(seen[..., None] > 0, colors, 1.0))
    for edge in range(POSITIONS + 1):
        axes.axhline(edge - 0.5, color="white", linewidth=0.7)
        axes.axvline(edge - 0.5, color="white", linewidth=0.7)
    axes.set(title=title, xlabel="keys", ylabel="queries", xticks=range(0, 12, 4))
    axes.set_yticks(range(0, 12, 4))
    axes.grid(visible=False)
for border in (4, 8):
    panels[1].axvline(border - 0.5, color="tab:red", linewidth=2)
at_once = int(seen[:, 4:8].sum())
plot.save(figure, "18_tiles.png")
print(f"shares of the second tile: {at_once}, of the whole table: {int(seen.sum())}")

# %% [markdown]
# There is one difficulty. Softmax divides by the sum of a whole row, and to be safe it first
# subtracts the largest score of the whole row (lesson 02). A tile knows only a part of the row.
# How can we begin before we know the largest score?

# %% [markdown]
# ## 2. The online softmax: correct what was computed too early
#
# Take one query. It has eight scores and eight values, and they come in tiles of two. After each
# tile we keep three numbers:
#
# - m, the largest score so far,
# - z, the sum of exp(s - m) over the keys so far,
# - o, the sum of exp(s - m) v over the keys so far.
#
# When a tile brings a larger score, m changes to m'. Then z is a sum of exp(s - m) and should be a
# sum of exp(s - m'). Every term is too large by the same factor, and one multiplication corrects
# them all:
#
# $$
# e^{s - m'} = e^{s - m} \cdot e^{m - m'}
# $$
#
# $$
# z' = z\,e^{m - m'} + \sum_{\text{tile}} e^{s - m'},
# \qquad
# o' = o\,e^{m - m'} + \sum_{\text{tile}} e^{s - m'}\,v
# $$
#
# We call the factor $e^{m - m'}$ `rescale`. At the start m is minus infinity, z and o are 0, and
# the first rescale is exp(-infinity) = 0.

# %%
SCORES = np.array([1.0, 2.0, 0.5, 1.5, 5.0, 3.0, 4.0, 4.5])
VALUES = np.array([10.0, 20, 30, 40, 50, 60, 70, 80])


def states(scores, values, width):
    """(rescale, m, z, o) after each tile."""
    m, z, o = -math.inf, 0.0, 0.0
    for first in range(0, len(scores), width):
        s, v = scores[first : first + width], values[first : first + width]
        larger = max(m, s.max())
        rescale = math.exp(m - larger)
        e = np.exp(s - larger)
        m, z, o = larger, z * rescale + e.sum(), o * rescale + e @ v
        yield rescale, m, z, o


print("tile   scores      rescale     m        z         o     o / z")
history = list(states(SCORES, VALUES, 2))
for number, (rescale, m, z, o) in enumerate(history):
    pair = " ".join(f"{s:.1f}" for s in SCORES[2 * number : 2 * number + 2])
    print(f"{number:4}   {pair:9}   {rescale:7.4f}   {m:.1f}   {z:6.4f}   {o:7.3f}   {o / z:.4f}")
shares_of_row = np.exp(SCORES - 5) / np.exp(SCORES - 5).sum()
print(f"softmax of the whole row, times the values: {shares_of_row @ VALUES:.4f}")
assert math.isclose(o / z, shares_of_row @ VALUES, rel_tol=1e-14), "the same, without the whole row"

# %% [markdown]
# Read the column `rescale`. In the second tile no score is larger than 2, so the factor is 1. The
# third tile brings the score 5. All that was summed before is multiplied by $e^{-3}$ = 0.0498. At
# the end o / z is exactly the weighted average of lesson 03.

# %%
figure, (left, right) = plot.plt.subplots(1, 2, figsize=(9, 4.2))
keys_of_row = np.arange(8)
running = np.repeat([state[1] for state in history], 2)
left.bar(keys_of_row, SCORES, color="tab:blue", alpha=0.6, label="score s")
left.step(np.arange(9) - 0.5, [*running, running[-1]], where="post", color="tab:red", label="m")
left.set(title="The largest score so far, m", xlabel="key", ylim=(0, 6.8))
left.legend(loc="upper left")
so_far = [o / z for _, _, z, o in history]
right.plot(range(4), so_far, "o-", color="tab:green", label="o / z after each tile")
right.axhline(o / z, color="gray", linestyle="--", label="softmax of the whole row")
right.set(title="The result so far", xlabel="tile", xticks=range(4), ylim=(0, 95))
right.legend(loc="upper left")
plot.save(figure, "18_running_maximum.png")
print("o / z after each tile:", " ".join(f"{value:.2f}" for value in so_far))

# %% [markdown]
# ## 3. Forward in tiles
#
# Now for all queries of a head. The loop goes over tiles of keys. Queries look back, so a tile
# whose first key is at position `first` concerns only the queries from `first` on. Each array in
# the loop has at most T rows, and at most `keys` or D columns. (`np.s_[...]` keeps a slice in a
# variable. Row 0 and column 0 of a tile are the same position, so the triangle of the mask starts
# in its corner.)


# %%
def tile_scores(q, k):
    """q (*,R,D), k (*,S,D), both from the same position on -> scaled scores (*,R,S), causal"""
    s = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    return np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)


def tiled_forward(q, k, v, *, keys=16, forgets=False):
    """q (*,T,D), k (*,T,D), v (*,T,D) -> out (*,T,D). forgets: a bug, for section 6"""
    m = np.full((*q.shape[:-1], 1), -np.inf, q.dtype)
    z, o = np.zeros_like(m), np.zeros_like(q)
    for first in range(0, q.shape[-2], keys):
        tile, rows = np.s_[..., first : first + keys, :], np.s_[..., first:, :]
        s = tile_scores(q[rows], k[tile])
        larger = np.maximum(m[rows], s.max(axis=-1, keepdims=True))
        rescale = np.exp(m[rows] - larger)
        e = np.exp(s - larger)
        z[rows] = z[rows] * rescale + e.sum(axis=-1, keepdims=True)
        o[rows] = o[rows] * (1 if forgets else rescale) + e @ v[tile]
        m[rows] = larger
    out, lse = o / z, m + np.log(z)
    return out, (q, k, v, out, lse, keys)


three = np.ones((3, 4))
print(f"scores of three equal queries and keys:\n{tile_scores(three, three)}")

# %%
Q, K, V, DOUT = np.random.default_rng(0).normal(size=(4, 2, 3, 11, 4))  # B, NH, T, D = 2, 3, 11, 4
with ops.using("reference"):
    expected_out, expected_cache = ops.attention_forward(Q, K, V)
print("keys of a tile   largest difference from the attention of lesson 03")
for width in (1, 2, 3, 5, 11, 16):
    gap = np.abs(tiled_forward(Q, K, V, keys=width)[0] - expected_out).max()
    print(f"{width:14}   {gap:.0e}")
    assert gap < 1e-14, "tiles of any width give the same attention"

# %% [markdown]
# ## 4. Backward: the shares, computed again
#
# The backward pass needs p, and p was not kept. But one number for each row brings it back. Divide
# by z inside the exponential:
#
# $$
# p = \frac{e^{s - m}}{z} = e^{s - m - \log z} = e^{s - \mathrm{lse}},
# \qquad \mathrm{lse} = m + \log z = \log \sum e^{s}.
# $$
#
# lse is the log-sum-exp of lesson 02. The backward of softmax needs one more number for each row,
# the weighted mean of dp, over *all* keys. Lesson 03 found that it can be computed without p,
# because the weighted mean can be moved inside the product with v:
#
# $$
# \delta_t = \sum_j p_{tj}\,dp_{tj} = \sum_j p_{tj} \sum_c dout_{tc}\,v_{jc}
# = \sum_c dout_{tc} \sum_j p_{tj}\,v_{jc} = \sum_c dout_{tc}\,out_{tc}.
# $$
#
# We check this line by line, with two tiles of three and two keys, and without a mask. The
# backward computes `s1`, `s2` and the shares again. It uses lse and $\delta$, called `mean_dp`.

# %%
ROOT_D = math.sqrt(4)


def two_tiles(q, k1, v1, k2, v2):
    s1 = q @ k1.T / ROOT_D
    m1 = s1.max(axis=-1, keepdims=True)
    e1 = np.exp(s1 - m1)
    z1 = e1.sum(axis=-1, keepdims=True)
    o1 = e1 @ v1
    s2 = q @ k2.T / ROOT_D
    m2 = np.maximum(m1, s2.max(axis=-1, keepdims=True))
    rescale = np.exp(m1 - m2)
    e2 = np.exp(s2 - m2)
    z2 = z1 * rescale + e2.sum(axis=-1, keepdims=True)
    o2 = o1 * rescale + e2 @ v2
    out = o2 / z2
    return out


few = np.random.default_rng(1).normal(size=(4, 5, 4))
PARTS = few[0], few[1, :3], few[2, :3], few[1, 3:], few[2, 3:]  # q, k1, v1, k2, v2
values_of_two = lines.run(two_tiles, *PARTS)


# %%
def two_tiles_backward(dout, v):
    mean_dp = (dout * v.out).sum(axis=-1, keepdims=True)
    lse = v.m2 + np.log(v.z2)
    # the first tile: p1, and out = p1 @ v1 + p2 @ v2
    p1 = np.exp(v.q @ v.k1.T / ROOT_D - lse)
    dv1 = p1.T @ dout
    # p = softmax(s)
    ds1 = p1 * (dout @ v.v1.T - mean_dp)
    # s1 = q @ k1.T / ROOT_D
    dk1 = ds1.T @ v.q / ROOT_D
    dq = ds1 @ v.k1 / ROOT_D
    # the second tile: the same lines
    p2 = np.exp(v.q @ v.k2.T / ROOT_D - lse)
    dv2 = p2.T @ dout
    ds2 = p2 * (dout @ v.v2.T - mean_dp)
    dk2 = ds2.T @ v.q / ROOT_D
    dq = dq + ds2 @ v.k2 / ROOT_D
    return dq, dk1, dv1, dk2, dv2


by_lines = lines.check(two_tiles, two_tiles_backward, *PARTS)
assert all(result.word == "happy" for result in by_lines), "each gradient of both tiles is right"

# %% [markdown]
# The last line of the output names what a cache must keep: q, keys, values, out, and m2 and z2,
# from which lse is made. No score and no share is among them. Two things deserve a second look:
#
# - The gradient of `m1` is 0: `z1` and `o1` are sums of exp(s - m1), they are multiplied by
#   exp(m1 - m2), and m1 cancels (as the largest logit in lesson 02). `z1`, `o1` and `rescale` have
#   gradients, but we do not need them: the backward undoes the softmax of the whole row at once.
# - The tiles meet only in dq. Each tile adds its part. dk and dv of a tile belong to it alone.

# %% [markdown]
# ## 5. Collapse: the loop
#
# For any number of tiles, with the causal mask, these lines become a loop. Each line is a line of
# lesson 03 for the keys of one tile:
#
# $$
# ds_{tj} = p_{tj}\,(dp_{tj} - \delta_t), \qquad dp_{tj} = \sum_c dout_{tc}\,v_{jc}.
# $$
#
# The finite differences of lesson 00 judge the loop.


# %%
def tiled_backward(dout, cache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,T,D), dv (*,T,D)"""
    q, k, v, out, lse, keys = cache
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    mean_dp, root_d = (dout * out).sum(axis=-1, keepdims=True), math.sqrt(q.shape[-1])
    for first in range(0, q.shape[-2], keys):
        tile, rows = np.s_[..., first : first + keys, :], np.s_[..., first:, :]
        p = np.exp(tile_scores(q[rows], k[tile]) - lse[rows])  # computed again
        # out = p @ v
        dp = dout[rows] @ v[tile].swapaxes(-1, -2)
        dv[tile] = p.swapaxes(-1, -2) @ dout[rows]
        # p = softmax(s)
        ds = p * (dp - mean_dp[rows])
        # s = q @ k^T / sqrt(D)
        dq[rows] += ds @ k[tile] / root_d
        dk[tile] = ds.swapaxes(-1, -2) @ q[rows] / root_d
    return dq, dk, dv


few_q, few_k, few_v = np.random.default_rng(4).normal(size=(3, 1, 2, 7, 4))
by_check = gradcheck.check(tiled_forward, tiled_backward, (few_q, few_k, few_v), {"keys": 3})
print(gradcheck.table(by_check))
assert all(result.error < 1e-8 for result in by_check), "the tiles pass the check of lesson 00"

# %%
with ops.using("reference"):
    expected_gradients = ops.attention_backward(DOUT, expected_cache)[:3]
print("keys of a tile   largest difference of dq, dk, dv from lesson 03")
for width in (1, 2, 3, 5, 11, 16):
    found_gradients = tiled_backward(DOUT, tiled_forward(Q, K, V, keys=width)[1])
    gaps = [np.abs(a - b).max() for a, b in zip(found_gradients, expected_gradients, strict=True)]
    print(f"{width:14}   {'  '.join(f'{gap:.0e}' for gap in gaps)}")
    assert max(gaps) < 1e-13, "the same gradients for every width"

# %% [markdown]
# ## 6. Check, and the trap
#
# Here is a planted mistake: the forward pass forgets to multiply o by `rescale` (it still
# multiplies z). We compare it three times with the reference, the attention of lesson 03.

# %%
print("q, k times   keys of a tile   error of a forward that forgets `rescale`")
off_by = {}
for size, width in ((1, 16), (0.02, 3), (1, 3)):
    with ops.using("reference"):
        right_out, _ = ops.attention_forward(size * Q, size * K, V)
    wrong_out, _ = tiled_forward(size * Q, size * K, V, keys=width, forgets=True)
    off_by[size, width] = np.abs(wrong_out - right_out).max()
    print(f"{size:10}   {width:14}   {off_by[size, width]:.0e}")
assert off_by[1, 16] < 1e-14, "one tile holds all 11 keys: the wrong line does nothing"
assert 1e-9 < off_by[0.02, 3] < 1e-3, "scores near 0: every rescale is near 1"
assert off_by[1, 3] > 0.1, "several tiles and scores away from 0 show the mistake"

# %% [markdown]
# The first comparison finds nothing: one tile of 16 holds all 11 keys, so nothing is ever rescaled.
# The second runs the wrong line, but where all scores are near 0 every factor is near 1: a check
# with a tolerance of 0.001 accepts it. **So test tiles with small tiles, of 2 or 3 keys, and with
# scores that are not near 0.**

# %% [markdown]
# ## 7. See it: what it saves, and what it costs
#
# Python's `tracemalloc` counts the bytes that NumPy holds. We measure the peak of one forward and
# backward pass for one head of size 64, in float32, with tiles of 64 keys, and the time.


# %%
def whole_attention(q, k, v, dout):
    with ops.using("reference"):
        _, cache = ops.attention_forward(q, k, v)
        ops.attention_backward(dout, cache)


def tiled_attention(q, k, v, dout):
    _, cache = tiled_forward(q, k, v, keys=64)
    tiled_backward(dout, cache)


def peak_and_seconds(f, arrays):
    """The most memory in use during f, in bytes, and the time of the best of three calls."""
    f(*arrays)  # the first call may differ: it is not counted
    tracemalloc.start()
    f(*arrays)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    times = timeit.repeat(lambda: f(*arrays), number=1, repeat=3)
    return peak, min(times)


little = np.ones((4, 64, 64), np.float32)
little_peak, _ = peak_and_seconds(whole_attention, little)
print(f"64 positions: about {round(little_peak, -4):,} bytes at the peak")

# %%
LENGTHS = (256, 512, 1024, 2048)
measured = {}
print("positions    whole: peak    time    tiles: peak    time")
for length in LENGTHS:
    four = np.random.default_rng(2).standard_normal((4, length, 64), dtype=np.float32)
    measured[length] = [peak_and_seconds(f, four) for f in (whole_attention, tiled_attention)]
    (whole_peak, whole_s), (tile_peak, tile_s) = measured[length]
    print(f"{length:9}   {whole_peak / MB:9.1f} MB  {1e3 * whole_s:3.0f} ms", end="   ")
    print(f"{tile_peak / MB:9.2f} MB  {1e3 * tile_s:3.0f} ms")

# %%
growth = [measured[2048][way][0] / measured[512][way][0] for way in (0, 1)]
slopes = [math.log2(measured[2048][way][0] / measured[1024][way][0]) for way in (0, 1)]
print(f"slopes between 1,024 and 2,048 positions: {slopes[0]:.2f} and {slopes[1]:.2f}")
saved = measured[2048][0][0] / measured[2048][1][0]
print(f"four times as long: the whole needs {growth[0]:.1f} times the memory,", end=" ")
print(f"tiles {growth[1]:.1f} times")
print(f"at 2,048 positions the whole needs {saved:.0f} times as much as tiles")
assert abs(slopes[0] - 2) < 0.1 and abs(slopes[1] - 1) < 0.1 and saved > 8, "T x T against T"

figure, axes = plot.plt.subplots(figsize=(7.5, 4.4))
for way, name, style in ((0, "the whole table", "o-"), (1, "tiles of 64 keys", "s-")):
    axes.loglog(LENGTHS, [measured[n][way][0] / MB for n in LENGTHS], style, label=name)
axes.set_xticks(LENGTHS, [f"{n:,}" for n in LENGTHS], minor=False)
axes.set_xticks([], minor=True)
axes.set(title="Memory of one head, forward and backward", xlabel="positions T", ylabel="peak, MB")
axes.legend(loc="upper left")
plot.save(figure, "18_memory.png")

# %% [markdown]
# The slopes become 2 and 1: memory grows with T² and T. **The cost** is arithmetic. Forward and
# backward of lesson 03 make six products of the size T x T x D: two forward, four backward. Tiles
# make a seventh, because the scores are computed again. On the other hand, tiles skip what the
# mask hides, which is nearly half. Count the pairs of a query and a key that are computed:


# %%
def pairs_in_tiles(length, width):
    return sum((length - first) * min(width, length - first) for first in range(0, length, width))


print("positions   pairs, whole   pairs, tiles   products x pairs: tiles / whole")
for length in LENGTHS:
    some = pairs_in_tiles(length, 64)
    arithmetic = 7 * some / (6 * length**2)
    print(f"{length:9,}   {length**2:12,}   {some:12,}   {arithmetic:31.2f}")
assert pairs_in_tiles(2048, 64) == 2048 * (2048 + 64) // 2, "about half of all pairs"
assert 0.59 < arithmetic < 0.61, "seven products of half the pairs: 60 % of six products"

# %% [markdown]
# Without a mask the cost would be 7/6: 17 % more arithmetic. To compute something again in order
# not to keep it was called *checkpointing* in lesson 00. Does less arithmetic also take less time?
# Look at the times in the first table of section 7: our tiles may take longer than the whole. They
# are written to be read: each tile makes its own small products and new arrays. So these times say
# nothing about the method. Dao et al. report shorter times on GPUs; lesson 20 computes a reason: to
# write and read a large table takes longer than to compute it.

# %% [markdown]
# ## 8. In the library
#
# The library has attention in tiles twice. On a processor (`minigpt/ops/fast/attention.py`) a tile
# has 64 *queries*, and they meet all their keys at once. So each row is complete, and an ordinary
# softmax is enough. These are its three steps. At first `e` holds the scores of a tile. `_exp`
# changes them in place, so afterwards `e` holds their exponentials, and returns the sum z of each
# row. It subtracts no m, so lse is just log z. (Where a sum is too large or too small for that, the
# library computes the tile again, with m.) `v_g` has the values of the heads of one thread:
#
#     # minigpt/ops/fast/attention.py
#     z = _exp(e)
#     ...
#     o = e @ v_g[:, :, seen]
#     np.divide(o, z, out=out_heads[*g, rows])
#
# On a GPU a tile must fit into a very small memory close to the arithmetic, so keys come in tiles
# too, and the online softmax is needed. Lesson 21 has the lines of its kernel.

# %%
QKV, DBIG = (np.random.default_rng(3).standard_normal((1, 512, c)) for c in (3 * 128, 128))
kept, both_ways = {}, {}
for way in ("reference", "fast"):
    with ops.using(way):
        big_out, big_cache = ops.self_attention_forward(QKV, 2)  # 2 heads of 64
        kept[way] = ops.nbytes(big_cache)
        gradients = ops.self_attention_backward(DBIG, big_cache)
        both_ways[way] = big_out, gradients[0]
pairs_of_both = zip(*both_ways.values(), strict=True)
fast_gap = max(np.abs(a - b).max() for a, b in pairs_of_both)
print(f"out and dqkv, with the table or in tiles: largest difference {fast_gap:.0e}")
print("kept for 2 heads of 512 positions, in float64:", end=" ")
print(", ".join(f"{way} {size / MB:.2f} MB" for way, size in kept.items()))
assert fast_gap < 1e-12, "with a table or in tiles, attention is the same"
assert kept["reference"] - kept["fast"] > 0.75 * 8 * 2 * 512 * 512, "the table is not kept"

# %% [markdown]
# The kernels for a GPU are judged by a program that plays the GPU on a processor (lesson 21). They
# have not yet been run on a GPU.

# %% [markdown]
# ## 9. Paper and code
#
# - **The online softmax** is algorithm 3 of Milakov and Gimelshein, for m and z. FlashAttention
#   rescales o together with them.
# - **Forward.** FlashAttention's algorithm 1 has keys in its outer loop, as our NumPy has, and
#   writes o back after each tile. Our GPU kernel has queries outside, so that o stays close to the
#   arithmetic. The paper keeps m and z for the backward pass. Its sequel (Dao 2023, arXiv
#   2307.08691) has both things that we have: queries outside, and lse. (`attention.cu` keeps lse as
#   two numbers that are never added: beside a bias of -1e9 on all keys the other would be lost.)
# - **Backward.** Algorithm 4 visits each pair of tiles once, with five products: S (the scores
#   again), dP, dV, dQ and dK. The product for dQ adds to rows that other tiles add to as well.
#   Where tiles are computed at the same time, they have to wait for each other there, or the sum
#   has no fixed order. Our GPU code has two kernels. One goes along the queries and makes S, dP and
#   dQ. The other goes along the keys and makes S, dP, dV and dK. That is seven products, two of
#   them twice, and the same bits every time.
# - **How much is moved.** The paper's theorem 2: with a fast memory for M numbers, where D <= M <=
#   TD, the numbers that are moved grow as T²D²/M. Ordinary attention moves TD + T² of them. Both
#   are orders of magnitude: constant factors are left out. With D = 64 and M = 25,000 (100 KB in
#   float32), D²/M is about a sixth. So of the T² about a sixth is left, up to such a factor.
# - **Dropout** of shares works in tiles, because a key and a position give its random bits again
#   (lesson 07).

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/18_loss_in_tiles.py`: the logits of a language model are a large table too, N
#    positions x V tokens. Compute the loss and its gradients with a few columns of logits at a
#    time. Run the file: it judges itself.
# 2. `exercises/18_find_the_bug.py`: attention in tiles that takes any mask. The author's check,
#    with one large tile, was happy.
# 3. With pencil: the scores of a query fall from key to key, s = 5, 4, 3, 2, … How often is
#    o rescaled by a factor other than 1? And if they rise?
# 4. With pencil: a query may see nothing in a tile (a mask hides all its keys), and nothing in
#    earlier tiles either. What is exp(m - larger) then, with m = -infinity at the start? How does
#    `attention.cu` avoid it?
# 5. Try it: measure the peak of section 7 for tiles of 16, 64, 256 and 1,024 keys at 2,048
#    positions, and the time. Which width is the best on your machine?

# %%
worst = max(result.error for result in [*by_lines, *by_check])
print(f"lesson 18: every check is happy (worst relative error {worst:.0e}; {saved:.0f} times less)")
