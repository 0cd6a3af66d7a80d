"""Every operation: forward against loops in plain Python, backward against its definition, and the manners of both.

Each test runs for every implementation in the table and on every device, so a new one is judged by the same tests.
"""

import math

import numpy as np
import pytest
from helpers import KEY, arrays_in, as_tuple, each, error, floats_in, same, snapshot, tolerance

from minigpt import ops
from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.ops.arguments import ACTIVATIONS
from minigpt.ops.cases import NAMES, axes_of, case
from minigpt.ops.random_keys import keep_mask

pytestmark = pytest.mark.usefixtures("implementation")

AXES = (2, 3, 4)
DTYPES = (np.float32, np.float64)


# --- the same operations, one number at a time ---------------------------------------------------------------------


def loop_linear(x, w, b=None):
    def one(row):
        return [sum(row[i] * w[i, o] for i in range(len(row))) + (0 if b is None else b[o]) for o in range(w.shape[1])]

    return by_row(one, x)


def loop_embedding(w, ids):
    return np.array([w[i] for i in ids.reshape(-1).tolist()]).reshape(*ids.shape, w.shape[1])


def loop_softmax(x):
    def one(row):
        e = [math.exp(v) for v in row]
        return [v / sum(e) for v in e]

    return by_row(one, x)


def loop_gelu(x):
    def one(v):
        return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))

    return by_row(lambda row: [one(v) for v in row], x)


def loop_gelu_exact(x):
    return by_row(lambda row: [v * math.erfc(-v / math.sqrt(2)) / 2 for v in row], x)


def loop_relu(x):
    return by_row(lambda row: [v if v > 0 else 0.0 for v in row], x)


def loop_silu(x):
    return by_row(lambda row: [v / (1 + math.exp(-v)) for v in row], x)


def loop_layernorm(x, g, b, *, eps=1e-5):
    def one(row):
        mean = sum(row) / len(row)
        var = sum((v - mean) ** 2 for v in row) / len(row)
        return [g[i] * (v - mean) / math.sqrt(var + eps) + b[i] for i, v in enumerate(row)]

    return by_row(one, x)


def loop_rmsnorm(x, g, *, eps=1e-6):
    def one(row):
        mean_square = sum(v * v for v in row) / len(row)
        return [g[i] * v / math.sqrt(mean_square + eps) for i, v in enumerate(row)]

    return by_row(one, x)


def loop_rope(x, *, cos, sin, pairing="halves", heads=None):
    """One pair after the other, as a complex number that is multiplied by cos + i sin."""
    out = x.copy()
    r = cos.shape[-1]
    for row, t, h, i in np.ndindex(*x.shape[:3], r):
        if heads is not None and h >= heads:
            continue
        first, second = (i, i + r) if pairing == "halves" else (2 * i, 2 * i + 1)
        place = (row, t, i) if cos.ndim == 3 else (t, i)
        z = complex(x[row, t, h, first], x[row, t, h, second]) * complex(cos[place], sin[place])
        out[row, t, h, first], out[row, t, h, second] = z.real, z.imag
    return out


def loop_attention(q, k, v, bias=None, *, mask=None, scale=None, rate=0.0, key=None):
    """One query after the other; it looks only at the keys that it may see."""
    t, s, lead = q.shape[-2], k.shape[-2], q.shape[:-2]
    mask = np.broadcast_to(ops.causal_mask(t, s, np) if mask is None else mask, (*lead, t, s))
    bias = np.broadcast_to(0.0 if bias is None else bias, (*lead, t, s))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    kept = np.ones((*lead, t, s)) if key is None else keep_mask(key, rate, (*lead, t, s), np)
    out = np.zeros((*lead, t, v.shape[-1]))
    for index in np.ndindex(*lead, t):
        *batch, i = index
        here = tuple(batch)
        seen = [j for j in range(s) if mask[here][i, j]]
        e = [math.exp(float(q[here][i] @ k[here][j]) * scale + bias[here][i, j]) for j in seen]
        for j, weight in zip(seen, e, strict=True):
            if kept[here][i, j]:
                out[here][i] += weight / sum(e) / (1 - rate) * v[here][j]
    return out


def loop_dropout(x, *, rate, key):
    if key is None:
        return x
    kept = keep_mask(key, rate, x.shape, np)
    return np.array([v / (1 - rate) if k else 0.0 for v, k in zip(x.flat, kept.flat, strict=True)]).reshape(x.shape)


def loop_cross_entropy(logits, targets, *, weights=None, normalizer=None):
    total, count = 0.0, 0.0
    for index in np.ndindex(targets.shape):
        if targets[index] == -100:
            continue
        w = 1.0 if weights is None else weights[index]
        total += w * (math.log(sum(math.exp(z) for z in logits[index])) - logits[index][targets[index]])
        count += w
    return np.array(total / (count if normalizer is None else normalizer))


def loop_soft_cross_entropy(logits, target_logits, *, temperature=1.0, weights=None, normalizer=None):
    total, count = 0.0, 0.0
    for index in np.ndindex(logits.shape[:-1]):
        w = 1.0 if weights is None else weights[index]
        p, q = (loop_softmax(z[index][None] / temperature)[0] for z in (logits, target_logits))
        total -= w * sum(q[v] * math.log(p[v]) for v in range(len(p)))
        count += w
    return np.array(temperature**2 * total / (count if normalizer is None else normalizer))


def loop_cosine_loss(a, b, *, weights=None, normalizer=None, eps=1e-12):
    total, count = 0.0, 0.0
    for index in np.ndindex(a.shape[:-1]):
        w = 1.0 if weights is None else weights[index]
        product, a_square, b_square = (
            sum(float(v) * float(u) for v, u in zip(one[index], other[index], strict=True))
            for one, other in ((a, b), (a, a), (b, b))
        )
        total += w * (1 - product / math.sqrt((a_square + eps) * (b_square + eps)))
        count += w
    return np.array(total / (count if normalizer is None else normalizer))


def loop_mlp(x, w1, b1, w2, b2, *, activation="gelu"):
    act = globals()[f"loop_{activation}"]
    return loop_linear(act(loop_linear(x, w1, b1)), w2, b2)


def loop_gated_mlp(x, w_gate, w_up, w_down, *, activation="silu", rate=0.0, key=None):
    act = globals()[f"loop_{activation}"]
    inside = act(loop_linear(x, w_gate)) * loop_linear(x, w_up)
    return loop_linear(loop_dropout(inside, rate=rate, key=key), w_down)


def loop_self_attention(qkv, n_head, bias=None, *, n_kv_head=None, past=None, **constants):
    """Every query head with a copy of its own of the keys and values that it reads."""
    n_kv_head = n_kv_head or n_head
    heads = loop_split(qkv, n_head + 2 * n_kv_head)
    q, k, v = heads[:, :n_head], heads[:, n_head : n_head + n_kv_head], heads[:, n_head + n_kv_head :]
    if past is not None:
        k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
    read = [h * n_kv_head // n_head for h in range(n_head)]
    k, v = k[:, read], v[:, read]
    return loop_merge(loop_attention(q, k, v, bias, **constants))


def loop_cross_attention(q, kv, n_head, bias=None, *, mask=True, **constants):
    size = q.shape[-1]
    heads = (loop_split(x, n_head) for x in (q, kv[..., :size], kv[..., size:]))
    return loop_merge(loop_attention(*heads, bias, mask=mask, **constants))


def loop_split(x, n_head):
    """(B,T,C) -> (B,NH,T,C/NH), head after head."""
    size = x.shape[-1] // n_head
    return np.stack([x[..., h * size : (h + 1) * size] for h in range(n_head)], axis=1)


def loop_merge(heads):
    return np.concatenate([heads[:, h] for h in range(heads.shape[1])], axis=-1)


def loop_linear_cross_entropy(h, w, targets, bias=None, **constants):
    return loop_cross_entropy(loop_linear(h, w.T, bias), targets, **constants)


def loop_lstm(x, w, u, b, state):
    """One cell after the other: cell j of n has the columns j, n + j, 2n + j, 3n + j of the weights."""
    n = len(u)
    out = np.zeros((*x.shape[:2], 2 * n))
    for row, time, j in np.ndindex(*x.shape[:2], n):
        before = out[row, time - 1] if time else state[row]
        z = [float(x[row, time] @ w[:, at] + before[:n] @ u[:, at] + b[at]) for at in range(j, 4 * n, n)]
        i, f, o = (1 / (1 + math.exp(-z[gate])) for gate in (0, 1, 3))
        c = f * before[n + j] + i * math.tanh(z[2])
        out[row, time, j], out[row, time, n + j] = o * math.tanh(c), c
    return out


def by_row(function, x):
    """The function of each row of a tensor."""
    return np.array([function(row) for row in x.reshape(-1, x.shape[-1]).tolist()]).reshape(*x.shape[:-1], -1)


def run(op, args, constants):
    return getattr(ops, f"{op}_forward")(*args, **constants)


def back(op, dout, cache):
    return as_tuple(getattr(ops, f"{op}_backward")(dout, cache))


def random_like(array, seed=99):
    return np.random.default_rng(seed).standard_normal(array.shape).astype(array.dtype)


OPS = list(dict.fromkeys(name.partition(",")[0] for name in NAMES))


def names_of(op):
    """The cases of an operation."""
    return [name for name in NAMES if name.partition(",")[0] == op]


def with_axes(op):
    """The cases of an operation, each with all its numbers of axes."""
    return [(name, axes) for name in names_of(op) for axes in axes_of(name)]


# --- forward and backward are right --------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS)
@each("dtype", DTYPES)
@each("name, axes", with_axes)
def test_forward_against_loops(op, name, axes, dtype, move):
    op, args, constants = case(name, axes, dtype).call
    out, _ = run(op, move(args), move(constants))
    args, constants = (wide(value) for value in (args, constants))
    assert error(out, globals()[f"loop_{op}"](*args, **constants)) < tolerance(dtype)


def wide(value):
    """The same numbers in float64."""
    if isinstance(value, dict):
        return {name: wide(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return [wide(item) for item in value]
    return value.astype(np.float64) if hasattr(value, "dtype") and value.dtype.kind == "f" else value


@pytest.mark.parametrize("op", OPS)
@each("name, axes", with_axes)
def test_backward_is_the_derivative(op, name, axes, move):
    """Along a random direction u of the inputs: <dout, J u> by central differences equals <gradients, u>."""
    op, args, constants = case(name, axes).call
    out, cache = run(op, move(args), move(constants))
    dout = random_like(to_numpy(out))
    gradients = [to_numpy(g) for g in back(op, move(dout), cache) if g is not None]
    floats = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    assert [g.shape for g in gradients] == [args[i].shape for i in floats]
    for slot, i in enumerate(floats):
        u, eps = random_like(args[i], seed=slot), 1e-5

        def value(step, i=i, u=u):
            moved = [a + step * u if j == i else a for j, a in enumerate(args)]
            return float((dout * to_numpy(run(op, move(moved), move(constants))[0])).sum())

        numeric, exact = (value(eps) - value(-eps)) / (2 * eps), float((gradients[slot] * u).sum())
        size = np.linalg.norm(gradients[slot]) * np.linalg.norm(u)
        assert abs(numeric - exact) <= 1e-8 * size, f"gradient {slot}: {exact}, by differences {numeric}"


def test_linear_backward_sums_over_rows(move):
    op, args, _ = case("linear", 4).call
    x, w, b = args
    out, cache = run(op, move(args), {})
    dout = random_like(to_numpy(out))
    dx, dw, db = back(op, move(dout), cache)
    assert error(dx, np.einsum("...o,io->...i", dout, w)) < 1e-12
    assert error(dw, np.einsum("abci,abco->io", x, dout)) < 1e-12
    assert error(db, dout.sum(axis=(0, 1, 2))) < 1e-12


def test_linear_without_bias_has_no_gradient_for_one(move):
    op, args, _ = case("linear, no bias").call
    out, cache = run(op, move(args), {})
    dx, dw, db = ops.linear_backward(out, cache)
    assert db is None and dx.shape == args[0].shape and dw.shape == args[1].shape


def test_embedding_backward_hears_every_occurrence(move):
    w, ids = np.ones((4, 2)), np.array([[3, 1], [3, 3]])
    _, cache = ops.embedding_forward(*move([w, ids]))
    dout = np.arange(8.0).reshape(2, 2, 2)
    dw = to_numpy(ops.embedding_backward(move(dout), cache))
    assert dw.tolist() == [[0, 0], [2, 3], [0, 0], [0 + 4 + 6, 1 + 5 + 7]]


def test_softmax_backward_is_its_jacobian(move):
    (x,) = case("softmax", 2).call[1]
    p, cache = ops.softmax_forward(move(x))
    dp = random_like(x)
    dx = to_numpy(ops.softmax_backward(move(dp), cache))
    for row, drow, answer in zip(to_numpy(p), dp, dx, strict=True):
        assert error(answer, (np.diag(row) - np.outer(row, row)) @ drow) < 1e-12


def test_layernorm_gradient_cannot_shift_or_stretch(move):
    """dx is orthogonal to the constant vector and, but for eps, to x_hat: normalisation forgets both."""
    op, (x, g, b), _ = case("layernorm", 3).call
    _, cache = ops.layernorm_forward(*move([x, g, b]), eps=0.0)
    dx, dg, db = map(to_numpy, back(op, move(random_like(x)), cache))
    x_hat = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    dout = random_like(x)
    assert np.abs(dx.sum(-1)).max() < 1e-12 and np.abs((dx * x_hat).sum(-1)).max() < 1e-12
    assert error(dg, (dout * x_hat).sum(axis=(0, 1))) < 1e-12 and error(db, dout.sum(axis=(0, 1))) < 1e-12


def test_attention_backward_by_its_jacobian(move):
    """dS = P (dP - rowsum(P dP)) written out with one softmax Jacobian for each query."""
    op, (q, k, v), constants = case("attention, mask", 2).call
    out, cache = run(op, move([q, k, v]), move(constants))
    dout = random_like(to_numpy(out))
    dq, dk, dv, dbias = back(op, move(dout), cache)
    scale, mask = 1 / math.sqrt(q.shape[-1]), constants["mask"]
    ds, p = np.zeros(mask.shape), np.zeros(mask.shape)
    for t, seen in enumerate(mask):
        if seen.any():
            p[t, seen] = loop_softmax(q[t] @ k[seen].T * scale)
            ds[t] = (np.diag(p[t]) - np.outer(p[t], p[t])) @ (v @ dout[t])
    assert error(dq, scale * ds @ k) < 1e-12
    assert error(dk, scale * ds.T @ q) < 1e-12
    assert error(dv, p.T @ dout) < 1e-12 and dbias is None


def test_cross_entropy_backward_is_p_minus_onehot(move):
    op, (logits, targets), constants = case("cross_entropy, weights").call
    constants["normalizer"] = 5.5
    _, cache = run(op, move([logits, targets]), move(constants))
    (dlogits,) = back(op, 2.0, cache)
    kept = targets != ops.IGNORED
    p = loop_softmax(logits)
    p[kept, targets[kept]] -= 1
    expected = 2.0 * p * (constants["weights"] * kept / constants["normalizer"])[..., None]
    assert error(dlogits, expected) < 1e-12


# --- known numbers -------------------------------------------------------------------------------------------------


def test_known_gelu(move):
    x = np.array([-3, -1, -0.5, 0.5, 1, 3])
    out, cache = ops.gelu_forward(move(x))
    dx = ops.gelu_backward(move(np.ones(6)), cache)
    known = [-0.00363739, -0.15880801, -0.15428599, 0.34571401, 0.84119199, 2.99636261]
    slope = [-0.01158417, -0.08296408, 0.13263010, 0.86736990, 1.08296408, 1.01158417]
    assert np.abs(to_numpy(out) - known).max() < 6e-9 and np.abs(to_numpy(dx) - slope).max() < 6e-9


def test_known_layernorm(move):
    x, g, b, dout = np.array([[1.0, 2, 4, 8]]), np.ones(4), np.zeros(4), np.array([[1.0, 0, 0, 0]])
    out, cache = ops.layernorm_forward(*move([x, g, b]), eps=1e-5)
    dx, _, _ = ops.layernorm_backward(move(dout), cache)
    assert np.abs(to_numpy(out) - [[-1.02575458, -0.65275291, 0.09325042, 1.58525707]]).max() < 6e-9
    assert np.abs(to_numpy(dx) - [[0.18163573, -0.15568756, -0.08433082, 0.05838266]]).max() < 6e-9


def test_known_softmax_and_cross_entropy(move):
    z = np.array([[1.0, 2, 3]])
    p, _ = ops.softmax_forward(move(z))
    loss, _ = ops.cross_entropy_forward(*move([z, np.array([0])]))
    assert np.abs(to_numpy(p) - [[0.09003057, 0.24472847, 0.66524096]]).max() < 6e-9
    assert abs(float(loss) - 2.40760596) < 6e-9


def test_known_attention(move):
    q, k = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1.0, 2], [0, 1], [2, 0]])
    v = np.array([[1.0, 0], [0, 2], [3, 1]])
    out, cache = ops.attention_forward(*move([q, k, v]))
    dq, dk, dv = map(to_numpy, ops.attention_backward(move(np.ones((3, 2))), cache)[:3])
    for given, known in (
        (to_numpy(out), [[1, 0], [0.66976155, 0.66047690], [1.42796157, 0.56405390]]),
        (dq, [[0, 0], [-0.15639860, -0.15639860], [0.40244298, -0.80725774]]),
        (dk, [[-0.40402417, -0.56042276], [0.00079059, 0.15718919], [0.40323357, 0.40323357]]),
        (dv, [[2.24573689] * 2, [0.47026770] * 2, [0.28399541] * 2]),
    ):
        assert np.abs(given - known).max() < 6e-9


# --- manners: dtype, purity, extremes, errors ----------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS)
@each("dtype", DTYPES)
@each("name", names_of)
def test_dtype_in_is_dtype_out(op, name, dtype, move):
    op, args, constants = case(name, dtype=dtype).call
    out, cache = run(op, move(args), move(constants))
    assert out.dtype == dtype
    assert {a.dtype for a in floats_in(cache)} <= {np.dtype(dtype)}
    for dout in [move(random_like(to_numpy(out)))] if out.ndim else [1.0, np.float64(2.0), out]:
        gradients = [g for g in back(op, dout, cache) if g is not None]
        assert {g.dtype for g in gradients} == {np.dtype(dtype)}


@pytest.mark.parametrize("op", OPS)
@each("name", names_of)
def test_inputs_and_cache_are_never_written_to(op, name, move, implementation, device):
    """Forward leaves its inputs alone; backward leaves dout and the cache alone, so that it can be called again.

    With the same bits; but for the reference's gradient of an embedding on a GPU, where CuPy adds up in any order.
    """
    op, args, constants = case(name).call
    args, constants = move(args), move(constants)
    before = snapshot([args, constants])
    out, cache = run(op, args, constants)
    assert same(before, snapshot([args, constants]))
    dout = move(random_like(to_numpy(out)))
    saved, outgoing = snapshot(cache), snapshot([dout])
    first = snapshot(list(back(op, dout, cache)))
    assert same(saved, snapshot(cache)) and same(outgoing, snapshot([dout]))
    again = snapshot(list(back(op, dout, cache)))
    in_any_order = (op, implementation, device) == ("embedding", "reference", "cuda")
    equal = error(first[0], again[0]) < 1e-12 if in_any_order else same(first, again)
    assert len(first) > 0 and equal
    assert same(before, snapshot([args, constants]))


@pytest.mark.parametrize("op", OPS)
@each("name", names_of)
def test_forward_again_gives_the_same_bits(op, name, move):
    op, args, constants = case(name).call
    first, second = (run(op, move(args), move(constants))[0] for _ in range(2))
    assert same(snapshot([first]), snapshot([second]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("op", OPS)
@each("dtype", DTYPES)
@each("name", names_of)
def test_extreme_inputs_stay_finite(op, name, dtype, move):
    """Data a thousand times as large: no overflow, no NaN, no warning, forward or backward."""
    op, args, constants = case(name, dtype=dtype).call
    args[0] = args[0] * args[0].dtype.type(1000)
    out, cache = run(op, move(args), move(constants))
    gradients = back(op, move(random_like(to_numpy(out))), cache)
    for array in arrays_in([out, *gradients]):
        assert np.isfinite(to_numpy(array)).all()


@pytest.mark.filterwarnings("error")
@each("dtype", DTYPES)
def test_extreme_probabilities(dtype, move):
    """Scores that differ by thousands: one certain winner, and the loss of a hopeless target is the difference."""
    z = np.array([[0, 5000, -5000], [-9000, -9000, -9000]], dtype)
    p, _ = ops.softmax_forward(move(z))
    loss, cache = ops.cross_entropy_forward(*move([z, np.array([0, 1])]), normalizer=1)
    assert to_numpy(p)[0].tolist() == [0, 1, 0] and error(to_numpy(p)[1], [1 / 3] * 3) < 1e-6
    assert abs(float(loss) - (5000 + math.log(3))) < 1e-3
    assert to_numpy(ops.cross_entropy_backward(1.0, cache))[0].tolist() == [-1, 1, 0]


@pytest.mark.filterwarnings("error")
def test_a_constant_row_normalises_to_its_bias(move):
    x, g, b = np.full((2, 4), 7.0), np.arange(1.0, 5), np.arange(4.0)
    out, cache = ops.layernorm_forward(*move([x, g, b]))
    dx, dg, _ = ops.layernorm_backward(move(random_like(x)), cache)
    assert (to_numpy(out) == b).all() and (to_numpy(dg) == 0).all() and np.isfinite(to_numpy(dx)).all()


@pytest.mark.filterwarnings("error")
@each("dtype", DTYPES)
def test_a_query_that_sees_nothing_gives_zero_and_has_gradient_zero(dtype, move):
    op, (q, k, v), constants = case("attention, mask", 3, dtype).call
    out, cache = run(op, move([q, k, v]), move(constants))
    dq, dk, dv = map(to_numpy, back(op, move(random_like(q)), cache)[:3])
    assert (to_numpy(out)[:, 1] == 0).all() and (dq[:, 1] == 0).all()
    nothing = move(np.zeros((4, 6), bool))
    out, cache = ops.attention_forward(*move([q, k, v]), mask=nothing)
    for array in (out, *back(op, move(random_like(q)), cache)[:3]):
        assert (to_numpy(array) == 0).all()


def test_more_queries_than_keys_is_causal_from_the_end(move):
    """With 4 queries and 3 keys the last query sees all keys, and the first sees none."""
    op, args, _ = case("attention, fewer keys", 2).call
    out, _ = run(op, move(args), {})
    assert (to_numpy(out)[0] == 0).all() and error(to_numpy(out)[1], args[2][0]) < 1e-12


def test_hidden_keys_have_no_influence_and_no_gradient(move):
    op, (q, k, v), constants = case("attention, mask", 3).call
    constants["mask"][:, 2] = False
    out, cache = run(op, move([q, k, v]), move(constants))
    _, dk, dv = map(to_numpy, back(op, move(random_like(q)), cache)[:3])
    assert (dk[:, 2] == 0).all() and (dv[:, 2] == 0).all()
    k, v = k.copy(), v.copy()
    k[:, 2], v[:, 2] = 1e3, -1e3
    other, _ = run(op, move([q, k, v]), move(constants))
    assert same(snapshot([out]), snapshot([other]))


@each("shape", [(2, 1, 4, 6), (1, 3, 4, 6), (4, 6), (2, 3, 1, 6)])
def test_masks_broadcast(shape, move):
    _, args, _ = case("attention", 4).call
    mask = np.random.default_rng(3).random(shape) < 0.5
    out, _ = ops.attention_forward(*move([*args, mask])[:3], mask=move(mask))
    whole = np.broadcast_to(mask, (2, 3, 4, 6))
    for b, h in np.ndindex(2, 3):
        assert error(to_numpy(out)[b, h], loop_attention(*(a[b, h] for a in args), mask=whole[b, h])) < 1e-12


@pytest.mark.filterwarnings("error")
@each("op", ["cross_entropy", "linear_cross_entropy"])
@each("dtype", DTYPES)
def test_nothing_to_predict_is_loss_zero(op, dtype, move):
    _, args, _ = case(op, 3, dtype).call
    args[-1][...] = ops.IGNORED
    for constants in ({}, {"weights": np.ones(args[-1].shape, dtype)}, {"normalizer": 4}):
        loss, cache = run(op, move(args), move(constants))
        assert float(loss) == 0 and loss.dtype == dtype
        assert all((to_numpy(g) == 0).all() for g in back(op, 1.0, cache) if g is not None)
    empty = [args[0][:0], *args[1:-1], args[-1][:0]]
    assert float(run(op, move(empty), {})[0]) == 0


@each("op", ["cross_entropy", "linear_cross_entropy"])
def test_parts_with_the_normalizer_of_the_whole_add_up(op, move):
    _, args, _ = case(f"{op}, weights", 3).call
    targets = args[-1]
    count = int((targets != ops.IGNORED).sum())
    whole = float(run(op, move(args), {})[0])
    parts = [[args[0][i : i + 1], *args[1:-1], targets[i : i + 1]] for i in range(len(targets))]
    assert abs(sum(float(run(op, move(part), {"normalizer": count})[0]) for part in parts) - whole) < 1e-12


def test_grad_false_keeps_no_cache(move):
    names = "mlp", "gated_mlp", "self_attention", "cross_attention", "linear_cross_entropy"
    for name in (*names, "linear_cross_entropy, bias"):
        op, args, constants = case(name).call
        out, cache = run(op, move(args), move(constants) | {"grad": False})
        assert cache is None and same(snapshot([out]), snapshot([run(op, move(args), move(constants))[0]]))


@each("dtype", DTYPES)
@each("absent", [("b1",), ("b2",), ("b1", "b2")])
@each("activation", ACTIVATIONS)
def test_an_mlp_without_a_bias_is_that_with_zeros(activation, absent, dtype, move):
    one = case("mlp", dtype=dtype)
    given = {name: 0 * value if name in absent else value for name, value in one.args.items()}
    zeros = move(list(given.values()))
    none = [None if name in absent else value for name, value in zip(given, zeros, strict=True)]
    expected, cache_of_zeros = run("mlp", zeros, {"activation": activation})
    out, cache = run("mlp", none, {"activation": activation})
    alone, _ = run("mlp", none, {"activation": activation, "grad": False})
    assert out.dtype == dtype and error(out, expected) < tolerance(dtype) and error(alone, out) < tolerance(dtype)
    dout = move(random_like(to_numpy(out)))
    gradients = zip(given, back("mlp", dout, cache), back("mlp", dout, cache_of_zeros), strict=True)
    for name, without, of_zeros in gradients:
        assert without is None if name in absent else error(without, of_zeros) < tolerance(dtype), name


@each("wrong", ["swish", "GELU", "", None, 3])
@each("op", ["mlp", "gated_mlp"])
def test_a_function_inside_that_is_not_built_is_refused(op, wrong, move):
    _, args, _ = case(op).call
    with pytest.raises(InputError, match="activation is .*: give one of gelu, gelu_exact, relu, silu"):
        run(op, move(args), {"activation": wrong})


def test_dropout_keeps_the_mean_and_evaluation_keeps_everything(move):
    x = np.ones((200, 500))
    out, _ = ops.dropout_forward(move(x), rate=0.25, key=KEY)
    assert set(np.unique(to_numpy(out)).round(12)) == {0.0, round(1 / 0.75, 12)}
    assert abs(float(out.mean()) - 1) < 0.01  # five standard deviations
    for constants in ({"rate": 0.25, "key": None}, {"rate": 0.0, "key": KEY}):
        out, cache = ops.dropout_forward(move(x), **constants)
        assert (to_numpy(out) == x).all() and (to_numpy(ops.dropout_backward(out, cache)) == x).all()


def test_dropout_keeps_the_same_elements_in_every_dtype(move):
    kept = [ops.dropout_forward(move(np.ones((20, 30), dtype)), rate=0.3, key=KEY)[0] != 0 for dtype in DTYPES]
    assert same(*(snapshot([k]) for k in kept)) and 0 < kept[0].mean() < 1


@each("op", ["attention", "dropout", "self_attention", "cross_attention"])
def test_dropout_of_a_part_of_the_batch_is_that_of_the_whole(op, move):
    _, args, constants = case("dropout" if op == "dropout" else f"{op}, dropout").call
    whole, cache = run(op, move(args), constants)
    dout = random_like(to_numpy(whole))
    gradients = [to_numpy(g) for g in back(op, move(dout), cache) if g is not None]
    for row in range(len(args[0])):
        part = [a[row : row + 1] if isinstance(a, np.ndarray) else a for a in args]
        out, cache = run(op, move(part), constants | {"key": KEY._replace(row=row)})
        assert error(out, to_numpy(whole)[row : row + 1]) < 1e-12
        found = [g for g in back(op, move(dout[row : row + 1]), cache) if g is not None]
        for g, h in zip(found, gradients, strict=True):
            assert error(g, h[row : row + 1]) < 1e-12


@each("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_a_dropout_rate_out_of_range_is_refused(rate, move):
    with pytest.raises(InputError, match="dropout rate"):
        ops.dropout_forward(move(np.ones((2, 3))), rate=rate, key=KEY)


@each("bad", [-1, 13, 2**31])
def test_an_id_out_of_range_is_refused(bad, move, implementation):
    """A CUDA kernel cannot raise, and is not waited for: what it gives is not a number."""
    _, (w, ids), _ = case("embedding").call
    ids[0, 1] = bad
    if implementation == "cuda":
        out = to_numpy(ops.embedding_forward(*move([w, ids]))[0])
        assert np.isnan(out[0, 1]).all() and np.isfinite(out).sum() == out.size - out.shape[-1]
        return
    with pytest.raises(InputError, match=f"token id {bad} .* 13 rows"):
        ops.embedding_forward(*move([w, ids]))


@each("bad", [-1, 13, -101])
@each("op", ["cross_entropy", "linear_cross_entropy"])
def test_a_target_out_of_range_is_refused(op, bad, move, implementation):
    _, args, _ = case(op).call
    args[-1][0, 1] = bad
    if implementation == "cuda" and op == "linear_cross_entropy":
        assert np.isnan(to_numpy(ops.linear_cross_entropy_forward(*move(args))[0]))
        return
    with pytest.raises(InputError, match=r"targets must be -100 or 0 to 12: got .*-?\d"):
        run(op, move(args), {})


@each("op", ["cross_entropy", "linear_cross_entropy"])
def test_targets_of_another_shape_are_refused(op, move):
    _, args, _ = case(op).call
    for targets in (args[-1][:, :-1], args[-1][:1, :1], args[-1].reshape(-1)):
        with pytest.raises(InputError, match="targets"):
            run(op, move([*args[:-1], targets]), {})


class Watched(np.ndarray):
    """An array that writes down on how many axes each of its matrix products works."""

    products: list = []

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if ufunc is np.matmul:
            Watched.products.append(tuple(np.ndim(i) for i in inputs))
        plain = [i.view(np.ndarray) if isinstance(i, Watched) else i for i in inputs]
        kwargs["out"] = tuple(o.view(np.ndarray) for o in kwargs["out"]) if "out" in kwargs else None
        out = getattr(ufunc, method)(*plain, **{k: v for k, v in kwargs.items() if v is not None})
        return out.view(Watched) if isinstance(out, np.ndarray) else out


@each("axes", AXES)
def test_products_of_linear_work_on_two_axes(axes):
    _, args, _ = case("linear", axes).call
    Watched.products = []
    out, cache = ops.linear_forward(*(a.view(Watched) for a in args))
    ops.linear_backward(random_like(args[0] @ args[1]).view(Watched), cache)
    assert Watched.products == [(2, 2)] * 3


def test_heads_split_and_merge_are_inverse():
    x = np.arange(2 * 3 * 8.0).reshape(2, 3, 8)
    heads = ops.split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2) and (heads[1, 2, 0] == x[1, 0, 4:6]).all()
    assert (ops.merge_heads(heads) == x).all()


def test_a_student_moves_towards_its_teacher(move):
    """At high temperatures the gradient of the logits is that of a squared error (Hinton et al. 2015, equation 4)."""
    rng = np.random.default_rng(0)
    z, t = (a - a.mean() for a in rng.standard_normal((2, 1, 7)))
    _, cache = ops.soft_cross_entropy_forward(*move([z, t]), temperature=1e4)
    dz = to_numpy(ops.soft_cross_entropy_backward(1.0, cache)[0])
    assert np.allclose(dz, (z - t) / 7, rtol=1e-3, atol=0)
    _, cache = ops.soft_cross_entropy_forward(*move([z, z]), temperature=2.0)
    assert np.abs(to_numpy(ops.soft_cross_entropy_backward(1.0, cache)[0])).max() < 1e-12, "it is there"


def test_the_cosine_loss_of_directions(move):
    a = np.array([[3.0, 4.0]])
    for b, loss in (([6.0, 8.0], 0.0), ([-3.0, -4.0], 2.0), ([4.0, -3.0], 1.0), ([0.0, 0.0], 1.0)):
        found, cache = ops.cosine_loss_forward(*move([a, np.array([b])]))
        assert abs(float(found) - loss) < 1e-9
        da, db = (to_numpy(g) for g in ops.cosine_loss_backward(1.0, cache))
        assert abs((da * a).sum()) < 1e-9, "no gradient along a"
        assert np.isfinite(da).all() and np.isfinite(db).all()
