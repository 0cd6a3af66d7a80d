"""Where a small step with one thread spends what it takes beyond its matrix products: its parts, each alone.

    python benchmarks/one_thread.py             # 4 layers of 128 and 6 of 384, about 2 minutes
    python benchmarks/one_thread.py --quick     # a look at it

The parts, in one process, in turn, with arrays of the shapes of a step, forward and backward, as often as a step has
them:

    LayerNorm       all of them
    attention       softmax and mask: self-attention less its own products
    MLP             GELU and biases: the MLP less its own products
    linear          biases and their gradients: the other linear layers less their products
    residual sums   forward, and of the gradients backward
    AdamW           the update
    calls           a step of one text of one token: what Python takes to call everything

A ratio is the time of a part / the time of the step's products. Parts alone find their arrays in the caches more often
than in a step, and `calls` is in each of them once more: so their sum is not the whole.
"""

import argparse

import machine
import numpy as np
import train_step

from minigpt import GPT2, ops
from minigpt.device.threads import set_threads
from minigpt.nn.optim import AdamW

SHAPES = {"4x128": "4x128, context 64, batch 12", "6x384": "6x384, context 256, batch 8"}
LESS = {"attention": "its products of attention", "MLP": "its products of the MLP", "linear": "its products of linear"}


def normal(*shape):
    """Numbers from N(0, 1) in float32."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def repeated(function, times: int):
    """A function that calls this one so many times."""

    def call():
        for _ in range(times):
            function()

    return call


def together(*functions):
    """A function that calls all of these."""

    def call():
        for function in functions:
            function()

    return call


def both_ways(op: str, *arguments):
    """A function that computes an operation forward and backward."""
    forward, backward = getattr(ops, f"{op}_forward"), getattr(ops, f"{op}_backward")
    out, _ = forward(*arguments)
    dout = np.ones_like(out)

    def call():
        _, cache = forward(*arguments)
        backward(dout, cache)

    return call


def products(*factors: tuple[np.ndarray, np.ndarray]):
    """A function that multiplies each pair."""
    work = [(a, b, np.empty((*a.shape[:-1], b.shape[-1]), np.float32)) for a, b in factors]

    def call():
        for a, b, out in work:
            np.matmul(a, b, out=out)

    return call


def of_linear(x, w):
    """The pairs of a linear layer: forward, and of both gradients."""
    dout = normal(len(x), w.shape[1])
    return (x, w), (dout, w.T), (x.T, dout)


def parts_of(config, ids, targets) -> dict:
    """{name: a function}: the step, its products, and its parts. All of them in this process, with one thread."""
    set_threads(1)
    batch, time = ids.shape
    layers, c, heads = config.n_layer, config.n_embd, config.n_head
    x, g, b = normal(batch, time, c), normal(c), normal(c)
    rows = x.reshape(-1, c)
    w1, w2, w_qkv, w_out = normal(c, 4 * c), normal(4 * c, c), normal(c, 3 * c), normal(c, c)
    hidden = normal(len(rows), 4 * c)
    q, p = normal(batch * heads, time, c // heads), normal(batch * heads, time, time)
    scores, values = (q, q.swapaxes(-1, -2)), (p, q)
    model = GPT2(config)
    optimizer = AdamW(model.named_parameters())
    step = train_step.ours(1, config, ids, targets)
    linear = together(both_ways("linear", x, w_qkv, normal(3 * c)), both_ways("linear", x, w_out, b))
    _, cache = model.loss(ids, targets)
    model.loss_backward(cache)
    return {
        "step": step,
        "products": train_step.floor(1, config, batch, time, False),
        "LayerNorm": repeated(both_ways("layernorm", x, g, b), 2 * layers + 1),
        "attention": repeated(both_ways("self_attention", normal(batch, time, 3 * c), heads), layers),
        "its products of attention": repeated(products(*[scores, values, (p.swapaxes(-1, -2), q)] * 2), layers),
        "MLP": repeated(both_ways("mlp", x, w1, normal(4 * c), w2, b), layers),
        "its products of the MLP": repeated(products(*of_linear(rows, w1), *of_linear(hidden, w2)), layers),
        "linear": repeated(linear, layers),
        "its products of linear": repeated(products(*of_linear(rows, w_qkv), *of_linear(rows, w_out)), layers),
        "residual sums": repeated(lambda: ops.add(x, x), 4 * layers),
        "AdamW": lambda: optimizer.step(1e-4),
        "calls": train_step.ours(1, config, ids[:1, :1], targets[:1, :1]),
    }


def compare(shape: str, pairs: int, least: float) -> dict[str, dict]:
    """The rows of one shape."""
    sides = parts_of(*train_step.inputs(*(train_step.SHAPES | train_step.QUICK)[shape]))
    times = machine.in_turn(sides, pairs, least)
    rows = {}
    for name, taken in times.items():
        if name == "products" or name in LESS.values():
            continue
        if name in LESS:
            taken = [whole - own for whole, own in zip(taken, times[LESS[name]], strict=True)]
        rows[name] = machine.ratio(taken, times["products"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="one tiny shape, few pairs, no file")
    options = parser.parse_args()
    rows = {}
    for name, shape in {"2x64": "2x64, context 32, batch 4"}.items() if options.quick else SHAPES.items():
        found = compare(shape, 2 if options.quick else options.pairs, 0.02 if options.quick else 0.3)
        rows |= {f"{name}: {what}": row for what, row in found.items()}
    print(machine.table(rows, machine.RATIO))
    machine.save("one_thread", rows, 1, options.quick)


if __name__ == "__main__":
    main()
