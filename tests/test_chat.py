"""minigpt chat: templates, a conversation and what is kept of it, terminal and pipe, one line for every mistake."""

import importlib.metadata
import io
import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from helpers import error

pytest.importorskip("jinja2", reason="chat templates are written for Jinja2: pip install jinja2")
from safetensors.numpy import load_file, save_file
from small_gguf import BYTES, VOCABULARY

from minigpt import models
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs import chat, chat_template, conversation, template_process
from minigpt.jobs.chat import ChatOptions, open_conversation
from minigpt.jobs.chat_template import Template
from minigpt.jobs.conversation import encoded
from minigpt.tokenizer import of_gguf

PUBLISHED = tomllib.loads(Path(__file__).with_name("chat_templates.toml").read_text(encoding="utf-8"))
CHATML = PUBLISHED["chatml"]["source"]
CONTEXT = 192
FINAL = 2  # <|im_end|>
SIZES = {
    "llama": {"n_layer": 2, "n_head": 4, "n_kv_head": 2, "n_inner": 16, "head_size": 6},
    "gpt2": {"n_layer": 2, "n_head": 4},
    "lstm": {"n_layer": 1, "n_head": 1},
    "bert": {"n_layer": 2, "n_head": 4},
    "t5": {"n_layer": 1, "n_head": 4, "d_ff": 16},
}
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Héllo\n"}]


def template_of(name: str, path="here") -> Template:
    return Template(PUBLISHED[name]["source"], Path(path), PUBLISHED[name]["tokens"])


def rendered_by(source: str) -> str:
    return Template(source, Path("here"), {}).render(HELLO)


# --- templates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_templates_of_published_models(name):
    if "refuses" in PUBLISHED[name]:
        with pytest.raises(InputError, match="does not take this conversation: ") as refused:
            template_of(name).render(HELLO)
        assert str(refused.value).endswith(PUBLISHED[name]["refuses"])
        assert template_of(name).render(HELLO[1:]) == "<s>[INST]  Héllo\n [/INST]"
    else:
        assert template_of(name).render(HELLO) == PUBLISHED[name]["rendered"]


@pytest.mark.parity
@pytest.mark.parametrize("name", PUBLISHED)
def test_templates_as_transformers_renders_them(name, chatty):
    """With and without a system message, one turn to three, spaces, quotes, marks of Jinja, other scripts."""
    transformers = pytest.importorskip("transformers", reason='the extra "parity" is needed')
    theirs = transformers.AutoTokenizer.from_pretrained(chatty())
    theirs.add_special_tokens(PUBLISHED[name]["tokens"])
    theirs.chat_template = PUBLISHED[name]["source"]
    named = {key: value for key, value in theirs.special_tokens_map.items() if isinstance(value, str)}
    ours = template_of(name)._replace(tokens=named)
    says = [" Hello\n", 'a "b" <c> & {{ d }}', "안녕 \U0001f600 ", "{% if x %}", "e\n\nf", "g"]
    turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(says)]
    for before in ([], [{"role": "system", "content": " Be brief.\n"}]):
        for n in (1, 3, 5):
            messages = before + turns[:n]
            if before and name == "mistral":
                with pytest.raises(InputError, match="does not take"):
                    ours.render(messages)
                continue
            expected = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            assert ours.render(messages) == expected


@pytest.mark.parity
def test_ids_are_those_of_transformers(chatty):
    transformers = pytest.importorskip("transformers", reason='the extra "parity" is needed')
    theirs = transformers.AutoTokenizer.from_pretrained(chatty())
    talk = opened(chatty())
    says = ["the cat's 12 hats", " in  \n", "안녕 <|im_end|> 9"]
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(says)]
    expected = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert encoded(talk.text, talk.template.render(messages)) == expected


BAD = {  # a template -> what is told of it
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}": "did not come to an end in 1 s",
    "{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}": "writes more than 10,000,000 characters",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "calls itself without an end",
    "{{ messages[0].name.first }}": "'dict object' has no attribute 'name'",
    "a\n{% for %}": "line 2: Expected an expression",
    "{{ 1 / 0 }}": "division by zero",
    "{{ ''.__class__.name }}": "access to attribute '__class__' of 'str' object is unsafe",
    "{{ messages.append(1) }}": "access to attribute 'append' of 'list' object is unsafe",
    "{{ cycler.__init__.__globals__.os.popen('id') }}": "unsafe",
    "{{ raise_exception('no\nsystem') }}": "does not take this conversation: no system",
}


@pytest.mark.parametrize("source", BAD)
def test_a_template_that_cannot_be_used(source, monkeypatch):
    if "99999) %}{% for" in source:
        monkeypatch.setattr(chat_template, "SECONDS", 1.0)
    with pytest.raises(InputError, match="the chat template in here ") as refused:
        rendered_by(source)
    assert BAD[source] in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is limited here by other means, or not at all")
@pytest.mark.parametrize("source", [
    "{{ 'x' * 10 ** 10 }}",
    "{% set ns = namespace(s='xx') %}{% for a in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{{ '%9999999999d' % 1 }}",
])  # fmt: skip
def test_a_template_that_wants_gigabytes(source):
    with pytest.raises(InputError, match="needs more than 512 MB of memory"):
        rendered_by(source)


def test_a_process_that_ends_before_it_answers(monkeypatch, tmp_path):
    (tmp_path / "program.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(chat_template, "PROGRAM", tmp_path / "program.py")
    with pytest.raises(InputError, match="its process ended with status 3"):
        rendered_by("x")


def test_without_jinja_and_with_an_old_one(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(InputError, match=r"Jinja2, which is not installed: pip install 'jinja2>=3.1.6'"):
        rendered_by("x")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.1.5")
    with pytest.raises(InputError, match=r"Jinja2 3.1.5 has holes .* pip install 'jinja2>=3.1.6'"):
        rendered_by("x")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.10.0rc1")
    assert rendered_by("x") == "x"


def test_where_a_template_is_found(tmp_path):
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "pad_token": None}

    def found(**settings):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | settings), encoding="utf-8")
        return chat_template.find(tmp_path)

    assert found() is None
    one = found(chat_template="a")
    assert one.source == "a" and one.path.name == "tokenizer_config.json"
    assert one.tokens == {"bos_token": "<s>", "eos_token": "</s>"}
    named = [{"name": "tool_use", "template": "b"}, {"name": "default", "template": "c"}]
    assert found(chat_template=named).source == "c"
    for names, several in (("tool_use", named[:1]), ("", [])):
        with pytest.raises(InputError, match=f"chat templates with the names {names}: one must be 'default'"):
            found(chat_template=several)
    for wrong in (3, {"a": "b"}, ["a"], [{"name": "default"}], [{"name": "default", "template": 3}]):
        with pytest.raises(InputError, match="expected a text, or a list of objects with name and template"):
            found(chat_template=wrong)
    (tmp_path / "chat_template.jinja").write_text("d", encoding="utf-8")
    one = found(chat_template="a")
    assert one.source == "d" and one.path.name == "chat_template.jinja" and one.tokens["eos_token"] == "</s>"


# --- a model that talks ----------------------------------------------------------------------------------------------


@pytest.fixture
def chatty(tmp_path, monkeypatch):
    """A function that makes the directory of a small model with a byte-level vocabulary; None leaves a file out.

    Templates run in this process: to start another one takes longer than an answer.
    """
    monkeypatch.setattr(chat_template, "_reply", template_process.answer)

    def made(generation=None, config=None, template=CHATML, name="llama") -> str:
        folder = tmp_path / name
        card = models.card(name)
        sizes = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_embd": 12}
        model, rng = card.model(card.model.Config(**sizes | SIZES[name])), np.random.default_rng(0)
        for parameter in model.parameters():
            parameter.data += 0.5 * rng.standard_normal(parameter.data.shape).astype(np.float32)
        model.save(folder)
        described = of_gguf.described({f"tokenizer.ggml.{key}": value for key, (_, value) in BYTES.items()}, folder)
        settings = described.config | ({} if template is None else {"chat_template": template})
        written = {"tokenizer.json": described.tokenizer, "tokenizer_config.json": settings}
        if config is not None:  # of another program, whose weights do not say with which configuration they were saved
            before = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            written["config.json"] = before | {"eos_token_id": config}
            save_file(load_file(folder / "model.safetensors"), folder / "model.safetensors")
        if generation is not None:
            written["generation_config.json"] = {"eos_token_id": generation}
        for file, content in written.items():
            (folder / file).write_text(json.dumps(content), encoding="utf-8")
        return str(folder)

    return made


def opened(folder: str, **options) -> conversation.Conversation:
    told = []
    talk = open_conversation(ChatOptions(**{"folder": folder, "max_tokens": 9, "temperature": 0.0} | options))
    talk.told, talk.tell = told, told.append
    return talk


def expected_answer(talk, history, n_tokens=9, **options) -> str:
    """The answer to the last message, computed from the whole text at once, without what was read before."""
    ids = encoded(talk.text, talk.template.render([*talk.before, *history]))
    written = []
    for step in talk.model.stream([ids], n_tokens, **{"temperature": 0, "stop": talk.stops} | options):
        if int(step[0]) not in talk.stops:
            written.append(int(step[0]))
    special = {talk.text.ids[token] for token in talk.text.special}
    return talk.text.decode([i for i in written if i not in special])


def check_past(talk) -> None:
    """The past holds what the model computes when it reads the same ids at once."""
    (length,) = {one.length for one in talk._past}
    fresh = talk.model.new_past()
    talk.model.hidden(np.array([talk._ids[:length]]), fresh, grad=False)
    for mine, expected in zip(talk._past, fresh, strict=True):
        for a, b in zip(mine.read(), expected.read(), strict=True):
            assert error(a, b) < 1e-5


def turns(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def typed(monkeypatch, text, at_terminal=False):
    """What stands in standard input."""
    stream = io.TextIOWrapper(io.BytesIO(text if isinstance(text, bytes) else text.encode()), encoding="utf-8")
    stream.isatty = lambda: at_terminal
    monkeypatch.setattr(sys, "stdin", stream)


def says(*words):
    """In the place of model.stream: writes these tokens."""

    def stream(ids, n_tokens, **options):
        yield from (np.array([word]) for word in words[:n_tokens])

    return stream


def test_a_pipe_gets_the_answer_alone(chatty, monkeypatch, capsys):
    folder = chatty()
    typed(monkeypatch, "the cat?\n")
    assert main(["chat", folder, "--temperature", "0", "--max-tokens", "9"]) == 0
    out, err = capsys.readouterr()
    assert out == expected_answer(opened(folder), turns("the cat?")) + "\n" and len(out) > 3
    assert err == chat.ENDS["max-tokens"] + "\n"


def test_a_pipe_of_a_real_shell(chatty):
    """Two processes: the command, and the one in which it renders the template."""
    folder = chatty()
    command = [sys.executable, "-m", "minigpt", "chat", folder, "--temperature", "0", "--max-tokens", "9"]
    done = subprocess.run(command, input=b"the cat?", capture_output=True, check=True)
    expected = expected_answer(opened(folder), turns("the cat?"))
    assert done.stdout.decode("utf-8") == expected + os.linesep


def test_lines_of_a_pipe_are_one_conversation(chatty, monkeypatch, capsys):
    folder = chatty()
    typed(monkeypatch, '\na 1\n/nothing\n"""b\n\n2\n"""\n/reset\nc 3\n/quit\nd\n')
    assert main(["chat", folder, "--temperature", "0", "--max-tokens", "6", "--system", "Be."]) == 0
    out, err = capsys.readouterr()
    talk = opened(folder)
    talk.before = [{"role": "system", "content": "Be."}]
    first = expected_answer(talk, turns("a 1"), 6)
    second = expected_answer(talk, turns("a 1", first, "b\n\n2"), 6)
    third = expected_answer(talk, turns("c 3"), 6)
    assert out == f"{first}\n{second}\n{third}\n"
    assert "there is no /nothing: /help shows what there is" in err and "/usr" not in err


def test_at_the_terminal_the_first_line_says_what_talks(chatty, monkeypatch, capsys):
    folder = chatty()
    typed(monkeypatch, "/help\n/a/path is a message\n", at_terminal=True)
    monkeypatch.setattr(chat, "about_threads", lambda: "7 threads")
    assert main(["chat", folder, "--max-tokens", "4"]) == 0
    out, err = capsys.readouterr()
    model = models.open_model(folder)
    n_parameters = sum(parameter.data.size for parameter in model.parameters())
    about = f"{folder}: {n_parameters:,} parameters, context of {CONTEXT} tokens, 7 threads. /help shows the commands"
    assert err.splitlines()[0] == about and chat.HELP in err and "there is no" not in err
    assert len(out) > len(chat.PROMPT) * 3


@pytest.mark.parametrize("name", ["llama", "gpt2", "lstm"])
def test_only_what_is_new_is_read(name, chatty, constants):
    """Every answer is that of a model which reads the whole conversation, in pieces too; an LSTM cannot go back."""
    constants.set(read_at_once=7)
    talk = opened(chatty(name=name))
    n_read = []
    hidden = talk.model.hidden

    def spy(ids, *args, **options):
        n_read.append(np.shape(ids)[1])
        return hidden(ids, *args, **options)

    history = []
    for question in ("the cat", "in the 12 hats", "why"):
        talk.model.hidden = spy
        n_read.clear()
        answer = "".join(talk.answer(question))
        talk.model.hidden = hidden
        history += turns(question)
        n_ids = len(encoded(talk.text, talk.template.render(history)))
        n_new = sum(n_read) - 8  # the last of nine tokens is not read
        assert answer == expected_answer(talk, history)
        assert max(n_read) <= 7
        assert n_new == n_ids if len(history) == 1 or name == "lstm" else n_new < n_ids / 2 + 20
        history += [{"role": "assistant", "content": answer}]
        if name != "lstm":
            check_past(talk)
    assert talk.history == history


def test_characters_come_whole_and_special_tokens_are_not_written(chatty):
    talk = opened(chatty(), max_tokens=99)
    letters = talk.text.encode("é안\U0001f600e")
    assert len(letters) == 10
    talk.model.stream = says(*letters, 1, *letters[:2], FINAL, *letters)
    assert list(talk.answer("a")) == ["é", "안", "\U0001f600", "e", "é"]
    assert talk.ended_by == "" and talk.history[-1]["content"] == "é안\U0001f600eé"
    talk.model.stream = says(letters[0], letters[2])  # half a character, then half another one
    assert "".join(talk.answer("b")) == "\ufffd\ufffd"


@pytest.mark.parametrize(("files", "expected"), [
    ({}, [2]), ({"generation": 5}, [2, 5]), ({"config": [9]}, [2, 9]),
    ({"generation": [7, 5], "config": 6}, [2, 5, 6, 7]),
])  # fmt: skip
def test_tokens_that_end_an_answer(files, expected, chatty):
    talk = opened(chatty(**files), max_tokens=99)
    assert list(talk.stops) == expected
    for stop in expected:
        talk.model.stream = says(*talk.text.encode("ab"), stop, *talk.text.encode("cd"))
        assert "".join(talk.answer("x")) == "ab" and talk.ended_by == ""


@pytest.mark.parametrize("files", [{"generation": "2"}, {"generation": [2, VOCABULARY]}, {"generation": True}])
def test_tokens_that_cannot_end_an_answer(files, chatty):
    with pytest.raises(InputError, match=f"eos_token_id is .*: expected a token id from 0 to {VOCABULARY - 1}"):
        opened(chatty(**files))


def test_the_same_seed_gives_the_same_answers(chatty):
    folder = chatty()
    hot = {"temperature": 2.0, "top_p": 1.0, "max_tokens": 12}

    def answers(seed):
        talk = opened(folder, seed=seed, **hot)
        found = ["".join(talk.answer("a")), "".join(talk.answer("a"))]
        talk.reset()
        return [*found, "".join(talk.answer("a"))]

    assert opened(folder, temperature=0.3, top_p=0.7).sampling == {"temperature": 0.3, "top_p": 0.7}
    first = answers(3)
    assert first == answers(3) and first != answers(4)
    assert first[2] == first[0] and first[1] != first[0]
    talk = opened(folder)
    options = {"temperature": 2.0, "seed": 4}
    assert first[1] == expected_answer(talk, turns("a", first[0], "a"), 12, **options)


@pytest.mark.parametrize("max_tokens", [20, CONTEXT])
def test_the_oldest_turns_are_forgotten(max_tokens, chatty):
    """As few as make room for an answer, of a quarter of the context at most; and it is told which they were."""
    talk = opened(chatty(), max_tokens=max_tokens, system="S")
    longest = CONTEXT - min(max_tokens, CONTEXT // 4)
    before = turns(*[f"{what} {i}" for i in range(4) for what in ("question", "answer")])

    def length(messages):
        return len(encoded(talk.text, talk.template.render([*talk.before, *messages])))

    seen = set()
    for n_letters in range(0, 100, 3):
        talk.history, question = before.copy(), "x" * n_letters
        talk.told.clear()
        talk.model.stream = says(*talk.text.encode("so"))
        assert "".join(talk.answer(question)) == "so"
        fit = [n for n in range(5) if length([*before[2 * n :], *turns(question)]) <= longest]
        fewest = min(fit, default=4)
        assert talk.history == [*before[2 * fewest :], *turns(question, "so")]
        which = {0: [], 1: [": the oldest turn is forgotten: 'question 0'"]}
        several = f": the oldest {fewest} turns are forgotten: from 'question 0' to 'question {fewest - 1}'"
        begin = "the conversation is longer than the 192 tokens that the model sees"
        assert talk.told == [begin + line for line in which.get(fewest, [several])]
        seen.add(fewest)
    assert len(seen) >= 3
    del talk.model.stream
    history = talk.history.copy()
    answer = "".join(talk.answer("q"))
    assert answer == expected_answer(talk, talk.history[:-1], min(max_tokens, CONTEXT - length(talk.history[:-1])))
    assert talk.history[-2:] == turns("q", answer)
    assert talk.history[:-2] == history[len(history) - len(talk.history) + 2 :]


def test_a_message_that_is_too_long(chatty, monkeypatch, capsys):
    folder = chatty()
    around = len(encoded(opened(folder).text, template_of("chatml").render(turns(""))))
    typed(monkeypatch, "a\n" + "x" * (CONTEXT - around) + "\n")
    assert main(["chat", folder, "--max-tokens", "9"]) == 2
    told = f"this message makes {CONTEXT} tokens with the text around it, and the model sees {CONTEXT}"
    told += ": give a shorter one"
    assert capsys.readouterr().err.splitlines()[-1] == f"minigpt: {told}"
    talk = opened(folder)
    "".join(talk.answer("a"))
    before = talk.history.copy()
    with pytest.raises(InputError, match=told):
        "".join(talk.answer("x" * (CONTEXT - around)))
    assert talk.history == before and talk.told == []
    "".join(talk.answer("x" * (CONTEXT - around - 1)))
    assert talk.ended_by == "context" and len(talk.told) == 1
    typed(monkeypatch, "x" * CONTEXT + "\na\n", at_terminal=True)  # who types may go on
    assert main(["chat", folder, "--max-tokens", "3"]) == 0
    assert "give a shorter one" in capsys.readouterr().err


def test_an_answer_that_is_cut_off(chatty, monkeypatch, capsys):
    folder = chatty()
    talk = opened(folder, max_tokens=500)
    talk.stops = ()
    assert "".join(talk.answer("a")) and talk.ended_by == "context"
    talk = opened(folder, max_tokens=4)
    talk.stops = ()
    assert "".join(talk.answer("a")) and talk.ended_by == "max-tokens"
    for ended_by, line in chat.ENDS.items():
        monkeypatch.setattr(conversation.Conversation, "answer", lambda self, message, stopped: iter("ab"))
        monkeypatch.setattr(conversation.Conversation, "ended_by", ended_by, raising=False)
        talk = opened(folder)
        del talk.ended_by
        assert chat._answer(talk, "x", at_terminal=False) == 0
        assert capsys.readouterr() == ("ab\n", line + "\n")


# --- an answer that is stopped ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_tokens", [0, 1, 4])
def test_ctrl_c_keeps_what_was_said(n_tokens, chatty, constants):
    constants.set(read_at_once=8)
    talk = opened(chatty(), max_tokens=30)
    counted = []

    def stopped():
        counted.append(1)
        return signal.SIGINT if len(counted) > n_looks else 0

    n_pieces = len(range(0, len(encoded(talk.text, talk.template.render(turns("the cat")))) - 8, 8))
    n_looks = n_tokens and n_pieces + n_tokens  # before each piece of the prompt, before the answer, after each token
    said = "".join(talk.answer("the cat", stopped))
    assert talk.ended_by == "stopped" and len(said) <= n_tokens and bool(said) == (len(talk.history) == 2)
    assert talk._past[0].length == (len(talk._ids) - 1 if n_tokens else 0)
    history = talk.history.copy()
    assert "".join(talk.answer("in the")) == expected_answer(talk, [*history, *turns("in the")], 30)


def test_ctrl_c_in_the_middle_of_a_block(chatty, constants):
    """The past of the first blocks is then longer than that of the others."""
    talk = opened(chatty())
    first = "".join(talk.answer("the cat"))
    constants.set(read_at_once=4)
    block = talk.model.h[1]
    forward = block.forward
    calls = []

    def interrupted(*args, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return forward(*args, **options)

    block.forward = interrupted
    with pytest.raises(KeyboardInterrupt):
        "".join(talk.answer("in the"))
    block.forward = forward
    lengths = {one.length for one in talk._past}
    assert len(lengths) == 2 and talk.history == turns("the cat", first)
    assert "".join(talk.answer("in the")) == expected_answer(talk, turns("the cat", first, "in the"))
    check_past(talk)


@pytest.mark.parametrize(("number", "at_terminal", "status"), [
    ("SIGINT", True, 0), ("SIGINT", False, 130), ("SIGTERM", True, 143), ("SIGTERM", False, 143),
])  # fmt: skip
def test_signals(number, at_terminal, status, chatty, monkeypatch, capsys):
    """At the terminal Ctrl-C ends the answer, and elsewhere everything."""
    folder = chatty()
    real = conversation.Conversation.answer
    answered = []

    def answer(self, message, stopped):
        answered.append(message)
        self.model.stream = says(*self.text.encode("abcdef"))
        for piece in real(self, message, stopped):
            if piece == "c" and len(answered) == 1:
                signal.raise_signal(getattr(signal, number))
            yield piece

    monkeypatch.setattr(conversation.Conversation, "answer", answer)
    typed(monkeypatch, "one\ntwo\n", at_terminal)
    assert main(["chat", folder]) == status
    out, err = capsys.readouterr()
    assert answered == (["one", "two"] if status == 0 else ["one"])
    assert ("abcdef" in out) == (status == 0) and "abc\n" in out and chat.ENDS["stopped"] in err


def test_a_second_ctrl_c_and_one_at_the_prompt(chatty, monkeypatch, capsys):
    folder = chatty()
    answered = []

    def answer(self, message, stopped):
        answered.append(message)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        yield "never"

    monkeypatch.setattr(conversation.Conversation, "answer", answer)
    typed(monkeypatch, "one\ntwo\n", at_terminal=True)
    assert main(["chat", folder]) == 0 and answered == ["one", "two"]
    assert "never" not in capsys.readouterr().out
    typed(monkeypatch, "one\ntwo\n")
    assert main(["chat", folder]) == 130 and answered[2:] == ["one"]
    keys = iter([KeyboardInterrupt, EOFError])

    def pressed(prompt):
        raise next(keys)

    monkeypatch.setattr("builtins.input", pressed)
    typed(monkeypatch, "", at_terminal=True)
    assert main(["chat", folder]) == 0 and "Ctrl-D or /quit ends" in capsys.readouterr().err


# --- mistakes --------------------------------------------------------------------------------------------------------


def refused(words, capsys) -> str:
    assert main(["chat", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def test_a_base_model_has_no_template(chatty, capsys):
    folder = chatty(template=None)
    expected = f"it was trained to go on with a text, and not to answer: minigpt sample {folder} --prompt TEXT"
    assert expected in refused([folder], capsys)


def test_a_folder_without_a_model(tmp_path, capsys):
    assert str(tmp_path) in refused([str(tmp_path)], capsys)
    (tmp_path / "chat").mkdir()
    told = refused([str(tmp_path / "chat" / "nowhere")], capsys)  # "chat" is like "char", which --tokenizer takes
    assert "nowhere" in told and "did you mean" not in told


def test_a_template_is_tried_before_the_model_is_opened(chatty, monkeypatch, capsys):
    monkeypatch.setattr(models, "open_both", lambda folder: pytest.fail("it was opened"))
    assert "cannot be used: line 1" in refused([chatty(template="{% for %}")], capsys)
    mistral = PUBLISHED["mistral"]["source"]
    assert "Conversation roles must" in refused([chatty(template=mistral), "--system", "Be brief."], capsys)


@pytest.mark.parametrize(("words", "told"), [
    (["--max-tokens", "0"], "--max-tokens 0 --seed 0: give 1 and 0 or more"),
    (["--seed", "-1"], "give 1 and 0 or more"),
    (["--temperature", "-1"], "temperature -1.0"),
    (["--top-p", "0"], "top-p 0.0"),
])  # fmt: skip
def test_options_outside_their_range(words, told, chatty, capsys):
    assert told in refused([chatty(), *words], capsys)


@pytest.mark.parametrize(("text", "told"), [
    ("", "standard input holds no message"),
    ("\n  \n", "standard input holds no message"),
    (b"caf\xe9\n", "standard input is not UTF-8"),
])  # fmt: skip
def test_what_is_no_message(text, told, chatty, monkeypatch, capsys):
    typed(monkeypatch, text)
    assert told in refused([chatty()], capsys)


@pytest.mark.parametrize("template", [CHATML, None], ids=["template", "none"])
@pytest.mark.parametrize("name", ["bert", "t5"])
def test_a_model_that_does_not_go_on_with_a_text(name, template, chatty, capsys):
    """Not even `minigpt sample` is of use with a BERT, so that it is not named."""
    told = refused([chatty(name=name, template=template)], capsys)
    assert f"holds a {name.upper()}, which does not go on with a text: take a decoder with a chat template" in told


def test_without_jinja_one_line_says_what_to_install(chatty, monkeypatch, capsys):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    folder = chatty()
    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert "pip install 'jinja2>=3.1.6'" in refused([folder], capsys)
