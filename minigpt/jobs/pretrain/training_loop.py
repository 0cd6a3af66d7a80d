"""From the first update to the last: what a person wants around it.

To know beforehand what it costs, to see how it goes, to stop it and go on, and never to lose anything.
"""

import contextlib
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np
from tqdm import tqdm

from minigpt.data.objectives import Batch
from minigpt.device import gpu
from minigpt.device.arrays import to_numpy
from minigpt.device.parallel import ALONE, Ranks
from minigpt.errors import InputError
from minigpt.files.disk import typed
from minigpt.files.lock import locked
from minigpt.jobs.interrupt import Stopped, interruptible
from minigpt.jobs.pretrain import plateau
from minigpt.jobs.pretrain.agreement import names_of
from minigpt.jobs.pretrain.announcement import announce
from minigpt.jobs.pretrain.band import none_fits, setting_of
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.pretrain.preparation import default_folder, prepare_on
from minigpt.jobs.pretrain.recipe import settle
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.jobs.pretrain.step import evaluate, rate, update, validation_batches
from minigpt.jobs.run_folder import RESUME
from minigpt.jobs.updates import Updates
from minigpt.models import costs
from minigpt.nn.optim import NonFiniteGradient

SAMPLE = 40  # tokens that are written after an evaluation
BEGINNING = 40  # tokens of the text from which a prompt is taken


def train(options: PretrainOptions, ranks: Ranks = ALONE, named: Collection[str] | None = None) -> Job:
    """Run a pre-training job to its end, or until a signal such as Ctrl-C; returns it.

    Writes a model directory (`options.out`): the best model by validation loss and its tokenizer, loss.csv, loss.png,
    and resume.safetensors. A run that the folder holds already goes on as if it had never stopped, if it has these
    options; with `options.resume` only those in `named` must agree (default: those that differ from their defaults). It
    goes on with as many threads as it had, unless "threads" is in `named`: then it has those of this process.
    ranks: the processes that share every batch; the losses are those of one process, up to rounding, however many there
    are. Raises InputError for whatever cannot work. One process tries a step before it writes anything but the tokens
    of a large text; several begin with a kept run, which all of them open.
    """
    options.check()
    if not options.resume:
        options = settle(options)
    options = replace(options, out=options.out or default_folder(options))
    if named is None or not options.resume:
        named = names_of(options) | {name for name in named or () if name == "threads"}
    lock = locked(options.out) if ranks.first else contextlib.nullcontext()
    with lock:
        job = prepare_on(ranks, options, named)
        if not job.finished:
            _train(job)
        elif job.ranks.first:
            print(f"the run in {job.run.folder} is finished, after {job.step:,} steps: nothing is left to do")
            if not job.run.exported:
                _replace_lost(job)
            if options.compare:
                _draw(job)
    if job.finished:
        perplexity = f" (perplexity {math.exp(job.best):.2f} per token)" if job.in_nats else ""
        print(f"best validation loss {job.best:.4f}{perplexity}: {job.run.folder}")
    if job.at_plateau and job.ranks.first:
        print(f"warning: {plateau.warning(job.entropy, job.options)}")
    if options.compare and job.comparison and job.ranks.first:
        print(job.comparison.closing(job.run.rows))
    if job.finished and job.ranks.first:
        print(next_step(job))
    return job


def _replace_lost(job: Job) -> None:
    """Write the last model of a finished run, where somebody has removed the best one."""
    if job.run.rows:
        job.best = job.run.rows[-1]["val_loss"]
    job.run.export(job.model)
    job.save()
    print("its best model was lost: the last one is there in its place")


def next_step(job: Job) -> str:
    """What to type now: a sample that begins with words of the text; of an encoder such words with one covered.

    Of a model that can do neither, its costs.
    """
    folder = typed(job.run.folder)
    fills_in = job.text.role("mask") is not None and not job.model.reads_a_source
    if not job.model.can_generate and not fills_in:
        return f"now: minigpt info {folder}"
    text = job.text.decode(to_numpy(job.valid[:BEGINNING]).tolist())
    text = re.sub(r"^\w+", "", text)  # it may be the end of a longer word
    phrases = re.findall(r"\w+(?: \w+){0,2}", text)  # as they stand there: not every text has spaces
    phrase = max(phrases, key=lambda phrase: phrase.count(" "), default="")  # the first longest
    if not job.model.can_generate:
        covered = re.sub(r"\w*$", "[MASK]", phrase, count=1)
        return f'now: minigpt fill {folder} "{covered}"'
    prompt = f' --prompt "{phrase}"' if phrase else ""
    return f"now: minigpt sample {folder}{prompt}"


def _train(job: Job) -> None:
    """From where the job stands to its end, or until a signal."""
    with gpu.products_in(job.products):
        if job.ranks.first:
            if job.run.claimed and job.step:
                print(f"going on with the run in {job.run.folder} at step {job.step:,}")
            announce(job)
            if job.options.compare:
                _begin_comparison(job)
    try:
        with interruptible(speaks=job.ranks.first) as interrupted:
            loop(job, interrupted, patient=False)
    except InputError as error:
        if isinstance(error.__cause__, OSError) and job.run.claimed:
            kept = f"The run is kept as it was at step {job.run.kept:,}"
            raise InputError(f"{error}. {kept}: once that is put right, the same command goes on") from error
        raise
    except OSError:  # the reader of the output has gone, perhaps with the same Ctrl-C
        job.save()
        raise
    if not job.finished:
        _draw(job)
        again = f"minigpt train --resume --out {typed(job.run.folder)}"
        print(f"stopped at step {job.step}; everything is kept. Go on: {again}")


def loop(job: Job, interrupted: Callable[[], int] = lambda: 0, patient: bool = True) -> None:
    """Update until the last step; now and then log, evaluate, show a sample, and keep everything.

    interrupted: says whether to stop after an update, by the number of a signal. patient: does an evaluation that has
    begun go on to its end then? If not, it is made when the run goes on.
    """
    if not job.run.claimed:
        job.save()
    with gpu.products_in(job.products), contextlib.suppress(Stopped):
        Loop(job, interrupted, patient).all_updates()


class Loop(Updates):
    """The updates of a job, its lines of loss.csv and its evaluations. since: when the last line was written."""

    def __init__(self, job: Job, interrupted: Callable[[], int], patient: bool):
        super().__init__(interrupted)
        self.job = job
        self.patient = patient
        self.total = job.options.steps
        self.since = time.perf_counter()

    @property
    def step(self) -> int:
        """Updates made."""
        return self.job.step

    def update(self) -> None:
        """One update. Raises InputError for a gradient that is not finite."""
        job = self.job
        try:
            job.losses.append(update(job, rate(job.options, job.step)))
        except NonFiniteGradient as error:
            raise InputError(_not_finite(job, job.step + 1, str(error))) from error
        job.step += 1

    def keep(self) -> None:
        """Write the file from which the run goes on."""
        self.job.save()

    def check(self) -> None:
        """Raises Stopped where a signal has come to any of the processes, after the run is kept."""
        self.job.stopped_by = max(self.job.ranks.gather(int(self.stopped())))
        if self.job.stopped_by:
            self.keep()
            raise Stopped(self.job.stopped_by)

    @property
    def pauses(self) -> bool:
        """Is there a line of loss.csv that belongs to this step, and is not written yet?"""
        job = self.job
        return job.logged < job.step and job.logs or job.logged < 0

    def pause(self) -> None:
        """The line of loss.csv that belongs to this step, and the evaluation if there is one."""
        job = self.job
        mean = lr = speed = None
        if job.losses:
            mean = _mean(job, job.losses)
            lr = rate(job.options, job.step - 1)
            tokens = len(job.losses) * job.options.batch * job.model.config.n_positions
            speed = tokens / (time.perf_counter() - self.since)
            self.progress = _progress(job, mean, speed)
        if job.evaluates:
            assess(job, mean, lr, speed, tqdm.write, self._while_nobody_stops)
        else:
            _log(job, train_loss=mean, lr=lr, tokens_per_second=speed)
        _tell_plateau(job, tqdm.write)
        if job.options.compare and job.comparison and job.ranks.first:
            for finding in job.comparison.news(job.run.rows):
                tqdm.write(f"step {job.step}: {finding}")
        self.since = time.perf_counter()

    def _while_nobody_stops(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """These batches. Raises Stopped when a signal comes: the evaluation is made when the run goes on.

        Several processes stop together, after the evaluation.
        """
        for batch in batches:
            if not self.patient and self.job.ranks.size == 1:
                self.check()
            yield batch


def _begin_comparison(job: Job) -> None:
    """Say what the losses are compared with, and what they have shown before the run was stopped."""
    if job.comparison is None:
        print(f"compare  {none_fits(setting_of(job.state))}")
        return
    print(job.comparison.opening())
    for finding in job.comparison.findings(job.run.rows):
        print(f"compare  {finding}")


def _log(job: Job, **row) -> None:
    """A line of loss.csv for this step."""
    job.run.log(step=job.step, **row)
    job.logged = job.step
    job.losses = []


def _mean(job: Job, losses: list) -> float:
    """The mean of these losses over all processes: the one place where a GPU is waited for."""
    mean = job.ranks.total(float(sum(losses) / len(losses)))
    if not math.isfinite(mean):
        raise InputError(_not_finite(job, job.step, "the loss or the gradient is not finite"))
    return mean


def _tell_plateau(job: Job, write: Callable[[str], object]) -> None:
    """Say it, once, where the loss has come to rest at that of a table of token frequencies."""
    if job.told_plateau or job.finished or not job.at_plateau:  # of a finished run `train` says it
        return
    job.told_plateau = True
    if job.ranks.first:
        write(f"step {job.step}: {plateau.warning(job.entropy, job.options)}")


def _progress(job: Job, loss: float, speed: float) -> str:
    """What stands beside the bar."""
    kept = costs.human_bytes(job.memory.activations)
    pool = f", GPU memory {costs.human_bytes(gpu.held_memory())}" if job.model.device == "cuda" else ""
    level = f" (token frequencies: {job.entropy:.2f})" if job.at_plateau else ""
    return f"loss {loss:.3f}{level}, {speed:,.0f} tokens/s, caches {kept}{pool}"


def assess(
    job: Job,
    train_loss: float | None,
    lr: float | None,
    speed: float | None,
    write: Callable[[str], object] = print,
    watched: Callable[[Iterable[Batch]], Iterable[Batch]] = iter,
) -> None:
    """Measure the validation loss; keep the model if it is the best so far; keep the run; show a sample.

    watched: the batches go through it, and it may raise. Raises InputError for a loss that is not finite.
    """
    loss = evaluate(job.model, watched(_validation_batches(job)), job.ranks)
    if not math.isfinite(loss):
        raise InputError(_not_finite(job, job.step, "the validation loss is not finite"))
    if job.ranks.size > 1:
        total = sum(p.data.sum() for p in job.model.parameters())
        job.ranks.agree({"the sum of the weights": float(total)})
    if loss < job.best:
        job.best = loss
        job.run.export(job.model)
    _log(job, train_loss=train_loss, val_loss=loss, lr=lr, tokens_per_second=speed)
    if job.finished:  # before the run is kept as finished, for what comes after that may never come
        _draw(job)
    job.save()
    if job.ranks.first:
        write(f"step {job.step}: validation loss {loss:.4f}   {_sample(job)}".rstrip())


def _validation_batches(job: Job) -> Iterator[Batch]:
    """All of the validation text."""
    context = job.model.config.n_positions
    return validation_batches(job.valid, context, job.options.batch, job.starts[1], job.objective)


def _draw(job: Job) -> None:
    """loss.png, with the levels that the loss can be compared with."""
    vocab_size = job.model.config.vocab_size if job.in_nats else None
    entropy = job.entropy if job.in_nats else None
    shade = job.comparison.shade if job.comparison else None
    job.run.draw(vocab_size, entropy, job.at_plateau, shade)


def _sample(job: Job) -> str:
    """A few tokens of the model as it is now; nothing of a model that cannot write."""
    if not job.model.can_generate:
        return ""
    if job.model.reads_a_source:
        return _written(job)
    start_id = job.text.start_id
    start = job.valid[:1][None] if start_id is None else np.array([[start_id]])
    ids = job.model.generate(start, SAMPLE, temperature=0.8, seed=job.step)
    return repr(job.text.decode(to_numpy(ids)[0].tolist()))


def _written(job: Job) -> str:
    """What the model writes beside the first source of the validation text."""
    batch = next(_validation_batches(job))
    mask = None if batch.source_mask is None else batch.source_mask[:1]
    writer, start = job.model.continuing(batch.source[:1], mask)
    config = job.model.config
    stop = config.eos_token_id
    length = min(SAMPLE, config.n_positions)
    steps = writer.stream(start, length, temperature=0.8, seed=job.step, stop=stop)
    tokens = [int(step[0]) for step in steps]
    return repr(job.text.decode([token for token in tokens if token != stop]))


def _not_finite(job: Job, step: int, what: str) -> str:
    kept = job.run.folder / RESUME
    advice = f"start again from the best model with --init {job.run.folder} and a rate below {job.options.lr:.2g}"
    return f"step {step}: {what}. The last good state is kept in {kept}; {advice}"
