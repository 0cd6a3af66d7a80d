import numpy as np


def loss(model, inputs, targets):
    """The mean loss in one window, as models give it.

    model (places,V,V): at each place of a window, the surprisal of a token (last axis) after another one.
    inputs, targets (n,) int. Without any target, or with more inputs than the model has places: nan.
    """
    if not 0 < len(inputs) <= len(model):
        return np.nan
    return model[np.arange(len(inputs)), inputs, targets].mean()


def evaluate(model, tokens, context):
    """The mean loss over tokens[1:], each predicted once, from windows that do not overlap. context: its places."""
    total = 0.0
    for start in range(0, len(tokens) - 1, context):
        window = tokens[start : start + context + 1]
        total += loss(model, window[:-1], window[1:]) * (len(window) - 1)
    return total / (len(tokens) - 1)
