"""Language models, what generates text with them, and what they cost."""

from minigpt.models.registry import (
    MODELS,
    PUBLISHED,
    class_in,
    model_class,
    name_of,
    open_both,
    open_model,
    size,
)

__all__ = ["MODELS", "PUBLISHED", "class_in", "model_class", "name_of", "open_both", "open_model", "size"]
