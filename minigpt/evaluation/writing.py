"""Texts that a model writes, though it was not trained to: summaries, translations, answers (GPT-2, 3.5 to 3.8)."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt.data.published.layout import Written
from minigpt.data.published.states import parts_of
from minigpt.errors import InputError
from minigpt.evaluation import answers, overlap
from minigpt.evaluation.chosen_items import left_out_note, others, split_shots
from minigpt.evaluation.metrics import mean_interval
from minigpt.evaluation.prompts import Example, answer_prompt, state_prompt, summary_prompt, translation_prompt
from minigpt.evaluation.report import Measure, Report, accuracy_measure, notes_on_cuts
from minigpt.evaluation.scoring import opening
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer


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


def _judged_states(outputs: Sequence[str], records: Sequence[Written]) -> Judged:
    """Is the state right as a whole? And F1 of its parts: of each turn, and then their mean, as KLUE's code has it."""
    pairs = [(parts_of(output), parts_of(one.answers[0])) for output, one in zip(outputs, records, strict=True)]
    joint = accuracy_measure("joint goal accuracy", [written == wanted for written, wanted in pairs])
    shares = []
    for written, wanted in pairs:
        either = len(written) + len(wanted)
        shares.append(2 * len(written & wanted) / either if either else 1.0)
    return Judged([joint, Measure("F1 of slots", *mean_interval(shares), len(shares))])


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
    "state": Writing(
        state_prompt,
        n_tokens=200,
        top_k=1,
        n_sentences=None,
        measures=_judged_states,
        source="KLUE section 3.8; the prompt is that of minigpt instruct for a model without a chat template",
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
    notes = left_out_note(empty, len(records), "give nothing to work on")
    examples, left = split_shots(others(records, empty, notes), shots)
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
    new = all_ids[0][len(ids) :].tolist()
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
