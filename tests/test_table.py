"""The table of operations: who runs when an operation is called, and where its backward goes."""


import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from helpers import arrays_in, as_tuple, batch, each, error, floats_in, same, small_gpt1, small_gpt2, snapshot

from minigpt import ops
from minigpt.errors import InputError
from minigpt.nn.optim import AdamW
from minigpt.ops import reference
from minigpt.ops.cases import NAMES, case
from minigpt.ops.overrides import OverrideCache
from minigpt.ops.table import table

REFERENCE = dict(vars(reference))
CALLED_BY = {  # composite or model -> the primitives it is made of
    "mlp": {"linear", "gelu"},
    "gated_mlp": {"linear", "silu", "dropout"},
    "self_attention": {"attention"},
    "cross_attention": {"attention"},
    "linear_cross_entropy": {"linear", "cross_entropy"},
    "GPT1": {"linear", "embedding", "attention", "gelu", "layernorm", "dropout", "cross_entropy"},
}


class Counting:
    """A learner's implementation of one operation: the reference, with a tuple as its cache, and every call counted."""

    def __init__(self, op: str):
        self.forwards = self.backwards = 0

        def forward(*args, **constants):
            self.forwards += 1
            out, cache = REFERENCE[f"{op}_forward"](*args, **constants)
            return out, ("mine", cache)

        def backward(dout, cache):
            self.backwards += 1
            word, cache = cache
            assert word == "mine"
            return REFERENCE[f"{op}_backward"](dout, cache)

        setattr(self, f"{op}_forward", forward)
        setattr(self, f"{op}_backward", backward)


def run(op, name=None, dtype=np.float64):
    """(out, cache) of the example of an operation."""
    _, args, constants = case(name or op, dtype=dtype).call
    return getattr(ops, f"{op}_forward")(*args, **constants)


def back(op, out, cache):
    return as_tuple(getattr(ops, f"{op}_backward")(np.ones_like(out), cache))


def close(a: list, b: list) -> bool:
    """The same numbers, but for the order in which they were added up: who answers beside a override may be fast."""
    return len(a) == len(b) and all(error(x, y) < 1e-12 for x, y in zip(a, b, strict=True))


def trained(model) -> list:
    """Loss and gradients of one batch."""
    model.zero_grad()
    loss, cache = model.loss(*batch(model))
    model.loss_backward(cache)
    return [loss, *(p.grad for p in model.parameters())]


# --- an override runs everywhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ops.names)
def test_a_rebound_operation_runs_with_a_plain_tuple_as_cache(op):
    expected, cache = run(op)
    gradients = back(op, expected, cache)
    mine = Counting(op)
    with ops.using(mine):
        out, cache = run(op)
        answers = back(op, out, cache)
    assert (mine.forwards, mine.backwards) == (1, 1)
    assert close(snapshot([expected, *gradients]), snapshot([out, *answers]))


@each("composite", ops.composites)
@each("op", ops.primitives)
def test_a_rebound_primitive_is_seen_by_every_composite(op, composite):
    mine = Counting(op)
    with ops.using(mine):
        back(composite, *run(composite))
    assert (mine.forwards > 0) == (op in CALLED_BY[composite])
    assert mine.backwards == mine.forwards


@pytest.mark.parametrize("op", ops.names)
def test_a_rebound_operation_is_seen_by_the_model(op):
    model = small_gpt1(dropout=0.1)
    expected = snapshot(trained(model))
    mine = Counting(op)
    with ops.using(mine):
        assert close(expected, snapshot(trained(model)))
    assert (mine.forwards > 0) == (op in CALLED_BY["GPT1"] | set(ops.composites) - {"cross_attention", "gated_mlp"})
    assert mine.backwards == mine.forwards


def test_a_wrong_primitive_makes_a_wrong_model():
    model = small_gpt1()
    right = trained(model)[0]

    def gelu_forward(x):
        return 1.1 * x, x

    with ops.using(SimpleNamespace(gelu_forward=gelu_forward, gelu_backward=lambda dout, x: dout)):
        assert abs(trained(model)[0] - right) > 1e-3
    assert trained(model)[0] == right


# --- a second implementation of the library ------------------------------------------------------------------------


class ToyGeluCache(NamedTuple):
    x: np.ndarray


class ToyMlpCache(NamedTuple):
    x: np.ndarray
    weights: tuple


class Toy:
    """A further implementation: GELU, in float32 only, and the whole MLP. It writes down what was called."""

    DEVICE = "cpu"
    __all__ = ("gelu_forward", "gelu_backward", "mlp_forward", "mlp_backward")
    calls: list = []

    @staticmethod
    def accepts(*arrays):
        return None

    @staticmethod
    def gelu_supports(x):
        return None if x.dtype == np.float32 else "it takes float32 only"

    @staticmethod
    def gelu_forward(x):
        Toy.calls.append("gelu_forward")
        return reference.gelu_forward(x)[0], ToyGeluCache(x)

    @staticmethod
    def gelu_backward(dout, cache: ToyGeluCache):
        Toy.calls.append("gelu_backward")
        return reference.gelu_backward(dout, reference.gelu_forward(cache.x)[1])

    @staticmethod
    def mlp_forward(x, w1, b1, w2, b2, *, activation="gelu", grad=True):
        Toy.calls.append("mlp_forward")
        with ops.using("reference"):
            return reference.mlp_forward(x, w1, b1, w2, b2)[0], ToyMlpCache(x, (w1, b1, w2, b2)) if grad else None

    @staticmethod
    def mlp_backward(dout, cache: ToyMlpCache):
        Toy.calls.append("mlp_backward")
        with ops.using("reference"):
            return reference.mlp_backward(dout, reference.mlp_forward(cache.x, *cache.weights)[1])


@pytest.fixture
def toy(monkeypatch):
    """The toy stands in the table beside the reference, for one test, in the place of the fast implementation."""
    for name in ("_implementations", "_made_by", "_candidates"):
        monkeypatch.setattr(table, name, dict(getattr(table, name)))
    del table._implementations["fast"]
    Toy.calls = []
    table.register("toy", Toy)
    yield Toy
    monkeypatch.undo()
    ops.use()


def test_an_implementation_for_the_device_is_the_default_and_has_its_own_cache(toy):
    out, cache = run("mlp")
    assert type(cache) is ToyMlpCache and toy.calls == ["mlp_forward"]
    answers = back("mlp", out, cache)
    assert toy.calls == ["mlp_forward", "mlp_backward"]
    with ops.using("reference"):
        expected, cache = run("mlp")
        assert same(snapshot([out, *answers]), snapshot([expected, *back("mlp", expected, cache)]))
    assert toy.calls == ["mlp_forward", "mlp_backward"]


def test_a_call_that_is_not_supported_goes_to_the_reference(toy):
    out, cache = run("gelu", dtype=np.float32)
    assert type(cache) is ToyGeluCache
    out, cache = run("gelu", dtype=np.float64)
    assert isinstance(cache, tuple) and type(cache) is not ToyGeluCache
    back("gelu", out, cache)
    assert toy.calls == ["gelu_forward"]


def test_an_override_may_decline_a_call():
    def gelu_forward(x):
        return NotImplemented

    with ops.using(SimpleNamespace(gelu_forward=gelu_forward, gelu_backward=lambda dout, cache: 1 / 0)):
        out, cache = run("gelu")
        assert not isinstance(cache, OverrideCache)
        back("gelu", out, cache)


def test_of_several_overrides_the_first_runs():
    first, second = Counting("gelu"), Counting("gelu")
    with ops.using(first, second):
        run("gelu")
    assert (first.forwards, second.forwards) == (1, 0)


def test_a_composite_of_the_library_steps_aside_for_a_override_primitive(toy):
    """Only for as long as the override is there, and not for a override that brings a composite alone."""
    mine = Counting("linear")
    with ops.using(mine):
        back("mlp", *run("mlp"))
    assert toy.calls == [] and (mine.forwards, mine.backwards) == (2, 2)
    with ops.using(Counting("self_attention")):
        run("mlp")
    assert toy.calls == ["mlp_forward"]


def test_a_primitive_of_the_library_stays_when_a_override_replaces_another(toy):
    with ops.using(Counting("linear")):
        out, cache = run("gelu", dtype=np.float32)
    assert type(cache) is ToyGeluCache


def test_naming_an_implementation_leaves_the_others_out(toy):
    with ops.using("reference"):
        run("mlp")
    mine = Counting("softmax")
    with ops.using(mine, "reference"):
        run("mlp"), run("softmax")
    assert toy.calls == [] and mine.forwards == 1


# --- pairs cannot be mixed -----------------------------------------------------------------------------------------


def test_a_backward_goes_to_whoever_made_the_cache(toy):
    mine, other = Counting("mlp"), Counting("mlp")
    with ops.using("reference"):
        by_reference = run("mlp")
    by_toy = run("mlp")
    with ops.using(mine):
        by_override = run("mlp")
    toy.calls.clear()
    with ops.using(other):
        for pair in (by_reference, by_toy, by_override):
            back("mlp", *pair)
    assert toy.calls == ["mlp_backward"] and mine.backwards == 1 and (other.forwards, other.backwards) == (0, 0)


def test_a_model_may_be_rebound_between_forward_and_backward():
    model = small_gpt1(dropout=0.1)
    expected = snapshot(trained(model)[1:])
    overrides = [Counting(op) for op in ops.primitives]
    model.zero_grad()
    with ops.using(*overrides):
        _, cache = model.loss(*batch(model))
    with ops.using(*(Counting(op) for op in ops.names)):
        model.loss_backward(cache)
    assert close(expected, snapshot([p.grad for p in model.parameters()]))
    assert all(override.backwards == override.forwards for override in overrides)


@pytest.mark.parametrize("override", [False, True])
def test_a_cache_of_another_operation_is_refused(override):
    with ops.using(*([Counting("gelu")] if override else [])):
        out, cache = run("gelu")
    with pytest.raises(TypeError, match="softmax_backward was given a cache of gelu"):
        ops.softmax_backward(out, cache)


@pytest.mark.parametrize("cache", [None, (1, 2), [], np.ones(3)])
def test_what_is_no_cache_is_refused(cache):
    with pytest.raises(TypeError, match=f"gelu_backward was given a {type(cache).__name__}"):
        ops.gelu_backward(np.ones(3), cache)


def test_the_caches_of_all_operations_have_types_of_their_own():
    for implementation in table.implementations:
        with ops.using(implementation):
            caches = [type(run(op)[1]) for op in ops.names]
        assert len(set(caches)) == len(ops.names)


# --- what is not an implementation ---------------------------------------------------------------------------------


def module(name: str, source: str) -> types.ModuleType:
    """A learner's file."""
    made = types.ModuleType(name)
    exec(source, made.__dict__)
    return made


def test_a_file_with_a_pair_is_an_implementation():
    mine = module("mine", "def gelu_forward(x): return 2 * x, None\ndef gelu_backward(dout, cache): return 2 * dout")
    with ops.using(mine):
        out, cache = ops.gelu_forward(np.ones(3))
        assert out.tolist() == [2] * 3 and ops.gelu_backward(out, cache).tolist() == [4] * 3


def test_a_class_and_an_object_are_implementations():
    class Mine:
        @staticmethod
        def softmax_forward(x):
            return x * 0 + 5, ()

        @staticmethod
        def softmax_backward(dp, cache):
            return dp

    for mine in (Mine, Mine()):
        with ops.using(mine):
            assert ops.softmax_forward(np.ones(3))[0].tolist() == [5] * 3


@pytest.mark.parametrize(
    ("there", "missing"), [("gelu_forward", "gelu_backward"), ("gelu_backward", "gelu_forward")]
)
def test_half_a_pair_is_refused(there, missing):
    half = f"def {there}(x, cache=None): return x, None"
    whole = "\ndef softmax_forward(x): return x, None\ndef softmax_backward(dp, cache): return dp"
    for source in (half, half + whole):
        with pytest.raises(InputError, match=f"mine has {there} but no {missing}: an operation is a pair"):
            ops.use(module("mine", source))
    out, cache = run("softmax")
    assert not isinstance(cache, OverrideCache)  # what was refused changed nothing


def test_nothing_at_all_is_refused():
    with pytest.raises(InputError, match="mine has no pair such as"):
        ops.use(module("mine", "x = 1"))
    with pytest.raises(InputError, match="no implementation is called 'quick': choose reference"):
        ops.use("quick")


def test_what_a_file_imports_from_the_library_is_not_its_own():
    """`from minigpt.ops import ...` in a learner's file neither counts as half a pair nor calls itself for ever."""
    pair = "def gelu_forward(x): return 2 * x, None\ndef gelu_backward(dout, cache): return 2 * dout\n"
    for imported in ("linear_forward", "linear_forward, linear_backward"):
        with ops.using(module("mine", f"from minigpt.ops import {imported}\n{pair}")):
            out, cache = run("linear")
            back("linear", out, cache)
            assert not isinstance(cache, OverrideCache)
            back("mlp", *run("mlp"))
    with pytest.raises(InputError, match="mine has no pair"):
        ops.use(module("mine", "from minigpt.ops import linear_forward, linear_backward"))


@pytest.mark.parametrize("result", ["x", "None", "(x,)", "(x, x, x)"])
def test_a_forward_that_returns_no_pair_is_refused(result):
    """Also where the array would happen to unpack into two."""
    source = f"def gelu_forward(x): return {result}\ndef gelu_backward(dout, cache): return dout"
    with ops.using(module("mine", source)), pytest.raises(TypeError, match=r"gelu_forward .* \(out, cache\)"):
        ops.gelu_forward(np.ones((2, 3)))


# --- using ---------------------------------------------------------------------------------------------------------


def test_using_nests_and_restores():
    outer, inner = Counting("gelu"), Counting("gelu")
    with ops.using(outer):
        run("gelu")
        with ops.using(inner):
            run("gelu")
        run("gelu")
    run("gelu")
    assert (outer.forwards, inner.forwards) == (2, 1)


def test_using_restores_after_an_exception():
    mine = Counting("gelu")
    with pytest.raises(KeyError), ops.using(mine):
        raise KeyError
    with ops.using(mine), pytest.raises(InputError), ops.using("quick"):
        pass
    run("gelu")
    assert mine.forwards == 0


def test_using_restores_what_use_had_chosen():
    mine = Counting("gelu")
    ops.use(mine)
    with ops.using("reference"):
        run("gelu")
    assert mine.forwards == 0
    run("gelu")
    assert mine.forwards == 1
    ops.use()
    run("gelu")
    assert mine.forwards == 1


# --- names, help, ledger -------------------------------------------------------------------------------------------


def test_names():
    assert set(ops.primitives) | set(ops.composites) == set(ops.names) and set(CALLED_BY) >= set(ops.composites)
    assert ops.layernorm_forward.__doc__ == reference.layernorm_forward.__doc__
    assert ops.layernorm_backward.__name__ == "layernorm_backward"
    with pytest.raises(AttributeError, match="no operation 'rnn_forward'"):
        _ = table.rnn_forward
    assert {case(name).op for name in NAMES} == set(ops.names)


def test_ledger_names_every_array_and_its_bytes():
    ops.use("reference")
    _, cache = run("attention", dtype=np.float32)  # q (2,3,4,7), k and v (2,3,6,7), p (2,3,4,6)
    assert ops.ledger(cache) == {"q": 672, "k": 1008, "v": 1008, "p": 576}
    assert ops.nbytes(cache) == 3264
    _, cache = run("mlp")  # x (2,3,15), w1 (15,10), b1 (10,), w2 (10,15), b2 (15,)
    assert ops.ledger(cache, "mlp") == {
        "mlp.fc.x": 720, "mlp.fc.w": 1200, "mlp.fc.b": 80, "mlp.act.x": 480, "mlp.act.t": 480,
        "mlp.proj.x": 480, "mlp.proj.w": 1200, "mlp.proj.b": 120,
    }  # fmt: skip
    assert ops.nbytes(run("dropout")[1]) == 0


def test_ledger_counts_an_array_once_and_looks_into_overrides_and_lists():
    x = np.ones(10, np.float32)
    assert ops.ledger([(x, 3), [x], {"no": "array"}], "c") == {"c.0.0": 40}
    with ops.using(Counting("gelu")):
        _, cache = run("gelu")
    assert sum(a.nbytes for a in floats_in(cache.saved)) == ops.nbytes(cache) > 0
    assert list(ops.arrays(cache)) == ["1.x", "1.t"]


def test_ledger_of_a_model_is_the_sum_of_its_parts():
    ops.use("reference")
    model = small_gpt1()
    _, cache = model.loss(*batch(model))
    lines = ops.ledger(cache)
    assert ops.nbytes(cache) == sum(lines.values()) == sum({id(a): a.nbytes for a in arrays_in(cache)}.values())
    assert sum(name.endswith(".p") for name in lines) == 3  # two layers of attention, and the cross-entropy


# --- who runs, and why -----------------------------------------------------------------------------------------------


def test_explain_names_who_runs_and_why_the_others_do_not():
    _, args, constants = case("linear").call
    told = ops.explain("linear", *args, **constants)
    assert told.implementation == "fast" and set(told.reasons) == {"reference", "cuda"}
    assert told.reasons["cuda"] == "it is for arrays on cuda, and these are on cpu"
    in_halves = [a.astype(np.float16) for a in args]
    assert "float16" in ops.explain("linear", *in_halves).reasons["fast"]
    assert ops.explain("softmax", args[0]).reasons["fast"] == "it has no softmax of its own"
    with ops.using("reference"):
        assert ops.explain("linear", *args).implementation == "reference"
    with ops.using(Counting("softmax")):
        assert "override" in ops.explain("mlp", *case("mlp").call[1]).reasons["fast"]
    with pytest.raises(InputError, match="no operation 'rnn'"):
        ops.explain("rnn", args[0])


@each("name", NAMES)
def test_explain_foretells_what_runs(name):
    op, args, constants = case(name, dtype=np.float32).call
    told = ops.explain(op, *args, **constants)
    with ops.tracing() as calls:
        getattr(ops, f"{op}_forward")(*args, **constants)
    assert (calls[-1].op, calls[-1].implementation) == (op, told.implementation)


def test_an_option_that_an_override_does_not_know():
    """It is left out where it changes nothing; otherwise the library makes the call."""
    q, k, v = case("attention").call[1]

    def attention_forward(q, k, v, *, mask=None):
        return REFERENCE["attention_forward"](q, k, v, mask=mask)

    mine = SimpleNamespace(attention_forward=attention_forward, attention_backward=REFERENCE["attention_backward"])
    with ops.using(mine):
        assert isinstance(ops.attention_forward(q, k, v, rate=0.0, key=None)[1], OverrideCache)
        assert not isinstance(ops.attention_forward(q, k, v, rate=0.5, key=ops.Key.of(1))[1], OverrideCache)
        assert "takes no rate" in str(ops.explain("attention", q, k, v, rate=0.5, key=ops.Key.of(1)))


def test_an_input_that_an_override_does_not_know():
    """A bias that is None is left out, by position too; with one the library makes the call. Its gradient is None."""
    q, k, v = case("attention").call[1]
    qkv, n_head = case("self_attention").call[1]

    def attention_forward(q, k, v, *, mask=None):
        return REFERENCE["attention_forward"](q, k, v, mask=mask)

    def self_attention_forward(qkv, n_head):
        return REFERENCE["self_attention_forward"](qkv, n_head)

    mine = SimpleNamespace(
        attention_forward=attention_forward,
        attention_backward=lambda dout, cache: REFERENCE["attention_backward"](dout, cache)[:3],
        self_attention_forward=self_attention_forward,
        self_attention_backward=lambda dout, cache: REFERENCE["self_attention_backward"](dout, cache)[0],
    )
    with ops.using(mine):
        for out, cache in (ops.attention_forward(q, k, v, None), ops.attention_forward(q, k, v, bias=None)):
            assert isinstance(cache, OverrideCache)
            assert [g is None for g in ops.attention_backward(out, cache)] == [False, False, False, True]
        assert ops.explain("attention", q, k, v, np.ones((4, 6))).implementation == "reference"
        assert "takes no bias" in str(ops.explain("attention", q, k, v, np.ones((4, 6))))
        out, cache = ops.self_attention_forward(qkv, n_head, None)
        dqkv, dbias = ops.self_attention_backward(out, cache)
        assert isinstance(cache, OverrideCache) and dqkv.shape == qkv.shape and dbias is None
        with pytest.raises(TypeError):
            ops.attention_forward(q, k, v, None, None)


def test_an_optional_input_that_an_override_requires():
    """A call without it is made by the library."""
    x, w, b = case("linear").call[1]

    def linear_forward(x, w, b):
        return REFERENCE["linear_forward"](x, w, b)

    mine = SimpleNamespace(linear_forward=linear_forward, linear_backward=REFERENCE["linear_backward"])
    with ops.using(mine):
        assert isinstance(ops.linear_forward(x, w, b)[1], OverrideCache)
        for call in ([x, w], [x, w, None]):
            assert not isinstance(ops.linear_forward(*call)[1], OverrideCache)
            assert "needs b" in str(ops.explain("linear", *call))


@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_a_whole_step_on_a_processor_calls_no_cuda_code_and_falls_back_nowhere(make):
    """With arrays of float32, as models are trained: forward, backward, clipping and the update."""
    model = make(np.float32, dropout=0.1)
    optimizer = AdamW(model.named_parameters())
    files = set()
    sys.setprofile(lambda frame, event, argument: files.add(frame.f_code.co_filename))
    try:
        with ops.tracing() as calls:
            trained(model)
            optimizer.step(1e-3, max_norm=1.0)
    finally:
        sys.setprofile(None)
    folders = {Path(file).parent.name for file in files}
    assert "fast" in folders and "cuda" not in folders
    assert {"mlp", "self_attention", "adam_update", "add"} <= {call.op for call in calls}
    assert [str(call) for call in calls if call.reasons] == []
    left = {call.op for call in calls if call.implementation == "reference"}
    assert left == {"add"}, "it has no fast version of its own"


@pytest.mark.parametrize("bad", [7, -1])
def test_numbers_out_of_range_are_refused_after_a_call_that_was_right(bad):
    """A call that was seen before is not checked again: but whole numbers may be others each time."""
    w, h = np.ones((5, 3)), np.ones((2, 3))
    for _ in range(2):
        ops.embedding_forward(w, np.array([1, 4]))
        ops.linear_cross_entropy_forward(h, w, np.array([1, 4]))
        ops.cross_entropy_forward(h @ w.T, np.array([1, 4]))
    for call in (
        lambda ids: ops.embedding_forward(w, ids),
        lambda ids: ops.linear_cross_entropy_forward(h, w, ids),
        lambda ids: ops.cross_entropy_forward(h @ w.T, ids),
    ):
        with pytest.raises((InputError, IndexError), match=str(bad)) as refused:
            call(np.array([1, bad]))
        assert refused.type is InputError


def test_what_is_repeated_is_not_looked_at_again():
    """From the second time on calls go to those who ran them; another choice of implementations ends that."""
    x, g = np.ones((2, 3)), np.ones(3)
    looked_at = []
    entry = table._candidates["cpu"]["rmsnorm"][0]

    def step(eps):
        with ops.repeating(step):
            return ops.rmsnorm_forward(x, g, eps=eps)[0], ops.add(x, x)

    def supports(*args, **constants):
        looked_at.append(args)

    watched = entry._replace(supports=supports)
    table._candidates["cpu"]["rmsnorm"][0] = watched
    try:
        first = step(1e-5)
        assert len(looked_at) == 1
        for eps in (1e-5, 0.5):
            out, twice = step(eps)
            assert same([out], [ops.rmsnorm_forward(x, g, eps=eps)[0]]) and same([twice], [x + x])
        assert len(looked_at) == 2 and same(first, step(1e-5))  # that of 0.5 outside
        assert not table._running
        with ops.tracing() as calls:
            step(1e-5)
        assert [(call.op, call.implementation) for call in calls] == [("rmsnorm", "fast"), ("add", "reference")]
    finally:
        table.use()
    with ops.using("reference"), ops.tracing() as calls:
        step(1e-5)
    assert [call.implementation for call in calls] == ["reference", "reference"]
    with ops.using("reference"):
        step(1e-5)
        assert same([step(1e-5)[0]], [reference.rmsnorm_forward(x, g, eps=1e-5)[0]])


def test_what_is_repeated_goes_to_overrides_as_ever():
    x, g = np.ones((2, 3)), np.ones(3)

    class Mine:
        @staticmethod
        def rmsnorm_forward(x, g, eps=1e-6):
            calls.append(eps)
            return (x * g, None) if eps < 1 else NotImplemented

        @staticmethod
        def rmsnorm_backward(dout, cache):
            return dout, dout

    calls = []
    with ops.using(Mine):
        for eps in (0.1, 0.1, 2.0):
            with ops.repeating(Mine):
                out, _ = ops.rmsnorm_forward(x, g, eps=eps)
        assert calls == [0.1, 0.1, 2.0] and same([out], [ops.rmsnorm_forward(x, g, eps=2.0)[0]])


def test_an_operation_that_several_ran_is_looked_at_again():
    x, key = np.ones((2, 3)), ops.Key.of(0, 0)

    def step(bad):
        with ops.repeating(step):
            ops.embedding_forward(x, np.array([0, 1]))
            ops.dropout_forward(x, rate=0.5, key=key)
            ops.dropout_forward(x.astype(np.float16), rate=0.5, key=key)
            with pytest.raises(InputError):
                ops.dropout_forward(x, rate=bad, key=key)

    step(2.0)
    step(2.0)
    with pytest.raises(ValueError, match="this is mine"), ops.repeating(step):
        raise ValueError("this is mine")
    assert not table._running
