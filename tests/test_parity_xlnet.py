"""XLNet against Hugging Face transformers: both streams, every gradient, and the same files.

    pytest -m parity tests/test_parity_xlnet.py       (needs the extra "parity")
"""

from pathlib import Path

import numpy as np
import pytest
from helpers import error

from minigpt import open_model, ops
from minigpt.data.objectives import permuted
from minigpt.models.family.xlnet import XLNet, XLNetConfig

pytestmark = pytest.mark.parity

SHAPES = [
    {"vocab_size": 13, "n_positions": 7, "n_embd": 12, "n_layer": 2, "n_head": 3},
    {"vocab_size": 101, "n_positions": 11, "n_embd": 36, "n_layer": 3, "n_head": 3},
]


@pytest.fixture
def transformers(torch, monkeypatch):
    """transformers makes the sines of distances in float32 for every model: here they are float64."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    arange = torch.arange
    xlnet = transformers.models.xlnet.modeling_xlnet

    def wide(self, qlen, klen, bsz=None, device=None):
        distances = arange(klen, -qlen, -1.0, dtype=torch.float64)
        rates = 1 / torch.pow(10000, arange(0, self.d_model, 2.0, dtype=torch.float64) / self.d_model)
        return self.positional_embedding(distances, rates, bsz)

    monkeypatch.setattr(xlnet.XLNetModel, "relative_positional_encoding", wide)
    return transformers


def theirs_and_ours(torch, transformers, sizes):
    """Their model with random weights far from the initial point, in float64, and ours with the same."""
    torch.manual_seed(0)
    config = XLNetConfig(**sizes, **dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0))
    theirs = transformers.XLNetLMHeadModel(transformers.XLNetConfig(**config.to_dict())).eval().double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    ours = XLNet(config, seed=None, dtype=np.float64)
    tensors = {name: tensor.detach().numpy() for name, tensor in theirs.state_dict().items()}
    plain = ours.from_published(tensors, Path("theirs"))
    for name, parameter in ours.named_parameters():
        parameter.data[...] = plain[name]
    return theirs, ours


@pytest.mark.parametrize("two_streams", [True, False])
@pytest.mark.parametrize("sizes", SHAPES, ids=["small", "wide"])
def test_logits_loss_and_every_gradient(sizes, two_streams, torch, transformers):
    theirs, ours = theirs_and_ours(torch, transformers, sizes)
    rng = np.random.default_rng(0)
    t = sizes["n_positions"] - 1
    batch = permuted(0.4)(rng.integers(sizes["vocab_size"], size=(3, t + 1)), rng)
    segments = (np.arange(t) >= 2).astype(int) * np.ones((3, 1), int)
    given = {"mask": batch.mask, "segments": segments}
    asked = {"token_type_ids": torch.from_numpy(segments)}
    seen = batch.mask & ~np.eye(t, dtype=bool)  # there the content stream sees itself whatever this says
    asked["perm_mask"] = torch.from_numpy(1.0 - seen[:, 0])
    if two_streams:
        given["query_mask"] = batch.query_mask
        asked["target_mapping"] = torch.eye(t, dtype=torch.float64).expand(3, t, t)
    targets = torch.from_numpy(batch.targets)
    found = theirs(input_ids=torch.from_numpy(batch.ids), **asked)
    expected = torch.nn.functional.cross_entropy(found.logits.reshape(-1, found.logits.shape[-1]), targets.reshape(-1))
    expected.backward()

    logits, _ = ours.forward(batch.ids, grad=False, **given)
    wanted = batch.targets != ops.IGNORED
    assert error(logits[wanted], found.logits.detach().numpy()[wanted]) < 1e-9
    loss, cache = ours.loss(batch.ids, batch.targets, **given)
    assert error(loss, expected.item()) < 1e-9
    ours.zero_grad()
    ours.loss_backward(cache)
    gradients = {}
    for name, parameter in theirs.named_parameters():
        gradients[name] = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy()
    expected = ours.from_published(gradients, Path("theirs"))
    for name, parameter in ours.named_parameters():
        if parameter.grad is None:
            assert not expected[name].any(), name
        else:
            assert error(parameter.grad, expected[name]) < 1e-9, name


def test_each_opens_what_the_other_writes(torch, transformers, tmp_path):
    theirs, ours = theirs_and_ours(torch, transformers, SHAPES[0])
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(parameter.float())
    for parameter in ours.parameters():
        parameter.data = parameter.data.astype(np.float32).astype(np.float64)  # they read some in float32
    ids = np.random.default_rng(0).integers(13, size=(2, 6))
    expected, _ = ours.forward(ids, grad=False)
    ours.save(tmp_path / "ours")
    opened, report = transformers.XLNetLMHeadModel.from_pretrained(
        tmp_path / "ours", dtype=torch.float64, output_loading_info=True
    )
    assert not report["unexpected_keys"] and not report["missing_keys"], report
    assert error(opened.eval().double()(input_ids=torch.from_numpy(ids)).logits.detach().numpy(), expected) < 1e-9
    theirs.save_pretrained(tmp_path / "theirs")
    again = open_model(tmp_path / "theirs", dtype=np.float64)
    assert error(again.forward(ids, grad=False)[0], expected) < 1e-9
