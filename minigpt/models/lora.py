"""LoRA (Hu et al. 2021): a large model learns little. Beside each matrix W, which stays, two thin ones A and B learn.

    layers = add_lora(model, rank=8)
    optimizer = AdamW(lora_parameters(model))
    ...
    merge_lora(model)

What does not learn needs no gradient, no moments, and nothing kept for the backward pass: here that is all but A and B.
"""

import functools
from collections.abc import Sequence

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, device_of, to_device
from minigpt.errors import InputError, check_number, check_whole
from minigpt.models.family.layers import GatedMLP
from minigpt.models.language_model import LanguageModel
from minigpt.nn import MLP, Cache, Linear, Module, Parameter, accumulate, normal
from minigpt.ops.random_keys import Key, fold

LEARNED = ("lora_A", "lora_B")  # the names of the two, as other programs have them


class Frozen(Linear):
    """A linear layer that does not learn. Its backward computes dx alone, and needs nothing of its forward.

    plain: the layer that it stands for, in a tuple, for its parameters are not to be found twice.
    """

    def __init__(self, linear: Linear):
        self.weight = linear.weight
        self.bias = linear.bias
        self.plain = (linear,)

    def forward(self, x: Array) -> tuple[Array, Cache]:
        """x (*,I) -> out (*,O)"""
        cache = Cache(self)
        bias = None if self.bias is None else self.bias.value
        out, _ = ops.linear_forward(x, self.weight.value, bias)
        return cache.keep("", (out, None)), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (*,O) -> dx (*,I): the gradient goes back through a linear layer too, that of the transposed weight"""
        self.own(cache).pop("")
        dx, _ = ops.linear_forward(dout, self.weight.value.T)
        return dx


class LoRA(Frozen):
    """out = x W + b + alpha/r (x A) B, in which only A (I,r) and B (r,O) learn (Hu et al. 2021, equation 3).

    Weights here are (in,out): the paper's B A is the transpose of this A B.
    """

    def __init__(self, linear: Linear, a: np.ndarray, b: np.ndarray, alpha: float):
        super().__init__(linear)
        device = device_of(linear.weight.data)
        self.lora_A = Parameter(to_device(a, device))
        self.lora_B = Parameter(to_device(b, device))
        self.alpha = alpha

    @classmethod
    def new(cls, linear: Linear, rank: int, alpha: float, rng: np.random.Generator) -> "LoRA":
        """With a random A and a B of zeros: it begins as the layer that it stands for (section 4.1)."""
        n_in, n_out = linear.weight.data.shape
        dtype = linear.weight.data.dtype
        a = normal(rng, (n_in, rank), n_in**-0.5, dtype)
        return cls(linear, a.data, np.zeros((rank, n_out), dtype), alpha)

    @property
    def rank(self) -> int:
        """r: how many directions it can change."""
        return self.lora_A.data.shape[1]

    @property
    def scale(self) -> float:
        """alpha/r."""
        return self.alpha / self.rank

    def forward(self, x: Array) -> tuple[Array, Cache]:
        """x (*,I) -> out (*,O)"""
        cache = Cache(self)
        bias = None if self.bias is None else self.bias.value
        base, _ = ops.linear_forward(x, self.weight.value, bias)
        low = cache.keep("A", ops.linear_forward(x, self.lora_A.value))
        scaled = self.scale * low
        change = cache.keep("B", ops.linear_forward(scaled, self.lora_B.value))
        return ops.add(base, change), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (*,O) -> dx (*,I)"""
        cache = self.own(cache)
        # change = scaled B
        dscaled, dlora_b, _ = ops.linear_backward(dout, cache.pop("B"))
        # scaled = scale * low
        dlow = self.scale * dscaled
        # low = x A
        dx, dlora_a, _ = ops.linear_backward(dlow, cache.pop("A"))
        # base = x W + b: x goes into both, and its gradient is a sum
        dx_base, _ = ops.linear_forward(dout, self.weight.value.T)
        accumulate(self.lora_A, dlora_a)
        accumulate(self.lora_B, dlora_b)
        return ops.add(dx, dx_base)

    def merge(self) -> None:
        """W = W + alpha/r A B, in place: the layer that it stands for computes what this one did."""
        change = self.lora_A.data @ self.lora_B.data
        self.weight.data += self.scale * change


# ------------------------------------------------------------------------------------- MLPs, which are one operation


class MLPInSteps(MLP):
    """An MLP layer by layer, because the operation `mlp` takes weights, and a layer here may be more."""

    def __init__(self, mlp: MLP):
        vars(self).update(vars(mlp))
        self.plain = (mlp,)

    def forward(self, x: Array, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        act_forward = getattr(ops, f"{self.activation}_forward")
        cache = Cache(self, grad)
        f = cache.keep("c_fc", self.c_fc.forward(x))
        a = cache.keep("act", act_forward(f))
        out = cache.keep("c_proj", self.c_proj.forward(a))
        dropout = ops.dropout_forward(out, rate=self.config.resid_pdrop, key=fold(key, 2))
        return cache.keep("dropout", dropout), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        act_backward = getattr(ops, f"{self.activation}_backward")
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        da = self.c_proj.backward(dout, cache.pop("c_proj"))
        df = act_backward(da, cache.pop("act"))
        return self.c_fc.backward(df, cache.pop("c_fc"))

    @property
    def activation(self) -> str:
        """The operation between the layers."""
        return getattr(self.config, "activation", "gelu")


class GatedMLPInSteps(GatedMLP):
    """An MLP with a gate, layer by layer."""

    def __init__(self, mlp: GatedMLP):
        vars(self).update(vars(mlp))
        self.plain = (mlp,)

    def forward(self, x: Array, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """x (B,T,C) -> out (B,T,C)"""
        act_forward = getattr(ops, f"{self.config.activation}_forward")
        cache = Cache(self, grad)
        g = cache.keep("gate", self.gate.forward(x))
        u = cache.keep("up", self.up.forward(x))
        a = cache.keep("act", act_forward(g))
        h = cache.keep("product", (a * u, (a, u)))
        h = cache.keep("inside", ops.dropout_forward(h, rate=self.rate_inside, key=fold(key, 5)))
        out = cache.keep("down", self.down.forward(h))
        dropout = ops.dropout_forward(out, rate=self.config.resid_pdrop, key=fold(key, 2))
        return cache.keep("dropout", dropout), cache

    def backward(self, dout: Array, cache: Cache) -> Array:
        """dout (B,T,C) -> dx (B,T,C)"""
        act_backward = getattr(ops, f"{self.config.activation}_backward")
        cache = self.own(cache)
        dout = ops.dropout_backward(dout, cache.pop("dropout"))
        dh = self.down.backward(dout, cache.pop("down"))
        dh = ops.dropout_backward(dh, cache.pop("inside"))
        # h = a * u
        a, u = cache.pop("product")
        da = dh * u
        du = dh * a
        dg = act_backward(da, cache.pop("act"))
        dx_up = self.up.backward(du, cache.pop("up"))
        dx_gate = self.gate.backward(dg, cache.pop("gate"))
        return ops.add(dx_up, dx_gate)


IN_STEPS = {MLP: MLPInSteps, GatedMLP: GatedMLPInSteps}


# ----------------------------------------------------------------------------------------------------- in a whole model


def add_lora(
    model: LanguageModel, rank: int = 8, alpha: float | None = None, names: Sequence[str] | None = None, seed: int = 0
) -> dict[str, LoRA]:
    """Freeze a model, in place, and put A and B beside linear layers of it; returns these by name, "h.0.attn.c_attn".

    alpha: how strongly A B counts, alpha / rank; None: 2 rank. names: of the layers, or how their names end, such as
    "c_attn" or "mlp.c_proj"; None: all in the blocks. seed: of the random A. Raises InputError for a name that no layer
    has, a rank or an alpha outside its range, and for a model that has adapters already.
    """
    chosen = _chosen(model, names)
    for path, layer in chosen.items():
        n_in, n_out = layer.weight.data.shape
        most = min(n_in, n_out)
        check_whole("rank", rank, f"1 to {most}, because {path} is {n_in} x {n_out}", least=1, below=most + 1)
    alpha = 2 * rank if alpha is None else alpha
    check_number("alpha", alpha, "a number above 0", above=0)
    rng = np.random.default_rng(seed)
    added = {path: LoRA.new(layer, rank, alpha, rng) for path, layer in chosen.items()}
    put_lora(model, added)
    return added


def put_lora(model: LanguageModel, added: dict[str, LoRA]) -> None:
    """Freeze a model, in place, and let these take the places of its layers with these names.

    Raises InputError for a model that has adapters already.
    """
    if lora_layers(model):
        raise InputError("this model has adapters already: merge_lora(model) puts them into its weights")
    for parameter in model.parameters():
        parameter.gradient_hook = functools.partial(_forget_gradient, parameter)
    for _, owner, name, module in _inside(model):
        for kind, in_steps in IN_STEPS.items():
            if isinstance(module, kind):
                setattr(owner, name, in_steps(module))
    for path, owner, name, module in _inside(model):
        if isinstance(module, Linear):
            setattr(owner, name, added.get(path) or Frozen(module))


def merge_lora(model: Module) -> None:
    """W = W + alpha/r A B in every layer, in place; afterwards the model is a usual one, and learns as a whole.

    Raises InputError for a model without adapters.
    """
    layers = lora_layers(model)
    if not layers:
        raise InputError("this model has no adapters: add_lora(model) adds some")
    for layer in layers.values():
        layer.merge()
    drop_lora(model)


def drop_lora(model: Module) -> None:
    """Take the adapters away, in place: the model is what it was without them, and learns as a whole."""
    for _, owner, name, module in _inside(model):
        plain = getattr(module, "plain", None)
        if plain is not None:
            setattr(owner, name, plain[0])
    for parameter in model.parameters():
        parameter.gradient_hook = None


def linear_layers(model: Module) -> dict[str, Linear]:
    """The linear layers of a model, by name: "h.0.attn.c_attn", ..."""
    return {path: one for path, _, _, one in _inside(model) if isinstance(one, Linear)}


def lora_layers(model: Module) -> dict[str, LoRA]:
    """Those that have A and B."""
    return {path: one for path, one in linear_layers(model).items() if isinstance(one, LoRA)}


def lora_parameters(model: Module) -> dict[str, Parameter]:
    """What learns in a model with adapters, by name: "h.0.attn.c_attn.lora_A", ..."""
    return {name: parameter for name, parameter in model.named_parameters() if name.endswith(LEARNED)}


def _inside(module: Module, prefix: str = "", seen: set[int] | None = None) -> list[tuple[str, Module, str, Module]]:
    """Of every module in another: (its name from the top, the module that has it, its name there, it). Each once."""
    seen = set() if seen is None else seen
    found = []
    for name, value in vars(module).items():
        several = value if isinstance(value, list) else [value]
        for i, inner in enumerate(several):
            if not isinstance(inner, Module) or id(inner) in seen:
                continue
            seen.add(id(inner))
            path = f"{prefix}{name}" if inner is value else f"{prefix}{name}.{i}"
            if inner is value:
                found.append((path, module, name, inner))
            found += _inside(inner, f"{path}.", seen)
    return found


def _chosen(model: LanguageModel, names: Sequence[str] | None) -> dict[str, Linear]:
    """The linear layers that have one of these names; None: all in the blocks. Raises InputError where one has none."""
    layers = linear_layers(model)
    if names is None:
        in_blocks = {id(one) for block in model.blocks for _, _, _, one in _inside(block)}
        return {path: layer for path, layer in layers.items() if id(layer) in in_blocks}
    known = ", ".join(dict.fromkeys(path.rpartition(".")[2] for path in layers))
    if not names:
        raise InputError(f"names hold nothing: its linear layers are {known}")
    for name in names:
        if not any(is_called(path, name) for path in layers):
            raise InputError(f"no layer is called {name!r}: its linear layers are {known}")
    return {path: layer for path, layer in layers.items() if any(is_called(path, name) for name in names)}


def is_called(path: str, name: str) -> bool:
    """Is it the name of this layer, or its end: "c_attn" or "attn.c_attn" of "h.0.attn.c_attn"?"""
    return path == name or path.endswith(f".{name}")


def _forget_gradient(parameter: Parameter) -> None:
    """Of what does not learn: a table, a gain, a bias."""
    parameter.grad = None
