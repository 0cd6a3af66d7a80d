"""`minigpt trace`: what it notes is what ran, and the step is the same with it and without it."""

import dataclasses
import json
import re
from time import sleep

import numpy as np
import pytest
from small_family import opened

from minigpt import GPT1, GPT1Config, models, ops
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.jobs.check import TINY
from minigpt.learn.tracing import job, table, tensors, trace
from minigpt.learn.tracing.recorder import Recorder, take_shortest
from minigpt.learn.tracing.rows import BACKWARD, FORWARD
from minigpt.learn.tracing.table import module
from minigpt.models import costs
from minigpt.models.registry import CARDS
from minigpt.nn import Module

every_model = pytest.mark.parametrize("card", CARDS, ids=[card.name for card in CARDS])
both = pytest.mark.parametrize("implementation", ["reference", "fast"])

FORWARD_OF_GPT1 = [  # depth, module, operation
    (0, "tokens_embed", "embedding"),
    (0, "positions_embed", "embedding"),
    (0, "", "dropout"),
    (0, "h.0.attn.c_attn", "linear"),
    (0, "h.0.attn", "self_attention"),
    (1, "h.0.attn", "attention"),
    (0, "h.0.attn.c_proj", "linear"),
    (0, "h.0.attn", "dropout"),
    (0, "h.0", "add"),
    (0, "h.0.ln_1", "layernorm"),
    (0, "h.0.mlp", "mlp"),
    (1, "h.0.mlp", "linear"),
    (1, "h.0.mlp", "gelu"),
    (1, "h.0.mlp", "linear"),
    (0, "h.0.mlp", "dropout"),
    (0, "h.0", "add"),
    (0, "h.0.ln_2", "layernorm"),
    (0, "", "linear_cross_entropy"),
    (1, "", "linear"),
    (1, "", "cross_entropy"),
]


def gpt1() -> tuple[GPT1, dict]:
    """A model of one layer, and the arguments of its loss."""
    model = GPT1(GPT1Config(vocab_size=9, n_positions=5, n_embd=8, n_layer=1, n_head=2), seed=0)
    rng = np.random.default_rng(0)
    return model, {"ids": rng.integers(0, 9, (2, 4)), "targets": rng.integers(0, 9, (2, 4))}


def small(card):
    """A small model of any kind, and the arguments of its loss."""
    kind = card.model
    sizes = {"vocab_size": 9, "n_positions": 5, "n_embd": 8, "n_layer": 1, "n_head": min(2, kind.Config.n_head)}
    others = TINY | {"embedding_size": 6}  # another width than that of ELECTRA's generator: else a matrix is left out
    sizes |= {name: size for name, size in others.items() if hasattr(kind.Config, name)}
    model = kind(kind.Config(**sizes))
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 9, (2, 4))
    return model, {"ids": ids, "targets": rng.integers(0, 9, (2, 4))} | model.trial_inputs(ids)


def tree(rows) -> list:
    """Rows as a tree of (number, operation, [what is inside])."""
    top: list = []
    path = [top]
    for row in rows:
        node = (row.number, row.op, [])
        del path[row.depth + 1 :]
        path[row.depth].append(node)
        path.append(node[2])
    return top


def mirrored(nodes: list) -> list:
    return [(number, op, mirrored(inside)) for number, op, inside in reversed(nodes)]


def pairs_of(traced, way: str):
    """Rows that are half of a pair: all but the sums."""
    return [row for row in traced.way(way) if row.op != "add"]


# --- the sequence ----------------------------------------------------------------------------------------------------


def test_the_forward_pass_of_a_gpt1_row_by_row():
    traced = trace(*gpt1())
    rows = traced.way(FORWARD)
    assert [(row.depth, row.module, row.op) for row in rows] == FORWARD_OF_GPT1
    assert [row.number for row in rows] == list(range(1, 21))
    assert {row.implementation for row in rows} == {"reference"}
    assert rows[3].inputs[1].parameter == "h.0.attn.c_attn.weight"
    assert rows[17].inputs[1].parameter == rows[18].inputs[1].parameter == "tokens_embed.weight"
    assert [tensor.shape for tensor in rows[3].inputs] == [(2, 4, 8), (8, 24), (24,)]
    assert rows[3].outputs[0].shape == (2, 4, 24)


def test_the_backward_pass_is_the_exact_reverse():
    traced = trace(*gpt1())
    rows = traced.way(BACKWARD)
    assert tree(pairs_of(traced, BACKWARD)) == mirrored(tree(pairs_of(traced, FORWARD)))
    modules = {row.number: row.module for row in traced.way(FORWARD)}
    assert all(row.module == modules[row.number] for row in pairs_of(traced, BACKWARD))
    assert [row.number for row in rows if row.op == "add"] == [21, 22]
    assert [row.module for row in rows if row.op == "add"] == ["h.0", "h.0"]


def test_fast_shows_composites_alone():
    traced = trace(*gpt1(), "fast")
    assert {row.depth for row in traced.rows} == {0}
    outer = [op for depth, _, op in FORWARD_OF_GPT1 if depth == 0]
    assert [row.op for row in traced.way(FORWARD)] == outer
    mlp = [row for row in traced.rows if row.op == "mlp"]
    assert [(row.way, row.implementation) for row in mlp] == [(FORWARD, "fast"), (BACKWARD, "fast")]
    assert {row.implementation for row in traced.rows if row.op == "add"} == {"reference"}


# --- the numbers -----------------------------------------------------------------------------------------------------


@every_model
@both
def test_loss_gradients_and_caches_are_those_of_a_step_without_a_trace(card, implementation):
    model, inputs = small(card)
    traced = trace(model, inputs, implementation)
    alone, _ = small(card)
    with ops.using(implementation):
        loss, cache = alone.loss(**inputs)
        ledger = ops.ledger(cache)
        alone.loss_backward(cache)
    assert traced.loss == float(loss)
    assert traced.ledger == ledger
    for (name, mine), right in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert (mine.grad is None) == (right.grad is None), name
        assert right.grad is None or np.array_equal(mine.grad, right.grad), name
    squares = [np.square(one.grad.astype(float)).sum() for one in alone.parameters() if one.grad is not None]
    assert traced.global_norm == pytest.approx(np.sqrt(sum(squares)), rel=1e-5)


def at(model, path: str):
    """What stands at this path, such as "h.0.attn"."""
    value = model
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    return value


@every_model
def test_every_model_is_traced_and_goes_back_the_way_it_came(card):
    model, inputs = small(card)
    traced = trace(model, inputs)
    forward = {row.number: row for row in pairs_of(traced, FORWARD)}
    backward = pairs_of(traced, BACKWARD)
    assert len({row.number for row in backward}) == len(backward), "each cache is used once"
    for row in backward:
        assert forward[row.number].op == row.op
        assert row.inputs[0].shape == forward[row.number].outputs[0].shape, "the gradient of an output is like it"
    learned = [row for row in forward.values() if any(tensor.parameter for tensor in row.inputs)]
    assert {row.number for row in learned if row.kept_bytes} <= {row.number for row in backward}
    for row in traced.rows:
        assert row.module == "" or isinstance(at(model, row.module), Module), row.module


@every_model
def test_bytes_are_what_the_costs_foretell(card):
    model, inputs = small(card)
    traced = trace(model, inputs, "fast")
    assert traced.activation_bytes == costs.activations(card.model, model.config, batch=2, time=4)
    assert 0 < traced.bytes_in_rows <= traced.activation_bytes


def test_bytes_of_each_cache():
    model, inputs = gpt1()
    traced = trace(model, inputs)
    with ops.using("reference"):
        _, cache = model.loss(**inputs)
    block = cache["h.0"]
    caches = {1: cache["tokens"], 4: block.attn["qkv"], 5: block.attn["heads"], 7: block.attn["proj"],
              10: block["ln_1"], 11: block.mlp[""], 13: block.mlp[""].act, 18: cache["head"]}  # fmt: skip
    rows = {row.number: row for row in traced.way(FORWARD)}
    assert {i: rows[i].cache_bytes for i in caches} == {i: ops.nbytes(one) for i, one in caches.items()}
    assert rows[4].cache_bytes - rows[4].kept_bytes == 4 * (8 * 24 + 24), "weight and bias are there anyway"
    assert rows[11].kept_bytes == sum(rows[i].kept_bytes for i in (12, 13, 14))
    assert traced.bytes_in_rows == traced.activation_bytes, "the modules of a GPT-1 keep nothing themselves"


def test_norms_are_those_of_values_computed_by_hand():
    model, inputs = gpt1()
    traced = trace(model, inputs)
    forward = {row.number: row.outputs[0].norm for row in traced.way(FORWARD)}
    block = model.h[0]
    x = model.tokens_embed.weight.data[inputs["ids"]]
    assert forward[1] == pytest.approx(np.linalg.norm(x), rel=1e-5)
    x = x + model.positions_embed.weight.data[:4]
    qkv = x @ block.attn.c_attn.weight.data + block.attn.c_attn.bias.data
    assert forward[4] == pytest.approx(np.linalg.norm(qkv), rel=1e-5)
    out = block.attn.forward(x)[0]
    assert forward[8] == pytest.approx(np.linalg.norm(out), rel=1e-5)
    assert forward[9] == pytest.approx(np.linalg.norm(x + out), rel=1e-5)
    backward = {row.number: {one.name: one.norm for one in row.outputs} for row in traced.way(BACKWARD)}
    parameters = {
        (4, "dw"): block.attn.c_attn.weight,
        (10, "dg"): block.ln_1.weight,
        (11, "dw2"): block.mlp.c_proj.weight,
        (2, "dw"): model.positions_embed.weight,
    }
    for (number, name), parameter in parameters.items():
        assert backward[number][name] == pytest.approx(np.linalg.norm(parameter.grad), rel=1e-5)


@both
def test_the_time_of_a_row_is_its_own_and_that_of_the_rows_inside_it(implementation):
    model, inputs = gpt1()
    traced = trace(model, inputs, implementation)
    outer = sum(row.seconds for row in traced.rows if row.depth == 0)
    assert sum(row.own_seconds for row in traced.rows) == pytest.approx(outer)
    assert all(0 < row.own_seconds <= row.seconds for row in traced.rows)


def test_what_the_trace_itself_takes_is_in_no_time(monkeypatch):
    describe = Recorder._describe
    monkeypatch.setattr(Recorder, "_describe", lambda *args: (sleep(0.05), describe(*args)))
    model, inputs = gpt1()
    rows = trace(model, inputs, runs=2).rows
    assert max(row.seconds for row in rows if row.op in ("mlp", "self_attention", "linear_cross_entropy")) < 0.05


def test_of_several_runs_the_shortest_time_is_taken():
    runs = [trace(*gpt1()).rows for _ in range(3)]
    shortest = [min(row.seconds for row in same) for same in zip(*runs, strict=True)]
    own = [min(row.own_seconds for row in same) for same in zip(*runs, strict=True)]
    take_shortest(runs[0], runs[1:])
    assert [row.seconds for row in runs[0]] == shortest
    assert [row.own_seconds for row in runs[0]] == own


def test_several_runs_give_what_one_gives():
    model, inputs = gpt1()
    one = trace(model, inputs, keep=4)
    gradients = [parameter.grad for parameter in model.parameters()]
    several = trace(model, inputs, keep=4, runs=3)
    assert len(several.rows) == len(one.rows)
    for mine, right in zip(several.rows, one.rows, strict=True):
        assert (mine.number, mine.op, mine.outputs, mine.kept_bytes) == (
            right.number, right.op, right.outputs, right.kept_bytes,
        )  # fmt: skip
    assert several.loss == one.loss and several.ledger == one.ledger
    assert all(np.array_equal(one.grad, grad) for one, grad in zip(model.parameters(), gradients, strict=True))
    assert all(np.array_equal(several.kept[name], array) for name, array in one.kept.items())


def test_a_trace_leaves_nothing_behind():
    model, inputs = gpt1()
    add = ops.add
    methods = {name: dict(vars(module)) for name, module in {"model": model, "block": model.h[0]}.items()}
    trace(model, inputs)
    with pytest.raises(InputError):
        trace(model, inputs | {"ids": np.full((2, 4), 99)})
    assert ops.add is add
    assert {"model": dict(vars(model)), "block": dict(vars(model.h[0]))} == methods
    assert ops.explain("layernorm", np.ones((2, 3), np.float32), *np.ones((2, 3), np.float32)).implementation == "fast"
    with ops.tracing() as calls:
        model.loss(**inputs)
    assert {call.implementation for call in calls} <= {"fast", "reference"}


# --- what is shown ---------------------------------------------------------------------------------------------------


@every_model
def test_no_line_is_wider_than_100_columns(card, capsys):
    assert main(["trace", "--model", card.name, "--text", "The cat saw a bird."]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "backward, in reverse" in out and "global norm" in out and "\0" not in out


def test_the_table_holds_what_the_trace_holds():
    model, inputs = gpt1()
    traced = trace(model, inputs)
    text = table(traced)
    row = next(line for line in text.splitlines() if line.startswith("   4 h.0.attn.c_attn"))
    assert "(2,4,8) (8,24) (24,)" in row and f"{traced.way(FORWARD)[3].outputs[0].norm:.4g}" in row
    assert "   6 h.0.attn          attention" in text
    assert f"loss: {traced.loss:.6f}" in text
    assert f"gradients: 14 of 14 parameters, {sum(one.data.size for one in model.parameters()):,} numbers" in text
    assert f"bytes in caches: {traced.activation_bytes:,}" in text
    largest = re.search(r"largest:\n +([\d,]+)  (\S+)", text)
    assert int(largest[1].replace(",", "")) == max(traced.ledger[path] for path in traced.ledger
                                                   if path not in traced.parameter_paths)  # fmt: skip


def test_a_gradient_that_no_parameter_gets_is_named():
    card = next(card for card in CARDS if card.name == "elmo")
    model, inputs = small(card)
    text = table(trace(model, inputs))
    assert "without a gradient: mix.s, mix.gamma" in text


def test_json(tmp_path, capsys):
    path = tmp_path / "자취.json"
    assert main(["trace", "--layers", "1", "--text", "고양이가 새를 보았다.", "--json", str(path)]) == 0
    out = capsys.readouterr().out
    found = json.loads(path.read_text(encoding="utf-8"))
    assert "고양이가 새를 보았다." in out and found["text"] == "고양이가 새를 보았다."
    assert [row["op"] for row in found["rows"] if row["way"] == FORWARD] == [op for _, _, op in FORWARD_OF_GPT1]
    assert f"loss: {found['loss']:.6f}" in out
    rows = [row for row in found["rows"] if row["depth"] == 0]
    assert sum(row["kept_bytes"] for row in rows) == found["activation_bytes"]
    kept = {path: size for path, size in found["ledger"].items() if path not in found["parameters_in_the_ledger"]}
    assert sum(kept.values()) == found["activation_bytes"]


def test_dropout_is_that_of_training_and_always_the_same(capsys):
    losses = []
    for rate in ("0.5", "0.5", "0"):
        assert main(["trace", "--layers", "1", "--dropout", rate]) == 0
        losses.append(re.search(r"loss: (\S+)", capsys.readouterr().out)[1])
    assert losses[0] == losses[1] != losses[2]
    assert main(["trace", "--layers", "1"]) == 0
    assert re.search(r"loss: (\S+)", capsys.readouterr().out)[1] == losses[2]


def test_a_saved_model_with_its_tokenizer(tmp_path, capsys):
    options = job.TraceOptions(layers=1, embd=16, heads=2)
    model, text = job._new(options)
    model.save(tmp_path)
    text.save(tmp_path)
    losses = []
    for words in (["--layers", "1", "--embd", "16", "--heads", "2"], [str(tmp_path)]):
        assert main(["trace", *words, "--text", "The cat saw a bird."]) == 0
        losses.append(re.search(r"loss: (\S+)", capsys.readouterr().out)[1])
    assert losses[0] == losses[1]
    parameters = [row.inputs[1].parameter for row in job.run(job.TraceOptions(folder=str(tmp_path)), print).rows
                  if row.op == "layernorm" and row.way == FORWARD]  # fmt: skip
    assert parameters == ["h.0.ln_1.weight", "h.0.ln_2.weight"]


def test_the_path_of_a_module_is_cut_at_its_beginning():
    row = trace(*gpt1()).way(FORWARD)[3]
    assert module(row) == "h.0.attn.c_attn" and module(row, 8) == "..c_attn"


def test_the_rows_of_a_batch_and_what_they_predict():
    options = job.TraceOptions(text="The cat.", batch=3, layers=1, context=7)
    inputs = job._inputs(options, *job._new(options))
    model, text = job._new(options)
    tokens = text.encode("The cat.")
    assert inputs["ids"].tolist() == [tokens[:-1]] * 3 and inputs["targets"].tolist() == [tokens[1:]] * 3
    assert len(tokens) == 1 + model.config.n_positions, "as long as can be"
    assert "key" not in inputs


def test_infinity_is_null_in_json(tmp_path):
    job._write_json(str(tmp_path / "rows.json"), {"norm": float("inf"), "loss": 1.5})
    assert json.loads((tmp_path / "rows.json").read_text(encoding="utf-8")) == {"norm": None, "loss": 1.5}


# --- one tensor ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, _ in gpt1()[0].named_parameters()])
def test_the_largest_entry_of_every_gradient_is_that_of_finite_differences(name):
    model, inputs = gpt1()
    before = {one: parameter.data for one, parameter in model.named_parameters()}
    trace(model, inputs)
    parameter = dict(model.named_parameters())[name]
    index, yours, true = tensors.largest_entry(model, parameter, inputs)
    assert abs(yours) == np.abs(parameter.grad).max() == abs(parameter.grad[index])
    assert yours / true == pytest.approx(1, rel=1e-4)
    assert all(parameter.data is before[one] for one, parameter in model.named_parameters())


def test_a_wrong_gradient_is_seen(capsys):
    model, inputs = gpt1()
    traced = trace(model, inputs)
    model.h[0].ln_1.weight.grad *= 2
    which = tensors.wanted("h.0.ln_1.weight", model)
    text = "\n".join(tensors.show(traced, which, inputs, "reference"))
    assert "yours/true 2.0000" in text and "used as 10.g" in text


def test_the_tensors_of_a_number():
    model, inputs = gpt1()
    for name in ("4", "4.x", "4.dw", "10.dout"):
        which = tensors.wanted(name, model)
        traced = trace(model, inputs, keep=which.number)
        text = "\n".join(tensors.show(traced, which, inputs, "reference"))
        array = traced.kept[which.name or "out"].astype(float)
        assert f"mean {array.mean():.6g}  std {array.std():.6g}  min {array.min():.6g}  max {array.max():.6g}" in text
        assert f"first {array.ravel()[0].astype(np.float32):.6g} " in text
    traced = trace(model, inputs, keep=4)
    assert list(traced.kept) == ["x", "w", "b", "out", "dout", "dx", "dw", "db"]
    assert np.array_equal(traced.kept["dw"], model.h[0].attn.c_attn.weight.grad)


def test_a_gradient_that_is_added_to_later_is_shown_as_it_came_out():
    """The token embedding gets one from the head, and then one from the tokens."""
    model, inputs = gpt1()
    of_head = trace(model, inputs, keep=18).kept["dw"]
    of_tokens = trace(model, inputs, keep=1).kept["dw"]
    assert np.allclose(of_head + of_tokens, model.tokens_embed.weight.grad)
    assert not np.allclose(of_head, model.tokens_embed.weight.grad)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tensor", "h.0.atn.c_attn.weight"], "did you mean h.0.attn.c_attn.weight?"),
        (
            ["--tensor", "4.dxx"],
            "number 4, linear, has no dxx: give x, w, b, out, dout, dx, dw, db; did you mean 4.dx?",
        ),
        (["--tensor", "99"], "the numbers of the table go from 1 to 22"),
        (["--text", ""], "--text is empty"),
        (["--text", "a"], "has 1 token: give two or more"),
        (["--context", "31"], "--text has 33 tokens, and the model sees 31 and predicts one more"),
        (["--model", "lstm"], "this LSTM has one layer"),
        (["--batch", "0"], "--batch 0: give 1 or more"),
        (["--dropout", "nan"], "--dropout nan: give 0 or more and less than 1"),
    ],
)
def test_what_cannot_be_traced_is_refused_in_one_line(words, said, capsys):
    layers = "2" if "lstm" in words else "1"
    assert main(["trace", "--layers", layers, *words]) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and said in error


def test_an_implementation_that_there_is_not():
    with pytest.raises(InputError, match="choose reference, fast"):
        trace(*gpt1(), "quick")


# --- encoders --------------------------------------------------------------------------------------------------------


def test_of_an_encoder_some_tokens_are_covered_and_predicted(tmp_path):
    """As it learned: between the special tokens of its vocabulary, which are never covered."""
    model, text = opened("bert", special=["[MASK]", "[CLS]", "[SEP]"])
    tokens = text.encode("the cat sat on the mat . the dog")
    options = job.TraceOptions(text="the cat sat on the mat . the dog", batch=2)
    inputs = job._inputs(options, model, text)
    assert set(inputs) == {"ids", "targets", "sentence_labels"}
    mask, start, delimiter = (text.ids[name] for name in ("[MASK]", "[CLS]", "[SEP]"))
    expected = [start, *tokens, delimiter]
    places = [4, *range(11, len(tokens) + 1, 7)]
    for row, targets in zip(inputs["ids"].tolist(), inputs["targets"].tolist(), strict=True):
        assert [i for i, token in enumerate(row) if token == mask] == places
        assert [expected[i] for i in places] == [targets[i] for i in places]
        assert all(a == b for i, (a, b) in enumerate(zip(row, expected, strict=True)) if i not in places)
        assert all(target == ops.IGNORED for i, target in enumerate(targets) if i not in places)
    model.save(tmp_path / "bert")
    text.save(tmp_path / "bert")
    said = []
    traced = job.run(job.TraceOptions(folder=str(tmp_path / "bert"), text=options.text), said.append)
    assert f"1 x {len(expected)} tokens, {len(places)} of them covered and predicted" in said[0]
    assert traced.loss > 0


TOO_LONG = ("the cat sat on " * 5, "with the special ones, and the model sees 16: give a shorter text$")


@pytest.mark.parametrize(("text", "message"), [("sat", "has 1 token: give two or more"), TOO_LONG])
def test_a_text_that_an_encoder_cannot_be_traced_with(text, message):
    model, tokenizer = opened("bert")
    with pytest.raises(InputError, match=message):
        job._inputs(job.TraceOptions(text=text, folder="bert"), model, tokenizer)


def saved(name: str, form: str, folder) -> str:
    """A small model of this form with a tokenizer, in a folder."""
    model, text = opened(name, special=["[MASK]", "[CLS]", "[SEP]"])
    config = dataclasses.replace(model.config, form=form)
    type(model)(config, seed=1).save(folder)
    text.save(folder)
    return str(folder)


def test_of_a_body_without_a_head_for_words_the_forward_pass_is_traced(tmp_path, capsys):
    """The whole text, of which nothing is covered; no loss, no gradient, and one line that says so."""
    folder = saved("bert", "Model", tmp_path / "bert")
    path = tmp_path / "trace.json"
    assert main(["trace", folder, "--text", "the cat sat on the mat", "--batch", "2", "--json", str(path)]) == 0
    said = capsys.readouterr().out
    why = "this BERT has no head for words: no loss, no gradients, the forward pass alone"
    assert said.count("no head for words") == said.count(f"\n{why}\n") == 1
    assert "gradients:" not in said and "backward, in reverse" not in said and "bytes in caches: " in said
    model, text = models.open_both(folder)
    ids, _ = text.wrap(text.encode("the cat sat on the mat"))
    assert f"\n2 x {len(ids)} tokens, of {text.vocab_size} in the vocabulary\n" in said
    inputs = job._inputs(job.TraceOptions(text="the cat sat on the mat", batch=2), model, text)
    assert set(inputs) == {"ids"} and inputs["ids"].tolist() == [ids, ids]
    traced = trace(model, inputs, keep=1)
    assert traced.kept["ids"].tolist() == [ids, ids] and traced.loss is None and traced.way(BACKWARD) == []
    with ops.using("reference"):
        h, cache = model.hidden(np.array([ids, ids]))
    assert traced.way(FORWARD)[-1].outputs[0].norm == pytest.approx(float(np.linalg.norm(h)), rel=1e-5)
    assert set(traced.ledger) == set(ops.arrays(cache))
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["loss"] is None and found["global_norm"] is None
    assert [row["op"] for row in found["rows"]] == [row.op for row in traced.rows]
    assert {one["gradient_norm"] for one in found["parameters"].values()} == {None}
    assert main(["trace", folder, "--text", "the cat", "--tensor", "h.0.mlp.c_fc.weight"]) == 0
    assert "gradient: none: there is no loss" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "form", "told"), [
    ("bert", "ForMaskedLM", True), ("bert", "ForSequenceClassification", False), ("albert", "ForMaskedLM", True),
    ("xlnet", "Model", False), ("llama", "Model", False),
])  # fmt: skip
def test_other_forms_of_published_files_are_traced(name, form, told, tmp_path):
    """With a loss where there is a head for words, whatever stands beside it."""
    said = []
    folder = saved(name, form, tmp_path / name)
    traced = job.run(job.TraceOptions(folder=folder, text="the cat sat on the mat"), said.append)
    assert (traced.loss is not None) == told == ("no head for words" not in said[0])
    assert bool(traced.way(BACKWARD)) == told


def test_a_text_of_one_token_of_its_own_segment_is_traced_with_it(monkeypatch):
    model, text = opened("xlnet", special=["[MASK]", "[CLS]", "[SEP]"])
    monkeypatch.setattr(type(text), "wrap", lambda self, ids, pair=None: ([*ids, 1], [0] * len(ids) + [2]))
    inputs = job._inputs(job.TraceOptions(text="the cat sat", folder="xlnet", batch=2), model, text)
    assert inputs["segments"].shape == inputs["ids"].shape and set(inputs["segments"][:, -1]) == {2}
