"""BART and T5 against Hugging Face transformers: the same numbers from the same weights, the same files and texts.

    pytest -m parity tests/test_parity_encoder_decoder.py       (needs the extra "parity")
"""

from pathlib import Path

import numpy as np
import pytest
from helpers import error

from minigpt import open_model, ops
from minigpt.models.family.bart import BART, BARTConfig

pytestmark = pytest.mark.parity

TOKENS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1, "decoder_start_token_id": 2}
SIZES = {"vocab_size": 13, "n_positions": 9, "n_embd": 15, "n_layer": 2, "n_head": 3} | TOKENS
OTHER_SIZES = {"vocab_size": 101, "n_positions": 11, "n_embd": 36, "n_layer": 3, "n_head": 4} | TOKENS
RATES = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def transformers():
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    return transformers


def bart(torch, transformers, sizes):
    """Their BART with random weights far from the initial point, in float64, and ours with the same."""
    config = BARTConfig(**sizes, **RATES)
    theirs = transformers.BartForConditionalGeneration(transformers.BartConfig(**config.to_dict()))
    return moved(torch, theirs, 0.2), BART(config, seed=None, dtype=np.float64)


MAKERS = {"bart": bart}
every_model = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def moved(torch, theirs, spread):
    theirs = theirs.eval().double()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return theirs


def theirs_and_ours(make, torch, transformers, sizes):
    theirs, ours = make(torch, transformers, sizes)
    tensors = {name: tensor.detach().numpy() for name, tensor in theirs.state_dict().items()}
    plain = ours.from_published(tensors, Path("theirs"))
    for name, parameter in ours.named_parameters():
        parameter.data[...] = plain[name]
    return theirs, ours


def a_batch(sizes, seed=0):
    """Ids, targets of which some are ignored, and padded sources; without token 0, whose look-ups they leave out."""
    rng = np.random.default_rng(seed)
    t, s = sizes["n_positions"] - 2, sizes["n_positions"]
    ids, targets = rng.integers(1, sizes["vocab_size"], size=(2, 4, t))
    targets[rng.random(targets.shape) < 0.2] = ops.IGNORED
    source = rng.integers(1, sizes["vocab_size"], size=(4, s))
    mask = np.ones(source.shape, bool)
    mask[1, -2:] = mask[3, -4:] = False
    return ids, targets, source, mask


@every_model
@pytest.mark.parametrize("sizes", [SIZES, OTHER_SIZES], ids=["small", "larger"])
def test_logits_loss_and_every_gradient(make, sizes, torch, transformers):
    theirs, ours = theirs_and_ours(make, torch, transformers, sizes)
    ids, targets, source, mask = a_batch(sizes)
    found = theirs(
        input_ids=torch.from_numpy(source), attention_mask=torch.from_numpy(mask).long(),
        decoder_input_ids=torch.from_numpy(ids), labels=torch.from_numpy(targets),
    )  # fmt: skip
    found.loss.backward()
    logits, _ = ours.forward(ids, source=source, source_mask=mask, grad=False)
    assert error(logits, found.logits.detach().numpy()) < 1e-9

    loss, cache = ours.loss(ids, targets, source=source, source_mask=mask)
    assert error(loss, found.loss.item()) < 1e-9
    ours.zero_grad()
    ours.loss_backward(cache)
    gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
    expected = ours.from_published(gradients, Path("theirs"))
    for name, parameter in ours.named_parameters():
        for part in parts_of(name, parameter):
            assert error(parameter.grad[part], expected[name][part]) < 1e-9, name


def parts_of(name, parameter) -> list[slice]:
    """The whole of a parameter; of a bias of keys, queries and values all but that of the keys, whose gradient is 0."""
    if not name.endswith("c_attn.bias"):
        return [slice(None)]
    if "cross" in name:
        return [slice(parameter.grad.size // 2, None)]
    third = parameter.grad.size // 3
    return [slice(0, third), slice(2 * third, None)]


@every_model
def test_each_opens_what_the_other_writes(make, torch, transformers, tmp_path):
    """All tensors are used, and none is left over."""
    theirs, ours = theirs_and_ours(make, torch, transformers, SIZES)
    ids, _, source, mask = a_batch(SIZES)
    expected, _ = ours.forward(ids, source=source, source_mask=mask, grad=False)
    ours.save(tmp_path / "ours")
    opened, about = type(theirs).from_pretrained(
        tmp_path / "ours", dtype=torch.float64, output_loading_info=True
    )  # fmt: skip
    assert not any(about[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    found = opened.eval()(
        input_ids=torch.from_numpy(source), attention_mask=torch.from_numpy(mask).long(),
        decoder_input_ids=torch.from_numpy(ids),
    )  # fmt: skip
    assert error(found.logits.detach().numpy(), expected) < 1e-9
    theirs.save_pretrained(tmp_path / "theirs")
    again = open_model(tmp_path / "theirs", dtype=np.float64)
    logits, _ = again.forward(ids, source=source, source_mask=mask, grad=False)
    assert error(logits, expected) < 1e-9
    for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        assert getattr(again.config, name) == getattr(ours.config, name), name


@every_model
def test_the_likeliest_texts_are_the_same(make, torch, transformers):
    theirs, ours = theirs_and_ours(make, torch, transformers, SIZES)
    _, _, source, mask = a_batch(SIZES)
    written = theirs.generate(
        torch.from_numpy(source), attention_mask=torch.from_numpy(mask).long(),
        max_new_tokens=7, do_sample=False, num_beams=1,
    ).numpy()  # fmt: skip
    writer, start = ours.continuing(source, mask)
    found = writer.generate(start, 7, temperature=0, stop=SIZES["eos_token_id"])
    assert len({tuple(row) for row in found}) > 1, "the source decides"
    for mine, yours in zip(found, written, strict=False):
        until = len(mine)
        if SIZES["eos_token_id"] in mine:
            until = list(mine).index(SIZES["eos_token_id"]) + 1
        assert np.array_equal(mine[:until], yours[:until])
