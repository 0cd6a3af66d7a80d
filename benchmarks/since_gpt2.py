"""What changed from GPT-2 to LLaMA, one change at a time: the loss at equal parameters, and on longer texts.

    python benchmarks/since_gpt2.py           # 27 models of two blocks: 8 minutes on a core
    python benchmarks/since_gpt2.py --quick   # one seed, 40 updates, no file

All models have two blocks, the same stories, the same updates and, within 3 %, as many parameters in their blocks. The
first is GPT-2 (lesson 36); each of the others has one change; the last has all of them.
"""

import argparse

import machine
import numpy as np

from minigpt.data import stories
from minigpt.device.arrays import array_module
from minigpt.device.threads import set_threads
from minigpt.models.family import rotary
from minigpt.models.family.decoder import Decoder, DecoderBlock
from minigpt.models.family.layers import GatedMLP, RMSNorm
from minigpt.models.family.llama import LlamaConfig
from minigpt.nn import MLP, LayerNorm, PositionEmbedding
from minigpt.nn.optim import AdamW
from minigpt.nn.schedules import warmup_cosine
from minigpt.tokenizer import GPT1Tokenizer

WIDTH, HEADS, CONTEXT, LONG, WINDOW = 96, 6, 64, 256, 16
STEPS, BATCH, RATE, SEEDS = 400, 16, 3e-3, (0, 1, 2)
SIZES = {"n_embd": WIDTH, "n_layer": 2, "n_head": HEADS, "n_positions": LONG, "n_inner": 4 * WIDTH}
GATED = 8 * WIDTH // 3  # three matrices of this inner width have as many numbers as two of 4 C
BASE = {"norm": LayerNorm, "mlp": MLP, "rotary": False, "bias": True, "n_kv_head": HEADS, "window": None}
CHANGES = {
    "GPT-2": {},
    "RMSNorm": {"norm": RMSNorm},
    "rotary positions": {"rotary": True},
    "gated MLP": {"mlp": GatedMLP},
    "two heads of keys": {"n_kv_head": 2},
    "no biases": {"bias": False},
    f"window of {WINDOW}": {"window": WINDOW},
    "all but the window": {
        "norm": RMSNorm, "rotary": True, "mlp": GatedMLP, "n_kv_head": 2, "bias": False,
    },
    "all, with the window": {
        "norm": RMSNorm, "rotary": True, "mlp": GatedMLP, "n_kv_head": 2, "bias": False, "window": WINDOW,
    },
}  # fmt: skip


def model_of(vocab_size: int, seed: int, **change) -> Decoder:
    """A decoder of two blocks that is GPT-2 but for this change. Without rotary positions it has a table, as there."""
    how = BASE | change
    gated = how["mlp"] is GatedMLP
    config = LlamaConfig(
        vocab_size=vocab_size, **SIZES | {"n_inner": GATED if gated else 4 * WIDTH}, n_kv_head=how["n_kv_head"],
        qkv_bias=how["bias"], proj_bias=how["bias"], hidden_act="silu" if gated else "gelu_new",
        initializer_range=0.05, tie_word_embeddings=True,
    )  # fmt: skip

    class Block(DecoderBlock):
        norm = how["norm"]

        @staticmethod
        def mlp_of(config, rng, std, dtype):
            return how["mlp"](config, rng, std, dtype, *([] if gated else [how["bias"]]))

    class Model(Decoder):
        Config, block = LlamaConfig, Block
        positions_embed = None

        def seen(self, t, past):
            if how["window"] is None:
                return None
            key = array_module(self.head.data).arange(t)
            return (key <= key[:, None]) & (key > key[:, None] - how["window"])

    model = Model(config, seed)
    if not how["rotary"]:
        model.frequencies = np.zeros_like(model.frequencies)  # nothing turns
        with_table(model, seed)
    return model


def with_table(model: Decoder, seed: int) -> None:
    """Add a row for each position to the vectors of the tokens, as GPT-2 does."""
    table = PositionEmbedding(CONTEXT, WIDTH, np.random.default_rng([seed, 7]), 0.05)
    tokens = model.tokens_embed
    forward, backward = tokens.forward, tokens.backward
    model.positions_embed = table

    def summed(ids):
        x, cache = forward(ids)
        rows, cache.of_positions = table.forward(np.arange(ids.shape[1]))
        return x + rows, cache

    def parted(dout, cache):
        table.backward(dout, cache.of_positions)
        return backward(dout, cache)

    tokens.forward, tokens.backward = summed, parted


def blocks_have(model: Decoder) -> int:
    """Numbers in the two blocks."""
    return sum(parameter.data.size for block in model.h for parameter in block.parameters())


def train(model: Decoder, ids: np.ndarray, seed: int, steps: int) -> None:
    """Next tokens of windows of CONTEXT, drawn anew for each update."""
    optimizer = AdamW(model.named_parameters())
    for step in range(steps):
        rng = np.random.default_rng([seed, step])
        starts = rng.integers(len(ids) - CONTEXT - 1, size=BATCH)
        windows = ids[starts[:, None] + np.arange(CONTEXT + 1)]
        model.zero_grad()
        _, cache = model.loss(windows[:, :-1], windows[:, 1:])
        model.loss_backward(cache)
        optimizer.step(RATE * warmup_cosine(step / steps, 0.1), 1.0)


def losses_at(model: Decoder, ids: np.ndarray, length: int) -> np.ndarray:
    """(length,): the mean loss at each place of windows of this length, from one end of the text to the other"""
    n = (len(ids) - 1) // length
    windows = ids[: n * length].reshape(n, length), ids[1 : n * length + 1].reshape(n, length)
    found = np.zeros(length)
    for inputs, targets in zip(*(np.array_split(part, max(1, n // 16)) for part in windows), strict=True):
        logits, _ = model.forward(inputs, grad=False)
        picked = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        largest = logits.max(axis=-1)
        found += (largest + np.log(np.exp(logits - largest[..., None]).sum(axis=-1)) - picked).sum(axis=0)
    return found / n


def measure(name: str, text, train_ids, valid_ids, seed: int, steps: int) -> dict:
    """One trained model: its numbers, its loss within CONTEXT, and by place in a text of LONG where it can read one."""
    model = model_of(text.vocab_size, seed, **CHANGES[name])
    train(model, train_ids, seed, steps)
    config = model.config
    row = {
        "loss": round(float(losses_at(model, valid_ids, CONTEXT).mean()), 4),
        "numbers in blocks": blocks_have(model),
        "bytes of a token in the cache": 2 * config.n_layer * config.n_kv_head * config.head_size * 4,
    }
    if model.positions_embed is None:
        row["by place"] = by_quarter(model, valid_ids)
        model.frequencies = rotary.frequencies(config.rotary_size, config.rope_theta, SCALED)
        row["by place, scaled"] = by_quarter(model, valid_ids)
    return row


SCALED = {"rope_type": "linear", "factor": LONG / CONTEXT}


def by_quarter(model: Decoder, ids: np.ndarray) -> list[float]:
    """The mean loss in each stretch of CONTEXT places of texts of LONG."""
    places = losses_at(model, ids, LONG).reshape(-1, CONTEXT)
    return places.mean(axis=1).round(4).tolist()


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, few updates, no file")
    options = parser.parse_args()
    set_threads(1)
    corpus = stories.corpus(3000, variety=1)
    text = GPT1Tokenizer.train(corpus, 400, pipeline="rules", progress=False)
    ids = np.array(text.encode(corpus))
    parts = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :][: 64 * LONG + 1]
    rows = {}
    for seed in SEEDS[: 1 if options.quick else None]:
        for name in CHANGES:
            row = measure(name, text, *parts, seed, 40 if options.quick else STEPS)
            rows[f"{name}, seed {seed}"] = row
            print(f"{name}, seed {seed}", row, flush=True)
    machine.save("since_gpt2", rows, 1, options.quick)


if __name__ == "__main__":
    main()
