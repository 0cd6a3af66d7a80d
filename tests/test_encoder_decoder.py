"""MASS, BART and T5: the source is seen whole, every gradient is right, and they write."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import (
    as_another_program,
    check_along,
    check_every_entry,
    error,
    kept_bytes,
    learn_by_heart,
    published,
    same,
    same_weights,
    small_model,
    snapshot,
)

from minigpt import models, open_model, ops
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs.pretrain import PretrainOptions, prepare, train
from minigpt.jobs.sample import SampleOptions, sample
from minigpt.models import costs
from minigpt.models.family.bart import BART
from minigpt.models.family.encoder_decoder import EncoderDecoder
from minigpt.models.family.mass import MASS
from minigpt.models.family.reading import Reading
from minigpt.models.family.relative import buckets
from minigpt.models.family.t5 import T5
from minigpt.models.language_model import LanguageModel

KINDS = {"mass": MASS, "bart": BART, "t5": T5}
SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2, "decoder_start_token_id": 3}
OWN_SIZES = {T5: {"d_kv": 2, "d_ff": 5, "n_buckets": 6, "max_distance": 7}}
V1_1 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "scale_decoder_outputs": False}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def small(kind, dtype=np.float64, dropout=0.0, spread=0.3, **sizes) -> EncoderDecoder:
    return small_model(kind, SIZES | OWN_SIZES.get(kind, {}) | sizes, dtype, dropout, spread)


def inputs(rows=3, length=5, source_length=6, seed=0) -> dict:
    """Ids, targets of which some are not predicted, and sources, the last of which is padded at its right."""
    rng = np.random.default_rng(seed)
    ids, targets = rng.integers(11, size=(2, rows, length))
    targets[0, -2:] = ops.IGNORED
    source = rng.integers(11, size=(rows, source_length))
    source_mask = np.ones(source.shape, bool)
    source_mask[-1, -2:] = False
    return {"ids": ids, "targets": targets, "source": source, "source_mask": source_mask}


@every_kind
@pytest.mark.parametrize("dropout", [0.2, pytest.param(0.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("checkpoint_blocks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_gradient(kind, dropout, checkpoint_blocks):
    model = small(kind, dropout=dropout)
    model.checkpoint_blocks = checkpoint_blocks
    check_along(model, key=ops.Key.of(1, 2) if dropout else None, **inputs())


@pytest.mark.parametrize("values", [V1_1, V1_1 | {"tie_word_embeddings": True}, {"tie_word_embeddings": False}],
                         ids=["1.1", "1.1, tied", "1.0, not tied"])  # fmt: skip
def test_every_gradient_of_a_t5_of_version_1_1(values):
    model = small(T5, dropout=0.2, **values)
    assert ("lm_head.weight" in dict(model.named_parameters())) == (not model.config.tie_word_embeddings)
    assert model.layers_of("lm_head.weight") == 2 and model.layers_of("tokens_embed.weight") == 0
    check_along(model, key=ops.Key.of(1, 2), **inputs())


@pytest.mark.parametrize("values", [{}, V1_1], ids=["1.0", "1.1"])
def test_dropout_stands_inside_the_network_of_t5_and_behind_it(values):
    mlp = small(T5, dropout=0.4, **values).encoder.h[0].mlp
    weights = [parameter.data for parameter in mlp.parameters()]
    x = np.random.default_rng(0).normal(size=(3, 5, 6))
    key = ops.Key.of(1, 2)
    inside = ops.gelu_forward(x @ weights[0])[0] * (x @ weights[1]) if values else np.maximum(x @ weights[0], 0)
    inside, _ = ops.dropout_forward(inside, rate=0.4, key=key.fold(5))
    out, _ = ops.dropout_forward(inside @ weights[-1], rate=0.4, key=key.fold(2))
    assert error(mlp.forward(x, key)[0], out) < 1e-14


@pytest.mark.slow
@every_kind
def test_every_entry_of_every_gradient(kind):
    """Of a model of seven tokens: differences are less exact for a longer sum of losses."""
    model = small(kind, dropout=0.2, vocab_size=7, n_positions=4, n_embd=4, n_layer=1)
    given = inputs(2, 3, 4)
    given |= {"source": given["source"] % 7, "ids": given["ids"] % 7, "targets": np.minimum(given["targets"], 6)}
    check_every_entry(model, key=ops.Key.of(1, 2), **given)


@every_kind
def test_the_same_bits_with_checkpointed_blocks(kind):
    model, given = small(kind, dropout=0.2), inputs()
    found = []
    for again in (False, True):
        model.checkpoint_blocks = again
        model.zero_grad()
        loss, cache = model.loss(**given, key=ops.Key.of(3))
        blocks = cache.decoder.get("blocks", cache.decoder)
        assert (list(blocks["h.1"]) == ["x"]) == again
        model.loss_backward(cache)
        found.append(snapshot([loss, *(p.grad for p in model.parameters())]))
    assert same(*found)


@every_kind
def test_logits_and_loss_are_one_model(kind):
    model, given = small(kind), inputs()
    targets = given.pop("targets")
    logits, cache = model.forward(**given)
    loss, by_logits = ops.cross_entropy_forward(logits, targets)
    model.zero_grad()
    model.backward(ops.cross_entropy_backward(1.0, by_logits), cache)
    expected = snapshot([p.grad for p in model.parameters()])
    model.zero_grad()
    whole, cache = model.loss(targets=targets, **given)
    model.loss_backward(cache)
    assert error(loss, whole) < 1e-12
    assert max(error(p.grad, e) for p, e in zip(model.parameters(), expected, strict=True)) < 1e-9


# ------------------------------------------------------------------------------------------------------ who sees whom


@every_kind
def test_the_decoder_sees_no_later_token_and_all_of_the_source(kind):
    model, given = small(kind), inputs()
    del given["targets"]
    before, _ = model.forward(**given, grad=False)
    later = given | {"ids": given["ids"].copy()}
    later["ids"][:, 3] += 1
    later["ids"] %= 11
    after, _ = model.forward(**later, grad=False)
    assert same(snapshot([after[:, :3]]), snapshot([before[:, :3]]))
    assert (np.abs(after - before)[:, 3:].max(axis=-1) > 1e-6).all()
    for place in range(given["source"].shape[1]):
        other = given | {"source": given["source"].copy()}
        other["source"][0, place] = (other["source"][0, place] + 1) % 11
        after, _ = model.forward(**other, grad=False)
        assert (np.abs(after - before)[0].max(axis=-1) > 1e-6).all(), f"the source at {place} moves every position"
        assert same(snapshot([after[1:]]), snapshot([before[1:]])), "and no other row"


@every_kind
def test_padding_of_the_source_never_matters(kind):
    model, given = small(kind), inputs()
    del given["targets"]
    before, _ = model.forward(**given, grad=False)
    other = given | {"source": np.where(given["source_mask"], given["source"], 0)}
    assert not np.array_equal(other["source"], given["source"])
    assert same(snapshot(model.forward(**other, grad=False)[0]), snapshot(before))
    alone = {"ids": given["ids"][-1:], "source": given["source"][-1:, :4]}
    assert error(model.forward(**alone, grad=False)[0], before[-1:]) < 1e-12


@every_kind
def test_padding_of_the_decoder_is_hidden_by_its_mask(kind):
    model, given = small(kind), inputs()
    del given["targets"]
    mask = np.ones((3, 5), bool)
    mask[0, 1] = False
    before, _ = model.forward(**given, mask=mask, grad=False)
    given["ids"][0, 1] = (given["ids"][0, 1] + 1) % 11
    after, _ = model.forward(**given, mask=mask, grad=False)
    others = [0, 2, 3, 4]
    assert same(snapshot([after[:, others]]), snapshot([before[:, others]]))
    assert error(after[0, 1], before[0, 1]) > 1e-6


@every_kind
def test_the_parts_of_a_batch_have_the_loss_of_the_whole(kind):
    model, given = small(kind), inputs()
    n_targets = int((given["targets"] != ops.IGNORED).sum())
    whole = model.loss(**given)[0]
    parts = 0.0
    for rows in (slice(0, 1), slice(1, 3)):
        part = {name: value[rows] for name, value in given.items()}
        parts += model.loss(**part, normalizer=n_targets)[0]
    assert parts == pytest.approx(whole, rel=1e-12)


@every_kind
def test_no_attention_falls_back_to_the_reference(kind):
    model, given = small(kind, np.float32), inputs()
    with ops.tracing() as calls:
        model.loss(**given)
    attention = [call for call in calls if call.op.endswith("_attention")]
    assert len(attention) == 6 and {call.implementation for call in attention} == {"fast"}


# --------------------------------------------------------------------------------------------------------- generating


@every_kind
def test_it_writes_the_same_with_and_without_the_past(kind):
    model, given = small(kind), inputs()
    reading = model.reading(given["source"], given["source_mask"])
    start = given["ids"][:, :1]
    options = {"temperature": 1.0, "seed": 3}
    quick = reading.generate(start, 12, **options)  # 12 are more than the 8 positions: the window slides
    assert np.array_equal(quick, reading.generate(start, 12, **options, cache=False))
    rows = [model.reading(given["source"][[i]], given["source_mask"][[i]]) for i in range(3)]
    alone = rows[0].generate(start[:1], 12, **options)
    assert np.array_equal(alone, quick[:1]), "a row does not depend on the others"
    past, ids = reading.new_past(), start
    while ids.shape[1] < 8:  # and it is what the whole model says, one position after the other
        logits, _ = model.forward(ids, source=given["source"], source_mask=given["source_mask"], grad=False)
        found = reading.next_logits(ids[:, -1:], past)
        assert error(found, logits[:, -1]) < 1e-12
        ids = np.concatenate([ids, logits[:, -1].argmax(-1)[:, None]], axis=1)
    assert np.array_equal(reading.generate(start, 7, temperature=0), ids)


@every_kind
def test_the_source_is_read_once(kind, monkeypatch):
    model, given = small(kind), inputs()
    reading = model.reading(given["source"])
    monkeypatch.setattr(kind, "encode", None)
    for block in model.h:
        monkeypatch.setattr(block.crossattention.c_attn, "forward", None)
    assert reading.generate(given["ids"], 3).shape == (3, 8)


@every_kind
def test_one_source_for_several_rows_and_sources_of_several_lengths(kind):
    model, given = small(kind), inputs()
    source, start = given["source"], given["ids"][:, :1]
    one = model.reading(source[:1]).generate(np.tile(start[:1], (3, 1)), 6, seed=1)
    each = model.reading(np.tile(source[:1], (3, 1))).generate(np.tile(start[:1], (3, 1)), 6, seed=1)
    assert np.array_equal(one, each) and len({tuple(row) for row in one}) > 1
    rows = [source[0], source[1, :2], source[2, :5]]
    together = model.reading(rows).generate(start, 4, temperature=0)
    alone = [model.reading(row[None]).generate(start[[i]], 4, temperature=0)[0] for i, row in enumerate(rows)]
    assert np.array_equal(together, alone)


@every_kind
def test_beginnings_of_different_lengths(kind):
    model, given = small(kind), inputs()
    reading = model.reading(given["source"], given["source_mask"])
    starts = [[1, 2, 3], [4], [5, 6]]
    together = reading.generate(starts, 4, temperature=0)
    for i, start in enumerate(starts):
        one = model.reading(given["source"][[i]], given["source_mask"][[i]])
        assert np.array_equal(together[i], one.generate([start], 4, temperature=0)[0])


@every_kind
def test_continuing_begins_with_the_token_of_the_configuration(kind):
    model, given = small(kind), inputs()
    writer, start = model.continuing(given["source"])
    assert np.array_equal(start, [[3], [3], [3]])
    expected = model.reading(given["source"]).generate(start, 3, temperature=0)
    assert np.array_equal(writer.generate(start, 3, temperature=0), expected)


# -------------------------------------------------------------------------------------------------------------- files


@every_kind
def test_saved_and_opened_again(kind, tmp_path):
    model = small(kind, np.float32)
    model.save(tmp_path)
    again = open_model(tmp_path)
    assert type(again) is kind and again.config == model.config
    assert same_weights(model, again)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["d_model"] == 6 and config["is_encoder_decoder"] is True and "n_embd" not in config
    names = model.published_names() or [name for name, _ in model.named_parameters()]
    assert set(names) == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("bart", {"activation_function": "tanh"}, "activation_function is 'tanh', as in pooling layers: built"),
        ("bart", {"encoder_ffn_dim": 7}, "decoder_ffn_dim is 24, and that of the encoder 7: only an encoder and a de"),
        ("bart", {"decoder_ffn_dim": 7}, "decoder_ffn_dim is 7, and that of the encoder 24: only an encoder and a de"),
        ("bart", {"decoder_layers": 3}, "decoder_layers is 3, and that of the encoder 2"),
        ("bart", {"scale_embedding": True}, "only models with False are built here"),
        ("bart", {"is_encoder_decoder": False}, "only models with True are built here"),
        ("bart", {"decoder_start_token_id": -1}, "decoder_start_token_id -1: give the id of a token"),
        ("t5", {"feed_forward_proj": "gated-tanh"}, "'gated-tanh': give one of relu, gelu, gated-gelu, "),
        ("t5", {"feed_forward_proj": None}, "feed_forward_proj is None: give one of relu"),
        ("t5", {"dense_act_fn": "gelu_new"}, "feed_forward_proj 'relu' and dense_act_fn 'gelu_new', which do "),
        ("t5", {"is_gated_act": True}, "feed_forward_proj 'relu' and is_gated_act True, which do not belong together"),
        ("t5", {"tie_word_embeddings": 0}, "tie_word_embeddings 0: give true or false"),
        ("t5", {"num_decoder_layers": 3}, "num_decoder_layers is 3, and the encoder has 2: only an encoder and a deco"),
        ("t5", {"d_kv": 0}, "d_kv is 0: give a whole number"),
        ("t5", {"relative_attention_num_buckets": 7}, "n_buckets is 7 and max_distance 7: give an even number of 4"),
        ("t5", {"relative_attention_max_distance": 6}, "n_buckets is 6 and max_distance 6: give an even number of 4"),
    ],
)
def test_what_is_not_built_is_refused(name, values, words):
    kind = KINDS[name]
    written = small(kind).config.to_dict()
    assert kind.Config.from_dict(written) == small(kind).config
    with pytest.raises(InputError, match=words):
        kind.Config.from_dict(written | values)


@pytest.mark.parametrize("values", [V1_1, V1_1 | {"tie_word_embeddings": True}], ids=["own head", "tied"])
def test_a_t5_of_version_1_1_comes_back(values, tmp_path):
    model = small(T5, np.float32, **values)
    model.save(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert {key: written[key] for key in values} == values
    again = open_model(tmp_path)
    assert again.config == model.config
    assert same_weights(model, again)


def test_a_t5_of_today_says_no_positions_and_has_512(tmp_path):
    small(T5, np.float32).save(tmp_path)
    as_another_program(tmp_path, n_positions=...)
    assert open_model(tmp_path).config.n_positions == 512


def test_a_stored_head_decides_whatever_a_newer_file_says(tmp_path):
    """transformers 5 writes of T5 1.1 that its head is tied, and stores a head that is not."""
    model = small(T5, np.float32, **V1_1)
    model.save(tmp_path)
    as_another_program(tmp_path, tie_word_embeddings=True)
    assert not open_model(tmp_path).config.tie_word_embeddings
    as_another_program(tmp_path, tie_word_embeddings=False, scale_decoder_outputs=...)
    assert open_model(tmp_path).config == model.config, "as the first files of T5 1.1 say it"
    as_another_program(tmp_path, model_type="mt5", tie_word_embeddings=True, feed_forward_proj=...)
    assert open_model(tmp_path).config == model.config, "mT5 need not say what it is"


def test_a_bias_of_the_head_is_refused(tmp_path):
    model = small(BART)
    tensors = published(model)
    assert not tensors["final_logits_bias"].any() and tensors["final_logits_bias"].shape == (1, 11)
    tensors["final_logits_bias"][0, 3] = 1
    with pytest.raises(InputError, match="final_logits_bias is not zero"):
        model.from_published(tensors, tmp_path)


@every_kind
def test_wrong_calls_have_one_clear_line(kind):
    model, given = small(kind), inputs()
    ids, source, mask = given["ids"], given["source"], given["source_mask"]
    with pytest.raises(InputError, match=f"{kind.__name__} reads a source and writes beside it: give source=ids"):
        model.hidden(ids)
    with pytest.raises(InputError, match="there are 2 sources for 3 rows of ids"):
        model.hidden(ids, source=source[:2])
    with pytest.raises(InputError, match=r"source_mask is bool of shape \(2, 6\): give a boolean for each token"):
        model.hidden(ids, source=source, source_mask=mask[:2])
    with pytest.raises(InputError, match="source_mask is int64"):
        model.hidden(ids, source=source, source_mask=mask.astype(int))
    with pytest.raises(InputError, match="9 tokens are more than the 8 positions"):
        model.hidden(ids, source=np.zeros((3, 9), int))
    with pytest.raises(InputError, match="token id 11 is out of range"):
        model.hidden(ids, source=np.full((3, 4), 11))
    with pytest.raises(InputError, match=f"{kind.__name__} writes beside a source: take model.reading"):
        model.generate(ids, 3)
    with pytest.raises(InputError, match=r"give what new_past\(\) of model.reading\(source\) returned"):
        model.hidden(ids, LanguageModel.new_past(model))
    with pytest.raises(InputError, match="there are 3 sources for 2 rows of ids: give one, or one for each row"):
        model.reading(source).generate(ids[:2], 1)
    nameless = small(kind, decoder_start_token_id=None)
    with pytest.raises(InputError, match="has no decoder_start_token_id"):
        nameless.continuing(source)


# --------------------------------------------------------------------------------------------------- what one has alone


def test_positions_of_a_fragment_are_those_of_its_text():
    """The same as if the decoder stood at the end of a longer text whose beginning it does not see."""
    model, given = small(MASS), inputs()
    ids, source = given["ids"], given["source"]
    places = np.array([[0, 1, 2], [3, 4, 5], [5, 6, 7]])
    found, _ = model.forward(ids[:, :3], source=source, positions=places, grad=False)
    for i, start in enumerate(places[:, 0]):
        longer = np.zeros((1, start + 3), int)
        longer[0, start:] = ids[i, :3]
        mask = np.arange(start + 3)[None] >= start
        expected, _ = model.forward(longer, source=source[[i]], mask=mask, grad=False)
        assert error(found[i], expected[0, start:]) < 1e-12


def test_buckets_are_narrow_near_and_wide_far_away():
    near = buckets(np.arange(-8, 1), 32, 128, both_sides=False)
    assert np.array_equal(near, [8, 7, 6, 5, 4, 3, 2, 1, 0])
    assert np.array_equal(buckets(np.arange(1, 9), 32, 128, both_sides=False), np.zeros(8, int)), "what is hidden"
    far = buckets(-np.array([15, 16, 18, 19, 127, 128, 5000]), 32, 128, both_sides=False)
    assert np.array_equal(far, [15, 16, 16, 17, 31, 31, 31])
    both = buckets(np.array([-128, -16, -8, -7, -1, 0, 1, 7, 8, 16, 128]), 32, 128, both_sides=True)
    assert np.array_equal(both, [15, 10, 8, 7, 1, 0, 17, 23, 24, 26, 31])


def test_all_blocks_of_a_side_share_one_table_of_distances():
    model = small(T5)
    tables = [name for name, _ in model.named_parameters() if "distances" in name]
    assert tables == ["encoder.distances_embed.weight", "decoder.distances_embed.weight"]
    assert not any(name.endswith("bias") for name, _ in model.named_parameters())


def test_only_distances_matter_to_t5():
    """The same source after other text that it does not see, and the same beginning, give the same."""
    model, given = small(T5), inputs()
    ids, source = given["ids"], given["source"][:, :4]
    before, _ = model.forward(ids, source=source, grad=False)
    longer = np.concatenate([given["source"][:, 4:], source], axis=1)
    mask = np.arange(6) >= np.full((3, 1), 2)
    after, _ = model.forward(ids, source=longer, source_mask=mask, grad=False)
    assert error(before, after) < 1e-12
    with pytest.raises(InputError, match="T5 has distances in place of positions: leave positions out"):
        model.forward(ids, source=source, positions=np.arange(5))


def test_the_new_weights_of_t5_follow_from_its_sizes():
    """Scores have no scale: the queries' weights are smaller by the square root of a head's size instead."""
    model = T5(T5.Config(vocab_size=500, n_embd=64, n_layer=1, n_head=4, d_kv=25, d_ff=300))
    block = model.decoder.h[0]
    q, k, v = np.split(block.attn.c_attn.weight.data, 3, axis=1)
    expected = [
        (model.tokens_embed.weight.data, 1), (q, (64 * 25) ** -0.5), (k, 64**-0.5), (v, 64**-0.5),
        (block.attn.c_proj.weight.data, 100**-0.5), (block.mlp.wi.weight.data, 64**-0.5),
        (block.mlp.wo.weight.data, 300**-0.5), (block.crossattention.q_attn.weight.data, (64 * 25) ** -0.5),
        (block.crossattention.c_attn.weight.data, 64**-0.5), (block.crossattention.c_proj.weight.data, 100**-0.5),
    ]  # fmt: skip
    for weights, std in expected:
        assert weights.std() == pytest.approx(std, rel=0.05)  # 6,400 numbers or more: a standard deviation is 1 %


def test_heads_of_t5_need_not_share_its_width(tmp_path):
    """As in mT5-small and Flan-T5-small: 6 heads of 64, and 512 wide."""
    model = small(T5, np.float32, n_embd=7, n_head=3)
    model.save(tmp_path)
    again = open_model(tmp_path)
    assert again.config == model.config
    assert same_weights(model, again)


# ----------------------------------------------------------------------------------------------------------- training


@every_kind
def test_it_learns_one_batch_by_heart(kind):
    """Overfitted: every gradient that is needed for it arrives, and has the right sign. The first words differ by row,
    so they can only come from the source."""
    given = inputs(rows=4, length=6)
    given["targets"] = np.array([[4, 1, 2, 3, 5, 6], [7, 2, 1, 3, 6, 5], [8, 3, 2, 1, 5, 6], [9, 1, 3, 2, 6, 5]])
    given["ids"] = np.concatenate([np.full((4, 1), 3), given["targets"][:, :-1]], axis=1)
    model = kind(kind.Config(**(SIZES | OWN_SIZES.get(kind, {}) | {"n_embd": 16})), seed=0)
    loss = learn_by_heart(model, 200, **given)
    assert loss < 0.05, f"the loss is {loss:.3f}"
    writer, start = model.continuing(given["source"], given["source_mask"])
    assert np.array_equal(writer.generate(start, 6, temperature=0)[:, 1:], given["targets"])


def kept(kind, config, checkpoint_blocks: bool) -> int:
    """The bytes that the caches of one loss really keep."""
    model = kind(config)
    model.checkpoint_blocks = checkpoint_blocks
    ids = np.zeros((2, 7), int)
    _, cache = model.loss(ids, ids, source=ids)
    return kept_bytes(model, cache)


@pytest.mark.parametrize("values", [{}, V1_1, {"n_embd": 7, "n_head": 3}], ids=["1.0", "1.1", "heads as they are"])
def test_the_costs_of_t5(values):
    config = T5.Config(**SIZES | OWN_SIZES[T5] | {"n_layer": 3} | values)
    assert costs.activations(T5, config, 2, 7) == kept(T5, config, checkpoint_blocks=False)


@every_kind
def test_its_costs_are_foretold(kind):
    one, three = (kind.Config(**(SIZES | OWN_SIZES.get(kind, {}) | {"n_layer": n})) for n in (1, 3))
    assert costs.activations(kind, three, 2, 7) == kept(kind, three, checkpoint_blocks=False)
    foretold = [costs.activations(kind, config, 2, 7, checkpoint_blocks=True) for config in (one, three)]
    found = [kept(kind, config, checkpoint_blocks=True) for config in (one, three)]
    assert foretold[1] - foretold[0] == found[1] - found[0], "of each other block its input, on both sides"
    assert foretold[0] == kept(kind, one, checkpoint_blocks=False), "and of one block on each side everything"


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory, no_pictures):
    """The name of a model, and the folder of a short run of it."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    options = PretrainOptions(
        model=request.param, data="stories:60", tokenizer="bpe:300", layers=1, heads=2, embd=32, context=16, steps=30,
        batch=8, lr=3e-3, out=str(folder),
    )  # fmt: skip
    return request.param, folder, prepare(options), train(options)


def test_it_trains_by_the_same_pipeline_as_gpt(trained):
    """The run does better than chance, and ends in a folder that opens, and that --resume finds finished."""
    name, folder, prepared, job = trained
    special = models.card(name).special_tokens
    assert tuple(prepared.text.tokens[-len(special) :]) == special
    assert prepared.model.config.decoder_start_token_id in [prepared.text.ids[token] for token in special]
    assert job.step == 30 and job.best < np.log(job.text.vocab_size)
    model, text = models.open_both(folder)
    assert type(model) is KINDS[name] and model.config == job.model.config
    resumed = train(PretrainOptions(out=str(folder), resume=True))
    assert resumed.step == 30


def test_a_prompt_is_its_source(trained, capsys):
    """What is written depends on it, special tokens in it are those tokens, and it ends with the token for that."""
    name, folder, _, _ = trained
    model, text = models.open_both(folder)
    cover = models.card(name).special_tokens[-1]
    prompt = f"the girl {cover} the dog."
    written = sample(SampleOptions(folder=str(folder), prompt=prompt, temperature=0, tokens=9), write=print)
    source = [*text.encode("the girl"), text.ids[cover], *text.encode("the dog.")]
    writer, start = model.continuing(np.array([source]))
    ids = writer.generate(start, 9, temperature=0, stop=model.config.eos_token_id)[0, 1:].tolist()
    assert written == [text.decode([i for i in ids if i != model.config.eos_token_id])]
    drawn = SampleOptions(folder=str(folder), prompt=prompt, samples=3, seed=1)
    several = sample(drawn, write=print)
    assert len(several) == 3 and several[0] == sample(replace(drawn, samples=1), write=print)[0]
    assert all(len(text.encode(one)) <= 3 * 16 for one in several), "no more than its positions"
    capsys.readouterr()


def test_where_it_stops_the_text_ends(trained, monkeypatch):
    _, folder, _, _ = trained
    model, text = models.open_both(folder)
    end = model.config.eos_token_id
    word = text.encode("dog")[0]
    steps = [np.array([one]) for one in (word, word, end)]
    monkeypatch.setattr(Reading, "stream", lambda *_, stop, **__: steps * (stop == end))
    written = sample(SampleOptions(folder=str(folder), prompt="the girl"), write=lambda _: None)
    assert written == [text.decode([word, word])]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sample {0}", "this model writes beside a source: give it with --prompt"),
        ("sample {0} --prompt ''", "the prompt '' holds no token: give some text"),
        ("sample {0} --prompt 'a b a b a b a b a b a b a b a b a b'", "18 tokens and the model sees 16: give only"),
        ("eval {0} perplexity {0}/merges.txt", "which writes beside a source: take a model that continues a text"),
        ("finetune {0} --task sentiment --train stories:20 --freeze", "has no head that could learn: leave it out"),
    ],
)
def test_what_it_cannot_do_is_answered_in_one_line(trained, line, words, capsys):
    assert main(shlex.split(line.format(trained[1]))) == 2
    assert words in capsys.readouterr().err


def test_the_published_sizes():
    """In a process of its own, for the memory of such models stays with the process that has made them."""
    sizes = {
        "t5 --size small": "60,506,624",
        "t5 --size base": "222,903,552",
        "bart --size base": "139,417,344",  # transformers counts 3,072 more: two tables have two rows that none uses
    }
    lines = "".join(f"main({['info', '--model', *line.split()]})\n" for line in sizes)
    run = [sys.executable, "-c", f"from minigpt.cli import main\n{lines}"]
    said = subprocess.run(run, capture_output=True, encoding="utf-8", check=True).stdout
    assert re.findall(r"([\d,]+) parameters", said) == list(sizes.values())
