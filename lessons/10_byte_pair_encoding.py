# %% [markdown]
# # Lesson 10: byte-pair encoding, GPT-1's tokens
#
# You will build what turns text into whole numbers and back. You will learn a vocabulary from text,
# encode and decode with it, make the learning fast, and see what is lost. You will also see a
# common mistake that gives no error message.
#
# Reading: 25 minutes for the core, 75 minutes for all of it. Running: 6 to 15 seconds. Before it:
# lesson 01 (an embedding is a table with a row for each number).
#
# Papers: Sennrich, Haddow and Birch 2016 ("Neural machine translation of rare words with subword
# units"), section 3.2 and algorithm 1. Radford et al. 2018 (GPT-1), section 4.1. Gage 1994 merged
# pairs of bytes for data compression; the method has its name from there.

# %% [markdown]
# ## 1. Why: neither words nor characters
#
# The two blocks of lesson 08 once more, after 300 updates by Adam:

# %%
from minigpt.device.threads import set_threads
from minigpt.learn import small_world

set_threads(1)  # small arrays: a second thread would only be in the way
so_far = small_world.show("10")

# %% [markdown]
# This model reads and writes letters, so it must spell each word anew. And it sees 32 letters only,
# about six words.
#
# For a model a text is a row of whole numbers, its **tokens**; the list of all pieces of text that
# have a number is the **vocabulary**. The choice of the pieces fixes
#
# - how many rows the embedding has, and how many scores the model's last step computes at every
#   position;
# - how long a text is, counted in tokens: the cost of attention grows with its square (lesson 03);
# - what the model cannot read at all.
#
# First attempt: give each *word* a number. Our English text is the manual of Python. We cut a tenth
# out of its middle, as new text. The words of the other nine tenths are the vocabulary.

# %%
import re
from collections import Counter
from pydoc_data.topics import topics


def split_words(text):
    """Lower-case words, and punctuation marks one by one. GPT-1 has finer rules: section 8."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


manual = split_words("\n".join(topics[name] for name in sorted(topics)))
begin, end = len(manual) * 4 // 10, len(manual) * 5 // 10
known, new = manual[:begin] + manual[end:], manual[begin:end]
known_counts = Counter(known)
unknown = [word for word in new if word not in known_counts]
print(f"words in the manual         {len(manual):,}")
print(f"different words, nine tenths {len(known_counts):,}")
print(f"of the new tenth, one word in {len(new) / len(unknown):.0f} is unknown, such as:")
print("  ", ", ".join(sorted(set(unknown))[-8:]))
assert 20 < len(new) / len(unknown) < 80, "of a hundred words, a few have no number"

# %% [markdown]
# Of a hundred words, a few have no number, in a text by the same authors about the same subject.
# Most of these are rare words. A larger vocabulary holds more of them, but there are always further
# names. Besides, `merge`, `merged` and `merging` would be three unrelated numbers.
#
# Second attempt: give each *character* a number. Then little is ever unknown. But the text becomes
# longer.
#
# The solution lies between: **let frequent pieces be one token, and spell rare words in several.**
# Which pieces? Counting decides. Suppose that the words `low`, `lower`, `newest` and `widest` were
# seen. Here is how the new word `lowest` is written by each of the three methods. (`<unk>` means
# unknown. `</w>` means that a word ends here: only the pieces need this mark, and section 2 says
# why.)

# %%
from minigpt import plot

ways = {
    "characters": (["l", "o", "w", "e", "s", "t"], "6 tokens"),
    "words": (["<unk>"], "1 token: unknown"),
    "pieces": (["lo", "west</w>"], "2 tokens"),
}
d = plot.Diagram(7, 3.2, "the new word `lowest`, written in three ways")
for y, (name, (pieces, remark)) in zip((2.6, 1.6, 0.6), ways.items(), strict=True):
    d.text(0.7, y, name, color="tab:blue")
    width = 3.6 / len(pieces)
    for i, piece in enumerate(pieces):
        color = "tab:red" if piece == "<unk>" else "tab:green" if name == "pieces" else "tab:blue"
        d.box(1.5 + width * (i + 0.5), y, piece, color, width=width - 0.1)
    d.text(6.05, y, remark)
    print(f"{name:12}{len(pieces)} token(s): {' | '.join(pieces)}")
plot.save(d.figure, "10_three_ways.png")

# %% [markdown] tags=["deeper"]
# ### Words and characters, counted

# %%
def rare(words):
    """Of the different words: the share that occurs once or twice"""
    counts = Counter(words).values()
    return sum(n <= 2 for n in counts) / len(counts)


has_number = [word for word in new if word in known_counts]
print("in the new tenth, once or twice:", end=" ")
print(f"{rare(unknown):.0%} of the unknown words, {rare(has_number):.0%} of the others")
assert rare(unknown) > rare(has_number) + 0.2, "unknown words are rarer than the others"
longer = sum(map(len, manual)) / len(manual)
print(f"characters for each word: {longer:.1f}")
print(f"pairs of positions that attention compares: {longer**2:.0f} times as many as with words")
assert 3 < longer < 5, "a text has three to five times as many characters as words"

# %% [markdown]
# ## 2. Learning the merges
#
# This is the whole method, **byte-pair encoding** (BPE): *write every word as a list of characters.
# Find the pair of neighbours that occurs most often. Join it, everywhere, into a new symbol.
# Repeat.* A joined pair is called a **merge**. Four words with their counts are enough to see it.
#
# One thing first. In `lowest`, `est` ends a word; in `western` it does not. To distinguish them,
# the last character of each word carries the mark `</w>`. The decoder will need it too: it shows
# where the spaces belong.

# %%
from itertools import pairwise

toy = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def split(word):
    """A word before all merges: its characters, the last one with the mark."""
    return [*word[:-1], word[-1] + "</w>"]


def count_pairs(words):
    """words: a list of (symbols, count)."""
    pairs = Counter()
    for symbols, n in words:
        for pair in pairwise(symbols):
            pairs[pair] += n
    return pairs


toy_pairs = count_pairs([(split(word), n) for word, n in toy.items()])
print("newest starts as:", " ".join(split("newest")))
for pair, n in toy_pairs.most_common(4):
    print(f"  {n} times {pair}")
assert toy_pairs["e", "s"] == toy_pairs["s", "t</w>"] == 9, "six times newest, three times widest"

# %% [markdown]
# Two pairs were seen 9 times. A rule must choose between them, or two programs learn two different
# vocabularies. Sennrich's program takes the pair that comes last in alphabetical order, here
# `(s, t</w>)`. In Python that is simply the largest `(count, pair)`: the counts are compared first,
# and the pairs only where the counts are equal. Pairs that were seen only once are not merged.

# %%
def merge(symbols, pair):
    """Join every occurrence of the pair, from left to right."""
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


example = merge(split("newest"), ("s", "t</w>"))
print("newest after the merge of s and t</w>:", " ".join(example))
assert example == ["n", "e", "w", "e", "st</w>"], "the pair has become one symbol"

# %%
def learn_slowly(word_counts, n_merges):
    """The list of merges, each with its count."""
    words = [(split(word), n) for word, n in word_counts.items()]
    merges = []
    while len(merges) < n_merges:
        counted = [(n, pair) for pair, n in count_pairs(words).items()]
        count, pair = max(counted, default=(0, None))
        if count < 2:
            break
        merges.append((pair, count))
        words = [(merge(symbols, pair), n) for symbols, n in words]
    return merges


toy_merges = learn_slowly(toy, 100)
print("rank   count   merge")
for rank, ((left, right), count) in enumerate(toy_merges, start=1):
    print(f"{rank:4}{count:8}   {left} + {right}")
assert len(toy_merges) == 13, "after 13 merges no pair is left that occurs twice"

# %% [markdown]
# After two merges there is `est</w>`: the method has found the ending of the superlative, without
# any grammar. After 13 merges each of the four words is one symbol, no pair is left, and the
# learning stops by itself.

# %% [markdown] tags=["deeper"]
# ### The merges of one word, drawn
#
# Here are the merges that make `newest`, each with its rank and its count. (The code finds the
# places of the boxes; you need not read it.)

# %%
d = plot.Diagram(7, 6.5, "how `newest` becomes one symbol")
letters = split("newest")
boxes = {(i, i): d.box(0.6 + 1.1 * i, 0.5, s, "gray", width=0.8) for i, s in enumerate(letters)}
spans = list(boxes)  # (first letter, last letter) of each symbol
for rank, ((left, right), count) in enumerate(toy_merges, start=1):
    names = ["".join(letters[a : b + 1]) for a, b in spans]
    for i, pair in enumerate(pairwise(names)):
        if pair == (left, right):
            parts = spans[i : i + 2]
            x, y = sum(boxes[part].x for part in parts) / 2, 0.5 + 1.05 * (len(boxes) - 5)
            label = f"{left + right}\nmerge {rank}: {count} times"
            joined = (parts[0][0], parts[1][1])
            boxes[joined] = d.box(x, y, label, "tab:green", width=1.8, height=0.75)
            for part in parts:
                d.arrow(boxes[part], boxes[joined])
            spans[i : i + 2] = [joined]
            break
print("merges in newest:", len(boxes) - 6)
plot.save(d.figure, "10_merges_of_a_word.png")

# %% [markdown]
# ## 3. Encoding, and the way back
#
# A new word comes. Into which symbols is it cut? Do to it what was done to the words of the corpus:
# the same merges, in the same order. Take `nest`. In the list above there are `ne` (merge 5) and
# `est</w>` (merge 2), and the word has only one `e`.
#
# **Guess:** which of the two will be in `nest`?

# %%
toy_pairs_in_order = [pair for pair, _ in toy_merges]


def encode_in_order(word, merges):
    """The symbols of a word: all merges, the one that was learnt first goes first."""
    symbols = split(word)
    for pair in merges:
        symbols = merge(symbols, pair)
    return symbols


for word in ("lowest", "nest", *toy):
    print(f"{word:8}{' | '.join(encode_in_order(word, toy_pairs_in_order))}")
of_lowest = encode_in_order("lowest", toy_pairs_in_order)
of_nest = encode_in_order("nest", toy_pairs_in_order)
assert of_lowest == ways["pieces"][0] == ["lo", "west</w>"], "as in the picture of section 1"
assert of_nest == ["n", "est</w>"], "nest has two symbols"
for word in toy:
    whole = encode_in_order(word, toy_pairs_in_order)
    assert whole == [word + "</w>"], "a word that was learnt is one symbol"

# %% [markdown] tags=["answer"]
# `est</w>`: merge 2 is done before merge 5, and then no `e` is left for `ne`. One who reads the
# word from its beginning guesses `ne`.

# %% [markdown]
# This is **the surprise of this lesson**. It is easy to believe that an encoder goes from left to
# right, takes the longest symbol that fits, and then again the longest for the rest:

# %%
vocabulary = {symbol for pair in toy_pairs_in_order for symbol in (*pair, "".join(pair))}


def encode_longest_match(word):
    """Not BPE: from the left, always the longest symbol of the vocabulary."""
    symbols, rest = [], word + "</w>"
    while rest:
        longest = max((symbol for symbol in vocabulary if rest.startswith(symbol)), key=len)
        symbols.append(longest)
        rest = rest[len(longest) :]
    return symbols


print(f"nest by the merges:            {' | '.join(of_nest)}")
print(f"nest by the longest match:     {' | '.join(encode_longest_match('nest'))}")
assert encode_longest_match("nest") == ["ne", "st</w>"], "the longest match is another cut"

# %% [markdown]
# The longest match cuts the word in another way. The merges give `n | est</w>`, because
# `(e, st</w>)` was learnt before `(n, e)`: **the age of a pair decides, not its length.**
#
# The difference matters. Suppose that a model was trained on text that the merges have cut. They
# never give `ne | st</w>`, so it has never seen these two tokens side by side. An encoder by the
# longest match would now give it this pair. No error message appears: join the symbols, and the
# word is right.
#
# **Your turn:** `nest` after merge 1 is `n`, `e`, `st</w>`. Of all the merges, which one is next?
# Return its rank, from the ranks of the pairs of neighbours (`ranks` gives the rank of a pair).

# %%
from minigpt.learn import gap

ranks_of_toy = {pair: rank for rank, (pair, _) in enumerate(toy_merges, start=1)}
half_way = ["n", "e", "st</w>"]


def your_next_rank(symbols, ranks):
    return ...  # pairwise(symbols): the pairs of neighbours


all_tried = [n for pair, n in ranks_of_toy.items() if merge(half_way, pair) != half_way]
gap.judge(your_next_rank, half_way, ranks_of_toy, expected=all_tried[0])

# %% [markdown] tags=["answer"]
# `min(ranks[pair] for pair in pairwise(symbols))`: of the pairs in the word, the one that was
# learnt first. (Where a pair is no merge, it must be left out; section 4 does so.)

# %% [markdown] tags=["deeper"]
# ### The way back
#
# Encoding has three steps: cut the text into words, mark the last character of each word, and cut
# the words into symbols. Decoding undoes them, the last one first. Join the symbols, write a space
# for each mark, and what is left are words with spaces between them.

# %%
def encode_text(text, encode_word):
    """All symbols of a text, word by word."""
    return [symbol for word in split_words(text) for symbol in encode_word(word)]


def decode(symbols):
    """The text of a list of symbols."""
    text = "".join(symbols)  # undoes the cut into symbols
    return text.replace("</w>", " ").strip()  # undoes the marks, and the cut into words


def by_toy_merges(word):
    return encode_in_order(word, toy_pairs_in_order)


there = encode_text("low newest west", by_toy_merges)
print(f"{there} -> {decode(there)!r}")
assert decode(there) == "low newest west", "the text comes back"

# %% [markdown] tags=["deeper"]
# ### Why not `low` and `est`?
#
# `lowest` was never seen, and two symbols spell it. Why not `low` and `est`, as a linguist would
# cut? The vocabulary has no such `low`, only `low</w>`, which ends a word. It could have come from
# `lower`, which before merge 11 is `lo | w | e | r</w>`. But its three pairs were equally frequent,
# and the rule took (w, e), the last in the alphabet. And in `lowest` no `w` is left for `lo`: merge
# 4 has joined it to `est</w>`.

# %%
before_11 = [(encode_in_order(word, toy_pairs_in_order[:10]), n) for word, n in toy.items()]
tied = count_pairs(before_11)
print("pairs left for merge 11:", ", ".join(f"{a} + {b} ({n})" for (a, b), n in tied.items()))
assert set(tied.values()) == {2} and max(tied) == ("w", "e"), "three equal pairs; (w, e) is last"

# %% [markdown] tags=["deeper"]
# ## 4. The same, faster
#
# **Learning.** Each step of `learn_slowly` looks at every word of the corpus. But a merge changes
# only the words that contain its pair. Suppose that somewhere stands `x left right y`. After the
# merge it is `x new y`. The pair (left, right) is gone; (x, left) and (right, y) occur once less;
# (x, new) and (new, y) occur once more. Everything else is as before. So we keep, for each pair,
# the set of words that contain it (an *inverted index*, like the one at the end of a book), and
# count again in those words only.
#
# One detail: a word that has lost a pair stays in the set of that pair. So a word may later be
# looked at in which there is nothing to merge. That costs a little time, and the counts stay right.

# %%
from collections import defaultdict


class Learner:
    """Learns one merge after another."""

    def __init__(self, word_counts):
        self.words = [(split(word), n) for word, n in word_counts.items()]
        self.pairs = Counter()  # how often each pair occurs
        self.where = defaultdict(set)  # in which words it occurs
        self.touched = 0  # words that were looked at, in all merges together
        for i in range(len(self.words)):
            self.add(i, +1)

    def add(self, i, sign):  # the pairs of word i: add them (+1), or take them out (-1)
        symbols, n = self.words[i]
        for pair in pairwise(symbols):
            self.pairs[pair] += sign * n
            self.where[pair].add(i)


toy_learner = Learner(toy)
found_in = [list(toy)[i] for i in sorted(toy_learner.where["s", "t</w>"])]
print("the pair (s, t</w>) is in the words", found_in)
assert toy_learner.pairs == toy_pairs, "the counts are those of count_pairs"

# %%
def merge_next(learner):
    """The most frequent pair and its count, already merged; None if no pair occurs twice."""
    count, pair = max(zip(learner.pairs.values(), learner.pairs, strict=True), default=(0, None))
    if count < 2:
        return None
    for i in learner.where.pop(pair):
        symbols, n = learner.words[i]
        learner.add(i, -1)
        learner.words[i] = merge(symbols, pair), n
        learner.add(i, +1)
        learner.touched += 1
    del learner.pairs[pair], learner.where[pair]  # add(i, -1) has put it into `where` again
    return pair, count


def learn(word_counts, n_merges):
    """The first n merges, or all that there are, each with its count."""
    learner = Learner(word_counts)
    found = [merge_next(learner) for _ in range(n_merges)]
    return [merged for merged in found if merged]


print("the first merges of the toy:", learn(toy, 3))
assert learn(toy, 100) == toy_merges, "the same merges as the slow way"

# %% [markdown]
# The merges of the toy are the same. Now the manual, 50 merges, in seconds of processor time:

# %%
import time

started = time.process_time()
slow_merges = learn_slowly(known_counts, 50)
slow = time.process_time() - started

started = time.process_time()
learner = Learner(known_counts)  # counts all words once
fast_merges = [merge_next(learner) for _ in range(50)]
fast = time.process_time() - started
early, learner.touched = learner.touched / 50, 0  # the mean so far; then count anew
fast_merges += [merge_next(learner) for _ in range(950)]
late = learner.touched / 950
print(f"50 merges, all words counted again    {slow:.2f} s")
print(f"50 merges, only the words with the pair {fast:.2f} s")
print(f"words touched by a merge, of {len(known_counts):,}: {early:.0f} in the first 50 merges, "
      f"{late:.0f} in merges 51 to 1,000")  # fmt: skip
assert slow_merges == fast_merges[:50], "both ways learn the same merges"
assert early < len(known_counts) / 10, "the first 50 touch few words each"
assert late < early / 5, "the later the merge, the fewer the words"

# %% [markdown]
# Later merges have rarer pairs, so on average they touch fewer words, while `learn_slowly` counts
# all words until the end.
#
# One slow step is left: for each merge, `merge_next` looks through all pairs for the largest count.
# The library keeps the pairs in groups, one group for each count, and begins with the highest. So
# it finds the next pair without a search.
#
# **Encoding.** `encode_in_order` tries all merges on every word, 40,000 for GPT-1. Most of them
# do not occur in the word. It is enough to look at the pairs that are in the word now, and to take
# the one that was learnt first: the one with the lowest **rank**.

# %%
def encode_by_rank(word, ranks):
    """ranks {pair: place in the list of merges} -> the symbols of a word."""
    symbols = split(word)
    while len(symbols) > 1:
        pair = min(pairwise(symbols), key=lambda pair: ranks.get(pair, len(ranks)))
        if pair not in ranks:
            break
        symbols = merge(symbols, pair)
    return symbols


manual_merges = [pair for pair, _ in fast_merges]
manual_ranks = {pair: rank for rank, pair in enumerate(manual_merges)}
some_words = sorted(set(new))[::13]
for word in some_words:
    in_sequence = encode_in_order(word, manual_merges)
    assert encode_by_rank(word, manual_ranks) == in_sequence, "both ways give the same symbols"
assert len({"".join(pair) for pair in manual_merges}) == 1000, "no two merges make one symbol"
print(f"{len(some_words)} words, 1,000 merges: the same symbols in both ways; for example")
for word in some_words[-3:]:
    print("  ", " | ".join(encode_by_rank(word, manual_ranks)))

# %% [markdown]
# Why are the two ways equal? Suppose that the merge of rank 7 has just been done in a word. It
# makes a new symbol, and each new pair in the word contains this symbol. A merge that uses the
# symbol must have been learnt after it, so its rank is above 7. So no pair with a rank below 7 can
# appear now: "lowest rank first" goes through the list from its first merge to its last.
#
# This needs one condition: no two merges make the same symbol, as ab + c and a + bc would. The last
# assertion checks it for our merges. In GPT-1's released list, too, each of the 40,000 merges makes
# a symbol of its own.
#
# Words repeat, so the library also remembers the symbols of each word.

# %% [markdown] tags=["deeper"]
# ## 5. Check, and the trap
#
# These are the thirteen merges of the toy, as Sennrich's published program gives them (`learn_bpe`
# of subword-nmt 0.3.8):

# %%
published = [
    "s+t</w> 9  e+st</w> 9  l+o 7  w+est</w> 6  n+e 6  ne+west</w> 6",
    "lo+w</w> 5  w+i 3  wi+d 3  wid+est</w> 3  w+e 2  we+r</w> 2  lo+wer</w> 2",
]
ours = [f"{left}+{right} {count}" for (left, right), count in toy_merges]
for line in published:
    print(line)
same = ours == "  ".join(published).split("  ")
assert same, "merges, counts and order are those of the published program"

# %% [markdown]
# **The trap: a round trip proves little.** `decode(encode(text)) == text` is a good test to have,
# and a weak one. It passes for *any* list of merges, even for none, and for the longest match,
# because joined pieces give the word back however it was cut:

# %%
encoders = {
    "the merges": by_toy_merges,
    "no merges": split,
    "the merges backwards": lambda word: encode_in_order(word, toy_pairs_in_order[::-1]),
    "the longest match": encode_longest_match,
}
print("encoder                comes back as   symbols")
for name, encoder in encoders.items():
    its_symbols = encode_text("nest", encoder)
    print(f"{name:22} {decode(its_symbols):15} {' | '.join(its_symbols)}")
    assert decode(its_symbols) == "nest", "every encoder passes the round trip"

# %% [markdown]
# For other text the round trip fails, and for good reasons:

# %%
import sys

if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(errors="replace")  # a terminal may not be able to show Hangul

symbols_seen = {symbol for word in known_counts for c in word for symbol in (c, c + "</w>")}
symbols_seen |= {"".join(pair) for pair in manual_merges}


def encode_or_unknown(word):
    """The symbols of a word; <unk> for those that the vocabulary does not have."""
    return [s if s in symbols_seen else "<unk>" for s in encode_by_rank(word, manual_ranks)]


samples = {"the cat": "the cat", "The  cat!": "the cat !", "안녕 cat": "<unk><unk>cat"}
for given, returned in samples.items():
    back = decode(encode_text(given, encode_or_unknown))
    print(f"{given!r} comes back as {back!r}")
    assert back == returned, "what comes back is not always what was given"

# %%
d = plot.Diagram(7.4, 3.2, "text, its symbols, and what comes back")
for y, (given, returned) in zip((2.6, 1.6, 0.6), samples.items(), strict=True):
    pieces = encode_text(given, encode_or_unknown)
    color = "tab:green" if given == returned else "tab:red"
    start = d.box(0.85, y, plot.readable(given).replace("  ", "␣␣"), "gray", width=1.5)
    middle = d.box(3.45, y, "  ".join(pieces), width=2.8)
    finish = d.box(6.3, y, returned, color, width=2.0)
    d.arrow(start, middle)
    d.arrow(middle, finish)
print("in the last row stands", plot.readable("안녕"), "(hello)")
plot.save(d.figure, "10_what_is_lost.png")

# %% [markdown]
# Three things are lost: capital letters, where the spaces stood and how many, and every character
# that the corpus did not have. Such a character becomes the one symbol `<unk>` ("unknown"). A word
# that ends in `<unk>` has also lost its mark, so the space after it is lost. GPT-1 accepts all
# three. In its released vocabulary the word 안녕하세요 is five times `<unk>`
# (`tests/test_tokenizer_gpt1.py` checks it, where the released files lie). GPT-2 loses nothing
# (lesson 15): it starts from bytes instead of characters.

# %% [markdown] tags=["deeper"]
# ## 6. See it: what merges save
#
# How many symbols does a word take after 1, 2, 4, ... 2,048 merges? We learn from the manual and
# from a small world of stories for children (`minigpt.data.stories`), and then read other text.

# %%
from minigpt.data import stories

CHECKPOINTS = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]


def symbols_per_word(words, merges):
    """{number of merges: symbols for each word, on average}, up to the last merge."""
    counts, per_word = Counter(words), {}
    for n in sorted({min(n, len(merges)) for n in CHECKPOINTS}):
        ranks = {pair: rank for rank, pair in enumerate(merges[:n])}
        total = sum(c * len(encode_by_rank(word, ranks)) for word, c in counts.items())
        per_word[n] = total / len(words)
    return per_word


parts = [split_words(stories.corpus(200, split=part)) for part in ("train", "valid")]
story_words, new_story_words = parts
all_manual_merges = [pair for pair, _ in learn(known_counts, CHECKPOINTS[-1])]
story_merges = [pair for pair, _ in learn(Counter(story_words), CHECKPOINTS[-1])]
print(f"merges from the manual {len(all_manual_merges):,}, from stories {len(story_merges):,}")
assert all_manual_merges[:1000] == manual_merges, "the first thousand are those of section 4"

# %%
curves = {
    "the manual, learnt from": symbols_per_word(known, all_manual_merges),
    "the manual, the new tenth": symbols_per_word(new, all_manual_merges),
    "stories, learnt from": symbols_per_word(story_words, story_merges),
    "other stories": symbols_per_word(new_story_words, story_merges),
    "the manual, merges from stories": symbols_per_word(new, story_merges),
}
print("symbols for each word                after no merge   after all merges")
for name, curve in curves.items():
    print(f"{name:36}{curve[0]:15.2f}{curve[max(curve)]:19.2f}")
last = [curve[max(curve)] for curve in curves.values()]
assert last[0] < last[1] < 1.4, "new text of the same kind needs a few more symbols"
assert max(last[2:4]) < 1.05, "in the story world nearly every word becomes one symbol"
assert last[4] > 2, "merges from stories help the manual little"
own = list(curves.values())[:4]  # read with merges from text of the same kind
saved = [curve[n] - curve[2 * n] for curve in own for n in (16, 32, 64, 128, 256)]
print(f"from 16 merges to 512, a doubling saves {min(saved):.2f} to {max(saved):.2f} symbols")
assert 0.15 < min(saved) and max(saved) < 0.4, "about the same in these four curves"
assert all(curve[1024] - curve[2048] < min(saved) for curve in own[:2]), "later it saves less"
at_512 = [curves["the manual, the new tenth"][512], curves["the manual, merges from stories"][512]]
print("the new tenth after 512 merges: from the manual {:.2f}, from stories {:.2f}".format(*at_512))
assert at_512[1] > at_512[0] + 0.5, "with as many merges, those of its own kind are better"

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(7, 5))
styles = (("o-", "tab:blue"), ("o--", "tab:blue"), ("s-", "tab:orange"), ("s--", "tab:orange"),
          ("^:", "tab:red"))  # fmt: skip
for (name, curve), (style, color) in zip(curves.items(), styles, strict=True):
    places = [max(n, 0.5) for n in curve]  # a logarithmic axis has no 0
    axes.plot(places, list(curve.values()), style, color=color, label=name, markersize=5)
axes.axhline(1, color="gray", linewidth=1)
axes.set_xscale("log", base=2)
ticks = [1, 4, 16, 64, 256, 1024]
axes.set_xticks([0.5, *ticks], ["none", *map(str, ticks)])
axes.minorticks_off()
axes.set(xlabel="number of merges", ylabel="symbols for each word", ylim=(0.8, 4.9))
axes.set_title("Merges help the text from which they were learnt")
axes.text(0.5, 0.97, "a word is one symbol", va="top", color="gray")
axes.legend(loc="upper right", fontsize="small")
plot.save(figure, "10_symbols_per_word.png")

# %% [markdown]
# Look first at the four curves in which the text is like the one that the merges come from. From 16
# merges to 512, each doubling saves 0.21 to 0.33 symbols for each word. Later doublings save
# less: no word can have less than one symbol. The story world has so few words that its learning
# ends early: no pair is left that occurs twice.
#
# The red curve reads the manual with merges from stories. They help it little. The reason is not
# that there are fewer of them: with 512 merges each (the last line), those from the manual are much
# better for it. So a vocabulary cuts text of its own kind into few tokens, and other text into
# more.
#
# Why not go on until every word is one symbol? Each symbol has a row in the embedding. As an input,
# this row learns only from the places where the symbol occurs. And for each symbol the head
# computes a score, at every position. GPT-1 stopped at 40,000 merges:

# %%
V, C, T = 1 + 238 + 238 + 40_000 + 1, 768, 512
table, positions = V * C, T * C
all_parameters = 116_534_784  # counted in lesson 08
print(f"vocabulary of GPT-1  {V:,}")
print(f"embedding            {V:,} x {C} = {table:,} parameters")
print(f"share of the model   {table / all_parameters:.0%} of {all_parameters:,}")
assert V == 40_478, "<unk>, 238 characters, the same with a mark, 40,000 merges, the line end"
assert round(table / 1e6) == 31, "31 of 117 million parameters are this table"

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# `minigpt.tokenizer.bpe` is written for speed. Beside it stands the same in a few lines, written to
# be read, and a test compares the two. This is its learning. It differs from `learn_slowly` in one
# point: it goes on when the best pair occurs only once.
#
#     # minigpt/tokenizer/bpe_reference.py
#     pair_counts = Counter()
#     for word, symbols in words.items():
#         for pair in pairwise(symbols):
#             pair_counts[pair] += word_counts[word]
#     if not pair_counts:
#         break
#     best = max(pair_counts, key=lambda pair: (pair_counts[pair], pair))
#     merges.append(best)

# %%
from itertools import islice

from minigpt.tokenizer import bpe

by_library = list(islice(bpe.learn(known_counts), 1000))
print("the last of 1,000 merges, library:", by_library[-1], " ours:", fast_merges[-1])
assert by_library == fast_merges, "1,000 merges and counts, equal to the library's"
assert list(bpe.learn(toy)) == toy_merges, "and the toy's"
toy_ranks = {pair: rank for rank, pair in enumerate(toy_pairs_in_order)}
assert bpe.merge(bpe.split_word("nest"), toy_ranks) == of_nest, "and the symbols of nest"

# %% [markdown]
# `GPT1Tokenizer` is the whole way from text to ids. The **id** of a symbol is its place in the list
# of all symbols. `explain` shows the merges of a text:

# %%
from minigpt import tokenizer

corpus = stories.corpus(300)
gpt1 = tokenizer.GPT1Tokenizer.train(corpus, vocab_size=400, pipeline="rules", progress=False)
print(gpt1.explain("Happily!"))
ids = gpt1.encode("Tom was happily lost.\n안녕")
print("ids", ids)
print("are", repr(gpt1.decode(ids)))
assert gpt1.vocab_size == 400, "as many tokens as were wanted"
assert (gpt1.tokens[0], gpt1.tokens[-1]) == ("<unk>", "\n</w>"), "the first id and the last"
assert gpt1.decode(ids) == "tom was happily lost .\n<unk><unk>", "as section 5 says"

# %% [markdown]
# The list has a fixed order, that of the released file: `<unk>` has the id 0, then come the
# characters, the characters with their mark, one symbol for each merge, and the line end.

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - The paper says "a bytepair encoding (BPE) vocabulary with 40,000 merges". The vocabulary has
#   40,478 entries; the other 478 are counted in section 6. That all text is made lower case can
#   be seen only in the code.
# - Before any merge, paper and code clean the text with the library `ftfy`, standardise punctuation
#   and white space, and split words by the English rules of `spaCy`: `didn't` becomes `did` and
#   `n't`. Our `\w+` is simpler. `minigpt.tokenizer.text` has the paper's way, and rules that
#   replace the two libraries where they are not installed.
# - In Sennrich's first version `</w>` was a symbol of its own. Since version 0.2 of his program,
#   and in GPT-1, it is part of the last character. With the first version the toy has other merges:
#   `t + </w>` comes first, and there are 15 of them.
# - A line end is the symbol `\n</w>`, at the end of the vocabulary. No merge makes it.
# - The `tokenizers` library decides between equal counts by the ids of the symbols, so the same
#   text gives another vocabulary: `bpe.learn(..., ties="tokenizers")`. Neither rule is right
#   or wrong.
# - **WordPiece**, the method of BERT, merges pairs by another rule, and its encoder does take the
#   longest match. Exercise 1 builds it.

# %% [markdown]
# ## 9. To keep
#
# - Byte-pair encoding joins the most frequent pair of neighbours into one symbol, everywhere, again
#   and again: frequent words become one token, and rare words are spelled in several.
# - A new word is encoded by the same merges in the order in which they were learnt.
# - Age decides, not length: an encoder that takes the longest piece gives rows of tokens that the
#   model never saw in training, and no error message.

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/10_byte_pair_encoding.py`: WordPiece. Which pair is merged, and how is a word
#    encoded? Two functions; the file judges them.
# 2. `exercises/10_find_the_bug.py`: a `merge` in one line, with `str.replace`. It learns the toy
#    correctly, and it is wrong.
# 3. On paper: how many symbols has `aaaaa</w>` after the merge (a, a)? How often did the pair
#    occur? Why can a merge remove fewer symbols than its count?
# 4. To try: how many words of the manual's new tenth are one token, after 0, 100, 1,000 and 2,048
#    merges? How many words that were *never seen* in the other nine tenths are one token?

# %%
print("lesson 10: every check is happy")
