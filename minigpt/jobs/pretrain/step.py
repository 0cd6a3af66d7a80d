"""One update, and one evaluation: the heart of pre-training.

Windows of the text become a batch by the objective of the model; the batch goes forward to a loss, a gradient comes
back, the optimiser moves the weights.
"""

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from tqdm import tqdm

from minigpt import data
from minigpt.data.objectives import Batch, Objective, causal
from minigpt.device.arrays import Array
from minigpt.device.overlapped_sums import OverlappedSums
from minigpt.device.parallel import ALONE, Ranks
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.nn import accumulate
from minigpt.nn.schedules import warmup_cosine, warmup_cosine_floor
from minigpt.ops.cuda.cuda_graph import Recorded
from minigpt.ops.random_keys import Key

# A step is recorded as a CUDA graph if each of its parts has fewer operations than this: an H100 needs 20 ms for them
# in bfloat16 at half of its peak (predicted). Python needs up to 23 ms to launch a part of 12 blocks
# (benchmarks/host_cost.py, with stand-ins for the GPU: on a GPU it will be less). Where Python is only a little faster
# than the GPU, the GPU waits whenever Python does.
SMALL = 1e13

_flops_per_token = functools.cache(costs.flops_per_token)  # a whole model is made to count them: once, not every step


def rate(options: PretrainOptions, step: int) -> float:
    """The learning rate of update number `step`: GPT-1's schedule, or, where `min_lr` is given, one that ends there."""
    x = step / options.steps
    warmup = options.warmup / options.steps
    if options.min_lr is None:
        return options.lr * warmup_cosine(x, warmup)
    return options.lr * warmup_cosine_floor(x, warmup, options.min_lr / options.lr)


def batch_of(job: Job, step: int) -> Batch:
    """The whole batch of update number `step`: a pure function of the seed and the step, on all processes the same."""
    options = job.options
    context = job.model.config.n_positions
    windows = data.random_windows(
        job.train, options.batch, context, options.seed, step, job.starts[0], options.align
    )  # fmt: skip
    return job.objective(windows, np.random.default_rng([options.seed, step, 1]))


def update(job: Job, lr: float) -> float | Array:
    """One update of the weights from batch number `job.step`; returns the loss, in nats per token.

    With accumulate > 1 the batch comes in parts, and of several processes each takes some rows and returns their part
    of the loss. All share one normaliser and one key: to rounding, and to the bit in what is dropped, the result is
    that of the whole batch.
    """
    model = job.model
    batch = batch_of(job, job.step)
    key = Key.of(job.options.seed, job.step)
    if _is_recorded(job, batch):
        total = _repeat(job, batch, key)
        job.ranks.sum(_all_gradients(model))
    else:
        with _summed(job):
            total = _gradients(job, batch, job.rows, batch.n_targets, key)
    norm = job.optimizer.step(lr, job.options.clip)
    return total + 0 * norm  # on a GPU a norm that is not finite has raised nothing: it shows here, and in the loss


def _all_gradients(model: LanguageModel) -> list[Array]:
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@contextlib.contextmanager
def _summed(job: Job) -> Iterator[None]:
    """Gradients that are computed inside are summed over the processes: between GPUs each as soon as it is complete.

    Not so in a recorded step. Its graph would have to hold what NCCL sends, in all processes alike; and one that cannot
    record, for want of memory, would leave the others waiting for ever.
    """
    if not _overlaps(job):
        yield
        job.ranks.sum(_all_gradients(job.model))
        return
    if job.sums is None:
        job.sums = OverlappedSums(job.ranks, job.model.named_parameters())
    with job.sums.during_backward():
        yield


def _overlaps(job: Job) -> bool:
    """Can NCCL sum the gradients of a step, and does each step bring as many of them as the one before?"""
    several_gpus = job.ranks.size > 1 and job.model.device == "cuda"
    return several_gpus and job.model.repeats_its_step and bool(job.ranks.nccl())


def _gradients(job: Job, batch: Batch, rows: slice, n_targets: int, key: Key | None) -> float | Array:
    """The loss of this process's rows, computed part by part; their gradients arrive in the parameters.

    rows: their places in `batch`. n_targets: of the whole batch, of all processes.
    """
    model = job.model
    model.zero_grad()
    total = 0.0
    for start in range(rows.start, rows.stop, job.part):
        part = batch.rows(slice(start, start + job.part))
        key_of_part = None
        if key is not None:
            key_of_part = key._replace(row=job.rows.start + start - rows.start)  # the row in the whole batch
        loss, cache = model.loss(
            part.ids, part.targets, normalizer=max(1, n_targets), key=key_of_part, **part.inputs
        )  # fmt: skip
        model.loss_backward(cache)
        total = total + loss
    return total


# --------------------------------------------------------------------------------- small steps on a GPU are recorded


def _is_recorded(job: Job, batch: Batch) -> bool:
    """On a GPU: is a step always the same work, and so little that the GPU may wait for its launches?

    Numbers are recorded as they are: so every batch must have the same number of targets.
    """
    model = job.model
    if model.device != "cuda" or not model.repeats_its_step or batch.inputs or batch.n_targets < batch.targets.size:
        return False
    _, flops = _flops_per_token(type(model), model.config)
    return flops * job.part * model.config.n_positions < SMALL


def _repeat(job: Job, batch: Batch, key: Key) -> Array:
    """The loss of this process's rows; their gradients arrive in the parameters.

    All parts of the rows are in one graph, one after the other. A graph of a single part could not be repeated for the
    next one: the number of its first row, which decides what dropout drops, is recorded too.
    """
    model = job.model
    if job.recorded is None:
        job.recorded = Recorded(functools.partial(_recorded_gradients, job))
    inputs = [batch.ids[job.rows], batch.targets[job.rows]]
    if _drops(model):
        inputs.append(key.table(model.config.n_layer + 1, model.dropout_sites))
    loss, gradients = job.recorded(*inputs)
    model.zero_grad()
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        accumulate(parameter, gradient)
    return loss


def _recorded_gradients(
    job: Job, ids: Array, targets: Array, table: Array | None = None
) -> tuple[Array, list[Array]]:
    """The loss of this process's rows, and the gradient of each parameter. table: of the step's key, for dropout."""
    key = None if table is None else Key(table)
    n_targets = job.options.batch * targets.shape[1]
    loss = _gradients(job, Batch(ids, targets), slice(0, len(ids)), n_targets, key)
    return loss, [parameter.grad for parameter in job.model.parameters()]


def _drops(model: LanguageModel) -> bool:
    """Is anything dropped in training?"""
    rates = [getattr(model.config, name, 0.0) for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop")]
    return any(rates)


# -------------------------------------------------------------------------------------------------------- evaluation


def evaluate(model: LanguageModel, batches: Iterable[Batch], ranks: Ranks = ALONE) -> float:
    """The mean loss over all targets of these batches, in nats; of several processes each takes some of the batches."""
    total = 0.0
    count = 0
    mine = itertools.islice(batches, ranks.rank, None, ranks.size)
    for batch in tqdm(mine, "evaluating", leave=False, delay=2, disable=None):
        if batch.share is not None:
            batch = batch._replace(share=batch.n_targets)  # a mean over rows counts as often as the targets beside it
        loss, _ = model.loss(batch.ids, batch.targets, normalizer=1, grad=False, **batch.inputs)
        total += float(loss)
        count += batch.n_targets
    return ranks.total(total) / ranks.total(count)


def validation_batches(
    tokens: np.ndarray, context: int, batch_size: int, starts: np.ndarray | None = None, objective: Objective = causal
) -> Iterator[Batch]:
    """All of these tokens (N,) in windows that do not overlap. What is covered there is the same at each evaluation.

    context, starts: as for `data.windows`, which is used where each token predicts the next.
    """
    if objective is causal:
        for ids, targets in data.windows(tokens, context, batch_size, starts):
            yield Batch(ids, targets)
        return
    for number, windows in enumerate(data.whole_windows(tokens, context, batch_size)):
        yield objective(windows, np.random.default_rng([0, number, 2]))
