"""The glossary: every term, in English and Korean, with the lesson that uses it first."""

from glossary import ROOT, first_lesson, rows, variants
from helpers import each


def test_it_has_the_terms_of_the_course():
    found = rows()
    text = (ROOT / "lessons" / "README.md").read_text(encoding="utf-8")
    table = text[text.index("## Terms") :]
    assert len(found) == sum(line.startswith("| ") for line in table.splitlines()) - 1  # all but the heading
    assert len(found) >= 80 and len({english for english, _, _, _ in found}) == len(found)
    known = [word for english, _, _, _ in found for word in variants(english)]
    assert {"upstream gradient", "local gradient", "jacobian", "cotangent", "finite difference"} <= set(known)
    for _, korean, _, _ in found:
        assert any("\uac00" <= letter <= "\ud7a3" for letter in korean), korean


@each("english, number, explanation", [(english, number, text) for english, _, number, text in rows()])
def test_each_term_stands_in_the_lesson_that_uses_it_first(english, number, explanation):
    assert number == first_lesson(english)
    assert explanation
