# %% [markdown]
# # Lesson 15: byte-level BPE, GPT-2's
#
# GPT-1 reads lower-case English and nothing else. You will build the tokenizer that reads everything: bytes instead of
# characters, words that keep their space, merges, and a decoder that never fails. You will see why Korean is dear in an
# English vocabulary, what learning from Korean text does about it, and what a token may be that is not text at all.
#
# Reading: 25 minutes. Running: 10 seconds. Before it: lesson 10, whose trainer we use.
#
# Papers: Radford et al. 2019 (GPT-2), section 2.2. UTF-8 is Thompson and Pike's, 1992; today's rules are RFC 3629.

# %% [markdown]
# ## 1. Why: three losses, and 256 ways out
#
# Lesson 10 ended with three losses: capitals, spaces, and every character that the corpus did not have. The third looks
# easy: put *all* characters into the alphabet. How many are there?

# %%
import sys
import unicodedata

if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(errors="replace")  # a console may not know Hangul

characters = [chr(c) for c in range(sys.maxunicode + 1)]
assigned = sum(unicodedata.category(c) not in ("Cn", "Co", "Cs") for c in characters)  # not: empty, private, surrogates
print(f"{assigned:,} characters in Unicode {unicodedata.unidata_version}, {len(characters):,} places for them")
assert assigned > 130_000

# %% [markdown]
# "This would result in a base vocabulary of over 130,000 before any multi-symbol tokens are added", says the paper. But
# no file holds characters. Files hold bytes, and of those there are 256, for every text that was or will be written.
# The rule from character to bytes is UTF-8. A character below 128 is one byte. For a larger number the first byte says
# by its leading ones how many bytes there are, and six bits go into each byte that follows:
#
#     U+0000 .. U+007F      0xxxxxxx
#     U+0080 .. U+07FF      110xxxxx 10xxxxxx
#     U+0800 .. U+FFFF      1110xxxx 10xxxxxx 10xxxxxx
#     U+10000 .. U+10FFFF   11110xxx 10xxxxxx 10xxxxxx 10xxxxxx

# %%
def utf8(code):
    """The bytes of the character with this number."""
    if code < 0x80:
        return bytes([code])
    n, ones = (1, 0b11000000) if code < 0x800 else (2, 0b11100000) if code < 0x10000 else (3, 0b11110000)
    return bytes([ones | code >> 6 * n, *(0b10000000 | code >> 6 * k & 63 for k in reversed(range(n)))])


for character in "A", "é", "가", "👋":
    print(f"  {character}  U+{ord(character):04X}  {utf8(ord(character)).hex(' ')}")
real = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
assert all(utf8(c) == chr(c).encode("utf-8") for c in real)

# %% [markdown]
# It is Python's, for all 1,112,064 numbers. (2,048 more are *surrogates*, which no text may hold alone. Python's
# strings can, by accident; the library refuses them with a clear word.)
#
# So: **start from 256 bytes, and merge.** No text is unknown, capitals stay, and the loss of spaces comes next.

# %% [markdown]
# ## 2. Forward: words, bytes, merges, numbers
#
# **Words.** We could let merges run over the whole text. The paper tried: "BPE including many versions of common words
# like dog since they occur in many variations such as dog. dog! dog?". It keeps merges within one kind of character,
# letters, digits or the rest, with "an exception for spaces": *one* space may stand in front. This is the pattern of
# the released code; \p{L} is a letter of any script, \p{N} a number (½ and Ⅳ too), \s white space.

# %%
import regex

PATTERN = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

for text in ("It's the 3rd dog!", "if x:\n    return", "고양이는 2마리."):
    words = PATTERN.findall(text)
    print(" ", " | ".join(word.replace("\n", "\\n") for word in words))
    assert "".join(words) == text

# %% [markdown]
# The words, put one after another, are the text: nothing was thrown away, so nothing has to be put back. `\s+(?!\S)` is
# white space that is *not* followed by a word; it leaves the last space to the word behind it. (See `return`.)
#
# Was the paper right about dogs? We learn 1,000 merges from Python's manual, once from words cut at spaces only, once
# from words of the pattern. How many tokens mix letters with punctuation?

# %%
from collections import Counter
from pydoc_data.topics import topics

from minigpt.tokenizer import bpe

manual = "\n".join(topics[name] for name in sorted(topics))


def with_marks(words):
    tokens = map("".join, bpe.train(Counter(words), 1000, suffix="", progress=False))
    return [token for token in tokens if regex.search(r"\p{L}[^\s\p{L}\p{N}]|[^\s\p{L}\p{N}]\p{L}", token)]


careless, careful = (with_marks(words) for words in (regex.findall(r" ?\S+|\s+", manual), PATTERN.findall(manual)))
print(f"tokens of letters and punctuation: {len(careless)} of 1,000, such as {careless[:8]}")
print(f"  with the pattern {len(careful)}")
assert len(careless) > 25 and set(careful) <= {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}

# %% [markdown]
# One token in twenty, in a text of one kind. The pattern spends them on something else. What it allows is `'s` and its
# like, by name.
#
# **Bytes, and their faces.** A file of merges is text, a line for each pair, with a space between its two halves. Were
# a half itself a space or a line end, the file would fall apart. So OpenAI's code writes each byte as a character that
# can be seen: the 188 printable ones of Latin-1 as themselves, the other 68 as what comes from U+0100 on. The space,
# byte 32, becomes Ġ. Faces are for files and eyes; they *mean* bytes.

# %%
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
hidden = [byte for byte in range(256) if byte not in printable]
FACE = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
BYTE = {face: byte for byte, face in FACE.items()}


def spell(word):
    return "".join(FACE[byte] for byte in word.encode("utf-8"))


print("  ", ", ".join(f"{word!r} is {spell(word)}" for word in (" the", "\n", "é", "가")))
assert spell(" the") == "Ġthe" and spell("가") == "ê°Ģ" and len(set(FACE.values())) == 256

# %% [markdown]
# **Merges and numbers.** Learning is lesson 10's, on spelled words, without the mark `</w>`: the space in front now
# tells where a word begins. Ids: 256 bytes first, then one for each merge.

# %%
def learn(text, n):
    """The first n merges, or all there are that occur twice."""
    counts = Counter(map(spell, PATTERN.findall(text)))
    return bpe.train(counts, n, suffix="", alphabet=list(FACE.values()), ties="tokenizers", progress=False)


class Vocabulary:
    def __init__(self, merges):
        self.symbols = [*FACE.values(), *(left + right for left, right in merges)]
        self.ids = {symbol: i for i, symbol in enumerate(self.symbols)}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}

    def encode(self, text):
        words = PATTERN.findall(text)
        spelled = [spell(word) for word in words]
        merged = [symbol for word in spelled for symbol in bpe.merge(word, self.ranks)]
        return [self.ids[symbol] for symbol in merged]

    def bytes_of(self, ids):
        # ids[k] = self.ids[symbol]
        merged = [self.symbols[i] for i in ids]
        # merged: every spelled word was cut into symbols
        spelled = "".join(merged)
        # spelled: a face for each byte
        return bytes(BYTE[face] for face in spelled)

    def decode(self, ids):
        # bytes = text.encode("utf-8"), but a model may write bytes that are no text: those become U+FFFD
        return self.bytes_of(ids).decode("utf-8", errors="replace")


english = Vocabulary(learn(manual, 2000))
for text in ("The dog's name: Rex!", "  spaces,\tTabs\n\nand CAPITALS  ", "naïve 한국어 👋", ""):
    assert english.decode(english.encode(text)) == text
shown = [english.symbols[i] for i in english.encode("The statement returns nothing.")]
print("  ", " ".join(shown))
assert english.decode([english.ids[FACE[0xEA]]]) == "\N{REPLACEMENT CHARACTER}"

# %% [markdown]
# ## 3. A space is part of the word
#
# In this world `the`, ` the`, `The` and ` The` are four words with four numbers, and the model has to find out that
# they are relatives. And one habit of people breaks things: to end a prompt with a space.

# %%
asked, habit, whole = (english.encode(text) for text in ("the return", "the return ", "the return value"))
print("  ", asked, habit, whole)
assert whole[: len(asked)] == asked and whole[: len(habit)] != habit

# %% [markdown]
# The model has read ` value` with its space ten thousand times. After a lonely space it must go on with `value` without
# one, which it has hardly ever seen there. **A prompt ends with a word, not with a space.**

# %% [markdown]
# ## 4. Hangul: what a syllable costs
#
# The 11,172 Korean syllables stand in Unicode in the order of the dictionary, from 가 (U+AC00) to 힣 (U+D7A3). In
# pencil: a syllable is an initial consonant (19), a vowel (21) and a final consonant or none (28), and
#
#     code = 0xAC00 + (initial * 21 + vowel) * 28 + final
#
# All of them lie between U+0800 and U+FFFF: **three bytes each**. The first byte holds the upper 4 bits of the code,
# the second the next 6, the third the last 6. So 64 neighbours share their first two bytes. But a family, one initial
# and one vowel, has 28 members. Inside the 11,172 lie 174 multiples of 64; every seventh of them, 24 in all, is a
# multiple of 28 too. The other 150 cut a family in two: the bytes of a syllable know nothing of its letters.

# %%
syllables = [chr(c) for c in range(0xAC00, 0xD7A4)]
assert len(syllables) == 19 * 21 * 28 == 11_172 and all(len(s.encode()) == 3 for s in syllables)
starts = Counter(s.encode()[:1].hex() for s in syllables)
pairs = Counter(s.encode()[:2] for s in syllables)
split = [n for n in range(399) if len({s.encode()[:2] for s in syllables[28 * n : 28 * n + 28]}) > 1]
print(f"first bytes {dict(starts)}; {len(pairs)} first pairs; of 399 families {len(split)} have two first pairs")
assert set(starts) == {"ea", "eb", "ec", "ed"} and len(pairs) == 175 and len(split) == 150

# %% [markdown]
# An English text has no use for these pairs, so no merge joins them: three tokens for a syllable, and a space is one
# more. Here is some Korean, to learn from, and a paragraph to try on.

# %%
KOREAN = """
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
    "고양이는 창가에 앉아서 비가 내리는 바다를 보았다. 할머니는 따뜻한 밥을 먹고 웃었다. 작은 새가 집으로 돌아왔다. "
    '"달은 어디에 있을까?" 할머니가 말했다. 고양이는 꼬리를 흔들고 길을 달렸다.'
)

korean = Vocabulary(learn(KOREAN, 2000))  # as many as there are
mixture = manual[: 4 * len(KOREAN)] + KOREAN
mixed = Vocabulary(learn(mixture, len(korean.ranks)))


def per_syllable(vocabulary, text=NEW):
    """Tokens for each syllable; those of spaces and full stops are counted in."""
    return len(vocabulary.encode(text)) / len(regex.findall("[가-힣]", text))


for name, vocabulary in ("bytes", Vocabulary([])), ("English", english), ("Korean", korean), ("mixed", mixed):
    print(f"  {name:8} {len(vocabulary.ranks):5} merges: {per_syllable(vocabulary):.2f} tokens for a syllable")
assert per_syllable(english) > 3.2 and per_syllable(korean) < 1.2 and 1.5 < per_syllable(mixed) < 2.5

# %% [markdown]
# Thirteen lines of a story, and Korean costs a third. (Some of that is cheap praise: the new paragraph is about the
# same cat.) In the mixture, one part Korean to four parts English in characters (in bytes three to five), both
# languages compete for as many merges: what a language costs is decided by its share of the text that the vocabulary
# was learnt from, before any model has seen a word. And the price is paid at every use: at three tokens for a syllable
# the 1,024 tokens that GPT-2 sees hold some 300 syllables, fewer than the story has.
#
# Now **the surprise of this lesson**. Look at what was learnt:

# %%
def readable(symbol):
    return bytes(BYTE[face] for face in symbol).decode("utf-8", errors="backslashreplace")


def is_text(symbol):
    return "\\x" not in readable(symbol)


learnt = [left + right for left, right in korean.ranks]
broken = [symbol for symbol in learnt if not is_text(symbol)]
across = [s for s in broken if any("가" <= c <= "힣" for c in readable(s))]
print(f"{len(learnt)} tokens, {len(broken)} of them are not text; {len(across)} are whole syllables and a splinter:")
print("  ", "  ".join(f"[{readable(symbol)}]" for symbol in across[:7]))
assert len(broken) > len(learnt) / 4 and len(across) > 20

# %% [markdown]
# Nobody told BPE what a character is. It joins the end of one syllable to the beginning of the next, if that pair is
# the most frequent. Such tokens are legal, useful, and have no meaning that a person could name. A model that writes
# them may stop in the middle of a character.

# %% [markdown]
# ## 5. Check, and the trap
#
# The round trip of everything: each character alone, and all of them in one string.

# %%
sample = real[:: 101]
assert all(korean.decode(korean.encode(chr(c))) == chr(c) for c in sample)
everything = "".join(map(chr, sample))
assert english.decode(english.encode(everything)) == everything

# %% [markdown]
# **The trap: text, token by token.** A program shows what a model writes, as it comes. The careless way decodes each
# token alone and prints it. Tested on plain English it is right, for ever:

# %%
def careless_stream(vocabulary, ids):
    return "".join(vocabulary.decode([i]) for i in ids)


ascii_text = manual[:50_000].encode("ascii", errors="ignore").decode()
assert careless_stream(english, english.encode(ascii_text)) == ascii_text
print("  ", careless_stream(english, english.encode("고양이")), "should be 고양이")
assert careless_stream(english, english.encode("고양이")) == 9 * "\N{REPLACEMENT CHARACTER}"

# %% [markdown]
# Each byte alone is no text, so each becomes U+FFFD. What is needed holds back an unfinished character until its last
# byte has come. Bytes that cannot become a character any more must not be held back: a model may write those too.
# Python has such a decoder:

# %%
import codecs


def stream(vocabulary, ids):
    """What may be shown after each token, and the rest."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for i in ids:
        yield decoder.decode(vocabulary.bytes_of([i]))
    yield decoder.decode(b"", final=True)


assert list(stream(english, english.encode("고양"))) == ["", "", "고", "", "", "양", ""]
for vocabulary in (english, korean):
    for ids in (vocabulary.encode(NEW), vocabulary.encode(NEW)[::-1], list(range(256))):  # the last two are not text
        assert "".join(stream(vocabulary, ids)) == vocabulary.decode(ids)

# %% [markdown]
# ## 6. See it: who cuts where
#
# One sentence, 고양이는 바다를 보았다, "the cat looked at the sea", byte by byte. Every bar is a token.

# %%
from itertools import pairwise

from minigpt import plot

plt = plot.plt

SENTENCE, SOUNDS = "고양이는 바다를 보았다.", "go yang i neun _ ba da reul _ bo at da .".split()
edges = [0]
for c in SENTENCE:
    edges.append(edges[-1] + len(c.encode("utf-8")))
inside = set(range(edges[-1])) - set(edges)  # cuts that go through a syllable

figure, (strip, curve) = plt.subplots(2, 1, figsize=(10, 7), height_ratios=[1.15, 1])
rows = {"bytes": Vocabulary([]), "English, 2000 merges": english}
rows |= {f"Korean, {n} merges": Vocabulary(learn(KOREAN, n)) for n in (30, 80, len(korean.ranks))}
cut = {}
for row, (name, vocabulary) in enumerate(rows.items()):
    start, cut[name] = 0, 0
    for i in vocabulary.encode(SENTENCE):
        end = start + len(vocabulary.bytes_of([i]))
        whole = start not in inside and end not in inside
        cut[name] += not whole
        across = not whole and any(start < edge < end for edge in edges)
        color = "tab:green" if whole else "tab:red" if across else "0.75"
        strip.barh(row, end - start - 0.2, left=start + 0.1, height=0.6, color=color)
        start = end
    strip.text(edges[-1] + 0.3, row, f"{len(vocabulary.encode(SENTENCE))} tokens", va="center", size=9)
for (left, right), sound in zip(pairwise(edges), SOUNDS, strict=True):
    strip.text((left + right) / 2, -0.75, sound, ha="center", size=9)
    strip.axvline(left, color="0.6", linewidth=0.6, linestyle=":")
strip.set(xlim=(0, edges[-1] + 4.2), ylim=(4.5, -1.1), xticks=[])
strip.set_yticks(range(len(rows)), rows)
strip.grid(False)
strip.set_title("Green: whole characters.  Grey: a piece of one.  Red: a piece of one, and some of the next")

steps = [0, 10, 30, 60, 120, 250, 500, 1000, 2000]
for name, text, style in (
    ("learnt from English", manual, "s-"),
    ("from four parts of English, one of Korean", mixture, "^-"),
    ("learnt from Korean", KOREAN, "o-"),
):
    merges = learn(text, max(steps))
    counts = [n for n in steps if n <= len(merges)] + [len(merges)] * (len(merges) < max(steps))
    curve.plot(counts, [per_syllable(Vocabulary(merges[:n])) for n in counts], style, label=name, markersize=4)
curve.axhline(1, color="0.5", linewidth=1)
curve.text(2000, 0.82, "one token for a syllable", color="0.4", size=9, ha="right")
curve.set_xscale("symlog", linthresh=10)
curve.set_xticks(steps, map(str, steps))
curve.minorticks_off()
curve.set(xlabel="merges", ylabel="tokens for a syllable", xlim=(-2, 2500), ylim=(0.6, None))
curve.set_title("What a new Korean paragraph costs")
curve.legend(fontsize="small", loc="lower left", bbox_to_anchor=(0.03, 0.2))
plot.save(figure, "15_byte_level_bpe.png")
print("   tokens that end or begin inside a syllable:", *cut.values())
assert list(cut.values())[:2] == [30, 30] and cut["Korean, 80 merges"] > 3 and not list(cut.values())[-1]

# %% [markdown]
# English merges leave Korean as it was: grey, byte by byte. On the way to whole words the Korean vocabulary passes
# through red, tokens that no dictionary has. They are not an error of ours: rungs of a ladder, later tokens are made of
# them.

# %% [markdown]
# ## 7. In the library
#
# `GPT2Tokenizer` is the same, with a memory for words met before. Its ids equal ours; one more token comes last.

# %%
from minigpt.tokenizer import GPT2Tokenizer

ours = GPT2Tokenizer.train(manual, 256 + 2000 + 1, progress=False)
assert ours.merges == list(english.ranks) and ours.tokens == [*english.symbols, "<|endoftext|>"]
assert ours.encode(manual) == english.encode(manual) and ours.decode(ours.encode(NEW)) == NEW
listing = list(ours.listing())
print("\n".join(f"   {line}" for line in listing[256:262]))

# %% [markdown]
# **The end of a text.** `<|endoftext|>` (one id, 50256 in GPT-2) stands between documents. It is no text: typed by
# somebody, the same letters are plain text, unless the caller asks. Otherwise every web page could end your document.

# %%
typed = "one<|endoftext|>two"
assert ours.end_of_text_id not in ours.encode(typed) and ours.decode(ours.encode(typed)) == typed
ids = ours.encode(typed, allowed_special="all")
assert ids.count(ours.end_of_text_id) == 1 and len(ids) < len(ours.encode(typed))

terminal = ours.streaming()
assert [terminal.feed(i) for i in ours.encode("고")] + [terminal.end()] == ["", "", "고", ""]

# %% [markdown]
# ## 8. Paper and code
#
# - 50,257 = 256 bytes + 50,000 merges + `<|endoftext|>`. The released vocabulary was learnt from WebText, forty
#   gigabytes of mostly English pages. How it broke ties is not published. We take the pair whose ids come first, as the
#   `tokenizers` library does: the merges are then exactly its.
# - In it 한국어 is 47991 250 | 166 113 255 | 168 244 112. The first id is the bytes ED 95, with which 하, 한, 해 begin:
#   the one pair in this word that was frequent enough. None of its tokens holds a whole syllable, and so a syllable
#   costs two or three. 344 of its 50,256 text tokens are not text.
# - The pattern knows `'s` but not `'S`: `I'M` is cut `I`, `'`, `M`. It is kept, since another cut gives other ids.
# - A combining accent is not a letter: `é` as one character is one word with its neighbours, as `e` and an accent it is
#   cut. The paper says nothing of it; cleaning text (NFC) before is up to you.
# - The paper calls it "byte-level". Its merges do not know UTF-8, and the paper's remark that the model "can assign a
#   probability to any Unicode string" is true of any *bytes*, text or not.

# %% [markdown]
# ## 9. Exercises
#
# 1. `exercises/15_byte_level_bpe.py`: write `utf8(code)` without Python's help, and `certain(raw)`, how many of some
#    bytes may be shown now. The file judges itself: run it.
# 2. `exercises/15_find_the_bug.py`: a streaming decoder that is right for every text, in every language. A model made
#    it fall silent for ever. Which bytes did it write?
# 3. With pencil: 각 is 가 with the final number 1, ㄱ. What are its bytes? Which is the first family that is cut in
#    two, and after which of its members?

# %%
print(f"lesson 15: every check is happy ({len(real):,} characters, {len(listing):,} tokens equal to the library's)")
