"""The explorer's engine in JavaScript, run by node: every number of both passes against the reference, in float64."""

import shutil

import explorer_engine
import numpy as np
import pytest
from explorer_engine import bfloat16, error, expected_values, packed, page_of, random_model
from korean import has_hangul

from minigpt import models as all_models
from minigpt import ops
from minigpt.explorer import job
from minigpt.explorer.entries import mistake_entries
from minigpt.learn.lessons import find_lessons
from minigpt.learn.museum.model import ModelOfFunctions
from minigpt.learn.museum.pieces import pieces
from minigpt.ops.reference import attention, composites, cross_entropy, embedding, gelu, layernorm, linear, softmax

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
SAME = 1e-10  # relative, of one operation
SAME_PASS = 1e-9  # relative, of a whole pass


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that runs calls of the engine, see `explorer_engine.run`."""
    engine = explorer_engine.copy_engine(tmp_path_factory.mktemp("engine"))
    return lambda *calls: explorer_engine.run(engine, *calls)


# ------------------------------------------------------------------------------------------------------- operations

SHAPES = [(1, 1, 1), (2, 4, 8), (5, 7, 9), (3, 1, 13), (1, 6, 2), (17, 3, 5)]  # the tiles are 2 by 4


@pytest.mark.parametrize("with_bias", [True, False])
def test_linear(run, with_bias):
    rng = np.random.default_rng(0)
    calls, expected = [], []
    for t, n_in, n_out in SHAPES:
        x, w, b = rng.normal(size=(t, n_in)), rng.normal(size=(n_in, n_out)), rng.normal(size=n_out)
        b = b if with_bias else None
        add_call(calls, expected, linear, "linear", [x, w, b], rng)
    compare(run(*calls), expected)


def test_the_other_operations(run):
    rng = np.random.default_rng(1)
    calls, expected = [], []
    for t, c, n_head in [(1, 6, 2), (5, 12, 3), (8, 9, 1), (4, 35, 5)]:
        x = 3 * rng.normal(size=(t, c))
        weights = [rng.normal(size=c), rng.normal(size=c)]
        add_call(calls, expected, layernorm, "layernorm", [x, *weights], rng)
        add_call(calls, expected, gelu, "gelu", [x], rng)
        add_call(calls, expected, softmax, "softmax", [100 * x], rng)
        add_call(calls, expected, embedding, "embedding", [x, rng.integers(t, size=7)], rng)
        q, k, v = rng.normal(size=(3, n_head, t, c))
        add_call(calls, expected, attention, "attention", [q, k, v], rng)
        matrices = [rng.normal(size=(c, 7)), rng.normal(size=7), rng.normal(size=(7, c)), rng.normal(size=c)]
        add_call(calls, expected, composites, "mlp", [x, *matrices], rng)
        packed_qkv = rng.normal(size=(1, t, 3 * c))
        add_call(calls, expected, composites, "self_attention", [packed_qkv, n_head], rng, batch=True)
    compare(run(*calls), expected)


def test_the_losses(run):
    rng = np.random.default_rng(2)
    calls, expected = [], []
    for targets in ([3], [0, 4, 4, 2], [-100, 1, -100, 0], [-100, -100]):
        targets = np.array(targets)
        logits = 300 * rng.normal(size=(len(targets), 5))
        add_call(calls, expected, cross_entropy, "cross_entropy", [logits, targets], rng)
        h, w = rng.normal(size=(len(targets), 6)), rng.normal(size=(5, 6))
        add_call(calls, expected, composites, "linear_cross_entropy", [h, w, targets], rng)
    compare(run(*calls), expected)


def add_call(calls, expected, module, op, inputs, rng, batch=False):
    """One more call of the engine, and what the reference says: [out, gradients]. batch: (1,T,C) is (T,C) there."""
    out, cache = getattr(module, f"{op}_forward")(*inputs)
    dout = rng.normal(size=np.shape(out))
    gradients = getattr(module, f"{op}_backward")(dout if dout.shape else float(dout), cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    arrays = [inputs[0], out, dout, *[gradient for gradient in gradients if gradient is not None]]
    if batch:
        arrays = [array[0] for array in arrays]
    first, out, dout, *gradients = arrays
    given = [x.tolist() if isinstance(x, np.ndarray) and x.dtype == int else x for x in (first, *inputs[1:])]
    calls.append(["operation", op, given, dout if dout.shape else float(dout)])
    expected.append([out, gradients])


def compare(found, expected):
    assert len(found) == len(expected) > 0
    for (out, gradients), (expected_out, expected_gradients) in zip(found, expected, strict=True):
        gradients = [gradient for gradient in gradients if gradient is not None]
        for one, other in zip([out, *gradients], [expected_out, *expected_gradients], strict=True):
            assert error(np.reshape(one, np.shape(other)), other) < SAME


# ------------------------------------------------------------------------------------------------------ whole passes

TEXTS = {  # ids and targets: one token, an ordinary text with ignored targets, the longest context
    "one token": ([4], [9]),
    "some": ([1, 5, 5, 36, 0, 2, 5], [5, -100, 36, 0, -100, 5, 11]),
    "longest": (list(range(3, 14)), list(range(4, 15))),
}


@pytest.fixture(scope="module")
def models():
    return {name: random_model(name) for name in ("gpt1", "gpt2")}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["gpt1", "gpt2"])
def test_every_value_and_gradient_of_a_pass(run, models, name, text):
    ids, targets = TEXTS[text]
    _, found = run(["open", page_of(**models)], ["pass", name, ids, {"targets": targets}])
    loss, values = expected_values(models[name], ids, targets)
    assert found["loss"] == pytest.approx(loss, rel=SAME_PASS)
    assert error(found["logits"], values["logits"][0]) < SAME_PASS
    assert set(found["values"]) == set(values)
    for value_name, (value, gradient) in values.items():
        of_engine = found["values"][value_name]
        assert error(of_engine["value"], value) < SAME_PASS, value_name
        if np.abs(gradient).max() < 1e-15:  # the key part of a bias, or one token's scores: true gradient 0
            assert np.abs(of_engine["gradient"]).max() < 1e-14, value_name
        else:
            assert error(of_engine["gradient"], gradient) < SAME_PASS, value_name


def test_names_stand_in_the_order_of_the_forward_pass(run, models):
    _, gpt1, gpt2 = run(["open", page_of(**models)], *[["pass", name, [1, 2], {}] for name in models])
    start = ["tokens", "positions", "x"]
    attention_names = ["attn.qkv", "attn.s", "attn.p", "attn.heads", "attn", "x_attn"]
    block1 = [*attention_names, "ln_1", "mlp.f", "mlp.a", "mlp", "x_mlp", "ln_2"]
    block2 = ["ln_1", *attention_names, "ln_2", "mlp.f", "mlp.a", "mlp", "x"]
    for found, block, end, name in [(gpt1, block1, [], "gpt1"), (gpt2, block2, ["ln_f"], "gpt2")]:
        blocks = [f"h.{i}.{one}" for i in range(2) for one in block]
        parameters = [parameter for parameter, _ in models[name].named_parameters()]
        assert list(found["values"]) == [*start, *blocks, *end, "logits", *parameters]
        assert [one["kind"] for one in found["values"].values()][-len(parameters) - 1 :] == [
            "activation", *["parameter"] * len(parameters),
        ]  # fmt: skip
        assert found["loss"] is None and all(one["gradient"] is None for one in found["values"].values())


def test_a_pass_without_a_target_that_counts(run, models):
    _, found = run(["open", page_of(**models)], ["pass", "gpt2", [1, 2], {"targets": [-100, -100]}])
    assert found["loss"] == 0
    assert not any(np.any(one["gradient"]) for one in found["values"].values())


@pytest.mark.parametrize("name", ["gpt1", "gpt2"])
def test_the_head_reads_the_stream_at_every_depth(run, models, name):
    ids = TEXTS["some"][0]
    _, found = run(["open", page_of(**models)], ["stream", name, ids, {}])
    model = models[name]
    _, values = expected_values(model, ids, TEXTS["some"][1])
    assert found["names"] == ["x", *[f"h.{i}.{'ln_2' if name == 'gpt1' else 'x'}" for i in range(2)]]
    assert error(found["lens"][-1], found["head"]) < SAME_PASS
    for value_name, p in zip(found["names"], found["lens"], strict=True):
        x = values[value_name][0]
        if name == "gpt2":
            x, _ = layernorm.layernorm_forward(x, model.ln_f.weight.data, model.ln_f.bias.data)
        expected, _ = softmax.softmax_forward(x @ model.head.data.T)
        assert error(p, expected) < SAME_PASS, value_name


def test_a_fresh_model_has_the_weights_of_the_package(run):
    config = {**explorer_engine.SIZES, "vocab_size": 301, "n_embd": 60, "initializer_range": 0.02}
    kinds = [("gpt1", "openai-gpt"), ("gpt2", "gpt2")]
    calls = [["fresh", name, kind, config, seed] for name, kind in kinds for seed in (5, 5, 6)]
    for (name, _), (first, again, other) in zip(kinds, batched(run(*calls), 3), strict=True):
        kind, kind_of_config = explorer_engine.MODELS[name]
        right = dict(kind(kind_of_config(**config)).named_parameters())
        assert list(first) == list(right)
        for parameter_name, parameter in right.items():
            value = first[parameter_name]
            assert np.array_equal(value, again[parameter_name])
            assert value.shape == parameter.data.shape
            assert value.std() == pytest.approx(parameter.data.std(), rel=0.1), parameter_name
            assert abs(value.mean() - parameter.data.mean()) < 0.002, parameter_name
        embedding_name = next(iter(first))
        assert not np.array_equal(first[embedding_name], other[embedding_name])


def batched(items, size):
    return [items[i : i + size] for i in range(0, len(items), size)]


# --------------------------------------------------------------------------------- finite differences, nudges, errors


def opened(name):
    """A model of `data/explorer` in float64, and its tokenizer."""
    folder = find_lessons()[f"data/explorer/{name}/model.safetensors"].parent
    return all_models.open_both(folder, dtype=np.float64)


@pytest.mark.parametrize("name", ["gpt1", "gpt2"])
def test_a_finite_difference_agrees_with_every_gradient(run, models, name):
    ids, targets = TEXTS["some"]
    _, values = expected_values(models[name], ids, targets)
    rng = np.random.default_rng(3)
    places = [(value_name, int(rng.integers(value.size))) for value_name, (value, _) in values.items()]
    calls = [["difference", name, ids, targets, value_name, index, {}] for value_name, index in places]
    for (value_name, index), found in zip(places, run(["open", page_of(**models)], *calls)[1:], strict=True):
        assert found["relative"] < 1e-6, value_name
        assert found["analytic"] == pytest.approx(values[value_name][1].flat[index], rel=1e-6, abs=1e-14)
        assert found["numeric"] == pytest.approx((found["plus"] - found["minus"]) / 2e-5)
        noise = 16 * np.finfo(float).eps * max(found["plus"], 1) / 1e-5  # of a difference of two losses with 53 bits
        assert found["noise"] == pytest.approx(noise, rel=1e-4)
        size = max(abs(found["numeric"]), abs(found["analytic"]), 1e4 * noise)
        assert found["relative"] == pytest.approx(abs(found["numeric"] - found["analytic"]) / size, rel=1e-4)


@pytest.mark.parametrize("name", ["gpt1", "gpt2"])
def test_a_right_gradient_is_not_called_wrong_where_the_model_is_sure(run, name):
    """There the loss is nearly 0; the rounding of the numbers that it is made of is as large as ever."""
    model, tokenizer = opened(name)
    ids = tokenizer.encode(job.SENTENCE)
    _, values = expected_values(model, ids[:6], ids[:6])
    rng = np.random.default_rng(6)
    places = [("h.1.attn.qkv", 2 * 288 + 33)]
    places += [(value_name, int(rng.integers(value.size))) for value_name, (value, _) in list(values.items())[::4]]
    at = 5
    targets = [ids[t + 1] if t == at else -100 for t in range(at + 1)]
    calls = [["verdict", name, ids[: at + 1], targets, *place, {}] for place in places]
    _, loss, *found = run(["open", page_of(**{name: model})], ["loss", name, ids[: at + 1], targets], *calls)
    assert loss < 1e-4, "the model is sure here"
    blamed = [place for place, verdict in zip(places, found, strict=True) if verdict not in ("happy", "noise", "zero")]
    assert blamed == []


def test_a_wrong_gradient_is_called_wrong_and_no_dependence_is_only_not_seen(run):
    """Where a mistake hides a gradient that is below the rounding both results are 0, and the right one is not."""
    model, tokenizer = opened("gpt1")
    ids = tokenizer.encode(job.SENTENCE)
    targets = [*[-100] * (len(ids) - 2), ids[-1], -100]
    opening = ["open", page_of(gpt1=model)]
    _, right = run(opening, ["pass", "gpt1", ids, {"targets": targets}, ["tokens_embed.weight"]])
    of_table = np.abs(right["values"]["tokens_embed.weight"]["gradient"])
    smallest = int(np.where(of_table > 0, of_table, 1).argmin())
    largest = int(np.where(np.isin(np.arange(len(of_table)), ids)[:, None], 0, of_table).argmax())
    assert of_table.flat[smallest] > 0
    options = {"mistake": "UntiedHead"}
    calls = [["verdict", "gpt1", ids, targets, "tokens_embed.weight", at, options] for at in (smallest, largest)]
    assert run(opening, *calls)[1:] == ["zero", "wrong"]


def test_a_nudge_changes_one_number_and_what_follows(run, models):
    ids, targets = TEXTS["some"]
    changed = [("h.1.attn.p", 25), ("wte.weight", 5 * 15 + 2), ("h.0.x", 31)]
    nudges = [{"name": name, "index": index, "by": 0.5} for name, index in changed]
    passes = [["pass", "gpt2", ids, {"targets": targets, "nudge": nudge}] for nudge in nudges]
    _, right, *nudged = run(["open", page_of(**models)], ["pass", "gpt2", ids, {"targets": targets}], *passes)
    names = list(right["values"])
    for (name, index), found in zip(changed, nudged, strict=True):
        difference = found["values"][name]["value"] - right["values"][name]["value"]
        assert np.flatnonzero(difference).tolist() == [index]
        assert difference.flat[index] == pytest.approx(0.5)
        assert found["loss"] != right["loss"]
        if right["values"][name]["kind"] == "activation":
            for earlier in names[: names.index(name)]:
                assert np.array_equal(found["values"][earlier]["value"], right["values"][earlier]["value"])
    embedding_weight = dict(models["gpt2"].named_parameters())["wte.weight"].data
    before = embedding_weight.copy()
    embedding_weight.flat[changed[1][1]] += 0.5
    loss, values = expected_values(models["gpt2"], ids, targets)
    embedding_weight[:] = before
    assert nudged[1]["loss"] == pytest.approx(loss, rel=SAME_PASS)
    assert error(nudged[1]["values"]["wte.weight"]["gradient"], values["wte.weight"][1]) < SAME_PASS


# ---------------------------------------------------------------------------------------------------- sixteen bits


def test_bfloat16_is_read_exactly(run):
    bits = np.arange(0, 2**16, 7)
    (found,) = run(["halves", bits.tolist(), "bfloat16"])
    expected = (bits.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(np.array([float(x) for x in found]), expected)


def test_float16_is_read_exactly(run):
    bits = np.arange(0, 2**16, 3, dtype=np.uint16)
    (found,) = run(["halves", bits.tolist(), "float16"])
    np.testing.assert_array_equal(np.array([float(x) for x in found]), bits.view(np.float16))


def test_weights_come_from_two_planes_of_bytes(run):
    numbers = bfloat16(np.random.default_rng(4).normal(size=35))
    page = page_of(gpt2=random_model("gpt2"))
    del page["models"][0]["parameters"][1:]
    page["models"][0]["parameters"][0] = {"name": "wte.weight", "shape": [5, 6], "offset": 5}
    page["models"][0]["weights"] = packed((numbers.view(np.uint32) >> 16).astype(np.uint16))
    _, found = run(["open", page], ["parametersOf", "gpt2"])
    np.testing.assert_array_equal(found["wte.weight"], numbers[5:].reshape(5, 6))


# ------------------------------------------------------------------------------------------------- planted mistakes

BY_NAME = {piece.name: piece for piece in pieces()}


@pytest.fixture(scope="module")
def mistakes(run):
    (found,) = run(["mistakes"])
    return found


def test_mistakes_are_those_pieces_of_the_museum_of_which_the_page_has_something_to_say(mistakes):
    names = [mistake["name"] for mistake in mistakes]
    assert sorted(names) == sorted(mistake_entries()) and len(names) >= 21
    assert len({BY_NAME[name].op for name in names}) >= 8
    assert all(mistake["where"] in ("forward", "backward") for mistake in mistakes)
    for name, told in mistake_entries().items():
        piece = BY_NAME[name]
        assert told["op"] == piece.op and told["title"] == {"en": piece.title, "ko": piece.title_ko}
        assert told["says"]["en"].endswith(".") and has_hangul(told["says"]["ko"]), name
    assert all(bool(piece.page) == bool(piece.page_ko) for piece in pieces())


@pytest.mark.parametrize("name", ["gpt1", "gpt2"])
def test_a_mistake_is_that_of_the_museum(run, mistakes, name):
    """The gradients of all parameters are those of the piece, planted in the package."""
    ids, targets = TEXTS["some"]
    one_block = random_model(name, n_layer=1)
    calls = [["pass", name, ids, {"targets": targets, "mistake": mistake["name"]}] for mistake in mistakes]
    found = run(["open", page_of(**{name: one_block})], *calls)[1:]
    compared = 0
    for mistake, of_engine in zip(mistakes, found, strict=True):
        planted = planted_in(one_block, BY_NAME[mistake["name"]], name)
        if planted is None:
            continue
        loss, gradients = planted(np.array([ids]), np.array([targets]))
        assert of_engine["loss"] == pytest.approx(loss, rel=SAME_PASS)
        for parameter_name, gradient in gradients.items():
            got = of_engine["values"][parameter_name]["gradient"]
            assert np.abs(got - gradient).max() < SAME_PASS * max(np.abs(gradient).max(), 1e-4), mistake["name"]
        compared += 1
    of_models = [mistake for mistake in mistakes if BY_NAME[mistake["name"]].is_model]
    assert compared == len(mistakes) - (name == "gpt2") * len(of_models)


def planted_in(model, piece, name):
    """A function (ids, targets) -> (loss, gradients) of a model with this mistake; None where it has no such form."""

    def in_an_operation(ids, targets):
        model.zero_grad()
        with ops.using(piece.module()):
            loss, cache = model.loss(ids, targets)
            model.loss_backward(cache)
        return float(loss), gradients_of(model, model)

    def in_the_model(ids, targets):
        of_functions = ModelOfFunctions(piece.module(), model.config, dtype=np.float64)
        of_functions.weights = dict(model.named_parameters())
        of_functions.zero_grad()
        loss, cache = of_functions.loss(ids, targets)
        of_functions.loss_backward(cache)
        return float(loss), gradients_of(of_functions, model)

    if piece.is_model:
        return in_the_model if name == "gpt1" else None
    return in_an_operation


def gradients_of(model, right):
    gradients = {}
    for name, parameter in model.named_parameters():
        gradients[name] = np.zeros_like(parameter.data) if parameter.grad is None else parameter.grad
    assert list(gradients) == [name for name, _ in right.named_parameters()]
    return gradients


@pytest.mark.parametrize("name", ["gpt1", "gpt2"])
def test_a_mistake_changes_what_it_should(run, models, mistakes, name):
    """One in a backward pass leaves the loss, changes a gradient, and a finite difference disagrees with it there."""
    ids, targets = TEXTS["some"]
    calls = [["pass", name, ids, {"targets": targets, "mistake": mistake["name"]}] for mistake in mistakes]
    _, right, *wrong = run(["open", page_of(**models)], ["pass", name, ids, {"targets": targets}], *calls)
    places, checks = [], []
    for mistake, found in zip(mistakes, wrong, strict=True):
        if mistake["where"] == "forward":
            assert found["loss"] != pytest.approx(right["loss"], rel=1e-6), mistake["name"]
            continue
        assert found["loss"] == right["loss"], mistake["name"]
        place = most_changed(right, found)
        places.append(mistake["name"])
        checks += [["difference", name, ids, targets, *place, {"mistake": mistake["name"]}]]
        checks += [["difference", name, ids, targets, *place, {}]]
    assert len(places) >= 8
    found = run(["open", page_of(**models)], *checks)[1:]
    for mistake, (with_it, without) in zip(places, batched(found, 2), strict=True):
        assert with_it["relative"] > 1e-3, mistake
        assert without["relative"] < 1e-6, mistake
        assert with_it["numeric"] == without["numeric"]


def most_changed(right, wrong):
    """(name, index) of the number whose gradient changed most, compared with the largest gradient of its tensor."""
    best = (0, None, None)
    for name, value in right["values"].items():
        difference = np.abs(wrong["values"][name]["gradient"] - value["gradient"])
        share = difference.max() / max(np.abs(value["gradient"]).max(), 1e-4)
        if share > best[0]:
            best = (share, name, int(difference.argmax()))
    assert best[0] > 1e-3
    return best[1:]


@pytest.mark.parametrize("name", ["ScaleForgottenInTheForward", "NotCausal"])
def test_a_mistake_on_which_both_passes_agree_is_found_by_no_difference(run, models, name):
    ids, targets = TEXTS["some"]
    places = [("h.0.attn.qkv", 3), ("wte.weight", 5 * 15), ("h.0.attn.s", 4)]
    calls = [["difference", "gpt2", ids, targets, *place, {"mistake": name}] for place in places]
    for found in run(["open", page_of(**models)], *calls)[1:]:
        assert found["relative"] < 1e-6


@pytest.mark.parametrize("name", ["gpt1", "gpt2"])
def test_what_a_mistake_of_the_forward_pass_makes_wrong_is_what_a_difference_finds(run, models, mistakes, name):
    ids, targets = TEXTS["some"]
    forward = [mistake["name"] for mistake in mistakes if mistake["where"] == "forward"]
    assert len(forward) >= 3
    calls = [["saidAndFound", name, ids, targets, mistake] for mistake in forward]
    some = []
    for mistake, found in zip(forward, run(["open", page_of(**models)], *calls)[1:], strict=True):
        for value, is_wrong, verdict in found:
            assert (verdict in ("wrong", "suspicious")) == is_wrong, (mistake, value, verdict)
            some += [mistake] * is_wrong
    assert set(some) == {"BiasNotAdded"}


def test_the_projections_of_a_fresh_model_are_drawn_smaller_where_it_is_asked(run):
    config = {**explorer_engine.SIZES, "n_layer": 2, "initializer_range": 0.02}
    for kind, small_in_the_paper in (("openai-gpt", False), ("gpt2", True)):
        calls = [["fresh", "new", kind, config, 3, projections] for projections in ("paper", "smaller", "equal")]
        paper, smaller, equal = run(*calls)
        for name, weight in paper.items():
            factor = 1 / np.sqrt(2 * 2) if name.endswith("c_proj.weight") else 1
            np.testing.assert_allclose(smaller[name], factor * equal[name], rtol=1e-12)
            np.testing.assert_array_equal(weight, (smaller if small_in_the_paper else equal)[name])


def test_after_a_mistake_the_next_pass_is_right(run, models, mistakes):
    ids, targets = TEXTS["some"]
    calls = []
    for mistake in mistakes:
        calls.append(["pass", "gpt1", ids, {"targets": targets, "mistake": mistake["name"]}, []])
    right = ["pass", "gpt1", ids, {"targets": targets}]
    _, first, *_, last = run(["open", page_of(**models)], right, *calls, right)
    assert first["loss"] == last["loss"]
    for name, value in first["values"].items():
        assert np.array_equal(value["gradient"], last["values"][name]["gradient"])
