"""Talking with a model: at the terminal, or through a pipe.

What the model says goes to standard output, and everything else to standard error: a pipe gets the answers alone.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from minigpt import models
from minigpt.device.gpu import choose_device
from minigpt.device.threads import about_threads
from minigpt.errors import InputError
from minigpt.files import hub
from minigpt.files.disk import typed
from minigpt.jobs import chat_template, conversation
from minigpt.jobs.conversation import Conversation
from minigpt.jobs.interrupt import exit_status, interruptible
from minigpt.jobs.option_fields import OnDevice, argument, option
from minigpt.models import costs, sampling

BLOCK = '"""'  # around a message of several lines
PROMPT = "> "
HELP = f"""\
/reset   forget the conversation and begin again
/quit    end; Ctrl-D does it too
Ctrl-C stops an answer. A message of several lines stands between {BLOCK} and {BLOCK}."""
ENDS = {  # how an answer ended, where the model did not end it -> what is told
    "stopped": "stopped",
    "max-tokens": "the answer is cut off here: --max-tokens allows a longer one",
    "context": "the answer is cut off here: the context is full",
}


@dataclass(kw_only=True)
class ChatOptions(OnDevice):
    """What `minigpt chat` can be told."""

    folder: str = argument("the directory of a model that was trained for conversations", metavar="MODEL")
    system: str | None = option(None, "what the model is told before the conversation", metavar="TEXT")
    max_tokens: int = option(512, "the longest answer", metavar="N")
    temperature: float = option(0.2, "0 is always the likeliest")
    top_p: float = option(0.9, "draw among the likeliest that hold probability P", metavar="P")
    seed: int = option(0, "the same seed gives the same answers", metavar="S")

    def check(self) -> None:
        """Raises InputError for a value outside its range."""
        sampling.check_options(self.temperature, None, self.top_p)
        if self.max_tokens < 1 or self.seed < 0:
            raise InputError(f"--max-tokens {self.max_tokens} --seed {self.seed}: give 1 and 0 or more")


def chat(options: ChatOptions) -> int:
    """Talk until the end of what is typed; returns 0, or 128 and the number of the signal that stopped it.

    Raises InputError for options outside their range, for a model without a chat template, for a template that cannot
    be used, and, where nobody types, for no message and for one that cannot be answered.
    """
    options.check()
    talk = open_conversation(options)
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        _tell(_first_line(options, talk))
    empty = True
    for message in _messages(at_terminal):
        empty = False
        if message == "/quit":
            return 0
        if message == "/reset":
            talk.reset()
        elif _is_command(message):
            _tell(HELP if message == "/help" else f"there is no {message}: /help shows what there is")
        else:
            stopped_by = _answer(talk, message, at_terminal)
            if stopped_by:
                return exit_status(stopped_by)
    if empty and not at_terminal:
        raise InputError("standard input holds no message: send one, as in echo Hello | minigpt chat MODEL")
    return 0


def open_conversation(options: ChatOptions) -> Conversation:
    """A conversation with the model in a folder. Raises InputError as `chat` does."""
    kind = models.card_in(options.folder).model
    name = typed(options.folder)
    if kind.reads_a_source or not kind.can_generate:
        what = f"{name} holds a {kind.__name__}, which does not go on with a text"
        raise InputError(f"{what}: take a decoder with a chat template, such as smollm2")
    template = chat_template.find(options.folder)
    if template is None:
        what = f"{name} has no chat template: it was trained to go on with a text, and not to answer"
        raise InputError(f"{what}: minigpt sample {name} --prompt TEXT")
    begin = [] if options.system is None else [{"role": "system", "content": options.system}]
    template.render([*begin, {"role": "user", "content": "Hello"}])  # what cannot be used is noticed before all else
    model, text = models.open_both(options.folder)
    model.to(choose_device(options.device))
    costs.fit_threads(model, rows=1)
    return Conversation(
        model, text, template, conversation.stops(hub.find(options.folder), text, template),
        system=options.system, max_tokens=options.max_tokens, seed=options.seed,
        temperature=options.temperature, top_p=options.top_p, tell=_tell,
    )  # fmt: skip


def _first_line(options: ChatOptions, talk: Conversation) -> str:
    """The model, its parameters, its context, and what computes."""
    model = talk.model
    n_parameters = sum(parameter.data.size for parameter in model.parameters())
    computes = about_threads() if model.device == "cpu" else "on the GPU"
    context = f"context of {model.config.n_positions:,} tokens"
    return f"{typed(options.folder)}: {n_parameters:,} parameters, {context}, {computes}. /help shows the commands"


def _answer(talk: Conversation, message: str, at_terminal: bool) -> int:
    """Print the answer to a message; returns the number of the signal that is to end the program, or 0."""
    number = 0
    try:
        with interruptible(speaks=False) as stopped:
            for piece in talk.answer(message, stopped):
                print(piece, end="", flush=True)
            number = stopped()
        print(flush=True)
        if talk.ended_by:
            _tell(ENDS[talk.ended_by])
    except InputError as error:
        if not at_terminal:
            raise
        _tell(str(error))
    except KeyboardInterrupt:  # Ctrl-C twice, while one piece of a prompt is read
        if not at_terminal:
            raise
        _tell("\n" + ENDS["stopped"])
    if at_terminal and number == signal.SIGINT:
        return 0
    return number


# ------------------------------------------------------------------------------------------------------ what is typed


def _messages(at_terminal: bool) -> Iterator[str]:
    """The lines that are typed, without empty ones; lines between BLOCK and BLOCK are one message."""
    lines = _lines(at_terminal)
    for line in lines:
        message = line.strip()
        if message.startswith(BLOCK):
            message = _block(message.removeprefix(BLOCK), lines)
        if message:
            yield message


def _block(line: str, lines: Iterator[str]) -> str:
    """A message of several lines, from what stands behind its first BLOCK to the next one, or to the end."""
    block = []
    while not line.rstrip().endswith(BLOCK):
        block.append(line)
        line = next(lines, BLOCK)
    block.append(line.rstrip().removesuffix(BLOCK))
    return "\n".join(block).strip()


def _lines(at_terminal: bool) -> Iterator[str]:
    """What is typed, line by line. Raises InputError for what is not UTF-8."""
    prompt = PROMPT if at_terminal else ""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - then the cursor keys work in what is typed

    while True:
        try:
            yield input(prompt)
        except EOFError:
            if at_terminal:
                _tell("")
            return
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not UTF-8 ({error.reason}): convert it to UTF-8 first") from error
        except KeyboardInterrupt:
            if not at_terminal:
                raise
            _tell("\nCtrl-D or /quit ends")


def _is_command(message: str) -> bool:
    """Is it a command, and no message to the model, such as one that begins with a path?"""
    return message.startswith("/") and message[1:].isalpha()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
