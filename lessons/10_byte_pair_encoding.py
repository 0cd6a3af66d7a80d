# %% [markdown]
# # Lesson 10: byte-pair encoding, GPT-1's
#
# A model works on numbers. You will build what turns text into whole numbers and back: learn a vocabulary from text,
# make learning fast, encode, decode, and see what is lost on the way.
#
# Reading: 25 minutes. Running: 8 seconds. Before it: nothing but Python's dict and list.
#
# Papers: Sennrich, Haddow and Birch 2016 ("Neural machine translation of rare words with subword units"), section 3.2
# and algorithm 1. Radford et al. 2018 (GPT-1), section 4.1. The idea of merging pairs is Gage's, 1994, for data
# compression.

# %% [markdown]
# ## 1. Why: neither words nor characters
#
# Give each *word* a number. We need real English, without a network: the manual of the language that runs this lesson.
# Learn the words of nine tenths of it, and read the remaining tenth, from the middle.

# %%
import re
from collections import Counter
from pydoc_data.topics import topics


def split_words(text):
    """Lower-case words, and punctuation marks one by one. GPT-1 has finer rules: section 8."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


manual = split_words("\n".join(topics[name] for name in sorted(topics)))
first, last = len(manual) * 4 // 10, len(manual) * 5 // 10
known, new = manual[:first] + manual[last:], manual[first:last]
known_counts = Counter(known)
one_in = len(new) / sum(word not in known_counts for word in new)
print(f"{len(known):,} words, {len(known_counts):,} different; of new text, one word in {one_in:.0f} is unknown")
assert 20 < one_in < 80

# %% [markdown]
# A few dozen words, then a hole, in a text by the same authors about the same thing. And holes are where the meaning
# is: names, numbers, rare words. There is no end to words. Besides, `merge`, `merged` and `merging` would be strangers
# to each other, three numbers of which each has to be learnt alone.
#
# Give each *character* a number, then. Nothing is ever new. But a text is now much longer:

# %%
longer = sum(map(len, manual)) / len(manual)
print(f"{longer:.1f} characters to a word: {longer**2:.0f} times as many pairs of positions (lesson 03 compares each)")
assert 3 < longer < 5

# %% [markdown]
# The way out lies between: **let frequent things be one symbol, spell rare ones in pieces.** And let counting choose
# the pieces.

# %% [markdown]
# ## 2. Learning the merges
#
# The whole method: *write every word as a list of characters. Find the pair of neighbours that occurs most often. Join
# it, everywhere, into a new symbol. Repeat.* Four words with their counts will do:

# %%
toy = {"low": 5, "lower": 2, "newest": 6, "widest": 3}

# %% [markdown]
# One thing first. In `lowest`, `est` ends a word; in `western` it does not. To keep them apart, the last character of a
# word carries the mark `</w>`. It will also tell the decoder where the spaces belong.

# %%
from itertools import pairwise


def split(word):
    """The symbols that a word starts from."""
    return [*word[:-1], word[-1] + "</w>"]


def count_pairs(words):
    """words: a list of (symbols, count)."""
    pairs = Counter()
    for symbols, n in words:
        for pair in pairwise(symbols):
            pairs[pair] += n
    return pairs


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


words = [(split(word), n) for word, n in toy.items()]
pairs = count_pairs(words)
print("split:", " ".join(split("newest")), "  the most frequent pairs:", pairs.most_common(3))
assert pairs["e", "s"] == pairs["s", "t</w>"] == 9  # six times newest, three times widest

# %% [markdown]
# Two pairs stand at 9. Somebody has to decide, or two programs learn two vocabularies. Sennrich's trainer takes the
# pair that is last in the dictionary, (s, t</w>), which in Python is simply the largest `(count, pair)`. Pairs seen
# once are not merged.

# %%
def learn_slowly(word_counts, n_merges):
    """The list of merges, each with its count."""
    words = [(split(word), n) for word, n in word_counts.items()]
    merges = []
    while len(merges) < n_merges:
        pairs = count_pairs(words)
        count, pair = max(((n, pair) for pair, n in pairs.items()), default=(0, None))
        if count < 2:
            break
        merges.append((pair, count))
        words = [(merge(symbols, pair), n) for symbols, n in words]
    return merges


toy_merges = learn_slowly(toy, 100)
toy_story = "  ".join(f"{left}+{right} {count}" for (left, right), count in toy_merges)
print(toy_story)

# %% [markdown]
# `est</w>` after two merges: the method has found the superlative, and nobody told it about grammar. Then `lo`, then
# the pieces of the frequent word `newest`. After 13 merges each of the four words is one symbol. No pair is left, and
# it stops by itself.

# %% [markdown]
# ## 3. Encoding, and the way back
#
# A new word comes. Which symbols is it? Do to it what was done to the corpus: the same merges, in the same order.

# %%
merges = [pair for pair, _ in toy_merges]


def encode_in_order(word, merges):
    symbols = split(word)
    for pair in merges:
        symbols = merge(symbols, pair)
    return symbols


for word in ("lowest", "nest"):
    print(f"{word}: {' | '.join(encode_in_order(word, merges))}")
assert encode_in_order("nest", merges) == ["n", "est</w>"] and encode_in_order("lowest", merges) == ["lo", "west</w>"]
assert all(encode_in_order(word, merges) == [word + "</w>"] for word in toy)

# %% [markdown]
# `lowest` was never seen, and two symbols spell it. But why not `low` and `est`, as a linguist would cut? The
# vocabulary has `low</w>`, which ends a word, and no `low`: in `lower` it was `w` and `e` that met first. And here `w`
# was joined to `est</w>` before it could meet `lo`.
#
# Now `nest`, and **the surprise of this lesson**. The vocabulary has `ne`, learnt from `newest`. Many people believe
# that an encoder takes the longest symbol that fits, then the next:

# %%
vocabulary = {symbol for pair in merges for symbol in (*pair, "".join(pair))}


def encode_longest_match(word):
    symbols, rest = [], word + "</w>"
    while rest:
        longest = max((symbol for symbol in vocabulary if rest.startswith(symbol)), key=len)
        symbols.append(longest)
        rest = rest[len(longest) :]
    return symbols


print(f"nest by the longest match: {' | '.join(encode_longest_match('nest'))}")
assert encode_longest_match("nest") == ["ne", "st</w>"]

# %% [markdown]
# Not the same. The merges say `n | est</w>`, since (e, st</w>) was learnt before (n, e): *age* decides, not length. A
# model that has learnt what `est</w>` means would now be shown `ne | st</w>`, gibberish to it. An encoder with another
# rule gives text that decodes well, and a model that reads badly: a mistake without an error message.
#
# **The way back** undoes the steps, the last one first: join the symbols, and where a mark stands, write a space. (The
# number of a symbol, its id, is its place in a list of all symbols; that needs no undoing worth a line.)

# %%
def encode_text(text, encode_word):
    return [symbol for word in split_words(text) for symbol in encode_word(word)]


def decode(symbols):
    # every word was cut into symbols
    text = "".join(symbols)
    # its last character had been marked
    return text.replace("</w>", " ").strip()


assert decode(encode_text("low newest west", lambda word: encode_in_order(word, merges))) == "low newest west"

# %% [markdown]
# ## 4. The same, faster
#
# **Learning.** Each step of `learn_slowly` looks at every word of the corpus. But a merge changes only the words that
# contain its pair. In pencil: somewhere stands `x left right y`. After the merge it is `x new y`. The pair (left,
# right) is gone, (x, left) and (right, y) occur once less, (x, new) and (new, y) once more. Everything else is as it
# was. So keep, for each pair, a list of the words that contain it (an *inverted index*, like the one at the end of a
# book), and count again in those words only.

# %%
from collections import defaultdict


class Learner:
    """Learns one merge after another. `words[i]` is (symbols, count), `pairs` counts, `where` tells which words."""

    def __init__(self, word_counts):
        self.words = [(split(word), n) for word, n in word_counts.items()]
        self.pairs, self.where = Counter(), defaultdict(set)
        for i in range(len(self.words)):
            self.add(i, +1)
        self.touched = 0  # words that we had to look at, in all merges together

    def add(self, i, sign):
        """Put the pairs of word i into the counts, or take them out."""
        symbols, n = self.words[i]
        for pair in pairwise(symbols):
            self.pairs[pair] += sign * n
            self.where[pair].add(i)

    def merge_next(self):
        """The most frequent pair and its count, already merged; None if every pair is seen less than twice."""
        count, pair = max(zip(self.pairs.values(), self.pairs, strict=True), default=(0, None))
        if count < 2:
            return None
        for i in self.where.pop(pair):
            symbols, n = self.words[i]
            self.add(i, -1)
            self.words[i] = merge(symbols, pair), n
            self.add(i, +1)
            self.touched += 1
        del self.pairs[pair], self.where[pair]
        return pair, count


learner = Learner(toy)
assert [learner.merge_next() for _ in range(13)] == toy_merges and learner.merge_next() is None

# %% [markdown]
# The same merges on the toy. And on the manual, where it matters? A race over 50 merges, in seconds of processor time:

# %%
import time

start = time.process_time()
slow_merges = learn_slowly(known_counts, 50)
slow = time.process_time() - start

learner = Learner(known_counts)
start = time.process_time()
fast_merges = [learner.merge_next() for _ in range(50)]
fast = time.process_time() - start

assert slow_merges == fast_merges
print(f"50 merges, counting everything again: {slow:.2f} s; only the words with the pair: {fast:.2f} s")
early, learner.touched = learner.touched / 50, 0
fast_merges += [learner.merge_next() for _ in range(950)]
late = learner.touched / 950
print(f"of {len(known_counts):,} words a merge touched {early:.0f} at first, {late:.0f} from merge 51 to 1000")
assert fast < slow / 3 and late < early / 5 < len(known_counts) / 50

# %% [markdown]
# And the later the merge, the rarer its pair and the fewer the words: the cost of a merge falls as learning goes on,
# while the slow learner pays the full price up to the end. Over 40,000 merges that adds up. (What remains is the search
# for the largest count; the library keeps a heap for that, and keeps only the counts of the four neighbours up to
# date.)
#
# **Encoding.** `encode_in_order` tries every merge on every word: 40,000 attempts, nearly all in vain. Turn it around:
# among the pairs that the word *has*, the one that was learnt first goes first.

# %%
def encode_by_rank(word, ranks):
    """ranks: {pair: its place in the list of merges}."""
    symbols = split(word)
    while len(symbols) > 1:
        pair = min(pairwise(symbols), key=lambda pair: ranks.get(pair, len(ranks)))
        if pair not in ranks:
            break
        symbols = merge(symbols, pair)
    return symbols


merges = [pair for pair, _ in fast_merges]
ranks = {pair: rank for rank, pair in enumerate(merges)}
for word in sorted(set(new))[::13]:
    assert encode_by_rank(word, ranks) == encode_in_order(word, merges)

# %% [markdown]
# Why are they equal? A merge can only bring forth pairs that contain its new symbol, and those were learnt later than
# the symbol itself. So after applying rank 7, no pair of a rank below 7 can appear, and "lowest rank first" walks
# through the list in order. Words repeat, so remembering each word's symbols in a dict does the rest.

# %% [markdown]
# ## 5. Check
#
# The thirteen merges of the toy, as Sennrich's published trainer (subword-nmt) gives them:

# %%
assert toy_story == (
    "s+t</w> 9  e+st</w> 9  l+o 7  w+est</w> 6  n+e 6  ne+west</w> 6  lo+w</w> 5  "
    "w+i 3  wi+d 3  wid+est</w> 3  w+e 2  we+r</w> 2  lo+wer</w> 2"
)

# %% [markdown]
# **The trap: a round trip proves little.** `decode(encode(text)) == text` holds for the toy. It holds for *any* list of
# merges, even for none, and for the longest match: joining pieces gives the word back however it was cut. And where the
# text is not as tame as the corpus, it fails for a good reason:

# %%
known_symbols = {symbol for word in known_counts for c in word for symbol in (c, c + "</w>")}
known_symbols |= {"".join(pair) for pair in merges}


def encode_or_unknown(word):
    return [symbol if symbol in known_symbols else "<unk>" for symbol in encode_by_rank(word, ranks)]


for text, returned in {"the cat": "the cat", "The  cat!": "the cat !", "cat 안녕": "cat <unk><unk>"}.items():
    assert decode(encode_text(text, encode_or_unknown)) == returned
    print(f"  {text!a} comes back as {returned!r}")

# %% [markdown]
# Three losses: capitals, spaces, and every character that the corpus did not have, which becomes the one symbol
# `<unk>`. GPT-1 lives with all three. To its released vocabulary the word 안녕하세요 is five times `<unk>`. GPT-2 loses
# nothing (lesson 15): it starts from bytes instead of characters, as the name of the method says.

# %% [markdown]
# ## 6. See it: what merges buy
#
# How many symbols does a word take, after so many merges? We learn from the manual and from a small world of stories
# for children (`minigpt.data.stories`), and then read text that was not learnt from.

# %%
from itertools import takewhile

from minigpt import plot
from minigpt.data import stories

plt = plot.plt

checkpoints = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]


def learn(words, n):
    """The first n merges, or all there are."""
    learner = Learner(Counter(words))
    return [pair for pair, _ in takewhile(bool, (learner.merge_next() for _ in range(n)))]


def symbols_per_word(words, merges):
    """After so many merges, a word is so many symbols long: {merges: symbols}, up to the last merge."""
    counts, per_word = Counter(words), {}
    for n in sorted({min(n, len(merges)) for n in checkpoints}):
        ranks = {pair: rank for rank, pair in enumerate(merges[:n])}
        per_word[n] = sum(c * len(encode_by_rank(word, ranks)) for word, c in counts.items()) / len(words)
    return per_word


story_words, new_story_words = (split_words(stories.corpus(200, split=split)) for split in ("train", "valid"))
manual_merges, story_merges = learn(known, checkpoints[-1]), learn(story_words, checkpoints[-1])
curves = {
    "the manual, learnt from": (symbols_per_word(known, manual_merges), "o-", "tab:blue"),
    "the manual, the new tenth": (symbols_per_word(new, manual_merges), "o--", "tab:blue"),
    "stories, learnt from": (symbols_per_word(story_words, story_merges), "s-", "tab:orange"),
    "other stories": (symbols_per_word(new_story_words, story_merges), "s--", "tab:orange"),
    "the manual, with merges learnt from stories": (symbols_per_word(new, story_merges), "^:", "tab:red"),
}
figure, axes = plt.subplots()
for label, (curve, style, colour) in curves.items():
    places = [max(n, 0.5) for n in curve]  # a logarithmic axis has no 0
    axes.plot(places, list(curve.values()), style, color=colour, label=label, markersize=4, linewidth=1.2)
axes.axhline(1, color="gray", linewidth=1)
axes.text(0.5, 0.9, "below this line a symbol would be longer than a word", color="gray", fontsize="small")
axes.set_xscale("log", base=2)
ticks = [1, 4, 16, 64, 256, 1024]
axes.set_xticks([0.5, *ticks], ["none", *map(str, ticks)])
axes.minorticks_off()
axes.set(xlabel="number of merges learnt", ylabel="symbols per word", ylim=(0.8, None))
axes.set_title("A vocabulary is a memory of its text: elsewhere it helps less")
axes.legend(fontsize="small", loc=(0.02, 0.12))
plot.save(figure, "10_byte_pair_encoding.png")

for label, (curve, _, _) in curves.items():
    merged, symbols = list(curve.items())[-1]
    print(f"  {label}: {symbols:.2f} symbols per word after {merged} merges")
ends = [list(curve.values())[-1] for curve, _, _ in curves.values()]
assert max(ends[2:4]) < 1.05 < ends[0] < ends[1] < 1.4 and ends[4] > 2
for curve, _, _ in list(curves.values())[:4]:
    assert all(0.15 < curve[n] - curve[2 * n] < 0.45 for n in (16, 32, 64, 128, 256))

# %% [markdown]
# One by one the first merges buy the most. From 16 to 512, each doubling buys 0.2 to 0.4 symbols per word; after that
# there is less and less left to buy. The story world has so few words that it is used up early: no pair is left that
# occurs twice. Its merges are of little use for the manual: the red curve ends above 2. So a model reads its own kind
# of text in few symbols and all other text in many; for GPT-1, whose vocabulary comes from English novels, Korean has
# no symbols at all.
#
# Why not go on until every word is whole? Every symbol is a row in the model's table, to be learnt from the few places
# where it occurs, and a score to be computed at each position. GPT-1 stopped at 40,000 merges: 31 of its 117 million
# parameters are that table.

# %% [markdown]
# ## 7. In the library
#
# `minigpt.tokenizer.bpe.learn` gives the same merges and the same counts:

# %%
from itertools import islice

from minigpt import tokenizer
from minigpt.tokenizer import bpe

assert list(islice(bpe.learn(known_counts), 1000)) == fast_merges
assert list(bpe.learn(toy)) == toy_merges
assert bpe.merge(bpe.split_word("nest"), {pair: i for i, (pair, _) in enumerate(toy_merges)}) == ["n", "est</w>"]

# %% [markdown]
# `GPT1Tokenizer` is the whole way from text to ids. `explain` shows how it went:

# %%
gpt1 = tokenizer.GPT1Tokenizer.train(stories.corpus(300), vocab_size=400, pipeline="rules", progress=False)
print(gpt1.explain("Happily!"))
ids = gpt1.encode("Tom was happily lost.\n안녕")
print(ids, "is", repr(gpt1.decode(ids)))
assert gpt1.tokens[0] == "<unk>" and gpt1.tokens[-1] == "\n</w>" and gpt1.vocab_size == 400
assert gpt1.decode(ids) == "tom was happily lost .\n<unk><unk>"

# %% [markdown]
# The ids stand in a fixed order, that of the released file: `<unk>` is 0, then the characters, the characters with
# their mark, one symbol for each merge, and the line end. Count them for GPT-1: 1 + 238 + 238 + 40,000 + 1 = 40,478.

# %% [markdown]
# ## 8. Paper and code
#
# - The paper says "a bytepair encoding (BPE) vocabulary with 40,000 merges". The vocabulary has 40,478 entries; the 478
#   others are told above. That all text is made lower case can be seen only in the code.
# - Before any merge, paper and code clean the text with the library `ftfy`, standardise punctuation and white space,
#   and split words by the English rules of `spaCy`: `didn't` becomes `did` and `n't`. Our `\w+` is simpler.
#   `minigpt.tokenizer.text` has the paper's way, and rules for when the two libraries are not there.
# - Sennrich's first version had `</w>` as a symbol of its own; since version 0.2, and in GPT-1, it is glued to the last
#   character. The toy then has other merges.
# - A line end is the symbol `\n</w>`, put at the end of the vocabulary: no merge makes it.
# - The `tokenizers` library breaks ties by the ids of the symbols, so the same text gives another vocabulary:
#   `bpe.learn(..., ties="tokenizers")`. Neither is better.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/10_byte_pair_encoding.py`: write `merges(word_counts, n)` and `encode(word, merges)` from an empty page.
#    The file judges itself: run it.
# 2. `exercises/10_find_the_bug.py`: a `merge` in one line, `str.replace`, as many have written it. It learns the toy
#    rightly, and yet it is wrong. Run the file, find out why, mend it.
# 3. With pencil: how many symbols has `aaaaa</w>` after the merge (a, a)? And how often did the pair occur? Why can a
#    merge remove fewer symbols than its count?

# %%
print("lesson 10: every check is happy (13 published merges, 1,000 equal to the library's)")
