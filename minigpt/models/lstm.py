"""The LSTM that the paper compares with (GPT-1 section 5, table 5): one layer of cells in place of all the blocks."""

from dataclasses import dataclass

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module, to_device
from minigpt.errors import InputError
from minigpt.models.card import Card
from minigpt.models.config import Config
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Cache, Embedding, Linear, Module, Parameter, accumulate, normal
from minigpt.nn.optim import GPT1Adam
from minigpt.ops.random_keys import Key, fold
from minigpt.tokenizer import GPT1Tokenizer


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(Config):
    """Sizes and rates. n_hidden: the cells; None makes them 8/3 of the width, as the paper's 2048 are of 768."""

    model_type: str = "lstm"
    vocab_size: int = 40478
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 1
    n_head: int = 1
    n_hidden: int = None  # type: ignore[assignment]  # filled in below
    embd_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    initializer_range: float = 0.2  # of the embedding: no LayerNorm lifts it, and cells do not feel N(0, 0.02)

    def __post_init__(self):
        super().__post_init__()
        for name, what in (("n_layer", "one layer"), ("n_head", "no heads")):
            if getattr(self, name) != 1:
                raise InputError(f"{name} {getattr(self, name)}: this LSTM has {what}: give 1")
        if self.n_hidden is None:
            object.__setattr__(self, "n_hidden", max(1, 8 * self.n_embd // 3))
        if type(self.n_hidden) is not int or not 1 <= self.n_hidden < 1 << 31:
            raise InputError(f"n_hidden is {self.n_hidden!r}: give a whole number from 1 to 2,147,483,647")


class Memory:
    """What was read, in place of keys and values: state (B,2H) after `length` steps. padding: as for `nn.Past`."""

    def __init__(self, padding: Array | None = None):
        self.padding = padding
        self.length = 0
        self.state = None

    def __repr__(self) -> str:
        return f"Memory({self.length} positions)"


class Recurrence(Module):
    """Cells with weights w (C,4H), u (H,4H), b (4H,). c_proj (H,C), of which the paper tells nothing, fits the head.

    config: n_embd, n_hidden.
    """

    def __init__(self, config, rng: np.random.Generator | None, dtype):
        c, n = config.n_embd, config.n_hidden
        # products keep the size of what comes in: N(0, 1/sqrt(inputs))
        self.w = normal(rng, (c, 4 * n), c**-0.5, dtype)
        self.u = normal(rng, (n, 4 * n), n**-0.5, dtype)
        self.b = Parameter(np.repeat(np.array([0, 1, 0, 0], dtype), n))  # forget gates begin open: first remember
        self.c_proj = Linear(n, c, rng, n**-0.5, dtype)

    def forward(self, x: Array, past: Memory, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C). past: read, and brought up to date; a constant for the backward."""
        xp = array_module(x)
        cache = Cache(self, grad)
        n = len(self.u.data)
        state = past.state
        if state is None:
            state = xp.zeros((len(x), 2 * n), x.dtype)
        pieces = [x]
        if past.padding is not None:
            pieces = xp.split(x, x.shape[1], axis=1)
        h = []
        for t, piece in enumerate(pieces, past.length):
            if past.padding is not None:
                has_begun = past.padding < t  # a row that begins here, or later, has read nothing
                state = state * has_begun[:, None]
            cells = ops.lstm_forward(piece, self.w.value, self.u.value, self.b.value, state)
            out = cache.keep("cells", cells)
            h.append(out[..., :n])
            state = out[:, -1]
        past.state = state
        past.length += x.shape[1]
        h = xp.concatenate(h, axis=1)
        out = cache.keep("proj", self.c_proj.forward(h))
        return out, cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C). Of [h, c] only h was used here: c has a gradient of zeros from outside."""
        cache = self.own(cache)
        dh = self.c_proj.backward(dout, cache.pop("proj"))
        xp = array_module(dh)
        dboth = xp.concatenate([dh, xp.zeros_like(dh)], axis=-1)
        dx, dw, du, db, _ = ops.lstm_backward(dboth, cache.pop("cells"))
        accumulate(self.w, dw)
        accumulate(self.u, du)
        accumulate(self.b, db)
        return dx


class LSTM(LanguageModel):
    """Embedding, cells, embedding as head. It reads n_positions tokens, like the Transformer. seed: as for GPT1."""

    Config = LSTMConfig
    can_checkpoint_blocks = False
    computes_in_bfloat16 = False
    repeats_its_step = False

    def __init__(self, config: LSTMConfig, seed: int | None = 0, dtype=np.float32):
        rng = self.begin(config, seed, dtype)
        self.tokens_embed = Embedding(config.vocab_size, config.n_embd, rng, config.initializer_range, dtype)
        self.h = [Recurrence(config, rng, dtype)]

    @property
    def embeddings(self) -> tuple[Embedding]:
        """Of tokens alone: what is read one after the other needs no positions."""
        return (self.tokens_embed,)

    @classmethod
    def least_size(cls, config: LSTMConfig) -> int:
        """The numbers in its matrices: the embedding, those of the cells, and the projection."""
        c, n = config.n_embd, config.n_hidden
        return config.vocab_size * c + 4 * n * (c + n) + n * c

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None) -> list[Memory]:
        """A list of one empty `Memory`, whose room does not grow: capacity is not needed. padding: as in the base."""
        if padding is not None:
            padding = to_device(padding, self.device) if padding.any() else None
        return [Memory(padding)]

    def hidden(
        self,
        ids: Array,
        past: list[Memory] | None = None,
        key: Key | None = None,
        grad: bool = True,
        *,
        mask: Array | None = None,
        positions: Array | None = None,
    ) -> tuple[Array, Cache]:
        """ids (B,T) int -> h (B,T,C). Raises InputError for a mask or positions, which cells cannot use."""
        if mask is not None or positions is not None:
            raise InputError("an LSTM reads its tokens one after the other: give it no mask and no positions")
        cache = Cache(self, grad)
        ids, _ = self.place(ids, past)
        past = past or self.new_past()
        x = cache.keep("tokens", self.tokens_embed.forward(ids))
        dropout = ops.dropout_forward(x, rate=self.config.embd_pdrop, key=fold(key, 0))
        x = cache.keep("dropout", dropout)
        h = cache.keep("h.0", self.h[0].forward(x, past[0], grad))
        dropout = ops.dropout_forward(h, rate=self.config.resid_pdrop, key=fold(key, 1))
        h = cache.keep("dropout_out", dropout)
        return h, cache

    def hidden_backward(self, dh: Array, cache: Cache) -> None:
        """dh (B,T,C) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        dh = ops.dropout_backward(dh, cache.pop("dropout_out"))
        dx = self.h[0].backward(dh, cache.pop("h.0"))
        dx = ops.dropout_backward(dx, cache.pop("dropout"))
        self.tokens_embed.backward(dx, cache.pop("tokens"))


SIZES = {
    "nano": {"n_embd": 128, "n_positions": 64},
    "mini": {"n_embd": 384, "n_positions": 256},
    "paper": {},
}

CARD = Card(
    name="lstm",
    model=LSTM,
    sizes=SIZES,
    usual_size="paper",
    tokenizer=GPT1Tokenizer,
    optimizer=GPT1Adam,
    differs="the paper tells only of one layer of 2,048 cells: the width of the tokens and the projection are of this "
    "library, and no count of parameters was published",
)
