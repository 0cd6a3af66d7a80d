"""Is it right in its full size? Tests use smaller models, for they compare with a processor."""

import functools
from collections.abc import Callable

import numpy as np

from gpu_parts.bench import Bench, gradients, products_in
from minigpt import ops
from minigpt.device.arrays import to_numpy
from minigpt.nn.optim import AdamW
from minigpt.ops.cuda import products

LOSS = {"float32": 1e-5, "bfloat16": 3e-3}  # how far a loss may be off, relative to it
GRADIENT = 1e-3  # of float32: the largest difference in a tensor over its largest number
COSINE = 0.98  # of bfloat16: the least cosine of the angle between a gradient and the exact one
STEPS, STEPS_OFF = 20, 1e-5
COPIES, COPIES_OFF = 4, 1e-4


def right(bench: Bench) -> None:
    """Every check is made, also after one that fails. Raises AssertionError, with all that is wrong."""
    wrong = []
    checks: dict[str, Callable] = {"steps as on the CPU": steps_as_on_the_cpu}
    for precision in bench.dtypes:
        checks[f"against the reference, {precision}"] = functools.partial(against_the_reference, precision=precision)
    for precision in bench.precisions:
        checks[f"twice, {precision}"] = functools.partial(the_same_bits_twice, precision=precision)
    checks["the same texts four times"] = the_same_texts_four_times
    for name, check in checks.items():
        try:
            check(bench)
        except Exception as error:  # out of memory, perhaps: the others can be made
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            print(f"WRONG: {name}: {kind}{error}", flush=True)
            wrong.append(name)
        bench.free()
    print("kinds of products in which cuBLASLt failed:", products.FAILED or "none")
    assert not wrong, f"wrong: {', '.join(wrong)}"
    print("right: everything agrees")


def against_the_reference(bench: Bench, precision: str) -> None:
    """Loss and gradients of two texts, against the reference in float32 on the same device."""
    config = bench.config()
    ids, targets = bench.texts(2, config)
    with ops.using("reference"):
        exact_loss, exact = gradients(bench.model(config), ids, targets)
    loss, found = gradients(bench.model(config, precision), ids, targets)
    off = abs(float(loss) / float(exact_loss) - 1)
    name = f"right: {precision} against the reference"
    if precision == "float32":
        worst, tensor = max((_error(found[key], exact[key]), key) for key in exact)
        bench.note(name, loss=float(loss), **{"loss off": off, "worst gradient": worst, "of": tensor})
        assert worst <= GRADIENT, f"the gradient of {tensor} is off by {worst:.1e}, and not by {GRADIENT} at most"
    else:
        least, tensor = min((_cosine(found[key], exact[key]), key) for key in exact)
        bench.note(name, loss=float(loss), **{"loss off": off, "least cosine": least, "of": tensor})
        assert least >= COSINE, f"the cosine of the gradient of {tensor} is {least:.3f}, and not {COSINE} at least"
    assert off <= LOSS[precision], f"the loss is off by {off:.1e}, and not by {LOSS[precision]} at most"


def steps_as_on_the_cpu(bench: Bench) -> None:
    """Twenty updates in float32; on a processor its fast operations are compared with the reference."""
    config = bench.config(n_positions=32 if bench.quick else 128)
    there = _losses(bench, config, bench.device)
    if bench.on_gpu:
        here = _losses(bench, config, "cpu")
    else:
        with ops.using("reference"):
            here = _losses(bench, config, "cpu")
    off = float(np.abs(there / here - 1).max())
    fell = float(here[0] - here[-1])
    bench.note(f"right: {STEPS} steps as on the CPU", **{"losses off": off, "fell by": fell})
    assert fell > 0, "the loss has not fallen"
    assert off <= STEPS_OFF, f"a loss is off by {off:.1e}, and not by {STEPS_OFF} at most"


def the_same_bits_twice(bench: Bench, precision: str) -> None:
    """Two forward and backward passes of a whole batch: every gradient has the same bits, and is finite."""
    config = bench.config()
    ids, targets = bench.texts(bench.batch, config)
    model = bench.model(config, precision)
    with products_in(precision):
        one, first = gradients(model, ids, targets)
        first = {name: gradient.copy() for name, gradient in first.items()}
        two, second = gradients(model, ids, targets)
    differ = [name for name in first if bool((first[name] != second[name]).any())]
    infinite = [name for name, gradient in second.items() if not np.isfinite(float(abs(gradient).max()))]
    name = f"right: {bench.batch} texts twice, {precision}"
    row = {"tensors that differ": len(differ), "GB": bench.held() / 1e9}
    bench.note(name, loss=float(one), again=float(two), **row)
    assert not infinite, f"gradients that are not finite: {infinite[:3]}"
    assert not differ and float(one) == float(two), f"two runs do not have the same bits: {differ[:3]}"


def the_same_texts_four_times(bench: Bench) -> None:
    """A batch four times as large has the same mean loss: larger offsets, and the head in more parts."""
    config = bench.config()
    ids, targets = bench.texts(bench.batch, config)
    model = bench.model(config, bench.lowest)
    one, _ = gradients(model, ids, targets)
    many, _ = gradients(model, np.tile(ids, (COPIES, 1)), np.tile(targets, (COPIES, 1)))
    off = abs(float(many) / float(one) - 1)
    bench.note(f"right: {COPIES * bench.batch} texts, {bench.lowest}", loss=float(many), **{"loss off": off})
    assert off <= COPIES_OFF, f"the loss is off by {off:.1e}, and not by {COPIES_OFF} at most"


def _losses(bench: Bench, config, device: str) -> np.ndarray:
    """The losses of some updates on one text."""
    model = bench.model(config, device=device)
    optimizer = AdamW(model.named_parameters())
    ids, targets = bench.texts(1, config)
    losses = []
    for _ in range(STEPS):
        loss, _ = gradients(model, ids, targets)
        optimizer.step(1e-4, 1.0)
        losses.append(loss)
    return np.array([float(loss) for loss in losses])


def _error(found, exact) -> float:
    """The largest difference over the largest number."""
    return float(abs(found - exact).max() / abs(exact).max())


def _cosine(found, exact) -> float:
    """Of the angle between two gradients, summed in float64 on the host."""
    a, b = (to_numpy(x).astype(np.float64).ravel() for x in (found, exact))
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
