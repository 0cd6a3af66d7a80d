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
    # out = x + both
    dx = dout
    dboth = dout
    # both = a + m
    da = dboth
    dm = dboth
    # m = mlp(h, ...)
    dh, dw_fc, db_fc, dw_proj, db_proj = ops.mlp_backward(dm, v.fc)
    # a = attention(h, ...)
    dh_of_attn, dw_qkv, db_qkv, dw_o, db_o = attend_backward(da, v)
    dh = dh + dh_of_attn
    # h = layernorm(x, g, b)
    dx_of_norm, dg, db = ops.layernorm_backward(dh, v.norm)
    dx = dx + dx_of_norm
    return dx, dg, db, dw_qkv, db_qkv, dw_o, db_o, dw_fc, db_fc, dw_proj, db_proj
