"""Bodies and heads of the family: each choice of them is built, saved as its class, opened again, and says what it has.

Files are made here, as other programs write them. Against transformers itself: test_parity_forms.py.
"""

import json
import warnings

import numpy as np
import pytest
import safetensors.numpy
from helpers import check_along, error, published, same, same_weights, small_model, snapshot

from minigpt import models, open_model, ops
from minigpt.errors import InputError
from minigpt.files import checkpoint, disk
from minigpt.models.family import forms

SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2}
OWN = {"albert": {"embedding_size": 4}, "electra": {"embedding_size": 4, "generator_heads": 1},
       "llama": {"n_kv_head": 1, "head_size": 4}, "mistral": {"n_kv_head": 1, "head_size": 4},
       "gpt_neox": {"n_embd": 8}, "bart": {"eos_token_id": 2, "decoder_start_token_id": 2}}  # fmt: skip
IDS = np.array([[3, 4, 5, 2], [6, 1, 0, 2]])
WITH_LAYOUT = [card.name for card in models.CARDS if getattr(card.model.Config, "layout", None)]
LAID_OUT = [name for name in WITH_LAYOUT if name != "spanbert"]  # transformers has no class for it
FORMS = [(name, form) for name in LAID_OUT for form in models.card(name).model.Config.layout.forms]


def small(name: str, dtype=np.float64, **values):
    return small_model(models.card(name).model, SIZES | OWN.get(name, {}) | values, dtype)


def write(folder, config: dict, tensors: dict) -> None:
    """As another program does: its weights do not say with which configuration they were saved."""
    disk.write_json(folder / "config.json", config)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def quietly(folder, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_model(folder, **options)


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_each_form_is_saved_as_its_class_and_opened_again(name, form, tmp_path):
    kind = models.card(name).model
    usual = form == kind.Config(**SIZES | OWN.get(name, {})).usual_form
    labels = ("bad", "good", "else") if kind.Config.layout.forms[form].n is None else ()
    model = small(name, form="" if usual else form, labels=labels)
    model.save(tmp_path)
    told = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert told["architectures"] == [kind.Config.layout.prefix + form.split(" ")[0]]
    assert told.get("id2label", {}) == {str(i): label for i, label in enumerate(labels)}
    assert "form" not in told and "labels" not in told
    again = quietly(tmp_path, dtype=np.float64)
    assert again.config == model.config
    assert same_weights(model, again)
    more = {"source": IDS} if model.reads_a_source else {}
    assert same(*(snapshot([m.hidden(IDS, grad=False, **more)[0]]) for m in (model, again)))
    if model.config.heads.has_labels:
        assert again.label_scores(IDS).shape == (2, len(labels))
    else:
        with pytest.raises(InputError, match=r"which has no labels: take a file of a …ForSequenceClassification"):
            again.label_scores(IDS)


def test_there_are_layouts_with_many_forms():
    assert len(LAID_OUT) >= 8 and len(FORMS) >= 45


# --- which form a file has -------------------------------------------------------------------------------------------


def test_a_file_that_has_more_heads_than_its_class_keeps_them(tmp_path):
    """So is the first published BERT: BertForMaskedLM, with the heads of pre-training."""
    model = small("bert")
    write(tmp_path, model.config.to_dict() | {"architectures": ["BertForMaskedLM"]}, published(model))
    assert open_model(tmp_path).config.saved_as == "BertForPreTraining"


@pytest.mark.parametrize("architectures", [None, [], ["MyBert"], "BertModel"])
def test_without_a_class_that_is_known_the_tensors_decide(architectures, tmp_path):
    model = small("bert", form="ForMaskedLM")
    write(tmp_path, model.config.to_dict() | {"architectures": architectures}, published(model))
    assert open_model(tmp_path).config.saved_as == "BertForMaskedLM"


def test_a_body_may_come_without_its_pooler_and_under_either_name(tmp_path):
    model = small("roberta", form=f"Model{forms.WITHOUT}")
    tensors = published(model)
    assert "embeddings.word_embeddings.weight" in tensors and not any("pooler" in name for name in tensors)
    write(tmp_path, model.config.to_dict(), tensors)
    assert open_model(tmp_path).config == model.config
    write(tmp_path, model.config.to_dict(), {f"roberta.{name}": tensor for name, tensor in tensors.items()})
    again = open_model(tmp_path, dtype=np.float64)
    assert same(*(snapshot([m.hidden(IDS, grad=False)[0]]) for m in (model, again)))


def test_a_pooler_beside_a_head_that_tells_words_is_left_out(tmp_path):
    model = small("albert", form="ForMaskedLM")
    tensors = published(model) | {"albert.pooler.weight": np.ones((6, 6)), "albert.pooler.bias": np.ones(6)}
    write(tmp_path, model.config.to_dict(), tensors)
    assert open_model(tmp_path).config.saved_as == "AlbertForMaskedLM"


def test_a_spanbert_of_an_earlier_version_said_that_it_had_all_heads_of_bert(tmp_path):
    model = small("spanbert")
    config = model.config.to_dict() | {"architectures": ["BertForPreTraining"]}
    checkpoint.save_model(tmp_path, config, published(model))
    assert open_model(tmp_path).config == model.config


def test_a_missing_tensor_of_the_named_class_is_missed_by_its_name(tmp_path):
    model = small("bert", form="ForMaskedLM")
    tensors = published(model)
    del tensors["cls.predictions.transform.dense.weight"]
    write(tmp_path, model.config.to_dict(), tensors)
    with pytest.raises(InputError, match=r"tensor cls.predictions.transform.dense.weight is missing"):
        open_model(tmp_path)


# --- what a body has, and what it lacks ------------------------------------------------------------------------------


def test_a_trial_of_each_form_keeps_what_a_step_would_keep():
    """A loss where words are told, with labels of sentences where they are judged; else the hidden states."""
    wrong = []
    for name, form in FORMS:
        model = small(name, form="" if form == models.card(name).model.Config().usual_form else form)
        try:
            kept = ops.arrays(model.trial(IDS))
        except InputError as error:
            wrong.append(f"{name} {form}: {error}")
            continue
        if not kept or any(path.startswith(("head.", "told.")) for path in kept) != model.tells_words:
            wrong.append(f"{name} {form}: {list(kept)}")
    assert wrong == []


def test_a_body_gives_states_and_says_that_it_tells_no_words():
    model = small("bert", form="Model")
    h, _ = model.hidden(IDS, grad=False)
    dense = model.sentences.pooler
    assert same(snapshot([model.pooled(IDS)]), snapshot([np.tanh(h[:, 0] @ dense.weight.data + dense.bias.data)]))
    for call in (model.forward, lambda ids: model.loss(ids, ids)):
        with pytest.raises(InputError, match="this BERT was opened as BertModel, which tells no words: take"):
            call(IDS)
    with pytest.raises(InputError, match="this DistilBERT was opened as DistilBertModel, which has no scores"):
        small("distilbert", form="Model").pooled(IDS)
    with pytest.raises(InputError, match="this ELECTRA was opened as ElectraModel: take an ElectraForPreTraining"):
        small("electra", form="Model").replaced_scores(IDS)


def test_a_head_that_nothing_uses_is_told_in_one_line(tmp_path):
    small("bert", form="ForQuestionAnswering").save(tmp_path)
    with pytest.warns(UserWarning, match=r"is a BertForQuestionAnswering: its head, qa_outputs, is kept and saved"):
        open_model(tmp_path)


def test_scores_of_labels_are_of_the_state_that_saw_the_text():
    """The first one; the last that is no padding in XLNet, on either side; and in BART that at the end of the text."""
    mask = np.array([[True, True, True, True], [True, True, False, False]])
    xlnet = small("xlnet", form="ForSequenceClassification", labels=("a", "b", "c"))
    h, _ = xlnet.hidden(IDS, grad=False, mask=mask)
    expected, _ = xlnet.sentences.forward(np.stack([h[0, 3], h[1, 1]]))
    assert same(snapshot([xlnet.label_scores(IDS, mask)]), snapshot([expected]))
    bart = small("bart", form="ForSequenceClassification", labels=("a", "b", "c"))
    ids = np.array([[3, 2, 5, 2], [6, 2, 0, 0]])
    h, _ = bart.hidden(np.array([[2, 3, 2, 5], [2, 6, 2, 0]]), grad=False, source=ids)
    expected, _ = bart.sentences.forward(np.stack([h[0, 3], h[1, 1]]))
    assert same(snapshot([bart.label_scores(ids)]), snapshot([expected]))
    with pytest.raises(InputError, match="a row has no token 2, which ends a text"):
        bart.label_scores(np.array([[3, 4]]))


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "mistral"])
def test_scores_of_a_decoder_are_of_the_last_token_that_is_no_padding(name):
    """With a mask a window hides what it hides without one."""
    more = {"sliding_window": 2} if name == "mistral" else {}
    model = small(name, form="ForSequenceClassification", labels=("a", "b", "c"), **more)
    alone = np.concatenate([model.label_scores(IDS[:1]), model.label_scores(IDS[1:, :3])])
    mask = np.array([[True, True, True, True], [True, True, True, False]])
    assert error(model.label_scores(IDS, mask=mask), alone) < 1e-12
    assert error(model.label_scores(IDS.tolist(), mask=mask.tolist()), alone) < 1e-12
    with pytest.raises(InputError, match=r"mask is of shape \(1, 4\): give one of shape \(2, 4\), that of the ids"):
        model.label_scores(IDS, mask=mask[:1])


@pytest.mark.parametrize("names", [["a", "b"], {"0": "a", "2": "b"}, "a"])
def test_labels_have_the_numbers_from_0(names):
    model = small("bert", form="ForSequenceClassification")
    with pytest.raises(InputError, match="give a name for each number from 0"):
        model.Config.from_dict(model.config.to_dict() | {"id2label": names})


def test_labels_without_names_are_counted():
    values = small("bert", form="ForSequenceClassification").config.to_dict()
    assert models.card("bert").model.Config.from_dict(values | {"num_labels": 3}).labels == (
        "LABEL_0", "LABEL_1", "LABEL_2",
    )  # fmt: skip


# --- a head of its own -----------------------------------------------------------------------------------------------

UNTIED = [name for name in LAID_OUT if name not in ("bart", "electra")]


@pytest.mark.parametrize("name", UNTIED)
def test_a_head_of_its_own(name, tmp_path):
    model = small(name, tie_word_embeddings=False)
    assert model.head is model.lm_head.weight and model.head is not model.embeddings[0].weight
    ids = IDS % 11
    check_along(model, ids=ids, targets=np.where(ids == 2, ops.IGNORED, ids))
    head = f"{model.layout.head}.weight"
    tensors = published(model)
    assert same(snapshot([tensors[head]]), snapshot([model.head.data]))
    write(tmp_path, model.config.to_dict(), tensors)
    again = open_model(tmp_path, dtype=np.float64)
    assert same(*(snapshot([m.forward(IDS, grad=False)[0]]) for m in (model, again)))
    write(tmp_path, model.config.to_dict() | {"tie_word_embeddings": True}, tensors)
    with pytest.raises(InputError, match="differs from the token embedding: for a head of its own config.json must"):
        open_model(tmp_path)
    del tensors[head]
    write(tmp_path, model.config.to_dict(), tensors)
    with pytest.raises(InputError, match=f"tensor {head} is missing"):
        open_model(tmp_path)


@pytest.mark.parametrize("name", LAID_OUT)
def test_a_head_that_is_not_tied_and_yet_the_same(name, tmp_path):
    """Files say so of a head that equals the table."""
    model = small(name, tie_word_embeddings=True)
    table = model.embeddings[0].weight.data
    tensors = published(model)
    if name in UNTIED:
        tensors[f"{model.layout.head}.weight"] = table.copy()
        bias = model.config.heads.words.get("words.bias")
        if bias is not None:
            tensors[f"{model.layout.head}.bias"] = tensors[bias]
    write(tmp_path, model.config.to_dict() | {"tie_word_embeddings": False}, tensors)
    again = quietly(tmp_path, dtype=np.float64)
    more = {"source": IDS} if model.reads_a_source else {}
    assert same(*(snapshot([m.forward(IDS, grad=False, **more)[0]]) for m in (model, again)))


# --- how a file may be written ---------------------------------------------------------------------------------------


def test_a_norm_once_had_gamma_and_beta(tmp_path):
    model = small("bert")
    old = {}
    for name, tensor in published(model).items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        old[name] = tensor
    old["cls.predictions.decoder.bias"] = old["cls.predictions.bias"].copy()
    old["bert.embeddings.position_ids"] = np.arange(8)[None]
    write(tmp_path, model.config.to_dict(), old)
    again = open_model(tmp_path, dtype=np.float64)
    assert same(*(snapshot([m.forward(IDS, grad=False)[0]]) for m in (model, again)))


def test_half_precision_and_several_files(tmp_path):
    model = small("roberta", form="ForSequenceClassification", labels=("a", "b"))
    for parameter in model.parameters():
        parameter.data = parameter.data.astype(np.float16).astype(np.float64)
    half = {name: tensor.astype(np.float16) for name, tensor in published(model).items()}
    names = sorted(half)
    parts = {"model-00001-of-00002.safetensors": names[:20], "model-00002-of-00002.safetensors": names[20:]}
    for file, of_file in parts.items():
        safetensors.numpy.save_file({name: half[name] for name in of_file}, tmp_path / file, {"format": "pt"})
    where = {name: file for file, of_file in parts.items() for name in of_file}
    disk.write_json(tmp_path / "model.safetensors.index.json", {"metadata": {}, "weight_map": where})
    disk.write_json(tmp_path / "config.json", model.config.to_dict() | {"torch_dtype": "float16"})
    again = open_model(tmp_path, dtype=np.float64)
    assert again.config == model.config
    assert same(*(snapshot([m.label_scores(IDS)]) for m in (model, again)))


# --- what a configuration says ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key", "here", "there"),
    [
        ("bert", "hidden_act", "gelu", "gelu_exact"),
        ("distilbert", "activation", "gelu", "gelu_exact"),
        ("bart", "activation_function", "gelu", "gelu_exact"),
        ("xlnet", "ff_activation", "gelu", "gelu_exact"),
        ("albert", "hidden_act", "gelu", "gelu"),
    ],
)
def test_a_key_that_another_program_leaves_out_means_what_it_takes(name, key, here, there, tmp_path):
    """A file of ours that lacks it is of an earlier version, in which the tanh form was all there was."""
    model = small(name)
    config = {other: value for other, value in model.config.to_dict().items() if other != key}
    write(tmp_path, config, published(model))
    assert quietly(tmp_path).config.activation == there
    checkpoint.save_model(tmp_path, config, published(model))
    assert quietly(tmp_path).config.activation == here


def test_the_head_of_a_roberta_of_an_earlier_version_has_the_function_of_its_blocks(tmp_path):
    model = small("roberta", head_act="gelu_new")
    config = model.config.to_dict()
    del config["head_act"]
    checkpoint.save_model(tmp_path, config, published(model))
    assert open_model(tmp_path).config.head_activation == "gelu"
    write(tmp_path, config, published(model))
    assert open_model(tmp_path).config.head_activation == "gelu_exact"


def test_xlm_says_its_function_in_a_word_of_its_own():
    config = models.card("xlm").model.Config
    written = small("xlm", hidden_act="relu").config.to_dict()
    assert written["gelu_activation"] is False
    for values, activation in (({"gelu_activation": True}, "gelu_exact"), ({"gelu_activation": False}, "relu")):
        values = {key: value for key, value in written.items() if key != "hidden_act"} | values
        assert config.from_dict(values).activation == activation
    earlier = written | {"hidden_act": "gelu_new", "gelu_activation": True}
    assert config.from_dict(earlier).activation == "gelu"


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("bart", {"scale_embedding": True}, "scale_embedding True, as mBART, Marian and PEGASUS have it: only"),
        ("bart", {"normalize_before": True}, "normalize_before True, as mBART and BlenderBot have it"),
        ("bart", {"static_position_embeddings": True}, "as Marian has it"),
        ("xlm", {"causal": True}, "causal True, as XLM's language models from left to right have it"),
        ("xlnet", {"attn_type": "uni"}, "attn_type 'uni', as Transformer-XL has it"),
        ("xlnet", {"d_head": 5}, "d_head 5: only d_model / n_head, 3, is built here, as in all published XLNets"),
        ("albert", {"num_hidden_groups": 2}, "num_hidden_groups 2, as no published ALBERT has it"),
        ("roberta", {"head_act": "tanh"}, "head_act is 'tanh', as in pooling layers: built here are"),
        ("electra", {"is_decoder": True}, "is_decoder True: only models with False"),
    ],
)
def test_what_is_not_built_is_refused_with_those_who_have_it(name, values, words):
    model = small(name)
    with pytest.raises(InputError, match=words):
        model.Config.from_dict(model.config.to_dict() | values)


@pytest.mark.parametrize(
    ("name", "values", "built"),
    [
        ("xlnet", {"summary_type": "first"}, "last"),
        ("xlnet", {"summary_type": "mean"}, "last"),
        ("xlnet", {"summary_activation": None}, "tanh"),
        ("xlnet", {"summary_activation": "relu"}, "tanh"),
        ("xlm", {"summary_type": "last"}, "first"),
        ("xlm", {"summary_activation": "tanh"}, None),
    ],
)
def test_another_head_for_labels_is_refused_where_the_file_has_one(name, values, built, tmp_path):
    model = small(name, form="ForSequenceClassification", labels=("bad", "good"))
    write(tmp_path, model.config.to_dict() | values, published(model))
    (key, value), = values.items()
    with pytest.raises(InputError, match=f"{key} {value!r}: only heads for labels with {built!r} are built here"):
        open_model(tmp_path)
    model = small(name)
    write(tmp_path, model.config.to_dict() | values, published(model))
    assert open_model(tmp_path).config == model.config


@pytest.mark.parametrize("model_type", ["xlm-roberta", "camembert"])
def test_robertas_of_other_languages_open_as_such(model_type, tmp_path):
    model = small("roberta", pad_token_id=1)
    prefix = {"xlm-roberta": "XLMRoberta", "camembert": "Camembert"}[model_type]
    told = {"model_type": model_type, "architectures": [f"{prefix}ForMaskedLM"]}
    write(tmp_path, model.config.to_dict() | told, published(model))
    assert open_model(tmp_path).config == model.config


@pytest.mark.parametrize("model_type", ["mbart", "marian", "longformer"])
def test_a_relative_that_is_not_built_is_refused_with_what_it_has_more(model_type, tmp_path):
    disk.write_json(tmp_path / "config.json", {"model_type": model_type})
    with pytest.raises(InputError, match=f"of type '{model_type}', .* which is not built here: the types that can be"):
        open_model(tmp_path)
