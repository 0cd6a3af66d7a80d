"""What a model costs is computed from its sizes: by one traced step of a tiny model, and not by making the model."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

import minigpt
from minigpt import GPT1, GPT2, GPT2Config, models, ops
from minigpt.models import costs

PACKAGE = str(Path(minigpt.__file__).parent)
SIZES = {"n_embd": 48, "n_positions": 64, "vocab_size": 500}


def calls_in_the_package(function, *arguments) -> int:
    """How many calls of the package's own Python functions one call makes.

    It is made twice, and the second is counted: arguments that were checked once are not checked again.
    """
    function(*arguments)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("kind", [GPT1, GPT2])
def test_a_step_costs_one_traced_step_to_foresee(kind):
    """Half the calls trace a step of a tiny model of two blocks, the others list the parameters of the whole one."""
    assert 0 < calls_in_the_package(costs.memory, kind, kind.Config(**SIZES), 8) < 3900
    assert 0 < calls_in_the_package(costs.activations, kind, kind.Config(**SIZES), 8, 64) < 2400


@pytest.mark.parametrize("changes", [{"n_embd": 192}, {"n_positions": 256}, {"vocab_size": 2000}])
def test_a_larger_model_does_not_cost_more_to_foresee(changes):
    """Four times as large in one direction; calls are counted, and not what they take."""
    small = GPT2Config(**SIZES)
    large = dataclasses.replace(small, **changes)
    few, many = (calls_in_the_package(costs.memory, GPT2, config, 8) for config in (small, large))
    assert few == many
    assert costs.memory(GPT2, large, 8).total > costs.memory(GPT2, small, 8).total


def test_a_deeper_model_traces_no_more_steps():
    few, many = (calls_in_the_package(costs.activations, GPT2, GPT2Config(n_layer=n, **SIZES), 8, 64) for n in (2, 48))
    assert few == many


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnyWidthInside(GPT2Config):
    """A configuration that says how wide its MLPs are inside."""

    n_inner: int | None = None


@pytest.mark.parametrize("n_inner", [None, 192, 100])
def test_the_width_inside_an_mlp_counts(n_inner):
    sizes = {"vocab_size": 50, "n_positions": 6, "n_embd": 48, "n_layer": 2, "n_head": 2}
    config = AnyWidthInside(n_inner=n_inner, **sizes)
    model = GPT2(config)
    ids = np.zeros((3, 6), int)
    _, cache = model.loss(ids, ids)
    parameters = {id(parameter.data) for parameter in model.parameters()}
    arrays = ops.arrays(cache).values()
    kept = sum(a.nbytes for a in arrays if id(a) not in parameters and id(a.base) not in parameters)
    assert costs.activations(GPT2, config, 3, 6) == kept
    assert costs.count(GPT2, config) == sum(parameter.data.size for parameter in model.parameters())
    in_mlps = 2 * 2 * 48 * (n_inner or 192)
    assert costs.flops_per_token(GPT2, config)[0] == 2 * (50 * 48 + 2 * 4 * 48 * 48 + in_mlps) + 4 * 2 * 6 * 48


@pytest.mark.parametrize(("name", "own"), [
    ("t5", {"d_kv": 5, "d_ff": 7}), ("mistral", {"head_size": 6, "n_kv_head": 2, "sliding_window": None}),
])  # fmt: skip
def test_operations_of_heads_that_do_not_share_the_width(name, own):
    """Twice the context: 4 NH D more for each added position and attention."""
    kind = models.card(name).model
    sizes = {"vocab_size": 50, "n_embd": 16, "n_layer": 1, "n_head": 2}
    few, many = (costs.flops_per_token(kind, kind.Config(n_positions=n, **sizes, **own))[0] for n in (8, 16))
    n_attentions = 3 if name == "t5" else 1
    assert many - few == n_attentions * 4 * 8 * 2 * own.get("d_kv", own.get("head_size"))
