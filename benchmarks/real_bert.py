"""A published BERT, all-MiniLM-L6-v2: the pieces of a sentence, what its heads look at, and cosines (lesson 26).

    minigpt download minilm
    python benchmarks/real_bert.py           # a second; the same numbers on every machine, to four digits
    python benchmarks/real_bert.py --quick   # prints them, no file

A share is the mean over the heads' queries at words of the twelve texts. The first and the last word of a text are left
out: a neighbour of theirs is [CLS] or [SEP], and no share shall count twice.
"""

import argparse

import machine
import numpy as np

from minigpt import models, ops
from minigpt.device.threads import set_threads
from minigpt.explorer.named_pass import watching
from minigpt.models.text_vectors import text_vectors

DIGITS = 5
PLACES = ("[CLS]", "[SEP]", "itself", "before", "after")
SENTENCE = "Unfortunately, the tokenizer cut kimchi into pieces."
TEXTS = (
    "The old man walked slowly to the harbour and looked at the boats.",
    "She opened the window because the room was too warm.",
    "Water boils at a lower temperature on a high mountain.",
    "Our team won the match in the last minute, and the crowd cheered.",
    "The museum is closed on Mondays, but the garden is open every day.",
    "He forgot his umbrella on the train and came home wet.",
    "A tokenizer cuts rare words into smaller pieces.",
    "The price of bread has risen again this year.",
    "They planted three apple trees behind the house.",
    "When the music stopped, the children ran back to their chairs.",
    "The doctor said that the boy would be well again in a week.",
    "Only the painter knew the colour of the door.",
)
COMPARED = ("The boy feeds his dog.", "A child gives food to a puppy.", "The bank lowers its rates.")


def attention(model, ids: list[int]) -> np.ndarray:
    """ids (T,) -> p (blocks,heads,T,T), the attention of each block, from the queries and keys that it computes"""
    with watching({f"h.{i}": block.attn.c_attn for i, block in enumerate(model.h)}) as seen:
        model.hidden(np.array([ids]), grad=False)
    of_blocks = []
    for projection in seen.values():
        q, k, _ = (ops.split_heads(part, model.config.n_head) for part in np.split(projection.out, 3, axis=-1))
        p, _ = ops.softmax_forward(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5)
        of_blocks.append(p[0])
    return np.array(of_blocks)


def shares(p: np.ndarray) -> np.ndarray:
    """p (blocks,heads,T,T) -> (PLACES,blocks,heads): the share of the attention that goes to each of PLACES"""
    t = p.shape[-1]
    query = np.arange(2, t - 2)
    keys = (np.zeros_like(query), np.full_like(query, t - 1), query, query - 1, query + 1)
    return np.array([p[..., query, key].mean(axis=-1) for key in keys])


def measure(model, text) -> dict[str, dict]:
    """The rows: a sentence with its pieces, the shares of each block's heads, three sentences with their cosines."""
    ids, _ = text.encode_pair(SENTENCE)
    rows = {"pieces": {"text": SENTENCE, "pieces": [text.tokens[i] for i in ids]}}
    wrapped = [text.encode_pair(one)[0] for one in TEXTS]
    looked = np.mean([shares(attention(model, one)) for one in wrapped], axis=0).astype(float).round(DIGITS)
    rows["texts"] = {"texts": list(TEXTS), "even share": round(np.mean([1 / len(one) for one in wrapped]), DIGITS)}
    for block in range(looked.shape[1]):
        rows[f"block {block + 1}"] = dict(zip(PLACES, looked[:, block].tolist(), strict=True))
    vectors = text_vectors(model, [text.encode_pair(one)[0] for one in COMPARED])
    cosines = (vectors @ vectors.T).astype(float).round(DIGITS)
    rows["cosines"] = dict(zip(COMPARED, cosines.tolist(), strict=True))
    return rows


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no file")
    options = parser.parse_args()
    set_threads(1)
    model, text = models.open_both("minilm")
    rows = measure(model, text)
    print(" ".join(rows["pieces"]["pieces"]))
    means = {f"block {n}": {place: np.mean(rows[f"block {n}"][place]) for place in PLACES} for n in range(1, 7)}
    print(machine.table(means, PLACES))
    for one, cosines in rows["cosines"].items():
        print(f"{one:32}", *(f"{cosine:6.2f}" for cosine in cosines))
    machine.save("real_bert", rows, 1, options.quick)


if __name__ == "__main__":
    main()
