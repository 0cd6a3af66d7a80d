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
    dheads, dw_o, db_o = ops.linear_backward(dn, c4)
    dqkv, _ = ops.self_attention_backward(dheads, c3)
    da, dw_qkv, db_qkv = ops.linear_backward(dqkv, c2)
    da, dg1, db1 = ops.layernorm_backward(da, c1)
    dx = dn + da
    return dx, dg1, db1, dw_qkv, db_qkv, dw_o, db_o, dg2, db2, dw_fc, db_fc, dw_proj, db_proj
