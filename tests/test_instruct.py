"""minigpt instruct: files of instructions, which tokens are learned, a run and what it leaves, stopped and gone on."""

import json
import math
import os
import signal
import tomllib
from pathlib import Path

import numpy as np
import pytest
from helpers import each, error

pytest.importorskip("jinja2", reason="chat templates are written for Jinja2: pip install jinja2")
from small_family import opened
from test_finetune_resume import Killed, counted, files, keep_every

from minigpt import load_tokenizer, models, ops
from minigpt.cli import main
from minigpt.data import instructions
from minigpt.errors import InputError
from minigpt.jobs import chat_template, interrupt, template_process
from minigpt.jobs.chat import ChatOptions, open_conversation
from minigpt.jobs.chat_template import Template
from minigpt.jobs.conversation import encoded
from minigpt.jobs.instruct import InstructOptions, instruct
from minigpt.jobs.instruct.examples import Reader, batch, common, n_targets, template_for
from minigpt.jobs.instruct.tuning import Tuning
from minigpt.models.adapters import open_adapter
from minigpt.models.lora import merge_lora
from minigpt.tokenizer import CharTokenizer, GPT2Tokenizer

CHATML = tomllib.loads(Path(__file__).with_name("chat_templates.toml").read_text(encoding="utf-8"))["chatml"]
OUT = "run"
ASK = {"instruction": "the cat", "output": "sat on the mat ."}


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Templates run in this process: to start another one takes longer than the rest."""
    monkeypatch.setattr(chat_template, "_reply", template_process.answer)


def write(path: Path, *records) -> str:
    path.write_text("\n".join(json.dumps(record, ensure_ascii=False) for record in records), encoding="utf-8")
    return str(path)


def said(*contents: str, first="user") -> list[dict[str, str]]:
    """A conversation in turns."""
    roles = ["user", "assistant"] * len(contents)
    return [{"role": role, "content": text} for role, text in zip(roles[first != "user" :], contents, strict=False)]


# --- files -----------------------------------------------------------------------------------------------------------


def test_both_forms_of_a_file(tmp_path):
    records = [ASK, ASK | {"input": ""}, ASK | {"input": " a dog "}, {"messages": said("a", " b ", "c", "d"), "id": 3}]
    answer = ASK["output"]
    expected = [said("the cat", answer)] * 2 + [said("the cat\n\na dog", answer), said("a", "b", "c", "d")]
    found = instructions.read(write(tmp_path / "a.jsonl", *records))
    assert [one.messages for one in found] == expected
    assert [one.place for one in found] == ["line 1", "line 2", "line 3", "line 4"]
    (tmp_path / "a.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    found = instructions.read(tmp_path / "a.json")
    assert [one.messages for one in found] == expected and found[2].place == "entry 3"


@each("wrong", [
    ({"instruction": "a"}, "line 2: expected instruction and output, or messages, got instruction"),
    ({"text": "a"}, "line 2: expected instruction and output, or messages, got text"),
    ({}, "line 2: expected instruction and output, or messages, got nothing"),
    (ASK | {"output": " "}, "line 2: output is empty"),
    (ASK | {"output": None}, "line 2: output is None: expected a text"),
    (ASK | {"instruction": ["a"]}, "line 2: instruction is ['a']: expected a text"),
    (ASK | {"input": 3}, "line 2: input is 3: expected a text"),
    ({"messages": []}, "line 2: messages is []: expected a list of messages"),
    ({"messages": "a"}, "line 2: messages is 'a'"),
    ({"messages": said("a")}, "line 2: its last message is of the user: the answer is missing"),
    ({"messages": said("a", "b", "c")}, "line 2: its last message is of the user"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "line 2: message 1 is {'content': 'a', 'role': 'tool'}"),
    ({"messages": ["a"]}, "line 2: message 1 is 'a': expected a role, system, user, assistant, and content"),
    ({"messages": [*said("a"), {"role": "assistant", "content": ""}]}, "line 2: content is empty"),
    ({"messages": [*said("a"), {"role": "assistant"}]}, "line 2: content is None: expected a text"),
    ([1], "line 2: expected an object"),
])  # fmt: skip
def test_a_wrong_line_is_named(wrong, tmp_path):
    record, message = wrong
    with pytest.raises(InputError) as caught:
        instructions.read(write(tmp_path / "a.jsonl", ASK, record))
    assert message in str(caught.value) and "\n" not in str(caught.value)


@each("wrong", [
    ("a.txt", "x", "expected a file of instructions, .jsonl or .json"),
    ("a.jsonl", "", "is empty"),
    ("a.jsonl", None, "cannot be read"),
    ("a.jsonl", "{", "line 1: expected an object"),
    ("a.json", "[]", "holds no instructions"),
    ("a.json", "[1]", "entry 1: expected an object, got 1"),
    ("a.json", "[{", "is not JSON"),
])  # fmt: skip
def test_a_wrong_file(wrong, tmp_path):
    name, content, message = wrong
    path = tmp_path / name
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        instructions.read(path)
    assert message in str(caught.value) and "\n" not in str(caught.value)


# --- which tokens are learned ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text() -> GPT2Tokenizer:
    """A byte-level vocabulary with the special tokens of ChatML."""
    made = GPT2Tokenizer.train("the cat sat on the mat . " * 5, 290)
    return made.with_special(["<|im_start|>", "<|im_end|>"])


def reader(text, template=None, longest=200) -> Reader:
    template = template or Template(CHATML["source"], Path("here"), CHATML["tokens"])
    return Reader(template, text, [text.ids["<|im_end|>"], text.end_of_text_id], longest)


def learned(text, example) -> str:
    """The tokens that are targets, as text, with | where some are left out between two."""
    places = np.flatnonzero(example.targets != ops.IGNORED)
    gaps = np.flatnonzero(np.diff(places) > 1) + 1
    runs = np.split(example.targets[places], gaps)
    assert np.array_equal(example.targets[places[:-1]], example.ids[places[:-1] + 1]), "each is the next token"
    return "|".join("".join(text.token(i) for i in run) for run in runs).replace("Ġ", " ")


def one(messages) -> list[instructions.Instruction]:
    return [instructions.Instruction(messages, "line 1")]


def test_an_answer_and_its_end_are_learned_and_nothing_else(text):
    (example,) = reader(text).examples(one(said("the cat", "sat on the mat .")), "f")
    assert learned(text, example) == "sat on the mat .<|im_end|>"
    assert text.decode(example.ids.tolist()).startswith("<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n")
    assert example.ids.dtype == example.targets.dtype == np.int64 and example.ids.shape == example.targets.shape


def test_every_answer_of_a_conversation_is_learned(text):
    messages = [{"role": "system", "content": "the"}, *said("a", "the cat", "b", "sat")]
    (example,) = reader(text).examples(one(messages), "f")
    assert learned(text, example) == "the cat<|im_end|>|sat<|im_end|>"


def test_the_plain_template_is_alpacas_and_ends_an_answer_as_the_model_ends_a_text(text):
    plain = template_for(None, text, "gpt2")
    messages = [{"role": "system", "content": "the"}, *said("a\n\nb", "the cat", "b", "sat")]
    (example,) = reader(text, plain).examples(one(messages), "f")
    assert learned(text, example) == "the cat<|endoftext|>|sat<|endoftext|>"
    assert plain.render(messages, answer_follows=False) == (
        "the\n\n### Instruction:\na\n\nb\n\n### Response:\nthe cat<|endoftext|>\n\n"
        "### Instruction:\nb\n\n### Response:\nsat<|endoftext|>\n\n"
    )
    assert plain.render(messages[:2]) == "the\n\n### Instruction:\na\n\nb\n\n### Response:\n"
    with pytest.raises(InputError, match="no token that ends a text"):
        template_for(None, CharTokenizer.train("abc"), "chars")


def test_a_token_over_the_border_of_an_answer_is_learned(text):
    """The template ends in the middle of a token: what the model learns to write first is the whole one."""
    begun = "{% if not loop.last or add_generation_prompt %} th{% endif %}"
    source = "{% for m in messages %}{{ m.content }}" + begun + "{% endfor %}"
    assert text.encode(" the") == [text.ids["Ġthe"]] and text.ids["Ġthe"] not in text.encode(" th")
    (example,) = reader(text, Template(source, Path("here"), {})).examples(one(said("cat", "e mat")), "f")
    assert learned(text, example) == " the mat"
    assert common([1, 2, 3], [1, 2, 4, 5]) == 2 and common([1], [1, 2]) == 1 and common([], [1]) == 0


def test_what_does_not_fit_names_its_place(text):
    several = [*one(said("a", "b")), instructions.Instruction(said("the cat " * 30, "sat"), "line 2")]
    with pytest.raises(InputError, match=r"f, line 2: it makes \d+ tokens .* it, and the model sees 40"):
        reader(text, longest=40).examples(several, "f")
    refusing = "{% if messages[0].content == 'c' %}{{ raise_exception('no c') }}{% endif %}" + CHATML["source"]
    with pytest.raises(InputError, match="f, line 3: the chat template in here does not take this conversation: no c"):
        many = [instructions.Instruction(said(word, "b"), f"line {n}") for n, word in enumerate("abcd", 1)]
        reader(text, Template(refusing, Path("here"), {})).examples(many, "f")
    silent = Template("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", Path("here"), {})
    with pytest.raises(InputError, match="f, line 1: the chat template in here leaves nothing of its answer"):
        reader(text, silent).examples(one(said("a", "b")), "f")


def test_several_processes_render_many(monkeypatch):
    monkeypatch.setattr(chat_template, "AT_ONCE", 2)
    template = Template("{{ messages[0] + 1 }}", Path("here"), {})
    assert template.render_all([([n], True) for n in range(5)]) == ["1", "2", "3", "4", "5"]
    with pytest.raises(chat_template.NotRendered) as caught:
        template.render_all([([n], True) for n in (0, 1, 2, "x")])
    assert caught.value.number == 3


def test_a_batch_is_filled_up_at_the_right(text):
    examples = reader(text).examples([*one(said("a", "b")), *one(said("the cat sat", "on"))], "f")
    ids, targets = batch(examples)
    assert ids.shape == targets.shape == (2, max(len(example.ids) for example in examples))
    assert (targets[0, len(examples[0].ids) :] == ops.IGNORED).all() and (ids[0, len(examples[0].ids) :] == 0).all()
    assert n_targets(examples) == (targets != ops.IGNORED).sum()


# --- a run -----------------------------------------------------------------------------------------------------------

WORDS = "the cat sat on mat dog saw".split()


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    """The directory of a small GPT-2, which has no chat template."""
    folder = tmp_path_factory.mktemp("base")
    model, text = opened("gpt2", GPT2Tokenizer)
    sizes = {"n_positions": 48, "vocab_size": text.vocab_size, "n_embd": 8, "n_layer": 2, "n_head": 2}
    model = models.card("gpt2").model(model.Config(**sizes), seed=0)
    model.save(folder)
    text.save(folder)
    return str(folder)


@pytest.fixture(scope="module")
def options(base, tmp_path_factory) -> dict:
    """Two epochs of three updates, with dropout. Relative names: a run is in a folder of its own."""
    folder = tmp_path_factory.mktemp("files")
    records = [{"instruction": f"the {a} {b}", "output": f"{b} {a} ."} for a in WORDS for b in WORDS[:2]]
    train = write(folder / "mine.jsonl", *records)
    other = folder / "other.txt"
    other.write_text("the dog saw the cat . " * 60, encoding="utf-8")
    return {"model": base, "file": train, "other": str(other), "epochs": 2, "batch": 4, "lora": 2, "lr": 0.02,
            "out": OUT}  # fmt: skip


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    """The folder of a run that nothing disturbs, and what is in it."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(chat_template, "_reply", template_process.answer)
        assert instruct(InstructOptions(**options)) == 0
    return folder / OUT, files(folder / OUT)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The folder of a run that is disturbed; the working folder is the one that it lies in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / OUT


def rows_of(folder: Path) -> list[dict[str, str]]:
    head, *lines = (folder / "instruct.csv").read_text(encoding="utf-8").splitlines()
    return [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]


def test_what_a_run_leaves(whole, options):
    folder, left = whole
    assert set(left) == {
        "config.json", "model.safetensors", "vocab.json", "merges.txt", "tokenizer_config.json", "chat_template.jinja",
        "instruct.csv", "resume.safetensors", "adapter/adapter_config.json", "adapter/adapter_model.safetensors",
    }  # fmt: skip
    rows = rows_of(folder)
    assert [(row["step"], row["epoch"]) for row in rows] == [("0", "0"), ("3", "1"), ("6", "2")]
    assert float(rows[-1]["valid_loss"]) < float(rows[0]["valid_loss"]) and rows[0]["train_loss"] == ""
    assert rows[0]["other_loss"] != rows[1]["other_loss"]


def test_the_model_is_the_base_with_the_adapters_merged(whole, options):
    folder, _ = whole
    model, before = models.open_model(folder), models.open_model(options["model"])
    ids = np.arange(12)[None]
    open_adapter(before, folder / "adapter")
    beside, _ = before.forward(ids, grad=False)
    assert error(model.forward(ids, grad=False)[0], beside) < 1e-6
    merge_lora(before)
    names = [name for name, p in model.named_parameters() if "c_" in name and p.data.ndim == 2]
    after, first = dict(model.named_parameters()), dict(models.open_model(options["model"]).named_parameters())
    changed = {name for name in after if not np.array_equal(after[name].data, first[name].data)}
    assert changed == set(names), "the matrices of the blocks, and nothing else"
    assert all(np.linalg.matrix_rank(after[name].data - first[name].data, tol=1e-5) <= 2 for name in names)


def test_one_can_talk_with_it(whole):
    folder, _ = whole
    talk = open_conversation(ChatOptions(folder=str(folder), max_tokens=4, temperature=0.0))
    assert isinstance("".join(talk.answer("the cat")), str)
    assert isinstance("".join(talk.answer("the dog")), str), "a template that names the end of an answer"
    text = load_tokenizer(folder)
    rendered = talk.template.render(said("a", "b", "c"))
    assert encoded(text, rendered).count(text.end_of_text_id) == 1 and talk.stops == (text.end_of_text_id,)


def test_its_first_loss_is_that_of_the_base(whole, options):
    folder, _ = whole
    model, text = models.open_both(options["model"])
    plain = template_for(None, text, "base")
    examples = Reader(plain, text, [text.end_of_text_id], 48).examples(instructions.read(options["file"]), "f")
    order = np.random.default_rng([0, 1]).permutation(14)
    total, count = 0.0, 0
    for i in order[:1]:  # a tenth of 14
        ids, targets = batch([examples[i]])
        total += float(model.loss(ids, targets, normalizer=1, grad=False)[0])
        count += n_targets([examples[i]])
    assert abs(float(rows_of(folder)[0]["valid_loss"]) - total / count) < 1e-5


def test_a_second_run_of_the_same_is_finished(whole, options, capsys, monkeypatch):
    folder, left = whole
    monkeypatch.chdir(folder.parent)
    assert instruct(InstructOptions(**options)) == 0
    assert "this run is finished: loss on answers kept apart" in capsys.readouterr().out
    assert files(folder) == left


def stop_after(monkeypatch, n: int) -> None:
    """Ctrl-C during update number n."""
    real, calls = Tuning.update, []

    def update(one):
        calls.append(1)
        if len(calls) == n:
            signal.raise_signal(signal.SIGINT)
        return real(one)

    monkeypatch.setattr(Tuning, "update", update)


@pytest.mark.parametrize("n", [1, 3, 4])
def test_stopped_and_gone_on_with_it_ends_in_the_same_bits(n, whole, options, here, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        stop_after(patch, n)
        assert instruct(InstructOptions(**options)) == signal.SIGINT
    assert f"stopped at update {n}; everything is kept" in capsys.readouterr().out
    assert not (here / "model.safetensors").exists()
    assert instruct(InstructOptions(**options)) == 0
    assert f"at update {n}" in capsys.readouterr().out
    assert files(here) == whole[1]


WRITES = 20


def test_how_many_files_a_run_writes(options, here, monkeypatch):
    calls = counted(monkeypatch, os, "replace", 0, None)
    instruct(InstructOptions(**options))
    assert len(calls) == WRITES and Path(calls[0][1]).name == "resume.safetensors"


@each("number", [1, 2, 5, 10, WRITES - 3, WRITES])
def test_killed_at_a_file_the_same_command_ends_with_the_same_bytes(number, whole, options, tmp_path):
    place = tmp_path / str(number)
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        keep_every(patch, 0)
        with patch.context() as inner, pytest.raises(Killed):
            counted(inner, os, "replace", number, Killed())
            instruct(InstructOptions(**options))
        assert instruct(InstructOptions(**options)) == 0
        assert files(place / OUT) == whole[1]


def test_a_signal_during_an_evaluation(whole, options, here, monkeypatch):
    real = Tuning.loss_of_other

    def loss_of_other(one):
        if one.step == 3:
            signal.raise_signal(signal.SIGTERM)
        return real(one)

    with monkeypatch.context() as patch:
        patch.setattr(Tuning, "loss_of_other", loss_of_other)
        assert instruct(InstructOptions(**options)) == signal.SIGTERM
    assert instruct(InstructOptions(**options)) == 0 and files(here) == whole[1]


def test_a_file_to_judge_by_and_another_base(options, here, tmp_path, capsys):
    """Of a model with a template of its own, all instructions are learned from, and others choose the epoch."""
    model, text = opened("llama", GPT2Tokenizer)
    text = text.with_special(["<|im_start|>", "<|im_end|>"])
    sizes = {"n_positions": 64, "vocab_size": text.vocab_size, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_inner": 12}
    models.card("llama").model(model.Config(**sizes), seed=0).save(tmp_path / "base")
    text.save(tmp_path / "base")
    (tmp_path / "base" / "chat_template.jinja").write_text(CHATML["source"], encoding="utf-8")
    ends = {"eos_token_id": text.ids["<|im_end|>"]}
    (tmp_path / "base" / "generation_config.json").write_text(json.dumps(ends), encoding="utf-8")
    valid = write(tmp_path / "valid.jsonl", ASK)
    own = {"model": str(tmp_path / "base"), "valid": valid, "epochs": 1, "layers": ("c_attn", "down"), "alpha": 1.0}
    assert instruct(InstructOptions(**options | own)) == 0
    said_first = capsys.readouterr().out
    assert "14 conversations to learn from, 1 kept apart" in said_first and "learn beside 2 layers" in said_first
    assert (here / "chat_template.jinja").read_text(encoding="utf-8") == CHATML["source"]
    talk = open_conversation(ChatOptions(folder=str(here), max_tokens=2))
    assert text.ids["<|im_end|>"] in talk.stops
    about = json.loads((here / "adapter" / "adapter_config.json").read_text(encoding="utf-8"))
    assert about["lora_alpha"] == 1 and set(about["target_modules"]) == {"q_proj", "k_proj", "v_proj", "down_proj"}


@each("wrong", [
    ({"lora": 0}, "--lora 0: give 1 or more"),
    ({"lora": 9}, "rank is 9: give 1 to 8, because h.0.attn.c_attn is 8 x 24"),
    ({"layers": ("q",)}, "no layer is called 'q': its linear layers are c_attn, c_proj, c_fc"),
    ({"alpha": 0.0}, "--alpha 0.0: give a number above 0"),
    ({"epochs": 0}, "--epochs 0: give 1 or more"),
    ({"lr": math.nan}, "--lr nan: give 0 or more"),
    ({"warmup": 1.0}, "--warmup 1.0: give a share"),
    ({"seed": -1}, "--seed -1: give 0 or more"),
    ({"model": "nothing"}, "nothing"),
    ({"file": "missing.jsonl"}, "missing.jsonl cannot be read"),
    ({"valid": "missing.jsonl"}, "missing.jsonl cannot be read"),
    ({"other": "missing.txt"}, "missing.txt does not exist"),
])  # fmt: skip
def test_what_cannot_work_is_told_before_anything_is_written(wrong, options, tmp_path):
    changes, message = wrong
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with pytest.raises(InputError) as caught:
            instruct(InstructOptions(**options | changes))
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_one_instruction_a_long_one_and_an_encoder(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    single = write(tmp_path / "one.jsonl", ASK)
    with pytest.raises(InputError, match=r"one.jsonl holds one instruction: give more, .* or --valid"):
        instruct(InstructOptions(**options | {"file": single}))
    long = write(tmp_path / "long.jsonl", ASK, ASK | {"output": "the dog " * 40})
    with pytest.raises(InputError, match=r"long.jsonl, line 2: it makes \d+ tokens .* the model sees 48: shorten it"):
        instruct(InstructOptions(**options | {"file": long}))
    for kind in ("bert", "bart"):
        model, text = opened(kind)
        model.save(tmp_path / kind)
        text.save(tmp_path / kind)
        (tmp_path / kind / "chat_template.jinja").write_text("x", encoding="utf-8")
        with pytest.raises(InputError, match=f"{kind} holds a {type(model).__name__}, which does not go on with"):
            instruct(InstructOptions(**options | {"model": kind}))
    assert not (tmp_path / OUT).exists()


@each("other", [
    ({"lr": 0.5}, "with --lr 0.02, this command says --lr 0.5"),
    ({"epochs": 7}, "with --epochs 2, this command says --epochs 7"),
    ({"layers": ("c_attn",)}, "with no --layers, this command says --layers"),
    ({"file": "other.jsonl"}, "the instructions of FILE are not what the run in run began with"),
    ({"other": "other.jsonl"}, "with --other"),
])  # fmt: skip
def test_another_run_is_not_gone_on_with(other, whole, options, tmp_path):
    changes, message = other
    folder, left = whole
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.parent)
        write(folder.parent / "other.jsonl", *[ASK] * 14)
        with pytest.raises(InputError) as caught:
            instruct(InstructOptions(**options | changes))
    assert message in str(caught.value) and files(folder) == left


def test_a_folder_in_use_is_left_alone(options, here):
    here.mkdir()
    (here / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="already holds a config.json: give another --out"):
        instruct(InstructOptions(**options))
    assert [path.name for path in here.iterdir() if path.name != ".lock"] == ["config.json"]


def test_a_rate_that_is_too_large_is_told(options, here):
    with pytest.raises(InputError, match="give a smaller --lr than 1e\\+30"), np.errstate(all="ignore"):
        instruct(InstructOptions(**options | {"lr": 1e30}))


def test_the_command_line(options, here, monkeypatch, capsys):
    words = ["instruct", options["model"], options["file"], "--other", options["other"], "--epochs", "1", "--lora", "1",
             "--batch", "8", "--layers", "c_attn, mlp.c_proj"]  # fmt: skip
    assert main([*words, "--out", OUT]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"now: minigpt chat {OUT}"
    with monkeypatch.context() as patch:
        patch.setattr(interrupt, "_tell", lambda number: None)
        stop_after(patch, 1)
        assert main([*words, "--out", "second"]) == 128 + signal.SIGINT
    assert main([*words, "--out", "third", "--layers", "a,,b"]) == 2
    assert "--layers a,,b: give names of linear layers" in capsys.readouterr().err
    monkeypatch.chdir(here.parent)
    (here.parent / "mine.jsonl").write_bytes(Path(options["file"]).read_bytes())
    assert main([*words[:2], "mine.jsonl", *words[3:]]) == 0
    assert (here.parent / "runs" / f"{Path(options['model']).name}-mine" / "model.safetensors").is_file()
