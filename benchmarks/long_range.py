"""Who remembers what was told long ago? A Transformer and an LSTM on stories, and Transformers on shuffled ones.

    python benchmarks/long_range.py              # three seeds, half an hour on one core; goes on where it was stopped
    python benchmarks/long_range.py --quick      # 20 updates of each, no file
    python benchmarks/long_range.py --words      # only counts which words `recall` is about, at each distance

Four small models of about as many parameters learn the smallest world of stories (`stories:N:1`) for as many updates:

- transformer: a GPT-1;
- lstm: an LSTM;
- shuffled inside: a GPT-1 that reads the same stories, the sentences of each in random order;
- shuffled across: a GPT-1 that reads the same sentences, dealt out to the stories at random. (So are the sentences of
  the 1B Word Benchmark, which GPT-1's paper, section 4.1, did not take for this reason.)

Then all read held-out stories as they were told.

`recall`: at each toy, place or animal that was named before in the same story, is the right one the likeliest among the
words of its kind? Counted by the distance to where it was named last, in tokens. `endings`: the last sentence of a
story, and the last one of another story that begins with the same name: which has the higher mean log-probability?
"""

import argparse
import json
import random
import re
from itertools import islice

import machine
import numpy as np

from minigpt import GPT1, data, load_tokenizer
from minigpt.data import stories
from minigpt.data.examples import Example
from minigpt.data.stories import words
from minigpt.device.threads import set_threads
from minigpt.evaluation.zero_shot import choice_scores
from minigpt.learn import reference
from minigpt.models.lstm import LSTM, LSTMConfig
from minigpt.nn.optim import GPT1Adam
from minigpt.nn.schedules import warmup_cosine

VARIETY, N_STORIES, N_HELD_OUT = 1, 10_000, 300
NAMES = {child.name for child in words.CHILDREN}
CONTEXT, BATCH, UPDATES, WARMUP, BETA2 = 128, 12, 1200, 0.1, 0.99
NO_DROPOUT = {"embd_pdrop": 0.0, "resid_pdrop": 0.0}
GPT = {"n_positions": CONTEXT, "n_embd": 128, "n_layer": 2, "n_head": 4, "attn_pdrop": 0.0}
CELLS = {"n_positions": CONTEXT, "n_embd": 104}
RATES = {"transformer": 4e-3, "shuffled across": 4e-3, "lstm": 8e-3, "shuffled inside": 4e-3}
BINS = (1, 8, 16, 32, 64, CONTEXT)  # distances: up to 8 tokens, up to 16, ...
SEEDS = 3


def told(split, n):
    """The first n stories of a split, each a list of sentences."""
    every = (stories.story(i, variety=VARIETY) for i in range(10**9))
    wanted = islice((story for story in every if stories.split_of(story.text) == split), n)
    return [[sentence.text for sentence in story.sentences] for story in wanted]


def shuffled(texts, across):
    """The same sentences in random order: inside each story, or across all of them (stories keep their sizes)."""
    chance = random.Random(0)
    if not across:
        return [chance.sample(sentences, len(sentences)) for sentences in texts]
    deck = [sentence for sentences in texts for sentence in sentences]
    chance.shuffle(deck)
    dealt = iter(deck)
    return [list(islice(dealt, len(sentences))) for sentences in texts]


def encoded(text, texts):
    """Each story as a row of ids, behind the token that begins a story."""
    return [[text.start_id, *text.encode(" ".join(sentences))] for sentences in texts]


def model_of(name, vocab_size, seed):
    """A new model."""
    if name == "lstm":
        return LSTM(LSTMConfig(vocab_size=vocab_size, **CELLS, **NO_DROPOUT), seed=seed)
    return GPT1(GPT1.Config(vocab_size=vocab_size, **GPT, **NO_DROPOUT), seed=seed)


def train(model, rows, rate, seed, updates):
    """Every window begins where a story begins."""
    tokens = np.concatenate(rows)
    begins = np.cumsum([0, *map(len, rows)])[:-1]
    begins = begins[begins < len(tokens) - CONTEXT - 1]
    optimizer = GPT1Adam(model.named_parameters(), betas=(0.9, BETA2))
    for step in range(updates):
        ids, targets = data.batch(tokens, BATCH, CONTEXT, seed, step, begins, share=1.0)
        model.zero_grad()
        _, cache = model.loss(ids, targets)
        model.loss_backward(cache)
        optimizer.step(rate * warmup_cosine(step / updates, WARMUP), max_norm=1.0)


def kinds_of_words(text):
    """{kind: the ids of its words that are one token}."""
    kinds = {}
    for kind, members in (("toys", words.TOYS), ("places", words.PLACES), ("animals", words.ANIMALS)):
        coded = [text.encode(" " + word) for word in members]
        kinds[kind] = np.array([ids[0] for ids in coded if len(ids) == 1])
    return kinds


def named_again(story, ids_of):
    """(place, "up to 8") for each word among ids_of, at place + 1 of a story (T+1,), that was named before."""
    for place in np.flatnonzero(np.isin(story[1:], ids_of)):
        before = np.flatnonzero(story[: place + 1] == story[place + 1])
        if len(before) == 0:
            continue
        distance = place + 1 - before[-1]
        yield place, f"up to {next(end for end in BINS[1:] if distance <= end)}"


def recall(model, rows, text):
    """{"up to 8": [right, all], ...} for words that were named before."""
    found = {f"up to {end}": [0, 0] for end in BINS[1:]}
    for ids_of in kinds_of_words(text).values():
        for row in rows:
            story = np.array(row[: CONTEXT + 1])
            logits, _ = model.forward(story[None, :-1], grad=False)
            for place, distance in named_again(story, ids_of):
                likeliest = ids_of[logits[0, place, ids_of].argmax()]
                found[distance][0] += int(likeliest == story[place + 1])
                found[distance][1] += 1
    return found


def show_words(rows, text):
    """Which words are named again at each distance, and how often no other word of the kind came between."""
    found = {f"up to {end}": [] for end in BINS[1:]}
    for kind, ids_of in kinds_of_words(text).items():
        for row in rows:
            story = np.array(row[: CONTEXT + 1])
            for place, distance in named_again(story, ids_of):
                of_kind = story[: place + 1][np.isin(story[: place + 1], ids_of)]
                found[distance].append((kind, of_kind[-1] == story[place + 1]))
    print(f"{'tokens back':12} {'words':>6} {'toys':>6} {'places':>7} {'animals':>8} {'the last of its kind':>22}")
    for distance, every in found.items():
        shares = [np.mean([kind == one for one, _ in every]) for kind in ("toys", "places", "animals")]
        last = np.mean([is_last for _, is_last in every])
        print("{:12} {:6} {:6.0%} {:7.0%} {:8.0%} {:22.0%}".format(distance, len(every), *shares, last))


def endings(model, text, texts):
    """The share of stories whose own last sentence is likelier than that of the next story with the same first name."""
    by_name = {}
    for sentences in texts:
        name = next(word for word in re.findall("[A-Z][a-z]+", " ".join(sentences)) if word in NAMES)
        by_name.setdefault(name, []).append(sentences)
    examples = []
    for group in by_name.values():
        for own, other in zip(group, group[1:] + group[:1], strict=True):
            if own[-1] != other[-1]:
                examples.append(Example((" ".join(own[:-1]),), 0, (own[-1], other[-1])))
    return float((choice_scores(model, text, examples).argmax(axis=1) == 0).mean())


def loss_of(model, rows):
    """The loss on held-out stories, in nats per token."""
    total = count = 0.0
    for row in rows:
        ids = np.array([row[: CONTEXT + 1]])
        loss, _ = model.loss(ids[:, :-1], ids[:, 1:], grad=False)
        total += float(loss) * (ids.shape[1] - 1)
        count += ids.shape[1] - 1
    return total / count


def show(key, row) -> None:
    """Print one run."""
    print(f"{key}: {row['parameters']:,} parameters, loss {row['loss']:.3f}, endings {row['endings']:.0%}; recall")
    for distances, (right, total) in row["recall"].items():
        print(f"    {distances}: {right / max(1, total):.1%} of {total}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--quick", action="store_true", help="20 updates of each, no file")
    parser.add_argument("--words", action="store_true", help="only count the words at each distance")
    options = parser.parse_args()
    set_threads(1)
    text = load_tokenizer(reference.folder())
    if options.words:
        show_words(encoded(text, told("valid", N_HELD_OUT)), text)
        return
    path = machine.RESULTS / "long_range.json"
    done = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() and not options.quick else {}
    n = 500 if options.quick else N_STORIES
    train_texts, valid_texts = told("train", n), told("valid", 30 if options.quick else N_HELD_OUT)
    rows = {
        "as told": encoded(text, train_texts),
        "shuffled inside": encoded(text, shuffled(train_texts, across=False)),
        "shuffled across": encoded(text, shuffled(train_texts, across=True)),
    }
    held_out = encoded(text, valid_texts)
    for seed in range(1 if options.quick else options.seeds):
        for name, rate in RATES.items():
            key = f"{name}, seed {seed}"
            if key in done:
                continue
            model = model_of(name, text.vocab_size, seed)
            train(model, rows.get(name, rows["as told"]), rate, seed, 20 if options.quick else UPDATES)
            row = {"parameters": sum(parameter.data.size for parameter in model.parameters())}
            row |= {"loss": loss_of(model, held_out), "endings": endings(model, text, valid_texts)}
            row |= {"recall": recall(model, held_out, text)}
            show(key, row)
            machine.save("long_range", {key: row}, 1, quick=options.quick)


if __name__ == "__main__":
    main()
