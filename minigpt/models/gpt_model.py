"""What stands on the body of GPT-1 and GPT-2 in files: an output of its own, and a head for the labels of a task."""

import dataclasses
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError
from minigpt.models.config_file import labels_of
from minigpt.models.gpt_config import GPTConfig
from minigpt.models.language_model import LanguageModel
from minigpt.models.token_ids import check_ids, last_state, text_places
from minigpt.nn import Embedding

SCORE = "score.weight"
LEFT_OUT = ("classifier.", "qa_outputs.", "multiple_choice_head.")  # heads in files of transformers with no use here


class GPTModel(LanguageModel):
    """A decoder with heads as files have them. score: a table (K,C), a row for each label; None: it has no labels."""

    score: Embedding | None = None

    def build_heads(self, rng: np.random.Generator | None, dtype) -> None:
        """A table (V,C) for the output where it is not the token embedding, and one (K,C) for labels, if there are any.

        Files with a head for labels have no table for the output, whatever their configuration says.
        """
        config = self.config
        c, std = config.n_embd, config.initializer_range
        if config.labels:
            self.score = Embedding(len(config.labels), c, rng, std, dtype)
        elif not config.tie_word_embeddings:
            self.lm_head = Embedding(config.vocab_size, c, rng, std, dtype)

    @property
    def labels(self) -> tuple[str, ...]:
        """Those that its head tells; () where it has no such head."""
        return self.config.labels

    def label_scores(self, ids: Array, mask: Array | None = None) -> Array:
        """ids (B,T) int -> scores (B,K) of the labels of its file, from the last token of each text

        mask: (B,T), False at padding, which no token sees. Without it the token `config.pad_token_id` is padding; where
        there is none, each row is a whole text. Raises InputError for a model that has no labels, and for a mask of
        another shape.
        """
        if self.score is None:
            architecture = self.config.label_architecture
            raise InputError(f"this {type(self).__name__} has no labels: take a file of a {architecture}")
        ids = to_device(check_ids(ids), self.device)
        is_text = text_places(ids, mask, self.config.pad_token_id)
        pairs = None
        if mask is not None:
            t = ids.shape[1]
            pairs = ops.causal_mask(t, t, array_module(ids)) & is_text[:, None, None, :]
        h, _ = self.hidden(ids, grad=False, mask=pairs)
        scores, _ = ops.linear_forward(last_state(h, is_text), self.score.weight.value.T)
        return scores

    # -------------------------------------------------------------------------------------------------------- files

    @classmethod
    def fitted(cls, config: GPTConfig, names: Iterable[str], values: dict) -> GPTConfig:
        """With the labels of a file that has a head for them, whatever class it names."""
        if SCORE not in names or config.labels:
            return config
        return dataclasses.replace(config, **labels_of(values))

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """Tensors under the names of the parameters here. Warns of a head that nothing here uses, and leaves it out."""
        heads = sorted(name for name in tensors if name.startswith(LEFT_OUT))
        if heads:
            which = "left out, and not saved, is a head that nothing here uses"
            warnings.warn(f"{folder}: {which}: {', '.join(heads)}", stacklevel=2)
        return super().from_published({name: t for name, t in tensors.items() if name not in heads}, folder)
