"""The operations: `ops.layernorm_forward`, `ops.layernorm_backward` and so on; the table finds who computes them.

    out, cache = ops.layernorm_forward(x, g, b, eps=1e-5)
    dx, dg, db = ops.layernorm_backward(dout, cache)

    ops.use("reference")            # the mathematics, as written in minigpt/ops/reference
    ops.use(my_module)              # the pairs that it has; for the rest, those of the library
    with ops.using(my_module): ...  # the same, for a while
    ops.explain("linear", x, w)     # which implementation runs this call, and why the others do not
    ops.ledger(cache)               # what a cache keeps, by name, in bytes
    ops.add(x, y)                   # x + y; ops.adam_update: entries that are no pairs

`help(ops.layernorm_forward)` shows shapes, formula and source.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minigpt.ops import cuda, fast, reference
from minigpt.ops.caches import arrays, ledger, nbytes
from minigpt.ops.random_keys import Key
from minigpt.ops.reference.attention import causal_mask
from minigpt.ops.reference.composites import merge_heads, split_heads
from minigpt.ops.table import table
from minigpt.ops.targets import IGNORED

table.register("reference", reference, composites=reference.COMPOSITES, functions=reference.FUNCTIONS)
table.register("fast", fast)
table.register("cuda", cuda)

use, using, explain, tracing = table.use, table.using, table.explain, table.tracing
repeating, is_default = table.repeating, table.is_default
names = tuple(table.docs)  # every operation that is a pair
functions = table.functions  # entries that are no pairs
composites = tuple(reference.COMPOSITES)
primitives = tuple(name for name in names if name not in composites)
globals().update({f"{op}_{way}": getattr(table, f"{op}_{way}") for op in names for way in ("forward", "backward")})
globals().update({name: getattr(table, name) for name in functions})
if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Any]: ...  # what the two lines above add

__all__ = [
    "IGNORED", "Key", "arrays", "causal_mask", "composites", "explain", "functions", "is_default", "ledger",
    "merge_heads", "names", "nbytes", "primitives", "repeating", "split_heads", "tracing", "use", "using",
    *functions, *(f"{op}_{way}" for op in names for way in ("forward", "backward")),
]  # fmt: skip
