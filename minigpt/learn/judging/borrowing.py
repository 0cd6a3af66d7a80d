"""Which operations a learner's file may borrow from the library: none from which what it is to write could be had."""

from collections.abc import Iterable

from minigpt import ops

GIVEN_AWAY_BY = {  # an operation: the others that give its numbers, for inputs that are chosen well
    "linear": ("mlp", "gated_mlp", "linear_cross_entropy", "lstm"),
    "embedding": ("linear",),  # a row of ones and zeros picks a row
    "softmax": (  # the probabilities are the output for v = 1, or a part of the gradient of the loss
        "attention", "self_attention", "cross_attention", "cross_entropy", "soft_cross_entropy", "linear_cross_entropy",
    ),
    "attention": ("self_attention", "cross_attention"),
    "gelu": ("mlp", "gated_mlp"),  # with weights of ones and zeros
    "gelu_exact": ("mlp", "gated_mlp"),
    "relu": ("mlp", "gated_mlp"),
    "silu": ("mlp", "gated_mlp"),
    "layernorm": ("rmsnorm",),  # of x - mean
    "rmsnorm": ("layernorm",),  # of x and -x side by side
    "rope": (),
    "dropout": ("attention", "self_attention", "cross_attention", "gated_mlp"),
    "cross_entropy": ("linear_cross_entropy", "soft_cross_entropy"),
    "soft_cross_entropy": ("cross_entropy", "linear_cross_entropy"),  # a mean over targets
    "self_attention": ("cross_attention",),
    "cross_attention": ("self_attention",),
    "linear_cross_entropy": (),
    "mlp": ("gated_mlp",),  # with a column of ones in x
    "gated_mlp": (),
    "lstm": (),
    "cosine_loss": (),
}  # fmt: skip


def lent_to(written: Iterable[str]) -> frozenset[str]:
    """The operations that a file may borrow which writes these itself: such as linear and gelu for an mlp."""
    kept = set(written)
    for op in written:
        kept.update(GIVEN_AWAY_BY[op])
    return frozenset(ops.names) - kept
