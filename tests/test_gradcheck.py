"""The gradient check, its diagnoses, the shape lines, and the judge of learners' files."""

import inspect
import itertools
import math

import numpy as np
import pytest
from helpers import Along, check_along

from minigpt import GPT1, GPT1Config, gradcheck, models, ops
from minigpt.errors import InputError
from minigpt.gradcheck.diagnosis import explain
from minigpt.gradcheck.evidence import Evidence
from minigpt.gradcheck.judge import judge
from minigpt.jobs import check
from minigpt.learn.judging import check_file
from minigpt.ops import reference, shapes
from minigpt.ops.cases import KEY, case, cases

RNG = np.random.default_rng(5)
X, G, B = RNG.standard_normal((4, 6)), RNG.standard_normal(6), RNG.standard_normal(6)


def scale_forward(x, g, b=None):
    """A small operation to plant mistakes in: out = x * g + b."""
    return x * g + (0 if b is None else b), (x, g, b)


def scale_backward(dout, cache):
    x, g, b = cache
    return dout * g, (dout * x).sum(axis=0), None if b is None else dout.sum(axis=0)


def check_scale(forward=scale_forward, backward=scale_backward, args=(X, G, B), **options):
    return gradcheck.check(forward, backward, args, **options)


def only(results, name):
    return next(result for result in results if result.name == name)


# The check itself


def test_numeric_gradient_and_its_argument_is_put_back():
    x = X.copy()
    gradient = gradcheck.numeric(lambda x: x**3, x, 2.0)
    np.testing.assert_allclose(gradient, 6 * X**2, rtol=1e-8)
    assert x.tobytes() == X.tobytes()


def test_what_a_numeric_gradient_moved_is_put_back_where_the_function_raises():
    """Diagnoses try a forward pass with inputs that it may refuse, and go on with the same arrays."""
    x = X.copy()
    for calls in (1, 2):
        left = iter(range(calls))
        with pytest.raises(StopIteration):
            gradcheck.numeric(lambda x, left=left: x * next(left), x)
        assert np.array_equal(x, X)


def test_a_sigmoid_is_not_told_that_it_depends_on_the_row():
    """SiLU has a sigmoid in its cache; its slope alone is wrong, but not for want of a sum over a row."""

    def silu(x):
        s = 1 / (1 + np.exp(-x))
        return x * s, {"s": s}

    [result] = gradcheck.check(silu, lambda dout, cache: dout * cache["s"] * (1 - cache["s"]), (X,))
    assert "product rule" in result.diagnosis


def test_numeric_gradient_of_a_function_that_returns_its_argument():
    np.testing.assert_allclose(gradcheck.numeric(lambda x: x, X.copy(), X), X, rtol=1e-9)


def test_a_right_pair_is_happy_and_names_come_from_the_signature():
    results = check_scale()
    assert [result.name for result in results] == ["x", "g", "b"]
    assert all(result.word == "happy" and not result.diagnosis for result in results)
    assert gradcheck.worst(results).error < 1e-9
    assert [result.name for result in check_scale(names=("a", "b", "c"))] == ["a", "b", "c"]


def test_an_input_that_is_not_given_has_no_gradient():
    assert [result.name for result in check_scale(args=(X, G, None))] == ["x", "g"]
    assert [result.name for result in check_scale(args=(X, G))] == ["x", "g"]


def test_arguments_are_not_changed_and_float32_is_checked_in_float64():
    x = X.astype(np.float32)
    assert gradcheck.worst(check_scale(args=(x, G, B))).error < 1e-9
    assert x.dtype == np.float32 and x.tobytes() == X.astype(np.float32).tobytes()


def test_words():
    errors = {9e-8: "happy", 1.1e-7: "suspicious", 9e-5: "suspicious", 1.1e-4: "wrong", math.inf: "wrong"}
    assert {error: gradcheck.Result("x", error).word for error in errors} == errors
    results = check_scale(backward=lambda dout, cache: [g * (1 + 1e-6) for g in scale_backward(dout, cache)])
    assert {result.word for result in results} == {"suspicious"}
    assert "float32" in results[0].diagnosis or "1 times" in results[0].diagnosis


def test_nan_is_wrong():
    result = check_scale(backward=lambda dout, cache: (dout * np.nan, *scale_backward(dout, cache)[1:]))[0]
    assert result.word == "wrong" and result.error == math.inf and "NaN" in result.diagnosis


def test_the_worst_entry_is_shown_with_both_numbers():
    def backward(dout, cache):
        dx, dg, db = scale_backward(dout, cache)
        dx = dx.copy()
        dx[2, 3] += 1.0
        return dx, dg, db

    result = check_scale(backward=backward)[0]
    assert result.index == (2, 3) and result.analytic - result.numeric == pytest.approx(1.0)
    text = gradcheck.table(check_scale(backward=backward))
    assert "[2, 3]" in text and f"{result.numeric:.6g}" in text and "happy" in text and "wrong" in text


def shifted_softmax_forward(x, b):
    """softmax(x + b) with the same b for the whole row: b has no influence."""
    p, cache = reference.softmax_forward(x + b[:, None])
    return p, cache


def shifted_softmax_backward(dp, cache, error=0.0):
    dx = reference.softmax_backward(dp, cache)
    return dx, dx.sum(axis=-1) + error


def test_a_true_gradient_of_zero_is_checked_absolutely():
    results = gradcheck.check(shifted_softmax_forward, shifted_softmax_backward, (X, X[:, 0]))
    assert only(results, "b").word == "happy" and abs(only(results, "b").numeric) < 1e-9
    wrong = gradcheck.check(
        shifted_softmax_forward, lambda dp, cache: shifted_softmax_backward(dp, cache, 1e-3), (X, X[:, 0])
    )
    assert only(wrong, "b").word == "wrong" and only(wrong, "x").word == "happy"


def test_a_zero_gradient_alone_is_checked_absolutely():
    # with a cotangent of ones the whole gradient of a softmax is zero, whatever one computes
    results = gradcheck.check(reference.softmax_forward, reference.softmax_backward, (X,), dout=np.ones_like(X))
    assert results[0].word == "happy"


@pytest.mark.parametrize(
    ("name", "says", "backward"),
    [
        ("backward", "nothing yet", lambda dout, cache: None),
        ("backward", "nothing yet", lambda dout, cache: (..., ..., ...)),
        ("backward", "nothing yet", lambda dout, cache: dout * ...),
        ("backward", "2 gradients; expected 3, in this order: x, g, b", lambda *given: scale_backward(*given)[:2]),
        ("backward", "writes into dout", lambda dout, cache: scale_backward(dout.__imul__(2), cache)),
        ("backward", "writes into x", lambda dout, cache: scale_backward(dout, (cache[0].__imul__(2), *cache[1:]))),
        ("backward", "second call", lambda dout, cache: scale_backward(dout * np.random.random(), cache)),
        ("dtype", "float32 goes in, but g is float64", lambda dout, cache: _promote(*scale_backward(dout, cache))),
    ],
)
def test_broken_rules_of_the_backward_pass(name, says, backward):
    results = check_scale(backward=backward)
    assert any(result.name == name and says in result.diagnosis for result in results)
    assert gradcheck.worst(results).word == "wrong"


def _promote(dx, dg, db):
    return dx, dg * np.sqrt(1.0), db


@pytest.mark.parametrize(
    ("says", "forward"),
    [
        ("nothing yet", lambda x, g, b: None),
        ("nothing yet", lambda x, g, b: (None, None)),
        ("nothing yet", lambda x, g, b: (..., (x, g, b))),
        ("must return a pair", lambda x, g, b: x * g + b),
        ("writes into x", lambda x, g, b: scale_forward(x.__imul__(2), g, b)),
    ],
)
def test_broken_rules_of_the_forward_pass(says, forward):
    results = check_scale(forward=forward)
    assert any(result.name == "forward" and says in result.diagnosis for result in results)


def test_a_stub_that_raises_not_implemented():
    def stub(*arguments):
        raise NotImplementedError

    assert "nothing yet" in check_scale(forward=stub)[0].diagnosis
    assert "nothing yet" in check_scale(backward=stub)[0].diagnosis


def test_what_else_is_raised_reaches_the_caller():
    with pytest.raises(KeyError):
        check_scale(backward=lambda dout, cache: {}["dx"])


def test_nothing_to_check():
    with pytest.raises(InputError, match="nothing to check"):
        gradcheck.check(lambda ids: (ids, ids), lambda dout, cache: None, (np.arange(3),))


def test_the_output_is_compared_with_a_reference():
    results = check_scale(reference=lambda x, g, b: (2 * (x * g) + b, None))
    assert only(results, "out").word == "wrong" and results[-1].word == "happy"
    assert only(check_scale(reference=scale_forward), "out").error == 0


# Diagnoses: a wrong gradient made of the true one, and the words that must be in the sentence about it

TRUE = RNG.standard_normal((4, 6))
OTHER = RNG.standard_normal((4, 6))
COLUMN = RNG.standard_normal((4, 1))
MASKED = np.where(np.arange(24).reshape(4, 6) % 3 == 0, 0, TRUE)
CENTRED = TRUE - TRUE.mean(axis=1, keepdims=True)


def pair(mine, true=TRUE, arrays=None, **more):
    return mine, true, Evidence({"x": X, "dout": OTHER, "out": X, **(arrays or {})}, **more)


@pytest.mark.parametrize(
    ("says", "case"),
    [
        ("sign is wrong", pair(-TRUE)),
        ("0.4082 times yours, which is 1/sqrt(6): is the scale missing", pair(TRUE * 6**0.5)),
        ("sqrt(6): is the scale applied once too often", pair(TRUE / 6**0.5)),
        ("a mean over 6 where it must be a sum", pair(TRUE / 6)),
        ("summed where the forward pass takes a mean over 4", pair(TRUE * 4)),
        ("0.303 times yours: a constant factor", pair(TRUE * 3.3)),
        ("division by 1 - rate", pair(TRUE * 0.9, constants={"rate": 0.1})),
        ("divided by 1 - rate once too often", pair(TRUE / 0.9, constants={"rate": 0.1})),
        ("division by normalizer", pair(TRUE * 7.7, constants={"normalizer": 7.7})),
        ("zero everywhere", pair(TRUE * 0)),
        ("NaN", pair(np.where(TRUE > 1, np.nan, TRUE))),
        ("transposed", pair(TRUE.T)),
        ("transposed", pair((TRUE @ TRUE.T + COLUMN).T, TRUE @ TRUE.T + COLUMN)),
        ("gradient of k", pair(OTHER + 1, gradients={"k": OTHER + 1})),
        ("gradient of k", pair(OTHER[:, :2], gradients={"k": OTHER[:, :2]})),
        ("dout itself", pair(OTHER)),
        ("not summed over axes (0,)", pair(TRUE, TRUE.sum(axis=0))),
        ("dout summed over axes (1,)", pair(OTHER.sum(axis=1), OTHER.sum(axis=0))),
        ("reshape it", pair(TRUE.reshape(-1), TRUE)),
        ("wrong places", pair(TRUE.reshape(6, 4).T.copy())),
        ("3 parts of its last axis are swapped: [2, 1, 3]", pair(TRUE[:, [2, 3, 0, 1, 4, 5]])),
        ("missing is exactly dout", pair(TRUE - OTHER)),
        ("once too often is dout", pair(TRUE + OTHER)),
        ("is the gradient of c_proj.bias: what", pair(TRUE - OTHER, gradients={"c_proj.bias": OTHER.sum(axis=0)})),
        ("yours times g: is that factor missing", pair(TRUE / G, arrays={"g": G})),
        ("times weights: that is one factor too many", pair(TRUE * COLUMN, arrays={"weights": COLUMN[:, 0]})),
        ("factor of its own", pair(TRUE * COLUMN)),
        ("the same number for the whole row", pair(TRUE + COLUMN)),
        ("in every row, a multiple of x", pair(TRUE + COLUMN * X)),
        ("a number, and a multiple of x", pair(TRUE + COLUMN * X + COLUMN**2)),
        ("8 entries where the true one is", pair(np.where(MASKED == 0, OTHER, MASKED), MASKED)),
        ("another mask, or another key", pair(np.roll(MASKED, 1, axis=1) * OTHER**2, MASKED)),
        ("sums to 0 along axis 1", pair(CENTRED * (OTHER + 2), CENTRED)),
        ("float32", pair(TRUE * (1 + 2e-6 * OTHER))),
        ("nearly right", pair(TRUE * (1 + 1e-3 * OTHER))),
        ("wrong only at 2 of axis 1", pair(TRUE + (np.arange(6) == 2) * OTHER**2)),
        ("wrong only at 2 to 4 of axis 1", pair(TRUE + np.isin(np.arange(6), (2, 3, 4)) * OTHER**2)),
        ("24 of 24 entries are wrong", pair(OTHER**3)),
    ],
)
def test_diagnosis(says, case):
    assert says in explain(*case)


IDS = np.array([[0, 3, 3], [1, 5, 1]])
ROWS = RNG.standard_normal((7, 6))  # the gradient of a table with seven rows; 2, 4 and 6 do not occur
USED = np.isin(np.arange(7), IDS)[:, None]
REPEATED = np.isin(np.arange(7), (1, 3))[:, None]
LOGITS = RNG.standard_normal((2, 3, 6))
TARGET = np.arange(6) == IDS[..., None]


@pytest.mark.parametrize(
    ("says", "mine", "true", "ids"),
    [
        ("rows of repeated ids", ROWS + REPEATED, ROWS, IDS),
        ("rows of ids that occur are wrong: what the lookup adds", ROWS + USED * ROWS**2, ROWS, IDS),
        ("do not occur are 0 times", ROWS * USED + USED, ROWS, IDS),
        ("do not occur are 2 times", ROWS * (2 - USED) + USED * ROWS**2, ROWS, IDS),
        ("wrong only at 2 of axis 0", ROWS + (np.arange(7) == 2)[:, None] * ROWS**2, ROWS, np.arange(7).reshape(1, 7)),
        ("one-hot", LOGITS + TARGET, LOGITS, IDS),
        ("ignored (-100)", LOGITS * (IDS >= 0)[..., None] + 0.1, None, None),
    ],
)
def test_diagnosis_with_ids(says, mine, true, ids):
    if true is None:
        ids = np.where(IDS == 3, -100, IDS)
        true = np.where((ids < 0)[..., None], 0, LOGITS)
        mine = LOGITS
    assert says in explain(mine, true, Evidence({"ids": ids}))


# Whole models

CONFIG = GPT1Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2)
TOKENS, TARGETS = np.array([[1, 2, 1], [2, 4, 5]]), np.array([[2, 1, 3], [4, 5, 0]])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"key": ops.Key.of(3, 4)},
        {"normalizer": 11.0},
        {"weights": RNG.uniform(0.5, 2, (2, 3))},
        {"targets": np.array([[2, -100, 3], [-100, 5, 0]])},
        {"targets": [[2, -100, 3], [-100, 5, 0]], "key": ops.Key.of(3, 4), "normalizer": 9.0},
    ],
)
def test_every_parameter_of_a_model(options):
    results = gradcheck.check_model(GPT1(CONFIG), TOKENS, **({"targets": TARGETS} | options))
    assert [result.name for result in results] == [name for name, _ in GPT1(CONFIG).named_parameters()]
    assert gradcheck.worst(results).error < 1e-7


def test_a_checked_model_is_as_it_was():
    model = GPT1(CONFIG, dtype=np.float32)
    before = {name: (p.data, p.data.tobytes()) for name, p in model.named_parameters()}
    gradcheck.check_model(model, TOKENS, TARGETS)
    for name, p in model.named_parameters():
        data, bytes_before = before[name]
        assert p.data is data and p.data.tobytes() == bytes_before and p.grad is None


def test_a_model_that_raises_is_as_it_was():
    model = GPT1(CONFIG)
    data = model.head.data
    with pytest.raises(InputError):
        gradcheck.check_model(model, TOKENS + 100, TARGETS)
    assert model.head.data is data


class SpoiledKeys(GPT1):
    """Adds a little to the gradient of the key bias, whose true gradient is zero."""

    def loss_backward(self, cache, dloss=1.0):
        super().loss_backward(cache, dloss)
        self.h[0].attn.c_attn.bias.grad[4:8] += 1e-2


def test_the_bias_of_the_keys_has_no_gradient_and_may_have_none():
    model = GPT1(CONFIG, dtype=np.float64)
    model.loss_backward(model.loss(TOKENS, TARGETS)[1])
    assert abs(model.h[0].attn.c_attn.bias.grad[4:8]).max() < 1e-15
    results = gradcheck.check_model(SpoiledKeys(CONFIG), TOKENS, TARGETS)
    assert [result.name for result in results if result.word == "wrong"] == ["h.0.attn.c_attn.bias"]
    assert "not zero at 4 entries" in only(results, "h.0.attn.c_attn.bias").diagnosis


class SpoiledEntries(GPT1):
    """Of each gradient one entry is wrong, by a thousandth of the largest."""

    def loss_backward(self, cache, dloss=1.0):
        super().loss_backward(cache, dloss)
        rng = np.random.default_rng(0)
        for parameter in self.parameters():
            parameter.grad.flat[rng.integers(parameter.grad.size)] += 1e-3 * abs(parameter.grad).max()


def test_along_directions_one_wrong_entry_of_a_tensor_is_found():
    check_along(GPT1(CONFIG), TOKENS, TARGETS)
    results = gradcheck.check_model(Along(SpoiledEntries(CONFIG)), TOKENS, TARGETS, spread=0)
    assert len(results) == len(list(GPT1(CONFIG).parameters())) and min(result.error for result in results) > 1e-5


class Promotes(GPT1):
    def loss_backward(self, cache, dloss=1.0):
        super().loss_backward(cache, dloss)
        self.head.grad = self.head.grad * np.sqrt(1.0)


def test_a_model_that_promotes_its_gradients():
    for model in (Promotes(CONFIG), Along(Promotes(CONFIG))):
        results = gradcheck.check_model(model, TOKENS, TARGETS)
        assert [(result.name, result.word) for result in results if result.diagnosis] == [("dtype", "wrong")]


# Shape lines


def test_parse():
    inputs, outputs = shapes.parse("w (V,C), ids (*) int, qkv (B,T,3C) -> out (*,C), loss (), and more")
    assert inputs == [
        shapes.Tensor("w", ("V", "C")),
        shapes.Tensor("ids", ("*",), True),
        shapes.Tensor("qkv", ("B", "T", "3C")),
    ]
    assert [tensor.shape() for tensor in inputs] == [(13, 15), (2, 3), (2, 4, 45)]
    assert [tensor.shape((6,), {"C": 5}) for tensor in outputs] == [(6, 5), ()]


@pytest.mark.parametrize("line", ["", "out = x w + b", "x (*,C)", "x (*,C) -> nothing", "-> out (*,C)"])
def test_what_is_no_shape_line(line):
    with pytest.raises(ValueError, match="shape line"):
        shapes.parse(line)


def test_what_stands_in_brackets_is_optional():
    inputs, outputs = shapes.parse("x (*,C), [bias (V,)] -> dx (*,C), [dbias (V,)]")
    assert [tensor.optional for tensor in inputs + outputs] == [False, True, False, True]


@pytest.mark.parametrize("op", ops.names)
def test_the_shape_lines_of_every_operation(op):
    forward, backward = getattr(reference, f"{op}_forward"), getattr(reference, f"{op}_backward")
    constants = {"dropout": {"rate": 0.5, "key": KEY}, "rope": case("rope").constants}.get(op, {})
    inputs, outputs = shapes.of(forward)
    (dout_line,), gradient_lines = shapes.of(backward)
    for leading in shapes.leading_axes(forward).values():
        args = shapes.examples(forward, leading)
        out, cache = forward(*args.values(), **constants)
        assert np.shape(out) == outputs[0].shape(leading) == dout_line.shape(leading)
        gradients = backward(np.ones(np.shape(out)), cache)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        assert [g.shape for g in gradients] == [tensor.shape(leading) for tensor in gradient_lines]
    assert [tensor.name for tensor in gradient_lines] == [f"d{x.name}" for x in inputs if not x.integer]
    assert dout_line.name == f"d{outputs[0].name}"


@pytest.mark.parametrize("op", ops.names)
def test_example_sizes_are_pairwise_distinct(op):
    for leading in shapes.leading_axes(getattr(reference, f"{op}_forward")).values():
        letters = {axis for x in shapes.of(getattr(reference, f"{op}_forward"))[0] for axis in x.axes} - {"*"}
        sizes = [*leading, *(shapes.Tensor("", (letter,)).shape()[0] for letter in letters)]
        if letters & {"B"}:
            sizes = sizes[len(leading) :]
        assert len(set(sizes)) == len(sizes)


def test_example_values():
    args = shapes.examples(reference.embedding_forward, (2, 3, 4))
    counts = np.bincount(args["ids"].reshape(-1), minlength=13)
    assert counts.max() > 1 and counts.min() == 0  # repeated rows, and rows that are not used
    for seed in range(9):
        ids = shapes.examples(reference.embedding_forward, (3,), seed=seed)["ids"]
        assert len(set(ids.tolist())) < 3  # even where there are few of them
    x = shapes.examples(reference.layernorm_forward)["x"]
    assert abs(x).min() >= 0.25 and abs(x).max() <= 1.5 and x.min() < 0 < x.max()
    assert shapes.SIZES["B"] * shapes.SIZES["T"] < shapes.SIZES["C"]
    assert list(shapes.examples(reference.self_attention_forward)) == ["qkv", "n_head", "bias"]
    assert list(shapes.examples(reference.self_attention_forward, optional=False)) == ["qkv", "n_head"]
    same = shapes.examples(reference.gelu_forward, seed=3)["x"] == shapes.examples(reference.gelu_forward, seed=3)["x"]
    assert same.all()


# minigpt check


def test_the_models_that_are_checked_are_small():
    """Each number of each is moved twice: a published inner width of 11,008 would take half an hour."""
    sizes = {what: sum(p.data.size for p in model.parameters()) for what, model, _ in check.relatives(0)}
    assert len(sizes) == len(models.names()) - 2 and max(sizes.values()) < 8000, sizes


GOOD = """
import numpy as np

def layernorm_forward(x, g, b, *, eps=1e-5):
    s = np.sqrt(x.var(-1, keepdims=True) + eps)
    n = (x - x.mean(-1, keepdims=True)) / s
    return n * g + b, (n, s, g)

def layernorm_backward(dout, cache):
    n, s, g = cache
    rows = tuple(range(dout.ndim - 1))
    d = dout * g
    dx = (d - d.mean(-1, keepdims=True) - n * (d * n).mean(-1, keepdims=True)) / s
    return dx, (dout * n).sum(rows), dout.sum(rows)
"""


def judged(tmp_path, text) -> tuple[bool, str]:
    file, lines = tmp_path / "mine.py", []
    file.write_text(text, encoding="utf-8")
    happy = check_file.run(file, say=lines.append)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]  # nothing is left beside it
    return happy, "\n".join(lines)


def test_a_good_file(tmp_path):
    happy, text = judged(tmp_path, GOOD)
    assert happy and "layernorm 2x3x4x15" in text and "tensors are happy" in text
    assert "with it: mlp" in text and "with it: GPT-1, dropout" in text


def test_a_wrong_file(tmp_path):
    happy, text = judged(tmp_path, GOOD.replace(" - n * (d * n).mean(-1, keepdims=True)", ""))
    assert not happy and "a multiple of cache.0" in text and "small models" in text and "with it" not in text


def test_an_empty_file(tmp_path):
    stub = "def gelu_forward(x):\n    out = ...  # your turn\n    return out, x\n"
    happy, text = judged(tmp_path, stub + "\n\ndef gelu_backward(dout, cache):\n    return None\n")
    assert not happy and text.count("It returns nothing yet") == 1


def test_a_file_that_raises_has_its_line_shown_and_no_traceback(tmp_path):
    happy, text = judged(tmp_path, GOOD.replace("d = dout * g", "d = dout * gain"))
    assert not happy and "NameError in line 12, `d = dout * gain`: name 'gain' is not defined" in text
    assert "Traceback" not in text


def test_the_line_that_is_shown_is_the_learner_s_and_none_of_the_library(tmp_path):
    text = "from minigpt import ops\n" + GOOD.replace("d = dout * g\n", "d = ops.gelu_forward()\n")
    happy, text = judged(tmp_path, text)
    assert not happy and "TypeError in line 13, `d = ops.gelu_forward()`" in text


def test_a_case_with_an_option_that_a_file_does_not_take_is_skipped_and_the_report_says_so(tmp_path):
    happy, text = judged(tmp_path, GOOD.replace(", *, eps=1e-5", "").replace("+ eps", "+ 1e-5"))
    assert happy and "layernorm 2x3x15, eps 0.1: skipped, layernorm_forward takes no eps" in text
    assert "happy; 1 cases skipped, which --all-cases counts" in text and "layernorm 2x3x4x15 " in text


def test_a_bias_that_a_file_requires():
    """Its linear_forward has no default for b: the case without a bias is skipped, all others are tried."""

    def forward(x, w, b):
        return reference.linear_forward(x, w, b)

    trials = dict(judge("linear", forward, reference.linear_backward))
    skipped = [what for what, results in trials.items() if not results]
    assert len(trials) > 3 and len(skipped) == 1 and skipped[0].endswith("no bias: skipped, linear_forward needs b")


def test_an_option_that_the_operation_cannot_do_without_is_not_skipped():
    def forward(x, *, rate):
        return x, None

    trials = dict(judge("dropout", forward, reference.dropout_backward))
    first = next(iter(trials.values()))
    assert "unexpected keyword argument 'key'" in first[0].diagnosis


def test_a_file_that_overflows(tmp_path):
    softmax = """
import numpy as np
def softmax_forward(x):
    e = np.exp(x)
    p = e / e.sum(-1, keepdims=True)
    return p, p
def softmax_backward(dp, p):
    return p * (dp - (p * dp).sum(-1, keepdims=True))
"""
    happy, text = judged(tmp_path, softmax)
    assert not happy and "softmax, inputs times 1000" in text and "NaN or infinite" in text


def test_rounding_in_place_of_a_gradient_that_is_zero():
    """Scores times 1000 choose one key, and the gradients of q and k vanish; the reference's to the bit.

    Lesson 03's, which takes the average of dp from dout and out, subtracts two sums that are equal but for rounding.
    """

    def forward(q, k, v, *, mask=None, rate=0.0, key=None):
        if key is not None:
            return NotImplemented
        out, cache = reference.attention_forward(q, k, v, mask=mask)
        return out, (*cache[:4], out)

    def backward(dout, cache):
        q, k, v, p, out = cache
        ds = p * (dout @ v.swapaxes(-1, -2) - (dout * out).sum(axis=-1, keepdims=True)) / math.sqrt(q.shape[-1])
        return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dout

    trials = dict(judge("attention", forward, backward))
    assert "attention, inputs times 1000" in trials
    assert all(result.word == "happy" for results in trials.values() for result in results)


def test_a_pair_may_hand_a_case_on():
    def forward(x):
        return NotImplemented if x.ndim > 2 else reference.softmax_forward(x)

    trials = dict(judge("softmax", forward, reference.softmax_backward))
    assert any("skipped, softmax_forward leaves it to the library" in what for what in trials)
    tried = [what for what, results in trials.items() if results]
    assert tried == ["softmax 3x9", "softmax, inputs times 1000"]


def test_a_diagnosis_survives_a_forward_pass_that_needs_its_constants():
    def forward(x, *, table):
        return x * table.sum(), (x, table)

    def backward(dout, cache):
        return dout * cache[0] * 2

    results = gradcheck.check(forward, backward, (X,), {"table": G})
    assert results[0].word == "wrong" and results[0].diagnosis


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "no pair such as layernorm_forward"),
        ("def gelu_forward(x):\n    return x, x\n", "gelu_forward but no gelu_backward"),
        ("def f(:\n", "line 1: this is not Python"),
        ("import no_such_module\n", "cannot be run: ModuleNotFoundError in line 1, `import no_such_module`"),
        ("raise SystemExit(3)\n", "cannot be run: SystemExit in line 1"),
        ("from minigpt.ops import gelu_forward, gelu_backward\n", "no pair such as"),
        ("x = '\0'\n", "not Python"),
    ],
)
def test_files_that_cannot_be_judged(tmp_path, text, says):
    with pytest.raises(InputError, match=says.replace("(", r"\(")) as error:
        judged(tmp_path, text)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder(tmp_path):
    for path in (tmp_path / "none.py", tmp_path):
        with pytest.raises(InputError, match="is not a file"):
            check_file.run(path)


@pytest.mark.slow
def test_the_library_itself_is_happy():
    lines = []
    assert check.run(say=lines.append)
    text = "\n".join(lines)
    assert all(f"\n{op} " in text for op in ops.names) and text.count("\nGPT-1") == text.count("\nGPT-2") == 3
    assert "tensors are happy; the worst relative error is" in lines[-1]


def test_the_signature_of_every_operation_is_covered_by_a_case():
    """Every constant of every operation is tried at least once."""
    for op in ops.names:
        tried = set(itertools.chain.from_iterable(trial.constants for trial in cases(op)))
        parameters = inspect.signature(getattr(reference, f"{op}_forward")).parameters.values()
        assert {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - {"grad"} == tried, op


def test_numbers_without_axes():
    (result,) = gradcheck.check(lambda x: (x * x, x), lambda dout, x: 2 * x * dout, (np.array(1.5),), names=("x",))
    assert result.word == "happy" and not result.diagnosis
