"""Tasks as text: some solved examples, then one that breaks off where its answer would begin."""

from collections.abc import Sequence

Pair = tuple[str, str]  # what is given, what is wanted

def summary_prompt(article: str, examples: Sequence[Pair] = ()) -> str:
    """The hint that people write before a summary (GPT-2 §3.6)."""
    return "".join(f"{a}\nTL;DR: {b}\n\n" for a, b in examples) + f"{article}\nTL;DR:"


def translation_prompt(sentence: str, examples: Sequence[Pair] = ()) -> str:
    """`english sentence = french sentence`, line by line (GPT-2 §3.7)."""
    return "".join(f"{a} = {b}\n" for a, b in examples) + f"{sentence} ="


def answer_prompt(question: str, examples: Sequence[Pair] = (), document: str = "") -> str:
    """A document, if any, then questions and answers, and a last `A:` (GPT-2 §3.5 and §3.8)."""
    return f"{document}\n" * bool(document) + "".join(f"Q: {a}\nA: {b}\n" for a, b in examples) + f"Q: {question}\nA:"


def sentiment_prompt(review: str, examples: Sequence[Pair] = ()) -> str:
    """After `very`: is `positive` the likelier word, or `negative`? (GPT-1 §5)"""
    return "".join(f"{a} very {b}\n" for a, b in examples) + f"{review} very"
