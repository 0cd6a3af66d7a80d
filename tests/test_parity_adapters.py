"""Adapters against peft: theirs compute here what they compute there, and ours there what they compute here.

pytest -m parity tests/test_parity_adapters.py       (needs the extra "parity")
"""

import numpy as np
import pytest
from helpers import error, small_model

from minigpt import models, open_model
from minigpt.models import adapters
from minigpt.models.adapters import open_adapter, save_adapter
from minigpt.models.lora import add_lora, lora_layers, lora_parameters

pytestmark = pytest.mark.parity

SIZES = {"vocab_size": 13, "n_positions": 9, "n_embd": 16, "n_layer": 2, "n_head": 4}
GROUPED = {"n_kv_head": 2, "n_inner": 20, "tie_word_embeddings": False}
KINDS = {
    "gpt2": {},
    "gpt_neox": {"rotary_share": 0.5},
    "llama": GROUPED,
    "mistral": GROUPED | {"sliding_window": 3},
    "qwen2": GROUPED | {"qkv_bias": True},
}
SOME = {  # layers of peft's choice: of queries and values alone, where they are apart
    "gpt2": ["attn.c_attn", "mlp.c_proj"],
    "gpt_neox": ["query_key_value", "dense_4h_to_h"],
} | dict.fromkeys(("llama", "mistral", "qwen2"), ["q_proj", "v_proj", "gate_proj"])
BOUND = dict.fromkeys(KINDS, 1e-6) | {"gpt2": 1e-9}  # transformers computes angles in float32, whatever the model
HOW = [{}, {"use_rslora": True}, {"rank_pattern": {"v_proj": 4}, "alpha_pattern": {"v_proj": 3}}]
IDS = np.random.default_rng(0).integers(13, size=(2, 8))


@pytest.fixture
def peft(transformers):
    """The package, or the test is skipped."""
    return pytest.importorskip("peft")


def base(kind: str, folder):
    """A model directory, and the model in it."""
    card = models.card("llama" if kind == "qwen2" else kind)
    small_model(card.model, SIZES | KINDS[kind]).save(folder)
    return open_model(folder, np.float64)


def logits(torch, theirs):
    with torch.no_grad():
        return theirs.eval()(torch.from_numpy(IDS)).logits.numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_peft_computes_with_our_adapters(kind, torch, transformers, peft, tmp_path):
    model = base(kind, tmp_path / "base")
    plain, _ = model.forward(IDS, grad=False)
    names = {"gpt2": ["attn.c_proj", "c_fc"]}.get(kind)  # an end of a name that would mean another layer too
    for parameter in add_lora(model, 3, alpha=5, names=names) and lora_parameters(model).values():
        parameter.data += 0.2 * np.random.default_rng(1).standard_normal(parameter.data.shape)
    ours, _ = model.forward(IDS, grad=False)
    assert error(ours, plain) > 1e-3
    save_adapter(model, tmp_path / "adapter", base=str(tmp_path / "base"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float64)
    theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter", autocast_adapter_dtype=False)
    assert error(logits(torch, theirs), ours) < BOUND[kind]
    assert error(logits(torch, theirs.merge_and_unload()), ours) < BOUND[kind]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_we_compute_with_adapters_of_peft(kind, how, torch, transformers, peft, tmp_path):
    model = base(kind, tmp_path / "base")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float64)
    settings = peft.LoraConfig(
        r=2, lora_alpha=7, target_modules=SOME[kind], task_type="CAUSAL_LM", fan_in_fan_out=kind == "gpt2", **how
    )
    theirs = peft.get_peft_model(theirs, settings, autocast_adapter_dtype=False)
    torch.manual_seed(0)
    for name, parameter in theirs.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter.data, std=0.5)
    expected = logits(torch, theirs)
    theirs.save_pretrained(tmp_path / "adapter")
    open_adapter(model, tmp_path / "adapter")
    ours, _ = model.forward(IDS, grad=False)
    assert error(ours, expected) < BOUND[kind]
    save_adapter(model, tmp_path / "again")
    fresh = open_model(tmp_path / "base", np.float64)
    open_adapter(fresh, tmp_path / "again")
    assert error(fresh.forward(IDS, grad=False)[0], expected) < BOUND[kind], "and writes what it opened"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float64)
    theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "again", autocast_adapter_dtype=False)
    assert error(logits(torch, theirs), expected) < BOUND[kind], "which they open too"


@pytest.mark.parametrize(("kind", "bound"), [("gpt2", 1e-9), ("llama", 1e-5)])
def test_the_gradients_of_the_adapters_are_those_of_peft(kind, bound, torch, transformers, peft, tmp_path):
    model = base(kind, tmp_path / "base")
    for parameter in add_lora(model, 2, alpha=3) and lora_parameters(model).values():
        parameter.data += 0.2 * np.random.default_rng(1).standard_normal(parameter.data.shape)
    save_adapter(model, tmp_path / "adapter")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float64)
    adapter = {"is_trainable": True, "autocast_adapter_dtype": False}
    theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter", **adapter)
    targets = np.roll(IDS, -1, axis=1)
    scores = theirs(torch.from_numpy(IDS)).logits
    torch.nn.functional.cross_entropy(scores.flatten(0, 1), torch.from_numpy(targets).flatten()).backward()
    _, cache = model.loss(IDS, targets)
    model.loss_backward(cache)
    found = {name: p.grad.numpy().T for name, p in theirs.named_parameters() if p.requires_grad}
    for path, layer in lora_layers(model).items():
        da, db = np.zeros_like(layer.lora_A.data), np.zeros_like(layer.lora_B.data)
        for name, place in adapters._places(model).items():
            if place.path == path:
                da += found[f"base_model.model.{name}.lora_A.default.weight"]
                db[:, place.columns] = found[f"base_model.model.{name}.lora_B.default.weight"]
        assert error(layer.lora_A.grad, da) < bound and error(layer.lora_B.grad, db) < bound, path
