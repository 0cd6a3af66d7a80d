"""One pipeline makes a run out of its options: model, instructions, folder. It checks all and writes nothing."""

from pathlib import Path

import numpy as np

from minigpt import data, models
from minigpt.data import corpus, instructions
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError
from minigpt.files import hub
from minigpt.files.disk import checksum
from minigpt.jobs import chat_template, conversation, run_state
from minigpt.jobs.chat_template import Template
from minigpt.jobs.instruct.examples import Example, Reader, template_for
from minigpt.jobs.instruct.settings import InstructOptions
from minigpt.jobs.instruct.tuning import INSTRUCTING, Tuning
from minigpt.jobs.run_folder import Run, holds_a_run
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.models.lora import add_lora
from minigpt.tokenizer import Tokenizer

MARKED = {  # options that may be told anew say where things are; whether they are still the same, their marks tell
    "model": "the weights of MODEL are",
    "vocabulary": "the tokenizer or the chat template of MODEL is",
    "train": "the instructions of FILE are",
    "valid": "the instructions of --valid are",
    "other": "the text of --other is",
}
OTHER_TOKENS = 4096  # of the other text, so many are read
OTHER_CHARACTERS = 10 * OTHER_TOKENS
OTHER_CONTEXT = 512
AT_ONCE = 4  # windows of it


def prepare(options: InstructOptions) -> tuple[Tuning, dict[str, int] | None]:
    """A run as far as it is, and the processes and threads that it had, if it was begun. Raises InputError."""
    options.check()
    folder = Path(options.out or f"runs/{Path(options.model).name}-{Path(options.file).stem}")
    given = instructions.read(options.file)
    held = None if options.valid is None else instructions.read(options.valid)
    place = hub.find(options.model)
    template = chat_template.find(options.model)
    model, text = models.open_both(options.model)
    if model.reads_a_source or not model.can_generate:
        what = f"{options.model} holds a {type(model).__name__}, which does not go on with a text"
        raise InputError(f"{what}: take a decoder, such as smollm2 or gpt2")
    template = template_for(template, text, options.model)
    stops = conversation.stops(place, text, template)
    reader = Reader(template, text, stops, model.config.n_positions)
    train = reader.examples(given, options.file)
    if held is None:
        train, valid = _apart(train, options)
    else:
        valid = reader.examples(held, options.valid)
    other = _other(options, model, text)
    marks = _marks(model, text, template, train, valid, other)
    model.to(choose_device(options.device))
    longest = max(len(example.ids) for example in train)
    costs.fit_threads(model, options.batch * longest)
    add_lora(model, options.lora, options.alpha, options.layers, options.seed)
    if not holds_a_run(folder):
        run = Run.start(folder, INSTRUCTING)
        return Tuning(options, model, text, template, train, valid, other, marks, run), None
    run, state, tensors = Run.load(folder, kind=INSTRUCTING)
    run_state.check_same(folder, options, marks, state, MARKED)
    tuning = Tuning(options, model, text, template, train, valid, other, marks, run)
    tuning.restore(state, tensors)
    return tuning, state["workers"]


def _apart(examples: list[Example], options: InstructOptions) -> tuple[list[Example], list[Example]]:
    """(to learn from, kept apart), of which the second is a tenth, drawn by the seed. Raises InputError for one."""
    if len(examples) < 2:
        raise InputError(f"{options.file} holds one instruction: give more, of which a tenth is kept apart, or --valid")
    order = np.random.default_rng([options.seed, 1]).permutation(len(examples))
    n_apart = max(1, len(examples) // 10)
    apart = set(order[:n_apart].tolist())
    train = [example for i, example in enumerate(examples) if i not in apart]
    return train, [examples[i] for i in sorted(apart)]


def _other(options: InstructOptions, model: LanguageModel, text: Tokenizer) -> list[tuple[np.ndarray, np.ndarray]]:
    """The beginning of the other text, in windows. Raises InputError where there is too little of it."""
    pieces = corpus.load(options.other).pieces("valid")
    beginning = next(iter(pieces))[:OTHER_CHARACTERS]
    tokens = np.array(text.encode(beginning)[: OTHER_TOKENS + 1])
    if len(tokens) < 2:
        raise InputError(f"--other {options.other} has no more than {len(tokens)} token: give a longer text")
    context = min(OTHER_CONTEXT, model.config.n_positions, len(tokens) - 1)
    return list(data.windows(tokens, context, AT_ONCE))


def _marks(model, text: Tokenizer, template: Template, train, valid, other) -> dict[str, str]:
    """A checksum of each thing that a run is made of."""
    return {
        "model": model.checksum(),
        "vocabulary": checksum([text.tokens, template.source]),
        "train": checksum([example.ids.tolist() for example in train]),
        "valid": checksum([example.ids.tolist() for example in valid]),
        "other": checksum([ids.tolist() for ids, _ in other]),
    }
