"""Exercise 19: find the bug. A perplexity per word, tried by its author on a text in which every word is one token.

Run the file. Is the number that it gives too high or too low? With it, would a model look better or worse than it is?
Change `perplexity_per_word`; one line is enough. (Lesson 19, section 6.)

Judge it:  python lessons/exercises/19_find_the_bug.py
"""

import numpy as np


def perplexity_per_word(log_p, text):
    """log_p (N,): the log-probability of each of the N tokens of the text -> perplexity per word"""
    per_token = np.exp(-log_p.mean())
    return per_token * len(log_p) / len(text.split())


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    four_words = perplexity_per_word(np.log([0.5, 0.25, 0.5, 0.25]), "the cat sat down")
    if abs(four_words - 8**0.5) > 1e-9:
        raise SystemExit(f"now the author's example is wrong: {four_words:.4f}, expected the root of 8, 2.8284")
    # Two models that give every *word* the same probability, 1/8, and cut it into one token and into three.
    text = "unbelievable things happen"
    one, three = (perplexity_per_word(np.full(3 * n, np.log(1 / 8) / n), text) for n in (1, 3))
    if abs(one - 8) > 1e-9 or abs(three - 8) > 1e-9:
        raise SystemExit(
            f"not yet: two models give each of three words the probability 1/8. The one that writes it as one token "
            f"has {one:.2f} per word, the one that needs three tokens {three:.2f}; both should have 8"
        )
    print("right: the tokens have gone, and only the words count")
    raise SystemExit(0)
