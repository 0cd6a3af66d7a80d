"""The museum of wrong backward passes: every piece is caught, and most are told by name what is wrong with them."""

import sys
from unittest import mock

import numpy as np
import pytest
from helpers import check_along
from korean import english_in, has_hangul

from minigpt import GPT1, gradcheck, ops
from minigpt.gradcheck.judge import judge
from minigpt.learn.classroom.sentences import told
from minigpt.learn.museum.levels import CONFIG, IDS, TARGETS, careless, trials_of_model
from minigpt.learn.museum.model import ModelOfFunctions
from minigpt.learn.museum.pieces import as_module, changed, pieces
from minigpt.learn.museum.source import WHOLE_MODEL, right_source
from minigpt.ops import reference
from minigpt.ops.cases import KEY, cases

PIECES = pieces()


def findings(piece) -> list[gradcheck.Result]:
    """What is wrong with a piece, in the first trial that it fails."""
    module = piece.module()
    if piece.is_model:
        trials = trials_of_model(ModelOfFunctions(module, CONFIG))
    else:
        pair = getattr(module, f"{piece.op}_forward"), getattr(module, f"{piece.op}_backward")
        trials = operation_trials(piece.op, *pair)
    for _, results in trials:
        if wrong := [result for result in results if result.word == "wrong"]:
            return wrong
    return []


def operation_trials(op, forward, backward):
    """The judge's trials: of the cases in which a pair gives other numbers than the reference, and then of all.

    The first kind is enough, unless a rule is broken and no number is wrong, or only those of large inputs are.
    """
    differs = [case for case in cases(op, 0) if not gives_what_is_right(case, forward, backward)]
    if differs:
        with mock.patch.object(sys.modules[judge.__module__], "cases", lambda op, seed: differs):
            yield from judge(op, forward, backward)
    yield from judge(op, forward, backward)


def gives_what_is_right(case, forward, backward) -> bool:
    """Does a pair give what the reference gives? Where it does, the judge, who takes longer, need not try the case."""
    op = case.op
    try:
        with np.errstate(all="ignore"):
            _, mine = case.run_both(forward, backward)
    except Exception:  # the judge says what it is
        return False
    _, right = case.run_both(getattr(reference, f"{op}_forward"), getattr(reference, f"{op}_backward"))
    return all(np.shape(mine[name]) == right[name].shape and np.allclose(mine[name], right[name]) for name in right)


@pytest.fixture(scope="module")
def found() -> dict:
    return {piece: findings(piece) for piece in PIECES}


def named_by(piece, results) -> str:
    """The sentence that says what is wrong with a piece; empty if none does."""
    return next((result.diagnosis for result in results if piece.expects in result.diagnosis), "")


def test_the_museum_covers_every_operation_and_the_model():
    assert {piece.op for piece in PIECES} == {*ops.names, WHOLE_MODEL}
    assert len(PIECES) >= 133
    assert len({piece.name for piece in PIECES}) == len({piece.title for piece in PIECES}) == len(PIECES)


def test_every_piece_is_caught(found):
    assert [piece.name for piece, results in found.items() if not results] == []


@pytest.mark.parametrize("piece", [piece for piece in PIECES if piece.is_model], ids=lambda piece: piece.name)
def test_the_pieces_of_models_are_caught_along_directions_too(piece):
    """Whole models are checked so in the tests: by a derivative along two directions in place of one for each entry."""
    model = ModelOfFunctions(piece.module(), CONFIG)
    with pytest.raises(AssertionError, match="wrong"):
        for key in (None, KEY):
            check_along(model, IDS, TARGETS, key=key)


def test_most_pieces_are_named(found):
    for piece, results in found.items():
        sentence = named_by(piece, results)
        print(f"{piece.name:32} {'named ' if sentence else 'caught'} {sentence or results[0].diagnosis}")
    unnamed = [piece.name for piece, results in found.items() if not named_by(piece, results)]
    print(f"{len(PIECES)} pieces, {len(PIECES) - len(unnamed)} named; not named: {', '.join(unnamed)}")
    assert len(unnamed) <= 0.05 * len(PIECES)


def test_what_is_said_of_them_is_told_in_korean(found, monkeypatch):
    monkeypatch.setenv("MINIGPT_LANG", "ko")
    sentences = [result.diagnosis for results in found.values() for result in results]
    assert len(sentences) > 150
    english = [one for one in sentences if not has_hangul(told(one)) or english_in(told(one))]
    assert len(english) <= 0.05 * len(sentences), english


def test_a_wrong_cause_is_not_named(found):
    """Where a term is there with a wrong factor, nothing says that it is left out."""
    pieces = [piece for piece in found if "the term with it" in piece.expects or "divided by how" in piece.expects]
    assert len(pieces) >= 8
    for piece in pieces:
        assert named_by(piece, found[piece]), piece.name
        assert not any("left out" in result.diagnosis for result in found[piece]), piece.name


def test_a_right_model_is_not_accused():
    in_functions = ModelOfFunctions(as_module(right_source(WHOLE_MODEL), WHOLE_MODEL), CONFIG)
    for model in (GPT1(CONFIG), in_functions):
        for what, results in trials_of_model(model):
            assert all(result.word == "happy" for result in results), what


@pytest.mark.parametrize("op", ops.names)
def test_the_source_without_a_mistake_is_right(op):
    module = as_module(right_source(op), op)
    for what, results in judge(op, getattr(module, f"{op}_forward"), getattr(module, f"{op}_backward")):
        assert results and all(result.word == "happy" for result in results), what


def test_a_model_in_functions_is_the_gpt1():
    in_functions = ModelOfFunctions(as_module(right_source(WHOLE_MODEL), WHOLE_MODEL), CONFIG)
    losses = []
    for model in (GPT1(CONFIG), in_functions):
        loss, cache = model.loss(IDS, TARGETS)
        model.loss_backward(cache)
        losses.append((loss, [parameter.grad for _, parameter in model.named_parameters()]))
    (loss, gradients), (same_loss, same_gradients) = losses
    assert loss == same_loss
    for gradient, same in zip(gradients, same_gradients, strict=True):
        np.testing.assert_allclose(gradient, same, rtol=1e-5, atol=1e-7)


def test_a_change_that_does_not_fit_is_refused():
    text = "def f(x):\n    y = 2 * x\n    y = 2 * x\n    return y\n"
    assert changed(text, "- return y\n+ return 3", "f") == text.replace("return y", "return 3")
    for change in ("- y = 2 * x", "- y = 5"):
        with pytest.raises(ValueError, match="places of f"):
            changed(text, change, "f")
    assert changed(text, "- def f(x):\n+ def g(x):") == text.replace("f(", "g("), "without a home in the whole text"
    with pytest.raises(ValueError, match="2 places of the text"):
        changed(text, "- y = 2 * x")


def test_a_careless_check_passes_wrong_backwards(found):
    tried = [piece for piece in PIECES if piece.op in ("softmax", "layernorm", "linear")]
    passed = {piece.name for piece in tried if gradcheck.worst(careless(piece)).word == "happy"}
    print(f"passed by a careless check: {', '.join(sorted(passed))}")
    assert passed >= {"SoftmaxTimesMinusSeven", "GainOutsideTheMeans", "GainForgotten", "StretchDropped"}
    assert all(found[piece] for piece in tried)  # the check of this package finds them all
