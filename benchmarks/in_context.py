"""How many layers, and how many updates, does learning from the prompt need? The tiny models of lesson 19, four seeds.

    python benchmarks/in_context.py           # about 5 minutes on one core
    python benchmarks/in_context.py --quick   # 100 updates of one run, no file

A document draws a mapping from 8 symbols to 2 labels and shows 16 pairs. A row is one training of 4,000 updates; after
every 250 it has the accuracy after 15 examples on 500 new documents, and at the end that after 0, 1, … 15 examples.
"""

import argparse

import machine
import numpy as np

from minigpt import GPT2, GPT2Config
from minigpt.device.threads import set_threads
from minigpt.nn import optim

K, PAIRS, SEEDS, UPDATES, EVERY = 8, 16, 4, 4000, 250
NO_DROPOUT = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)


def documents(rng, n):
    """-> ids (n,2*PAIRS): symbol, label, symbol, label, ...; a new mapping for each document"""
    mapping = rng.integers(2, size=(n, K))
    symbols = rng.integers(K, size=(n, PAIRS))
    labels = K + np.take_along_axis(mapping, symbols, axis=1)
    return np.stack([symbols, labels], axis=-1).reshape(n, 2 * PAIRS)


def accuracy(tiny, ids):
    """ids (n,2*PAIRS) -> (PAIRS,): the proportion of right labels after 0, 1, 2, ... examples"""
    logits, _ = tiny.forward(ids, grad=False)
    return (K + logits[:, 0::2, K:].argmax(axis=-1) == ids[:, 1::2]).mean(axis=0)


def train(layers, seed, updates=UPDATES, rows=32):
    """One training, as in the lesson -> {"step": ..., "after 15": ..., "at the end": ...}"""
    sizes = {"vocab_size": K + 2, "n_positions": 2 * PAIRS, "n_embd": 32, "n_layer": layers, "n_head": 1}
    tiny = GPT2(GPT2Config(**sizes, initializer_range=0.08, **NO_DROPOUT), seed=seed)
    optimizer = optim.AdamW(tiny.named_parameters())
    tested = documents(np.random.default_rng(999), 500)
    found = {"step": [], "after 15": []}
    for update in range(updates):
        ids = documents(np.random.default_rng([seed, update]), rows)
        targets = np.full_like(ids, -100)
        targets[:, 0::2] = ids[:, 1::2]
        tiny.zero_grad()
        tiny.loss_backward(tiny.loss(ids, targets)[1])
        optimizer.step(3e-3 * min(1, (update + 1) / 100))
        if (update + 1) % EVERY == 0:
            found["step"].append(update + 1)
            found["after 15"].append(round(float(accuracy(tiny, tested)[-1]), 3))
    return found | {"at the end": [round(float(value), 3) for value in accuracy(tiny, tested)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100 updates of one run, no file")
    options = parser.parse_args()
    set_threads(1)
    if options.quick:
        print(train(2, 0, updates=100)["at the end"])
        return
    for seed in range(SEEDS):
        for layers in (1, 2):
            name = f"{layers} {'layer' if layers == 1 else 'layers'}, seed {seed}"
            row = train(layers, seed)
            print(name, *(f"{value:.2f}" for value in row["after 15"]), flush=True)
            machine.save("in_context", {name: row}, 1)


if __name__ == "__main__":
    main()
