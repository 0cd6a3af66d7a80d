"""Does the model that the options describe fit into the memory of this machine? Known before a weight is drawn."""

from dataclasses import replace

from minigpt.device.memory import machine_memory
from minigpt.errors import InputError
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.models import costs
from minigpt.models.config import Config
from minigpt.models.language_model import LanguageModel

LARGE = 1 << 31  # bytes from which the weights take so long to draw that a reader waits


def check_size(options: PretrainOptions, kind: type[LanguageModel], config: Config) -> None:
    """Raises InputError where a training step needs more bytes than the machine has; says what a large one needs.

    On a GPU the weights are drawn in the machine's memory too, and what is free there is compared later.
    """
    rows = options.batch // options.accumulate
    wanted = _step_bytes(options, kind, config, rows)
    sizes = f"{config.n_layer:,} layers of width {config.n_embd:,}, {rows:,} rows at a time"
    need = f"{sizes}, need about {costs.human_bytes(wanted)}"
    available = machine_memory()
    if available is not None and wanted > available:
        has = costs.human_bytes(available)
        raise InputError(f"{need} and this machine has {has}: choose a smaller model, --batch or --context")
    if wanted > LARGE:
        print(f"{need} of memory: drawing the weights", flush=True)


def _step_bytes(options: PretrainOptions, kind: type[LanguageModel], config: Config, rows: int) -> int:
    """The bytes of a training step. Every layer has the same size, so one and two layers tell them for any number."""
    again = bool(options.checkpoint_blocks)
    if config.n_layer == 1:
        return costs.memory(kind, config, rows, again, options.low).total
    one = costs.memory(kind, replace(config, n_layer=1), rows, again, options.low).total
    two = costs.memory(kind, replace(config, n_layer=2), rows, again, options.low).total
    return one + (config.n_layer - 1) * (two - one)
