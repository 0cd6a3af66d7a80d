"""Decoding on a GPU: attention beside a past, steps that are repeated as a graph, and what Python does for one token.

The kernel runs on a processor and is judged by the reference; of a graph only what it repeats is played.
"""

import collections
import functools
from types import SimpleNamespace

import numpy as np
import pytest
import strict_cupy
from helpers import KEY, error, same, snapshot
from nvcc import spilled
from test_cuda import in_bfloat16, normal
from test_generation import logits_of, prompts, talkative

from minigpt import GPT2, GPT2Config, ops
from minigpt.device import gpu
from minigpt.device.arrays import named_dtype
from minigpt.models import decoding
from minigpt.models.sampling import NotFinite, next_tokens
from minigpt.ops import cuda
from minigpt.ops.cuda import attention_past, kernels, products
from minigpt.ops.cuda.cuda_graph import Recorded

AGREEMENT = {np.float32: 1e-5, np.float64: 1e-12}


@pytest.fixture
def small_parts(constants):
    """A block of 8 threads and two keys for each of their groups; two warps where a warp takes a row."""
    constants.set(cuda_past_threads=8, cuda_past_keys=2, cuda_warps=2)


def part_of(size, dtype):
    """How many keys a block takes, for heads of this size."""
    pack = 16 // np.dtype(dtype).itemsize
    plan = attention_past.plan(size, 1 if size % pack else pack)
    return plan["KEYS"] * (plan["THREADS"] // plan["LANES"])


def a_past(b, n_head, p, size, dtype=np.float32, room=0):
    """k and v (B,NH,P,D), drawn; with room for more positions, where there is NaN."""
    kv = np.full((2, b, n_head, p + room, size), np.nan, dtype)
    kv[:, :, :, :p] = np.random.default_rng(p).standard_normal((2, b, n_head, p, size))
    return kv[0][:, :, :p], kv[1][:, :, :p]


def out_of(implementation, args, constants):
    with ops.using(implementation):
        assert ops.explain("self_attention", *args, grad=False, **constants).implementation == implementation
        out, cache = ops.self_attention_forward(*args, grad=False, **constants)
    assert cache is None or implementation == "reference"
    return out


def assert_agree(args, constants, tolerance=1e-5):
    before = snapshot([args, constants])
    expected = out_of("reference", args, constants)
    got = out_of("cuda", args, constants)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    assert error(got, expected) < tolerance, f"{error(got, expected):.1e}"
    assert same([got], [out_of("cuda", args, constants)]), "two runs, two results"
    assert same(before, snapshot([args, constants])), "it wrote to its input"


# --- the kernel ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("t", [1, 3])
@pytest.mark.parametrize(("b", "n_head", "size"), [(1, 1, 4), (2, 3, 6), (3, 2, 8)])
def test_keys_that_end_at_and_beside_the_end_of_a_part(b, n_head, size, t, dtype, kernels_on_cpu, small_parts):
    part = part_of(size, dtype)
    for p in (0, 1, part - 1, part, part + 1, 3 * part + 1):
        args = [normal(b, t, 3 * n_head * size, dtype=dtype), n_head]
        assert_agree(args, {"past": a_past(b, n_head, p, size, dtype, room=p % 3)}, AGREEMENT[dtype])


@pytest.mark.parametrize("size", [1, 2, 3, 31, 32, 33, 64, 100, 127, 128])
@pytest.mark.parametrize("dtype", AGREEMENT)
def test_heads_of_every_size_in_real_blocks(size, dtype, kernels_on_cpu):
    p = part_of(size, dtype) + 1
    assert_agree([normal(1, 2, 3 * size, dtype=dtype), 1], {"past": a_past(1, 1, p, size, dtype, 2)}, AGREEMENT[dtype])


def test_many_new_positions(kernels_on_cpu, small_parts):
    """More of them than a part has keys."""
    t = part_of(4, np.float32) + 3
    assert t <= attention_past.MOST
    assert_agree([normal(2, t, 24), 2], {"past": a_past(2, 2, 5, 4)})


def test_gpt2_decodes_in_its_real_blocks(kernels_on_cpu):
    assert part_of(64, np.float32) == 64
    assert_agree([normal(2, 1, 3 * 128), 2], {"past": a_past(2, 2, 150, 64, room=50)})


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("t", [1, 3])
@pytest.mark.parametrize(("n_head", "n_kv_head"), [(4, 1), (6, 2)])
def test_heads_that_share_keys(n_head, n_kv_head, t, dtype, kernels_on_cpu, small_parts):
    """The few heads of the past are read where they lie, with room behind each."""
    qkv, past = normal(2, t, (n_head + 2 * n_kv_head) * 4, dtype=dtype), a_past(2, n_kv_head, 9, 4, dtype, room=3)
    mask = np.random.default_rng(0).random((2, n_head, t, 9 + t)) < 0.6
    for constants in ({}, {"mask": mask}):
        assert_agree([qkv, n_head], {"n_kv_head": n_kv_head, "past": past, **constants}, AGREEMENT[dtype])


@pytest.mark.parametrize("t", [1, 3])
def test_masks_and_biases(t, kernels_on_cpu, small_parts):
    b, n_head, p, size = 3, 2, 19, 4
    keys = p + t
    args = [normal(b, t, 3 * n_head * size), n_head]
    past = a_past(b, n_head, p, size)
    drawn = np.random.default_rng(0).random
    padding = np.arange(keys) >= np.array([0, 7, keys])[:, None, None, None]  # the last text may see nothing
    shapes = ((keys,), (t, 1), (t, keys), (n_head, 1, 1), (b, n_head, t, keys))
    masks = [padding, *(drawn(shape) < 0.6 for shape in shapes)]
    for mask in masks:
        assert_agree(args, {"past": past, "mask": mask})
    assert (out_of("cuda", args, {"past": past, "mask": padding})[2] == 0).all()
    for shape in ((1, n_head, t, keys), (b, 1, 1, 1), (t, keys), (keys,)):
        bias = normal(*shape, scale=2.0)
        assert_agree([*args, bias], {"past": past, "scale": 1.0})
        assert_agree([*args, bias], {"past": past, "mask": padding & masks[-1]})
    bias = np.where(masks[-1], 0, -np.inf).astype(np.float32)
    assert_agree([*args, bias], {"past": past})
    for hidden in (-1e9, np.finfo(np.float32).min):
        bias = np.full((t, keys), hidden, np.float32)  # all scores about the same: every key is seen
        assert_agree([*args, bias], {"past": past})


@pytest.mark.parametrize("scale", [10.0, 300.0])
def test_large_scores(scale, kernels_on_cpu, small_parts):
    """exp of the scores themselves would overflow."""
    k, v = a_past(2, 3, 40, 6, np.float64)
    k[0, 1, 20:25] *= scale
    assert_agree([normal(2, 1, 54, dtype=np.float64), 3], {"past": (k, v)}, 1e-10)


@pytest.mark.parametrize("size", [6, 8, 64])
@pytest.mark.parametrize("t", [1, 2])
def test_bfloat16_errs_no_more_than_rounding_does(t, size, kernels_on_cpu):
    pytest.importorskip("ml_dtypes")
    low = named_dtype("bfloat16")
    exact_past = tuple(a.astype(low).astype(np.float64) for a in a_past(2, 2, 150, size, np.float64))
    args = [normal(2, t, 3 * 2 * size, dtype=np.float64), 2]
    exact = out_of("reference", args, {"past": exact_past})
    rounded_args = [args[0].astype(low).astype(np.float64), 2]
    rounded = out_of("reference", rounded_args, {"past": exact_past}).astype(low).astype(np.float64)
    got = out_of("cuda", in_bfloat16("self_attention", args), {"past": tuple(a.astype(low) for a in exact_past)})
    assert got.dtype == low and error(got.astype(np.float64), exact) <= 2 * error(rounded, exact) + 1e-6


@pytest.mark.parametrize("p", [1, 16, 17, 40])
def test_what_a_mask_hides_is_not_read_and_changes_no_bit(p, kernels_on_cpu, small_parts):
    """All the room of a past behind a mask: the bits of the filled part alone, whatever stands in the rest."""
    b, n_head, size, room = 2, 2, 4, 33
    args = [normal(b, 1, 3 * n_head * size), n_head]
    k, v = a_past(b, n_head, p, size, room=room)
    whole = tuple(k.base)
    assert np.shares_memory(whole[0], k) and np.isnan(whole[0]).any()
    key = np.arange(p + room + 1)
    mask = (key < p) | (key == p + room)
    with ops.using("cuda"):
        alone, _ = ops.self_attention_forward(*args, past=(k, v), grad=False)
        hidden, _ = ops.self_attention_forward(*args, past=whole, mask=mask, grad=False)
    assert np.isfinite(alone).all() and same([alone], [hidden])


def test_a_past_of_any_layout(kernels_on_cpu, small_parts):
    args = [normal(2, 1, 36), 3]
    k, v = a_past(2, 3, 9, 4)
    expected = out_of("reference", args, {"past": (k, v)})
    turned = (k.transpose(2, 0, 1, 3).copy().transpose(1, 2, 0, 3), v[:, :, ::-1].copy()[:, :, ::-1])
    for past in (turned, (k, turned[1]), (k[:, ::-1][:, ::-1], v)):
        assert error(out_of("cuda", args, {"past": past}), expected) < 1e-5
    other_room = a_past(2, 3, 9, 4, room=5)[1]
    other_room[...] = v
    assert error(out_of("cuda", args, {"past": (k, other_room)}), expected) < 1e-5
    moved = normal(37 * 2)[1 : 1 + 72].reshape(2, 1, 36)  # from no multiple of 16 bytes on
    assert_agree([moved, 3], {"past": (k, v)})


def test_what_is_left_to_the_reference(kernels_on_cpu):
    qkv = normal(2, 3, 12)
    past = a_past(2, 2, 5, 3 - 1)

    def reason(qkv=qkv, n_head=2, bias=None, past=past, **constants):
        return cuda.self_attention_supports(qkv, n_head, bias, **({"past": past, "grad": False} | constants))

    assert reason() is None and reason(rate=0.1) is None
    assert "without gradients" in reason(grad=True) and "without dropout" in reason(rate=0.1, key=KEY)
    assert "float16" in reason(qkv.astype(np.float16))
    assert "one dtype" in reason(past=tuple(a.astype(np.float64) for a in past))
    assert "boolean" in reason(mask=np.ones((3, 8))) and "broadcast" in reason(mask=np.ones((3, 3), bool))
    assert "CuPy" in reason(mask=[True])
    assert "broadcast" in reason(bias=normal(2, 3))
    assert "129" in reason(normal(1, 1, 3 * 129), 1, past=a_past(1, 1, 2, 129))
    assert "64 new" in reason(normal(1, 65, 6), 1, past=a_past(1, 1, 2, 2))
    assert "grid" in reason(normal(1 << 15, 1, 6), 2, past=a_past(1 << 15, 2, 1, 1))


# --- whole models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("kind", ["gpt1", "gpt2"])
@pytest.mark.parametrize("lengths", [(5,), (3, 3, 3), (4, 1, 6)])
def test_a_model_writes_the_tokens_of_the_reference(kind, lengths, dtype, kernels_on_cpu, small_parts):
    model = talkative(kind, dtype)
    rows = prompts(model, *lengths)
    for options in ({"temperature": 0}, {"seed": 3, "top_k": 9}):
        with ops.using("reference"):
            expected = model.generate(rows, 6, **options)
        with ops.using("cuda"), ops.tracing() as calls:
            got = model.generate(rows, 6, **options)
        assert same(list(map(np.asarray, got)), list(map(np.asarray, expected)))
        assert {call.implementation for call in calls if call.op == "self_attention"} == {"cuda"}


@pytest.fixture
def played(monkeypatch, constants):
    """Steps are repeated as graphs, which are played: each runs the function again, and sees no number of Python's
    but those that it has seen while it was recorded."""
    constants.set(recorded_tokens=2)
    launched = []

    class Played(Recorded):
        def _record(self, cupy):
            steps = self.function.__self__
            then = [one.length for one in steps.past]
            for _ in range(3):
                self.result = self.function(*self.inputs)

            def launch():
                now = [one.length for one in steps.past]
                set_lengths(steps.past, then)
                self.result[...] = self.function(*self.inputs)
                set_lengths(steps.past, now)
                launched.append(now[0])

            self.graph = SimpleNamespace(launch=launch)

    def set_lengths(past, lengths):
        for one, length in zip(past, lengths, strict=True):
            one.length = length

    monkeypatch.setattr(decoding, "Recorded", Played)
    monkeypatch.setattr(gpu, "cupy", SimpleNamespace(asarray=np.asarray, asnumpy=np.asarray, ndarray=()))
    return launched


def on_gpu(model):
    """The same model, which says that it is on a GPU."""
    kind = type(model)
    model.__class__ = type(kind.__name__, (kind,), {"device": "cuda"})
    return model


@pytest.mark.parametrize("kind", [pytest.param("gpt1", marks=pytest.mark.slow), "gpt2"])
@pytest.mark.parametrize("lengths", [(5,), (3, 3), (4, 1, 6), (12,), (17, 2)])
@pytest.mark.usefixtures("kernels_on_cpu", "small_parts")
def test_a_repeated_step_has_the_bits_of_one_that_is_not(kind, lengths, played, monkeypatch):
    """Until the window slides; then it is read anew for each token."""
    n_tokens = 14
    plain = talkative(kind, np.float32)
    rows = prompts(plain, *lengths)
    with ops.using("cuda"):
        expected, tokens = logits_of(monkeypatch, plain, rows, n_tokens, seed=3)
        assert played == []
        got, again = logits_of(monkeypatch, on_gpu(plain), rows, n_tokens, seed=3)
    assert same(got, expected) and (tokens == again).all()
    assert played == list(range(max(lengths), 12))


@pytest.mark.parametrize("kind", ["gpt1", "gpt2"])
def test_the_reference_repeats_a_step_too(kind, played, monkeypatch):
    model = talkative(kind)
    rows = prompts(model, 4, 1, 6)
    with ops.using("reference"):
        expected, tokens = logits_of(monkeypatch, model, rows, 6)
        got, again = logits_of(monkeypatch, on_gpu(model), rows, 6)
    assert all(error(a, b) < 1e-12 for a, b in zip(got, expected, strict=True)) and (tokens == again).all()
    assert played == [6, 7, 8, 9, 10]


def test_few_tokens_and_other_pasts_are_not_recorded(played, constants):
    lstm = on_gpu(talkative("lstm"))
    lstm.generate([[1, 2]], 8)
    model = on_gpu(talkative("gpt2"))
    constants.set(recorded_tokens=8)
    model.generate([[1, 2]], 8)  # seven follow the first
    assert played == []
    model.generate([[1, 2]], 9)
    assert played == list(range(2, 10))


def test_two_texts_are_written_at_once(played, kernels_on_cpu, small_parts):
    """Each stream has a past and a graph of its own."""
    model = on_gpu(talkative("gpt2", np.float32))
    with ops.using("cuda"):
        alone = [model.generate([prompt], 7, seed=1)[0, len(prompt) :] for prompt in ([1, 2, 3], [4, 5])]
        streams = [model.stream([prompt], 7, seed=1) for prompt in ([1, 2, 3], [4, 5])]
        together = np.array([[next(one)[0] for one in streams] for _ in range(7)]).T
    assert (together == alone).all()


# --- the draw --------------------------------------------------------------------------------------------------------

OPTIONS = [{}, {"temperature": 0}, {"temperature": 0.7, "top_k": 5}, {"top_p": 0.8}, {"top_k": 20, "top_p": 0.9}]


@pytest.mark.cupy
@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tokens_are_drawn_where_the_scores_are(dtype, options, monkeypatch):
    """By functions that CuPy has; and only the tokens, and the largest scores, come back."""
    logits = normal(40, 60, dtype=dtype, scale=3.0)
    uniform = np.random.default_rng(0).random(40)
    expected = next_tokens(logits, uniform, **options)
    monkeypatch.setattr(gpu, "cupy", strict_cupy.cupy)
    copied = []
    monkeypatch.setattr(strict_cupy.cupy, "asnumpy", lambda a: copied.append(a.size) or a._array.copy())
    got = next_tokens(strict_cupy.cupy.asarray(logits), uniform, **options)
    assert type(got) is np.ndarray and (got == expected).all() and copied == [40, 40]
    logits[3, 7] = np.nan
    with pytest.raises(NotFinite):
        next_tokens(strict_cupy.cupy.asarray(logits), uniform, **options)


# --- what Python does for one token ----------------------------------------------------------------------------------

VIEWS = {"reshape", "swapaxes", "transpose", "split", "broadcast_to", "as_strided", "ascontiguousarray", "getitem"}


@pytest.fixture
def counted(monkeypatch):
    """Calls to a GPU that is not there, by kind: launches of kernels, products, arrays, functions of CuPy's."""
    counts = collections.Counter()
    made = strict_cupy.function

    def function(ours, known):
        name = getattr(ours, "__name__", "?")
        call = made(ours, known)

        def counting(*args, **options):
            counts["views" if name in VIEWS else "arrays" if name.startswith("empty") else "functions"] += 1
            return call(*args, **options)

        counting.at = getattr(call, "at", None)
        return counting

    def method(name, kind):
        original = getattr(strict_cupy.ndarray, name)

        @functools.wraps(original)
        def counting(*args, **options):
            counts[kind] += 1
            return original(*args, **options)

        monkeypatch.setattr(strict_cupy.ndarray, name, counting)

    def as_strided(x, shape, strides):
        counts["views"] += 1
        return strict_cupy.wrap(np.lib.stride_tricks.as_strided(x._array, shape, strides))

    def no_kernel(name):
        def launch(grid, block, arguments):
            counts["launches"] += 1

        return launch

    def no_product(*arguments, **options):
        counts["products"] += 1

    method("__getitem__", "views")
    method("__setitem__", "functions")
    method("_operate", "functions")
    monkeypatch.setattr(strict_cupy, "function", function)
    tricks = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=as_strided))
    monkeypatch.setattr(strict_cupy.cupy, "lib", tricks, raising=False)
    monkeypatch.setattr(strict_cupy.cupy, "asnumpy", lambda a: counts.update(["copies"]) or a._array.copy())
    monkeypatch.setattr(gpu, "cupy", strict_cupy.cupy)
    monkeypatch.setattr(gpu, "_cupy_wheels", lambda: ["strict-cupy"])
    monkeypatch.setattr(gpu, "tensor_cores", lambda: True)
    monkeypatch.setattr(kernels, "ARRAY", strict_cupy.ndarray)
    monkeypatch.setattr(kernels, "address", lambda array: array._array.ctypes.data)
    monkeypatch.setattr(kernels, "compile", lambda source: SimpleNamespace(get_function=no_kernel))
    monkeypatch.setattr(products, "_compute", no_product)
    kernels._compiled.cache_clear()
    yield counts
    kernels._compiled.cache_clear()


FOR_A_LAYER = {"launches": 6, "products": 4, "arrays": 15, "functions": 2, "views": 26}
BESIDE_LAYERS = {"launches": 3, "products": 1, "arrays": 6, "functions": 3, "views": 12}


def steps_of(n_layer):
    """A function that reads one more token, in a model of so many layers on the stand-in for a GPU."""
    model = GPT2(GPT2Config(vocab_size=50, n_positions=40, n_embd=128, n_head=2, n_layer=n_layer)).to("cuda")
    step = decoding.step(model, model.new_past(40), 37)
    step(np.array([[1, 2, 3]]))
    return step


def calls_for_a_token(counts, step):
    """Calls to the GPU for one more token."""
    counts.clear()
    assert step(np.array([[4]])).shape == (1, 50) and counts["copies"] == 0
    return dict(counts)


@pytest.mark.cupy
def test_calls_for_one_token(counted, constants):
    """Python's time for a token depends on how many calls to the GPU it makes."""
    constants.set(recorded_tokens=100)
    one, three = (calls_for_a_token(counted, steps_of(n_layer)) for n_layer in (1, 3))
    layer = {kind: (three[kind] - one[kind]) / 2 for kind in one}
    beside = {kind: one[kind] - layer[kind] for kind in one}
    for kind in FOR_A_LAYER:
        assert layer[kind] <= FOR_A_LAYER[kind] and beside[kind] <= BESIDE_LAYERS[kind], (kind, layer, beside)


@pytest.mark.cupy
def test_what_a_repeated_token_asks_for(counted, monkeypatch):
    """Two numbers are copied to where the graph reads them, and the graph is launched, whatever the model."""

    class Counted(Recorded):
        def _record(self, cupy):
            self.result = self.function(*self.inputs)
            self.graph = SimpleNamespace(launch=lambda: counted.update(["graphs"]))

    monkeypatch.setattr(decoding, "Recorded", Counted)
    step = steps_of(3)
    first = calls_for_a_token(counted, step)
    assert first["launches"] == 3 * FOR_A_LAYER["launches"] + BESIDE_LAYERS["launches"]
    assert calls_for_a_token(counted, step) == {"functions": 2, "graphs": 1}
    assert {one.length for one in step.past} == {5}


# --- what a GPU's compiler says --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", kernels.TYPES)
@pytest.mark.parametrize("size", [1, 5, 64, 80, 128])
def test_nvcc_finds_room_in_registers(size, dtype, tmp_path):
    pytest.importorskip("ml_dtypes")
    most = 16 // named_dtype(dtype).itemsize
    for pack in {1, most if size % most == 0 else 1}:
        text = kernels.source("attention_past", dtype, PACK=pack, **attention_past.plan(size, pack))
        for architecture in ("sm_75", "sm_90"):
            assert spilled(text, tmp_path, architecture) == [0, 0]
