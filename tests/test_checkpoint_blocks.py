"""Blocks that run again in the backward pass: the same bits of everything, for less memory."""

import tracemalloc

import numpy as np
import pytest
from helpers import batch, kept_bytes, same, small_gpt1, small_gpt2, snapshot
from test_train import SIZES, arguments, options, stop_after, text, weights

from minigpt import GPT1, GPT2
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare, reopen, train
from minigpt.models import costs
from minigpt.ops.random_keys import Key

__all__ = ["text"]  # a fixture

pytestmark = pytest.mark.usefixtures("no_pictures")


def loss_and_gradients(model, checkpoint_blocks, key, parts=1):
    model.checkpoint_blocks = checkpoint_blocks
    model.zero_grad()
    ids, targets = batch(model, rows=4)
    losses = []
    for row in range(0, 4, 4 // parts):
        rows = slice(row, row + 4 // parts)
        key = key and key._replace(row=row)
        loss, cache = model.loss(ids[rows], targets[rows], normalizer=targets.size, key=key)
        model.loss_backward(cache, 1.3)
        losses.append(loss)
    return snapshot([*losses, *(p.grad for p in model.parameters())])


@pytest.mark.whole_models
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_the_same_bits(make, dropout, dtype, implementation):
    model = make(dtype, dropout=dropout, n_layer=3)
    for key in (None, Key.of(3)):
        for parts in (1, 2):
            assert same(*(loss_and_gradients(model, again, key, parts) for again in (False, True)))
    if dropout:
        assert not same(*(loss_and_gradients(model, True, Key.of(i)) for i in (1, 2)))


def test_the_same_bits_where_a_forward_without_a_backward_takes_another_way():
    model = small_gpt2(np.float32, n_embd=32)
    ids, _ = batch(model, rows=1, length=8)
    (one, _), (other, _) = (model.h[0].forward(model.wte.forward(ids)[0], grad=grad) for grad in (False, True))
    assert not same([one], [other]), "so a block that runs again must run with grad=True the first time"
    assert same(*(loss_and_gradients(model, again, None, parts=4) for again in (False, True)))


@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_a_block_runs_twice_and_its_cache_once(make, monkeypatch):
    model, calls = make(n_layer=3), []
    model.checkpoint_blocks = True
    forward = type(model.h[0]).forward
    monkeypatch.setattr(type(model.h[0]), "forward", lambda self, *a, **o: calls.append(self) or forward(self, *a, **o))
    _, cache = model.loss(*batch(model))
    blocks = [cache[f"h.{i}"] for i in range(3)]
    assert [list(c) for c in blocks] == [["x"]] * 3 and calls == model.h
    model.loss_backward(cache)
    assert calls == [*model.h, *reversed(model.h)]
    for used, name in ((cache, "head"), *((block, "attn") for block in blocks)):
        assert len(used) == 0
        with pytest.raises(ValueError, match="this cache has been used"):
            used.pop(name)
    calls.clear()
    model.loss(*batch(model), grad=False)
    model.generate([[1, 2]], 3)
    assert len(calls) == 3 + 9, "without a backward nothing runs twice"


def test_a_past_is_read_as_ever():
    model = small_gpt2()
    ids, _ = batch(model)
    outs = []
    for model.checkpoint_blocks in (False, True):
        past = model.new_past()
        model.forward(ids[:, :3], past, grad=False)
        out, cache = model.forward(ids[:, 3:], past)
        model.zero_grad()
        model.backward(np.ones_like(out), cache)
        assert past[0].length == 5
        outs.append(snapshot([out, *(p.grad for p in model.parameters())]))
    assert same(*outs)


def peak_of(model, ids) -> int:
    """The most memory that a loss and its backward take at once, gradients left out."""
    model.zero_grad()
    tracemalloc.start()
    loss, cache = model.loss(ids, ids)
    model.loss_backward(cache)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("kind", [GPT1, GPT2])
def test_the_peak_is_as_much_lower_as_the_costs_say(kind):
    config = kind.Config(vocab_size=30, n_positions=64, n_embd=32, n_layer=8, n_head=4)
    model, ids = kind(config), np.ones((8, 64), int)
    expected, peaks = [], []
    for model.checkpoint_blocks in (False, True):
        expected.append(costs.activations(kind, config, 8, 64, model.checkpoint_blocks))
        peaks.append(peak_of(model, ids))
    assert expected[1] < expected[0] / 3 and peaks[1] < peaks[0] / 2
    assert 0.8 < (peaks[0] - peaks[1]) / (expected[0] - expected[1]) < 1.2


@pytest.mark.parametrize("kind", [GPT1, GPT2])
def test_costs_are_what_is_kept_and_one_block(kind):
    configs = {n: kind.Config(vocab_size=11, n_positions=7, n_embd=6, n_layer=n, n_head=2) for n in (1, 4)}
    kept = {}
    for n_layer, config in configs.items():
        model = kind(config)
        model.checkpoint_blocks = True
        _, cache = model.loss(*batch(model, length=7))
        kept[n_layer] = kept_bytes(model, cache)
    one, four = (costs.activations(kind, config, 3, 7, checkpoint_blocks=True) for config in configs.values())
    assert four - one == kept[4] - kept[1] == 3 * (3 * 7 * 6 * 4)
    assert one == costs.activations(kind, configs[1], 3, 7)


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "dropout"),
    [("gpt2", 0.2), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("gpt1", 0.2), ("gpt2", 0.0)))],
)
def test_a_run_has_the_same_bytes_and_may_change_when_it_goes_on(model, dropout, text, tmp_path):
    changes = {"model": model, "dropout": dropout, "layers": 2, "accumulate": 2}
    loop(prepare(options(text, tmp_path / "plain", **changes)))
    loop(prepare(options(text, tmp_path / "again", checkpoint_blocks=True, **changes)))
    job = prepare(options(text, tmp_path / "mixed", checkpoint_blocks=True, **changes))
    assert job.model.checkpoint_blocks
    loop(job, stop_after(job, 3))
    for stop, given, holds in ((5, None, True), (7, False, False), (9, None, False), (99, True, True)):
        job = reopen(PretrainOptions(out=str(tmp_path / "mixed"), checkpoint_blocks=given))
        assert job.model.checkpoint_blocks == holds
        loop(job, stop_after(job, stop))
    assert weights(tmp_path / "plain") == weights(tmp_path / "again") == weights(tmp_path / "mixed")


def test_on_the_command_line(text, tmp_path, capsys):
    assert main(["train", *arguments(text, tmp_path / "run", 20), "--layers", "3", "--checkpoint-blocks"]) == 0
    model = reopen(PretrainOptions(out=str(tmp_path / "run"))).model
    kept = costs.human_bytes(costs.activations(GPT1, model.config, 4, 16, model.checkpoint_blocks))
    assert model.checkpoint_blocks and f"tokens/s, caches {kept}]" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", str(tmp_path / "run"), "--no-checkpoint-blocks"]) == 0
    capsys.readouterr()
    assert main(["info", "--model", "gpt2"]) == main(["info", "--model", "lstm"]) == 0
    assert capsys.readouterr().out.count("with --checkpoint-blocks: activations") == 1


def test_what_it_saves_is_said_before_a_run(text, tmp_path, capsys):
    train(options(text, tmp_path, layers=3, steps=1))
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("caches"))
    config = reopen(PretrainOptions(out=str(tmp_path))).model.config
    whole, less = (costs.human_bytes(costs.activations(GPT1, config, 4, 16, c)) for c in (False, True))
    assert whole != less and line.split(maxsplit=1)[1] == f"{whole}, with --checkpoint-blocks {less}"


def test_an_lstm_has_no_blocks(text, tmp_path):
    with pytest.raises(InputError, match="--checkpoint-blocks: an LSTM has no blocks"):
        prepare(options(text, tmp_path, model="lstm", checkpoint_blocks=True, **{**SIZES, "heads": 1}))
    assert not list(tmp_path.iterdir())
