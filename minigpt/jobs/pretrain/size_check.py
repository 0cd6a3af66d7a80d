"""Does the model that the options describe fit into the memory of this machine? Known before a weight is drawn."""

from dataclasses import replace

from minigpt.device.memory import machine_memory
from minigpt.device.parallel import ALONE, Ranks
from minigpt.errors import InputError
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.models import costs
from minigpt.models.config import Config
from minigpt.models.language_model import LanguageModel

LARGE = 1 << 31  # bytes from which the weights take so long to draw that a reader waits


def check_size(
    options: PretrainOptions, kind: type[LanguageModel], config: Config, device: str = "cpu", ranks: Ranks = ALONE
) -> None:
    """Raises InputError where the processes of this machine need more bytes than it has; says what many bytes are for.

    For a GPU only the weights are drawn in the machine's memory: what is free on the GPU is compared later.
    """
    rows = options.batch // options.accumulate // ranks.size
    sizes = f"{config.n_layer:,} layers of width {config.n_embd:,}"
    if device == "cpu":
        sizes = f"{sizes}, {rows:,} rows at a time"
    if ranks.here > 1:
        sizes = f"{sizes}, in {ranks.here} processes"
    wanted = ranks.here * _bytes(options, kind, config, rows, device)
    need = f"{sizes}, need about {costs.human_bytes(wanted)}"
    available = machine_memory()
    if available is not None and wanted > available:
        has = costs.human_bytes(available)
        raise InputError(f"{need} and this machine has {has}: choose a smaller model, --batch or --context")
    if wanted > LARGE:
        print(f"{need} of memory: drawing the weights", flush=True)


def _bytes(options: PretrainOptions, kind: type[LanguageModel], config: Config, rows: int, device: str) -> int:
    """The bytes of a training step in one process; for a GPU those of the weights.

    Every layer has the same size, so one and two layers tell them for any number.
    """

    def of(layers: int) -> int:
        again = bool(options.checkpoint_blocks)
        memory = costs.memory(kind, replace(config, n_layer=layers), rows, again, options.low)
        return memory.total if device == "cpu" else memory.weights

    one = of(1)
    if config.n_layer == 1:
        return one
    return one + (config.n_layer - 1) * (of(2) - one)
