"""BERT against Hugging Face transformers: the same numbers from the same weights, and the same files.

    pytest -m parity tests/test_parity_bert.py       (needs the extra "parity")
"""

from pathlib import Path

import numpy as np
import pytest
from helpers import error

from minigpt import open_model, ops
from minigpt.models.family.bert import BERT, BERTConfig

pytestmark = pytest.mark.parity

SHAPES = [
    {"vocab_size": 13, "n_positions": 7, "n_embd": 15, "n_layer": 2, "n_head": 3},
    {"vocab_size": 101, "n_positions": 11, "n_embd": 36, "n_layer": 3, "n_head": 4},
]


def theirs_and_ours(torch, transformers, sizes):
    """Their model with random weights far from the initial point, in float64, and ours with the same."""
    torch.manual_seed(0)
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    config = BERTConfig(**sizes, **rates)
    theirs = transformers.BertForPreTraining(transformers.BertConfig(**config.to_dict())).eval().double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    ours = BERT(config, seed=None, dtype=np.float64)
    tensors = {name: tensor.detach().numpy() for name, tensor in theirs.state_dict().items()}
    plain = ours.from_published(tensors, Path("theirs"))
    for name, parameter in ours.named_parameters():
        parameter.data[...] = plain[name]
    return theirs, ours


@pytest.mark.parametrize("sizes", SHAPES)
def test_logits_losses_and_every_gradient(sizes, torch, transformers):
    """With padding, segments, and both losses of its pre-training."""
    theirs, ours = theirs_and_ours(torch, transformers, sizes)
    rng = np.random.default_rng(0)
    shape = 4, sizes["n_positions"] - 1
    ids, targets = rng.integers(1, sizes["vocab_size"], size=(2, *shape))  # they leave out the lookups of token 0
    targets[rng.random(shape) < 0.6] = ops.IGNORED
    targets[0, 0] = 1
    mask = np.ones(shape, bool)
    mask[1, -2:] = mask[3, -1:] = False
    segments = (np.arange(shape[1]) >= 2).astype(int) * np.ones((4, 1), int)
    labels = np.array([0, 1, 1, 0])

    found = theirs(
        input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask).long(),
        token_type_ids=torch.from_numpy(segments), labels=torch.from_numpy(targets),
        next_sentence_label=torch.from_numpy(labels),
    )  # fmt: skip
    found.loss.backward()

    given = {"mask": mask, "segments": segments}
    logits, _ = ours.forward(ids, grad=False, **given)
    assert error(logits, found.prediction_logits.detach().numpy()) < 1e-9
    scores = ours.sentence_scores(ids, **given)
    assert error(scores, found.seq_relationship_logits.detach().numpy()) < 1e-9

    loss, cache = ours.loss(ids, targets, sentence_labels=labels, **given)
    assert error(loss, found.loss.item()) < 1e-9
    ours.zero_grad()
    ours.loss_backward(cache)
    gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
    expected = ours.from_published(gradients, Path("theirs"))
    for name, parameter in ours.named_parameters():
        if name.endswith("c_attn.bias"):  # the gradient of its middle third, the keys, is zero but for rounding
            third = parameter.grad.size // 3
            parts = [slice(0, third), slice(2 * third, None)]
        else:
            parts = [slice(None)]
        for part in parts:
            assert error(parameter.grad[part], expected[name][part]) < 1e-9, name


def test_each_opens_what_the_other_writes(torch, transformers, tmp_path):
    theirs, ours = theirs_and_ours(torch, transformers, SHAPES[0])
    ids = np.random.default_rng(0).integers(13, size=(2, 6))
    expected, _ = ours.forward(ids, grad=False)
    ours.save(tmp_path / "ours")
    opened = transformers.BertForPreTraining.from_pretrained(tmp_path / "ours", dtype=torch.float64).eval()
    logits = opened(input_ids=torch.from_numpy(ids)).prediction_logits.detach().numpy()
    assert error(logits, expected) < 1e-9
    theirs.save_pretrained(tmp_path / "theirs")
    again = open_model(tmp_path / "theirs", dtype=np.float64)
    logits, _ = again.forward(ids, grad=False)
    assert error(logits, expected) < 1e-9
