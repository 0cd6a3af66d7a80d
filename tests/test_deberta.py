"""DeBERTa's versions: shared keys, distances in buckets, a normalised table, and the layouts of their files."""


import numpy as np
import pytest
from helpers import (
    as_another_program,
    check_along,
    check_every_entry,
    error,
    kept_bytes,
    same_weights,
    small_model,
)

from minigpt import open_model, ops
from minigpt.errors import InputError
from minigpt.models import costs
from minigpt.models.family.deberta import DeBERTa, DeBERTaConfig
from minigpt.models.family.relative_attention import distances_between, put_distances, wider_and_wider

SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2, "n_distances": 4}
V3 = {"share_att_key": True, "norm_rel_ebd": "layer_norm", "max_distance": 9, "hidden_act": "gelu"}
VARIANTS = {
    "content with distance": {"pos_att_type": ("c2p",)},
    "distance with content": {"pos_att_type": ("p2c",)},
    "shared": {"share_att_key": True},
    "one shared": {"share_att_key": True, "pos_att_type": ("c2p",)},
    "buckets": {"max_distance": 9},
    "wide buckets": {"n_distances": 8, "max_distance": 100},
    "normalised": {"norm_rel_ebd": "layer_norm"},
    "version 3": V3,
    "version 3 with its decoder": V3 | {"decoder_passes": 2},
    "positions and segments": {"position_biased_input": True, "n_segments": 2},
    "no distances": {"relative_attention": False, "position_biased_input": True, "pos_att_type": ()},
    "no distances, although the scale counts them": {"relative_attention": False, "position_biased_input": True},
}  # fmt: skip
every_variant = pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)


def small(dtype=np.float64, dropout=0.0, moved=0.3, **values) -> DeBERTa:
    return small_model(DeBERTa, SIZES | values, dtype, dropout, moved)


def inputs(model, length=8) -> dict:
    """Ids, targets of which some are not predicted, padding at the right of the last row, and segments if there are."""
    rng = np.random.default_rng(0)
    ids, targets = rng.integers(11, size=(2, 3, length))
    targets[rng.random(targets.shape) < 0.5] = ops.IGNORED
    targets[0, 0] = 3
    mask = np.ones(ids.shape, bool)
    mask[-1, -2:] = False
    segments = {"segments": (np.arange(length) >= 3) * np.ones((3, 1), int)} if model.config.n_segments else {}
    return {"ids": ids, "targets": targets, "mask": mask} | segments


@every_variant
def test_every_gradient(values):
    model = small(dropout=0.2, **values)
    check_along(model, key=ops.Key.of(1, 2), **inputs(model))


@pytest.mark.slow
@every_variant
def test_every_entry_of_every_gradient(values):
    model = small(dropout=0.2, moved=0.2, n_inner=9, **values)  # where differences are exact enough
    check_every_entry(model, key=ops.Key.of(1, 2), **inputs(model))


@every_variant
def test_it_comes_back(values, tmp_path):
    model = small(np.float32, **values)
    model.save(tmp_path)
    again = open_model(tmp_path)
    assert again.config == model.config
    assert same_weights(model, again)
    assert set(model.published_names()) == {name for name, _ in model.named_parameters()}


@every_variant
def test_its_costs_are_foretold(values):
    model = small(np.float32, n_layer=3, **values)
    given = inputs(model)
    del given["mask"]
    _, cache = model.loss(**given)
    kept = kept_bytes(model, cache)
    assert costs.activations(DeBERTa, model.config, *given["ids"].shape) == kept


def test_shared_maps_are_those_of_the_contents():
    """Equal to a model with maps of its own that are copies."""
    shared = small(share_att_key=True)
    apart = small()
    tensors = {name: parameter.data for name, parameter in shared.named_parameters()}
    for name, parameter in apart.named_parameters():
        block, _, part = name.partition(".attn.")
        where = {"key_of_distance": slice(6, 12), "query_of_distance": slice(0, 6)}.get(part.split(".")[0])
        source = f"{block}.attn.c_attn.{part.split('.')[-1]}" if where else name
        parameter.data[...] = tensors[source][..., where] if where else tensors[source]
    given = inputs(shared)
    given.pop("targets")
    assert error(shared.forward(grad=False, **given)[0], apart.forward(grad=False, **given)[0]) < 1e-14


def test_a_normalised_table_is_as_good_as_another_table():
    normalised, plain = small(norm_rel_ebd="layer_norm"), small()
    tensors = {name: parameter.data for name, parameter in normalised.named_parameters()}
    for name, parameter in plain.named_parameters():
        parameter.data[...] = tensors[name]
    plain.distances_embed.weight.data[...] = normalised.distances_embed.forward()[0]
    given = inputs(plain)
    given.pop("targets")
    assert error(normalised.forward(grad=False, **given)[0], plain.forward(grad=False, **given)[0]) < 1e-14


# --- buckets ---------------------------------------------------------------------------------------------------------


def test_buckets_are_narrow_near_and_wide_far_away():
    distances = np.arange(-600, 601)
    found = wider_and_wider(distances, 256, 512)
    assert np.array_equal(found, -found[::-1]), "the same on both sides"
    assert np.array_equal(found[np.abs(distances) <= 128], distances[np.abs(distances) <= 128])
    assert set(np.diff(found)) <= {0, 1}, "no row is left out, and none comes back"
    assert wider_and_wider(np.array([129, 511, 512]), 256, 512).tolist() == [129, 255, 256]
    assert wider_and_wider(np.array([20, 40]), 20, 81).tolist() == [13, 16], "log 2 / log 8 of 9 rows is 3, not above"
    rows = distances_between(600, 256, np, 512)
    assert rows.min() == 0 and rows.max() == 511 and rows[0, 0] == 256


@pytest.mark.parametrize("t", [2, 3, 4, 9])
def test_the_gradient_of_distances_in_buckets_adds_keys_that_share_a_row(t):
    where = distances_between(t, 4, np, 9)
    d = np.random.default_rng(0).normal(size=(2, 3, t, t))
    expected = np.zeros((2, 3, t, 8))
    for i in range(t):
        for j in range(t):
            expected[:, :, i, where[i, j]] += d[:, :, i, j]
    assert np.allclose(put_distances(d, where, 8, n_alone=2), expected, atol=1e-14)


# --- files -----------------------------------------------------------------------------------------------------------


def as_version_1(tensors):
    """One matrix for queries, keys and values, head by head; no bias for keys; other names for distances."""
    plain = dict(tensors)
    for i in range(2):
        of = f"deberta.encoder.layer.{i}.attention.self."
        parts = [plain.pop(f"{of}{which}_proj.weight").reshape(2, 3, 6) for which in ("query", "key", "value")]
        plain[f"{of}in_proj.weight"] = np.stack(parts, axis=1).reshape(18, 6)
        plain[f"{of}q_bias"] = plain.pop(f"{of}query_proj.bias")
        plain[f"{of}v_bias"] = plain.pop(f"{of}value_proj.bias")
        plain[f"{of}pos_proj.weight"] = plain.pop(f"{of}pos_key_proj.weight")
        for part in ("weight", "bias"):
            plain[f"{of}pos_q_proj.{part}"] = plain.pop(f"{of}pos_query_proj.{part}")
        del plain[f"{of}key_proj.bias"], plain[f"{of}pos_key_proj.bias"]
    return plain


def test_version_1_is_version_2_without_a_bias_for_keys(tmp_path):
    model = small(np.float32)
    for block in model.h:
        block.attn.c_attn.bias.data[6:12] = 0
        block.attn.key_of_distance.bias.data[...] = 0
    model.save(tmp_path)
    as_another_program(tmp_path, as_version_1, model_type="deberta", pos_att_type="c2p|p2c",
                       share_att_key=True, position_buckets=3, norm_rel_ebd="layer_norm")  # fmt: skip
    opened = open_model(tmp_path)
    assert opened.config == model.config, "keys that mean nothing in version 1 are left out"
    assert same_weights(model, opened)

    def body_of(tensors):
        return {name.removeprefix("deberta."): tensor for name, tensor in tensors.items() if name[:3] != "cls"}

    as_another_program(tmp_path, body_of, architectures=["DebertaModel"])
    body = open_model(tmp_path)
    ids = np.arange(6)[None]
    assert np.array_equal(body.hidden(ids, grad=False)[0], model.hidden(ids, grad=False)[0])
    with pytest.raises(InputError, match="this DeBERTa was opened as DebertaV2Model, which tells no words"):
        body.forward(ids)


def test_the_head_of_version_3_and_what_it_does_not_use(tmp_path):
    model = small(np.float32, **V3)
    model.save(tmp_path)

    def as_version_3(tensors):
        names = {"cls.predictions.bias": "bias"}
        names |= {f"cls.predictions.transform.{part}": part
                  for part in ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias")}  # fmt: skip
        plain = {f"lm_predictions.lm_head.{names[name]}" if name in names else name: t for name, t in tensors.items()}
        spare = {"mask_predictions.dense.weight": 0, "mask_predictions.classifier.bias": 0,
                 "deberta.embeddings.position_embeddings.weight": 0}  # fmt: skip
        return plain | {name: np.ones((2, 6), np.float32) for name in spare}

    as_another_program(tmp_path, as_version_3, legacy=False)
    with pytest.warns(UserWarning, match=r"the head that tells replaced tokens, mask_predictions.\*, is left out$"):
        opened = open_model(tmp_path)
    assert opened.config == model.config
    assert same_weights(model, opened)


def test_what_a_file_leaves_out_is_what_transformers_takes(tmp_path):
    values = {"relative_attention": False, "position_biased_input": True, "pos_att_type": (), "hidden_act": "gelu"}
    model = small(np.float32, **values)
    model.save(tmp_path)
    left_out = (*values, "share_att_key", "norm_rel_ebd", "position_buckets", "type_vocab_size", "legacy")
    as_another_program(tmp_path, **dict.fromkeys(left_out, ...))
    assert open_model(tmp_path).config == model.config


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"conv_kernel_size": 3}, "conv_kernel_size 3, as deberta-v2-xlarge and deberta-v2-xxlarge have it: only "),
        ({"talking_head": True}, "talking_head True, as no published DeBERTa has it: only models with False"),
        ({"attention_head_size": 2}, "config.json has attention_head_size 2: only 3 is built here"),
        ({"embedding_size": 4}, "config.json has embedding_size 4: only 6 is built here"),
        ({"pos_att_type": ["c2p", "p2p"]}, "pos_att_type is ['c2p', 'p2p']: give some of ['c2p', 'p2c'], each once"),
        ({"pos_att_type": ["c2p", "c2p"]}, "pos_att_type is ['c2p', 'c2p']: give some of"),
        ({"pos_att_type": 3}, "pos_att_type is 3: give some of"),
        ({"pos_att_type": None}, "pos_att_type names no product: with relative_attention give 'c2p', 'p2c' or both"),
        ({"norm_rel_ebd": "batch_norm"}, "norm_rel_ebd is 'batch_norm': give 'none' or 'layer_norm'"),
        ({"position_buckets": 8}, "n_distances is 8 and max_distance 4: give 2 rows or more, and a distance of 6 or m"),
        ({"position_buckets": 1}, "n_distances is 1 and max_distance 4: give 2 rows or more"),
        ({"position_buckets": 1.5}, "n_distances is 1.5: give a whole number"),
        ({"share_att_key": 1}, "config.json has share_att_key 1: give true or false"),
        ({"type_vocab_size": -1}, "n_segments is -1: give how many kinds of segments there are, 0 for none"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish': built here are gelu_new, "),
    ],
)
def test_what_is_not_built_is_refused(values, words):
    written = small().config.to_dict()
    assert DeBERTaConfig.from_dict(written) == small().config
    with pytest.raises(InputError) as raised:
        DeBERTaConfig.from_dict(written | values)
    assert words in str(raised.value) and "\n" not in str(raised.value), str(raised.value)


def test_positions_enter_at_one_end_only():
    with pytest.raises(InputError, match="decoder_passes and position_biased_input: positions enter at one end only"):
        DeBERTaConfig(**SIZES, decoder_passes=2, position_biased_input=True)
