"""Right at the first call with a cache, and wrong at the second."""

seen = []


def gelu_backward(dout, cache):
    seen.append(id(cache))
    return right_backward(dout, cache) * (1 if seen.count(id(cache)) == 1 else 2)
