"""From text to words: OpenAI's standardisation, and the built-in stand-ins for ftfy and spaCy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt.errors import InputError
from minigpt.tokenizer import text

any_text = st.text(st.characters(), max_size=80)  # every code point, lone surrogates too


@pytest.mark.parametrize(
    ("raw", "standard"),
    [
        ("a—b – c ― d…", "a - b - c - d..."),
        ("´tis", "'tis"),
        ('well,"she said" (so)', 'well , " she said " ( so )'),
        ("wait!!?! --- [x]{y}|z_~", "wait !! ? ! --- [ x ] { y } | z _ ~"),
        ("a/b*c+d;e", "a / b * c + d ; e"),
        ("$1.50 at 3:30, 5% & #1 <a@b=c>", "$1.50 at 3:30 , 5% & #1 <a@b=c>"),
        ("back\\slash", "back\\slash"),
        ("  one\t two\u00a0\u3000three  ", "one two three"),
        ("a \n \n\r\n b\nc\n", "a \n b \n c"),
        ("", ""),
    ],
)
def test_standardize(raw, standard):
    assert text.standardize(raw) == standard


@pytest.mark.parametrize(
    ("raw", "repaired"),
    [
        ("“It’s ‘so’”", "\"It's 'so'\""),
        ("ﬁnal ﬂow", "final flow"),
        ("ＧＰＴ－１　ｉｓ", "GPT-1 is"),
        ("cafe\u0301", "café"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("\x93so\x85\x94", '"so…"'),
        ("a\x00\x07b\ufeffc", "abc"),
        ("Tom &amp; Jerry &eacute;", "Tom & Jerry é"),
        ("<b>Tom &amp; Jerry</b>", "<b>Tom &amp; Jerry</b>"),
        ("\ud800x", "\N{REPLACEMENT CHARACTER}x"),
    ],
)
def test_repair_does_what_ftfy_does(raw, repaired):
    assert text.repair(raw) == repaired
    ftfy = pytest.importorskip("ftfy")
    assert ftfy.fix_text(raw) == repaired


WORDS = """hello|do n't|ca n't|wo n't|Did n't|I 'm|she 'd 've|they 're|Who 's|it 'll|we 've|could n't 've
do nt|i m|that s|ill|were|well|its|Hell|can not|gon na|Let 's|C'm on|y' all|who 're|whore
dog 's|dogs '|' tis|' twas|'em|'em .|# e.g.|o'clock|ma'am|goin'|O'Brien|rock'n'roll
Mr.|Dr.|St.|e.g.|a.m.|U.S.|J.|no .|No .|end .|NATO .|3 .|3.14|1,000|10:30|5 p.m.|11 am|12th
$ 100|100 %|£ 5|5 €|3 km|20 kg|' 3 km . '|< U.S. >|a : b|x = y|# 1|@home|& c.|a@b.com|www.site.org
wait ...|... and|so ... then|''|'' Tis|end . Then|안녕하세요 .|日本語 。|☃ snow|5 ^ 3""".replace("\n", "|").split("|")


@pytest.mark.parametrize("name", text.PIPELINES)
def test_both_pipelines_split_chunks_into_these_words(name):
    if name == "ftfy+spacy" and not text.has_paper_pipeline():
        pytest.skip("ftfy or spaCy is not installed")
    split = text.pipeline(name).split
    assert [words for words in WORDS if split(words.replace(" ", "")) != words.split()] == []


@pytest.mark.parametrize("name", text.PIPELINES)
@settings(deadline=None)
@given(raw=any_text)
def test_any_text_becomes_words_that_hold_all_its_characters(name, raw):
    if name == "ftfy+spacy" and not text.has_paper_pipeline():
        pytest.skip("ftfy or spaCy is not installed")
    clean, split = text.pipeline(name)
    chunks = clean(raw).split(" ")
    assert chunks == [""] or "" not in chunks
    for chunk in chunks:
        assert "".join(split(chunk)) == chunk
        assert "" not in split(chunk)


def test_unknown_and_missing_pipelines_are_named(monkeypatch):
    with pytest.raises(InputError, match="'nltk' is not known: choose 'ftfy\\+spacy' or 'rules'"):
        text.pipeline("nltk")
    monkeypatch.setattr(text, "has_paper_pipeline", lambda: False)
    with pytest.raises(InputError, match="pip install ftfy spacy"):
        text.pipeline("ftfy+spacy")


@pytest.mark.parity
def test_the_rules_agree_with_ftfy_and_spacy_on_a_book(eval_data):
    pytest.importorskip("ftfy")
    pytest.importorskip("spacy")
    raw = (eval_data / "prose" / "prose_1MB.txt").read_text(encoding="utf-8")
    paper, rules = text.pipeline("ftfy+spacy"), text.pipeline("rules")
    chunks = rules.clean(raw).split(" ")
    assert chunks == paper.clean(raw).split(" ")
    assert [c for c in set(chunks) if c != "\n" and rules.split(c) != paper.split(c)] == []
