"""BART and T5 against Hugging Face transformers: the same numbers from the same weights, the same files and texts.

    pytest -m parity tests/test_parity_encoder_decoder.py       (needs the extra "parity")
"""


import numpy as np
import pytest
from helpers import error
from parity_models import check_gradients, filled, gradients_of, in_float64, moved

from minigpt import open_model, ops
from minigpt.models.family.bart import BART, BARTConfig
from minigpt.models.family.relative import buckets
from minigpt.models.family.t5 import T5, T5Config

pytestmark = pytest.mark.parity

TOKENS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1, "decoder_start_token_id": 2}
SIZES = {"vocab_size": 13, "n_positions": 9, "n_embd": 15, "n_layer": 2, "n_head": 3} | TOKENS
OTHER_SIZES = {"vocab_size": 101, "n_positions": 11, "n_embd": 36, "n_layer": 3, "n_head": 4} | TOKENS
RATES = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)


def bart(torch, transformers, sizes):
    """Their BART with random weights far from the initial point, in float64, and ours with the same."""
    config = BARTConfig(**sizes, **RATES)
    theirs = transformers.BartForConditionalGeneration(transformers.BartConfig(**config.to_dict()))
    return moved(theirs), BART(config, seed=None, dtype=np.float64)


def t5(torch, transformers, sizes):
    """The same of T5."""
    own = {"d_kv": 4, "d_ff": 17, "n_buckets": 6, "max_distance": 7}
    config = T5Config(**sizes, **own, **RATES)
    theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(**config.to_dict()))
    return moved(theirs), T5(config, seed=None, dtype=np.float64)


MAKERS = {"bart": bart, "t5": t5}
every_model = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def theirs_and_ours(make, torch, transformers, sizes):
    torch.manual_seed(0)
    theirs, ours = make(torch, transformers, sizes)
    return theirs, filled(ours, theirs)


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
    check_gradients(gradients_of(theirs, ours), ours)


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
    found = in_float64(opened)(
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
    theirs, ours = theirs_and_ours(make, torch, transformers, OTHER_SIZES)
    _, _, source, mask = a_batch(OTHER_SIZES)
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


@pytest.mark.parametrize("both_sides", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (6, 7), (8, 20), (64, 1000)])
def test_buckets_of_distances(both_sides, n_buckets, max_distance, torch):
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = np.arange(-1200, 1201)
    expected = modeling.T5Attention._relative_position_bucket(
        torch.from_numpy(distances), both_sides, n_buckets, max_distance
    ).numpy()
    found = buckets(distances, n_buckets, max_distance, both_sides)
    assert np.array_equal(found, expected), distances[found != expected]
