"""A real model of today's form, SmolLM2-135M-Instruct: how it answers one question (lesson 37).

    minigpt download smollm2
    python benchmarks/real_llama.py          # some minutes; the same numbers on every machine, to four digits
    python benchmarks/real_llama.py --quick  # without the heads and without the check in float64; no file

The question is put into the model's own template. Everything is told of one prediction: the word after "The capital of
France is".
"""

import argparse
import contextlib
from typing import Any

import machine
import numpy as np

from minigpt import models, ops
from minigpt.device.threads import set_threads
from minigpt.explorer.named_pass import watching

DIGITS = 5
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
COUNTRIES = {"France": " Paris", "Germany": " Berlin", "Italy": " Rome", "Japan": " Tokyo"}
ANSWER = "The capital of France is Paris."
CAT = "Write one sentence about a cat."
TEMPERATURES = (0.0, 0.7, 1.5)
PARTS = {"tokens": "tokens_embed", "attention": ".attn.", "MLP": ".mlp.", "norms": "ln_"}
EPS = 1e-5


def in_template(question: str) -> str:
    """The text around a question that this model has learned from."""
    turns = (("system", SYSTEM), ("user", question))
    told = "".join(f"<|im_start|>{who}\n{what}<|im_end|>\n" for who, what in turns)
    return told + "<|im_start|>assistant\n"


def question(country: str) -> str:
    """In the template, with the answer up to the word that is predicted."""
    return in_template(f"What is the capital of {country}?") + f"The capital of {country} is"


def probabilities(logits: np.ndarray) -> np.ndarray:
    """(V,) -> (V,)"""
    p, _ = ops.softmax_forward(logits.astype(np.float64))
    return p


def best(text, p: np.ndarray, n: int = 3) -> list[list]:
    """The n likeliest tokens as text, with their probabilities."""
    return [[text.decode([int(i)]), round(float(p[i]), DIGITS)] for i in np.argsort(-p)[:n]]


def states(model, ids: list[int]) -> list[np.ndarray]:
    """The residual stream (1,T,C) in front of the first block, and behind each."""
    modules = {f"h.{i}": block for i, block in enumerate(model.h)}
    with watching(modules | {"tokens": model.tokens_embed}) as seen:
        model.hidden(np.array([ids]), grad=False)
    return [seen["tokens"].out, *(seen[name].out for name in modules)]


def lens(model, text, ids: list[int], word: int) -> dict[str, Any]:
    """What the head would say of each stream: the rank and the probability of a word, the best words, and norms."""
    rows: dict[str, list] = {"rank": [], "p": [], "best": [], "norm, last": [], "norm, first": []}
    for x in states(model, ids):
        h, _ = model.ln_f.forward(x[:, -1:])
        p = probabilities(model.scores_of(h)[0, -1])
        rows["rank"].append(int((p > p[word]).sum()))
        rows["p"].append(round(float(p[word]), DIGITS))
        rows["best"].append(best(text, p))
        rows["norm, last"].append(round(float(np.linalg.norm(x[0, -1])), 1))
        rows["norm, first"].append(round(float(np.linalg.norm(x[0, 0])), 1))
    return rows


def loss_of(model, ids: list[int], word: int, **inputs) -> float:
    """-log p of a word behind these ids, in nats."""
    logits, _ = model.forward(np.array([ids]), grad=False, **inputs)
    return -float(np.log(probabilities(logits[0, -1])[word]))


def without_each_head(model, ids: list[int], word: int) -> np.ndarray:
    """(blocks,heads): by how much -log p grows where what one head has read is taken away."""
    whole = loss_of(model, ids, word)
    size = model.config.head_size
    found = np.zeros((len(model.h), model.config.n_head))
    for i, block in enumerate(model.h):
        weight = block.attn.c_proj.weight.data
        for head in range(model.config.n_head):
            rows = slice(head * size, (head + 1) * size)
            kept = weight[rows].copy()
            weight[rows] = 0
            found[i, head] = loss_of(model, ids, word) - whole
            weight[rows] = kept
    return found


def read_by_heads(model, ids: list[int]) -> np.ndarray:
    """(blocks,NH*D): what the heads of each block have read at the last place, side by side."""
    with watching({f"h.{i}": block.attn.c_proj for i, block in enumerate(model.h)}) as seen:
        model.hidden(np.array([ids]), grad=False)
    return np.array([projection.x[0, -1] for projection in seen.values()])


@contextlib.contextmanager
def exchanged(model, block: int, head: int, read: np.ndarray):
    """Inside, one head of one block has read at the last place what is given for it (D,)."""
    projection, size = model.h[block].attn.c_proj, model.config.head_size
    forward = projection.forward

    def with_another(x):
        x = x.copy()
        x[0, -1, head * size : (head + 1) * size] = read
        return forward(x)

    projection.forward = with_another
    try:
        yield
    finally:
        del projection.forward


def exchanges(model, ids: dict[str, list[int]], words: dict[str, int]) -> np.ndarray:
    """(blocks,heads): p of Berlin where one head of the question about France has read what it reads for Germany."""
    size, n_head = model.config.head_size, model.config.n_head
    read = read_by_heads(model, ids["Germany"]).reshape(-1, n_head, size)
    found = np.zeros(read.shape[:2])
    for block, head in np.ndindex(*found.shape):
        with exchanged(model, block, head, read[block, head]):
            logits, _ = model.forward(np.array([ids["France"]]), grad=False)
        found[block, head] = probabilities(logits[0, -1])[words["Germany"]]
    return found


def to_each(model, place: tuple[int, int], ids: dict[str, list[int]], words: dict[str, int]) -> dict[str, list[float]]:
    """{country: p of each capital} of the question about France, whose head at this place reads for that country."""
    size, n_head = model.config.head_size, model.config.n_head
    found = {}
    for country, other in ids.items():
        read = read_by_heads(model, other).reshape(-1, n_head, size)
        with exchanged(model, *place, read[place]):
            logits, _ = model.forward(np.array([ids["France"]]), grad=False)
        p = probabilities(logits[0, -1])
        found[country] = [round(float(p[word]), DIGITS) for word in words.values()]
    return found


def attention(model, ids: list[int]) -> np.ndarray:
    """(blocks,heads,T,T): the shares of every head, from the queries and keys of the model, turned."""
    t, n_head, n_kv_head = len(ids), model.config.n_head, model.config.n_kv_head
    size, n_turned = model.config.head_size, n_head + n_kv_head
    angles = np.arange(t)[:, None] * model.frequencies
    turns = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    with watching({f"h.{i}": block.attn.c_attn for i, block in enumerate(model.h)}) as seen:
        model.hidden(np.array([ids]), grad=False)
    found = []
    for projection in seen.values():
        heads = projection.out.reshape(1, t, -1, size)
        heads, _ = ops.rope_forward(heads, **turns, heads=n_turned)
        q = heads[0, :, :n_head].swapaxes(0, 1)
        k = heads[0, :, n_head:n_turned].swapaxes(0, 1).repeat(n_head // n_kv_head, axis=0)
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(size)
        p, _ = ops.softmax_forward(np.where(np.tri(t, dtype=bool), scores, -np.inf))
        found.append(p)
    return np.array(found)


def gradients(model, ids: list[int], word: int) -> list[float]:
    """The length of the gradient of -log p with respect to the vector of each token of the prompt."""
    targets = np.full((1, len(ids)), ops.IGNORED)
    targets[0, -1] = word
    with watching({"tokens": model.tokens_embed}) as seen:
        _, cache = model.loss(np.array([ids]), targets)
        model.zero_grad()
        model.loss_backward(cache)
    return [round(float(one), DIGITS) for one in np.linalg.norm(seen["tokens"].dout[0], axis=-1)]


def check(ids: list[int], word: int) -> dict[str, float]:
    """In float64: how the loss changes along one random direction of all weights, and what the gradient says of it."""
    model = models.open_model("smollm2", dtype=np.float64)
    targets = np.full((1, len(ids)), ops.IGNORED)
    targets[0, -1] = word
    _, cache = model.loss(np.array([ids]), targets)
    model.zero_grad()
    model.loss_backward(cache)
    rng = np.random.default_rng(0)
    expected = 0.0
    directions = []
    for _, parameter in model.named_parameters():
        direction = rng.standard_normal(parameter.data.shape).astype(np.float32)
        direction *= np.float32(parameter.data.std())
        expected += float((parameter.grad * direction).sum())
        directions.append(direction)
    losses = []
    for step in (EPS, -2 * EPS, EPS):
        for (_, parameter), direction in zip(model.named_parameters(), directions, strict=True):
            parameter.data += step * direction
        losses.append(loss_of(model, ids, word))
    return {"by the gradient": expected, "by differences": (losses[0] - losses[1]) / (2 * EPS)}


def answers(model, text) -> dict[str, str]:
    """What is written at several temperatures, seed 0; and behind the bare question, without a template."""
    stop = text.ids["<|im_end|>"]
    found = {}
    for temperature in TEMPERATURES:
        ids = text.encode(in_template(CAT))
        out = model.generate(np.array([ids]), 40, temperature=temperature, seed=0, stop=stop)[0, len(ids) :]
        found[f"temperature {temperature}"] = text.decode([int(i) for i in out if i != stop])
    ids = text.encode("What is the capital of France?")
    out = model.generate(np.array([ids]), 20, temperature=0)[0, len(ids) :]
    found["without a template"] = text.decode(out.tolist())
    return found


def measure(model, text, quick: bool) -> dict[str, Any]:
    """The rows of the record."""
    questions = {country: text.encode(question(country)) for country in COUNTRIES}
    words = {country: text.encode(capital)[0] for country, capital in COUNTRIES.items()}
    ids, word = questions["France"], words["France"]
    prompt = text.encode(in_template("What is the capital of France?"))
    answer = text.encode(ANSWER)
    sizes = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        sizes[next(part for part, key in PARTS.items() if key in name)] += parameter.data.size
    looks = attention(model, ids)
    logits, _ = model.forward(np.array([prompt + answer]), grad=False)
    given = [float(probabilities(row)[i]) for row, i in zip(logits[0, len(prompt) - 1 :], answer, strict=False)]
    seen = np.tri(len(ids), dtype=bool)
    seen[1:, 0] = False  # the first token is hidden from all others
    rows = {
        "sizes": sizes,
        "prompt": {"ids": prompt, "pieces": [text.decode([i]) for i in ids]},
        "answer": {"text": ANSWER, "p": [round(one, DIGITS) for one in given]},
        "lens": lens(model, text, ids, word),
        "looks": {"first": looks[:, :, -1, 0].astype(float).round(DIGITS).tolist()},
        "gradient": {"norms": gradients(model, ids, word)},
        "first token hidden": {"before": loss_of(model, ids, word), "after": loss_of(model, ids, word, mask=seen)},
        "texts": answers(model, text),
    }
    if not quick:
        effects = without_each_head(model, ids, word)
        block, head = (int(i) for i in np.unravel_index(effects.argmax(), effects.shape))
        rows["heads"] = {"effects": effects.round(4).tolist()}
        rows["strongest"] = {"looks": looks[block, head, -1].astype(float).round(DIGITS).tolist()}
        rows["exchanges"] = {"p of Berlin": exchanges(model, questions, words).round(4).tolist()}
        rows["one head exchanged"] = to_each(model, (block, head), questions, words)
        rows["check"] = check(ids, word)
    return rows


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the quick half, no file")
    options = parser.parse_args()
    set_threads(2)
    model, text = models.open_both("smollm2")
    rows = measure(model, text, options.quick)
    for name, row in rows.items():
        print(name, str(row)[:300])
    machine.save("real_llama", rows, 1, options.quick)


if __name__ == "__main__":
    main()
