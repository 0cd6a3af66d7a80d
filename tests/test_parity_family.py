"""The encoders of the family against Hugging Face transformers: the same numbers from the same weights and files.

    pytest -m parity tests/test_parity_family.py       (needs the extra "parity")
"""

from pathlib import Path

import numpy as np
import pytest
from helpers import error

from minigpt import models, open_model, ops

pytestmark = pytest.mark.parity

SHAPES = [
    {"vocab_size": 13, "n_positions": 7, "n_embd": 15, "n_layer": 2, "n_head": 3},
    {"vocab_size": 101, "n_positions": 11, "n_embd": 36, "n_layer": 3, "n_head": 4},
]
OWN = {"albert": {"embedding_size": 10}}
NAMES = ["bert", "roberta", "albert", "distilbert"]
PADDING = 1  # the id that RoBERTa's tables keep for padding: the inputs leave it out


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def transformers():
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    return transformers


@pytest.fixture(autouse=True)
def tanh_form(monkeypatch, torch, transformers):
    """transformers has the exact GELU in RoBERTa's head, whatever the configuration says; here it is the tanh form."""
    gelu = torch.nn.GELU(approximate="tanh")
    monkeypatch.setattr(transformers.models.roberta.modeling_roberta, "gelu", gelu)


def theirs_and_ours(torch, transformers, name, sizes):
    """Their model with random weights far from the initial point, in float64, and ours with the same."""
    torch.manual_seed(0)
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    kind = models.card(name).model
    config = kind.Config(**sizes, **OWN.get(name, {}), **rates)
    architecture = getattr(transformers, config.architecture)
    theirs = architecture(architecture.config_class(**config.to_dict())).eval().double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    ours = kind(config, seed=None, dtype=np.float64)
    plain = ours.from_published(numbers(theirs.state_dict()), Path("theirs"))
    for parameter_name, parameter in ours.named_parameters():
        parameter.data[...] = plain[parameter_name]
    return theirs, ours


def numbers(tensors: dict) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def inputs(ours) -> dict[str, np.ndarray]:
    """Ids, targets of which some are not predicted, padding at the right, and what the model has beside."""
    config = ours.config
    rng = np.random.default_rng(0)
    shape = 4, config.n_positions - 1
    ids, targets = rng.integers(2, config.vocab_size, size=(2, *shape))
    targets[rng.random(shape) < 0.6] = ops.IGNORED
    targets[0, 0] = 2
    mask = np.ones(shape, bool)
    mask[1, -2:] = mask[3, -1:] = False
    ids[~mask] = PADDING
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
    if "segments" in given:
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
    loss, cache = ours.loss(**given)
    assert error(loss, found.loss.item()) < 1e-9
    ours.zero_grad()
    ours.loss_backward(cache)
    compare_gradients(theirs, ours)


def compare_gradients(theirs, ours):
    gradients = {}
    for name, parameter in theirs.named_parameters():
        given = parameter.grad
        gradients[name] = np.zeros(parameter.shape) if given is None else given.numpy()
    expected = ours.from_published(gradients, Path("theirs"))
    for name, parameter in ours.named_parameters():
        if name.endswith("c_attn.bias"):  # the gradient of its middle third, the keys, is zero but for rounding
            third = parameter.grad.size // 3
            parts = [slice(0, third), slice(2 * third, None)]
        else:
            parts = [slice(None)]
        for part in parts:
            assert error(parameter.grad[part], expected[name][part]) < 1e-9, name


@pytest.mark.parametrize("name", NAMES)
def test_each_opens_what_the_other_writes(name, torch, transformers, tmp_path):
    theirs, ours = theirs_and_ours(torch, transformers, name, SHAPES[0])
    ids = np.random.default_rng(0).integers(2, 13, size=(2, 6))
    expected, _ = ours.forward(ids, grad=False)
    ours.save(tmp_path / "ours")
    architecture = getattr(transformers, ours.config.architecture)
    opened, report = architecture.from_pretrained(tmp_path / "ours", dtype=torch.float64, output_loading_info=True)
    assert not report["unexpected_keys"], report
    assert not report["missing_keys"], report
    found = opened.eval()(input_ids=torch.from_numpy(ids))
    logits = found.logits if hasattr(found, "logits") else found.prediction_logits
    assert error(logits.detach().numpy(), expected) < 1e-9
    theirs.save_pretrained(tmp_path / "theirs")
    again = open_model(tmp_path / "theirs", dtype=np.float64)
    logits, _ = again.forward(ids, grad=False)
    assert error(logits, expected) < 1e-9
