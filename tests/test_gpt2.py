"""GPT-2 as a whole: what moved since GPT-1, names and counts, causality, gradients, the key-value cache, commands."""

import dataclasses
import difflib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers import batch, check_along, check_every_entry, error, same, same_weights, small_gpt2, snapshot
from test_gpt1 import Watch

from minigpt import open_model, ops
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.files import checkpoint, disk
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare, reopen, train
from minigpt.models import gpt1, gpt2
from minigpt.models.gpt2 import GPT2, SIZES, GPT2Config
from minigpt.nn.optim import AdamW, GPT1Adam
from minigpt.ops.random_keys import Key

pytestmark = pytest.mark.usefixtures("no_pictures")

COUNTS = {"small": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200}


# --- what it is ------------------------------------------------------------------------------------------------------


def test_names_are_the_published_ones_in_their_order():
    parts = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
    expected = ["wte.weight", "wpe.weight"]
    expected += [f"h.{i}.{part}.{kind}" for i in range(3) for part in parts for kind in ("weight", "bias")]
    expected += ["ln_f.weight", "ln_f.bias"]
    assert [name for name, _ in small_gpt2(n_layer=3).named_parameters()] == expected


@pytest.mark.parametrize("size", ["small", *(pytest.param(size, marks=pytest.mark.slow) for size in list(COUNTS)[1:])])
def test_info_gives_the_true_counts(size, capsys):
    assert main(["info", "--model", "gpt2", "--size", size]) == 0
    out = capsys.readouterr().out
    assert f"{COUNTS[size]:,} parameters" in out
    rows = [line.split() for line in out.splitlines() if line.startswith(("wte.", "wpe.", "h.", "ln_f."))]
    assert sum(int(row[-1].replace(",", "")) for row in rows) == COUNTS[size]
    assert ("wpe.weight", "1024") in [tuple(row[:2]) for row in rows]


def test_info_knows_the_usual_size_of_each_model(capsys):
    for model, count in (("gpt1", 116_534_784), ("gpt2", COUNTS["small"])):
        assert main(["info", "--model", model]) == 0
        assert f"{count:,} parameters" in capsys.readouterr().out


def test_sizes():
    assert GPT2Config(**SIZES["small"]) == GPT2Config()
    assert list(SIZES) == ["nano", "mini", *COUNTS]
    assert {size: SIZES[size] for size in ("nano", "mini")} == {size: gpt1.SIZES[size] for size in ("nano", "mini")}
    assert {values["n_embd"] // values["n_head"] for name, values in SIZES.items() if name in COUNTS} == {64}


@pytest.mark.parametrize("n_layer", [1, 3, 8])
def test_projections_onto_the_residual_stream_begin_smaller(n_layer):
    """GPT-2 section 2.3: by 1/sqrt(N), where N = 2 n_layer projections add to the stream."""
    model = GPT2(GPT2Config(vocab_size=50, n_positions=40, n_embd=96, n_layer=n_layer, n_head=4), seed=1)
    for name, p in model.named_parameters():
        if p.data.ndim == 1:
            assert (p.data == (".ln_" in f".{name}" and name.endswith("weight"))).all(), name
            continue
        std = 0.02 / math.sqrt(2 * n_layer) if name.endswith("c_proj.weight") else 0.02
        assert abs(p.data.std() / std - 1) < 0.05 and abs(p.data.mean()) < 0.1 * std, name


def test_the_two_models_differ_in_few_lines():
    """The difference of the two files is the plot of the book: about forty lines, all of which say something."""
    files = [Path(module.__file__).read_text(encoding="utf-8").splitlines() for module in (gpt1, gpt2)]
    lines = [line for line in list(difflib.unified_diff(*files, n=0, lineterm=""))[2:] if line[0] in "+-"]
    assert len(lines) <= 80
    assert abs(len(files[0]) - len(files[1])) <= 10
    names = [line for line in lines if "wte" in line or "wpe" in line]
    assert len(names) == 3


def test_the_loss_before_training_is_that_of_guessing():
    model = small_gpt2(np.float32, moved=False, vocab_size=300, n_embd=32, n_positions=16)
    loss, _ = model.loss(*batch(model, 8, 16), grad=False)
    assert abs(float(loss) - math.log(300)) < 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_throughout(dtype):
    model = small_gpt2(dtype, dropout=0.1)
    loss, cache = model.loss(*batch(model), key=Key.of(1))
    model.loss_backward(cache)
    assert loss.dtype == dtype and {p.grad.dtype for p in model.parameters()} == {np.dtype(dtype)}


def test_the_stream_is_only_added_to():
    """With blocks that add nothing, what comes out is the embedding, normalised once."""
    model = small_gpt2()
    for block in model.h:
        for linear in (block.attn.c_proj, block.mlp.c_proj):
            linear.weight.data[...] = linear.bias.data[...] = 0
    ids, _ = batch(model)
    x = model.wte.weight.data[ids] + model.wpe.weight.data[: ids.shape[1]]
    expected, _ = ops.layernorm_forward(x, model.ln_f.weight.data, model.ln_f.bias.data, eps=1e-5)
    assert error(model.hidden(ids)[0], expected) < 1e-14


# --- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "options", "sizes"),
    [
        (check_along, {}, {"n_embd": 3, "n_head": 1, "n_layer": 3}),
        (check_along, {"key": Key.of(5)}, {"n_embd": 5, "n_head": 5, "n_layer": 2}),
        (check_along, {"key": Key.of(2), "normalizer": 7.0}, {"n_embd": 6, "n_head": 2, "n_layer": 1}),
        (check_every_entry, {"key": Key.of(2), "normalizer": 7.0}, {"n_embd": 4, "n_head": 2, "n_layer": 1}),
    ],
)
def test_every_gradient_is_a_derivative(check, options, sizes):
    """The gradient of every parameter against central differences in float64, with dropout and ignored targets."""
    model = small_gpt2(dropout=0.2, vocab_size=7, n_positions=5, **sizes)
    ids, targets = batch(model, 2, 5)
    targets[0, 1] = ops.IGNORED
    assert len(list(model.parameters())) == 4 + 12 * model.config.n_layer
    check(model, ids, targets, **options)
    model.zero_grad()
    model.loss_backward(model.loss(ids, targets, **options)[1])
    for name, p in model.named_parameters():
        assert np.abs(p.grad).max() > 0, name


def test_the_head_is_the_token_embedding():
    """One parameter, whose gradient is that of its work as a table plus that of its work as a head."""
    model = small_gpt2()
    ids, targets = batch(model)
    assert model.head is model.wte.weight
    model.loss_backward(model.loss(ids, targets)[1])
    total = model.head.grad
    model.zero_grad()
    h, cache = model.hidden(ids)
    _, head = ops.linear_cross_entropy_forward(h, model.head.data, targets)
    dh, dw, _ = ops.linear_cross_entropy_backward(1.0, head)
    model.hidden_backward(dh, cache)
    assert np.abs(dw).max() > 0 and np.abs(model.head.grad).max() > 0
    assert error(model.head.grad + dw, total) < 1e-12


def test_loss_is_the_cross_entropy_of_the_logits():
    model = small_gpt2()
    ids, targets = batch(model)
    loss, cache = model.loss(ids, targets)
    model.loss_backward(cache)
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    logits, cache = model.forward(ids)
    again, head = ops.cross_entropy_forward(logits, targets)
    model.backward(ops.cross_entropy_backward(1.0, head), cache)
    assert error(loss, again) < 1e-12
    assert all(error(p.grad, e) < 1e-12 for p, e in zip(model.parameters(), expected, strict=True))


def test_the_gradient_of_a_batch_is_the_sum_of_its_parts():
    model = small_gpt2(dropout=0.3)
    ids, targets = batch(model, rows=4)
    key = Key.of(3, 1)
    model.loss_backward(model.loss(ids, targets, key=key)[1])
    whole = [p.grad for p in model.parameters()]
    model.zero_grad()
    for first, last in ((0, 1), (1, 4)):
        options = {"normalizer": targets.size, "key": key._replace(row=first)}
        model.loss_backward(model.loss(ids[first:last], targets[first:last], **options)[1])
    assert all(error(p.grad, e) < 1e-12 for p, e in zip(model.parameters(), whole, strict=True))


def test_dropout_at_the_same_places_as_gpt1_each_with_a_key_of_its_own():
    rates = {"embd_pdrop": 0.1, "attn_pdrop": 0.2, "resid_pdrop": 0.3}
    model = GPT2(dataclasses.replace(small_gpt2(n_layer=3).config, **rates), dtype=np.float64)
    watch = Watch()
    with ops.using(watch):
        model.loss_backward(model.loss(*batch(model), key=Key.of(0, 9))[1])
    kinds = [(kind, rate) for kind, _, rate, _ in watch.seen]
    assert kinds == [("dropout", 0.1)] + [("attention", 0.2), ("dropout", 0.3), ("dropout", 0.3)] * 3
    assert len({key.bits for *_, key in watch.seen}) == len(kinds)


def test_dropout_follows_the_key():
    model, quiet = small_gpt2(dropout=0.5), small_gpt2(dropout=0.0)
    ids, targets = batch(model)
    losses = [float(model.loss(ids, targets, key=key)[0]) for key in (None, Key.of(1), Key.of(1), Key.of(2))]
    assert losses[0] == float(quiet.loss(ids, targets)[0])
    assert losses[1] == losses[2] and len(set(losses)) == 3


# --- the future is hidden, the past is kept ---------------------------------------------------------------------------


@pytest.mark.parametrize("t", range(5))
def test_causality(t):
    """Change token t: nothing before t moves, by not a single bit, and everything from t on does."""
    model = small_gpt2()
    ids, _ = batch(model)
    before, _ = model.forward(ids)
    ids[:, t] = (ids[:, t] + 1) % model.config.vocab_size
    after, _ = model.forward(ids)
    assert same(snapshot([before[:, :t]]), snapshot([after[:, :t]]))
    assert (before[:, t:] != after[:, t:]).any(axis=-1).all()


@pytest.mark.parametrize("parts", [(8,), (1,) * 8, (5, 1, 2), (1, 7)])
def test_with_the_past_the_same_numbers(parts):
    model = small_gpt2()
    ids = np.random.default_rng(0).integers(model.config.vocab_size, size=(3, 8))
    whole, _ = model.forward(ids)
    past, out = model.new_past(), []
    for part in np.split(ids, np.cumsum(parts)[:-1], axis=1):
        out.append(model.forward(part, past, grad=False)[0])
    assert error(np.concatenate(out, axis=1), whole) < 1e-13
    with pytest.raises(InputError, match="9 tokens are more than the 8 positions"):
        model.forward(ids[:, :1], past, grad=False)


def test_generate_past_the_context():
    model, rng = small_gpt2(n_embd=12), np.random.default_rng(0)
    for p in model.parameters():
        if p.data.ndim == 2:
            p.data[...] = 1.5 * rng.standard_normal(p.data.shape)
    model.ln_f.bias.data[...] = 0
    ids, _ = batch(model)
    expected = ids
    for _ in range(9):
        logits, _ = model.forward(expected[:, -8:])
        expected = np.concatenate([expected, logits[:, -1].argmax(-1)[:, None]], axis=1)
    assert (model.generate(ids, 9, temperature=0) == expected).all() and len(set(expected.ravel())) > 2


# --- files and mistakes ----------------------------------------------------------------------------------------------


def test_a_model_comes_back(tmp_path):
    model = small_gpt2(np.float32, dropout=0.25)
    model.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["activation_function"] == "gelu_new"
    again = open_model(tmp_path)
    assert type(again) is GPT2 and again.config == model.config
    assert same_weights(model, again)
    with pytest.raises(InputError, match="holds a model of type 'gpt2'; expected 'openai-gpt'"):
        gpt1.GPT1.load(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"activation_function": "quick_gelu"}, "activation_function is 'quick_gelu', as in CLIP: built here are "),
        ({"activation_function": None}, "activation_function is None: built here are gelu_new, "),
        ({"activation_function": ["gelu"]}, "activation_function is ['gelu']: built here are gelu_new, "),
        ({"n_inner": 0}, "n_inner is 0: give a whole number from 1 to "),
        ({"n_inner": 7.5}, "n_inner is 7.5: give a whole number from 1 to "),
        ({"n_embd": 100, "n_head": 12}, "n_embd 100 is not a multiple of n_head 12: choose 96 or 108"),
        ({"scale_attn_weights": 0}, "config.json has scale_attn_weights 0: give true or false"),
        ({"scale_attn_by_inverse_layer_idx": None}, "config.json has scale_attn_by_inverse_layer_idx None: give true"),
        ({"tie_word_embeddings": "no"}, "config.json has tie_word_embeddings 'no': give true or false"),
        ({"add_cross_attention": True}, "config.json has add_cross_attention True, as decoders beside an "),
    ],
)
def test_a_configuration_of_another_kind_is_refused(values, message, tmp_path):
    small_gpt2().save(tmp_path)
    config = checkpoint.load_config(tmp_path)
    disk.write_text(tmp_path / "config.json", json.dumps(config | values))
    with pytest.raises(InputError) as caught:
        GPT2.load(tmp_path)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_usual_flags_of_a_configuration_are_understood(tmp_path):
    small_gpt2().save(tmp_path)
    flags = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "n_ctx": 8, "n_inner": None}
    disk.write_text(tmp_path / "config.json", json.dumps(checkpoint.load_config(tmp_path) | flags))
    assert GPT2.load(tmp_path).config.n_positions == 8


# --- training --------------------------------------------------------------------------------------------------------


TINY = {"layers": 1, "heads": 2, "embd": 16, "context": 16, "batch": 4, "steps": 6, "eval_every": 3}


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("the cat sat on the mat. a dog saw the cat.\n" * 120, encoding="utf-8")
    return str(path)


def options(text, out, **changes) -> PretrainOptions:
    return PretrainOptions(**TINY | {"tokenizer": "char", "data": text, "out": str(out), "model": "gpt2"} | changes)


def test_training_gpt2(text, tmp_path):
    job = train(options(text, tmp_path / "a", steps=60, lr=1e-2))
    assert type(job.model) is GPT2 and type(job.optimizer) is AdamW and job.best < 2.5
    assert type(open_model(tmp_path / "a")) is GPT2
    assert type(prepare(options(text, tmp_path / "b", model=None)).optimizer) is GPT1Adam


def test_a_resumed_run_ends_in_the_same_bits(text, tmp_path):
    whole = train(options(text, tmp_path / "whole", dropout=0.1))
    half = prepare(options(text, tmp_path / "half", dropout=0.1))
    calls = iter([False] * 3 + [True] * 99)
    loop(half, lambda: next(calls))
    assert 0 < half.step < 6
    again = reopen(PretrainOptions(out=str(tmp_path / "half")))
    assert type(again.optimizer) is AdamW and again.step == half.step
    loop(again)
    assert same(*(snapshot([p.data for p in job.model.parameters()]) for job in (whole, again)))


def test_init_takes_the_model_that_is_there(text, tmp_path):
    train(options(text, tmp_path / "a"))
    given = {"data": text, "init": str(tmp_path / "a"), "steps": 2}
    job = prepare(PretrainOptions(**given, out=str(tmp_path / "b")))
    assert type(job.model) is GPT2 and job.options.model == "gpt2" and type(job.optimizer) is AdamW
    assert prepare(PretrainOptions(**given, model="gpt2", out=str(tmp_path / "c"))).options.model == "gpt2"
    with pytest.raises(InputError, match="holds no gpt1: leave --model out"):
        prepare(PretrainOptions(**given, model="gpt1", out=str(tmp_path / "d")))


def test_the_folder_of_a_run_is_named_after_what_it_goes_on_from(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(options(text, "first"))
    assert prepare(PretrainOptions(data=text, init="first", steps=2)).run.folder == Path("runs/gpt2-words-from-first")


def test_a_size_that_a_model_does_not_have(capsys):
    assert main(["train", "--model", "gpt2", "--size", "paper", "--data", "stories:10"]) == 2
    assert "unknown size 'paper' of gpt2: choose nano, mini, small, medium, large, xl" in capsys.readouterr().err


def test_several_tokens_that_end_a_text_are_not_ours(tmp_path):
    """Other programs may name a list of them."""
    values = small_gpt2().config.to_dict() | {"bos_token_id": 3, "eos_token_id": [3, 4]}
    config = GPT2Config.from_dict(values)
    assert (config.bos_token_id, config.eos_token_id) == (3, None) and hash(config) is not None
