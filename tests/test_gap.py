"""A gap inside a lesson: open, right, or not yet and why; whatever the reader types, the lesson goes on."""

import numpy as np
import pytest

from minigpt.learn import gap

DOUT = np.random.default_rng(0).normal(size=(3, 4))
W = np.random.default_rng(1).normal(size=(5, 4))


def verdict(line, capsys, expected=DOUT @ W.T):
    """What the judge returns, and what it prints, of this line."""
    names = {"np": np}
    exec(f"def your_dx(dout, w):\n    return {line}\n", names)
    found = gap.judge(names["your_dx"], DOUT, W, expected=expected)
    return found, capsys.readouterr().out


@pytest.mark.parametrize("line", ["...", "None"])
def test_an_open_gap_is_the_readers_turn(line, capsys):
    assert verdict(line, capsys) == (gap.OPEN, f"your_dx: {gap.OPEN}\n")


@pytest.mark.parametrize("line", ["dout @ w.T", "(w @ dout.T).T", "list(map(list, dout @ w.T))"])
def test_what_is_right_is_right_however_it_is_written(line, capsys):
    assert verdict(line, capsys) == (gap.RIGHT, "your_dx: right\n")


@pytest.mark.parametrize(
    "line, said",
    [
        ("-dout @ w.T", "The sign is wrong"),
        ("2 * dout @ w.T", "0.5 times yours"),
        ("w @ dout.T", "It is transposed."),
        ("dout", "This is dout itself"),
        ("dout @ w.T + 1e-6", "expected"),
        ("dout @ w.T * np.nan", "NaN"),
        ("1j * dout @ w.T", "expected real numbers"),
        ("'dx'", "expected real numbers"),
        ("dout @ w", "ValueError"),
        ("dout @ weights", "'weights' is not defined"),
        ("w[9]", "IndexError"),
        ("1 / 0", "division by zero"),
        ("[[1], [2, 3]]", "inhomogeneous"),
    ],
)
def test_what_is_wrong_is_not_right_yet_and_says_why(line, said, capsys):
    found, printed = verdict(line, capsys)
    assert found == gap.NOT_YET and printed.startswith("your_dx: not yet\n  ") and said in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_numbers_and_masks_are_compared_too(capsys):
    assert gap.judge(lambda n: n * n, 12, expected=144) == gap.RIGHT
    assert gap.judge(lambda n: np.tril(np.ones((n, n), bool)), 4, expected=np.tri(4)) == gap.RIGHT
    capsys.readouterr()
    assert gap.judge(lambda n: n + n, 12, expected=144) == gap.NOT_YET
    assert capsys.readouterr().out == "<lambda>: not yet\n  yours 24, expected 144\n"
    assert gap.judge(lambda n: np.ones(n), 2, expected=2) == gap.NOT_YET
    assert "It has shape (2,), expected ()." in capsys.readouterr().out


@pytest.mark.parametrize("name, says", [("your_dx", True), ("your_mask", False)])
def test_of_gradients_it_speaks_where_a_gradient_is_meant(name, says, capsys):
    def yours(x):
        return np.zeros(3)

    yours.__name__ = name
    assert gap.judge(yours, np.arange(3.0), expected=np.arange(3.0)) == gap.NOT_YET
    printed = capsys.readouterr().out
    assert "yours 0, expected 2" in printed
    assert ("this part of the derivative is missing" in printed) == says
