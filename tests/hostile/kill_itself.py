"""The process is killed by itself."""

import os
import signal


def gelu_backward(dout, cache):
    os.kill(os.getpid(), signal.SIGKILL)
