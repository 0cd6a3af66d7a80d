"""Exercise 10: WordPiece, the tokenizer of BERT (lesson 10, sections 2 and 3).

WordPiece also starts from characters and merges pairs. Three things are different.

1. The mark is at the other end: every symbol that does not begin a word carries `##`. `hugs`
   starts as h ##u ##g ##s. Where a pair is joined, the `##` of its right symbol disappears.
2. It does not merge the most frequent pair, but the one with the largest

       score(pair) = count(pair) / (count(left) * count(right))

   where the counts are those of the symbols in all words. A pair wins if its symbols occur
   together more often than their own frequencies suggest. If two scores are equal, the pair that
   is met first wins, from word to word and from left to right.
3. Its encoder keeps no merges. It does what was wrong for BPE: from the left it always takes the
   longest symbol of the vocabulary that fits. If at some place none fits, the whole word is [UNK].

Write the three functions. (What Google used for BERT was never published. This is the rule of the
open reimplementations.)

Judge it:  python lessons/exercises/10_byte_pair_encoding.py
"""


def split(word):
    """The symbols from which a word starts: hugs -> h ##u ##g ##s"""
    return [word[0], *("##" + character for character in word[1:])]


def join(symbols, pair):
    """Join every occurrence of the pair, from left to right: h ##u ##g with (h, ##u) -> hu ##g"""
    ...  # your turn


def best_pair(words):
    """words: a list of (symbols, count). The pair with the largest score; None if there is none.

    Compute the score as count / (left_count * right_count), in one division, so that equal scores
    are equal numbers.
    """
    ...  # your turn


def encode(word, vocabulary):
    """vocabulary: a set of symbols -> the symbols of the word, or ["[UNK]"]"""
    ...  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def learn(word_counts, n):
    """The first n merges, by your two functions."""
    words = [(split(word), count) for word, count in word_counts.items()]
    merges = []
    for _ in range(n):
        pair = best_pair(words)
        if pair is None:
            break
        merges.append(pair)
        words = [(join(symbols, pair), count) for symbols, count in words]
    return merges


def judge():
    """Yields what is compared, yours, and what it should be."""
    yield "join(h ##u ##g, (h, ##u))", join(["h", "##u", "##g"], ("h", "##u")), ["hu", "##g"]
    repeated = ["a", "##a", "##a", "##a"]
    yield "join(a ##a ##a ##a, (##a, ##a))", join(repeated, ("##a", "##a")), ["a", "##aa", "##a"]
    yield "join, where the pair is not there", join(["x", "##y"], ("##x", "##y")), ["x", "##y"]
    yield "join(c ###, (c, ###)), in which a # is a character", join(["c", "###"], ("c", "###")), ["c#"]
    toy = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    words = [(split(word), count) for word, count in toy.items()]
    yield "the first pair of hug, pug, pun, bun, hugs", best_pair(words), ("##g", "##s")
    three = [("##g", "##s"), ("h", "##u"), ("hu", "##gs")]  # scores 1/20, 1/36, 1/15
    yield "the first three merges", learn(toy, 3), three
    yield "all merges of one word", learn({"ab": 7}, 5), [("a", "##b")]
    vocabulary = {"b", "h", "p", "##g", "##n", "##s", "##u", "##gs", "hu", "hug"}
    cuts = {
        "hugs": ["hug", "##s"], "bugs": ["b", "##u", "##gs"], "mug": ["[UNK]"], "bum": ["[UNK]"],
        "pun": ["p", "##u", "##n"], "hu": ["hu"],
    }  # fmt: skip
    for word, right in cuts.items():
        yield f"encode({word})", encode(word, vocabulary), right


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None or yours == []:
            raise SystemExit(f"{what}: returns nothing yet: your turn")
        if type(right)(yours) != right:
            raise SystemExit(f"{what}:\nyours is   {yours}\nit should be {right}")
        print(f"{what}: right")
    print("all right. BPE would have merged (##u, ##g) first: it is the most frequent pair")
    raise SystemExit(0)
