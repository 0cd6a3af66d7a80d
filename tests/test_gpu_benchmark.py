"""`benchmarks/gpu.py`: every part is played on a processor; what is done is not repeated; what fails stops nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SCRIPT = BENCHMARKS / "gpu.py"
sys.path.append(str(BENCHMARKS))

import gpu as driver  # noqa: E402
import machine  # noqa: E402
from gpu_parts import bench, phases, plan, products, record, right, runner  # noqa: E402

from minigpt import ops  # noqa: E402
from minigpt.errors import InputError  # noqa: E402

NAMES = [part.name for part in plan.PARTS]
NEED_A_GPU = {"nccl", "ncu"}
QUICK = ("--quick", "--device", "cpu")


def called(*options, **changes):
    """The script as a user calls it: from anywhere, with a package that is not installed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | changes
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture
def played():
    """A Bench of small sizes on the processor."""
    return bench.Bench("cpu", True, [2])


# --- the plan --------------------------------------------------------------------------------------------------------


def test_every_part_ends_within_ten_minutes_and_so_does_every_run():
    assert {part.run for part in plan.PARTS} == set(plan.RUNS)
    assert max(part.limit for part in plan.PARTS) < 600 and max(plan.RUNS.values()) < 600
    for number, whole in plan.RUNS.items():
        assert sum(part.expected for part in plan.chosen(None, number)) <= whole, f"run {number} is too full"
    assert all(part.expected <= part.limit for part in plan.PARTS)


def test_the_work_of_every_part_exists_and_what_it_depends_on_too():
    for part in plan.PARTS:
        file, _, name = part.work.partition(".")
        assert callable(getattr(__import__(f"gpu_parts.{file}", fromlist=[file]), name))
        assert len(list(ROOT.glob(part.files[3]))) == 1


def test_the_plan_says_what_is_to_do_and_how_long_it_takes():
    done = called("--plan", "--run", "2", *QUICK)
    assert done.returncode == 0, done.stderr
    named = re.findall(r"^  (\w+) +[\d.]+ min, at most +[\d.]+  to do +(.+)$", done.stdout, re.MULTILINE)
    assert [name for name, _ in named] == ["phases", "products", "torch"]
    assert "expected: 5 minutes" in done.stdout and "Predicted, not yet measured" in done.stdout


def test_an_unknown_part_is_refused_in_one_line():
    done = called("--part", "everything", *QUICK)
    assert done.returncode == 2 and "facts" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(bench.gpu.cuda_problem() is None, reason="here is a GPU")
def test_where_there_is_no_gpu_it_says_so():
    done = called("--part", "facts")
    assert done.returncode == 1 and done.stderr.startswith("no GPU can be used: ") and "Traceback" not in done.stderr


# --- every part, played ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_played(name, tmp_path):
    """What a processor cannot show is skipped, and the part says why."""
    pytest.importorskip("torch")
    before = sorted(machine.RESULTS.iterdir())
    done = called("--part", name, "--out", str(tmp_path), *QUICK)
    log = (tmp_path / f"{name}.log").read_text(encoding="utf-8")
    assert done.returncode == 0, log
    outcome = re.search(rf"^=== {name}: (\w+) after", done.stdout, re.MULTILINE)[1]
    script = {"ladder": "ladder.py", "host": "host_cost.py"}.get(name)
    skipped = name in NEED_A_GPU or (script and not (BENCHMARKS / script).is_file())
    assert outcome == ("skipped" if skipped else "done"), log
    assert sorted(machine.RESULTS.iterdir()) == before and [path.name for path in tmp_path.iterdir()] == [f"{name}.log"]
    assert not skipped or re.search(r"^skipped: \w", log, re.MULTILINE)


def test_a_wrong_gradient_is_found_and_the_other_checks_are_made(played, capsys, monkeypatch):
    monkeypatch.setattr(right, "STEPS", 4)

    class Wrong:
        @staticmethod
        def gelu_forward(x):
            return ops.reference.gelu_forward(x)

        @staticmethod
        def gelu_backward(dout, cache):
            return 1.01 * ops.reference.gelu_backward(dout, cache)

    right.right(played)
    with ops.using(Wrong), pytest.raises(AssertionError, match="against the reference, float32"):
        right.right(played)
    said = capsys.readouterr().out
    assert "WRONG: against the reference, float32: the gradient of" in said
    assert said.count("right: 8 texts") == 2  # the last check


def test_bits_that_differ_are_found(played, monkeypatch):
    """One number of one gradient, in its last bit."""
    exact = right.gradients
    calls = []

    def now_and_then(model, ids, targets):
        loss, found = exact(model, ids, targets)
        calls.append(1)
        if len(calls) == 2:
            first = next(iter(found.values()))
            first.flat[0] = np.nextafter(first.flat[0], np.float32(9), dtype=np.float32)
        return loss, found

    right.the_same_bits_twice(played, "float32")
    monkeypatch.setattr(right, "gradients", now_and_then)
    with pytest.raises(AssertionError, match=r"do not have the same bits: \['wte.weight'\]"):
        right.the_same_bits_twice(played, "float32")


def test_an_operation_inside_another_is_not_counted_twice(played, monkeypatch):
    def calls_another(x):
        return ops.add(x, x)

    monkeypatch.setattr(ops, "mlp_forward", calls_another)
    marks = []
    x = np.ones((2, 3, 4), np.float32)
    before = ops.mlp_forward
    with phases.marked(played, marks):
        ops.mlp_forward(x)
        ops.add(x, x)
        with pytest.raises(InputError):
            ops.add(x, x[0, :, :2])
    assert [name for name, *_ in marks] == ["mlp_forward", "add", "add"] and ops.mlp_forward is before
    assert all(first <= last for _, first, last in marks)


@pytest.mark.slow
def test_products_are_those_of_a_step_and_one_without_an_algorithm_stops_no_other(played, monkeypatch, capsys):
    products.products(played)
    names = list(played.rows)
    assert len(names) == 23 and all(played.rows[name]["algorithms"] == 1 for name in names)
    assert "products: dw of the first, and db, 64 x 64 x 256" in names
    offered = products._offered

    def none_for_dw(plan, matrices, count, mask):
        return [] if matrices[2].dtype == "float32" and matrices[1].turned else offered(plan, matrices, count, mask)

    monkeypatch.setattr(products, "_offered", none_for_dw)
    with pytest.raises(AssertionError, match="products that failed: dw of qkv"):
        products.products(played)
    assert "cuBLASLt has no algorithm: BGRADA" in capsys.readouterr().out


# --- what is kept ----------------------------------------------------------------------------------------------------


class Played:
    """In the place of a Runner: parts end as they are told to."""

    logs = Path("logs")

    def __init__(self, **outcomes):
        self.outcomes, self.ran = outcomes, []

    def run(self, part, limit):
        self.ran.append((part.name, limit))
        return runner.Ended(self.outcomes.get(part.name, "done"), 2.0, {f"row of {part.name}": {"seconds": 1.5}})


PARTS = [part for part in plan.PARTS if part.name in ("facts", "right", "tests")]


def kept(folder):
    return json.loads((folder / "gpu.json").read_text(encoding="utf-8"))


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder for results; the repository's own is not looked at."""
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "of the repository")
    return tmp_path / "results"


def test_what_is_done_is_not_done_again(results, monkeypatch):
    keep = record.Record(results, "a GPU", quick=False)
    assert driver.run(PARTS, Played(right="failed"), keep) == 1
    assert [keep.state(part) for part in PARTS] == ["done", "to do", "done"]
    assert set(kept(results)["rows"]) == {"row of facts", "row of right", "row of tests"}, "a failed part's rows too"
    assert kept(results)["parts"]["right"]["outcome"] == "failed"
    other = record.Record(results, "another GPU", quick=False)
    assert [other.state(part) for part in PARTS] == ["to do"] * 3
    monkeypatch.setattr(record, "digest", lambda part: "changed" if part.name == "tests" else kept_code[part.name])
    kept_code = {name: about["code"] for name, about in kept(results)["parts"].items()}
    assert [keep.state(part) for part in PARTS] == ["done", "to do", "to do"]


def test_rows_of_another_gpu_are_kept_beside(results):
    for device in ("a GPU", "another GPU"):
        driver.run(PARTS[:1], Played(), record.Record(results, device, quick=False))
    [before] = kept(results)["elsewhere"]
    assert before.startswith("a GPU, ") and kept(results)["rows"]["row of facts"]["measured"]["device"] == "another GPU"


def test_a_new_folder_goes_on_from_the_repository(results, tmp_path):
    driver.run(PARTS[:1], Played(), record.Record(machine.RESULTS, "a GPU", quick=False))
    keep = record.Record(results, "a GPU", quick=False)
    assert [keep.state(part) for part in PARTS] == ["done", "to do", "to do"]


def test_a_digest_sees_every_file_that_counts(tmp_path):
    part = plan.Part("x", 1, "", 1, 1, "facts.facts", depends=("tests/*.py",))
    places = ("minigpt/ops/a.py", "minigpt/ops/cuda/a.cu", "benchmarks/gpu_parts/facts.py", "tests/test_a.py")
    found = {record.digest(part, tmp_path)}
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("", encoding="utf-8")
        found.add(record.digest(part, tmp_path))
        (tmp_path / place).write_text("x", encoding="utf-8")
        found.add(record.digest(part, tmp_path))
    assert len(found) == 1 + 2 * len(places)
    (tmp_path / "benchmarks" / "gpu_parts" / "right.py").write_text("another part", encoding="utf-8")
    assert record.digest(part, tmp_path) in found


def test_a_run_has_a_limit_of_its_own(results):
    """A part gets what is left; one for which nothing is left is named, and is to do the next time."""
    by = Played()
    keep = record.Record(results, "a GPU", quick=False)
    assert driver.run(PARTS, by, keep, whole=50) == 0
    assert [round(limit) for _, limit in by.ran] == [50, 50, 50]
    assert driver.run(PARTS, by, keep, whole=10) == 1 and len(by.ran) == 3


# --- parts that fail, take too long, or are interrupted --------------------------------------------------------------

WORKER = """
    import json, subprocess, sys, time
    from pathlib import Path
    rows = Path(sys.argv[sys.argv.index("--rows") + 1])
    work = sys.argv[sys.argv.index("--work") + 1]
    print("about to", work, flush=True)
    rows.write_text(json.dumps({"a row": {"seconds": 1.0}}))
    if work == "skipped.it":
        sys.exit(3)
    if work == "long.it":
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", stubborn])
        print("child", child.pid, flush=True)
        time.sleep(60)
    assert work != "wrong.it", "this part fails"
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A Runner whose parts are as WORKER says."""
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER), encoding="utf-8")
    monkeypatch.setattr(runner, "SCRIPT", script)
    return runner.Runner([], tmp_path / "logs")


def part(name):
    return plan.Part(name, 1, "", 1, 30, f"{name}.it")


def is_running(log: Path) -> bool:
    """Does the child of a part still run?"""
    number = int(re.search(r"child (\d+)", log.read_text(encoding="utf-8"))[1])
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8").split()[2] not in "ZX"
    except OSError:
        return False


def test_a_part_that_fails_stops_no_other(worker, results, capsys):
    keep = record.Record(results, "a GPU", quick=False)
    assert driver.run([part("wrong"), part("good"), part("skipped")], worker, keep) == 1
    said = capsys.readouterr().out
    assert "AssertionError: this part fails" in said and "wrong: failed, good: done, skipped: skipped" in said
    outcomes = {name: about["outcome"] for name, about in kept(results)["parts"].items()}
    assert outcomes == {"wrong": "failed", "good": "done", "skipped": "skipped"}
    assert driver.run([part("good"), part("skipped")], worker, keep) == 0


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="whether a process runs is read in /proc")
def test_a_part_is_ended_at_its_limit_with_all_that_it_has_started(worker):
    began = time.monotonic()
    ended = worker.run(part("long"), 2.0)
    assert ended.outcome == "out of time" and ended.rows == {"a row": {"seconds": 1.0}}
    assert time.monotonic() - began < 20 and not is_running(worker.logs / "long.log")


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="whether a process runs is read in /proc")
def test_ctrl_c_keeps_what_was_measured_and_begins_no_other_part(worker, results):
    keep = record.Record(results, "a GPU", quick=False)
    log = worker.logs / "long.log"

    def interrupt():
        while not (log.is_file() and "child" in log.read_text(encoding="utf-8")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert driver.run([part("good"), part("long"), part("wrong")], worker, keep) == 130
    outcomes = {name: about["outcome"] for name, about in kept(results)["parts"].items()}
    assert outcomes == {"good": "done", "long": "interrupted"} and "a row" in kept(results)["rows"]
    assert not is_running(log)
