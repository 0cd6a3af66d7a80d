"""What a run will cost and what to expect of it, told before it starts."""

import math
import time

from minigpt.device.threads import about_threads
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.pretrain.recipe import about_recipe
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.jobs.pretrain.step import batch_of
from minigpt.models import costs


def announce(job: Job) -> None:
    """Print the size of the model and of the data, memory, minutes, and the loss to expect."""
    print("\n".join([_about_sizes(job), *about_recipe(job)]), flush=True)
    print(_about_time(job))


def _about_sizes(job: Job) -> str:
    options, model = job.options, job.model
    config, kind = model.config, type(model)
    return (
        f"model    {kind.__name__}: {config.sizes}: {costs.count(kind, config):,} parameters\n"
        f"data     {options.data}: {len(job.train):,} training and {len(job.valid):,} validation tokens\n"
        f"memory   {job.memory}\n"
        f"caches   {costs.caches(kind, config, job.part)}"
    )


def _about_time(job: Job) -> str:
    options, config = job.options, job.model.config
    updates = options.steps - job.step
    evaluations = _evaluations_left(job)
    update, evaluation = measure(job)
    minutes = (updates * update + evaluations * evaluation) / 60
    each = f"each of {job.ranks.size} processes has " if job.ranks.size > 1 else ""
    if job.in_nats:
        levels = (
            f"loss {math.log(config.vocab_size):.2f} is guessing among {config.vocab_size:,} tokens, "
            f"{job.entropy:.2f} a table of token frequencies"
        )
    else:
        levels = "a loss that is the sum of several: it is compared only with that of another run"
    return (
        f"time     {updates:,} updates of {options.batch * config.n_positions:,} tokens and {evaluations} evaluations: "
        f"about {minutes:.1f} minutes on {job.model.device}, {each}{about_threads()} "
        f"({update:.3f} s an update, {evaluation:.3g} s an evaluation)\n"
        f"expect   {levels}; {_about_rate(options)}\n"
        f"folder   {job.run.folder}"
    )


def _about_rate(options: PretrainOptions) -> str:
    """How the rate changes, in words."""
    highest = f"{options.lr:.2g}"
    lowest = f"{options.min_lr or 0:.2g}"
    if options.warmup == 0 and lowest == highest:
        return f"a rate of {highest}"
    if options.warmup == 0:
        return f"a rate that falls from {highest} to {lowest}"
    return f"a rate that rises to {highest} in {options.warmup} updates and ends at {lowest}"


def _evaluations_left(job: Job) -> int:
    options = job.options
    first = 1 if job.step == 0 else 0
    if job.step >= options.steps:
        return first
    in_all = math.ceil(options.steps / options.eval_every)
    return first + in_all - job.step // options.eval_every


def measure(job: Job) -> tuple[float, float]:
    """Seconds of an update, not recorded, and of an evaluation, from one batch; nothing of the run is changed."""
    batch = batch_of(job, 0).rows(slice(job.rows.start, job.rows.start + job.part))
    measured = []
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        loss, cache = job.model.loss(batch.ids, batch.targets, **batch.inputs)
        float(loss)
        forward = time.perf_counter() - start
        job.model.loss_backward(cache)
        float(loss)  # a GPU has done everything that was launched before
        update = (time.perf_counter() - start) * job.options.accumulate
        windows = len(job.valid) / job.model.config.n_positions
        evaluation = forward * windows / len(batch.ids) / job.ranks.size
        measured.append((update, evaluation))
        job.model.zero_grad()
    return min(measured)
