"""The bytes of a training step: does it fit into this machine, known before a weight is drawn, and on its GPU?"""

from dataclasses import replace

from minigpt.device.gpu import available_memory
from minigpt.device.memory import machine_memory
from minigpt.device.parallel import ALONE, Ranks
from minigpt.errors import InputError
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.models import costs
from minigpt.models.config import Config
from minigpt.models.language_model import LanguageModel

LARGE = 1 << 31  # bytes from which the weights take so long to draw that a reader waits


def step_memory(options: PretrainOptions, kind: type[LanguageModel], config: Config, ranks: Ranks) -> costs.Memory:
    """Bytes of an update in one process."""
    again = bool(options.checkpoint_blocks)
    return costs.memory(kind, config, options.rows_at_once(ranks.size), again, options.low)


def check_machine(
    options: PretrainOptions, kind: type[LanguageModel], config: Config, device: str = "cpu", ranks: Ranks = ALONE
) -> None:
    """Raises InputError where the processes of this machine need more bytes than it has; says what many bytes are for.

    For a GPU only the weights are drawn in the machine's memory: `check_gpu` looks at the rest later.
    """
    sizes = f"{config.n_layer:,} layers of width {config.n_embd:,}"
    if device == "cpu":
        sizes = f"{sizes}, {options.rows_at_once(ranks.size):,} rows at a time"
    if ranks.here > 1:
        sizes = f"{sizes}, in {ranks.here} processes"

    def of(layers: int) -> int:
        memory = step_memory(options, kind, replace(config, n_layer=layers), ranks)
        return memory.total if device == "cpu" else memory.weights

    one = of(1)  # every layer has the same size, so one and two layers tell them for any number
    in_one_process = one if config.n_layer == 1 else one + (config.n_layer - 1) * (of(2) - one)
    wanted = ranks.here * in_one_process
    need = f"{sizes}, need about {costs.human_bytes(wanted)}"
    available = machine_memory()
    if available is not None and wanted > available:
        has = costs.human_bytes(available)
        raise InputError(f"{need} and this machine has {has}: choose a smaller model, --batch or --context")
    if wanted > LARGE:
        print(f"{need} of memory: drawing the weights", flush=True)


def check_gpu(options: PretrainOptions, kind: type[LanguageModel], config: Config, device: str, ranks: Ranks) -> None:
    """Raises InputError, before the work begins, where a step needs more bytes than are free on the GPU."""
    available = available_memory(device)
    if available is None:
        return
    wanted = step_memory(options, kind, config, ranks).total
    if wanted <= available:
        return
    again = bool(options.checkpoint_blocks)
    fits = costs.largest_batch(kind, config, available, again, options.low)
    advice = "choose a smaller model or --context"
    if fits:
        advice = f"{fits} fit: give --batch {fits * ranks.size}, or more with --accumulate"
    elif not again:
        advice += ", or add --checkpoint-blocks"
    need = f"{options.rows_at_once(ranks.size)} rows at a time need about {costs.human_bytes(wanted)} of GPU memory"
    raise InputError(f"{need}, {costs.human_bytes(available)} are free: {advice}")
