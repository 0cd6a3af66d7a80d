"""Tasks that nobody trained the model for (GPT-2 §2 and §3): each is a text, and the question is how likely it is."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from minigpt.errors import InputError
from minigpt.evaluation.detokenizers import detokenized
from minigpt.evaluation.metrics import mean_interval
from minigpt.evaluation.prompts import Pair, answer_prompt, sentiment_prompt, summary_prompt, translation_prompt
from minigpt.evaluation.report import Measure, Report, accuracy_measure, exponentials, notes_on_cuts
from minigpt.evaluation.scoring import continuations, credits, opening, substitute
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

Choice = tuple[str, Sequence[str], int]  # a context, or a text with [MASK]; the choices; the index of the right one
LAST_WORD = re.compile(r"(?<=\S)\s+\S+(?=\s*$)")  # with the space before it


def lambada(
    model: LanguageModel, tokenizer: Tokenizer, passages: Sequence[str], *, detokenize: str = "none"
) -> Report:
    """The last word of each passage (right if all its tokens are the likeliest), and, as OpenAI scored, its last token.

    Perplexity: exp of the mean of -log P, of the whole word or of its last token.
    """
    passages = [detokenized(passage, detokenize) for passage in passages]
    words = [LAST_WORD.search(passage) for passage in passages]
    if None in words:
        raise InputError(f"passage {words.index(None) + 1} is one word after --detokenize {detokenize}: leave it out")
    pairs = [(passage[: word.start()], word.group()) for passage, word in zip(passages, words, strict=True)]
    scored, measures = continuations(model, tokenizer, pairs), []
    for unit, part in (("word", slice(None)), ("token", slice(-1, None))):
        measures.append(accuracy_measure(f"last {unit}, accuracy", [bool(one.greedy[part].all()) for one in scored]))
        nats = mean_interval([-one.log_p[part].sum() for one in scored])
        measures.append(Measure(f"last {unit}, perplexity", *exponentials(nats), len(scored)))
    return Report(measures, notes_on_cuts([one.cut for one in scored]))


def winograd(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Choice]) -> Report:
    """Who is meant by [MASK]? Each candidate takes its place. Full scoring compares P(the whole text); partial scoring
    P(what follows | all up to the candidate), where a candidate's own rarity plays no part (Trinh & Le 2018)."""
    halves = [substitute(text, name) for text, names, _ in records for name in names]
    full = continuations(model, tokenizer, [("", before + after) for before, after in halves])
    measures = []
    for name, scored in (("full", full), ("partial", continuations(model, tokenizer, halves))):
        measures.append(accuracy_measure(f"accuracy, {name} scoring", credits([one.total for one in scored], records)))
    return Report(measures, notes_on_cuts([one.cut for one in full]))


def choose(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Choice]) -> Report:
    """Which choice goes on from the context? By its mean log P per token (GPT-1 §5), and by the sum."""
    pairs = []
    for context, choices, _ in records:
        body = context.rstrip(" ")
        space = "" if not body or body[-1].isspace() else " "
        pairs += [(body, space + choice.strip()) for choice in choices]
    scored = continuations(model, tokenizer, pairs)
    ways = {"mean": [one.mean for one in scored], "sum": [one.total for one in scored]}
    measures = []
    for name, scores in ways.items():
        measures.append(accuracy_measure(f"accuracy, {name} of log P", credits(scores, records)))
    return Report(measures, notes_on_cuts([one.cut for one in scored]))


SENTIMENTS = ("negative", "positive")
WRITTEN = {  # the prompt; how many tokens; of the likeliest k (1: greedy); how many sentences are kept (None: a line)
    "summarise": (summary_prompt, 100, 2, 3),
    "translate": (translation_prompt, 50, 1, 1),
    "answer": (answer_prompt, 30, 1, None),
}


def _shown(records: Sequence[Pair], shots: int) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """The examples that stand in every prompt, and the records that are asked."""
    if not 0 <= shots < len(records):
        raise InputError(f"--shots {shots}: choose 0 to {len(records) - 1}, so that of {len(records)} one is asked")
    return records[:shots], records[shots:]


def sentiment(model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Pair], *, shots: int = 0) -> Report:
    """Is each text "positive" or "negative"? The first `shots` are shown as examples."""
    examples, asked = _shown(records, shots)
    choices = [(sentiment_prompt(text, examples), SENTIMENTS, SENTIMENTS.index(wanted)) for text, wanted in asked]
    return choose(model, tokenizer, choices)


def write(
    task: str, model: LanguageModel, tokenizer: Tokenizer, records: Sequence[Pair], *, shots: int = 0, seed: int = 0
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
    measures = [accuracy_measure("exact match", exact), Measure("F1 of words", *mean_interval(f1), len(f1))]
    return Report(measures, notes_on_cuts(cuts), outputs)
