import json

import numpy as np


def open_by_hand(raw):
    """The bytes of a safetensors file -> a dict of float32 arrays by name

    8 bytes: the length of the header, low byte first. The header: JSON, for each name {"dtype": ..., "shape": ...,
    "data_offsets": [begin, end]}, counted from the end of the header; the name "__metadata__" is no tensor. A dtype is
    "F32" or "BF16": the upper half of a float32.
    """
    start = 8 + int.from_bytes(raw[:8], "little")
    arrays = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data = raw[start + begin : start + end]
        if entry["dtype"] == "BF16":
            array = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            array = np.frombuffer(data, "<f4")
        arrays[name] = array.reshape(entry["shape"])
    return arrays


def step(q, k, v, past=None):
    """q, k, v (NH,T,D) of the T positions that follow the past -> out (NH,T,D), past

    past: None, or what the last step gave back: (keys, values), each (NH,S,D). The past that comes back holds the new
    keys and values too. Each new position sees all of the past, the new ones before it, and itself. The past that was
    given must stay as it is: somebody else may go on from it.
    """
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    t, s = q.shape[1], k.shape[1]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.arange(s) <= np.arange(s - t, s)[:, None], scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v, (k, v)
