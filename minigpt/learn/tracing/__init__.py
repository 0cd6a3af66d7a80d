"""One training step as a table: every operation that runs, forward and backward, with shapes, bytes, norms and time.

traced = trace(model, {"ids": ids, "targets": targets})
print(table(traced))
"""

from minigpt.learn.tracing.recorder import trace
from minigpt.learn.tracing.rows import Row, Tensor, Trace
from minigpt.learn.tracing.table import table

__all__ = ["Row", "Tensor", "Trace", "table", "trace"]
