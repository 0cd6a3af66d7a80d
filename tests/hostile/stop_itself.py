"""The process stops, and does not end."""

import os
import signal


def gelu_backward(dout, cache):
    os.kill(os.getpid(), signal.SIGSTOP)
