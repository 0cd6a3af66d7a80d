# %% [markdown]
# # Lesson 15: byte-level BPE, GPT-2's tokenizer
#
# You will build the tokenizer that can read every text: it starts from bytes instead of characters,
# keeps the space in front of a word, and has a decoder that never fails. You will measure how many
# tokens a Korean paragraph costs. With a vocabulary learnt from English it costs three times as
# many as with one learnt from a Korean story about the same things. You will see why. You will
# measure what a space at the end of a prompt costs. And you will find tokens that are not text.
#
# Reading: 25 minutes for the core, 75 minutes for all of it. Running: 6 to 20 seconds. Before it:
# lesson 10, whose merging we use, and 11, whose model we use once.
#
# Papers: Radford et al. 2019 (GPT-2), section 2.2. UTF-8 was designed by Thompson and Pike in 1992;
# its present rules are RFC 3629.

# %% [markdown]
# ## 1. Why: what lesson 10 lost
#
# The tokenizer of lesson 10, like GPT-1's, loses three things: capital letters, spaces, and every
# character that its training text did not have. Such a character becomes the unknown token. Could
# we put *all* characters into the alphabet? Unicode has over 130,000.

# %% [markdown]
# That is too many: GPT-2's whole vocabulary has 50,257 tokens. The paper says of such an alphabet:
# "This would result in a base vocabulary of over 130,000 before any multi-symbol tokens are added".
#
# But a file does not hold characters. It holds **bytes**, numbers from 0 to 255. There are only 256
# of them, and every text, in every language, is a sequence of bytes. The rule that turns a
# character into bytes is called UTF-8. In the picture, one word with an accent: four characters,
# five bytes, and the tokens that a byte-level tokenizer may make of them. (A byte is written with
# two hexadecimal digits: c3 is 12 x 16 + 3 = 195.)

# %% tags=["hide-input"]
import sys

from minigpt import plot

if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(errors="replace")  # a terminal may not be able to show Hangul
WORD = "café"
drawing = plot.Diagram(9, 3.9, "Characters, bytes, tokens")
word_bytes = [f"{byte:02x}" for byte in WORD.encode("utf-8")]
for label, height in (("characters", 3.2), ("bytes", 1.9), ("tokens", 0.6)):
    drawing.text(1.1, height, label, "tab:blue")
for i, character in enumerate(WORD):
    drawing.box(3 + i + (i == 3) * 0.5, 3.2, character, width=0.8 + (i == 3))
for i, byte in enumerate(word_bytes):
    drawing.box(3 + i, 1.9, byte, "tab:orange", width=0.8)
for start, end in ((3, 3), (4, 4), (5, 5), (6.3, 6), (6.7, 7)):
    drawing.arrow((start, 2.85), (end, 2.25))
drawing.box(4, 0.6, "63 61 66", "tab:green", width=2.8)
drawing.box(6.5, 0.6, "c3 a9", "tab:green", width=1.8)
drawing.text(8.3, 1.25, "merges\njoin bytes")
plot.save(drawing.figure, "15_bytes.png")

# %% [markdown]
# So the plan is: **start with the 256 bytes as the alphabet, and merge.** No text is unknown, and
# capital letters stay. Spaces come next.

# %% [markdown] tags=["deeper"]
# ### How many characters there are

# %%
import unicodedata

every_character = [chr(code) for code in range(sys.maxunicode + 1)]
not_text = ("Cn", "Co", "Cs")  # places that are empty, private, or half of a pair
assigned = sum(unicodedata.category(one) not in not_text for one in every_character)
print(f"Unicode {unicodedata.unidata_version}: {assigned:,} characters, "
      f"and room for {len(every_character):,}")
assert assigned > 130_000, "Unicode has over 130,000 characters"

# %% [markdown] tags=["deeper"]
# ### UTF-8, by hand
#
# A character with a number below 128 is one byte. For a larger number, count the ones at
# the left end of the first byte: so many bytes belong to the character. Each byte after the first
# begins with 10 and carries six bits of the number (x stands for a bit of the number):
#
#     U+0000 to U+007F        0xxxxxxx
#     U+0080 to U+07FF        110xxxxx 10xxxxxx
#     U+0800 to U+FFFF        1110xxxx 10xxxxxx 10xxxxxx
#     U+10000 to U+10FFFF     11110xxx 10xxxxxx 10xxxxxx 10xxxxxx

# %%
def utf8(code):
    """The bytes of the character with this number."""
    if code < 0x80:
        return bytes([code])
    if code < 0x800:
        following, mark = 1, 0b11000000
    elif code < 0x10000:
        following, mark = 2, 0b11100000
    else:
        following, mark = 3, 0b11110000
    encoded = [mark | (code >> (6 * following))]
    for place in reversed(range(following)):
        six_bits = (code >> (6 * place)) & 0b111111
        encoded.append(0b10000000 | six_bits)
    return bytes(encoded)


print("character  number   bytes")
for character in "A", "é", "가", "👋":
    print(f"    {character}      U+{ord(character):04X}   {utf8(ord(character)).hex(' ')}")
text_codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
assert all(utf8(code) == chr(code).encode("utf-8") for code in text_codes), "the same as Python's"

# %% [markdown]
# Our function agrees with Python for all 1,112,064 numbers that can stand for a character. (The
# other 2,048, called *surrogates*, are halves of pairs and may not be in a text.)

# %% [markdown]
# ## 2. Words, bytes, merges, ids
#
# **Step 1: cut the text into words.** If merges could run over a whole text, common words would be
# learnt many times. The paper saw this: "BPE including many versions of common words like dog since
# they occur in many variations such as dog. dog! dog?". So a merge may join only characters of one
# kind: letters, digits, other signs, or white space. There are two exceptions. *One space* may come
# before the word. And seven English endings (`'s`, `'t`, …) join a sign and letters. This is the
# pattern of the released code. Its parts are tried from left to right: the seven endings, then
# letters, digits and other signs (each with one space or none before them), then white space.
# `\p{L}` is a letter of any script, `\p{N}` is a number (also ½ and Ⅳ), `\s` is white space.

# %%
import regex

PATTERN = regex.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)

for line in ("It's the 3rd dog!", "if x:\n    return", "고양이는 2마리."):
    pieces = PATTERN.findall(line)
    print(" | ".join(piece.replace("\n", "\\n") for piece in pieces))
    assert "".join(pieces) == line, "the words, one after another, are the text"

# %% [markdown]
# Nothing is thrown away, so the decoder has nothing to guess. Look at the second line of the
# output. Behind `x:` come a line end and four spaces, then `return`. The part `\s+(?!\S)` may match
# only white space that is *not* followed by a word. All five characters are followed by one. The
# first four are not: a space follows them. So it takes four, and the last space begins the next
# piece, ` return`.

# %% [markdown]
# **Step 2: write each byte as a visible character.** A vocabulary file has one merge on each line,
# with a space between the two halves. If a half were itself a space or a line end, the file could
# not be read. So OpenAI's code writes every byte as a character that can be seen. The 188 bytes
# that are printable characters in the Latin-1 table stand for themselves. The other 68 get the
# characters from U+0100 on. The space, byte 32, becomes `Ġ`. These characters are only a way to
# *write* bytes.

# %%
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [byte for byte in range(256) if byte not in printable]
CHARACTER_OF = {byte: chr(byte) for byte in printable}
CHARACTER_OF |= {byte: chr(256 + i) for i, byte in enumerate(others)}
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def spell(word):
    """A word as a string with one visible character for each byte."""
    return "".join(CHARACTER_OF[byte] for byte in word.encode("utf-8"))


print("word      bytes      written as")
for word in (" the", "\n", "é", "가"):
    print(f"{word!r:8}  {word.encode().hex():9}  {spell(word)}")
assert spell(" the") == "Ġthe" and spell("가") == "ê°Ģ", "the published way of writing bytes"
assert len(BYTE_OF) == 256, "no two bytes share a character"

# %% [markdown]
# **Step 3: learn merges, and give ids.** Learning is lesson 10's, applied to the spelled words.
# (One thing differs: of equally frequent pairs, the one with the smaller ids is taken. See
# section 8.) The mark `</w>` is not needed: the space in front already shows where a word begins.
# The ids 0 to 255 are the bytes; after them comes one id for each merge.
#
# **Guess:** the text is Python's manual, in English. Which two bytes are joined first?

# %%
from collections import Counter
from pydoc_data.topics import topics

from minigpt.tokenizer import bpe

MANUAL = "\n".join(topics[name] for name in sorted(topics))


def learn(text, n):
    """At most n merges of a text: it stops where no pair occurs twice."""
    counts = Counter(map(spell, PATTERN.findall(text)))
    alphabet = list(CHARACTER_OF.values())
    return bpe.train(counts, n, suffix="", alphabet=alphabet, ties="tokenizers", progress=False)


some_merges = learn(MANUAL, 2000)
print("the first merges:", "  ".join(f"{left}+{right}" for left, right in some_merges[:8]))
print("the last ones:   ", "  ".join(f"{left}+{right}" for left, right in some_merges[-6:]))
assert some_merges[0] == ("Ġ", "Ġ"), "the manual is indented: its most frequent pair is two spaces"

# %% [markdown] tags=["answer"]
# Two spaces. One thinks of letters, but a space and `t` are only third, `h` and `e` sixth. The
# manual is indented, and BPE counts the pairs of this text, not those of the language.

# %% [markdown]
# **Step 4: encode and decode.** Each line of the decoder undoes one line of the encoder, in
# reverse order, as a backward pass does. There is one difference. The encoder starts from text,
# but the decoder may get *any* ids, and their bytes may not be text. UTF-8 has rules; bytes that
# break them become U+FFFD, the replacement character (in Python `"\ufffd"`), often drawn as a
# question mark in a black diamond.
#
# **Your turn:** the first half of the decoder. `symbols[i]` is token i as step 2 writes it, and
# `byte_of` says for each of its characters which byte it stands for. Return a list of all bytes.

# %%
from minigpt.learn import gap

rank_of = {pair: rank for rank, pair in enumerate(some_merges)}
all_symbols = [*CHARACTER_OF.values(), *(left + right for left, right in some_merges)]
cut = [one for word in PATTERN.findall("the café") for one in bpe.merge(spell(word), rank_of)]
print("tokens:", " | ".join(cut))


def your_bytes(ids, symbols, byte_of):
    return ...


ids_of_cut = [all_symbols.index(one) for one in cut]
gap.judge(your_bytes, ids_of_cut, all_symbols, BYTE_OF, expected=list("the café".encode()))

# %% [markdown] tags=["answer"]
# `[byte_of[c] for i in ids for c in symbols[i]]`: a token is one or more characters, and each of
# them is one byte. Whether these bytes are text is a question for the last step.

# %%
class Vocabulary:
    """Merges with their ids: bytes first, then one id for each merge."""

    def __init__(self, merges):
        self.symbols = [*CHARACTER_OF.values(), *(left + right for left, right in merges)]
        self.ids = {symbol: i for i, symbol in enumerate(self.symbols)}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}

    def encode(self, text):
        symbols = []
        for word in PATTERN.findall(text):
            symbols += bpe.merge(spell(word), self.ranks)
        return [self.ids[symbol] for symbol in symbols]

    def bytes_of(self, ids):
        symbols = [self.symbols[i] for i in ids]
        return bytes(BYTE_OF[character] for character in "".join(symbols))

    def decode(self, ids):
        return self.bytes_of(ids).decode("utf-8", errors="replace")


print("a vocabulary without merges has", len(Vocabulary([]).symbols), "symbols, the bytes")

# %%
english = Vocabulary(some_merges)
sentence_ids = english.encode("The statement returns nothing.")
print(" | ".join(english.symbols[i] for i in sentence_ids))
for given in ("The dog's name: Rex!", "  spaces,\tTabs\n\nand CAPITALS  ", "naïve 한국어 👋", ""):
    assert english.decode(english.encode(given)) == given, f"{given!r} comes back whole"
broken_byte = [english.ids[CHARACTER_OF[0xEA]]]
assert english.decode(broken_byte) == "\N{REPLACEMENT CHARACTER}", "no text, and no failure"

# %% [markdown] tags=["deeper"]
# ### What the pattern saves
#
# Does the pattern do what the paper says? We learn 1,000 merges from Python's manual three times:
# from words that are cut at spaces only, from words of the pattern, and from words of the pattern
# without its optional spaces. Then we count the tokens that join letters and punctuation, and the
# tokens that the whole manual needs.

# %%
def mixed_tokens(words):
    """Of 1,000 merges, those that join letter and punctuation mark; the tokens of the manual."""
    counts = Counter(words)
    merges = bpe.train(counts, 1000, suffix="", progress=False)
    tokens = [left + right for left, right in merges]
    beside = r"\p{L}[^\s\p{L}\p{N}]|[^\s\p{L}\p{N}]\p{L}"
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    cost = sum(n * len(bpe.merge(word, ranks)) for word, n in counts.items())
    return [token for token in tokens if regex.search(beside, token)], cost


print(f"the manual has {len(MANUAL):,} characters")

# %%
WITHOUT_SPACES = regex.compile(PATTERN.pattern.replace(" ?", ""))
cuts = {
    "at spaces": regex.findall(r" ?\S+|\s+(?!\S)|\s+", MANUAL),
    "by the pattern": PATTERN.findall(MANUAL),
    "without ` ?`": WITHOUT_SPACES.findall(MANUAL),
}
print("cut              mixed tokens of 1,000   tokens of the manual")
learnt_from = {name: mixed_tokens(words) for name, words in cuts.items()}
for name, (mixtures, total) in learnt_from.items():
    print(f"{name:16} {len(mixtures):21} {total:22,}")
(at_spaces, cost_at_spaces), (by_pattern, cost_by_pattern), (_, cost_without) = learnt_from.values()
print("some of the mixed tokens:", "  ".join(at_spaces[:8]))
allowed = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}
assert len(at_spaces) > 40 and set(by_pattern) <= allowed, "the pattern leaves only 's and its kind"
assert cost_without > 1.2 * cost_by_pattern, "the optional space saves tokens"
assert cost_at_spaces < cost_by_pattern, "the mixed tokens save some too"

# %% [markdown]
# With cuts at spaces only, one token in twenty is such a mixture. The pattern allows only the seven
# English endings. The optional space saves a quarter of the tokens. The rule against mixtures saves
# none: with mixtures *this* text is 1 % shorter. The paper calls mixtures "a sub-optimal allocation
# of limited vocabulary slots and model capacity". We see no loss in slots: as many tokens write a
# shorter text. Capacity (a model must learn each version of a word) was not measured here.

# %% [markdown]
# ## 3. A space is part of the word
#
# Now `the`, ` the`, `The` and ` The` are four different words with four different ids. The model
# has to learn from text that they are related. It also matters whether a prompt ends with a space:

# %%
four_ids = [english.encode(word) for word in ("the", " the", "The", " The")]
print("the,  the, The,  The:", four_ids)
assert len({tuple(ids) for ids in four_ids}) == 4 == sum(map(len, four_ids)), "four tokens"
prompts = ("the return", "the return ", "the return value")
for prompt in prompts:
    print(f"{prompt!r:19} {english.encode(prompt)}")
good, with_space, whole_text = map(english.encode, prompts)
assert whole_text[: len(good)] == good, "no space at the end: the whole text begins with these ids"
assert whole_text[: len(with_space)] != with_space, "a space at the end: it does not"

# %% [markdown]
# After a separate space token a model has to continue with `value` without its space. In its
# training it hardly ever saw this. How badly does it predict there? The reference model of lesson
# 11 has a tokenizer of this kind.

# %%
import numpy as np

from minigpt import models
from minigpt.data import stories
from minigpt.device.threads import set_threads
from minigpt.learn import reference

set_threads(1)  # small arrays: a second thread would only be in the way
model, small = models.open_both(reference.folder())


def surprisal(given, word):
    """The nats of all tokens of a word after a given text."""
    given_ids, word_ids = [small.start_id, *small.encode(given)], small.encode(word)
    logits, _ = model.forward(np.array([given_ids + word_ids]), grad=False)
    z = logits[0, len(given_ids) - 1 : -1].astype(float)  # position t predicts token t + 1
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return -log_p[np.arange(len(word_ids)), word_ids].sum()


print(f"after [Once upon a], [ time] costs {surprisal('Once upon a', ' time'):.3f} nats")

# %% [markdown]
# We cut 40 new stories after 30 words, and measure the surprisal of the next word. Once the word
# brings its own space; once the space is already at the end of the prompt.
#
# **Guess:** with its own space the word costs 0.3 nats on average. Does it cost about 1, 5 or 30
# after a space token?

# %%
cost_of_word = []
for story in stories.documents(40, split="valid"):
    words = story.split(" ")
    given, word = " ".join(words[:30]), words[30]
    cost_of_word.append((surprisal(given, " " + word), surprisal(given + " ", word)))
usual, after_space_token = np.mean(cost_of_word, axis=0)
print(f"the next word costs {usual:.1f} nats; after a space token {after_space_token:.1f}")
for end in ("was a", "was a "):
    prompt_ids = [small.start_id, *small.encode("Once upon a time, there " + end)]
    written = model.generate(np.array([prompt_ids]), 12, temperature=0)[0, 1:]
    print(f"{end!r:8} ->", small.decode(written.tolist()))
assert all(after > usual for usual, after in cost_of_word), "in each story it costs more"
assert after_space_token > usual + 10, "and by far"

# %% [markdown] tags=["answer"]
# Nearly 30. The text is the same, so one expects nearly the same cost. But the model reads ids, not
# text, and to it these ids are a rare sequence. **This is the surprise of the lesson: a prompt
# should end with a word, not with a space.**

# %% [markdown] tags=["deeper"]
# ### After a space token
#
# How rare is such a sequence in what this model learnt from? We count in 500 stories. In them `cat`
# and the space before it are one token. A separate space token should come only where the space and
# the word are *not* one token. Does `cat` ever follow it?

# %%
from itertools import pairwise

in_stories = [[small.tokens[i] for i in small.encode(one)] for one in stories.documents(500)]
frequency = Counter(token for tokens in in_stories for token in tokens)
after_space = Counter(
    right for tokens in in_stories for left, right in pairwise(tokens) if left == "Ġ"
)
print(f"of {frequency.total():,} tokens {frequency['Ġ']} are a separate space; after it come")
print("  ", "  ".join(f"[{token}] {n}" for token, n in after_space.most_common(6)))
print(f"[ cat] comes {frequency['Ġcat']} times; [cat] after a space {after_space['cat']}")
assert frequency["Ġ"] < frequency.total() / 300, "a separate space is rare"
assert frequency["Ġcat"] > 30 and after_space["cat"] == 0, "and never before such a word"

# %% [markdown] tags=["deeper"]
# ## 4. Hangul: what a syllable costs
#
# Unicode has the 11,172 Korean syllables in the order of the dictionary, from 가 (U+AC00) to 힣
# (U+D7A3). A syllable has one of 19 initial consonants, one of 21 vowels, and one of 28 endings
# (27 final consonants, or none):
#
# $$
# \text{code} = \mathrm{0xAC00} + (\text{initial} \cdot 21 + \text{vowel}) \cdot 28 + \text{ending}
# $$
#
# All these numbers lie between U+0800 and U+FFFF. So **every syllable is three bytes**. The first
# byte holds the upper 4 bits of the number, the second the next 6, the third the last 6.
#
# Do the first two bytes say which initial and which vowel a syllable has? And the other way round:
# do initial and vowel say what the first two bytes are? Think of the long list of syllables, from 가
# to 힣, and of two ways to cut it into pieces:
#
# - A *row* is 64 neighbours with the same first two bytes. Their numbers differ only in the last 6
#   bits. The first row begins at 가, because 0xAC00 is a multiple of 64.
# - A *group* is the 28 neighbours with the same initial and the same vowel.
#
# The answer to the first question is yes if each row lies inside one group; to the second, if each
# group lies inside one row. Let us count the rows, the groups, and the groups that are cut by the
# border between two rows.

# %%
syllables = [chr(code) for code in range(0xAC00, 0xD7A4)]
assert len(syllables) == 19 * 21 * 28 == 11_172, "initials x vowels x endings"
assert all(len(syllable.encode()) == 3 for syllable in syllables), "three bytes each"
assert 0xAC00 % 64 == 0, "a row begins at the first syllable"

first_bytes = Counter(syllable.encode()[:1].hex() for syllable in syllables)
first_pairs = {syllable.encode()[:2] for syllable in syllables}
groups = [syllables[at : at + 28] for at in range(0, len(syllables), 28)]
cut_groups = [group for group in groups if len({one.encode()[:2] for one in group}) > 1]
print(f"first bytes: {dict(first_bytes)}")
print(f"{len(first_pairs)} different pairs of first bytes")
print(f"of {len(groups)} groups with one initial and one vowel, {len(cut_groups)} are cut")
assert len(first_pairs) == 175 < len(groups) == 399, "fewer pairs of bytes than groups"
assert len(cut_groups) == 150, "150 of 399 groups have two first pairs"

# %% [markdown]
# Twice no. 175 rows are fewer than 399 groups, so there are rows that hold several groups: their
# first two bytes do not say which. And 150 groups lie in two rows. Only all three bytes together
# say which letters a syllable has.
#
# The 150 can be found with a pencil. Number the syllables from 0, at 가. A row begins at each
# multiple of 64, a group at each multiple of 28. From 1 to 11,171 there are 174 multiples of 64.
# Every seventh of them is a multiple of 28 too, because 7 x 64 = 16 x 28. There, 24 times, a row
# and a group begin together, and nothing is cut. At the other 150 a group is cut.
#
# The English manual has no Hangul, and its merges join no two bytes of any syllable (the next cell
# tries all). So each syllable costs three tokens, and the space before a word one more. To compare,
# here is a short Korean text to learn from, and a new paragraph to test.

# %%
STORY = """
할머니는 바닷가 작은 마을에 살았다. 할머니에게는 고양이가 한 마리 있었다. 고양이의 이름은 달이었다.
달은 하얀 고양이였다. 아침이 되면 할머니는 시장에 갔다. 시장에는 사람이 많았다. 할머니는 생선을 팔았다.
달은 집에서 할머니를 기다렸다. 달은 창가에 앉아서 바다를 보았다. 바다는 파랗고 하늘도 파랗다.
새가 하늘을 날았다. 달은 새를 보고 꼬리를 흔들었다. 저녁이 되면 할머니는 집에 돌아왔다.
할머니는 달에게 생선을 주었다. 달은 생선을 먹고 할머니 옆에 누웠다. 할머니는 웃었다.
어느 날 할머니가 아팠다. 할머니는 시장에 가지 못했다. 달은 할머니 옆에 앉아 있었다.
밖에는 비가 내렸다. 바람도 불었다. 달은 문을 열고 밖으로 나갔다. 비가 내리는 길을 달렸다.
시장까지 달렸다. 시장 사람들은 달을 보고 놀랐다. "할머니의 고양이다. 왜 혼자 왔을까?" 한 사람이 말했다.
달은 울었다. 사람들은 달을 따라갔다. 할머니의 집까지 갔다. 사람들은 할머니에게 약을 주었다.
따뜻한 밥도 주었다. 할머니는 약을 먹고 잠이 들었다. 달은 할머니 옆에서 잠이 들었다.
며칠이 지나고 할머니는 다시 일어났다. 할머니는 시장에 갔다. 이제 달도 함께 갔다.
사람들은 달에게 생선을 주었다. "고마워요." 할머니가 말했다. "고마워요." 사람들도 말했다.
달은 하늘을 보고 꼬리를 흔들었다. 바다는 파랗고 하늘도 파랗다.
"""
NEW = (
    "고양이는 창가에 앉아서 비가 내리는 바다를 보았다. 할머니는 따뜻한 밥을 먹고 웃었다. "
    '작은 새가 집으로 돌아왔다. "달은 어디에 있을까?" 할머니가 말했다. '
    "고양이는 꼬리를 흔들고 길을 달렸다."
)
OTHER = "서울 지하철은 오늘 아침 고장으로 늦게 출발했다. 회사원들은 버스를 타려고 긴 줄을 섰다."
print(f"{len(STORY)} characters to learn from, {len(NEW)} to test; the test begins: {NEW[:27]}")
assert not regex.search("[가-힣]", MANUAL), "no Hangul in the manual"
assert all(len(english.encode(one)) == 3 for one in syllables), "three tokens for each syllable"

# %% [markdown]
# Four vocabularies: no merges at all; merges from the English manual; merges from the Korean story;
# and merges from a mixture, four parts of English to one part of Korean, counted in characters.

# %%
from_story = learn(STORY, 2000)  # as many as there are
MIXTURE = MANUAL[: 4 * len(STORY)] + STORY
from_mixture = learn(MIXTURE, len(from_story))
bytes_only, korean, mixed = Vocabulary([]), Vocabulary(from_story), Vocabulary(from_mixture)


def per_syllable(vocabulary, text=NEW):
    """Tokens for each syllable; the tokens of spaces and full stops are counted too."""
    return len(vocabulary.encode(text)) / len(regex.findall("[가-힣]", text))


cost = {}
print("learnt from   merges   tokens of the whole text for each syllable")
for name, vocabulary in (
    ("nothing", bytes_only), ("English", english), ("Korean", korean), ("a mixture", mixed)
):
    cost[name] = per_syllable(vocabulary)
    print(f"{name:12} {len(vocabulary.ranks):6}   {cost[name]:.2f}")
assert cost["English"] > 3.2, "English merges leave Korean at its bytes"
other = per_syllable(korean, OTHER), per_syllable(english, OTHER)
print(f"two sentences about the subway of Seoul: Korean {other[0]:.2f}, English {other[1]:.2f}")
assert cost["Korean"] < 1.2 and 1.5 < cost["a mixture"] < 2.5, "Korean text makes Korean cheap"
assert cost["Korean"] < other[0] < other[1], "it helps other Korean text too, but less"

# %% [markdown]
# Thirteen lines of a story reduce the cost of a new paragraph about the same cat to a third.
# Another Korean text gains less: so "three times" belongs to this paragraph. In the mixture both
# languages compete for the same number of merges. Let us change only the share of Korean:

# %%
n_merges, by_share = len(from_story), []
print(f"{n_merges} merges each; Korean is\n  share of the text   tokens for a syllable")
for times in (0, 1, 4, 16):  # English characters for each Korean one
    vocabulary = Vocabulary(learn(MANUAL[: times * len(STORY)] + STORY, n_merges))
    by_share.append(per_syllable(vocabulary))
    print(f"{1 / (times + 1):19.0%} {by_share[-1]:19.2f}")
n_syllables = len(regex.findall("[가-힣]", STORY))
GPT2_COST = (14 + 8) / (5 + 3)  # GPT-2's ids of 안녕하세요 and of 한국어, for each syllable
print(f"1,024 tokens hold {1024 / GPT2_COST:.0f} syllables at {GPT2_COST} tokens each; "
      f"the story has {n_syllables}")
assert by_share == sorted(by_share), "the smaller the share, the larger the cost"
assert 1024 / GPT2_COST < n_syllables, "the story would not fit"

# %% [markdown]
# So with equally many merges, what a language costs depends on its share of the text from which the
# *vocabulary* was learnt, before any model is trained. And the cost returns at every use. GPT-2's
# own merges need 14 tokens for the five syllables of 안녕하세요 and 8 for the three of 한국어. At this
# cost, the 1,024 tokens that GPT-2 can see at once do not hold this short story.
#
# Now **another surprise**. Look at what was learnt from the story:

# %%
def readable(symbol):
    """The text of a token; bytes that are no text are written \\x…"""
    return bytes(BYTE_OF[one] for one in symbol).decode("utf-8", errors="backslashreplace")


learnt = [left + right for left, right in from_story]
not_whole = [symbol for symbol in learnt if "\\x" in readable(symbol)]
across = [symbol for symbol in not_whole if regex.search("[가-힣]", readable(symbol))]
print(f"{len(learnt)} tokens; {len(not_whole)} of them are not text")
print(f"{len(across)} hold a whole syllable and a part of another:")
print("  ".join(f"[{readable(symbol)}]" for symbol in across[:7]))
built_on = sum(left in across or right in across for left, right in from_story)
print(f"{built_on} of {len(from_story)} merges have one of these {len(across)} as a half")
assert len(not_whole) > 0.4 * len(learnt), "nearly half of the tokens are not text"
assert len(across) > 20, "some hold a whole syllable and a part of its neighbour"
assert built_on > len(across) / 2, "later merges are built on them"

# %% [markdown]
# BPE does not know what a character is. It counts pairs. An example: 었 is the bytes ec 97 88. Its
# last byte, 88, and the whole syllable 다 were once the most frequent pair, so they were joined. A
# later merge joins ec 97 with this token, and 었다 is whole. And a model that writes tokens one by
# one may stop in the middle of a character.

# %% [markdown] tags=["deeper"]
# ## 5. Check, and the trap
#
# The check is a round trip: text to ids and back, for one character in every 101, alone and all
# together in one string.

# %%
sample = [chr(code) for code in text_codes[::101]]
for vocabulary in (english, korean):
    alone = all(vocabulary.decode(vocabulary.encode(one)) == one for one in sample)
    together = vocabulary.decode(vocabulary.encode("".join(sample))) == "".join(sample)
    assert alone and together, "every character comes back"
print(f"{len(sample):,} characters of all scripts: each comes back, alone and in one string")

# %% [markdown]
# **The trap: show the text token by token.** A program should show what a model writes while it
# writes. The careless way is to decode each token alone. On plain English (ASCII: one byte for each
# character) this always works, so a test with English text passes:

# %%
def careless_stream(vocabulary, ids):
    return "".join(vocabulary.decode([i]) for i in ids)


plain = MANUAL[:50_000].encode("ascii", errors="ignore").decode()
print("English:", "right" if careless_stream(english, english.encode(plain)) == plain else "wrong")
print("고양이: ", careless_stream(english, english.encode("고양이")))
assert careless_stream(english, english.encode(plain)) == plain, "right for plain English"
nine = 9 * "\N{REPLACEMENT CHARACTER}"
assert careless_stream(english, english.encode("고양이")) == nine, "and wrong for Korean"

# %% [markdown]
# Each of the nine bytes alone is not text. A correct program *waits*: it keeps the bytes of an
# unfinished character until its last byte has come. But it must not wait for a character that can
# no longer be finished, because a model may write such bytes too. Python has a decoder that does
# both:

# %%
import codecs


def stream(vocabulary, ids):
    """What may be shown after each token, and at the end the rest."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for i in ids:
        yield decoder.decode(vocabulary.bytes_of([i]))
    yield decoder.decode(b"", final=True)


print("after each token of 고양:", list(stream(english, english.encode("고양"))))
assert list(stream(english, english.encode("고양"))) == ["", "", "고", "", "", "양", ""], "it waits"
for vocabulary in (english, korean):
    new_ids = vocabulary.encode(NEW)
    for any_ids in (new_ids, new_ids[::-1], list(range(256))):  # the last two are not text
        streamed = "".join(stream(vocabulary, any_ids))
        assert streamed == vocabulary.decode(any_ids), "token by token or at once: the same text"

# %% [markdown] tags=["deeper"]
# ## 6. See it: where the cuts are
#
# One sentence, 고양이는 바다를 보았다 ("the cat looked at the sea"), in five vocabularies. Each bar
# is one token, and its length is its number of bytes. The sounds of the syllables are at the top.

# %%
from itertools import accumulate

SENTENCE = "고양이는 바다를 보았다."
SOUNDS = "go yang i neun _ ba da reul _ bo at da .".split()
EDGES = [0, *accumulate(len(character.encode()) for character in SENTENCE)]


def kinds_of_tokens(vocabulary):
    """(first byte, last byte, kind) of each token of the sentence."""
    start = 0
    for i in vocabulary.encode(SENTENCE):
        end = start + len(vocabulary.bytes_of([i]))
        if start in EDGES and end in EDGES:
            kind = "whole characters"
        elif any(start < edge < end for edge in EDGES):
            kind = "parts of two characters"
        else:
            kind = "a part of one character"
        yield start, end, kind
        start = end


print(f"{len(SENTENCE)} characters, {EDGES[-1]} bytes; kinds of tokens:")
for vocabulary in (english, korean):
    print("  ", dict(Counter(kind for _, _, kind in kinds_of_tokens(vocabulary))))

# %% tags=["hide-input"]
COLORS = {
    "whole characters": "tab:green", "a part of one character": "0.75",
    "parts of two characters": "tab:red",
}
vocabularies = {"bytes": bytes_only, "English, 2,000": english}
vocabularies |= {f"Korean, {n}": Vocabulary(from_story[:n]) for n in (30, 80, len(from_story))}

strip_figure, strip = plot.plt.subplots(figsize=(11, 4.2))
for row, vocabulary in enumerate(vocabularies.values()):
    for start, end, kind in kinds_of_tokens(vocabulary):
        strip.barh(row, end - start - 0.2, left=start + 0.1, height=0.6, color=COLORS[kind])
    strip.text(EDGES[-1] + 0.3, row, f"{len(vocabulary.encode(SENTENCE))} tokens", va="center")
for (left, right), sound in zip(pairwise(EDGES), SOUNDS, strict=True):
    strip.text((left + right) / 2, -0.7, sound, ha="center")
    strip.axvline(left, color="0.6", linewidth=0.6, linestyle=":")
handles = [plot.plt.Rectangle((0, 0), 1, 1, color=color) for color in COLORS.values()]
strip.legend(handles, COLORS, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3)
strip.set(xlim=(0, EDGES[-1] + 5), ylim=(4.5, -1.1), xticks=[], title="Where the tokens are cut")
strip.set_yticks(range(len(vocabularies)), vocabularies)
strip.grid(False)
plot.save(strip_figure, "15_cuts.png")

# %%
not_whole_tokens = {
    name: sum(kind != "whole characters" for _, _, kind in kinds_of_tokens(vocabulary))
    for name, vocabulary in vocabularies.items()
}
print("tokens that begin or end inside a character:")
for name, number in not_whole_tokens.items():
    print(f"  {name:15} {number:3}")
assert not_whole_tokens["bytes"] == not_whole_tokens["English, 2,000"] == 30, "as without merges"
red = [
    sum(kind == "parts of two characters" for *_, kind in kinds_of_tokens(vocabularies[name]))
    for name in ("bytes", "Korean, 30", "Korean, 80")
]
print(f"with parts of two characters: bytes {red[0]}, Korean, 30 {red[1]}, Korean, 80 {red[2]}")
assert red[0] == 0 < max(red), "on the way there are tokens with parts of two characters"
assert list(not_whole_tokens.values())[-1] == 0, "with all merges, every token is whole characters"

# %% [markdown]
# English merges leave Korean byte by byte (grey). On the way to whole words, the Korean vocabulary
# passes through red: tokens with parts of two characters. They are not a mistake: as counted above,
# later merges are built from them.
#
# How does the cost of the new paragraph fall with the number of merges?

# %% tags=["hide-input"]
STEPS = [0, 10, 30, 60, 120, 250, 500, 1000, 2000]
TEXTS = {
    "learnt from English": (some_merges, "s-"),
    "learnt from the mixture, 4 to 1": (learn(MIXTURE, 2000), "^-"),
    "learnt from Korean": (from_story, "o-"),
}
curve_figure, curve = plot.plt.subplots(figsize=(9, 4.5))
for name, (merges, style) in TEXTS.items():
    counts = sorted({min(n, len(merges)) for n in STEPS})
    curve.plot(counts, [per_syllable(Vocabulary(merges[:n])) for n in counts], style, label=name)
curve.axhline(1, color="0.5", linewidth=1)
curve.text(2000, 0.8, "one token for a syllable", color="0.4", ha="right")
curve.set_xscale("symlog", linthresh=10)
curve.set_xticks(STEPS, map(str, STEPS), rotation=45)
curve.minorticks_off()
curve.set(xlabel="merges", ylabel="tokens for a syllable", xlim=(-1, 2500), ylim=(0.6, None))
curve.set_title("What a new Korean paragraph costs")
curve.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=3, fontsize="small")
plot.save(curve_figure, "15_cost.png")

# %% [markdown] tags=["deeper"]
# ## 7. In the library
#
# `GPT2Tokenizer` does the same, and remembers words that it has met before. Its ids equal ours. It
# has one token more, the last one.

# %%
from minigpt.tokenizer import GPT2Tokenizer

library = GPT2Tokenizer.train(MANUAL, 256 + 2000 + 1, progress=False)
assert library.merges == some_merges, "the same merges"
assert library.tokens == [*english.symbols, "<|endoftext|>"], "the same tokens, and one more"
assert library.encode(MANUAL) == english.encode(MANUAL), "the same ids"
listing = list(library.listing())
print("the first merges, as `minigpt tokenizer list` prints them:")
print("\n".join(listing[256:262]))

# %% [markdown]
# **The end of a text.** The token `<|endoftext|>` (id 50256 in GPT-2) comes between documents. It
# is not text. If somebody types these thirteen characters, they are encoded as plain text, unless
# the program allows the special token by name. Otherwise a web page that contains these characters,
# copied into your document, would end it.

# %%
typed = "one<|endoftext|>two"
as_text = library.encode(typed)
as_special = library.encode(typed, allowed_special="all")
print(f"as text: {len(as_text)} tokens; as the special token: {len(as_special)} tokens")
assert library.end_of_text_id not in as_text, "typed text is text"
assert as_special.count(library.end_of_text_id) == 1, "where it is allowed, it is one token"

terminal = library.streaming()
shown = [terminal.feed(i) for i in library.encode("고")] + [terminal.end()]
assert shown == ["", "", "고", ""], "the library's stream waits too"

# %% [markdown] tags=["deeper"]
# ## 8. Paper and code
#
# - 50,257 = 256 bytes + 50,000 merges + `<|endoftext|>`. From which text the merges were learnt,
#   the paper does not say (we suppose from WebText, the forty gigabytes of the training), nor what
#   decided between equal counts. We take the pair with the smaller ids first, as the `tokenizers`
#   library does; then our merges are those that it learns (`tests/test_tokenizer_bpe.py` compares
#   20,000 of a book).
# - In the released vocabulary, 한국어 is 47991 250 | 166 113 255 | 168 244 112. The first id is the
#   two bytes ED 95, with which 하, 한 and 해 begin. No other merge fits into this word. 344 of the
#   50,256 ordinary tokens are not text by themselves.
# - The pattern lists `'s` but not `'S`. So `I'M` is cut into `I`, `'`, `M`. We keep this, because
#   another cut would give other ids.
# - A combining accent is not a letter for the pattern. `é` as one character (U+00E9) belongs to
#   its word; `e` followed by a combining accent (U+0065, U+0301) is cut. The paper says nothing
#   about this. If it matters, normalise the text (NFC) first.
# - The paper says that such a model "can assign a probability to any Unicode string". More exactly,
#   it gives one to each sequence of *tokens*. A string can be cut into tokens in many ways; its own
#   probability is the sum over all of them, and in practice one takes the cut of the encoder.
# - BERT, LLaMA and T5 cut text in other ways. Lesson 35 builds them, and may be read next.

# %% [markdown]
# ## 9. To keep
#
# - GPT-2's tokenizer starts from the 256 bytes, so no text is unknown. Ids may also give bytes that
#   are no text: then the decoder shows a replacement character, and does not fail.
# - A space belongs to the word behind it: `the` and ` the` are two tokens, and a prompt should not
#   end with a space.
# - What a language costs depends on the text from which the merges were learnt: without merges of
#   its own, a Korean syllable is three tokens (section 4).

# %% [markdown]
# ## 10. Exercises
#
# 1. `exercises/15_byte_level_bpe.py`: write `utf8(code)` without Python's help. Then write
#    `certain(raw)`: some bytes of a text have come, and more may follow. How many of them may be
#    shown already? The file judges itself: run it.
# 2. `exercises/15_find_the_bug.py`: a streaming decoder that is right for every text, in every
#    language. But after some bytes that are not text it shows nothing any more, whatever follows.
#    Which bytes are they? Run it.
# 3. On paper: 각 is 가 with the ending number 1. What are its three bytes? Which group of 28
#    syllables is the first that is cut by the border of a row? After which of its syllables?

# %%
print("lesson 15: every check is happy")
