"""One pipeline makes a run out of its options: model, examples, tokens, folder. It checks all and writes nothing."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path

from minigpt import models
from minigpt.data.examples import TAGGING, Task
from minigpt.data.input_transformations import DELIMITER, special_ids, with_special
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError
from minigpt.files.checkpoint import WEIGHTS
from minigpt.files.disk import checksum, checksum_of_list
from minigpt.jobs.finetune.examples import Data, encode, is_stories, layout_of, load_splits
from minigpt.jobs.finetune.kept import Kept, check_empty
from minigpt.jobs.finetune.settings import FinetuneOptions
from minigpt.jobs.run_folder import RESUME, holds_a_run
from minigpt.models import costs
from minigpt.models.classifier import Classifier, check_layers, transfer
from minigpt.models.language_model import LanguageModel
from minigpt.models.task_model import FileLayout, TaskModel, check_lm_weight, usual_lm_weight
from minigpt.models.text_classifier import TextClassifier, answer_ids, answer_texts, kind_for
from minigpt.models.token_classifier import TokenClassifier
from minigpt.tokenizer import Tokenizer

MARKED = {  # options that may be told anew say where things are; whether they are still the same, their marks tell
    "model": "the weights of MODEL are",
    "vocabulary": "the tokenizer of MODEL is",
    "train": "the examples of --train are",
    "valid": "the examples of --valid are",
    "test": "the examples of --test are",
}


@dataclass
class Job:
    """Everything that a run works with.

    data: by split, see `load_splits`; text: the tokenizer with the special tokens; answers: their ids, where the model
    writes them.
    """

    options: FinetuneOptions
    task: Task
    data: dict[str, Data]
    pretrained: LanguageModel
    text: Tokenizer
    new_rows: int
    device: str
    folder: Path
    marks: dict[str, str]
    answers: list[list[int]]

    @property
    def judged_on(self) -> list[str]:
        """The splits that are judged at the end: those of the tests, or else validation."""
        return list(self.options.tests) or ["valid"]

    @property
    def folders(self) -> dict[int, Path]:
        """The folder of each seed's model."""
        seeds = range(self.options.seed, self.options.seed + self.options.seeds)
        if len(seeds) == 1:
            return {self.options.seed: self.folder}
        return {seed: self.folder / f"seed-{seed}" for seed in seeds}

    def classifier(self, seed: int) -> TaskModel:
        """The classifier that a seed begins with."""
        options = self.options
        body = transfer(self.pretrained, self.new_rows, options.transfer, options.dropout, seed)
        if body.reads_a_source:
            classifier = TextClassifier(body, self.task, self.answers)
        else:
            between = special_ids(self.text)[DELIMITER]
            delimiter = None if body.learns_the_next_token or not between else between[0]
            head = TokenClassifier if self.task.kind == TAGGING else Classifier
            classifier = head(body, self.task, options.head_dropout, seed, delimiter)
        classifier.frozen = options.freeze
        if not is_stories(options.train):
            classifier.files = FileLayout(layout_of(options.task), options.columns or {})
        return classifier.to(self.device)


def prepare(options: FinetuneOptions) -> Job:
    """All that a run needs. Raises InputError for whatever cannot work."""
    options.check()
    folder = Path(options.out or default_folder(options.model, options.task))
    device = choose_device(options.device)
    pretrained, plain = models.open_both(options.model)
    if options.lm_weight and options.freeze:
        raise InputError(f"--lm-weight {options.lm_weight}: of a frozen model nothing learns by it: leave it out")
    check_lm_weight(pretrained, options.lm_weight)
    if options.freeze and pretrained.reads_a_source:
        name = type(pretrained).__name__
        raise InputError(f"--freeze: a {name} writes its answers and has no head that could learn: leave it out")
    if options.lm_weight is None:
        options = replace(options, lm_weight=0.0 if options.freeze else usual_lm_weight(pretrained))
    check_layers(pretrained, options.transfer)
    text = with_special(plain)
    task, splits = load_splits(options)
    room = pretrained.config.n_positions
    transformation = kind_for(pretrained, task.kind).transformation(task)
    sources = {"valid": options.valid, **options.tests}
    data = {}
    for split, examples in splits.items():
        source = sources.get(split) or options.train
        data[split] = encode(examples, task, text, room, source, transformation)
    longest = max(max(part.lengths) for part in data.values())
    costs.fit_threads(pretrained, options.batch * longest)
    answers = []
    if pretrained.reads_a_source:
        answers = answer_ids(answer_texts(task, [one for part in splits.values() for one in part]), text)
    new_rows = text.vocab_size - plain.vocab_size
    marks = _marks(task, data, pretrained, plain)
    job = Job(options, task, data, pretrained, text, new_rows, device, folder, marks, answers)
    if not holds_a_run(folder):
        check_empty([folder, *job.folders.values()])
    return job


def default_folder(model: str, task: str) -> str:
    """Where a run is kept, if no --out is given."""
    return f"runs/{Path(model).name}-{task}"


def reopen(options: FinetuneOptions, named: Collection[str] = ()) -> FinetuneOptions:
    """The options of a run that goes on: those that it began with, and of these what is named or no default.

    Raises InputError where there is no such run.
    """
    values = {one.name: getattr(options, one.name) for one in fields(options)}
    values = {name: value for name, value in values.items() if name in named or value != getattr(FinetuneOptions, name)}
    out = options.out
    if out is None and options.model and options.task:
        out = default_folder(options.model, options.task)
    if out is None:
        raise InputError("--resume goes on with the run in a folder: name it with --out, or with MODEL and --task")
    kept = Kept.load(Path(out))
    if kept is None:
        raise InputError(f"{out} holds no fine-tuning to go on with: leave --resume out to begin one")
    try:
        return FinetuneOptions(**kept.options | values | {"out": str(out)})
    except TypeError as error:
        raise InputError(f"the run in {out} is of another version of minigpt finetune: {error}") from error


def check_models(job: Job, kept: Kept) -> None:
    """Raises InputError where the model of a finished seed is no longer there."""
    for folder in list(job.folders.values())[: len(kept.scores)]:
        if not (folder / WEIGHTS).is_file():
            gone = f"{folder} no longer holds the model of a finished seed"
            raise InputError(f"{gone}: remove {job.folder / RESUME} to begin anew, or give another --out")


def _marks(task: Task, data: dict[str, Data], pretrained: LanguageModel, plain: Tokenizer) -> dict[str, str]:
    """A checksum of each thing that a run is made of."""
    marks = {"vocabulary": checksum(plain.tokens)}
    for split, part in data.items():
        marks[split] = checksum_of_list(task, part.examples)
    others = [marks.pop(split) for split in data if split.startswith("test ")]
    if others:
        marks["test"] = checksum([marks["test"], *others])
    marks["model"] = pretrained.checksum()
    return marks
