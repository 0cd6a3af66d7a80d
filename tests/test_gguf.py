"""GGUF files: every number and setting of a small model comes back, and damaged ones are refused in a line.

The files are written by the package `gguf`, which the extra of this name installs; without it all of this is skipped.
"""

import json
import struct
import sys
import weakref
import zipfile

import numpy as np
import pytest
import small_gguf
from small_gguf import BYTES, CONTROL, KINDS, NORMAL, SIZES, TOKENS, UNUSED, USER_DEFINED, in_gguf, settings_of, small

from minigpt import load_tokenizer, open_model
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.files import gguf, gguf_llama, published
from minigpt.files.tensors import load_tensors
from minigpt.jobs import convert
from minigpt.models.costs import human_bytes
from minigpt.tokenizer import of_gguf, sentencepiece_bpe, spiece
from minigpt.tokenizer.spiece import NormalizerSpec, Piece

package = pytest.importorskip("gguf", reason="the package gguf is needed: pip install gguf")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def converted(path, out="out", dtype="float32"):
    """The configuration and the weights of a directory made of a file."""
    convert.convert_file(path, out, dtype, lambda line: None)
    with open(f"{out}/config.json", encoding="utf-8") as file:
        return json.load(file), load_tensors(f"{out}/model.safetensors")[0]


def refusal(capsys, path="model.gguf", *more):
    """What `minigpt convert` says in its one line of error, with the exit status 2; no folder is left."""
    before = sorted(entry.name for entry in path_of(".").iterdir())
    assert main(["convert", str(path), "out", *more]) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1 and error[0].startswith("minigpt: ")
    assert sorted(entry.name for entry in path_of(".").iterdir()) == before
    return error[0]


def path_of(name):
    return published.Path(name)


# --- a whole model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_every_number_of_a_small_model(here, capsys, tied):
    weights = small("model.gguf", tied=tied)
    assert main(["convert", "model.gguf", "models/mine"]) == 0
    out, told = capsys.readouterr()
    n_parameters = sum(numbers.size for numbers in weights.values())
    size = path_of("models/mine/model.safetensors").stat().st_size
    assert out.splitlines() == [
        "architecture  llama: 2 blocks of width 32, 4 heads, which share 2 of keys and values",
        f"parameters    {n_parameters:,}",
        f"quantisation  F32 in {len(weights)} of {len(weights)} tensors",
        f"vocabulary    {len(TOKENS)} tokens, with a template for chats",
        "context       64 tokens",
        f"written       models/mine: {human_bytes(size)} of float32",
    ]
    assert told == "now: minigpt chat models/mine\n"
    found, _ = load_tensors("models/mine/model.safetensors")
    assert set(found) == set(weights)
    for name, numbers in weights.items():
        assert np.array_equal(found[name], numbers), name
    config = json.loads(path_of("models/mine/config.json").read_text(encoding="utf-8"))
    assert config == {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "vocab_size": len(TOKENS),
        "max_position_embeddings": 64, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "rope_scaling": None, "tie_word_embeddings": tied, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
        "torch_dtype": "float32",
    }  # fmt: skip
    ends = json.loads(path_of("models/mine/generation_config.json").read_text(encoding="utf-8"))
    assert ends == {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def test_our_own_model_opens_it_and_writes_with_it(here):
    weights = small("model.gguf", tied=False)
    converted("model.gguf")
    model, text = open_model("out"), load_tokenizer("out")
    assert model.config.model_type == "llama" and model.config.n_kv_head == 2
    named = {name: parameter.data for name, parameter in model.named_parameters()}
    assert np.array_equal(named["lm_head.weight"], weights["lm_head.weight"])
    ids = np.array([text.encode("the 12")])
    assert model.generate(ids, 3).shape == (1, ids.shape[1] + 3)


def test_what_a_file_need_not_say(here):
    left_out = {"rope__freq_base", "attention__head_count_kv", "rope__dimension_count", "vocab_size"}
    small("model.gguf", sizes=SIZES | {"groups": 4}, **{f"llama__{name}": None for name in left_out})
    config, _ = converted("model.gguf")
    assert (config["rope_theta"], config["num_key_value_heads"], config["head_dim"]) == (10000.0, 4, 8)


def test_heads_that_are_no_share_of_the_width(here):
    sizes = SIZES | {"columns": 12, "heads": 3, "groups": 1}
    columns = {"llama__attention__key_length": ("uint32", 12), "llama__attention__value_length": ("uint32", 12)}
    weights = small("model.gguf", sizes=sizes, **columns)
    config, found = converted("model.gguf")
    assert config["head_dim"] == 12
    assert all(np.array_equal(found[name], numbers) for name, numbers in weights.items())


def test_a_setting_for_each_block_may_be_a_list_of_the_same(here, capsys):
    small("model.gguf", llama__attention__head_count=("array", [4, 4]))
    assert converted("model.gguf")[0]["num_attention_heads"] == 4
    small("model.gguf", llama__attention__head_count=("array", [4, 2]))
    path_of("out").rename("first")
    assert "llama.attention.head_count is [4, 2]: expected a whole number above 0" in refusal(capsys)


def test_another_alignment(here):
    weights = small("model.gguf", general__alignment=("uint32", 256))
    _, found = converted("model.gguf")
    assert all(np.array_equal(found[name], numbers) for name, numbers in weights.items())


# --- positions -------------------------------------------------------------------------------------------------------


def test_linear_scaling_by_its_new_name_and_by_its_old(here):
    named = {"llama__rope__scaling__type": ("string", "linear"), "llama__rope__scaling__factor": ("float32", 2.5)}
    for k, others in enumerate([named, {"llama__rope__scale_linear": ("float32", 2.5)}]):
        small("model.gguf", **others)
        assert converted("model.gguf", f"out{k}")[0]["rope_scaling"] == {"rope_type": "linear", "factor": 2.5}
    small("model.gguf", **named | {"llama__rope__scaling__type": ("string", "none")})
    assert converted("model.gguf", "none")[0]["rope_scaling"] is None


def llama_3_divisors(factor, columns=32, theta=500000.0, old_context=8192):
    """As llama.cpp's converter computes them, one by one."""
    found = []
    for i in range(0, columns, 2):
        wavelength = 2 * np.pi * theta ** (i / columns)
        if wavelength < old_context / 4:
            found.append(1.0)
        elif wavelength > old_context:
            found.append(factor)
        else:
            smooth = (old_context / wavelength - 1) / 3
            found.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(found, np.float32)


def with_divisors(divisors, **others):
    """A file with the tensor of Llama 3.1's scaling."""
    sizes = SIZES | {"columns": 32, "heads": 2, "groups": 1}
    named = {"llama__rope__freq_base": ("float32", 500000.0), "llama__attention__key_length": ("uint32", 32),
             "llama__attention__value_length": ("uint32", 32)} | others  # fmt: skip
    tensors = in_gguf(small_gguf.weights_of(sizes), sizes) | {"rope_freqs.weight": divisors}
    small_gguf.write("model.gguf", settings_of(sizes, **named), tensors)


def test_the_scaling_of_llama_3(here, capsys):
    expected = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    for factor in (8.0, 32.0):
        with_divisors(llama_3_divisors(factor))
        scaling = converted("model.gguf", f"by{factor}")[0]["rope_scaling"]
        assert scaling == expected | {"rope_type": "llama3", "factor": factor}
    with_divisors(np.ones(16, np.float32))
    assert converted("model.gguf", "by 1")[0]["rope_scaling"] is None
    other = llama_3_divisors(8.0)
    other[9] *= 1.01
    with_divisors(other)
    assert "rope_freqs.weight scales its positions: built are linear and that of Llama 3" in refusal(capsys)
    with_divisors(llama_3_divisors(8.0), llama__rope__scale_linear=("float32", 2.0))
    assert "rope_freqs.weight scales its positions" in refusal(capsys)


# --- quantised tensors -----------------------------------------------------------------------------------------------


def test_every_quantisation_that_the_package_unpacks(here):
    """Random bytes for those that it cannot make itself; the bits that would give an infinite scale are off."""
    rng = np.random.default_rng(0)
    tensors, expected, refused = {}, {}, []
    for kind in package.GGMLQuantizationType:
        numbers, size = package.GGML_QUANT_SIZES[kind]
        content = rng.integers(0, 256, (3, 2 * size), np.uint8) & 0xFB
        try:
            with np.errstate(all="ignore"):
                expected[kind.name] = package.dequantize(content, kind)
        except NotImplementedError:
            refused.append(kind.name)
        tensors[kind.name] = (content, kind)
    small_gguf.write("model.gguf", {}, tensors)
    header = gguf.read_header("model.gguf")
    for name, numbers in expected.items():
        assert np.array_equal(gguf.unpack(header, name), numbers), name
        assert header.tensors[name].shape == numbers.shape and gguf.check(header, name).name == name
    assert len(expected) >= 20 and {"F32", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_NL"} <= set(expected)
    for name in refused:
        with pytest.raises(InputError, match=f"the tensor {name}: the quantisation {name} cannot be unpacked .* Q8_0"):
            gguf.unpack(header, name)
    assert "Q8_K" in refused


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q5_1", "Q4_0"])
def test_a_quantised_model(here, kind):
    """Rows of q and k are put back after they are unpacked: a block is a part of a row."""
    sizes = SIZES | {"inner": 64}
    weights = small("model.gguf", kind=kind, sizes=sizes)
    _, found = converted("model.gguf")
    kept = package.GGMLQuantizationType[kind]
    for name, numbers in weights.items():
        if numbers.ndim == 2:
            numbers = package.dequantize(package.quantize(numbers, kept), kept)
        assert np.array_equal(found[name], numbers), name
    told = []
    convert.convert_file("model.gguf", "again", "float32", told.append)
    assert f"quantisation  {kind} in 15, F32 in 5 of 20 tensors" in told


def test_the_weights_in_16_bits(here, capsys):
    weights = small("model.gguf")
    sizes = {}
    for dtype in convert.DTYPES:
        config, found = converted("model.gguf", dtype, dtype)
        assert config["torch_dtype"] == dtype
        for name, numbers in weights.items():
            error = np.abs(found[name].astype(float) - numbers).max() / np.abs(numbers).max()
            assert error <= {"float32": 0, "bfloat16": 2**-8, "float16": 2**-11}[dtype]
        sizes[dtype] = path_of(dtype).joinpath("model.safetensors").stat().st_size
    assert sizes["float16"] < 0.6 * sizes["float32"] and sizes["bfloat16"] < 0.6 * sizes["float32"]
    tensors = in_gguf(weights)
    tensors["output_norm.weight"][3] = 70000
    small_gguf.write("model.gguf", settings_of(), tensors)
    said = refusal(capsys, "model.gguf", "--dtype", "float16")
    assert "model.norm.weight holds 70000, too large for float16: give --dtype bfloat16" in said


def test_one_tensor_is_in_memory_at_a_time(here, monkeypatch):
    small("model.gguf")
    read, alive, most = gguf_llama.read, [], []

    def watched(header, weight):
        numbers = read(header, weight)
        most.append(sum(one() is not None for one in alive) + 1)
        base = numbers
        while base.base is not None:
            base = base.base
        alive.append(weakref.ref(base))
        return numbers

    monkeypatch.setattr(gguf_llama, "read", watched)
    converted("model.gguf")
    assert len(most) == 20 and max(most) <= 2  # the one before may wait for its last name to go


# --- tokenizers ------------------------------------------------------------------------------------------------------


def tokenizer_of(folder="tok", **others):
    """The tokenizer of a file with these settings; None leaves one out."""
    others = {name: value for name, value in (BYTES | others).items() if value is not None}
    settings = {name: value for name, (_, value) in settings_of(tokenizer=others).items()}
    described = of_gguf.described(settings, path_of("model.gguf"))
    path_of(folder).mkdir(exist_ok=True)
    for name, content in (("tokenizer.json", described.tokenizer), ("tokenizer_config.json", described.config)):
        path_of(folder).joinpath(name).write_text(json.dumps(content), encoding="utf-8")
    return load_tokenizer(folder), described


@pytest.mark.parametrize(("pre", "text", "words"), [
    ("smollm", "the 12  3", ["the", "Ġ", "1", "2", "ĠĠ", "3"]),
    ("gpt-2", "the 12  3", ["the", "Ġ1", "2", "Ġ", "Ġ", "3"]),
    ("llama-bpe", "the 12  3", ["the", "Ġ", "12", "Ġ", "Ġ", "3"]),
    ("qwen2", "e\u0301 12", ["Ã", "©", "Ġ", "1", "2"]),
    ("tekken", "inThe 12", ["in", "T", "h", "e", "Ġ", "1", "2"]),
    ("gpt-4o", "inThe 12", ["in", "T", "h", "e", "Ġ", "12"]),
])  # fmt: skip
def test_words_of_a_byte_level_vocabulary(here, pre, text, words):
    tokenizer, _ = tokenizer_of(pre=("string", pre))
    ids = tokenizer.encode(text)
    assert [tokenizer.tokens[i] for i in ids] == words
    assert tokenizer.decode(ids) == (text if pre != "qwen2" else "é 12")


def test_a_word_that_is_a_token_is_taken_whatever_the_merges_say(here):
    longer = {"tokens": ("array", [*TOKENS, "abc"]), "token_type": ("array", [*KINDS, NORMAL])}
    for pre, expected in (("llama-bpe", ["abc"]), ("smollm", ["a", "b", "c"])):
        tokenizer, _ = tokenizer_of(**longer, pre=("string", pre))
        assert [tokenizer.tokens[i] for i in tokenizer.encode("abc")] == expected


def test_tokens_that_are_cut_out_and_those_that_are_never_used(here):
    tokenizer, _ = tokenizer_of()
    names = ["<|im_start|>", "a", "<think>", "<|im_end|>"]
    assert [tokenizer.tokens[i] for i in tokenizer.encode("".join(names))] == names
    assert "[PAD268]" not in [tokenizer.tokens[i] for i in tokenizer.encode("[PAD268]")]
    assert tokenizer.decode(tokenizer.encode("<|im_start|>a<think>"), skip_special=True) == "a<think>"
    assert tokenizer.end_of_text_id == 2 and tokenizer.role("start") == 1 and tokenizer.role("pad") == 0
    assert len(tokenizer.tokens) == len(TOKENS)


def test_tokens_around_a_text(here):
    for bos, eos, expected in ((False, False, [1, 1]), (True, False, [1, 1, 1]), (True, True, [1, 1, 1, 2])):
        tokenizer, described = tokenizer_of(add_bos_token=("bool", bos), add_eos_token=("bool", eos))
        assert tokenizer.wrap([1, 1])[0] == expected
        assert (described.config["add_bos_token"], described.config["add_eos_token"]) == (bos, eos)
    tokenizer, _ = tokenizer_of(pre=("string", "llama-bpe"), add_bos_token=None)
    assert tokenizer.wrap([7])[0] == [1, 7], "where the file does not say, it is so for Llama 3"
    tokenizer, _ = tokenizer_of(add_bos_token=("bool", True), bos_token_id=None)
    assert tokenizer.wrap([7])[0] == [7]


def test_token_0_may_be_named_where_there_is_none_for_padding(here):
    letters = {"tokens": ("array", TOKENS[3:]), "token_type": ("array", KINDS[3:])}
    tokenizer, described = tokenizer_of(**letters, bos_token_id=None, eos_token_id=None)
    assert "pad_token" not in described.config and described.ids == {}
    first = TOKENS[3]
    assert tokenizer.tokens[tokenizer.encode("\0")[0]] == first and tokenizer.special == ()


def test_the_tokens_that_begin_and_end_a_text_are_special_whatever_their_type(here):
    tokenizer, described = tokenizer_of(token_type=None)
    assert tokenizer.encode("<|im_start|>a<|im_end|>")[::2] == [1, 2]
    assert tokenizer.special == ("<|im_start|>", "<|im_end|>")
    assert described.ids == {"bos_token_id": 1, "eos_token_id": 2}


def test_two_tokens_end_an_answer(here):
    small("model.gguf", tokenizer=BYTES | {"eot_token_id": ("uint32", 0)})
    converted("model.gguf")
    ends = json.loads(path_of("out/generation_config.json").read_text(encoding="utf-8"))
    assert ends["eos_token_id"] == [2, 0]


@pytest.fixture(scope="module")
def pieces():
    """The content of a file of SentencePiece, learnt from a text."""
    text = "the old man went to the park and the old dog went with him to the old park in the morning " * 3
    identity = NormalizerSpec("identity", remove_extra_whitespaces=False)
    return sentencepiece_bpe.learn(text, 320, byte_fallback=True, normalizer=identity, progress=False)


def of_pieces(content, **others):
    """The settings that llama.cpp's converter writes of such a file."""
    return {
        "model": ("string", "llama"),
        "pre": ("string", "default"),
        "tokens": ("array", [piece.text for piece in content.pieces]),
        "scores": ("array", [float(piece.score) for piece in content.pieces]),
        "token_type": ("array", [piece.kind for piece in content.pieces]),
        "bos_token_id": ("uint32", 1),
        "eos_token_id": ("uint32", 2),
        "unknown_token_id": ("uint32", 0),
        "merges": None, "padding_token_id": None, "add_bos_token": None,
    } | others  # fmt: skip


PLAIN = ["the old man", " the  old", "", "  ", "went\n\tto", "한국 é 😀", "parkmorning", "wentwent him", "a b c"]


def test_pieces_with_scores_give_the_ids_of_the_file_of_sentencepiece(here, pieces):
    tokenizer, _ = tokenizer_of(**of_pieces(pieces))
    spiece.write(path_of("tokenizer.model"), pieces)
    path_of("config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    original = load_tokenizer(".")
    for text in PLAIN:
        assert tokenizer.encode(text) == original.encode(text), text
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.wrap([5])[0] == [1, 5], "a text begins with <s> where the file does not say"
    assert tokenizer.encode("the</s>old")[1:2] != [] and 2 in tokenizer.encode("the</s>old")


def test_pieces_without_a_space_in_front(here, pieces):
    tokenizer, _ = tokenizer_of(**of_pieces(pieces, add_space_prefix=("bool", False), add_bos_token=("bool", False)))
    with_space, _ = tokenizer_of("other", **of_pieces(pieces))
    assert tokenizer.encode(" the old") == with_space.encode("the old") and tokenizer.wrap([5])[0] == [5]
    for text in PLAIN:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_pieces_that_are_cut_out_or_never_used(here, pieces):
    more = [Piece("<|im_start|>", 0.0, CONTROL), Piece("old man", 0.0, USER_DEFINED), Piece("▁park▁in", 0.0, UNUSED)]
    tokenizer, _ = tokenizer_of(**of_pieces(pieces._replace(pieces=[*pieces.pieces, *more])))
    plain, _ = tokenizer_of("plain", **of_pieces(pieces))
    n = len(pieces.pieces)
    assert tokenizer.encode("park in") == plain.encode("park in")
    assert n in tokenizer.encode("a<|im_start|>b") and n + 1 in tokenizer.encode("the old man went")
    assert tokenizer.decode([n, n + 1], skip_special=True) == "old man"


# --- what is refused -------------------------------------------------------------------------------------------------


REFUSED = {  # {what is said: the settings of the file}
    "llama.context_length is None: expected a whole number above 0": {"llama__context_length": None},
    "llama.block_count is 0: expected": {"llama__block_count": ("uint32", 0)},
    "llama.embedding_length is '32': expected": {"llama__embedding_length": ("string", "32")},
    "llama.attention.layer_norm_rms_epsilon is None: expected": {"llama__attention__layer_norm_rms_epsilon": None},
    "llama.rope.freq_base is nan: expected": {"llama__rope__freq_base": ("float32", float("nan"))},
    "4 heads share 3 of keys and values: the first must be": {"llama__attention__head_count_kv": ("uint32", 3)},
    "a head has 7 columns: expected an even number": {"llama__attention__key_length": ("uint32", 7)},
    "llama.rope.dimension_count is 4: built is that of a head of keys, 8": {
        "llama__rope__dimension_count": ("uint32", 4)
    },
    "the scaling of its positions is 'yarn': built are linear and that of Llama 3": {
        "llama__rope__scaling__type": ("string", "yarn")
    },
    "it is a mixture of experts: built are models with one MLP": {"llama__expert_count": ("uint32", 8)},
    "its setting 'llama.attention.sliding_window' is 4: no such setting is known": {
        "llama__attention__sliding_window": ("uint32", 4)
    },
    "it is one of 3 parts: join them with llama-gguf-split --merge": {"split__count": ("uint16", 3)},
    "it holds a 'adapter': give the file of a model": {"general__type": ("string", "adapter")},
    "the tensor blk.2.attn_norm.weight is missing": {"llama__block_count": ("uint32", 3)},
    "the tensor 'blk.1.attn_k.weight' is not known": {"llama__block_count": ("uint32", 1)},
    "the tensor blk.0.ffn_gate.weight has the shape (48, 32): expected (47, 32)": {
        "llama__feed_forward_length": ("uint32", 47)
    },
    "it has 9 by llama.vocab_size, 269 in its vocabulary, 269 in token_embd.weight": {
        "llama__vocab_size": ("uint32", 9)
    },
    "269 by llama.vocab_size, 0 in its vocabulary": {"tokenizer__ggml__tokens": None},
    "tokenizer.ggml.model is 'bert': built are gpt2, llama": {"tokenizer__ggml__model": ("string", "bert")},
    "tokenizer.ggml.model is None: built": {"tokenizer__ggml__model": None},
    "tokenizer.ggml.model is ['gpt2']: built": {"tokenizer__ggml__model": ("array", ["gpt2"])},
    "tokenizer.ggml.pre is 'viking': built are gpt-2, ": {"tokenizer__ggml__pre": ("string", "viking")},
    "tokenizer.ggml.pre is None: built": {"tokenizer__ggml__pre": None},
    "tokenizer.ggml.merges is None: expected a list of texts": {"tokenizer__ggml__merges": None},
    "needs the token 'qz', which the vocabulary lacks": {"tokenizer__ggml__merges": ("array", ["q z"])},
    "merge 1: \"['q', 'z', 'z']\" is not a merge": {"tokenizer__ggml__merges": ("array", ["q z z"])},
    "tokenizer.ggml.token_type is [1, 1]: expected one for each of 269 tokens": {
        "tokenizer__ggml__token_type": ("array", [1, 1])
    },
    "tokenizer.ggml.eos_token_id is 269: there are 269 tokens": {"tokenizer__ggml__eos_token_id": ("uint32", 269)},
    "the token '<|endoftext|>' is there twice, as 0 and 268": {
        "tokenizer__ggml__tokens": ("array", [*TOKENS[:-1], "<|endoftext|>"])
    },
    "tokenizer.ggml.add_bos_token is 1: expected true or false": {"tokenizer__ggml__add_bos_token": ("uint32", 1)},
    "tokenizer.ggml.add_space_prefix is True: with a byte-level": {"tokenizer__ggml__add_space_prefix": ("bool", True)},
    "tokenizer.ggml.scores is None: expected a list of finite numbers": {"tokenizer__ggml__model": ("string", "llama")},
}


def test_a_setting_that_is_missing_damaged_or_not_built(here, capsys):
    wrong = {}
    tensors = in_gguf(small_gguf.weights_of())
    for said, others in REFUSED.items():
        small_gguf.write("model.gguf", settings_of(**others), tensors)
        line = refusal(capsys)
        if said not in line or "model.gguf" not in line:
            wrong[said] = line
    assert wrong == {}


def test_pieces_without_a_score_or_without_one_that_is_unknown(here, pieces):
    kinds = [NORMAL if piece.kind == spiece.UNKNOWN else piece.kind for piece in pieces.pieces]
    scores = [float("nan"), *(piece.score for piece in pieces.pieces[1:])]
    with pytest.raises(InputError, match=r"scores is .*: expected a list of finite numbers"):
        tokenizer_of(**of_pieces(pieces, scores=("array", scores)))
    with pytest.raises(InputError, match=r"token_type is .*: expected one 2, of the token for what is unknown"):
        tokenizer_of(**of_pieces(pieces, token_type=("array", kinds)))


def test_another_architecture_is_named(here, capsys):
    small("model.gguf", architecture="gemma2")
    assert "model.gguf: its architecture is 'gemma2': built is 'llama'" in refusal(capsys)


def test_a_quantisation_that_is_not_known_is_named(here, capsys):
    small("model.gguf")
    content = bytearray(path_of("model.gguf").read_bytes())
    name = b"blk.1.attn_v.weight"
    place = content.index(name) + len(name) + 4 + 2 * 8
    assert struct.unpack_from("<I", content, place) == (0,)
    for kind, said in {
        99: "blk.1.attn_v.weight: the quantisation 99 is not known to the package gguf: install a newer one",
        9: "blk.1.attn_v.weight: the quantisation Q8_1 cannot be unpacked by the package gguf",
        14: "blk.1.attn_v.weight has the shape (16, 32), and Q6_K keeps 256 numbers together: the file is damaged",
    }.items():
        struct.pack_into("<I", content, place, kind)
        path_of("model.gguf").write_bytes(content)
        assert said in refusal(capsys)


def test_a_tensor_that_is_missing_or_not_known(here, capsys):
    tensors = in_gguf(small_gguf.weights_of())
    for name in ("token_embd.weight", "blk.0.attn_q.weight", "output_norm.weight"):
        small_gguf.write("model.gguf", settings_of(), {key: one for key, one in tensors.items() if key != name})
        assert f"the tensor {name} is missing" in refusal(capsys)
    small_gguf.write("model.gguf", settings_of(), tensors | {"blk.0.attn_q.bias": np.ones(32, np.float32)})
    assert "the tensor 'blk.0.attn_q.bias' is not known: no model of this architecture has it" in refusal(capsys)


def test_numbers_that_are_not_finite(here, capsys):
    tensors = in_gguf(small_gguf.weights_of())
    tensors["blk.1.ffn_up.weight"][3, 4] = np.inf
    small_gguf.write("model.gguf", settings_of(), tensors)
    assert "blk.1.ffn_up.weight holds numbers that are not finite: the file is damaged" in refusal(capsys)


def test_what_is_no_gguf_file_or_another_version(here, capsys):
    small("model.gguf")
    content = path_of("model.gguf").read_bytes()
    for start, said in {
        b"PK\3\4": "model.gguf is no GGUF file: it does not begin with GGUF",
        b"GGUF\1\0\0\0": "is of version 1 of the format: built are 2 and 3; convert the model again",
        b"GGUF\4\0\0\0": "is of version 4 of the format",
        b"GGUF\0\0\0\3": "keeps the high byte first, which is not built",
        b"GGUF\3\0\0\0" + b"\xff" * 8: "it is damaged or cut off",
    }.items():
        path_of("model.gguf").write_bytes(start + content[len(start) :])
        assert said in refusal(capsys)
    path_of("model.gguf").write_bytes(b"")
    assert "no whole GGUF file (it ends in the middle of its header)" in refusal(capsys)
    assert "nothing.gguf is no file: give a GGUF file" in refusal(capsys, "nothing.gguf")
    path_of("folder.gguf").mkdir()
    assert "folder.gguf is no file" in refusal(capsys, "folder.gguf")


def test_version_2_is_read(here):
    weights = small("model.gguf")
    content = path_of("model.gguf").read_bytes()
    path_of("model.gguf").write_bytes(b"GGUF\2\0\0\0" + content[8:])
    assert np.array_equal(converted("model.gguf")[1]["model.norm.weight"], weights["model.norm.weight"])


def test_a_file_that_is_cut_off_anywhere(here):
    small("model.gguf")
    content = path_of("model.gguf").read_bytes()
    header = gguf.read_header("model.gguf")
    last = max(tensor.start for tensor in header.tensors.values())
    begin = min(tensor.start for tensor in header.tensors.values())
    lengths = {*range(0, 400), *range(400, begin, 97), *range(begin, last, 5001), last, len(content) - 32}
    wrong = []
    for length in sorted(lengths):
        path_of("model.gguf").write_bytes(content[:length])
        try:
            convert.look("model.gguf")
            wrong.append((length, "opened"))
        except InputError as error:
            if "cut off" not in str(error) and "does not begin" not in str(error):
                wrong.append((length, str(error)))
    assert wrong == []


def test_damaged_bytes_are_refused_or_change_nothing_but_values(here):
    """Bytes of the header, of its tensors, and some of the vocabulary: an InputError in one line, or a sound file."""
    small("model.gguf", sizes=SIZES | {"layers": 1})
    content = path_of("model.gguf").read_bytes()
    begin = min(tensor.start for tensor in gguf.read_header("model.gguf").tensors.values())
    rng = np.random.default_rng(0)
    places = [*range(0, 700, 3), *rng.integers(700, begin, 80), *range(begin - 700, begin, 9)]
    refused, wrong = 0, []
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= int(rng.integers(1, 256))
        path_of("model.gguf").write_bytes(damaged)
        try:
            convert.look("model.gguf")
        except InputError as error:
            refused += 1
            if "\n" in str(error):
                wrong.append((place, str(error)))
    assert wrong == [] and refused > len(places) / 2


def test_a_number_of_axes_and_an_alignment_that_no_file_has(here, capsys):
    small("model.gguf", general__alignment=("uint32", 64))
    content = path_of("model.gguf").read_bytes()
    for name, value, said in (
        (b"blk.1.attn_v.weight", 5, "a tensor has 5 axes, and 4 at most are possible"),
        (b"general.alignment\4\0\0\0", 0, "its general.alignment is 0"),
    ):
        damaged = bytearray(content)
        struct.pack_into("<I", damaged, content.index(name) + len(name), value)
        path_of("model.gguf").write_bytes(damaged)
        assert said in refusal(capsys)


def test_a_length_that_no_file_has_costs_nothing(here, capsys):
    """A list of 2**60 numbers, and one of 2**60 texts."""
    small("model.gguf")
    content = bytearray(path_of("model.gguf").read_bytes())
    for name in (b"tokenizer.ggml.token_type", b"tokenizer.ggml.tokens"):
        damaged = bytearray(content)
        place = content.index(name + b"\x09") + len(name) + 8
        struct.pack_into("<Q", damaged, place, 2**60)
        path_of("model.gguf").write_bytes(damaged)
        assert "it ends in the middle of its header" in refusal(capsys)


def test_names_that_are_there_twice(here, capsys):
    small("model.gguf")
    content = path_of("model.gguf").read_bytes()
    path_of("model.gguf").write_bytes(content.replace(b"blk.1.attn_k.weight", b"blk.0.attn_k.weight"))
    assert "its tensor 'blk.0.attn_k.weight' is there twice" in refusal(capsys)
    path_of("model.gguf").write_bytes(content.replace(b"llama.rope.freq_base", b"llama.context_length"))
    assert "its setting 'llama.context_length' is there twice" in refusal(capsys)


def test_without_the_package_a_line_says_what_to_install(here, capsys, monkeypatch):
    small("model.gguf")
    gguf.quantisation.cache_clear()
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert "GGUF files are unpacked by the package gguf: pip install gguf" in refusal(capsys)


# --- the folder ------------------------------------------------------------------------------------------------------


def test_nothing_is_overwritten(here, capsys):
    small("model.gguf")
    path_of("out").mkdir()
    converted("model.gguf")  # into an empty folder
    kept = {path.name: path.read_bytes() for path in path_of("out").iterdir()}
    assert "out is there already: give a folder that is not, for nothing is overwritten" in refusal(capsys)
    assert {path.name: path.read_bytes() for path in path_of("out").iterdir()} == kept
    path_of("file").touch()
    assert main(["convert", "model.gguf", "file"]) == 2 and "file is there already" in capsys.readouterr().err
    assert main(["convert", "model.gguf", "file/in"]) == 2 and "cannot write file/in" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError("the disk is full")])
def test_what_is_half_written_is_removed(here, monkeypatch, error):
    small("model.gguf")
    read, calls = gguf_llama.read, []

    def stopped(header, weight):
        calls.append(weight)
        if len(calls) == 9:
            raise error
        return read(header, weight)

    monkeypatch.setattr(gguf_llama, "read", stopped)
    with pytest.raises(BaseException, match="the disk is full" if isinstance(error, InputError) else None):
        converted("model.gguf")
    assert len(calls) == 9 and [path.name for path in path_of(".").iterdir()] == ["model.gguf"]


def test_a_command_that_is_given_the_file_says_how_to_convert_it(here, capsys):
    small("model.gguf")
    assert main(["sample", "model.gguf"]) == 2
    said = capsys.readouterr().err
    assert "it has no config.json, it is a file: minigpt convert model.gguf FOLDER makes one of it" in said


# --- download --------------------------------------------------------------------------------------------------------


@pytest.fixture
def packed(here, monkeypatch):
    """A wheel with a small GGUF file, in the table of published models as `small`."""
    small("small.Q8.gguf")
    with zipfile.ZipFile("small-1.0-py3-none-any.whl", "w") as archive:
        archive.write("small.Q8.gguf", "small/small.Q8.gguf")
    model = published.PUBLISHED["smollm2"]._replace(
        package="small==1.0", wheel=published.sha256(path_of("small-1.0-py3-none-any.whl")), folder="small",
        gguf="small.Q8.gguf", sha256={"small.Q8.gguf": published.sha256(path_of("small.Q8.gguf"))},
    )  # fmt: skip
    monkeypatch.setitem(published.PUBLISHED, "small", model)
    monkeypatch.setenv("MINIGPT_CACHE", str(here / "mine"))
    return here


@pytest.mark.parametrize("source", ["small-1.0-py3-none-any.whl", "small.Q8.gguf"])
def test_download_converts_the_file_in_the_wheel(packed, capsys, source):
    assert main(["download", "small", "--from", source]) == 0
    out, told = capsys.readouterr()
    assert out == f"{packed / 'mine' / 'small'}\n" and "\nnow: minigpt chat small\n" in told
    assert sorted(path.name for path in (packed / "mine" / "small").iterdir()) == [
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    assert open_model("small").config.n_layer == 2 and load_tokenizer(packed / "mine" / "small").end_of_text_id == 2
    path_of(source).unlink()
    assert main(["download", "small"]) == 0, "all is there: nothing is fetched"
    assert f"{packed / 'mine' / 'small'} is there already" in capsys.readouterr().err


def test_download_refuses_another_file_before_and_after(packed, capsys, monkeypatch):
    with open("small.Q8.gguf", "ab") as file:
        file.write(b"x")
    assert main(["download", "small", "--from", "small.Q8.gguf"]) == 2
    assert "small.Q8.gguf has the sha256" in capsys.readouterr().err
    path_of("kept").mkdir()
    path_of("kept/notes.txt").touch()
    assert main(["download", "small", "--out", "kept"]) == 2
    assert capsys.readouterr().err == (
        "minigpt: kept is there already: give a folder that is not, for nothing is overwritten\n"
    )
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert main(["download", "small"]) == 2
    assert capsys.readouterr().err == "minigpt: GGUF files are unpacked by the package gguf: pip install gguf\n"


def test_where_pip_cannot_fetch_it_the_other_name_is_told(packed, capsys):
    path_of("empty").mkdir()
    assert main(["download", "small", "--from", "empty"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.endswith("name it with --from; or, from huggingface.co: minigpt download SmolLM2-135M-Instruct")
    assert "SmolLM2-135M-Instruct" in published.PUBLISHED
