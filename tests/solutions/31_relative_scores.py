import numpy as np


def take(products, distance):
    """products (T,R) of each query with each distance, distance (T,T) int -> (T,T): with the distance of each pair"""
    return np.take_along_axis(products, distance, axis=1)


def put(d, distance, products):
    """The gradient of take: pairs of one row that share a distance are added."""
    out = np.zeros_like(products)
    np.add.at(out, (np.arange(len(distance))[:, None], distance), d)
    return out


def scores_forward(q, k, r, u, w, distance):
    """q, k (T,D), r (R,D), u, w (D,), distance (T,T) int -> out (T,T). w is the v of the paper."""
    with_u = q + u
    content = with_u @ k.T
    with_w = q + w
    far = with_w @ r.T
    place = take(far, distance)
    out = content + place
    return out


def scores_backward(dout, v):
    # out = content + place
    dcontent = dout
    dplace = dout
    # place = take(far, distance)
    dfar = put(dplace, v.distance, v.far)
    # far = with_w @ r.T
    dwith_w = dfar @ v.r
    dr = dfar.T @ v.with_w
    # with_w = q + w
    dw = dwith_w.sum(axis=0)
    dq = dwith_w
    # content = with_u @ k.T
    dwith_u = dcontent @ v.k
    dk = dcontent.T @ v.with_u
    # with_u = q + u
    du = dwith_u.sum(axis=0)
    dq = dq + dwith_u
    return dq, dk, dr, du, dw
