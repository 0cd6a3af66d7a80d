"""Wrong GPT-1s: the operations are right, what is done with them is not."""

import numpy as np

from minigpt import ops
from minigpt.models.gpt1 import GPT1, Block
from minigpt.nn import accumulate


class WithBlock(GPT1):
    """A GPT-1 made of another class of blocks."""

    block = Block

    def __init__(self, config, seed=0, dtype=np.float32):
        super().__init__(config, seed, dtype)
        for block in self.h:
            block.__class__ = self.block


class FirstResidualForgotten(WithBlock):
    """The gradient goes through the attention, and not past it."""

    expects = "residual"

    class block(Block):
        def backward(self, dout, cache):
            dn = self.ln_2.backward(dout, cache.pop("ln_2"))
            dn = dn + self.mlp.backward(dn, cache.pop("mlp"))
            dx = self.ln_1.backward(dn, cache.pop("ln_1"))
            return self.attn.backward(dx, cache.pop("attn"))


class SecondResidualForgotten(WithBlock):
    """The gradient goes through the MLP, and not past it."""

    expects = "residual"

    class block(Block):
        def backward(self, dout, cache):
            dn = self.ln_2.backward(dout, cache.pop("ln_2"))
            dn = self.mlp.backward(dn, cache.pop("mlp"))
            dx = self.ln_1.backward(dn, cache.pop("ln_1"))
            return dx + self.attn.backward(dx, cache.pop("attn"))


class SecondResidualFromX(WithBlock):
    """The gradient of the second residual goes to x, as in a block that normalises first; it belongs to n."""

    expects = "residual"

    class block(Block):
        def backward(self, dout, cache):
            dn = self.ln_2.backward(dout, cache.pop("ln_2"))
            dx = self.ln_1.backward(self.mlp.backward(dn, cache.pop("mlp")), cache.pop("ln_1"))
            return dn + dx + self.attn.backward(dx, cache.pop("attn"))


class ResidualCountedTwice(WithBlock):
    """The gradient goes past the attention twice."""

    expects = "once too often"

    class block(Block):
        def backward(self, dout, cache):
            dn = self.ln_2.backward(dout, cache.pop("ln_2"))
            dn = dn + self.mlp.backward(dn, cache.pop("mlp"))
            dx = self.ln_1.backward(dn, cache.pop("ln_1"))
            return dx + dx + self.attn.backward(dx, cache.pop("attn"))


class UntiedHead(GPT1):
    """The output head does not add to the token embedding, which is the same matrix."""

    expects = "output head"

    def loss_backward(self, cache, dloss=1.0):
        dh, _, _ = ops.linear_cross_entropy_backward(dloss, cache.pop("head"))
        self.hidden_backward(dh, cache)


class LookupForgotten(GPT1):
    """Only the output head adds to the token embedding."""

    expects = "lookup"

    def hidden_backward(self, dh, cache):
        for i, block in reversed(list(enumerate(self.h))):
            dh = block.backward(dh, cache.pop(f"h.{i}"))
        dh = ops.dropout_backward(dh, cache.pop("dropout"))
        self.positions_embed.backward(dh, cache.pop("positions"))


class AssignsInsteadOfAdding(GPT1):
    """`=` for `+=`: the second gradient of the token embedding overwrites the first."""

    expects = "must be counted once"

    def hidden_backward(self, dh, cache):
        self.tokens_embed.weight.grad = None
        super().hidden_backward(dh, cache)


class ForgetsEarlierPasses(GPT1):
    """Gradients are cleared in the backward pass: those of an earlier part of the batch are lost."""

    expects = "`=` for `+=`"

    def loss_backward(self, cache, dloss=1.0):
        self.zero_grad()
        super().loss_backward(cache, dloss)


class PositionsAveraged(GPT1):
    """The positions get the mean over the batch, not the sum."""

    expects = "mean over 2"

    def hidden_backward(self, dh, cache):
        for i, block in reversed(list(enumerate(self.h))):
            dh = block.backward(dh, cache.pop(f"h.{i}"))
        dh = ops.dropout_backward(dh, cache.pop("dropout"))
        self.positions_embed.backward(dh / len(dh), cache.pop("positions"))
        self.tokens_embed.backward(dh, cache.pop("tokens"))


class PositionsOfTheLastRow(GPT1):
    """The positions get the gradient of the last row of the batch only."""

    expects = "positions_embed.weight"

    def hidden_backward(self, dh, cache):
        for i, block in reversed(list(enumerate(self.h))):
            dh = block.backward(dh, cache.pop(f"h.{i}"))
        dh = ops.dropout_backward(dh, cache.pop("dropout"))
        is_last = np.arange(len(dh)) == len(dh) - 1
        self.positions_embed.backward(dh * is_last[:, None, None], cache.pop("positions"))
        self.tokens_embed.backward(dh, cache.pop("tokens"))


class HeadTwice(GPT1):
    """The head adds its gradient twice."""

    expects = "must be counted once"

    def loss_backward(self, cache, dloss=1.0):
        dh, dw, _ = ops.linear_cross_entropy_backward(dloss, cache.pop("head"))
        accumulate(self.head, dw * 2)
        self.hidden_backward(dh, cache)


class EmbeddingDropoutForgotten(GPT1):
    """The backward pass walks past the dropout of the embeddings."""

    expects = "dropout"

    def hidden_backward(self, dh, cache):
        for i, block in reversed(list(enumerate(self.h))):
            dh = block.backward(dh, cache.pop(f"h.{i}"))
        self.positions_embed.backward(dh, cache.pop("positions"))
        self.tokens_embed.backward(dh, cache.pop("tokens"))
