"""The text around a conversation: the model's own chat template, which is a small program in the language Jinja.

Whoever fine-tuned a model for conversations chose the text in which they stand, with special tokens for whose turn it
is and where a turn ends. The folder of the model has it in `chat_template.jinja` or `tokenizer_config.json`. A stranger
wrote this program, so it runs in Jinja's sandbox, and in a process of its own: see `template_process`.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.device.windows import Job
from minigpt.errors import InputError, shown
from minigpt.files import hub
from minigpt.files.disk import read_text
from minigpt.tokenizer import settings

FILE = "chat_template.jinja"
KEY = "chat_template"
USUAL = "default"  # of several templates: those with other names are for tools and documents
LEAST_JINJA = (3, 1, 6)  # older ones have holes in their sandbox
SECONDS = 10.0  # for one process
MEMORY = 512 << 20  # bytes
LONGEST = 10_000_000  # characters of a rendered conversation
AT_ONCE = 500  # conversations that one process renders, in the time and the memory of one
PROGRAM = Path(__file__).with_name("template_process.py")

Message = Mapping[str, str]  # {"role": "system", "user" or "assistant", "content": text}


class Template(NamedTuple):
    """A chat template. path: of its file. tokens: the special tokens that it may name: {"bos_token": "<s>", ...}."""

    source: str
    path: Path
    tokens: dict[str, str]

    def render(self, messages: Sequence[Message], answer_follows: bool = True) -> str:
        """The text of a conversation; with answer_follows up to where the model's next answer begins.

        Raises InputError where the template refuses the conversation, fails, or does not come to an end, and where
        Jinja2 is missing.
        """
        return self.render_all([(messages, answer_follows)])[0]

    def render_all(self, several: Sequence[tuple[Sequence[Message], bool]]) -> list[str]:
        """The texts of several conversations, as `render`. Raises NotRendered, an InputError, which tells where."""
        check_jinja()
        texts = []
        for begin in range(0, len(several), AT_ONCE):
            given = []
            for messages, answer_follows in several[begin : begin + AT_ONCE]:
                of_chat = {"messages": list(messages), "add_generation_prompt": answer_follows}
                given.append(self.tokens | of_chat | {"tools": None, "documents": None})
            reply = _reply({"source": self.source, "variables": given, "memory": MEMORY, "longest": LONGEST})
            if "texts" not in reply:
                raise NotRendered(self.path, reply, begin)
            texts += reply["texts"]
        return texts


class NotRendered(InputError):
    """What went wrong with a template, or with a conversation: `number` says with which of several."""

    def __init__(self, path: Path, reply: dict[str, Any], begin: int):
        what = "does not take this conversation: " if "refused" in reply else "cannot be used: "
        super().__init__(f"the chat template in {path} {what}{_one_line(reply.get('refused') or reply['failed'])}")
        self.number = begin + reply.get("at", 0)


def find(folder: str | Path) -> Template | None:
    """The chat template of a model directory, or of a downloaded model by its name; None where it has none.

    Raises InputError for what is no template, and for several of which none is the usual one.
    """
    folder = hub.find(folder)
    config = settings.read_config(folder)
    path = folder / FILE
    if path.is_file():
        source = read_text(path)
    else:
        path = folder / settings.CONFIG
        source = _usual(config.get(KEY), path)
    if source is None:
        return None
    named = settings.named_in(folder, config)
    return Template(source, path, {key: one.token for key, one in named.items()})


def _usual(given: Any, path: Path) -> str | None:
    """The template among what `tokenizer_config.json` has: a text, or a list of named ones."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list) and all(map(_is_named, given)):
        by_name = {one["name"]: one["template"] for one in given}
        if USUAL in by_name:
            return by_name[USUAL]
        raise InputError(f"{path} has chat templates with the names {', '.join(by_name)}: one must be {USUAL!r}")
    raise InputError(f"{path}: {KEY} is {shown(given)}: expected a text, or a list of objects with name and template")


def _is_named(one: Any) -> bool:
    return isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("name", "template"))


def check_jinja() -> None:
    """Raises InputError where Jinja2 is not installed, or too old for programs of strangers."""
    least = ".".join(map(str, LEAST_JINJA))
    advice = f"pip install 'jinja2>={least}'"
    try:
        version = importlib.metadata.version("jinja2")
    except importlib.metadata.PackageNotFoundError:
        raise InputError(f"chat templates are written for Jinja2, which is not installed: {advice}") from None
    if tuple(map(int, re.findall(r"\d+", version)[:3])) < LEAST_JINJA:
        raise InputError(f"Jinja2 {version} has holes in its sandbox, and chat templates come from strangers: {advice}")


def _reply(task: dict[str, Any]) -> dict[str, Any]:
    """What the process answers, or {"failed": why it did not}."""
    command = [sys.executable, "-P", "-X", "utf8", str(PROGRAM)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        job = Job(process, MEMORY) if sys.platform == "win32" else None
        try:
            written, _ = process.communicate(json.dumps(task).encode(), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return {"failed": f"it did not come to an end in {SECONDS:g} s"}
        finally:
            process.kill()
            if job:
                job.close()
    try:
        return json.loads(written)
    except ValueError:
        return {"failed": f"its process ended with status {process.returncode}"}


def _one_line(text: str, longest: int = 300) -> str:
    """A text of the template, for a message."""
    return " ".join(text.split())[:longest]
