"""The museum of wrong backward passes: every piece is caught, and most are told by name what is wrong with them."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from korean import english_in, has_hangul

from minigpt import GPT1, GPT1Config, gradcheck, ops
from minigpt.gradcheck.judge import judge
from minigpt.learn.classroom.sentences import told
from minigpt.ops import reference, shapes
from minigpt.ops.cases import KEY

ROOMS = sorted((Path(__file__).parent / "museum").glob("*.py"))
PIECES = [
    piece
    for room in map(runpy.run_path, map(str, ROOMS))
    for piece in room.values()
    if isinstance(piece, type) and hasattr(piece, "expects")
]


def operation(piece) -> str | None:
    """The operation that a piece gets wrong; None for a whole model."""
    return next((op for op in ops.names if hasattr(piece, f"{op}_forward")), None)


def findings(piece) -> list[gradcheck.Result]:
    """What is wrong with a piece, in the first trial that it fails."""
    if op := operation(piece):
        trials = judge(op, getattr(piece, f"{op}_forward"), getattr(piece, f"{op}_backward"))
    else:
        trials = model_trials(piece)
    for _, results in trials:
        if wrong := [result for result in results if result.word == "wrong"]:
            return wrong
    return []


def model_trials(piece):
    config = GPT1Config(vocab_size=9, n_positions=5, n_embd=4, n_layer=1, n_head=2)
    ids, targets = np.array([[1, 2, 1], [2, 4, 5]]), np.array([[2, 1, 3], [4, 5, 0]])
    yield "plain", gradcheck.check_model(piece(config), ids, targets)
    yield "dropout", gradcheck.check_model(piece(config), ids, targets, key=KEY)


@pytest.fixture(scope="module")
def found() -> dict:
    return {piece: findings(piece) for piece in PIECES}


def named_by(piece, results) -> str:
    """The sentence that says what is wrong with a piece; empty if none does."""
    return next((result.diagnosis for result in results if piece.expects in result.diagnosis), "")


def test_the_museum_covers_every_operation_and_the_model():
    assert {operation(piece) for piece in PIECES} == {*ops.names, None}
    assert len(PIECES) >= 34
    assert all(piece.__doc__ for piece in PIECES)


def test_every_piece_is_caught(found):
    assert [piece.__name__ for piece, results in found.items() if not results] == []


def test_most_pieces_are_named(found):
    for piece, results in found.items():
        sentence = named_by(piece, results)
        print(f"{piece.__name__:32} {'named ' if sentence else 'caught'} {sentence or results[0].diagnosis}")
    unnamed = [piece.__name__ for piece, results in found.items() if not named_by(piece, results)]
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
        assert named_by(piece, found[piece]), piece.__name__
        assert not any("left out" in result.diagnosis for result in found[piece]), piece.__name__


def test_a_right_model_is_not_accused():
    for what, results in model_trials(GPT1):
        assert all(result.word == "happy" for result in results), what


def careless(piece) -> list[gradcheck.Result]:
    """A check as it is often done: at the initial point, with a cotangent of ones."""
    op = operation(piece)
    model = getattr(reference, f"{op}_forward")
    args = shapes.examples(model)
    args |= {name: value for name, value in {"g": np.ones(15), "b": np.zeros(15)}.items() if op == "layernorm"}
    forward, backward = getattr(piece, f"{op}_forward"), getattr(piece, f"{op}_backward")
    return gradcheck.check(forward, backward, args.values(), names=args, dout=np.ones(np.shape(model(**args)[0])))


def test_a_careless_check_passes_wrong_backwards(found):
    tried = [piece for piece in PIECES if operation(piece) in ("softmax", "layernorm", "linear")]
    passed = {piece.__name__ for piece in tried if gradcheck.worst(careless(piece)).word == "happy"}
    print(f"passed by a careless check: {', '.join(sorted(passed))}")
    assert passed >= {"SoftmaxTimesMinusSeven", "GainOutsideTheMeans", "GainForgotten", "StretchDropped"}
    assert all(found[piece] for piece in tried)  # the check of this package finds them all
