"""An MLP with a gate (Shazeer 2020): a composite of two primitives and a product of numbers, as T5 v1.1 has it."""

from typing import Any, NamedTuple

from minigpt.device.arrays import Array
from minigpt.ops.table import table as ops


class GatedMlpCache(NamedTuple):
    gate: Any
    up: Any
    act: Any
    a: Array
    u: Array
    dropout: Any
    down: Any
    activation: str


def gated_mlp_forward(x, w_gate, w_up, w_down, *, activation="silu", rate=0.0, key=None, grad=True):
    """x (*,C), w_gate (C,F), w_up (C,F), w_down (F,C) -> out (*,C)

    out = (act(x w_gate) * (x w_up)) w_down: one product says how much of the other passes (Shazeer 2020, equation 6).
    activation: as in mlp. rate, key: dropout on what goes into the last product, as T5 has it; key=None is evaluation.
    grad=False: no cache is kept.
    """
    act_forward = getattr(ops, f"{activation}_forward")
    g, gate = ops.linear_forward(x, w_gate)
    u, up = ops.linear_forward(x, w_up)
    a, act = act_forward(g)
    h = a * u
    h, dropout = ops.dropout_forward(h, rate=rate, key=key)
    out, down = ops.linear_forward(h, w_down)
    cache = GatedMlpCache(gate, up, act, a, u, dropout, down, activation) if grad else None
    return out, cache


def gated_mlp_backward(dout, cache: GatedMlpCache):
    """dout (*,C) -> dx (*,C), dw_gate (C,F), dw_up (C,F), dw_down (F,C)"""
    act_backward = getattr(ops, f"{cache.activation}_backward")
    dh, dw_down, _ = ops.linear_backward(dout, cache.down)
    dh = ops.dropout_backward(dh, cache.dropout)
    # h = a * u
    da = dh * cache.u
    du = dh * cache.a
    dg = act_backward(da, cache.act)
    # x goes into both products: its gradient is a sum
    dx_up, dw_up, _ = ops.linear_backward(du, cache.up)
    dx_gate, dw_gate, _ = ops.linear_backward(dg, cache.gate)
    dx = dx_gate + dx_up
    return dx, dw_gate, dw_up, dw_down
