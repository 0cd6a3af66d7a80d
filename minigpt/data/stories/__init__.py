"""A world of short stories, in which people, places and things have state.

    >>> from minigpt.data import stories
    >>> print(stories.story(7).text)                         # story 7 of seed 0, always the same
    >>> text = stories.corpus(10_000, split="train")         # a text to train on, one story in each paragraph
    >>> print(stories.story(7).told_in("korean"))            # the same story; "pairs": sentence by sentence
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import count, cycle, islice
from zlib import crc32

from minigpt.data.stories import korean
from minigpt.data.stories.plots import FIRST_PLOTS, PLOTS
from minigpt.data.stories.teller import Sentence, Teller
from minigpt.data.stories.words import Entity
from minigpt.data.stories.world import Contradiction, Event, World
from minigpt.errors import InputError

__all__ = ["Contradiction", "Entity", "Event", "Sentence", "Story", "World", "corpus", "documents", "split_of", "story"]

VARIETY = 3  # everything
WORDS = (60, 120)  # every story of a smaller world has at least and at most so many
MORE_WORDS = (60, 180)  # where there is everything
LANGUAGES = ("english", "korean", "pairs")  # pairs: lines `English sentence = Korean sentence`
SPLITS = {"valid": (0,), "test": (1,), "train": range(2, 10)}  # tenths of all stories, by a checksum of their text


@dataclass(frozen=True)
class Story:
    """Story `index` of a seed: its sentences, and all that happened in them."""

    seed: int
    index: int
    plot: str
    sentences: tuple[Sentence, ...]

    @cached_property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)

    def told_in(self, language: str) -> str:
        """The story in a language; as "pairs", one line for each sentence. Raises InputError for another language."""
        if language == "english":
            return self.text
        if language == "korean":
            return " ".join(line.text for line in korean.lines(self.sentences))
        if language == "pairs":
            return "\n".join(korean.pairs(self.sentences))
        raise InputError(f"unknown language {language!r}: choose one of {', '.join(LANGUAGES)}")

    @property
    def events(self) -> list[Event]:
        return [event for sentence in self.sentences for event in sentence.events]

    def world(self, n_sentences: int | None = None) -> World:
        """The state that a reader knows after the first `n_sentences` (all, if not given)."""
        world = World()
        for sentence in self.sentences[:n_sentences]:
            for event in sentence.events:
                world.apply(event)
        return world


def story(i: int, seed: int = 0, variety: int = VARIETY) -> Story:
    """Story `i` of a seed, a pure function of both (each 0 to 2**32 - 1).

    variety: 1 to 3. At 1 there are two children, one look of a thing, two ways to say the same, and the first 11 plots;
    at 2 four children, two looks, three ways; at 3 everything. What varies less is learned sooner. Raises InputError
    for numbers out of range.
    """
    if not 1 <= variety <= VARIETY:
        raise InputError(f"story variety {variety}: choose 1 to {VARIETY}")
    for name, value in (("index", i), ("seed", seed)):
        if not 0 <= value < 2**32:
            raise InputError(f"story {name} {value} is out of range: choose 0 to {2**32 - 1}")
    # Text is hashed whole. As numbers, (seed 0, story 3) and (seed 2, story 3) would give the same stream.
    is_whole = variety == VARIETY
    teller = Teller(f"{seed} {i}", None if is_whole else variety)
    plots = PLOTS if is_whole else FIRST_PLOTS
    least, most = MORE_WORDS if is_whole else WORDS
    while True:
        plot = teller.pick(plots)
        teller.clear()
        plot(teller)
        made = Story(seed, i, plot.__name__, tuple(teller.sentences))
        if least <= made.text.count(" ") + 1 <= most:
            return made


def split_of(text: str) -> str:
    """"train", "valid" or "test": the text alone decides, so two splits never share a story, whatever the seeds."""
    tenth = crc32(text.encode("utf-8")) % 10
    return next(name for name, tenths in SPLITS.items() if tenth in tenths)


def documents(
    n: int,
    seed: int = 0,
    split: str = "train",
    variety: int = VARIETY,
    languages: tuple[str, ...] = ("english",),
) -> list[str]:
    """The texts of the first `n` stories of a split; variety: see `story`. Raises InputError for another split.

    languages: the first story is told in the first of them, and so on in turn. A story has the same split in each.
    """
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    told = (story(i, seed, variety) for i in count())
    chosen = islice((one for one in told if split_of(one.text) == split), n)
    return [one.told_in(language) for one, language in zip(chosen, cycle(languages), strict=False)]


def corpus(n: int, seed: int = 0, split: str = "train", variety: int = VARIETY) -> str:
    """The first `n` stories of a split, each one paragraph, with an empty line between two; variety: see `story`."""
    return "\n\n".join(documents(n, seed, split, variety)) + "\n" * bool(n)
