"""What moves the losses of lesson 24: other first weights, other rates, the text, or the number of updates?

    python benchmarks/scaling.py           # about 20 minutes on one core; goes on where it was stopped
    python benchmarks/scaling.py --quick   # one short training, no file

The lesson's models (a GPT-2 of two layers, by letters) are trained as in the lesson, with one thing changed at a time.
A row is one training: its width, its rows in a batch, its updates, how many letters of text it had (where these are
fewer than it read, it read them several times), its seed, and its learning rate as a multiple of the lesson's.
"""

import argparse
import itertools
import math

import machine
import numpy as np

from minigpt import GPT2, GPT2Config, data
from minigpt.device.threads import set_threads
from minigpt.nn.optim import AdamW, clip_by_global_norm
from minigpt.nn.schedules import warmup_cosine
from minigpt.tokenizer import CharTokenizer

CONTEXT, LAYERS, WIDTHS, SIXTH = 64, 2, (8, 16, 24, 40, 64), 96
ROWS, STEPS = 4, 1200
D = ROWS * CONTEXT * STEPS
NO_DROPOUT = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)


def windows(letters):
    """(ids, targets), each (number of windows, CONTEXT)."""
    n = (len(letters) - 1) // CONTEXT
    return [letters[shift : shift + n * CONTEXT].reshape(n, CONTEXT).astype(int) for shift in (0, 1)]


def texts():
    """How many letters there are, the training windows, in their sequence, and those of unread stories."""
    corpus = data.load("stories:4000:1")
    text = CharTokenizer.train(piece for part in ("train", "valid") for piece in corpus.pieces(part))
    tokens, held_out = data.encode(corpus, text, context=CONTEXT)
    read = windows(tokens)
    sequence = np.random.default_rng(0).permutation(len(read[0]))
    return text.vocab_size, [part[sequence] for part in read], windows(held_out[:40_000])


def train(given, width, rows=ROWS, steps=STEPS, letters=None, seed=0, rate=1.0):
    """One training -> its loss on stories that it has not read. letters: of how many different ones the text is."""
    vocabulary, (ids, targets), unseen = given
    sizes = {"vocab_size": vocabulary, "n_positions": CONTEXT, "n_embd": width, "n_layer": LAYERS}
    config = GPT2Config(**sizes, n_head=width // 8, initializer_range=0.02 * math.sqrt(768 / width), **NO_DROPOUT)
    model = GPT2(config, seed=seed)
    optimizer = AdamW(model.named_parameters(), (0.9, 0.99))
    different = (letters or rows * steps * CONTEXT) // CONTEXT
    for step in range(steps):
        chosen = np.arange(step * rows, (step + 1) * rows) % different
        model.zero_grad()
        model.loss_backward(model.loss(ids[chosen], targets[chosen])[1])
        clip_by_global_norm(model.named_parameters(), 1.0)
        optimizer.step(rate * 0.256 / width * warmup_cosine(step / steps, 0.1))
    return float(model.loss(*unseen, grad=False)[0])


def plan():
    """Yields the arguments of every training; the first ones matter most."""
    large = WIDTHS[-1]
    yield {"width": large, "letters": D // 4}  # a quarter of the text, the same number of updates
    yield {"width": large, "rows": 4 * ROWS, "steps": STEPS // 4}  # all of the text, a quarter of the updates
    for letters in (4 * D, D):  # four times as many letters are read: new ones, or the same four times
        yield {"width": large, "rows": 4 * ROWS, "letters": letters}
    yield {"width": large, "steps": 4 * STEPS, "letters": D}
    yield {"width": large, "steps": 4 * STEPS}
    for seed in (1, 2):
        for width in (*WIDTHS, SIXTH):
            yield {"width": width, "seed": seed}
        yield {"width": large, "steps": 4 * STEPS, "seed": seed}
    for steps in (STEPS // 2, STEPS):
        for width in WIDTHS:
            yield {"width": width, "rows": 2 * ROWS, "steps": steps}
    for width in (WIDTHS[0], large, SIXTH):
        yield {"width": width, "rate": 0.5}
    for width in (*WIDTHS, SIXTH):  # twice the lesson's rate is the best of the three, at each width
        yield {"width": width, "rate": 4.0}
    for seed, width in itertools.product((0, 1, 2), (*WIDTHS, SIXTH)):
        yield {"width": width, "rate": 2.0, "seed": seed}


def complete(arguments):
    """The arguments with their defaults."""
    row = {"width": 0, "rows": ROWS, "steps": STEPS, "seed": 0, "rate": 1.0} | arguments
    return row | {"letters": arguments.get("letters", row["rows"] * row["steps"] * CONTEXT)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short training, no file")
    options = parser.parse_args()
    set_threads(1)
    given = texts()
    if options.quick:
        print(f"width 8, 60 updates: {train(given, 8, steps=60):.3f}")
        return
    for row in map(complete, plan()):
        name = ", ".join(f"{key} {value:g}" for key, value in row.items())
        if name in machine.recorded("scaling"):
            continue
        row["loss"] = round(train(given, **row), 4)
        print(f"{name}: {row['loss']:.3f}", flush=True)
        machine.save("scaling", {name: row}, 1)


if __name__ == "__main__":
    main()
