"""The encoders of the family against Hugging Face transformers: the same numbers from the same weights and files.

    pytest -m parity tests/test_parity_family.py       (needs the extra "parity")
"""

import numpy as np
import pytest
from helpers import error
from parity_models import THEIRS, check_gradients, filled, gradients_of, moved

from minigpt import models, open_model, ops
from minigpt.data.objectives import spans

pytestmark = pytest.mark.parity

SHAPES = [
    {"vocab_size": 13, "n_positions": 7, "n_embd": 15, "n_layer": 2, "n_head": 3},
    {"vocab_size": 101, "n_positions": 11, "n_embd": 36, "n_layer": 3, "n_head": 4},
]
OWN = {"albert": {"embedding_size": 10}, "electra": {"embedding_size": 10, "generator_heads": 1},
       "deberta": {"n_distances": 5}, "roberta": {"pad_token_id": 3}, "xlm": {"pad_token_id": 2}}  # fmt: skip
NAMES = ["bert", "roberta", "albert", "distilbert", "deberta", "xlm"]  # ELECTRA has a test of its own


@pytest.fixture(autouse=True)
def as_it_is_here(monkeypatch, torch, transformers):
    """The softmax of XLM, and the scale of DeBERTa's scores, are float32 there, whatever the model is."""
    xlm = transformers.models.xlm.modeling_xlm
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(xlm.nn.functional, "softmax", lambda x, **options: softmax(x.double(), **options))
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # XLM's softmax would be float32
    deberta = transformers.models.deberta_v2.modeling_deberta_v2
    monkeypatch.setattr(
        deberta, "scaled_size_sqrt", lambda q, factor: torch.tensor(q.size(-1) * factor).double().sqrt()
    )


def theirs_and_ours(torch, transformers, name, sizes):
    """Their model with random weights far from the initial point, in float64, and ours with the same."""
    torch.manual_seed(0)
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    kind = models.card(name).model
    config = kind.Config(**sizes, **OWN.get(name, {}), **rates)
    architecture = getattr(transformers, config.architecture)
    theirs = moved(architecture(architecture.config_class(**config.to_dict())))
    for module in theirs.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # the row of padding learns here, as any other does
    return theirs, filled(kind(config, seed=None, dtype=np.float64), theirs)


def numbers(tensors: dict) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def inputs(ours) -> dict[str, np.ndarray]:
    """Ids, targets of which some are not predicted, padding at the right, and what the model has beside."""
    config = ours.config
    rng = np.random.default_rng(0)
    shape = 4, config.n_positions - 1
    ids, targets = rng.integers(config.vocab_size, size=(2, *shape))
    targets[rng.random(shape) < 0.6] = ops.IGNORED
    targets[0, 0] = 3
    mask = np.ones(shape, bool)
    mask[1, -2:] = mask[3, -1:] = False
    ids[0, 1] = ids[1, 2] = ids[2, 0] = config.pad_token_id or 0  # in the middle of a text it is one of its tokens
    targets[~mask] = ops.IGNORED
    given = {"ids": ids, "targets": targets, "mask": mask}
    if hasattr(ours, "sentence_scores"):
        given["segments"] = (np.arange(shape[1]) >= 2).astype(int) * np.ones((4, 1), int)
        given["sentence_labels"] = np.array([0, 1, 1, 0])
    return given


@pytest.mark.parametrize("sizes", SHAPES, ids=["small", "wide"])
@pytest.mark.parametrize("name", NAMES)
def test_losses_and_every_gradient(name, sizes, torch, transformers):
    theirs, ours = theirs_and_ours(torch, transformers, name, sizes)
    given = inputs(ours)
    asked = {
        "input_ids": torch.from_numpy(given["ids"]),
        "attention_mask": torch.from_numpy(given["mask"]).long(),
        "labels": torch.from_numpy(given["targets"]),
    }
    if name == "xlm":
        languages = np.arange(given["ids"].size).reshape(given["ids"].shape) % 2
        given["segments"] = languages
        asked["langs"] = torch.from_numpy(languages)
    elif "segments" in given:
        label = "sentence_order_label" if name == "albert" else "next_sentence_label"
        asked["token_type_ids"] = torch.from_numpy(given["segments"])
        asked[label] = torch.from_numpy(given["sentence_labels"])
    found = theirs(**asked)
    found.loss.backward()
    logits = found.logits if hasattr(found, "logits") else found.prediction_logits

    seen = {key: value for key, value in given.items() if key in ("ids", "mask", "segments")}
    ours_logits, _ = ours.forward(grad=False, **seen)
    where = given["mask"]
    assert error(ours_logits[where], logits.detach().numpy()[where]) < 1e-9
    if "sentence_labels" in given:
        of_pairs = found.sop_logits if name == "albert" else found.seq_relationship_logits
        assert error(ours.sentence_scores(**seen), of_pairs.detach().numpy()) < 1e-9
    loss, cache = ours.loss(**given)
    assert error(loss, found.loss.item()) < 1e-9
    ours.zero_grad()
    ours.loss_backward(cache)
    check_gradients(gradients_of(theirs, ours), ours)


@pytest.mark.parametrize("name", NAMES)
def test_each_opens_what_the_other_writes(name, torch, transformers, tmp_path):
    theirs, ours = theirs_and_ours(torch, transformers, name, SHAPES[0])
    ids = np.random.default_rng(0).integers(13, size=(3, 6))
    ids[0, 2] = ids[1, 0] = ours.config.pad_token_id or 0
    expected, _ = ours.forward(ids, grad=False)
    ours.save(tmp_path / "ours")
    architecture = getattr(transformers, ours.config.architecture)
    opened, report = architecture.from_pretrained(tmp_path / "ours", dtype=torch.float64, output_loading_info=True)
    assert not report["unexpected_keys"], report
    assert not report["missing_keys"], report
    languages = {"langs": torch.zeros(ids.shape, dtype=torch.long)} if name == "xlm" else {}
    found = opened.eval()(input_ids=torch.from_numpy(ids), **languages)
    logits = found.logits if hasattr(found, "logits") else found.prediction_logits
    seen = np.ones(ids.shape, bool)
    if name == "xlm":  # what it takes for padding has no state there
        seen = np.arange(ids.shape[1]) < (ids != ours.config.pad_token_id).sum(axis=1, keepdims=True)
    assert error(logits.detach().numpy()[seen], expected[seen]) < 1e-9
    theirs.save_pretrained(tmp_path / "theirs")
    again = open_model(tmp_path / "theirs", dtype=np.float64)
    logits, _ = again.forward(ids, grad=False)
    assert error(logits, expected) < 1e-9


def test_both_networks_of_electra(torch, transformers, monkeypatch):
    """The generator against ElectraForMaskedLM, the discriminator against ElectraForPreTraining, with shared tables."""
    activations = transformers.models.electra.modeling_electra
    tanh = torch.nn.GELU(approximate="tanh")
    exact = activations.get_activation
    monkeypatch.setattr(activations, "get_activation", lambda name: tanh if name == "gelu" else exact(name))
    discriminator, ours = theirs_and_ours_of_electra(torch, transformers, SHAPES[1])
    config = dict(ours.config.of_generator.to_dict(), architectures=["ElectraForMaskedLM"])
    generator = transformers.ElectraForMaskedLM(transformers.ElectraConfig(**config)).eval().double()
    tensors = {name: parameter.data for name, parameter in ours.named_parameters()}
    published = ours.to_published(tensors)
    state = {name.removeprefix("generator."): t for name, t in published.items() if name.startswith("generator.")}
    state |= {name: t for name, t in published.items() if name.startswith("electra.embeddings.")}
    state["generator_lm_head.weight"] = published["electra.embeddings.word_embeddings.weight"]
    generator.load_state_dict({name: torch.from_numpy(t.copy()) for name, t in state.items()})

    given = inputs(ours)
    given.pop("mask")
    key = ops.Key.of(0)
    seen, replaced = ours.filled_in(given["ids"], given["targets"], key)
    covered = generator(input_ids=torch.from_numpy(given["ids"]), labels=torch.from_numpy(given["targets"]))
    told = discriminator(input_ids=torch.from_numpy(seen))
    labels = torch.from_numpy(replaced).double()  # transformers makes them float32, and with them the loss
    total = covered.loss + 50 * torch.nn.functional.binary_cross_entropy_with_logits(told.logits, labels)
    total.backward()
    logits, _ = ours.forward(given["ids"], grad=False)
    assert error(logits, covered.logits.detach().numpy()) < 1e-9
    assert error(ours.replaced_scores(seen), told.logits.detach().numpy()) < 1e-9
    loss, cache = ours.loss(**given, key=key)
    assert error(loss, total.item()) < 1e-9
    ours.zero_grad()
    ours.loss_backward(cache)
    gradients = {f"generator.{name}": p.grad.numpy() for name, p in generator.named_parameters()}
    for name, parameter in discriminator.named_parameters():
        shared = gradients.pop(f"generator.{name}", 0) if name.startswith("electra.embeddings.") else 0
        gradients[name] = parameter.grad.numpy() + shared
    check_gradients(ours.from_published(gradients, THEIRS), ours)


def theirs_and_ours_of_electra(torch, transformers, sizes):
    """Their discriminator, and ours with the same weights and a random generator."""
    torch.manual_seed(0)
    kind = models.card("electra").model
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    config = kind.Config(**sizes, **OWN["electra"], **rates)
    theirs = moved(transformers.ElectraForPreTraining(transformers.ElectraConfig(**config.to_dict())))
    ours = kind(config, seed=0, dtype=np.float64)
    with pytest.warns(UserWarning, match="without its generator"):
        plain = ours.from_published(numbers(theirs.state_dict()), THEIRS)
    for name, parameter in ours.named_parameters():
        if not name.startswith("generator."):
            parameter.data[...] = plain[name]
    return theirs, ours


def test_electra_s_files(torch, transformers, tmp_path):
    """transformers opens our discriminator; we open theirs, which comes without a generator."""
    theirs, ours = theirs_and_ours_of_electra(torch, transformers, SHAPES[0])
    ids = np.random.default_rng(0).integers(3, 13, size=(2, 6))
    expected = ours.replaced_scores(ids)
    ours.save(tmp_path / "ours")
    opened, report = transformers.ElectraForPreTraining.from_pretrained(
        tmp_path / "ours", dtype=torch.float64, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert all(name.startswith("generator.") for name in report["unexpected_keys"])
    assert error(opened.eval()(input_ids=torch.from_numpy(ids)).logits.detach().numpy(), expected) < 1e-9
    theirs.save_pretrained(tmp_path / "theirs")
    with pytest.warns(UserWarning, match="without its generator"):
        again = open_model(tmp_path / "theirs", dtype=np.float64)
    assert error(again.replaced_scores(ids), expected) < 1e-9


def test_spanbert_s_boundary_loss_written_in_torch(torch, transformers):
    """transformers has BERT's body and head; the boundary objective is written here, with PyTorch's own layers."""
    torch.manual_seed(0)
    kind = models.card("spanbert").model
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    config = kind.Config(**SHAPES[1], **rates)
    ours = kind(config, seed=0, dtype=np.float64)
    rng = np.random.default_rng(1)
    for parameter in ours.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape)
    published = ours.to_published({name: parameter.data for name, parameter in ours.named_parameters()})
    own = {name: t for name, t in published.items() if name.startswith("boundary.")}
    body = transformers.BertForMaskedLM(transformers.BertConfig(**config.to_dict())).eval().double()
    state = body.state_dict()
    state |= {name: torch.from_numpy(t.copy()) for name, t in published.items() if name not in own}
    state["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"]
    state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"]
    body.load_state_dict(state)
    theirs = {name: torch.from_numpy(t.copy()).requires_grad_() for name, t in own.items()}

    batch = spans(7, config.vocab_size, rate=0.4)(rng.integers(3, config.vocab_size, size=(4, 11)), rng)
    targets, edges, places = (
        torch.from_numpy(array) for array in (batch.targets, batch.span_edges, batch.span_places)
    )
    found = body(input_ids=torch.from_numpy(batch.ids), labels=targets, output_hidden_states=True)
    h = found.hidden_states[-1]
    rows = torch.arange(4)[:, None]
    x = torch.cat([h[rows, edges[..., 0]], h[rows, edges[..., 1]], theirs["boundary.places_embed.weight"][places]], -1)
    for layer in ("first", "second"):
        x = torch.nn.functional.linear(x, theirs[f"boundary.{layer}.weight"], theirs[f"boundary.{layer}.bias"])
        x = torch.nn.functional.gelu(x, approximate="tanh")
        weight, bias = (theirs[f"boundary.ln_{layer}.{part}"] for part in ("weight", "bias"))
        x = torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps=config.layer_norm_epsilon)
    logits = body.cls.predictions.decoder(x)
    boundary = torch.nn.functional.cross_entropy(logits.reshape(-1, config.vocab_size), targets.reshape(-1))
    (found.loss + boundary).backward()

    loss, cache = ours.loss(batch.ids, batch.targets, **batch.inputs)
    assert error(loss, (found.loss + boundary).item()) < 1e-9
    ours.zero_grad()
    ours.loss_backward(cache)
    gradients = {name: p.grad.numpy() for name, p in body.named_parameters() if p.grad is not None}
    gradients |= {name: tensor.grad.numpy() for name, tensor in theirs.items()}
    check_gradients(ours.from_published(gradients, THEIRS), ours)
