"""Tuning on instructions: a model that writes on learns to answer, and a model that answers learns what one wants.

The loss counts the tokens of answers alone, and only thin matrices beside those of the model learn (`models.lora`).
It is a job of its own, and not a task of fine-tuning: there are no labels, no head and no score.

settings        what can be told
examples        instructions as tokens, and which of them are targets
tuning          one update, one evaluation, and what is kept
preparation     options, model, examples, folder: all checks, before anything is written
job             from the first update to the last
"""

from minigpt.jobs.instruct.job import instruct
from minigpt.jobs.instruct.settings import InstructOptions

__all__ = ["InstructOptions", "instruct"]
