"""The fast operations beside the reference: the same numbers for every size of piece and any number of threads, the
same bits of chance, nothing kept that should not exist, and the reference where they were not made for the arguments.

That they are right at all is tested in test_reference.py, which runs for them too, in small pieces as well.
"""

import math
import os
import threading
import time
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from constants import value
from helpers import KEY, as_tuple, batch, each, error, kept_bytes, same, small_gpt1, small_gpt2, snapshot
from threadpoolctl import threadpool_info

from minigpt import GPT1, GPT2, ops
from minigpt.device import threads
from minigpt.device.memory import counted_as_large
from minigpt.errors import InputError
from minigpt.models import costs
from minigpt.nn import optim
from minigpt.ops.arguments import ACTIVATIONS, PAIRINGS
from minigpt.ops.cases import NAMES, case
from minigpt.ops.fast import attention, pieces, self_attention_backward, self_attention_forward, spared
from minigpt.ops.random_keys import Key, keep_mask, keep_part
from minigpt.ops.table import table

AGREEMENT = {np.float32: 1e-5, np.float64: 1e-10}
TILE = value("fast_tile")
FAST = (
    "linear", "embedding", "layernorm", "dropout", "mlp", "self_attention", "cross_attention", "linear_cross_entropy",
    "lstm", "rmsnorm", "soft_cross_entropy", "cosine_loss", "gated_mlp", "rope",
)  # fmt: skip


def both(op, args, constants, implementation, seed=1):
    """Result and gradients of one operation by one implementation."""
    with ops.using(implementation):
        out, cache = getattr(ops, f"{op}_forward")(*args, **constants)
        dout = np.random.default_rng(seed).standard_normal(np.shape(out)).astype(out.dtype)
        return [out, *(g for g in as_tuple(getattr(ops, f"{op}_backward")(dout, cache)) if g is not None)]


def assert_agree(op, args, constants=None, tolerance=1e-10):
    fast, reference = (both(op, args, constants or {}, implementation) for implementation in ("fast", "reference"))
    assert len(fast) == len(reference)
    for a, b in zip(fast, reference, strict=True):
        assert np.shape(a) == np.shape(b) and a.dtype == b.dtype and error(a, b) < tolerance


def normal(*shape, dtype=np.float64, scale=1.0):
    return (scale * np.random.default_rng(sum(shape)).standard_normal(shape)).astype(dtype)


def turns(angles):
    """Cosines and sines as rope takes them."""
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


# --- the same numbers ------------------------------------------------------------------------------------------------


@each("dtype", AGREEMENT)
@each("name", NAMES)
def test_agrees_with_the_reference(name, dtype):
    op, args, constants = case(name, dtype=dtype).call
    assert_agree(op, args, constants, AGREEMENT[dtype])


@pytest.mark.parametrize("op", FAST)
@each("number", [1, 2, 3])
@each("size", [1, 2, 3, 7, 64])
def test_agrees_for_every_size_of_piece_and_number_of_threads(op, size, number, small_pieces, constants, set_threads):
    set_threads(number)
    constants.set(fast_piece=4 * size, fast_tile=size, fast_logits=5 * size, fast_words=size)
    for name in (n for n in NAMES if n.partition(", ")[0] == op):
        op, args, constants = case(name).call
        assert_agree(op, args, constants)


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("t", [TILE, TILE + 1, 2 * TILE + 3])
def test_one_shape_above_each_real_tile(t, dtype):
    tolerance = AGREEMENT[dtype]
    rows = value("fast_piece") // 48 + 1
    x, w, b = normal(rows, 48, dtype=dtype), normal(48, 50, dtype=dtype), normal(50, dtype=dtype)
    assert_agree("self_attention", [normal(2, t, 3 * 12, dtype=dtype), 3], {"rate": 0.2, "key": KEY}, tolerance)
    assert_agree("layernorm", [x, w[:, 0].copy(), w[:, 1].copy()], {}, tolerance)
    assert_agree("rmsnorm", [x, w[:, 0].copy()], {}, tolerance)
    assert_agree("soft_cross_entropy", [x, normal(48, rows, dtype=dtype).T], {"temperature": 2.0}, tolerance)
    assert_agree("cosine_loss", [x, normal(48, rows, dtype=dtype).T], {}, tolerance)
    places = np.arange(rows, dtype=dtype)[:, None]
    assert_agree("rope", [x.reshape(1, rows, 4, 12)], turns(places) | {"heads": 3}, tolerance)
    assert_agree("mlp", [x, w, b, w.T.copy(), w[:, 0].copy()], {}, tolerance)
    assert_agree("linear_cross_entropy", [x[:t], normal(900, 48, dtype=dtype), np.arange(t)], {}, tolerance)


@pytest.mark.parametrize("scale", [1.0, 10.0, 30.0, 300.0])
def test_scores_of_every_size(scale):
    """Small ones are exponentiated as they are, large ones after a shift; often rows of both kinds in a tile."""
    qkv = normal(2, 7, 18)
    qkv[0, 3:5, :12] *= scale
    for t in (7, 1):
        assert_agree("self_attention", [qkv[:, :t], 3])
    qkv[..., 6:12] = -40 * np.abs(qkv[..., 6:12])  # every score of a positive query far below zero
    qkv[..., :6] = np.abs(qkv[..., :6])
    assert_agree("self_attention", [qkv, 3])


def test_the_shift_is_what_saves_large_scores(constants):
    constants.set(fast_safe_score=math.inf)
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        test_scores_of_every_size(300.0)


@pytest.mark.parametrize("op", ["soft_cross_entropy", "cosine_loss"])
def test_losses_of_a_student_weigh_rows_and_leave_what_is_empty(op):
    x, y = normal(7, 5), normal(5, 7).T
    for weights in (np.arange(7) % 3, np.zeros(7), None):
        assert_agree(op, [x, y], {"weights": weights})
        assert_agree(op, [x, y], {"weights": weights, "normalizer": 2.5})
    assert ops.explain(op, x, y).implementation == "fast"
    assert "or more" in ops.explain(op, x[:0], y[:0]).reasons["fast"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1000.0, 1e6])
def test_soft_targets_with_large_logits(scale):
    """exp of the logits themselves would overflow."""
    x, y = normal(7, 5, scale=scale), normal(5, 7, scale=scale).T
    loss, dlogits, _ = both("soft_cross_entropy", [x, y], {}, "fast")
    expected, dexpected, _ = both("soft_cross_entropy", [x, y], {}, "reference")
    assert error(loss, expected) < 1e-12 and error(dlogits, dexpected) < 1e-12


@pytest.mark.filterwarnings("error")
@each("activation", ACTIVATIONS)
def test_activations_of_large_numbers(activation):
    x = np.array([-1e4, -50.0, -9.0, 0.0, 9.0, 50.0, 1e4])
    for dtype in AGREEMENT:
        one = np.ones((1, 1), dtype)
        args = [x.astype(dtype)[:, None], one, 0 * one[0], one, 0 * one[0]]
        assert_agree("mlp", args, {"activation": activation}, AGREEMENT[dtype])


@each("large", [True, False])
@each("biases", [True, False])
@each("activation", ACTIVATIONS)
def test_an_mlp_of_every_kind_keeps_what_it_needs(activation, biases, large):
    """Where arrays are large, the function inside and its slope are computed once more."""
    x, w, b = normal(8, 6, 5), normal(5, 7), normal(7)
    args = [x, w, b if biases else None, w.T.copy(), b[:5] if biases else None]
    with counted_as_large(large):
        assert_agree("mlp", args, {"activation": activation})
        with ops.using("fast"):
            _, cache = ops.mlp_forward(*args, activation=activation)
    assert (cache.slope is None) == (cache.a is None) == large and (cache.f is not None) == large


@each("large", [True, False])
@each("activation", ACTIVATIONS)
def test_an_mlp_with_a_gate_keeps_what_it_needs(activation, large):
    args = [normal(8, 6, 5), normal(5, 7), normal(5, 7), normal(7, 5)]
    with counted_as_large(large):
        assert_agree("gated_mlp", args, {"activation": activation})
        with ops.using("fast"):
            _, cache = ops.gated_mlp_forward(*args, activation=activation)
    assert (cache.slope is None) == (cache.a is None) == large and (cache.g is not None) == large


@pytest.mark.parametrize("views", [lambda x: x[::2], lambda x: x[:, ::-1], lambda x: np.asfortranarray(x)])
def test_arrays_of_any_layout(views):
    x, w, b = views(normal(8, 6, 5)), normal(7, 5).T, normal(7)
    assert_agree("linear", [x, w, b])
    assert_agree("layernorm", [x, b[:5], b[1:6]])
    assert_agree("rmsnorm", [x, b[:5]])
    assert_agree("soft_cross_entropy", [x, x[..., ::-1]])
    assert_agree("cosine_loss", [x, x[..., ::-1]])
    assert_agree("dropout", [x], {"rate": 0.3, "key": KEY})
    for pairing in PAIRINGS:
        assert_agree("rope", [views(normal(8, 6, 2, 5))], turns(views(normal(8, 6, 2))) | {"pairing": pairing})
    assert_agree("mlp", [x, w, b, normal(5, 7).T, b[:5]])
    assert_agree("gated_mlp", [x, w, normal(5, 7), normal(5, 7).T])
    assert_agree("self_attention", [views(normal(8, 5, 18)), 3])
    assert_agree("linear_cross_entropy", [x, w.T, np.ones(x.shape[:-1], int)])


# --- whole models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_every_gradient_of_a_model(make, implementation):
    model = make(dropout=0.2)

    def gradients():
        model.zero_grad()
        loss, cache = model.loss(*batch(model), key=Key.of(3))
        model.loss_backward(cache, 1.7)
        return [loss, *(p.grad for p in model.parameters())]

    ours = snapshot(gradients())
    ops.use("reference")
    for a, b in zip(ours, gradients(), strict=True):
        assert error(a, b) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GPT1, GPT2])
def test_losses_of_200_steps(kind):
    """The same run by both implementations, dropout and clipping included."""
    losses = {}
    for implementation in ("fast", "reference"):
        ops.use(implementation)
        config = kind.Config(vocab_size=65, n_positions=64, n_embd=128, n_layer=2, n_head=4)
        model, rng, losses[implementation] = kind(config), np.random.default_rng(1), []
        optimizer = optim.AdamW(model.named_parameters(), weight_decay=0.1)
        for step in range(200):
            ids = (rng.integers(65, size=(8, 1)) + np.arange(65) * rng.integers(1, 4, size=(8, 1))) % 65
            model.zero_grad()
            loss, cache = model.loss(ids[:, :-1], ids[:, 1:], key=Key.of(0, step))
            model.loss_backward(cache)
            optim.clip_by_global_norm(model.named_parameters(), 1.0)
            optimizer.step(3e-4)
            losses[implementation].append(float(loss))
    assert losses["fast"][-1] < losses["fast"][0] - 0.5
    assert error(losses["fast"], losses["reference"]) < 1e-5


# --- decoding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["rows", "columns", "some columns"])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 130])
def test_products_of_few_rows(n, layout):
    for inputs, outputs in ((32, 300), (48, 1), (33, 1030)):
        x, w = normal(n, inputs), normal(inputs, outputs + 9)[:, 4 : 4 + outputs]
        w = {"rows": w.copy(), "columns": np.asfortranarray(w), "some columns": w}[layout]
        out = np.full((n, outputs), np.nan)
        assert error(pieces.product(x, w, out), np.einsum("ni,io->no", x, w)) < 1e-14


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("rows", [1, 3, 8, 130])
def test_few_rows_are_shared_by_inputs_outputs_and_hidden_units(rows, dtype, constants, three_threads):
    constants.set(shared_work=0)
    x, w, b = normal(rows, 1, 192, dtype=dtype), normal(192, 768, dtype=dtype, scale=0.1), normal(768, dtype=dtype)
    for op, args in {
        "linear": [x, w, b], "head": [x, w.T.copy().T], "mlp": [x, w, b, w.T.copy(), b[:192].copy()],
        "gated_mlp": [x, w, w[:, ::-1].copy(), w.T.copy()],
    }.items():  # fmt: skip
        outs = []
        for implementation in ("fast", "reference"):
            with ops.using(implementation):
                forward = getattr(ops, f"{op}_forward", ops.linear_forward)
                outs.append(forward(*args, **({"grad": False} if "mlp" in op else {}))[0])
        assert outs[0].dtype == dtype and error(*outs) < AGREEMENT[dtype], op


def test_a_part_of_a_batch_drops_what_the_whole_batch_drops(small_pieces):
    qkv = normal(4, 5, 18)
    whole, _ = self_attention_forward(qkv, 3, rate=0.5, key=KEY)
    part, _ = self_attention_forward(qkv[2:], 3, rate=0.5, key=KEY._replace(row=KEY.row + 2))
    assert error(part, whole[2:]) < 1e-14


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("t", [1, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_a_past_is_read_where_it_lies(t, masked, dtype, small_pieces):
    home, n_past, rng = normal(2, 2, 3, 9, 4, dtype=dtype), 5, np.random.default_rng(0)
    before, qkv = home.copy(), normal(2, t, 36, dtype=dtype, scale=3.0)
    constants = {"past": tuple(home[:, :, :, :n_past])}
    if masked:
        constants["mask"] = rng.random((2, 1, t, n_past + t)) < 0.6
        constants["mask"][1, :, 0] = False  # a query that may see nothing
    out, cache = self_attention_forward(qkv, 3, **constants, grad=False)
    with ops.using("reference"):
        expected, _ = ops.self_attention_forward(qkv, 3, **constants)
    assert cache is None and out.dtype == dtype and error(out, expected) < AGREEMENT[dtype]
    assert same([home], [before]) and (not masked or not out[1, 0].any())


@pytest.mark.parametrize("t", [1, 4])
def test_beside_a_past_there_may_be_a_bias_and_a_scale(t, small_pieces):
    past, qkv = tuple(normal(2, 2, 3, 5, 4)), normal(2, t, 36)
    for bias in (normal(1, 3, t, 5 + t), normal(1, 5 + t)):
        constants = {"past": past, "scale": 0.7, "grad": False}
        assert ops.explain("self_attention", qkv, 3, bias, **constants).implementation == "fast"
        outs = []
        for implementation in ("fast", "reference"):
            with ops.using(implementation):
                outs.append(ops.self_attention_forward(qkv, 3, bias, **constants)[0])
        assert error(*outs) < 1e-12


def test_keys_that_a_mask_hides_from_a_whole_tile_are_not_visited(constants):
    """A window that moves along the keys: each tile meets those of its own window alone."""
    constants.set(fast_tile=4)
    places = np.arange(12)
    window = (places <= places[:, None]) & (places > places[:, None] - 3)
    window[8:] = False
    rules = attention.Rules(1.0, False, window[None, None], None, 0.0, None)
    met = [(rows.start, seen.start, seen.stop) for rows, seen in rules.tiles(12, 12)]
    assert met == [(0, 0, 4), (4, 2, 8), (8, 0, 1)]
    assert_agree("self_attention", [normal(2, 12, 18), 3], {"mask": window})


@pytest.mark.parametrize("n_kv_head", [6, 2])
def test_a_window_costs_the_scores_of_its_tiles_alone(n_kv_head, constants, monkeypatch):
    """Counted in both passes: of 24 positions in tiles of 4, each tile but the first meets 6 keys."""
    constants.set(fast_tile=4)
    sizes, scores = [], attention._scores

    def counted(*args):
        sizes.append(scores(*args))
        return sizes[-1]

    monkeypatch.setattr(attention, "_scores", counted)
    places = np.arange(24)
    window = (places <= places[:, None]) & (places > places[:, None] - 3)
    columns = 4 * (6 + 2 * n_kv_head)
    out, cache = self_attention_forward(normal(2, 24, columns), 6, n_kv_head=n_kv_head, mask=window)
    self_attention_backward(out, cache)
    passes, texts, heads = 2, 2, 6
    assert sum(s.size for s in sizes) == passes * texts * heads * (4 * 4 + 5 * 4 * 6)


@pytest.mark.parametrize("t", [1, 3])
def test_what_a_window_has_left_behind_is_not_read(t):
    """NaN in a value would make each sum NaN, also times 0."""
    past = normal(2, 2, 3, 9, 4)
    past[:, :, :, :5] = np.nan
    mask = np.ones((t, 9 + t), bool)
    mask[:, :5] = False
    mask[0, 6] = False
    qkv, bias = normal(2, t, 36), normal(1, 3, t, 9 + t)
    for given in ([qkv, 3], [qkv, 3, bias], [qkv, 3, bias[..., :1]]):
        out, _ = self_attention_forward(*given, past=tuple(past), mask=mask, grad=False)
        shown = given[2:] and [given[2] if given[2].shape[-1] == 1 else given[2][..., 5:]]
        with ops.using("reference"):
            expected, _ = ops.self_attention_forward(qkv, 3, *shown, past=tuple(past[:, :, :, 5:]), mask=mask[:, 5:])
        assert error(out, expected) < 1e-12


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (12,), (3, 12)])
def test_masks_that_show_the_last_key_or_nothing(shape):
    """Where the last alone is shown, new keys before it are hidden too."""
    nothing, last = np.zeros((2, *shape), bool)
    last = np.asarray(~last)
    if shape:
        last[..., :-1] = False
    past, qkv = tuple(normal(2, 2, 3, 9, 4)), normal(2, 3, 36)
    for mask in (nothing, last):
        outs = []
        for implementation in ("fast", "reference"):
            with ops.using(implementation):
                outs.append(ops.self_attention_forward(qkv, 3, past=past, mask=mask, grad=False)[0])
        assert error(*outs) < 1e-12 and outs[0].any() == mask.any()


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("t", [TILE - 1, 2 * TILE + 3])
def test_masks_and_biases_in_real_tiles(t, dtype):
    s, tolerance = t + 5, AGREEMENT[dtype]
    padding = np.arange(s) < np.array([s, s // 3])[:, None, None, None]
    bias = normal(1, 3, t, s, dtype=dtype)
    args = [normal(2, t, 12, dtype=dtype), normal(2, s, 24, dtype=dtype), 3, bias]
    assert_agree("cross_attention", args, {"mask": padding, "rate": 0.2, "key": KEY}, tolerance)


def test_the_gradient_of_a_shared_bias_has_the_same_bits_every_time(constants, three_threads):
    """Threads add up what they have themselves; the order in which they come does not matter."""
    constants.set(shared_work=0)
    args, runs = [normal(4, 70, 36), 3, normal(1, 3, 70, 70)], []
    for _ in range(5):
        out, cache = self_attention_forward(*args)
        runs.append(snapshot(self_attention_backward(out, cache)))
    assert all(same(runs[0], run) for run in runs)


def test_the_past_is_not_copied():
    home, qkv = normal(2, 1, 3, 9000, 4), normal(1, 1, 36)
    past = tuple(home[:, :, :, :8000])
    self_attention_forward(qkv, 3, past=past, grad=False)
    tracemalloc.start()
    self_attention_forward(qkv, 3, past=past, grad=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < past[0].nbytes / 2, "scores of 3 heads, and not 4 numbers of each key"


def test_what_has_a_gradient_or_chance_is_left_to_the_reference():
    past = tuple(normal(2, 2, 3, 5, 4))
    for given in ({"grad": True}, {"grad": False, "rate": 0.1, "key": KEY}):
        explained = ops.explain("self_attention", normal(2, 1, 36), 3, past=past, **given)
        assert explained.implementation == "reference" and "past only" in explained.reasons["fast"]


@pytest.mark.parametrize("kind", [GPT1, GPT2])
def test_a_step_copies_neither_its_past_nor_its_weights(kind):
    """The largest thing that it makes is the logits."""
    config = kind.Config(vocab_size=9000, n_positions=300, n_embd=48, n_layer=2, n_head=3)
    model = kind(config)
    for rows in (1, 8):
        steps = model.stream(np.ones((rows, 280), int), 3, temperature=0)
        next(steps), next(steps)
        tracemalloc.start()
        next(steps)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        kept = 2 * rows * 280 * 48 * 4
        assert peak < 2.5 * rows * 9000 * 4 < kept + model.head.data.nbytes
        if rows == 8:
            assert peak < kept


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("kind", [GPT1, GPT2])
def test_greedy_continuations(kind, rows):
    """Logits of each step and the whole text, as the reference has them."""
    config = kind.Config(vocab_size=300, n_positions=64, n_embd=48, n_layer=2, n_head=3, initializer_range=0.3)
    model, texts, logits = kind(config), [], []
    ids = np.random.default_rng(0).integers(300, size=(rows, 9))
    for implementation in ("fast", "reference"):
        ops.use(implementation)
        texts.append(model.generate(ids, 50, temperature=0))
        past = model.new_past()
        parts = [texts[0][:, :20], *np.split(texts[0][:, 20:], 39, axis=1)]
        logits.append(np.concatenate([model.forward(part, past, grad=False)[0] for part in parts], axis=1))
    assert (texts[0] == texts[1]).all() and len(np.unique(texts[0])) > 12
    assert error(*logits) < 1e-5


# --- chance ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 3, 2**40])
def test_pieces_of_a_mask_are_pieces_of_the_mask(row):
    key, shape = Key.of(5)._replace(row=row), (2, 20001)
    whole = keep_mask(key, 0.3, shape, np).reshape(-1)
    for part in (slice(0, 5), slice(19990, 33000), slice(40001, 40002), slice(7, 7)):
        assert (keep_part(key, 0.3, shape, part, np) == whole[part]).all()
    one_by_one = [keep_part(key, 0.3, shape, slice(i, i + 1), np)[0] for i in range(32760, 32780)]
    assert one_by_one == whole[32760:32780].tolist() and 0 < sum(one_by_one) < 20


def test_the_same_elements_are_dropped():
    options = {"rate": 0.3, "key": KEY}
    dropped = [both("dropout", [np.ones((50, 70))], options, name)[0] == 0 for name in table.implementations]
    assert (dropped[0] == dropped[1]).all() and dropped[0].any()


# --- what is kept ----------------------------------------------------------------------------------------------------


def kept(op, args):
    with ops.using("fast"):
        return ops.nbytes(getattr(ops, f"{op}_forward")(*args)[1])


def test_neither_probabilities_nor_logits_are_kept():
    sizes = [kept("self_attention", [normal(1, t, 18), 3]) for t in (1, 65, 129)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0], "linear in time"
    w, h = normal(500, 4), normal(300, 4)
    assert kept("linear_cross_entropy", [h, w, np.zeros(300, int)]) == h.nbytes + w.nbytes


@pytest.mark.parametrize("implementation", table.implementations)
@pytest.mark.parametrize("kind", [GPT1, GPT2])
def test_activations_are_what_the_caches_hold(kind, implementation):
    ops.use(implementation)
    config = kind.Config(vocab_size=11, n_positions=7, n_embd=6, n_layer=3, n_head=2)
    model = kind(config)
    _, cache = model.loss(*batch(model, rows=3, length=7))
    held = kept_bytes(model, cache)
    as_float32 = costs.activations(kind, config, 3, 7)
    assert as_float32 == held


@pytest.mark.parametrize("kind", [GPT1, GPT2])
def test_large_arrays_are_computed_again_to_the_same_bits(kind, constants):
    kept, gradients = [], []
    for large in (1 << 20, 0):
        constants.set(large_array=large)
        model = kind(kind.Config(vocab_size=11, n_positions=7, n_embd=6, n_layer=3, n_head=2))
        _, cache = model.loss(*batch(model, rows=3, length=7))
        kept.append(sum(array.nbytes for array in ops.arrays(cache).values()))
        model.loss_backward(cache)
        gradients.append([p.grad for p in model.parameters()])
    floats = 4 * 3 * 7 * 6  # bytes of (B,T,C)
    assert kept[0] - kept[1] >= 3 * 5 * floats  # in each block GELU or its slope, and the output of a LayerNorm
    assert all(same(a, b) for a, b in zip(*gradients, strict=True))


def test_an_array_that_was_written_to_is_kept_itself(constants):
    constants.set(large_array=0)
    x, g, b = normal(3, 4), normal(4), normal(4)
    out, _ = ops.layernorm_forward(x, g, b)
    _, cache = ops.linear_forward(out, normal(4, 5))
    assert cache.x is not out and same(spared.again(cache.x), out)
    out[2, 3] += 1
    _, cache = ops.linear_forward(out, normal(4, 5))
    assert cache.x is out


def test_what_is_known_of_an_array_is_forgotten_with_it(constants):
    constants.set(large_array=0)
    before = len(spared._origins)
    out, cache = ops.layernorm_forward(normal(3, 4), normal(4), normal(4))
    assert len(spared._origins) == before + 1
    del out
    assert len(spared._origins) == before


def test_a_large_embedding_has_the_same_gradient(constants):
    args = [normal(100, 4), np.array([7, 99, 7, 0])]
    before = both("embedding", args, {}, "fast")
    constants.set(large_embedding=0)
    assert all(map(same, before, both("embedding", args, {}, "fast")))


# --- what they were not made for -------------------------------------------------------------------------------------


@each("name", NAMES)
def test_float16_is_left_to_the_reference(name):
    op, args, constants = case(name, dtype=np.float16).call
    _, cache = getattr(ops, f"{op}_forward")(*args, **constants)
    assert "reference" in type(cache).__module__


LEFT_OUT = (  # they learn from a past, or drop what lies inside
    "self_attention, past", "self_attention, groups and past", "gated_mlp, GELU and dropout",
)  # fmt: skip


def test_who_answers():
    for name in NAMES:
        op, args, constants = case(name).call
        _, cache = getattr(ops, f"{op}_forward")(*args, **constants)
        fast = op in FAST and name not in LEFT_OUT
        assert ("fast" in type(cache).__module__) == fast, name


@pytest.mark.parametrize("op", ["linear", "layernorm", "mlp", "linear_cross_entropy"])
def test_mixed_dtypes_are_refused(op):
    """The result would be float64, and as exact as float32."""
    _, args, constants = case(op).call
    args[1] = args[1].astype(np.float32)
    with pytest.raises(InputError, match="is float64 and .* float32: give both in one dtype"):
        getattr(ops, f"{op}_forward")(*args, **constants)


# --- sharing ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def three_threads(set_threads):
    set_threads(3)


def threads_of_products() -> set[int]:
    """How many threads each library of products may use now."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_share_gives_everything_out_once_and_in_order(three_threads):
    for n in (0, 1, 2, 3, 10):
        parts = threads.share(lambda i, j: (list(range(i.start, i.stop)), j), n, 7, work=1 << 20)
        assert sum((i for i, _ in parts), []) == list(range(n)) and len(parts) == max(1, min(3, n))
        assert [j.start for _, j in parts][0] == 0 and parts[-1][1].stop == 7
    assert len(threads.share(lambda i: i, 10, work=10)) == 1, "too little to share"


def test_share_works_at_the_same_time(three_threads):
    """Each part waits for the others: one after the other they would wait for ever."""
    meet = threading.Barrier(3, timeout=20)
    threads.share(lambda i: meet.wait(), 3, work=1 << 20)


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_share_hands_on_an_error_when_all_are_done(bad, three_threads):
    done = []

    def body(i):
        if i.start == bad:
            raise ZeroDivisionError
        time.sleep(0.05)
        done.append(i.start)

    with pytest.raises(ZeroDivisionError):
        threads.share(body, 3, work=1 << 20)
    assert sorted([*done, bad]) == [0, 1, 2]
    assert threads_of_products() <= {3}, "and products have their threads back"


def test_products_inside_use_one_thread(three_threads):
    inside = threads.share(lambda i: threads_of_products(), 3, work=1 << 20)
    assert all(found <= {1} for found in inside)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_shares_with_threads_of_its_own(three_threads):
    threads.share(lambda i: i, 3, work=1 << 20)
    child = os.fork()
    if child == 0:
        os._exit(0 if len(threads.share(lambda i: i, 3, work=1 << 20)) == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("optimizer", [optim.AdamW, optim.GPT1Adam])
def test_an_update_has_the_same_bits_for_every_size_of_piece(optimizer, small_pieces, constants, set_threads):
    results = []
    for size, number in ((1, 1), (3, 2), (8, 3), (1000, 1)):
        constants.set(fast_adam_piece=size)
        set_threads(number)
        model = small_gpt2(np.float32)
        for p in model.parameters():
            p.grad = 0.1 * p.data
        rule = optimizer(model.named_parameters())
        rule.step(0.1), rule.step(0.01)
        results.append(snapshot([p.data for p in model.parameters()]))
    assert all(same(results[0], other) for other in results[1:])


def test_a_library_that_keeps_its_own_number_of_threads_is_named(monkeypatch, set_threads):
    stubborn = SimpleNamespace(num_threads=8, internal_api="accelerate", set_num_threads=lambda number: None)
    monkeypatch.setattr(threads, "_libraries", lambda: [stubborn])
    with pytest.warns(UserWarning, match="--threads 2: accelerate, .* goes on with 8"):
        set_threads(2)
    monkeypatch.undo()
