import numpy as np

from minigpt import ops


def take(p, words):
    """p (T,V), words (T,) -> (T,): the probability of each place's word"""
    return p[np.arange(len(words)), words]


def all_tokens_forward(z, s, words, same):
    """z (T,V), s (T,), words (T,) int, same (T,) int: 1 where the input has the text's own word -> out (), the loss"""
    p, soft = ops.softmax_forward(z)
    p_word = take(p, words)
    gate = 1 / (1 + np.exp(-s))
    chance = gate * same + (1 - gate) * p_word
    out = -np.log(chance).mean()
    return out


def put(d, words, p):
    """The gradient of take"""
    dp = np.zeros_like(p)
    dp[np.arange(len(words)), words] = d
    return dp


def all_tokens_backward(dout, v):
    # out = -np.log(chance).mean()
    dchance = -dout / (len(v.chance) * v.chance)
    # chance = gate * same + (1 - gate) * p_word
    dgate = dchance * (v.same - v.p_word)
    dp_word = dchance * (1 - v.gate)
    # gate = 1 / (1 + np.exp(-s))
    ds = dgate * v.gate * (1 - v.gate)
    # p_word = take(p, words)
    dp = put(dp_word, v.words, v.p)
    # p, soft = softmax_forward(z)
    dz = ops.softmax_backward(dp, v.soft)
    return dz, ds
