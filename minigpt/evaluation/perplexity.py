"""How well a model predicts a long text (GPT-2 §3.1)."""

import math

import numpy as np

from minigpt.errors import InputError
from minigpt.evaluation.detokenizers import detokenized
from minigpt.evaluation.metrics import mean_interval
from minigpt.evaluation.report import Measure, Report, exponentials
from minigpt.evaluation.scoring import log_probabilities, opening
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer


def perplexity(
    model: LanguageModel, tokenizer: Tokenizer, text: str, *, context: int | None = None, stride: int | None = None,
    detokenize: str = "none",
) -> Report:
    """How well a text is predicted, per token, and per word, line end, byte and character of the text as it came.

    A window of `context` tokens (all the model's positions) moves on by `stride` (the context), and each token is
    scored in the first window that has it: after context - stride tokens at least, once there are so many. The unit is
    changed before the exponential: exp(NLL / words). Intervals: normal, of the mean NLL, over windows.
    """
    positions = model.config.n_positions
    context = positions if context is None else context
    if not 1 <= context <= positions:
        raise InputError(f"--context {context}: this model has {positions} positions: choose 1 to {positions}")
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise InputError(f"--stride {stride}: choose 1 to {context}, the context, or tokens would be left out")
    tokens = tokenizer.encode(detokenized(text, detokenize))
    if len(tokens) < 2:
        raise InputError(f"the text has {len(tokens)} token{'s' * (len(tokens) != 1)}: give two or more")
    ids = np.array(opening(tokenizer) + tokens)
    begins = range(0, max(1, len(ids) - 1 - context + stride), stride)
    starts = [1 if begin == 0 else context - stride + 1 for begin in begins]
    scored = log_probabilities(model, [ids[begin : begin + context + 1] for begin in begins], starts)
    counts = [len(one.log_p) for one in scored]
    nats = np.array(mean_interval([-one.total for one in scored], counts)) * sum(counts)
    words, n_bytes = len(text.split()), len(text.encode("utf-8", "surrogatepass"))
    units = {"token": sum(counts), "word": words, "word and line end": words + text.count("\n")}
    measures = [Measure(f"perplexity per {unit}", *exponentials(nats / n), n, unit) for unit, n in units.items() if n]
    for unit, n in (("byte", n_bytes), ("character", len(text))):
        measures.append(Measure(f"bits per {unit}", *(nats / n / math.log(2)).tolist(), n, unit))
    notes = [f"context {context}, stride {stride}: {len(begins):,} windows; de-tokeniser: {detokenize}"]
    if unknown := tokenizer.count_unknown(tokens):
        notes.append(f"{unknown:,} of {len(tokens):,} tokens are unknown: what they stand for was not predicted")
    return Report(measures, notes)
