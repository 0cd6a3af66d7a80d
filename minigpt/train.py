"""Pre-training: from a text to a model directory (GPT-1 section 3.1).

The heart is `update`: a batch of ids goes forward to a loss, a gradient comes back, the optimiser moves the weights.
Around it stands what a person wants of a long run: to know beforehand what it costs, to see how it goes, to stop it
and go on, and never to lose anything.
"""

import contextlib
import math
import signal
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from minigpt import costs, data, hub, models, tokenizer
from minigpt.backend import choose_device, threads, to_numpy
from minigpt.errors import InputError
from minigpt.key import Key
from minigpt.language_model import LanguageModel
from minigpt.optim import (
    AdamW,
    GPT1Adam,
    NonFiniteGradient,
    Optimizer,
    clip_by_global_norm,
    warmup_cosine,
    warmup_cosine_floor,
)
from minigpt.run import RESUME, Run

OPTIMIZERS = {"gpt1": GPT1Adam, "gpt2": AdamW, "lstm": GPT1Adam}  # the GPT-2 paper names none: today's usual


@dataclass(kw_only=True)
class Options:
    """What `minigpt train` can be told. None: a default that depends on the others, filled in by `resolve`."""

    model: str | None = None
    size: str | None = None
    layers: int | None = None
    heads: int | None = None
    embd: int | None = None
    context: int | None = None
    data: str = "stories"
    tokenizer: str | None = None
    init: str | None = None
    out: str | None = None
    batch: int = 12
    accumulate: int = 1
    steps: int = 2000
    lr: float | None = None
    min_lr: float | None = None
    warmup: int | None = None
    dropout: float | None = None
    beta2: float = 0.999
    weight_decay: float = 0.01
    clip: float = 1.0
    align: float = 0.0
    seed: int = 0
    eval_every: int | None = None
    checkpoint_blocks: bool | None = None
    device: str | None = None

    def check(self) -> None:
        """Raises InputError for a number outside its range."""
        for name in ("batch", "accumulate", "steps", "eval_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')} {value}: give 1 or more")
        for name in ("lr", "min_lr", "warmup", "weight_decay", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise InputError(f"--{name.replace('_', '-')} {value}: give 0 or more")
        if not 0 <= self.beta2 < 1:
            raise InputError(f"--beta2 {self.beta2}: give 0 or more and less than 1")
        if not 0 <= self.align <= 1:
            raise InputError(f"--align {self.align}: give a share from 0 to 1")
        if self.batch % self.accumulate:
            raise InputError(f"--batch {self.batch} cannot be split into --accumulate {self.accumulate} equal parts")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: give 0 or more")


@dataclass
class Job:
    """Everything that a run works with."""

    options: Options
    model: LanguageModel
    text: "tokenizer.Tokenizer"
    train: np.ndarray
    valid: np.ndarray
    optimizer: Optimizer
    run: Run
    text_mark: str  # tells on resume whether the text is still the same
    starts: tuple = (None, None)  # where windows of train, and of valid, begin if `options.align` says so
    step: int = 0
    best: float = math.inf

    @property
    def state(self) -> dict:
        """What is needed, beside the tensors, to go on."""
        numbers = {"step": self.step, "best": self.best, "text": self.text_mark}
        return numbers | {"options": asdict(self.options), "config": self.model.config.to_dict()}


def train(options: Options, resume: bool = False) -> Job:
    """Run a pre-training job to its end, or until Ctrl-C; returns it.

    Writes a model directory (`options.out`): the best model by validation loss and its tokenizer, loss.csv, loss.png,
    and resume.safetensors. With resume=True the run in `options.out` goes on as if it had never stopped.
    Raises InputError for whatever cannot work, before anything is written.
    """
    job = reopen(options) if resume else prepare(options)
    announce(job)
    with _interruptible() as interrupted:
        loop(job, interrupted)
    job.run.draw(job.model.config.vocab_size)
    if job.step < job.options.steps:
        print(f"stopped at step {job.step}; everything is kept. Go on: minigpt train --resume --out {job.run.folder}")
    else:
        print(f"best validation loss {job.best:.4f} (perplexity {math.exp(job.best):.2f} per token): {job.run.folder}")
    return job


def rate(options: Options, step: int) -> float:
    """The learning rate of update number `step`: GPT-1's schedule, or, where `min_lr` is given, one that ends there."""
    x, warmup = step / options.steps, options.warmup / options.steps
    if options.min_lr is None:
        return options.lr * warmup_cosine(x, warmup)
    return options.lr * warmup_cosine_floor(x, warmup, options.min_lr / options.lr)


def update(job: Job, lr: float):
    """One update of the weights from batch number `job.step`; returns the loss, in nats per token.

    With accumulate > 1 the batch comes in parts, which share one normaliser and one key: to rounding, and to the bit in
    what is dropped, the result is that of the whole batch.
    """
    options, model = job.options, job.model
    where = (job.starts[0], options.align)
    ids, targets = data.batch(job.train, options.batch, model.config.n_positions, options.seed, job.step, *where)
    key, part = Key.of(options.seed, job.step), options.batch // options.accumulate
    model.zero_grad()
    total = 0.0
    for row in range(0, options.batch, part):
        rows = slice(row, row + part)
        loss, cache = model.loss(ids[rows], targets[rows], normalizer=targets.size, key=key._replace(row=row))
        model.loss_backward(cache)
        total = total + loss
    clip_by_global_norm(model.named_parameters(), options.clip)
    job.optimizer.step(lr)
    return total


def evaluate(model: LanguageModel, tokens: np.ndarray, batch: int, starts: np.ndarray | None = None) -> float:
    """The loss over all of these tokens in nats per token, from non-overlapping windows (`data.windows`)."""
    total, count = 0.0, 0
    for ids, targets in data.windows(tokens, model.config.n_positions, batch, starts):
        loss, _ = model.loss(ids, targets, normalizer=1, grad=False)
        total += float(loss)
        count += int((targets >= 0).sum())
    return total / count


def loop(job: Job, interrupted=lambda: False) -> None:
    """Update until the last step; now and then log, and evaluate, keep and show a sample."""
    options, run = job.options, job.run
    log_every = max(1, min(options.eval_every, options.steps // 100))
    shape = (options.batch // options.accumulate, job.model.config.n_positions, job.model.checkpoint_blocks)
    kept = costs.human_bytes(costs.activations(type(job.model), job.model.config, *shape))
    if job.step == 0:
        assess(job, None, None, None)
    with tqdm(total=options.steps, initial=job.step, unit="step", dynamic_ncols=True) as bar:
        losses, since = [], time.perf_counter()
        while job.step < options.steps and not interrupted():
            lr = rate(options, job.step)
            try:
                losses.append(update(job, lr))
            except NonFiniteGradient as error:
                raise InputError(_not_finite(job, str(error))) from error
            job.step += 1
            bar.update()
            evaluates = job.step % options.eval_every == 0 or job.step == options.steps
            if job.step % log_every == 0 or evaluates:
                mean = float(sum(losses) / len(losses))  # the one place where a GPU is waited for
                speed = len(losses) * options.batch * job.model.config.n_positions / (time.perf_counter() - since)
                bar.set_postfix_str(f"loss {mean:.3f}, {speed:,.0f} tokens/s, caches {kept}")
                if evaluates:
                    assess(job, mean, lr, speed, bar.write)
                else:
                    run.log(step=job.step, train_loss=mean, lr=lr, tokens_per_second=speed)
                losses, since = [], time.perf_counter()
    if interrupted():
        run.save(job.model, job.optimizer, job.state)


def assess(job: Job, train_loss, lr, speed, write=print) -> None:
    """Measure the validation loss; keep the model if it is the best so far; keep the run; show a sample."""
    loss = evaluate(job.model, job.valid, job.options.batch, job.starts[1])
    if not math.isfinite(loss):
        raise InputError(_not_finite(job, "the validation loss is not finite"))
    if loss < job.best:
        job.best = loss
        job.model.save(job.run.folder)
    job.run.log(step=job.step, train_loss=train_loss, val_loss=loss, lr=lr, tokens_per_second=speed)
    job.run.save(job.model, job.optimizer, job.state)
    write(f"step {job.step}: validation loss {loss:.4f}   {_sample(job)}")


def prepare(options: Options) -> Job:
    """A new job: data, tokenizer, model and optimizer, checked before the folder is claimed."""
    options = replace(options)
    options.check()
    corpus, init = data.load(options.data), options.init
    size = f"from-{Path(init).name}" if init else options.size or "nano"
    options.model = options.model or (models.name_of(models.class_in(init)) if init else "gpt1")
    options.out = options.out or f"runs/{options.model}-{corpus.name}-{size}"
    run = Run.start(options.out)
    device = choose_device(options.device)
    if init:
        model, text = _from_init(options)
    else:
        text = _tokenizer(options, corpus)
        model = _new_model(options, text.vocab_size)
    resolve(options, model)
    job = _assemble(options, model.to(device), text, corpus, run)
    text.save(run.folder)
    return job


def reopen(options: Options) -> Job:
    """The job in `options.out` as it stood when it was last kept; its own options hold.

    Only where and in which order things are computed can be given anew: the device, checkpoint_blocks.
    """
    run, state, tensors = Run.load(options.out or "")
    given = {"out": str(options.out), "device": options.device}
    if options.checkpoint_blocks is not None:
        given["checkpoint_blocks"] = options.checkpoint_blocks
    options = Options(**state["options"] | given)
    corpus, text = data.load(options.data), tokenizer.load(run.folder)
    kind = models.model_class(options.model)
    model = kind(kind.Config.from_dict(state["config"]), seed=None).to(choose_device(options.device))
    job = _assemble(options, model, text, corpus, run)
    job.step, job.best = state["step"], state["best"]
    if job.text_mark != state["text"]:
        raise InputError(f"{options.data} is not the text that the run in {options.out} began with")
    run.restore(model, job.optimizer, job.step, tensors)
    return job


def resolve(options: Options, model: LanguageModel) -> None:
    """Fill in the defaults that depend on the model and on the length of the run.

    The rate was measured on the sizes nano and mini; at the paper's width it is close to the paper's 2.5e-4.
    """
    config = model.config
    options.size = None
    options.layers, options.heads = config.n_layer, config.n_head
    options.embd, options.context = config.n_embd, config.n_positions
    options.dropout = config.resid_pdrop
    options.lr = 0.256 / config.n_embd if options.lr is None else options.lr
    if options.min_lr is not None and not options.min_lr <= options.lr > 0:
        raise InputError(f"--min-lr {options.min_lr} --lr {options.lr}: give a rate above 0 that ends no higher")
    options.warmup = min(2000, options.steps // 10) if options.warmup is None else min(options.warmup, options.steps)
    options.eval_every = max(1, options.steps // 8) if options.eval_every is None else options.eval_every


def announce(job: Job) -> None:
    """Say what the run will cost and what to expect of it, before it starts."""
    options, model = job.options, job.model
    config, kind = model.config, type(model)
    part = options.batch // options.accumulate
    memory = costs.memory(kind, config, part, model.checkpoint_blocks)
    seconds = _measure_update(job)
    minutes = seconds * (options.steps - job.step) / 60
    parts = zip(memory._fields, memory, strict=True)
    print(
        f"model    {kind.__name__}: {config.n_layer} layers, {config.n_head} heads, width {config.n_embd}, context "
        f"{config.n_positions}: {costs.count(kind, config):,} parameters\n"
        f"data     {options.data}: {len(job.train):,} training and {len(job.valid):,} validation tokens, "
        f"vocabulary {config.vocab_size:,}\n"
        f"memory   {costs.human_bytes(memory.total)}: {', '.join(f'{n} {costs.human_bytes(b)}' for n, b in parts)}\n"
        f"caches   {costs.caches(kind, config, part)}\n"
        f"time     {options.steps - job.step:,} updates of {options.batch * config.n_positions:,} tokens: about "
        f"{minutes:.1f} minutes on {model.device}, {threads()} threads ({seconds:.3f} s an update), and "
        f"{1 + options.steps // options.eval_every} evaluations\n"
        f"expect   loss {math.log(config.vocab_size):.2f} at first: guessing among {config.vocab_size:,} tokens; "
        f"a rate that rises to {options.lr:.2g} and falls to {options.min_lr or 0:.2g}\n"
        f"folder   {job.run.folder}"
    )


def _measure_update(job: Job) -> float:
    """Seconds of one forward and backward pass on a batch of this run; nothing of the run is changed."""
    ids, targets = data.batch(job.train, job.options.batch, job.model.config.n_positions, job.options.seed, 0)
    durations = []
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        loss, cache = job.model.loss(ids, targets)
        job.model.loss_backward(cache)
        float(loss)
        durations.append(time.perf_counter() - start)
        job.model.zero_grad()
    return min(durations)


def _assemble(options: Options, model: LanguageModel, text, corpus, run: Run) -> Job:
    if options.checkpoint_blocks and options.model == "lstm":
        raise InputError("--checkpoint-blocks: an LSTM has no blocks: leave it out")
    model.checkpoint_blocks = bool(options.checkpoint_blocks)
    train_tokens, valid_tokens = data.encode(corpus, text, model.config.n_positions, run.folder)
    kind, mark = OPTIMIZERS[options.model], data.fingerprint(train_tokens, valid_tokens)
    optimizer = kind(model.named_parameters(), (0.9, options.beta2), weight_decay=options.weight_decay)
    job = Job(options, model, text, train_tokens, valid_tokens, optimizer, run, mark)
    if options.align:
        ends, of_valid = (np.flatnonzero(tokens == text.start_id) for tokens in (train_tokens, valid_tokens))
        ends = ends[ends < len(train_tokens) - model.config.n_positions - 1]
        job.starts = (np.union1d(ends, ends + 1), of_valid)  # with it and without: a prompt begins without
        if not len(ends):
            raise InputError(f"--align: no line of {options.data} begins a whole window: leave --align out")
    return job


def _tokenizer(options: Options, corpus):
    wanted = options.tokenizer or corpus.tokenizer
    if wanted == "char":
        return tokenizer.CharTokenizer.train(text for part in ("train", "valid") for text in corpus.pieces(part))
    if wanted.startswith("bpe:"):
        size = wanted.removeprefix("bpe:")
        if not size.isdecimal() or not 1 <= int(size[:9]) == int(size[:10]):
            raise InputError(f"--tokenizer {wanted}: give bpe: and the size of the vocabulary, such as bpe:4096")
        return tokenizer.KINDS.get(options.model, tokenizer.GPT1Tokenizer).train(corpus.pieces("train"), int(size))
    return tokenizer.load(hub.find(wanted))


def _new_model(options: Options, vocab_size: int) -> LanguageModel:
    kind = models.model_class(options.model)
    given = {"n_layer": options.layers, "n_head": options.heads, "n_embd": options.embd, "n_positions": options.context}
    values = models.size(options.model, options.size or "nano")
    values |= {key: value for key, value in given.items() if value is not None}
    dropout = options.dropout if options.dropout is not None else 0.1 if options.size == "paper" else 0.0
    values |= {name: p for name, p in _rates(dropout).items() if hasattr(kind.Config, name)}  # an LSTM has no attention
    return kind(kind.Config(vocab_size=vocab_size, **values), seed=options.seed)


def _rates(dropout: float | None) -> dict[str, float]:
    """One dropout rate for all places, as in the paper; None says nothing about them."""
    return {} if dropout is None else dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), dropout)


def _from_init(options: Options):
    fixed = [f.name for f in fields(options) if f.name in ("size", "layers", "heads", "embd", "context", "tokenizer")]
    given = [name for name in fixed if getattr(options, name) is not None]
    if given:
        raise InputError(f"--init {options.init} already says what --{given[0]} is: leave --{given[0]} out")
    if models.model_class(options.model) is not models.class_in(options.init):
        raise InputError(f"--init {options.init} holds no {options.model}: leave --model out")
    return models.open_both(options.init, **_rates(options.dropout))


def _sample(job: Job, n_tokens: int = 40) -> str:
    start = job.valid[:1][None] if job.text.start_id is None else np.array([[job.text.start_id]])
    ids = job.model.generate(start, n_tokens, temperature=0.8, seed=job.step)
    return repr(job.text.decode(to_numpy(ids)[0].tolist()))


def _not_finite(job: Job, what: str) -> str:
    kept = job.run.folder / RESUME
    return (
        f"step {job.step + 1}: {what}. The last good state is kept in {kept}; start again from the best model with "
        f"--init {job.run.folder} and a rate below {job.options.lr:.2g}"
    )


@contextlib.contextmanager
def _interruptible():
    """Ctrl-C once: a flag, so that the update in progress ends whole. Twice: the usual KeyboardInterrupt."""
    pressed = []

    def note(signum, frame):
        if pressed:
            raise KeyboardInterrupt
        pressed.append(signum)
        print("\nCtrl-C: finishing this update, then saving (press again to leave at once)")

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not in the main thread: whoever started the thread decides
        yield lambda: False
        return
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
