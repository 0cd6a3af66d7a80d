"""Targets: what a model is to predict."""

IGNORED = -100  # a target that is not predicted
