"""Generation: what was read is not read again, prompts of any lengths together, seeds, stops, windows, mistakes."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import batch, error, same, snapshot

from minigpt import models, ops, tokenizer
from minigpt.errors import InputError
from minigpt.jobs.sample import SampleOptions, sample
from minigpt.models import generation, sampling
from minigpt.models.token_ids import pad_left
from minigpt.nn import Past
from minigpt.ops import reference
from minigpt.tokenizer import CharTokenizer, GPT2Tokenizer

DTYPES = [np.float64, np.float32]
BOUND = {np.float64: 1e-12, np.float32: 1e-5}


@pytest.fixture(params=["gpt1", "gpt2", "lstm"])
def kind(request) -> str:
    return request.param


def talkative(kind="gpt1", dtype=np.float64, **sizes):
    """A small model with large weights: what it likes depends on all that it has seen."""
    sizes = {"vocab_size": 23, "n_positions": 12, "n_embd": 12, "n_layer": 3, "n_head": 3} | sizes
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    if kind == "lstm":
        sizes, rates = sizes | {"n_layer": 1, "n_head": 1}, {}
    made = models.card(kind).model
    model, rng = made(made.Config(**sizes, **rates), dtype=dtype), np.random.default_rng(0)
    for p in model.parameters():
        p.data += (0.7 if p.data.ndim == 2 else 0.1) * rng.standard_normal(p.data.shape).astype(dtype)
    return model


def prompts(model, *lengths, seed=0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(model.config.vocab_size, size=n).tolist() for n in lengths]


def logits_of(monkeypatch, model, ids, n_tokens, **options) -> tuple[list, np.ndarray]:
    """The logits (B,V) that each step of a stream draws from, and the tokens (N,B)."""
    seen = []

    def watch(logits, *arguments):
        seen.append(logits.copy())
        return sampling.next_tokens(logits, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(generation, "sampling", SimpleNamespace(next_tokens=watch))
        tokens = np.array(list(model.stream(ids, n_tokens, **options)))
    return seen, tokens


# --- the past --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 1, 5], [12], [1, 11], [11, 1]])
def test_a_past_gives_the_logits_of_every_prefix(kind, dtype, pieces):
    """A text read piece by piece, against the whole text at once, and against each prefix by itself."""
    model = talkative(kind, dtype)
    ids, _ = batch(model, rows=3, length=12)
    whole, _ = model.forward(ids, grad=False)
    past, at = model.new_past(), 0
    for n in pieces:
        logits, _ = model.forward(ids[:, at : at + n], past, grad=False)
        assert logits.dtype == dtype and error(logits, whole[:, at : at + n]) < BOUND[dtype]
        at += n
        assert {layer.length for layer in past} == {at}
        prefix, _ = model.forward(ids[:, :at], grad=False)
        assert error(logits[:, -1], prefix[:, -1]) < BOUND[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_past_of_rows_of_different_lengths(kind, dtype):
    """Every prefix again: each row as if it were alone."""
    model = talkative(kind, dtype)
    rows = prompts(model, 12, 5, 9, 1)
    ids, padding = pad_left(rows)
    assert padding.tolist() == [0, 7, 3, 11] and ids.shape == (4, 12)
    for pieces in ([12], [1] * 12, [8, 3, 1]):
        past, out = model.new_past(12, padding), []
        for end in np.cumsum(pieces):
            out.append(model.forward(ids[:, past[0].length : end], past, grad=False)[0])
        out = np.concatenate(out, axis=1)
        assert np.isfinite(out).all()
        for row, n, logits in zip(rows, padding, out, strict=True):
            for t in range(1, len(row) + 1):
                alone, _ = model.forward([row[:t]], grad=False)
                assert error(logits[n + t - 1], alone[0, -1]) < BOUND[dtype]


def test_a_past_grows_in_place():
    """Nothing that is there is copied or written to again, and what is read is a view."""
    past = Past(capacity=7)
    assert past.read() is None and past.mask(3) is None
    k, v = np.random.default_rng(0).standard_normal((2, 2, 3, 5, 4))
    past.extend(k[:, :, :3], v[:, :, :3])
    home, (first, _) = past.k, past.read()
    past.extend(k[:, :, 3:], v[:, :, 3:])
    assert past.k is home and past.length == 5 and np.shares_memory(first, home)
    assert all(map(np.array_equal, past.read(), (k, v)))
    with pytest.raises(InputError, match=r"8 positions do not fit into a past of 7"):
        past.extend(k[:, :, :3], v[:, :, :3])
    assert past.length == 5


def test_the_models_keep_nothing(kind):
    """The past is the caller's: two texts at once, each with its own."""
    model = talkative(kind)
    before = snapshot([p.data for p in model.parameters()])
    one, two = batch(model, rows=2, length=6)
    pasts, outs = [model.new_past(6), model.new_past(6)], [[], []]
    for t in range(6):
        for past, out, ids in zip(pasts, outs, (one, two), strict=True):
            out.append(model.forward(ids[:, t : t + 1], past, grad=False)[0])
    for out, ids in zip(outs, (one, two), strict=True):
        assert error(np.concatenate(out, axis=1), model.forward(ids)[0]) < 1e-12
    assert same(before, snapshot([p.data for p in model.parameters()]))


def test_no_more_positions_than_the_model_has(kind):
    model = talkative(kind)
    past = model.new_past()
    model.forward([[1] * 12], past, grad=False)
    with pytest.raises(InputError, match="13 tokens are more than the 12 positions"):
        model.forward([[1]], past, grad=False)


@pytest.mark.parametrize("kind", ["gpt1", "gpt2"])
def test_a_guest_operation_is_heard_with_a_past(kind):
    """Who replaces attention replaces it in generation too."""
    calls = []

    class Mine:
        def attention_forward(self, q, k, v, **constants):
            calls.append((q.shape[-2], k.shape[-2]))
            return reference.attention_forward(q, k, v, **constants)

        def attention_backward(self, dout, cache):
            return reference.attention_backward(dout, cache)

    model = talkative(kind, n_layer=1)
    with ops.using(Mine()):
        model.generate([[1, 2, 3]], 3)
    assert calls == [(3, 3), (1, 4), (1, 5)]


# --- the stream ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 2, 7), (12, 3), (17, 3, 14), (1,), (30, 30)])
def test_with_and_without_the_cache(kind, dtype, lengths, monkeypatch):
    """The same logits at every step, the same tokens; across the edge of the context, and each row as if alone."""
    model, n_tokens = talkative(kind, dtype), 16
    rows = prompts(model, *lengths)
    with_cache, tokens = logits_of(monkeypatch, model, rows, n_tokens, seed=3)
    without, again = logits_of(monkeypatch, model, rows, n_tokens, seed=3, cache=False)
    assert (tokens == again).all() and len(with_cache) == n_tokens
    texts = [row + chosen.tolist() for row, chosen in zip(rows, tokens.T, strict=True)]
    for step, (a, b) in enumerate(zip(with_cache, without, strict=True)):
        assert error(a, b) < BOUND[dtype]
        for i, text in enumerate(texts):
            window = text[: len(rows[i]) + step][-12:]
            assert error(a[i], model.forward([window], grad=False)[0][0, -1]) < BOUND[dtype], (step, i)


def test_the_cache_reads_each_token_once(kind, monkeypatch):
    """Until the window slides: then it reads the window for each."""
    model, read = talkative(kind), []
    hidden = type(model).hidden

    def watch(self, ids, *past, **options):
        read.append(ids.shape)
        return hidden(self, ids, *past, **options)

    monkeypatch.setattr(type(model), "hidden", watch)
    model.generate([[1, 2, 3, 4, 5, 6, 7, 8, 9]] * 2, 7)
    assert read == [(2, 9), (2, 1), (2, 1), (2, 1), (2, 12), (2, 12), (2, 12)]
    read.clear()
    model.generate([[1, 2, 3]], 3, cache=False)
    assert read == [(1, 3), (1, 4), (1, 5)]


def test_generate_gives_prompts_of_different_lengths_back(kind):
    model = talkative(kind)
    rows = prompts(model, 4, 1, 20)
    out = model.generate(rows, 5, temperature=0)
    assert [len(row) for row in out] == [9, 6, 25]
    for row, answer in zip(rows, out, strict=True):
        assert answer.tolist() == model.generate([row], 5, temperature=0)[0].tolist()
    assert isinstance(model.generate(rows[:1] * 2, 5), np.ndarray)


@pytest.mark.parametrize("lengths", [(4, 4, 4, 4), (4, 1, 3, 14)])
def test_a_row_is_the_same_in_every_batch(kind, lengths):
    """Row i draws from (seed, i): its text does not depend on how many follow it."""
    model = talkative(kind)
    rows = prompts(model, *lengths)
    together = model.generate(rows, 15, seed=5)
    for n in (1, 2, 3):
        for a, b in zip(model.generate(rows[:n], 15, seed=5), together, strict=False):
            assert (a == b).all()
    assert len({tuple(row[-15:]) for row in model.generate(rows[:1] * 4, 15, seed=5)}) == 4
    other = model.generate(rows, 15, seed=6)
    assert all((a != b).any() for a, b in zip(together, other, strict=True))


def test_stop_with_prompts_of_different_lengths(kind):
    model = talkative(kind)
    rows = prompts(model, 4, 1, 6)
    free = [row[-30:] for row in model.generate(rows, 30, seed=2)]
    stop = int(free[1][6])
    out = model.generate(rows, 30, seed=2, stop=stop)
    new = [row[len(prompt) :] for row, prompt in zip(out, rows, strict=True)]
    ends = [row.tolist().index(stop) if stop in row else len(row) for row in new]
    for row, before, end in zip(new, free, ends, strict=True):
        assert (row[:end] == before[:end]).all() and (row[end:] == stop).all()
    assert ends[1] <= 6 and len(new[0]) == min(30, max(ends) + 1)


def test_several_tokens_that_stop(kind):
    """Each row ends with the first of them, and repeats that one; a set, a list, and one of them alone."""
    model = talkative(kind)
    rows = prompts(model, 4, 1, 6)
    free = [row[-30:].tolist() for row in model.generate(rows, 30, seed=2)]
    stops = {free[0][3], free[1][5], free[2][1]}
    out = model.generate(rows, 30, seed=2, stop=stops)
    for row, before, prompt in zip(out, free, rows, strict=True):
        end = next(i for i, token in enumerate(before) if token in stops)
        new = row[len(prompt) :].tolist()
        assert new[: end + 1] == before[: end + 1] and set(new[end:]) == {before[end]}
    again = model.generate(rows, 30, seed=2, stop=list(stops))
    assert all((a == b).all() for a, b in zip(out, again, strict=True))
    one = [model.generate(rows, 30, seed=2, stop=given)[1].tolist() for given in (free[1][5], [free[1][5]])]
    assert one[0] == one[1]
    everything = model.generate(rows, 30, seed=2, stop=[])
    assert [row[-30:].tolist() for row in everything] == free
    with pytest.raises(InputError, match="stop is 23: give a token id from 0 to 22"):
        model.generate(rows, 3, stop=[1, 23])


def test_a_past_is_gone_on_with(kind, monkeypatch):
    """What the past holds is not read again; then it holds all but the last token, and a longer prompt follows."""
    model = talkative(kind)
    (ids,) = prompts(model, 3)
    past = model.new_past()
    n_read = []
    step = model.next_logits
    monkeypatch.setattr(model, "next_logits", lambda seen, kept: n_read.append(seen.shape[1]) or step(seen, kept))
    for n_new in (2, 3):
        before = past[0].length
        expected = model.generate([ids], n_new, temperature=0)[0].tolist()
        n_read.clear()
        tokens = [int(token[0]) for token in model.stream([ids], n_new, temperature=0, past=past)]
        assert ids + tokens == expected and past[0].length == len(expected) - 1
        assert n_read == [len(ids) - before] + [1] * (n_new - 1)
        ids = [*expected, 5]
    with pytest.raises(InputError, match="past holds 8 tokens of 7: at least one must be left to read"):
        model.stream([ids[:7]], 1, past=past)
    with pytest.raises(InputError, match="10 tokens and 4 new ones do not fit into the 12 positions"):
        model.stream([ids], 4, past=past)
    assert len(list(model.stream([ids], 3, past=past))) == 3


def test_every_device_gives_the_same_with_a_past(kind, device):
    here, there = talkative(kind), talkative(kind).to(device)
    rows = prompts(here, 4, 1, 6)
    for a, b in zip(here.generate(rows, 12, seed=1), there.generate(rows, 12, seed=1), strict=True):
        assert (a == b).all()


@pytest.mark.parametrize(
    ("ids", "options", "message"),
    [
        ([], {}, r"ids are float64 of shape \(0,\): give whole numbers"),
        ([[]], {}, r"shape \(1, 0\)"),
        ([[1, 2], []], {}, "prompt number 1, counted from 0, holds no token: give a list of token ids, one or more"),
        ([[1, 2], [1.5]], {}, r"prompt number 1, counted from 0, is float64 of shape \(1,\)"),
        ([[1, 2], [[3]]], {}, r"is int64 of shape \(1, 1\)"),
        ([[1, 2], 3], {}, "prompt number 1, counted from 0, is 3: give an array or a list"),
        ([[1, 23], [2]], {}, "token id 23 is out of range: the table has 23 rows"),
        ([[1, -1], [2]], {}, "token id -1 is out of range"),
        ([[1]], {"n_tokens": 0}, "n_tokens 0: give 1 token or more"),
        ([[1]], {"n_tokens": -2}, "n_tokens -2"),
        ([[1]], {"seed": -1}, "seed -1: give a whole number of 0 or more"),
        ([[1]], {"top_k": 0}, "top-k 0: give 1 or more"),
        ([[1]], {"temperature": -0.5}, "temperature -0.5: give 0"),
        ([[1]], {"temperature": float("nan")}, "temperature nan"),
        ([[1]], {"top_p": 0.0}, "top-p 0.0: give a probability"),
        ([[1]], {"top_p": 1.5}, "top-p 1.5"),
    ],
)
def test_mistakes_get_one_line(ids, options, message):
    with pytest.raises(InputError, match=message) as caught:
        talkative().generate(ids, **({"n_tokens": 3} | options))
    assert "\n" not in str(caught.value)


# --- minigpt sample --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A model directory with characters for tokens."""
    text = CharTokenizer.train("the cat sat on a mat.\n")
    talkative(dtype=np.float32, vocab_size=text.vocab_size).save(tmp_path)
    text.save(tmp_path)
    return tmp_path


def draw(folder, write=len, **options) -> list[str]:
    """The texts of `sample`, for the model in a folder."""
    return sample(SampleOptions(folder=str(folder), **options), write)


def test_samples_in_one_batch_are_those_of_smaller_batches(folder, capsys):
    wrote = []
    three = draw(folder, prompt="the cat", tokens=9, samples=3, seed=4, write=wrote.append)
    assert "".join(wrote) == "\n\n".join(three) + "\n" and len(set(three)) == 3
    for n in (1, 2):
        assert draw(folder, prompt="the cat", tokens=9, samples=n, seed=4, write=wrote.append) == three[:n]
    assert all(len(text) == 16 and text.startswith("the cat") for text in three)


def test_one_sample_is_written_as_it_comes(folder):
    wrote = []
    texts = draw(folder, prompt="the cat", tokens=6, write=wrote.append)
    assert wrote[0] == "the cat" and all(len(piece) == 1 for piece in wrote[1:]) and len(wrote) == 8
    assert "".join(wrote) == texts[0] + "\n"


def test_the_sliding_window_is_announced_once_and_only_if_it_slides(folder, capsys):
    draw(folder, prompt="the cat", tokens=6)
    assert capsys.readouterr().err == ""
    for samples in (1, 3):
        draw(folder, prompt="the cat", tokens=7, samples=samples)
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "the model sees 12 tokens at once" in said and "window slides" in said


def test_without_a_prompt_a_text_begins_after_a_line_end(folder):
    assert draw(folder, tokens=3)[0].startswith("\n")


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("", {}, "the prompt '' holds no token: give some text"),
        ("the cat sat on", {}, "the prompt has 14 tokens and the model sees 12: give only its last part"),
        ("a", {"tokens": 0}, "--tokens 0 --samples 1 --seed 0: give 1, 1 and 0 or more"),
        ("a", {"samples": 0}, "--samples 0"),
        ("a", {"seed": -1}, "--seed -1"),
    ],
)
def test_a_sample_that_cannot_be_drawn(prompt, options, message, folder):
    with pytest.raises(InputError) as caught:
        draw(folder, prompt=prompt, **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_samples_end_at_the_end_of_text(tmp_path):
    """With a vocabulary that can end a text: it begins after that token, ends before it, and shows neither."""
    text = GPT2Tokenizer.train("the cat sat on a mat, the rat sat on the cat. " * 3, 270, progress=False)
    end = text.end_of_text_id
    model = talkative(dtype=np.float32, vocab_size=text.vocab_size, n_positions=64, n_embd=48)
    model.h[-1].ln_2.bias.data += 0.45 * model.head.data[end]  # it likes to end
    model.save(tmp_path)
    text.save(tmp_path)
    drawn = model.generate([[end]] * 8, 60, temperature=0.8)[:, 1:]
    lengths = [row.tolist().index(end) if end in row else 60 for row in drawn]
    assert min(lengths) < 10 < lengths[0] < max(lengths)  # each at its own time
    expected = [text.decode(row[:n]) for row, n in zip(drawn, lengths, strict=True)]
    for samples in (8, 1):
        wrote = []
        assert draw(tmp_path, tokens=60, samples=samples, write=wrote.append) == expected[:samples]
        assert "".join(wrote) == "\n\n".join(expected[:samples]) + "\n"


# --- against transformers --------------------------------------------------------------------------------------------


@pytest.fixture
def theirs_and_ours(kind, tmp_path):
    """A directory that we wrote, opened by both: a model that can write 250 tokens."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    ours = talkative(kind, np.float32, vocab_size=97, n_positions=250, n_embd=32, n_head=4)
    ours.save(tmp_path)
    theirs = {"gpt1": transformers.OpenAIGPTLMHeadModel, "gpt2": transformers.GPT2LMHeadModel}[kind]
    return theirs.from_pretrained(tmp_path).eval(), ours


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["gpt1", "gpt2"])
def test_200_greedy_tokens_are_those_of_transformers(theirs_and_ours):
    import torch

    theirs, ours = theirs_and_ours
    ids, _ = batch(ours, rows=3, length=7)
    options = {"max_new_tokens": 200, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    expected = theirs.generate(torch.from_numpy(ids), **options).numpy()
    assert expected.shape == (3, 207) and all(len(set(row)) > 10 for row in expected)
    for cache in (True, False):
        assert (ours.generate(ids, 200, temperature=0, cache=cache) == expected).all()
    rows = [ids[0].tolist(), ids[1, :2].tolist()]
    alone = theirs.generate(torch.from_numpy(ids[1:2, :2]), **options).numpy()[0]
    both = ours.generate(rows, 200, temperature=0)
    assert (both[0] == expected[0]).all() and (both[1] == alone).all()


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["gpt1", "gpt2"])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "top_k": 11}, {"temperature": 1.3, "top_p": 0.8}])
def test_200_drawn_tokens_are_those_of_transformers(options, theirs_and_ours):
    """Their logits, PyTorch's probabilities, the same uniform numbers."""
    import torch

    theirs, ours = theirs_and_ours
    prompt, _ = batch(ours, rows=3, length=7)
    ids = torch.from_numpy(prompt)
    uniform = np.stack([np.random.default_rng([8, i]).random(200) for i in range(3)])
    for u in torch.from_numpy(uniform.T):
        with torch.no_grad():
            z = theirs(ids).logits[:, -1].double() / options.get("temperature", 1.0)
        if "top_k" in options:
            z = z.masked_fill(z < z.topk(options["top_k"]).values[:, -1:], -torch.inf)
        if "top_p" in options:
            likely, order = z.sort(descending=True)
            cut = likely.softmax(-1).cumsum(-1) > options["top_p"]
            cut[:, 0] = False
            z = z.masked_fill(cut.scatter(1, order, cut), -torch.inf)
        token = torch.searchsorted(z.softmax(-1).cumsum(-1), u[:, None].clone(), right=True)
        ids = torch.cat([ids, token], dim=1)
    assert (ours.generate(prompt, 200, seed=8, **options) == ids.numpy()).all()
    assert all(len(set(row.tolist())) > 10 for row in ids)


@pytest.mark.parametrize(("kind", "size"), [("gpt1", [90]), ("gpt2", [300]), ("char", [])])
def test_a_long_stream_says_what_decoding_all_at_once_does(kind, size):
    """Far beyond the tokens that a stream remembers."""
    letters = "the cat sat on the mat , and 한글 said : no ! "
    text = tokenizer.KINDS[kind].train([letters * 9], *size)
    ids = np.random.default_rng(0).integers(0, text.vocab_size, 500).tolist() + text.encode(letters * 9)
    stream = text.streaming()
    assert "".join(map(stream.feed, ids)) + stream.end() == text.decode(ids)
