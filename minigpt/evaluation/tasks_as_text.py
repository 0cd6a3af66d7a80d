"""Tasks that the model was never trained for, posed as text (GPT-2 sections 2 and 3). Each gives a report.

Either the model judges texts that are given (`lambada`, `winograd`, `choose`, `sentiment`), or it writes one (`write`).
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt.data.published.layout import GAP, Written
from minigpt.errors import InputError
from minigpt.evaluation import answers, overlap
from minigpt.evaluation.detokenizers import detokenized
from minigpt.evaluation.metrics import mean_interval
from minigpt.evaluation.prompts import (
    Example,
    answer_prompt,
    sentiment_prompt,
    substitute,
    summary_prompt,
    translation_prompt,
)
from minigpt.evaluation.report import Measure, Report, accuracy_measure, notes_on_cuts, perplexity_measure
from minigpt.evaluation.scoring import Pair, Scored, continuations, credit, opening, score_choices
from minigpt.evaluation.stop_words import first_tokens
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

Choice = tuple[str, Sequence[str], int]  # a context, or a text with [MASK]; the choices; the index of the right one

LAST_WORD = re.compile(r"(?<=\S)\s+\S+(?=\s*$)")  # with the space before it
SENTIMENTS = ("negative", "positive")


# The model judges.


def lambada(
    model: LanguageModel,
    tokenizer: Tokenizer,
    passages: Sequence[str],
    *,
    detokenize: str = "none",
    stop_words: bool = False,
) -> Report:
    """The last word of each passage, and, as OpenAI scored, its last token (GPT-2 section 3.3).

    A word is right if all its tokens are the likeliest. Perplexity: exp of the mean of -log P, of the whole word or of
    its last token. detokenize: one of DETOKENIZERS. stop_words: is the accuracy measured a second time, with the words
    of `minigpt.evaluation.stop_words` left out of what the model may choose? A passage that is one word after it is left out, and one whose last
    word is longer than the model's context; a note counts them. Raises InputError where none is left.
    """
    pairs = []
    one_word = []
    for number, passage in enumerate(passages, 1):
        passage = detokenized(passage, detokenize)
        word = LAST_WORD.search(passage)
        if word is None:
            one_word.append(number)
            pairs.append(None)
        else:
            pairs.append((passage[: word.start()], word.group()))
    long = [number for number, pair in enumerate(pairs, 1) if pair and not _can_be_scored(model, tokenizer, pair)]
    notes = _left_out(one_word, len(pairs), f"are one word after --detokenize {detokenize}")
    notes += _left_out(long, len(pairs), f"end with a word of more than {model.config.n_positions} tokens to score")
    pairs = _others(pairs, one_word + long, notes)
    left_out = first_tokens(tokenizer) if stop_words else []
    scored = continuations(model, tokenizer, pairs, left_out=left_out)
    measures = []
    for unit, part in (("word", slice(None)), ("token", slice(-1, None))):
        right = [bool(one.greedy[part].all()) for one in scored]
        losses = [-one.log_p[part].sum() for one in scored]
        measures.append(accuracy_measure(f"last {unit}, accuracy", right))
        if stop_words:
            right = [bool(one.greedy_left[part].all()) for one in scored]
            measures.append(accuracy_measure(f"last {unit}, no stop words", right))
        measures.append(perplexity_measure(f"last {unit}, perplexity", mean_interval(losses), len(scored)))
    if stop_words:
        notes.append(f"without stop words: {len(left_out)} tokens were left out of what may be chosen")
    return Report(measures, notes + _notes([scored]))


def winograd(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Choice]) -> Report:
    """Who is meant by [MASK]? Each candidate takes its place (GPT-2 section 3.4).

    Full scoring compares P(the whole text). Partial scoring compares P(what follows | all up to the candidate), where
    the candidate's own rarity plays no part (Trinh & Le 2018). Left out, with a note that counts them, are items with
    several [MASK], where it is not defined what follows, and items longer than the model's context. Raises InputError
    where none is left.
    """
    records, notes = _that_fit(model, tokenizer, records)
    whole_texts = []
    halves = []
    for text, names, _ in records:
        pairs = [substitute(text, name) for name in names]
        halves.append(pairs)
        whole_texts.append([("", before + after) for before, after in pairs])
    full = score_choices(model, tokenizer, whole_texts)
    partial = score_choices(model, tokenizer, halves)
    measures = []
    for name, scored in (("full", full), ("partial", partial)):
        totals = [[one.total for one in choices] for choices in scored]
        measures.append(accuracy_measure(f"accuracy, {name} scoring", _credits(totals, records)))
    return Report(measures, notes + _notes(full))


def _that_fit(
    model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Choice]
) -> tuple[list[Choice], list[str]]:
    """The records with one gap whose texts fit the model with each candidate, and notes on the others."""
    room = model.config.n_positions
    several = []
    long = []
    for number, (text, names, _) in enumerate(records, 1):
        if text.count("[MASK]") > 1:
            several.append(number)
        elif max(len(tokenizer.encode("".join(substitute(text, name)))) for name in names) > room:
            long.append(number)
    if len(long) == len(records):
        raise InputError(f"every text is longer than the {room} tokens that the model sees: take one that sees more")
    notes = _left_out(several, len(records), "have more than one [MASK]")
    notes += _left_out(long, len(records), f"are longer than the {room} tokens that the model sees")
    return _others(records, several + long, notes), notes


def _can_be_scored(model: LanguageModel, tokenizer: Tokenizer, pair: Pair) -> bool:
    """Has the continuation of a pair one token or more, and no more than the model has positions?"""
    _, continuation = pair
    return 1 <= len(tokenizer.encode(continuation)) <= model.config.n_positions


def _others(items: Sequence[Any], numbers: Sequence[int], notes: Sequence[str]) -> list[Any]:
    """The items but for those of these numbers, from 1. Raises InputError, with the notes, where none is left."""
    without = set(numbers)
    left = [item for number, item in enumerate(items, 1) if number not in without]
    if not left:
        raise InputError(f"no item is left to score: {'; '.join(notes)}")
    return left


def _left_out(numbers: Sequence[int], total: int, reason: str) -> list[str]:
    """A note on the items that were left out, with their numbers, from 1; none where there are none."""
    if not numbers:
        return []
    each = ", ".join(map(str, numbers))
    return [f"{len(numbers)} of {total} items {reason} and were left out: number {each}"]


def choose(
    model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Choice], *, detokenize: str = "none"
) -> Report:
    """Which choice continues the context? By its mean log P per token (GPT-1 section 5), and by the sum.

    Where the context has a [MASK], each choice takes its place, and what is scored is the choice and all that follows
    it: the sum is P(choice) P(rest | choice), of the Children's Book Test in GPT-2 section 3.2. detokenize: one of
    DETOKENIZERS, for texts that are cut into words.

    An item with a choice that has no tokens, or more than fit the model, is left out, and a note counts them. Raises
    InputError where none is left.
    """
    questions = []
    unfit = []
    for number, (context, choices, _) in enumerate(records, 1):
        pairs = [_continued(context, choice, detokenize) for choice in choices]
        questions.append(pairs)
        if not all(_can_be_scored(model, tokenizer, pair) for pair in pairs):
            unfit.append(number)
    notes = _left_out(
        unfit, len(records), f"have a choice with no tokens to score, or more than {model.config.n_positions},"
    )
    questions = _others(questions, unfit, notes)
    records = _others(records, unfit, notes)
    scored = score_choices(model, tokenizer, questions)
    means = [[one.mean for one in choices] for choices in scored]
    totals = [[one.total for one in choices] for choices in scored]
    measures = [
        accuracy_measure("accuracy, mean of log P", _credits(means, records)),
        accuracy_measure("accuracy, sum of log P", _credits(totals, records)),
    ]
    return Report(measures, notes + _notes(scored))


def sentiment(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Example], *, shots: int = 0) -> Report:
    """Is each text "positive" or "negative"? The first `shots` records are shown as examples.

    records: pairs (text, one of SENTIMENTS). Raises InputError where shots leave no record to judge.
    """
    examples, left = _split_shots(records, shots)
    choices = []
    for text, wanted in left:
        prompt = sentiment_prompt(text, examples)
        choices.append((prompt, SENTIMENTS, SENTIMENTS.index(wanted)))
    return choose(model, tokenizer, choices)


def spaced(context: str, choice: str) -> Pair:
    """(context, choice) with one space between them, which belongs to the choice; none after a line end or nothing."""
    context = context.rstrip(" ")
    choice = choice.strip()
    if not context or context[-1].isspace():
        return context, choice
    return context, " " + choice


def _continued(context: str, choice: str, detokenize: str) -> Pair:
    """(what stands before a choice, the choice and what follows it), as people write them."""
    before, _, after = context.partition(GAP)
    return spaced(detokenized(before, detokenize), detokenized(choice + after, detokenize))


def _credits(scores: Sequence[Sequence[float]], records: Sequence[Choice]) -> list[float]:
    """The credit of each record (..., choices, answer)."""
    found = []
    for of_choices, record in zip(scores, records, strict=True):
        answer = record[-1]
        found.append(credit(of_choices, answer))
    return found


def _notes(groups: Sequence[Sequence[Scored]]) -> list[str]:
    cuts = []
    for group in groups:
        for one in group:
            cuts.append(one.cut)
    return notes_on_cuts(cuts)


def _split_shots(records: Sequence[Any], shots: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """The examples that stand in every prompt, and the records that are left to answer."""
    most = len(records) - 1
    if not 0 <= shots <= most:
        raise InputError(f"--shots {shots}: choose 0 to {most}, so that one of {len(records)} is left to answer")
    return records[:shots], records[shots:]


# The model writes.


class Writing(NamedTuple):
    """How a text is written, and how it is judged."""

    prompt: Callable[..., str]
    n_tokens: int  # at most
    top_k: int  # draw among the likeliest k tokens; 1: take the likeliest
    n_sentences: int | None  # how many of them are kept; None: all
    measures: Callable[[Sequence[str], Sequence[Written]], "Judged"]
    source: str  # where it is published
    one_line: bool = True  # is only the first line kept?


class Judged(NamedTuple):
    """What was measured, and notes on what was not."""

    measures: list[Measure]
    notes: Sequence[str] = ()


def _judged_answers(outputs: Sequence[str], records: Sequence[Written]) -> Judged:
    """Exact match and F1, by the rule that each record names."""
    found = []
    for output, record in zip(outputs, records, strict=True):
        found.append(answers.judge(output, record.answers, record.metric))
    exact = accuracy_measure("exact match", [one.exact for one in found])
    f1 = Measure("F1", *mean_interval([one.f1 for one in found]), len(found))
    return Judged([exact, f1], ["exact match and F1 as SQuAD and CoQA count them: without articles and punctuation"])


def _judged_words(outputs: Sequence[str], records: Sequence[Written]) -> list[Measure]:
    """Exact match, and F1 of the words: in small letters, without punctuation, of any language."""
    exact = []
    overlaps = []
    for output, record in zip(outputs, records, strict=True):
        written = _words(output)
        wanted = _words(record.answers[0])
        exact.append(written == wanted)
        overlaps.append(_overlap(written, wanted))
    f1 = Measure("F1 of words", *mean_interval(overlaps), len(overlaps))
    return [accuracy_measure("exact match", exact), f1]


def _judged_translations(outputs: Sequence[str], records: Sequence[Written]) -> Judged:
    measures = _judged_words(outputs, records)
    if overlap.missing("sacrebleu"):
        return Judged(measures, [f"BLEU needs the package sacrebleu: {overlap.ADVICE}"])
    wanted = [record.answers[0] for record in records]
    return Judged([overlap.bleu(outputs, wanted), *measures])


def _judged_summaries(outputs: Sequence[str], records: Sequence[Written]) -> Judged:
    measures = _judged_words(outputs, records)
    if overlap.missing("rouge_score"):
        return Judged(measures, [f"ROUGE needs the package rouge-score: {overlap.ADVICE}"])
    wanted = [record.answers[0] for record in records]
    by_line = ["\n".join(_sentences(output)) for output in outputs]
    return Judged([*overlap.rouge(by_line, wanted), *measures])


WRITTEN = {
    "summarise": Writing(
        summary_prompt,
        n_tokens=100,
        top_k=2,
        n_sentences=3,
        measures=_judged_summaries,
        source="GPT-2 section 3.6: TL;DR:, 100 tokens, drawn from the likeliest 2, 3 sentences",
        one_line=False,
    ),
    "translate": Writing(
        translation_prompt,
        n_tokens=50,
        top_k=1,
        n_sentences=1,
        measures=_judged_translations,
        source="GPT-2 section 3.7: english sentence = french sentence, the likeliest tokens, 1 sentence",
    ),
    "answer": Writing(
        answer_prompt,
        n_tokens=30,
        top_k=1,
        n_sentences=None,
        measures=_judged_answers,
        source="GPT-2 sections 3.5 and 3.8: the document, the questions before, A:, the likeliest tokens",
    ),
}


def write(
    task: str,
    model: LanguageModel,
    tokenizer: Tokenizer,
    records: Sequence[Written],
    *,
    shots: int = 0,
    seed: int = 0,
) -> Report:
    """Let the model write what a task of WRITTEN wants; the first `shots` records are shown as examples.

    Measures: of answers exact match and F1 (see `minigpt.evaluation.answers`); of translations BLEU, of summaries
    ROUGE, where the packages are installed (see `minigpt.evaluation.overlap`), and exact match and F1 of the words, in
    small letters. Record i is drawn with seed + i. A record with nothing given, as a few of CNN's are, is left out, and
    a note counts them. Raises InputError where shots leave no record to answer, and for shots of questions that have a
    document of their own.
    """
    writing = WRITTEN[task]
    empty = [number for number, record in enumerate(records, 1) if not record.given]
    notes = _left_out(empty, len(records), "give nothing to work on")
    examples, left = _split_shots(_others(records, empty, notes), shots)
    if any(record.document for record in examples):
        raise InputError(f"--shots {shots}: each question of this file has a document of its own: leave it out")
    shown = [(record.given, record.answers[0]) for record in examples]
    outputs = []
    cuts = []
    for i, record in enumerate(tqdm(left, unit="text", delay=2, leave=False, disable=None)):
        prompt = _prompt(writing, record, shown)
        text, cut = _generated(writing, model, tokenizer, prompt, seed + i)
        outputs.append(_trimmed(writing, text))
        cuts.append(cut)
    judged = writing.measures(outputs, left)
    return Report(judged.measures, [*notes, writing.source, *judged.notes, *notes_on_cuts(cuts)], outputs)


def _prompt(writing: Writing, record: Written, shown: Sequence[Example]) -> str:
    """The examples, or the document and the turns before the question, and then what is given."""
    if record.document:
        return writing.prompt(record.given, record.turns, record.document)
    return writing.prompt(record.given, shown)


def _generated(
    writing: Writing,
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: str,
    seed: int,
) -> tuple[str, int]:
    """What the model writes after the prompt, and how many of the prompt's oldest tokens had no place."""
    positions = model.config.n_positions
    n_tokens = min(writing.n_tokens, positions // 2)  # a prompt needs room too
    room = positions - n_tokens
    ids = opening(tokenizer) + tokenizer.encode(prompt)
    cut = max(0, len(ids) - room)
    ids = ids[cut:]
    end = tokenizer.end_of_text_id
    all_ids = model.generate(
        np.array([ids]),
        n_tokens,
        temperature=0.0 if writing.top_k == 1 else 1.0,
        top_k=writing.top_k,
        seed=seed,
        stop=tokenizer.newline_id if writing.one_line else end,
    )
    new = all_ids[0, len(ids) :].tolist()
    if end in new:
        new = new[: new.index(end)]
    return tokenizer.decode(new), cut


def _trimmed(writing: Writing, text: str) -> str:
    """The first line, where only one is kept, and the first sentences of it."""
    text = text.strip()
    if writing.one_line:
        text = text.split("\n")[0]
    return " ".join(_sentences(text)[: writing.n_sentences])


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text)


def _words(text: str) -> list[str]:
    """The words of a text, in small letters and without punctuation."""
    return re.findall(r"\w+", text.lower())


def _overlap(written: list[str], wanted: list[str]) -> float:
    """F1 of two lists of words: 2 x (words in both) / (words in either), each as often as it occurs. 0 for no words."""
    both = Counter(written) & Counter(wanted)
    either = len(written) + len(wanted)
    return 2 * both.total() / max(1, either)
