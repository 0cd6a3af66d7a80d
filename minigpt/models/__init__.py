"""Language models, what generates text with them, and what they cost."""

from minigpt.models.registry import (
    CARDS,
    aim_names,
    card,
    card_in,
    common_sizes,
    names,
    open_both,
    open_model,
    size,
    size_names,
)

__all__ = [
    "CARDS", "aim_names", "card", "card_in", "common_sizes", "names", "open_both", "open_model", "size", "size_names",
]  # fmt: skip
