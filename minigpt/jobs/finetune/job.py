"""From the first seed to the last: what a person wants around fine-tuning.

To know beforehand what it costs, to see how it goes, to stop it and go on, and never to lose anything.
"""

import contextlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from minigpt import models
from minigpt.data.input_transformations import DELIMITER, special_ids
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError
from minigpt.files import hub
from minigpt.files.disk import typed
from minigpt.files.lock import locked
from minigpt.jobs.finetune.announcement import announce, in_words, report
from minigpt.jobs.finetune.kept import COLUMNS, CURVES, PICTURE, Kept, check_empty
from minigpt.jobs.finetune.preparation import MARKED, Job, check_models, prepare, reopen
from minigpt.jobs.finetune.settings import FinetuneOptions
from minigpt.jobs.finetune.tuning import Judged, Tuning, evaluate
from minigpt.jobs.interrupt import Stopped, interruptible
from minigpt.jobs.option_fields import told
from minigpt.jobs.run_folder import RESUME, write_table
from minigpt.jobs.run_state import check_same, use_kept_threads
from minigpt.models.label_model import LabelModel, TokenLabelModel
from minigpt.models.task_model import FILE, TaskModel
from minigpt.models.text_classifier import kind_for
from minigpt.tokenizer import Tokenizer


class Outcome(NamedTuple):
    """scores: of the finished seeds, on test, or else on validation. stopped_by: the number of a signal, or 0."""

    scores: list[float]
    stopped_by: int = 0


def finetune(options: FinetuneOptions, named: Collection[str] = ()) -> Outcome:
    """Fine-tune the model in `options.model`, once for each seed.

    Writes a model directory (`options.out`; with several seeds, one below it for each): the best epoch's model, its
    head and its tokenizer; and finetune.csv, finetune.png, results.json, resume.safetensors. Ctrl-C stops it; the
    same options, or `resume`, go on to the same end as if it had never stopped, with as many threads as before; or with
    those of this process, where "threads" is in `named`. named: what was given by name, though it be the default.
    Raises InputError for whatever cannot work, before anything is written.
    """
    if options.resume:
        options = reopen(options, named)
    job = prepare(options)
    with locked(job.folder):
        kept = Kept.load(job.folder)
        if kept is None:
            check_empty([job.folder, *job.folders.values()])
            kept = Kept(told(job.options), job.marks)
        check_same(job.folder, job.options, job.marks, vars(kept), MARKED)
        check_models(job, kept)
        if kept.finished:
            print(f"this run is finished: {job.task.metric} {in_words(kept.scores)}: {job.folder}")
            return Outcome(kept.scores)
        use_kept_threads(kept.workers, job.folder / RESUME, given="threads" in named)
        with interruptible(speaks=True) as stopped:
            try:
                _all_seeds(job, kept, stopped)
            except Stopped as error:
                print(f"stopped at update {kept.tuning['step']} of seed {kept.tuning['seed']}; everything is kept. "
                      f"Go on: the same command, or minigpt finetune --resume --out {typed(job.folder)}")  # fmt: skip
                return Outcome(kept.scores, error.args[0])
        return Outcome(kept.scores)


def _all_seeds(job: Job, kept: Kept, stopped: Callable[[], int]) -> None:
    """The seeds that are left, and the report. Raises Stopped where the user wants it."""
    left = list(job.folders.items())[len(kept.scores) :]
    for number, (seed, folder) in enumerate(left):
        tuning = KeptTuning(job, kept, seed, stopped)
        if kept.tuning is not None:
            print(f"going on with the run in {job.folder} at update {kept.tuning['step']} of seed {seed}")
            tuning.restore(kept.tuning, kept.tensors, job.folder)
            kept.tensors = {}
        if number == 0:
            announce(job, tuning, len(left))
        if kept.tuning is None:
            kept.save(job.folder)  # the first file of a run, and the one that marks its folder
        with contextlib.nullcontext() if folder == job.folder else locked(folder):
            judged = {"valid": tuning.finish()}
            if job.options.tests:
                judged = {split: evaluate(tuning.model, job.data[split], tuning.check) for split in job.judged_on}
            tuning.export()
        first, *others = judged
        kept.scores.append(judged[first].score)
        for split in others:
            kept.others.setdefault(split, []).append(judged[split].score)
        kept.tuning = None
        if len(kept.scores) < job.options.seeds:
            kept.save(job.folder)
    _finish(job, kept, judged)


class KeptTuning(Tuning):
    """The fine-tuning of one seed of a run: it is kept after each epoch, every few minutes, and where it is stopped."""

    def __init__(self, job: Job, kept: Kept, seed: int, stopped: Callable[[], int]):
        super().__init__(job.classifier(seed), job.data["train"], job.data["valid"], job.options, seed)
        self.job = job
        self.kept = kept
        self.stopped = stopped

    def evaluated(self, row: dict[str, float], better: bool) -> None:
        """Write the model, if it is the best so far, and the table; keep the run; tell how it goes."""
        if better:
            self.export()
        self.kept.rows.append({"seed": self.seed} | row)
        write_table(self.job.folder / CURVES, COLUMNS, self.kept.rows)
        self.keep()
        tqdm.write(
            f"seed {self.seed}, epoch {row['epoch']}: training loss {row['train_loss']:.4f}, "
            f"validation loss {row['valid_loss']:.4f}, {self.job.task.metric} {row['score']:.4f}"
        )

    def keep(self) -> None:
        """Write the file from which the run goes on. Raises InputError where somebody has removed it."""
        lost = not (self.job.folder / RESUME).is_file()
        self.kept.tuning = self.state()
        self.kept.tensors = self.tensors()
        self.kept.save(self.job.folder)
        self.kept.tensors = {}
        if lost:
            what = f"{self.job.folder} was removed or emptied during the run"
            raise InputError(f"{what}: the seed at work is kept there again, and the same command goes on")

    def export(self) -> None:
        """Write the model directory of this seed."""
        folder = self.job.folders[self.seed]
        self.model.save(folder, overwrite=True)
        self.job.text.save(folder)


def _finish(job: Job, kept: Kept, judged: dict[str, Judged]) -> None:
    """Write and tell what came out of all seeds. judged: of the last one, by split."""
    from minigpt import plot  # here, because matplotlib takes longer to import than all the rest

    write_table(job.folder / CURVES, COLUMNS, kept.rows)
    plot.finetuning_curves(kept.rows, job.task.metric, job.folder / PICTURE)
    first, *_ = judged
    report(job, {first: kept.scores, **kept.others}, judged)
    kept.finished = True
    kept.save(job.folder)
    last = list(job.folders.values())[-1]
    print(f"folder   {job.folder}")
    print(f"now: minigpt predict {typed(last)} FILE")


def open_classifier(folder: str | Path, device: str | None = None) -> tuple[TaskModel, Tokenizer]:
    """Open what `finetune` wrote, or a published model with a head for labels: the model and its tokenizer.

    A published GPT reads a text as it is. Raises InputError where there is none, where there are several, of different
    seeds, and for another published one whose tokenizer has no special tokens.
    """
    heads = sorted(Path(folder).glob(f"seed-*/{FILE}"))
    if heads and not (Path(folder) / FILE).exists():
        raise InputError(f"{folder} holds a model for each of {len(heads)} seeds: give one, such as {heads[0].parent}")
    body, text = models.open_both(folder)
    if (body.labels or body.token_labels) and not (hub.find(folder) / FILE).is_file():
        if not text.wrap([])[0] and not body.learns_the_next_token:
            raise InputError(f"{folder}: its tokenizer does not tell which special tokens stand around a text")
        between = special_ids(text)[DELIMITER]
        model = LabelModel(body, between[0] if between else None) if body.labels else TokenLabelModel(body)
        return model.to(choose_device(device)), text
    return TaskModel.load(hub.find(folder), body, kind_for).to(choose_device(device)), text
