"""The cases on which every operation is tried: by check, by the tests, in the classroom."""

import numpy as np
import pytest
from helpers import each

from minigpt import ops
from minigpt.ops import reference
from minigpt.ops.cases import NAMES, axes_of, case, cases

EVERY = [(name, axes) for name in NAMES for axes in axes_of(name)]


def forward_of(op):
    return getattr(reference, f"{op}_forward")


def test_every_operation_has_cases_and_every_name_is_used_once():
    assert {case(name).op for name in NAMES} == set(ops.names)
    assert len(set(NAMES)) == len(NAMES)


@each("name, axes", EVERY)
def test_a_case_runs_with_data_of_the_axes_that_it_names(name, axes):
    given = case(name, axes)
    out, _ = given.run(forward_of(given.op))
    shapes = [np.shape(value) for value in (*given.args.values(), out)]
    assert axes in map(len, shapes) and np.isfinite(out).all()


@each("dtype", [np.float16, np.float32, np.float64])
@each("name", NAMES)
def test_floats_are_of_the_dtype_that_is_given(name, dtype):
    _, args, constants = case(name, dtype=dtype).call
    past = constants.pop("past", ())
    values = [*args, *constants.values(), *past]
    floats = [value for value in values if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    assert {value.dtype for value in floats} == {np.dtype(dtype)}


def test_a_case_is_the_same_again_and_another_for_another_seed():
    first, again, other = (case("cross_entropy, weights", seed=seed) for seed in (0, 0, 1))
    for name in ("logits", "targets"):
        assert np.array_equal(first.args[name], again.args[name])
        assert not np.array_equal(first.args[name], other.args[name])
    assert not np.array_equal(first.constants["weights"], other.constants["weights"])


def test_the_first_case_is_tried_on_all_numbers_of_axes_and_the_others_on_one():
    titles = [found.title for found in cases("layernorm")]
    assert titles == ["layernorm 2x3x15", "layernorm 2x3x15, eps 0.1", "layernorm 3x15", "layernorm 2x3x4x15"]


def test_a_query_may_see_nothing_and_another_everything():
    mask = case("attention, mask").constants["mask"]
    assert not mask[1].any() and mask[2].all() and mask.any() and not mask.all()


def test_an_optional_argument_stays_an_argument():
    assert case("linear, no bias").call[1][2] is None


def test_a_number_of_axes_that_a_case_cannot_have():
    with pytest.raises(ValueError, match="attention, padding with 3 axes: choose one of 4"):
        case("attention, padding", 3)


def test_times_changes_floats_alone():
    given = case("embedding")
    large = given.times(1000)
    assert np.array_equal(large.args["w"], 1000 * given.args["w"])
    assert np.array_equal(large.args["ids"], given.args["ids"])
