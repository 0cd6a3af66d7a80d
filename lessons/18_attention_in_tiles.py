# %% [markdown]
# # Lesson 18: attention in tiles
#
# You will compute attention without ever holding its T x T table of shares. For this you will build
# the *online softmax*, which starts before it has seen the whole row. Your backward pass computes
# the shares again, one tile at a time, from a single number for each row. You will measure the
# memory that this saves, and count what it costs.
#
# Reading: 25 minutes for the core, 50 minutes for all of it. Running: 3 to 8 seconds. Before it:
# lessons 02 (log-sum-exp), 03 (attention) and 17 (the cache).
#
# Papers: Milakov and Gimelshein 2018 (arXiv 1805.02867), algorithm 3: the online softmax. Dao et
# al. 2022 (FlashAttention, arXiv 2205.14135), algorithms 1 and 4: attention in tiles, forward and
# backward.

# %% [markdown]
# ## 1. Why: a table that grows with the square
#
# The backward pass of attention (lesson 03) reads the shares p: for each head a table of T rows
# and T columns. All else that a layer keeps has T rows and a fixed number of columns. If the text
# is twice as long, the table is four times as large.
#
# The idea is to cut the keys and values into pieces, called *tiles*, and to finish with one tile
# before the next one comes. The left panel shows the whole table for 12 positions, the right one a
# tile of four keys: only what is dark blue is in memory. What the causal mask hides is white.

# %%
import math

import numpy as np

from minigpt import gradcheck, ops, plot
from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
visible = np.tri(12)
figure, panels = plot.plt.subplots(1, 2, figsize=(9.4, 5))
PARTS_SHOWN = {"All shares at once": slice(0, 12), "The second of three tiles": slice(4, 8)}
for axes, (title, part) in zip(panels, PARTS_SHOWN.items(), strict=True):
    level = 0.15 * visible
    level[:, part] = 0.6 * visible[:, part]
    axes.imshow(level, cmap="Blues", vmin=0, vmax=1)
    axes.set(title=title, xlabel="keys", ylabel="queries")
    axes.grid(False)
plot.save(figure, "18_tiles.png")
MB, HEADS = 1e6, 12 * 12  # 12 layers of 12 heads
print("GPT-2 small, all layers and heads, for one text:")
for length in (512, 1024, 32_768):
    table, rows = (4 * HEADS * n / MB for n in (length**2, length))  # float32: 4 bytes
    print(f"{length:6,} positions: {table:9,.0f} MB of shares; one number a row {rows:5.2f} MB")
assert round(4 * HEADS * 1024**2 / MB) == 604, "604 MB for one text of 1,024 positions"

# %% [markdown]
# One number for each row is what this lesson will keep instead of the table.
#
# But softmax divides by the sum of a whole row, and first subtracts the largest score of the whole
# row (lesson 02). A tile knows only a part of the row. How can we begin before we know the largest
# score?

# %% [markdown]
# ## 2. The online softmax: correct what was computed too early
#
# One query has eight scores and eight values; they come in tiles of two. After each tile we keep
# three numbers:
#
# - m, the largest score so far,
# - z, the sum of exp(s - m) over the keys so far,
# - o, the sum of exp(s - m) v over the keys so far.
#
# When a tile brings a larger score, m changes to m'. Then z is a sum of exp(s - m) and should be a
# sum of exp(s - m'). Every term is too large by the same factor.
#
# **Your turn:** two tiles are done, with m = 2. The next one may bring the largest score 2, 3 or 5
# (`larger` holds all three). Correct z for each, before new terms are added.

# %%
from minigpt.learn import gap

SEEN = np.array([1.0, 2.0, 0.5, 1.5])  # the scores of the first two tiles
LARGER = np.array([2.0, 3.0, 5.0])  # the new m', in three cases


def your_z(z, m, larger):
    return ...


true_z = np.array([np.exp(SEEN - one).sum() for one in LARGER])  # from all the scores
gap.judge(your_z, np.exp(SEEN - 2).sum(), 2.0, LARGER, expected=true_z)

# %% [markdown] tags=["answer"]
# `z * np.exp(m - larger)`: each term is exp(s - m) and should be exp(s - m'). Where m' is m, the
# factor is 1.

# %% [markdown]
# One multiplication corrects all terms. We call its factor $e^{m - m'}$ `rescale`:
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
# At the start m is minus infinity, z and o are 0, and the first rescale is exp(-infinity) = 0.

# %%
SCORES = np.array([1.0, 2.0, 0.5, 1.5, 5.0, 3.0, 4.0, 4.5])
VALUES = np.array([10.0, 20, 30, 40, 50, 60, 70, 80])
m, z, o = -math.inf, 0.0, 0.0
print("scores of the tile   rescale     m        z         o     o / z")
for first in range(0, 8, 2):
    s, v = SCORES[first : first + 2], VALUES[first : first + 2]
    larger = max(m, s.max())
    rescale = math.exp(m - larger)
    e = np.exp(s - larger)
    z = z * rescale + e.sum()
    o = o * rescale + e @ v
    m = larger
    print(f"{str(s):18}   {rescale:7.4f}   {m:.1f}   {z:6.4f}   {o:7.3f}   {o / z:.4f}")
whole_row = np.exp(SCORES) @ VALUES / np.exp(SCORES).sum()
print(f"softmax of the whole row, times the values: {whole_row:.4f}")
assert math.isclose(o / z, whole_row, rel_tol=1e-14), "the same, without the whole row"

# %% [markdown]
# Read the column `rescale`. In the second tile no score is larger than 2, so the factor is 1. The
# third tile brings the score 5: all that was summed before is multiplied by $e^{-3}$ = 0.0498. The
# last o / z is the weighted average of lesson 03.

# %% [markdown] tags=["deeper"]
# ### The largest score so far, drawn

# %%
running_figure, (left, right) = plot.plt.subplots(1, 2, figsize=(9, 4.2))
running = np.repeat([SCORES[:n].max() for n in (2, 4, 6, 8)], 2)
left.bar(np.arange(8), SCORES, color="tab:blue", alpha=0.6, label="score s")
left.step(np.arange(9) - 0.5, [*running, running[-1]], where="post", color="tab:red", label="m")
left.set(title="The largest score so far, m", xlabel="key", ylim=(0, 6.8))
left.legend(loc="upper left")
so_far = [np.exp(SCORES[:n]) @ VALUES[:n] / np.exp(SCORES[:n]).sum() for n in (2, 4, 6, 8)]
right.plot(range(4), so_far, "o-", color="tab:green", label="o / z after each tile")
right.axhline(whole_row, color="gray", linestyle="--", label="softmax of the whole row")
right.set(title="The result so far", xlabel="tile", xticks=range(4), ylim=(0, 95))
right.legend(loc="upper left")
plot.save(running_figure, "18_running_maximum.png")
print("o / z after each tile:", " ".join(f"{value:.2f}" for value in so_far))

# %% [markdown]
# ## 3. Forward in tiles
#
# Now for all queries of a head. The loop goes over tiles of keys. Queries look back, so a tile
# whose first key is at position `first` concerns only the queries from `first` on. Each array in
# the loop has at most T rows, and at most `keys` or D columns. (`np.s_[...]` keeps a slice in a
# variable. Row 0 and column 0 of a tile's scores are both position `first`, so the triangle of the
# mask starts in their corner.)

# %%
def tile_scores(q, k):
    """q (*,R,D), k (*,S,D), both from the same position on -> scaled scores (*,R,S), causal"""
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)


def tiled_forward(q, k, v, *, keys=64):
    """q (*,T,D), k (*,T,D), v (*,T,D) -> out (*,T,D)"""
    m = np.full((*q.shape[:-1], 1), -np.inf, q.dtype)
    z, o = np.zeros_like(m), np.zeros_like(q)
    for first in range(0, q.shape[-2], keys):
        tile, rows = np.s_[..., first : first + keys, :], np.s_[..., first:, :]
        s = tile_scores(q[rows], k[tile])
        larger = np.maximum(m[rows], s.max(axis=-1, keepdims=True))
        rescale = np.exp(m[rows] - larger)
        e = np.exp(s - larger)
        z[rows] = z[rows] * rescale + e.sum(axis=-1, keepdims=True)
        o[rows] = o[rows] * rescale + e @ v[tile]
        m[rows] = larger
    out, lse = o / z, m + np.log(z)
    return out, (q, k, v, out, lse, keys)


print("the loop of section 2, for T queries at once: m, z (*,T,1) and o (*,T,D)")

# %%
Q, K, V, DOUT = np.random.default_rng(0).normal(size=(4, 2, 3, 11, 4))  # B, NH, T, D = 2, 3, 11, 4
with ops.using("reference"):
    expected_out, expected_cache = ops.attention_forward(Q, K, V)
apart = np.abs(tiled_forward(Q, K, V, keys=3)[0] - expected_out).max()
print(f"tiles of 3 keys: largest difference from the attention of lesson 03: {apart:.0e}")
assert apart < 1e-14, "tiles give the same attention"

# %% [markdown]
# ## 4. Backward: the shares, computed again
#
# The backward pass needs p, and p was not kept. But one number for each row brings it back. Move
# the division by z into the exponent:
#
# $$
# p = \frac{e^{s - m}}{z} = e^{s - m - \log z} = e^{s - \mathrm{lse}},
# \qquad \mathrm{lse} = m + \log z = \log \sum e^{s}.
# $$
#
# lse is the log-sum-exp of lesson 02. The backward of softmax (lesson 03) needs one more number for
# each row, the weighted mean of dp over *all* keys. We call it $\delta_t$ (in the code `mean_dp`):
#
# $$
# ds_{tj} = p_{tj}\,(dp_{tj} - \delta_t), \qquad dp_{tj} = \sum_c dout_{tc}\,v_{jc}.
# $$
#
# It can be computed without p. Put in the sum for dp, and add over the keys j first. The inner sum
# is then $out_{tc}$, and out was kept.
#
# $$
# \delta_t = \sum_j p_{tj}\,dp_{tj}
# = \sum_c dout_{tc} \sum_j p_{tj}\,v_{jc} = \sum_c dout_{tc}\,out_{tc}.
# $$
#
# So each line of the loop is a line of lesson 03, for the keys of one tile. Only `dq` meets all
# tiles: each adds its part.

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


by_check = gradcheck.check(tiled_forward, tiled_backward, (Q, K, V), {"keys": 3})
print(gradcheck.table(by_check))
assert all(result.error < 1e-8 for result in by_check), "the tiles pass the check of lesson 00"

# %% [markdown] tags=["deeper"]
# ### Two tiles, line by line
#
# The same with one line for each operation: two tiles of three and two keys, without a mask. The
# backward computes `s1`, `s2` and the shares again. It uses lse and `mean_dp`.

# %%
from minigpt.learn import lines

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
# - The gradient of `m1` is 0. `z1` and `o1` are sums with exp(s - m1). They are multiplied by
#   exp(m1 - m2), so m1 cancels (as the largest logit in lesson 02). `z1`, `o1` and `rescale` have
#   gradients, but we do not need them: the backward undoes the softmax of the whole row at once.
# - The tiles meet only in dq. Each tile adds its part. dk and dv of a tile belong to it alone.

# %% [markdown] tags=["deeper"]
# ### Tiles of any width

# %%
with ops.using("reference"):
    expected_gradients = ops.attention_backward(DOUT, expected_cache)[:3]
expected = (expected_out, *expected_gradients)
print("keys of a tile   largest difference of out, dq, dk, dv from lesson 03")
for width in (1, 2, 3, 5, 11, 16):
    in_tiles, tile_cache = tiled_forward(Q, K, V, keys=width)
    of_tiles = (in_tiles, *tiled_backward(DOUT, tile_cache))
    differences = [np.abs(a - b).max() for a, b in zip(of_tiles, expected, strict=True)]
    print(f"{width:14}   {'  '.join(f'{one:.0e}' for one in differences)}")
    assert max(differences) < 1e-13, "the same attention and gradients for every width"

# %% [markdown] tags=["deeper"]
# ## 5. Check, and the trap
#
# Here is a planted mistake: a forward pass that multiplies z by `rescale`, and forgets to multiply
# o. We take the one query of section 2, and compare three times with the whole row.

# %%
def forgetful(scores, values, width):
    """o / z at the end, where o is never rescaled"""
    m, z, o = -math.inf, 0.0, 0.0
    for first in range(0, len(scores), width):
        s, v = scores[first : first + width], values[first : first + width]
        larger = max(m, s.max())
        e = np.exp(s - larger)
        z = z * math.exp(m - larger) + e.sum()
        o = o + e @ v  # the trap: o * rescale should stand here
        m = larger
    return o / z


print("scores times   keys of a tile   relative error of the forward that forgets `rescale`")
off_by = {}
for size, width in ((1, 8), (0.0005, 2), (1, 2)):
    e = np.exp(size * SCORES)
    off_by[size, width] = abs(forgetful(size * SCORES, VALUES, width) / (e @ VALUES / e.sum()) - 1)
    print(f"{size:12}   {width:14}   {off_by[size, width]:.0e}")
assert off_by[1, 8] < 1e-14, "one tile holds the whole row: the wrong line does nothing"
assert 1e-9 < off_by[0.0005, 2] < 1e-3, "scores near 0: every rescale is near 1"
assert off_by[1, 2] > 0.1, "several tiles and scores away from 0 show the mistake"

# %% [markdown]
# The first comparison finds nothing: the first tile holds the whole row, so nothing is ever
# rescaled. The second runs the wrong line, but where all scores are near 0 every factor is near 1:
# a check with a tolerance of 0.001 accepts it. **So test tiles with small tiles, of 2 or 3 keys,
# and with scores that are not near 0.**

# %% [markdown]
# ## 6. See it: what it saves, and what it costs
#
# Python's `tracemalloc` counts the bytes that NumPy holds. We measure the peak for one head of size
# 64, in float32: the attention of lesson 03, and ours in tiles of 64 keys.

# %%
import tracemalloc


def peak(forward, backward, arrays):
    """The most memory in use during a forward and backward pass, in MB"""
    q, k, v, dout = arrays
    tracemalloc.start()
    _, cache = forward(q, k, v)
    backward(dout, cache)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / MB


LENGTHS = (256, 512, 1024, 2048)
four = np.random.default_rng(2).standard_normal((4, 2048, 64), dtype=np.float32)
with ops.using("reference"):
    whole = [peak(ops.attention_forward, ops.attention_backward, four[:, :n]) for n in LENGTHS]
tiles = [peak(tiled_forward, tiled_backward, four[:, :n]) for n in LENGTHS]
saved = whole[-1] / tiles[-1]
print(f"2,048 positions: {whole[-1]:.1f} MB, in tiles {tiles[-1]:.1f} MB: {saved:.0f} times less")
assert saved > 8, "many times less"
twice = whole[-1] / whole[-2], tiles[-1] / tiles[-2]
print(f"twice the length: {twice[0]:.1f} times the memory, in tiles {twice[1]:.1f} times")
assert 3.7 < twice[0] < 4.3 and 1.85 < twice[1] < 2.15, "T x T against T"

# %% tags=["hide-input"]
memory_figure, axes = plot.plt.subplots(figsize=(7.5, 4.4))
axes.loglog(LENGTHS, whole, "o-", label="the whole table")
axes.loglog(LENGTHS, tiles, "s-", label="tiles of 64 keys")
axes.set(title="Memory of one head, forward and backward", xlabel="positions T", ylabel="peak, MB")
axes.legend()
plot.save(memory_figure, "18_memory.png")

# %% [markdown]
# Memory grows with T², in tiles with T. **And the cost?** Lesson 03 makes six products of the size
# T x T x D: two forward, four backward. Tiles make a seventh, because the scores are computed
# again. We count the pairs of a query and a key.
#
# **Guess:** are the seven more arithmetic than the six, as much, or less?

# %%
computed = sum((2048 - first) * 64 for first in range(0, 2048, 64))
print(f"2,048 positions: tiles compute {computed:,} of {2048**2:,} pairs")
arithmetic = 7 * computed / (6 * 2048**2)
print(f"seven products of these pairs, against six of all pairs: {arithmetic:.2f}")
assert 0.59 < arithmetic < 0.61, "60 % of the arithmetic"

# %% [markdown] tags=["answer"]
# **The surprise: less.** The scores are computed twice, and still 40 % is saved, because tiles skip
# what the mask hides, nearly half of all pairs. Without a mask it would be 7/6: 17 % more.

# %% [markdown] tags=["deeper"]
# ### Is it faster?
#
# Less arithmetic need not take less time.

# %%
import timeit


def milliseconds(forward, backward, arrays):
    """The best of three forward and backward passes"""
    q, k, v, dout = arrays
    seconds = timeit.repeat(lambda: backward(dout, forward(q, k, v)[1]), number=1, repeat=3)
    return 1e3 * min(seconds)


for length in LENGTHS:
    some = four[:, :length]
    with ops.using("reference"):
        time_of_whole = milliseconds(ops.attention_forward, ops.attention_backward, some)
    time_of_tiles = milliseconds(tiled_forward, tiled_backward, some)
    print(f"{length:5,} positions: {time_of_whole:3.0f} ms, in tiles {time_of_tiles:3.0f} ms")

# %% [markdown]
# Our tiles often take less time than the whole, but on a busy machine they may take more. Both ways
# are written to be read: each tile makes new arrays, and the whole makes all pairs. So these times
# say little about the method. Dao et al. report shorter times on GPUs; lesson 20 computes a reason:
# to write and read a large table takes longer than to compute it.

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# The library has attention in tiles twice. On a processor (`minigpt/ops/fast/attention.py`) a tile
# has 64 *queries*, and they meet all their keys at once. So each row is complete, and an ordinary
# softmax is enough. These are its three steps. At first `e` holds the scores of a tile. `_exp` puts
# their exponentials in their place, and returns z, the sum of each row. It subtracts no m, so lse
# is just log z. (Where a sum is too large or too small for that, the library computes the tile
# again, with m.) `g` are the heads of one processor thread, and `v_g` their values. `rows` are the
# queries of the tile, and `seen` the keys that they may see:
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

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - **The online softmax** is algorithm 3 of Milakov and Gimelshein, for m and z. FlashAttention
#   rescales o together with them.
# - **Forward.** FlashAttention's algorithm 1 has keys in its outer loop, as our NumPy has, and
#   writes o back after each tile. Our GPU kernel has queries outside, so that o stays close to the
#   arithmetic. The paper keeps m and z for the backward pass. Its sequel (Dao 2023, arXiv
#   2307.08691) has both things that we have: queries outside, and lse. (`attention.cu` keeps the
#   two parts of lse, m and log z, and never adds them. A bias of -1e9 on all keys makes m about
#   -1e9. In float32 the sum would be m alone, and log z would be lost.)
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
# ## 9. To keep
#
# - Softmax can start before it has seen its row: where a larger score comes, one factor corrects
#   all that was summed before.
# - The backward pass needs no table: lse, one number for each row, gives the shares again.
# - Memory grows with T in place of T²; to compute again costs a seventh product, and a causal mask
#   saves more than that.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/18_loss_in_tiles.py`: the logits are a large table too, N positions x V tokens.
#    Compute the loss and its gradients with a few columns at a time. Run it.
# 2. `exercises/18_find_the_bug.py`: attention in tiles that takes any mask. The author's check,
#    with one tile, was happy.
# 3. On paper: the scores of a query fall from key to key, s = 5, 4, 3, 2, … How often is
#    o rescaled by a factor other than 1? And if they rise?
# 4. On paper: a query may see nothing in a tile (a mask hides all its keys), and nothing in
#    earlier tiles either. What is exp(m - larger) then, with m = -infinity? How does `attention.cu`
#    avoid it?
# 5. Try it: measure the peak of section 6 and the time for tiles of 16, 64, 256 and 1,024 keys.
#    Which width is the best on your machine?

# %%
worst = max(result.error for result in by_check)
print(f"lesson 18: every check is happy (worst relative error {worst:.0e}; {saved:.0f} times less)")
