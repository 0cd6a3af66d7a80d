"""Exercise 16: GPT-2's block, backward, and how its weights are drawn.

    n   = x + Attn(LN1(x))
    out = n + MLP(LN2(n))

The forward stands below. Write the backward, one line for each line of the forward, in reverse; mind which values are
used twice. And say from which standard deviation the weights that end on the stream are drawn, in a model of n_layer
blocks. (Lesson 16, sections 3, 4, 6 and 7.)

Judge it:  python lessons/exercises/16_gpt2.py
"""

import math  # noqa: F401 (yours to use)

from minigpt import ops


def residual_std(n_layer, std=0.02):
    """Of the initial weights of both c_proj (GPT-2, section 2.3); std is that of all others."""
    ...  # your turn


def attend_forward(x, w_qkv, b_qkv, w_o, b_o, n_head):
    """x (B,T,C) -> out (B,T,C)"""
    qkv, c1 = ops.linear_forward(x, w_qkv, b_qkv)
    heads, c2 = ops.self_attention_forward(qkv, n_head)
    out, c3 = ops.linear_forward(heads, w_o, b_o)
    return out, (c1, c2, c3)


def attend_backward(dout, cache):
    """dout (B,T,C) -> dx, dw_qkv, db_qkv, dw_o, db_o"""
    c1, c2, c3 = cache
    dheads, dw_o, db_o = ops.linear_backward(dout, c3)
    dqkv, _ = ops.self_attention_backward(dheads, c2)
    dx, dw_qkv, db_qkv = ops.linear_backward(dqkv, c1)
    return dx, dw_qkv, db_qkv, dw_o, db_o


def block_forward(x, g1, b1, w_qkv, b_qkv, w_o, b_o, g2, b2, w_fc, b_fc, w_proj, b_proj, *, n_head):
    """x (B,T,C) and 12 parameters -> out (B,T,C)"""
    a, c1 = ops.layernorm_forward(x, g1, b1)
    a, c2 = attend_forward(a, w_qkv, b_qkv, w_o, b_o, n_head)
    n = x + a
    m, c3 = ops.layernorm_forward(n, g2, b2)
    m, c4 = ops.mlp_forward(m, w_fc, b_fc, w_proj, b_proj)
    return n + m, (c1, c2, c3, c4)


def block_backward(dout, cache):
    """dout (B,T,C) -> dx and 12 gradients"""
    c1, c2, c3, c4 = cache
    # out = n + MLP(LN2(n)); ops.mlp_backward gives dm and four gradients, ops.layernorm_backward dx, dg, db
    ...  # your turn: dn
    # n = x + Attn(LN1(x))
    ...  # your turn: dx
    return None  # your turn: dx, then the gradients in the order of block_forward


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    import numpy as np

    from minigpt import gradcheck

    rng = np.random.default_rng(0)
    shapes = [(2, 3, 4), 4, 4, (4, 12), 12, (4, 4), 4, 4, 4, (4, 16), 16, (16, 4), 4]
    arrays = [rng.normal(size=shape) / 2 for shape in shapes]
    results = gradcheck.check(block_forward, block_backward, arrays, {"n_head": 2})
    print(gradcheck.table(results))
    wrong = [result.name for result in results if result.word != "happy"]
    if wrong:
        raise SystemExit(f"not yet: {', '.join(wrong)}")
    for n_layer, wanted in ((2, 0.01), (8, 0.005), (48, 0.002041241)):
        yours = residual_std(n_layer)
        if yours is None:
            raise SystemExit("not yet: residual_std returns nothing")
        if abs(yours - wanted) > 1e-8:
            raise SystemExit(f"not yet: residual_std({n_layer}) is {yours}, expected {wanted}")
    print("right: 13 gradients, and the scale")
    raise SystemExit(0)
