"""Cases: the inputs on which every operation is tried, by `minigpt check`, by the tests and in the classroom.

    for case in cases("layernorm"):
        out, cache = case.run(ops.layernorm_forward)
    op, args, constants = case("attention, mask", axes=4, dtype=np.float32).call

A case starts from the example that the shape line of its operation gives (`minigpt.ops.shapes`); what differs stands in
one line of RECIPES; an optional input is there only if that line has it. To add a case, add a line: each keyword is an
argument or a constant of the forward function. A value is drawn anew for each case where it is `Drawn`; its axes are
written as in a shape line.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from minigpt.ops import reference, shapes
from minigpt.ops.random_keys import Key
from minigpt.ops.targets import IGNORED

KEY = Key.of(1, 2)


class Case(NamedTuple):
    """One input of one operation: `op_forward(*args.values(), **constants)`."""

    name: str
    op: str
    args: dict[str, Any]
    constants: dict[str, Any]

    @property
    def title(self) -> str:
        """The name with the shape of the argument with the most axes: "layernorm 2x3x15, eps 0.1"."""
        largest = max(map(np.shape, self.args.values()), key=len)
        _, comma, what = self.name.partition(", ")
        return f"{self.op} {'x'.join(map(str, largest))}{comma}{what}"

    @property
    def call(self) -> tuple[str, list, dict]:
        """(operation, arguments in order, constants): what tests need most."""
        return self.op, list(self.args.values()), self.constants

    def run(self, forward: Callable) -> Any:
        """What this forward function returns."""
        return forward(*self.args.values(), **self.constants)

    def run_both(self, forward: Callable, backward: Callable, seed: int = 0) -> tuple[np.ndarray, dict[str, Any]]:
        """dout, which is random, and by name what comes out: "out", and the gradient of each float argument."""
        out, cache = self.run(forward)
        dout = np.random.default_rng(seed).standard_normal(np.shape(out))[()]
        gradients = backward(dout, cache)
        if not isinstance(gradients, (tuple, list)):
            gradients = [gradients]
        given = [gradient for gradient in gradients if gradient is not None]
        names = [name for name, value in self.args.items() if _is_float(value)]
        return dout, dict(zip(["out", *names], [out, *given], strict=True))

    def times(self, factor: float) -> "Case":
        """The same case with all floats among the arguments times a factor."""
        args = {name: value * factor if _is_float(value) else value for name, value in self.args.items()}
        return self._replace(args=args)


class Drawn(NamedTuple):
    """A value that is drawn for each case: draw(rng, shape), where shape is that of these axes, such as "B,NH,T,T"."""

    draw: Callable
    axes: str


class Recipe(NamedTuple):
    """How a case differs from the example that the shape line gives."""

    name: str
    changes: dict[str, Any]
    sizes: dict[str, int]
    axes: tuple[int, ...]

    @property
    def op(self) -> str:
        """The operation: what stands before the comma."""
        return self.name.partition(",")[0]


def numbers(rng, shape):
    """Floats of ordinary size."""
    return rng.standard_normal(shape)


def positive(rng, shape):
    """Floats from 0.5 to 2, for weights."""
    return rng.uniform(0.5, 2, shape)


def keys_and_values(rng, shape):
    """A past: keys and values of earlier positions."""
    return numbers(rng, shape), numbers(rng, shape)


def mask(rng, shape):
    """A boolean mask (..., queries, keys): query 1 may see nothing, query 2 everything."""
    visible = rng.random(shape) < 0.6
    visible[..., 1, :] = False
    visible[..., 2, :] = True
    return visible


def window(rng, shape):
    """A boolean mask (queries, keys): each query sees its own key and the one before it."""
    queries = np.arange(shape[-2])[:, None]
    keys = np.arange(shape[-1])
    return (keys <= queries) & (keys > queries - 2)


def cosines(rng, shape):
    """Cosines of some angles."""
    return np.cos(np.arange(np.prod(shape)).reshape(shape))


def sines(rng, shape):
    """Sines of the same angles."""
    return np.sin(np.arange(np.prod(shape)).reshape(shape))


def padding(rng, shape):
    """A boolean mask (B, 1, 1, keys): the last two keys of the last row are hidden from all queries."""
    visible = np.ones(shape, bool)
    visible[-1, ..., -2:] = False
    return visible


def some_targets(rng, shape):
    """Targets, one of which is ignored."""
    targets = rng.integers(shapes.SIZES["V"], size=shape)
    targets.flat[1] = IGNORED
    return targets


def _recipe(name, *, sizes=None, axes=(), **changes):
    """sizes: letters of the shape line with other sizes; axes: the only numbers of axes that this case has."""
    return Recipe(name, changes, sizes or {}, axes)


SOME = Drawn(some_targets, "*")
WEIGHTS = Drawn(positive, "*")
MASK = Drawn(mask, "T,S")

RECIPES = (  # the first of an operation is tried on all its numbers of axes
    _recipe("linear"),
    _recipe("linear, no bias", b=None),
    _recipe("embedding"),
    _recipe("softmax"),
    _recipe("attention"),
    _recipe("attention, as many keys", sizes={"S": 4}),
    _recipe("attention, fewer keys", sizes={"S": 3}),
    _recipe("attention, mask", mask=MASK),
    _recipe("attention, mask of each head", mask=Drawn(mask, "*,T,S")),
    _recipe("attention, padding", mask=Drawn(padding, "B,1,1,S"), axes=(4,)),
    _recipe("attention, dropout", rate=0.3, key=KEY),
    _recipe("attention, mask and dropout", mask=MASK, rate=0.3, key=KEY),
    _recipe("attention, scale", scale=0.7),
    _recipe("attention, bias", bias=Drawn(numbers, "*,T,S")),
    _recipe("attention, bias of each head", bias=Drawn(numbers, "1,NH,T,S"), mask=MASK, axes=(4,)),
    _recipe("attention, bias of each place", bias=Drawn(numbers, "T,S"), mask=MASK, rate=0.3, key=KEY, scale=0.7),
    _recipe("gelu"),
    _recipe("gelu_exact"),
    _recipe("relu"),
    _recipe("silu"),
    _recipe("layernorm"),
    _recipe("layernorm, eps 0.1", eps=0.1),
    _recipe("dropout", rate=0.3, key=KEY),
    _recipe("dropout, evaluation", rate=0.3, key=None),
    _recipe("cross_entropy"),
    _recipe("cross_entropy, ignored targets", targets=SOME),
    _recipe("cross_entropy, weights", targets=SOME, weights=WEIGHTS),
    _recipe("cross_entropy, normalizer", targets=SOME, normalizer=7.5),
    _recipe("lstm"),
    _recipe("rmsnorm"),
    _recipe("rmsnorm, eps 0.1", eps=0.1),
    _recipe("rope", cos=Drawn(cosines, "T,3"), sin=Drawn(sines, "T,3")),
    _recipe("rope, neighbours", cos=Drawn(cosines, "T,3"), sin=Drawn(sines, "T,3"), pairing="neighbours"),
    _recipe("rope, part of a head", cos=Drawn(cosines, "T,2"), sin=Drawn(sines, "T,2")),
    _recipe("rope, some heads", cos=Drawn(cosines, "T,3"), sin=Drawn(sines, "T,3"), heads=2),
    _recipe("rope, places of each text", cos=Drawn(cosines, "B,T,3"), sin=Drawn(sines, "B,T,3")),
    _recipe("soft_cross_entropy"),
    _recipe("soft_cross_entropy, temperature", temperature=2.5),
    _recipe("soft_cross_entropy, weights", temperature=2.0, weights=WEIGHTS),
    _recipe("soft_cross_entropy, normalizer", normalizer=7.5),
    _recipe("cosine_loss"),
    _recipe("cosine_loss, eps 0.1", eps=0.1),
    _recipe("cosine_loss, weights", weights=WEIGHTS),
    _recipe("cosine_loss, normalizer", normalizer=7.5),
    _recipe("mlp"),
    _recipe("mlp, exact GELU", activation="gelu_exact"),
    _recipe("mlp, ReLU", activation="relu"),
    _recipe("mlp, SiLU", activation="silu"),
    _recipe("gated_mlp"),
    _recipe("gated_mlp, GELU and dropout", activation="gelu", rate=0.3, key=KEY),
    _recipe("self_attention"),
    _recipe("self_attention, mask", mask=Drawn(mask, "T,T")),
    _recipe("self_attention, mask of each head", mask=Drawn(mask, "1,NH,T,T")),
    _recipe("self_attention, padding", mask=Drawn(padding, "B,1,1,T")),
    _recipe("self_attention, dropout", rate=0.3, key=KEY),
    _recipe("self_attention, scale", scale=0.7),
    _recipe("self_attention, bias", bias=Drawn(numbers, "B,NH,T,T")),
    _recipe("self_attention, bias of each head", bias=Drawn(numbers, "1,NH,T,T"), mask=Drawn(padding, "B,1,1,T")),
    _recipe("self_attention, past", past=Drawn(keys_and_values, "B,NH,P,HS")),
    _recipe("self_attention, one key head", qkv=Drawn(numbers, "B,T,5HS"), n_kv_head=1),
    _recipe("self_attention, groups", qkv=Drawn(numbers, "B,T,10HS"), n_head=6, n_kv_head=2),
    _recipe("self_attention, groups and mask", qkv=Drawn(numbers, "B,T,8HS"), n_head=4, n_kv_head=2,
            mask=Drawn(window, "T,T"), rate=0.3, key=KEY),
    _recipe("self_attention, groups and past", qkv=Drawn(numbers, "B,T,10HS"), n_head=6, n_kv_head=2,
            past=Drawn(keys_and_values, "B,2,P,HS")),
    _recipe("cross_attention"),
    _recipe("cross_attention, mask", mask=MASK),
    _recipe("cross_attention, padding", mask=Drawn(padding, "B,1,1,S")),
    _recipe("cross_attention, dropout", rate=0.3, key=KEY),
    _recipe("cross_attention, scale", scale=0.7),
    _recipe("cross_attention, bias", bias=Drawn(numbers, "B,NH,T,S")),
    _recipe("cross_attention, bias of each head", bias=Drawn(numbers, "1,NH,T,S"), mask=MASK),
    _recipe("linear_cross_entropy"),
    _recipe("linear_cross_entropy, ignored targets", targets=SOME),
    _recipe("linear_cross_entropy, weights", targets=SOME, weights=WEIGHTS),
    _recipe("linear_cross_entropy, normalizer", targets=SOME, normalizer=7.5),
    _recipe("linear_cross_entropy, bias", targets=SOME, weights=WEIGHTS, bias=Drawn(numbers, "V")),
)
NAMES = tuple(recipe.name for recipe in RECIPES)
_BY_NAME = {recipe.name: recipe for recipe in RECIPES}


def axes_of(name: str) -> tuple[int, ...]:
    """The numbers of axes that the data of a case may have, the usual one first: (3, 4, 2)."""
    recipe = _BY_NAME[name]
    return recipe.axes or tuple(shapes.leading_axes(_forward(recipe.op)))


def case(name: str, axes: int | None = None, dtype: Any = np.float64, seed: int = 0) -> Case:
    """The case of this name (one of NAMES), with data of this number of axes and floats of this dtype.

    Raises ValueError for a number of axes that it cannot have.
    """
    recipe = _BY_NAME[name]
    possible = axes_of(name)
    axes = possible[0] if axes is None else axes
    if axes not in possible:
        raise ValueError(f"{name} with {axes} axes: choose one of {', '.join(map(str, possible))}")
    forward = _forward(recipe.op)
    leading = shapes.leading_axes(forward)[axes]
    given = shapes.examples(forward, leading, recipe.sizes, seed, optional=False)
    rng = np.random.default_rng([seed, 1])
    for key, value in recipe.changes.items():
        if isinstance(value, Drawn):
            shape = shapes.Tensor(key, tuple(value.axes.split(","))).shape(leading, recipe.sizes)
            value = value.draw(rng, shape)
        given[key] = value
    given = {key: _cast(value, dtype) for key, value in given.items()}
    parameters = inspect.signature(forward).parameters.values()
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    args = {key: given.pop(key) for key in positional if key in given}
    return Case(name, recipe.op, args, given)


def cases(op: str, seed: int = 0) -> Iterator[Case]:
    """Every case of an operation: the first on all numbers of axes, the others on the usual one."""
    names = [name for name in NAMES if _BY_NAME[name].op == op]
    for axes in axes_of(names[0]):
        yield case(names[0], axes, seed=seed)
        if axes == axes_of(names[0])[0]:
            for name in names[1:]:
                yield case(name, seed=seed)


def _forward(op):
    return getattr(reference, f"{op}_forward")


def _cast(value, dtype):
    """The value with floats of this dtype."""
    if isinstance(value, tuple) and not isinstance(value, Key):
        return tuple(_cast(item, dtype) for item in value)
    return value.astype(dtype) if _is_float(value) else value


def _is_float(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"
