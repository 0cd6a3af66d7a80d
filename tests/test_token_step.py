"""One more token of one text, the quick way: the logits of the modules; and where these run instead."""

import numpy as np
import pytest
from helpers import error
from test_decoders import LLAMA3, NAMES

from minigpt import models, ops
from minigpt.errors import InputError
from minigpt.models import decoding
from minigpt.models.family import token_step
from minigpt.models.family.decoder import Decoder
from minigpt.models.family.llama import Llama
from minigpt.models.family.token_step import TokenStep
from minigpt.models.lora import add_lora, merge_lora
from minigpt.nn import Past
from minigpt.ops import reference

BOUND = {np.float64: 1e-12, np.float32: 1e-5}
SIZES = {"vocab_size": 13, "n_positions": 12, "n_embd": 10, "n_layer": 3, "n_head": 6, "n_inner": 7}
CASES = {
    "llama": {"n_kv_head": 2, "head_size": 8},
    "llama, tied, scaled frequencies": {"n_kv_head": 6, "head_size": 2, "tie_word_embeddings": True,
                                        "rope_scaling": LLAMA3},
    "llama, one head of keys, a part of a head turns": {"n_kv_head": 1, "head_size": 7, "rotary_share": 0.75},
    "llama, all biases": {"n_kv_head": 3, "head_size": 4, "qkv_bias": True, "proj_bias": True},
    "llama, biases of Qwen2, relu": {"n_kv_head": 2, "head_size": 4, "qkv_bias": True, "hidden_act": "relu"},
    "mistral": {"n_kv_head": 2, "head_size": 4, "sliding_window": 3},
    "mistral that sees itself": {"n_kv_head": 2, "head_size": 4, "sliding_window": 1},
    "mistral without a window": {"n_kv_head": 2, "head_size": 4, "sliding_window": None},
    "gpt_neox": {"n_embd": 36, "rotary_share": 0.7},
    "gpt_neox, one after the other, tied": {"n_embd": 12, "rotary_share": 1.0, "use_parallel_residual": False,
                                            "tie_word_embeddings": True, "hidden_act": "gelu_new"},
}  # fmt: skip


def model_of(case, dtype=np.float64, **changes):
    """With weights that are not small, so that logits depend on all that was read."""
    made = models.card(case.partition(",")[0].split()[0]).model
    model = made(made.Config(**SIZES | CASES[case] | changes), dtype=dtype)
    rng = np.random.default_rng(5)
    for parameter in model.parameters():
        parameter.data += 0.4 * rng.standard_normal(parameter.data.shape).astype(dtype)
    return model


@pytest.fixture
def ran(monkeypatch) -> list:
    """The ids of the tokens that the quick way read."""
    ids = []
    call = TokenStep.__call__
    monkeypatch.setattr(TokenStep, "__call__", lambda self, given: ids.append(given.item()) or call(self, given))
    return ids


def text_of(model, rows=1) -> np.ndarray:
    """As many tokens as the model has positions."""
    return np.random.default_rng(1).integers(model.config.vocab_size, size=(rows, model.config.n_positions))


def read(model, ids, first, past=None) -> np.ndarray:
    """The logits after the first tokens (B,first), and after each later one: (B,T,V)"""
    step = decoding.step(model, past or model.new_past(), ids.shape[1] - first)
    out = [step(ids[:, :first])]
    for at in range(first, ids.shape[1]):
        out.append(step(ids[:, at : at + 1]))
    return np.stack(out, axis=1)


def test_every_decoder_is_tried():
    kinds = {card.name for card in models.CARDS if issubclass(card.model, Decoder)}
    assert kinds == set(NAMES) == {case.partition(",")[0].split()[0] for case in CASES}


# --- the same numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("first", [1, 5])
@pytest.mark.parametrize("case", CASES)
def test_the_logits_of_every_prefix(case, first, dtype, ran):
    """To the end of the context; and the past is what the modules would have left."""
    model = model_of(case, dtype)
    ids = text_of(model)
    quick, plain = model.new_past(), model.new_past()
    logits = read(model, ids, first, quick)
    expected, _ = model.forward(ids, plain, grad=False)
    assert logits.dtype == dtype and error(logits, expected[:, first - 1 :]) < BOUND[dtype]
    assert ran == ids[0, first if first > 1 else 0 :].tolist()
    for mine, other in zip(quick, plain, strict=True):
        assert mine.length == other.length == ids.shape[1]
        assert error(mine.k, other.k) < BOUND[dtype] and error(mine.v, other.v) < BOUND[dtype]


@pytest.mark.parametrize("case", CASES)
def test_the_same_text_is_written(case, ran, monkeypatch):
    """Greedily and drawn, also where the window over the text slides."""
    model = model_of(case)
    options = [{"temperature": 0}, {"temperature": 0.8, "top_p": 0.9, "seed": 3}]
    written = [model.generate([[1, 2, 3]], 20, **one).tolist() for one in options]
    n_read = SIZES["n_positions"] - 3  # then the window slides
    assert len(ran) == n_read * len(options)
    monkeypatch.setattr(type(model), "token_step", lambda self, past: "not now")
    assert written == [model.generate([[1, 2, 3]], 20, **one).tolist() for one in options]
    assert len(ran) == n_read * len(options)


def test_weights_are_read_where_they_lie(ran):
    """A change of them between two tokens is seen, in place or by another array; and none is written to."""
    model = model_of("llama")
    ids = text_of(model)
    past = model.new_past()
    step = decoding.step(model, past, 3)
    step(ids[:, :4])
    step(ids[:, 4:5])
    model.h[1].mlp.up.weight.data *= 1.5
    model.h[2].attn.c_attn.weight.data = model.h[2].attn.c_attn.weight.data[::-1].copy()
    before = {name: parameter.data.copy() for name, parameter in model.named_parameters()}
    copy = model.new_past()
    for mine, other in zip(copy, past, strict=True):
        mine.extend(*other.read())
    assert error(step(ids[:, 5:6]), model.next_logits(ids[:, 5:6], copy)) < 1e-12
    assert ran == ids[0, 4:6].tolist()
    assert all(np.array_equal(before[name], parameter.data) for name, parameter in model.named_parameters())


def test_scores_of_thousands(ran):
    """The exponential function of such a score is infinite: the largest of a row is taken away before."""
    model = model_of("llama", np.float32)
    for block in model.h:
        block.attn.c_attn.weight.data *= 100
    ids = text_of(model)
    expected, _ = model.forward(ids, grad=False)
    logits = read(model, ids, 5)
    assert np.isfinite(logits).all() and error(logits, expected[:, 4:]) < 1e-2 and len(ran) == 7


def test_logits_are_the_callers():
    """The next token does not overwrite them."""
    model = model_of("llama")
    ids = text_of(model)
    step = decoding.step(model, model.new_past(), 5)
    step(ids[:, :2])
    logits = step(ids[:, 2:3])
    kept = logits.copy()
    step(ids[:, 3:4])
    assert np.array_equal(logits, kept)


@pytest.mark.parametrize("capacity", [None, 6])
def test_the_end_of_the_context_and_of_the_past(capacity):
    model = model_of("llama")
    ids = text_of(model)
    past = model.new_past(capacity)
    step = decoding.step(model, past, 20)
    for at in range(past[0].capacity):
        step(ids[:, at : at + 1])
    told = "7 positions do not fit into a past of 6" if capacity else "13 tokens are more than the 12 positions"
    with pytest.raises(InputError, match=told):
        step(ids[:, :1])


# --- where the modules run -------------------------------------------------------------------------------------------


def test_several_texts_and_rows_of_different_lengths(ran):
    model = model_of("mistral")
    ids = text_of(model, rows=3)
    expected, _ = model.forward(ids, grad=False)
    assert error(read(model, ids, 5), expected[:, 4:]) < 1e-12
    together = model.generate([[1, 2, 3], [4]], 5, temperature=0)
    assert not ran
    assert together[1].tolist() == model.generate([[4]], 5, temperature=0)[0].tolist()
    padded = model.new_past(8, np.array([1]))
    assert model.token_step(padded) == "the quicker step takes no padding"


class Mine:
    """A learner's RMSNorm, twice as large."""

    calls = 0

    def rmsnorm_forward(self, x, g, eps=1e-6):
        self.calls += 1
        out, cache = reference.rmsnorm_forward(x, g, eps=eps)
        return 2 * out, cache

    def rmsnorm_backward(self, dout, cache):
        return reference.rmsnorm_backward(dout, cache)


def test_operations_that_are_replaced_or_traced_in_the_middle_of_a_text(ran):
    model = model_of("llama")
    ids = text_of(model)
    mine, past = Mine(), model.new_past()
    step = decoding.step(model, past, 9)
    step(ids[:, :2])
    usual = step(ids[:, 2:3])
    for one in past:
        one.length = 2
    with ops.using(mine):
        assert np.abs(step(ids[:, 2:3]) - usual).max() > 1e-3 and mine.calls == 7
    for one in past:
        one.length = 2
    with ops.using("reference"):
        assert error(step(ids[:, 2:3]), usual) < 1e-12
    with ops.tracing() as calls:
        step(ids[:, 3:4])
    assert sum(call.op == "rmsnorm" for call in calls) == 7
    assert len(ran) == 1
    step(ids[:, 4:5])
    assert len(ran) == 2


def test_adapters_run_beside_the_weights_until_they_are_merged(ran):
    model = model_of("llama", np.float32)
    for layer in add_lora(model, rank=2).values():
        layer.lora_B.data += 0.3
    ids = text_of(model)
    expected, _ = model.forward(ids, grad=False)
    assert model.token_step(model.new_past()) == "the quicker step takes no LoRA"
    assert error(read(model, ids, 3), expected[:, 2:]) < 1e-5 and not ran
    merge_lora(model)
    assert error(read(model, ids, 3), expected[:, 2:]) < 1e-5 and len(ran) == 9


def test_changed_models_go_their_own_way(ran):
    """A method that was replaced, a class from elsewhere, a past from elsewhere, numbers of 16 bits, other masks."""
    model = model_of("llama")
    past = model.new_past()
    model.h[1].mlp.forward = model.h[1].mlp.forward
    assert model.token_step(past) == "a method of a GatedMLP was replaced"
    del model.h[1].mlp.forward
    assert isinstance(model.token_step(past), TokenStep)

    class Other(Llama):
        pass

    other = Other(model.config, dtype=np.float64)
    assert other.token_step(past) == "Other is not a class of this library"

    class OtherPast(Past):
        pass

    given = [OtherPast(4) for _ in model.h]
    assert model.token_step(given) == "the quicker step takes no past but that of new_past()"
    model.h[0].ln_1.weight.data = model.h[0].ln_1.weight.data.astype(np.float16)
    assert "float16" in model.token_step(past)


def test_a_mask_of_a_models_own_is_kept(ran, monkeypatch):
    model = model_of("llama")
    ids = text_of(model)
    usual = read(model, ids, 2)
    assert len(ran) == 10
    monkeypatch.setattr(Llama, "seen", lambda self, t, past: None if t > 1 else np.arange(past[0].length + 1) > 0)
    hidden = read(model, ids, 2)
    assert len(ran) == 10 and np.abs(hidden[:, 1:] - usual[:, 1:]).max() > 1e-3


def test_a_body_without_a_head_still_says_so():
    values = model_of("llama").config.to_dict() | {"architectures": ["LlamaModel"]}
    model = Llama(Llama.Config.from_dict(values))
    with pytest.raises(InputError, match="predicts no words"):
        decoding.step(model, model.new_past(), 3)(np.array([[1]]))
    assert model.token_step(model.new_past()) == "the model has no head for words"


def test_other_models_say_that_they_have_none():
    made = models.card("gpt2").model
    model = made(made.Config(vocab_size=7, n_positions=4, n_embd=4, n_layer=1, n_head=1))
    assert model.token_step(model.new_past()) == "GPT2 has no quicker step"
    assert token_step.problem(model_of("gpt_neox"), model_of("gpt_neox").new_past()) is None
