"""The Korean hints and answers: complete, in one style, with the code and numbers of the English; else the English."""

import re
import tomllib
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from helpers import each

from minigpt.learn.classroom import course

FILE = Path(__file__).parent.parent / "lessons" / "exercises" / "hints.toml"
TABLE = tomllib.loads(FILE.read_text(encoding="utf-8"))
KOREAN = {
    key: {name.removesuffix("_ko"): text for name, text in entry.items() if name.endswith("_ko")}
    for key, entry in TABLE.items()
}
ENGLISH = {key: {name: text for name, text in TABLE[key].items() if not name.endswith("_ko")} for key in TABLE}
COLUMNS = 120  # of a terminal, in which a syllable of Hangul takes two

NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?|(?<=[A-Za-z_])\d+")
LATIN = re.compile(r"[A-Za-zα-ω_][A-Za-zα-ω_0-9]*")
CODE = re.compile(
    r"`[^`]*`|[A-Za-z_]\w*(?:\.\w+)*[\[(](?=\S)|[A-Za-z]\w*_\w*|(?<!\w)[.][A-Za-z]\w+|\w+\.[A-Za-z]\w+", re.ASCII
)
OPERATORS = re.compile(r"!=|\|=|[=+*@^<>²³√ᵀ×…#]|(?<=[\w)\]²³ᵀ}]) [-/|] (?=[\w(\[{])|//")
SIDES = re.compile(r"([A-Za-z_]\w*) ?[=+*/@^<>] ?|[=+*/@^<>] ?([A-Za-z_]\w*)", re.ASCII)
TERM = re.compile(r"([^\s가-힣]+)[가-힣]* ([-=+*/@<>]|==|!=|//|\*\*) (?=([^\s가-힣]+))")
PROSE = set(  # English words beside an operator
    "sum Sum more compute distances sorts integral infinity differences the so bytes one-hot new wins tokens "
    "-infinity exp(-infinity P(majority".split()
)
IN_WORDS = {"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "ten": "10"}


def texts(entry: dict) -> list[str]:
    """The hints of an exercise, and its answer where it has one."""
    return [*entry["hints"], *([entry["answer"]] if "answer" in entry else [])]


def terms(text: str) -> Counter:
    """What stands left and right of each operator with spaces around it: ("a", "@", "b.T"). Not where it is a word."""
    found = [[part.strip("().,;:`?!") for part in term] for term in TERM.findall(text)]
    return Counter(tuple(term) for term in found if not PROSE & {*term})


def differences(english: str, other: str) -> dict:
    """What one of the texts has and the other has not, of numbers, code, operators and what stands beside them.

    A number that is a word in English may be one in figures: zeros, 0.
    """
    english, other = (" ".join(text.split()) for text in (english, other))
    found = {}
    for name, pattern in (("numbers", NUMBER), ("code", CODE), ("operators", OPERATORS)):
        wanted, given = Counter(pattern.findall(english)), Counter(pattern.findall(other))
        words = {figure for word, figure in IN_WORDS.items() if re.search(rf"(?i)\b{word}e?s?\b", english)}
        more = [text for text in given - wanted if text not in words]
        if more or wanted - given:
            found[name] = (list((wanted - given).elements()), more)
    lost = terms(english) - terms(other)
    if lost:
        found["terms"] = list(lost)
    names = {a or b for a, b in SIDES.findall(english)} - PROSE
    if not names <= set(LATIN.findall(other)):
        found["names"] = names - set(LATIN.findall(other))
    return found


PAIRS = {
    f"{key}-{i}": (english, other)
    for key in ENGLISH
    for i, (english, other) in enumerate(zip(texts(ENGLISH[key]), texts(KOREAN.get(key, ENGLISH[key])), strict=False))
}
ANSWERS = {entry["answer"] for entry in ENGLISH.values() if "answer" in entry}


def table(text: str) -> list[str]:
    """The rows of the tables inside an answer."""
    return [line for line in text.splitlines() if line.startswith("   ")]


def test_every_text_has_a_korean_one():
    for key, english in ENGLISH.items():
        assert set(KOREAN[key]) == set(english), key
        assert len(KOREAN[key]["hints"]) == len(english["hints"]), key


@each("text", PAIRS)
def test_both_languages_have_the_same_numbers_and_the_same_code(text):
    english, other = PAIRS[text]
    assert re.search("[가-힣]", other)
    assert not differences(english, other), other
    known = LATIN.findall(english)
    assert set(LATIN.findall(other)) <= {*known, *(word.removesuffix("s") for word in known)}, "not in the English"
    assert len(table(other)) == len(table(english))
    for row, own in zip(table(english), table(other), strict=True):
        assert row == own or re.search("[가-힣]", own) and NUMBER.findall(row) == NUMBER.findall(own)


# --- how it is written -----------------------------------------------------------------------------------------------


@each("text", PAIRS)
def test_one_style_and_lines_that_fit(text):
    english, other = PAIRS[text]
    assert not re.search("[어아해세에네]요[.?! ]", other), "해요체"
    assert not re.search("[가-힣]$|,,|[。，]| [,?]", other.strip())
    for sentence in re.findall(r"[가-힣]+(?=[.?!](?:\s|$))", other):
        assert sentence[-1] in "다까오", sentence
    if english in ANSWERS:
        for line in other.splitlines():
            assert sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line) <= COLUMNS, line


PARTICLES = {"은": "는", "을": "를", "과": "와", "이": "가", "으로": "로"}
NO_PARTICLE = (  # words that end so
    "결과 효과 초과 통과 사과 증가 평가 인가 차이 사이 길이 높이 깊이 너비 아이 많이 같이 거의 가까이 따로 서로 바로 "
    "그대로 하나하나 먼저 추가 이유가 의미가 높이가 별로 실제로 스스로 나이 지나 이 가 로 와 과 은 을"
).split()
AFTER_LETTER = set("lmnrLMNR")  # names of letters that end with a consonant: 엘 엠 엔 알
AFTER_DIGIT = set("013678")  # 영 일 삼 육 칠 팔; and 십, 백, 천, 만


def sound(end: str) -> str:
    """What a word ends with: "" for a vowel, "ㄹ" for that consonant, "C" for another one."""
    if "가" <= end <= "힣":
        final = unicodedata.normalize("NFD", end)[2:]
        return "" if not final else "ㄹ" if final == "\u11af" else "C"
    if end.isdigit():
        return ("ㄹ" if end in "178" else "C") if end in AFTER_DIGIT else ""
    return ("ㄹ" if end in "lrLR" else "C") if end in AFTER_LETTER else ""


def wrong_particles(text: str) -> list[str]:
    """Words whose particle does not fit their last sound: behind Hangul, behind a number, a letter, dx or w1, and %."""
    wrong = []
    found = re.findall(r"(?<![가-힣])([가-힣]+?)(으로|은|을|를|이|가|와|과|로)(?![가-힣])", text)
    found = [(word, form) for word, form in found if word + form not in NO_PARTICLE]
    short = r"(?<![A-Za-z_.^])(d?[A-Za-z]\d?|\d[\d,.]*|d?[a-z]_?\d)(은|는|을|를|이|가|와|과|으로|로)(?![가-힣])"
    for word, form in [*found, *re.findall(short, text)]:
        end = sound(word[-1])
        is_hangul = "가" <= word[-1] <= "힣"
        after_consonant = form in PARTICLES
        if form in ("으로", "로"):
            right = (form == "으로") == (end == "C")
        elif form == "은" and is_hangul:
            right = bool(end)
        else:
            right = after_consonant == bool(end)
        wrong += [] if right else [word + form]
    return wrong + re.findall(r"%(?:은|을|이|과|으로)(?![가-힣])", text)


def test_the_checker_of_particles_notices_wrong_ones():
    for text in (
        "기울기을", "손실를", "행와", "열가", "마스크은", "층로", "기울기으로",
        "1는", "2을", "dn를", "dx은", "5 %을", "w1를",
    ):  # fmt: skip
        assert wrong_particles(text), text
    assert not wrong_particles(
        "기울기를 손실을 행과 열이 마스크는 층으로 글로 1은 2를 dn을 dx는 5 %를 w1을 결과 차이 1로 3으로 n으로"
    )


@each("text", PAIRS)
def test_every_particle_fits_the_sound_before_it(text):
    _, other = PAIRS[text]
    assert not wrong_particles(other), other


# --- what a reader gets ----------------------------------------------------------------------------------------------

ALL = [exercise for lesson in course.lessons().values() for exercise in lesson.exercises if not exercise.operations]


@pytest.mark.parametrize(
    ("variable", "table"), [("ko", KOREAN), ("ko_KR.UTF-8", KOREAN), ("en", ENGLISH), ("fr", ENGLISH)]
)
def test_hints_and_answers_are_in_the_language_of_the_reader(variable, table, monkeypatch):
    monkeypatch.setenv("MINIGPT_LANG", variable)
    assert {exercise.key for exercise in ALL} == set(table)
    for exercise in ALL:
        assert course.hints_of(exercise) == table[exercise.key]["hints"]
        assert course.answer_of(exercise) == table[exercise.key].get("answer", "").strip()


def test_what_korean_lacks_is_english(monkeypatch):
    monkeypatch.setenv("MINIGPT_LANG", "ko")
    some = {"00.3": {"hints_ko": ["힌트"]}, "03.3": {"answer_ko": "답"}}
    table = {key: english | some.get(key, {}) for key, english in ENGLISH.items()}
    monkeypatch.setattr(course, "_hint_table", lambda: table)
    first, second, third = map(course.exercise_of, ("00.3", "03.3", "06_rmsnorm"))
    assert course.hints_of(first) == ["힌트"] and course.answer_of(first) == ENGLISH["00.3"]["answer"].strip()
    assert course.hints_of(second) == ENGLISH["03.3"]["hints"] and course.answer_of(second) == "답"
    assert course.hints_of(third) == ENGLISH["06_rmsnorm"]["hints"]
