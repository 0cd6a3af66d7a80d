"""From the first update to the last: what a person wants around tuning on instructions.

To know beforehand what it costs, to see what was learned and what was forgotten, to stop it and go on.
"""

import math
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from minigpt.device.arrays import array_module
from minigpt.device.threads import about_threads
from minigpt.errors import InputError
from minigpt.files import disk, hub
from minigpt.files.disk import typed
from minigpt.files.lock import locked
from minigpt.jobs import chat_template, run_state
from minigpt.jobs.convert import GENERATION
from minigpt.jobs.finetune.tuning import batches
from minigpt.jobs.instruct.examples import PLAIN, Example, batch, n_targets, n_tokens
from minigpt.jobs.instruct.preparation import ADAPTER, Job, prepare
from minigpt.jobs.instruct.settings import InstructOptions
from minigpt.jobs.interrupt import Timer, interruptible
from minigpt.jobs.option_fields import told
from minigpt.jobs.run_folder import RESUME
from minigpt.models import costs
from minigpt.models.adapters import open_adapter, save_adapter
from minigpt.models.answers import answers_backward, answers_forward
from minigpt.models.lora import drop_lora, lora_layers, merge_lora
from minigpt.nn.optim import NonFiniteGradient
from minigpt.nn.schedules import warmup_linear
from minigpt.ops.random_keys import Key

FORWARD = 3  # an update takes about as long as so many forward passes


class Stopped(Exception):
    """The user wants the run to stop. Everything is kept."""


def instruct(options: InstructOptions, named: Collection[str] = ()) -> int:
    """Tune the model in `options.model` on instructions; returns the number of the signal that stopped it, or 0.

    Writes a model directory (`options.out`): the best epoch's model, its tokenizer and its chat template; the same as
    adapters, in the folder `adapter` there; instruct.csv, and resume.safetensors. Ctrl-C stops it, and the same options
    go on to the same end as if it had never stopped. named: has "threads" where the user said how many. Raises
    InputError for whatever cannot work, before anything is written.
    """
    job, state = prepare(options)
    folder = job.run.folder
    with locked(folder):
        if job.finished:
            print(f"this run is finished: {_learned(job)}: {folder}")
            return 0
        if state is not None:
            print(f"going on with the run in {folder} at update {job.step}")
            run_state.use_kept_threads(state["workers"], folder / RESUME, given="threads" in named)
        with interruptible(speaks=True) as stopped:
            try:
                _announce(job)
                _all_updates(job, stopped)
            except Stopped:
                print(f"stopped at update {job.step}; everything is kept. Go on: the same command")
                return stopped()
            _finish(job)
    return 0


def _announce(job: Job) -> None:
    """Print the sizes of all, and the memory."""
    model, options = job.model, job.options
    learned = sum(parameter.data.size for parameter in job.learned.values())
    numbers = sum(parameter.data.size for parameter in model.parameters()) - learned
    longest = max(len(example.ids) for example in job.train)
    rows = min(options.batch, len(job.train))
    kept = costs.activations(type(model), model.config, rows, longest)
    most_targets = rows * max(n_targets([example]) for example in job.train)
    head = 3 * 4 * most_targets * model.config.vocab_size  # scores, probabilities, and their gradient
    memory = costs.human_bytes(4 * numbers + 16 * learned + kept + head)
    whose = "the plain one of Alpaca, because MODEL has none" if job.template.path == PLAIN else job.template.path
    told_tokens = f"{n_targets(job.train):,} of {n_tokens(job.train):,} tokens are of answers"
    print(f"data     {len(job.train):,} conversations to learn from, {len(job.valid):,} kept apart; {told_tokens}")
    print(f"template {whose}")
    print(f"model    {type(model).__name__}: {numbers:,} parameters stay, {learned:,} learn beside "
          f"{len(lora_layers(model))} layers")  # fmt: skip
    print(f"memory   about {memory}; {costs.human_bytes(16 * numbers + kept + head)} if all would learn")
    print(f"folder   {job.run.folder}", flush=True)


def _all_updates(job: Job, stopped: Callable[[], int]) -> None:
    """The updates that are left, with an evaluation before the first one and after each epoch. Raises Stopped."""
    if not job.run.claimed:
        _keep(job)  # the first file of a run, and the one that marks its folder
    timer = Timer()
    with tqdm(total=job.total, initial=job.step, unit="step", dynamic_ncols=True) as bar:
        while True:
            if job.step % job.in_epoch == 0 and job.logged < job.step:
                _assess(job, bar.write, stopped)
            if job.step == job.total:
                return
            job.losses.append(_update(job))
            job.step += 1
            bar.update()
            bar.set_postfix_str(f"loss {job.losses[-1]:.3f}", refresh=False)
            if stopped():
                _keep(job)
                raise Stopped
            if timer.due:
                with timer.keeping():
                    _keep(job)


def _update(job: Job) -> float:
    """One update; returns the loss before it, in nats a token. Raises InputError where a gradient is not finite."""
    options = job.options
    rng = np.random.default_rng([options.seed, job.step // job.in_epoch, 2])
    lengths = [len(example.ids) for example in job.train]
    rows = batches(lengths, options.batch, rng)[job.step % job.in_epoch]
    examples = [job.train[i] for i in rows]
    ids, targets = batch(examples)
    n = n_targets(examples)
    job.model.zero_grad()
    log_p, cache = answers_forward(job.model, ids, targets, key=Key.of(options.seed, job.step))
    # loss = -sum(log_p) / n
    dlog_p = array_module(log_p).full_like(log_p, -1 / n)
    answers_backward(dlog_p, cache)
    lr = options.lr * warmup_linear(job.step / job.total, options.warmup)
    try:
        job.optimizer.step(lr, options.clip)
    except NonFiniteGradient as error:
        advice = f"give a smaller --lr than {options.lr:.2g}, and another --out"
        raise InputError(f"update {job.step + 1}: {error}: {advice}") from error
    return -float(log_p.sum()) / n


def _assess(job: Job, write: Callable[[str], object], stopped: Callable[[], int]) -> None:
    """A line of the table: how well answers are written that were kept apart, and the other text. Raises Stopped."""
    start = time.perf_counter()
    valid = _loss_of_answers(job, job.valid, stopped)
    seconds = time.perf_counter() - start
    other = _loss_of_other(job, stopped)
    epoch = job.step // job.in_epoch
    mean = float(np.mean(job.losses)) if job.losses else None
    if job.best is None or valid < job.best:
        job.best = valid
        save_adapter(job.model, job.run.folder / ADAPTER, base=job.options.model, overwrite=True)
    job.run.log(step=job.step, epoch=epoch, train_loss=mean, valid_loss=valid, other_loss=other)
    job.logged = job.step
    job.losses = []
    _keep(job)
    before = "before" if mean is None else f"epoch {epoch}, training loss {mean:.4f}"
    write(f"{before}: loss {valid:.4f} on what is kept apart, {other:.4f} on {job.options.other}")
    if mean is None:
        whole = FORWARD * seconds * n_tokens(job.train) / n_tokens(job.valid) * job.options.epochs
        write(f"time     {job.total} updates: about {max(1, whole / 60):.0f} minutes on {_where(job)}")


def _where(job: Job) -> str:
    return about_threads() if job.model.device == "cpu" else "the GPU"


def _loss_of_answers(job: Job, examples: Sequence[Example], stopped: Callable[[], int]) -> float:
    """In nats a token of an answer."""
    by_length = sorted(examples, key=lambda example: len(example.ids))
    total = 0.0
    for begin in range(0, len(by_length), job.options.batch):
        _check(job, stopped)
        ids, targets = batch(by_length[begin : begin + job.options.batch])
        log_p, _ = answers_forward(job.model, ids, targets, grad=False)
        total -= float(log_p.sum())
    return _finite(total / n_targets(examples), job)


def _loss_of_other(job: Job, stopped: Callable[[], int]) -> float:
    """In nats a token."""
    total = 0.0
    count = 0
    for ids, targets in job.other:
        _check(job, stopped)
        loss, _ = job.model.loss(ids, targets, normalizer=1, grad=False)
        total += float(loss)
        count += int((targets >= 0).sum())
    return _finite(total / count, job)


def _finite(loss: float, job: Job) -> float:
    """This loss. Raises InputError where it is none."""
    if not math.isfinite(loss):
        advice = f"give a smaller --lr than {job.options.lr:.2g}, and another --out"
        raise InputError(f"update {job.step}: the loss is not finite: {advice}")
    return loss


def _check(job: Job, stopped: Callable[[], int]) -> None:
    """Raises Stopped where the user wants the run to stop: an evaluation is made when it goes on."""
    if stopped():
        _keep(job)
        raise Stopped


def _keep(job: Job) -> None:
    """Write the file from which the run goes on."""
    state = {
        "step": job.step,
        "logged": job.logged,
        "losses": job.losses,
        "best": job.best,
        "finished": job.finished,
        "options": told(job.options),
        "marks": job.marks,
        "workers": None if job.finished else run_state.workers(),
    }
    job.run.save(job, job.optimizer, state)


def _finish(job: Job) -> None:
    """Write the model of the best epoch, with all that belongs to it, and tell what came out."""
    folder = job.run.folder
    drop_lora(job.model)
    open_adapter(job.model, folder / ADAPTER)
    merge_lora(job.model)
    job.model.save(folder, overwrite=True)
    job.text.save(folder)
    disk.write_text(folder / chat_template.FILE, job.template.source)
    generation = hub.find(job.options.model) / GENERATION
    if generation.is_file():
        shutil.copyfile(generation, folder / GENERATION)
    job.finished = True
    _keep(job)
    print(_learned(job))
    print(f"adapter  {folder / ADAPTER}: {costs.human_bytes(_size(folder / ADAPTER))}, for the package peft too")
    print(f"now: minigpt chat {typed(folder)}")


def _learned(job: Job) -> str:
    """The losses before, and those of the epoch that was best."""
    first = job.run.rows[0]
    best = min(job.run.rows, key=lambda row: row["valid_loss"])
    answers = f"{first['valid_loss']:.3f} before, {best['valid_loss']:.3f} after epoch {best['epoch']:.0f}"
    other = f"{first['other_loss']:.3f} before, {best['other_loss']:.3f} after"
    return f"loss on answers kept apart {answers}; on {job.options.other} {other}"


def _size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())
