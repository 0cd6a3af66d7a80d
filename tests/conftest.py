"""Fixtures for every test: the published data where there is some, and each implementation on each device."""

import functools
import os
from pathlib import Path

import numpy as np
import pytest

from minigpt import ops
from minigpt.backend import cuda_problem, to_device
from minigpt.table import table


@pytest.fixture(scope="session")
def eval_data() -> Path:
    """The folder of published files that MINIGPT_EVAL_DATA names; without one the test is skipped."""
    folder = os.environ.get("MINIGPT_EVAL_DATA")
    if not folder:
        pytest.skip("MINIGPT_EVAL_DATA is not set: it names a folder with the published vocabularies and texts")
    if not Path(folder).is_dir():
        pytest.skip(f"MINIGPT_EVAL_DATA is {folder}, which is not a folder")
    return Path(folder)


@pytest.fixture(autouse=True)
def default_implementation():
    """Whatever a test has put into the table, the next test starts from the default."""
    yield
    ops.use()


@pytest.fixture(params=table.houses)
def implementation(request) -> str:
    """Each implementation of the library in turn: inside the test it is the one that runs."""
    ops.use(request.param)
    return request.param


@functools.cache
def no_gpu() -> str | None:
    """Why there is no GPU to test on."""
    return cuda_problem()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request) -> str:
    """ "cpu", and "cuda" where there is a GPU."""
    if request.param == "cuda" and no_gpu():
        pytest.skip(f"no GPU: {no_gpu()}")
    return request.param


@pytest.fixture
def move(device):
    """A function that puts every array in a value (a list, a tuple, a dict) on the device of this test."""

    def move(value):
        if isinstance(value, np.ndarray):
            return to_device(value, device)
        if isinstance(value, dict):
            return {name: move(item) for name, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(move, value))
        return value

    return move
