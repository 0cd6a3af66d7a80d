"""ELMo (Peters et al. 2018): two language models of LSTM cells, one from each side, and all their layers as features.

Before GPT-1. The token table and the head are shared by both directions, the cells are not (section 3.1). A task reads
a weighed sum of all layers, and the network itself stays as it was pre-trained (section 3.2). Here it reads token ids:
the network of characters that the released model has in place of a table is left out.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minigpt import ops
from minigpt.data.objectives import Objective, both_directions
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError
from minigpt.models.card import Card
from minigpt.models.config import Config
from minigpt.models.language_model import LanguageModel
from minigpt.models.lstm import Memory, Recurrence
from minigpt.models.token_ids import as_array, first_places
from minigpt.nn import Cache, Embedding, Module, Parameter, accumulate
from minigpt.nn.optim import GPT1Adam
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import GPT1Tokenizer, Tokenizer


@dataclass(frozen=True, kw_only=True)
class ELMoConfig(Config):
    """Sizes and rates. n_hidden: cells in a layer.

    n_embd: to which each layer of each direction is projected; a state has both directions, and is twice as wide.

    The defaults have the numbers of layers, cells and projected states of the released model (section 3.4), but not its
    size: 331 million parameters, of which 20.7 are the table, against 93.6 million. There the next step reads the 512
    numbers to which the cells are projected, here it reads all 4,096 cells: four times 4,096 x 4,096 weights in each
    layer of each direction. And there a word is read by its characters, here from a table of tokens.
    """

    model_type: str = "elmo"
    vocab_size: int = 40478
    n_positions: int = 512
    n_embd: int = 512
    n_layer: int = 2
    n_head: int = 1
    n_hidden: int = 4096
    embd_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    initializer_range: float = 0.2  # of the table: as for the LSTM

    def __post_init__(self):
        super().__post_init__()
        self._check_size("n_hidden")
        if self.n_head != 1:
            raise InputError(f"n_head {self.n_head}: cells have no heads: give 1")


class Direction(Module):
    """The layers of one direction. From the second on, what a layer is given is added to what it gives."""

    def __init__(self, config: ELMoConfig, rng: np.random.Generator | None, dtype):
        self.h = [Recurrence(config, rng, dtype) for _ in range(config.n_layer)]
        self.rate = config.resid_pdrop

    def forward(self, x: Array, key: Key | None = None, grad: bool = True) -> tuple[list[Array], Cache]:
        """x (B,T,C), in the sequence in which it is read -> what each layer gives, a list of (B,T,C)"""
        cache = Cache(self, grad)
        outs = []
        for i, layer in enumerate(self.h):
            out = cache.keep(f"h.{i}", layer.forward(x, Memory(), grad))
            out = cache.keep(f"dropout.{i}", ops.dropout_forward(out, rate=self.rate, key=fold(key, i + 1)))
            x = out if i == 0 else x + out
            outs.append(x)
        return outs, cache

    def backward(self, douts: list[Array], cache: Cache) -> Array:
        """The gradient of what each layer gave, a list of (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        dx = array_module(douts[0]).zeros_like(douts[0])
        for i in reversed(range(len(self.h))):
            # x = x + out, and a task may have read it
            dx = dx + douts[i]
            dout = ops.dropout_backward(dx, cache.pop(f"dropout.{i}"))
            dbelow = self.h[i].backward(dout, cache.pop(f"h.{i}"))
            dx = dbelow if i == 0 else dx + dbelow
        return dx


class MixCache(NamedTuple):
    layers: list[Array]
    shares: Array
    mixed: Array


class WeighedLayers(Module):
    """gamma sum_j softmax(s)_j h_j, with a number s_j for each layer and one for all, gamma (equation 1)."""

    def __init__(self, n_layers: int, dtype):
        self.s = Parameter(np.zeros(n_layers, dtype), always_wide=True)
        self.gamma = Parameter(np.ones(1, dtype), always_wide=True)

    def forward(self, layers: list[Array]) -> tuple[Array, Cache]:
        """layers: (B,T,W) each -> out (B,T,W)"""
        cache = Cache(self)
        shares = cache.keep("softmax", ops.softmax_forward(self.s.value))
        mixed = sum(share * layer for share, layer in zip(shares, layers, strict=True))
        cache["mix"] = MixCache(layers, shares, mixed)
        return self.gamma.value * mixed, cache

    def backward(self, dout: Array, cache: Cache) -> list[Array]:
        """dout (B,T,W) -> the gradient of each layer, a list of (B,T,W)"""
        xp = array_module(dout)
        cache = self.own(cache)
        layers, shares, mixed = cache.pop("mix")
        # out = gamma * mixed
        accumulate(self.gamma, (dout * mixed).sum().reshape(1))
        dmixed = self.gamma.value * dout
        # mixed = sum(share * layer)
        dshares = xp.stack([(dmixed * layer).sum() for layer in layers])
        accumulate(self.s, ops.softmax_backward(dshares, cache.pop("softmax")))
        return [share * dmixed for share in shares]


class ELMo(LanguageModel):
    """Both directions, and the weighed sum of their layers. seed: as for GPT1.

    `hidden` is what a task reads, (B,T,2C); `forward` and the first half of the loss are the model from the left.
    """

    Config = ELMoConfig
    can_generate = False
    can_checkpoint_blocks = False
    computes_in_bfloat16 = False
    repeats_its_step = False
    learns_the_next_token = False

    def __init__(self, config: ELMoConfig, seed: int | None = 0, dtype=np.float32):
        rng = self.begin(config, seed, dtype)
        self.tokens_embed = Embedding(config.vocab_size, config.n_embd, rng, config.initializer_range, dtype)
        self.left = Direction(config, rng, dtype)
        self.right = Direction(config, rng, dtype)
        self.mix = WeighedLayers(config.n_layer + 1, dtype)

    @property
    def h(self) -> list[Recurrence]:
        """The layers of both directions."""
        return self.left.h + self.right.h

    @property
    def embeddings(self) -> tuple[Embedding]:
        """Of tokens alone: what is read one after the other needs no positions."""
        return (self.tokens_embed,)

    @property
    def state_width(self) -> int:
        """Of what a task reads: both directions."""
        return 2 * self.config.n_embd

    # --------------------------------------------------------------------------------------------------- hidden states

    def directions(
        self, ids: Array, key: Key | None = None, grad: bool = True, mask: Array | None = None
    ) -> tuple[Array, list[Array], list[Array], Cache]:
        """ids (B,T) int -> x (B,T,C) of the tokens, and what each layer gives from the left, and from the right

        mask (B,T) boolean: False where a row is filled up, at its right. Raises InputError for other masks.
        """
        cache = Cache(self, grad)
        ids, _ = self.place(ids)
        turned = self._turned(mask, ids)
        x = cache.keep("tokens", self.tokens_embed.forward(ids))
        x = cache.keep("dropout", ops.dropout_forward(x, rate=self.config.embd_pdrop, key=fold(key, 0)))
        cache["turned"] = turned
        of_left = cache.keep("left", self.left.forward(x, fold(key, 1), grad))
        of_right = cache.keep("right", self.right.forward(_rows(x, turned), fold(key, 2), grad))
        return x, of_left, [_rows(layer, turned) for layer in of_right], cache

    def directions_backward(self, dx: Array | None, dleft: list[Array], dright: list[Array], cache: Cache) -> None:
        """The gradients of all that `directions` gave -> nothing: they arrive in the parameters"""
        turned = cache.pop("turned")
        through_right = self.right.backward([_rows(layer, turned) for layer in dright], cache.pop("right"))
        through_left = self.left.backward(dleft, cache.pop("left"))
        through = through_left + _rows(through_right, turned)
        dx = through if dx is None else dx + through
        dx = ops.dropout_backward(dx, cache.pop("dropout"))
        self.tokens_embed.backward(dx, cache.pop("tokens"))

    def hidden(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, *, mask=None, positions=None
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> E (B,T,2C), the weighed sum of the tokens' vectors and of all layers of both directions

        mask: see `directions`. Raises InputError for a past and for positions.
        """
        if past is not None or positions is not None:
            raise InputError("ELMo reads a whole text from both sides: give it no past and no positions")
        xp = array_module(ids)
        x, left, right, cache = self.directions(ids, key, grad, mask)
        layers = [xp.concatenate([x, x], axis=-1)]
        layers += [xp.concatenate(pair, axis=-1) for pair in zip(left, right, strict=True)]
        return cache.keep("mix", self.mix.forward(layers)), cache

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,2C) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        c = self.config.n_embd
        first, *others = self.mix.backward(dh, cache.pop("mix"))
        dx = first[..., :c] + first[..., c:]
        dleft = [layer[..., :c] for layer in others]
        dright = [layer[..., c:] for layer in others]
        self.directions_backward(dx, dleft, dright, cache)

    def frozen_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,2C) -> nothing: only the weights of the layers learn, the network stays as it is (section 3.2)"""
        self.mix.backward(dh, self.own(cache).pop("mix"))

    def learned_when_frozen(self) -> tuple[Module, ...]:
        """The weights of the layers, which belong to a task."""
        return (self.mix,)

    # ----------------------------------------------------------------------------------------------- logits and loss

    def forward(
        self, ids: Array, past=None, key: Key | None = None, grad: bool = True, *, mask=None
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> logits (B,T,V): the scores of token t + 1 from the left. mask: see `directions`."""
        if past is not None:
            self.new_past()
        cache = Cache(self, grad)
        _, left, right, cache["directions"] = self.directions(ids, key, grad, mask)
        cache["zeros"] = right
        logits = cache.keep("head", ops.linear_forward(left[-1], self.head.value.T))
        return logits, cache

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """dlogits (B,T,V) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        dh, dw_t, _ = ops.linear_backward(dlogits, cache.pop("head"))
        accumulate(self.head, dw_t.T)
        none = [array_module(dh).zeros_like(layer) for layer in cache.pop("zeros")]
        self.directions_backward(None, [*none[:-1], dh], none, cache.pop("directions"))

    def loss(
        self, ids: Array, targets: Array, normalizer: float | None = None, weights: Array | None = None,
        key: Key | None = None, grad: bool = True, *, previous: Array | None = None, mask: Array | None = None,
    ) -> tuple[Array, Cache]:
        """ids, targets, previous (B,T) int -> loss (), in nats: the mean of the two directions' losses (section 3.1)

        targets: the token behind each place; previous: the one before it, None: nothing is predicted from the right.
        Both have the same number of targets, or normalizer. Otherwise as `LanguageModel.loss`.
        """
        cache = Cache(self, grad)
        _, left, right, cache["directions"] = self.directions(ids, key, grad, mask)
        shape = left[-1].shape[:2]
        if previous is None:
            previous = np.full(shape, ops.IGNORED)
        loss = 0.0
        for name, h, wanted in (("left", left[-1], targets), ("right", right[-1], previous)):
            wanted, shares = self.place_targets(wanted, weights, shape)
            loss = loss + 0.5 * cache.keep(name, ops.linear_cross_entropy_forward(
                h, self.head.value, wanted, weights=shares, normalizer=normalizer, grad=grad,
            ))  # fmt: skip
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        cache = self.own(cache)
        gradients = {}
        for name in ("left", "right"):
            dh, dw, _ = ops.linear_cross_entropy_backward(0.5 * dloss, cache.pop(name))
            accumulate(self.head, dw)
            below = [array_module(dh).zeros_like(dh) for _ in range(self.config.n_layer - 1)]
            gradients[name] = [*below, dh]
        self.directions_backward(None, gradients["left"], gradients["right"], cache.pop("directions"))

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None):
        """Raises InputError: the second direction reads a text from its end, which is not there yet."""
        raise InputError("ELMo reads a text from both ends and cannot continue it: take gpt2 or llama")

    # ------------------------------------------------------------------------------------ reading whole sequences

    def trial_inputs(self, ids: Array) -> dict[str, Array]:
        """The token before each place; the last one for the first place."""
        return {"previous": array_module(ids).roll(ids, 1, axis=1)}

    def inputs_of(self, ids: Array, lengths: Array, delimiter: int | None = None) -> dict[str, Array]:
        """A mask that tells where each row ends."""
        return {"mask": first_places(lengths, ids.shape[1])}

    def summary(self, h: Array, lengths: Array) -> Array:
        """h (N,T,2C), lengths (N,) -> (N,2C): from the left the last state, from the right the first one"""
        c = self.config.n_embd
        xp = array_module(h)
        rows = xp.arange(len(h))
        return xp.concatenate([h[rows, lengths - 1, :c], h[:, 0, c:]], axis=-1)

    def summary_backward(self, dstates: Array, shape: tuple[int, ...], lengths: Array) -> Array:
        """dstates (N,2C) -> dh (N,T,2C)"""
        c = self.config.n_embd
        xp = array_module(dstates)
        dh = xp.zeros(shape, dstates.dtype)
        dh[xp.arange(len(dh)), lengths - 1, :c] = dstates[:, :c]
        dh[:, 0, c:] = dstates[:, c:]
        return dh

    def _turned(self, mask: Array | None, ids: Array) -> Array:
        """(B,T) int: for each place the one that the direction from the right reads then; what fills up comes last."""
        xp = array_module(ids)
        place = xp.arange(ids.shape[1])
        if mask is None:
            return xp.broadcast_to(place[::-1], ids.shape)
        mask = to_device(as_array(mask, "mask is"), self.device)
        lengths = mask.sum(axis=1, keepdims=True) if mask.shape == ids.shape else 0
        if mask.shape != ids.shape or ((place < lengths) != mask).any():
            raise InputError(f"mask has shape {mask.shape}: ELMo takes one of {ids.shape} that is True up to the end "
                             "of each row's text, and False behind it")  # fmt: skip
        return xp.where(mask, lengths - 1 - place, place)

    def layers_of(self, name: str) -> int:
        """How many layers must be taken over for this parameter to be among them, as in the base."""
        _, is_layer, rest = name.partition(".h.")
        if is_layer:
            return int(rest.partition(".")[0]) + 1
        return self.config.n_layer if name.startswith("mix.") else 0

    @classmethod
    def least_size(cls, config: ELMoConfig) -> int:
        """The numbers in its matrices: the table, and of each layer those of the cells and the projection."""
        c, n = config.n_embd, config.n_hidden
        return config.vocab_size * c + 2 * config.n_layer * (4 * n * (c + n) + n * c)


def _rows(x: Array, places: Array) -> Array:
    """x (B,T,C), places (B,T) int -> each row of x in this sequence of places; doing it twice undoes it"""
    rows = array_module(x).arange(len(x))[:, None]
    return x[rows, places]


SIZES = {
    "nano": {"n_embd": 64, "n_hidden": 160, "n_positions": 64},
    "mini": {"n_embd": 192, "n_hidden": 768, "n_positions": 256},
    "paper": {},
}


def tokens_on_both_sides(text: Tokenizer) -> Objective:
    """The objective of ELMo, whatever the vocabulary: the next token from the left, the one before from the right."""
    return both_directions


CARD = Card(
    "elmo",
    ELMo,
    SIZES,
    usual_size="paper",
    tokenizer=GPT1Tokenizer,
    optimizer=GPT1Adam,
    objective=tokens_on_both_sides,
    differs="the released ELMo has 93.6 million parameters: its next step reads the 512 projected numbers, here all "
    "4,096 cells, and it reads the characters of a word, here there is a table of tokens",
)
