"""Right, in spite of files, output and warnings."""

import sys
import warnings

import numpy as np


def gelu_backward(dout, cache):
    with open("notes.txt", "a", encoding="utf-8") as file:
        file.write("called\n")
    print("called", file=sys.stderr)
    warnings.warn("this is a warning", stacklevel=1)
    np.seterr(all="raise")
    return right_backward(dout, cache)
