"""GPT-1 with a head: whole-model gradients for the four kinds of task, what the loss is, saving, transferring.

    pytest -m parity tests/test_classifier.py       (against PyTorch: needs the extra "parity")
"""

from unittest import mock

import numpy as np
import pytest
from helpers import KEY, check_along, error, same, small_gpt1, small_gpt2, snapshot

from minigpt import GPT1, ops
from minigpt.data.examples import Task
from minigpt.errors import InputError
from minigpt.models.classifier import Classifier, transfer
from minigpt.models.task_model import FileLayout
from minigpt.ops import reference

V, T, C = 10, 7, 4  # three of the rows are special
TASKS = {
    "classification": (Task("classification", ("bad", "so-so", "good")), 1, [0, 2, 1]),
    "entailment": (Task("entailment", ("no", "yes")), 1, [1, 0, 1]),
    "similarity": (Task("similarity", ("different", "same")), 2, [1, 0, 0]),
    "score": (Task("similarity", (), "pearson"), 2, [0.0, 3.25, 5.0]),
    "choice": (Task("choice"), 3, [2, 0, 1]),
}


def inputs(s: int, seed: int = 0):
    """ids (3,S,T) whose sequences have different lengths, and are filled up with 0; lengths (3,S)."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, T + 1, size=(3, s))
    lengths[0, 0] = T
    ids = rng.integers(1, V - 3, size=(3, s, T))
    ids = np.where(np.arange(T) < lengths[..., None], ids, 0)
    ids[..., 0] = V - 3
    np.put_along_axis(ids, lengths[..., None] - 1, V - 1, axis=-1)
    return ids, lengths


def classifier(kind: str, small=small_gpt1, dtype=np.float64, dropout=0.0) -> Classifier:
    body = small(dtype, vocab_size=V, n_positions=T, n_embd=C, dropout=dropout)
    model = Classifier(body, TASKS[kind][0], dropout)
    rng = np.random.default_rng(5)
    for parameter in model.head.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape).astype(dtype)
    return model


class Total:
    """A classifier as the gradient check knows models: loss and loss_backward."""

    def __init__(self, model, lengths):
        self.model, self.lengths = model, lengths
        self.named_parameters, self.zero_grad = model.named_parameters, model.zero_grad
        self.loss_backward = model.loss_backward

    def loss(self, ids, targets, **options):
        losses, cache = self.model.loss(ids, self.lengths, targets, **options)
        return losses.total, cache


@pytest.mark.parametrize(
    ("lm_weight", "options"), [
        pytest.param(0.0, {}, id="alone", marks=pytest.mark.slow),
        pytest.param(0.5, {}, id="with the auxiliary loss", marks=pytest.mark.slow),
        pytest.param(0.5, {"key": KEY, "normalizer": 7}, id="and dropout, a part of a batch"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", TASKS)
def test_every_gradient_of_head_and_body_together(kind, lm_weight, options):
    _, s, labels = TASKS[kind]
    ids, lengths = inputs(s)
    model = classifier(kind, dropout=0.2 if options else 0.0)
    assert len(list(model.parameters())) == 26 + 2  # body and head
    # A bias that all candidates share moves no probability: like the keys' bias, its true gradient is 0.
    check_along(Total(model, lengths), ids, np.array(labels), lm_weight=lm_weight, **options)


def test_gpt2_takes_the_same_head():
    ids, lengths = inputs(1)
    model = classifier("classification", small_gpt2)
    check_along(Total(model, lengths), ids, np.array([0, 2, 1]))


@pytest.mark.parametrize("kind", TASKS)
def test_forward_and_loss_tell_the_same_and_padding_is_not_seen(kind):
    _, s, labels = TASKS[kind]
    ids, lengths = inputs(s)
    model = classifier(kind)
    scores, cache = model.forward(ids, lengths)
    filled = np.where(np.arange(T) < lengths[..., None], ids, 5)
    assert np.allclose(model.forward(filled, lengths)[0], scores, rtol=0, atol=1e-13)
    losses, _ = model.loss(filled, lengths, np.array(labels))
    plain, other = model.loss(ids, lengths, np.array(labels))
    assert np.allclose([*losses], [*plain]), "nor by the auxiliary loss"
    rng = np.random.default_rng(1)
    dscores = rng.standard_normal(scores.shape)
    model.zero_grad()
    model.backward(dscores, cache)
    assert model.head.weight.grad.any() and model.body.head.grad.any()
    with pytest.raises(ValueError, match="has been used"):
        model.backward(dscores, cache)
    assert model.loss(ids, lengths, np.array(labels), grad=False)[1] == {}
    model.loss_backward(other)


def test_the_loss_is_the_mean_answer_plus_the_mean_over_sequences_of_the_mean_over_tokens():
    """By loops: GPT-1 equations 3 to 5 with the normalisation of OpenAI's code."""
    ids, lengths = inputs(3)
    model, labels = classifier("choice"), [2, 0, 1]
    losses, _ = model.loss(ids, lengths, np.array(labels), 0.5)
    answers, sequences = [], []
    for n in range(3):
        scores = []
        for s in range(3):
            row = ids[n, s, : lengths[n, s]]
            h, _ = model.body.hidden(row[None])
            scores.append(float(h[0, -1] @ model.head.weight.data[:, 0] + model.head.bias.data[0]))
            z = h[0] @ model.body.head.data.T
            nats = np.log(np.exp(z).sum(axis=-1)) - z[np.arange(len(row)), np.append(row[1:], 0)]
            sequences.append(nats[:-1].mean())
        answers.append(np.log(np.exp(scores).sum()) - scores[labels[n]])
    assert np.isclose(losses.task, np.mean(answers)) and np.isclose(losses.lm, np.mean(sequences))
    assert np.isclose(losses.total, np.mean(answers) + 0.5 * np.mean(sequences))


def test_a_batch_is_the_sum_of_its_parts():
    for kind, (_, s, labels) in TASKS.items():
        ids, lengths = inputs(s)
        model = classifier(kind)
        whole, cache = model.loss(ids, lengths, np.array(labels))
        model.zero_grad()
        model.loss_backward(cache)
        expected = snapshot([p.grad for p in model.parameters()])
        model.zero_grad()
        total = 0.0
        for rows in (slice(0, 1), slice(1, 3)):
            losses, cache = model.loss(ids[rows], lengths[rows], np.array(labels[rows]), normalizer=3)
            model.loss_backward(cache)
            total += losses.total
        assert np.isclose(total, whole.total)
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            assert error(parameter.grad, gradient) < 1e-10 or abs(gradient).max() < 1e-12, kind


def test_the_order_of_two_texts_does_not_matter_and_that_of_candidates_goes_with_them():
    ids, lengths = inputs(2)
    model = classifier("similarity")
    assert np.allclose(model.forward(ids[:, ::-1], lengths[:, ::-1])[0], model.forward(ids, lengths)[0])
    ids, lengths = inputs(3)
    model = classifier("choice")
    assert np.allclose(model.forward(ids[:, ::-1], lengths[:, ::-1])[0], model.forward(ids, lengths)[0][:, ::-1])


def test_the_candidates_of_an_example_share_one_dropout_mask_and_examples_do_not():
    model = classifier("choice", dropout=0.0)
    model.dropout = 0.5
    ids = np.repeat(inputs(3)[0][:, :1], 3, axis=1)  # three equal candidates
    lengths = np.repeat(inputs(3)[1][:, :1], 3, axis=1)
    scores, _ = model.forward(ids, lengths, key=KEY)
    assert np.allclose(scores, scores[:, :1])
    same_text = np.repeat(ids[:1], 3, axis=0)
    scores, _ = model.forward(same_text, np.repeat(lengths[:1], 3, axis=0), key=KEY)
    assert len(np.unique(scores[:, 0])) == 3
    part, _ = model.forward(same_text[1:], np.repeat(lengths[:1], 2, axis=0), key=KEY._replace(row=1))
    assert np.allclose(part, scores[1:]), "a part of a batch gets the masks that it has in the whole"


def test_what_was_saved_says_how_its_files_were_laid_out(tmp_path):
    model = classifier("choice", dtype=np.float32)
    model.save(tmp_path)
    assert Classifier.load(tmp_path, GPT1.load(tmp_path)).files is None
    model.files = FileLayout("choice", {"context": "story", "label": "4"})
    model.save(tmp_path)
    assert Classifier.load(tmp_path, GPT1.load(tmp_path)).files == model.files


def test_where_the_body_may_not_be_saved_the_head_stays(tmp_path):
    classifier("choice", dtype=np.float32).save(tmp_path)
    before = (tmp_path / "classifier.safetensors").read_bytes()
    (tmp_path / "resume.safetensors").touch()
    with pytest.raises(InputError, match="holds a training run"):
        classifier("score", dtype=np.float32).save(tmp_path)
    assert (tmp_path / "classifier.safetensors").read_bytes() == before
    classifier("score", dtype=np.float32).save(tmp_path, overwrite=True)
    assert (tmp_path / "classifier.safetensors").read_bytes() != before


@pytest.mark.parametrize("kind", TASKS)
def test_saved_and_loaded_it_answers_the_same(tmp_path, kind):
    ids, lengths = inputs(TASKS[kind][1])
    model = classifier(kind, dtype=np.float32)
    model.save(tmp_path)
    again = Classifier.load(tmp_path, GPT1.load(tmp_path))
    assert again.task == model.task and again.dropout == model.dropout
    assert same(snapshot([p.data for p in again.parameters()]), snapshot([p.data for p in model.parameters()]))
    assert np.array_equal(again.probabilities(ids, lengths), model.probabilities(ids, lengths))


def test_a_head_is_never_left_beside_another_body(tmp_path, monkeypatch):
    classifier("choice", dtype=np.float32).save(tmp_path)
    newer = classifier("choice", dtype=np.float32)
    monkeypatch.setattr(newer.head, "named_parameters", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        newer.save(tmp_path)
    with pytest.raises(InputError, match=r"holds no classifier\.safetensors"):
        Classifier.load(tmp_path, newer.body)


def test_what_is_no_classifier_is_refused(tmp_path):
    body = small_gpt1(np.float32)
    with pytest.raises(InputError, match=r"holds no classifier\.safetensors"):
        Classifier.load(tmp_path, body)
    classifier("choice", dtype=np.float32).save(tmp_path)
    with pytest.raises(InputError, match="head|weight|shape"):
        Classifier.load(tmp_path, small_gpt1(np.float32, n_embd=8))
    with pytest.raises(InputError, match="unknown kind"):
        Classifier(body, Task("riddle"))


@pytest.mark.parametrize("layers", [-1, 0, 1, 2, None])
@pytest.mark.parametrize("small", [small_gpt1, small_gpt2])
def test_transfer_takes_over_so_many_layers_and_nothing_else(small, layers):
    body = small(np.float32)
    model = transfer(body, 3, layers, seed=9)
    fresh = dict(type(body)(model.config, seed=9).named_parameters())
    depth = 2 if layers is None else layers
    for name, parameter in model.named_parameters():
        old, n = dict(body.named_parameters())[name].data, len(dict(body.named_parameters())[name].data)
        embedding = "emb" in name or name[1:3] in ("te", "pe")
        block = int(name.split(".")[1]) + 1 if name.startswith("h.") else 0 if embedding else 2
        expected = old if block <= depth else fresh[name].data[:n]
        assert np.array_equal(parameter.data[:n], expected), name
        assert np.array_equal(parameter.data[n:], fresh[name].data[n:]), "the new rows are drawn"
    assert model.config.vocab_size == body.config.vocab_size + 3
    with pytest.raises(InputError, match="--transfer 3.*2 layers"):
        transfer(body, 3, 3)


def test_transfer_sets_the_dropout_of_the_body():
    assert transfer(small_gpt1(dropout=0.3), 0).config.attn_pdrop == 0.3
    assert transfer(small_gpt1(dropout=0.3), 0, dropout=0.1).config.attn_pdrop == 0.1


@pytest.mark.parity
@pytest.mark.parametrize("lm_weight", [0.0, 0.5])
@pytest.mark.parametrize("kind", TASKS)
def test_pytorch_gives_the_same_loss_and_the_same_gradients(kind, lm_weight):
    """Head and loss as one would write them in PyTorch, on the body of transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    _, s, labels = TASKS[kind]
    ids, lengths = inputs(s)
    ours = classifier(kind)
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    sizes = {"vocab_size": V, "n_positions": T, "n_embd": C, "n_layer": 2, "n_head": 2}
    theirs = transformers.OpenAIGPTModel(transformers.OpenAIGPTConfig(**sizes, **rates)).double().eval()
    names = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, parameter in ours.body.named_parameters():
            names[name].copy_(torch.from_numpy(parameter.data))
    w, b = (torch.tensor(p.data, requires_grad=True) for p in (ours.head.weight, ours.head.bias))

    x, n = torch.tensor(ids), torch.tensor(lengths)
    h = theirs(x.reshape(-1, T)).last_hidden_state.reshape(3, s, T, -1)
    state = torch.gather(h, 2, (n - 1)[..., None, None].expand(3, s, 1, h.shape[-1]))[:, :, 0]
    if kind == "choice":
        logits = (state @ w + b)[..., 0]
    else:
        logits = state.sum(dim=1) @ w + b
    if kind == "score":
        y = torch.tensor(labels, dtype=torch.float64)
        low = y.floor().clamp(max=4)
        wanted = torch.zeros(3, 6, dtype=torch.float64)
        wanted.scatter_(1, low.long()[:, None], (low + 1 - y)[:, None])
        wanted.scatter_(1, low.long()[:, None] + 1, (y - low)[:, None])
        loss = torch.nn.functional.cross_entropy(logits, wanted)
    else:
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
    nats = torch.nn.functional.cross_entropy(
        (h[:, :, :-1] @ names["tokens_embed.weight"].T).reshape(-1, V), x[:, :, 1:].reshape(-1), reduction="none"
    ).reshape(3, s, T - 1)
    real = (torch.arange(1, T) < n[..., None]).double()
    loss = loss + lm_weight * ((nats * real).sum(-1) / real.sum(-1)).mean()
    loss.backward()

    losses, cache = ours.loss(ids, lengths, np.array(labels), lm_weight)
    ours.zero_grad()
    ours.loss_backward(cache)
    assert abs(float(losses.total) - float(loss.detach())) < 1e-9
    for name, parameter in ours.body.named_parameters():
        theirs_grad = names[name].grad.numpy()
        assert np.abs(parameter.grad - theirs_grad).max() <= 1e-9 * max(1, np.abs(theirs_grad).max()), name
    assert np.abs(ours.head.weight.grad - w.grad.numpy()).max() < 1e-9
    assert np.abs(ours.head.bias.grad - b.grad.numpy()).max() < 1e-9


@pytest.mark.parity
def test_transformers_opens_the_body(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = classifier("similarity", dtype=np.float32)
    model.save(tmp_path)
    theirs = dict(transformers.OpenAIGPTModel.from_pretrained(tmp_path).named_parameters())
    for name, parameter in model.body.named_parameters():
        assert torch.equal(theirs[name].detach(), torch.from_numpy(parameter.data)), name


def test_ops_ignored_marks_what_follows_the_end():
    """The auxiliary loss has a target for each token but the first of each sequence, and for no filling."""
    ids, lengths = inputs(2)
    model, seen = classifier("similarity"), {}

    class Spy:
        def linear_cross_entropy_forward(self, h, w, targets, **constants):
            seen["targets"], seen["weights"] = targets, constants["weights"]
            return reference.linear_cross_entropy_forward(h, w, targets, **constants)

        def linear_cross_entropy_backward(self, dloss, cache):
            return reference.linear_cross_entropy_backward(dloss, cache)

    with ops.using(Spy()):
        model.loss(ids, lengths, np.array([0, 1, 1]))
    targets = seen["targets"].reshape(3, 2, T)
    for n in range(3):
        for s in range(2):
            end = lengths[n, s] - 1
            assert targets[n, s, :end].tolist() == ids[n, s, 1 : end + 1].tolist()
            assert (targets[n, s, end:] == ops.IGNORED).all()
            assert np.allclose(seen["weights"].reshape(3, 2, T)[n, s], 1 / end)
