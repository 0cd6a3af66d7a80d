"""What makes warm-up necessary at a high rate: small GPTs, with one thing changed at a time, eight seeds each.

    python benchmarks/warmup.py             # about 4 minutes on one core
    python benchmarks/warmup.py --quick     # one seed of each, no file

Every run is the one of lesson 09: 150 updates of AdamW on the same short text, width 32, weights from N(0, 0.1), a
cosine down to 0. `end` is the loss of the last 15 updates. `sameness` is the mean cosine between two positions at the
top, of the new model, after the first update, and at the end. A loss near `letter frequencies` says that the model has
learnt how frequent each letter is, and no more.
"""

import argparse
import statistics

import machine
import numpy as np

from minigpt import GPT1, GPT2, ops
from minigpt.device.threads import set_threads
from minigpt.nn import accumulate, optim, schedules

TEXT = (
    "Mina has a red kite. The wind takes the kite to the old tree. Mina looks up and sees the red kite in the tree. "
    "I can not reach it, says Mina. Tom has a long stick. Tom takes the stick to the tree and the kite comes down. "
    "Thank you, Tom, says Mina. Now Tom and Mina run to the hill, and the red kite is high in the wind. "
    "The next day the wind is gone. Mina and Tom sit under the old tree and look at the sky. We can wait, says Tom. "
    "They wait and wait. A small bird comes and sits on the kite. Then the wind is back, and the bird and the kite are "
    "high over the hill. Look, says Mina, the bird can fly and the kite can fly. One day we will fly too, says Tom. "
)
LETTERS = sorted(set(TEXT))
IDS = np.array([LETTERS.index(letter) for letter in TEXT])
T, B, WIDTH, STEPS = 16, 8, 32, 150
SEEDS = 8


def constant_then_cosine(x):
    """No warm-up."""
    return schedules.warmup_cosine(x, 0)


def half_warmup(x):
    """The rate rises during the first half."""
    return schedules.warmup_cosine(x, 0.5)


def short_warmup(x):
    """The rate rises during the first tenth."""
    return schedules.warmup_cosine(x, 0.1)


def one_full_update(x):
    """The first update at the full rate, and all later ones with the long warm-up."""
    return 1.0 if x == 0 else half_warmup(x)


def ten_full_updates(x):
    """The same with ten updates at the full rate."""
    return 1.0 if x < 9.5 / STEPS else half_warmup(x)


def forty_full_updates(x):
    """The same with forty updates at the full rate."""
    return 1.0 if x < 39.5 / STEPS else half_warmup(x)


def all_but_the_first(x):
    """No warm-up, but the first update has the rate 0: GPT-1's own first update."""
    return 0.0 if x == 0 else constant_then_cosine(x)


RUNS = {  # name: norm, blocks, highest rate, schedule, are letter frequencies given?
    "12 post-norm blocks, no warm-up": ("post", 12, 8e-3, constant_then_cosine, False),
    "12 post-norm blocks, warm-up 0.5": ("post", 12, 8e-3, half_warmup, False),
    "12 post-norm blocks, warm-up 0.1": ("post", 12, 8e-3, short_warmup, False),
    "12 post-norm blocks, 1 full update, then warm-up 0.5": ("post", 12, 8e-3, one_full_update, False),
    "12 post-norm blocks, 10 full updates, then warm-up 0.5": ("post", 12, 8e-3, ten_full_updates, False),
    "12 post-norm blocks, 40 full updates, then warm-up 0.5": ("post", 12, 8e-3, forty_full_updates, False),
    "12 post-norm blocks, 1 update at rate 0, no warm-up": ("post", 12, 8e-3, all_but_the_first, False),
    "12 post-norm blocks, no warm-up, rate / 4": ("post", 12, 2e-3, constant_then_cosine, False),
    "6 post-norm blocks, no warm-up": ("post", 6, 8e-3, constant_then_cosine, False),
    "12 pre-norm blocks, no warm-up": ("pre", 12, 8e-3, constant_then_cosine, False),
    "12 pre-norm blocks, warm-up 0.5": ("pre", 12, 8e-3, half_warmup, False),
    "12 pre-norm blocks, no warm-up, rate / 4": ("pre", 12, 2e-3, constant_then_cosine, False),
    "12 post-norm blocks, frequencies given, no warm-up": ("post", 12, 8e-3, constant_then_cosine, True),
    "12 post-norm blocks, frequencies given, warm-up 0.5": ("post", 12, 8e-3, half_warmup, True),
}


def new_model(norm, n_layer, seed):
    """A GPT-1, or a GPT-2 whose weights are the same numbers (its last LayerNorm, which GPT-1 has not, begins as 1)."""
    sizes = {"vocab_size": len(LETTERS), "n_positions": T, "n_embd": WIDTH, "n_layer": n_layer, "n_head": 4}
    post = GPT1(GPT1.Config(**sizes, initializer_range=0.1), seed=seed)
    if norm == "post":
        return post
    pre = GPT2(GPT2.Config(**sizes), seed=seed)
    same = {"wte.weight": "tokens_embed.weight", "wpe.weight": "positions_embed.weight"}
    start = dict(post.named_parameters())
    for name, parameter in pre.named_parameters():
        if not name.startswith("ln_f"):
            parameter.data = start[same.get(name, name)].data
    return pre


def batch(seed, step):
    """Windows of the text; those of seed 0 are the lesson's."""
    starts = np.random.default_rng([7 + seed, step]).integers(0, len(IDS) - T, size=(B, 1))
    window = IDS[starts + np.arange(T + 1)]
    return window[:, :-1], window[:, 1:]


def sameness(model, seed):
    """The mean cosine between two positions of a text, at the top of the model."""
    h = model.hidden(batch(seed, 0)[0], grad=False)[0][0]
    unit = h / np.linalg.norm(h, axis=-1, keepdims=True)
    return float((unit @ unit.T)[np.triu_indices(T, 1)].mean())


def gradients(model, seed, step, given):
    """The loss of a batch; its gradients arrive in the parameters. given: None, or what is added to the scores."""
    model.zero_grad()
    ids, targets = batch(seed, step)
    if given is None:
        loss, cache = model.loss(ids, targets)
        model.loss_backward(cache)
        return float(loss)
    h, cache = model.hidden(ids)
    scores = h @ model.head.value.T + given
    loss, of_loss = ops.cross_entropy_forward(scores, targets)
    dscores = ops.cross_entropy_backward(1.0, of_loss)
    accumulate(model.head, np.einsum("btv,btc->vc", dscores, h))
    model.hidden_backward(dscores @ model.head.value, cache)
    return float(loss)


def train(norm, n_layer, lr, schedule, frequencies_given, seed):
    """The loss at the end, and the sameness before, after one update, and at the end.

    frequencies_given: the logarithm of each letter's frequency is added to its score, so that the model need not learn
    how frequent letters are.
    """
    share = np.bincount(IDS) / len(IDS)
    given = np.log(share).astype(np.float32) if frequencies_given else None
    model = new_model(norm, n_layer, seed)
    optimizer = optim.AdamW(model.named_parameters(), weight_decay=0.01)
    same = [sameness(model, seed)]
    losses = []
    for t in range(1, STEPS + 1):
        losses.append(gradients(model, seed, t, given))
        optimizer.step(lr * schedule((t - 1) / STEPS))
        if t == 1:
            same.append(sameness(model, seed))
    same.append(sameness(model, seed))
    return statistics.mean(losses[-15:]), same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed of each, no file")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the runs with this in their name")
    options = parser.parse_args()
    set_threads(1)
    share = np.bincount(IDS) / len(IDS)
    rows = {"letter frequencies": {"end": round(float(-(share * np.log(share)).sum()), 4)}}
    for name, setting in RUNS.items():
        if options.only not in name:
            continue
        ends, same = zip(*(train(*setting, seed) for seed in range(1 if options.quick else SEEDS)), strict=True)
        means = {"lowest": min(ends), "end": statistics.mean(ends), "highest": max(ends)}
        means |= dict(zip(("new", "after one", "same at end"), np.mean(same, axis=0), strict=True))
        rows[name] = {key: round(float(value), 4) for key, value in means.items()}
        rows[name]["ends"] = [round(end, 4) for end in ends]
        print(name, rows[name], flush=True)
    print(machine.table(rows, ("lowest", "end", "highest", "new", "after one", "same at end")))
    machine.save("warmup", rows, 1, options.quick)


if __name__ == "__main__":
    main()
