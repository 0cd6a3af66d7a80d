"""GPT-1 as a whole: names, counts, causality, tied weights, chance, gradients of parts, training, generation."""

import dataclasses
import math

import numpy as np
import pytest
from helpers import as_tuple, batch, error, floats_in, same, small_gpt1, snapshot

from minigpt import ops
from minigpt.errors import InputError
from minigpt.models.gpt1 import GPT1, SIZES, GPT1Config
from minigpt.nn.optim import AdamW
from minigpt.ops import reference
from minigpt.ops.random_keys import Key


def gradients(model, ids, targets, dloss=1.0, **options) -> list:
    """[loss, gradient of every parameter] of one pass."""
    model.zero_grad()
    loss, cache = model.loss(ids, targets, **options)
    model.loss_backward(cache, dloss)
    return [loss, *(p.grad for p in model.parameters())]


# --- what the model is ---------------------------------------------------------------------------------------------


def test_names_are_the_published_ones_in_their_order():
    parts = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")
    expected = ["tokens_embed.weight", "positions_embed.weight"]
    expected += [f"h.{i}.{part}.{kind}" for i in range(3) for part in parts for kind in ("weight", "bias")]
    assert [name for name, _ in small_gpt1(n_layer=3).named_parameters()] == expected


def test_the_papers_size_has_116_534_784_parameters():
    model = GPT1(GPT1Config(), seed=None)  # zeros that are never written to take no memory
    shapes = {name: p.data.shape for name, p in model.named_parameters()}
    assert sum(map(math.prod, shapes.values())) == 116_534_784
    assert sum(math.prod(s) for name, s in shapes.items() if name.startswith("h.7.")) == 7_087_872
    assert shapes["tokens_embed.weight"] == (40478, 768) and shapes["positions_embed.weight"] == (512, 768)
    assert shapes["h.11.attn.c_attn.weight"] == (768, 2304) and shapes["h.0.mlp.c_fc.weight"] == (768, 3072)
    assert shapes["h.0.mlp.c_proj.weight"] == (3072, 768) and shapes["h.0.attn.c_proj.bias"] == (768,)


def test_sizes():
    assert GPT1Config(**SIZES["paper"]) == GPT1Config()
    for values in SIZES.values():
        config = GPT1Config(**values)
        assert config.n_embd % config.n_head == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_initial_weights_follow_the_seed(seed):
    config = dataclasses.replace(small_gpt1().config, n_embd=60)
    model, again = GPT1(config, seed), GPT1(config, seed)
    weights = [p.data for p in model.parameters()]
    assert same(snapshot(weights), snapshot([p.data for p in again.parameters()]))
    other = GPT1(config, seed + 1)
    assert (other.tokens_embed.weight.data != model.tokens_embed.weight.data).mean() > 0.99
    for name, p in model.named_parameters():
        if p.data.ndim == 2:
            assert abs(p.data.std() - 0.02) < 0.003, name
        else:
            assert (p.data == (name.endswith("weight"))).all(), name


def test_the_loss_before_training_is_that_of_guessing():
    model = small_gpt1(np.float32, moved=False, vocab_size=300, n_embd=32, n_positions=16)
    loss, _ = model.loss(*batch(model, 8, 16), grad=False)
    assert abs(float(loss) - math.log(300)) < 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_throughout(dtype):
    model = small_gpt1(dtype, dropout=0.1)
    loss, cache = model.loss(*batch(model), key=Key.of(1))
    assert loss.dtype == dtype and {a.dtype for a in floats_in(cache)} == {np.dtype(dtype)}
    model.loss_backward(cache, np.float64(0.5))
    assert {p.grad.dtype for p in model.parameters()} == {np.dtype(dtype)}
    logits, _ = model.forward(batch(model)[0])
    assert logits.dtype == dtype


def test_the_head_is_the_token_embedding():
    """One parameter, whose gradient is that of its work as a table plus that of its work as a head."""
    model = small_gpt1()
    ids, targets = batch(model)
    assert model.head is model.tokens_embed.weight
    total = gradients(model, ids, targets)[1]
    model.zero_grad()
    h, cache = model.hidden(ids)
    _, head = ops.linear_cross_entropy_forward(h, model.head.data, targets)
    dh, dw, _ = ops.linear_cross_entropy_backward(1.0, head)
    model.hidden_backward(dh, cache)
    assert np.abs(dw).max() > 0 and np.abs(model.head.grad).max() > 0
    assert error(model.head.grad + dw, total) < 1e-12


def test_loss_is_the_cross_entropy_of_the_logits():
    model = small_gpt1()
    ids, targets = batch(model)
    targets[0, :2] = ops.IGNORED
    answers = gradients(model, ids, targets)
    model.zero_grad()
    logits, cache = model.forward(ids)
    assert logits.shape == (*ids.shape, model.config.vocab_size)
    loss, head = ops.cross_entropy_forward(logits, targets)
    model.backward(ops.cross_entropy_backward(1.0, head), cache)
    for a, b in zip(answers, [loss, *(p.grad for p in model.parameters())], strict=True):
        assert error(a, b) < 1e-12


def test_every_gradient_is_a_derivative():
    """Each parameter along a random direction, with dropout on, by central differences."""
    model = small_gpt1(dropout=0.2)
    ids, targets = batch(model)
    options = {"key": Key.of(5), "normalizer": 7}
    _, *grads = gradients(model, ids, targets, dloss=3.0, **options)
    for (name, p), grad in zip(model.named_parameters(), grads, strict=True):
        u, values = np.random.default_rng(1).standard_normal(p.data.shape), []
        for step in (1e-5, -2e-5, 1e-5):
            p.data += step * u
            values.append(float(model.loss(ids, targets, **options, grad=False)[0]))
        numeric, exact = 3.0 * (values[0] - values[1]) / 2e-5, float((grad * u).sum())
        assert abs(numeric - exact) < 1e-8 * np.linalg.norm(grad) * np.linalg.norm(u), name
        assert np.abs(grad).max() > 0, name


# --- the future is hidden, the batch is a sum -----------------------------------------------------------------------


@pytest.mark.parametrize("t", range(5))
def test_causality(t):
    """Change token t: nothing before t moves, by not a single bit, and everything from t on does."""
    model = small_gpt1()
    ids, _ = batch(model)
    before, _ = model.forward(ids)
    ids[:, t] = (ids[:, t] + 1) % model.config.vocab_size
    after, _ = model.forward(ids)
    assert same(snapshot([before[:, :t]]), snapshot([after[:, :t]]))
    assert (before[:, t:] != after[:, t:]).any(axis=-1).all()


@pytest.mark.parametrize("t", range(5))
def test_causality_of_the_gradient(t):
    """A loss on position t alone has no gradient at any later position."""
    model = small_gpt1()
    ids, targets = batch(model)
    targets[:, np.arange(5) != t] = ops.IGNORED
    gradients(model, ids, targets)
    moved = np.abs(model.positions_embed.weight.grad).max(axis=-1) > 0
    assert moved.tolist() == [i <= t for i in range(model.config.n_positions)]


def test_rows_of_a_batch_do_not_see_each_other():
    model = small_gpt1()
    ids, _ = batch(model)
    together, _ = model.forward(ids)
    for row in range(len(ids)):
        assert error(model.forward(ids[row : row + 1])[0], together[row : row + 1]) < 1e-12


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_gradient_of_a_batch_is_the_sum_of_its_parts(rate):
    """Rows apart, with the normaliser of the whole and keys that say which row is the first: dropout included."""
    model = small_gpt1(dropout=rate)
    ids, targets = batch(model, rows=4)
    targets[1, 2:] = ops.IGNORED
    key = Key.of(3, 1)
    whole = gradients(model, ids, targets, key=key)
    model.zero_grad()
    count, total = int((targets != ops.IGNORED).sum()), 0.0
    for first, last in ((0, 1), (1, 3), (3, 4)):
        part = slice(first, last)
        options = {"normalizer": count, "key": key._replace(row=first)}
        loss, cache = model.loss(ids[part], targets[part], **options)
        model.loss_backward(cache)
        total += float(loss)
    assert abs(total - float(whole[0])) < 1e-12
    for (name, p), expected in zip(model.named_parameters(), whole[1:], strict=True):
        assert error(p.grad, expected) < 1e-12, name


def test_weights_of_targets():
    model = small_gpt1()
    ids, targets = batch(model)
    weights = np.random.default_rng(3).uniform(0.5, 2, targets.shape)
    loss, _ = model.loss(ids, targets, weights=weights)
    logits, _ = model.forward(ids)
    expected, _ = ops.cross_entropy_forward(logits, targets, weights=weights)
    assert abs(float(loss - expected)) < 1e-12
    listed, _ = model.loss(ids.tolist(), targets.tolist(), weights=weights.tolist())
    assert abs(float(loss - listed)) < 1e-12


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_ids_of_any_integer_type(dtype):
    model = small_gpt1()
    ids, targets = batch(model)
    expected = snapshot(gradients(model, ids, targets))
    assert same(expected, snapshot(gradients(model, ids.astype(dtype), targets.astype(dtype))))


# --- chance ----------------------------------------------------------------------------------------------------------


class Watch:
    """Writes down every key and rate with which dropout is asked for."""

    def __init__(self):
        self.seen = []

    def attention_forward(self, q, k, v, *, mask=None, rate=0.0, key=None):
        self.seen.append(("attention", q.shape[0], rate, key))
        return reference.attention_forward(q, k, v, mask=mask, rate=rate, key=key)

    def attention_backward(self, dout, cache):
        return reference.attention_backward(dout, cache)

    def dropout_forward(self, x, *, rate, key):
        self.seen.append(("dropout", x.shape[0], rate, key))
        return reference.dropout_forward(x, rate=rate, key=key)

    def dropout_backward(self, dout, cache):
        return as_tuple(reference.dropout_backward(dout, cache))[0]


def test_dropout_at_the_papers_four_places_each_with_a_key_of_its_own():
    model = small_gpt1(n_layer=3)
    rates = {"embd_pdrop": 0.1, "attn_pdrop": 0.2, "resid_pdrop": 0.3}
    model = GPT1(dataclasses.replace(model.config, **rates), dtype=np.float64)
    watch = Watch()
    with ops.using(watch):
        model.loss_backward(model.loss(*batch(model), key=Key.of(0, 9))[1])
    kinds = [(kind, rate) for kind, _, rate, _ in watch.seen]
    assert kinds == [("dropout", 0.1)] + [("attention", 0.2), ("dropout", 0.3), ("dropout", 0.3)] * 3
    assert len({key.bits for *_, key in watch.seen}) == len(kinds)
    watch.seen.clear()
    with ops.using(watch):
        model.forward(batch(model)[0])
    assert {key for *_, key in watch.seen} == {None}


@pytest.mark.parametrize("place", ["embd_pdrop", "attn_pdrop", "resid_pdrop"])
def test_each_rate_is_heard(place):
    model = small_gpt1(**{"n_layer": 1})
    ids, targets = batch(model)
    plain = float(model.loss(ids, targets, key=Key.of(1))[0])
    model = small_gpt1(n_layer=1, dropout=0.0)
    loud = GPT1(dataclasses.replace(model.config, **{place: 0.5}), dtype=np.float64)
    for p, q in zip(loud.parameters(), model.parameters(), strict=True):
        p.data[...] = q.data
    losses = [float(loud.loss(ids, targets, key=Key.of(seed))[0]) for seed in (1, 2)]
    assert len({plain, *losses}) == 3
    assert float(loud.loss(ids, targets, key=Key.of(1))[0]) == losses[0]
    assert float(loud.loss(ids, targets)[0]) == plain


def test_evaluation_is_deterministic_and_without_dropout():
    loud, quiet = small_gpt1(dropout=0.5), small_gpt1(dropout=0.0)
    results = [gradients(model, *batch(model)) for model in (loud, loud, quiet)]
    assert same(snapshot(results[0]), snapshot(results[1])) and same(snapshot(results[0]), snapshot(results[2]))


def test_a_step_with_the_same_key_gives_the_same_bits():
    model = small_gpt1(np.float32, dropout=0.3)
    runs = [gradients(model, *batch(model), key=Key.of(1, step)) for step in (0, 0, 1)]
    assert same(snapshot(runs[0]), snapshot(runs[1])) and not same(snapshot(runs[0]), snapshot(runs[2]))


# --- it learns -------------------------------------------------------------------------------------------------------


def test_it_learns_one_batch_by_heart():
    model = small_gpt1(np.float32, moved=False, n_embd=32, n_positions=16)
    ids, targets = batch(model, 4, 16)
    optimizer = AdamW(model.named_parameters(), weight_decay=0.0)
    for _ in range(120):
        loss = gradients(model, ids, targets)[0]
        optimizer.step(5e-3)
    assert float(loss) < 0.05
    logits, _ = model.forward(ids)
    assert (logits.argmax(-1) == targets).mean() > 0.98


# --- generation ------------------------------------------------------------------------------------------------------


def talkative(dropout=0.0) -> GPT1:
    """A model with large weights, whose likeliest token depends on all that it has seen."""
    model, rng = small_gpt1(n_embd=12, dropout=dropout), np.random.default_rng(0)
    for p in model.parameters():
        if p.data.ndim == 2:
            p.data[...] = 1.5 * rng.standard_normal(p.data.shape)
    model.h[-1].ln_2.bias.data[...] = 0  # no token is liked by itself
    return model


def greedy(model, ids, n_tokens):
    """Token by token with the whole forward pass."""
    for _ in range(n_tokens):
        logits, _ = model.forward(ids[:, -model.config.n_positions :])
        ids = np.concatenate([ids, logits[:, -1].argmax(-1)[:, None]], axis=1)
    return ids


def test_generate_follows_the_seed():
    model = talkative()
    ids, _ = batch(model)
    runs = [model.generate(ids, 12, seed=seed) for seed in (1, 1, 2)]
    assert (runs[0] == runs[1]).all() and (runs[0] != runs[2]).any()
    assert runs[0].shape == (3, 17) and (runs[0][:, :5] == ids).all()
    assert runs[0].min() >= 0 and runs[0].max() < model.config.vocab_size


@pytest.mark.parametrize("options", [{"temperature": 0}, {"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}])
def test_greedy_in_four_ways_past_the_context(options):
    """5 + 9 tokens do not fit into 8 positions: the window slides."""
    model = talkative()
    ids, _ = batch(model)
    expected = greedy(model, ids, 9)
    assert (model.generate(ids, 9, **options) == expected).all()
    assert all(len(set(row)) > 2 for row in expected[:, 8:])


def test_a_prompt_longer_than_the_context():
    model = talkative()
    ids = np.random.default_rng(0).integers(11, size=(2, 20))
    out = model.generate(ids, 3, temperature=0)
    assert (out == greedy(model, ids, 3)).all() and (out[:, :20] == ids).all()


def test_top_k_restricts_and_temperature_flattens():
    model = talkative()
    ids = np.tile(batch(model)[0][:1], (400, 1))
    logits, _ = model.forward(ids[:1])
    order = np.argsort(-logits[0, -1])
    drawn = model.generate(ids, 1, top_k=3)[:, -1]
    assert set(drawn) == set(order[:3])
    hot = model.generate(ids, 1, temperature=5.0)[:, -1]
    assert len(set(hot)) > len(set(model.generate(ids, 1, temperature=0.3)[:, -1]))


def test_stop_finishes_a_row_and_then_the_batch():
    model = talkative()
    ids, _ = batch(model)
    free = model.generate(ids, 40, seed=3)[:, 5:]
    stop = int(free[0, 3])
    out = model.generate(ids, 40, seed=3, stop=stop)[:, 5:]
    ends = [int(np.argmax(row == stop)) for row in out]
    assert 0 < out.shape[1] < 40 and max(ends) == out.shape[1] - 1 and min(ends) < max(ends)
    for row, before, end in zip(out, free, ends, strict=True):
        assert row[end] == stop and (row[end:] == stop).all() and (row[:end] != stop).all()
        if end == min(ends):
            assert (row[: end + 1] == before[: end + 1]).all()


def test_stream_yields_what_generate_returns():
    model = talkative()
    ids = [[1, 2, 3]]
    steps = list(model.stream(ids, 6, seed=4))
    assert [int(s[0]) for s in steps] == model.generate(ids, 6, seed=4)[0, 3:].tolist()


def test_generate_leaves_the_prompt_alone_and_takes_any_integer_type():
    model = talkative()
    ids, _ = batch(model)
    for dtype in (np.uint8, np.uint64, np.int32):
        prompt = ids.astype(dtype)
        out = model.generate(prompt, 10, seed=1)
        assert (prompt == ids).all() and (out == model.generate(ids, 10, seed=1)).all()


def test_every_device_gives_the_same(device):
    """Loss, gradients with dropout, and tokens: chance is a hash, and samples are drawn on the CPU."""
    here, there = talkative(dropout=0.2), talkative(dropout=0.2).to(device)
    assert there.device == device
    ids, targets = batch(here)
    answers = [gradients(model, ids, targets, key=Key.of(2, 1)) for model in (here, there)]
    for a, b in zip(*answers, strict=True):
        assert error(a, b) < 1e-9
    assert (here.generate(ids, 12, seed=1, top_k=5) == there.generate(ids, 12, seed=1, top_k=5)).all()
    with pytest.raises(InputError, match="token id 11 is out of range"):
        there.forward([[3, 11]])


# --- mistakes of the caller ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_embd": 100, "n_head": 12}, "n_embd 100 is not a multiple of n_head 12: choose 96 or 108"),
        ({"n_embd": 2, "n_head": 4}, "n_embd 2 is not a multiple of n_head 4: choose 4"),
        ({"n_layer": 0}, "n_layer is 0: give a whole number from 1 to"),
        ({"n_layer": True}, "n_layer is True"), ({"vocab_size": 1 << 31}, "vocab_size is 2147483648"),
        ({"n_positions": 6.0}, "n_positions is 6.0"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"attn_pdrop": 1.0}, "attn_pdrop is 1.0: give a dropout rate from 0"),
        ({"embd_pdrop": -0.1}, "embd_pdrop is -0.1"),
        ({"resid_pdrop": "none"}, "resid_pdrop is 'none'"),
        ({"resid_pdrop": float("nan")}, "resid_pdrop is nan"),
        ({"layer_norm_epsilon": 0.0}, "layer_norm_epsilon is 0.0: give a number above 0"),
        ({"initializer_range": "wide"}, "initializer_range is 'wide'"),
        ({"afn": "gelu_new"}, "afn is 'gelu_new': built here are gelu, "),
    ],
)
def test_a_bad_configuration_is_refused(values, message):
    with pytest.raises(InputError) as caught:
        GPT1Config(**values)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2, 3], r"ids are int64 of shape \(3,\): give whole numbers of shape \(batch, time\)"),
        ([[[1]]], r"shape \(1, 1, 1\)"),
        ([[1.0, 2.0]], "ids are float64"),
        ([["a"]], "ids are <U1"),
        ([[]], r"shape \(1, 0\)"),
        (np.zeros((0, 3), int), r"shape \(0, 3\)"),
        ([[3, 11]], "token id 11 is out of range: the table has 11 rows"),
        ([[-1, 3]], "token id -1 is out of range"),
        ([list(range(9))], "9 tokens are more than the 8 positions of this model"),
    ],
)
def test_bad_ids_are_refused(ids, message):
    model = small_gpt1()
    targets = np.zeros(np.shape(ids), int)
    for call in (model.forward, lambda ids: model.loss(ids, targets)):
        with pytest.raises(InputError, match=message):
            call(ids)
    if "positions" not in message:  # a long prompt slides instead
        with pytest.raises(InputError, match=message):
            model.generate(ids, 2)


@pytest.mark.parametrize("targets", [[[11, 0, 0]], [[-5, 0, 0]], [[0, 0]], [0, 0, 0]])
def test_bad_targets_are_refused(targets):
    with pytest.raises(InputError, match="targets"):
        small_gpt1().loss([[1, 2, 3]], targets)


@pytest.mark.parametrize("options", [{"temperature": -1}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_bad_sampling_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options)).replace("_", "-")):
        small_gpt1().generate([[1, 2]], 3, **options)


def test_a_cache_serves_once():
    model = small_gpt1()
    ids, targets = batch(model)
    _, cache = model.loss(ids, targets)
    model.loss_backward(cache)
    with pytest.raises(ValueError, match="this cache has been used"):
        model.loss_backward(cache)
    _, cache = model.loss(ids, targets, grad=False)
    assert cache == {} and model.hidden(ids, grad=False)[1] == {}
    with pytest.raises(ValueError, match=r"made with grad=False"):
        model.loss_backward(cache)
