"""Line by line: every gradient of a backward pass against finite differences, and the first wrong line by its name."""

import numpy as np
import pytest

from minigpt.errors import InputError
from minigpt.learn import lines

X = np.random.default_rng(0).normal(3, 2, size=(4, 5))
G = np.random.default_rng(1).uniform(0.5, 2, size=5)


def forward(x, g, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    x_mean = x - mean
    var = (x_mean * x_mean).mean(axis=-1, keepdims=True)
    std = np.sqrt(var + eps)
    x_hat = x_mean / std
    out = x_hat * g
    return out


def backward(dout, v):
    dg = (dout * v.x_hat).sum(axis=0)
    dx_hat = dout * v.g
    dx_mean = dx_hat / v.std
    dstd = -(dx_hat * v.x_mean / v.std**2).sum(axis=-1, keepdims=True)
    dvar = dstd / (2 * v.std)
    dx_mean += 2 / 5 * v.x_mean * dvar
    dmean = -dx_mean.sum(axis=-1, keepdims=True)
    dx = dx_mean + dmean / 5
    return dx, dg


def wrong_in_the_middle(dout, v):
    dg = (dout * v.x_hat).sum(axis=0)
    dx_hat = dout * v.g
    dstd = -(dx_hat * v.x_mean / v.std).sum(axis=-1, keepdims=True)
    dvar = dstd / (2 * v.std)
    dx_mean = dx_hat / v.std + 2 / 5 * v.x_mean * dvar
    dx = dx_mean - dx_mean.mean(axis=-1, keepdims=True)
    return dx, dg


def unfinished(dout, v):
    dg = None
    dx_hat = dout * v.g
    dstd = ...
    dvar = dstd / (2 * v.std)
    return dvar, dg, dx_hat


def test_every_value_has_its_line_and_its_shape(capsys):
    v = lines.run(forward, X, G)
    assert np.array_equal(v.x_hat * G, v.out) and v.std.shape == (4, 1)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["shape", "line"]
    assert printed[1].split("   ")[1] == "x is given"
    assert any(line == "(4, 1)   std = np.sqrt(var + eps)" for line in printed)
    with pytest.raises(AttributeError, match="no value 'nothing'; it has x, g, mean"):
        _ = v.nothing


def test_a_line_with_two_values_is_printed_once(capsys):
    def parts(x):
        rows, columns = x.sum(axis=1), x.sum(axis=0)
        return rows * columns.sum()

    lines.run(parts, X)
    printed = capsys.readouterr().out.splitlines()
    assert printed[2:] == ["(4,)     rows, columns = (x.sum(axis=1), x.sum(axis=0))", "(5,)         and columns"]


def test_all_gradients_of_a_right_backward_are_happy(capsys):
    results = lines.check(forward, backward, X, G)
    assert [result.name for result in results] == ["dg", "dx_hat", "dstd", "dvar", "dx_mean", "dmean", "dx"]
    assert {result.word for result in results} == {"happy"} and lines.exit_status(results) == 0
    printed = capsys.readouterr().out
    assert "first wrong" not in printed
    assert "must keep them: x_hat, g, std, x_mean (392 bytes)" in printed


def test_the_first_wrong_line_is_named(capsys):
    results = {result.name: result for result in lines.check(forward, wrong_in_the_middle, X, G)}
    assert results["dg"].word == results["dx_hat"].word == "happy"
    assert results["dstd"].word == results["dvar"].word == results["dx"].word == "wrong"
    printed = capsys.readouterr().out
    assert "the first wrong gradient is dstd; it undoes x_hat = x_mean / std" in printed
    assert lines.exit_status(list(results.values())) == 1


def test_a_line_that_is_not_written_yet(capsys):
    results = {result.name: result for result in lines.check(forward, unfinished, X, G)}
    printed = capsys.readouterr().out
    assert "the first wrong gradient is dg" in printed and "returns nothing yet: your turn" in printed
    assert "the backward pass stopped: TypeError" in printed
    assert results["dx"].diagnosis == "this gradient is missing" and results["dx_hat"].word == "happy"


def test_integers_and_constants_have_no_gradient():
    def embed(w, ids, scale=1.0):
        rows = w[ids]
        out = scale * rows
        return out

    def back(dout, v):
        drows = v.scale * dout
        dw = np.zeros_like(v.w)
        np.add.at(dw, v.ids, drows)
        return dw

    results = lines.check(embed, back, X, np.array([1, 1, 3]), scale=2.0)
    assert [result.name for result in results] == ["drows", "dw"] and lines.exit_status(results) == 0


def test_names_of_the_surrounding_function_can_be_used():
    width = 5

    def centred(x):
        out = x - x.sum(axis=-1, keepdims=True) / width
        return out

    def back(dout, v):
        dx = dout - dout.sum(axis=-1, keepdims=True) / width
        return dx

    assert lines.exit_status(lines.check(centred, back, X)) == 0


def test_a_name_with_two_values_is_refused():
    def twice(x):
        h = x + 1
        h = h * h
        return h

    with pytest.raises(InputError, match="'h' is given two values, the second by 'h = h \\* h': use two names"):
        lines.run(twice, X)


def test_a_function_without_lines_is_refused():
    with pytest.raises(InputError, match="not written with def"):
        lines.run(lambda x: x, X)
    with pytest.raises(InputError, match="its source cannot be read"):
        lines.run(np.tanh, X)


def test_without_gradients_an_exercise_is_not_solved():
    assert lines.exit_status([]) == 1


def test_no_printed_line_is_too_long_for_a_slide(capsys):
    def softmax(x):
        e = np.exp(x)
        z = e.sum(axis=-1, keepdims=True)
        out = e / z
        return out

    def without_the_path_through_z(dout, v):
        de = dout / v.z
        dx = de * v.e
        return dx

    lines.check(softmax, without_the_path_through_z, X)
    printed = capsys.readouterr().out
    assert "the same number for the whole row" in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 100


def used_twice(w, x):
    inner = x @ w
    code = np.tanh(inner)
    out = code @ w.T
    return out


def right(dout, v):
    dcode = dout @ v.w
    dw = dout.T @ v.code
    dinner = dcode * (1 - v.code**2)
    dx = dinner @ v.w.T
    dw = dw + v.x.T @ dinner
    return dw, dx


def exchanged(dout, v):
    dw, dx = right(dout, v)
    return dx, dw


def too_few(dout, v):
    dw, dx = right(dout, v)
    return dw


def another_value(dout, v):
    dw, dx = right(dout, v)
    return dw, 2 * dx


def and_one_to_look_at(dout, v):
    dw, dx = right(dout, v)
    return dw, dx, dx.mean()


def overwritten(dout, v):
    dcode = dout @ v.w
    dw = dout.T @ v.code
    dinner = dcode * (1 - v.code**2)
    dx = dinner @ v.w.T
    dw = v.x.T @ dinner
    return dw, dx


def of_a_wrong_slope(dout, v):
    dcode = dout @ v.w
    dw = dout.T @ v.code
    dinner = dcode * (1 - v.inner**2)
    dx = dinner @ v.w.T
    dw = dw + v.x.T @ dinner
    return dw, dx


def of_nothing_known(dout, v):
    dcode = dout @ v.w
    dw = dout.T @ v.code
    dinner = np.sin(dcode * v.code + 0.3)
    dx = dinner @ v.w.T
    dw = dw + v.x.T @ dinner
    return dw, dx


def that_stops(dout, v):
    dcode = dout @ v.w.T
    return dcode


W = np.random.default_rng(2).normal(size=(5, 3))


@pytest.mark.parametrize(
    ("backward", "name", "says"),
    [
        (exchanged, "return", "It returns dx where dw belongs: are two gradients swapped? The order is dw, dx."),
        (too_few, "return", "It returns 1 gradients; expected 2: dw, dx."),
        (another_value, "return", "What it returns in the place of dx is not dx. The order is dw, dx."),
        (overwritten, "dw", "The part from `out = code @ w.T` is missing: w is used twice, and the parts are added."),
        (of_a_wrong_slope, "dinner", "yours is dcode (1 - inner²): one of these is not what this line asks for."),
        (of_nothing_known, "dinner", "and no simple pattern fits."),
        (that_stops, "backward", "dcode = dout @ v.w.T`: the shapes do not fit: dout (4, 5), v.w (5, 3)."),
    ],
)
def test_the_first_wrong_line_is_told_its_cause(backward, name, says):
    first = next(result for result in lines.check(used_twice, backward, W, X) if result.word != "happy")
    assert first.name == name and says in first.diagnosis


def test_what_is_returned_besides_is_only_to_be_looked_at():
    assert lines.exit_status(lines.check(used_twice, right, W, X)) == 0
    assert lines.exit_status(lines.check(used_twice, and_one_to_look_at, W, X)) == 0


def test_a_scalar_line_that_is_left_as_it_was_asks_for_its_turn():
    def mean(x, w):
        size = (x * x).mean()
        out = size * w
        return out

    def left(dout, v):
        dw = dout * v.size
        dsize = ...
        dx = ...
        return dx, dw, dsize

    results = {result.name: result for result in lines.check(mean, left, X, np.array(2.0))}
    for name in ("dsize", "dx"):
        assert results[name].diagnosis == "this line returns nothing yet: your turn"


def test_a_gradient_that_is_zero_up_to_rounding_may_be_returned():
    """The bias under a softmax: what is returned and what differences find are two different roundings of zero."""

    def centred(x, b):
        shifted = x + b
        out = shifted - shifted.mean()
        return out

    def with_noise(dout, v):
        dshifted = dout - dout.mean()
        dx = dshifted
        db = dshifted.sum(keepdims=True) + 1e-16
        return dx, db

    row = X[0]
    assert lines.exit_status(lines.check(centred, with_noise, row, np.array([0.3]))) == 0


@pytest.mark.parametrize("backward", [of_a_wrong_slope, of_nothing_known])
def test_a_line_that_is_right_for_what_it_was_given_is_not_blamed(backward):
    results = {result.name: result for result in lines.check(used_twice, backward, W, X)}
    for name in ("dx", "dw"):
        assert results[name].diagnosis == "This line is right for your dinner, which is wrong: look there first."


def test_the_upstream_gradient_is_no_input(capsys):
    """Otherwise x in the place of dout would be right."""
    X0 = np.random.default_rng(0).normal(size=(4, 5))

    def doubled(x):
        out = 2 * x
        return out

    def of_the_wrong_array(dout, v):
        dx = 2 * v.x
        return dx

    assert lines.exit_status(lines.check(doubled, of_the_wrong_array, X0)) == 1
