"""XLNet against Hugging Face transformers: both streams, every gradient, and the same files.

    pytest -m parity tests/test_parity_xlnet.py       (needs the extra "parity")
"""

import numpy as np
import pytest
from helpers import error
from parity_models import check_gradients, filled, gradients_of, moved
from test_parity_steps import PAIRS, small_tokenizer

from minigpt import open_model, ops
from minigpt.data.examples import Example
from minigpt.data.input_transformations import batch, encode_all, special_ids
from minigpt.data.objectives import permuted
from minigpt.jobs.fill import covered, guesses
from minigpt.jobs.similar import SimilarOptions, similar
from minigpt.models import open_both
from minigpt.models.family.xlnet import XLNet, XLNetConfig
from minigpt.models.label_model import LabelModel
from minigpt.models.text_vectors import text_vectors

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
    theirs = moved(transformers.XLNetLMHeadModel(transformers.XLNetConfig(**config.to_dict())))
    return theirs, filled(XLNet(config, seed=None, dtype=np.float64), theirs)


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
    check_gradients(gradients_of(theirs, ours), ours)


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


# --- segments: 0 and 1 of two texts, 2 of <cls>, which stands for both, 3 of padding, at its left ---------------------

SINGLE = ["the cat sat", "cat"]


@pytest.fixture(params=["XLNetForSequenceClassification"])
def opened(request, torch, transformers, tmp_path):
    """A model of theirs with its tokenizer, and the same two opened here, all in float64."""
    torch.manual_seed(0)
    tokenizer = small_tokenizer("XLNetTokenizer")
    config = transformers.XLNetConfig(vocab_size=len(tokenizer), d_model=12, n_layer=2, n_head=3, d_inner=20)
    theirs = getattr(transformers, request.param)(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tokenizer, theirs.double(), *open_both(tmp_path, dtype=np.float64)


def test_pairs_padded_left_as_their_tokenizer_gives_them(torch, opened):
    tokenizer, theirs, model, text = opened
    rows = [text.encode_pair(*pair) for pair in PAIRS]
    longest = max(len(ids) for ids, _ in rows)
    ids = np.array([[text.ids["<pad>"]] * (longest - len(row)) + row for row, _ in rows])
    segments = np.array([[3] * (longest - len(row)) + row for _, row in rows])
    mask = np.array([[False] * (longest - len(row)) + [True] * len(row) for row, _ in rows])
    given = tokenizer(PAIRS, padding=True, return_token_type_ids=True, return_tensors="pt")
    assert (given["input_ids"].numpy() == ids).all() and (given["attention_mask"].numpy() == mask).all()
    given["token_type_ids"][~given["attention_mask"].bool()] = 3  # transformers 5 fills up with 0, and 4 did with 3
    assert (given["token_type_ids"].numpy() == segments).all() and set(segments.ravel()) == {0, 1, 2, 3}
    with torch.no_grad():
        expected = theirs.transformer(**given).last_hidden_state.numpy()
        scores = theirs(**given).logits.numpy()
    h, _ = model.hidden(ids, grad=False, mask=mask, segments=segments)
    assert error(h[mask], expected[mask]) < 1e-9
    assert error(model.label_scores(ids, mask=mask, segments=segments), scores) < 1e-9
    without, _ = model.hidden(ids, grad=False, mask=mask, segments=np.minimum(segments, 1))
    assert error(without[mask], expected[mask]) > 1e-3, "<cls> belongs to neither text"


def test_labels_of_two_texts_and_of_one_are_theirs(torch, opened):
    """As minigpt predict reads them: filled up at the right."""
    tokenizer, theirs, model, text = opened
    classifier = LabelModel(model, special_ids(text)["_delimiter_"][0])
    pairs = [pair for pair in PAIRS if all(one.strip() for one in pair)] + [("sat", "the cat sat")]
    for texts, kind in ((pairs, "entailment"), ([(one,) for one in SINGLE], "classification")):
        ids, lengths = batch(encode_all([Example(one) for one in texts], kind, text, room=20))
        rows = pairs if kind == "entailment" else SINGLE
        given = tokenizer(rows, padding=True, return_token_type_ids=True, return_tensors="pt")
        with torch.no_grad():
            assert error(classifier.scores(ids, lengths), theirs(**given).logits.numpy()) < 1e-9, kind


def test_vectors_of_one_text_are_theirs(torch, opened, tmp_path):
    """<cls> has its own segment there too."""
    tokenizer, theirs, model, text = opened
    rows = [text.wrap(text.encode(one)) for one in SINGLE]
    vectors = text_vectors(model, [ids for ids, _ in rows], segments=[segments for _, segments in rows])
    for one, vector in zip(SINGLE, vectors, strict=True):
        with torch.no_grad():
            given = tokenizer(one, return_token_type_ids=True, return_tensors="pt")
            mean = theirs.transformer(**given).last_hidden_state[0].mean(0)
        assert error(vector, (mean / mean.norm()).numpy()) < 1e-6, "vectors are float32"
    without = text_vectors(model, [ids for ids, _ in rows])
    assert error(without, vectors) > 1e-3
    (tmp_path / "notes.txt").write_text(SINGLE[0])
    options = SimilarOptions(folder=str(tmp_path), file=str(tmp_path / "notes.txt"), question=SINGLE[1])
    ((nearest,),) = similar(options, write=lambda line: None)
    assert nearest.cosine == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    assert abs(nearest.cosine - float(without[0] @ without[1])) > 1e-3


@pytest.mark.parametrize("opened", ["XLNetLMHeadModel"], indirect=True)
def test_a_covered_word_of_one_text_is_theirs(torch, opened):
    """Which they are given as a place that no other may see."""
    tokenizer, theirs, model, text = opened
    given = tokenizer("the <mask> sat", return_token_type_ids=True, return_tensors="pt")
    ids, segments = covered(text, "the <mask> sat")
    assert ([ids], [segments]) == (given["input_ids"].tolist(), given["token_type_ids"].tolist()) and segments[-1] == 2
    place = ids.index(text.role("mask"))
    hidden = torch.zeros(1, len(ids), len(ids), dtype=torch.float64)
    hidden[:, :, place] = 1
    target = torch.zeros(1, 1, len(ids), dtype=torch.float64)
    target[..., place] = 1
    with torch.no_grad():
        expected = theirs(**given, perm_mask=hidden, target_mapping=target).logits[0, 0].softmax(-1).numpy()
    ((*best,),) = guesses(model, text, "the <mask> sat", len(expected))
    assert error([one.probability for one in best], np.sort(expected)[::-1]) < 1e-9
    assert [one.token for one in best] == np.argsort(-expected).tolist()
