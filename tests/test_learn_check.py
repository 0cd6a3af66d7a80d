"""`minigpt learn check`, `grade` and `claim`: verdicts on files that are right, wrong, and not begun."""

import ast
import csv
import json
import os
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from handed_in import hand_in, solution

from minigpt import ops
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.learn import kernel
from minigpt.learn.classroom import claim, course, grade, stubs
from minigpt.learn.classroom.checking import Limits, check_exercise
from minigpt.learn.classroom.class_report import mistakes
from minigpt.learn.classroom.progress import Progress
from minigpt.learn.classroom.submissions import find_submissions
from minigpt.learn.classroom.verdict import NO_ANSWER, NOT_BEGUN, RIGHT, WRONG
from minigpt.learn.verse import VERSE

JUDGED = [exercise for lesson in course.lessons().values() for exercise in lesson.judged]
SEED = Limits(seed=3)
QUICK = ("01_tied_weights", "03_attention", "06_rmsnorm", "08_factored_table", "12_min_p", "15_byte_level_bpe",
         "16_gpt2", "24_scaling_laws", "33_preferences")  # fmt: skip


def some_slow(exercises, quick):
    return [
        pytest.param(one, id=one.key, marks=[] if one.key in quick else pytest.mark.slow) for one in exercises
    ]  # fmt: skip


def typed(*words) -> int:
    return main(["learn", *map(str, words)])


# --- check -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", some_slow(JUDGED, (*QUICK, "00_operations")))
def test_a_solution_is_right(exercise, tmp_path):
    verdict = check_exercise(exercise, hand_in(exercise.key, tmp_path), SEED)
    assert (verdict.word, verdict.findings) == (RIGHT, []), "\n".join(verdict.report)
    assert verdict.sandbox and verdict.seed == 3


@pytest.mark.parametrize(
    "exercise", some_slow([one for one in JUDGED if "find_the_bug" in one.key], ("16_find_the_bug",))
)
def test_a_bug_that_stays_is_not_right(exercise, tmp_path):
    path = tmp_path / exercise.file
    path.write_text(stubs.handed_out(exercise) + "\n# looked at\n", encoding="utf-8")
    verdict = check_exercise(exercise, path, SEED)
    assert verdict.word == WRONG and verdict.findings, "\n".join(verdict.report)


def test_what_is_not_begun_is_said_kindly(tmp_path, capsys):
    typed("start", "03", "--folder", tmp_path)
    capsys.readouterr()
    assert typed("check", "03", "--folder", tmp_path) == 1
    said = capsys.readouterr().out
    assert said.count("not done yet. Open it: what you fill in is judged here.") == 3
    assert "minigpt learn hint 03 1" in said and "wrong" not in said
    progress = Progress.load(tmp_path)
    assert progress["03_attention"].tried == 0  # nothing was tried


def test_a_solved_lesson_is_happy_writes_a_line_and_says_what_is_next(tmp_path, capsys):
    typed("start", "06", "--folder", tmp_path)
    for exercise in course.lesson("06").judged[:2]:
        hand_in(exercise.key, tmp_path)
    for name in ("06_find_the_bug.py", "06_layernorm.py"):
        (tmp_path / name).unlink()
    capsys.readouterr()
    assert typed("check", "06", "--folder", tmp_path, "--seed", 4) == 0
    said = capsys.readouterr().out
    assert f"A small GPT-2 has trained with it, and writes:\n    {VERSE}" in said
    assert said.count(": right.") == 2 and "Next: " in said
    progress = Progress.load(tmp_path)
    assert progress["06_rmsnorm"].solved and progress["06_operations"].tried == 1


def test_a_file_of_an_older_version_is_kept_judged_and_told(tmp_path, capsys):
    typed("start", "03", "--folder", tmp_path)
    path = tmp_path / "03_attention.py"
    progress = Progress.load(tmp_path)
    assert progress["03_attention"].handed_out
    progress["03_attention"].handed_out = "an older one"
    progress.save()
    path.write_text("# mine\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    capsys.readouterr()
    assert typed("check", "03", path, "--folder", tmp_path) == 1
    said = capsys.readouterr().out
    assert "was handed out by another version of minigpt" in said and "minigpt learn reset 03 --folder" in said
    assert path.read_text(encoding="utf-8").startswith("# mine\n")
    typed("reset", "03", "--folder", tmp_path)
    typed("check", "03", path, "--folder", tmp_path)
    assert "another version" not in capsys.readouterr().out


WRONG_GELU = """import numpy as np
C = np.sqrt(2 / np.pi)

def gelu_forward(x):
    t = np.tanh(C * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + t), (x, t)

def gelu_backward(dout, cache):
    x, t = cache
    du = C * (1 + 3 * 0.044715 * x**2)
    dx = dout * 0.5 * x * (1 - t * t) * du
    return dx
"""


def test_a_wrong_line_is_named_with_both_numbers_and_what_to_print(tmp_path, capsys):
    path = tmp_path / "06_operations.py"
    exercise = course.exercise_of("06_operations")
    text = solution(exercise.key)
    wrong = text.replace("    dx = ", "    dx = 2 * ")
    assert wrong != text
    path.write_text(wrong, encoding="utf-8")
    assert typed("check", "06", path, "--folder", tmp_path, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    (verdict,) = found["exercises"]
    first = verdict["findings"][0]
    assert first["tensor"] == "x" and first["ratio"] == pytest.approx(2) and "counted twice" in first["mistake"]
    assert verdict["exercise"] == "06_operations" and not found["right"]
    assert typed("check", "06", path, "--folder", tmp_path) == 1
    said = capsys.readouterr().out
    assert 'print("dx", dx.shape, dx[' in said and "minigpt learn hint 06 0" in said


def test_missing_operations_and_functions_are_named(tmp_path):
    exercise = course.exercise_of("05_operations")
    path = tmp_path / exercise.file
    path.write_text(WRONG_GELU, encoding="utf-8")
    verdict = check_exercise(exercise, path, SEED)
    assert verdict.word == WRONG
    assert "gelu_exact_forward or gelu_exact_backward is missing" in verdict.findings[0].mistake
    other = course.exercise_of("12_min_p")
    path.write_text("import numpy as np\n", encoding="utf-8")
    verdict = check_exercise(other, path, SEED)
    assert verdict.word == WRONG and "the function keep_min_p is missing" in verdict.findings[0].mistake


@pytest.mark.parametrize(
    "text",
    [
        "from minigpt.ops.reference import gelu_forward, gelu_backward",
        "from minigpt.ops import gelu_forward, gelu_backward",
        "from minigpt import ops\ngelu_forward = ops.gelu_forward\ngelu_backward = ops.gelu_backward",
        "from minigpt import ops\ndef gelu_forward(x):\n    return ops.gelu_forward(x)\n"
        "def gelu_backward(dout, cache):\n    return ops.gelu_backward(dout, cache)",
    ],
)
def test_the_reference_handed_in_again_is_not_right(tmp_path, text):
    exercise = course.exercise_of("05_operations")
    path = tmp_path / exercise.file
    path.write_text(text + "\n", encoding="utf-8")
    assert check_exercise(exercise, path, SEED).word in (WRONG, NO_ANSWER)


def test_a_judge_is_not_the_learners(tmp_path):
    """What a file has below its functions is not run: the shipped judge is."""
    exercise = course.exercise_of("12_min_p")
    handed = course.source_of(exercise)
    path = tmp_path / exercise.file
    path.write_text(handed.replace("raise SystemExit(", "pass #") + "\nprint('all of it is right')\n", encoding="utf-8")
    verdict = check_exercise(exercise, path, SEED)
    assert verdict.word == WRONG


def test_a_file_that_is_missing_or_no_python_is_one_line(tmp_path, capsys):
    path = tmp_path / "03_attention.py"
    assert typed("check", "03", path, "--folder", tmp_path) == 2
    path.write_text("def f(:\n", encoding="utf-8")
    assert typed("check", "03", path, "--folder", tmp_path) == 2
    assert "this is not Python" in capsys.readouterr().err
    assert typed("check", "03", "--folder", tmp_path / "empty") == 2
    assert "minigpt learn start 03" in capsys.readouterr().err
    assert typed("check", "99", "--folder", tmp_path) == 2


# --- grade -----------------------------------------------------------------------------------------------------------

NAMES = ("01_tied_weights", "12_min_p")


@pytest.fixture
def a_class(tmp_path):
    """Three learners, two exercises: one right, one with a mistake, one not begun and a file that is no Python."""
    folder = tmp_path / "class"
    for learner in ("Kim 민지", "Lee", "Park"):
        (folder / learner).mkdir(parents=True)
    for key in NAMES:
        exercise = course.exercise_of(key)
        right = solution(exercise.key)
        (folder / "Kim 민지" / exercise.file).write_text(right, encoding="utf-8")
        wrong = right.replace("dw = ", "dw = 2 * ", 1).replace(">=", "<", 1)
        (folder / "Lee" / exercise.file).write_text(wrong, encoding="utf-8")
    (folder / "Park" / "01_tied_weights.py").write_text(
        stubs.handed_out(course.exercise_of("01_tied_weights")), encoding="utf-8"
    )
    (folder / "Park - 12_min_p.py").write_text("def (:\n", encoding="utf-8")
    (folder / "notes.py").write_text("no submission\n", encoding="utf-8")
    return folder


def in_this_process(workers, *_):
    return ThreadPoolExecutor(workers)


HOSTILE_NAMES = [  # of learners, as the table shows them
    ("<b onload='x'>&\"", "<b onload='x'>&\""),
    ("=1+1;=cmd|' C calc'!A0", "=1+1;=cmd|' C calc'!A0"),
    ("@sum", "@sum"),
    ("＝1", "＝1"),
    ("two\nlines\x1b[2J", "two\\nlines\\x1b[2J"),
    ("right\u202eleft", "right\\u202eleft"),
    ("x" * 200, "x" * 200),
    ("\u1106\u1175\u11ab", "민"),  # as macOS writes it
    ("caf\udce9", "caf\\udce9"),  # bytes that are not UTF-8
]


@pytest.mark.skipif(os.name != "posix", reason="names and files that Windows does not have")
def test_names_and_files_that_do_harm(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(grade, "ProcessPoolExecutor", in_this_process)
    folder, out = tmp_path / "class", tmp_path / "grades"
    for name, _ in HOSTILE_NAMES:
        (folder / name).mkdir(parents=True)
        (folder / name / "12_min_p.py").write_text("def (:\n", encoding="utf-8")
    secret = tmp_path / "secret.py"
    secret.write_text("secret = 1\n", encoding="utf-8")
    (folder / "link_12_min_p.py").symlink_to(secret)
    (folder / "broken_12_min_p.py").symlink_to(tmp_path / "nowhere.py")
    (folder / "folder_12_min_p.py").mkdir()
    os.mkfifo(folder / "pipe_12_min_p.py")
    with open(folder / "large_12_min_p.py", "wb") as file:
        file.truncate(10**11)  # without blocks on the disk
    (folder / "Large_01_tied_weights.py").write_text("def (:\n", encoding="utf-8")
    assert typed("grade", folder, "--out", out, "--workers", 1) == 0
    said = capsys.readouterr().out
    rows = [json.loads(line) for line in (out / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()]
    shown = {name for _, name in HOSTILE_NAMES}
    assert {row["learner"] for row in rows} == {*shown, "link", "broken", "folder", "pipe", "Large"}
    assert {row["word"] for row in rows} == {NO_ANSWER}
    says = {row["learner"]: row["findings"][0]["mistake"] for row in rows if row["exercise"] == "12_min_p"}
    for learner in ("link", "broken"):
        assert says[learner] == f"{learner}_12_min_p.py is a link: hand in the file itself"
    assert "is not a file" in says["folder"] and "is not a file" in says["pipe"] and "100,000,000,000" in says["Large"]
    assert all(line.isprintable() for line in said.splitlines())
    table = list(csv.reader((out / "table.csv").read_text(encoding="utf-8-sig").splitlines()))
    cells = [row[0] for row in table]
    assert len(table) == len(rows) + 1 and not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "＝"))]
    assert '"\'=1+1;=cmd' in (out / "table.csv").read_text(encoding="utf-8-sig")  # quoted: some split at ";"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<b " not in page and "&lt;b onload=&#x27;x&#x27;&gt;&amp;&quot;" in page


def ends(job):
    os._exit(1)


def test_a_judging_process_that_is_ended_from_outside_is_told(a_class, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(grade, "_judge", ends)
    assert typed("grade", a_class, "--out", tmp_path / "grades", "--workers", 1) == 2
    assert "a process that judges was ended" in capsys.readouterr().err


def test_a_class_is_graded_and_the_same_again(a_class, tmp_path, monkeypatch, capsys):
    out = tmp_path / "grades"
    assert typed("grade", a_class, "--out", out, "--workers", 2) == 0
    said = capsys.readouterr().out
    table = (out / "table.csv").read_bytes()
    rows = [json.loads(line) for line in (out / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()]
    words = {(row["learner"], row["exercise"]): row["word"] for row in rows}
    assert words["Kim 민지", "01_tied_weights"] == words["Kim 민지", "12_min_p"] == RIGHT
    assert words["Lee", "01_tied_weights"] == words["Lee", "12_min_p"] == WRONG
    assert words["Park", "01_tied_weights"] == NOT_BEGUN and words["Park", "12_min_p"] == NO_ANSWER
    assert "2 of 6 are right" in said and "6 to be judged" in said
    assert said.count("\nSandbox: ") == 1, "what held the files in"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Kim 민지" in page and "this is not Python" in page and "http" not in page
    lines = (out / "verdicts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (out / "verdicts.jsonl").write_text("".join(lines[:3]) + lines[3][:40], encoding="utf-8")  # killed in a line
    monkeypatch.setattr(grade, "ProcessPoolExecutor", in_this_process)
    assert typed("grade", a_class, "--out", out) == 0
    assert "3 to be judged" in capsys.readouterr().out
    assert (out / "table.csv").read_bytes() == table
    assert typed("grade", a_class, "--out", out, "--seed", 1) == 2
    assert "has verdicts with seed" in capsys.readouterr().err


def test_submissions_without_a_name_and_two_of_one_learner_are_refused(a_class, capsys):
    (a_class / "kim 민지_12_min_p.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="has handed in 12_min_p.py twice"):
        find_submissions(a_class)
    (a_class / "kim 민지_12_min_p.py").unlink()
    (a_class / "12_min_p.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="12_min_p.py has no learner's name"):
        find_submissions(a_class)
    with pytest.raises(InputError, match="is not a folder"):
        find_submissions(a_class / "nothing")
    with pytest.raises(InputError, match="has no submission"):
        find_submissions(Path(__file__).parent / "hostile")


def test_the_same_mistake_with_other_numbers_is_one():
    def row(learner, mistake, word=WRONG):
        finding = {"tensor": "x", "mistake": mistake}
        return {"learner": learner, "exercise": "06_rmsnorm", "word": word, "findings": [finding]}

    rows = [row("a", "yours is 0.354 times the true one"), row("b", "yours is 0.5 times the true one")]
    rows += [row("c", "another"), row("d", "another", RIGHT)]
    found = mistakes(rows)
    assert [(one.learners, one.text) for one in found] == [
        (["a", "b"], "yours is 0.354 times the true one"), (["c"], "another")
    ]  # fmt: skip


# --- claim -----------------------------------------------------------------------------------------------------------


SMALL = {"STORIES": "stories:60:1", "LAYERS": 1, "HEADS": 1, "WIDTH": 8, "CONTEXT": 16, "BATCH": 8, "HELD_OUT": 1000}


@pytest.fixture(scope="module")
def stories():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(claim, name, value)
        return claim.corpus()


@pytest.fixture
def small_claims(stories, monkeypatch):
    """Claims train a smaller model on fewer stories."""
    for name, value in SMALL.items():
        monkeypatch.setattr(claim, name, value)
    monkeypatch.setattr(claim, "corpus", lambda: stories)


def outcome(differences):
    return claim.Outcome([2.0] * len(differences), [2.0 + one for one in differences])


def test_a_claim_holds_only_beyond_the_noise():
    assert outcome([-0.10, -0.11, -0.09, -0.10]).holds
    noisy = outcome([-0.3, 0.2, -0.25, 0.2, -0.1, 0.1])
    assert not noisy.holds and noisy.seeds_needed > 30
    assert not outcome([0.10, 0.11, 0.09, 0.10]).holds
    values = [-0.2, -0.1, -0.4]
    half = 4.30 * np.std(values, ddof=1) / np.sqrt(3)  # Student's t, 2 degrees of freedom
    assert outcome(values).half == pytest.approx(half, rel=1e-3)
    assert not outcome([0.0, 0.0, 0.0]).holds


def test_nothing_changed_is_not_an_improvement(small_claims, tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("def schedule(step, steps):\n    return min(1, step / (0.1 * steps))\n", encoding="utf-8")
    assert typed("claim", path, "--steps", 10, "--seeds", 3, "--seed", 1) == 1
    said = capsys.readouterr().out
    assert "Not shown: 0.0000 nats" in said and "its schedule" in said


def test_a_schedule_that_does_not_train_is_worse(small_claims, tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("def schedule(step, steps):\n    return 0.0\n", encoding="utf-8")
    assert typed("claim", path, "--steps", 40, "--seeds", 3, "--seed", 1) == 1
    assert "It is worse, by " in capsys.readouterr().out


def test_an_optimiser_and_an_operation_are_tried(small_claims, tmp_path, capsys):
    path = tmp_path / "mine.py"
    text = "def update(parameters, gradients, state, lr, step):\n"
    text += "    return [p - lr * g for p, g in zip(parameters, gradients)], None\n"
    path.write_text(WRONG_GELU + text, encoding="utf-8")
    assert typed("claim", path, "--steps", 4, "--seeds", 3, "--seed", 1) == 1
    assert "Tried: gelu, its optimiser. 3 seeds from 1, 4 updates each." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "changes nothing"),
        ("def schedule(step, steps):\n    return 'fast'\n", "schedule returns a str, where a number is expected"),
        ("def update(*all):\n    return 1\n", "update returns no pair"),
        ("def update(p, g, s, lr, t):\n    return p[:-1], s\n", "parameters of other shapes"),
        ("def schedule(step, steps):\n    raise ValueError('mine')\n", "mine"),
    ],
)
def test_a_claim_that_cannot_be_tried_is_one_line(small_claims, tmp_path, capsys, text, says):
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    assert typed("claim", path, "--steps", 3, "--seeds", 3) == 2
    assert says in capsys.readouterr().err
    assert typed("claim", path, "--seeds", 2) == 2
    assert typed("claim", tmp_path / "none.py") == 2


# --- what a file may not get away with -------------------------------------------------------------------------------


def verdict_of(tmp_path, key, text):
    exercise = course.exercise_of(key)
    path = tmp_path / exercise.file
    path.write_text(text, encoding="utf-8")
    return check_exercise(exercise, path, Limits(seed=3, call_seconds=20))


def test_what_is_left_to_the_library_is_not_right(tmp_path):
    text = solution("00_operations")
    first = "def softmax_forward(x):\n"
    lazy = text.replace(first, first + "    if x.ndim != 2:\n        return NotImplemented\n")
    verdict = verdict_of(tmp_path, "00_operations", lazy)
    assert verdict.word == WRONG and "leaves this case to the library" in verdict.findings[0].mistake


def test_given_functions_are_ours(tmp_path):
    exercise = course.exercise_of("18_loss_in_tiles")
    text = stubs.handed_out(exercise)
    assert "def bytes_in_use" in text
    honest = solution(exercise.key)
    mine = "\n\ndef bytes_in_use(h, w, targets):\n    return 1e9\n"
    assert verdict_of(tmp_path, exercise.key, honest + mine).is_right


KERNELS = "import numpy as np\nimport math\nWARP_SUM = ''\nFORWARD = '''{}'''\nBACKWARD = '''{}'''\n"
QUITS = 'extern "C" void _exit(int);\nextern "C" __global__ void rmsnorm('
QUITS += "float* out, const float* x, const float* g, int rows, int columns) {{ {} }}\n"


@pytest.mark.parametrize(
    ("body", "says", "seconds"), [("_exit(0);", "ended without numbers", 20), ("while (1) {}", "has not ended", 2)]
)
def test_a_kernel_ends_its_own_process_alone(tmp_path, body, says, seconds):
    if kernel.problem():
        pytest.skip(kernel.problem())
    exercise = course.exercise_of("21_rmsnorm")
    path = tmp_path / exercise.file
    path.write_text(KERNELS.format(QUITS.format(body), ""), encoding="utf-8")
    verdict = check_exercise(exercise, path, Limits(seed=3, call_seconds=seconds))
    assert verdict.word == WRONG and any(says in line for line in verdict.report), verdict.report


def test_a_constant_that_is_missing_is_named(tmp_path):
    verdict = verdict_of(tmp_path, "21_rmsnorm", "import numpy as np\n")
    assert verdict.word == WRONG and "FORWARD is missing" in verdict.findings[0].mistake


def test_a_backward_pass_that_returns_nothing_is_not_right(tmp_path):
    text = solution("00_gate").rstrip()
    *lines, last = text.splitlines()
    assert last.lstrip().startswith("return ")
    verdict = verdict_of(tmp_path, "00_gate", "\n".join(lines) + "\n")
    assert verdict.word == WRONG and "returns nothing" in verdict.findings[0].mistake


def test_what_a_function_returns_is_printed_as_text(tmp_path):
    upper = stubs.handed_out(course.exercise_of("10_byte_pair_encoding"))
    functions = [node for node in ast.parse(upper).body if isinstance(node, ast.FunctionDef)]
    text = "'\\ud800\\x1b[2J\\u202e' + 'x' * 1_000_000"
    mine = [f"def {one.name}({ast.unparse(one.args)}):\n    return {text}\n" for one in functions]
    verdict = verdict_of(tmp_path, "10_byte_pair_encoding", upper + "\n" + "".join(mine))
    assert verdict.word == WRONG and any(line.startswith("yours is   ??[2J?xxx") for line in verdict.report)
    for line in [*verdict.report, *(line for one in verdict.findings for line in one.mistake.split("\n"))]:
        assert line.isprintable() and len(line) <= 2_000


@pytest.mark.parametrize("key", ["17_find_the_bug", "19_find_the_bug", "26_find_the_bug"])
@pytest.mark.parametrize("value", ["float('nan')", "[]"])
def test_no_number_and_nothing_are_not_right(tmp_path, key, value):
    """NaN is neither more nor less than what it is compared with."""
    upper = stubs.handed_out(course.exercise_of(key))
    functions = [node for node in ast.parse(upper).body if isinstance(node, ast.FunctionDef)]
    mine = [f"def {one.name}({ast.unparse(one.args)}):\n    return {value}\n" for one in functions]
    assert verdict_of(tmp_path, key, upper + "\n" + "".join(mine)).word == WRONG


def test_a_returned_namespace_is_no_place_in_the_judge_s_memory(tmp_path):
    place = "{'data': (16, True), 'shape': (2, 3), 'typestr': '<f8', 'version': 3}"
    text = "import types\n"
    for name in ("keep_min_p", "keep_typical"):
        text += f"def {name}(*all):\n    return types.SimpleNamespace(__array_interface__={place})\n"
    verdict = verdict_of(tmp_path, "12_min_p", text)
    assert verdict.word == NO_ANSWER and "Its answer cannot be read" in verdict.findings[0].mistake


def test_one_file_that_is_no_python_does_not_lose_the_others(tmp_path, capsys):
    typed("start", "12", "--folder", tmp_path)
    hand_in("12_min_p", tmp_path)
    (tmp_path / "12_find_the_bug.py").write_text("def f(:\n", encoding="utf-8")
    capsys.readouterr()
    assert typed("check", "12", "--folder", tmp_path) == 1
    said = capsys.readouterr().out
    assert "12_min_p.py: right." in said and "this is not Python" in said
    assert Progress.load(tmp_path)["12_min_p"].solved


def test_seeds_limits_and_sizes_are_checked(tmp_path, capsys):
    path = tmp_path / "12_min_p.py"
    path.write_text("x = 1\n", encoding="utf-8")
    assert typed("check", "12", path, "--folder", tmp_path, "--seed", "-1") == 2
    assert typed("check", "12", path, "--folder", tmp_path, "--time-limit", "0") == 2
    assert typed("claim", path, "--seed", "-1") == 2
    (tmp_path / "class").mkdir()
    assert typed("grade", tmp_path / "class", "--seed", "-1", "--out", tmp_path / "grades") == 2
    assert not (tmp_path / "grades").exists()
    path.write_text("#" * 2_000_000, encoding="utf-8")
    assert typed("check", "12", path, "--folder", tmp_path) == 2
    assert "2,000,000 bytes: at most 1,000,000 are judged" in capsys.readouterr().err


def test_student_numbers_are_names(tmp_path):
    for name in ("20241234_03_attention.py", "Kim_2024_03_attention.py", "__MACOSX/._03_attention.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n", encoding="utf-8")
    assert [one.learner for one in find_submissions(tmp_path)] == ["20241234", "Kim_2024"]


def test_any_answer_can_be_kept(tmp_path):
    progress = Progress.load(tmp_path)
    progress["03.3"].own_answer = 'a\x1b[D "b" \\ \x7f \ud800 끝'
    progress.save()
    assert Progress.load(tmp_path)["03.3"].own_answer == 'a\x1b[D "b" \\ \x7f ? 끝'


def test_a_claim_is_evaluated_as_it_was_trained(small_claims):
    """With ReLU in the place of GELU the held-out loss is that of a model with ReLU."""
    module = types.SimpleNamespace(
        gelu_forward=lambda x: (np.maximum(x, 0), x), gelu_backward=lambda dout, x: dout * (x > 0)
    )
    stories = claim.corpus()
    config = claim.GPT2Config(vocab_size=stories.vocab_size, n_positions=claim.CONTEXT, n_embd=8, n_layer=1, n_head=1)
    model = claim.GPT2(config, seed=0, dtype=np.float64)
    changed = claim._held_out(model, stories, claim.Change("gelu", operations=module))
    windows = np.concatenate(list(claim.data.whole_windows(stories.valid, claim.CONTEXT, 64)))
    with ops.using(module):
        right = float(model.loss(windows[:, :-1], windows[:, 1:], grad=False)[0])
    assert changed == pytest.approx(right, rel=1e-9)
    assert abs(changed - claim._held_out(model, stories, claim.NO_CHANGE)) > 1e-6


def test_a_claim_that_sees_the_future_or_diverges_does_not_hold(small_claims, tmp_path, capsys):
    path = tmp_path / "mine.py"
    text = solution("03_operations")
    leaks = text.replace("if mask is None:", "if True:").replace("np.tri(t, s, s - t", "np.ones((t, s)")
    path.write_text(leaks, encoding="utf-8")
    assert typed("claim", path, "--steps", 2, "--seeds", 3) == 2
    assert "what comes after is seen" in capsys.readouterr().err
    path.write_text("def update(p, g, s, lr, t):\n    return [one * float('nan') for one in p], s\n", encoding="utf-8")
    assert typed("claim", path, "--steps", 2, "--seeds", 3) == 1
    assert "has diverged" in capsys.readouterr().out
