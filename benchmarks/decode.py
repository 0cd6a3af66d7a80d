"""Greedy decoding with the key-value cache against transformers, and against the speed of memory.

    python benchmarks/decode.py             # GPT-2 small, about 12 minutes on two cores
    python benchmarks/decode.py --quick     # a look at it, with a small model

Both sides have the same random weights and must write the same tokens, to ties within rounding: 64 after a prompt of
32, for one text, four and eight; and 64 after a long prompt of 896, for one and eight. Times are whole calls, the
reading of the prompt included. A token after the first is compared with the time to read once what it needs, in the
same run: every weight, and after a long prompt the keys and values of all tokens before. (They are read by NumPy's
products with a vector, which is not the fastest way: a token of one text can come sooner.) Beside it stands the time of
the products of one row for each text with these weights, as the fast operations make them, alone.
"""

import argparse
import os
import statistics
import tempfile
import time

import machine
import numpy as np

from minigpt import GPT2, ops
from minigpt.device.threads import set_threads, share

NEW = 64  # tokens that are written
SHORT, LONG = 32, 896  # tokens of a prompt
CASES = ((1, SHORT), (4, SHORT), (8, SHORT), (1, LONG), (8, LONG))  # texts, and tokens of each prompt
TIE = 3e-3  # of the largest logit: with such large weights rounding moves a logit so far, here and in transformers
WRITERS = ("transformers", "minigpt")


def model_of(sizes: dict) -> GPT2:
    """Large weights, so that the text depends on what stands before it."""
    return GPT2(GPT2.Config(**sizes, initializer_range=0.2), seed=0)


def prompt(sizes: dict, batch: int, length: int) -> np.ndarray:
    """ids (batch, length)"""
    return np.random.default_rng(batch).integers(GPT2.Config(**sizes).vocab_size, size=(batch, length))


def ours(threads: int, sizes: dict, batch: int, length: int):
    """A function that writes, and returns the tokens and the seconds that one takes after the first."""
    set_threads(threads)
    model, ids = model_of(sizes), prompt(sizes, batch, length)

    def write():
        tokens, ends = [], []
        for token in model.stream(ids, NEW, temperature=0):
            tokens.append(token)
            ends.append(time.perf_counter())
        return np.stack(tokens, axis=1), statistics.median(np.diff(ends))

    return write


def theirs(threads: int, sizes: dict, batch: int, length: int):
    """A function that writes with transformers, which has the same weights, and returns the tokens."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TRANSFORMERS_NO_ADVISORY_WARNINGS="1")
    import torch
    import transformers

    torch.set_num_threads(threads)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        model_of(sizes).save(folder)
        model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.from_numpy(prompt(sizes, batch, length))
    options = {"do_sample": False, "max_new_tokens": NEW, "min_new_tokens": NEW, "use_cache": True, "pad_token_id": 0}

    @torch.no_grad()
    def write():
        return model.generate(ids, attention_mask=torch.ones_like(ids), **options)[:, length:].numpy()

    return write


def matrices_of(sizes: dict) -> list[np.ndarray]:
    """The matrices (I,O) that a token needs: those of the layers, and that of the head."""
    named = [(name, p.data) for name, p in model_of(sizes).named_parameters() if p.data.ndim == 2]
    return [w.T if name == "wte.weight" else w for name, w in named if name != "wpe.weight"]


def past_of(sizes: dict, batch: int, length: int) -> list[np.ndarray]:
    """As many keys and values as a token reads of those before it: (batch * tokens, C) for each layer, twice."""
    config = GPT2.Config(**sizes)
    tokens = length + NEW // 2  # half-way through what is written
    return [np.ones((batch * tokens, config.n_embd), np.float32) for _ in range(2 * config.n_layer)]


def reading(threads: int, sizes: dict, batch: int, length: int):
    """A function that reads once what a token needs, on all threads: each matrix, and a long past."""
    set_threads(threads)
    matrices = [w if w.flags.c_contiguous else w.T for w in matrices_of(sizes)]
    if length > SHORT:
        matrices += past_of(sizes, batch, length)
    vectors = {w.shape[1]: np.ones(w.shape[1], w.dtype) for w in matrices}

    def read():
        for w in matrices:
            share(lambda rows, w=w: w[rows] @ vectors[w.shape[1]], len(w), work=w.size)

    return read


def products(threads: int, sizes: dict, batch: int):
    """A function that multiplies one row for each text with these matrices, and does nothing else."""
    set_threads(threads)
    matrices = matrices_of(sizes)
    rows = {len(w): np.ones((batch, len(w)), w.dtype) for w in matrices}

    def multiply():
        for w in matrices:
            ops.linear_forward(rows[len(w)], w)

    return multiply


def check_same(sizes: dict, prompts: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Ends the program where the two wrote other tokens, unless the first that differs was a tie to rounding.

    prompts (batch, length), ours and theirs (batch, NEW). After such a tie the two texts have nothing in common.
    """
    for before, mine, other in zip(prompts, ours, theirs, strict=True):
        differ = np.flatnonzero(mine != other)
        if not len(differ):
            continue
        first = differ[0]
        ids = np.concatenate([before, mine[:first]])
        logits, _ = model_of(sizes).forward(ids[None], grad=False)
        gap = abs(logits[0, -1, mine[first]] - logits[0, -1, other[first]])
        if gap > TIE * np.abs(logits[0, -1]).max():
            raise SystemExit(f"the two do not write the same tokens: token {first} differs, by {gap:.3g} in its logit")


def compare(threads: int, sizes: dict, batch: int, length: int, pairs: int) -> dict[str, dict]:
    """Rows for one size of batch and one length of the prompts, in seconds."""
    sides = {
        "transformers": machine.Apart(theirs, threads, sizes, batch, length),
        "minigpt": machine.Apart(ours, threads, sizes, batch, length),
        "read": machine.Apart(reading, threads, sizes, batch, length),
        "products": machine.Apart(products, threads, sizes, batch),
    }
    times = machine.in_turn(sides, pairs)
    tokens, of_a_step = zip(*sides["minigpt"].results[-pairs:], strict=True)
    for written, expected in zip(tokens, sides["transformers"].results[-pairs:], strict=True):
        check_same(sizes, prompt(sizes, batch, length), written, expected)
    if len(np.unique(tokens[-1])) < NEW // 2:
        raise SystemExit("the text only repeats itself: that the tokens are the same says little")
    case = f"batch {batch}" if length == SHORT else f"batch {batch} after {length} tokens"
    return {
        f"{case}: transformers / minigpt": machine.ratio(times["transformers"], times["minigpt"]),
        f"{case}: a token of minigpt / reading": machine.ratio(of_a_step, times["read"]),
        f"{case}: a token of minigpt / its products": machine.ratio(of_a_step, times["products"]),
        f"{case}: its products / reading": machine.ratio(times["products"], times["read"]),
        f"{case}: tokens per second": {side: batch * NEW / statistics.median(times[side]) for side in WRITERS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--case", type=int, choices=range(len(CASES)), nargs="+", default=range(len(CASES)),
                        help="only these, counted from 0: 1, 4 and 8 texts; 1 and 8 after a long prompt")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a small model, few pairs, no file")
    options = parser.parse_args()
    machine.require("torch", "transformers")
    sizes, rows = {"n_layer": 2, "n_embd": 256, "n_head": 4} if options.quick else {}, {}
    for number in options.case:
        batch, length = CASES[number]
        pairs = 2 if options.quick else options.pairs if length == SHORT else min(options.pairs, 5)
        rows |= compare(options.threads, sizes, batch, length, pairs)
    print(machine.table(rows, (*machine.RATIO, *WRITERS)))
    machine.save("decode", rows, options.threads, options.quick)


if __name__ == "__main__":
    main()
