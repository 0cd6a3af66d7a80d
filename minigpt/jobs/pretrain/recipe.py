"""How a model was pre-trained, as published: what `--recipe paper` takes, and how far a run is from it.

The settings are a table with sources, `recipes.toml`: only what a paper or a released program says stands there.
"""

import functools
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from minigpt import models
from minigpt.errors import InputError
from minigpt.jobs.option_fields import option_text
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.pretrain.settings import FIXED_BY_INIT, PretrainOptions, model_of

HOME = Path(__file__).with_name("recipes.toml")


class Setting(NamedTuple):
    """A field of PretrainOptions, its published value, and where that stands."""

    option: str
    value: Any
    source: str


class Recipe(NamedTuple):
    """The published settings of a model. sizes, epochs, says: see `recipes.toml`."""

    sizes: tuple[str, ...]
    settings: tuple[Setting, ...]
    epochs: int | None
    says: str


@functools.cache
def recipes() -> dict[str, Recipe]:
    """{name of a model: how it was pre-trained}."""
    found = tomllib.loads(HOME.read_text(encoding="utf-8"))
    table = {}
    for model, entry in found.items():
        settings = tuple(Setting(option, one["value"], one["source"]) for option, one in entry["settings"].items())
        table[model] = Recipe(tuple(entry["sizes"]), settings, entry.get("epochs"), entry["says"])
    return table


def settle(options: PretrainOptions) -> PretrainOptions:
    """The options with the recipe's settings where nothing was given. Doing it twice is once.

    A model that begins from another has its size and its weights. Raises InputError for a model without a recipe.
    """
    options = replace(options)
    if options.recipe:
        model = model_of(options)
        if model not in recipes():
            known = " and ".join(recipes())
            raise InputError(f"--recipe {options.recipe}: here are the published settings of {known}, none of {model}: "
                             "leave it out")  # fmt: skip
        recipe = recipes()[model]
        if options.size is None and _is_new(options):
            options.size = recipe.sizes[0]
        for setting in _that_apply(options, recipe):
            if getattr(options, setting.option) is None:
                setattr(options, setting.option, setting.value)
    return options


def _is_new(options: PretrainOptions) -> bool:
    """Does the run begin with new weights of a size that can be chosen?"""
    return options.init is None and options.teacher is None


def _that_apply(options: PretrainOptions, recipe: Recipe) -> list[Setting]:
    """The settings that a run can have: a model that begins from another has some already."""
    return [one for one in recipe.settings if _is_new(options) or one.option not in FIXED_BY_INIT]


def about_recipe(job: Job) -> list[str]:
    """Lines for the announcement: the settings of the recipe with their sources, and what was given instead.

    Without a recipe, of a model as large as a published one: a single line that tells what the paper has otherwise.
    """
    options = job.options
    recipe = recipes().get(options.model)
    if recipe is None:
        return []
    settings = _that_apply(options, recipe)
    others = [one for one in settings if _in_use(job, one.option) != one.value]
    if not options.recipe:
        if not others or not _is_published_size(job, recipe):
            return []
        each = ", ".join(f"{option_text(one.option, _in_use(job, one.option))} ({one.value:g})" for one in others)
        return [f"recipe   the paper has other settings, in brackets: {each}: --recipe paper takes them"]
    lines = [f"recipe   {options.recipe}:"]
    for one in settings:
        line = f"         {option_text(one.option, one.value)}: {one.source}"
        if one in others:
            line += f"; here {option_text(one.option, _in_use(job, one.option))}"
        lines.append(line)
    lines.append(f"         {recipe.says}")
    if recipe.epochs:
        updates = math.ceil(recipe.epochs * len(job.train) / (options.batch * options.context))
        lines.append(f"         the paper has {recipe.epochs} epochs, {updates:,} updates with this text: "
                     f"here --steps {options.steps}")  # fmt: skip
    if options.warmup == options.steps:
        lines.append("         the warm-up is as long as the run: the rate never falls; more --steps, or less --warmup")
    return lines


def _in_use(job: Job, option: str) -> Any:
    """The value that the run has."""
    if option == "init_std":
        return job.model.config.initializer_range
    return getattr(job.options, option)


def _is_published_size(job: Job, recipe: Recipe) -> bool:
    """Is the model as large as one that was trained so?"""
    config = job.model.config.to_dict()
    sizes = [models.size(job.options.model, name) for name in recipe.sizes]
    return any(values.items() <= config.items() for values in sizes)
