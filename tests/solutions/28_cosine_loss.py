import numpy as np


def cosine_forward(a, b):
    """a (N,C), b (N,C) -> out (), the mean of 1 - cos(a, b) over the rows"""
    product = (a * b).sum(axis=1, keepdims=True)
    a_length = np.sqrt((a**2).sum(axis=1, keepdims=True))
    b_length = np.sqrt((b**2).sum(axis=1, keepdims=True))
    cosine = product / (a_length * b_length)
    out = (1 - cosine).mean()
    return out


def cosine_backward(dout, v):
    # out = (1 - cosine).mean()
    dcosine = np.full_like(v.cosine, -dout / len(v.cosine))
    # cosine = product / (a_length * b_length)
    dproduct = dcosine / (v.a_length * v.b_length)
    da_length = -dcosine * v.cosine / v.a_length
    db_length = -dcosine * v.cosine / v.b_length
    # b_length = np.sqrt((b**2).sum(axis=1, keepdims=True))
    db = db_length * v.b / v.b_length
    # a_length = np.sqrt((a**2).sum(axis=1, keepdims=True))
    da = da_length * v.a / v.a_length
    # product = (a * b).sum(axis=1, keepdims=True): the second use of a and of b
    da = da + dproduct * v.b
    db = db + dproduct * v.a
    return da, db
