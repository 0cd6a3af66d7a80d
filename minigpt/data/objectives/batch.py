"""What an objective gives: a batch of inputs, and what a model must predict about them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from minigpt import ops


class Batch(NamedTuple):
    """What a model sees, and what it must predict. Every field but the first two may be None.

    ids (B,T) int64: what the model sees.
    targets (B,T) int64: the right token at each place; -100 (`ops.IGNORED`) where nothing is predicted.
    mask, boolean, of a shape that broadcasts to (B,1,T,T): may the query (row) see the key (column)? None: causal.
    segments (B,T) int64: which part of its input each token belongs to, 0 or 1. None: the model has no segments.
    positions (B,T) or (T,) int64: where each token stands. None: 0 to T-1.
    sentence_labels (B,) int64: what is to be told of a pair of segments, 0 or 1 (BERT: does the second one continue the
    first, 0, or not, 1? ALBERT: do they stand in their sequence, 0, or exchanged, 1?).
    span_edges (B,T,2) int64: for each covered token the places of the two tokens beside its span (SpanBERT).
    span_places (B,T) int64: for each covered token its place in its span, from 0 (SpanBERT).
    previous (B,T) int64: the token before each place, where a second direction predicts it (ELMo); -100 as in targets.
    query_mask, boolean, as mask: what a query that does not know its own token may see (XLNet).
    source (B,S) int64: a text that ids depend on, such as the one to translate (an encoder-decoder's first input).
    source_mask (B,S) boolean: False where the source is padding. None: it is all text.

    share: which part of a whole batch these rows are, at most 1, for losses that are means over rows or all tokens.
    """

    ids: np.ndarray
    targets: np.ndarray
    mask: np.ndarray | None = None
    segments: np.ndarray | None = None
    positions: np.ndarray | None = None
    sentence_labels: np.ndarray | None = None
    span_edges: np.ndarray | None = None
    span_places: np.ndarray | None = None
    previous: np.ndarray | None = None
    query_mask: np.ndarray | None = None
    source: np.ndarray | None = None
    source_mask: np.ndarray | None = None
    share: float | None = None

    @property
    def n_targets(self) -> int:
        """How many tokens are predicted."""
        return int((self.targets != ops.IGNORED).sum())

    @property
    def inputs(self) -> dict[str, np.ndarray | float]:
        """What a model is given beside ids and targets, by name: of the other fields those that are not None."""
        others = {name: getattr(self, name) for name in self._fields[2:]}
        return {name: value for name, value in others.items() if value is not None}

    def rows(self, part: slice) -> "Batch":
        """Some rows of the batch. A mask or positions that all rows share stay whole."""
        n_rows = len(self.ids)
        values = {}
        for name, value in self._asdict().items():
            is_array = value is not None and name != "share"
            if is_array and len(value) == n_rows:
                values[name] = value[part]
        if self.share is not None:
            values["share"] = self.share * len(values["ids"]) / n_rows
        return self._replace(**values)


Objective = Callable[[np.ndarray, np.random.Generator], Batch]


def causal(ids: np.ndarray, rng: np.random.Generator) -> Batch:
    """ids (B,T+1) -> each token predicts the next one (GPT-1 section 3.1). Uses no chance."""
    ids = ids.astype(np.int64)
    return Batch(ids[:, :-1], ids[:, 1:])
