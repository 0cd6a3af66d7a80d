"""Weights of every model as other programs may leave them: prefixes, spare tensors, copies, wrong sizes."""

import dataclasses

import numpy as np
import pytest
from helpers import as_another_program

from minigpt import models, open_model
from minigpt.errors import InputError
from minigpt.models.family.published import COPIES, UNUSED

TINY = {"vocab_size": 13, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2}
OWN = {"embedding_size": 6, "generator_heads": 1, "n_distances": 4, "n_hidden": 8, "d_kv": 4, "d_ff": 16,
       "decoder_start_token_id": 0}  # fmt: skip
ELSE = {"lstm": {"n_layer": 1, "n_head": 1}, "elmo": {"n_head": 1}}
NAMES = models.names()
COUNTED = ["vocab_size", "n_segments", "n_distances", "n_buckets", "embedding_size", "generator_heads", "n_hidden",
           "d_kv", "d_ff"]  # fmt: skip
PUBLISHED = ["bert", "roberta", "spanbert", "albert", "distilbert", "electra", "deberta", "xlm", "xlnet", "bart", "t5"]
LAYERED = [name for name in PUBLISHED if name != "albert"]  # all layers of ALBERT are one


def config_of(name):
    config = models.card(name).model.Config
    fields = {field.name for field in dataclasses.fields(config)}
    own = {key: value for key, value in OWN.items() if key in fields}
    return config(**TINY | own | ELSE.get(name, {}))


@pytest.fixture
def saved(tmp_path):
    """saved(name, change): the folder of a small model whose tensors another program wrote, after this change."""

    def save(name, change=lambda tensors: tensors, **values):
        models.card(name).model(config_of(name)).save(tmp_path)
        as_another_program(tmp_path, change, **values)
        return tmp_path

    return save


def refused(folder, *parts):
    with pytest.raises(InputError) as raised:
        open_model(folder)
    said = str(raised.value)
    assert "\n" not in said and all(part in said for part in parts), said


# --- prefixes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_prefix_of_a_wrapper_is_named(name, saved):
    for prefix in ("module.", "_orig_mod.", "model.", "_orig_mod.module."):
        wrapped = saved(name, lambda tensors, prefix=prefix: {f"{prefix}{key}": t for key, t in tensors.items()})
        refused(wrapped, " is missing, and ", f"take '{prefix}' off the names")


def test_a_tensor_whose_name_merely_ends_alike_is_no_prefix(saved):
    tensors = {"wte.weight": "vwte.weight"}
    folder = saved("gpt2", lambda given: {tensors.get(key, key): tensor for key, tensor in given.items()})
    with pytest.raises(InputError, match=r"tensor wte.weight is missing$"):
        open_model(folder)


# --- tensors beside --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERED)
def test_a_configuration_with_fewer_layers_than_the_weights_is_refused(name, saved):
    """It would open as a model that is cut off."""
    config = models.card(name).model.Config
    (key,) = {"t5": ("num_layers",)}.get(name) or config.aliases.get("n_layer", ("n_layer",))
    both = {"num_decoder_layers": 1, "decoder_layers": 1} if name in ("bart", "t5") else {}
    refused(saved(name, **{key: 1}, **both), "does not belong to this model")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_tensor_without_a_name_here_is_refused_by_its_name(name, saved):
    folder = saved(name, lambda tensors: tensors | {"deberta.encoder.conv.conv.weight": np.ones((3, 3), np.float32)})
    refused(folder, "tensor deberta.encoder.conv.conv.weight does not belong to this model")


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_a_model_does_not_use_is_left_out(name, saved):
    def with_unused(tensors):
        return tensors | {f"body{ending}": np.arange(5) for ending in UNUSED}

    assert open_model(saved(name, with_unused)).config == config_of(name)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_copy_of_the_head_must_be_equal(name, saved):
    table = {}

    def find(tensors):
        model = models.card(name).model(config_of(name), seed=None)
        for parameter, (key, *_) in model.published_names().items():
            if parameter == "tokens_embed.weight":
                table["head"] = tensors[key]
        return tensors

    saved(name, find)
    for ending in (ending for ending in COPIES if ending.endswith("weight")):
        key = f"x{ending}"
        equal = saved(name, lambda tensors, key=key: tensors | {key: table["head"]})
        assert open_model(equal).config == config_of(name)
        other = saved(name, lambda tensors, key=key: tensors | {key: table["head"] + 1})
        refused(other, f"{key} differs from the token embedding")


# --- sizes -----------------------------------------------------------------------------------------------------------


def numbers_in(model, config):
    return sum(parameter.data.size for parameter in model(config, seed=None).parameters())


@pytest.mark.parametrize("name", NAMES)
def test_a_size_far_beyond_the_weights_takes_no_memory(name, tmp_path):
    """Every size that makes a matrix or a table larger is compared with the weights before anything is built."""
    model = models.card(name).model
    config = config_of(name)
    shapes = {"x": (1000,)}
    for key in COUNTED:
        size = getattr(config, key, None)
        if size is None:
            continue
        doubled = dataclasses.replace(config, **{key: 2 * size})
        if numbers_in(model, doubled) == numbers_in(model, config):  # the size of no tensor
            continue
        value = config.n_embd * 10**6
        more = {"max_distance": value + 1} if key == "n_buckets" else {}
        large = dataclasses.replace(config, **{key: value}, **more)
        with pytest.raises(InputError, match=f"{key} {value}|numbers or more, and the weights are 1,000"):
            model.check_size(large, shapes, tmp_path)


@pytest.mark.parametrize("value", [[], 0, -1, "2", 1.5])
def test_segments_that_are_no_number_are_refused(value, saved):
    refused(saved("xlnet", n_segments=value), "n_segments is ")
