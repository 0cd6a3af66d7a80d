"""Tasks that the model was never trained for, posed as text (GPT-2 sections 2 and 3). Each gives a report.

Here the model judges texts that are given; in `minigpt.evaluation.writing` it writes one.
"""

import re
from collections.abc import Sequence

from minigpt.data.published.layout import GAP
from minigpt.errors import InputError
from minigpt.evaluation.chosen_items import left_out_note, others, split_shots
from minigpt.evaluation.detokenizers import detokenized
from minigpt.evaluation.metrics import mean_interval
from minigpt.evaluation.prompts import Example, sentiment_prompt, substitute
from minigpt.evaluation.report import Report, accuracy_measure, notes_on_cuts, perplexity_measure
from minigpt.evaluation.scoring import Pair, Scored, continuations, credit, score_choices
from minigpt.evaluation.stop_words import first_tokens
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

Choice = tuple[str, Sequence[str], int]  # a context, or a text with [MASK]; the choices; the index of the right one

LAST_WORD = re.compile(r"(?<=\S)\s+\S+(?=\s*$)")  # with the space before it
SENTIMENTS = ("negative", "positive")


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
    of `minigpt.evaluation.stop_words` left out of what the model may choose? A passage that is one word after it is
    left out, and one whose last word is longer than the model's context; a note counts them. Raises InputError where
    none is left.
    """
    pairs: list[tuple[str, str] | None] = []
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
    notes = left_out_note(one_word, len(pairs), f"are one word after --detokenize {detokenize}")
    notes += left_out_note(long, len(pairs), f"end with a word of more than {model.config.n_positions} tokens to score")
    kept = [pair for pair in others(pairs, one_word + long, notes) if pair is not None]
    left_out = first_tokens(tokenizer) if stop_words else []
    scored = continuations(model, tokenizer, kept, left_out=left_out)
    measures = []
    for unit, part in (("word", slice(None)), ("token", slice(-1, None))):
        right = [bool(one.greedy[part].all()) for one in scored]
        losses = [-one.log_p[part].sum() for one in scored]
        measures.append(accuracy_measure(f"last {unit}, accuracy", right))
        if stop_words:
            right = [bool(one.greedy_left[part].all()) for one in scored if one.greedy_left is not None]
            measures.append(accuracy_measure(f"last {unit}, no stop words", right))
        measures.append(perplexity_measure(f"last {unit}, perplexity", mean_interval(losses), len(scored)))
    if stop_words:
        notes.append(f"without stop words: {len(left_out)} tokens were left out of what may be chosen")
    return Report(measures, notes + _notes([scored]))


def winograd(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Choice]) -> Report:
    """Who is meant by [MASK]? Each candidate takes its place (GPT-2 section 3.4).

    Full scoring compares P(the whole text). Partial scoring compares P(what follows | all up to the candidate), where
    the candidate's own rarity plays no part (Trinh & Le 2018). Left out, with a note that counts them, are items with
    several [MASK], where it is not defined what follows, with a candidate twice, or longer than the model's context.
    Raises InputError where none is left.
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
    alike = []
    long = []
    for number, (text, names, _) in enumerate(records, 1):
        if text.count("[MASK]") > 1:
            several.append(number)
        elif len(set(names)) < len(names):
            alike.append(number)
        elif max(len(tokenizer.encode("".join(substitute(text, name)))) for name in names) > room:
            long.append(number)
    if len(long) == len(records):
        raise InputError(f"every text is longer than the {room} tokens that the model sees: take one that sees more")
    notes = left_out_note(several, len(records), "have more than one [MASK]")
    notes += left_out_note(alike, len(records), "have a candidate twice")
    notes += left_out_note(long, len(records), f"are longer than the {room} tokens that the model sees")
    return others(records, several + alike + long, notes), notes


def _can_be_scored(model: LanguageModel, tokenizer: Tokenizer, pair: Pair) -> bool:
    """Has the continuation of a pair one token or more, and no more than the model has positions?"""
    _, continuation = pair
    return 1 <= len(tokenizer.encode(continuation)) <= model.config.n_positions


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
    notes = left_out_note(
        unfit, len(records), f"have a choice with no tokens to score, or more than {model.config.n_positions},"
    )
    questions = others(questions, unfit, notes)
    records = others(records, unfit, notes)
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
    examples, left = split_shots(records, shots)
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
