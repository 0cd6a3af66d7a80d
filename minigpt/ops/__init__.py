"""The operations: `ops.layernorm_forward`, `ops.layernorm_backward` and so on, whoever implements them just now.

    out, cache = ops.layernorm_forward(x, g, b, eps=1e-5)
    dx, dg, db = ops.layernorm_backward(dout, cache)

    ops.use("reference")            # the mathematics, as written in minigpt/ops/reference
    ops.use(my_module)              # whatever pairs it has; for the rest, what the library has
    with ops.using(my_module): ...  # the same, for a while
    ops.ledger(cache)               # what a cache keeps, by name, in bytes
    ops.add(x, y)                   # x + y: no pair, for its backward pass is a copy

`help(ops.layernorm_forward)` shows shapes, formula and source.
"""

from minigpt.ops import cuda, fast, reference
from minigpt.ops.cuda.residual import add
from minigpt.ops.keys import Key
from minigpt.ops.reference.attention import causal_mask
from minigpt.ops.reference.composites import merge_heads, split_heads
from minigpt.ops.reference.cross_entropy import IGNORED
from minigpt.ops.table import arrays, ledger, nbytes, table

table.add("reference", reference, composites=reference.COMPOSITES)
table.add("fast", fast)
table.add("cuda", cuda)

use, using = table.use, table.using
names = tuple(table.docs)  # every operation
composites = tuple(reference.COMPOSITES)
primitives = tuple(name for name in names if name not in composites)
globals().update({f"{op}_{way}": getattr(table, f"{op}_{way}") for op in names for way in ("forward", "backward")})

__all__ = [
    "IGNORED", "Key", "add", "arrays", "causal_mask", "composites", "ledger", "merge_heads", "names", "nbytes",
    "primitives", "split_heads", "use", "using",
    *(f"{op}_{way}" for op in names for way in ("forward", "backward")),
]  # fmt: skip
