"""Undo the word splitting of published benchmarks.

Benchmarks come cut into words, as no other text does: `a two @-@ part film , he said .` These rewrites give back the
text as people write it. The model is still charged for the words of the original (GPT-2 section 3.1). OpenAI's own
rewrites were never published.
"""

import re

from minigpt.errors import InputError

SOURCES = {  # of the rewrites
    "wikitext": "GPT-2 section 3.1; Megatron-LM, tasks/zeroshot_gpt/detokenizer.py",
    "ptb": "GPT-2 sections 3.1 and 3.2; Megatron-LM, tasks/zeroshot_gpt/detokenizer.py",
    "lambada": "GPT-2 section 3.3; the preprocessed file of OpenAI has these marks",
}

_ENDING_IN_S = ("as", "has", "his", "is", "its", "'s", "this", "was")  # an apostrophe after these begins a quotation
_AFTER_SHORT_WORDS = "".join([rf"|(?<=\b{word} )" for word in _ENDING_IN_S])

DETOKENIZERS: dict[str, list[tuple[str, str]]] = {  # pairs of (regular expression, replacement), applied in this order
    "none": [],
    "wikitext": [
        (r" @([-,.])@ ", r"\1"),  # 1 @,@ 000 -> 1,000
        (r" ([:;.!?,])(?=\s|$)", r"\1"),
        (r"([(\[{]) ", r"\1"),
        (r" ([)\]}])", r"\1"),
        (r" '(s|t|re|ve|ll|m|d)\b", r"'\1"),
        (r'" ([^"\n]*) "', r'"\1"'),
        (rf"(?:(?<=[^s] ){_AFTER_SHORT_WORDS})' ((?:[^'\n]|\b'\b)*) '(?=\W|$)", r"'\1'"),
        (r"(?<=s) '(?=\s|$)", r"'"),  # else it ends a plural, or a name in s: the dogs ' tails -> the dogs' tails
        (r"= (?==)", r"="),  # a heading: = = Career = =
        (r" ° ", r"°"),
        (r" *\n *", r"\n"),
    ],
    "ptb": [
        (r" '", r"'"),
        (r" n't", r"n't"),
        (r"(?<= )N(?= )", r"1"),  # N stands for any number
        (r"([$#]) 1", r"\g<1>1"),
        (r" *\n *", r"\n"),
    ],
    "lambada": [
        (r"“|”|``|''", r'"'),
        (r"[‘’]", r"'"),
    ],
}


def detokenized(text: str, name: str) -> str:
    """The text as people write it.

    name: how the words of the text were split, one of DETOKENIZERS; "none" leaves the text as it is.
    Raises InputError for another name.
    """
    if name not in DETOKENIZERS:
        raise InputError(f"unknown de-tokeniser {name!r}: choose {', '.join(DETOKENIZERS)}")
    for pattern, replacement in DETOKENIZERS[name]:
        text = re.sub(pattern, replacement, text)
    return text
