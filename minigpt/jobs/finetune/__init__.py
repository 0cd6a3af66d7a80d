"""Fine-tuning: from a pre-trained model and labelled examples to a classifier (GPT-1 sections 3.2 and 4.1).

Three epochs, a rate that rises over 0.2 % of the updates and falls in a straight line, the auxiliary loss of the
language model with weight 0.5, the epoch that was best on validation: GPT-1's recipe, with GPT-1's optimiser.

settings        what can be told
examples        the labelled examples of each split, as sequences of tokens
tuning          one update, one evaluation, and the epochs of one seed
kept            the file from which a run goes on
preparation     options, model, examples, folder: all checks, before anything is written
announcement    what a run will cost, what to expect, and what came out
job             from the first seed to the last
"""

from minigpt.data.examples import Example
from minigpt.jobs.epochs import batches
from minigpt.jobs.finetune.examples import Data, encode, load
from minigpt.jobs.finetune.job import Outcome, finetune, open_classifier
from minigpt.jobs.finetune.kept import CURVES, PICTURE, RESULTS
from minigpt.jobs.finetune.settings import FinetuneOptions, parse_columns
from minigpt.jobs.finetune.tuning import Judged, Tuning, answer, evaluate, tune

__all__ = [
    "CURVES", "PICTURE", "RESULTS", "Data", "Example", "FinetuneOptions", "Judged", "Outcome", "Tuning", "answer",
    "batches", "encode", "evaluate", "finetune", "load", "open_classifier", "parse_columns", "tune",
]  # fmt: skip
