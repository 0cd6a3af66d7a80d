"""The LSTM: the operation against known numbers and PyTorch, its state carried on; the model, whole."""

import dataclasses
import math

import numpy as np
import pytest
from helpers import KEY, batch, error, kept_bytes, same, snapshot

from minigpt import gradcheck, models, open_model, ops
from minigpt.cli import main
from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.models import costs
from minigpt.models.lstm import LSTM, SIZES, LSTMConfig
from minigpt.nn.optim import GPT1Adam
from minigpt.ops.cases import case
from minigpt.tokenizer import text as tokenizer_text

DTYPES = [np.float64, np.float32]
QUIET = {"embd_pdrop": 0.0, "resid_pdrop": 0.0}


def small(dtype=np.float64, dropout=0.0, moved=True, **sizes) -> LSTM:
    """An LSTM of odd sizes, every parameter off its initial point."""
    sizes = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_hidden": 5} | sizes
    model = LSTM(LSTMConfig(**sizes, embd_pdrop=dropout, resid_pdrop=dropout), dtype=dtype)
    rng = np.random.default_rng(1)
    for parameter in model.parameters() if moved else ():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape).astype(dtype)
    return model


def gradients(model) -> dict[str, np.ndarray]:
    return {name: p.grad for name, p in model.named_parameters()}


# --- the operation ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("implementation")
def test_known_cell(move):
    """One cell, one step, with the pre-activations 0.1, 0.2, 0.3, 0.4 of i, f, g, o."""
    x, w, u, b = np.zeros((1, 1, 1)), np.zeros((1, 4)), np.zeros((1, 4)), np.array([0.1, 0.2, 0.3, 0.4])
    out, cache = ops.lstm_forward(*move([x, w, u, b, np.array([[0, 0.5]])]))
    _, _, _, dz, dstate = ops.lstm_backward(move(np.array([[[1.0, 0]]])), cache)
    assert np.abs(to_numpy(out)[0, 0] - [0.24158424, 0.42785006]).max() < 6e-9
    assert np.abs(to_numpy(dz) - [0.03641058, 0.06202801, 0.24079182, 0.09695074]).max() < 6e-9
    assert np.abs(to_numpy(dstate) - [[0, 0.27557837]]).max() < 6e-9


@pytest.mark.usefixtures("implementation")
def test_every_gradient_by_differences(move):
    results = gradcheck.check(ops.lstm_forward, ops.lstm_backward, move(case("lstm").call[1]))
    assert [result.name for result in results] == ["x", "w", "u", "b", "state"]
    assert all(result.word == "happy" and not result.diagnosis for result in results), gradcheck.table(results)


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("pieces", [[1] * 4, [1, 3], [3, 1]])
def test_the_state_carried_on_is_the_whole_sequence(pieces, move):
    """In windows, each from the last state of the one before: the same out, and going back, the same gradients."""
    _, (x, *weights, state), _ = case("lstm").call
    whole, cache = ops.lstm_forward(*move([x, *weights, state]))
    dout = np.random.default_rng(5).standard_normal(whole.shape)
    expected = [to_numpy(g) for g in ops.lstm_backward(move(dout), cache)]
    parts, last, edges = [], move(state), np.cumsum(pieces)[:-1]
    for piece in np.split(x, edges, axis=1):
        parts.append(ops.lstm_forward(*move([piece, *weights]), last))
        last = parts[-1][0][:, -1]
    assert error(np.concatenate([to_numpy(out) for out, _ in parts], axis=1), whole) < 1e-12
    found, dstate = [], 0.0
    for (_, cache), douts in zip(parts[::-1], np.split(dout, edges, axis=1)[::-1], strict=True):
        douts = douts.copy()
        douts[:, -1] += dstate
        *rest, dstate = (to_numpy(g) for g in ops.lstm_backward(move(douts), cache))
        found.append(rest)
    dx, *others = zip(*found, strict=True)
    for mine, true in zip([np.concatenate(dx[::-1], axis=1), *map(sum, others), dstate], expected, strict=True):
        assert error(mine, true) < 1e-12


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("dtype", DTYPES)
def test_saturated_gates(dtype, move):
    """Scores of thousands: the gates are 0 and 1, nothing overflows, and a cell that is kept sums all that it is for.

    i = 0 and f = 1: the state of the beginning is still there, and its gradient is 1.
    """
    n, z = 2, np.array([-5000, 9000, 7000, 9000], dtype).repeat(2)
    x, w, u, state = (np.zeros(s, dtype) for s in ((1, 3, 4), (4, 4 * n), (n, 4 * n), (1, 2 * n)))
    state[0, n:] = 0.5, -0.25
    out, cache = ops.lstm_forward(*move([x, w, u, z, state]))
    dout = np.zeros((1, 3, 2 * n), dtype)
    dout[:, -1, n:] = 1
    *rest, dstate = (to_numpy(g) for g in ops.lstm_backward(move(dout), cache))
    h, c = np.split(to_numpy(out), 2, axis=-1)
    assert (c == [0.5, -0.25]).all() and error(h, np.broadcast_to(np.tanh([0.5, -0.25]), h.shape)) < 1e-6
    assert dstate.tolist() == [[0, 0, 1, 1]] and all((g == 0).all() for g in rest)


@pytest.mark.parity
@pytest.mark.parametrize("sizes", [(2, 7, 5, 3), (3, 4, 9, 6), (1, 11, 2, 1), (4, 1, 3, 8)])
def test_operation_against_torch(sizes):
    """torch.nn.LSTM has its weights transposed, two biases, and its state in two arrays with an axis for layers."""
    torch = pytest.importorskip("torch")
    rows, time, n_in, n = sizes
    rng = np.random.default_rng(0)
    shapes = (rows, time, n_in), (n_in, 4 * n), (n, 4 * n), (4 * n,), (rows, 2 * n)
    x, w, u, b, state = (rng.standard_normal(shape) for shape in shapes)
    dout = rng.standard_normal((rows, time, 2 * n))
    dout[:, :-1, n:] = 0  # PyTorch shows the cells of the last step only
    out, cache = ops.lstm_forward(x, w, u, b, state)
    mine = ops.lstm_backward(dout, cache)

    theirs = torch.nn.LSTM(n_in, n, batch_first=True, dtype=torch.float64)
    split = rng.standard_normal(4 * n)
    with torch.no_grad():
        for name, value in (("weight_ih", w.T), ("weight_hh", u.T), ("bias_ih", split), ("bias_hh", b - split)):
            getattr(theirs, f"{name}_l0").copy_(torch.from_numpy(value))
    tx, h, c = (torch.from_numpy(a.copy()).requires_grad_() for a in (x, state[None, :, :n], state[None, :, n:]))
    hs, (_, last) = theirs(tx, (h, c))
    (hs * torch.from_numpy(dout[..., :n])).sum().add((last[0] * torch.from_numpy(dout[:, -1, n:])).sum()).backward()
    assert error(out[..., :n], hs.detach().numpy()) < 1e-9 and error(out[:, -1, n:], last[0].detach().numpy()) < 1e-9
    dstate = np.concatenate([h.grad[0].numpy(), c.grad[0].numpy()], axis=-1)
    weights = [theirs.weight_ih_l0.grad.numpy().T, theirs.weight_hh_l0.grad.numpy().T, theirs.bias_ih_l0.grad.numpy()]
    for name, a, t in zip("x w u b state".split(), mine, [tx.grad.numpy(), *weights, dstate], strict=True):
        assert error(a, t) < 1e-9, name


# --- the model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"key": KEY}, {"weights": np.random.default_rng(2).uniform(0.5, 2, (2, 4)), "normalizer": 5.0}],
    ids=["plain", "dropout", "weighted targets"],
)
def test_every_parameter_by_differences(options):
    model = small(dropout=0.2)
    ids, targets = batch(model, rows=2, length=4)
    targets[0, 1] = ops.IGNORED
    results = gradcheck.check_model(model, ids, targets, **options)
    assert {result.name for result in results} == set(gradients(model))
    assert all(result.word == "happy" and not result.diagnosis for result in results), gradcheck.table(results)


def test_sizes():
    """The paper: one layer of 2048 cells. The cells of other widths keep its 8/3."""
    paper = LSTMConfig(**SIZES["paper"])
    assert paper == LSTMConfig() and (paper.n_embd, paper.n_hidden, paper.n_positions) == (768, 2048, 512)
    assert [LSTMConfig(**SIZES[size]).n_hidden for size in ("nano", "mini")] == [341, 1024]
    shapes = costs.shapes(LSTM, paper)
    assert shapes == {
        "tokens_embed.weight": (40478, 768), "h.0.w": (768, 8192), "h.0.u": (2048, 8192), "h.0.b": (8192,),
        "h.0.c_proj.weight": (2048, 768), "h.0.c_proj.bias": (768,),
    }  # fmt: skip
    assert sum(map(math.prod, shapes.values())) == 55_737_600 == costs.count(LSTM, paper)


def test_the_first_weights():
    """Forget gates begin open. The same seed gives the same numbers; without one all wait to be filled."""
    model, n = small(moved=False), 5
    assert model.h[0].b.data.tolist() == [0] * n + [1] * n + [0] * (2 * n)
    large = LSTM(LSTMConfig(vocab_size=500, n_positions=20, n_embd=96))
    stds = {name: float(p.data.std()) for name, p in large.named_parameters() if p.data.ndim == 2}
    expected = {"tokens_embed.weight": 0.2, "h.0.w": 96**-0.5, "h.0.u": 1 / 16, "h.0.c_proj.weight": 1 / 16}
    assert stds == pytest.approx(expected, rel=0.02)
    ids, targets = batch(large, rows=20, length=20)
    assert abs(float(large.loss(ids, targets, grad=False)[0]) - math.log(500)) < 0.1, "at first it guesses"
    assert same(*(snapshot([p.data for p in small(moved=False).parameters()]) for _ in "ab"))
    empty = LSTM(model.config, seed=None)
    assert not any(p.data.any() for p in (empty.head, empty.h[0].w, empty.h[0].u, empty.h[0].c_proj.weight))


@pytest.mark.parametrize("dtype", DTYPES)
def test_causality(dtype):
    """Another token at t: nothing before t moves, everything from t on does."""
    model = small(dtype)
    ids, _ = batch(model, length=7)
    before, _ = model.forward(ids)
    for t in range(7):
        other = ids.copy()
        other[:, t] = (other[:, t] + 1) % 11
        after, _ = model.forward(other)
        assert (before[:, :t] == after[:, :t]).all() and (before[:, t:] != after[:, t:]).any(axis=(0, 2)).all()


def test_a_batch_in_parts_is_the_same_batch():
    model = small(dropout=0.3)
    ids, targets = batch(model, rows=4)
    loss, cache = model.loss(ids, targets, key=KEY)
    model.loss_backward(cache)
    whole = gradients(model)
    model.zero_grad()
    total = 0.0
    for row in (0, 1):
        rows = slice(3 * row, 3 * row + 3 - 2 * row)  # three rows, then one
        part, cache = model.loss(ids[rows], targets[rows], normalizer=targets.size, key=KEY._replace(row=3 * row))
        model.loss_backward(cache)
        total += part
    assert error(total, loss) < 1e-12
    assert all(error(g, whole[name]) < 1e-12 for name, g in gradients(model).items())


def test_dropout_is_at_embeddings_and_output():
    ids, _ = batch(small())
    plain = small(dropout=0.5).hidden(ids)[0]
    assert (plain == small().hidden(ids)[0]).all(), "without a key nothing is dropped"
    embd, resid = ({"embd_pdrop": 0.5, "resid_pdrop": 0.0}, {"embd_pdrop": 0.0, "resid_pdrop": 0.5})
    for rates, zeros in ((embd, False), (resid, True)):
        model = small()
        model.config = dataclasses.replace(model.config, **rates)
        h, _ = model.hidden(ids, key=KEY)
        assert (h == 0).any() == zeros and not np.array_equal(h, plain)
        assert same(snapshot([h]), snapshot([model.hidden(ids, key=KEY)[0]]))


def test_the_head_is_the_embedding():
    """Its gradient is what both uses send: rows of tokens that were not read hear of the head alone."""
    model = small()
    ids, targets = batch(model, rows=1, length=3)
    loss, cache = model.loss(ids, targets)
    model.loss_backward(cache)
    tied = model.head.grad.copy()
    h, cache = model.hidden(ids)
    _, saved = ops.linear_cross_entropy_forward(h, model.head.data, targets)
    dh, by_head, _ = ops.linear_cross_entropy_backward(1.0, saved)
    unread = np.setdiff1d(np.arange(11), ids)
    assert model.head is model.tokens_embed.weight
    assert error(tied[unread], by_head[unread]) < 1e-12 and error(tied, by_head) > 1e-3


def test_a_past_may_be_given_in_training():
    """It is a constant: the gradients are those of the tokens after it, from the state that it holds."""
    model = small()
    ids, targets = batch(model, rows=2, length=7)
    past = model.new_past()
    model.hidden(ids[:, :3], past, grad=False)
    state = past[0].state.copy()
    h, cache = model.hidden(ids[:, 3:], past)
    model.hidden_backward(np.ones_like(h), cache)
    found, r = gradients(model), model.h[0]
    x, _ = ops.embedding_forward(model.head.data, ids[:, 3:])
    out, cache = ops.lstm_forward(x, r.w.data, r.u.data, r.b.data, state)
    dout = np.zeros_like(out)
    dout[..., :5] = np.ones_like(h) @ r.c_proj.weight.data.T
    _, dw, du, db, _ = ops.lstm_backward(dout, cache)
    assert past[0].length == 7 and error(past[0].state, out[:, -1]) < 1e-12
    for name, true in (("h.0.w", dw), ("h.0.u", du), ("h.0.b", db)):
        assert error(found[name], true) < 1e-12, name


def test_a_spent_cache_says_so():
    model = small()
    _, cache = model.loss(*batch(model))
    model.loss_backward(cache)
    with pytest.raises(ValueError, match="this cache has been used"):
        model.loss_backward(cache)
    assert model.hidden(batch(model)[0], grad=False)[1] == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_saved_and_opened_again(dtype, tmp_path):
    model = small(dtype)
    model.save(tmp_path)
    again = open_model(tmp_path, dtype)
    assert type(again) is LSTM and again.config == model.config and again.config.n_hidden == 5
    ids, _ = batch(model)
    tolerance = 1e-6 if dtype == np.float32 else 1e-12
    assert error(again.forward(ids)[0], model.forward(ids)[0]) < tolerance
    assert open_model(tmp_path, resid_pdrop=0.25).config.resid_pdrop == 0.25


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_layer": 2}, "n_layer 2: .* give 1"),
        ({"n_head": 3}, "n_head 3: .* give 1"),
        ({"n_hidden": 0}, "n_hidden is 0: give a whole number from 1"),
        ({"n_hidden": 2.5}, "n_hidden is 2.5"),
        ({"n_hidden": "many"}, "n_hidden is 'many'"),
        ({"n_embd": 0}, "n_embd is 0"),
        ({"resid_pdrop": 1.0}, "resid_pdrop is 1.0"),
    ],
)
def test_configurations_that_cannot_be(values, message):
    with pytest.raises(InputError, match=message) as caught:
        LSTMConfig(**values)
    assert "\n" not in str(caught.value)


def test_activations_are_what_the_caches_hold():
    config = LSTMConfig(vocab_size=31, n_positions=12, n_embd=16, n_hidden=24, **QUIET)
    model = LSTM(config)
    ids = np.zeros((3, 12), int)
    with ops.using("reference"):
        _, cache = model.loss(ids, ids)
        assert costs.activations(LSTM, config, 3, 12) == kept_bytes(model, cache)


def test_operations_per_token():
    """Two for every weight of a product; there are no scores of attention to add."""
    forward, both = costs.flops_per_token(LSTM, LSTMConfig())
    assert forward == 2 * ((768 + 2048) * 8192 + 2048 * 768 + 40478 * 768) and both == 3 * forward


# --- from the command line -------------------------------------------------------------------------------------------


def test_train_resume_sample_info(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tokenizer_text, "has_paper_pipeline", lambda: False)  # the plain rules load at once
    text, folder = tmp_path / "words.txt", tmp_path / "m"
    text.write_text("the cat sat on the mat. a dog saw the cat.\n" * 120, encoding="utf-8")
    sizes = ["--embd", "16", "--context", "16", "--batch", "4", "--steps", "30", "--eval-every", "30", "--lr", "0.03"]
    given = ["--model", "lstm", *sizes, "--data", str(text), "--tokenizer", "bpe:40", "--dropout", "0.1"]
    assert main(["train", *given, "--out", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "LSTM: 1 layer, 1 head" in out and "activations" in out
    rows = [row.split(",") for row in (folder / "loss.csv").read_text(encoding="utf-8").splitlines()]
    losses = [float(row[2]) for row in rows[1:] if row[2]]
    assert losses[-1] < losses[0] - 1, "it learns"
    model, _ = models.open_both(folder)
    assert (model.config.n_hidden, model.config.embd_pdrop, model.config.resid_pdrop) == (42, 0.1, 0.1)
    assert main(["train", "--resume", "--out", str(folder)]) == 0
    capsys.readouterr()
    assert main(["sample", str(folder), "--prompt", "the cat", "--tokens", "30"]) == 0
    assert capsys.readouterr().out.startswith("the cat")
    assert main(["info", str(folder)]) == 0
    assert "h.0.u" in capsys.readouterr().out
    assert main(["info", "--model", "lstm"]) == 0
    assert "55,737,600 parameters" in capsys.readouterr().out
    assert models.card("lstm").optimizer is GPT1Adam


def test_layers_are_refused(tmp_path, capsys):
    folder = tmp_path / "m"
    given = ["--layers", "2", "--data", "stories:10", "--tokenizer", "char", "--out", str(folder)]
    assert main(["train", "--model", "lstm", *given]) == 2
    assert "--layers 2: this LSTM has one layer: give 1" in capsys.readouterr().err and not folder.exists()
