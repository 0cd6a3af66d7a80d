"""Exercise 07: find the bug. GPT-1's block, n = LN1(x + Attn(x)), out = LN2(n + MLP(n)).

The forward is right. The backward has one wrong word. Models with it train, and the gradients of all 12 parameters
are right! Say first, on paper, which gradient can be wrong then; mend it; run this file again. (Section 4.)

Judge it:  python lessons/exercises/07_find_the_bug.py
"""

from minigpt import ops


def block_forward(x, w_qkv, b_qkv, w_o, b_o, g1, b1, w_fc, b_fc, w_proj, b_proj, g2, b2, *, n_head):
    """x (B,T,C) and 12 parameters -> out (B,T,C)"""
    qkv, c1 = ops.linear_forward(x, w_qkv, b_qkv)
    heads, c2 = ops.self_attention_forward(qkv, n_head)
    a, c3 = ops.linear_forward(heads, w_o, b_o)
    n, c4 = ops.layernorm_forward(x + a, g1, b1)
    m, c5 = ops.mlp_forward(n, w_fc, b_fc, w_proj, b_proj)
    out, c6 = ops.layernorm_forward(n + m, g2, b2)
    return out, (c1, c2, c3, c4, c5, c6)


def block_backward(dout, cache):
    """dout (B,T,C) -> dx and 12 gradients"""
    c1, c2, c3, c4, c5, c6 = cache
    # out = LN2(n + m)
    dn, dg2, db2 = ops.layernorm_backward(dout, c6)
    # m = MLP(n)
    dm, dw_fc, db_fc, dw_proj, db_proj = ops.mlp_backward(dn, c5)
    dn = dn + dm
    # n = LN1(x + a)
    da, dg1, db1 = ops.layernorm_backward(dn, c4)
    # a = Attn(x)
    dheads, dw_o, db_o = ops.linear_backward(da, c3)
    dqkv, _ = ops.self_attention_backward(dheads, c2)
    dx, dw_qkv, db_qkv = ops.linear_backward(dqkv, c1)
    dx = dx + dn
    return dx, dw_qkv, db_qkv, dw_o, db_o, dg1, db1, dw_fc, db_fc, dw_proj, db_proj, dg2, db2


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    import numpy as np

    from minigpt import gradcheck

    rng = np.random.default_rng(0)
    shapes = [(2, 3, 4), (4, 12), 12, (4, 4), 4, 4, 4, (4, 16), 16, (16, 4), 4, 4, 4]
    arrays = [rng.normal(size=shape) / 2 for shape in shapes]
    results = gradcheck.check(block_forward, block_backward, arrays, {"n_head": 2})
    print(gradcheck.table(results))
    wrong = [result.name for result in results if result.word != "happy"]
    if wrong:
        raise SystemExit(f"not yet: the gradient of {', '.join(wrong)} is wrong")
    print("right: all 13 gradients")
    raise SystemExit(0)
