"""SpanBERT (Joshi et al. 2020): RoBERTa, but spans of neighbouring tokens are covered, and their edges must know them.

The boundary objective (section 3.2) predicts each token of a span from the two tokens beside it and from its place in
the span: no state inside the span is used.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minigpt.data.objectives import Objective, spans
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError
from minigpt.models.family import published
from minigpt.models.family.bert import LAYOUT, SIZES, BERTConfig
from minigpt.models.family.encoder import MASK, Encoder, between_ends, encoder_card
from minigpt.models.family.forms import Layout
from minigpt.models.family.heads import PLACES, BoundaryHead
from minigpt.models.token_ids import as_array, check_range
from minigpt.nn import Cache
from minigpt.ops.random_keys import Key
from minigpt.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class SpanBERTConfig(BERTConfig):
    """Sizes and rates; the defaults are those of BERT-base, as SpanBERT-base has them, with one segment."""

    architecture: ClassVar[str] = "BertForMaskedLM"
    layout: ClassVar[Layout | None] = LAYOUT._replace(forms={"ForMaskedLM": LAYOUT.forms["ForMaskedLM"]})

    model_type: str = "spanbert"
    n_segments: int = 1


class SpanBERT(Encoder):
    """The encoder of SpanBERT with both heads of its pre-training. seed: as for GPT1."""

    Config = SpanBERTConfig

    def __init__(self, config: SpanBERTConfig, seed: int | None = 0, dtype=np.float32):
        super().__init__(config, seed, dtype)
        rng = None if seed is None else np.random.default_rng([seed, 1])
        self.boundary = BoundaryHead(config, rng, dtype)

    def loss(
        self, ids: Array, targets: Array, normalizer: float | None = None, weights: Array | None = None,
        key: Key | None = None, grad: bool = True, *,
        span_edges: Array | None = None, span_places: Array | None = None, **inputs,
    ) -> tuple[Array, Cache]:
        """As `Encoder.loss`; with span_edges (B,T,2) and span_places (B,T) plus the boundary objective (equation 1).

        Both predict the same targets with the same token table and bias. Raises InputError for edges outside the text
        and for places outside a span.
        """
        h, cache = self.hidden(ids, None, key, grad, **inputs)
        loss = self.word_loss(h, targets, weights, normalizer, cache)
        if span_edges is None:
            return loss, cache
        edges, places = self._placed_spans(span_edges, span_places, h.shape)
        y = cache.keep("boundary", self.boundary.forward(h, edges, places))
        loss = loss + self.head_loss(y, targets, weights, normalizer, cache, "boundary_loss")
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        cache = self.own(cache)
        dh = self.word_loss_backward(dloss, cache)
        if "boundary" in cache:
            dy = self.head_loss_backward(dloss, cache, "boundary_loss")
            dh = dh + self.boundary.backward(dy, cache.pop("boundary"))
        self.hidden_backward(dh, cache)

    def trial_inputs(self, ids: Array) -> dict[str, Array]:
        """Each token is a span of its own, between its neighbours."""
        xp = array_module(ids)
        place = xp.broadcast_to(xp.arange(ids.shape[1]), ids.shape)
        edges = xp.stack([xp.maximum(place - 1, 0), xp.minimum(place + 1, ids.shape[1] - 1)], axis=-1)
        return {"span_edges": edges, "span_places": xp.zeros_like(place)}

    def _placed_spans(self, edges: Array, places: Array | None, shape: tuple[int, ...]) -> tuple[Array, Array]:
        b, t, _ = shape
        edges = as_array(edges, "span_edges are")
        places = as_array(places, "span_places are")
        if edges.shape != (b, t, 2) or places.shape != (b, t):
            given = f"span_edges have shape {edges.shape} and span_places {places.shape}"
            raise InputError(f"{given}: give {(b, t, 2)} and {(b, t)}, one pair and one place for each id")
        check_range(edges, t, f"edge {{}} is out of range: the text has {t} tokens")
        check_range(places, PLACES, f"place {{}} is out of range: a span has at most {PLACES} tokens")
        return to_device(edges, self.device), to_device(places, self.device)

    def body_names(self) -> published.Names:
        """Those of BERT's body; the boundary's own have no name in transformers."""
        names = {name: [name] for name, _ in self.boundary.named_parameters("boundary.")}
        return super().body_names() | names


def covered_spans(text: Tokenizer, rate: float) -> Objective:
    """The objective of SpanBERT for this vocabulary: tell the tokens of covered spans, inside and from their edges."""
    return between_ends(text, lambda ends: spans(text.ids[MASK], text.vocab_size, rate, ends))


CARD = encoder_card(
    "spanbert", SpanBERT, SIZES,
    objective=covered_spans,
    loss_in_nats=False,
    differs="these are the sizes of BERT-base and BERT's uncased vocabulary, with the boundary objective beside: no "
    "count of parameters was published",
)
