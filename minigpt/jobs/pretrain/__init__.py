"""Pre-training: from a text to a model directory (GPT-1 section 3.1).

settings        what can be told, and the defaults
recipe          the settings as published
memory          the bytes of an update, and whether they are there
preparation     the pipeline: options, data, tokenizer, model, memory, optimiser
agreement       whether a command fits the run that its folder holds
job             what a run works with
step            one update, one evaluation
announcement    what a run will cost
plateau         a run that learns token frequencies and no more
band            the losses of sound runs
comparison      a run beside them: normal, or from which step on it is not
causes          why it may have left them
training_loop   from the first update to the last
"""

from minigpt.jobs.pretrain.announcement import announce
from minigpt.jobs.pretrain.comparison import compare
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.pretrain.preparation import prepare, prepare_on, reopen
from minigpt.jobs.pretrain.settings import PretrainOptions, resolve
from minigpt.jobs.pretrain.step import batch_of, evaluate, rate, update, validation_batches
from minigpt.jobs.pretrain.training_loop import assess, loop, train

__all__ = [
    "Job", "PretrainOptions", "announce", "assess", "batch_of", "compare", "evaluate", "loop", "prepare", "prepare_on",
    "rate", "reopen", "resolve", "train", "update", "validation_batches",
]  # fmt: skip
