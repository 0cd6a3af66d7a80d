"""Does a command agree with the run that its folder holds? A default agrees with the same value, given by name."""

from collections.abc import Collection
from dataclasses import fields, replace

from minigpt import data
from minigpt.errors import InputError, flag_of
from minigpt.jobs.option_fields import free
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.pretrain.settings import BATCH, MODEL, PretrainOptions, new_config, resolve, usual_eval_every
from minigpt.jobs.run_state import difference
from minigpt.models.config import Config

SIZES = ("layers", "heads", "embd", "context")  # what --size stands for
FILLED_IN = {"batch": BATCH}  # a default that is a number, and is filled in where a run is prepared
FIRST = ("init", "model")  # where they differ, nothing else can be compared


def names_of(options: PretrainOptions) -> set[str]:
    """The options that must agree: all of a command that begins a run, what is given beside --resume."""
    if not options.resume:
        return {field.name for field in fields(options)}
    return {field.name for field in fields(options) if getattr(options, field.name) != field.default}


def check_agreement(job: Job, options: PretrainOptions, named: Collection[str]) -> None:
    """Raises InputError, with both values, for the first of the named options that is not as the run has it."""
    kept = job.options
    if kept.init is None and kept.tokenizer is None:  # so earlier versions kept the default
        kept = replace(kept, tokenizer=data.default_tokenizer(kept.data))
    kept = replace(kept, init_std=_init_std(job.model.config))
    wanted = _wanted(job, options, named)
    left_out = {*free(options), *FIRST, "size"}
    names = [field.name for field in fields(options) if field.name not in left_out]
    for name in (*FIRST, *names):
        has, given = getattr(kept, name), getattr(wanted, name)
        if has != given:
            is_default = getattr(options, name) in (getattr(PretrainOptions, name), FILLED_IN.get(name))
            default = ", the default" if is_default else ""
            told = difference(kept.out, job.finished, name, has, given)
            raise InputError(f"{told}{default}: {_advice(options, name, job.finished)}")


def _init_std(config: Config) -> float | None:
    """The spread of new weights, where a configuration has one."""
    return getattr(config, "initializer_range", None)


def _advice(options: PretrainOptions, name: str, finished: bool) -> str:
    if options.resume:
        return f"leave {flag_of(name)} out, or begin a new run from that model with --init and another --out"
    if finished:
        return "give another --out, or train that model further with --init and another --out"
    return "go on with minigpt train --resume --out and that folder, or give another --out"


def _wanted(job: Job, options: PretrainOptions, named: Collection[str]) -> PretrainOptions:
    """The options of the run, with the named ones as the command has them, and every default filled in."""
    kept, config = job.options, job.model.config
    changes = {name: getattr(options, name) for name in set(named) - {*free(options), "threads"}}
    if "size" in changes:
        changes = dict.fromkeys(SIZES) | changes
    wanted = replace(kept, **changes)
    same_start = wanted.init == kept.init
    if wanted.model is None:
        wanted.model = kept.model if wanted.init and same_start else MODEL
    if not same_start or wanted.model != kept.model:
        return wanted
    dropout = wanted.dropout
    if wanted.init is None:
        wanted.tokenizer = wanted.tokenizer or data.default_tokenizer(options.data)
        config = new_config(wanted, vocab_size=config.vocab_size)
    resolve(wanted, config)
    wanted.init_std = _init_std(config)
    if wanted.eval_every is None:
        wanted.eval_every = usual_eval_every(wanted, len(job.valid))
    if wanted.init and dropout is not None:
        wanted.dropout = dropout
    return wanted
