"""Threads: their number follows the work, BLAS's own sleep where a product is small, and a given number stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import threadpoolctl

from minigpt import GPT2, GPT2Config
from minigpt.device import threads as threads_file
from minigpt.device.threads import (
    AT_ONCE,
    BLAS_WAITS,
    LONG,
    about_threads,
    fit_threads,
    products_of,
    share,
    stay_awake,
    threads,
)
from minigpt.errors import InputError
from minigpt.models import costs

needs_blas = pytest.mark.skipif(
    not threadpoolctl.threadpool_info(), reason="this NumPy's products take no number of threads"
)


def numbers_of_blas() -> set[int]:
    """How many threads each library of BLAS uses now."""
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


@needs_blas
def test_set_threads(set_threads):
    for number in (1, 2):
        set_threads(number)
        assert threads() == number and numbers_of_blas() == {number}
    for number in (0, -3):
        with pytest.raises(InputError, match=f"--threads {number}: give 1 or more"):
            set_threads(number)


def test_set_threads_holds_before_anything_has_imported_numpy():
    script = """
import sys
from minigpt.device.threads import set_threads
assert "numpy" not in sys.modules
set_threads(1)
from threadpoolctl import threadpool_info
import numpy
print({library["num_threads"] for library in threadpool_info()} <= {1})
"""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "True"


@pytest.fixture
def two_at_first(monkeypatch, set_threads):
    """BLAS has two threads by itself, and no number was given."""
    monkeypatch.setattr(threads_file, "_at_first", lambda: 2)
    monkeypatch.setattr(threads_file, "_given", False)


def test_the_number_of_threads_follows_the_work(two_at_first):
    assert fit_threads(threads_file.SHARED - 1) == threads() == 1
    assert about_threads() == "1 thread, as there is too little work for 2"
    assert fit_threads(threads_file.SHARED) == threads() == 2
    assert about_threads() == "2 threads"


@pytest.mark.parametrize(("given", "told"), [(1, "1 thread"), (2, "2 threads")])
def test_a_number_of_threads_that_was_given_stays(given, told, two_at_first, set_threads):
    set_threads(given)
    for work in (0, threads_file.SHARED):
        assert fit_threads(work) == threads() == given
        assert about_threads() == told


@pytest.mark.parametrize(
    ("sizes", "rows", "number"),
    [((1, 16), 4 * 16, 1), ((2, 64), 4 * 32, 1), ((4, 128), 12 * 64, 2), ((4, 128), 1, 1), ((12, 768), 1, 2)],
    ids=str,
)
def test_the_largest_matrix_and_the_rows_decide(sizes, rows, number, two_at_first):
    """A small model learns with one thread, a larger one with two; and writes, one row at a time, with fewer."""
    layers, width = sizes
    model = GPT2(GPT2Config(vocab_size=512, n_positions=64, n_embd=width, n_layer=layers, n_head=2), seed=None)
    costs.fit_threads(model, rows)
    assert threads() == number


@needs_blas
@pytest.mark.parametrize(("work", "inside"), [(0, 2), (1 << 12, 1), (1 << 20, 2)])
def test_a_small_product_leaves_blas_one_thread(work, inside, set_threads):
    """One that is tiny is made by one thread anyway; a large one that cannot be divided gets all."""
    set_threads(2)
    (seen,) = share(lambda rows: numbers_of_blas(), 1, work=work)
    with products_of(work):
        assert numbers_of_blas() == {2 if work == 1 << 20 else 1}
    assert seen == {inside} and numbers_of_blas() == {2}


@needs_blas
def test_threads_that_share_work_leave_blas_one_thread_each(set_threads):
    set_threads(2)
    seen = share(lambda rows: numbers_of_blas(), 2, work=1 << 20)
    assert seen == [{1}, {1}] and numbers_of_blas() == {2}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system does not tell the time of a thread")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: there is no other thread")
@pytest.mark.parametrize("model", ["gpt2", "lstm"])
def test_a_step_of_a_small_model_wakes_no_other_thread(model):
    """Also in a program that imports NumPy first, whose threads of BLAS stay awake for a tenth of a second."""
    script = f"""
import numpy as np
from pathlib import Path
from minigpt import models
from minigpt.nn.optim import AdamW
sizes = dict(vocab_size=300, n_positions=64, n_embd=64)
if "{model}" == "gpt2":
    sizes |= dict(n_layer=2, n_head=2)
kind = models.card("{model}").model
model = kind(kind.Config(**sizes))
optimizer = AdamW(model.named_parameters())
ids = np.random.default_rng(0).integers(300, size=(4, 64))
def ticks():
    of_thread = {{}}
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        of_thread[task.name] = int(fields[11]) + int(fields[12])
    of_thread.pop(str(min(map(int, of_thread))))
    return sum(of_thread.values())
before = ticks()
for _ in range(40):
    model.zero_grad()
    loss, cache = model.loss(ids, ids)
    model.loss_backward(cache)
    optimizer.step(1e-3, max_norm=1.0)
print(ticks() - before)
"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment.pop("OPENBLAS_THREAD_TIMEOUT", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert int(done.stdout) <= 1, "hundredths of a second of the other threads"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: BLAS has no thread that could wait")
def test_after_a_product_the_threads_of_blas_sleep():
    """Waiting awake they would have 0.1 s of the processor, which the next operation's own threads need."""
    script = """
import minigpt, numpy as np, time
x = np.ones((512, 512), np.float32)
def idle():
    x @ x
    before = time.process_time()
    time.sleep(0.1)
    return time.process_time() - before
print(sorted(idle() for _ in range(5))[2])
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert float(done.stdout) < 0.02


@pytest.mark.parametrize(("command", "given", "expected"), [
    ("chat", None, LONG), ("sample", None, LONG), ("chat", "9", "9"), ("predict", None, AT_ONCE),
])  # fmt: skip
def test_threads_of_blas_stay_awake_where_a_text_is_written(command, given, expected):
    """It is said before NumPy is imported, which reads it."""
    code = f"""
import os, sys, runpy
sys.argv = ["minigpt", {command!r}, "--help"]
try:
    runpy.run_module("minigpt", run_name="__main__")
except SystemExit:
    print(os.environ[{BLAS_WAITS!r}], "numpy" in sys.modules)
"""
    environment = {name: value for name, value in os.environ.items() if name != BLAS_WAITS}
    environment |= {} if given is None else {BLAS_WAITS: given}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{expected} True"


def test_after_numpy_was_imported_nothing_is_said(monkeypatch):
    monkeypatch.setenv(BLAS_WAITS, AT_ONCE)
    stay_awake()
    assert os.environ[BLAS_WAITS] == AT_ONCE
