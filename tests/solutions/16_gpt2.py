import math

from minigpt import ops


def residual_std(n_layer, std=0.02):
    """Of the initial weights of both c_proj (GPT-2, section 2.3); std is that of all others."""
    return std / math.sqrt(2 * n_layer)


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
    dm, dw_fc, db_fc, dw_proj, db_proj = ops.mlp_backward(dout, c4)
    dm, dg2, db2 = ops.layernorm_backward(dm, c3)
    dn = dout + dm
    # n = x + Attn(LN1(x))
    da, dw_qkv, db_qkv, dw_o, db_o = attend_backward(dn, c2)
    da, dg1, db1 = ops.layernorm_backward(da, c1)
    dx = dn + da
    return dx, dg1, db1, dw_qkv, db_qkv, dw_o, db_o, dg2, db2, dw_fc, db_fc, dw_proj, db_proj
