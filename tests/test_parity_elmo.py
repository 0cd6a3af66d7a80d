"""ELMo against the same network in PyTorch, whose LSTM knows nothing of ours: loss, features and every gradient.

    pytest -m parity tests/test_parity_elmo.py       (needs the extra "parity")
"""

import numpy as np
import pytest
from helpers import error
from test_elmo import IDS, LENGTHS, MASK, pretraining, small

pytestmark = pytest.mark.parity


def direction(torch, layers, x):
    """What each layer of one direction gives in PyTorch, x (B,T,C), with the parameters of ours."""
    outs = []
    for i, (w, u, b, proj, bias) in enumerate(layers):
        cells = torch.nn.LSTM(w.shape[0], u.shape[0], batch_first=True).double()
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        values = dict(zip(names, (w.T, u.T, b, torch.zeros_like(b)), strict=True))
        h, _ = torch.func.functional_call(cells, values, x)
        out = h @ proj + bias
        x = out if i == 0 else x + out
        outs.append(x)
    return outs


def turned(torch, x):
    """Each row's text from its end, what fills it up where it was."""
    rows = [torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, LENGTHS[:, 0].tolist(), strict=True)]
    return torch.stack(rows)


def test_loss_features_and_every_gradient(torch):
    ours = small()
    theirs = {name: torch.from_numpy(p.data.copy()).requires_grad_() for name, p in ours.named_parameters()}
    both = {}
    for side in ("left", "right"):
        of_layer = ("w", "u", "b", "c_proj.weight", "c_proj.bias")
        both[side] = [[theirs[f"{side}.h.{i}.{name}"] for name in of_layer] for i in range(2)]
    table = theirs["tokens_embed.weight"]
    x = table[torch.from_numpy(IDS)]
    left = direction(torch, both["left"], x)
    right = [turned(torch, layer) for layer in direction(torch, both["right"], turned(torch, x))]

    given = pretraining()
    losses = []
    for h, wanted in ((left[-1], given["targets"]), (right[-1], given["previous"])):
        logits = h @ table.T
        losses.append(torch.nn.functional.cross_entropy(logits.reshape(-1, 11), torch.from_numpy(wanted).reshape(-1)))
    expected = (losses[0] + losses[1]) / 2
    layers = [torch.cat(pair, dim=-1) for pair in ((x, x), *zip(left, right, strict=True))]
    shares = torch.softmax(theirs["mix.s"], dim=0)
    features = theirs["mix.gamma"] * sum(share * layer for share, layer in zip(shares, layers, strict=True))

    loss, cache = ours.loss(IDS, **given)
    assert error(loss, expected.item()) < 1e-9
    h, of_hidden = ours.hidden(IDS, mask=MASK)
    assert error(h[MASK], features.detach().numpy()[MASK]) < 1e-9
    dh = np.random.default_rng(0).standard_normal(h.shape) * MASK[..., None]
    (expected + (features * torch.from_numpy(dh)).sum()).backward()
    ours.zero_grad()
    ours.loss_backward(cache)
    ours.hidden_backward(dh, of_hidden)
    for name, parameter in ours.named_parameters():
        assert error(parameter.grad, theirs[name].grad.numpy()) < 1e-9, name
