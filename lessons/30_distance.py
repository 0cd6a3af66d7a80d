# %% [markdown]
# # Lesson 30: distance, and DeBERTa
#
# You will train a model until it is right nearly everywhere, show it a longer text, and watch it
# fail from one place on. Then you will move position out of the input and into the scores of
# attention: first as one number for each distance (T5), then as a vector for each distance
# (DeBERTa). You will write both backward passes, and find the rule of the text in the numbers that
# the model learned.
#
# Reading: 25 minutes for the core, 70 minutes for all of it. Running: 40 to 120 seconds. Before it:
# lessons 03, 04 and 26.
#
# Papers: Shaw, Uszkoreit and Vaswani 2018 (arXiv 1803.02155): distances in attention. Raffel et al.
# 2020 (T5, arXiv 1910.10683), section 2.1. He, Liu, Gao and Chen 2021 (DeBERTa, arXiv 2006.03654),
# sections 3.1 and 3.2.

# %% [markdown]
# ## 1. Why: a place that the model has never seen
#
# GPT and BERT have a table of positions: one row for place 0, one for place 1, and so on. A row is
# added to the token's row (lesson 03). BERT has no other way to know where a word stands.
#
# To see what this does, we take a text in which only *distance* counts: a wallpaper. Five letters
# are drawn, and then they repeat: `gcahc gcahc gcahc ...`. A covered letter is known to a model
# that looks five places to the left, or to the right. The place in the text makes no difference.

# %%
import numpy as np

from minigpt.device.threads import set_threads

set_threads(1)  # small arrays: a second thread would only be in the way
PERIOD, V, MASK, IGNORED = 5, 17, 0, -100  # id 0 is the mask, 1 to 16 are the letters
SHORT, LONG = 20, 80  # letters of the texts of the training, and of the longest test


def wallpapers(n, length, rng):
    """-> ids (n, length): five letters of each row, again and again"""
    letters = rng.integers(1, V, size=(n, PERIOD))
    return np.tile(letters, (1, length // PERIOD))


def cover(ids, rng):
    """Each letter is covered with probability 15 %. -> what is seen, and the targets"""
    covered = rng.random(ids.shape) < 0.15
    covered[:, 0] |= ~covered.any(axis=1)  # at least one letter of each text
    return np.where(covered, MASK, ids), np.where(covered, ids, IGNORED)


for row in cover(wallpapers(2, SHORT, np.random.default_rng(0)), np.random.default_rng(1))[0]:
    print("".join("_abcdefghijklmnop"[i] for i in row))

# %% [markdown]
# A masked model with a table of positions (RoBERTa, lesson 26; two blocks of width 32) is trained
# on texts of 20 letters. Its table has 80 rows, so it can read texts of 80 letters too.

# %%
from minigpt.models.family.roberta import RoBERTa, RoBERTaConfig
from minigpt.nn.optim import AdamW
from minigpt.nn.schedules import warmup_cosine

SIZES = {"vocab_size": V, "n_positions": LONG, "n_embd": 32, "n_layer": 2, "n_head": 4}
SIZES |= dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
SIZES |= {"initializer_range": 0.1}  # 0.02 sqrt(768 / 32), as in lesson 16
STEPS, RATE = 300, 4e-3


def right_by_place(model, length, **options):
    """The share of right letters at each place of new texts, where it was covered."""
    ids = wallpapers(300, length, np.random.default_rng(99))
    seen, targets = cover(ids, np.random.default_rng(98))
    logits, _ = model.forward(seen, grad=False, **options)
    covered = targets != IGNORED
    return ((logits.argmax(-1) == ids) & covered).sum(axis=0) / covered.sum(axis=0)


print(f"{STEPS} updates of 32 texts of {SHORT} letters; guessing is right in 1 of {V - 1}")

# %%
def train(model, seed, fixed=()):
    """Train all but the `fixed` parameters. -> the share of right letters after every 20 updates"""
    learned = [pair for pair in model.named_parameters() if pair[0] not in fixed]
    optimizer = AdamW(learned)
    curve = []
    for step in range(STEPS):
        rng = np.random.default_rng([seed, step])
        seen, targets = cover(wallpapers(32, SHORT, rng), rng)
        model.zero_grad()
        _, cache = model.loss(seen, targets)
        model.loss_backward(cache)
        optimizer.step(RATE * warmup_cosine(step / STEPS, 0.1), 1.0)
        if step % 20 == 19:
            curve.append(right_by_place(model, SHORT).mean())
    return curve


SEEDS = (1, 2)
trained, curves = {}, {}
for seed in SEEDS:
    trained["table of positions", seed] = RoBERTa(RoBERTaConfig(**SIZES), seed=seed)
for (name, seed), model in trained.items():
    curves[name, seed] = train(model, seed)
    print(f"{name}, seed {seed}: after 300 updates {curves[name, seed][-1]:.0%} are right")

# %% [markdown]
# Now it reads texts of 80 letters. The rule is the same everywhere.
#
# **Guess:** it is right at nearly all of the first 20 places. And at the other 60?

# %%
from minigpt import plot

by_place = right_by_place(trained["table of positions", 1], LONG)
place_figure, axes = plot.plt.subplots(figsize=(10, 3.8))
axes.bar(range(LONG), by_place, color=["tab:blue"] * SHORT + ["tab:red"] * (LONG - SHORT))
axes.axvline(SHORT - 0.5, color="gray", linestyle="--")
axes.text(SHORT + 0.5, 0.9, "places that no training text had", color="tab:red")
axes.set(xlabel="place", ylabel="share right", ylim=(0, 1), title="A text of 80 letters")
plot.save(place_figure, "30_places.png")
print(f"right at the first 20 places {by_place[:SHORT].mean():.0%}, at the others "
      f"{by_place[SHORT:].mean():.0%}")
assert by_place[:SHORT].mean() > 0.8, "it knows the rule where it was trained"
assert by_place[SHORT:].mean() < 0.6, "and not at other places"

# %% [markdown] tags=["answer"]
# Much less often. "As often" is tempting, since the rule is the same. But the rows from 20 on never
# got a gradient. If they are the cause, the model must know the rule again when we give the later
# places the rows 0 to 19, again and again. (Row 0 then stands behind row 19. The wallpaper fits
# that, since 20 is a multiple of its period 5.)

# %%
again = right_by_place(trained["table of positions", 1], LONG, positions=np.arange(LONG) % SHORT)
print(f"texts of 80 letters with the rows 0 to 19, four times: {again.mean():.0%} are right")
assert again.mean() > 0.95, "the rows were the cause, and not the length"

# %% [markdown]
# So the model has not learned "five to the left". It has learned which *rows* belong together, as 7
# and 2, 8 and 3.

# %% [markdown] tags=["deeper"]
# ## 2. The difference in five questions
#
# | question | BERT | T5's encoder | DeBERTa |
# |---|---|---|---|
# | who sees whom? | each token all | the same | the same |
# | what is covered? | tokens | spans | tokens |
# | what is predicted? | these | these (lesson 32) | these |
# | what is shared? | the token table is the head | the same | the same |
# | **where does position enter?** | at the input | **in the scores** | **in the scores** |
# | as what? | a row for each place | a number for each distance | a vector for each distance |
#
# Only *relative positions* are new, the last two rows: no table at the input, and the score of
# query i and key j depends on i - j.

# %% [markdown]
# ## 3. T5: a number for each distance
#
# In BERT, position enters at the input. In T5 and in DeBERTa it enters in the scores. (K and Q:
# a key and a query, made from a distance's vector.)

# %% tags=["hide-input"]
d = plot.Diagram(12.6, 4.2, "Where position enters")
BLUE, RED, GREEN = "tab:blue", "tab:red", "tab:green"
scores = {2.1: ("BERT: at the input", "q · k"), 6.3: ("T5: a number", "q · k + number"),
          10.5: ("DeBERTa: a vector", "q · k + q · K + k · Q")}
for x, (title, score) in scores.items():
    d.text(x, 4.0, title, size=13)
    made = d.box(x if x < 3 else x - 0.95, 1.9, "q and k", BLUE, 1.7)
    total = d.box(x, 3.2, f"score: {score}", GREEN, 3.3)
    d.arrow(d.box(x - 0.95, 0.5, "row of\nthe token", BLUE, 1.7, 0.8), made)
    d.arrow(made, total)
    if x < 3:
        d.arrow(d.box(x + 0.95, 0.5, "row of\nthe place", RED, 1.7, 0.8), made)
    elif x < 7:
        d.arrow(d.box(x + 0.95, 1.9, "number of\nthe distance", RED, 1.8, 0.8), total)
    else:
        from_vector = d.box(x + 0.95, 1.9, "K and Q", RED, 1.7)
        d.arrow(d.box(x + 0.95, 0.5, "vector of\nthe distance", RED, 1.8, 0.8), from_vector)
        d.arrow(from_vector, total)
plot.save(d.figure, "30_three_models.png")

# %% [markdown]
# Each head of T5 has a list of numbers, one for each distance. The number is added to the score,
# before the softmax. A large one says "look there, whatever stands there".
#
# Near distances get a number each. Far ones share: 30 and 31 places away is nearly the same. Such a
# set of distances is a *bucket*. T5 has 32; one, "distance 0 to the right", stays empty. They are:
#
# - distance 0: one bucket;
# - 1 to 7 places away: one bucket for each distance, on each side;
# - 8 to 127 places away: eight buckets on each side, wider and wider;
# - farther: the same bucket as the farthest of these.

# %%
from minigpt.models.family.relative import buckets

distance = np.arange(-140, 141)  # key minus query
of_distance = buckets(distance, 32, 128, both_sides=True)
bucket_figure, axes = plot.plt.subplots(figsize=(9, 3.8))
axes.step(distance, of_distance, where="mid")
for mark in (-128, -8, 8, 128):
    axes.axvline(mark, color="gray", linestyle=":")
axes.set(xlabel="key minus query", ylabel="bucket", title="T5's 32 buckets of distances",
         xticks=[-128, -64, -8, 8, 64, 128])
plot.save(bucket_figure, "30_buckets.png")
alone = [int(d) for d in distance if (of_distance == of_distance[distance == d]).sum() == 1]
print("distances with a bucket of their own:", alone)
assert alone == list(range(-7, 8)), "near distances have a number each"
assert len(set(of_distance)) == 31, "bucket 16 stays empty"

# %% [markdown]
# Now one head by hand. `where[i, j]` is the bucket of query i and key j, and b = table[where] is
# added to the scores.
#
# **Your turn:** db is the gradient of b, here for three tokens. Write the gradient of number n of
# the table. (Each entry of db is another power of 2, so a sum shows which entries are in it.)

# %%
from minigpt.gradcheck import numeric
from minigpt.learn import gap, lines

three = buckets(np.arange(3) - np.arange(3)[:, None], 8, 6, both_sides=True)
powers = 2.0 ** np.arange(9).reshape(3, 3)
print(three, powers, sep="\n")


def your_dnumber(db, where, n):
    return ...  # b = table[where]


of_table = numeric(lambda table: table[three], np.zeros(8), powers)
gap.judge(your_dnumber, powers, three, 1, expected=of_table[1])

# %% [markdown] tags=["answer"]
# `db[where == n].sum()`: number n is used wherever `where` is n, and what has several uses gets the
# sum of their gradients.

# %%
from minigpt import ops


def add_up(db, where, table):
    """The gradient of table[where], for all numbers of the table at once"""
    dtable = np.zeros_like(table)
    np.add.at(dtable, where, db)  # dtable[where] += db would add only one of several uses
    return dtable


def biased(q, k, v_rows, table, where):
    s = q @ k.T
    b = table[where]
    z = s + b
    p, soft = ops.softmax_forward(z)
    out = p @ v_rows
    return out


draw = np.random.default_rng(3)
q, k, v_rows = draw.normal(size=(3, 4, 3))
table = draw.normal(size=8)
where = buckets(np.arange(4) - np.arange(4)[:, None], 8, 6, both_sides=True)
print("bucket of each query (row) and key (column):", where, sep="\n")
values = lines.run(biased, q, k, v_rows, table, where)

# %%
def biased_backward(dout, v):
    # out = p @ v_rows
    dp = dout @ v.v_rows.T
    dv_rows = v.p.T @ dout
    # p = softmax(z)
    dz = ops.softmax_backward(dp, v.soft)
    # z = s + b
    ds = dz
    db = dz
    # b = table[where]: pairs at the same distance share a number, so their gradients are added
    dtable = add_up(db, v.where, v.table)
    # s = q @ k.T
    dq = ds @ v.k
    dk = ds.T @ v.q
    return dq, dk, dv_rows, dtable


bias_results = lines.check(biased, biased_backward, q, k, v_rows, table, where)
assert all(result.error < 1e-8 for result in bias_results), "every line is right"

# %% [markdown]
# **Collapse.** Write B(d) for the bucket of distance d, and $t_n$ for number n of the table. Then
#
# $$
# z_{ij} = q_i \cdot k_j + t_{B(j - i)}, \qquad
# \frac{\partial L}{\partial t_n} = \sum_{B(j - i) = n} \frac{\partial L}{\partial z_{ij}}
# $$
#
# That is an embedding's backward pass (lesson 01): a table, an index used many times, a sum. In
# the library it is one: `RelativeBias` is an `Embedding`.

# %% [markdown] tags=["deeper"]
# ### The sum of the table's gradient is zero
#
# The softmax does not change if the same number is added to a whole row of scores. So if all
# numbers of the table grow by the same small amount, the loss stays as it is. Its slope in this
# direction is the sum of the table's gradient, so the sum is 0.

# %%
dout = np.random.default_rng(4).normal(size=(4, 3))
dz_by_hand = ops.softmax_backward(dout @ v_rows.T, values.soft)
dtable_by_hand = add_up(dz_by_hand, where, table)
heads = [a[None, None] for a in (q, k, v_rows)]
every = np.ones((4, 4), bool)
out, cache = ops.attention_forward(*heads, table[where][None, None], mask=every, scale=1.0)
*_, dbias = ops.attention_backward(dout[None, None], cache)
dtable_of_library = add_up(dbias[0, 0], where, table)
print("the gradient of the table:", dtable_by_hand.round(3))
print(f"its sum: {dtable_by_hand.sum():.0e}; the library's differs by "
      f"{np.abs(dtable_of_library - dtable_by_hand).max():.0e}")
assert abs(dtable_by_hand.sum()) < 1e-12, "adding one number to all changes nothing"
assert np.allclose(dtable_of_library, dtable_by_hand), "the library computes the same"

# %% [markdown]
# ## 4. DeBERTa: a vector for each distance
#
# In T5 "look five to the left" does not depend on the words. DeBERTa lets it depend: a verb may
# look to its left for a subject, a comma may not. Each distance has a vector (far ones share one),
# from which a key $K_d$ and a query $Q_d$ are made; $\delta(i,j)$ is the row of query i and key j
# in their table, and D the width of a head. A score has three parts (equation 4; the paper calls
# this *disentangled attention*):
#
# $$
# z_{ij} = \frac{1}{\sqrt{3D}} \left( q_i \cdot k_j + q_i \cdot K_{\delta(i,j)}
# + k_j \cdot Q_{\delta(i,j)} \right)
# $$
#
# - content to content: do these two words fit?
# - content to distance: what does *this query* want at that distance?
# - distance to content: what does *this key* have for a query at that distance?
#
# The deeper parts build both and train them on the wallpaper. DeBERTa's vectors carry the rule over
# to texts of 80 letters. T5's numbers do so in part; with larger steps, nearly everywhere.

# %% [markdown] tags=["deeper"]
# ### Three parts, line by line
#
# (The formula above is that of the released code, with which the published weights were trained,
# and of the library. In the paper's last term the places are exchanged: $\delta(j,i)$. A fourth
# part, distance to distance, is left out in the paper: it would add little, say the authors.)
#
# The row $\delta(i,j)$ is i - j + m, but no smaller than 0 and no larger than 2m - 1. All keys that
# are m or more places to the right of the query share row 0. All keys that are at least m - 1
# places to its left share row 2m - 1. Why the 3 under the root? Each of the three parts has the
# variance D if its vectors have independent numbers of mean 0 and variance 1. So the sum has the
# variance 3D.

# %%
def take(products, delta):
    """products (T,2m) of each token with all distances -> (T,T): with the distance of each pair"""
    return np.take_along_axis(products, delta, axis=1)


def put(d, delta, products):
    """The gradient of take: pairs of one row that share a distance are added."""
    out = np.zeros_like(products)
    np.add.at(out, (np.arange(len(delta))[:, None], delta), d)
    return out


m = 2
delta = np.clip(np.arange(4)[:, None] - np.arange(4) + m, 0, 2 * m - 1)
print("the row of the table for each query (row) and key (column):")
print(delta)
print(f"top right: the key is 3 places to the right of the query, row {delta[0, 3]}")
print(f"bottom left: the key is 3 places to its left, row {delta[3, 0]}")

# %%
def three_parts(q, k, K, Q, delta):
    content = q @ k.T
    q_far = q @ K.T
    to_distance = take(q_far, delta)
    k_far = k @ Q.T
    from_distance = take(k_far, delta.T).T
    s = content + to_distance + from_distance
    out = s / np.sqrt(3 * q.shape[1])
    return out


K, Q = np.random.default_rng(5).normal(size=(2, 2 * m, 3))
part_values = lines.run(three_parts, q, k, K, Q, delta)

# %% [markdown]
# `take(k_far, delta.T).T` needs a second look. Row j of `k_far` belongs to key j, and so does row j
# of `delta.T`. So `take` gives, in row j and column i, the product $k_j \cdot Q_{\delta(i,j)}$. The
# scores have queries as rows, so the result is transposed.

# %%
def three_parts_backward(dout, v):
    # out = s / sqrt(3 D)
    ds = dout / np.sqrt(3 * v.q.shape[1])
    # s = content + to_distance + from_distance
    dcontent = ds
    dto_distance = ds
    dfrom_distance = ds
    # from_distance = take(k_far, delta.T).T
    dk_far = put(dfrom_distance.T, v.delta.T, v.k_far)
    # k_far = k @ Q.T
    dk = dk_far @ v.Q
    dQ = dk_far.T @ v.k
    # to_distance = take(q_far, delta)
    dq_far = put(dto_distance, v.delta, v.q_far)
    # q_far = q @ K.T
    dq = dq_far @ v.K
    dK = dq_far.T @ v.q
    # content = q @ k.T: the second use of q and of k
    dq = dq + dcontent @ v.k
    dk = dk + dcontent.T @ v.q
    return dq, dk, dK, dQ


part_results = lines.check(three_parts, three_parts_backward, q, k, K, Q, delta)
assert all(result.error < 1e-8 for result in part_results), "every line is right"

# %% [markdown]
# **The trap.** `out[rows, delta] = d` in place of `np.add.at` keeps the last of several pairs that
# share a row of the table, and loses the others. With m at least as large as the text, no query has
# two keys that share, and the mistake cannot be seen. So check with a text that is *longer* than m,
# as above: the first query has four keys, and the last two share row 0.

# %%
def put_last(d, delta, products):
    """The mistake: the last pair wins."""
    out = np.zeros_like(products)
    out[np.arange(len(delta))[:, None], delta] = d
    return out


some = np.random.default_rng(6).normal(size=(4, 4))
wide = np.arange(4)[:, None] - np.arange(4) + 4
for name, places, columns in (("m = 2", delta, 4), ("m = 4", wide, 8)):
    lost = np.abs(put(some, places, np.zeros((4, columns)))
                  - put_last(some, places, np.zeros((4, columns)))).max()
    print(f"{name}: what the mistake loses, at most {lost:.2f}")
    assert (lost > 0.1) == (name == "m = 2"), "it shows only where pairs share a row"

# %% [markdown] tags=["deeper"]
# ## 5. The wallpaper again
#
# Two more models, with the body, texts, updates and seeds of section 1. For T5's bias we change two
# things in RoBERTa: each attention gets a table of distances, and the table of positions is set to
# zero and does not learn.

# %%
from types import SimpleNamespace

from minigpt.models.family.relative import RelativeBias
from minigpt.nn import Attention, Cache


def new_numbers(dtype=np.float32):
    """A number for each head and bucket of distances, at first 0."""
    config = SimpleNamespace(n_buckets=32, max_distance=128, n_head=4, n_embd=32,
                             initializer_range=0.0)
    return RelativeBias(config, True, np.random.default_rng(0), dtype)


bias, _ = new_numbers().forward(20, 20)
print("the bias of a text of 20 letters:", bias.shape, "for 4 heads")

# %%
class AttentionByDistance(Attention):
    """An attention, and the numbers of the distances, times a factor."""

    def __init__(self, attention, factor=1):
        self.c_attn, self.c_proj, self.config = attention.c_attn, attention.c_proj, attention.config
        dtype = self.c_attn.weight.data.dtype
        self.distances, self.factor = new_numbers(dtype), factor

    def forward(self, x, past=None, key=None, grad=True, mask=None):
        cache = Cache(self, grad)
        bias = cache.keep("distances", self.distances.forward(x.shape[1], x.shape[1]))
        rest = super().forward(x, past, key, grad, mask, bias=bias * self.factor)
        return cache.keep("rest", rest), cache

    def backward(self, dout, cache):
        rest = cache.pop("rest")
        dout = ops.dropout_backward(dout, rest.pop("dropout"))
        dheads = self.c_proj.backward(dout, rest.pop("proj"))
        dqkv, dbias = ops.self_attention_backward(dheads, rest.pop("heads"))
        self.distances.backward(dbias * self.factor, cache.pop("distances"))
        return self.c_attn.backward(dqkv, rest.pop("qkv"))


print("the backward of an attention, and one line more: the gradient of the numbers")

# %%
from minigpt import gradcheck
from minigpt.models.family.deberta import DeBERTa, DeBERTaConfig

POSITIONS = "positions_embed.weight"


def by_distance(seed, factor=1, sizes=SIZES, dtype=np.float32):
    """RoBERTa with a number for each distance in place of its table of positions."""
    model = RoBERTa(RoBERTaConfig(**sizes), seed=seed, dtype=dtype)
    model.positions_embed.weight.data[:] = 0
    for block in model.h:
        block.attn = AttentionByDistance(block.attn, factor)
    return model


tiny = SIZES | {"n_embd": 8, "n_layer": 1}  # every entry of every gradient is checked
our_attention = by_distance(1, factor=10, sizes=tiny, dtype=np.float64)
two = cover(wallpapers(2, 10, np.random.default_rng(9)), np.random.default_rng(10))
of_ours = gradcheck.worst(gradcheck.check_model(our_attention, *two))
print(f"our attention in a whole model: the worst error of a gradient is {of_ours.error:.0e}")
assert of_ours.error < 1e-6, "its backward pass is right"

# %%
for seed in SEEDS:
    trained["a number for each distance", seed] = by_distance(seed)
    by_vectors = DeBERTa(DeBERTaConfig(**SIZES, n_distances=8), seed=seed)
    trained["a vector for each distance", seed] = by_vectors
for (name, seed), model in trained.items():
    if (name, seed) not in curves:
        fixed = (POSITIONS,) if "number" in name else ()
        curves[name, seed] = train(model, seed, fixed)
        print(f"{name}, seed {seed}: after 300 updates {curves[name, seed][-1]:.0%} are right")

# %%
KINDS = list(dict.fromkeys(name for name, _ in trained))
curve_figure, panels = plot.plt.subplots(1, 2, figsize=(11, 4.4), sharey=True)
longer = {}
for number, name in enumerate(KINDS):
    for seed in SEEDS:
        label = name if seed == SEEDS[0] else None
        panels[0].plot(range(20, STEPS + 1, 20), curves[name, seed], f"C{number}", label=label)
        lengths = [20, 40, 60, 80]
        longer[name, seed] = [right_by_place(trained[name, seed], n).mean() for n in lengths]
        panels[1].plot(lengths, longer[name, seed], f"C{number}o-")
panels[0].set(xlabel="update", ylabel="right", title="Texts of 20 letters")
panels[1].set(xlabel="letters of the text", title="The same models, longer texts", ylim=(0, 1.05))
panels[0].legend(fontsize=10)
plot.save(curve_figure, "30_distances.png")
for name in KINDS:
    print(f"{name:27} right in texts of 80:", *(f"{longer[name, seed][-1]:.0%}" for seed in SEEDS))

# %%
def updates_until(curve, bar=0.9):
    """The first update after which so many are right; infinite where that never was."""
    return next((20 * (i + 1) for i, share in enumerate(curve) if share >= bar), np.inf)


needed = {name: [updates_until(curves[name, seed]) for seed in SEEDS] for name in KINDS}
print("updates until 90 % are right, for both seeds:")
for name, updates in needed.items():
    print(f"{name:27}", *updates)
table_of_positions, number, vector = KINDS
assert max(needed[vector]) < min(needed[table_of_positions]), "vectors learn the rule first"
for seed in SEEDS:
    assert longer[table_of_positions, seed][-1] < 0.6, "positions: the rule does not carry over"
    assert longer[number, seed][-1] > longer[table_of_positions, seed][-1] + 0.1, "in part"
    assert longer[vector, seed][-1] > 0.9, "distances: it does"

# %% [markdown]
# The vectors learn soonest, and carry the rule over to 80 letters. The numbers learn late, and
# carry it over in part. Why are they behind? Both share what they learn between all pairs at one
# distance, so that is not it.
#
# Look at the sizes. In an update Adam moves each number by about the learning rate, whatever its
# gradient is (lesson 09). So even if all updates of a number go in one direction, it comes about as
# far as the sum of all rates. A score that is a product of two vectors of eight numbers can grow
# faster: all sixteen move.

# %%
sum_of_rates = sum(RATE * warmup_cosine(step / STEPS, 0.1) for step in range(STEPS))
model = trained[number, 1]
numbers = np.array([block.attn.distances.weight.data for block in model.h])
print(f"the sum of {STEPS} rates: {sum_of_rates:.2f}")
print(f"the numbers of seed 1 lie between {numbers.min():.2f} and {numbers.max():.2f}")
assert np.abs(numbers).max() < 2 * sum_of_rates, "numbers of the size of that sum"

# %% [markdown]
# If this is the reason, it must help to make the numbers larger. We add ten times the number to the
# score, and change nothing else.

# %%
for seed in SEEDS:
    fast = by_distance(seed, factor=10)
    fast_curve = train(fast, seed, (POSITIONS,))
    fast_needed = updates_until(fast_curve)
    fast_longer = right_by_place(fast, LONG).mean()
    print(f"ten times the number, seed {seed}: 90 % after {fast_needed} updates, "
          f"in texts of 80 {fast_longer:.0%}")
    assert fast_needed < 0.7 * min(needed[number]), "now it learns much sooner"
    assert fast_longer > longer[number, seed][-1] + 0.1, "and carries the rule over"

# %% [markdown]
# So the cause was how far an update moves the numbers: here they need a larger rate than the other
# weights. (The tables begin at 0, so the factor changes nothing at the start. The buckets of more
# than 19 places get no gradient in texts of 20 letters, and stay 0. In longer texts that seems to
# cost little.)
#
# What did the model with numbers learn? We look into its tables.

# %%
model = trained["a number for each distance", 1]
shown = np.arange(-12, 13)
of_shown = buckets(shown, 32, 128, both_sides=True)
head_figure, panels = plot.plt.subplots(1, 2, figsize=(11, 4), sharey=True)
for block, panel in enumerate(panels):
    learned = model.h[block].attn.distances.weight.data[of_shown]
    image = panel.imshow(learned.T, cmap="RdBu_r", vmin=-1.2, vmax=1.2, aspect="auto",
                         extent=(-12.5, 12.5, 3.5, -0.5))
    panel.set(title=f"block {block}", xlabel="key minus query", xticks=[-10, -5, 0, 5, 10],
              yticks=range(4))
    panel.grid(False)
panels[0].set_ylabel("head")
head_figure.colorbar(image, ax=panels, label="added to the score")
plot.save(head_figure, "30_heads.png")
largest = [int(shown[np.argmax(model.h[b].attn.distances.weight.data[of_shown, head])])
           for b in range(2) for head in range(4)]
print("the distance with the largest number, for each head:", largest)
assert sum(abs(d) == 5 for d in largest) > 4, "most heads look one period away"

# %% [markdown]
# The period of the wallpaper stands in the tables, in red. (From 8 on, several distances share a
# bucket: 8 to 11 have one number.)

# %% [markdown] tags=["deeper"]
# ## 6. What distance cannot say
#
# "A new **store** opened beside the new **mall**": both nouns stand behind "new". For a model that
# knows only distances they are alike, says the paper (section 3.2), although one is the subject. So
# DeBERTa adds absolute positions once, at the end: the last block runs again, and its queries start
# from the state *plus the position* (the enhanced mask decoder; `decoder_passes` in the library).
#
# Is it true that the place cannot be known from distances? Not quite. The first token has no
# neighbour at its left. A model can notice that, and pass it on. We did not measure what the
# decoder is worth.

# %% [markdown] tags=["deeper"]
# ## 7. Whole models, and in the library

# %%
SMALL = {"n_positions": 12, "n_embd": 8, "n_layer": 1, "n_head": 2, "initializer_range": 0.3}
config = DeBERTaConfig(**SIZES | SMALL, n_distances=3, decoder_passes=2)
tiny = DeBERTa(config, seed=1, dtype=np.float64)
tiny_texts = wallpapers(2, 10, np.random.default_rng(7))
tiny_seen, tiny_targets = cover(tiny_texts, np.random.default_rng(8))
results = gradcheck.check_model(tiny, tiny_seen, tiny_targets)
worst = gradcheck.worst(results)
print(f"DeBERTa with its decoder, {len(results)} parameters: the worst error is {worst.error:.0e}")
assert worst.error < 1e-7, "text of 10, distances up to 3: pairs share a distance, and it is right"

from minigpt.models.family.relative_attention import distances_between, far_scores, put_distances

assert np.array_equal(distances_between(4, 2, np), delta), "the library has the same distances"
one_head = [a[None, None] for a in (q, k)], [a[None] for a in (K, Q)]
to_there = far_scores(one_head[0][0], one_head[1][0], delta)
from_there = far_scores(one_head[0][1], one_head[1][1], delta.T).swapaxes(-1, -2)
by_library = (q @ k.T + to_there + from_there)[0, 0] / np.sqrt(3 * q.shape[1])
assert np.allclose(by_library, part_values.out), "and the same three parts"
in_library = put_distances(some[None, None], delta, 4)[0, 0]
assert np.allclose(in_library, put(some, delta, np.zeros((4, 4)))), "and adds them in the same way"

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - **What it costs.** T5's table: 32 numbers for each head, for a whole stack. DeBERTa: two more
#   linear maps in each block (they can share those of the content; versions 2 and 3 do), and two
#   more products in each attention. In our counts an update of DeBERTa has 1.8 times the
#   operations of RoBERTa's (`benchmarks/family.py`).
# - **T5 has no scale** $1/\sqrt{D}$; the initial weights of the queries are smaller instead.
# - **Distances in T5's decoder** go to the left only: all 32 buckets are for keys before the query.
# - **Later models** turn queries and keys by an angle that grows with the place (rotary positions,
#   Su et al. 2021). Then the score depends on the distance, without a table.
# - **What is left out.** Fine-tuning with small disturbances of the embeddings (SiFT). Version 3 is
#   trained with replaced tokens (lesson 29), and its tables get gradients from one of the two
#   losses alone: published files of versions 1 to 3 open here, but this training is not built, nor
#   the convolution of the largest version 2. The decoder of section 6 is nowhere tested alone: the
#   model of section 5 has none, that of lesson 34 has it.

# %% [markdown]
# ## 9. To keep
#
# - A table of positions learns which rows belong together: a place that no training text had has a
#   row that never got a gradient.
# - Position can stand in the scores: T5 adds a number for each distance, DeBERTa products with a
#   vector for each distance.
# - All pairs at one distance share a number, so its gradient is the sum of theirs, as in an
#   embedding.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/30_rotary.py`: the backward of rotary positions.
# 2. `exercises/30_find_the_bug.py`: a bias whose gradient is right for short texts.
# 3. In section 5's model with numbers, set the largest number of a head to its smallest: in each
#    head alone, then in a whole block. Which heads matter? What does it cost, in texts of 20 and of
#    80 letters?

# %%
print("lesson 30: every check is happy")
