"""The story world: deterministic, grammatical enough to be checked, never contradicting itself, never in two splits."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from minigpt.cli import main
from minigpt.data import stories
from minigpt.data.stories import words
from minigpt.data.stories.plots import PLOTS
from minigpt.data.stories.teller import PATTERNS
from minigpt.errors import InputError

N = 1500
DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def told() -> list[stories.Story]:
    return [stories.story(i) for i in range(N)]


def tokens(text: str) -> list[str]:
    return re.findall(r"[A-Za-z]+|[^\sA-Za-z]", text)


def test_a_story_is_a_function_of_seed_and_index(told):
    assert [stories.story(i).text for i in range(20)] == [story.text for story in told[:20]]
    assert len({stories.story(3, seed).text for seed in range(10)}) == 10


def test_the_sample_and_its_checksum_are_what_the_generator_makes():
    sample = (DATA / "stories_sample.txt").read_bytes()
    assert sample.decode("utf-8") == stories.corpus(100)
    assert hashlib.sha256(sample).hexdigest() in (DATA / "README.md").read_text(encoding="utf-8")


def test_there_are_at_least_300_words_and_all_plots_are_told(told):
    vocabulary = {word.lower() for story in told for word in tokens(story.text) if word.isalpha()}
    assert len(vocabulary) >= 300
    assert {story.plot for story in told} == {plot.__name__ for plot in PLOTS}


def test_stories_have_their_length_and_a_shape(told):
    for story in told:
        assert 60 <= len(story.text.split()) <= 180
        assert story.sentences[0].events[0].kind == "meet", "somebody is introduced first"
        assert len(story.events) >= 6
        assert story.text[0].isupper() and story.text[-1] in '.!"'


def test_sentences_are_well_formed(told):
    for story in told:
        assert "  " not in story.text and "{" not in story.text and "[" not in story.text
        assert story.text.count('"') % 2 == 0
        assert not re.search(r"\ba [aeiou]\w*|\ban (?!hour)[^aeiou\s]\w*", story.text), story.text
        assert not re.search(r" [.,!?]|[.!?][A-Z]|[.!?] [a-z]", story.text), story.text


def test_most_events_can_be_said_in_several_ways():
    ways = {kind: sum(len(forms) for forms in patterns) for kind, patterns in PATTERNS.items()}
    assert sum(n >= 2 for n in ways.values()) / len(ways) > 0.8


def test_the_world_allows_every_event_in_its_place(told):
    """Reading a story again applies the rule of each event, which refuses what cannot be."""
    for story in told:
        world = story.world()
        hero = story.events[0].who
        assert hero in world.trait or hero in world.at
    with pytest.raises(stories.Contradiction):
        given = next(e for story in told for e in story.events if e.kind == "give")
        stories.World().apply(given)  # nobody has it yet


def test_an_event_out_of_its_place_is_refused(told):
    refused = total = 0
    for story in told[:300]:
        for i, event in enumerate(story.events):
            if event.kind in ("give", "take", "find", "open", "eat"):
                world = stories.World()
                total += 1
                try:
                    for other in [event, *story.events[:i]]:
                        world.apply(other)
                except stories.Contradiction:
                    refused += 1
    assert total > 100 and refused / total > 0.9


def test_names_and_pronouns_mean_who_they_should(told):
    for story in told:
        for sentence in story.sentences:
            for offset, word, entity in sentence.pronouns:
                assert sentence.text[offset:].lower().startswith(word.lower())
                assert word.lower() in words.PRONOUNS[entity.gender].values()
        names = {word for word in tokens(story.text) if word in {child.name for child in words.CHILDREN}}
        hero = next(e.who for e in story.events if e.kind == "meet")
        assert names <= {hero.name, words.FRIENDS[hero].name}, "only a child and its best friend have names"


def test_what_varies_less_has_fewer_names_looks_and_sentences():
    openings, looks = [], []
    for variety in (1, 2, 3):
        texts = stories.documents(300, variety=variety)
        names = {child.name for child in words.CHILDREN if child.name in tokens(" ".join(texts))}
        assert len(names) == (2 * variety if variety < 3 else len(words.CHILDREN))
        looks.append(len(set(re.findall(r"(\w+) kite", " ".join(texts))) & set(words.COLOURS)))
        openings.append(len({re.sub("|".join(names), "N", " ".join(text.split()[:3])) for text in texts}))
    assert looks[:2] == [1, 2] and looks[2] > 3
    assert openings[0] == 2 < openings[1] == 3 < openings[2]
    with pytest.raises(InputError, match="choose 1 to 3"):
        stories.story(0, variety=4)


def test_friendship_goes_both_ways():
    assert all(words.FRIENDS[words.FRIENDS[child]] is child is not words.FRIENDS[child] for child in words.CHILDREN)


def test_no_story_is_in_two_splits():
    splits = {name: stories.documents(n, split=name) for name, n in (("train", 1500), ("valid", 300), ("test", 300))}
    assert all(stories.split_of(text) == name for name, texts in splits.items() for text in texts[:200])
    sets = [set(texts) for texts in splits.values()]
    assert not (sets[0] & sets[1] or sets[0] & sets[2] or sets[1] & sets[2])


def test_stories_differ(told):
    assert len({story.text for story in told}) > 0.99 * N
    starts = Counter(" ".join(story.text.split()[:8]) for story in told)
    assert starts.most_common(1)[0][1] < 0.05 * N


def test_a_corpus_is_paragraphs():
    corpus = stories.corpus(5)
    assert corpus.split("\n\n") == [*stories.documents(5)[:-1], stories.documents(5)[-1] + "\n"]


def test_bad_arguments():
    for call, name in (
        (lambda: stories.story(-1), "index -1"), (lambda: stories.story(0, seed=2**32), "seed"),
        (lambda: stories.documents(3, split="dev"), "unknown split 'dev'"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=name):
            call()


def test_the_command_prints_stories(capsys):
    assert main(["stories", "--n", "2", "--first", "7", "--variety", "1"]) == 0
    assert capsys.readouterr().out.split("\n\n")[:-1] == [stories.story(i, variety=1).text for i in (7, 8)]
    assert main(["stories", "--n", "1", "--first", "7", "--events"]) == 0
    told, out = stories.story(7), capsys.readouterr().out
    assert [line for line in out.split("\n") if line and not line.startswith(" ")] == [s.text for s in told.sentences]
    assert all(str(event) in out for event in told.events)
