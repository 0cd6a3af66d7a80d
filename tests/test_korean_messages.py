"""MINIGPT_LANG=ko: what `minigpt learn` says in Korean, in full, and what stays English because programs read it."""

import ast
import json
import re
import string
from pathlib import Path

import pytest
from glossary import rows
from handed_in import hand_in, solution
from korean import english_in, has_hangul
from package_files import FILES, HOME, source_of

from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.gradcheck import Result
from minigpt.learn import lines
from minigpt.learn.classroom import claim, class_report, course, glossary
from minigpt.learn.classroom.checking import Limits, _with_whole_sentences, check_exercise
from minigpt.learn.classroom.glossary import WordsOptions
from minigpt.learn.classroom.language import language, padded, read_words, tr, width_of, words, wrapped
from minigpt.learn.classroom.sentences import pieces, told, told_errors, values_in
from minigpt.learn.classroom.verdict import NO_ANSWER, WRONG

TABLES = read_words("ko.toml")
GLOSSARY = read_words("glossary_ko.toml")["sentences"]
PARTICLE = re.compile(r"\}`?(?:을|를|은|는|이|가|과|와|로|으로|와\(과\))(?=[ .,:;?]|$)")


@pytest.fixture
def korean(monkeypatch):
    monkeypatch.setenv("MINIGPT_LANG", "ko")


def typed(*line) -> int:
    return main(["learn", *map(str, line)])


# --- the language ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "code"),
    [("ko", "ko"), ("ko_KR.UTF-8", "ko"), ("KO", "ko"), ("ko-KR", "ko"), ("en", "en"), ("C.UTF-8", "en"), ("", "en"),
     ("fr_FR.UTF-8", "en"), ("kok_IN", "en"), ("xx", "en")],
)  # fmt: skip
def test_the_language_is_read_from_the_environment(monkeypatch, value, code):
    monkeypatch.setenv("MINIGPT_LANG", value)
    assert language() == code
    assert tr("{file}: right.", file="a.py") == ("a.py: 맞습니다." if code == "ko" else "a.py: right.")
    assert (told("It is transposed.") == "It is transposed.") == (code == "en")


# --- the table of texts ----------------------------------------------------------------------------------------------


def calls_of_tr() -> dict[str, str]:
    """{text: file} of every call `tr("…")` in the package. Fails where the text is no literal."""
    found = {}
    for path in FILES:
        for node in source_of(path).nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "tr":
                text = node.args[0]
                assert isinstance(text, ast.Constant), f"{path.name}, line {node.lineno}: a text that stands nowhere"
                found[text.value] = path.name
    return found


def fields(template: str) -> set[tuple]:
    """The names in braces, each with how it is shown."""
    return {(name, spec, how) for _, name, spec, how in string.Formatter().parse(template) if name is not None}


def test_every_text_has_its_korean_and_no_korean_is_without_its_text():
    said = calls_of_tr()
    assert len(said) > 80
    assert set(said) - set(TABLES["texts"]) == set(), "add these to words/ko.toml"
    assert set(TABLES["texts"]) - set(said) == set(), "nobody says these any more"


@pytest.mark.parametrize("table", ["texts", "patterns", "python"])
def test_the_korean_has_the_same_names_and_is_korean(table):
    for english, korean in TABLES[table].items():
        assert fields(korean) == fields(english), english
        literal = "".join(literal for literal, _ in pieces(english))
        kept = table == "python" and re.fullmatch(r"\w+Error: ", literal)  # the name of a kind of error
        assert has_hangul(korean) or kept, english
        assert not PARTICLE.search(korean), f"a particle that depends on a value: {korean}"
        assert korean == korean.strip() or english != english.strip(), korean


def strings_in(*folders) -> str:
    """All text that stands in the strings of these files."""
    paths = [path for path in FILES if path.relative_to(HOME).as_posix().startswith(folders)]
    nodes = (node for path in paths for node in source_of(path).nodes)
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return "\n".join(texts)


def test_no_pattern_is_of_a_sentence_that_nobody_says_any_more():
    said = strings_in("gradcheck", "explorer", "learn", "jobs/check.py", "files/disk.py", "errors.py")
    for english in TABLES["patterns"]:
        literals = sorted((literal.strip(" .,:;").split() for literal, _ in pieces(english)), key=len)[-2:]
        halves = [part for one in literals for part in (one[: (len(one) + 1) // 2], one[len(one) // 2 :]) if part]
        assert english.startswith("tried  ") or any(" ".join(half) in said for half in halves), english


# --- the sentences of others -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "template", "values"),
    [
        ("a 1 b", "a {x} b", {"x": "1"}),
        ("a 1 b", "a {x}", {"x": "1 b"}),
        ("1 b 2 b 3", "{x} b {y}", {"x": "1", "y": "2 b 3"}),
        ("a 1: 1 c", "a {x}: {x} c", {"x": "1"}),
        ("a 1: 2 c", "a {x}: {x} c", None),
        ("abc", "abc", {}),
        ("abcd", "abc", None),
        ("a ", "a {x}", None),
        ("a b", "a {x} b", None),
        ("x a 1", "a {x}", None),
        (", , 1", "{x}, {y}", {"x": ", ", "y": "1"}),
    ],
)
def test_what_stands_for_the_names_of_a_template(text, template, values):
    assert values_in(text, pieces(template)) == values


def test_a_sentence_within_a_sentence_a_list_and_an_indent(korean):
    assert told("    It is transposed. It has shape (2, 3), expected (3, 2).\nx") == (
        "    전치되어 있습니다. 형상이 (2, 3)인데 (3, 2)이어야 합니다.\nx"
    )
    assert told("It returns nothing yet for dq, dk and dv; dx is right.") == (
        "아직 반환하지 않은 기울기: dq, dk, dv; 맞은 것: dx."
    )
    assert (
        told("something that nobody has said, and this or that") == "something that nobody has said, and this or that"
    )


def test_braces_of_a_learner_are_no_names(korean):
    assert told("It writes into {x}: work on a copy.") == "{x} 배열을 덮어씁니다. 복사본에서 계산하십시오."


def test_no_text_makes_it_slow(korean):
    text = "The true one is 2 times yours, which is " + "a Or it is " * 20_000 + "b"
    assert told(text).startswith("옳은 값은 제출한 값의 2배입니다.")
    assert told("ValueError: " * 20_000) == "ValueError: " * 20_000


SENTENCES_OF = (
    "jobs/check.py", "gradcheck/judge.py", "gradcheck/raised.py", "gradcheck/mistakes.py", "gradcheck/terms.py",
    "gradcheck/rules.py", "gradcheck/diagnosis.py", "learn/lines.py", "learn/sandbox/process.py",
    "learn/judging/check_file.py", "learn/classroom/checking.py",
)  # fmt: skip
LEFT_OUT = (  # of `minigpt check`; said by tr; parts whose whole is tried by the museum and by a learner's files
    "--time-limit", "--seed", "use it in a model", "this was the last", "and then python", "has no operation to check",
    "A small GPT-2", "missingx1", "oftenx1", "answer x1", "{:44}", "; x1 cases", "x1_forward x1", "x1   x1   largest",
)  # fmt: skip


def sentences_in(path: Path) -> list[str]:
    """The sentences that the functions of a file put together, with x1 for what varies."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = names_in(ast.Module([node for node in tree.body if isinstance(node, ast.Assign)], []))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found = [one for function in functions for one in sentences_of(function, named | names_in(function))]
    return [one for one in found if one.count(" ") >= 2 and len(one.strip()) > 18]


def names_in(tree: ast.AST) -> dict[str, ast.AST]:
    """The texts that have a name, such as `says = "…"`."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and is_text(node.value)]
    return {node.targets[0].id: node.value for node in assigned if isinstance(node.targets[0], ast.Name)}


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, str)


def sentences_of(function: ast.FunctionDef, named: dict[str, ast.AST]) -> list[str]:
    """A text with a name stands where the name is used. Docstrings, and tuples of a `for`, are none."""
    inner = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.JoinedStr, ast.Assign)):
            inside = node.values if isinstance(node, ast.JoinedStr) else [node.value] * is_text(node.value)
        else:
            inside = [node.iter] if isinstance(node, ast.For) else [node.value] if isinstance(node, ast.Expr) else []
            inside = [one for one in inside if not isinstance(one, (ast.Yield, ast.Call))]
        inner |= {id(one) for part in inside for one in ast.walk(part)}
    texts = [node for node in ast.walk(function) if is_text(node) and id(node) not in inner]
    return [rendered(node, named) for node in texts if not any(part in rendered(node, named) for part in LEFT_OUT)]


def rendered(node: ast.AST, named: dict[str, ast.AST]) -> str:
    """The text, with x1 in the place of what varies."""
    if isinstance(node, ast.JoinedStr):
        return "".join(rendered(part, named) for part in node.values)
    if isinstance(node, ast.Constant):
        return str(node.value)
    part = named.get(getattr(node.value, "id", ""))
    return "x1" if part is None else rendered(part, named)


def test_every_sentence_of_a_diagnosis_has_its_pattern(korean):
    found = [one for name in SENTENCES_OF for one in sentences_in(HOME / name)]
    assert len(found) > 90
    not_told = [one for one in found if not has_hangul(told(one)) or english_in(told(one))]
    assert not_told == []


# --- what a learner sees ---------------------------------------------------------------------------------------------


def test_status_start_hint_and_answer(korean, tmp_path, capsys):
    typed("status", "--folder", tmp_path)
    said = capsys.readouterr().out
    assert said.startswith("레슨     완료     읽기      내용") and "30분" in said
    assert re.search(r"연습 문제 1\d\d개 가운데 0개를 마쳤습니다.", said) and "다음: minigpt learn start 00" in said
    typed("start", "3", "--folder", tmp_path)
    said = capsys.readouterr().out
    assert "핵심을 읽는 데 25분, 전체를 읽는 데 95분 걸립니다." in said and "채점:   minigpt learn check 03" in said
    typed("hint", "03", "0", "--folder", tmp_path)
    said = capsys.readouterr().out
    assert "레슨 03, 연습 문제 0, 힌트 1/3:" in said and "각 줄은 어떤 값을 사용합니까?" in said
    assert typed("answer", "03", "0", "--folder", tmp_path) == 2
    assert "먼저 풀어 보십시오" in capsys.readouterr().err
    assert typed("answer", "03", "4", "--mine", "같습니다", "--folder", tmp_path) == 0
    assert "나의 답:   같습니다\n해답:\n" in capsys.readouterr().out
    assert typed("start", "99", "--folder", tmp_path) == 2
    assert "레슨 '99' 없음" in capsys.readouterr().err


def test_a_hint_with_braces_is_no_template(tmp_path, capsys):
    keys = [
        one for lesson in course.lessons().values() for one in lesson.exercises if "{" in "".join(course.hints_of(one))
    ]
    assert len(keys) >= 2
    for exercise in keys:
        for _ in course.hints_of(exercise):
            assert typed("hint", exercise.lesson, exercise.number, "--folder", tmp_path) == 0
        assert "{" in capsys.readouterr().out


def test_a_check_in_korean_has_english_json(korean, tmp_path, capsys):
    exercise = course.exercise_of("00_operations")
    typed("start", "00", "--folder", tmp_path)
    capsys.readouterr()
    path = tmp_path / exercise.file
    assert typed("check", "00", path, "--folder", tmp_path) == 1
    assert "아직 시작하지 않았습니다" in capsys.readouterr().out
    text = solution(exercise.key)
    changed = text.replace("def softmax_backward(dp, p):", "def softmax_backward(dp, p):\n    dp = 2 * dp")
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    assert typed("check", "00", path, "--folder", tmp_path, "--seed", 1) == 1
    said = capsys.readouterr().out
    assert said.startswith("시험  ") and "옳은 값은 제출한 값의 0.5배입니다." in said and "틀림        x" in said
    assert f"{path}: 아직 맞지 않습니다." in said and "제출한 값" in said and "wrong" not in said
    assert typed("check", "00", path, "--folder", tmp_path, "--seed", 1, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    (verdict,) = found["exercises"]
    assert verdict["word"] == WRONG and "The true one is 0.5 times yours" in verdict["findings"][0]["mistake"]
    path.write_text("def f(:\n", encoding="utf-8")
    assert typed("check", "00", path, "--folder", tmp_path) == 2
    assert "1번째 줄: 파이썬 코드가 아닙니다: 문법에 맞지 않습니다" in capsys.readouterr().err


def test_a_right_file_in_korean(korean, tmp_path, capsys):
    exercise = course.exercise_of("00_operations")
    path = hand_in(exercise.key, tmp_path)
    assert typed("check", "00", path, "--folder", tmp_path) == 0
    said = capsys.readouterr().out
    assert f"{path}: 맞습니다." in said and "다음: " in said
    assert "happy" not in said and "맞음        x" in said and "텐서 " in said


def test_a_judge_that_works_line_by_line_tells_the_whole_diagnosis(korean, tmp_path):
    exercise = course.exercise_of("01_tied_weights")
    path = tmp_path / exercise.file
    text = solution(exercise.key)
    wrong = text.replace("dw = ", "dw = 2 * ", 1)
    assert wrong != text
    path.write_text(wrong, encoding="utf-8")
    verdict = check_exercise(exercise, path, Limits(seed=3))
    assert verdict.word == WRONG
    report = "\n".join(verdict.report)
    assert "처음으로 틀린 기울기: dw" in report and "순전파에서 읽은 값" in report
    first = verdict.findings[0].mistake
    assert not has_hangul(first) and "".join(told(first).split()) in "".join(report.split())


def test_a_diagnosis_that_was_folded_is_told_as_a_whole(korean):
    sentence = "What is missing is, in every row, a multiple of x: is a mean or sum over the row left out?"
    results = [Result("happy", 0.0), Result("x", diagnosis=f"{sentence} It has shape (2, 3), expected (3, 2).")]
    printed = f"before\n{lines.folded(results[1].diagnosis)}\nafter\n"
    assert printed.count("\n") == 4
    told_of_it = _with_whole_sentences(printed, results)
    assert not english_in(told_of_it.replace("before", "").replace("after", ""))
    assert "before\n  각 행에서 빠진 값: x의 배수." in told_of_it and told_of_it.endswith("\nafter\n")
    assert max(map(width_of, told_of_it.splitlines())) <= 100


def test_the_page_for_a_teacher_tells_each_mistake(korean):
    finding = {"tensor": "x", "mistake": "It is transposed."}
    row = {"learner": "Lee", "exercise": "06_rmsnorm", "word": "not right", "findings": [finding], "report": []}
    page = class_report.page([row])
    assert page.count("전치되어 있습니다.") == 2 and "transposed" not in page, "in the table, and on the board"


PAIR = """import numpy as np

def softmax_forward(x):
    {forward}

def softmax_backward(dout, cache):
    {backward}
"""
RIGHT = "p = np.exp(x - x.max(-1, keepdims=True)); p = p / p.sum(-1, keepdims=True); return p, p"
RIGHT_BACK = "return cache * (dout - (dout * cache).sum(-1, keepdims=True))"
HOSTILE = {
    "nothing": ("return None", "pass", "아직 아무것도 반환하지 않습니다"),
    "nothing back": (RIGHT, "return None", "아직 아무것도 반환하지 않습니다"),
    "no pair": ("return x", "pass", "out, cache의 쌍을 반환해야 합니다"),
    "writes": ("x -= x.max(-1, keepdims=True); " + RIGHT, RIGHT_BACK, "x 배열을 덮어씁니다"),
    "writes back": (RIGHT, "dout *= 1.5; " + RIGHT_BACK, "dout 배열을 덮어씁니다"),
    "shapes": (RIGHT, "return cache @ dout", "형상이 맞지 않습니다: cache ("),
    "other shapes": (RIGHT, "return cache * dout[..., :2]", "브로드캐스트할 수 없는 형상입니다"),
    "shape": (RIGHT, "return dout.sum(-1)", "이어야 합니다"),
    "name": (RIGHT, "return chache * dout", "정의되지 않은 이름입니다"),
    "text": (RIGHT, "return 'dx'", "배열을 반환해야 하는데 반환값의 자료형은 str"),
    "loop": (RIGHT, "while True: pass", "초가 지나도록 응답이 없었습니다. 끝나지 않는 반복문이 있습니까?"),
    "exit": (RIGHT, "raise SystemExit(3)", ""),
    "os exit": (RIGHT, "import os; os._exit(3)", "호출 도중에 프로세스가 끝났습니다(상태 3)"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_learner_often_does_is_told_in_korean(korean, tmp_path, name):
    forward, backward, says = HOSTILE[name]
    exercise = course.exercise_of("00_operations")
    path = tmp_path / exercise.file
    path.write_text(PAIR.format(forward=forward, backward=backward), encoding="utf-8")
    patience = 0.5 if name == "loop" else 20
    verdict = check_exercise(exercise, path, Limits(seed=1, call_seconds=patience))
    assert verdict.word in (WRONG, NO_ANSWER)
    mistakes = [finding.mistake for finding in verdict.findings]
    assert not has_hangul("".join(mistakes)), "findings are for programs too"
    assert any(says in line for line in verdict.report), verdict.report
    for one in map(told, mistakes):
        left = {word for word in english_in(re.sub("`.*`", "", one)) if not word.endswith(("Error", "Exit"))}
        assert left <= {"str", "chache"}, one


def test_a_message_of_the_library_is_told_in_korean(korean):
    with pytest.raises(InputError, match="--steps 0: 1 이상의 값을 주십시오"), told_errors():
        raise InputError("--steps 0: give 1 or more")
    with pytest.raises(InputError, match="^unknown to all$"), told_errors():
        raise InputError("unknown to all")


def test_grade_and_claim_in_korean(korean, tmp_path, capsys):
    exercise = course.exercise_of("12_min_p")
    folder = tmp_path / "class"
    for learner in ("김민지", "Lee"):
        (folder / learner).mkdir(parents=True)
    hand_in(exercise.key, folder / "김민지")
    (folder / "Lee" / exercise.file).write_text("def f(:\n", encoding="utf-8")
    out = tmp_path / "grades"
    assert typed("grade", folder, "--out", out, "--workers", 1, "--seed", 1) == 0
    said = capsys.readouterr().out
    assert "제출물 2개, 채점할 것 2개" in said and "2개 가운데 1개가 맞습니다." in said
    assert "김민지  맞음" in said and "Lee     응답 없음" in said
    assert "\n샌드박스: " in said and "Sandbox" not in said
    page = (out / "report.html").read_text(encoding="utf-8")
    for text in (
        '<html lang="ko">',
        "<h1>우리 반</h1>",
        "학생 수",
        "파이썬 코드가 아닙니다",
        "Lee, 12_min_p: 응답 없음",
    ):
        assert text in page, text
    verdicts = [json.loads(line) for line in (out / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["word"] for row in verdicts} == {"right", "no answer"}
    assert not any(has_hangul(finding["mistake"]) for row in verdicts for finding in row["findings"])
    claim._show(claim.Outcome([2.0, 2.0, 2.0], [1.9, 1.91, 1.89]))
    assert "주장이 성립합니다" in capsys.readouterr().out


# --- the width of Hangul ---------------------------------------------------------------------------------------------


def test_hangul_is_two_columns_wide():
    assert width_of("기울기 dx") == 9 and padded("손실", 6) == "손실  " and padded("손실", 2) == "손실"
    folded = wrapped("기울기 " * 20, 30, "  ").splitlines()
    assert max(map(width_of, folded)) <= 30 and len(folded) == 5 and all(line.startswith("  기") for line in folded)
    assert wrapped("a" * 50, 10) == "a" * 50 and wrapped("", 10) == ""


# --- the glossary ----------------------------------------------------------------------------------------------------


def test_the_glossary_is_that_of_the_lessons():
    assert [tuple(term) for term in glossary.terms()] == rows()


def test_every_term_has_a_korean_sentence():
    terms = [english for english, _, _, _ in rows()]
    assert list(GLOSSARY) == terms, "the same terms, in the same order"
    for english, sentence in GLOSSARY.items():
        assert has_hangul(sentence) and not sentence.endswith("."), english
    assert len(set(GLOSSARY.values())) == len(GLOSSARY)


def test_a_term_is_found_by_a_part_of_it_in_either_language(capsys):
    by_english = glossary.words(WordsOptions(term="Gradient"))
    assert {"gradient", "local gradient", "vanishing gradient"} <= {term.english for term in by_english}
    (term,) = glossary.words(WordsOptions(term="역전파법"))
    assert term.english == "backpropagation"
    said = capsys.readouterr().out
    assert "backpropagation   오차 역전파법   lesson 00\n    all gradients of one loss" in said
    assert glossary.words(WordsOptions(term="dout"))[0].lesson == "00"
    assert len(glossary.words(WordsOptions())) == len(rows())
    assert max(width_of(line) for line in capsys.readouterr().out.splitlines()) <= 120


def test_the_glossary_in_korean(korean, capsys):
    assert typed("words", "softmax") == 0
    said = capsys.readouterr().out
    assert "소프트맥스" in said and "레슨 00\n    점수를 확률로 바꾼다." in said
    assert typed("words", "소프트멕스") == 2
    assert "소프트멕스: 용어집에 없습니다. 혹시 소프트맥스?" in capsys.readouterr().err


def test_an_unknown_term_is_one_line(capsys):
    assert typed("words", "softmx") == 2
    assert capsys.readouterr().err == "minigpt: softmx is not in the glossary; did you mean softmax?\n"
    assert typed("words", "zzzzzz") == 2
    assert "`minigpt learn words` shows all terms" in capsys.readouterr().err


def test_english_has_no_tables():
    assert words("en") == {"texts": {}, "patterns": {}, "python": {}}
