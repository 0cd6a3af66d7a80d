"""Tasks as text: a prompt shows some solved examples, and breaks off where the answer would begin."""

import re
from collections.abc import Sequence

Example = tuple[str, str]  # (what is given, what is wanted)

# Words that begin a candidate with a capital only at the start of a sentence; a name keeps its capital.
ARTICLES = ("The", "A", "An", "My", "His", "Her", "Our", "Their", "Your")


def summary_prompt(article: str, examples: Sequence[Example] = ()) -> str:
    """An article and `TL;DR:`, which people write before a summary (GPT-2 section 3.6)."""
    prompt = ""
    for shown, summary in examples:
        prompt += f"{shown}\nTL;DR: {summary}\n\n"
    return prompt + f"{article}\nTL;DR:"


def translation_prompt(sentence: str, examples: Sequence[Example] = ()) -> str:
    """`english sentence = french sentence`, line by line (GPT-2 section 3.7)."""
    prompt = ""
    for english, french in examples:
        prompt += f"{english} = {french}\n"
    return prompt + f"{sentence} ="


def answer_prompt(
    question: str,
    examples: Sequence[Example] = (),
    document: str = "",
) -> str:
    """A document, if any, then questions and answers, and a last `A:` (GPT-2 sections 3.5 and 3.8)."""
    prompt = ""
    if document:
        prompt += f"{document}\n"
    for shown, answer in examples:
        prompt += f"Q: {shown}\nA: {answer}\n"
    return prompt + f"Q: {question}\nA:"


def state_prompt(conversation: str, examples: Sequence[Example] = ()) -> str:
    """A conversation and its state, as `minigpt instruct` puts them to a model without a chat template of its own."""
    prompt = ""
    for shown, state in examples:
        prompt += f"### Instruction:\n{shown}\n\n### Response:\n{state}\n\n"
    return prompt + f"### Instruction:\n{conversation}\n\n### Response:\n"


def sentiment_prompt(review: str, examples: Sequence[Example] = ()) -> str:
    """A review and `very`: which word follows, `positive` or `negative`? (GPT-1 section 5)"""
    prompt = ""
    for shown, word in examples:
        prompt += f"{shown} very {word}\n"
    return prompt + f"{review} very"


def substitute(text: str, candidate: str, mask: str = "[MASK]") -> tuple[str, str]:
    """The text with a candidate in place of the mask, in two halves: (up to the candidate, the rest).

    The candidate gets a capital at the start of a sentence, and its article a small letter inside one.
    """
    before, after = text.split(mask, 1)
    before = " ".join(before.split())
    after = " ".join(after.split())
    starts_sentence = not before or re.search(r"[.!?][\"']?$", before)
    article = candidate.split(" ")[0]
    if starts_sentence:
        candidate = candidate[:1].upper() + candidate[1:]
    elif article in ARTICLES:
        candidate = candidate[:1].lower() + candidate[1:]
    first = f"{before} {candidate}".lstrip()
    space = "" if after[:1] in ".,;:!?)'" else " "
    return first, space + after
