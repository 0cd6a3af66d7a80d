"""A pair in place: composites and small models run with it, and must give what the library's reference gives.

Alone, a pair is checked against finite differences, thousands of calls. Here one forward and one backward pass beside
those of the reference say as much, and no call more goes to the learner's process.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.gradcheck.checker import compare
from minigpt.gradcheck.diagnosis import only_nearest_to_the_loss
from minigpt.gradcheck.evidence import Evidence
from minigpt.gradcheck.judge import Trial, guarded
from minigpt.gradcheck.results import Result
from minigpt.jobs.check import pair_of, small_models
from minigpt.ops.cases import cases

SPREAD = 0.3  # of the noise that moves parameters off their initial point, where many gradients are special


def in_place(module: Any, written: list[str], seed: int) -> Iterator[Trial]:
    """Trials of an override in the composites that it does not have itself, and in small GPT-1 and GPT-2 models."""
    for op in ops.composites:
        if op not in written:
            case = next(cases(op, seed))
            yield case.title, guarded(_in_a_composite, case, module, seed)
    for name, model, inputs in small_models(seed, n_layer=1):
        _move(model, seed)
        yield name, guarded(_in_a_model, model, inputs, module)


def _in_a_composite(case, module, seed):
    with ops.using("reference"):
        dout, true = case.run_both(*pair_of(ops, case.op), seed)
    with ops.using(module):
        _, mine = case.run_both(*pair_of(ops, case.op), seed)
    return _beside(mine, true, {"out": true["out"], "dout": dout})


def _in_a_model(model, inputs, module):
    with ops.using("reference"):
        true = _gradients(model, inputs)
    with ops.using(module):
        mine = _gradients(model, inputs)
    results = _beside(mine, true, {"out": true["loss"], "dout": np.ones(())})
    return only_nearest_to_the_loss(results, list(true))


def _move(model, seed):
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():
        noise = rng.standard_normal(parameter.data.shape)
        parameter.data = parameter.data + SPREAD * noise  # float32 becomes float64


def _gradients(model, inputs):
    """The loss and the gradient of every parameter, by name."""
    model.zero_grad()
    loss, cache = model.loss(**inputs)
    model.loss_backward(cache)
    found = {"loss": np.asarray(loss)}
    for name, parameter in model.named_parameters():
        found[name] = parameter.data * 0 if parameter.grad is None else parameter.grad
    return found


def _beside(mine: dict, true: dict, known: dict) -> list[Result]:
    """A result for each output and gradient, beside the right ones."""
    return [compare(name, mine[name], right, Evidence(known, {}, name, true)) for name, right in true.items()]
