"""Words that cannot be the last one of a LAMBADA passage: the filter of GPT-2 section 3.3.

The last word of a passage must end its sentence. GPT-2 often expects a word that would go on with it, such as "the". A
filter of such words takes the accuracy of the largest GPT-2 from 52.66 to 63.24 %. OpenAI did not publish its list;
this one has the articles, conjunctions, prepositions, auxiliary verbs, pronouns and particles of English.
"""

from minigpt.errors import InputError
from minigpt.tokenizer import Tokenizer

STOP_WORDS = tuple(
    """
    a an the this that these those every each some any no all both either neither such
    and or but nor so yet if then than because although though while when where whether until unless since as
    of in on at by for from to into onto with without within about above below over under between among through during
    before after against toward towards across along around behind beside beyond near off out up down upon
    be am is are was were been being have has had having do does did doing done will would shall should can could may
    might must ought
    i you he she it we they me him her us them my your his its our their mine yours hers ours theirs
    myself yourself himself herself itself ourselves themselves who whom whose which what
    not only very too just even still also more most much many few little other another same own
    there here now how why
    """.split()
)


def first_tokens(tokenizer: Tokenizer) -> list[int]:
    """The ids of the stop words that are one token, with a space before them, in small letters and with a capital."""
    found = set()
    for word in STOP_WORDS:
        for spelling in (word, word.capitalize()):
            try:
                ids = tokenizer.encode(f" {spelling}")
            except InputError:  # a vocabulary of characters without one of these
                continue
            if len(ids) == 1 and not tokenizer.count_unknown(ids):
                found.update(ids)
    return sorted(found)
