"""When does a small model learn which child is meant? The names' vectors are free, or their cosine is held fixed.

    python benchmarks/names.py                # about 15 minutes on one core; goes on where it was stopped
    python benchmarks/names.py --cosine 0.9   # one run with another cosine, a minute; no file
    python benchmarks/names.py --quick        # 60 updates of one run, no file

A GPT-1 of 2 layers, 128 wide, learns the smallest world of stories (`stories:N:1`: two children, Mia and Tom) with the
vocabulary of the lessons' reference model. Its table of tokens is used at the bottom and at the top. In some runs the
vectors of the two names are turned before the first update and after every one, so that their cosine is a given number;
their lengths, their plane and the line halfway between them stay as the update left them. A control does the same to
the vectors of two animals, and leaves the names free: does turning by itself change when the names are learnt?

At every 50th update the model is tested on held-out stories, at the places where a word of some kind stands (one of
eight toys, one of two names). The relative loss of a kind is the loss among the words of this kind alone, divided by
that of a random guess among them: 1 is a guess, 0 is sure and right. `cosine` is that of the two vectors at the test,
`gradients` that of the gradients of these two vectors in the update that follows.
"""

import argparse
import math

import machine
import numpy as np

from minigpt import GPT1, data, load_tokenizer
from minigpt.data.stories import words
from minigpt.device.threads import set_threads
from minigpt.learn import reference
from minigpt.nn.optim import GPT1Adam
from minigpt.nn.schedules import warmup_cosine

TEXT = "stories:10000:1"
SIZES = {"n_positions": 128, "n_embd": 128, "n_layer": 2, "n_head": 4, "initializer_range": 0.02}
NO_DROPOUT = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}
BATCH, RATE, BETA2 = 6, 4e-3, 0.99
SCHEDULE, WARMUP = 1600, 160  # updates for which the learning rate is planned; the run stops earlier
UPDATES, EVERY, STORIES = 1200, 50, 100
HOLD = {  # the kind of the two words whose vectors are turned, and their cosine
    "free": ("names", None),
    "held at 0.95": ("names", 0.95),
    "held at 0.6": ("names", 0.6),
    "held at 0": ("names", 0.0),
    "two animals at 0": ("animals", 0.0),
}
SEEDS = 3


def kinds_of_words(text):
    """{kind: the ids of its words}, each of them one token."""
    groups = {
        "toys": list(words.TOYS),
        "animals": list(words.ANIMALS),
        "places": list(words.PLACES),
        "names": ["Mia", "Tom"],
        "pronouns": ["she", "he"],
    }
    kinds = {}
    for kind, members in groups.items():
        coded = [text.encode(" " + word) for word in members]
        kinds[kind] = np.array([ids[0] for ids in coded if len(ids) == 1])
    return kinds


def cosine(a, b):
    """Of two vectors."""
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def hold(table, first, second, wanted):
    """Turn two rows of a table, in place, until their cosine is `wanted`; their lengths and their middle stay."""
    long = np.linalg.norm(table[[first, second]], axis=1, keepdims=True)
    one, other = table[[first, second]] / long
    middle = (one + other) / np.linalg.norm(one + other)
    across = (one - other) / np.linalg.norm(one - other)
    half = math.acos(wanted) / 2
    turned = [math.cos(half) * middle + math.sin(half) * across, math.cos(half) * middle - math.sin(half) * across]
    table[[first, second]] = long * turned


def story_windows(tokens, start_id, context):
    """Where stories begin that have a whole window behind them."""
    begins = np.flatnonzero(tokens[:-1] == start_id) + 1
    begins = begins[tokens[begins] != start_id]
    return begins[begins < len(tokens) - context]


def relative_losses(model, ids, targets, kinds):
    """{kind: its loss among its own words, over that of a guess}, and the loss of all tokens."""
    logits, _ = model.forward(ids, grad=False)
    relative = {}
    for kind, members in kinds.items():
        here = np.isin(targets, members)
        scores = logits[here][:, members].astype(np.float64)
        log_p = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        right = members == targets[here][:, None]
        relative[kind] = float(-log_p[right].mean() / math.log(len(members)))
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    relative["loss"] = float(-np.take_along_axis(log_p, targets[..., None], axis=-1).mean())
    return relative


def train(text, train_tokens, held_out, turned, wanted, seed, updates=UPDATES):
    """One run: {kind: its relative loss at each test}, the loss and the cosine there too.

    turned: the kind of words whose first two vectors are held at the cosine `wanted`; None leaves them free.
    """
    kinds = kinds_of_words(text)
    mia, tom = kinds["names"]
    context = SIZES["n_positions"]
    begins = story_windows(train_tokens, text.start_id, context)
    tests = story_windows(held_out, text.start_id, context)[:STORIES]
    tested = held_out[tests[:, None] + np.arange(context + 1)].astype(int)
    model = GPT1(GPT1.Config(vocab_size=text.vocab_size, **SIZES, **NO_DROPOUT), seed=seed)
    optimizer = GPT1Adam(model.named_parameters(), betas=(0.9, BETA2))
    table = model.head.data
    found = {"step": [], "cosine": [], "gradients": []}
    for step in range(updates + 1):
        if wanted is not None:
            hold(table, *kinds[turned][:2], wanted)
        if step % EVERY == 0:
            found["step"].append(step)
            found["cosine"].append(cosine(table[mia], table[tom]))
            for kind, value in relative_losses(model, tested[:, :-1], tested[:, 1:], kinds).items():
                found.setdefault(kind, []).append(value)
        ids, targets = data.batch(train_tokens, BATCH, context, seed, step, begins, share=1.0)
        model.zero_grad()
        _, cache = model.loss(ids, targets)
        model.loss_backward(cache)
        if step % EVERY == 0:
            found["gradients"].append(cosine(model.head.grad[mia], model.head.grad[tom]))
        optimizer.step(RATE * warmup_cosine(step / SCHEDULE, WARMUP / SCHEDULE), max_norm=1.0)
    return {name: [round(value, 4) for value in values] for name, values in found.items()}


def show(name, row):
    """Print when the names were learnt."""
    print(f"{name}: relative loss of the names every {EVERY} updates")
    print("   " + " ".join(f"{value:.2f}" for value in row["names"]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="60 updates of one run, no file")
    parser.add_argument("--cosine", type=float, metavar="X", help="one run with this cosine, 0 to 0.99; no file")
    options = parser.parse_args()
    set_threads(1)
    text = load_tokenizer(reference.folder())
    tokens = data.encode(data.load(TEXT), text, SIZES["n_positions"])
    if options.quick:
        show("free", train(text, *tokens, "names", None, 0, updates=60))
        return
    if options.cosine is not None:
        show(f"held at {options.cosine:g}", train(text, *tokens, "names", options.cosine, 0))
        return
    for seed in range(SEEDS):
        for name, (turned, wanted) in HOLD.items():
            key = f"{name}, seed {seed}"
            if key in machine.recorded("names"):
                continue
            row = train(text, *tokens, turned, wanted, seed)
            show(key, row)
            machine.save("names", {key: row}, 1)


if __name__ == "__main__":
    main()
