"""What several tests need: arrays found in any value, errors of tensors, small models."""

import dataclasses
import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from minigpt import GPT1, GPT2, gradcheck, ops
from minigpt.device import gpu
from minigpt.device.arrays import named_dtype, to_numpy
from minigpt.files import disk
from minigpt.files.checkpoint import load_tensors
from minigpt.jobs.pretrain import step
from minigpt.nn import optim
from minigpt.nn.module import Parameter
from minigpt.ops.cases import KEY

__all__ = [
    "KEY", "Along", "Repeated", "arrays_in", "as_another_program", "as_tuple", "batch", "check_along",
    "check_every_entry", "compiled_by_nvrtc", "each", "error", "floats_in", "kept_bytes", "learn_by_heart", "moved",
    "played_or_cuda", "published", "repeat_steps", "same", "same_weights", "small_gpt1", "small_gpt2",
    "snapshot", "tolerance",
]  # fmt: skip

TESTS = Path(__file__).parent


def arrays_in(value) -> list:
    """Every array inside nested lists, tuples and dicts."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [array for item in value for array in arrays_in(item)]


def floats_in(value) -> list:
    """The floating-point arrays among them."""
    return [array for array in arrays_in(value) if array.dtype.kind == "f"]


def snapshot(value) -> list[np.ndarray]:
    """Copies of all arrays, to compare with later."""
    return [np.array(to_numpy(array)) for array in arrays_in(value)]


def same(a: list, b: list) -> bool:
    """The same arrays, bit for bit."""
    return [x.shape for x in a] == [y.shape for y in b] and all(map(np.array_equal, map(_bits, a), map(_bits, b)))


def _bits(array) -> np.ndarray:
    return np.frombuffer(array.tobytes(), np.uint8)


def error(a, b) -> float:
    """Relative error of one tensor: the largest difference over the largest number."""
    a, b = np.asarray(to_numpy(a), np.float64), np.asarray(to_numpy(b), np.float64)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    if a.size == 0:
        return 0.0
    size = max(np.abs(a).max(), np.abs(b).max())
    return float(np.abs(a - b).max() / size) if size else 0.0


def tolerance(dtype) -> float:
    """What rounding may cost, as a relative error of one tensor."""
    return {"float64": 1e-12, "float32": 2e-6}[np.dtype(dtype).name]


def as_tuple(gradients) -> tuple:
    """A backward's result, a single gradient too, as a tuple."""
    return gradients if isinstance(gradients, tuple) else (gradients,)


class Along:
    """A model whose parameters are steps along random directions, two for each tensor, for `gradcheck.check_model`.

    A direction moves every entry of a tensor, so that one wrong entry makes the derivative along it wrong; and a tensor
    of a hundred entries needs four losses in place of two hundred. The model is left where it was checked: every entry
    of its parameters is moved by normal noise of standard deviation `spread`.
    """

    def __init__(self, model, spread=0.1, seed=2):
        rng = np.random.default_rng(seed)
        self.model = model
        self.tensors = dict(model.named_parameters())
        self.start, self.directions, self.steps = {}, {}, {}
        for name, parameter in self.tensors.items():
            shape = parameter.data.shape
            self.start[name] = parameter.data + spread * rng.standard_normal(shape)
            self.directions[name] = 0.3 * rng.standard_normal((2, *shape))
            self.steps[name] = Parameter(np.zeros(2))
        self.at = {}

    def named_parameters(self):
        return iter(self.steps.items())

    def zero_grad(self) -> None:
        self.model.zero_grad()
        for along in self.steps.values():
            along.grad = None

    def loss(self, *inputs, **options):
        for name, along in self.steps.items():
            at = along.data.tobytes()
            if self.at.get(name) != at:
                self.tensors[name].data = self._placed(name)
                self.at[name] = at
        return self.model.loss(*inputs, **options)

    def loss_backward(self, cache, dloss=1.0) -> None:
        self.model.loss_backward(cache, dloss)
        for name, parameter in self.tensors.items():
            assert np.array_equal(parameter.data, self._placed(name)), f"a pass writes into {name}"
            if parameter.grad is not None:
                directions = self.directions[name].astype(parameter.data.dtype)
                assert parameter.grad.shape == parameter.data.shape, f"the gradient of {name} has another shape"
                self.steps[name].grad = np.tensordot(directions, parameter.grad, axes=parameter.grad.ndim)

    def _placed(self, name):
        """The values of a parameter after its steps."""
        steps = self.steps[name].data
        start, directions = self.start[name].astype(steps.dtype), self.directions[name].astype(steps.dtype)
        return start + np.tensordot(steps, directions, axes=1)


def check_along(model, *inputs, **options) -> None:
    """Checks the gradient of every parameter of a model along two random directions.

    A derivative along a direction is a sum over all entries, and differences give it less exactly than that by one of
    them: to about 1e-8, so that 1e-6 stands for what is happy.
    """
    _check(Along(model), inputs, options | {"spread": 0}, happy=1e-6)


def check_every_entry(model, *inputs, **options) -> None:
    """Checks every entry of the gradient of every parameter of a model."""
    _check(model, inputs, options, gradcheck.HAPPY)


def _check(model, inputs, options, happy):
    results = gradcheck.check_model(model, *inputs, **options)
    assert [result.name for result in results] == [name for name, _ in model.named_parameters()]
    assert gradcheck.worst(results).error < happy, gradcheck.table(results)


def each(argument: str, values: Iterable | Callable) -> Callable:
    """In place of pytest.mark.parametrize where checks are many and quick: one test makes the check for each value.

    All values that fail are told. They share the fixtures of the test, so what a check changes, it sets each time.

    argument: a name, or several separated by commas. values: as for pytest, or a function of the argument `op` that
    gives them.
    """
    names = [name.strip() for name in argument.split(",")]

    def decorate(check):
        @functools.wraps(check)
        def test(**given):
            chosen = list(values(given["op"]) if callable(values) else values)
            assert chosen, f"no {argument}"
            failures = []
            for value in chosen:
                several = dict(zip(names, value if len(names) > 1 else [value], strict=True))
                try:
                    check(**given, **several)
                except (Exception, pytest.fail.Exception) as problem:
                    failures.append(_told(several, problem))
            if failures:
                pytest.fail("\n".join(failures), pytrace=False)

        signature = inspect.signature(check)
        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        test.__signature__ = signature.replace(parameters=left)
        return test

    return decorate


def _name_of(value) -> object:
    """The name of a function, of a file or of a piece of the museum; any other value itself."""
    return getattr(value, "__name__", None) or getattr(value, "name", value)


def _told(values, problem) -> str:
    """A failure, after the values that it was found with."""
    which = ", ".join(f"{name}={_name_of(value)}" for name, value in values.items())
    if isinstance(problem, pytest.fail.Exception):
        return "\n".join(f"{which}, {line}" for line in str(problem).splitlines())
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if Path(frame.filename).parent == TESTS]
    return f"{which}: line {frames[-1].lineno}: {type(problem).__name__}: {problem}"


class Repeated:
    """What `Recorded` does with the inputs of a function, without a GPU: they stay where they are."""

    def __init__(self, function):
        self.function, self.inputs = function, None

    def __call__(self, *arrays):
        self.inputs = self.inputs or [array.copy() for array in arrays]
        for mine, given in zip(self.inputs, arrays, strict=True):
            mine[...] = given
        return self.function(*self.inputs)


def repeat_steps(monkeypatch, repeats=True) -> None:
    """Training steps repeat what was recorded at the first one, as on a GPU; or never do."""
    monkeypatch.setattr(step, "Recorded", Repeated)
    monkeypatch.setattr(step, "_is_recorded", lambda job, batch: repeats)


def small_model(kind, sizes: dict, dtype=np.float64, dropout=0.0, spread=0.3, seed=0):
    """A model of this class and these sizes, as `moved` leaves it. dropout: at all of its places."""
    fields = {field.name for field in dataclasses.fields(kind.Config)}
    rates = {name: dropout for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop") if name in fields}
    model = kind(kind.Config(**rates | sizes), seed=seed, dtype=dtype)
    return moved(model, spread, seed + 1)


def moved(model, spread=0.3, seed=1):
    """The model, with every parameter off its initial point, where errors could hide."""
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():
        data = parameter.data
        data += spread * rng.standard_normal(data.shape).astype(data.dtype)
    return model


def same_weights(*models) -> bool:
    """Have two models the same parameters, bit for bit?"""
    return same(*(snapshot([parameter.data for parameter in model.parameters()]) for model in models))


def published(model) -> dict[str, np.ndarray]:
    """The parameters of a model under the names that they have in files."""
    return model.to_published({name: parameter.data for name, parameter in model.named_parameters()})


def kept_bytes(model, cache) -> int:
    """What a cache keeps alive beside the parameters of its model."""
    own = {id(parameter.data) for parameter in model.parameters()}
    return sum(a.nbytes for a in ops.arrays(cache).values() if id(a) not in own and id(a.base) not in own)


def as_another_program(folder, change=lambda tensors: tensors, **values) -> None:
    """The folder as another program wrote it: with these tensors, and config.json with other values, ... for none."""
    tensors, _ = load_tensors(folder / "model.safetensors")
    changed = {name: np.ascontiguousarray(tensor) for name, tensor in change(tensors).items()}
    safetensors.numpy.save_file(changed, folder / "model.safetensors", {"format": "pt"})
    config = disk.read_json(folder / "config.json") | values
    disk.write_json(folder / "config.json", {key: value for key, value in config.items() if value is not ...})


def small_gpt1(dtype=np.float64, seed=0, dropout=0.0, moved=True, **sizes) -> GPT1:
    """A GPT-1 of odd sizes. moved: every parameter is off its initial point, where errors could hide."""
    return _small(GPT1, dtype, seed, dropout, moved, sizes)


def small_gpt2(dtype=np.float64, seed=0, dropout=0.0, moved=True, **sizes) -> GPT2:
    """A GPT-2 of the same odd sizes."""
    return _small(GPT2, dtype, seed, dropout, moved, sizes)


def _small(kind, dtype, seed, dropout, moved, sizes):
    sizes = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2} | sizes
    return small_model(kind, sizes, dtype, dropout, 0.3 if moved else 0.0, seed)


def batch(model, rows=3, length=5, seed=0) -> tuple[np.ndarray, np.ndarray]:
    """Random ids and targets (rows, length) for a model."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(model.config.vocab_size, size=(rows, length + 1))
    return ids[:, :-1].copy(), ids[:, 1:].copy()


def learn_by_heart(model, steps: int, *given, rule=optim.AdamW, **inputs):
    """The last loss of a model that is trained on one batch, which is given as to `model.loss`.

    The rate is 0.01, and falls to nothing in the second half. With a constant one the loss jumps now and then, and when
    it does depends on the rounding of a processor.
    """
    optimizer = rule(model.named_parameters())
    for left in range(steps, 0, -1):
        model.zero_grad()
        loss, cache = model.loss(*given, **inputs)
        model.loss_backward(cache)
        optimizer.step(1e-2 * min(1, 2 * left / steps))
    return loss


def is_rounded(parameter) -> bool:
    """Is there a copy in bfloat16, rounded from the weights as they are? Those of a LayerNorm have none."""
    if parameter.always_wide:
        return parameter.low is None
    return same([parameter.low], [parameter.data.astype(named_dtype("bfloat16"))])


def played_or_cuda(request) -> str:
    """For a fixture with the parameters "played" and "cuda": the device of the arrays of a test.

    "cpu", where the kernels are played on a processor, or "cuda". Where there is no GPU for that, the test is skipped.
    """
    pytest.importorskip("ml_dtypes")
    if request.param == "played":
        request.getfixturevalue("kernels_on_cpu")
        return "cpu"
    problem = gpu.cuda_problem()
    if problem:
        pytest.skip(f"no GPU: {problem}")
    return "cuda"


def compiled_by_nvrtc(text: str, name: str, architecture: str) -> bytes:
    """What NVRTC makes of a source, with CuPy's options. Needs no driver; without NVRTC the test is skipped."""
    pytest.importorskip("cupy")
    from cupy.cuda import nvrtc

    try:
        nvrtc.getVersion()
    except Exception as problem:
        pytest.skip(f"CuPy finds no NVRTC: {str(problem).splitlines()[0]}")
    program = nvrtc.createProgram(text, name, [], [])
    try:
        nvrtc.compileProgram(program, ("-std=c++14", "-ftz=true", f"-arch={architecture}"))
    except nvrtc.NVRTCError as error:
        pytest.fail(f"{name}, {architecture}: {error}\n{nvrtc.getProgramLog(program)}")
    return nvrtc.getPTX(program)
