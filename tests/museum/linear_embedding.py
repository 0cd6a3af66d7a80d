"""Wrong linear layers and embeddings."""

import numpy as np

from minigpt.ops import reference


class Linear:
    linear_forward = staticmethod(reference.linear_forward)


class TransposedWeightGradient(Linear):
    """dw = dout^T x instead of x^T dout."""

    expects = "transposed"

    @staticmethod
    def linear_backward(dout, cache):
        dx, dw, db = reference.linear_backward(dout, cache)
        return dx, dw.T, db


class MeanOfTheBias(Linear):
    """db is the mean over the rows; it must be their sum."""

    expects = "mean over"

    @staticmethod
    def linear_backward(dout, cache):
        dx, dw, _ = reference.linear_backward(dout, cache)
        return dx, dw, dout.reshape(-1, dout.shape[-1]).mean(axis=0)


class BiasSummedOverTheOutputs(Linear):
    """db sums over the wrong axis: the outputs instead of the rows."""

    expects = "dout summed over axes"

    @staticmethod
    def linear_backward(dout, cache):
        dx, dw, _ = reference.linear_backward(dout, cache)
        return dx, dw, dout.sum(axis=-1)


class BiasSummedOverTheBatchOnly(Linear):
    """db sums over the first axis only, as if x had two axes."""

    expects = "not summed over axes"

    @staticmethod
    def linear_backward(dout, cache):
        dx, dw, _ = reference.linear_backward(dout, cache)
        return dx, dw, dout.sum(axis=0)


class GradientsInAnotherOrder(Linear):
    """dw, dx, db: the order must be that of the inputs."""

    expects = "swapped"

    @staticmethod
    def linear_backward(dout, cache):
        dx, dw, db = reference.linear_backward(dout, cache)
        return dw, dx, db


class BiasForgotten(Linear):
    """Two gradients for three inputs."""

    expects = "2 gradients"

    @staticmethod
    def linear_backward(dout, cache):
        return reference.linear_backward(dout, cache)[:2]


class BiasNotAdded:
    """The forward pass leaves the bias out."""

    expects = "missing is exactly b"

    @staticmethod
    def linear_forward(x, w, b=None):
        return reference.linear_forward(x, w)[0], reference.linear_forward(x, w, b)[1]

    linear_backward = staticmethod(reference.linear_backward)


class Embedding:
    embedding_forward = staticmethod(reference.embedding_forward)


class AssignsRows(Embedding):
    """dw[ids] = dout keeps the last of repeated ids."""

    expects = "repeated"

    @staticmethod
    def embedding_backward(dout, cache):
        dw = np.zeros_like(cache.w)
        dw[cache.ids] = dout
        return dw


class AddsRowsOnce(Embedding):
    """dw[ids] += dout looks like adding, and keeps the last of repeated ids."""

    expects = "repeated"

    @staticmethod
    def embedding_backward(dout, cache):
        dw = np.zeros_like(cache.w)
        dw[cache.ids] += dout
        return dw


class MeanOfRepeatedRows(Embedding):
    """The rows of a token that occurs twice are averaged; they must be added."""

    expects = "divided by how often they occur"

    @staticmethod
    def embedding_backward(dout, cache):
        count = np.bincount(cache.ids.reshape(-1), minlength=len(cache.w))
        return reference.embedding_backward(dout, cache) / np.maximum(count, 1)[:, None].astype(dout.dtype)


class GradientOfTheRowsOnly(Embedding):
    """Gives back the gradient of the rows that were looked up, not of the table."""

    expects = "dout itself"

    @staticmethod
    def embedding_backward(dout, cache):
        return dout
