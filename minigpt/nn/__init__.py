"""Modules own the parameters, and optimisers update them. What is computed stands in `minigpt.ops`."""

from minigpt.nn.attention import Attention, Past
from minigpt.nn.layers import MLP, Embedding, LayerNorm, Linear, PositionEmbedding
from minigpt.nn.module import Cache, Module, Parameter, Recomputed, accumulate, normal

__all__ = [
    "MLP", "Attention", "Cache", "Embedding", "LayerNorm", "Linear", "Module", "Parameter", "Past",
    "PositionEmbedding", "Recomputed", "accumulate", "normal",
]  # fmt: skip
