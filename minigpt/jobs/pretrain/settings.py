"""What `minigpt train` can be told, and the defaults that depend on the model and on the length of the run.

`benchmarks/defaults.py` measures these defaults on a grid of models, texts, lengths and seeds, and older ones beside.
"""

from dataclasses import dataclass

from minigpt import models
from minigpt.errors import InputError, check_ranges
from minigpt.jobs.option_fields import OnDevice, option
from minigpt.models.config import Config

RECIPES = ("paper",)
DTYPES = ("float32", "tf32", "bfloat16")
MODEL = models.names()[0]  # where nothing else is given
SIZE = "nano"
BATCH = 12  # windows in an update
RATE = 0.256  # times 1 / width: the highest learning rate
SHORT = 250  # updates: a shorter run has another schedule
SHORT_RATE = RATE / 2  # times 1 / width: the highest learning rate of a short run
FULL_RATE = 100  # updates: so short a run keeps its highest rate to the end
WARMUP, LONGEST_WARMUP = 200, 2000  # updates
EVALUATIONS = 8  # in a run, after the first one
FIXED_BY_INIT = ("size", "layers", "heads", "embd", "context", "tokenizer", "init_std")
RATES = ("embd_pdrop", "attn_pdrop", "resid_pdrop")
EVALUATION_SHARE = 1 / 3  # of the time of training: what evaluations after the first may cost
FORWARD_SHARE = 0.4  # of the time of an update: the forward alone

FLAGS = {
    "n_layer": "--layers", "n_head": "--heads", "n_embd": "--embd", "n_positions": "--context",
    "embd_pdrop": "--dropout",
}  # fmt: skip


@dataclass(kw_only=True)
class PretrainOptions(OnDevice):
    """What `minigpt train` can be told. None: a default that depends on the others, filled in by `resolve`."""

    model: str | None = option(None, f"default: {MODEL}, or what --init names", choices=models.names())
    size: str | None = option(None, f"{models.size_names()} (default: {SIZE})", metavar="NAME")
    recipe: str | None = option(
        None,
        "where nothing else is given, the published settings of gpt1 or gpt2, and their size (default: what was "
        "measured with this library)",
        choices=RECIPES,
    )
    layers: int | None = option(None, "number of layers (default: that of --size)", metavar="N")
    heads: int | None = option(None, "heads of attention in a layer (default: that of --size)", metavar="N")
    embd: int | None = option(None, "width of the residual stream (default: that of --size)", metavar="C")
    context: int | None = option(None, "tokens that the model sees at once (default: that of --size)", metavar="T")
    data: str = option(
        "stories",
        "stories, stories:N, korean:N, both:N, pairs:N, pydocs, or a UTF-8 text file; with --resume, where the same "
        "text is now",
        metavar="WHAT",
        free=True,  # the text itself is compared
    )
    tokenizer: str | None = option(
        None, "char, bpe:VOCAB, or a folder that holds one; the default fits the data", metavar="T"
    )
    init: str | None = option(
        None, "go on from this model, or from a downloaded one: gpt2; a new schedule", metavar="DIR"
    )
    teacher: str | None = option(
        None, "a trained model that this one, half as deep, learns from (distilbert)", metavar="DIR"
    )
    out: str | None = option(None, "folder for the model (default: runs/MODEL-DATA-SIZE)", metavar="DIR", free=True)
    resume: bool = option(
        False, "go on with the run in the folder, where it was last kept; what else is given must agree with it",
        free=True,
    )  # fmt: skip
    batch: int | None = option(None, f"windows in an update (default: {BATCH})", metavar="B")
    accumulate: int = option(1, "compute the batch in K parts, to save memory", metavar="K")
    checkpoint_blocks: bool | None = option(
        None,
        "run each block again in the backward, to save memory; the same numbers; can be changed with --resume",
        free=True,
    )
    steps: int = option(2000, "updates of the weights", metavar="N")
    lr: float | None = option(
        None, f"highest learning rate (default: {RATE} / width, half of it below {SHORT} steps)", metavar="RATE"
    )
    min_lr: float | None = option(
        None,
        f"where the cosine ends (default: GPT-1's schedule, down to 0; below {SHORT} steps not so far down)",
        metavar="RATE",
    )
    warmup: int | None = option(
        None,
        f"updates until then (default: a tenth of the steps, at most {LONGEST_WARMUP}; of a GPT-1 or a BERT a fifth up "
        f"to {WARMUP}; none below {SHORT} steps)",
        metavar="N",
    )
    objective: str | None = option(
        None, f"what is predicted; {models.aim_names()} (default: as in the model's paper)", metavar="NAME"
    )
    mask_rate: float | None = option(
        None, "which part of the tokens is covered, of a model that learns to tell them (default: 0.3)", metavar="P"
    )
    init_std: float | None = option(
        None,
        "spread of new weights (default: that of the paper, wider where a GPT-1 or a BERT is narrower)",
        metavar="STD",
    )
    dropout: float | None = option(None, "default: 0.1 for the size paper, otherwise 0", metavar="P")
    beta2: float = option(0.999, "memory of Adam's second moment", metavar="B")
    weight_decay: float = option(0.01, metavar="W")
    clip: float = option(1.0, "longest gradient; 0 is no clipping", metavar="NORM")
    align: float = option(0.0, "share of windows that begin with a line", metavar="P")
    seed: int = option(0, "of weights, batches and dropout", metavar="S")
    eval_every: int | None = option(
        None,
        f"updates between evaluations (default: 1/{EVALUATIONS} of the steps; more where evaluations would take long)",
        metavar="N",
    )
    compare: bool = option(
        False, "say whether the losses are normal: beside those of sound runs, where there are some of these options",
        free=True,
    )  # fmt: skip
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

    def rows_at_once(self, processes: int = 1) -> int:
        """How many rows of a batch each process computes at a time."""
        return self.batch // processes // self.accumulate

    def check(self) -> None:
        """Raises InputError for a number outside its range."""
        check_ranges(self, 1, "layers", "heads", "embd", "context", "batch", "accumulate", "steps", "eval_every")
        check_ranges(self, 0, "lr", "min_lr", "warmup", "init_std", "weight_decay", "clip", "seed")
        if self.dtype not in DTYPES:
            raise InputError(f"--dtype {self.dtype}: choose {', '.join(DTYPES)}")
        if self.recipe not in (None, *RECIPES):
            raise InputError(f"--recipe {self.recipe}: choose {', '.join(RECIPES)}, or leave it out")
        if not 0 <= self.beta2 < 1:
            raise InputError(f"--beta2 {self.beta2}: give 0 or more and less than 1")
        if not 0 <= self.align <= 1:
            raise InputError(f"--align {self.align}: give a share from 0 to 1")
        batch = BATCH if self.batch is None else self.batch
        if batch % self.accumulate:
            raise InputError(f"--batch {batch} cannot be split into --accumulate {self.accumulate} equal parts: "
                             f"give a multiple of {self.accumulate}")  # fmt: skip


def model_of(options: PretrainOptions) -> str:
    """The name of the model: as it is given, or of the one that --init holds, or the usual one."""
    return options.model or (models.card_in(options.init).name if options.init else MODEL)


def new_config(options: PretrainOptions, **values) -> Config:
    """The configuration of a new model of the size that the options name. values: what the vocabulary says.

    Raises InputError, in the words of the command line, for sizes that do not belong together.
    """
    card = models.card(options.model)
    kind = card.model
    values = models.size(options.model, options.size or SIZE) | values
    if card.init_std:
        values["initializer_range"] = card.init_std(options.embd or values["n_embd"])
    given = {
        "n_layer": options.layers,
        "n_head": options.heads,
        "n_embd": options.embd,
        "n_positions": options.context,
        "initializer_range": options.init_std,
    }
    values |= {key: value for key, value in given.items() if value is not None}
    dropout = options.dropout
    if dropout is None:
        dropout = 0.1 if options.size == "paper" else 0.0
    values |= {name: dropout for name in RATES if hasattr(kind.Config, name)}  # not every model has all places
    try:
        return kind.Config(**values)
    except InputError as error:
        message = str(error)
        for field, flag in FLAGS.items():  # --embd, not n_embd
            message = message.replace(field, flag)
        raise InputError(message) from error


def resolve(options: PretrainOptions, config: Config) -> None:
    """Fill in the defaults that depend on the model and on the length of the run.

    Raises InputError for a --min-lr above --lr, and for a --mask-rate that the model cannot use.

    The rate was measured on the sizes nano and mini; at the paper's width it is close to the paper's 2.5e-4.
    """
    options.size = None
    options.batch = options.batch or BATCH
    options.layers = config.n_layer
    options.heads = config.n_head
    options.embd = config.n_embd
    options.context = config.n_positions
    options.dropout = config.resid_pdrop  # type: ignore[attr-defined]  # every model has one
    options.mask_rate = _mask_rate(options)
    _resolve_schedule(options)


def _mask_rate(options: PretrainOptions) -> float | None:
    """Which part of the tokens is covered. Raises InputError for a rate outside (0, 1), and where none are covered."""
    card = models.card(options.model or MODEL)
    usual = card.aim(options.objective).mask_rate
    given = options.mask_rate
    if given is None:
        return usual
    if usual is None:
        what = f"--objective {options.objective}" if options.objective else card.name
        raise InputError(f"--mask-rate {given}: {what} covers no tokens: leave it out")
    if not 0 < given < 1:
        raise InputError(f"--mask-rate {given}: give a share of the tokens above 0 and below 1, such as {usual}")
    return given


def _resolve_schedule(options: PretrainOptions) -> None:
    """Fill in the rate, where it ends, and the warm-up.

    In a short run nothing is left of a warm-up and of a fall: without them, at half the rate, a model is past the
    frequencies of its tokens after 100 updates. A model that knows something already, and a rate that was given, have
    the schedule of longer runs.
    """
    if is_short(options) and options.lr is None:
        options.lr = usual_rate(options)
        if options.min_lr is None:
            options.min_lr = options.lr * min(1, FULL_RATE / options.steps)
        if options.warmup is None:
            options.warmup = 0
    if options.lr is None:
        options.lr = usual_rate(options)
    if options.min_lr is not None and not options.min_lr <= options.lr > 0:
        raise InputError(f"--min-lr {options.min_lr} --lr {options.lr}: give a rate above 0 that ends no higher")
    if options.warmup is None:
        options.warmup = usual_warmup(options)
    options.warmup = min(options.warmup, options.steps)


def is_short(options: PretrainOptions) -> bool:
    """Does a new model have few updates?"""
    return options.steps < SHORT and options.init is None


def usual_rate(options: PretrainOptions) -> float:
    """The highest learning rate by default, of a model whose width is known."""
    rate = SHORT_RATE if is_short(options) else RATE
    return rate / options.embd


def usual_warmup(options: PretrainOptions) -> int:
    """Updates that the rate takes to rise to the usual rate of a longer run.

    A tenth of the run, at most 2,000; but 200 where that is no more than a fifth, for models whose new weights depend
    on the width: in fewer a GPT-1 can come to rest at the frequencies of its tokens (`plateau`).
    """
    tenth = min(LONGEST_WARMUP, options.steps // 10)
    if models.card(options.model or MODEL).init_std is None:
        return tenth
    fifth = min(WARMUP, options.steps // 5)
    return max(tenth, fifth)


def usual_eval_every(options: PretrainOptions, n_valid: int) -> int:
    """Updates between evaluations: an eighth of the run, or more, until they take a third of the time of training.

    n_valid: validation tokens. Each evaluation reads all of them. One at the end is always made.
    """
    tokens = options.batch * options.context
    evaluation = FORWARD_SHARE * n_valid / tokens  # its cost, in updates
    affordable = int(EVALUATION_SHARE * options.steps / evaluation)
    count = min(EVALUATIONS, max(1, affordable))
    return max(1, options.steps // count)
