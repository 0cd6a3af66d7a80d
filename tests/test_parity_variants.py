"""Variants of GPT, T5 and DeBERTa as transformers writes them: the same logits and gradients, and back again.

    pytest -m parity tests/test_parity_variants.py -s       (prints a line for each case; needs the extra "parity")

Every model has transformers' own defaults but for the values that a case names, and small odd sizes.
"""

import importlib
import json
import warnings

import numpy as np
import pytest
from helpers import error
from parity_models import gradients_of, in_float64, moved

from minigpt import open_model, ops
from minigpt.models.family.relative_attention import wider_and_wider

pytestmark = pytest.mark.parity

BOUND = 1e-9
T5 = {"vocab_size": 61, "d_model": 15, "d_kv": 4, "d_ff": 17, "num_layers": 2, "num_heads": 3,
      "relative_attention_num_buckets": 6, "relative_attention_max_distance": 7,
      "decoder_start_token_id": 0}  # fmt: skip
V1_1 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
OWN_HEAD = {"own_head": True}

T5_OF = "T5ForConditionalGeneration"
GPT2_OF, GPT2 = "GPT2LMHeadModel", {"vocab_size": 61, "n_positions": 9, "n_embd": 15, "n_layer": 3, "n_head": 3,
                                    "bos_token_id": 0, "eos_token_id": 0}  # fmt: skip
GPT1_OF, GPT1 = "OpenAIGPTLMHeadModel", {"vocab_size": 61, "n_positions": 9, "n_embd": 15, "n_layer": 2, "n_head": 3}
DEBERTA_OF, DEBERTA = "DebertaV2ForMaskedLM", {
    "vocab_size": 61, "hidden_size": 15, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 17,
    "max_position_embeddings": 9,
}  # fmt: skip
RELATIVE = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"]}
SHARED = RELATIVE | {"share_att_key": True}
V3 = SHARED | {"position_buckets": 4, "max_relative_positions": 12, "norm_rel_ebd": "layer_norm",
               "pos_att_type": ["p2c", "c2p"]}  # fmt: skip
OLD_DEBERTA_OF = "DebertaForMaskedLM"

CASES = {  # name: (class in transformers, values of its configuration, what is done to the model)
    "GPT-2": (GPT2_OF, GPT2, {}),
    "GPT-2 with the exact GELU": (GPT2_OF, GPT2 | {"activation_function": "gelu"}, {}),
    "GPT-2 with ReLU and another inner width": (GPT2_OF, GPT2 | {"activation_function": "relu", "n_inner": 17}, {}),
    "GPT-2 with scores by layer": (GPT2_OF, GPT2 | {"scale_attn_by_inverse_layer_idx": True}, {}),
    "GPT-2 without a scale": (GPT2_OF, GPT2 | {"scale_attn_weights": False}, {}),
    "GPT-2 without a scale, by layer": (GPT2_OF, GPT2 | {"scale_attn_weights": False,
                                                         "scale_attn_by_inverse_layer_idx": True}, {}),
    "GPT-2, reordered and upcast": (GPT2_OF, GPT2 | {"reorder_and_upcast_attn": True}, {}),
    "GPT-2 with a head of its own": (GPT2_OF, GPT2 | {"tie_word_embeddings": False}, {}),
    "GPT-1 with ReLU and a head of its own": (GPT1_OF, GPT1 | {"afn": "relu", "tie_word_embeddings": False}, {}),
    "GPT-1 with SiLU": (GPT1_OF, GPT1 | {"afn": "silu"}, {}),
    "T5 1.0": (T5_OF, T5, {}),
    "T5 1.1": (T5_OF, T5 | V1_1, OWN_HEAD),
    "T5 1.1 whose head is the table": (T5_OF, T5 | V1_1, {}),
    "T5 1.0 with a gate": (T5_OF, T5 | {"feed_forward_proj": "gated-gelu"}, {}),
    "UL2": (T5_OF, T5 | {"feed_forward_proj": "gated-silu"}, {}),
    "T5, heads that do not share the width": (T5_OF, T5 | V1_1 | {"num_heads": 2}, OWN_HEAD),
    "T5 with the exact GELU": (T5_OF, T5 | {"feed_forward_proj": "gelu"}, {}),
    "DeBERTa-v2 by transformers' defaults": (DEBERTA_OF, DEBERTA, {}),
    "DeBERTa-v2": (DEBERTA_OF, DEBERTA | RELATIVE, {}),
    "DeBERTa-v2, content with distance only": (DEBERTA_OF, DEBERTA | RELATIVE | {"pos_att_type": ["c2p"]}, {}),
    "DeBERTa-v2, distance with content only": (DEBERTA_OF, DEBERTA | RELATIVE | {"pos_att_type": "p2c"}, {}),
    "DeBERTa-v2, near distances": (DEBERTA_OF, DEBERTA | RELATIVE | {"max_relative_positions": 3}, {}),
    "DeBERTa-v2, shared keys": (DEBERTA_OF, DEBERTA | SHARED, {}),
    "DeBERTa-v2, one shared key": (DEBERTA_OF, DEBERTA | SHARED | {"pos_att_type": ["p2c"]}, {}),
    "DeBERTa-v2, positions and segments": (DEBERTA_OF, DEBERTA | RELATIVE | {"position_biased_input": True,
                                                                            "type_vocab_size": 2}, {}),
    "DeBERTa-v2, tanh GELU, all widths": (DEBERTA_OF, DEBERTA | RELATIVE | {"hidden_act": "gelu_new",
                                                                            "attention_head_size": 5,
                                                                            "embedding_size": 15}, {}),
    "DeBERTa-v3": (DEBERTA_OF, DEBERTA | V3, {}),
    "DeBERTa-v3 with its own head": (DEBERTA_OF, DEBERTA | V3 | {"legacy": False}, {}),
    "DeBERTa-v1 by transformers' defaults": (OLD_DEBERTA_OF, DEBERTA, {}),
    "DeBERTa-v1": (OLD_DEBERTA_OF, DEBERTA | RELATIVE | {"pos_att_type": "c2p|p2c"}, {}),
    "DeBERTa-v1, near distances": (OLD_DEBERTA_OF, DEBERTA | RELATIVE | {"max_relative_positions": 3}, {}),
    "DeBERTa-v1, one product": (OLD_DEBERTA_OF, DEBERTA | RELATIVE | {"pos_att_type": ["p2c"]}, {}),
    "mT5": ("MT5ForConditionalGeneration", T5, OWN_HEAD),
}


@pytest.fixture(autouse=True)
def everything_in_float64(monkeypatch, torch, transformers):
    """transformers computes some parts in float32, whatever the model is."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    for version in ("deberta", "deberta_v2"):
        modeling = importlib.import_module(f"transformers.models.{version}.modeling_{version}")
        monkeypatch.setattr(modeling, "scaled_size_sqrt", lambda q, n: torch.tensor(q.size(-1) * n).double().sqrt())


def made(torch, transformers, kind, values, own_head=False):
    """Their model with random weights far from the initial point."""
    torch.manual_seed(0)
    architecture = getattr(transformers, kind)
    theirs = architecture(architecture.config_class(**values))
    if own_head:
        table = theirs.get_input_embeddings().weight
        theirs.lm_head.weight = torch.nn.Parameter(torch.randn_like(table))
    return moved(theirs)


def a_batch(vocab_size, length=7):
    """Ids of the whole vocabulary, a mask that hides the end of some rows, and targets, some of which are ignored."""
    rng = np.random.default_rng(0)
    ids, targets = rng.integers(vocab_size, size=(2, 4, length))
    mask = np.ones(ids.shape, bool)
    mask[1, -2:] = mask[3, -3:] = False
    targets[rng.random(targets.shape) < 0.3] = ops.IGNORED
    targets[0, 0] = 5
    return ids, targets, mask


def asked(torch, theirs, ids, targets, mask) -> dict:
    """What their model is called with."""
    given = {"input_ids": ids, "attention_mask": mask.astype(int), "labels": targets}
    if theirs.config.is_encoder_decoder:
        given["decoder_input_ids"] = ids[:, ::-1].copy()
    elif theirs.config.model_type in ("gpt2", "openai-gpt"):
        del given["attention_mask"], given["labels"]
    return {name: torch.from_numpy(value) for name, value in given.items()}


def told(theirs, ids, mask) -> dict:
    """What ours is called with."""
    if theirs.config.is_encoder_decoder:
        return {"ids": ids[:, ::-1], "source": ids, "source_mask": mask}
    if theirs.config.model_type in ("gpt2", "openai-gpt"):
        return {"ids": ids}
    return {"ids": ids, "mask": mask}


def places(theirs, mask):
    """Which logits are compared: of an encoder those of no padding."""
    return mask if "mask" in told(theirs, mask, mask) else np.ones_like(mask)


@pytest.mark.parametrize("name", CASES)
def test_opened_with_the_same_logits_and_gradients_and_back(name, torch, transformers, tmp_path):
    kind, values, changes = CASES[name]
    theirs = made(torch, transformers, kind, values, **changes)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = open_model(tmp_path / "theirs", dtype=np.float64)

    ids, targets, mask = a_batch(theirs.config.vocab_size)
    found = theirs(**asked(torch, theirs, ids, targets, mask))
    where = places(theirs, mask)
    logits, cache = ours.forward(**told(theirs, ids, mask))
    of_logits = error(logits[where], found.logits.detach().numpy()[where])
    assert of_logits < BOUND
    dlogits = np.random.default_rng(1).standard_normal(logits.shape) * where[..., None]
    found.logits.backward(torch.from_numpy(dlogits))
    ours.backward(dlogits, cache)
    of_gradients = compare_gradients(theirs, ours)

    ours.save(tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text(encoding="utf-8"))
    architecture = getattr(transformers, *written["architectures"]) if "architectures" in written else type(theirs)
    back, report = architecture.from_pretrained(tmp_path / "ours", dtype=torch.float64, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    again = in_float64(back)(**asked(torch, theirs, ids, targets, mask))
    back_again = error(logits[where], again.logits.detach().numpy()[where])
    assert back_again < BOUND
    print(f"{name}: {of_logits:.0e} of logits, {of_gradients:.0e} of gradients, {back_again:.0e} back")


def compare_gradients(theirs, ours) -> float:
    """The largest error of a gradient; each is below the bound, or zero but for rounding."""
    worst = 0.0
    expected = gradients_of(theirs, ours)
    for name, parameter in ours.named_parameters():
        found, wanted = parameter.grad, expected[name]
        if name.endswith("key_of_distance.bias"):  # a number that all keys share moves no probability
            assert np.abs(found).max() < 1e-12
            continue
        if theirs.config.model_type == "deberta" and name.endswith("c_attn.bias"):  # version 1 has no bias for keys
            found, wanted = (np.delete(bias.reshape(3, -1), 1, axis=0) for bias in (found, wanted))
        if "deberta" in theirs.config.model_type and name == "tokens_embed.weight":
            found, wanted = found[1:], wanted[1:]  # torch leaves the look-ups of padding, token 0, out of a gradient
        off = error(found, wanted)
        assert off < BOUND or np.abs(found - wanted).max() < 1e-13, name
        worst = max(worst, off if off < BOUND else 0.0)
    return worst


@pytest.mark.parametrize(("n_rows", "farthest"), [(256, 512), (4, 12), (2, 4), (6, 100), (64, 513), (128, 1000)])
def test_buckets_of_deberta(n_rows, farthest, torch):
    modeling = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    distances = np.arange(-1200, 1201)
    expected = modeling.make_log_bucket_position(torch.from_numpy(distances), n_rows, farthest).long().numpy()
    found = wider_and_wider(distances, n_rows, farthest)
    assert np.array_equal(found, expected), distances[found != expected]


# --- other classes of GPT ---------------------------------------------------------------------------------------------

PAD = 7
LABELS = {"id2label": {0: "bad", 1: "so so", 2: "good"}, "label2id": {"bad": 0, "so so": 1, "good": 2}}
WITH_LABELS = {  # name: (class in transformers, values of its configuration)
    "GPT-1": ("OpenAIGPTForSequenceClassification", GPT1 | LABELS),
    "GPT-1, two labels": ("OpenAIGPTForSequenceClassification", GPT1 | {"afn": "silu"}),
    "GPT-2": ("GPT2ForSequenceClassification", GPT2 | LABELS),
    "GPT-2, two labels": ("GPT2ForSequenceClassification", GPT2 | {"activation_function": "gelu", "n_inner": 17}),
    "GPT-2, not tied": ("GPT2ForSequenceClassification", GPT2 | LABELS | {"tie_word_embeddings": False}),
}


def padded_batch():
    """Ids with padding at the right of some rows and inside one, and the mask of what is no padding at the right."""
    ids, _, mask = a_batch(61)
    ids[ids == PAD] = PAD + 1
    ids[~mask] = PAD
    ids[0, 2] = PAD
    return ids, mask


@pytest.mark.parametrize("name", WITH_LABELS)
def test_the_same_scores_of_labels_and_back(name, torch, transformers, tmp_path):
    kind, values = WITH_LABELS[name]
    theirs = made(torch, transformers, kind, values | {"pad_token_id": PAD})
    theirs.save_pretrained(tmp_path / "theirs")
    ours = open_model(tmp_path / "theirs", dtype=np.float64)
    assert ours.labels == tuple(theirs.config.id2label.values())
    ids, mask = padded_batch()
    given = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(int))}
    expected = theirs(**given).logits.detach().numpy()
    by_mask, by_token = error(ours.label_scores(ids, mask=mask), expected), error(ours.label_scores(ids), expected)
    assert by_mask < BOUND and by_token < BOUND

    ours.save(tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text(encoding="utf-8"))
    assert written["architectures"] == [kind]
    back, report = getattr(transformers, kind).from_pretrained(
        tmp_path / "ours", dtype=torch.float64, output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    assert back.config.id2label == theirs.config.id2label and back.config.pad_token_id == PAD
    of_back = error(back.eval()(**given).logits.detach().numpy(), expected)
    assert of_back < BOUND
    print(f"{name}: {by_mask:.0e} with a mask, {by_token:.0e} by the token of padding, {of_back:.0e} back")


OTHERS = {  # class in transformers: how the names of what is left out begin; "": nothing is
    "GPT2Model": "", "OpenAIGPTModel": "",
    "GPT2ForTokenClassification": "classifier", "GPT2ForQuestionAnswering": "qa_outputs",
    "GPT2DoubleHeadsModel": "multiple_choice_head", "OpenAIGPTDoubleHeadsModel": "multiple_choice_head",
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_the_body_of_another_class(kind, torch, transformers, tmp_path):
    theirs = made(torch, transformers, kind, GPT2 if kind.startswith("GPT2") else GPT1)
    theirs.save_pretrained(tmp_path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ours = open_model(tmp_path, dtype=np.float64)
    lines = [str(one.message) for one in told if one.category is UserWarning]
    assert len(lines) == bool(OTHERS[kind]) and all(f"nothing here uses: {OTHERS[kind]}" in line for line in lines)
    ids, _, _ = a_batch(61)
    body = getattr(theirs, theirs.base_model_prefix, theirs)
    expected = body(input_ids=torch.from_numpy(ids)).last_hidden_state.detach().numpy()
    assert error(ours.hidden(ids, grad=False)[0], expected) < BOUND


# --- nanoGPT ---------------------------------------------------------------------------------------------------------


def nanogpt_logits(torch, w, ids, n_layer, n_head):
    """The function of nanoGPT's model.py, with PyTorch's own layers. w: its state; a bias may be missing."""
    functional = torch.nn.functional

    def linear(x, name):
        return functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    def normed(x, name):
        return functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w.get(f"{name}.bias"), 1e-5)

    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][: ids.shape[1]]
    b, t, c = x.shape
    for i in range(n_layer):
        block = f"transformer.h.{i}"
        qkv = linear(normed(x, f"{block}.ln_1"), f"{block}.attn.c_attn").split(c, dim=2)
        q, k, v = (part.view(b, t, n_head, c // n_head).transpose(1, 2) for part in qkv)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + linear(y, f"{block}.attn.c_proj")
        m = functional.gelu(linear(normed(x, f"{block}.ln_2"), f"{block}.mlp.c_fc"))
        x = x + linear(m, f"{block}.mlp.c_proj")
    return functional.linear(normed(x, "transformer.ln_f"), w["transformer.wte.weight"])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_nanogpt(bias, prefix, torch, tmp_path):
    from safetensors.torch import save_file

    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_head": 3, "n_embd": 15, "block_size": 9, "vocab_size": 61}
    c = sizes["n_embd"]
    shapes = {"wte": (61, c), "wpe": (9, c), "ln_f": (c,)}
    parts = {"ln_1": (c,), "attn.c_attn": (3 * c, c), "attn.c_proj": (c, c), "ln_2": (c,), "mlp.c_fc": (4 * c, c),
             "mlp.c_proj": (c, 4 * c)}  # fmt: skip
    shapes |= {f"h.{i}.{name}": shape for i in range(2) for name, shape in parts.items()}
    w = {f"transformer.{name}.weight": torch.randn(shape) * 0.3 for name, shape in shapes.items()}
    if bias:
        w |= {f"transformer.{name}.bias": torch.randn(shape[0]) for name, shape in shapes.items() if name[0] in "hl"}
    saved = {prefix + name: tensor.clone() for name, tensor in w.items()}
    save_file(saved | {f"{prefix}lm_head.weight": w["transformer.wte.weight"].clone()}, tmp_path / "model.safetensors")
    values = {"model_type": "gpt2", **sizes, "bias": bias, "dropout": 0.0}
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    ours = open_model(tmp_path, dtype=np.float64)
    w = {name: tensor.double().requires_grad_() for name, tensor in w.items()}
    ids, _, _ = a_batch(61)
    expected = nanogpt_logits(torch, w, torch.from_numpy(ids), 2, 3)
    logits, cache = ours.forward(ids)
    assert error(logits, expected.detach().numpy()) < BOUND
    expected.sum().backward()
    ours.backward(np.ones_like(logits), cache)
    for name, parameter in ours.named_parameters():
        if f"transformer.{name}" in w:
            grad = w[f"transformer.{name}"].grad.numpy()
            grad = grad.T if name.startswith("h.") else grad
            assert np.abs(parameter.grad - grad).max() < BOUND * max(1, np.abs(grad).max()), name
