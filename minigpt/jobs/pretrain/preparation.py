"""One pipeline makes a run out of its options: data, tokenizer, model, defaults, memory, optimiser.

`prepare` goes through it for a new run, `reopen` for one that was kept, and `prepare_on` for several processes.
"""

from collections.abc import Collection
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from minigpt import data, models, tokenizer
from minigpt.data.corpus import Corpus
from minigpt.data.objectives import Objective
from minigpt.device.arrays import check_precision
from minigpt.device.gpu import choose_device
from minigpt.device.parallel import ALONE, Ranks
from minigpt.errors import InputError, flag_of
from minigpt.files import hub
from minigpt.jobs import run_state
from minigpt.jobs.option_fields import free
from minigpt.jobs.pretrain.agreement import check_agreement
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.pretrain.memory import check_gpu, check_machine
from minigpt.jobs.pretrain.recipe import settle
from minigpt.jobs.pretrain.settings import (
    BATCH,
    FIXED_BY_INIT,
    RATES,
    SIZE,
    PretrainOptions,
    model_of,
    new_config,
    resolve,
    usual_eval_every,
)
from minigpt.jobs.run_folder import RESUME, Run, holds_a_run
from minigpt.models import costs
from minigpt.models.card import Card
from minigpt.models.language_model import LanguageModel
from minigpt.ops.cuda import attention
from minigpt.tokenizer import Tokenizer


def default_folder(options: PretrainOptions) -> str:
    """Where the run of these options is kept unless they name a folder: `runs/MODEL-DATA-SIZE`."""
    return f"runs/{model_of(options)}-{data.name_of(options.data)}-{_size_name(options)}"


def prepare_on(ranks: Ranks, options: PretrainOptions, named: Collection[str] = ()) -> Job:
    """The same job in every process: the first one prepares it and keeps it, the others open what it has kept.

    named: the options that must agree with those of a run which goes on, see `agreement`.
    """
    if not options.resume:
        options = settle(options)
    options.check()
    ranks.agree({flag_of(name): value for name, value in asdict(options).items()})
    if not options.resume:
        ranks.rows(options.batch or BATCH, options.accumulate)
    job = None
    if ranks.first:
        goes_on = options.resume or options.out and holds_a_run(options.out)
        job = reopen(options, ranks, named) if goes_on else prepare(options, ranks)
        if ranks.size > 1 and not job.run.claimed:
            job.save()
    folder = ranks.gather(job and job.options.out)[0]  # here the others wait until all that they read is written
    if job is None:
        job = reopen(replace(options, out=folder), ranks)
    ranks.rows(job.options.batch, job.options.accumulate)
    return job


def prepare(options: PretrainOptions, ranks: Ranks = ALONE) -> Job:
    """A new job. Its folder is taken by `Job.save`. Raises InputError for options that cannot work."""
    options = settle(options)
    options.check()
    options.batch = options.batch or BATCH
    options.out = options.out or default_folder(options)
    run = Run.start(options.out)
    corpus = data.load(options.data)
    options.model = model_of(options)
    device = choose_device(options.device)
    check_precision(options.dtype, device)
    if options.init:
        text, model = _from_init(options)
    elif options.teacher:
        text, model = _from_teacher(options)
    else:
        options.tokenizer = options.tokenizer or corpus.tokenizer
        text = _tokenizer(options, corpus)
        model = _new_model(options, text, device, ranks)
    resolve(options, model.config)
    _check_model(options, model)
    check_gpu(options, type(model), model.config, device, ranks)
    return _assemble(options, model.to(device), text, corpus, run, ranks)


def reopen(options: PretrainOptions, ranks: Ranks = ALONE, named: Collection[str] = ()) -> Job:
    """The job in `options.out` as it stood when it was last kept; its own options hold.

    Only where and in which order things are computed can be given anew: the device, checkpoint_blocks, how many
    processes there are. And where the text lies now, if it was moved. The run goes on with as many threads as it had.
    named: the options that must agree with those of the run, and "threads" where their number is given anew. Raises
    InputError where one does not, and where it is not the same text.
    """
    run, state, tensors = Run.load(options.out or default_folder(options), writes=ranks.first)
    kept = _kept_options(options, state, run)
    kind = models.card(kept.model).model
    config = kind.Config.from_dict(state["config"])
    kind.check_size(config, {name: tensor.shape for name, tensor in tensors.items()}, run.folder)
    device = choose_device(kept.device)
    check_precision(kept.dtype, device)
    corpus = data.load(kept.data)
    text = tokenizer.load(run.folder)
    model = kind(config, seed=None)
    if kept.teacher:
        model.learn_from(models.open_model(kept.teacher))  # type: ignore[attr-defined]  # it can, or had no teacher
    _check_model(kept, model)
    try:
        job = _assemble(kept, model.to(device), text, corpus, run, ranks)
    except InputError as error:
        raise InputError(f"the run in {kept.out} cannot go on with {kept.data}: {error}") from error
    if job.text_mark != state["text"]:
        raise InputError(f"{kept.data} is not the text that the run in {kept.out} began with")
    job.set_state(state)
    check_agreement(job, options, named)
    if not job.finished:
        run_state.use_kept_threads(state.get("workers"), run.folder / RESUME, ranks.size, "threads" in named)
    run.restore(model, job.optimizer, job.step, tensors)
    model.compute_in("bfloat16" if kept.low else None)
    return job


def _kept_options(options: PretrainOptions, state: dict, run: Run) -> PretrainOptions:
    """The options that the run began with, but for those that may be given anew."""
    given = {name: getattr(options, name) for name in free(options) - {"resume"}}
    given = {name: value for name, value in given.items() if value != getattr(PretrainOptions, name)}
    try:
        kept = PretrainOptions(**state["options"] | given | {"out": str(run.folder), "device": options.device})
    except TypeError as error:
        raise InputError(f"the run in {run.folder} is of another version of minigpt train: {error}") from error
    run_state.check_options(kept, run.folder / RESUME)
    return kept


# ------------------------------------------------------------------------------------------- tokenizer and model


def _size_name(options: PretrainOptions) -> str:
    """What the folder of a run is called after its model and its data."""
    source = options.init or options.teacher
    if source:
        return f"from-{Path(source).name}"
    return options.size or SIZE


def _tokenizer(options: PretrainOptions, corpus: Corpus) -> Tokenizer:
    """The tokenizer that --tokenizer names, with the tokens that the model needs beside."""
    card = models.card(options.model)
    wanted = options.tokenizer
    if wanted == "char":
        text = tokenizer.CharTokenizer.train(chain(corpus.pieces("train"), corpus.pieces("valid")))
    elif wanted == "bpe" or wanted.startswith("bpe:"):
        learn: Any = card.tokenizer
        text = learn.train(corpus.pieces("train"), _vocabulary_size(wanted))
    else:
        text = _saved_tokenizer(wanted)
    if card.special_tokens:
        text = text.with_special(card.special_tokens)
    return text


def _saved_tokenizer(wanted: str) -> Tokenizer:
    """The tokenizer in a folder, or that of a downloaded model. Raises InputError where there is none."""
    folder = hub.find(wanted)
    if not folder.is_dir():
        kinds = "char, bpe: and a size such as bpe:4096, or the folder of a tokenizer"
        raise InputError(f"--tokenizer {wanted} is no kind of tokenizer, and no folder here: give {kinds}")
    return tokenizer.load(folder)


def _vocabulary_size(wanted: str) -> int:
    size = wanted.removeprefix("bpe").removeprefix(":")
    if not size.isdecimal() or not 1 <= int(size[:9]) == int(size[:10]):
        raise InputError(f"--tokenizer {wanted}: give bpe: and the number of tokens, written in digits, as in bpe:4096")
    return int(size)


def _new_model(options: PretrainOptions, text: Tokenizer, device: str, ranks: Ranks) -> LanguageModel:
    """A model with new weights, of the size that the options name, for this vocabulary."""
    card = models.card(options.model)
    kind = card.model
    ends = {"bos_token_id": text.end_of_text_id, "eos_token_id": text.end_of_text_id}
    if card.token_settings:
        ends |= card.token_settings(text)
    config = new_config(options, vocab_size=text.vocab_size, **ends)
    check_machine(options, kind, config, device, ranks)
    return kind(config, seed=options.seed)


def _from_init(options: PretrainOptions) -> tuple[Tokenizer, LanguageModel]:
    """The tokenizer and the model in the folder that --init names."""
    _check_left_out(options, f"--init {options.init} already says")
    if options.model != models.card_in(options.init).name:
        raise InputError(f"--init {options.init} holds no {options.model}: leave --model out")
    changes = {} if options.dropout is None else dict.fromkeys(RATES, options.dropout)
    model, text = models.open_both(options.init, **changes)
    return text, model


def _from_teacher(options: PretrainOptions) -> tuple[Tokenizer, LanguageModel]:
    """The tokenizer of the model that --teacher names, and a student of it. Raises InputError where none can be."""
    kind = models.card(options.model).model
    if not hasattr(kind, "student_of"):
        able = " or ".join(card.name for card in models.CARDS if hasattr(card.model, "student_of"))
        raise InputError(f"--teacher {options.teacher}: {options.model} learns from no teacher: give --model {able}")
    _check_left_out(options, f"--teacher {options.teacher} says")
    teacher, text = models.open_both(options.teacher)
    changes = {} if options.dropout is None else dict.fromkeys(RATES, options.dropout)
    return text, kind.student_of(teacher, **changes)  # type: ignore[attr-defined]  # DistilBERT has it


def _check_left_out(options: PretrainOptions, says: str) -> None:
    """Raises InputError for an option that another model decides, in these words."""
    for name in FIXED_BY_INIT:
        if getattr(options, name) is not None:
            raise InputError(f"{says} what {flag_of(name)} is: leave {flag_of(name)} out")


# ---------------------------------------------------------------------------------------------- checks, and the job


def _check_model(options: PretrainOptions, model: LanguageModel) -> None:
    """Raises InputError for what this model cannot do."""
    if options.checkpoint_blocks and not model.can_checkpoint_blocks:
        raise InputError(f"--checkpoint-blocks: an {options.model.upper()} has no blocks: leave it out")
    if not options.low:
        return
    if not model.computes_in_bfloat16:
        raise InputError(f"--dtype bfloat16: --model {options.model} has an LSTM, which needs float32: leave it out")
    if model.config.n_embd > attention.LARGEST * model.config.n_head:
        raise InputError(f"--dtype bfloat16: heads above {attention.LARGEST} numbers need float32: leave it out")


def _assemble(
    options: PretrainOptions, model: LanguageModel, text: Tokenizer, corpus: Corpus, run: Run, ranks: Ranks
) -> Job:
    """The job of these parts: the text becomes tokens, and the optimiser is made."""
    card = models.card(options.model)
    model.checkpoint_blocks = bool(options.checkpoint_blocks)
    costs.fit_threads(model, options.rows_at_once(ranks.size) * model.config.n_positions)
    train, valid = data.encode(corpus, text, model.config.n_positions, run.folder)
    if options.eval_every is None:
        options.eval_every = usual_eval_every(options, len(valid))
    betas = 0.9, options.beta2
    optimizer = card.optimizer(model.named_parameters(), betas, weight_decay=options.weight_decay)
    model.compute_in("bfloat16" if options.low else None)
    job = Job(
        options=options,
        model=model,
        text=text,
        train=train,
        valid=valid,
        objective=_objective(card, options, text),
        optimizer=optimizer,
        run=run,
        text_mark=data.fingerprint(train, valid),
        ranks=ranks,
    )
    if options.align:
        job.starts = _line_starts(job)
    return job


def _objective(card: Card, options: PretrainOptions, text: Tokenizer) -> Objective:
    """What the model learns to predict, with the part of the tokens that is covered, if any is."""
    objective = card.aim(options.objective).objective
    if options.mask_rate is None:
        return objective(text)
    return objective(text, options.mask_rate)


def _line_starts(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Where windows that begin with a line begin: in the training tokens, with the line's end before it and without
    (a prompt begins without), and in the validation tokens. Raises InputError where no line begins a whole window."""
    line_end = job.text.start_id
    ends = np.flatnonzero(job.train == line_end)
    ends = ends[ends < len(job.train) - job.model.config.n_positions - 1]
    if not len(ends):
        raise InputError(f"--align: no line of {job.options.data} begins a whole window: leave --align out")
    return np.union1d(ends, ends + 1), np.flatnonzero(job.valid == line_end)
