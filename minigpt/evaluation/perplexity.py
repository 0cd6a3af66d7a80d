"""How well a model predicts a long text (GPT-2 section 3.1)."""

import math
from pathlib import Path

import numpy as np

from minigpt.errors import InputError
from minigpt.evaluation.detokenizers import SOURCES, detokenized
from minigpt.evaluation.metrics import mean_interval
from minigpt.evaluation.report import Measure, Report, perplexity_measure
from minigpt.evaluation.scoring import Scored, log_probabilities, opening
from minigpt.files.text_lines import beginning
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer


def read_as_it_came(path: str | Path, limit: int | None = None) -> str:
    """The text of a file with nothing changed, so that its bytes can be counted. Raises InputError as `read_text`.

    limit: only so many characters of it, which are all that is read.
    """
    return beginning(Path(path), -1 if limit is None else limit, as_it_came=True)


def perplexity(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    *,
    context: int | None = None,
    stride: int | None = None,
    detokenize: str = "none",
) -> Report:
    """How well a text is predicted per token, and per word, line end, byte and character of the text as given.

    A window of `context` tokens (by default all of the model's positions) moves on by `stride` tokens (by default the
    context). A token is scored in the first window that holds it: after context - stride tokens or more, once there
    are so many. The unit is changed before the exponential: exp(NLL / words). Intervals: normal, of the mean NLL, over
    windows. detokenize: one of DETOKENIZERS.

    The model reads the text without the byte order mark that Windows puts first, and with \\n where lines end in
    \\r\\n; bytes and characters are counted in the text as given, with both.

    Raises InputError for a context or a stride that is out of range, and for a text of fewer than two tokens.
    """
    if context is None:
        context = model.config.n_positions
    if stride is None:
        stride = context
    _check_windows(context, stride, model.config.n_positions)
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    tokens = tokenizer.encode(detokenized(plain, detokenize))
    if len(tokens) < 2:
        plural = "s" if len(tokens) != 1 else ""
        raise InputError(f"the text has {len(tokens)} token{plural}: give two or more")
    ids = np.array(opening(tokenizer) + tokens)
    scored = _score_windows(model, ids, context, stride)
    measures = _measures(scored, text)
    source = f" ({SOURCES[detokenize]})" if detokenize in SOURCES else ""
    notes = [f"context {context}, stride {stride}: {len(scored):,} windows; de-tokeniser: {detokenize}{source}"]
    unknown = tokenizer.count_unknown(tokens)
    if unknown:
        notes.append(f"{unknown:,} of {len(tokens):,} tokens are unknown: the text they stand for was not predicted")
    return Report(measures, notes)


def _check_windows(context: int, stride: int, positions: int) -> None:
    """Raises InputError for a context that the model has no positions for, and for a stride that leaves tokens out."""
    if not 1 <= context <= positions:
        raise InputError(f"--context {context}: this model has {positions} positions: choose 1 to {positions}")
    if not 1 <= stride <= context:
        raise InputError(f"--stride {stride}: choose 1 to {context}, the context, or tokens would be left out")


def _score_windows(model: LanguageModel, ids: np.ndarray, context: int, stride: int) -> list[Scored]:
    """Windows of context + 1 ids, of which the last are scored: all of them in the first window, then `stride`."""
    rows = []
    starts = []
    end = max(1, len(ids) - 1 - context + stride)
    for begin in range(0, end, stride):
        rows.append(ids[begin : begin + context + 1])
        starts.append(1 if begin == 0 else context - stride + 1)
    return log_probabilities(model, rows, starts)


def _measures(scored: list[Scored], text: str) -> list[Measure]:
    """The loss of all tokens, divided by the number of each unit of the text."""
    losses = [-one.total for one in scored]
    counts = [len(one.log_p) for one in scored]
    n_tokens = sum(counts)
    nats = n_tokens * np.array(mean_interval(losses, counts))  # of the whole text: value, low, high
    n_words = len(text.removeprefix("\ufeff").split())
    n_lines = text.count("\n")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    measures = []
    for unit, n in (("token", n_tokens), ("word", n_words), ("word and line end", n_words + n_lines)):
        if n > 0:
            measures.append(perplexity_measure(f"perplexity per {unit}", nats / n, n, unit))
    for unit, n in (("byte", n_bytes), ("character", len(text))):
        value, low, high = (nats / n / math.log(2)).tolist()
        measures.append(Measure(f"bits per {unit}", value, low, high, n, unit))
    return measures
