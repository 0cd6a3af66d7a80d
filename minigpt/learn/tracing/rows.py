"""What a trace holds: a row for each call of an operation, and what is known of the whole step."""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.models.language_model import LanguageModel

FORWARD, BACKWARD = "forward", "backward"


class Tensor(NamedTuple):
    """An array that goes into an operation, or comes out of one.

    name: as the operation calls it, "x", "dx". norm: the root of the sum of its squares; None for whole numbers and
    for booleans. parameter: which parameter it is, or a view of; None for what was computed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    norm: float | None
    parameter: str | None = None

    @classmethod
    def of(cls, name: str, value: Any, parameter: str | None = None) -> "Tensor":
        """A Tensor that describes this array, or this number."""
        array = np.asarray(value)
        norm = float(np.linalg.norm(array.ravel())) if array.dtype.kind == "f" else None
        return cls(name, array.shape, str(array.dtype), norm, parameter)


@dataclass
class Row:
    """One call of an operation.

    number: of the forward call; its backward has the same one. way: "forward" or "backward". depth: inside how many
    other calls it was made. module: whose forward or backward made it, "h.0.attn"; "" is the model itself.
    implementation: who computed it. cache_bytes: of all arrays in its cache. kept_bytes: of those that nothing before
    it keeps, without parameters; kept_bytes of a composite are those of the calls inside it and its own. seconds:
    without what the trace itself takes. own_seconds: without the calls inside; what it takes to find the implementation
    of these is left in.
    """

    number: int
    way: str
    depth: int
    module: str
    op: str
    implementation: str = "reference"
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    cache_bytes: int = 0
    kept_bytes: int = 0
    seconds: float = 0.0
    own_seconds: float = 0.0


@dataclass
class Trace:
    """One forward and one backward pass of a loss; the gradients are in the model's parameters.

    loss: None for a body without a head for words, of which there is a forward pass alone. rows: in the sequence in
    which they began. ledger: what the caches keep when the forward pass ends, as `ops.ledger` has it. parameter_paths:
    the lines of it that are parameters, which exist anyway. kept: arrays of one row, by their names there, if a number
    was given.
    """

    model: LanguageModel
    loss: float | None
    rows: list[Row]
    ledger: dict[str, int]
    parameter_paths: set[str]
    kept: dict[str, Array] = field(default_factory=dict)

    def way(self, way: str) -> list[Row]:
        """The rows of the forward pass, or those of the backward pass."""
        return [row for row in self.rows if row.way == way]

    @property
    def activation_bytes(self) -> int:
        """What the caches keep, parameters left out: what `costs.activations` foretells."""
        return sum(size for path, size in self.ledger.items() if path not in self.parameter_paths)

    @property
    def bytes_in_rows(self) -> int:
        """The part of it that operations keep; the rest is kept by modules themselves."""
        return sum(row.kept_bytes for row in self.rows if row.depth == 0)

    @property
    def global_norm(self) -> float | None:
        """Of all gradients together: what clipping compares; None where there is no loss."""
        if self.loss is None:
            return None
        norms = [Tensor.of(name, parameter.grad).norm for name, parameter in self.learned().items()]
        return float(np.linalg.norm(norms))

    def learned(self) -> dict[str, Any]:
        """The parameters that got a gradient, by name."""
        return {name: one for name, one in self.model.named_parameters() if one.grad is not None}

    def to_dict(self) -> dict[str, Any]:
        """All of it but the arrays, for a JSON file."""
        gradients = {}
        for name, parameter in self.model.named_parameters():
            got = parameter.grad is not None
            norm = Tensor.of(name, parameter.grad).norm if got else None
            gradients[name] = {"shape": parameter.data.shape, "gradient_norm": norm}
        rows = [asdict(row) | {"inputs": _plain(row.inputs), "outputs": _plain(row.outputs)} for row in self.rows]
        return {
            "loss": self.loss,
            "rows": rows,
            "ledger": self.ledger,
            "parameters_in_the_ledger": sorted(self.parameter_paths),
            "activation_bytes": self.activation_bytes,
            "parameters": gradients,
            "global_norm": self.global_norm,
        }


def _plain(tensors: tuple[Tensor, ...]) -> list[dict[str, Any]]:
    return [tensor._asdict() for tensor in tensors]
