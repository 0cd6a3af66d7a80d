"""Tasks that nobody trained the model for (GPT-2 §2 and §3): each is a text, and the question is how likely it is."""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt import models
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError
from minigpt.evaluation.metrics import wilson
from minigpt.evaluation.scoring import continuations, credits, log_probabilities, mean_interval, opening, substitute
from minigpt.files import sections
from minigpt.files.disk import read_text, write_text
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

Example = tuple[str, str]  # what is given, what is wanted
Choice = tuple[str, Sequence[str], int]  # a context, or a text with [MASK]; the choices; the index of the right one

DETOKENIZERS = {  # benchmark -> (regular expression, what takes its place), one after the other
    name: [line.split(" -> ") for line in lines]
    for name, lines in sections.read(__file__, "detokenizers.txt").items()
}


class Measure(NamedTuple):
    """A number, its 95 % interval, and of how many of what it was taken."""

    name: str
    value: float
    low: float
    high: float
    n: int
    of: str = "item"


class Report(NamedTuple):
    """What a task found; notes that belong to the numbers; the texts that the model wrote, where it wrote any."""

    measures: list[Measure]
    notes: list[str]
    outputs: Sequence[str] = ()

    def __str__(self) -> str:
        rows = [("", "value", "95 % interval", "n")]
        for name, *values, n, of in self.measures:
            forms = [".4f" if abs(x) < 10 else ",.2f" if abs(x) < 1e6 else ".3g" for x in values]
            value, low, high = map(format, values, forms)
            rows.append((name, value, f"{low} to {high}", f"{n:,} {of}{'s' * (n != 1)}"))
        return "\n".join([f"{a:<32}{b:>10}   {c:<26}{d}".rstrip() for a, b, c, d in rows] + self.notes)


def _accuracy(name: str, right: Sequence[float]) -> Measure:
    return Measure(name, sum(right) / len(right), *wilson(sum(right), len(right)), len(right))


def _exp(values: Sequence[float]) -> list[float]:
    return [math.exp(x) if x < 700 else math.inf for x in values]


def _cut(cuts: Sequence[int]) -> list[str]:
    n = sum(cut > 0 for cut in cuts)
    return [f"{n:,} of {len(cuts):,} texts exceed the model's context: their oldest tokens were cut off"] if n else []


def plain(text: str, name: str) -> str:
    """The text as people write it: undoes the word splitting of "wikitext", "ptb" or "lambada"; "none" undoes none."""
    if name not in DETOKENIZERS:
        raise InputError(f"unknown de-tokeniser {name!r}: choose {', '.join(DETOKENIZERS)}")
    for pattern, replacement in DETOKENIZERS[name]:
        text = re.sub(pattern, replacement, text)
    return text


def perplexity(
    model: LanguageModel, tokenizer: Tokenizer, text: str, *, context: int | None = None, stride: int | None = None,
    detokenize: str = "none",
) -> Report:
    """How well a text is predicted, per token, and per word, line end, byte and character of the text as it came.

    A window of `context` tokens (all the model's positions) moves on by `stride` (the context), and each token is
    scored in the first window that has it: after context - stride tokens at least, once there are so many. The unit is
    changed before the exponential: exp(NLL / words). Intervals: normal, of the mean NLL, over windows.
    """
    positions = model.config.n_positions
    context = positions if context is None else context
    if not 1 <= context <= positions:
        raise InputError(f"--context {context}: this model has {positions} positions: choose 1 to {positions}")
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise InputError(f"--stride {stride}: choose 1 to {context}, the context, or tokens would be left out")
    tokens = tokenizer.encode(plain(text, detokenize))
    if len(tokens) < 2:
        raise InputError(f"the text has {len(tokens)} token{'s' * (len(tokens) != 1)}: give two or more")
    ids = np.array(opening(tokenizer) + tokens)
    begins = range(0, max(1, len(ids) - 1 - context + stride), stride)
    starts = [1 if begin == 0 else context - stride + 1 for begin in begins]
    scored = log_probabilities(model, [ids[begin : begin + context + 1] for begin in begins], starts)
    counts = [len(one.log_p) for one in scored]
    nats = np.array(mean_interval([-one.total for one in scored], counts)) * sum(counts)
    words, n_bytes = len(text.split()), len(text.encode("utf-8", "surrogatepass"))
    units = {"token": sum(counts), "word": words, "word and line end": words + text.count("\n")}
    measures = [Measure(f"perplexity per {unit}", *_exp(nats / n), n, unit) for unit, n in units.items() if n]
    for unit, n in (("byte", n_bytes), ("character", len(text))):
        measures.append(Measure(f"bits per {unit}", *(nats / n / math.log(2)).tolist(), n, unit))
    notes = [f"context {context}, stride {stride}: {len(begins):,} windows; de-tokeniser: {detokenize}"]
    if unknown := tokenizer.count_unknown(tokens):
        notes.append(f"{unknown:,} of {len(tokens):,} tokens are unknown: what they stand for was not predicted")
    return Report(measures, notes)


LAST_WORD = re.compile(r"(?<=\S)\s+\S+(?=\s*$)")  # with the space before it


def lambada(
    model: LanguageModel, tokenizer: Tokenizer, passages: Sequence[str], *, detokenize: str = "none"
) -> Report:
    """The last word of each passage (right if all its tokens are the likeliest), and, as OpenAI scored, its last token.

    Perplexity: exp of the mean of -log P, of the whole word or of its last token.
    """
    passages = [plain(passage, detokenize) for passage in passages]
    words = [LAST_WORD.search(passage) for passage in passages]
    if None in words:
        raise InputError(f"passage {words.index(None) + 1} is one word after --detokenize {detokenize}: leave it out")
    pairs = [(passage[: word.start()], word.group()) for passage, word in zip(passages, words, strict=True)]
    scored, measures = continuations(model, tokenizer, pairs), []
    for unit, part in (("word", slice(None)), ("token", slice(-1, None))):
        measures.append(_accuracy(f"last {unit}, accuracy", [bool(one.greedy[part].all()) for one in scored]))
        nats = mean_interval([-one.log_p[part].sum() for one in scored])
        measures.append(Measure(f"last {unit}, perplexity", *_exp(nats), len(scored)))
    return Report(measures, _cut([one.cut for one in scored]))


def winograd(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Choice]) -> Report:
    """Who is meant by [MASK]? Each candidate takes its place. Full scoring compares P(the whole text); partial scoring
    P(what follows | all up to the candidate), where a candidate's own rarity plays no part (Trinh & Le 2018)."""
    halves = [substitute(text, name) for text, names, _ in records for name in names]
    full = continuations(model, tokenizer, [("", before + after) for before, after in halves])
    measures = []
    for name, scored in (("full", full), ("partial", continuations(model, tokenizer, halves))):
        measures.append(_accuracy(f"accuracy, {name} scoring", credits([one.total for one in scored], records)))
    return Report(measures, _cut([one.cut for one in full]))


def choose(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Choice]) -> Report:
    """Which choice goes on from the context? By its mean log P per token (GPT-1 §5), and by the sum."""
    pairs = []
    for context, choices, _ in records:
        body = context.rstrip(" ")
        space = "" if not body or body[-1].isspace() else " "
        pairs += [(body, space + choice.strip()) for choice in choices]
    scored = continuations(model, tokenizer, pairs)
    ways = {"mean": [one.mean for one in scored], "sum": [one.total for one in scored]}
    measures = [_accuracy(f"accuracy, {name} of log P", credits(scores, records)) for name, scores in ways.items()]
    return Report(measures, _cut([one.cut for one in scored]))


# Tasks as text: some solved examples, then one that breaks off where its answer would begin.


def summary_prompt(article: str, examples: Sequence[Example] = ()) -> str:
    """The hint that people write before a summary (GPT-2 §3.6)."""
    return "".join(f"{a}\nTL;DR: {b}\n\n" for a, b in examples) + f"{article}\nTL;DR:"


def translation_prompt(sentence: str, examples: Sequence[Example] = ()) -> str:
    """`english sentence = french sentence`, line by line (GPT-2 §3.7)."""
    return "".join(f"{a} = {b}\n" for a, b in examples) + f"{sentence} ="


def answer_prompt(question: str, examples: Sequence[Example] = (), document: str = "") -> str:
    """A document, if any, then questions and answers, and a last `A:` (GPT-2 §3.5 and §3.8)."""
    return f"{document}\n" * bool(document) + "".join(f"Q: {a}\nA: {b}\n" for a, b in examples) + f"Q: {question}\nA:"


def sentiment_prompt(review: str, examples: Sequence[Example] = ()) -> str:
    """After `very`: is `positive` the likelier word, or `negative`? (GPT-1 §5)"""
    return "".join(f"{a} very {b}\n" for a, b in examples) + f"{review} very"


SENTIMENTS = ("negative", "positive")
WRITTEN = {  # the prompt; how many tokens; of the likeliest k (1: greedy); how many sentences are kept (None: a line)
    "summarise": (summary_prompt, 100, 2, 3),
    "translate": (translation_prompt, 50, 1, 1),
    "answer": (answer_prompt, 30, 1, None),
}


def _shown(records: Sequence[Example], shots: int) -> tuple[Sequence[Example], Sequence[Example]]:
    """The examples that stand in every prompt, and the records that are asked."""
    if not 0 <= shots < len(records):
        raise InputError(f"--shots {shots}: choose 0 to {len(records) - 1}, so that of {len(records)} one is asked")
    return records[:shots], records[shots:]


def sentiment(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Example], *, shots: int = 0) -> Report:
    """Is each text "positive" or "negative"? The first `shots` are shown as examples."""
    examples, asked = _shown(records, shots)
    choices = [(sentiment_prompt(text, examples), SENTIMENTS, SENTIMENTS.index(wanted)) for text, wanted in asked]
    return choose(model, tokenizer, choices)


def write(
    task: str, model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Example], *, shots: int = 0, seed: int = 0
) -> Report:
    """Let the model write what "summarise", "translate" or "answer" wants; the first `shots` are shown as examples.

    Exact match, and F1 of the words (for summaries: ROUGE-1 without stemming), both of words in small letters.
    """
    (prompt, usual, top_k, sentences), (examples, asked) = WRITTEN[task], _shown(records, shots)
    n_tokens = min(usual, model.config.n_positions // 2)  # a prompt needs room too
    room = model.config.n_positions - n_tokens
    stop = tokenizer.end_of_text_id if task == "summarise" else tokenizer.newline_id
    outputs, exact, f1, cuts = [], [], [], []
    for i, (given, wanted) in enumerate(tqdm(asked, unit="text", delay=2, leave=False, disable=None)):
        ids = opening(tokenizer) + tokenizer.encode(prompt(given, examples))
        cuts.append(max(0, len(ids) - room))
        ids = ids[cuts[-1] :]
        options = {"temperature": float(top_k > 1), "top_k": top_k, "seed": seed + i, "stop": stop}
        new = model.generate(np.array([ids]), n_tokens, **options)[0, len(ids) :].tolist()
        end = tokenizer.end_of_text_id
        text = tokenizer.decode(new[: new.index(end)] if end in new else new).strip()
        text = text if task == "summarise" else text.split("\n")[0]
        outputs.append(" ".join(re.split(r"(?<=[.!?])\s+", text)[:sentences]))
        ours, theirs = (re.findall(r"\w+", one.lower()) for one in (outputs[-1], wanted))
        exact.append(ours == theirs)
        f1.append(2 * (Counter(ours) & Counter(theirs)).total() / max(1, len(ours) + len(theirs)))
    measures = [_accuracy("exact match", exact), Measure("F1 of words", *mean_interval(f1), len(f1))]
    return Report(measures, _cut(cuts), outputs)


def read_json_lines(path: str | Path, *, form: str, keys: Sequence[str], good: Callable[..., object]) -> list:
    """The values of the keys in each line; bare ones, if it is one key.

    form: what a line should be, for people; good(*values): is it? Otherwise InputError, with the line's number.
    """
    found = []
    for number, line in enumerate(read_text(path).rstrip().split("\n"), 1):
        try:
            values = tuple(map(json.loads(line).__getitem__, keys))
            whole = good(*values)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            whole = False
        if not whole:
            raise InputError(f"{path}, line {number}: expected {form}, got {line[:60]!r}")
        found.append(values[0] if len(keys) == 1 else values)
    return found


def _choice(context: str, choices: list, label: int) -> bool:
    several = isinstance(choices, list) and len(choices) > 1 and _texts(context, *choices)
    return several and type(label) is int and 0 <= label < len(choices)


def _texts(*texts: str) -> bool:
    return all(isinstance(text, str) and text.strip() for text in texts)


def read_winograd(path: str | Path) -> list[Choice]:
    """Records of five lines: a text with [MASK], `[MASK]`, the candidates between commas, the right one, nothing."""
    lines, records = read_text(path).rstrip().split("\n"), []
    for at in range(0, len(lines), 5):
        text, mask, names, answer, end = (line.strip() for line in (lines[at : at + 5] + [""] * 5)[:5])
        names = [name.strip() for name in names.split(",")]
        whole = mask == "[MASK]" and text.count(mask) == 1 and not text.endswith(mask)
        if not whole or answer not in names or len(names) < 2 or end:
            form = "a text that goes on after its one [MASK], [MASK], the candidates, the right one, an empty line"
            raise InputError(f"{path}, line {at + 1}: expected {form}, got {text[:60]!r}")
        records.append((text, names, names.index(answer)))
    return records


def _lines(form: str, keys: tuple[str, ...], good: Callable[..., object]) -> Callable:
    return partial(read_json_lines, form=form, keys=keys, good=good)


_PAIRS = _lines('{"input": text, "output": text}', ("input", "output"), _texts)
TASKS = {  # how it is done, how its file is read, and its options
    "perplexity": (perplexity, read_text, {"context", "stride", "detokenize"}),
    "lambada": (lambada, _lines('{"text": two words or more}', ("text",), LAST_WORD.search), {"limit", "detokenize"}),
    "winograd": (winograd, read_winograd, {"limit"}),
    "choice": (choose, _lines('{"context": text, "choices": [text, text, ...], "label": 0, 1, ...}',
                              ("context", "choices", "label"), _choice), {"limit"}),
    "sentiment": (sentiment, _lines('{"input": text, "output": "positive" or "negative"}', ("input", "output"),
                                    lambda text, word: _texts(text) and word in SENTIMENTS), {"limit", "shots"}),
    **{name: (partial(write, name), _PAIRS, {"limit", "shots", "seed"}) for name in WRITTEN},
}  # fmt: skip


def evaluate(
    folder: str | Path, task: str, file: str | Path, *, json_file: str | Path | None = None, device: str | None = None,
    limit: int | None = None, **options,
) -> Report:
    """Do one of TASKS with the model in a folder and the items of a file; print the report, write it as JSON if asked.

    options: those of the task's function; limit: only the first so many items. Raises InputError for an option that
    the task does not have, for a file that is not of its form, and for a `json_file` that is
    there already or could not be written.
    """
    if task not in TASKS:
        raise InputError(f"unknown task {task!r}: choose {', '.join(TASKS)}")
    function, read, known = TASKS[task]
    if wrong := sorted(set(options | ({} if limit is None else {"limit": limit})) - known):
        raise InputError(f"--{wrong[0]} is no option of {task}: it has --{', --'.join(sorted(known))}")
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit}: give 1 or more")
    if json_file is not None and Path(json_file).exists():
        raise InputError(f"--json {json_file} is there already: give another name")
    if json_file is not None and not os.access(f"{Path(json_file).parent}/", os.W_OK):
        raise InputError(f"--json {json_file}: there is no folder {Path(json_file).parent} to write to")
    items = read(file)
    model, tokenizer = models.open_both(folder)
    model.to(choose_device(device))
    report = function(model, tokenizer, items if limit is None else items[:limit], **options)
    print(f"{task}: {file}\n{report}")
    if json_file is not None:
        given = {"model": str(folder), "task": task, "file": str(file), "limit": limit, "options": options}
        found = {"measures": [one._asdict() for one in report.measures], "notes": report.notes}
        text = json.dumps(given | found | {"outputs": report.outputs})
        finite = json.loads(text, parse_constant=lambda infinite: None)  # JSON has no infinity
        write_text(json_file, json.dumps(finite, indent=2, ensure_ascii=False) + "\n")
    return report
