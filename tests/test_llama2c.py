"""Weights of llama2.c: a file made here by its published form, damaged ones, and the real model of 260,032 numbers."""

import json
import struct

import numpy as np
import pytest
from helpers import moved

from minigpt import models
from minigpt.cli.main import main
from minigpt.errors import InputError
from minigpt.files import checkpoint, llama2c
from minigpt.models.family.llama import Llama, LlamaConfig

SIZES = (12, 7, 2, 6, 3, 11, 5)  # width, inner width, layers, heads, heads of keys, vocabulary, context
ORDER = ("ln_1", "q", "k", "v", "attn.c_proj", "ln_2", "mlp.gate", "mlp.down", "mlp.up")


def small(tied=True) -> Llama:
    """A model whose tensors are all different."""
    width, inner, layers, heads, of_keys, vocabulary, context = SIZES
    config = LlamaConfig(
        n_embd=width, n_inner=inner, n_layer=layers, n_head=heads, n_kv_head=of_keys, vocab_size=vocabulary,
        n_positions=context, layer_norm_epsilon=1e-5, tie_word_embeddings=tied,
    )  # fmt: skip
    model = Llama(config, seed=0)
    return moved(model)


def as_neighbours(weight, heads):
    """(NH D,C) -> the row of each pair's second number behind that of its first, written as a loop."""
    size = len(weight) // heads
    rows = []
    for head in range(heads):
        for i in range(size // 2):
            rows += [head * size + i, head * size + i + size // 2]
    return weight[rows]


def content_of(model, tied=True) -> bytes:
    """The file that llama2.c would write of it, tensor after tensor."""
    config = model.config
    parts = {name: parameter.data for name, parameter in model.named_parameters()}
    parts = {name.removesuffix(".weight"): data for name, data in parts.items()}
    for i in range(config.n_layer):
        packed = parts[f"h.{i}.attn.c_attn"]
        q, k, v = np.split(packed.T, [12, 18])
        parts[f"h.{i}.q"], parts[f"h.{i}.k"] = as_neighbours(q, 6).T, as_neighbours(k, 3).T
        parts[f"h.{i}.v"] = v.T
    found = [parts["tokens_embed"]]
    for name in ORDER:
        found += [parts[f"h.{i}.{name}"].T for i in range(config.n_layer)]
    found += [parts["ln_f"], np.zeros(2 * 5 * 1)]
    if not tied:
        found.append(parts["lm_head"])
    header = (*SIZES[:5], SIZES[5] if tied else -SIZES[5], SIZES[6])
    return struct.pack("<7i", *header) + b"".join(one.astype("<f4").tobytes() for one in found)


@pytest.mark.parametrize("tied", [True, False])
def test_a_file_gives_the_model_that_was_written(tied, tmp_path):
    model = small(tied)
    (tmp_path / "m.bin").write_bytes(content_of(model, tied))
    config, tensors = llama2c.read(tmp_path / "m.bin")
    checkpoint.save_model(tmp_path / "m", config, tensors, None)
    opened = Llama.load(tmp_path / "m")
    again = dict(opened.named_parameters())
    for name, parameter in model.named_parameters():
        assert np.array_equal(parameter.data, again.pop(name).data), name
    assert not again


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:20], "has 20 bytes: these are no weights of llama2.c"),
        (lambda content: content[:-4], "and its header needs "),
        (lambda content: content + b"\0\0\0\0", "and its header needs "),
        (lambda content: struct.pack("<i", 13) + content[4:], r"begins with \(13, 7, 2, 6, 3, 11, 5\), which are no"),
        (lambda content: struct.pack("<2i", 12, -7) + content[8:], "which are no sizes of a LLaMA"),
        (lambda content: struct.pack("<5i", 12, 7, 2, 6, 4) + content[20:], "which are no sizes of a LLaMA"),
    ],
)
def test_damaged_files_are_refused_in_one_line(damage, message, tmp_path):
    path = tmp_path / "m.bin"
    path.write_bytes(damage(content_of(small())))
    with pytest.raises(InputError, match=message) as raised:
        llama2c.read(path)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        llama2c.read(tmp_path / "none.bin")


def pieces(n: int) -> bytes:
    """A vocabulary file of llama2.c with the three special pieces, the 256 bytes and some letters."""
    texts = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(f"<0x{i:02X}>".encode() for i in range(256)), b" ", b"a", b" a"]
    found = [struct.pack("<fi", -float(i), len(text)) + text for i, text in enumerate(texts[:n])]
    return struct.pack("<i", 7) + b"".join(found)


def test_one_command_makes_a_model_directory_with_its_vocabulary(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(globals(), "SIZES", (*SIZES[:5], 262, 12))
    model = small()
    content = content_of(model)
    config = struct.pack("<7i", *SIZES)
    weights = config + content[28:] + np.zeros(2 * 7 * 1, "<f4").tobytes()  # angles of seven places more than five
    (tmp_path / "m.bin").write_bytes(weights)
    (tmp_path / "tok.bin").write_bytes(pieces(262))
    command = ["convert", str(tmp_path / "m.bin"), str(tmp_path / "m"), "--vocabulary", str(tmp_path / "tok.bin")]
    assert main(command) == 0
    opened, text = models.open_both(tmp_path / "m")
    assert np.array_equal(opened.head.data, model.head.data) and text.before_text == [1]
    assert main(["sample", str(tmp_path / "m"), "--prompt", "a", "--tokens", "2", "--temperature", "0"]) == 0
    told = capsys.readouterr()
    ids = opened.generate(np.array([[1, *text.encode("a")]]), 2, temperature=0)[0, 1:]
    assert told.out.endswith(f"{text.decode(ids.tolist())}\n")
    assert main(command) == 2
    (tmp_path / "tok.bin").write_bytes(pieces(261))
    command[2] = str(tmp_path / "other")
    assert main(command) == 2
    assert "261 pieces, and the weights 262 rows" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_real_model_tells_the_story_word_for_word(eval_data, tmp_path):
    """Against transformers in float64, whose RMSNorm computes in float32: hence the bounds."""
    path = eval_data / "real_models.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    expected = json.loads(path.read_text(encoding="utf-8"))["stories260K"]
    config, tensors = llama2c.read(eval_data / expected["file"])
    checkpoint.save_model(tmp_path, config, tensors, None)
    model = Llama.load(tmp_path, dtype=np.float64)
    ids = np.array([expected["greedy_from_1"]])
    assert sum(parameter.data.size for parameter in model.parameters()) == 260_032
    assert model.generate(ids[:, :1], ids.shape[1] - 1, temperature=0).tolist() == ids.tolist()
    loss, _ = model.loss(ids[:, :-1], ids[:, 1:], grad=False)
    assert abs(loss - expected["loss_of_that"]) < 1e-6
    logits, _ = model.forward(np.array([[1, 403, 407, 261, 378]]), grad=False)
    found = logits[0, -1, :8]
    assert np.abs(found - expected["logits_of_1_403_407_261_378_last_first8"]).max() < 5e-6
