"""Exercise 07: the backward of a parallel block (lesson 07).

GPT-J (Wang and Komatsuzaki 2021) has one LayerNorm in each block, and attention and MLP read it side by side:

    h = LN(x),   out = x + Attn(h) + MLP(h)

The forward is there. Replace what is marked "your turn", from the top: each gradient stands under the forward line that
it undoes. Which values are used more than once? Run this file to see which line is the first wrong one:

    python lessons/exercises/07_parallel_block.py
"""

import numpy as np

from minigpt import ops


def forward(x, g, b, w_qkv, b_qkv, w_o, b_o, w_fc, b_fc, w_proj, b_proj, *, n_head):
    """x (B,T,C) and 10 parameters -> out (B,T,C)"""
    h, norm = ops.layernorm_forward(x, g, b)
    qkv, to_qkv = ops.linear_forward(h, w_qkv, b_qkv)
    heads, attn = ops.self_attention_forward(qkv, n_head)
    a, to_a = ops.linear_forward(heads, w_o, b_o)
    m, fc = ops.mlp_forward(h, w_fc, b_fc, w_proj, b_proj)
    both = a + m
    out = x + both
    return out


def attend_backward(da, v):
    """Given: da (B,T,C) -> dh, dw_qkv, db_qkv, dw_o, db_o, through the three lines of the attention"""
    dheads, dw_o, db_o = ops.linear_backward(da, v.to_a)
    dqkv, _ = ops.self_attention_backward(dheads, v.attn)
    dh, dw_qkv, db_qkv = ops.linear_backward(dqkv, v.to_qkv)
    return dh, dw_qkv, db_qkv, dw_o, db_o


def backward(dout, v):
    """dout (B,T,C) -> dx and 10 gradients. The caches are v.norm and v.fc; that of the attention is given.

    ops.mlp_backward(dm, cache) gives dh, dw_fc, db_fc, dw_proj, db_proj; ops.layernorm_backward gives dx, dg, db.
    """
    nothing = None, None, None, None, None
    # out = x + both
    dx = None  # your turn: the first of its parts
    dboth = None  # your turn
    # both = a + m
    da = None  # your turn
    dm = None  # your turn
    # m = mlp(h, ...)
    dh, dw_fc, db_fc, dw_proj, db_proj = nothing  # your turn: of dh, the first part
    # a = attention(h, ...)
    dh_of_attn, dw_qkv, db_qkv, dw_o, db_o = nothing  # your turn
    dh = None  # your turn: what there was, and the second part
    # h = layernorm(x, g, b)
    dx_of_norm, dg, db = nothing[:3]  # your turn
    dx = None  # your turn: what there was, and the second part
    return dx, dg, db, dw_qkv, db_qkv, dw_o, db_o, dw_fc, db_fc, dw_proj, db_proj


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge every line; the exit status."""
    from minigpt.learn import lines

    rng = np.random.default_rng(7)
    shapes = [(2, 3, 4), 4, 4, (4, 12), 12, (4, 4), 4, (4, 16), 16, (16, 4), 4]
    arrays = [rng.normal(size=shape) / 2 for shape in shapes]
    results = lines.check(forward, backward, *arrays, n_head=2)
    status = lines.exit_status(results)
    print("not solved yet" if status else "solved: every line is right")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
