"""A GPT-1 of one block in functions: weights and gradients are dicts, and what is kept is a tuple."""

import numpy as np

from minigpt import ops


def block_forward(x, weights, n_head, rate, key):
    """x (B,T,C) -> out (B,T,C)"""
    qkv, c_attn = ops.linear_forward(x, weights["h.0.attn.c_attn.weight"], weights["h.0.attn.c_attn.bias"])
    heads, attention = ops.self_attention_forward(qkv, n_head, rate=rate, key=place(key, 1))
    a, attn_proj = ops.linear_forward(heads, weights["h.0.attn.c_proj.weight"], weights["h.0.attn.c_proj.bias"])
    a, attn_dropout = ops.dropout_forward(a, rate=rate, key=place(key, 2))
    n = x + a
    n, ln_1 = ops.layernorm_forward(n, weights["h.0.ln_1.weight"], weights["h.0.ln_1.bias"])
    m, mlp = ops.mlp_forward(
        n,
        weights["h.0.mlp.c_fc.weight"],
        weights["h.0.mlp.c_fc.bias"],
        weights["h.0.mlp.c_proj.weight"],
        weights["h.0.mlp.c_proj.bias"],
    )
    m, mlp_dropout = ops.dropout_forward(m, rate=rate, key=place(key, 3))
    out = n + m
    out, ln_2 = ops.layernorm_forward(out, weights["h.0.ln_2.weight"], weights["h.0.ln_2.bias"])
    return out, (c_attn, attention, attn_proj, attn_dropout, ln_1, mlp, mlp_dropout, ln_2)


def block_backward(dout, cache, gradients):
    """dout (B,T,C) -> dx (B,T,C), and the gradients of the weights by name"""
    c_attn, attention, attn_proj, attn_dropout, ln_1, mlp, mlp_dropout, ln_2 = cache
    dout, dg, db = ops.layernorm_backward(dout, ln_2)
    add(gradients, "h.0.ln_2.weight", dg)
    add(gradients, "h.0.ln_2.bias", db)
    # out = n + m
    dm = ops.dropout_backward(dout, mlp_dropout)
    dn, dw_fc, db_fc, dw_proj, db_proj = ops.mlp_backward(dm, mlp)
    add(gradients, "h.0.mlp.c_fc.weight", dw_fc)
    add(gradients, "h.0.mlp.c_fc.bias", db_fc)
    add(gradients, "h.0.mlp.c_proj.weight", dw_proj)
    add(gradients, "h.0.mlp.c_proj.bias", db_proj)
    dn = dn + dout
    dn, dg, db = ops.layernorm_backward(dn, ln_1)
    add(gradients, "h.0.ln_1.weight", dg)
    add(gradients, "h.0.ln_1.bias", db)
    # n = x + a
    da = ops.dropout_backward(dn, attn_dropout)
    dheads, dw, db = ops.linear_backward(da, attn_proj)
    add(gradients, "h.0.attn.c_proj.weight", dw)
    add(gradients, "h.0.attn.c_proj.bias", db)
    dqkv, _ = ops.self_attention_backward(dheads, attention)
    dx, dw, db = ops.linear_backward(dqkv, c_attn)
    add(gradients, "h.0.attn.c_attn.weight", dw)
    add(gradients, "h.0.attn.c_attn.bias", db)
    dx = dx + dn
    return dx


def model_forward(weights, ids, targets, n_head, rate, key):
    """ids (B,T) int, targets (B,T) int -> loss ()"""
    x, tokens = ops.embedding_forward(weights["tokens_embed.weight"], ids)
    p, positions = ops.embedding_forward(weights["positions_embed.weight"], np.arange(ids.shape[1]))
    x, dropout = ops.dropout_forward(x + p, rate=rate, key=place(key, 0))
    h, block = block_forward(x, weights, n_head, rate, key)
    loss, head = ops.linear_cross_entropy_forward(h, weights["tokens_embed.weight"], targets)
    return loss, (tokens, positions, dropout, block, head)


def model_backward(dloss, cache, gradients):
    """dloss () -> the gradients of all weights by name, and with them those that were there before"""
    tokens, positions, dropout, block, head = cache
    gradients = dict(gradients)
    dh, dw, _ = ops.linear_cross_entropy_backward(dloss, head)
    add(gradients, "tokens_embed.weight", dw)
    dh = block_backward(dh, block, gradients)
    dx = ops.dropout_backward(dh, dropout)
    # x + p
    dp = dx.sum(axis=0)
    dw = ops.embedding_backward(dp, positions)
    add(gradients, "positions_embed.weight", dw)
    dw = ops.embedding_backward(dx, tokens)
    add(gradients, "tokens_embed.weight", dw)
    return gradients


def add(gradients, name, gradient):
    """Add a gradient to what is there under this name."""
    if name in gradients:
        gradient = gradients[name] + gradient
    gradients[name] = gradient


def place(key, number):
    """The key of a place; None, where nothing is dropped, stays None."""
    return None if key is None else key._replace(bits=(key.bits + number) % 2**32)
