"""ELECTRA (Clark, Luong, Le and Manning 2020): a small generator fills in covered words, the model tells which are new.

So it learns from every token, not only from those that are covered (section 3). The generator's words are drawn, and no
gradient goes back through the drawing; the two share their tables.
"""

import warnings
from pathlib import Path

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError
from minigpt.models.family import published
from minigpt.models.family.electra_generator import DISCRIMINATOR, SIZES, ELECTRAConfig, Generator
from minigpt.models.family.encoder import Encoder, covered_words_and_all, encoder_card, real_tokens
from minigpt.models.family.heads import ReplacedHead, as_pairs
from minigpt.models.token_ids import as_array
from minigpt.nn import Cache, Module
from minigpt.nn.layers import inner_width
from minigpt.ops.random_keys import Key, fold, uniform

DISCRIMINATOR_WEIGHT = 50.0  # of its loss beside the generator's (appendix A)
IN_GENERATOR, IN_DRAWING = 1 << 20, 1 << 21  # places in the computation, beyond the layers, that a key is folded with

class ELECTRA(Encoder):
    """The discriminator of ELECTRA, which is the model, and its generator. seed: as for GPT1.

    `hidden` is the discriminator's; `forward` gives the generator's words, `replaced_scores` the model's own answer.
    """

    Config = ELECTRAConfig
    generator: Generator | None = None
    repeats_its_step = False  # which words are drawn differs

    def __init__(self, config: ELECTRAConfig, seed: int | None = 0, dtype=np.float32):
        super().__init__(config, seed, dtype)
        if config.heads.words is DISCRIMINATOR:
            self.generator = Generator(self, None if seed is None else seed + 1, dtype)

    def build_word_head(self, rng: np.random.Generator | None, dtype) -> Module:
        """No words: one score for each position. A published generator, which is a model of its own, tells words."""
        if self.config.heads.words is DISCRIMINATOR:
            return ReplacedHead(self.config, rng, dtype)
        return super().build_word_head(rng, dtype)

    def forward(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, **inputs
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> logits (B,T,V): the generator's scores of the word at each position"""
        if self.generator is None:
            return super().forward(ids, past, key, grad, **inputs)
        cache = Cache(self, grad)
        logits = cache.keep("generator", self.generator.forward(ids, past, key, grad, **inputs))
        return logits, cache

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """dlogits (B,T,V) -> nothing: the gradients arrive in the parameters"""
        if self.generator is None:
            super().backward(dlogits, cache)
        else:
            self.generator.backward(dlogits, self.own(cache).pop("generator"))

    def loss(
        self, ids: Array, targets: Array, normalizer: float | None = None, weights: Array | None = None,
        key: Key | None = None, grad: bool = True, *, share: float = 1.0, mask: Array | None = None, **inputs,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int with covered words, targets (B,T) int with the words that were covered, else -100 -> loss ()

        The generator's loss, as `Encoder.loss`, plus 50 times the mean over all tokens of the discriminator's, which
        is multiplied by share, the part of a whole batch that these rows are. key: also of the words that are drawn;
        without one they are the same each time. mask: padding (B,T) counts in no mean.
        """
        if self.generator is None:
            return super().loss(ids, targets, normalizer, weights, key, grad, mask=mask, **inputs)
        cache = Cache(self, grad)
        loss = cache.keep("generator", self.generator.loss(
            ids, targets, normalizer, weights, fold(key, IN_GENERATOR), grad, mask=mask, **inputs,
        ))  # fmt: skip
        seen, replaced = self.filled_in(ids, targets, key, mask=mask, **inputs)
        real = real_tokens(mask, seen)
        h = cache.keep("hidden", self.hidden(seen, None, key, grad, mask=mask, **inputs))
        scores = cache.keep("replaced", self.words.forward(h))
        pairs = as_pairs(scores)
        labels = array_module(seen).where(real, replaced, ops.IGNORED)
        n_tokens = float(real.sum()) / share
        told = ops.cross_entropy_forward(pairs, labels, normalizer=n_tokens)
        loss = loss + DISCRIMINATOR_WEIGHT * cache.keep("told", told)
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters of both networks."""
        if self.generator is None:
            super().loss_backward(cache, dloss)
            return
        cache = self.own(cache)
        dpairs = ops.cross_entropy_backward(DISCRIMINATOR_WEIGHT * dloss, cache.pop("told"))
        dscores = dpairs[..., 1]  # the other one of a pair is the constant 0
        dh = self.words.backward(dscores, cache.pop("replaced"))
        self.hidden_backward(dh, cache.pop("hidden"))
        self.generator.loss_backward(cache.pop("generator"), dloss)

    def filled_in(
        self, ids: Array, targets: Array, key: Key | None = None, **inputs
    ) -> tuple[Array, Array]:
        """ids, targets (B,T) int, as in `loss` -> ids (B,T) with the generator's words, and which differ (B,T) 0 or 1

        A drawn word that happens to be the text's own counts as the text's own.
        """
        logits, _ = self.generator.forward(ids, grad=False, **inputs)
        xp = array_module(logits)
        ids = to_device(as_array(ids, "ids are"), self.device)
        targets = to_device(as_array(targets, "targets are"), self.device)
        wide = np.promote_types(logits.dtype, np.float32)  # a sum that grows has no room in bfloat16
        p, _ = ops.softmax_forward(logits.astype(wide, copy=False))
        place = (key or Key.of(0)).fold(IN_DRAWING)
        chance = uniform(place, ids.shape, xp)
        below = p.cumsum(axis=-1) <= chance[..., None] * p.sum(axis=-1, keepdims=True)
        drawn = xp.minimum(below.sum(axis=-1), logits.shape[-1] - 1)
        covered = targets != ops.IGNORED
        seen = xp.where(covered, drawn, ids)
        replaced = covered & (drawn != targets)
        return seen, replaced.astype(xp.int64)

    def replaced_scores(self, ids: Array, **inputs) -> Array:
        """ids (B,T) int -> scores (B,T), above 0 where a word was probably replaced

        Raises InputError for a model that was no discriminator.
        """
        if self.config.heads.words is not DISCRIMINATOR:
            raise InputError(f"{self.opened_as}: take an ElectraForPreTraining")
        h, _ = self.hidden(ids, grad=False, **inputs)
        return self.words.forward(h)[0]

    # -------------------------------------------------------------------------------------------------------- files

    @classmethod
    def least_size(cls, config: ELECTRAConfig) -> int:
        """The numbers in its matrices: those of the discriminator, and those in each block of the generator."""
        if config.heads.words is not DISCRIMINATOR:
            return super().least_size(config)
        generator = config.of_generator
        g = generator.n_embd
        block = (4 * g + 2 * inner_width(generator)) * g
        return super().least_size(config) + config.n_layer * block

    def published_names(self) -> published.Names:
        """Those of its class; the generator has those of ElectraForMaskedLM behind `generator.`."""
        return self.body_names() | self.head_names(self.config.heads) | self._names_of_generator()

    def _names_of_generator(self) -> published.Names:
        """But for the tables that both networks share."""
        if self.generator is None:
            return {}
        own = self._parameter_names()
        of_generator = self.generator.body_names() | self.generator.head_names(self.generator.config.heads)
        names = {f"generator.{name}": several for name, several in of_generator.items()}
        return {name: [f"generator.{one}" for one in several] for name, several in names.items() if name in own}

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """The other way round. A published discriminator comes without its generator, whose weights are zero then.

        Raises InputError for a tensor that is missing.
        """
        if self.generator is None or any(name.startswith("generator.") for name in tensors):
            return super().from_published(tensors, folder)
        zeros = {name: np.zeros_like(p.data) for name, p in self.named_parameters() if name.startswith("generator.")}
        plain = super().from_published(tensors | published.to_published(zeros, self._names_of_generator()), folder)
        warnings.warn(f"{folder} holds a discriminator without its generator: fine-tune it, but do not pre-train it "
                      "further", stacklevel=2)  # fmt: skip
        return plain


CARD = encoder_card("electra", ELECTRA, SIZES, objective=covered_words_and_all, loss_in_nats=False)
