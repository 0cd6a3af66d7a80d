"""Weights as others publish them: hostile safetensors files, bfloat16, split files, masks and heads, OpenAI's GPT-1."""

import json
import struct

import numpy as np
import pytest
from helpers import batch, same, same_weights, small_gpt1, small_gpt2, snapshot

from minigpt import GPT1, GPT2, GPT1Config, models, open_model
from minigpt.errors import InputError
from minigpt.files import openai_release
from minigpt.files.checkpoint import load_tensors, save_model, save_tensors
from minigpt.files.disk import write_text
from minigpt.files.tensors import narrow, read_header


def write(path, header, data=b"", length=None):
    """A file with this header, as text or as a value."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode("utf-8")
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


GOOD = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
TWICE = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'

# What the format forbids, in the order in which a reader is to look for it.
HOSTILE = {
    "shorter than eight bytes": lambda path: path.write_bytes(b"1234567"),
    "a header of more than 100 MB": lambda path: write(path, GOOD, bytes(8), length=100_000_001),
    "a header longer than the file": lambda path: write(path, GOOD, bytes(8), length=len(GOOD) + 9),
    "a header that is as long as can be": lambda path: write(path, GOOD, bytes(8), length=2**64 - 1),
    "no UTF-8": lambda path: write(path, GOOD.replace(b"a", b"\xff", 1), bytes(8)),
    "no header": lambda path: write(path, b""),
    "no JSON": lambda path: write(path, b'{"a":'),
    "a list": lambda path: write(path, b"[]"),
    "no brace at the beginning": lambda path: write(path, b" " + GOOD, bytes(8)),
    "padding that is not spaces": lambda path: write(path, GOOD + b"\0\0", bytes(8)),
    "a tensor twice": lambda path: write(path, TWICE, bytes(16)),
    "a key twice": lambda path: write(path, GOOD.replace(b'"F32"', b'"F32","dtype":"I32"'), bytes(8)),
    "metadata twice": lambda path: write(path, b'{"__metadata__":{"a":"1","a":"2"},' + GOOD[1:], bytes(8)),
    "metadata that is no text": lambda path: write(path, {"__metadata__": {"a": 1}, "a": entry()}, bytes(8)),
    "deep nesting": lambda path: write(path, b'{"a":' + b"[" * 100_000),
    "no offsets": lambda path: write(path, {"a": {"dtype": "F32", "shape": [2]}}, bytes(8)),
    "broken offsets": lambda path: write(path, {"a": entry(offsets=(0.0, 8.0))}, bytes(8)),
    "negative offsets": lambda path: write(path, {"a": entry(offsets=(-8, 0))}, bytes(8)),
    "an end before the beginning": lambda path: write(path, {"a": entry(offsets=(8, 0))}, bytes(8)),
    "a hole": lambda path: write(path, {"a": entry(), "b": entry(offsets=(12, 20))}, bytes(20)),
    "a hole at the beginning": lambda path: write(path, {"a": entry(offsets=(4, 12))}, bytes(12)),
    "an overlap": lambda path: write(path, {"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)),
    "two in one place": lambda path: write(path, {"a": entry(), "b": entry()}, bytes(8)),
    "out of range": lambda path: write(path, {"a": entry(), "b": entry(offsets=(8, 16))}, bytes(8)),
    "a size that overflows": lambda path: write(path, {"a": entry(shape=(2**40, 2**40))}, bytes(8)),
    "a negative size": lambda path: write(path, {"a": entry(shape=(-2,))}, bytes(8)),
    "more axes than an array can have": lambda path: write(path, {"a": entry(shape=(1,) * 99 + (2,))}, bytes(8)),
    "a size that no array can have": lambda path: write(path, {"a": entry(shape=(0, 2**63), offsets=(0, 0))}),
    "another number of bytes": lambda path: write(path, {"a": entry(shape=(3,))}, bytes(8)),
    "half a byte": lambda path: write(path, {"a": entry("F4", (15,))}, bytes(8)),
    "an unknown type": lambda path: write(path, {"a": entry("F33")}, bytes(8)),
    "truncated": lambda path: write(path, GOOD, bytes(7)),
    "more than the header says": lambda path: write(path, GOOD, bytes(9)),
}


def test_the_good_file_is_good(tmp_path):
    write(tmp_path / "x", GOOD, np.array([1, 2], np.float32).tobytes())
    assert load_tensors(tmp_path / "x")[0]["a"].tolist() == [1, 2]
    write(tmp_path / "x", GOOD + b"   ", bytes(8))
    assert load_tensors(tmp_path / "x")[0]["a"].tolist() == [0, 0]
    write(tmp_path / "x", b'{"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}', bytes(16))
    assert (tmp_path / "x").read_bytes()[0] == 0x3C
    assert load_tensors(tmp_path / "x")[0]["test"].tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(kind, tmp_path):
    HOSTILE[kind](tmp_path / "x")
    with pytest.raises(InputError, match="is not a whole safetensors file: ") as caught:
        load_tensors(tmp_path / "x")
    assert str(tmp_path / "x") in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("dtype", "n"), [("F8_E4M3", 8), ("F8_E5M2", 8), ("F4", 16)])
def test_types_that_numpy_lacks_are_named(dtype, n, tmp_path):
    write(tmp_path / "x", {"a": entry(dtype, (n,))}, bytes(8))
    with pytest.raises(InputError, match=f"a holds {dtype}, which NumPy has no type for: save it in float32"):
        load_tensors(tmp_path / "x")


# --- numbers of other widths -----------------------------------------------------------------------------------------


def test_bfloat16_is_widened(tmp_path):
    """Its sixteen bits are the upper ones of float32: nothing is rounded. Other tensors around it."""
    numbers = np.array([1.0, -2.5, 0.0, 3.140625, np.inf, 2.0**-130], np.float32)
    bits = (numbers.view(np.uint32) >> 16).astype("<u2")
    header = {"before": entry(), "b": entry("BF16", (2, 3), (8, 20)), "none": entry("BF16", (0, 2), (20, 20))}
    write(tmp_path / "x", header, np.array([7, 8], np.float32).tobytes() + bits.tobytes())
    tensors, _ = load_tensors(tmp_path / "x")
    assert tensors["b"].dtype == np.float32 and tensors["b"].tolist() == numbers.reshape(2, 3).tolist()
    assert tensors["before"].tolist() == [7, 8] and tensors["none"].shape == (0, 2)


def test_bfloat16_is_written_as_the_nearest_the_even_one_of_two(tmp_path):
    upper = [0x3F80, 0x3F81, 0x3F82]  # 1 and the two that follow it in bfloat16
    one, two, three = (np.array([bits << 16], np.uint32).view(np.float32)[0] for bits in upper)
    below, middle, above = one + (two - one) * np.float32([0.499, 0.5, 0.501])
    values = np.array([one, below, middle, above, (two + three) / 2, -middle, 0.0, 1e38, 2.0**-126], np.float32)
    save_tensors(tmp_path / "t", {"x": narrow(values.reshape(3, 3)), "y": values})
    read, _ = load_tensors(tmp_path / "t")
    expected = [one, one, one, two, three, -one, 0]
    assert np.array_equal(read["x"].reshape(-1)[:7], expected) and read["x"].dtype == np.float32
    assert np.allclose(read["x"].reshape(-1)[7:], values[7:], rtol=2**-8, atol=0) and np.array_equal(read["y"], values)
    assert read_header(tmp_path / "t").entries["x"]["dtype"] == "BF16"


def test_a_model_in_bfloat16_is_half_as_large_and_nearly_the_same(tmp_path):
    model = small_gpt1()
    model.save(tmp_path / "whole")
    model.save(tmp_path / "narrow", dtype="bfloat16")
    whole, narrow_one = (tmp_path / name / "model.safetensors" for name in ("whole", "narrow"))
    numbers = sum(parameter.data.size for _, parameter in model.named_parameters())
    header = read_header(narrow_one).start
    assert narrow_one.stat().st_size == header + 2 * numbers < whole.stat().st_size
    opened = dict(type(model).load(tmp_path / "narrow").named_parameters())
    for name, parameter in model.named_parameters():
        assert np.allclose(opened[name].data, parameter.data, rtol=2**-8, atol=0), name
    with pytest.raises(InputError, match="dtype is 'float16': give bfloat16, or leave it out"):
        model.save(tmp_path / "other", dtype="float16")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_a_model_in_half_precision(dtype, tmp_path):
    model = small_gpt2(np.float32)
    header, data = {}, b""
    for name, p in model.named_parameters():
        p.data[...] = (p.data.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(np.float16)
        raw = p.data.astype(np.float16) if dtype == "F16" else (p.data.view(np.uint32) >> 16).astype("<u2")
        p.data[...] = raw if dtype == "F16" else (raw.astype(np.uint32) << 16).view(np.float32)
        header[name] = entry(dtype, p.data.shape, (len(data), len(data) + raw.nbytes))
        data += raw.tobytes()
    model.save(tmp_path)
    write(tmp_path / "model.safetensors", header, data)
    again = GPT2.load(tmp_path)
    assert same_weights(model, again)


# --- what Hugging Face directories hold ------------------------------------------------------------------------------


def rewrite(folder, change):
    path = folder / "model.safetensors"
    save_tensors(path, change(load_tensors(path)[0]))


@pytest.fixture(params=[small_gpt1, small_gpt2])
def model(request):
    return request.param(np.float32)


def masks(n_layer=2):
    mask = {f"h.{i}.attn.bias": np.tril(np.ones((1, 1, 8, 8), np.float32)) for i in range(n_layer)}
    return mask | {f"h.{i}.attn.masked_bias": np.float32(-1e4) for i in range(n_layer)}


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_prefix_masks_and_stored_head(model, prefix, tmp_path):
    model.save(tmp_path)
    head = {"lm_head.weight": model.head.data}
    rewrite(tmp_path, lambda t: {prefix + name: a for name, a in (t | masks()).items()} | head)
    again = open_model(tmp_path)
    assert same_weights(model, again)


def test_a_head_must_be_the_token_embedding(model, tmp_path):
    """Not just any tensor of its shape."""
    model.save(tmp_path)
    other = model.head.data + 1
    for change in (
        {"lm_head.weight": other},
        {"lm_head.weight": other, "h.0.attn.bias": other[None, None]},
        {"lm_head.weight": next(p.data for name, p in model.named_parameters() if name.endswith("ln_1.weight"))},
    ):
        rewrite(tmp_path, lambda t, change=change: t | change)
        with pytest.raises(InputError, match="lm_head.weight differs from the token embedding"):
            open_model(tmp_path)


def test_only_masks_are_left_out(model, tmp_path):
    model.save(tmp_path)
    rewrite(tmp_path, lambda t: t | {"h.0.attn.bias": np.ones(8, np.float32)})
    with pytest.raises(InputError, match="h.0.attn.bias does not belong to this model"):
        open_model(tmp_path)


def test_a_tensor_under_two_names(model, tmp_path):
    model.save(tmp_path)
    rewrite(tmp_path, lambda t: t | {"transformer.h.0.ln_1.bias": t["h.0.ln_1.bias"] + 1})
    with pytest.raises(InputError, match="a tensor is there twice"):
        open_model(tmp_path)


def split(folder, n=3):
    """One file into n, with an index."""
    tensors = list(load_tensors(folder / "model.safetensors")[0].items())
    (folder / "model.safetensors").unlink()
    where = {name: f"model-{k % n + 1:05}-of-{n:05}.safetensors" for k, (name, _) in enumerate(tensors)}
    for file in set(where.values()):
        save_tensors(folder / file, {name: a for name, a in tensors if where[name] == file})
    write_text(folder / "model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": where}))
    return where


def test_weights_in_several_files(model, tmp_path):
    model.save(tmp_path)
    where = split(tmp_path)
    again = open_model(tmp_path)
    assert same_weights(model, again)
    (tmp_path / max(where.values())).unlink()
    with pytest.raises(InputError, match="00003-of-00003.safetensors does not exist"):
        open_model(tmp_path)


@pytest.mark.parametrize(
    "index",
    ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "../x.safetensors"}}',
     '{"weight_map": {"a": "/x"}}', '{"weight_map": {"a": "..\\\\x"}}'],
)  # fmt: skip
def test_a_bad_index(index, tmp_path):
    small_gpt2().save(tmp_path)
    split(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    with pytest.raises(InputError, match="index.json") as caught:
        GPT2.load(tmp_path)
    assert "\n" not in str(caught.value)


# --- OpenAI's release of GPT-1 ---------------------------------------------------------------------------------------


@pytest.fixture
def release(tmp_path):
    """A tiny GPT-1 as OpenAI published theirs, and the model. The rule of the files is written out here once more."""
    config = GPT1Config(vocab_size=11, n_positions=8, n_embd=128, n_layer=2, n_head=2)
    model = GPT1(config, seed=3)
    for p in model.parameters():
        p.data += np.random.default_rng(p.data.size).standard_normal(p.data.shape).astype(np.float32) / 8
    named = {name: p.data for name, p in model.named_parameters()}
    order = [("positions_embed.weight", (8, 128)), ("tokens_embed.weight", (11, 128))]
    for i in range(2):
        for part, *shape in (
            ("attn.c_attn", 1, 128, 384), ("attn.c_proj", 1, 128, 128), ("ln_1", 128),
            ("mlp.c_fc", 1, 128, 512), ("mlp.c_proj", 1, 512, 128), ("ln_2", 128),
        ):  # fmt: skip
            order += [(f"h.{i}.{part}.weight", shape), (f"h.{i}.{part}.bias", shape[-1:])]
    write_text(tmp_path / "params_shapes.json", json.dumps([list(shape) for _, shape in order]))
    row = np.concatenate([named[name].ravel() for name, _ in order])
    assert row.size == sum(p.data.size for p in model.parameters())
    for n, part in enumerate(np.array_split(row, 10)):
        np.save(tmp_path / f"params_{n}.npy", part)
    return tmp_path, model


def test_openais_gpt1_opens(release):
    folder, model = release
    again = open_model(folder)
    assert type(again) is GPT1 and again.config == model.config
    assert same_weights(model, again)
    ids, _ = batch(model)
    assert same(snapshot([model.forward(ids)[0]]), snapshot([GPT1.load(folder).forward(ids)[0]]))
    assert openai_release.config(folder)["n_head"] == 2
    assert set(openai_release.tensors(folder)) == {name for name, _ in model.named_parameters()}


def test_its_tokenizer_may_lie_beside_it(release):
    folder, _ = release
    tokens = ["<unk>", "a", "b", "c", "d", "a</w>", "b</w>", "c</w>", "d</w>", "ab</w>", "\n</w>"]
    write_text(folder / "encoder_bpe_40000.json", json.dumps({token: i for i, token in enumerate(tokens)}))
    write_text(folder / "vocab_40000.bpe", "#version: 0.2\na b</w>\n")
    model, text = models.open_both(folder)
    assert text.decode([9, 3]) == "ab c" and model.config.vocab_size == 11
    write_text(folder / "encoder_bpe_40000.json", json.dumps({token: i for i, token in enumerate([*tokens, "x"])}))
    with pytest.raises(InputError, match="do not belong together"):
        models.open_both(folder)


def test_a_model_directory_beside_it_comes_first(release):
    folder, _ = release
    small_gpt2().save(folder)
    assert type(open_model(folder)) is GPT2


def damage(folder, kind):
    shapes = json.loads((folder / "params_shapes.json").read_text(encoding="utf-8"))
    first = folder / "params_0.npy"
    if kind == "a missing file":
        (folder / "params_6.npy").unlink()
    elif kind == "no file":
        for path in folder.glob("*.npy"):
            path.unlink()
    elif kind == "a truncated file":
        first.write_bytes(first.read_bytes()[:-100])
    elif kind == "an empty file":
        first.write_bytes(b"")
    elif kind == "an object":
        np.save(first, np.array([{"a": 1}], object), allow_pickle=True)
    elif kind == "integers":
        for path in folder.glob("*.npy"):
            np.save(path, np.load(path, allow_pickle=False).astype(np.int32))
    elif kind == "a longer row":
        np.save(folder / "params_10.npy", np.zeros(3, np.float32))
    elif kind == "other shapes":
        shapes[2] = [128, 383]
        shapes[3] = [512]
    elif kind == "a shape less":
        shapes.pop()
    elif kind == "no shapes":
        shapes = [[2]] * 13 + [["x"]]
    elif kind == "an object of shapes":
        shapes = {}
    elif kind == "narrow heads":
        shapes[1] = [11, 12]
    write_text(folder / "params_shapes.json", json.dumps(shapes))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("a missing file", r"in the 6 files before params_6.npy, params_shapes.json wants 398,976: is a file"),
        ("no file", "0 numbers in the 0 files before params_0.npy"),
        ("a longer row", "398,979 numbers in the 11 files"),
        ("a truncated file", "params_0.npy is not a whole file of NumPy numbers"),
        ("an empty file", "params_0.npy is not a whole file of NumPy numbers"),
        ("an object", "params_0.npy is not a whole file of NumPy numbers: Object arrays cannot be loaded"),
        ("integers", "tensor tokens_embed.weight holds int32; expected floating-point numbers"),
        ("other shapes", r"h.0.attn.c_attn.weight has shape \(128, 383\); the configuration wants \(128, 384\)"),
        ("a shape less", "expected the shapes of two embeddings and of 12 tensors for each layer"),
        ("no shapes", "expected the shapes of two embeddings"),
        ("an object of shapes", "holds a dict of JSON, expected an array"),
        ("narrow heads", "n_head is 0"),
    ],
)
def test_a_damaged_release_is_refused(release, kind, message):
    folder, _ = release
    damage(folder, kind)
    with pytest.raises(InputError, match=message) as caught:
        open_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_are_not_finite(tmp_path, value):
    model = small_gpt2()
    tensors = {name: parameter.data.astype(np.float64) for name, parameter in model.named_parameters()}
    tensors["h.0.ln_1.bias"][1] = value
    save_model(tmp_path, model.config.to_dict(), tensors)
    with pytest.raises(InputError, match="h.0.ln_1.bias holds numbers that are not finite in float32"):
        open_model(tmp_path)
