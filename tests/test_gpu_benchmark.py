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
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace

import cuda_on_cpu
import gpu_on_cpu
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SCRIPT = BENCHMARKS / "gpu.py"
sys.path.append(str(BENCHMARKS))

import gpu as driver  # noqa: E402
import machine  # noqa: E402
from gpu_parts import (  # noqa: E402
    at_once,
    bench,
    checks,
    facts,
    others,
    phases,
    plan,
    predictions,
    products,
    record,
    right,
    runner,
    steps,
    warm,
)

from minigpt import ops  # noqa: E402
from minigpt.errors import InputError  # noqa: E402
from minigpt.ops.cuda import cublaslt, kernels  # noqa: E402

NAMES = [part.name for part in plan.PARTS]
NEED_A_GPU = {"nccl", "ncu"}
TOOLS = {"memcheck", "racecheck", "synccheck"}  # of compute-sanitizer
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


def test_two_runs_fit_into_eleven_minutes_and_each_has_time_for_its_parts():
    assert {part.run for part in plan.PARTS} == set(plan.RUNS)
    assert 2 * plan.BUDGET <= 11 * 60
    for number in plan.RUNS:
        assert plan.expected(plan.chosen(None, number)) <= plan.BUDGET, f"run {number} is too full"
    assert all(part.seconds <= part.limit <= plan.BUDGET for part in plan.PARTS)


def test_what_is_most_valuable_comes_first():
    names = [part.name for part in plan.PARTS]
    assert names[:5] == ["facts", "warm", "right", "tests", "phases"], "does it work, and how fast is a step?"
    assert names[names.index("nccl") + 1] == "torch", "then beside PyTorch"
    assert [way.name for way in steps.WAYS["bfloat16"]][0] == "eager", "what takes seconds, before what compiles"


def test_the_plan_says_what_a_short_time_leaves_out():
    parts = plan.chosen(None, 2)
    states = dict.fromkeys([part.name for part in parts], "to do")
    text = plan.plan(parts, states, 260)
    assert "left out where the others take as long as expected: memcheck, racecheck" in text
    assert re.search("^  memcheck +50 s, at most +90  left out +compute-sanitizer", text, re.MULTILINE)
    assert "left out" not in plan.plan(parts, states, plan.BUDGET) and "left out" not in plan.plan(parts, states, None)
    states["torch"] = "done"
    assert "left out" not in plan.plan(parts, states, 260)
    assert [part.name for part in plan.left_out(parts, 130)] == ["torch", "racecheck"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder in which CuPy keeps compiled kernels."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)


def planned(*arguments):
    """{name of a part: what is known of it} where a record says that all is done, the first part first."""
    results = SimpleNamespace(state=lambda part: "done")
    parts, states = driver.parts_and_states(driver.options_of(arguments), results)
    return {part.name: states[part.name] for part in parts}


def test_on_a_machine_that_has_just_been_started_each_run_compiles_first(cache):
    """Also where the results of another machine say that this is done."""
    assert planned("--run", "1")["warm"] == planned()["warm"] == "to do"
    assert list(planned("--run", "2").items())[:2] == [("warm", "to do"), ("torch", "done")]
    assert "warm" not in planned("--part", "attention") and "warm" not in planned("--run", "2", "--device", "cpu")
    record.note_compiled(*plan.chosen(["warm"], None))
    assert planned("--run", "1")["warm"] == "done" and "warm" not in planned("--run", "2")


def test_kernels_that_have_changed_are_compiled_again(cache, monkeypatch):
    [compiler] = plan.chosen(["warm"], None)
    record.note_compiled(compiler)
    assert record.is_compiled(compiler)
    monkeypatch.setattr(record, "digest", lambda part: "another")
    assert not record.is_compiled(compiler)
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    record.note_compiled(compiler)
    assert not record.is_compiled(compiler)


def test_the_work_of_every_part_exists_and_what_it_depends_on_too():
    for part in plan.PARTS:
        file, _, name = part.runs.partition(".")
        assert callable(getattr(__import__(f"gpu_parts.{file}", fromlist=[file]), name))
        for pattern in part.files:
            assert list(ROOT.glob(pattern)), f"{part.name} depends on {pattern}"


def test_the_plan_says_what_is_to_do_and_how_long_it_takes():
    done = called("--plan", "--run", "2", *QUICK)
    assert done.returncode == 0, done.stderr
    named = re.findall(r"^  (\w+) +\d+ s, at most +\d+  to do +(.+)$", done.stdout, re.MULTILINE)
    parts = plan.chosen(None, 2)
    assert [name for name, _ in named] == [part.name for part in parts]
    assert f"{plan.expected(parts) / 60:.1f} minutes expected, 5.5 at most" in done.stdout
    assert "left out" not in done.stdout


def test_a_budget_takes_the_place_of_that_of_a_run():
    done = called("--plan", "--run", "2", "--budget", "120", *QUICK)
    assert "minutes expected, 2.0 at most" in done.stdout
    assert "left out where the others take as long as expected: torch, memcheck, racecheck" in done.stdout


def test_an_unknown_part_is_refused_in_one_line():
    done = called("--part", "everything", *QUICK)
    assert done.returncode == 2 and "facts" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(bench.gpu.cuda_problem() is None, reason="here is a GPU")
def test_where_there_is_no_gpu_it_says_so():
    done = called("--part", "facts")
    assert done.returncode == 1 and done.stderr.startswith("no GPU can be used: ") and "Traceback" not in done.stderr
    assert "'numpy': " in done.stderr and "nvidia-smi" in done.stderr.lower(), "for who looks for the cause"


def test_a_gpu_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(runner, "ANSWERS", 1)
    monkeypatch.setattr(runner, "ABOUT", "import time; time.sleep(60)")
    began = time.monotonic()
    with pytest.raises(SystemExit, match="no GPU can be used: no answer in 1 s"):
        runner.device_name("cuda")
    assert time.monotonic() - began < 30


# --- every part, played ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_played(name, tmp_path):
    """What a processor cannot show is skipped, and the part says why."""
    pytest.importorskip("torch")
    before = sorted(machine.RESULTS.iterdir())
    done = called("--part", name, "--out", str(tmp_path), *QUICK)
    log = (tmp_path / "gpu.log").read_text(encoding="utf-8")
    assert done.returncode == 0, log
    outcome = re.search(rf"^=== {name}: (\w+) after", done.stdout, re.MULTILINE)[1]
    needs_what_is_not_here = name in NEED_A_GPU or name in TOOLS and not checks.found_tool("compute-sanitizer")
    assert outcome == ("skipped" if needs_what_is_not_here else "done"), log
    assert outcome == "done" or re.search(r"^skipped: \w", log, re.MULTILINE)
    assert sorted(machine.RESULTS.iterdir()) == before, "a quick look writes nothing there"
    [part] = plan.chosen([name], None)
    always = {"gpu.json", "gpu.log", "gpu.md"}
    found = {path.name for path in tmp_path.iterdir()}
    assert always <= found <= always | set(part.writes)
    assert "host_cost.json" in found or name != "host"


class Event:
    """A moment, by the clock of the processor."""

    def record(self) -> None:
        self.moment = time.perf_counter()


@pytest.fixture
def gpu_on_a_processor(monkeypatch):
    """A Bench that takes this processor for a GPU: stand-ins for CuPy, its compiler and its clock. No PyTorch."""
    pytest.importorskip("ml_dtypes")
    if cuda_on_cpu.problem():
        pytest.skip(cuda_on_cpu.problem())
    put = monkeypatch.setattr
    gpu_on_cpu.install(put)
    about = {"name": b"a GPU", "totalGlobalMem": 1, "l2CacheSize": 1, "sharedMemPerBlockOptin": 1}
    about["multiProcessorCount"] = 1
    runtime, cuda = bench.gpu.cupy.cuda.runtime, bench.gpu.cupy.cuda
    put(runtime, "getDeviceProperties", lambda device: about, raising=False)
    put(runtime, "driverGetVersion", lambda: 13000, raising=False)
    put(runtime, "runtimeGetVersion", lambda: 13000, raising=False)
    put(cuda, "Event", Event, raising=False)
    put(cuda, "get_elapsed_time", lambda first, last: 1e3 * (last.moment - first.moment), raising=False)
    put(cuda, "set_allocator", lambda malloc: None, raising=False)
    put(bench.gpu.cupy.get_default_memory_pool(), "malloc", None, raising=False)
    put(cublaslt, "_library", lambda: SimpleNamespace(_name="libcublasLt.so.13", cublasLtGetVersion=lambda: 130000))
    put(machine, "median_seconds", lambda function, wait, *more: machine.seconds(function))
    put(right, "STEPS", 2)
    put(steps, "WAYS", dict.fromkeys(steps.WAYS, []))
    yield bench.Bench("cuda", True, [2])
    kernels._compiled.cache_clear()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the stand-in for graphs records no kernel: numbers of nothing
@pytest.mark.parametrize("part", [facts.facts, right.right, phases.phases, steps.bfloat16, steps.float32,
                                  checks.every_kernel])  # fmt: skip
def test_what_a_part_does_on_a_gpu_alone_is_played_too(part, gpu_on_a_processor):
    """A mistake there would cost the first day that part."""
    part(gpu_on_a_processor)
    assert gpu_on_a_processor.rows


def test_a_quick_look_writes_a_log_alone_where_no_folder_is_given(tmp_path):
    before = sorted(machine.RESULTS.iterdir())
    done = called("--part", "nccl", *QUICK, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["minigpt_gpu.log"]
    assert sorted(machine.RESULTS.iterdir()) == before


def test_a_wrong_gradient_is_found_and_the_other_checks_are_made(played, capsys, monkeypatch):
    monkeypatch.setattr(right, "STEPS", 4)

    class Wrong:
        @staticmethod
        def gelu_forward(x):
            return ops.reference.gelu_forward(x)

        @staticmethod
        def gelu_backward(dout, cache):
            return 1.01 * ops.reference.gelu_backward(dout, cache)

    with ops.using(Wrong), pytest.raises(AssertionError, match="against the reference, float32"):
        right.right(played)
    said = capsys.readouterr().out
    assert "WRONG: against the reference, float32: the gradient of" in said
    assert "right: 8 texts" in said  # the last check


def test_a_check_that_cannot_be_made_stops_no_other(played, capsys, monkeypatch):
    def too_large(bench, precision):
        raise MemoryError("64 GB")

    monkeypatch.setattr(right, "STEPS", 2)
    monkeypatch.setattr(right, "the_same_bits_twice", too_large)
    with pytest.raises(AssertionError, match="wrong: twice, float32$"):
        right.right(played)
    said = capsys.readouterr().out
    assert "WRONG: twice, float32: MemoryError: 64 GB" in said and "right: 8 texts" in said


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


@pytest.mark.parametrize("part", [steps.attention, pytest.param(steps.bfloat16, marks=pytest.mark.slow)])
def test_without_pytorch_ours_is_measured(part, played, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.nn.attention", None)
    with pytest.raises(AssertionError, match="not measured: batch 2: .*, PyTorch "):
        part(played)
    assert len(played.rows) == 1 and "import of torch" in capsys.readouterr().err


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


class Said:
    """In the place of a Log: it only shows."""

    say = staticmethod(print)


class Played:
    """In the place of a Runner: parts end as they are told to."""

    def __init__(self, **outcomes):
        self.outcomes, self.ran, self.log = outcomes, [], Said()

    def run(self, part, limit, keep):
        self.ran.append((part.name, limit))
        return runner.Ended(self.outcomes.get(part.name, "done"), 2.0, {f"row of {part.name}": {"seconds": 1.5}})


PARTS = [part for part in plan.PARTS if part.name in ("facts", "right", "tests")]


def kept(folder):
    return json.loads((folder / "gpu.json").read_text(encoding="utf-8"))


@pytest.fixture
def results(tmp_path):
    """A folder for results."""
    return tmp_path / "results"


def run(parts, by, keep, budget=None):
    """driver.run that begins now."""
    return driver.run(parts, by, keep, budget, time.monotonic())


def test_what_is_done_is_not_done_again(results, monkeypatch):
    keep = record.Record(results, "a GPU")
    assert run(PARTS, Played(right="failed"), keep) == 1
    assert [keep.state(part) for part in PARTS] == ["done", "to do", "done"]
    assert set(kept(results)["rows"]) == {"row of facts", "row of right", "row of tests"}, "a failed part's rows too"
    assert kept(results)["parts"]["right"]["outcome"] == "failed"
    other = record.Record(results, "another GPU")
    assert [other.state(part) for part in PARTS] == ["to do"] * 3
    monkeypatch.setattr(record, "digest", lambda part: "changed" if part.name == "tests" else kept_code[part.name])
    kept_code = {name: about["code"] for name, about in kept(results)["parts"].items()}
    assert [keep.state(part) for part in PARTS] == ["done", "to do", "to do"]


def test_rows_of_another_gpu_are_kept_beside(results):
    for device in ("a GPU", "another GPU"):
        run(PARTS[:1], Played(), record.Record(results, device))
    [before] = kept(results)["elsewhere"]
    assert before.startswith("a GPU, ") and kept(results)["rows"]["row of facts"]["measured"]["device"] == "another GPU"


def test_a_new_folder_goes_on_from_the_repository(results, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "of the repository")
    run(PARTS[:1], Played(), driver.record_of(None, False, "a GPU"))
    keep = driver.record_of(results, False, "a GPU")
    assert [keep.state(part) for part in PARTS] == ["done", "to do", "to do"]


def test_a_quick_look_is_never_taken_for_a_measurement(results, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "of the repository")
    nothing = driver.record_of(None, True, "a GPU")
    run(PARTS, Played(), nothing)
    assert nothing.kept() == {} and not machine.RESULTS.exists()
    look = driver.record_of(results, True, "a GPU")
    run(PARTS, Played(), look)
    assert [look.state(part) for part in PARTS] == ["done"] * 3, "a look goes on too"
    keep = driver.record_of(results, False, "a GPU")
    assert [keep.state(part) for part in PARTS] == ["to do"] * 3 and keep.rows() == {}


def test_a_digest_sees_every_file_that_counts(tmp_path):
    part = plan.Part("x", 1, 1, 1, "facts.facts", "", depends=("tests/*.py",))
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


def test_a_run_begins_no_part_that_its_time_does_not_suffice_for(results, capsys):
    """A shorter one after it is run; what is left is named, and is to do the next time."""
    keep = record.Record(results, "a GPU")
    by = Played()
    facts, right_part, tests = PARTS
    assert right_part.seconds > facts.seconds < tests.seconds
    assert run([tests, right_part, facts], by, keep, budget=facts.seconds + 10) == 1
    assert [name for name, _ in by.ran] == ["facts"] and round(by.ran[0][1]) == facts.seconds + 10
    said = capsys.readouterr().out
    assert f"left: tests, right, {plan.expected([tests, right_part])} s: the same command goes on with them" in said
    assert [keep.state(part) for part in PARTS] == ["done", "to do", "to do"]
    assert run(PARTS, by, keep, budget=1000) == 0
    assert by.ran[1:] == [(part.name, part.limit) for part in PARTS]


def test_time_before_the_first_part_counts(results):
    by = Played()
    assert driver.run(PARTS[:1], by, record.Record(results, "a GPU"), 520, time.monotonic() - 500) == 1
    assert by.ran == []


# --- parts that fail, take too long, or are interrupted --------------------------------------------------------------

WORKER = """
    import json, os, subprocess, sys, time
    from pathlib import Path
    rows = Path(sys.argv[sys.argv.index("--rows") + 1])
    work = sys.argv[sys.argv.index("--work") + 1]
    rows.write_text(json.dumps({"a row": {"seconds": 1.0}}))
    print("about to", work, flush=True)
    if work == "session.it":
        print("session", os.getsid(0), "stdin", len(sys.stdin.read()))
    if work == "skipped.it":
        sys.exit(3)
    if work == "long.it":
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", stubborn])
        print("child", child.pid, flush=True)
        time.sleep(60)
    if work == "slow.it":
        time.sleep(600)
    assert work != "wrong.it", "this part fails"
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A Runner whose parts are as WORKER says."""
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER), encoding="utf-8")
    monkeypatch.setattr(runner, "SCRIPT", script)
    return runner.Runner([], runner.Log(tmp_path / "gpu.log"))


def part(name):
    return plan.Part(name, 1, 1, 30, f"{name}.it", "")


def is_running(log: Path) -> bool:
    """Does the child of a part still run?"""
    number = int(re.search(r"child (\d+)", log.read_text(encoding="utf-8"))[1])
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8").split()[2] not in "ZX"
    except OSError:
        return False


def test_a_part_that_fails_stops_no_other(worker, results, capsys):
    keep = record.Record(results, "a GPU")
    assert run([part("wrong"), part("good"), part("skipped")], worker, keep) == 1
    said = capsys.readouterr().out
    assert "AssertionError: this part fails" in said and "wrong: failed, good: done, skipped: skipped" in said
    outcomes = {name: about["outcome"] for name, about in kept(results)["parts"].items()}
    assert outcomes == {"wrong": "failed", "good": "done", "skipped": "skipped"}
    assert run([part("good"), part("skipped")], worker, keep) == 0


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="whether a process runs is read in /proc")
def test_a_part_is_ended_at_its_limit_with_all_that_it_has_started(worker):
    began = time.monotonic()
    ended = worker.run(part("long"), 2.0)
    assert ended.outcome == "out of time" and ended.rows == {"a row": {"seconds": 1.0}}
    assert time.monotonic() - began < 20 and not is_running(worker.log.path)


@pytest.mark.skipif(not hasattr(os, "getsid"), reason="there are no sessions here")
def test_a_part_belongs_to_the_session_of_the_run(worker):
    """Who ends all processes of that session, as a machine that is lent does, ends the part too."""
    assert worker.run(part("session"), 30.0).outcome == "done"
    assert f"session {os.getsid(0)} stdin 0" in worker.log.path.read_text(encoding="utf-8")


def test_rows_are_kept_when_they_are_measured(worker, results, capsys):
    """So a kill that no process can answer loses none."""
    keep = record.Record(results, "a GPU")
    seen = []

    def look(ended):
        driver.keep(keep, worker.log, part("long"), ended)
        seen.append((ended.outcome, set(kept(results)["rows"]), keep.state(part("long"))))

    worker.run(part("long"), 3.0, look)
    assert seen[0] == ("running", {"a row"}, "to do"), "while it runs"
    assert len(seen) == 1, "written only where there is more"
    assert "| long | running | " in (results / "gpu.md").read_text(encoding="utf-8")


def test_where_nothing_can_be_kept_the_parts_run_all_the_same(worker, results, capsys, monkeypatch):
    def full(path, value):
        raise OSError("No space left on device")

    monkeypatch.setattr(record.machine, "write", full)
    assert run([part("good"), part("skipped")], worker, record.Record(results, "a GPU")) == 0
    said = capsys.readouterr().out
    assert "not kept: OSError: No space left on device" in said and "good: done, skipped: skipped" in said


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="whether a process runs is read in /proc")
def test_ctrl_c_keeps_what_was_measured_and_begins_no_other_part(worker, results):
    keep = record.Record(results, "a GPU")
    log = worker.log.path

    def interrupt():
        while not (log.is_file() and "child" in log.read_text(encoding="utf-8")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert run([part("good"), part("long"), part("wrong")], worker, keep) == 130
    outcomes = {name: about["outcome"] for name, about in kept(results)["parts"].items()}
    assert outcomes == {"good": "done", "long": "interrupted"} and "a row" in kept(results)["rows"]
    assert not is_running(log)


def test_what_a_part_prints_is_shown_when_it_comes(worker, monkeypatch):
    """And it is in the log, also where the part is ended before its time."""
    say, was_running = worker.log.say, []

    def said(text):
        say(text)
        was_running.append(worker.process.poll() is None)
        worker.process.terminate()

    monkeypatch.setattr(worker.log, "say", said)
    assert worker.run(part("slow"), 600).outcome == "failed"
    assert was_running == [True]
    assert worker.log.path.read_text(encoding="utf-8") == "about to slow.it\n"


# --- tests and tools -------------------------------------------------------------------------------------------------

OF_A_USER = """
    import pytest

    @pytest.mark.parametrize("n", range(45))
    def test_it(n):
        assert n != 3, "three is wrong"

    def test_left_out():
        pytest.skip("not here")

    @pytest.fixture
    def broken():
        raise OSError("no such thing")

    def test_with_a_fixture(broken):
        pass
"""


def pytest_of(folder, *options):
    """pytest with the plugin on the tests of a folder."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-summary", "-p", "no:cacheprovider", *options]
    command += ["-p", "benchmarks.gpu_parts.at_once"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "xdist"])
def test_a_failing_test_is_printed_when_it_fails(tmp_path, workers):
    if workers:
        pytest.importorskip("xdist")
    (tmp_path / "test_of_a_user.py").write_text(textwrap.dedent(OF_A_USER), encoding="utf-8")
    done = pytest_of(tmp_path, *workers)
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    first = lines.index("so far: 19 passed, 1 failed, 0 skipped")
    assert lines.index("FAILED test_of_a_user.py::test_it[3], call") < first
    assert "FAILED test_of_a_user.py::test_with_a_fixture, setup" in lines
    assert "three is wrong" in done.stdout and "no such thing" in done.stdout
    assert done.stdout.count("::test_it[3]") == 1, "said once"
    assert [line for line in lines if line.startswith("so far: ")][-1] == "so far: 44 passed, 2 failed, 1 skipped"


BREAKS_THE_GPU = """
    import pytest
    from benchmarks.gpu_parts import at_once
    broken = []
    at_once.has_gpu = lambda: True
    at_once.is_broken = lambda: bool(broken)

    @pytest.mark.parametrize("n", range(12))
    def test_it(n):
        if n == 2:
            broken.append(1)
        assert n != 7 and not broken, "as every later one, in the same process"
"""


def test_a_process_whose_gpu_is_broken_is_replaced(tmp_path):
    """The tests after it are not lost."""
    pytest.importorskip("xdist")
    (tmp_path / "test_of_a_user.py").write_text(textwrap.dedent(BREAKS_THE_GPU), encoding="utf-8")
    done = pytest_of(tmp_path, "-n", "1")
    assert "FAILED test_of_a_user.py::test_it[2], call" in done.stdout, "what broke it, with its cause"
    assert "worker 'gw0' crashed while running" in done.stdout
    assert "FAILED test_of_a_user.py::test_it[7], call" in done.stdout
    assert "test_it[3]" not in done.stdout
    assert "so far: 10 passed, 3 failed, 0 skipped" in done.stdout.splitlines(), "the crash is one more"


def test_a_gpu_is_broken_where_it_answers_with_an_error(monkeypatch):
    answers = []

    def synchronize():
        if answers[0]:
            raise answers[0]

    runtime = SimpleNamespace(deviceSynchronize=synchronize, CUDARuntimeError=OSError)
    cupy = SimpleNamespace(is_available=lambda: True, cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for answer, broken in ((None, False), (OSError("an illegal memory access was encountered"), True)):
        answers[:] = [answer]
        assert at_once.is_broken() == broken
    assert at_once.has_gpu()
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(is_available=lambda: False))
    assert not at_once.has_gpu()
    monkeypatch.delitem(sys.modules, "cupy")
    assert not at_once.has_gpu()


def test_a_test_that_waits_for_ever_is_named(tmp_path, played, monkeypatch):
    """Before the part is ended at its limit."""
    commands = []
    monkeypatch.setattr(checks, "started", lambda command: commands.append(command) or subprocess.Popen(
        [sys.executable, "-c", "print('so far: 1 passed, 0 failed, 0 skipped')"], stdout=subprocess.PIPE, text=True))
    checks.other_tests(played)
    [option] = [word for word in commands[0] if word.startswith("faulthandler_timeout=")]
    assert 10 < int(option.partition("=")[2]) < min(p.limit for p in plan.PARTS if p.name in ("tests", "rest", "rungs"))
    text = "import time\n\ndef test_that_waits():\n    time.sleep(3)\n"
    (tmp_path / "test_of_a_user.py").write_text(text, encoding="utf-8")
    done = pytest_of(tmp_path, "-o", "faulthandler_timeout=1")
    assert "in test_that_waits" in done.stdout + done.stderr


def test_a_file_that_cannot_be_imported_is_a_failure(capsys):
    lines = []
    plugin = at_once.AtOnce(None)
    plugin.say = lines.append
    plugin.pytest_collectreport(SimpleNamespace(failed=True, nodeid="tests/test_x.py", longreprtext="ImportError: y"))
    plugin.pytest_sessionfinish()
    assert lines == ["FAILED tests/test_x.py\nImportError: y", "so far: 0 passed, 1 failed, 0 skipped"]


@pytest.fixture
def starts(monkeypatch):
    """`starts("a line", ..., status=1)`: what the next program prints in place of the one that is started."""
    commands = []

    def prepare(*lines, status=0):
        text = f"import sys; print({chr(10).join(lines)!r}); sys.exit({status})"

        def started(command):
            commands.append(command)
            return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)

        monkeypatch.setattr(checks, "started", started)
        return commands

    return prepare


def test_tests_count_as_far_as_they_came(played, starts):
    commands = starts("so far: 20 passed, 0 failed, 0 skipped", "..", "so far: 31 passed, 0 failed, 2 skipped")
    checks.other_tests(played)
    assert played.rows == {"rest": {"passed": 31, "failed": 0, "skipped": 2}}
    assert set(checks.OTHERS) < set(commands[0])
    starts("so far: 30 passed, 1 failed, 2 skipped", status=1)
    with pytest.raises(AssertionError, match="rest: not every test passed"):
        checks.other_tests(played)
    starts("so far: 0 passed, 0 failed, 33 skipped")
    with pytest.raises(AssertionError, match="rest: not every test passed"):
        checks.other_tests(played)


@pytest.mark.slow
def test_every_file_with_a_test_that_needs_a_gpu_is_named():
    """Else none of its tests would run on the day."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-m", "gpu", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    found = set(re.findall(r"^(tests/\w+\.py): \d+$", done.stdout, re.MULTILINE))
    named = [*checks.KERNELS, *checks.REFERENCE, *checks.LADDER, *checks.OTHERS]
    assert found == set(named) and len(named) == len(set(named))


@pytest.mark.parametrize(("said", "status", "problem"), [
    ("========= ERROR SUMMARY: 0 errors", 0, None),
    ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, None),
    ("========= ERROR SUMMARY: 3 errors", 1, "memcheck: 3 errors"),
    ("========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", 0, "memcheck: 1 errors"),
    ("========= ERROR SUMMARY: 0 errors", 1, "exit status 1"),
    ("========= Error: Device not supported", 1, "memcheck: no answer"),
])  # fmt: skip
def test_a_sanitizer_is_believed_only_where_it_answers(said, status, problem, played, starts, monkeypatch):
    monkeypatch.setattr(checks, "found_tool", lambda name: name)
    commands = starts("a model", said, status=status)
    if problem:
        with pytest.raises(AssertionError, match=problem):
            checks.memcheck(played)
    else:
        checks.memcheck(played)
        assert played.rows == {"memcheck": {"errors": 0}}
    [command] = commands
    assert command[:3] == ["compute-sanitizer", "--tool", "memcheck"] and "checks.every_kernel" in command


def test_where_there_is_no_sanitizer_it_says_so(played, monkeypatch):
    """And is not taken for a check that was made. Its folder is looked into, also where no path leads there."""
    monkeypatch.setattr(checks.shutil, "which", lambda name, path=None: None)
    ran = []
    monkeypatch.setattr(checks, "every_kernel", ran.append)
    with pytest.raises(bench.Skipped, match="no compute-sanitizer here: every kernel ran without it"):
        checks.memcheck(played)
    assert ran == [played] and played.rows == {}
    monkeypatch.setattr(checks.shutil, "which", lambda name, path=None: path and f"{path}/{name}")
    assert checks.found_tool("ncu") == "/usr/local/cuda/bin/ncu"


def test_every_array_is_an_allocation_of_its_own_while_a_tool_looks(played, monkeypatch):
    used = ["the pool"]
    pool = SimpleNamespace(malloc="the pool")
    cuda = SimpleNamespace(set_allocator=used.append)
    monkeypatch.setattr(bench.gpu, "cupy", SimpleNamespace(get_default_memory_pool=lambda: pool, cuda=cuda))
    during = []
    monkeypatch.setattr(checks, "launch_all", lambda bench, precision: during.append(used[-1]) or 1.0)
    monkeypatch.setattr(played, "wait", lambda: during.append(used[-1]))
    played.precisions = ["float32"]
    checks.every_kernel(played)
    assert during == ["the pool"] * 2, "on a processor"
    played.on_gpu = True
    checks.every_kernel(played)
    assert during[2:] == [None, None] and used[-1] == "the pool"


def test_what_a_program_prints_is_shown_as_far_as_it_came(capsys):
    """Only the lines that are looked for; where it fails its last lines are told."""
    program = [sys.executable, "-c", "print('measured 5 us\\nother', flush=True); raise OSError('no counters')"]
    with pytest.raises(AssertionError, match="(?s)failed:\nmeasured 5 us\nother.*OSError: no counters"):
        others._show(program, others.MEASURED)
    assert capsys.readouterr().out == "measured 5 us\n"


# --- compiled before -------------------------------------------------------------------------------------------------


def test_every_source_that_is_needed_is_compiled_before():
    """Those of GPT-2 small, those of the small training under the tools, and the ladder."""
    with warm.processes() as pool:
        sources = pool.submit(warm.every_source, True).result()
        without = pool.submit(warm.every_source, False).result()
    assert {"product_4_tensor_cores", "attention_1_thread"} < set(sources)
    heads = {re.search(r"HEAD (\d+)", name)[1] for name in sources if name.startswith("attention_mma, bfloat16")}
    assert heads == {"16", "64", "80", "128"}
    assert any(name.startswith("attention_mma, float32") for name in sources), "tf32"
    assert all("__global__" in text for text in sources.values())
    assert not any("bfloat16" in name or "tensor_cores" in name for name in without) and "product_1_thread" in without


def test_a_source_that_cannot_be_compiled_stops_no_other(capsys):
    texts = {"one": "1", "wrong": "x", "two": "2", "wrong too": "y"}
    with warm.processes() as pool:
        assert sorted(warm.compiled(texts, int, pool)) == ["wrong", "wrong too"]
    assert "FAILED wrong: ValueError: invalid literal" in capsys.readouterr().out


def test_a_source_that_takes_long_is_named(capsys, monkeypatch):
    """While it is compiled: at its limit the part is ended."""
    monkeypatch.setattr(warm, "SLOW", 0.1)
    with futures.ThreadPoolExecutor(2) as pool:
        assert warm.compiled({"quick": "0", "slow": "1"}, lambda text: time.sleep(int(text)), pool) == []
    assert capsys.readouterr().out == "not compiled after 0.1 s: slow\n"


# --- predicted and measured ------------------------------------------------------------------------------------------


def test_what_was_measured_is_a_table(results):
    keep = record.Record(results, "a GPU")
    first, *others = PARTS
    rows = {"a step": {"seconds": 0.0345, "tokens/s": 474_000.0}, "a kernel": {"seconds": 0.005, "share": 0.2}}
    driver.keep(keep, Said(), first, runner.Ended("done", 21.4, rows))
    driver.keep(keep, Said(), others[0], runner.Ended("failed", 3.0, {}))
    text = (results / "gpu.md").read_text(encoding="utf-8")
    assert "| facts | done | 21 |" in text and "| right | failed | 3 |" in text
    assert "| a step | seconds 34.500 ms, tokens/s 4.74e+05 |" in text and "| a kernel |" not in text
    assert "# Predicted and measured: a GPU" in text


def row_of(table, what):
    """The cells of one row."""
    [line] = [line for line in table.splitlines() if line.startswith(f"| {what} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_day_decides_between_two_predictions():
    copy = {"per second": 2.15e12}  # half as fast as that of the first prediction
    rows = {"batch 16: step, bfloat16": {"seconds": 0.037}, "bytes of a copy, read and written": copy}
    step = row_of(predictions.table(rows, "a slow card"), "a step, ms")
    assert step == ["37.00", "36.80 to 37.95", "36.02 to 39.19", "both"], "inside both"
    copy["per second"] = 4.3e12
    rows["batch 16: step, bfloat16"]["seconds"] = 0.0345
    step = row_of(predictions.table(rows, "H200"), "a step, ms")
    assert step == ["34.50", "32.00 to 33.00", "32.46 to 35.32", "second"]
    rows["batch 16: step, bfloat16"]["seconds"] = 0.031
    assert row_of(predictions.table(rows, "H200"), "a step, ms")[-1] == "first"
    assert row_of(predictions.table({}, "H200"), "a step, ms") == ["", "32.00 to 33.00", "34.00 to 37.00", ""]


def test_who_predicts_the_nearer_number():
    assert predictions.nearer(5, (1, 2), (6, 7)) == "second"
    assert predictions.nearer(3, (1, 2), (6, 7)) == "first"
    assert predictions.nearer(4, (1, 2), (6, 7)) == "both"
    assert predictions.nearer(4, None, (6, 7)) == predictions.nearer(None, (1, 2), (6, 7)) == ""


@pytest.mark.slow
def test_every_prediction_finds_its_row(played, monkeypatch):
    """The parts write rows; with the names that they have on a GPU every prediction finds a number among them."""
    pytest.importorskip("torch")
    for part_of_a_step in (phases.phases, steps.bfloat16, steps.attention):
        part_of_a_step(played)
    rows = {re.sub("float32", "bfloat16", name).replace("batch 2", "batch 16").replace("2 texts", "16 texts"): row
            for name, row in played.rows.items()}  # fmt: skip
    theirs = rows["batch 16: attention, bfloat16, PyTorch MATH"]
    for kernel in (steps.FLASH, steps.CUDNN):
        rows[f"batch 16: attention, bfloat16, PyTorch {kernel}"] = theirs
    for one in predictions.PREDICTIONS:
        found = one.measured(rows)
        assert found and found > 0, one.what
    whole = sum(one.measured(rows) for one in predictions.PREDICTIONS[1:6])
    dropped = sum(row["seconds"] for name, row in rows.items() if "dropout" in name)
    of_all = sum(row["seconds"] for name, row in rows.items() if row.get("share"))
    assert np.isclose(whole + 1e3 * dropped, 1e3 * of_all), "the parts of a step are all of it"
