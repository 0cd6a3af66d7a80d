"""The strict reader: it finds no fault in what the story world tells, and finds those that are planted."""

import random
import re

import pytest

from minigpt.cli.main import main
from minigpt.data import stories
from minigpt.data.stories import reader, words

TOLD = (
    "Mia was a kind little girl. She had a red ball and took it everywhere. One warm morning, Mia went to the park. "
    "There she met her good friend Tom."
)


def texts(n: int, first: int = 50_000) -> list[str]:
    return [stories.story(i).text for i in range(first, first + n)]


@pytest.mark.parametrize("n", [20, pytest.param(250, marks=pytest.mark.slow)])
def test_what_the_world_tells_has_no_fault(n):
    wrong = {text: found for text in texts(n) if (found := reader.faults(text))}
    assert not wrong


def test_stories_of_smaller_worlds_differ_in_capitals_only():
    for variety in (1, 2):
        for i in range(12):
            faults = reader.faults(stories.story(i, variety=variety).text)
            assert all('"' in fault or "is in a tree" in fault for fault in faults), faults


@pytest.mark.parametrize("sentence, fault", [
    ("Tom threw the moon.", "no sentence of this world: Tom threw the moon."),
    ("Then Mia go home.", "no sentence of this world: Then Mia go home."),
    ("Tom gave the red ball to Mia.", "Tom gave the red ball to Mia. not so: has Tom the red ball"),
    ("Mia put the red ball under the bed.", "Mia put the red ball under the bed. not so: at Mia the bed"),
    ("Mia was a brave girl.", "Mia was a brave girl. not so: new trait Mia"),
    ("Mia put the ball under the bench.", "it is not clear who or what is meant: Mia put the ball under the bench."),
    ("Mia left the kite on the bench when it was time to go.", "it is not clear who or what is meant: Mia left the"),
    ("Then Mia gave the ball to Mia.", "it is not clear who or what is meant: Then Mia gave the ball to Mia."),
    ("Ben went home.", "it is not clear who or what is meant: Ben went home."),
    ("then Mia went home.", "a capital letter is missing"),
    ("Then Mia went", "it stops in the middle of a sentence: Then Mia went"),
])  # fmt: skip
def test_a_planted_fault_is_named(sentence, fault):
    found = reader.faults(f"{TOLD} {sentence}")
    assert any(fault in one for one in found), found


def test_what_fits_is_no_fault():
    found = reader.faults(f"{TOLD} Then Mia went home.")
    assert found in ([], ["the story has no end"])
    assert reader.faults("") == ["the story is empty"]
    assert reader.faults("Then Mia went home.")[0].endswith(": Then Mia went home.")  # no story begins so


# --- edits at random: how many are noticed ----------------------------------------------------------------------------


def cut_off(text, chance):
    return text[: int(len(text) * chance.uniform(0.3, 0.9))].rsplit(" ", 1)[0]


def two_words_exchanged(text, chance):
    parts = text.split(" ")
    i = chance.randrange(1, len(parts) - 2)
    parts[i], parts[i + 1] = parts[i + 1], parts[i]
    return " ".join(parts)


def replaced(text, chance, pattern, others):
    found = chance.choice(list(re.finditer(pattern, text)))
    other = chance.choice([one for one in others if one.lower() != found.group().lower()])
    return text[: found.start()] + other + text[found.end() :]


def another_name(text, chance):
    names = [one.name for one in words.CHILDREN]
    return replaced(text, chance, rf"\b({'|'.join(names)})\b", names)


def another_pronoun(text, chance):
    return replaced(text, chance, r"\b(he|she)\b", ("he", "she")) if re.search(r"\b(he|she)\b", text) else ""


def another_thing(text, chance):
    nouns = [*words.TOYS, *words.PLACES, *words.FOODS]
    pattern = rf"\b({'|'.join(nouns)})\b"
    return replaced(text, chance, pattern, nouns) if re.search(pattern, text) else ""


def sentence_left_out(text, chance):
    parts = re.split(r'(?<=[.!?]) (?=[A-Z"])', text)
    del parts[chance.randrange(1, len(parts) - 1)]
    return " ".join(parts)


@pytest.mark.parametrize("edit, share", [  # what is not noticed is another possible story, as far as we have looked
    (cut_off, 0.99), (another_name, 0.85), (sentence_left_out, 0.55),
    *(pytest.param(*more, marks=pytest.mark.slow)
      for more in ((two_words_exchanged, 0.97), (another_pronoun, 0.8), (another_thing, 0.85))),
])  # fmt: skip
def test_random_edits_are_noticed(edit, share):
    chance = random.Random(1)
    edited = [(text, edit(text, chance)) for text in texts(20, 70_000)]
    changed = [new for old, new in edited if new and new != old]
    assert len(changed) > 15
    noticed = sum(bool(reader.faults(new)) for new in changed)
    assert noticed >= share * len(changed), f"{noticed} of {len(changed)}"


def test_the_command_names_faults_and_counts(tmp_path, capsys):
    file = tmp_path / "told.txt"
    good, other = texts(2)
    file.write_text(f"{good}\n\n{other} Tom threw the moon.\n", encoding="utf-8")
    assert main(["stories", "--judge", str(file)]) == 0
    out = capsys.readouterr().out
    assert "story 2: no sentence of this world: Tom threw the moon." in out and "1 of 2 stories have no fault" in out
    file.write_text("\n <|endoftext|> \n", encoding="utf-8")
    assert main(["stories", "--judge", str(file)]) == 2
    assert "has no story" in capsys.readouterr().err
