"""Exercise 31: the scores of Transformer-XL, line by line.

XLNet has no table of positions. Its score of a query and a key has two parts: (q + u) with the key's content, and
(q + v) with a vector r of the distance (Dai et al. 2019, section 3.3). u and v are learned, the same for all places.
The forward pass stands below. Write the backward pass; lesson 30 has `put`, the gradient of `take`. Replace all `...`.

Judge it:  python lessons/exercises/31_relative_scores.py
"""

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
    dcontent = ...  # your turn: (T,T)
    dplace = ...  # your turn: (T,T)
    # place = take(far, distance)
    dfar = ...  # your turn: (T,R)
    # far = with_w @ r.T
    dwith_w = ...  # your turn: (T,D)
    dr = ...  # your turn: (R,D)
    # with_w = q + w
    dw = ...  # your turn: (D,); one w for all places
    dq = ...  # your turn: (T,D), from this use of q
    # content = with_u @ k.T
    dwith_u = ...  # your turn: (T,D)
    dk = ...  # your turn: (T,D)
    # with_u = q + u
    du = ...  # your turn: (D,)
    dq = ...  # your turn: (T,D), q is used twice
    return dq, dk, dr, du, dw


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    T, D, R = 4, 3, 5
    rng = np.random.default_rng(0)
    distances = np.clip(np.arange(T)[:, None] - np.arange(T) + 2, 0, R - 1)
    arrays = [rng.normal(size=shape) for shape in ((T, D), (T, D), (R, D), D, D)]
    results = lines.check(scores_forward, scores_backward, *arrays, distances)
    raise SystemExit(lines.exit_status(results))
