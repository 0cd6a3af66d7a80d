"""Exercise 16: find the bug. GPT-2's block, n = x + Attn(LN1(x)), out = n + MLP(LN2(n)).

The forward is right. The backward has one wrong word. "The stream is never touched", its author said, and wrote it so.
Models with it train: in a fresh block of width 32, one of twelve, drawn from N(0, 0.02^2), no gradient is off by much
more than a percent. Say on paper which of the 13 can be wrong; mend it; run this file again. (Lesson 16, sections 3
and 5.)

Judge it:  python lessons/exercises/16_find_the_bug.py
"""

from minigpt import ops


def block_forward(x, g1, b1, w_qkv, b_qkv, w_o, b_o, g2, b2, w_fc, b_fc, w_proj, b_proj, *, n_head):
    """x (B,T,C) and 12 parameters -> out (B,T,C)"""
    a, c1 = ops.layernorm_forward(x, g1, b1)
    qkv, c2 = ops.linear_forward(a, w_qkv, b_qkv)
    heads, c3 = ops.self_attention_forward(qkv, n_head)
    a, c4 = ops.linear_forward(heads, w_o, b_o)
    n = x + a
    m, c5 = ops.layernorm_forward(n, g2, b2)
    m, c6 = ops.mlp_forward(m, w_fc, b_fc, w_proj, b_proj)
    return n + m, (c1, c2, c3, c4, c5, c6)


def block_backward(dout, cache):
    """dout (B,T,C) -> dx and 12 gradients"""
    c1, c2, c3, c4, c5, c6 = cache
    # out = n + MLP(LN2(n))
    dm, dw_fc, db_fc, dw_proj, db_proj = ops.mlp_backward(dout, c6)
    dm, dg2, db2 = ops.layernorm_backward(dm, c5)
    dn = dout + dm
    # n = x + Attn(LN1(x))
    dheads, dw_o, db_o = ops.linear_backward(dout, c4)
    dqkv, _ = ops.self_attention_backward(dheads, c3)
    da, dw_qkv, db_qkv = ops.linear_backward(dqkv, c2)
    da, dg1, db1 = ops.layernorm_backward(da, c1)
    dx = dn + da
    return dx, dg1, db1, dw_qkv, db_qkv, dw_o, db_o, dg2, db2, dw_fc, db_fc, dw_proj, db_proj


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
        raise SystemExit(f"not yet: the gradient of {', '.join(wrong)} is wrong")
    print("right: all 13 gradients")
    raise SystemExit(0)
