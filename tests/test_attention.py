"""What attention takes besides queries, keys and values: masks and biases of every shape, a scale, another text.

Each test runs for every implementation, and none of them may leave these calls to the reference without a reason.
"""

import math

import numpy as np
import pytest
from helpers import as_tuple, each, error, same, snapshot

from minigpt import ops
from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.ops.cases import KEY

pytestmark = pytest.mark.usefixtures("implementation")

B, NH, T, S, D = 2, 3, 5, 7, 4
SHAPES = [(1, 1), (1, -1), (-2, 1), (-2, -1)]
SHAPES = [(b, h, t, s) for b in (1, B) for h in (1, NH) for t, s in SHAPES] + [(-2, -1), (1, -1), (-1,), (NH, 1, -1)]
NAMES = ("self_attention", "cross_attention")


def normal(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def arguments(op, dtype=np.float64) -> tuple[list, int]:
    """Positional arguments, and how many keys there are."""
    if op == "attention":
        return [normal(B, NH, T, D, dtype=dtype), *normal(2, B, NH, S, D, dtype=dtype)], S
    if op == "self_attention":
        return [normal(B, T, 3 * NH * D, dtype=dtype), NH], T
    return [normal(B, T, NH * D, dtype=dtype), normal(B, S, 2 * NH * D, dtype=dtype), NH], S


def real_shape(shape, keys):
    """-2 stands for the queries, -1 for the keys."""
    return tuple({-2: T, -1: keys}.get(n, n) for n in shape)


def some_mask(shape, keys):
    """A mask that hides about half; a single number shows everything."""
    shape = real_shape(shape, keys)
    mask = np.random.default_rng(len(shape)).random(shape) < 0.5
    mask[..., 0] = True
    return mask


def results(op, args, constants) -> list:
    """The output, and all gradients but those that are None."""
    out, cache = getattr(ops, f"{op}_forward")(*args, **constants)
    dout = normal(*np.shape(out), dtype=out.dtype, seed=5)
    gradients = getattr(ops, f"{op}_backward")(dout, cache)
    return [out, *(g for g in as_tuple(gradients) if g is not None)]


def assert_as_the_reference(op, args, implementation, tolerance=1e-11, **constants):
    """The same result and gradients, made by the implementation itself."""
    if op in NAMES:
        assert ops.explain(op, *args, **constants).implementation == implementation
    got = results(op, args, constants)
    with ops.using("reference"):
        expected = results(op, args, constants)
    assert len(got) == len(expected)
    largest = max(np.abs(b).max() for b in expected[1:])  # the gradient of a bias that all keys share is 0
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert error(a, b) < tolerance or np.abs(a - b).max() < tolerance * largest
    return got


@each("shape", SHAPES)
@each("op", NAMES)
def test_masks_of_every_shape(op, shape, implementation):
    args, keys = arguments(op)
    mask = some_mask(shape, keys)
    got = assert_as_the_reference(op, args, implementation, mask=mask, rate=0.3, key=KEY)
    whole = np.broadcast_to(mask, (B, NH, T, keys))
    assert same(snapshot(got), snapshot(results(op, args, {"mask": whole.copy(), "rate": 0.3, "key": KEY})))


@each("shape", SHAPES)
@each("op", NAMES)
def test_biases_of_every_shape_and_their_gradients(op, shape, implementation):
    args, keys = arguments(op)
    bias = normal(*real_shape(shape, keys))
    out, *_, dbias = assert_as_the_reference(op, [*args, bias], implementation)
    assert dbias.shape == bias.shape
    whole = np.broadcast_to(bias, (B, NH, T, keys)).copy()
    out_of_whole, *_, dwhole = results(op, [*args, whole], {})
    summed = dwhole
    for axis, n in enumerate((1,) * (4 - bias.ndim) + bias.shape):
        summed = summed.sum(axis=axis, keepdims=True) if n == 1 else summed
    size = np.abs(dwhole).sum()
    assert error(out, out_of_whole) < 1e-12 and np.abs(summed.reshape(bias.shape) - dbias).max() < 1e-12 * size


@each("op", ["attention", *NAMES])
def test_a_bias_is_added_to_what_the_mask_shows_and_the_scale_is_not_its_own(op, implementation):
    args, keys = arguments(op)
    args = [*args, normal(1, NH, T, keys)]
    mask = some_mask((B, 1, 1, -1), keys)
    for constants in ({"mask": mask}, {"scale": 0.3}, {"mask": mask, "scale": 0.3, "rate": 0.3, "key": KEY}):
        assert_as_the_reference(op, args, implementation, **constants)


@each("op", ["attention", *NAMES])
def test_the_scale_is_that_of_the_scores(op):
    """Twice the scale is the same as queries twice as large; without one it is 1 / sqrt(D)."""
    args, _ = arguments(op)
    double = args[0].copy()
    queries = double[..., : NH * D] if op != "attention" else double
    queries *= 2
    forward = getattr(ops, f"{op}_forward")
    scaled = forward(*args, scale=2 / math.sqrt(D))[0]
    assert error(scaled, forward(double, *args[1:])[0]) < 1e-12
    assert error(forward(*args)[0], forward(*args, scale=1 / math.sqrt(D))[0]) < 1e-14
    assert error(scaled, forward(*args)[0]) > 1e-3


@pytest.mark.filterwarnings("error")
@each("op", NAMES)
def test_rows_that_see_nothing_are_zero_and_have_no_gradient(op, implementation):
    args, keys = arguments(op)
    bias = normal(1, NH, T, keys)
    mask = np.ones((B, 1, T, keys), bool)
    mask[0, :, 2] = False
    mask[1, :, :, 1:] = False
    got = assert_as_the_reference(op, [*args, bias], implementation, mask=mask)
    out, dq, dbias = got[0], got[1][..., : NH * D], got[-1]
    assert not out[0, 2].any() and not dq[0, 2].any() and out[1].any()
    assert np.abs(dq[1]).max() < 1e-13, "a single key: its probability is 1, whatever the query"
    assert not dbias[:, :, 2].any() or np.abs(dbias[:, :, 2]).max() < 1e-13
    nothing = np.zeros((1, keys), bool)
    assert not any(to_numpy(array).any() for array in results(op, [*args, bias], {"mask": nothing}))


@pytest.mark.filterwarnings("error")
@each("op", NAMES)
def test_a_bias_of_minus_infinity_hides(op, implementation):
    args, keys = arguments(op)
    mask = some_mask((B, 1, -2, -1), keys)
    mask[1, :, 3] = False
    bias = np.where(mask, 0.0, -np.inf)
    everything = {"mask": np.ones((1, 1), bool)}
    *got, _ = assert_as_the_reference(op, [*args, bias], implementation, **everything)
    for a, b in zip(got, results(op, args, {"mask": mask}), strict=True):
        assert error(a, b) < 1e-12


@each("large", [30.0, 1000.0])
def test_large_scores_and_large_biases(large, implementation):
    """What is hidden may be of any size, and neither it nor what is seen overflows."""
    args, keys = arguments("cross_attention")
    args[0][0] *= large
    bias = large * normal(1, NH, T, keys)
    mask = some_mask((B, 1, -2, -1), keys)
    mask[:, :, 1] = False
    for given in (args, [*args, bias]):
        for array in assert_as_the_reference("cross_attention", given, implementation, 1e-9, mask=mask):
            assert np.isfinite(array).all()


def test_across_texts_every_query_sees_every_key_unless_a_mask_hides_some():
    args, _ = arguments("cross_attention")
    out, _ = ops.cross_attention_forward(*args)
    everything, _ = ops.cross_attention_forward(*args, mask=np.ones((T, S), bool))
    assert error(out, everything) < 1e-14
    q, kv, _ = args
    changed = kv.copy()
    changed[:, -1] += 1
    assert np.abs(ops.cross_attention_forward(q, changed, NH)[0] - out).min(axis=(0, 2)).all(), "the first query too"
    mask = np.arange(S) < S - 1
    hidden = [ops.cross_attention_forward(q, x, NH, mask=mask)[0] for x in (kv, changed)]
    assert same(*map(snapshot, hidden))


@each("op", NAMES)
def test_the_dtype_stays(op):
    """A scale that is a NumPy number makes nothing wider."""
    args, keys = arguments(op, np.float32)
    bias = normal(1, NH, T, keys, dtype=np.float32)
    for array in results(op, [*args, bias], {"scale": np.float64(0.3), "mask": some_mask((-2, -1), keys)}):
        assert array.dtype == np.float32


@each("op", ["attention", *NAMES])
def test_a_mask_of_numbers_is_refused(op):
    """0 and -inf, as other libraries add them, would be read upside down."""
    args, keys = arguments(op)
    for mask in (np.where(np.tri(T, keys), 0, -np.inf), np.ones((T, keys), int)):
        with pytest.raises(InputError, match=f"mask of {mask.dtype}: give booleans"):
            getattr(ops, f"{op}_forward")(*args, mask=mask)


@each("op", ["attention", *NAMES])
@each("shape", [(T + 1, 1), (1, 1, 1, 1, 1), (B + 1, 1, 1, 1)])
def test_what_does_not_broadcast_is_refused(op, shape):
    args, _ = arguments(op)
    forward = getattr(ops, f"{op}_forward")
    with pytest.raises(InputError, match="mask of shape .* does not broadcast to"):
        forward(*args, mask=np.ones(shape, bool))
    with pytest.raises(InputError, match="bias of shape .* does not broadcast to"):
        forward(*args, np.ones(shape))


@each("op", NAMES)
def test_without_a_gradient_nothing_is_kept(op):
    args, keys = arguments(op)
    constants = {"mask": some_mask((-2, -1), keys), "scale": 0.4}
    args = [*args, normal(NH, 1, keys)]
    forward = getattr(ops, f"{op}_forward")
    out, cache = forward(*args, **constants, grad=False)
    assert cache is None and same(snapshot([out]), snapshot([forward(*args, **constants)[0]]))


def test_the_bias_of_the_head_is_added_to_every_row():
    """A constant bias changes nothing; a large one of one word makes that word sure; its gradient is a sum of rows."""
    h, w, targets = normal(3, 4, 5), normal(7, 5), np.random.default_rng(0).integers(7, size=(3, 4))
    plain, _ = ops.linear_cross_entropy_forward(h, w, targets)
    for bias in (np.zeros(7), np.full(7, 3.0)):
        assert abs(ops.linear_cross_entropy_forward(h, w, targets, bias)[0] - plain) < 1e-12
    sure, cache = ops.linear_cross_entropy_forward(h, w, 0 * targets + 2, 50.0 * np.eye(7)[2], weights=targets + 1.0)
    assert abs(sure) < 1e-12
    loss, cache = ops.linear_cross_entropy_forward(h, w, targets, normal(7), weights=targets + 1.0)
    dbias = to_numpy(ops.linear_cross_entropy_backward(2.0, cache)[2])
    logits = (h @ w.T + normal(7)).reshape(-1, 7)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    share = (targets + 1.0).reshape(-1) / (targets + 1.0).sum()
    assert error(dbias, 2.0 * (share @ (p - np.eye(7)[targets.reshape(-1)]))) < 1e-12
    assert ops.linear_cross_entropy_backward(1.0, ops.linear_cross_entropy_forward(h, w, targets)[1])[2] is None
