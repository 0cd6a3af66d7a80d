# %% [markdown]
# # Lesson 35: WordPiece and Unigram, the other tokenizers
#
# You will cut the same Korean and English text with four tokenizers: GPT-2's, BERT's (WordPiece),
# LLaMA's (BPE of SentencePiece) and T5's (Unigram). For each you will build how it cuts a word, and
# see a mistake that is easily made with it. Then you will train a Unigram model by hand, with a
# method whose likelihood rises at every step, and see that what it counts is a gradient.
#
# Reading: 25 minutes for the core, 95 minutes for all of it. Running: 5 to 15 seconds. Before it:
# lessons 10 and 15; you may read it right after lesson 15. Section 6 also uses finite differences
# (lesson 00) and the gradient of the softmax (lesson 02). The deeper parts make two sittings, with
# a pause before section 6.
#
# Papers: Schuster and Nakajima 2012, and Wu et al. 2016, section 4.1 (WordPiece). Kudo 2018,
# sections 3.2 and 3.3 (Unigram). Kudo and Richardson 2018 (SentencePiece).

# %% [markdown]
# ## 1. Why: four ways to cut one text
#
# A trained model can only be used with the pieces of text that it was trained with. GPT-1's were
# built in lesson 10, and GPT-2's in lesson 15. The relatives of GPT have others:
#
# | tokenizer | models | its pieces: which are chosen | a word is cut by |
# |---|---|---|---|
# | byte-level BPE | GPT-2, RoBERTa, BART | bytes, frequent pairs | merges, oldest first |
# | WordPiece | BERT, ELECTRA | characters, pairs (section 7) | the longest piece first |
# | SentencePiece's BPE | LLaMA 1 and 2 | characters, frequent pairs | merges, best score first |
# | Unigram | T5, ALBERT, XLNet, XLM-R | those that the text needs most | the likeliest way |
#
# The library trains all four, with 2,000 pieces each, on the same stories in English and Korean
# (`minigpt.data.stories`). Sections 2 to 4 build what is used here.

# %%
import sys

import numpy as np

from minigpt import data, plot
from minigpt.device.threads import set_threads
from minigpt.tokenizer import TRAINERS

set_threads(1)  # small arrays: a second thread would only be in the way
if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(errors="replace")  # a terminal may not be able to show Hangul


def stories_in(source, part):
    return "".join(data.load(f"{source}:200").pieces(part, "\n"))


BYTES, WORDPIECE, SCORES, UNIGRAM = "bytes", "WordPiece", "SentencePiece's BPE", "Unigram"
KINDS = {BYTES: "gpt2", WORDPIECE: "wordpiece", SCORES: "bpe", UNIGRAM: "unigram"}
TEXT = stories_in("stories", "train") + stories_in("korean", "train")
four = {name: TRAINERS[kind](TEXT, 2000, progress=False) for name, kind in KINDS.items()}
print(f"learnt from {len(TEXT):,} characters:", ", ".join(four))
assert {tokenizer.vocab_size for tokenizer in four.values()} == {2000}, "all have the same size"

# %% [markdown] tags=["deeper"]
# ### A paragraph in both languages
#
# Here is a paragraph in both languages. `▁` is a space that belongs to the piece, `##` marks a
# piece inside a word, and `\x…` is a byte that is no text by itself.

# %%
from minigpt.tokenizer.gpt2 import CHARACTER_OF

PARAGRAPH = (
    "The cat looked at the sea. It was happy, and ran home.",
    "고양이는 바다를 보았다. 고양이는 기뻐하며 집으로 달려갔다.",
)
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def raw_pieces(name, text):
    """The bytes of each token of a text, spaces included."""
    tokens = [four[name].tokens[i] for i in four[name].encode(text)]
    if name == BYTES:
        return [bytes(BYTE_OF[character] for character in token) for token in tokens]
    return [token.removeprefix("##").replace("▁", " ").encode() for token in tokens]


for name, tokenizer in four.items():
    print(name)
    for sentence in PARAGRAPH:
        tokens = [tokenizer.tokens[i] for i in tokenizer.encode(sentence)]
        if name == BYTES:
            tokens = [raw.decode(errors="replace") for raw in raw_pieces(name, sentence)]
        print(f"  {len(tokens):2}:", "|".join(tokens).replace(" ", "▁"))
    assert tokenizer.decode(tokenizer.encode(PARAGRAPH[1])) == PARAGRAPH[1], "it comes back whole"

# %% [markdown]
# Here are the first sentences as bars, one for each token. (The code finds where each token begins
# and ends, in bytes; you need not read it.)

# %%
from itertools import accumulate


def spans(name, sentence):
    """(first byte, last byte) of each token, where a space stands before the sentence."""
    raw, at = (" " + sentence).encode(), 0
    for piece in raw_pieces(name, sentence):
        at += raw[at : at + 1] == b" " != piece[:1]  # a space that is in no piece
        assert raw[at : at + len(piece)] == piece, "the pieces are the text"
        yield at, at + len(piece)
        at += len(piece)


print("The cat: its tokens begin and end at the bytes", *spans(UNIGRAM, "The cat"))

# %% tags=["hide-input"]
figure, panels = plot.plt.subplots(2, 1, figsize=(12, 6.4))
for axes, sentence in zip(panels, ("The cat looked at the sea.", PARAGRAPH[1][:13]), strict=True):
    edges = [0, *accumulate(len(character.encode()) for character in " " + sentence)]
    for row, name in enumerate(four):
        for start, end in spans(name, sentence):
            left, right = np.interp([start, end], edges, range(len(edges)))
            color = "tab:green" if {start, end} <= set(edges) else "tab:red"
            axes.barh(row, right - left - 0.08, left=left + 0.04, height=0.6, color=color)
        axes.text(len(edges) - 0.8, row, f"{len(raw_pieces(name, sentence))} tokens", va="center")
    for place, character in enumerate(sentence, start=1):
        axes.text(place + 0.5, -0.75, plot.readable(character), ha="center")
    axes.set(xlim=(0, 1.12 * len(edges)), ylim=(3.5, -1.2), xticks=[])
    axes.set_yticks(range(4), four)
    axes.grid(False)
panels[0].set_title("Red: a token that is a part of a character")
plot.save(figure, "35_four_ways.png")

# %% [markdown]
# ## 2. WordPiece: the longest piece that fits
#
# First the text is split into words: at spaces, and before and after each punctuation mark. The
# spaces are thrown away. Then each word is cut alone. **Take the longest piece with which the word
# begins, and do the same with the rest.** A piece that does not begin a word carries the mark `##`.
# With a pencil, for `looked` and the pieces `lo`, `look`, `##e`, `##ed`, `##d`:
#
#     looked   looke   look     the third try fits: look
#     ##ed                      the first try fits: ##ed
#
# (`##e` and `##d` would fit too. They are not tried, because a longer piece fits.)
#
# **Guess:** 어가 can be cut. What becomes of 잉어가 ("a carp", and the particle of a subject), if no
# piece begins with its first syllable 잉?

# %%
def longest_match(word, pieces, mark=""):
    """The longest piece, then the same for the rest; None (no second try) where nothing fits."""
    if not word:
        return []
    for end in range(len(word), 0, -1):
        if mark + word[:end] in pieces:
            rest = longest_match(word[end:], pieces, mark="##")
            return None if rest is None else [mark + word[:end], *rest]
    return None


by_hand = longest_match("looked", {"lo", "look", "##e", "##ed", "##d"})
print("looked:", by_hand)
assert by_hand == ["look", "##ed"], "as with the pencil"
bert_pieces = set(four[WORDPIECE].tokens)
for word in ("grandmother", "고양이는", "잉어가", "어가"):
    print(f"{word}: {longest_match(word, bert_pieces)}")
    encoded = [four[WORDPIECE].tokens[i] for i in four[WORDPIECE].encode(word)]
    assert encoded == (longest_match(word, bert_pieces) or ["[UNK]"]), "as the library cuts it"

# %% [markdown] tags=["answer"]
# **The trap: one unknown character makes the whole word unknown.** One expects `[UNK]` for 잉, and
# pieces for the rest. But the word becomes one single `[UNK]`, and the model does not even see that
# it ends in a particle. A Korean word is a noun with its particles, or a verb with its endings,
# without a space between them. All of it is lost with one rare syllable.

# %% [markdown] tags=["deeper"]
# ### What the others lose, and the trap of lower case
#
# What do the other tokenizers make of 잉어가? And of a hand that waves?

# %%
NEW = "잉어가 👋 헤엄친다."
print(f"{'given':20} {NEW}")
for name, tokenizer in four.items():
    print(f"{name:20} {tokenizer.decode(tokenizer.encode(NEW))}")
back = [tokenizer.decode(tokenizer.encode(NEW)) for tokenizer in four.values()]
assert back[0] == back[2] == NEW, "bytes, or bytes as a way out: nothing is lost"
assert back[1].startswith("[UNK] [UNK]"), "WordPiece loses whole words"
assert "어가" in back[3] and "잉" not in back[3], "Unigram loses a character (and writes ⁇ for it)"

# %% [markdown]
# **The second trap: lower case.** BERT's "uncased" models do two things to a text: they write it in
# lower case, and they take accents off. For the second, Unicode's form NFD writes each character in
# its parts, such as `e` and an accent; then the accents (category Mn) are left out. But a Hangul
# syllable has parts too:

# %%
import unicodedata


def uncased(text):
    apart = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in apart if unicodedata.category(c) != "Mn")


for text in ("Café", "한국어"):
    print(f"{text} -> {uncased(text)}, {len(text)} characters -> {len(uncased(text))}")
letters = [f"U+{ord(letter):04X}" for letter in uncased("한국어")]
print("한국어 is now", " ".join(letters))
assert uncased("Café") == "cafe", "the accent is gone"
assert len(letters) == 3 + 3 + 2, "initial, vowel, and an ending in the first two syllables"
assert longest_match(uncased("한국어"), bert_pieces) is None, "our pieces hold syllables"
assert unicodedata.normalize("NFC", uncased("한국어")) == "한국어", "NFC is the way back"

# %% [markdown]
# On the screen 한국어 looks the same, but it is written in other characters, called *jamo*. A
# vocabulary of syllables finds none of them. So a Korean BERT keeps capitals and accents
# (`do_lower_case: false`). Its vocabulary and this setting belong together.

# %% [markdown]
# ## 3. BPE of SentencePiece: scores, and bytes as a way out
#
# WordPiece throws spaces away, so a decoder must guess them. SentencePiece keeps them: it writes
# each space as `▁` (U+2581), and puts one in front of the text. After that a text is a row of
# characters without any spaces, and the decoder only joins pieces and writes spaces for `▁`.
#
# Merges are learnt as in lesson 10. But SentencePiece's file holds no list of pairs. It holds
# pieces, each with a score: minus the number of its merge, counted from 0. **Look at each two
# neighbours whose joined text is a piece. Join those two whose piece has the best score; repeat.**

# %%
from itertools import pairwise


def merge_by_score(text, scores):
    symbols = list(text)
    while True:
        joined = [left + right for left, right in pairwise(symbols)]
        possible = [piece for piece in joined if piece in scores]
        if not possible:
            return symbols
        place = joined.index(max(possible, key=scores.get))  # the first of equal ones
        symbols[place : place + 2] = [joined[place]]


model = four[SCORES].model
scores = {left + right: -rank for (left, right), rank in model.ranks.items()}
print("best scores:", "  ".join(f"{piece} {int(scores[piece])}" for piece in list(scores)[:8]))
print("▁고양이는 ->", " | ".join(merge_by_score("▁고양이는", scores)))
for word in sorted(set(TEXT.split()))[::10]:  # does the library cut each tenth word so too?
    symbols = merge_by_score("▁" + word, scores)
    in_model = [symbol for symbol in symbols if symbol in model.ids]
    encoded = [model.tokens[i] for i in model.encode("▁" + word)]
    assert in_model == [token for token in encoded if not token.startswith("<0x")], "as the library"

# %% [markdown]
# Only the text of the joined piece counts. So `▁the` may be made of `▁t` and `he`, or of `▁th` and
# `e`. GPT-2's list has one pair for each piece.
#
# **Byte fallback.** What about a character without a piece? GPT-2 starts from bytes, so a Korean
# syllable, three bytes, needs two merges to become whole. Here we start from the characters of the
# training text, and only a character that is not among them is written as bytes. 256 of the 2,000
# pieces are kept for that, `<0x00>` to `<0xFF>`.

# %% [markdown] tags=["deeper"]
# ### Bytes as a way out

# %%
llama = four[SCORES]
for text in ("고양이", "잉어", "👋"):
    print(f"{text}: {' | '.join(llama.tokens[i] for i in llama.encode(text))}")
of_carp = [llama.tokens[i] for i in llama.encode("잉어")]
assert of_carp == ["▁", "<0xEC>", "<0x9E>", "<0x89>", "어"], "the three bytes of 잉, and 어"

# %% [markdown]
# **The trap: decode piece by piece.** Lesson 15 saw that a token may be a part of a character. That
# happens here too. And there is a second loss: the decoder takes away the `▁` that was put in front
# of the *text*. If each piece is decoded alone, each piece is a text, and every space is lost.

# %%
given = "The cat 👋 sat"
given_ids = llama.encode(given)
alone = "".join(llama.decode([i]) for i in given_ids)
stream = llama.streaming()
waiting = "".join([*(stream.feed(i) for i in given_ids), stream.end()])
print("all at once:   ", llama.decode(given_ids))
print("piece by piece:", alone)
print("by a stream:   ", waiting)
lost = 4 * "\N{REPLACEMENT CHARACTER}"
assert llama.decode(given_ids) == waiting == given, "at once, or by a stream that waits: right"
assert alone == f"Thecat{lost}sat", "piece by piece: no spaces, and no hand"

# %% [markdown]
# ## 4. Unigram: every piece has a probability
#
# BPE learns a list of merges. Unigram (Kudo 2018) is a *model*: each piece has a probability, a
# text is a row of pieces drawn one after the other, and a row has the probability of its pieces
# multiplied. **A word is cut in the likeliest way.** That is all; nothing is merged.
#
# Here are eleven pieces for the word `lowest`, with probabilities that are chosen by hand:

# %%
P = {
    "l": 0.05, "o": 0.05, "w": 0.05, "e": 0.10, "s": 0.10, "t": 0.10,
    "lo": 0.05, "low": 0.15, "lowe": 0.05, "est": 0.20, "st": 0.10,
}  # fmt: skip
WORD = "lowest"
print(len(P), "pieces, with probabilities that sum to", round(sum(P.values()), 9))
assert np.isclose(sum(P.values()), 1), "probabilities"

# %% tags=["hide-input"]
drawing = plot.Diagram(10.4, 4.1, "Each way from left to right spells the word: 11 ways, 11 arrows")
for place in range(7):
    drawing.box(1 + 1.4 * place, 1.9, str(place), "gray", 0.4, 0.4)
bends = {"lo": -0.5, "low": -0.65, "lowe": 0.4, "est": -0.5, "st": 0.5}
colors = {"low": "tab:green", "est": "tab:green", "lowe": "tab:red", "st": "tab:red"}
for piece, probability in P.items():
    left, right = 1 + 1.4 * WORD.index(piece), 1 + 1.4 * (WORD.index(piece) + len(piece))
    bend = bends.get(piece, 0)
    inside, height = 0 if bend else 0.2, 1.9 - 0.2 * np.sign(bend)
    label, color = f"{piece} {probability:.2f}", colors.get(piece, "black")
    drawing.arrow((left + inside, height), (right - inside, height), label, color, bend)
drawing.text(5.2, 0.12, "green: the likeliest way; red: the longest piece first")
plot.save(drawing.figure, "35_lattice.png")

# %% [markdown]
# This picture is called a **lattice**: places between the characters, and an arrow for each piece.
# Six characters could be cut in 2^5 = 32 ways. The pieces above allow 11 of them. Let us list them:

# %%
def ways(word):
    """All ways to spell a word, as lists of pieces."""
    if not word:
        yield []
    for piece in P:
        if word.startswith(piece):
            for rest in ways(word[len(piece) :]):
                yield [piece, *rest]


def probability_of(way):
    return float(np.prod([P[piece] for piece in way]))


all_ways = sorted(ways(WORD), key=probability_of, reverse=True)
for way in all_ways:
    print(f"{probability_of(way):.9f}   {' | '.join(way)}")
assert len(all_ways) == 11 and all_ways[0] == ["low", "est"], "the likeliest of the eleven"

# %% [markdown]
# The number of ways can double with every character, so of a long word they cannot be listed.
# **Viterbi's idea**: go through the places from left to right. For each, keep only the *best* way
# to reach it. A worse way to the same place cannot be part of the best way, because what follows
# would be the same for both. With a pencil, for place 4 (after `lowe`):
#
# - `lowe` from place 0: 1 x 0.05 = 0.05;
# - `e` from place 3: the best way to place 3 is `low`, 0.15, so 0.15 x 0.10 = 0.015.
#
# So `lowe` is the best way to place 4. At the end we go back from the last place: which piece was
# the last one of the best way? And before it?
#
# **Your turn:** write this step for any place. You are given two arrays, with one number for each
# arrow that leads to the place. `best_before` has the probability of the best way to where the
# arrow starts, `of_piece` that of its piece. What is the probability of the best way to the place?
# Tried at place 4, with `lowe` and `e`; the judge lists all ways.

# %%
from minigpt.learn import gap


def best_of_list(word):
    return max(map(probability_of, ways(word)))


best_before = np.array([best_of_list(start) for start in ("", "low")])


def your_best(best_before, of_piece):
    return ...  # one number


gap.judge(your_best, best_before, np.array([0.05, 0.10]), expected=best_of_list("lowe"))

# %% [markdown] tags=["answer"]
# `(best_before * of_piece).max()`: each arrow continues the best way to where it starts, and the
# best result is kept. With the sum in place of the largest you get another number: section 5 needs
# it.

# %%
best, last_piece = [1.0], [None]
print("place   possible last pieces                                         best")
for place in range(1, len(WORD) + 1):
    ending = [piece for piece in P if WORD[:place].endswith(piece)]
    reached = {piece: best[place - len(piece)] * P[piece] for piece in ending}
    best.append(max(reached.values()))
    last_piece.append(max(reached, key=reached.get))
    options = "   ".join(f"{piece} {value:.5f}" for piece, value in reached.items())
    print(f"{place:5}   {options:58}   {last_piece[-1]:5} {best[-1]:.5f}")
way_back, place = [], len(WORD)
while place > 0:
    way_back.append(last_piece[place])
    place -= len(last_piece[place])
likeliest = way_back[::-1]
print("the way back:", " <- ".join(way_back))
assert likeliest == ["low", "est"] and np.isclose(best[-1], 0.15 * 0.20), "the best of all ways"
assert last_piece[4] == "lowe", "the best way to place 4 is not a part of the best way"

# %% [markdown]
# Eleven multiplications, one for each arrow, and no way was listed. (That there are also eleven
# ways is chance: a longer word has far more ways than arrows.) The library does the same with
# logarithms, so that products become sums and no number becomes too small: the *score* of a piece
# is its log-probability.

# %% [markdown] tags=["deeper"]
# ### The same in the library, and a greedy trap

# %%
from math import exp, log

from minigpt.tokenizer.lattice import Vocabulary, lattice, viterbi

toy_scores = Vocabulary({piece: log(probability) for piece, probability in P.items()})
nodes = lattice(WORD, toy_scores)
found = viterbi(nodes)
print(f"library: {found.pieces}, score {found.score:.4f} = log {exp(found.score):.4f}")
assert found.pieces == likeliest, "the same way"
assert np.isclose(found.score, log(best[-1])), "and the same probability"

# %% [markdown]
# **The trap: the longest piece first.** It is tempting to use WordPiece's rule here: it needs no
# lattice, and it gives a row of pieces that spells the word. But the longest first piece, `lowe`,
# leaves `st` for the rest. How often do the two rules differ in a real text? We learn 1,000 pieces
# from Python's manual, and cut each of its different words.

# %%
import re
from pydoc_data.topics import topics


def greedy(word, pieces):
    """The longest piece first, by WordPiece's rule; a character without a piece stays alone."""
    cut = []
    while word:
        fitting = [end for end in range(1, len(word) + 1) if word[:end] in pieces]
        cut.append(word[: max(fitting, default=1)])
        word = word[len(cut[-1]) :]
    return cut


times_likelier = probability_of(likeliest) / probability_of(greedy(WORD, P))
print(f"{likeliest} is {times_likelier:.0f} times as likely as {greedy(WORD, P)}")
assert np.isclose(times_likelier, 6), "0.15 x 0.20 against 0.05 x 0.10"
manual = "\n".join(topics[name] for name in sorted(topics))
of_manual = TRAINERS["unigram"](manual, 1000, progress=False).model.vocabulary
its_words = ["▁" + word for word in sorted(set(re.findall("[a-z]+", manual.lower())))]
both = [(greedy(w, of_manual.scores), viterbi(lattice(w, of_manual)).pieces) for w in its_words]
differ = [f"{'|'.join(ours)}  for  {'|'.join(right)}" for ours, right in both if ours != right]
print(f"{len(differ) / len(its_words):.0%} of {len(its_words):,} words are cut otherwise, such as")
print("\n".join(differ[:: len(differ) // 4]))
assert len(differ) > 0.04 * len(its_words), "it is not rare"

# %% [markdown]
# The text still comes back whole, and no error message appears, as with the longest match in
# lesson 10. But a model that was trained on the likeliest ways is given rows that it does not know.
#
# How does Unigram get its pieces and their probabilities? The next three sections say it.

# %% [markdown] tags=["deeper"]
# ## 5. The sum over all ways
#
# To learn, we need one more number: how likely is the *word*? It could have come about in each of
# its eleven ways, so its probability is the sum of the eleven. Again we need not list them. Go
# from left to right as Viterbi does, and **add where Viterbi takes the largest**: the *forward sum*
# of a place is the probability of everything before it. From right to left, the *backward sum* of a
# place is the probability of everything after it. With a pencil, for place 4:
#
# - forward: `lowe` 1 x 0.05, and `e` from place 3, 0.152625 x 0.10: together 0.0652625;
# - backward: `st` 0.10 x 1, and `s` to place 5, 0.10 x 0.10: together 0.11.

# %%
arrows = [(WORD.index(piece), WORD.index(piece) + len(piece), piece) for piece in P]
forward, backward = np.zeros(7), np.zeros(7)
forward[0], backward[6] = 1, 1
for begin, end, piece in sorted(arrows, key=lambda arrow: arrow[1]):
    forward[end] += forward[begin] * P[piece]
for begin, end, piece in sorted(arrows, reverse=True):
    backward[begin] += P[piece] * backward[end]
print("place      ", "  ".join(f"{place:8}" for place in range(7)))
print("forward sum", "  ".join(f"{value:.6f}" for value in forward))
print("backward   ", "  ".join(f"{value:.6f}" for value in backward))
of_word = sum(map(probability_of, all_ways))
print(f"all eleven ways together: {of_word:.9f}")
assert np.isclose(forward[6], of_word) and np.isclose(backward[0], of_word), "the same number"
assert np.isclose(forward[4], 0.0652625) and np.isclose(backward[4], 0.11), "as with the pencil"
share_of_best = probability_of(likeliest) / of_word
print(f"the likeliest way has {share_of_best:.0%} of it")
assert 0.79 < share_of_best < 0.80, "one way of eleven has four fifths"

# %% [markdown]
# Now we can say how often a piece is *expected* in the word. Take all ways that use its arrow.
# Together their probability is the forward sum before the arrow, times P(piece), times the backward
# sum after it. We divide by the probability of the word:
#
# $$
# c(\text{piece}) = \frac{\text{forward}[\text{begin}] \cdot P(\text{piece}) \cdot
# \text{backward}[\text{end}]}{P(\text{word})}
# $$
#
# For `est`: 0.152625 x 0.20 x 1 / 0.037704 = 0.81. Of a hundred words `lowest` that this model
# writes, about 81 end in the piece `est`.

# %%
from minigpt.tokenizer.lattice import expected_counts

expected = {piece: forward[begin] * P[piece] * backward[end] / of_word
            for begin, end, piece in arrows}  # fmt: skip
listed = {piece: sum(probability_of(way) for way in all_ways if piece in way) / of_word
          for piece in P}  # fmt: skip
print(" ".join(f"{piece} {count:.3f}" for piece, count in expected.items()))
by_library, score_of_word = expected_counts(nodes)
print(f"pieces expected in the word: {sum(expected.values()):.3f}")
for piece in P:
    assert np.isclose(expected[piece], listed[piece]), "as when all ways are listed"
    assert np.isclose(expected[piece], by_library[piece]), "and as in the library"
assert np.isclose(score_of_word, log(of_word)), "the library has the logarithm of the sum"

# %% [markdown] tags=["deeper"]
# ## 6. EM: probabilities from text alone
#
# If we knew how each word of a text is cut, the probabilities would be counts, divided by their
# sum. If we knew the probabilities, we would know how likely each cut is. We know neither. **EM**
# (expectation and maximisation) does both in turn:
#
# - **E step**: with the present probabilities, the expected count of each piece in the whole text;
# - **M step**: the new probability of a piece is its count, divided by the sum of all counts.
#
# One step by hand. The text is the single word `low`; its six pieces `l`, `o`, `w`, `lo`, `ow`,
# `low` begin with 1/6 each. Its four ways, and their probabilities:
#
# - `low`: 1/6 = 36/216;
# - `lo | w`, and `l | ow`: 1/36 = 6/216 each;
# - `l | o | w`: 1/216.
#
# Together that is 49/216. So `low` is expected 36/49 times, `lo` and `ow` 6/49 times each, `l` and
# `w` (6 + 1)/49 times each, and `o` 1/49 times. The sum of these counts is 63/49. So the new
# probability of `low` is 36/63.

# %%
import textwrap

from minigpt.tokenizer.unigram_training import expect, maximise

equal = {piece: log(1 / 6) for piece in ("l", "o", "w", "lo", "ow", "low")}
counts_of_low, before = expect({"low": 1}, Vocabulary(equal))
after_one_step = maximise(counts_of_low, sparse=False)
_, after = expect({"low": 1}, Vocabulary(after_one_step))
print("expected, times 49:", {piece: round(49 * n, 6) for piece, n in counts_of_low.items()})
print("new, times 63:     ", {p: round(63 * exp(score), 6) for p, score in after_one_step.items()})
print(f"P(low) was {exp(before):.4f} and is {exp(after):.4f}")
assert np.isclose(exp(before), 49 / 216), "the four ways"
assert np.isclose(exp(after_one_step["low"]), 36 / 63), "as by hand"
assert exp(after) > 2 * exp(before), "the text has become likelier"

# %% [markdown]
# **Now six words.** Lesson 10 had four of them: `low` 5 times, `lower` 2, `newest` 6, `widest` 3.
# We add `lowest` and `wider`. The pieces are all parts of these words of one to four characters: 42
# of them, equally likely at first. The likelihood of the text is the product over its 19 words; we
# print its logarithm.

# %%
SIX = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "lowest": 1, "wider": 2}


def parts_up_to(longest):
    """All parts of the six words of up to so many characters, equally likely."""
    found = set()
    for word in SIX:
        for begin in range(len(word)):
            found |= {word[begin : begin + n] for n in range(1, longest + 1)}
    return {part: log(1 / len(found)) for part in sorted(found)}


print(textwrap.fill(f"{len(parts_up_to(4))} parts: {' '.join(parts_up_to(4))}", 96))
assert len(parts_up_to(4)) == 42 and sum(SIX.values()) == 19, "as said"

# %%
def em(start, n_steps):
    """The log-likelihood before each step, and the scores after the last one."""
    likelihoods, vocabulary = [], Vocabulary(start)
    for _ in range(n_steps):
        piece_counts, log_likelihood = expect(SIX, vocabulary)
        likelihoods.append(log_likelihood)
        vocabulary = Vocabulary(maximise(piece_counts, sparse=False))
    return likelihoods, vocabulary


for n_steps in range(1, 13):
    likelihoods, learnt = em(parts_up_to(4), n_steps)
    top = sorted(learnt.scores, key=learnt.scores.get, reverse=True)[:6]
    line = "  ".join(f"{piece} {exp(learnt.scores[piece]):.3f}" for piece in top)
    print(f"step {n_steps:2} log-likelihood {likelihoods[-1]:8.3f} then {line}")
assert all(np.diff(likelihoods) > -1e-9) and likelihoods[5] > likelihoods[0] + 50, "it rises"

# %% [markdown]
# The likelihood rises at every step. Look at what remains:

# %%
cuts = {word: viterbi(lattice(word, learnt)).pieces for word in SIX}
print("   ".join(" | ".join(cut) for cut in cuts.values()))
linguist = [["low"], ["low", "er"], ["new", "est"], ["wid", "est"], ["low", "est"], ["wid", "er"]]
assert list(cuts.values()) == linguist, "stems and endings"
in_33 = {"est": 10 / 33, "low": 8 / 33, "new": 6 / 33, "wid": 5 / 33, "er": 4 / 33}
for piece, share in in_33.items():
    assert np.isclose(exp(learnt.scores[piece]), share, atol=1e-6), "its count of 33 pieces"
whole_likelihoods, whole_words = em(parts_up_to(6), 25)
whole_cuts = [viterbi(lattice(word, whole_words)).pieces for word in SIX]
print(f"with parts of up to 6 characters: log-likelihood {whole_likelihoods[-1]:.3f},",
      " ".join("|".join(cut) for cut in whole_cuts))  # fmt: skip
assert whole_cuts == [[word] for word in SIX], "every word is one piece"
assert whole_likelihoods[-1] > likelihoods[-1] + 20, "and the text is far likelier"

# %% [markdown]
# **The surprise of this lesson.** No one has shown EM what a stem is. It has found `low`, `new`,
# `wid`, `er` and `est`, the cut that lesson 10 missed: there `lowest` was `lo | west`. But do not
# read too much into it. If parts of five characters are allowed, `lower` and `wider` stay whole; if
# parts of six are, the likelihood prefers whole words everywhere: fewer factors, each below 1. So
# likelihood alone does not make pieces small. Here our limit of four characters did; in a real
# training it is the limited size of the vocabulary (section 7).
#
# **Why does it rise?** Let z be a way to cut, r(z) its share of the probability under the old
# model, so that the r(z) sum to 1. The logarithm of an average is at least the average of the
# logarithms (Jensen). So for any new model
#
# $$
# \log P_\text{new}(\text{word}) = \log \sum_z r(z) \frac{P_\text{new}(z)}{r(z)}
# \ge \sum_z r(z) \log P_\text{new}(z) - \sum_z r(z) \log r(z)
# $$
#
# and for the old model both sides are equal, because there P(z)/r(z) is P(word) for every z. So a
# model that makes the right side larger makes the word likelier. Only its first sum depends on the
# new model. There $\log P_\text{new}(z)$ is a sum over the pieces of z. Collect what each piece
# gets from all ways: the first sum is the sum over the pieces of c(piece) log P(piece), with the
# expected counts c. Among all probabilities with the sum 1 it is largest for P = c / (sum of c), as
# a cross-entropy is least where the model has the shares of the data (lesson 02). That is the M
# step.
#
# **And this course's way to see it: expected counts are a gradient.** Take the log-likelihood as a
# function of the 42 log-probabilities. Let each move freely, as if their sum need not be 1. Then
#
# $$
# \frac{\partial \log P(\text{text})}{\partial \log P(\text{piece})} = c(\text{piece})
# $$
#
# Why? P(word) is a sum over the ways. Each way is a product, and contains P(piece) as often as it
# uses the piece. So the derivative of the logarithm counts the piece in each way, and weighs each
# way by its share. Finite differences say the same:

# %%
def log_likelihood_of(piece_scores):
    return expect(SIX, Vocabulary(piece_scores))[1]


EPS = 1e-5
_, half_learnt = em(parts_up_to(4), 3)
point = dict(half_learnt.scores)
at_point, _ = expect(SIX, half_learnt)
numeric = {}
for piece in point:
    up, down = point | {piece: point[piece] + EPS}, point | {piece: point[piece] - EPS}
    numeric[piece] = (log_likelihood_of(up) - log_likelihood_of(down)) / (2 * EPS)
print("piece   expected count   central difference")
for piece in ("low", "est", "west", "wi", "e"):
    print(f"{piece:6}{at_point[piece]:16.8f}{numeric[piece]:21.8f}")
worst = max(abs(numeric[piece] - at_point[piece]) for piece in point)
print(f"worst error of {len(point)} pieces: {worst / max(at_point.values()):.0e}")
assert worst < 1e-7 * max(at_point.values()), "the expected counts are the gradient"

# %% [markdown]
# So the forward sums are a forward pass, and the backward sums are its backward pass. The rule for
# expected counts is upstream gradient times local gradient. Any program that differentiates could
# have given the counts (Eisner 2016 says so of all such algorithms).
#
# The probabilities must sum to 1. Write them as a softmax of logits z, as in lesson 02. There the
# gradient of the logits was target minus probability. Here it is the same, with counts as targets:
#
# $$
# \frac{\partial \log P(\text{text})}{\partial z} = c - N P, \qquad N = \sum c
# $$
#
# Gradient ascent goes a little way along it, by some learning rate. **EM goes at once to the
# place where it is zero**, P = c / N, with the counts held fixed; then it counts again.

# %%
def of_logits(logits):
    """The log-likelihood where the probabilities are the softmax of the logits."""
    log_sum = log(sum(map(exp, logits.values())))
    return log_likelihood_of({piece: z - log_sum for piece, z in logits.items()})


n_expected = sum(at_point.values())
for piece in ("low", "est", "e"):
    up, down = point | {piece: point[piece] + EPS}, point | {piece: point[piece] - EPS}
    slope = (of_logits(up) - of_logits(down)) / (2 * EPS)
    by_formula = at_point[piece] - n_expected * exp(point[piece])
    print(f"{piece:5} slope {slope:11.7f}   c - N P {by_formula:11.7f}")
    assert np.isclose(slope, by_formula, atol=1e-6), "the gradient of the logits"
_, at_the_end = em(parts_up_to(4), 30)
last_counts, _ = expect(SIX, at_the_end)
rest = max(abs(n - sum(last_counts.values()) * exp(at_the_end.scores[piece]))
           for piece, n in last_counts.items())  # fmt: skip
print(f"after 30 steps of EM the largest gradient is {rest:.0e}")
assert rest < 1e-6, "EM has come to a place where the gradient is zero"

# %% tags=["hide-input"]
rates = {"EM": None, "rate 0.1": 0.1, "rate 0.2": 0.2, "rate 0.4": 0.4}
curves = {name: [] for name in rates}
for name, rate in rates.items():
    position = parts_up_to(4)
    for _ in range(30):
        step_counts, log_likelihood = expect(SIX, Vocabulary(position))
        curves[name].append(log_likelihood)
        if rate is None:
            position = maximise(step_counts, sparse=False)
            continue
        total = sum(step_counts.values())
        for piece, score in position.items():
            position[piece] = score + rate * (step_counts[piece] - total * exp(score))
        log_sum = log(sum(map(exp, position.values())))
        position = {piece: z - log_sum for piece, z in position.items()}
figure, axes = plot.plt.subplots(figsize=(8, 4.5))
for name, style in zip(curves, ("o-", "^:", "s--", "x-"), strict=True):
    axes.plot(curves[name], style, label=name, markersize=4, linewidth=1.3)
axes.set(xlabel="step", ylabel="log-likelihood", title="EM, and gradient ascent on the logits")
axes.legend(loc="lower right")
plot.save(figure, "35_em.png")

# %%
for name, curve in curves.items():
    falls = sum(later < earlier - 0.1 for earlier, later in pairwise(curve))
    print(f"{name:9} step 9 {curve[8]:9.3f}   step 30 {curve[29]:9.3f}   it fell {falls} times")
assert curves["EM"][8] > max(curves["rate 0.1"] + curves["rate 0.2"]), "9 steps of EM beat 30"
assert min(np.diff(curves["rate 0.4"])) < -1 < -1e-9 < min(np.diff(curves["EM"])), "0.4 falls"

# %% [markdown]
# With the best of these rates, 30 steps do not reach what 9 steps of EM reach. Twice that rate
# makes the likelihood fall again and again. EM has no rate to choose.

# %% [markdown] tags=["deeper"]
# ## 7. Which pieces are chosen?
#
# BPE merges the most frequent pair (lesson 10). For WordPiece, Google never released its program.
# The public ones, and ours, merge the most frequent pair too, with `##` on every character inside a
# word. Schuster and Nakajima choose the piece that makes the training text likeliest. Later
# descriptions give a score, count(ab) / (count(a) count(b)): how much more often do a and b stand
# together than their own counts suggest? Exercise 1 of lesson 10 builds it. The two
# rules choose differently, even among five words:

# %%
from collections import Counter

hugs = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
singles, pairs = Counter(), Counter()
for word, n in hugs.items():
    marked = [word[0], *("##" + letter for letter in word[1:])]
    singles.update(dict.fromkeys(marked, n))  # no letter stands in a word twice
    pairs.update(dict.fromkeys(pairwise(marked), n))
print("pair          count   score")
for (left, right), n in pairs.most_common():
    together = f"{n} / ({singles[left]} x {singles[right]})"
    print(f"{left:4} + {right:4} {n:7}   {together} = {n / singles[left] / singles[right]:.4f}")
assert max(pairs, key=pairs.get) == ("##u", "##g"), "the most frequent pair"
assert pairs["##g", "##s"] / singles["##g"] / singles["##s"] == 5 / 20 / 5, "5 of 20 g, all 5 s"

# %% [markdown]
# By frequency, `##u + ##g` is first (20 times). By score it is `##g + ##s`: rarer, but every `s`
# follows a `g`.
#
# **Unigram prunes.** EM can make a piece rare, but it cannot invent one: every way with a piece of
# probability 0 has probability 0 too, so the piece is expected 0 times, and stays at 0. So Unigram
# goes the other way round than BPE. It begins with *too many* pieces (all frequent parts of words)
# and leaves out those without which the text loses the least likelihood, lets EM run again, and so
# on, until the wanted number is left. Single characters always stay, so that every word can be
# spelled.
#
# What does the text of the six words lose if one piece is left out? We take the model after three
# steps of EM, set one probability to 0, and give what it had to the others in proportion.

# %%
def loss_without(piece):
    """How much log-likelihood is lost when a piece is left out, and the others share its part."""
    others = {p: score - log(1 - exp(point[piece])) for p, score in point.items() if p != piece}
    return log_likelihood_of(point) - log_likelihood_of(others)


losses = {piece: loss_without(piece) for piece in point if len(piece) > 1}
least_first = sorted(losses, key=losses.get)
print("least missed:", "  ".join(f"{piece} {losses[piece]:.2f}" for piece in least_first[:5]))
print("most missed: ", "  ".join(f"{piece} {losses[piece]:.2f}" for piece in least_first[:-6:-1]))
assert least_first[-1] == "low" and losses["low"] > 10, "low carries most of the text"
still_good = [piece for piece in least_first if losses[piece] < 0]
print(f"{len(still_good)} pieces are better left out: their probability serves the others more")
assert still_good, "before EM is done, leaving out can even help"

# %% [markdown]
# Now the whole training, on the stories. **The first pieces** are the parts of words that are
# followed by at least two different characters. (If `e` follows every `th`, then `the` is enough,
# and `th` is not needed.) SentencePiece, and so our code,
# counts a space and the end of a line as characters that can follow. In these stories a space
# follows each `▁and`. So `▁and` is no first piece. EM only removes pieces, so it never becomes one.

# %%
from minigpt.tokenizer import word_counts
from minigpt.tokenizer.unigram_training import finish, learn, seed_pieces

lines = [line.split() for line in TEXT.splitlines()]
followed = Counter(w for line in lines for w in word_counts.followed_words(line))
known = word_counts.characters_of(word_counts.without_behind(followed), 0.9995)
followed_pieces = word_counts.followed_parts(followed, known)  # with the character behind them
first_pieces = seed_pieces(followed_pieces)
print({part: n for part, n in followed_pieces.items() if part[:-1] in ("▁and", "▁in")})
assert "▁and" not in first_pieces and "▁in" in first_pieces, "a comma follows some ▁in"
print("▁and is cut into", viterbi(lattice("▁and", four[UNIGRAM].model.vocabulary)).pieces)

# %% [markdown]
# After every second step the library prunes to three quarters of the pieces (and estimates each
# loss from the best way without the piece, which needs no new sums). Its M step differs from ours
# in one point: exp(digamma(c)) takes the place of c, which makes a count of 10 to about 9.5, and
# one of 1 to 0.56. Rare pieces lose a larger share.

# %%
pieces_of_words = word_counts.without_behind(followed_pieces)
n_characters = sum(n * len(word) for word, n in pieces_of_words.items())
sizes, per_character = [], []
for step in learn(pieces_of_words, 1000, first_pieces):
    sizes.append(len(step.scores))
    per_character.append(-step.log_likelihood / n_characters)
    print(f"step {len(sizes)}: {per_character[-1]:.3f} nats per character,"
          f" then {sizes[-1]:,} pieces")  # fmt: skip
assert sizes == sorted(sizes, reverse=True) and sizes[0] > 2 * sizes[-1], "fewer and fewer pieces"
for first_step, second_step in zip(per_character[::2], per_character[1::2], strict=True):
    assert second_step < first_step, "between two prunings, EM makes the text likelier"
assert per_character[-1] > per_character[1], "fewer pieces: each character costs more"

# %% tags=["hide-input"]
figure, axes = plot.plt.subplots(figsize=(8, 4.5))
axes.plot(range(1, len(sizes) + 1), per_character, "o-")
for number, (value, size) in enumerate(zip(per_character, sizes, strict=True), start=1):
    axes.annotate(f"{size:,}", (number, value), (0, 8), textcoords="offset points", ha="center")
axes.set(xlabel="step of EM", ylabel="nats per character of the stories")
axes.set_title("Two steps of EM, then a pruning; the numbers are the pieces that are left")
axes.margins(y=0.15)
plot.save(figure, "35_pruning.png")

# %% [markdown] tags=["deeper"]
# ## 8. Another cut every time
#
# A model of all ways can also *draw* one, with its probability. In training, each time a text is
# read its words may be cut otherwise, so a model sees `low | est` and sometimes `lowe | st`. Kudo
# calls this *subword regularisation*: noise on the text, as dropout is noise on the numbers. To
# draw a way, go back from the last place. The forward sum of that place is made of one part for
# each arrow that ends there: forward[begin] x P(piece). Draw an arrow by these parts, and go on
# from its begin. With an exponent alpha below 1 on all probabilities, the ways come closer to being
# equally likely.

# %%
from minigpt.tokenizer.lattice import sample_path

generator = np.random.default_rng(0)
n_draws = 4000
for alpha in (1, 0.3):
    drawn = Counter("|".join(sample_path(nodes, alpha, generator)) for _ in range(n_draws))
    weights = np.array([probability_of(way) ** alpha for way in all_ways])
    shares = weights / weights.sum()
    print(f"alpha {alpha}: {len(drawn)} of the 11 ways were drawn; the first three:")
    for way, share in zip(all_ways, shares, strict=True):
        observed = drawn["|".join(way)] / n_draws
        if way in all_ways[:3]:
            print(f"   {' | '.join(way):12} drawn {observed:.3f}   computed {share:.3f}")
        width = 5 * np.sqrt(share * (1 - share) / n_draws) + 2 / n_draws
        assert abs(observed - share) < width, "drawn as often as computed, within five deviations"
assert shares[0] < 0.5, "with alpha 0.3 the likeliest way is less than half"

# %% [markdown] tags=["deeper"]
# ## 9. In the library
#
# `minigpt/tokenizer/` has a file for each model, with its encoder and its trainer side by side:
# `wordpiece.py`, `sentencepiece_bpe.py`, `unigram.py` with `lattice.py` and `unigram_training.py`.
# The forward sum is Viterbi with `log_add` in place of the larger one:
#
#     # minigpt/tokenizer/lattice.py
#     sums[0] = 0.0
#     for place, ending in enumerate(nodes):
#         for begin, _, score in ending:
#             sums[place] = log_add(sums[place], sums[begin] + alpha * score)
#     return sums
#
# Expected counts are those of section 5, with logarithms:
#
#     # minigpt/tokenizer/lattice.py
#     counts[piece] += exp(before[begin] + score + after[place] - whole)
#
# Unknown characters cost as much as the least likely piece, and ten nats more. The trainers are the
# table `TRAINERS` of section 1, or a command:
#
#     minigpt tokenizer train --kind unigram --data stories --vocab 2000 --out runs/unigram

# %%
from minigpt.tokenizer.lattice import backward as library_backward
from minigpt.tokenizer.lattice import forward as library_forward

assert np.allclose(np.exp(library_forward(nodes)), forward), "the same forward sums"
assert np.allclose(np.exp(library_backward(nodes)), backward), "the same backward sums"
assert np.isclose(toy_scores.unknown, log(min(P.values())) - 10), "ten nats below the least likely"
tokens_of_valid = {}
for name, tokenizer in four.items():
    tokens_of_valid[name] = [len(tokenizer.encode(stories_in(source, "valid")))
                             for source in ("stories", "korean")]  # fmt: skip
    print(f"{name:20} tokens of new stories: English {tokens_of_valid[name][0]:,},"
          f" Korean {tokens_of_valid[name][1]:,}")  # fmt: skip
totals = {name: sum(counted) for name, counted in tokens_of_valid.items()}
assert max(totals, key=totals.get) == UNIGRAM, "here Unigram needs the most tokens"

# %% [markdown]
# For these stories Unigram needs the most tokens. Is the cause the rule for its first pieces, which
# leaves out `▁and`? We change that rule alone: each part gets both a space and the end of a line
# behind it, with a count of 0. Now all parts go on in two ways, and each word is a first piece.

# %%
both_behind = {part + behind: 0 for part in pieces_of_words for behind in "▁\n"}
with_words = both_behind | followed_pieces
*_, last_step = learn(pieces_of_words, 2000, seed_pieces(with_words))
of_words = Vocabulary(finish(last_step.scores, known, 2000 - 3))  # three stand for no text
new_words = (stories_in("stories", "valid") + stories_in("korean", "valid")).split()
n_tokens = sum(len(viterbi(lattice("▁" + word, of_words)).pieces) for word in new_words)
print(f"where each word is a first piece: {n_tokens:,} tokens, before {totals[UNIGRAM]:,}")
assert n_tokens < min(totals.values()), "the rule is the cause: without it, these are the fewest"

# %% [markdown]
# The rule is the cause. These stories use few words, again and again, and whole words serve them
# best. It is no law. With 8,000 pieces from a megabyte of prose, both rules need about as many
# tokens for *another* megabyte, and SentencePiece's rule makes that one likelier
# (`tests/test_parity_sentencepiece.py` measures it).
#
# **Published files.** `minigpt.tokenizer.load(FOLDER)` finds out which kind lies in a folder: a
# `vocab.txt` (WordPiece), a `spiece.model` or `tokenizer.model` (the file of SentencePiece; one
# field says whether it is Unigram or BPE), or a `tokenizer.json`. Around the model stand the
# special tokens that each family puts around a text. In BERT that is `[CLS] text [SEP]`, in ALBERT
# the same, in T5 `text </s>`, in XLNet `text <sep> <cls>`.

# %% [markdown] tags=["deeper"]
# ## 10. Paper and code
#
# - Schuster and Nakajima (2012) built word pieces for Japanese and Korean voice search: Japanese
#   has no spaces, and between two spaces of Korean stands more than one word of a dictionary. Wu et
#   al. (2016) took them for translation. BERT's vocabulary was made with Google's own program,
#   which was never released; the score of section 7 comes from later descriptions. The name
#   WordPiece today mostly means the *encoder*.
# - Kudo (2018) calls the model of section 4 a "unigram language model", because each piece is drawn
#   without regard to its neighbours. His loss of a piece is the one of section 7; his seeds come
#   from a suffix array. The digamma is in the code of SentencePiece and, as far as we know, not in
#   the paper. Its version 0.2.2 makes other first pieces than 0.2.0, 0.2.1, 0.2.3 and ours.
# - SentencePiece (Kudo and Richardson 2018) is a program, not a method. It holds Unigram and BPE,
#   and what both need: spaces as `▁`, and the normalisation of the text in the same file. "Trained
#   with SentencePiece" does not say which of the two.
# - SentencePiece adds scores in 32 bits. Where two ways are nearly equal, the rounding decides, and
#   `Unigram.encode` does the same so that the ids agree. The library `tokenizers` has 64 bits.

# %% [markdown]
# ## 11. To keep
#
# - WordPiece takes the longest piece that fits, from the left; SentencePiece's BPE joins the pair
#   with the best score; Unigram takes the likeliest of all ways.
# - A lattice holds all ways to cut a word; Viterbi keeps for each place only the best way to reach
#   it, so the work grows with the arrows, and not with the ways.
# - Another rule for cutting gives other tokens, and no error: the text still comes back whole.

# %% [markdown]
# ## 12. Exercises
#
# 1. `exercises/35_cuts.py`: the backward sums with logarithms, how likely a cut is at each place,
#    and the *second* best way. The file judges itself: run it.
# 2. `exercises/35_find_the_bug.py`: an EM whose likelihood rises at every step, and rises too far.
# 3. On paper: all pieces have the same probability p, below 1. Which ways are the likeliest?
#    Does the longest match always find one of them? Try the word `abcde` with the pieces `a`, `b`,
#    `c`, `d`, `e`, `ab`, `abc` and `cde`. If p = 0.1 for all but `abc`: how likely must `abc` be,
#    so that `abc | d | e` is the best way?
# 4. To try: learn Unigram vocabularies of 700, 1,000, 2,000, 3,000 pieces from TEXT. Cut the
#    new stories of section 9. How many characters has a token on average, in English and in Korean?
#    Which language needs the larger vocabulary, and why?

# %%
print("lesson 35: every check is happy")
