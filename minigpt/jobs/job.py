"""What a training run works with, put together from its options, or from what an earlier run has kept."""

import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

from minigpt import data, models, tokenizer
from minigpt.device import arrays, gpu
from minigpt.device.gpu import available_memory, choose_device
from minigpt.device.parallel import ALONE, Ranks
from minigpt.errors import InputError, check_ranges
from minigpt.files import hub
from minigpt.jobs.options import OnDevice, option
from minigpt.jobs.run import Run
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import Optimizer
from minigpt.ops.cuda import attention, graph

DTYPES = ("float32", "tf32", "bfloat16")
MODEL = models.names()[0]  # where nothing else is given
SIZE = "nano"
RATE = 0.256  # times 1 / width: the highest learning rate
LONGEST_WARMUP = 2000  # updates
EVALUATIONS = 8  # in a run, after the first one


@dataclass(kw_only=True)
class PretrainOptions(OnDevice):
    """What `minigpt train` can be told. None: a default that depends on the others, filled in by `resolve`."""

    model: str | None = option(None, f"default: {MODEL}, or what --init names", choices=models.names())
    size: str | None = option(None, f"{models.size_names()} (default: {SIZE})", metavar="NAME")
    layers: int | None = option(None, "number of layers (default: that of --size)", metavar="N")
    heads: int | None = option(None, "heads of attention in a layer (default: that of --size)", metavar="N")
    embd: int | None = option(None, "width of the residual stream (default: that of --size)", metavar="C")
    context: int | None = option(None, "tokens that the model sees at once (default: that of --size)", metavar="T")
    data: str = option(
        "stories",
        "stories, stories:N, pydocs, or a UTF-8 text file; with --resume, where the same text is now",
        metavar="WHAT",
    )
    tokenizer: str | None = option(
        None, "char, bpe:VOCAB, or a folder that holds one; the default fits the data", metavar="T"
    )
    init: str | None = option(
        None, "go on from this model, or from a downloaded one: gpt2; a new schedule", metavar="DIR"
    )
    out: str | None = option(None, "folder for the model (default: runs/MODEL-DATA-SIZE)", metavar="DIR")
    resume: bool = option(False, "go on with the run in --out, exactly where it was last kept")
    batch: int = option(12, "windows in an update", metavar="B")
    accumulate: int = option(1, "compute the batch in K parts, to save memory", metavar="K")
    checkpoint_blocks: bool | None = option(
        None,
        "run each block again in the backward, to save memory; the same numbers; can be changed with --resume",
    )
    steps: int = option(2000, "updates of the weights", metavar="N")
    lr: float | None = option(None, f"highest learning rate (default: {RATE} / width)", metavar="RATE")
    min_lr: float | None = option(None, "where the cosine ends (default: GPT-1's schedule, down to 0)", metavar="RATE")
    warmup: int | None = option(
        None, f"updates until then (default: a tenth of the steps, at most {LONGEST_WARMUP})", metavar="N"
    )
    dropout: float | None = option(None, "default: 0.1 for the size paper, otherwise 0", metavar="P")
    beta2: float = option(0.999, "memory of Adam's second moment", metavar="B")
    weight_decay: float = option(0.01, metavar="W")
    clip: float = option(1.0, "longest gradient; 0 is no clipping", metavar="NORM")
    align: float = option(0.0, "share of windows that begin with a line", metavar="P")
    seed: int = option(0, "of weights, batches and dropout", metavar="S")
    eval_every: int | None = option(
        None, f"updates between evaluations (default: 1/{EVALUATIONS} of the steps)", metavar="N"
    )
    dtype: str = option(
        "float32",
        "on a GPU tf32 rounds the factors of products, bfloat16 all that passes between layers; the weights that learn "
        "stay float32",
        choices=DTYPES,
    )

    @property
    def low(self) -> bool:
        """Do layers compute in bfloat16?"""
        return self.dtype == "bfloat16"

    def check(self) -> None:
        """Raises InputError for a number outside its range."""
        check_ranges(self, 1, "batch", "accumulate", "steps", "eval_every")
        check_ranges(self, 0, "lr", "min_lr", "warmup", "weight_decay", "clip", "seed")
        if self.dtype not in DTYPES:
            raise InputError(f"--dtype {self.dtype}: choose {', '.join(DTYPES)}")
        if not 0 <= self.beta2 < 1:
            raise InputError(f"--beta2 {self.beta2}: give 0 or more and less than 1")
        if not 0 <= self.align <= 1:
            raise InputError(f"--align {self.align}: give a share from 0 to 1")
        if self.batch % self.accumulate:
            raise InputError(f"--batch {self.batch} cannot be split into --accumulate {self.accumulate} equal parts")


@dataclass
class Job:
    """Everything that a run works with."""

    options: PretrainOptions
    model: LanguageModel
    text: "tokenizer.Tokenizer"
    train: np.ndarray
    valid: np.ndarray
    optimizer: Optimizer
    run: Run
    text_mark: str  # tells on resume whether the text is still the same
    ranks: Ranks = ALONE
    starts: tuple = (None, None)  # where windows of train, and of valid, begin if `options.align` says so
    step: int = 0
    best: float = math.inf
    recorded: graph.Recorded | None = None  # forward and backward of a step, where a GPU can repeat them

    @property
    def rows(self) -> slice:
        """The rows of each batch that this process takes."""
        return self.ranks.rows(self.options.batch, self.options.accumulate)

    @property
    def part(self) -> int:
        """How many of them are computed at a time."""
        return self.options.batch // self.ranks.size // self.options.accumulate

    @property
    def memory(self) -> costs.Memory:
        """Bytes of an update in one process."""
        model = self.model
        return costs.memory(type(model), model.config, self.part, model.checkpoint_blocks, self.options.low)

    @property
    def state(self) -> dict:
        """What is needed, beside the tensors, to go on."""
        numbers = {"step": self.step, "best": self.best, "text": self.text_mark}
        options = asdict(self.options)
        del options["resume"]
        return numbers | {"options": options, "config": self.model.config.to_dict()}

    def save(self) -> None:
        """Keep the run as it stands, so that it can be resumed; the first time take its folder, for the vocabulary too.

        Raises InputError where another run was quicker to take it.
        """
        if self.run.claim():
            self.text.save(self.run.folder)
        self.run.save(self.model, self.optimizer, self.state)


def prepare_on(ranks: Ranks, options: PretrainOptions) -> Job:
    """The same job in every process: the first one prepares it and keeps it, the others open what it has kept."""
    options.check()
    told = {f"--{name.replace('_', '-')}": value for name, value in asdict(options).items()}
    ranks.agree(told)
    if not options.resume:
        ranks.rows(options.batch, options.accumulate)
    job = None
    if ranks.first:
        job = reopen(options, ranks) if options.resume else prepare(options, ranks)
    if ranks.size > 1 and job and not options.resume:
        job.save()
    folder = ranks.gather(job and job.options.out)[0]  # here the others wait until all that they read is written
    job = job or reopen(replace(options, out=folder), ranks)
    ranks.rows(job.options.batch, job.options.accumulate)
    return job


def prepare(options: PretrainOptions, ranks: Ranks = ALONE) -> Job:
    """A new job: data, tokenizer, model and optimizer. The folder is claimed by `Job.save`."""
    options = replace(options)
    options.check()
    corpus, init = data.load(options.data), options.init
    size = f"from-{Path(init).name}" if init else options.size or SIZE
    options.model = options.model or (models.card_in(init).name if init else MODEL)
    options.out = options.out or f"runs/{options.model}-{corpus.name}-{size}"
    device = choose_device(options.device)
    arrays.check_precision(options.dtype, device)
    run = Run.start(options.out)
    if init:
        model, text = _from_init(options)
    else:
        text = _tokenizer(options, corpus)
        model = _new_model(options, text)
    resolve(options, model)
    _check_memory(options, model, available_memory(device), ranks.size)
    return _in_precision(_assemble(options, model.to(device), text, corpus, run, ranks))


def reopen(options: PretrainOptions, ranks: Ranks = ALONE) -> Job:
    """The job in `options.out` as it stood when it was last kept; its own options hold.

    Only where and in which order things are computed can be given anew: the device, checkpoint_blocks, how many
    processes there are. And where the text lies now, if it was moved; it must be the same text.
    """
    run, state, tensors = Run.load(options.out or "", writes=ranks.first)
    given = {"out": str(options.out), "device": options.device}
    if options.checkpoint_blocks is not None:
        given["checkpoint_blocks"] = options.checkpoint_blocks
    if options.data != PretrainOptions.data:
        given["data"] = options.data
    try:
        options = PretrainOptions(**state["options"] | given)
    except TypeError as error:
        raise InputError(f"the run in {run.folder} is of another version of minigpt train: {error}") from error
    device = choose_device(options.device)
    arrays.check_precision(options.dtype, device)
    corpus, text = data.load(options.data), tokenizer.load(run.folder)
    kind = models.card(options.model).model
    model = kind(kind.Config.from_dict(state["config"]), seed=None).to(device)
    job = _assemble(options, model, text, corpus, run, ranks)
    job.step, job.best = state["step"], state["best"]
    if job.text_mark != state["text"]:
        raise InputError(f"{options.data} is not the text that the run in {options.out} began with")
    run.restore(model, job.optimizer, job.step, tensors)
    return _in_precision(job)


def resolve(options: PretrainOptions, model: LanguageModel) -> None:
    """Fill in the defaults that depend on the model and on the length of the run.

    The rate was measured on the sizes nano and mini; at the paper's width it is close to the paper's 2.5e-4.
    """
    config = model.config
    options.size = None
    options.layers, options.heads = config.n_layer, config.n_head
    options.embd, options.context = config.n_embd, config.n_positions
    options.dropout = config.resid_pdrop
    options.lr = RATE / config.n_embd if options.lr is None else options.lr
    if options.min_lr is not None and not options.min_lr <= options.lr > 0:
        raise InputError(f"--min-lr {options.min_lr} --lr {options.lr}: give a rate above 0 that ends no higher")
    if options.warmup is None:
        options.warmup = min(LONGEST_WARMUP, options.steps // 10)
    options.warmup = min(options.warmup, options.steps)
    if options.eval_every is None:
        options.eval_every = max(1, options.steps // EVALUATIONS)


def _check_memory(options: PretrainOptions, model: LanguageModel, available: int | None, processes: int) -> None:
    """Raises InputError, before the work begins, where a step needs more bytes than there are."""
    rows, kind = options.batch // options.accumulate // processes, type(model)
    how = again, _ = bool(options.checkpoint_blocks), options.low
    wanted = costs.memory(kind, model.config, rows, *how).total
    if available is None or wanted <= available:
        return
    need = f"{rows} rows at a time need about {costs.human_bytes(wanted)} of GPU memory, {costs.human_bytes(available)}"
    fits = costs.largest_batch(kind, model.config, available, *how)
    advice = f"choose a smaller model or --context{'' if again else ', or add --checkpoint-blocks'}"
    if fits:
        advice = f"{fits} fit: give --batch {fits * processes}, or more with --accumulate"
    raise InputError(f"{need} are free: {advice}")


def _assemble(options: PretrainOptions, model: LanguageModel, text, corpus, run: Run, ranks: Ranks) -> Job:
    if options.checkpoint_blocks and not model.can_checkpoint_blocks:
        raise InputError(f"--checkpoint-blocks: an {options.model.upper()} has no blocks: leave it out")
    too_large = model.config.n_embd > attention.LARGEST * model.config.n_head
    if options.low and (too_large or not model.computes_in_bfloat16):
        raise InputError(f"--dtype bfloat16: an LSTM, or heads above {attention.LARGEST}, need float32: leave it out")
    model.checkpoint_blocks = bool(options.checkpoint_blocks)
    train_tokens, valid_tokens = data.encode(corpus, text, model.config.n_positions, run.folder)
    kind, mark = models.card(options.model).optimizer, data.fingerprint(train_tokens, valid_tokens)
    optimizer = kind(model.named_parameters(), (0.9, options.beta2), weight_decay=options.weight_decay)
    job = Job(options, model, text, train_tokens, valid_tokens, optimizer, run, mark, ranks)
    if options.align:
        ends, of_valid = (np.flatnonzero(tokens == text.start_id) for tokens in (train_tokens, valid_tokens))
        ends = ends[ends < len(train_tokens) - model.config.n_positions - 1]
        job.starts = (np.union1d(ends, ends + 1), of_valid)  # with it and without: a prompt begins without
        if not len(ends):
            raise InputError(f"--align: no line of {options.data} begins a whole window: leave --align out")
    return job


def _in_precision(job: Job) -> Job:
    gpu.set_products("tf32" if job.options.dtype == "tf32" else "float32")
    job.model.compute_in("bfloat16" if job.options.low else None)
    return job


def _tokenizer(options: PretrainOptions, corpus):
    wanted = options.tokenizer or corpus.tokenizer
    if wanted == "char":
        return tokenizer.CharTokenizer.train(text for part in ("train", "valid") for text in corpus.pieces(part))
    if wanted.startswith("bpe:"):
        size = wanted.removeprefix("bpe:")
        if not size.isdecimal() or not 1 <= int(size[:9]) == int(size[:10]):
            raise InputError(f"--tokenizer {wanted}: give bpe: and the size of the vocabulary, such as bpe:4096")
        return models.card(options.model).tokenizer.train(corpus.pieces("train"), int(size))
    return tokenizer.load(hub.find(wanted))


def _new_model(options: PretrainOptions, text) -> LanguageModel:
    kind = models.card(options.model).model
    given = {"n_layer": options.layers, "n_head": options.heads, "n_embd": options.embd, "n_positions": options.context}
    values = models.size(options.model, options.size or SIZE)
    values |= {key: value for key, value in given.items() if value is not None}
    dropout = options.dropout if options.dropout is not None else 0.1 if options.size == "paper" else 0.0
    values |= {name: p for name, p in _rates(dropout).items() if hasattr(kind.Config, name)}  # an LSTM has no attention
    ends = dict.fromkeys(("bos_token_id", "eos_token_id"), text.end_of_text_id)
    return kind(kind.Config(vocab_size=text.vocab_size, **ends, **values), seed=options.seed)


def _rates(dropout: float | None) -> dict[str, float]:
    """One dropout rate for all places, as in the paper; None says nothing about them."""
    return {} if dropout is None else dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), dropout)


def _from_init(options: PretrainOptions):
    fixed = [f.name for f in fields(options) if f.name in ("size", "layers", "heads", "embd", "context", "tokenizer")]
    given = [name for name in fixed if getattr(options, name) is not None]
    if given:
        raise InputError(f"--init {options.init} already says what --{given[0]} is: leave --{given[0]} out")
    if options.model != models.card_in(options.init).name:
        raise InputError(f"--init {options.init} holds no {options.model}: leave --model out")
    return models.open_both(options.init, **_rates(options.dropout))
