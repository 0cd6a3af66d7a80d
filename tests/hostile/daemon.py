"""A process in a session of its own, which outlives its parent."""

import subprocess
import sys


def gelu_backward(dout, cache):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "MARK"], start_new_session=True)
    return right_backward(dout, cache)
