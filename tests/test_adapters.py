"""Adapters in files: what is written opens again, exactly; what does not fit is refused in one line."""

import numpy as np
import pytest
from helpers import each, error, same_weights, small_gpt2
from test_lora import NAMES, learn, small, with_adapters

from minigpt.errors import InputError
from minigpt.files import disk
from minigpt.files.tensors import load_tensors, save_tensors
from minigpt.models.adapters import CONFIG, PREFIX, WEIGHTS, open_adapter, save_adapter
from minigpt.models.lora import add_lora, lora_layers, lora_parameters


@each("name", [name for name in NAMES if name != "xlnet"])
def test_what_is_written_opens_again_in_the_same_bits(name, tmp_path):
    model, _ = with_adapters(name)
    save_adapter(model, tmp_path / name, base="somewhere")
    fresh = small(name)
    layers = open_adapter(fresh, tmp_path / name)
    assert list(layers) == list(lora_layers(model)) and learn(fresh) == learn(model)
    mine, theirs = lora_parameters(model), lora_parameters(fresh)
    assert all(np.array_equal(mine[key].data, theirs[key].data) for key in mine)
    assert mine.keys() == theirs.keys()


def test_a_model_whose_layers_are_none_in_files_says_so(tmp_path):
    model, _ = with_adapters("xlnet")
    with pytest.raises(InputError, match="layers of this XLNet have other axes in files"):
        save_adapter(model, tmp_path)


def saved(folder, kind="gpt2", **options):
    """A folder with the adapters of a model, and the model."""
    model = small(kind, np.float32)
    add_lora(model, 2, **options)
    rng = np.random.default_rng(5)
    for parameter in lora_parameters(model).values():
        parameter.data = rng.standard_normal(parameter.data.shape).astype(np.float32)
    save_adapter(model, folder, base="org/base")
    return model


def test_what_peft_is_told(tmp_path):
    model = saved(tmp_path, names=["attn.c_proj", "c_fc"], alpha=6)
    about = disk.read_json(tmp_path / CONFIG)
    meant = [f"transformer.h.{i}.{part}" for i in range(2) for part in ("attn.c_proj", "mlp.c_fc")]
    assert about["target_modules"] == meant, "c_proj alone would mean that of the MLP too"
    assert (about["r"], about["lora_alpha"], about["fan_in_fan_out"]) == (2, 6, True)
    assert (about["base_model_name_or_path"], about["task_type"]) == ("org/base", "CAUSAL_LM")
    tensors, _ = load_tensors(tmp_path / WEIGHTS)
    a = tensors[f"{PREFIX}transformer.h.1.mlp.c_fc.lora_A.weight"]
    assert np.array_equal(a, lora_layers(model)["h.1.mlp.c_fc"].lora_A.data.T), "(r,in)"
    saved(tmp_path / "llama", "llama")
    about = disk.read_json(tmp_path / "llama" / CONFIG)
    ends = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert about["target_modules"] == ends and about["fan_in_fan_out"] is False
    tensors, _ = load_tensors(tmp_path / "llama" / WEIGHTS)
    qkv = [tensors[f"{PREFIX}model.layers.0.self_attn.{one}_proj.lora_B.weight"].shape for one in "qkv"]
    assert qkv == [(8, 2), (4, 2), (4, 2)]
    saved(tmp_path / "t5", "t5")
    assert disk.read_json(tmp_path / "t5" / CONFIG)["task_type"] == "SEQ_2_SEQ_LM"


def test_parts_of_one_layer_that_learned_apart_stand_side_by_side(tmp_path):
    """A file of another program: queries and values alone, each with its own A. Here they are one layer of rank 4."""
    saved(tmp_path, "llama", names=["c_attn"])
    tensors, _ = load_tensors(tmp_path / WEIGHTS)
    tensors = {key: 1.0 * t for key, t in tensors.items() if "k_proj" not in key}
    key = f"{PREFIX}model.layers.0.self_attn.v_proj.lora_A.weight"
    tensors[key] = tensors[key][::-1].copy() + 1
    save_tensors(tmp_path / WEIGHTS, tensors)
    disk.write_json(tmp_path / CONFIG, disk.read_json(tmp_path / CONFIG) | {"alpha_pattern": {"v_proj": 1}})
    model = small("llama", np.float32)
    layer = open_adapter(model, tmp_path)["h.0.attn.c_attn"]
    change = layer.scale * layer.lora_A.data @ layer.lora_B.data
    for one, columns, scale in (("q", slice(0, 8), 2), ("v", slice(12, 16), 0.5)):
        a, b = (tensors[f"{PREFIX}model.layers.0.self_attn.{one}_proj.lora_{x}.weight"] for x in "AB")
        assert error(change[:, columns], scale * (b @ a).T) < 1e-6
    assert layer.rank == 4 and not change[:, 8:12].any(), "keys stay as they were"
    save_adapter(model, tmp_path / "again")
    about = disk.read_json(tmp_path / "again" / CONFIG)
    assert about["r"] == 4 and about["lora_alpha"] == 8
    fresh = small("llama", np.float32)
    again = open_adapter(fresh, tmp_path / "again")["h.0.attn.c_attn"]
    assert error(again.scale * again.lora_A.data @ again.lora_B.data, change) < 1e-6


@each("settings", [
    ({"alpha_pattern": {"v_proj": 1, "up_proj": 1}}, {"q": 2, "k": 2, "v": 0.5}),
    ({"use_rslora": True}, dict.fromkeys("qkv", 4 / 2**0.5)),
    ({"alpha_pattern": {"self_attn.k_proj": 2}, "lora_alpha": 6}, {"q": 3, "k": 1, "v": 3}),
])  # fmt: skip
def test_how_strongly_each_part_counts(settings, tmp_path):
    about, scales = settings
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    before = saved(folder, "llama")
    disk.write_json(folder / CONFIG, disk.read_json(folder / CONFIG) | about)
    model = small("llama", np.float32)
    layer, first = (one["h.0.attn.c_attn"] for one in (open_adapter(model, folder), lora_layers(before)))
    change = layer.scale * layer.lora_A.data @ layer.lora_B.data
    right = first.lora_A.data @ first.lora_B.data
    for one, columns in (("q", slice(0, 8)), ("k", slice(8, 12)), ("v", slice(12, 16))):
        assert error(change[:, columns], scales[one] * right[:, columns]) < 1e-6
    save_adapter(model, tmp_path / f"{folder.name} again")
    told = disk.read_json(tmp_path / f"{folder.name} again" / CONFIG)
    assert (told["r"], set(told["rank_pattern"].values())) == ((2, set()) if "use_rslora" in about else (6, {2}))
    names = [f"model.layers.{i}.mlp.up_proj" for i in range(2)]
    if "up_proj" in about.get("alpha_pattern", {}):
        assert [told["alpha_pattern"][name] for name in names] == [1, 1]
    assert told["lora_alpha"] == pytest.approx(layer.scale * layer.rank)


def changed(**values):
    """A change of the settings."""
    return lambda folder: disk.write_json(folder / CONFIG, disk.read_json(folder / CONFIG) | values)


def tensors_changed(change):
    """A change of the tensors."""

    def apply(folder):
        tensors, _ = load_tensors(folder / WEIGHTS)
        save_tensors(folder / WEIGHTS, change({key: 1 * tensor for key, tensor in tensors.items()}))

    return apply


FC = f"{PREFIX}transformer.h.1.mlp.c_fc"


@each("wrong", [
    (lambda folder: (folder / CONFIG).unlink(), "holds no adapters: it has no adapter_config.json"),
    (lambda folder: (folder / WEIGHTS).unlink(), "adapter_model.safetensors does not exist"),
    (lambda folder: (folder / WEIGHTS).write_bytes(b"x" * 40), "is not a whole safetensors file"),
    (lambda folder: (folder / CONFIG).write_text("{", encoding="utf-8"), "is not JSON"),
    (changed(peft_type="IA3"), "peft_type is 'IA3': only LORA can be opened"),
    (changed(peft_type=None), "peft_type is None"),
    (changed(use_dora=True), "sets use_dora, which is not done here"),
    (changed(modules_to_save=["score"]), "sets modules_to_save"),
    (changed(bias="all"), "bias is 'all'"),
    (changed(lora_alpha="8"), "lora_alpha is '8': expected a number above 0"),
    (changed(lora_alpha=0), "lora_alpha is 0"),
    (changed(alpha_pattern={"c_fc": None}), "c_fc is None: expected a number above 0"),
    (changed(alpha_pattern=[1]), "alpha_pattern is [1]"),
    (tensors_changed(lambda t: {}), "holds no adapters: it is empty"),
    (tensors_changed(lambda t: t | {"more": np.ones(2)}), "more is neither lora_A nor lora_B of a linear layer"),
    (tensors_changed(lambda t: {key.replace("h.1", "h.9"): one for key, one in t.items()}),
     "has transformer.h.9.attn.c_attn, and this GPT2 has no such layer: it belongs to another model ('org/base')"),
    (tensors_changed(lambda t: {key: one for key, one in t.items() if key != f"{FC}.lora_B.weight"}),
     "of transformer.h.1.mlp.c_fc there is only lora_A"),
    (tensors_changed(lambda t: t | {f"{FC}.lora_A.weight": t[f"{FC}.lora_A.weight"][:, :5]}),
     "transformer.h.1.mlp.c_fc is 5 x 32 there, and 8 x 32 in this model: it belongs to another model"),
    (tensors_changed(lambda t: t | {f"{FC}.lora_B.weight": t[f"{FC}.lora_B.weight"][:5]}), "is 8 x 5 there"),
    (tensors_changed(lambda t: t | {f"{FC}.lora_A.weight": t[f"{FC}.lora_A.weight"][:1]}), "not those of two matrices"),
    (tensors_changed(lambda t: t | {f"{FC}.lora_A.weight": np.ones((0, 8)), f"{FC}.lora_B.weight": np.ones((32, 0))}),
     "not those of two matrices of one rank"),
    (tensors_changed(lambda t: t | {f"{FC}.lora_A.weight": np.ones(8)}), "not those of two matrices"),
    (tensors_changed(lambda t: t | {f"{FC}.lora_A.weight": t[f"{FC}.lora_A.weight"] * np.nan}), "not finite"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_and_the_model_is_as_it_was(wrong, tmp_path):
    damage, message = wrong
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    saved(folder)
    damage(folder)
    model = small("gpt2", np.float32)
    with pytest.raises(InputError) as caught:
        open_adapter(model, folder)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not lora_layers(model) and same_weights(model, small("gpt2", np.float32))


def test_adapters_of_another_size_are_refused(tmp_path):
    saved(tmp_path)
    with pytest.raises(InputError, match="24 in this model: it belongs to another model"):
        open_adapter(small_gpt2(n_embd=8, n_inner=24), tmp_path)


def test_nothing_is_written_over(tmp_path):
    model = saved(tmp_path)
    with pytest.raises(InputError, match="already holds adapters"):
        save_adapter(model, tmp_path)
    save_adapter(model, tmp_path, overwrite=True)
    with pytest.raises(InputError, match="has no adapters"):
        save_adapter(small_gpt2(), tmp_path / "other")
    with pytest.raises(InputError, match="has adapters already"):
        open_adapter(model, tmp_path)
    with pytest.raises(InputError, match="give the path of a folder"):
        open_adapter(small_gpt2(), "")
