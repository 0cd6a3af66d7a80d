"""Pre-training: from a text to a model directory (GPT-1 section 3.1).

The heart is `update`: a batch of ids goes forward to a loss, a gradient comes back, the optimiser moves the weights.
Around it stands what a person wants of a long run: to know beforehand what it costs, to see how it goes, to stop it
and go on, and never to lose anything.
"""

import contextlib
import functools
import itertools
import math
import os
import signal
import time

import numpy as np
from tqdm import tqdm

from minigpt import data
from minigpt.device.arrays import to_numpy
from minigpt.device.gpu import held_memory
from minigpt.device.parallel import ALONE, Ranks
from minigpt.device.threads import threads
from minigpt.errors import InputError
from minigpt.jobs.job import Job, PretrainOptions, prepare, prepare_on, reopen  # noqa: F401 - the whole job under one name
from minigpt.jobs.run import RESUME
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.nn import accumulate
from minigpt.nn.optim import NonFiniteGradient
from minigpt.nn.schedules import warmup_cosine, warmup_cosine_floor
from minigpt.ops.cuda.graph import Recorded
from minigpt.ops.keys import Key

_flops_per_token = functools.cache(costs.flops_per_token)  # a whole model is made to count them: once, not every step
SMALL = 1e12  # operations of a step that is recorded as a CUDA graph: a few milliseconds of a large GPU


def train(options: PretrainOptions, ranks: Ranks = ALONE) -> Job:
    """Run a pre-training job to its end, or until Ctrl-C; returns it.

    Writes a model directory (`options.out`): the best model by validation loss and its tokenizer, loss.csv, loss.png,
    and resume.safetensors. With `options.resume` the run in `options.out` goes on as if it had never stopped. ranks:
    the processes that share every batch; the losses are those of one process, up to rounding, however many there are.
    Raises InputError for whatever cannot work. One process tries a step before it writes anything but the tokens of a
    large text; several begin with a kept run, which all of them open.
    """
    job = prepare_on(ranks, options)
    if ranks.first:
        announce(job)
    try:
        with _interruptible(says=ranks.first) as interrupted:
            loop(job, interrupted)
    except BrokenPipeError:  # whoever reads what we say has gone, perhaps with the same Ctrl-C
        job.save()
        raise
    job.run.draw(job.model.config.vocab_size)
    if job.step < job.options.steps:
        print(f"stopped at step {job.step}; everything is kept. Go on: minigpt train --resume --out {job.run.folder}")
    else:
        print(f"best validation loss {job.best:.4f} (perplexity {math.exp(job.best):.2f} per token): {job.run.folder}")
    return job


def rate(options: PretrainOptions, step: int) -> float:
    """The learning rate of update number `step`: GPT-1's schedule, or, where `min_lr` is given, one that ends there."""
    x, warmup = step / options.steps, options.warmup / options.steps
    if options.min_lr is None:
        return options.lr * warmup_cosine(x, warmup)
    return options.lr * warmup_cosine_floor(x, warmup, options.min_lr / options.lr)


def update(job: Job, lr: float):
    """One update of the weights from batch number `job.step`; returns the loss, in nats per token.

    With accumulate > 1 the batch comes in parts, and of several processes each takes some rows and returns their part
    of the loss. All share one normaliser and one key: to rounding, and to the bit in what is dropped, the result is
    that of the whole batch.
    """
    options, model = job.options, job.model
    where = (job.starts[0], options.align)
    ids, targets = data.batch(job.train, options.batch, model.config.n_positions, options.seed, job.step, *where)
    key, mine = Key.of(options.seed, job.step), job.rows
    if _repeats(job):
        job.recorded = job.recorded or Recorded(functools.partial(_gradients, job))
        table = [key.table(model.config.n_layer + 1, model.dropout_sites)] if _drops(model) else []
        total, gradients = job.recorded(ids[mine], targets[mine], *table)
        model.zero_grad()
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            accumulate(parameter, gradient)
    else:
        model.zero_grad()
        total = 0.0
        for row in range(mine.start, mine.stop, job.part):
            rows = slice(row, row + job.part)
            loss, cache = model.loss(ids[rows], targets[rows], normalizer=targets.size, key=key._replace(row=row))
            model.loss_backward(cache)
            total = total + loss
    job.ranks.sum(p.grad for _, p in model.named_parameters() if p.grad is not None)
    norm = job.optimizer.step(lr, options.clip)
    return total + 0 * norm  # on a GPU a norm that is not finite has raised nothing: it shows here, and in the loss


def _gradients(job: Job, ids, targets, table=None):
    """The loss of one process's rows, and the gradient of each parameter. table: of the step's key, for dropout."""
    key = None if table is None else Key(table, job.rows.start)
    job.model.zero_grad()
    loss, cache = job.model.loss(ids, targets, normalizer=job.options.batch * ids.shape[1], key=key)
    job.model.loss_backward(cache)
    return loss, [parameter.grad for parameter in job.model.parameters()]


def _repeats(job: Job) -> bool:
    """On a GPU: is a step always the same work, and so little that to order it takes longer than to do it?"""
    options, model = job.options, job.model
    same = model.device == "cuda" and model.repeats_its_step and options.accumulate == 1
    return same and _flops_per_token(type(model), model.config)[1] * job.part * model.config.n_positions < SMALL


def _drops(model: LanguageModel) -> bool:
    """Is anything dropped in training?"""
    return any(getattr(model.config, name) for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop"))


def evaluate(
    model: LanguageModel, tokens: np.ndarray, batch: int, starts: np.ndarray | None = None, ranks: Ranks = ALONE
) -> float:
    """The loss over all of these tokens in nats per token, from non-overlapping windows (`data.windows`)."""
    total, count = 0.0, 0
    windows = data.windows(tokens, model.config.n_positions, batch, starts)
    windows = itertools.islice(windows, ranks.rank, None, ranks.size)
    for ids, targets in tqdm(windows, "evaluating", leave=False, delay=2, disable=None):
        loss, _ = model.loss(ids, targets, normalizer=1, grad=False)
        total += float(loss)
        count += int((targets >= 0).sum())
    return ranks.total(total) / ranks.total(count)


def loop(job: Job, interrupted=lambda: False) -> None:
    """Update until the last step; now and then log, and evaluate, keep and show a sample."""
    options, run = job.options, job.run
    log_every = max(1, min(options.eval_every, options.steps // 100))
    kept = costs.human_bytes(job.memory.activations)
    if job.step == 0:
        job.save()
        assess(job, None, None, None)
    with tqdm(total=options.steps, initial=job.step, unit="step", dynamic_ncols=True) as bar:
        losses, since = [], time.perf_counter()
        while job.step < options.steps and not job.ranks.total(interrupted()):
            lr = rate(options, job.step)
            try:
                losses.append(update(job, lr))
            except NonFiniteGradient as error:
                raise InputError(_not_finite(job, str(error))) from error
            job.step += 1
            bar.update()
            evaluates = job.step % options.eval_every == 0 or job.step == options.steps
            if job.step % log_every == 0 or evaluates:
                mean = job.ranks.total(float(sum(losses) / len(losses)))  # the one place where a GPU is waited for
                if not math.isfinite(mean):
                    raise InputError(_not_finite(job, "the loss or the gradient is not finite"))
                speed = len(losses) * options.batch * job.model.config.n_positions / (time.perf_counter() - since)
                pool = f", GPU memory {costs.human_bytes(held_memory())}" if job.model.device == "cuda" else ""
                bar.set_postfix_str(f"loss {mean:.3f}, {speed:,.0f} tokens/s, caches {kept}{pool}")
                if evaluates:
                    assess(job, mean, lr, speed, bar.write)
                else:
                    run.log(step=job.step, train_loss=mean, lr=lr, tokens_per_second=speed)
                losses, since = [], time.perf_counter()
    if job.step < options.steps:
        job.save()


def assess(job: Job, train_loss, lr, speed, write=print) -> None:
    """Measure the validation loss; keep the model if it is the best so far; keep the run; show a sample."""
    loss = evaluate(job.model, job.valid, job.options.batch, job.starts[1], job.ranks)
    if not math.isfinite(loss):
        raise InputError(_not_finite(job, "the validation loss is not finite"))
    if job.ranks.size > 1:
        job.ranks.agree({"the sum of the weights": float(sum(p.data.sum() for p in job.model.parameters()))})
    if loss < job.best:
        job.best = loss
        job.run.export(job.model)
    job.run.log(step=job.step, train_loss=train_loss, val_loss=loss, lr=lr, tokens_per_second=speed)
    job.save()
    if job.ranks.first:
        write(f"step {job.step}: validation loss {loss:.4f}   {_sample(job)}")


def announce(job: Job) -> None:
    """Say what the run will cost and what to expect of it, before it starts."""
    options, model = job.options, job.model
    config, kind, memory = model.config, type(model), job.memory
    parts = zip(memory._fields, memory, strict=True)
    each = f"each of {job.ranks.size} processes has " if job.ranks.size > 1 else ""
    print(
        f"model    {kind.__name__}: {config.n_layer} layers, {config.n_head} heads, width {config.n_embd}, context "
        f"{config.n_positions}: {costs.count(kind, config):,} parameters\n"
        f"data     {options.data}: {len(job.train):,} training and {len(job.valid):,} validation tokens, "
        f"vocabulary {config.vocab_size:,}\n"
        f"memory   {costs.human_bytes(memory.total)}: {', '.join(f'{n} {costs.human_bytes(b)}' for n, b in parts)}\n"
        f"caches   {costs.caches(kind, config, job.part)}",
        flush=True,
    )
    updates, done = options.steps - job.step, job.step // options.eval_every
    evaluations = (job.step == 0) + (updates > 0) * (math.ceil(options.steps / options.eval_every) - done)
    update, evaluation = _measure(job)
    print(
        f"time     {updates:,} updates of {options.batch * config.n_positions:,} tokens and {evaluations} evaluations: "
        f"about {(updates * update + evaluations * evaluation) / 60:.1f} minutes on {model.device}, {each}{threads()} "
        f"threads ({update:.3f} s an update, {evaluation:.3g} s an evaluation)\n"
        f"expect   loss {math.log(config.vocab_size):.2f} at first: guessing among {config.vocab_size:,} tokens; "
        f"a rate that rises to {options.lr:.2g} and falls to {options.min_lr or 0:.2g}\n"
        f"folder   {job.run.folder}"
    )


def _measure(job: Job) -> tuple[float, float]:
    """Seconds of an update, not recorded, and of an evaluation, from one batch; nothing of the run is changed."""
    ids, targets = data.batch(job.train, job.options.batch, job.model.config.n_positions, job.options.seed, 0)
    rows = slice(job.rows.start, job.rows.start + job.part)
    ids, targets = ids[rows], targets[rows]
    durations = []
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        loss, cache = job.model.loss(ids, targets)
        float(loss)
        forward = time.perf_counter() - start
        job.model.loss_backward(cache)
        float(loss)  # a GPU has done all that was ordered before
        update = (time.perf_counter() - start) * job.options.accumulate
        durations.append((update, forward * len(job.valid) / ids.size / job.ranks.size))
        job.model.zero_grad()
    return min(durations)


def _sample(job: Job, n_tokens: int = 40) -> str:
    start = job.valid[:1][None] if job.text.start_id is None else np.array([[job.text.start_id]])
    ids = job.model.generate(start, n_tokens, temperature=0.8, seed=job.step)
    return repr(job.text.decode(to_numpy(ids)[0].tolist()))


def _not_finite(job: Job, what: str) -> str:
    kept = job.run.folder / RESUME
    advice = f"start again from the best model with --init {job.run.folder} and a rate below {job.options.lr:.2g}"
    return f"step {job.step + 1}: {what}. The last good state is kept in {kept}; {advice}"


@contextlib.contextmanager
def _interruptible(says: bool):
    """Ctrl-C once: a flag, so that the update in progress ends whole. Twice: the usual KeyboardInterrupt.

    says: is this the process that tells the user so?
    """
    pressed = []

    def note(signum, frame):
        if pressed:
            raise KeyboardInterrupt
        pressed.append(signum)
        with contextlib.suppress(OSError):  # not by print: a signal may come while something is printed
            if says:
                os.write(2, b"\nCtrl-C: finishing this update, then saving (press again to leave at once)\n")

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not in the main thread: whoever started the thread decides
        yield lambda: False
        return
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
