"""What a training step costs the host of a GPU: upper limits of launches, products and other calls.

They are counted by benchmarks/host_cost.py, with stand-ins for CuPy, the kernels and cuBLASLt. Whoever makes them fewer
lowers the limit; whoever makes them more says in the commit why.
"""

import re
import sys
from pathlib import Path

import pytest

from minigpt.learn import counting
from minigpt.ops.cuda import cublaslt, kernels

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
LESSONS = BENCHMARKS.parent / "lessons"
STEP = {"launches": 174, "products": 150, "graphs": 0, "calls": 23, "allocations": 488, "uploads": 2, "reads": 0}
TWO_PARTS = {"launches": 345, "products": 300, "graphs": 0, "calls": 192, "allocations": 972, "uploads": 4, "reads": 0}
RECORDED = {"launches": 3, "products": 0, "graphs": 1, "calls": 4, "allocations": 6, "uploads": 2, "reads": 0}
TOKEN = {"launches": 75, "products": 49, "graphs": 0, "calls": 28, "allocations": 191, "uploads": 1, "reads": 2}
RECORDED_TOKEN = {"launches": 0, "products": 0, "graphs": 1, "calls": 4, "allocations": 4, "uploads": 2, "reads": 2}


@pytest.fixture
def host_cost(monkeypatch):
    """The benchmark, with its stand-ins in place until the test ends."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import host_cost

    host_cost.install(monkeypatch.setattr)
    yield host_cost
    for cache in (kernels._compiled, cublaslt._library, cublaslt._device):
        cache.cache_clear()
    sys.modules.pop("host_cost", None)


def assert_at_most(counted: dict[str, int], limits: dict[str, int]) -> None:
    """No column is above its limit, and something was counted."""
    assert counted["launches"] + counted["graphs"] > 0
    above = {column: (counted[column], limit) for column, limit in limits.items() if counted[column] > limit}
    assert not above, f"more calls than before, as (counted, limit): {above}"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("parts", "recorded", "limits"), [(1, False, STEP), (2, False, TWO_PARTS), (1, True, RECORDED), (2, True, RECORDED)]
)
def test_a_training_step_makes_no_more_calls(parts, recorded, limits, dtype, host_cost, monkeypatch):
    row = host_cost.training_step(monkeypatch.setattr, recorded, timed=False, dtype=dtype, accumulate=parts)
    assert_at_most(row, limits)
    assert row["graphs"] == recorded


@pytest.mark.parametrize(("recorded", "limits"), [(False, TOKEN), (True, RECORDED_TOKEN)])
def test_a_decoded_token_makes_no_more_calls(recorded, limits, host_cost, monkeypatch):
    row = host_cost.decoded_token(monkeypatch.setattr, recorded, timed=False)
    assert_at_most(row, limits)
    assert row["graphs"] == recorded


def test_what_is_counted(host_cost, monkeypatch):
    """A view is free, an operation in place takes no memory, a copy of an index does."""
    xp = host_cost.strict_cupy.cupy
    x = xp.ones((4, 3))
    index = xp.arange(2)

    def count(function) -> dict[str, int]:
        return {name: n for name, n in host_cost.counted(function).items() if n}

    assert count(lambda: (x.T, x[1:], x.reshape(-1), x.astype(float, copy=False), xp.ascontiguousarray(x))) == {}
    assert count(lambda: x.__iadd__(1)) == {"calls": 1}
    assert count(lambda: xp.add(x, 1, out=x)) == {"calls": 1}
    assert count(lambda: x.__setitem__(0, 1)) == {"calls": 1}
    assert count(lambda: x + 1) == count(lambda: x.astype(float)) == {"calls": 1, "allocations": 1}
    assert count(lambda: x.T.reshape(-1)) == count(lambda: x[index]) == {"calls": 1, "allocations": 1}
    assert count(lambda: xp.empty(3)) == {"allocations": 1}
    assert count(lambda: float(x[0, 0])) == count(lambda: xp.asnumpy(x)) == {"reads": 1}
    assert count(lambda: xp.asarray(host_cost.np.ones(3))) == {"uploads": 1, "allocations": 1}


def test_the_lesson_and_the_benchmark_have_one_cost_of_a_launch(host_cost):
    """Each takes it from one place, and has no number of its own."""
    assert host_cost.LAUNCH is counting.LAUNCH
    for number in (20, 22):
        text = next(LESSONS.glob(f"{number}_*.py")).read_text(encoding="utf-8")
        assert "from minigpt.learn.counting import LAUNCH\n" in text and not re.search(r"^LAUNCH\w* = \d", text, re.M)
