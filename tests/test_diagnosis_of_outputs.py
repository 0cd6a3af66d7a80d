"""Diagnoses of outputs, of what surrounds a product, and of shapes; each beside a cause that is not it."""

import math

import numpy as np
import pytest

from minigpt.gradcheck.diagnosis import explain
from minigpt.gradcheck.evidence import Evidence
from minigpt.gradcheck.raised import described

RNG = np.random.default_rng(7)
T, S, D = 4, 5, 6
SEES = np.tri(T, S, S - T, dtype=bool)
SCORES, V, K = RNG.normal(size=(T, S)), RNG.normal(size=(S, D)), RNG.normal(size=(S, D))
DOUT = RNG.normal(size=(T, D))


def softmax(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def out_of(mask=SEES, v=V):
    return softmax(np.where(mask, SCORES, -np.inf)) @ v


def of_output(mine, p, true=None, again=lambda **changes: out_of(**changes), **constants):
    evidence = Evidence({"v": V, "k": K}, constants, "out", again=again, saved={"cache.p": p})
    return explain(mine, out_of() if true is None else true, evidence)


P = softmax(np.where(SEES, SCORES, -np.inf))
AFTER = np.where(SEES, softmax(SCORES), 0)
QUERIES = softmax(SCORES, axis=0)


def test_a_mask_after_the_softmax():
    assert "is something set to 0 after the softmax?" in of_output(AFTER @ V, AFTER)


def test_rows_with_a_factor_of_another_cause_are_not_the_masks():
    factor = RNG.uniform(0.5, 1, (T, 1))
    for p in (P, softmax(SCORES) * factor):  # sums of 1; sums of less, and nothing is taken away
        said = of_output(out_of() * factor, p)
        assert "factor of its own" in said and "mask" not in said


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (np.tri(T, S, dtype=bool), "counted from the first key: the last query sees all 5 keys"),
        (np.ones((T, S), bool), "right without a mask"),
        (np.tri(T, S, S - T + 1, dtype=bool), "one key too many"),
    ],
)
def test_another_mask(mask, says):
    assert says in of_output(out_of(mask), P)


def test_a_mask_that_is_none_of_these_is_not_named():
    mask = SEES.copy()
    mask[2, 1] = False
    assert "mask" not in of_output(out_of(mask), P)


def test_a_softmax_over_another_axis():
    assert "cache.p sums to 1 along axis 0" in of_output(QUERIES @ V, QUERIES)
    both = np.exp(SCORES) / np.exp(SCORES).sum()
    assert "cache.p sums to 1 over axes (0, 1) together" in of_output(both @ V + 1, both)
    one_hot = np.eye(S)[[0, 1, 2, 3, 4]]
    assert "softmax" not in of_output(out_of() ** 2, one_hot), "zeros and ones are no probabilities"
    assert "softmax" not in of_output(out_of() ** 2, P)


def test_rows_that_see_nothing():
    nothing = np.where(np.arange(T)[:, None] == 1, 0, P)
    equal = np.where(np.arange(T)[:, None] == 1, 1 / S, P)
    assert "Only rows that may see nothing are wrong" in of_output(equal @ V, equal, nothing @ V)
    assert "see nothing" not in of_output(equal @ V, nothing, nothing @ V), "their weights are 0"
    assert "see nothing" not in of_output(2 * equal @ V**2, equal, nothing @ V), "other rows are wrong too"


def normalised(x, eps=1e-5, ddof=0, outside=False):
    var = x.var(axis=-1, ddof=ddof, keepdims=True)
    std = np.sqrt(var) + eps if outside else np.sqrt(var + eps)
    return (x - x.mean(axis=-1, keepdims=True)) / std


def of_layernorm(mine, **constants):
    x, g, b = DOUT, np.linspace(0.5, 2, D), np.linspace(-1, 1, D)

    def again(x=x, g=g, b=b, eps=1e-5):
        return g * normalised(x, eps) + b

    evidence = Evidence({"x": x, "g": g, "b": b}, constants, "out", again=again)
    return explain(g * mine + b, again(), evidence)


def test_a_variance_and_an_eps():
    assert "the variance divide by 5, that is C - 1, in place of 6" in of_layernorm(normalised(DOUT, ddof=1))
    assert "eps outside the root" in of_layernorm(normalised(DOUT, outside=True))
    assert "right for eps = 0" in of_layernorm(normalised(DOUT, eps=0.0))
    assert "C - 1" not in of_layernorm(normalised(DOUT) * 0.9)
    far = of_layernorm(normalised(DOUT) * (1 + 1e-3 * DOUT))
    assert "eps outside" not in far and "sqrt" not in far


def test_what_leaves_the_output_as_it_is_says_nothing():
    """x may be scaled as one likes: that an error of the size of eps is right for x / sqrt(2) is no cause."""
    assert "scale" not in of_layernorm(normalised(DOUT, eps=1.1e-5))


def of_gradient(mine, true, **arrays):
    gradients = {"q": true, "k": np.ones_like(K)}
    return explain(
        mine, true, Evidence({"dout": DOUT, "k": K, **arrays}, {}, "q", gradients, lambda **_: true * np.nan)
    )


def test_a_sum_before_a_product():
    dp = RNG.normal(size=(T, S))
    right = P * (dp - (P * dp).sum(axis=-1, keepdims=True))
    assert "Before the product with k" in of_gradient(P * (1 - P) * dp @ K, right @ K)
    other = P * (dp**3 - (P * dp**3).sum(axis=-1, keepdims=True))
    assert "Before the product" not in of_gradient(other @ K, right @ K), "its rows sum to 0 as well"
    assert "Before the product" not in of_gradient(P * dp @ K, dp @ K), "those of the true one do not sum to 0"


def test_a_direct_part_that_is_overwritten():
    x_hat, g = normalised(RNG.normal(size=(T, D))), np.linspace(0.5, 2, D)
    rows, more = RNG.normal(size=(2, T, 1))
    indirect = x_hat * rows + more
    arrays = {"x_hat": x_hat, "g": g}
    assert "is the direct part, in every row a multiple of dout g" in of_gradient(
        indirect, DOUT * g + indirect, **arrays
    )
    with_half = of_gradient(DOUT * g / 2 + indirect, DOUT * g + indirect, **arrays)
    assert "direct part" not in with_half, "half of it is there"


def test_targets_of_all_rows():
    ids, p = np.array([0, 3, 5, -100]), softmax(RNG.normal(size=(4, 7)))
    true = np.where((ids >= 0)[:, None], p - np.eye(7)[ids % 100], 0)
    columns = np.isin(np.arange(7), ids)
    evidence = Evidence({"targets": ids})
    mine = np.where((ids >= 0)[:, None], p - columns, 0)
    assert "Every row is wrong at the targets of the other rows" in explain(mine, true, evidence)
    assert "other rows" not in explain(mine - (np.arange(7) == 6), true, evidence)


def test_a_mean_over_all_targets():
    evidence = Evidence({"targets": np.array([0, 3, 5, -100, 2])})
    assert "over all targets, also those of -100" in explain(np.array(0.8), np.array(1.0), evidence)


def test_an_axis_of_length_1():
    right = RNG.normal(size=3)
    assert "is a keepdims=True left in" in explain(right[None], right, Evidence({}))
    assert "keepdims" not in explain(right.repeat(2).reshape(2, 3), right, Evidence({}))


def error_of(line, **arrays):
    names = ", ".join(arrays)
    namespace = {"math": math}
    exec(compile(f"def f({names}):\n    return {line}", "a file", "exec"), namespace)
    import linecache

    linecache.cache["a file"] = (1, None, [f"def f({names}):\n", f"    return {line}\n"], "a file")
    with pytest.raises(ValueError) as raised:
        namespace["f"](**arrays)
    return described(raised.value, (__file__,))


@pytest.mark.parametrize(
    ("line", "shapes", "says"),
    [
        ("x @ w", ((2, 3), (4, 3)), "is a transpose missing in x @ w?"),
        ("x @ w.T", ((2, 3), (3, 4)), "is a transpose too many in x @ w.T?"),
        ("x @ w.T / 2", ((2, 4, 3), (2, 5, 3)), "w.T reverses all axes of w: which two are to be exchanged?"),
        ("x - w", ((2, 4, 3), (2, 4)), "w lacks the last axis of x: is keepdims=True missing where w is computed?"),
    ],
)
def test_shapes_that_do_not_fit(line, shapes, says):
    assert says in error_of(line, x=np.ones(shapes[0]), w=np.ones(shapes[1]))


def test_shapes_of_which_nothing_is_known():
    assert "keepdims" not in error_of("x - w", x=np.ones((2, 4)), w=np.ones(3))
