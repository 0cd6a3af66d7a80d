"""What all relatives do with files of Hugging Face transformers: the reader and writer of a `Layout`."""

import dataclasses
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.models.family import forms, published
from minigpt.models.family.forms import Form, Layout
from minigpt.models.family.heads import StateHead
from minigpt.models.family.published import PublishedConfig
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Embedding, Linear, Module


class PublishedModel(LanguageModel):
    """A language model in files of transformers. Its configuration has a `layout`, or it says `published_names`.

    words: what tells words, or None. sentences: what reads one state of a text, or None. places: a layer with scores at
    each place, or None. Which of them there are, the `form` of the configuration says.
    """

    words: Module | None = None
    sentences: StateHead | None = None
    places: Linear | None = None
    qkv_widths: tuple[int, int, int] | None = None  # of queries, keys and values, where they are not the same

    def build_heads(self, seed: int | None, rng: np.random.Generator | None, dtype) -> None:
        """What stands on the body, but for what tells words; and a table of its own for the output."""
        config = self.config
        form = config.heads
        own = None if seed is None else np.random.default_rng([seed, 1])
        std = config.initializer_range
        if form.dense or form.scores:
            self.sentences = StateHead(config, form, own, dtype)
        if form.places:
            self.places = Linear(config.n_embd, config.n_scores, own, std, dtype)
        if "words.bias" in (form.words or {}) and not config.tie_word_embeddings:
            self.lm_head = Embedding(config.vocab_size, config.table_width, rng, std, dtype)

    @property
    def labels(self) -> tuple[str, ...]:
        """Those that its head tells, by their names where its file has them; () where it has no such head."""
        return self._names_of_scores(self.layout is not None and self.config.heads.has_labels)

    @property
    def token_labels(self) -> tuple[str, ...]:
        """The same of a head that gives each token a label."""
        return self._names_of_scores(self.layout is not None and self.config.heads.has_token_labels)

    def _names_of_scores(self, has_them: bool) -> tuple[str, ...]:
        return (self.config.labels or tuple(f"LABEL_{i}" for i in range(self.config.n_scores))) if has_them else ()

    @property
    def opened_as(self) -> str:
        """How a message begins that says what its file has not."""
        return f"this {type(self).__name__} was opened as {self.config.saved_as}"

    def need(self, head: str) -> Any:
        """This head, "words" or "sentences". Raises InputError where the file that was opened has none."""
        module = getattr(self, head)
        if module is None:
            told = {"words": "tells no words", "sentences": "has no scores of a text"}[head]
            raise InputError(f"{self.opened_as}, which {told}: take its hidden states, or a file with that head")
        return module

    def check_labels(self) -> None:
        """Raises InputError for a model that has no labels."""
        if not self.labels:
            raise InputError(f"{self.opened_as}, which has no labels: take a file of a …ForSequenceClassification")

    def state_of_text(self, h: Array, ids: Array, mask: Array | None) -> Array:
        """h (B,T,C), ids (B,T) -> (B,C), the state that has seen a whole text: the first one (BERT section 3.2)"""
        return h[:, 0]

    def pooled(self, ids: Array, mask: Array | None = None, **inputs) -> Array:
        """ids (B,T) int -> (B,C): the state of each text, through the layer that its file has for it, with tanh in BERT

        Raises InputError for a model that has none.
        """
        h, _ = self.hidden(ids, grad=False, mask=mask, **inputs)
        head = self.need("sentences")
        return head.pooled(self.state_of_text(h, ids, mask))[0]

    def label_scores(self, ids: Array, mask: Array | None = None, **inputs) -> Array:
        """ids (B,T) int -> scores (B,K) of the labels of its file, `config.labels`

        mask: (B,T), False at padding. Raises InputError for a model that has no labels.
        """
        self.check_labels()
        h, _ = self.hidden(ids, grad=False, mask=mask, **inputs)
        return self.sentences.forward(self.state_of_text(h, ids, mask))[0]

    def token_scores(self, ids: Array, mask: Array | None = None, **inputs) -> Array:
        """ids (B,T) int -> scores (B,T,K) of the labels at each token, `token_labels`; mask: as for `label_scores`

        Raises InputError for a model that has no such labels.
        """
        if not self.token_labels:
            raise InputError(f"{self.opened_as}, which has no labels of tokens: take a …ForTokenClassification")
        h, _ = self.hidden(ids, grad=False, mask=mask, **inputs)
        return self.places.forward(h)[0]

    # -------------------------------------------------------------------------------------------------------- files

    @classmethod
    def fitted(cls, config: PublishedConfig, names: Iterable[str], values: dict) -> PublishedConfig:
        """With the heads that a file has, given the names of its tensors, and its config.json.

        Raises InputError as `check_scores` does.
        """
        layout = getattr(config, "layout", None)
        if layout is None:
            return config
        form = forms.named(layout, values.get("architectures"))
        form = forms.found(layout, form, config.usual_form, names)
        config = dataclasses.replace(config, form=config.shortened(form))
        config.check_scores(values)
        return config

    @property
    def layout(self) -> Layout | None:
        """How it stands in files; None for a model that says so by itself."""
        return getattr(self.config, "layout", None)

    def published_names(self) -> published.Names | None:
        """{name here: its names in a file of Hugging Face transformers}; None for a model that it does not have."""
        if self.layout is None:
            return None
        return self.body_names() | self.head_names(self.config.heads)

    def body_names(self) -> published.Names:
        """The names of the tables, of their LayerNorm, and of the blocks."""
        body = forms.inside(self.layout.body, {**self.layout.modules, **self.layout.block})
        return forms.names_of(body, self._parameter_names(), self.config.n_layer)

    def head_names(self, form: Form) -> published.Names:
        """The names of the heads."""
        modules = (form.words or {}) | form.of_places
        if self.lm_head is not None:  # which has its own bias there, and the tied one beside it, unused
            modules |= {"lm_head": self.layout.head, "words.bias": f"{self.layout.head}.bias"}
        return forms.names_of(modules, self._parameter_names())

    @property
    def _tied_bias(self) -> str | None:
        """The name of a bias that a file with a head of its own has beside that of the head; None where it has none."""
        if self.lm_head is None:
            return None
        bias = self.config.heads.words.get("words.bias")
        return None if bias == f"{self.layout.head}.bias" else bias

    def _parameter_names(self) -> set[str]:
        return {name for name, _ in self.named_parameters()}

    def to_published(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Tensors under the names that transformers has for them, which for a body alone are without its name."""
        names = self.published_names()
        if names is None:
            return tensors
        found = published.to_published(tensors, names, self.qkv_widths)
        if self.layout is not None and self._tied_bias:
            found[self._tied_bias] = tensors["words.bias"].copy()
        if self.layout is None or not self.config.is_body:
            return found
        return {name.removeprefix(f"{self.layout.body}."): tensor for name, tensor in found.items()}

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """The other way round. Warns of a head that nothing here uses.

        Raises InputError for a tensor that is missing, and for one that has no name here and is no copy.
        """
        names = self.published_names()
        if names is None:
            return tensors
        if self.layout is not None:
            tensors = self.under_whole_names(tensors)
            if self._tied_bias is not None:
                tensors.pop(self._tied_bias, None)
            self._tell_unused(folder)
        return published.from_published(tensors, names, folder)

    def under_whole_names(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The tensors with the name of the body before those of a file of a body alone, and names as they are today."""
        tensors = {forms.plain_name(name): tensor for name, tensor in tensors.items()}
        body = f"{self.layout.body}."
        table = f"{self.layout.modules['tokens_embed']}.weight"
        if table not in tensors or body + table in tensors:
            return tensors
        outside = tuple(part for part in self.config.heads.parts if not part.startswith(body))
        return {name if name.startswith((body, *outside)) else body + name: t for name, t in tensors.items()}

    def _tell_unused(self, folder: Path) -> None:
        form = self.config.heads
        if form.n is not None and (form.places or (form.scores and form.n == 1)):
            head = form.places or form.scores
            kind = f"{folder} is a {self.config.saved_as}"
            warnings.warn(f"{kind}: its head, {head}, is kept and saved, and nothing here uses it", stacklevel=2)
