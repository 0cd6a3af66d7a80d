"""The explorer: one page, which computes a small GPT-1 and GPT-2 forward and backward in the browser."""

from minigpt.explorer.job import ExploreOptions, explore

__all__ = ["ExploreOptions", "explore"]
