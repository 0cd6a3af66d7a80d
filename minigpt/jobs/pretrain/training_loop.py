"""From the first update to the last: what a person wants around it.

To know beforehand what it costs, to see how it goes, to stop it and go on, and never to lose anything.
"""

import math
import time
from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from minigpt.device import gpu
from minigpt.device.arrays import to_numpy
from minigpt.device.parallel import ALONE, Ranks
from minigpt.errors import InputError
from minigpt.jobs.interrupt import interruptible
from minigpt.jobs.pretrain.announcement import announce
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.pretrain.preparation import prepare_on
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.jobs.pretrain.step import evaluate, rate, update, validation_batches
from minigpt.jobs.run_folder import RESUME
from minigpt.models import costs
from minigpt.nn.optim import NonFiniteGradient

SAMPLE = 40  # tokens that are written after an evaluation


def train(options: PretrainOptions, ranks: Ranks = ALONE) -> Job:
    """Run a pre-training job to its end, or until Ctrl-C; returns it.

    Writes a model directory (`options.out`): the best model by validation loss and its tokenizer, loss.csv, loss.png,
    and resume.safetensors. With `options.resume` the run in `options.out` goes on as if it had never stopped. ranks:
    the processes that share every batch; the losses are those of one process, up to rounding, however many there are.
    Raises InputError for whatever cannot work. One process tries a step before it writes anything but the tokens of a
    large text; several begin with a kept run, which all of them open.
    """
    job = prepare_on(ranks, options)
    with gpu.products_in(job.products):
        if ranks.first:
            announce(job)
    try:
        with interruptible(speaks=ranks.first) as interrupted:
            loop(job, interrupted)
    except BrokenPipeError:  # the reader of the output has gone, perhaps with the same Ctrl-C
        job.save()
        raise
    job.run.draw(job.model.config.vocab_size)
    if job.step < job.options.steps:
        print(f"stopped at step {job.step}; everything is kept. Go on: minigpt train --resume --out {job.run.folder}")
    else:
        print(f"best validation loss {job.best:.4f} (perplexity {math.exp(job.best):.2f} per token): {job.run.folder}")
    return job


def loop(job: Job, interrupted: Callable[[], bool] = lambda: False) -> None:
    """Update until the last step; now and then log, and evaluate, keep and show a sample."""
    options = job.options
    log_every = max(1, min(options.eval_every, options.steps // 100))
    with gpu.products_in(job.products):
        if job.step == 0:
            job.save()
            assess(job, None, None, None)
    with gpu.products_in(job.products), tqdm(
        total=options.steps, initial=job.step, unit="step", dynamic_ncols=True
    ) as bar:
        losses = []
        since = time.perf_counter()
        while job.step < options.steps and not job.ranks.total(interrupted()):
            lr = rate(options, job.step)
            losses.append(_checked_update(job, lr))
            job.step += 1
            bar.update()
            evaluates = job.step % options.eval_every == 0 or job.step == options.steps
            if job.step % log_every == 0 or evaluates:
                mean = _mean(job, losses)
                speed = len(losses) * options.batch * job.model.config.n_positions / (time.perf_counter() - since)
                bar.set_postfix_str(_progress(job, mean, speed))
                if evaluates:
                    assess(job, mean, lr, speed, bar.write)
                else:
                    job.run.log(step=job.step, train_loss=mean, lr=lr, tokens_per_second=speed)
                losses = []
                since = time.perf_counter()
    if job.step < options.steps:
        job.save()


def _checked_update(job: Job, lr: float):
    """`update`. Raises InputError for a gradient that is not finite."""
    try:
        return update(job, lr)
    except NonFiniteGradient as error:
        raise InputError(_not_finite(job, job.step + 1, str(error))) from error


def _mean(job: Job, losses: list) -> float:
    """The mean of these losses over all processes: the one place where a GPU is waited for."""
    mean = job.ranks.total(float(sum(losses) / len(losses)))
    if not math.isfinite(mean):
        raise InputError(_not_finite(job, job.step, "the loss or the gradient is not finite"))
    return mean


def _progress(job: Job, loss: float, speed: float) -> str:
    """What stands beside the bar."""
    kept = costs.human_bytes(job.memory.activations)
    pool = f", GPU memory {costs.human_bytes(gpu.held_memory())}" if job.model.device == "cuda" else ""
    return f"loss {loss:.3f}, {speed:,.0f} tokens/s, caches {kept}{pool}"


def assess(
    job: Job, train_loss: float | None, lr: float | None, speed: float | None, write: Callable[[str], object] = print
) -> None:
    """Measure the validation loss; keep the model if it is the best so far; keep the run; show a sample.

    Raises InputError for a loss that is not finite.
    """
    context = job.model.config.n_positions
    batches = validation_batches(job.valid, context, job.options.batch, job.starts[1], job.objective)
    loss = evaluate(job.model, batches, job.ranks)
    if not math.isfinite(loss):
        raise InputError(_not_finite(job, job.step, "the validation loss is not finite"))
    if job.ranks.size > 1:
        total = sum(p.data.sum() for p in job.model.parameters())
        job.ranks.agree({"the sum of the weights": float(total)})
    if loss < job.best:
        job.best = loss
        job.run.export(job.model)
    job.run.log(step=job.step, train_loss=train_loss, val_loss=loss, lr=lr, tokens_per_second=speed)
    job.save()
    if job.ranks.first:
        write(f"step {job.step}: validation loss {loss:.4f}   {_sample(job)}".rstrip())


def _sample(job: Job) -> str:
    """A few tokens of the model as it is now; nothing of a model that cannot write."""
    if not job.model.can_generate:
        return ""
    start_id = job.text.start_id
    start = job.valid[:1][None] if start_id is None else np.array([[start_id]])
    ids = job.model.generate(start, SAMPLE, temperature=0.8, seed=job.step)
    return repr(job.text.decode(to_numpy(ids)[0].tolist()))


def _not_finite(job: Job, step: int, what: str) -> str:
    kept = job.run.folder / RESUME
    advice = f"start again from the best model with --init {job.run.folder} and a rate below {job.options.lr:.2g}"
    return f"step {step}: {what}. The last good state is kept in {kept}; {advice}"
