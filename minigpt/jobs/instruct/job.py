"""From the first update to the last: what a person wants around tuning on instructions.

To know beforehand what it costs, to see what was learned and what was forgotten, to stop it and go on.
"""

import shutil
from collections.abc import Collection

from minigpt.files import disk, hub
from minigpt.files.disk import typed
from minigpt.files.lock import locked
from minigpt.jobs import chat_template, run_state
from minigpt.jobs.convert import GENERATION
from minigpt.jobs.instruct.examples import PLAIN, n_targets, n_tokens
from minigpt.jobs.instruct.preparation import prepare
from minigpt.jobs.instruct.settings import InstructOptions
from minigpt.jobs.instruct.tuning import ADAPTER, Tuning
from minigpt.jobs.interrupt import Stopped, interruptible
from minigpt.jobs.run_folder import RESUME
from minigpt.models import costs
from minigpt.models.adapters import open_adapter
from minigpt.models.lora import drop_lora, lora_layers, merge_lora


def instruct(options: InstructOptions, named: Collection[str] = ()) -> int:
    """Tune the model in `options.model` on instructions; returns the number of the signal that stopped it, or 0.

    Writes a model directory (`options.out`): the best epoch's model, its tokenizer and its chat template; the same as
    adapters, in the folder `adapter` there; instruct.csv, and resume.safetensors. Ctrl-C stops it, and the same options
    go on to the same end as if it had never stopped. named: has "threads" where the user said how many. Raises
    InputError for whatever cannot work, before anything is written.
    """
    tuning, workers = prepare(options)
    run = tuning.run
    with locked(run.folder):
        if tuning.finished:
            print(f"this run is finished: {_learned(tuning)}: {run.folder}")
            return 0
        if run.claimed:
            print(f"going on with the run in {run.folder} at update {tuning.step}")
            run_state.use_kept_threads(workers, run.folder / RESUME, given="threads" in named)
        with interruptible(speaks=True) as stopped:
            tuning.stopped = stopped
            try:
                _announce(tuning)
                if not run.claimed:
                    tuning.keep()  # the first file of a run, and the one that marks its folder
                tuning.all_updates()
            except Stopped as error:
                print(f"stopped at update {tuning.step}; everything is kept. Go on: the same command")
                return error.args[0]
            _finish(tuning)
    return 0


def _announce(tuning: Tuning) -> None:
    """Print the sizes of all, and the memory."""
    model, options = tuning.model, tuning.options
    learned = sum(parameter.data.size for parameter in tuning.learned.values())
    numbers = sum(parameter.data.size for parameter in model.parameters()) - learned
    rows = min(options.batch, len(tuning.train))
    kept = costs.activations(type(model), model.config, rows, max(tuning.lengths))
    most_targets = rows * max(n_targets([example]) for example in tuning.train)
    head = 3 * 4 * most_targets * model.config.vocab_size  # scores, probabilities, and their gradient
    memory = costs.human_bytes(4 * numbers + 16 * learned + kept + head)
    whose = "the plain one of Alpaca, because MODEL has none" if tuning.template.path == PLAIN else tuning.template.path
    conversations = f"{len(tuning.train):,} conversations to learn from, {len(tuning.valid):,} kept apart"
    print(f"data     {conversations}; {n_targets(tuning.train):,} of {n_tokens(tuning.train):,} tokens are of answers")
    print(f"template {whose}")
    print(f"model    {type(model).__name__}: {numbers:,} parameters stay, {learned:,} learn beside "
          f"{len(lora_layers(model))} layers")  # fmt: skip
    print(f"memory   about {memory}; {costs.human_bytes(16 * numbers + kept + head)} if all would learn")
    print(f"folder   {tuning.run.folder}", flush=True)


def _finish(tuning: Tuning) -> None:
    """Write the model of the best epoch, with all that belongs to it, and tell what came out."""
    folder = tuning.run.folder
    adapter = folder / ADAPTER
    drop_lora(tuning.model)
    open_adapter(tuning.model, adapter)
    merge_lora(tuning.model)
    tuning.model.save(folder, overwrite=True)
    tuning.text.save(folder)
    disk.write_text(folder / chat_template.FILE, tuning.template.source)
    generation = hub.find(tuning.options.model) / GENERATION
    if generation.is_file():
        shutil.copyfile(generation, folder / GENERATION)
    tuning.finished = True
    tuning.keep()
    size = sum(path.stat().st_size for path in adapter.iterdir())
    print(_learned(tuning))
    print(f"adapter  {adapter}: {costs.human_bytes(size)}, for the package peft too")
    print(f"now: minigpt chat {typed(folder)}")


def _learned(tuning: Tuning) -> str:
    """The losses before, and those of the epoch that was best."""
    first = tuning.run.rows[0]
    best = min(tuning.run.rows, key=lambda row: row["valid_loss"])
    answers = f"{first['valid_loss']:.3f} before, {best['valid_loss']:.3f} after epoch {best['epoch']:.0f}"
    other = f"{first['other_loss']:.3f} before, {best['other_loss']:.3f} after"
    return f"loss on answers kept apart {answers}; on {tuning.options.other} {other}"
