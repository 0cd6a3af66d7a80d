"""What counts launches in lessons 20 and 22, and what plays a kernel in lesson 21."""

import numpy as np
import pytest

from minigpt import ops
from minigpt.device import gpu
from minigpt.errors import InputError
from minigpt.learn import kernel
from minigpt.learn.counting import (
    LAUNCHES,
    Counted,
    a_gpu_that_does_nothing,
    bare,
    launches_of,
    launches_of_a_step,
)
from minigpt.models.gpt2 import GPT2Config

needs_a_player = pytest.mark.skipif(kernel.place() != "processor", reason="no processor that plays kernels")

ADD_ONE = """
extern "C" __global__ void add_one(float* out, const float* x, float one, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + one;
}
"""


def counted(*shape):
    return np.random.default_rng(0).normal(size=shape).view(Counted)


def test_each_operation_is_counted_with_its_bytes_and_its_work():
    x = counted(5, 7)
    found = launches_of(lambda: (x * x).sum(axis=0) + x.T[0] @ x)
    assert found == [
        ("multiply", 8 * 70, 35, 35), ("add", 8 * 42, 35, 7), ("matmul", 8 * 47, 70, 7), ("add", 8 * 21, 7, 7),
    ]  # fmt: skip


def test_views_are_free_and_copies_are_not():
    x = counted(4, 6)
    assert launches_of(lambda: x.T.reshape(6, 4)[1:3, None]) == []
    assert [one.name for one in launches_of(lambda: x.T.copy())] == ["copy"]
    assert [one.name for one in launches_of(lambda: x.T.reshape(24))] == ["reshape"]


def test_bare_arrays_are_not_counted():
    x = bare(counted(3, 3))
    assert type(x) is np.ndarray and launches_of(lambda: x @ x + x) == []


def test_the_idle_gpu_takes_every_launch_of_a_kernel():
    x, one = counted(4, 8).astype(np.float32), np.ones(8, np.float32).view(Counted)
    LAUNCHES.clear()
    with a_gpu_that_does_nothing(), ops.using("cuda"):
        out, _ = ops.layernorm_forward(x, one, one)
    assert [launch.name for launch in LAUNCHES] == ["layernorm_forward"] and out.shape == x.shape


def test_a_training_step_is_counted_part_by_part():
    small = GPT2Config(vocab_size=9, n_positions=4, n_embd=8, n_layer=1, n_head=2)
    with ops.using("reference"):
        wide = launches_of_a_step(GPT2Config(**vars(small) | {"n_embd": 16}), 2, 3)
        step = launches_of_a_step(small, 2, 3)
    assert step == wide and sum(step) == len(LAUNCHES), "the width does not matter, and every launch is in one part"
    assert min(step) > 0
    with a_gpu_that_does_nothing(), ops.using("cuda"):
        assert launches_of_a_step(small, 2, 3, together=True)[2:] == (0, 3)


@needs_a_player
def test_a_kernel_writes_into_the_given_arrays():
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    kernel.run(ADD_ONE, "add_one", 3, 4, out, x, 1.5, 10)
    assert np.array_equal(out, x + 1.5)
    kernel.run(ADD_ONE, "add_one", 1, (4, 1), out, x, 2, 3)  # a block of 4 threads, of which one has nothing to do
    assert np.array_equal(out, np.r_[x[:3] + 2, x[3:] + 1.5])


@needs_a_player
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("out[i] = x[i] + one;", "wrote out of bounds"),
        ("if (i < n) out[0] = out[0] + x[i];", "a race"),
    ],
)
def test_mistakes_of_a_kernel_are_found(line, said):
    source = ADD_ONE.replace("if (i < n) out[i] = x[i] + one;", line)
    x, out = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)
    with pytest.raises(AssertionError, match=said):
        kernel.run(source, "add_one", 4, 32, out, x, 1.0, 100)
    assert said in kernel.mistake(source, "add_one", 4, 32, out, x, 1.0, 100)


@needs_a_player
def test_a_right_kernel_has_no_mistake():
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    assert kernel.mistake(ADD_ONE, "add_one", 3, 4, out, x, 1.5, 10) == ""
    assert kernel.ran(ADD_ONE, "add_one", 3, 4, out, x, 2.5, 10) and np.array_equal(out, x + 2.5)


def test_without_a_gpu_and_without_a_player_one_line_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(kernel, "PLAYER", tmp_path / "cuda_on_cpu.py")
    monkeypatch.setattr(gpu, "cuda_problem", lambda: "no GPU")
    kernel.problem.cache_clear()
    try:
        assert kernel.place() == "nowhere"
        with pytest.raises(InputError, match="no kernel can be run here: .*copy of the repository"):
            kernel.run(ADD_ONE, "add_one", 1, 4)
        assert kernel.mistake(ADD_ONE, "add_one", 1, 4) == "not checked"
        assert not kernel.ran(ADD_ONE, "add_one", 1, 4)
        assert capsys.readouterr().out.startswith("not run: no GPU, and no tests/cuda_on_cpu.py")
    finally:
        kernel.problem.cache_clear()


@needs_a_player
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("add_two", (), "has no kernel 'add_two'; it has add_one"),
        ("add_one", (1, 2), "takes 4 arguments, not 2"),
        ("add_one", (np.zeros(3), np.zeros(3, np.float32), 1, 3), "not an array of float64"),
        ("add_one", (np.zeros((3, 3), np.float32).T[1:], np.zeros(3, np.float32), 1, 3), "in one piece"),
        ("add_one", (None, np.zeros(3, np.float32), 1, 3), "not NoneType"),
    ],
)
def test_wrong_arguments_get_one_line(name, arguments, said):
    with pytest.raises(InputError, match=said):
        kernel.run(ADD_ONE, name, 1, 4, *arguments)


@needs_a_player
def test_a_source_that_does_not_compile_gets_one_line():
    x = np.zeros(3, np.float32)
    with pytest.raises(InputError, match="does not compile"):
        kernel.run(ADD_ONE.replace("float one", "float two"), "add_one", 1, 4, x, x, 1, 3)
