"""Gradient checks: every entry of every gradient against central differences, with a diagnosis."""

from minigpt.gradcheck.checker import EPS, ZERO, check, check_model, compare, numeric
from minigpt.gradcheck.results import HAPPY, SUSPICIOUS, Result, table, worst

__all__ = [
    "EPS", "HAPPY", "SUSPICIOUS", "ZERO", "Result", "check", "check_model", "compare", "numeric", "table", "worst",
]  # fmt: skip
