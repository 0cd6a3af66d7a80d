"""How fast `minigpt chat` writes: beside transformers, and beside reading every weight once.

    python benchmarks/chat_speed.py                    # a model with SmolLM2's sizes and random weights, 2 minutes
    python benchmarks/chat_speed.py --model smollm2    # the real one (minigpt download smollm2), or any folder
    python benchmarks/chat_speed.py --quick            # a look at it, with a small model

Each side writes the same number of tokens after the same prompt, one text, greedily, in a process of its own that was
started as `minigpt chat` is; a figure is the median of the tokens after the first. They take turns. The other sides:

    drawn         the tokens are drawn as `minigpt chat` draws them where nothing is said: temperature and nucleus
    reading       every weight matrix is multiplied once with one row, by NumPy on the same threads, and nothing else
    narrow        minigpt with as many layers of an eighth of the width: almost nothing but Python's calls
    transformers  the model is called for each token with its own cache, without the loop of its `generate`

Then, on one thread: could weights of two bytes or one be faster? NumPy has no products of these. So a piece of a matrix
that fits the cache is widened to float32 and multiplied at once; beside it the product with float32 from memory.
"""

import argparse
import dataclasses
import os
import statistics
import tempfile
import time

import machine
import numpy as np

from minigpt import models
from minigpt.device import threads
from minigpt.device.arrays import named_dtype
from minigpt.files import hub
from minigpt.jobs.chat import ChatOptions

PROMPT, NEW = 32, 64  # tokens that are read, and written
SIZE = "smollm2-135m"
SIDES = ("minigpt", "drawn", "reading", "narrow", "transformers")
RATIOS = (("minigpt", "reading"), ("drawn", "reading"), ("narrow", "reading"), ("transformers", "minigpt"))
PIECE = 64  # rows of a matrix that are widened at a time: they stay in the cache
ENOUGH = 64  # matrices: far more than the cache holds
NARROW = ("float16", "bfloat16", "int8")


def opened(folder: str):
    """The model, and a prompt (1, PROMPT)."""
    model = models.open_model(folder)
    ids = np.random.default_rng(0).integers(model.config.vocab_size, size=(1, PROMPT))
    return model, ids


def seconds_of_a_token(tokens) -> tuple[list[int], float]:
    """The tokens that come one by one, and the median time between two."""
    written, ends = [], []
    for token in tokens:
        written.append(int(token))
        ends.append(time.perf_counter())
    return written, statistics.median(np.diff(ends))


def ours(n_threads: int, folder: str, **options):
    """A function that writes with minigpt."""
    threads.set_threads(n_threads)
    model, ids = opened(folder)

    def write():
        return seconds_of_a_token(step[0] for step in model.stream(ids, NEW, **options))

    return write


def greedy(n_threads: int, folder: str):
    """The likeliest token each time."""
    return ours(n_threads, folder, temperature=0)


def drawn(n_threads: int, folder: str):
    """The tokens that `minigpt chat` draws."""
    usual = ChatOptions(folder=folder)
    return ours(n_threads, folder, temperature=usual.temperature, top_p=usual.top_p, seed=usual.seed)


def narrow(n_threads: int, folder: str):
    """A function that writes with as many layers of an eighth of the width, and random weights."""
    model, _ = opened(folder)
    config = model.config
    sizes = {"n_embd": config.n_embd // 8, "n_inner": config.n_inner and config.n_inner // 8, "vocab_size": 1000}
    with tempfile.TemporaryDirectory() as made:
        type(model)(dataclasses.replace(config, **sizes), seed=0).save(made)
        return greedy(n_threads, made)


def reading(n_threads: int, folder: str):
    """A function that multiplies one row with every matrix as it lies in memory."""
    threads.set_threads(n_threads)
    model, _ = opened(folder)
    head = model.head.data
    matrices = [p.data for p in model.parameters() if p.data.ndim == 2 and p.data is not head]
    if head is not model.embeddings[0].weight.data:
        matrices = [w for w in matrices if w is not model.embeddings[0].weight.data]  # of which one row is read
    rows = {len(w): np.ones((1, len(w)), w.dtype) for w in (*matrices, head.T)}

    def read():
        for w in (*matrices, head.T):
            rows[len(w)] @ w

    return lambda: ([], statistics.median(machine.seconds(read) for _ in range(NEW)))


def theirs(n_threads: int, folder: str):
    """A function that writes with transformers."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TRANSFORMERS_NO_ADVISORY_WARNINGS="1")
    import torch
    import transformers

    torch.set_num_threads(n_threads)
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    _, ids = opened(folder)

    def tokens():
        given, cache = torch.from_numpy(ids), None
        for _ in range(NEW):
            out = model(given, past_key_values=cache, use_cache=True)
            cache, given = out.past_key_values, out.logits[:, -1:].argmax(dim=-1)
            yield given[0, 0]

    @torch.no_grad()
    def write():
        return seconds_of_a_token(tokens())

    return write


def compare(n_threads: int, folder: str, pairs: int) -> dict[str, dict]:
    """Rows: tokens a second of each side, and ratios of the time that one token takes."""
    builders = dict(zip(SIDES, (greedy, drawn, reading, narrow, theirs), strict=True))
    if not all(map(machine.importlib.util.find_spec, ("torch", "transformers"))):
        print("transformers is not compared with: pip install torch transformers")
        del builders["transformers"]
    sides = {name: machine.Apart(build, n_threads, folder) for name, build in builders.items()}
    machine.in_turn(sides, pairs)
    of_a_token = {name: [seconds for _, seconds in side.results[-pairs:]] for name, side in sides.items()}
    rows = {"tokens per second": {name: 1 / statistics.median(times) for name, times in of_a_token.items()}}
    for above, below in RATIOS:
        if above in sides:
            rows[f"{above} / {below}"] = machine.ratio(of_a_token[above], of_a_token[below])
    if "transformers" in sides:
        mine, other = (np.array(sides[name].results[-1][0]) for name in ("minigpt", "transformers"))
        rows["tokens that are the same"] = {"minigpt": int((mine == other).cumprod().sum())}
    return rows


# ------------------------------------------------------------------------------------------------- two bytes, and one


def fewer_bytes(n_threads: int, width: int, inner: int):
    """A function that gives rows: microseconds of a product of one row with (width, inner), and in fewer bytes."""
    threads.set_threads(n_threads)
    return lambda: _fewer_bytes(width, inner)


def _fewer_bytes(width, inner):
    rng = np.random.default_rng(0)
    wide = [rng.standard_normal((width, inner), dtype=np.float32) for _ in range(ENOUGH)]
    row = np.ones(width, np.float32)
    rows = {"float32": {"product": _microseconds(lambda: [row @ w for w in wide])}}
    for name in NARROW:
        dtype = np.dtype(np.int8) if name == "int8" else named_dtype(name)
        some = [(30 * w if name == "int8" else w).astype(dtype) for w in wide]
        rows[name] = {
            "product": _microseconds(lambda some=some: [_widened(w, row) for w in some]),
            "widening": _microseconds(lambda some=some: [_widened(w, None) for w in some]),
        }
    return rows


def _widened(w, row):
    """w (C,F) in fewer bytes: widened piece by piece; and multiplied with row (C,), if there is one."""
    out = np.zeros(w.shape[1], np.float32)
    piece = np.empty((PIECE, w.shape[1]), np.float32)
    for start in range(0, len(w), PIECE):
        part = w[start : start + PIECE]
        piece[: len(part)] = part
        if row is not None:
            out += row[start : start + len(part)] @ piece[: len(part)]
    return out


def _microseconds(function) -> float:
    function()
    return 1e6 * min(machine.seconds(function) for _ in range(5)) / ENOUGH


def random_model(folder: str, quick: bool) -> str:
    """The folder, in which a model with SmolLM2's sizes and random weights was put; quick: a small one."""
    card = models.card("llama")
    sizes = models.size("llama", "mini" if quick else SIZE)
    card.model(card.model.Config(**{"vocab_size": 1000} | sizes, initializer_range=0.1), seed=0).save(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help=f"a model directory, or a downloaded model (default: random, {SIZE})")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--quick", action="store_true", help="a small model, few pairs, no file")
    options = parser.parse_args()
    os.environ[threads.BLAS_WAITS] = threads.LONG  # of the processes that are started, as `minigpt chat` has it
    with tempfile.TemporaryDirectory() as made:
        folder = str(hub.find(options.model)) if options.model else random_model(made, options.quick)
        rows = compare(options.threads, folder, 2 if options.quick else options.pairs)
        config = models.card_in(folder).model.config_in(hub.find(folder))
    what = options.model or f"random, {SIZE}"
    print(machine.table(rows, (*machine.RATIO, *SIDES)))
    of_bytes = machine.Apart(fewer_bytes, 1, config.n_embd, config.n_inner or 4 * config.n_embd)()
    print(machine.table(of_bytes, ("product", "widening")))
    rows |= {f"one thread, {name}, microseconds": row for name, row in of_bytes.items()}
    named = {f"{what}: {name}": row for name, row in rows.items()}
    machine.save("chat_speed", named, options.threads, options.quick)


if __name__ == "__main__":
    main()
