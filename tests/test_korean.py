"""The stories in Korean: nothing is missing, both languages tell the same, particles are right, English stays."""

import functools
import hashlib
import re
import tomllib
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from helpers import each

from minigpt import data, tokenizer
from minigpt.cli import main
from minigpt.data import objectives, stories
from minigpt.data.stories import korean, seen
from minigpt.data.stories import words as w
from minigpt.data.stories.plots import PLOTS
from minigpt.data.stories.teller import PATTERNS, Told
from minigpt.data.stories.world import Event
from minigpt.errors import InputError

FOLDER = Path(stories.__file__).parent
README = Path(__file__).parent.parent / "data" / "README.md"
ENGLISH = {  # sha256 of what `stories:50` was before there was any Korean
    "train": "036cc0b0cef692ff4682dce336cba8ae2730f45825716d619b05ced433ebb360",
    "valid": "bfbf51468f8277d8cd31dff8efe3173fd637cc8a232797c9b085f4c4a7b86f3d",
}
ONLY_IN_TASKS = {"put", "move", "into", "lose", "luck", "loss", "state", "question"}  # kinds that no story tells
COUNTS = [300, pytest.param(4000, marks=pytest.mark.slow)]


@functools.cache
def told(n: int) -> list[stories.Story]:
    """The first stories, most of them of the whole world, some of the smaller ones."""
    small = [stories.story(i, variety=variety) for variety in (1, 2) for i in range(n // 6)]
    return small + [stories.story(i) for i in range(n - len(small))]


def lines(story: stories.Story):
    """(English sentence, Korean line) for each sentence of a story."""
    return zip(story.sentences, korean.lines(story.sentences), strict=True)


# --- nothing is missing ----------------------------------------------------------------------------------------------


def test_the_english_bytes_are_what_they_were():
    for part, digest in ENGLISH.items():
        text = "".join(data.load("stories:50").pieces(part))
        assert hashlib.sha256(text.encode("utf-8")).hexdigest() == digest


def test_every_english_pattern_has_a_korean_one():
    needed = {key: len(patterns) for key, patterns in PATTERNS.items() if key.split(".")[0] not in ONLY_IN_TASKS}
    assert {key: len(found) for key, found in korean.PATTERNS.items()} == needed


def test_what_has_no_korean_is_told_by_no_plot():
    source = "".join(Path(plots.__code__.co_filename).read_text(encoding="utf-8") for plots in set(PLOTS))
    assert not {kind for kind in ONLY_IN_TASKS if f't("{kind}"' in source or f'also("{kind}"' in source}


@each("key", korean.PATTERNS)
def test_a_korean_line_makes_the_choices_of_the_english_one(key):
    with (FOLDER / "patterns.toml").open("rb") as file:
        english = tomllib.load(file)[key].splitlines()
    for line, pattern in zip(english, korean.PATTERNS[key], strict=True):
        sizes = {number: found.count("|") for number, found in enumerate(re.findall(r"\[(.*?)\]", line), start=1)}
        used = {}
        for name, options in korean.CHOICE.findall(pattern):
            if name != "polite":
                number = int(name or len(used) + 1)
                used[number] = options.count("|")
        assert used == sizes, f"{pattern} does not make the choices of {line}"
        assert ('"' in line) == ('"' in pattern), "what is said aloud is said aloud in both"


def test_every_entity_has_a_korean_name_of_its_own():
    names = {}
    for entity in seen.entities():
        full = korean.phrase(entity)
        assert re.fullmatch("[가-힣 ]+", full), full
        names.setdefault(full, set()).add(entity.forms["the"])
    assert all(len(english) == 1 for english in names.values()), names
    assert len(names) > 300
    assert len(set(TABLE["hows"].values())) == len(TABLE["hows"])


def test_a_second_verb_can_follow():
    """Its first half ends in -ㅆ어요, then -ㅆ고, -가서 or -와서; its second half has a subject that can go."""
    joined = [(sentence, line) for story in told(300) for sentence, line in lines(story) if len(sentence.told) > 1]
    assert len(joined) > 30
    for sentence, line in joined:
        first, second = (korean.PATTERNS[told.place.key][told.place.line] for told in sentence.told)
        assert re.search("(고|가서|와서) ", line.text) and "어요. " not in line.text, line.text
        assert first.endswith(("어요", "]")) and re.search("{who:[은이]}", second), (first, second)
        assert line.text.count(korean.noun(sentence.events[1].who)) < 2, "the subject is said once"


# --- what every line keeps to ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", COUNTS)
def test_lines_are_well_formed(n):
    for story in told(n):
        text = story.told_in("korean")
        assert len(korean.lines(story.sentences)) == len(story.sentences)
        assert not re.search(r"[A-Za-z{}\[\]|=]|  | [.,!?]|^ | $|\" ?\"하고", text), text
        for line in korean.lines(story.sentences):
            assert line.text[-1] in '.!?"' and line.text.count('"') % 2 == 0, line.text
            assert re.search("[가-힣]", line.text)
        assert "=" not in story.text


def final(syllable: str) -> str:
    """The final consonant of a syllable, or "": the third letter into which Unicode takes it apart."""
    return unicodedata.normalize("NFD", syllable)[2:]


TABLE = tomllib.loads((FOLDER / "korean_words.toml").read_text(encoding="utf-8"))
GROUPS = ("people", "places", "spots", "things", "animals", "girl")
NOUNS = sorted({noun for group in GROUPS for noun in TABLE[group].values()}, key=len, reverse=True)
FORMS = {  # after a consonant: after a vowel
    "은": "는", "이": "가", "을": "를", "과": "와", "으로": "로", "아": "야", "이라는": "라는", "이라고": "라고",
    "이야": "야", "이니": "니", "이구나": "구나", "이었어요": "였어요", "이었고": "였고", "이었는지": "였는지",
}  # fmt: skip
BOTH = "|".join(sorted([*FORMS, *FORMS.values()], key=len, reverse=True))
NOUN_AND_FORM = re.compile(f"(?<![가-힣])({'|'.join(NOUNS)})({BOTH})(?![가-힣])")
OBJECT = re.compile("([가-힣]+)([을를])(?![가-힣])")
NO_PARTICLE = ("마을", "가을")  # words that end so


def wrong_particles(text: str) -> tuple[list[str], int]:
    """(what has a wrong particle, how many were judged): behind a noun of the table; and every 을 and 를."""
    wrong = []
    judged = 0
    for word, form in NOUN_AND_FORM.findall(text):
        end = final(word[-1])
        if form in ("으로", "로"):
            is_right = (form == "으로") == (end not in ("", "\u11af"))
        elif form == "야":  # the vocative after a vowel; no other form of it
            is_right = not end
        else:
            is_right = (form in FORMS) == bool(end)
        judged += 1
        wrong += [] if is_right else [word + form]
    for word, form in OBJECT.findall(text):
        if word + form in NO_PARTICLE:
            continue
        judged += 1
        wrong += [] if (form == "을") == bool(final(word[-1])) else [word + form]
    return wrong, judged


def test_the_checker_of_particles_notices_wrong_ones():
    for text in (
        "공를", "모자을", "숲로 갔어요", "학교으로", "달걀으로", "톰야!", "미아아,", "벤라는", "조이이라는", "연와",
        "파이과", "토끼은", "곰는", "사과이", "빵가", "케이크이었어요", "등불였어요.", "풀밭를",
    ):  # fmt: skip
        assert wrong_particles(text)[0], text
    right = "공을 모자를 숲으로 학교로 달걀로 톰아 미아야 벤이라는 조이라는 연과 파이와 토끼는 곰은 사과가 빵이 "
    right += "케이크였어요 등불이었어요 마을"
    assert wrong_particles(right) == ([], 17 + 2)  # 공을 and 모자를 are judged twice


@pytest.mark.parametrize("n", COUNTS)
def test_every_particle_has_the_form_that_the_last_sound_asks_for(n):
    total = 0
    for story in told(n):
        wrong, judged = wrong_particles(story.told_in("korean"))
        assert not wrong, (wrong, story.told_in("korean"))
        total += judged
    assert total > 20 * n


# --- both languages tell the same ------------------------------------------------------------------------------------

SEVERAL = {"river": "강", "whistle": "휘파람"}  # a second word for the same
IDIOMS = ("배가 고", "화가 나")  # hungry, angry: no pear, no painter
IRREGULAR = {"snowman": "snowm[ae]n"}
BEHIND = (
    f"(?:들)?(?:{BOTH}|에|에서|에게|에게서|에게도|에게는|에는|에서는|의|도|만|만큼|까지|까지는|보다도|처럼|밖에|뿐이었어요|까지만|로|으로)?"
)
MENTIONED = {  # English: Korean, of all that has a name and can stand in a sentence
    english: {noun, SEVERAL.get(english, noun)}
    for group in ("people", "places", "spots", "things", "animals")
    for english, noun in TABLE[group].items()
    if english != "home"
}
COLOURS = {
    "red": "빨간|빨개", "blue": "파란|파랬|파랗", "green": "초록색|푸른", "yellow": "노란", "white": "하얀|하얬|하얘",
    "black": "까만", "pink": "분홍색", "brown": "갈색", "grey": "회색", "silver": "은빛", "golden": "금빛",
}  # fmt: skip
NUMBERS = {
    "two|twice|both": "두 (?:조각|주|눈|마리|번|손)|둘(?!렀|러)|양손",
    "three": "세 (?:조각|마리)|셋|사흘",
    "ten": "열까지|열 번",
    "a hundred": "백까지|백 개",
}


@functools.cache
def english_patterns() -> list[tuple[str, re.Pattern, str]]:
    """(what its small letters hold, how it is found, name) of all that an English text can mention, longest first."""
    found = []
    for name in sorted(MENTIONED, key=len, reverse=True):
        preposition, _, rest = name.partition(" ")
        phrase = f"{preposition} the {rest}" if name in TABLE["spots"] else IRREGULAR.get(name, name)
        letters = phrase.lower().partition("[")[0]
        found.append((letters, re.compile(rf"(?i)\b{phrase}(?:s|es|d)?\b"), name))
    return found


def english_names(text: str) -> set[str]:
    """Who and what of the table an English text mentions."""
    return names_in(text, english_patterns())


def names_in(text: str, patterns: list[tuple[str, re.Pattern, str]]) -> set[str]:
    """The names whose patterns are found, each in what those before it have left."""
    found, small = set(), text.lower()
    for letters, pattern, name in patterns:
        if letters in small:  # which is quickly seen
            text, times = pattern.subn("#", text)
            found |= {name} if times else set()
    return found


def korean_names(text: str) -> set[str]:
    """The same of a Korean one."""
    for idiom in IDIOMS:
        text = text.replace(idiom, "#")
    return names_in(text, korean_patterns())


@functools.cache
def korean_patterns() -> list[tuple[str, re.Pattern, str]]:
    """The same of a Korean text, with English names."""
    found = []
    both = [(noun, name) for name, nouns in MENTIONED.items() for noun in nouns]
    for noun, name in sorted(both, key=lambda two: -len(two[0])):
        behind = BEHIND.removesuffix("?") if noun == "새" else BEHIND  # alone it is "new"
        called = "(?!아(?![가-힣]))" if noun == "돌" else ""  # 돌아: turning, not a stone that is called
        found.append((noun, re.compile(f"(?<![가-힣]){noun}{called}{behind}(?![가-힣])"), name))
    return found


@pytest.mark.parametrize("n", COUNTS)
def test_both_languages_mention_the_same_people_things_and_colours(n):
    alone = total = 0
    for story in told(n):
        for sentence, line in lines(story):
            both = (sentence.text, line.text)
            english, other = english_names(sentence.text), korean_names(line.text)
            players = {player for event in sentence.events for player in event if isinstance(player, w.Entity)}
            may_stand = {f"{one.preposition} {one.name}".strip() for one in players} | {one.name for one in players}
            assert english <= other, both
            assert other == english if line.stands_alone else other - english <= may_stand, both
            for colour, stems in COLOURS.items():
                assert bool(re.search(rf"\b{colour}\b", sentence.text)) == bool(re.search(stems, line.text)), both
            for how in {event.how for event in sentence.events} & set(TABLE["hows"]):
                assert (how in sentence.text) == (TABLE["hows"][how] in line.text), both
            alone += line.stands_alone
            total += 1
    assert 0.9 * total < alone < total


@pytest.mark.parametrize("n", COUNTS)
def test_both_languages_have_the_same_numbers(n):
    total = 0
    for story in told(n):
        for sentence, line in lines(story):
            is_plural = re.search(r"\b([Tt]hey|[Tt]heir|them)\b", sentence.text)  # 둘, the two of them
            for english, other in NUMBERS.items():
                in_english = bool(re.search(rf"(?i)\b({english})\b", sentence.text))
                in_korean = bool(re.search(f"(?<![가-힣])(?:{other})", line.text))
                assert in_english == in_korean or (in_korean and is_plural), (sentence.text, line.text)
                total += in_english
    assert total > n / 10


# --- how it is told --------------------------------------------------------------------------------------------------


def one(kind: str, line: int, names: dict, *chosen: int, **roles) -> Told:
    """How an event is told."""
    how = roles.pop("how", "")
    key = f"{kind}.{how}" if f"{kind}.{how}" in PATTERNS else kind
    form = next(form for form in PATTERNS[key][line] if form.place.chosen == chosen)
    return Told(Event(kind, how=how, **roles), form.place, names)


def said(*tellings: Told) -> list[str]:
    return [line.text for line in korean.lines([stories.Sentence("", (), (), (telling,)) for telling in tellings])]


MIA, TOM, BALL = w.GIRLS[0], w.BOYS[0], w.TOYS["ball"][0]


def test_names_and_pronouns():
    take = {"who": MIA, "what": BALL}
    assert said(
        one("take", 2, {"who": "the", "what": "a"}, **take),  # Mia picked a red ball up.
        one("take", 2, {"what": "short"}, **take),  # She picked the ball up.
        one("take", 2, {"who": "the"}, **take),  # Mia picked it up.
        one("friend", 0, {"who": "the"}, 0, 2, who=TOM, to=MIA),  # She met her friend Tom there.
        one("take", 2, {}, who=TOM, what=BALL),  # He picked it up.
    ) == [
        "미아는 빨간 공을 집어 들었어요.",
        "공을 집어 들었어요.",
        "미아는 그것을 집어 들었어요.",
        "거기서 친구 톰을 만났어요.",
        "톰은 그것을 집어 들었어요.",  # not the subject of the last sentence: the name again
    ]


def test_a_subject_stays_where_another_could_be_meant():
    take = one("take", 2, {"who": "the", "what": "the"}, who=MIA, what=BALL)
    meets = one("meets", 5, {"who": "the"}, who=w.MOTHER, to=MIA, where=w.PLACES["park"])
    assert said(take, meets)[1] == '미아가 지나가자 엄마는 "좋은 아침이야!" 하고 말했어요.'
    shore = one("shore", 1, {}, who=MIA, what=w.RAFT, to=TOM, how="wet")
    assert said(take, shore)[1] == '둘은 헤엄쳐야 했어요. "다음에는 다리를 만들어." 하고 미아가 말했어요.'


def test_only_what_the_english_names_stands_alone():
    named = korean.lines([stories.Sentence("", (), (), (one("take", 2, {"who": "the"}, who=TOM, what=BALL),))])
    means = korean.lines([stories.Sentence("", (), (), (one("take", 2, {"what": "the"}, who=TOM, what=BALL),))])
    assert named[0].stands_alone and not means[0].stands_alone
    assert means[0].text == "톰은 빨간 공을 집어 들었어요."


def test_a_child_speaks_politely_to_a_grown_up():
    names = {"who": "the", "what": "the", "to": "the"}
    (text,) = said(one("give", 4, names, who=MIA, what=BALL, to=w.MOTHER))
    assert text == '"빨간 공을 받으세요." 하고 미아가 엄마에게 말했어요.'
    for who, to in ((MIA, TOM), (w.MOTHER, MIA), (MIA, w.ANIMALS["dog"][0])):
        (text,) = said(one("give", 4, names, who=who, what=BALL, to=to))
        assert text.startswith('"빨간 공을 받아."')


# --- data and commands -----------------------------------------------------------------------------------------------


def whole(source: str, part: str, separator: str = "\n\n") -> str:
    return "".join(data.load(source).pieces(part, separator))


@pytest.mark.parametrize("part", ["train", "valid"])
def test_the_sources_hold_the_same_stories(part):
    n = 40 if part == "train" else 4
    english, other = (whole(f"{kind}:40", part).strip().split("\n\n") for kind in ("stories", "korean"))
    assert len(english) == len(other) == n and all(re.search("[가-힣]", text) for text in other)
    assert whole("both:40", part).strip().split("\n\n") == [(english, other)[i % 2][i] for i in range(n)]
    pairs = whole("pairs:40", part)
    assert pairs == whole("pairs:40", part, "<|endoftext|>") and pairs.endswith("\n")
    for line in pairs.splitlines():
        sentence, translation = line.split(" = ")
        assert sentence in " ".join(english) and translation in " ".join(other), line
    assert len(pairs.splitlines()) > 8 * n


def test_variety_and_defaults():
    assert len(set(whole("korean:200:1", "train"))) < len(set(whole("korean:200", "train")))
    for kind in ("korean", "both", "pairs"):
        assert data.name_of(f"{kind}:20") == data.load(f"{kind}:20").name == kind
        assert data.load(f"{kind}:20").tokenizer.startswith("bpe:")


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "char"])
def test_pairs_are_what_the_objectives_of_translation_read(kind):
    text = whole("pairs:20", "train")
    learner = tokenizer.KINDS[kind]
    words = learner.train([text]) if kind == "char" else learner.train([text], 900)
    separator, line_end = words.encode(" =")[-1], words.encode("I\nI")[-2]
    ids = np.array(words.encode(text))
    n_lines = len(text.splitlines())
    assert (ids == separator).sum() == n_lines and n_lines - (ids == line_end).sum() in (0, 1)  # gpt1 drops the last
    ends = np.flatnonzero(ids == line_end)
    rows = np.stack([ids[end + 1 : end + 400] for end in ends[:20]])
    objective = objectives.translated(separator, line_end, start_id=line_end, end_id=line_end, pad_id=separator)
    batch = objective(rows, np.random.default_rng(0))
    assert (batch.targets >= 0).any(axis=1).all(), "a pair is found in every window"
    shown = words.decode([int(i) for i in batch.source[0][batch.source_mask[0]]])
    assert re.search("[A-Za-z]", shown) and not re.search("[가-힣]", shown), shown


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("pairs:0", "--data pairs:0: give pairs: and a number"), ("korean:x", "such as korean:10000"),
        ("both:5", "10 to 9,999,999"), ("korean:20:9", "variety 9: choose 1 to 3"), ("pairs:20:1:1", "give pairs:"),
    ],
)  # fmt: skip
def test_bad_sources(source, words):
    with pytest.raises(InputError, match=words) as caught:
        data.load(source)
    assert "\n" not in str(caught.value)


def test_an_unknown_language():
    with pytest.raises(InputError, match="unknown language 'latin': choose one of english, korean, pairs"):
        stories.story(0).told_in("latin")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--language", "latin"], "choose english, korean, pairs"),
        (["--language", "pairs", "--events"], "--events with --language pairs"),
        (["--language", "korean", "--task", "sentiment"], "--task with --language korean"),
        (["--language", "korean", "--judge", "story.txt"], "--judge with --language korean"),
    ],
)
def test_what_the_command_refuses(given, words, capsys):
    assert main(["stories", *given]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_the_command_prints_both_languages(capsys):
    for language in ("korean", "pairs"):
        assert main(["stories", "--n", "2", "--first", "7", "--language", language]) == 0
        expected = [stories.story(i).told_in(language) for i in (7, 8)]
        assert capsys.readouterr().out.split("\n\n")[:-1] == expected
    assert main(["stories", "--n", "1", "--first", "7", "--language", "korean", "--events"]) == 0
    out, story = capsys.readouterr().out, stories.story(7)
    assert [line for line in out.split("\n") if line and not line.startswith(" ")] == [
        line.text for line in korean.lines(story.sentences)
    ]
    assert all(str(event) in out for event in story.events)


def test_the_data_sheet_shows_the_first_five_stories():
    sheet = README.read_text(encoding="utf-8")
    for i in range(5):
        for sentence, line in lines(stories.story(i)):
            assert f"| {sentence.text} | {line.text} |" in sheet
