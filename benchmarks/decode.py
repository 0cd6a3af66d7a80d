"""Greedy decoding with the key-value cache against transformers, and against the speed of memory.

    python benchmarks/decode.py             # GPT-2 small, about 5 minutes on two cores
    python benchmarks/decode.py --quick     # a look at it, with a small model

Both sides have the same random weights and must write the same tokens: 64 after a prompt of 32, for one text and for
eight. Times are whole calls, the reading of the prompt included. The limit is the time to read every weight once that a
token needs, by products with a vector, in the same run: no token of one text can come sooner.
"""

import argparse
import os
import statistics
import tempfile
import time

import machine
import numpy as np

from minigpt import backend
from minigpt.gpt2 import GPT2

PROMPT, NEW = 32, 64


def reading(model):
    """A function that reads each matrix that a token needs once, on all threads."""
    names = dict(model.named_parameters())
    matrices = [p.data for name, p in names.items() if p.data.ndim == 2 and name != "wpe.weight"]
    vectors = {w.shape[1]: np.ones(w.shape[1], w.dtype) for w in matrices}

    def read():
        for w in matrices:
            backend.share(lambda rows, w=w: w[rows] @ vectors[w.shape[1]], len(w), work=w.size)

    return read


def transformers_model(model):
    """The same weights in transformers."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TRANSFORMERS_NO_ADVISORY_WARNINGS="1")
    import transformers

    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return transformers.GPT2LMHeadModel.from_pretrained(folder).eval()


def compare(model, other, batch: int, pairs: int) -> dict[str, dict]:
    """Rows for one size of batch, in seconds."""
    import torch

    ids = np.random.default_rng(batch).integers(model.config.vocab_size, size=(batch, PROMPT))
    prompt = torch.from_numpy(ids)
    options = {"do_sample": False, "max_new_tokens": NEW, "min_new_tokens": NEW, "use_cache": True, "pad_token_id": 0}
    written, of_a_step = {}, []

    def minigpt():
        tokens, ends = [], []
        for token in model.stream(ids, NEW, temperature=0):
            tokens.append(token)
            ends.append(time.perf_counter())
        written["minigpt"] = np.stack(tokens, axis=1)
        of_a_step.append(statistics.median(np.diff(ends)))  # without the first, which reads the prompt

    def transformers():
        mask = torch.ones_like(prompt)
        written["transformers"] = other.generate(prompt, attention_mask=mask, **options)[:, PROMPT:].numpy()

    with torch.no_grad():
        times = machine.in_turn({"transformers": transformers, "minigpt": minigpt, "read": reading(model)}, pairs)
    if not np.array_equal(written["minigpt"], written["transformers"]):
        raise SystemExit("the two do not write the same tokens")
    if len(np.unique(written["minigpt"])) < NEW // 2:
        raise SystemExit("the text only repeats itself: that the tokens are the same says little")
    return {
        f"batch {batch}: transformers / minigpt": machine.ratio(times["transformers"], times["minigpt"]),
        f"batch {batch}: a token of minigpt / reading": machine.ratio(of_a_step[-pairs:], times["read"]),
        f"batch {batch}: tokens per second": {
            "above": batch * NEW / statistics.median(times["transformers"]),
            "below": batch * NEW / statistics.median(times["minigpt"]),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--quick", action="store_true", help="a small model, few pairs, no file")
    options = parser.parse_args()
    machine.require("torch", "transformers")
    import torch

    backend.set_threads(options.threads)
    torch.set_num_threads(options.threads)
    sizes = {"n_layer": 2, "n_embd": 256, "n_head": 4} if options.quick else {}
    # Large weights, so that the text depends on what stands before it.
    model = GPT2(GPT2.Config(**sizes, initializer_range=0.2), seed=0)
    other, rows = transformers_model(model), {}
    for batch in (1, 8):
        rows |= compare(model, other, batch, 2 if options.quick else options.pairs)
    print(machine.table(rows, machine.RATIO))
    machine.save("decode", rows, options.threads, options.quick)


if __name__ == "__main__":
    main()
