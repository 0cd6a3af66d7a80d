"""The words of the explorer's page: every one that its view asks for is there in both languages, and no other."""

import re
from pathlib import Path

from helpers import small_gpt1, small_gpt2

import minigpt
from minigpt.explorer import page
from minigpt.explorer.job import PANELS
from minigpt.explorer.walk import names_of_stream
from minigpt.files.disk import read_text, read_toml

EXPLORER = Path(minigpt.__file__).parent / "explorer"
VIEW = EXPLORER / "js" / "view"
WORD = re.compile(r'\bword\(\s*"([\w.]+)"')
FAMILY = re.compile(r"\bword\(\s*`([a-z]+\.[a-z_]*)\$\{")  # word(`check.${verdict}`): all words that begin like this
BLANK = re.compile(r"\{(\w+)\}")


def scripts() -> str:
    return "\n".join(read_text(path) for path in sorted(VIEW.glob("*.js")))


def keys_of_the_template() -> set[str]:
    """The words that elements of the page name: those of the template, and those of every panel."""
    panels = re.search(r"const PANELS = \{\n(.*?)\n\};", scripts(), re.DOTALL).group(1)
    names = re.findall(r"^  (\w+):", panels, re.MULTILINE)
    assert tuple(names) == PANELS
    of_panels = {f"{name}.{word}" for name in names for word in ("title", "seen", "try")}
    assert len(of_panels) == 21
    return of_panels | set(re.findall(r'data-(?:word|label)="([\w.]+)"', read_text(VIEW / "page.html")))


def keys_of_the_walk() -> set[str]:
    """The words that the steps of a model and the rows of their picture are called by."""
    keys = set()
    for model in (small_gpt1(), small_gpt2()):
        named = names_of_stream(model)
        rows = named["stream"] + [row for step in named["walk"] for row in step["rows"]]
        keys |= {row["label"] for row in rows} - {"ln_f"}
        for step in named["walk"]:
            keys |= {f"step.{step['key']}", f"step.name_{step['name']}"}
    assert len(keys) == 21
    return keys


def test_every_word_that_the_page_asks_for_is_in_both_languages():
    words = read_toml(EXPLORER / "words.toml")
    asked = keys_of_the_template() | keys_of_the_walk() | set(WORD.findall(scripts()))
    assert len(asked) > 60
    for language in ("en", "ko"):
        missing = asked - set(words[language])
        assert not missing, f"[{language}] of words.toml lacks {sorted(missing)}"


def test_no_word_is_left_over():
    words = read_toml(EXPLORER / "words.toml")
    script = scripts()
    families = tuple(set(FAMILY.findall(script)))
    strings = set(re.findall(r'"([\w.]+)"', script)) | keys_of_the_template() | keys_of_the_walk()
    asked = {key for key in words["en"] if key in strings or key.startswith(families)}
    of_kinds = {f"{kind}.{key}" for key in asked for kind in ("recorded", "encoder", "decoder", "body")}
    assert set(words["en"]) - asked - of_kinds == set()


def test_both_languages_fill_in_the_same_blanks():
    words = read_toml(EXPLORER / "words.toml")
    assert list(words["en"]) == list(words["ko"])
    for key, sentence in words["en"].items():
        korean = words["ko"][key]
        assert korean.strip() and set(BLANK.findall(sentence)) == set(BLANK.findall(korean)), key


def test_a_page_shows_the_words_of_its_kind_and_the_first_kind_wins():
    plain, recorded, decoder = (page.words_of(kinds)["en"] for kinds in ([], ["recorded"], ["decoder", "recorded"]))
    keys = ("lead", "backward.seen", "lens.bars")
    assert plain["backward.seen"] not in (recorded["backward.seen"], decoder["backward.seen"])
    assert [recorded[key] for key in keys] == [plain["recorded.lead"], plain["recorded.backward.seen"], plain[keys[2]]]
    assert [decoder[key] for key in keys] == [plain["recorded.lead"], plain["decoder.backward.seen"], plain[keys[2]]]
    assert page.words_of(["body", "encoder", "recorded"])["ko"]["lead"] == page.words_of([])["ko"]["body.lead"]


def test_files_of_the_explorer_are_short():
    for path in sorted((EXPLORER / "js").rglob("*.js")):
        lines = read_text(path).splitlines()
        assert len(lines) <= 250, f"{path.name} has {len(lines)} lines"
        assert max(map(len, lines)) <= 120, f"{path.name} has a line of {max(map(len, lines))} characters"
