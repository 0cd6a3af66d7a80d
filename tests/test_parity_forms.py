"""Models of the family as transformers writes them, class by class: the same numbers and gradients, and back again.

    pytest -m parity tests/test_parity_forms.py -s       (prints a line for each case; needs the extra "parity")

Every model has transformers' own defaults but for the values that a case names, and small odd sizes. Ids are drawn from
the whole vocabulary, padding included.
"""

import functools
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import error
from parity_models import moved

from minigpt import open_model
from minigpt.models.family.encoder_decoder import EncoderDecoder

pytestmark = pytest.mark.parity

BOUND = 1e-9
V, T = 61, 7

SMALL = {"vocab_size": V, "hidden_size": 15, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 17,
         "max_position_embeddings": 11}  # fmt: skip
ALBERT = SMALL | {"embedding_size": 10}
ELECTRA = SMALL | {"embedding_size": 10}
DISTIL = {"vocab_size": V, "dim": 15, "n_layers": 2, "n_heads": 3, "hidden_dim": 17, "max_position_embeddings": 11}
XLM = {"vocab_size": V, "emb_dim": 15, "n_layers": 2, "n_heads": 3, "max_position_embeddings": 11}
XLNET = {"vocab_size": V, "d_model": 18, "n_layer": 2, "n_head": 3, "d_inner": 17}
BART = {"vocab_size": V, "d_model": 15, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
        "decoder_attention_heads": 3, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17,
        "max_position_embeddings": 11}  # fmt: skip
DEBERTA = {"relative_attention": True, "position_biased_input": False, "pos_att_type": "p2c|c2p", "share_att_key": True,
           "position_buckets": 4, "norm_rel_ebd": "layer_norm"}  # fmt: skip
LLAMA = SMALL | {"hidden_size": 12, "num_attention_heads": 6, "num_key_value_heads": 2}
GROUPS = LLAMA | {"num_key_value_heads": 3, "head_dim": 4}
LINEAR = {"rope_type": "linear", "rope_theta": 700.0, "factor": 3.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 50.0, "factor": 5.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
          "original_max_position_embeddings": 9}  # fmt: skip
NEOX = SMALL | {"hidden_size": 24}
LABELS = {"id2label": {0: "bad", 1: "so so", 2: "good"}, "label2id": {"bad": 0, "so so": 1, "good": 2}}
UNTIED = {"tie_word_embeddings": False}
SAVED_AS = {"XLMRoberta": "Roberta", "Camembert": "Roberta", "BartModel": "BartForConditionalGeneration"}

CASES = {  # name: (class in transformers, values of its configuration)
    "BERT": ("BertForPreTraining", SMALL),
    "BERT, body": ("BertModel", SMALL),
    "BERT, words": ("BertForMaskedLM", SMALL),
    "BERT, ReLU, words": ("BertForMaskedLM", SMALL | {"hidden_act": "relu"}),
    "BERT, SiLU, one segment": ("BertForMaskedLM", SMALL | {"hidden_act": "silu", "type_vocab_size": 1}),
    "BERT, untied": ("BertForMaskedLM", SMALL | UNTIED),
    "BERT, next sentence": ("BertForNextSentencePrediction", SMALL),
    "BERT, labels": ("BertForSequenceClassification", SMALL | LABELS),
    "BERT, two labels": ("BertForSequenceClassification", SMALL),
    "BERT, tokens": ("BertForTokenClassification", SMALL | LABELS),
    "BERT, answers": ("BertForQuestionAnswering", SMALL),
    "BERT, choices": ("BertForMultipleChoice", SMALL),
    "RoBERTa": ("RobertaForMaskedLM", SMALL),
    "RoBERTa, padding 0": ("RobertaForMaskedLM", SMALL | {"pad_token_id": 0}),
    "RoBERTa, padding 3": ("RobertaForMaskedLM", SMALL | {"pad_token_id": 3, "max_position_embeddings": 13}),
    "RoBERTa, tanh inside": ("RobertaForMaskedLM", SMALL | {"hidden_act": "gelu_new", "type_vocab_size": 1}),
    "RoBERTa, body": ("RobertaModel", SMALL),
    "RoBERTa, labels": ("RobertaForSequenceClassification", SMALL | LABELS),
    "RoBERTa, tokens": ("RobertaForTokenClassification", SMALL | LABELS),
    "RoBERTa, choices": ("RobertaForMultipleChoice", SMALL),
    "XLM-R": ("XLMRobertaForMaskedLM", SMALL),
    "XLM-R, labels": ("XLMRobertaForSequenceClassification", SMALL | LABELS),
    "CamemBERT": ("CamembertForMaskedLM", SMALL),
    "ALBERT": ("AlbertForPreTraining", ALBERT),
    "ALBERT, words": ("AlbertForMaskedLM", ALBERT),
    "ALBERT, body": ("AlbertModel", ALBERT | {"hidden_act": "gelu"}),
    "ALBERT, labels": ("AlbertForSequenceClassification", ALBERT | LABELS),
    "ALBERT, answers": ("AlbertForQuestionAnswering", ALBERT),
    "ELECTRA, discriminator": ("ElectraForPreTraining", ELECTRA),
    "ELECTRA, generator": ("ElectraForMaskedLM", ELECTRA),
    "ELECTRA, generator, tanh inside": ("ElectraForMaskedLM", ELECTRA | {"hidden_act": "gelu_new"}),
    "ELECTRA, narrow as its tables": ("ElectraForMaskedLM", ELECTRA | {"embedding_size": 15}),
    "ELECTRA, body": ("ElectraModel", ELECTRA),
    "ELECTRA, labels": ("ElectraForSequenceClassification", ELECTRA | LABELS),
    "ELECTRA, choices": ("ElectraForMultipleChoice", ELECTRA),
    "DistilBERT": ("DistilBertForMaskedLM", DISTIL),
    "DistilBERT, sines": ("DistilBertForMaskedLM", DISTIL | {"sinusoidal_pos_embds": True, "dim": 18}),
    "DistilBERT, untied": ("DistilBertForMaskedLM", DISTIL | UNTIED),
    "DistilBERT, body": ("DistilBertModel", DISTIL),
    "DistilBERT, labels": ("DistilBertForSequenceClassification", DISTIL | LABELS),
    "DistilBERT, answers": ("DistilBertForQuestionAnswering", DISTIL),
    "XLM, one language": ("XLMWithLMHeadModel", XLM),
    "XLM, two languages": ("XLMWithLMHeadModel", XLM | {"n_langs": 2, "pad_token_id": 5}),
    "XLM, no vectors of languages": ("XLMWithLMHeadModel", XLM | {"n_langs": 2, "use_lang_emb": False}),
    "XLM, ReLU": ("XLMWithLMHeadModel", XLM | {"gelu_activation": False}),
    "XLM, body": ("XLMModel", XLM),
    "XLM, labels": ("XLMForSequenceClassification", XLM | LABELS),
    "XLNet": ("XLNetLMHeadModel", XLNET),
    "XLNet, ReLU": ("XLNetLMHeadModel", XLNET | {"ff_activation": "relu"}),
    "XLNet, untied": ("XLNetLMHeadModel", XLNET | UNTIED),
    "XLNet, body": ("XLNetModel", XLNET),
    "XLNet, labels": ("XLNetForSequenceClassification", XLNET | LABELS),
    "XLNet, tokens": ("XLNetForTokenClassification", XLNET | LABELS),
    "DeBERTa, body": ("DebertaV2Model", SMALL | DEBERTA),
    "DeBERTa, untied": ("DebertaV2ForMaskedLM", SMALL | DEBERTA | UNTIED),
    "DeBERTa, labels": ("DebertaV2ForSequenceClassification", SMALL | DEBERTA | LABELS),
    "DeBERTa, tokens": ("DebertaV2ForTokenClassification", SMALL | DEBERTA | LABELS),
    "DeBERTa, answers": ("DebertaV2ForQuestionAnswering", SMALL | DEBERTA),
    "DeBERTa, choices": ("DebertaV2ForMultipleChoice", SMALL | DEBERTA),
    "BART": ("BartForConditionalGeneration", BART),
    "BART, tanh inside": ("BartForConditionalGeneration", BART | {"activation_function": "gelu_new"}),
    "BART, body": ("BartModel", BART),
    "BART, labels": ("BartForSequenceClassification", BART | LABELS),
    "BART, answers": ("BartForQuestionAnswering", BART),
    "LLaMA": ("LlamaForCausalLM", LLAMA),
    "LLaMA, a head of keys for each": ("LlamaForCausalLM", SMALL | {"hidden_size": 18, "head_dim": 4}),
    "LLaMA, one head of keys, tied": ("LlamaForCausalLM", LLAMA | {
        "num_key_value_heads": 1, "tie_word_embeddings": True}),
    "LLaMA, linear scaling": ("LlamaForCausalLM", GROUPS | {"rope_parameters": LINEAR}),
    "LLaMA 3": ("LlamaForCausalLM", LLAMA | {"head_dim": 8, "rope_parameters": LLAMA3}),
    "LLaMA, biases": ("LlamaForCausalLM", LLAMA | {"attention_bias": True, "hidden_act": "gelu"}),
    "LLaMA, body": ("LlamaModel", LLAMA),
    "LLaMA, labels": ("LlamaForSequenceClassification", LLAMA | LABELS | {"pad_token_id": 0}),
    "Qwen2": ("Qwen2ForCausalLM", LLAMA),
    "Qwen2, tied": ("Qwen2ForCausalLM", LLAMA | {"tie_word_embeddings": True}),
    "Mistral": ("MistralForCausalLM", GROUPS),
    "Mistral, a window of 3": ("MistralForCausalLM", GROUPS | {"sliding_window": 3}),
    "Mistral, a window of 1": ("MistralForCausalLM", GROUPS | {"sliding_window": 1}),
    "Mistral, no window": ("MistralForCausalLM", GROUPS | {"sliding_window": None}),
    "Mistral, body": ("MistralModel", GROUPS | {"sliding_window": 4}),
    "Mistral, labels": ("MistralForSequenceClassification", GROUPS | LABELS | {"sliding_window": 3, "pad_token_id": 0}),
    "GPT-NeoX": ("GPTNeoXForCausalLM", NEOX),
    "GPT-NeoX, half of a head turns": ("GPTNeoXForCausalLM", NEOX | {
        "rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5}}),
    "GPT-NeoX, one after the other": ("GPTNeoXForCausalLM", NEOX | {"use_parallel_residual": False}),
    "GPT-NeoX, tied, no biases": ("GPTNeoXForCausalLM", NEOX | {
        "tie_word_embeddings": True, "attention_bias": False}),
    "GPT-NeoX, body": ("GPTNeoXModel", NEOX),
    "GPT-NeoX, labels": ("GPTNeoXForSequenceClassification", NEOX | LABELS | {"pad_token_id": 0}),
}


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """XLM's softmax, XLNet's sines of distances, DeBERTa's scale and rotary angles are float32 there in every model."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    softmax = torch.nn.functional.softmax
    functional = transformers.models.xlm.modeling_xlm.nn.functional
    monkeypatch.setattr(functional, "softmax", lambda x, **options: softmax(x.double(), **options))
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(torch, "float", torch.float64)

    def sines(self, qlen, klen, bsz=None, device=None):
        distances = torch.arange(klen, -qlen, -1.0, dtype=torch.float64)
        rates = 1 / torch.pow(10000, torch.arange(0, self.d_model, 2.0, dtype=torch.float64) / self.d_model)
        return self.positional_embedding(distances, rates, bsz)

    monkeypatch.setattr(transformers.models.xlnet.modeling_xlnet.XLNetModel, "relative_positional_encoding", sines)
    for kind in ("llama", "mistral", "qwen2"):
        module = getattr(getattr(transformers.models, kind), f"modeling_{kind}")
        norm = next(value for name, value in vars(module).items() if name.endswith("RMSNorm"))
        monkeypatch.setattr(norm, "forward", root_mean_square)
    deberta = transformers.models.deberta_v2.modeling_deberta_v2
    monkeypatch.setattr(deberta, "scaled_size_sqrt", lambda q, n: torch.tensor(q.size(-1) * n).double().sqrt())


def root_mean_square(norm, x):
    """RMSNorm in the dtype of x: theirs is computed in float32."""
    import torch

    return norm.weight * torch.nn.functional.rms_norm(x, x.shape[-1:], eps=norm.variance_epsilon)


def theirs_of(kind, values):
    """Their model with random weights far from the initial point, in float64, whose padding learns as any row does."""
    import torch
    import transformers

    torch.manual_seed(0)
    architecture = getattr(transformers, kind)
    model = moved(architecture(architecture.config_class(**values)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.float32))  # some are read in float32 there
    unpadded(model)
    return model


def unpadded(model):
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None


def ids_of(config) -> np.ndarray:
    """Rows with padding in the middle and at the end; each ends with the token that ends a text, where there is one."""
    ids = np.random.default_rng(0).integers(V, size=(3, T))
    pad = getattr(config, "pad_token_id", None)
    ids[0, 2] = ids[1, 0] = ids[2, -2] = 0 if pad is None else pad
    end = getattr(config, "eos_token_id", None)
    if type(end) is int:
        ids[ids == end] = end + 7
        ids[:, -1] = end
    return ids


def asked_of(theirs, ids):
    """What they are given, and ours."""
    import torch

    tensor = torch.from_numpy(ids)
    kind = type(theirs).__name__
    given = {"input_ids": tensor[:, None] if kind.endswith("ForMultipleChoice") else tensor}
    ours = {}
    if theirs.config.model_type == "xlm" and theirs.config.n_langs > 1 and theirs.config.use_lang_emb:
        langs = np.arange(ids.size).reshape(ids.shape) % 2
        given["langs"], ours["segments"] = torch.from_numpy(langs), langs
    if theirs.config.model_type == "bart" and not kind.endswith(("ForSequenceClassification", "ForQuestionAnswering")):
        given["decoder_input_ids"] = torch.from_numpy(ids[::-1].copy())
        ours["source"] = ids
    return given, ours


def seen_of(config, ids) -> np.ndarray:
    """Where XLM has a state: it takes as many tokens as are not padding."""
    if config.model_type != "xlm":
        return np.ones(ids.shape, bool)
    return np.arange(ids.shape[1]) < (ids != config.pad_token_id).sum(axis=1, keepdims=True)


def hidden_of_theirs(theirs, given, ids):
    body = getattr(theirs, theirs.base_model_prefix, theirs)
    if theirs.config.model_type == "bart" and "decoder_input_ids" not in given:
        given = given | {"decoder_input_ids": shifted(theirs.config, ids)}
    if given["input_ids"].ndim == 3:
        given = given | {"input_ids": given["input_ids"][:, 0]}
    return body(**given).last_hidden_state


def shifted(config, ids):
    import torch

    first = np.full((len(ids), 1), config.decoder_start_token_id)
    return torch.from_numpy(np.concatenate([first, ids[:, :-1]], axis=1))


def opened(folder, **options):
    """Ours from a folder. Some say in one line what nothing here uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_model(folder, dtype=np.float64, **options)


def difference(theirs, ours, ids) -> float:
    """The largest difference between what both compute: the logits, the scores of a text, or the states of a body."""
    given, more = asked_of(theirs, ids)
    seen = seen_of(theirs.config, ids)
    kind = type(theirs).__name__
    out = theirs(**given)
    decoder = given.get("decoder_input_ids")
    read = ids if decoder is None else decoder.numpy()
    states = hidden_of_theirs(theirs, given, ids).detach().numpy()
    if "source" not in more and isinstance(ours, EncoderDecoder):
        own = ours.hidden(shifted(theirs.config, ids).numpy(), grad=False, source=ids)[0]
    else:
        own = ours.hidden(read, grad=False, **more)[0]
    errors = [error(own[seen], states[seen])]
    if kind.endswith("ForSequenceClassification"):
        errors.append(error(ours.label_scores(ids, **more), out.logits.detach().numpy()))
    elif kind.endswith("ForTokenClassification"):
        errors.append(error(ours.token_scores(ids, **more), out.logits.detach().numpy()))
    elif kind.endswith("NextSentencePrediction"):
        errors.append(error(ours.sentence_scores(ids), out.logits.detach().numpy()))
    elif kind == "ElectraForPreTraining":
        errors.append(error(ours.replaced_scores(ids), out.logits.detach().numpy()))
    elif hasattr(out, "pooler_output") and out.pooler_output is not None:
        errors.append(error(ours.pooled(ids), out.pooler_output.detach().numpy()))
    elif ours.config.heads.words is not None and not kind.endswith("Model") or kind.endswith("LMHeadModel"):
        logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
        errors.append(error(ours.forward(read, grad=False, **more)[0][seen], logits.detach().numpy()[seen]))
    return max(errors)


@pytest.mark.parametrize("case", CASES)
def test_the_same_numbers_and_gradients_and_back(case, tmp_path):
    import torch
    import transformers

    kind, values = CASES[case]
    theirs = theirs_of(kind, values)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = opened(tmp_path / "theirs")
    ids = ids_of(theirs.config)
    first = difference(theirs, ours, ids)
    slopes = difference_of_gradients(theirs, ours, ids)

    ours.save(tmp_path / "ours")
    told = json.loads((tmp_path / "ours" / "config.json").read_text(encoding="utf-8"))["architectures"]
    back, report = getattr(transformers, told[0]).from_pretrained(
        tmp_path / "ours", dtype=torch.float64, output_loading_info=True
    )
    generator = [name for name in report["unexpected_keys"] if not name.startswith("generator.")]
    assert not generator and not report["missing_keys"] and not report["mismatched_keys"], report
    unpadded(back)
    assert told == [functools.reduce(lambda name, other: name.replace(*other), SAVED_AS.items(), kind)]
    if told[0] == kind:
        assert back.config.id2label == theirs.config.id2label
        second = difference(back.eval().double(), ours, ids)
    else:
        second = error(*(hidden_of_theirs(m, asked_of(theirs, ids)[0], ids).detach().numpy() for m in (theirs, back)))
    again = opened(tmp_path / "ours")
    third = difference(theirs, again, ids)
    assert again.config == ours.config
    print(f"{case}: {first:.0e} there, {slopes:.0e} of gradients, {second:.0e} back, {third:.0e} again")
    assert max(first, second, third, slopes) < BOUND


def difference_of_gradients(theirs, ours, ids) -> float:
    """Of what all hidden states, weighed at random, have: the gradients of every parameter of the body."""
    import torch

    given, more = asked_of(theirs, ids)
    decoder = given.get("decoder_input_ids")
    read = ids if decoder is None else decoder.numpy()
    if "source" not in more and isinstance(ours, EncoderDecoder):
        read, more = shifted(theirs.config, ids).numpy(), {"source": ids}
    states = hidden_of_theirs(theirs, given, ids)
    weights = np.random.default_rng(1).standard_normal(tuple(states.shape))
    weights *= seen_of(theirs.config, ids)[..., None]
    theirs.zero_grad()
    (states * torch.from_numpy(weights)).sum().backward()
    _, cache = ours.hidden(read, **more)
    ours.zero_grad()
    ours.hidden_backward(weights, cache)
    gradients = {}
    for name, parameter in theirs.named_parameters(remove_duplicate=False):
        gradients[name] = (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = ours.from_published(gradients, Path("theirs"))
    found = []
    for name, parameter in ours.named_parameters():
        if parameter.grad is None or not np.any(expected[name]):
            assert not np.any(expected[name]), name
            assert parameter.grad is None or np.abs(parameter.grad).max() < BOUND, name
            continue
        grad, wanted = parameter.grad, expected[name]
        if name.endswith("c_attn.bias"):  # the gradient of the keys is zero but for rounding
            keys = grad.size // 3 if "crossattention" not in name else 0
            own = np.r_[0:keys, grad.size - (keys or grad.size // 2) : grad.size]
            grad, wanted = grad[own], wanted[own]
        found.append(error(grad, wanted))
    return max(found)
