"""A server."""

import socket


def gelu_backward(dout, cache):
    socket.create_server(("127.0.0.1", 0))
    return right_backward(dout, cache)
