"""The encoders of the family: every gradient, what each sees, its files, and what it refuses."""

import re

import numpy as np
import pytest
import safetensors.numpy
import small_family
from helpers import (
    check_along,
    check_every_entry,
    kept_bytes,
    learn_by_heart,
    published,
    same,
    same_weights,
    small_model,
    snapshot,
)

from minigpt import models, open_model, ops
from minigpt.data.objectives import masked, sentence_order, spans
from minigpt.errors import InputError
from minigpt.files import checkpoint, disk
from minigpt.jobs.pretrain import PretrainOptions, train
from minigpt.models import costs, family
from minigpt.models.family.albert import ALBERT
from minigpt.models.family.distilbert import DistilBERT
from minigpt.models.family.electra import ELECTRA
from minigpt.models.family.encoder import Encoder
from minigpt.models.family.relative_attention import distances_between
from minigpt.models.family.roberta import RoBERTa
from minigpt.models.family.spanbert import SpanBERT
from minigpt.tokenizer import GPT1Tokenizer

SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 2, "n_head": 2}
OWN = small_family.OWN | {"deberta": {"n_distances": 4, "decoder_passes": 2}}
ENCODERS = [card.name for card in models.CARDS if issubclass(card.model, Encoder)]

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_who_inherits_from_whom_is_drawn():
    """Each class is drawn under its base, and every model of the family is there."""
    above: list[str] = []
    drawn = {}
    for line in family.__doc__.splitlines():
        found = re.fullmatch(r"((?:    )+)(\w+)(  .*)?", line)
        if found:
            depth = len(found[1]) // 4
            above = [*above[: depth - 1], found[2]]
            drawn[found[2]] = above[:-1]
    for card in models.CARDS:
        if card.model.__module__.startswith(family.__name__):
            names = [kind.__name__ for kind in reversed(card.model.mro())]
            *bases, own = names[names.index("LanguageModel") :]
            assert bases == drawn[own]


def small(name: str, dtype=np.float64, dropout=0.0, **sizes):
    return small_model(models.card(name).model, SIZES | OWN.get(name, {}) | sizes, dtype, dropout)


def inputs(name: str, rows=3, length=5, seed=0) -> dict:
    """Ids, targets of which some are not predicted, padding at the right of the last row, and what the model has."""
    rng = np.random.default_rng(seed)
    ids, targets = rng.integers(11, size=(2, rows, length))
    targets[rng.random(targets.shape) < 0.5] = ops.IGNORED
    targets[0, 0] = 3
    mask = np.ones((rows, length), bool)
    mask[-1, -2:] = False
    given = {"ids": ids, "targets": targets, "mask": mask}
    if hasattr(models.card(name).model, "sentence_scores"):
        given["segments"] = (np.arange(length) >= 3).astype(int) * np.ones((rows, 1), int)
        given["sentence_labels"] = np.array([0, 1, 1])
    if name == "spanbert":
        given["span_edges"] = rng.integers(length, size=(rows, length, 2))
        given["span_places"] = rng.integers(10, size=(rows, length))
    return given


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("checkpoint_blocks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_gradient(name, checkpoint_blocks):
    model = small(name, dropout=0.2)
    model.checkpoint_blocks = checkpoint_blocks
    check_along(model, key=ops.Key.of(1, 2), **inputs(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_every_entry_of_every_gradient(name):
    model = small(name, dropout=0.2, n_inner=7)  # of more entries, most are those of the MLP
    check_every_entry(model, key=ops.Key.of(1, 2), **inputs(name))


@pytest.mark.parametrize("name", ENCODERS)
def test_every_position_sees_both_sides_and_no_padding(name):
    model = small(name)
    ids = np.arange(5)[None]
    mask = np.array([[True, True, True, True, False]])
    before, _ = model.hidden(ids, grad=False, mask=mask)
    changed = ids.copy()
    changed[0, 3] = 9
    after, _ = model.hidden(changed, grad=False, mask=mask)
    assert (np.abs(after - before).max(axis=-1) > 1e-6).all(), "a later token moves the first position"
    changed = ids.copy()
    changed[0, 4] = 9
    after, _ = model.hidden(changed, grad=False, mask=mask)
    assert same(snapshot([after[:, :4]]), snapshot([before[:, :4]])), "padding moves no other position"


@pytest.mark.parametrize("name", ENCODERS)
def test_the_parts_of_a_batch_have_the_loss_of_the_whole(name):
    model, given = small(name), inputs(name)
    key = ops.Key.of(1, 2)
    if name == "electra":  # its mean is over all tokens, of which a part knows only its own
        del given["mask"]
    whole, _ = model.loss(key=key, **given)
    n_targets = int((given["targets"] != ops.IGNORED).sum())
    parts = 0.0
    for part in (slice(0, 1), slice(1, 3)):
        rows = {key: value[part] for key, value in given.items()}
        if "sentence_labels" in rows or name in ("electra", "distilbert"):
            rows["share"] = len(rows["ids"]) / 3
        parts += model.loss(normalizer=n_targets, key=key._replace(row=part.start), **rows)[0]
    assert parts == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("name", ENCODERS)
def test_saved_under_the_published_names_and_opened_again(name, tmp_path):
    model = small(name, np.float32)
    model.save(tmp_path)
    again = open_model(tmp_path)
    assert type(again) is type(model) and again.config == model.config
    assert same_weights(model, again)
    assert set(model.published_names()) == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize("name", ENCODERS)
def test_it_trains_by_the_same_pipeline_as_gpt(name, tmp_path):
    options = PretrainOptions(
        model=name, data="stories:40", tokenizer="bpe:300", layers=1, heads=2, embd=32, context=16, steps=12,
        batch=6, accumulate=2, lr=3e-3, out=str(tmp_path / "run"),
    )  # fmt: skip
    job = train(options)
    assert job.step == 12 and job.run.rows[-1]["val_loss"] < job.run.rows[0]["val_loss"]
    model, text = models.open_both(tmp_path / "run")
    assert type(model) is models.card(name).model and text.vocab_size == model.config.vocab_size
    assert job.options.mask_rate == models.card(name).mask_rate


@pytest.mark.parametrize("name", ENCODERS)
def test_its_costs_are_foretold(name):
    model = small(name, np.float32, n_layer=3)
    ids = np.zeros((2, 7), int)
    _, cache = model.loss(ids, ids, **model.trial_inputs(ids))
    kept = kept_bytes(model, cache)
    found = costs.activations(type(model), model.config, 2, 7)
    if name == "xlnet":  # in its last block two streams read one array
        assert found == pytest.approx(kept, rel=0.01)
    else:
        assert found == kept


@pytest.mark.parametrize("name", ENCODERS)
def test_its_texts_begin_and_end_in_training_as_they_do_in_fine_tuning(name):
    """A vocabulary of an earlier version has no tokens for that, and such a run goes on without."""
    card = models.card(name)
    plain = GPT1Tokenizer.train("the cat sat on the mat . a dog ran off . " * 4, 40)
    windows = np.random.default_rng(0).integers(plain.vocab_size, size=(3, 17))
    text = plain.with_special(card.special_tokens)
    batch = card.objective(text, *([card.mask_rate] if card.mask_rate else []))(windows, np.random.default_rng(0))
    start, delimiter = text.ids["_start_"], text.ids["_delimiter_"]
    assert (batch.ids[:, 0] == start).all() and (batch.ids[:, -1] == delimiter).all()
    assert (batch.targets[:, [0, -1]] == ops.IGNORED).all()
    if name not in ("bert", "albert"):  # these two always had them
        old = plain.with_special([one for one in card.special_tokens if one not in ("_start_", "_delimiter_")])
        batch = card.objective(old, card.mask_rate)(windows, np.random.default_rng(0))
        assert np.array_equal(np.where(batch.targets >= 0, batch.targets, batch.ids), windows[:, :-1])


def test_deberta_s_vectors_do_not_know_where_they_stand():
    """Without absolute positions a text that is moved has the same states; the decoder alone tells it apart."""
    model = small("deberta", n_distances=16)
    ids = np.array([[0, 5, 7, 2, 0, 0, 0]])
    moved = np.array([[0, 0, 0, 5, 7, 2, 0]])
    first = np.array([[False, True, True, True, False, False, False]])
    second = np.array([[False, False, False, True, True, True, False]])
    here, _ = model.hidden(ids, grad=False, mask=first)
    there, _ = model.hidden(moved, grad=False, mask=second)
    assert np.abs(here[0, 1:4] - there[0, 3:6]).max() < 1e-12
    here, _ = model.forward(ids, grad=False, mask=first)
    there, _ = model.forward(moved, grad=False, mask=second)
    assert np.abs(here[0, 1:4] - there[0, 3:6]).max() > 1e-3, "the decoder has absolute positions"
    turned, _ = model.hidden(ids[:, ::-1], grad=False)
    assert np.abs(turned[:, ::-1] - model.hidden(ids, grad=False)[0]).max() > 1e-3, "a distance has a sign"


def test_distances_that_are_too_far_share_a_row():
    where = distances_between(6, 2, np)
    assert where[0].tolist() == [2, 1, 0, 0, 0, 0] and where[5].tolist() == [3, 3, 3, 3, 3, 2]


def test_a_shared_block_is_one_parameter_whose_gradients_add_up():
    model = small("albert")
    names = [name for name, _ in model.named_parameters()]
    assert any(name.startswith("h.0.") for name in names) and not any(name.startswith("h.1.") for name in names)
    twice = small("albert", n_layer=4)
    assert len(list(twice.parameters())) == len(list(model.parameters())), "more layers are no more parameters"
    ids = np.arange(5)[None]
    one, _ = model.hidden(ids, grad=False)
    two, _ = twice.hidden(ids, grad=False)
    assert np.abs(one - two).max() > 1e-3, "yet they compute something else"


def test_albert_s_second_task_is_learned_from_one_batch():
    rows = np.random.default_rng(0).integers(8, size=(6, 9))
    batch = sentence_order(10, 11, 8, 9)(rows, np.random.default_rng(0))
    model = ALBERT(ALBERT.Config(**(SIZES | OWN["albert"] | {"n_embd": 16})), seed=0)
    learn_by_heart(model, 150, batch.ids, batch.targets, **batch.inputs)
    scores = model.sentence_scores(batch.ids, mask=batch.mask, segments=batch.segments)
    assert (scores.argmax(axis=1) == batch.sentence_labels).all()


def teacher_and_student(**rates):
    """A teacher of four layers, and a student of it that was moved away from it; both as `small` makes them."""
    teacher = small("bert", n_layer=4)
    student = DistilBERT.student_of(teacher, **rates)
    rng = np.random.default_rng(2)
    for parameter in student.parameters():
        parameter.data = parameter.data + 0.1 * rng.standard_normal(parameter.data.shape)
    return teacher, student


def test_every_gradient_of_a_student():
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.2)
    teacher, student = teacher_and_student(**rates)
    before = snapshot([p.data for p in teacher.parameters()])
    check_along(student, key=ops.Key.of(1, 2), share=0.5, **inputs("distilbert"))
    assert same(before, snapshot([p.data for p in teacher.parameters()]))
    assert all(p.grad is None for p in teacher.parameters()), "a teacher does not learn"


def test_a_student_begins_with_every_second_layer_of_its_teacher():
    teacher = small("bert", n_layer=4)
    student = DistilBERT.student_of(teacher)
    assert student.config.n_layer == 2 and len(list(student.parameters())) < len(list(teacher.parameters()))
    for number in (0, 1):
        ours, theirs = (list(block.parameters()) for block in (student.h[number], teacher.h[2 * number]))
        assert same(*(snapshot([p.data for p in block]) for block in (ours, theirs)))
    whole = DistilBERT(DistilBERT.Config(**(SIZES | {"n_layer": 1})), seed=None, dtype=np.float64)
    assert whole.config.n_layer == 1
    shallow = small("bert", n_layer=1)
    same_depth = DistilBERT.student_of(shallow)
    ids = np.arange(5)[None]
    ours, _ = same_depth.forward(ids, grad=False)
    theirs, _ = shallow.forward(ids, grad=False)
    assert np.abs(ours - theirs).max() < 1e-12, "of one layer everything is taken, the first segment too"


def test_a_student_s_loss_is_the_authors_sum_of_three():
    teacher, student = teacher_and_student()
    given = inputs("distilbert")
    mask = given["mask"]
    loss, _ = student.loss(**given)
    seen = {"ids": given["ids"], "mask": mask}
    ours, theirs = (model.forward(**seen, grad=False)[0] for model in (student, teacher))
    h, h_teacher = (model.hidden(**seen, grad=False)[0] for model in (student, teacher))
    words, _ = ops.cross_entropy_forward(ours, given["targets"])
    p, q = (ops.softmax_forward(logits / 2)[0] for logits in (ours, theirs))
    soft = -4 * (q * np.log(p)).sum(axis=-1)[mask].mean()
    lengths = np.linalg.norm(h, axis=-1) * np.linalg.norm(h_teacher, axis=-1)
    cosines = ((h * h_teacher).sum(axis=-1) / lengths)[mask]
    assert loss == pytest.approx(5 * soft + 2 * words + (1 - cosines).mean(), rel=1e-9)


def test_a_teacher_that_does_not_fit_its_student_is_refused():
    student = small("distilbert")
    with pytest.raises(InputError, match="ALBERT cannot teach a DistilBERT: take a bert, a roberta"):
        student.learn_from(small("albert"))
    with pytest.raises(InputError, match="GPT1 cannot teach"):
        student.learn_from(small("gpt1"))
    without_positions = small("deberta", position_biased_input=False, decoder_passes=0)
    with pytest.raises(InputError, match="DeBERTa cannot teach"):
        DistilBERT.student_of(without_positions)
    with pytest.raises(InputError, match="the teacher has vocab_size 12, and the student 11"):
        student.learn_from(small("bert", vocab_size=12))
    with pytest.raises(InputError, match="the teacher has 4 positions, and the student 8"):
        student.learn_from(small("bert", n_positions=4))


def test_the_command_trains_a_student_and_goes_on_with_it(tmp_path):
    sizes = {"layers": 4, "heads": 2, "embd": 32, "context": 16, "tokenizer": "bpe:300"}
    common = {"data": "stories:40", "batch": 6, "lr": 3e-3}
    teacher = str(tmp_path / "teacher")
    train(PretrainOptions(model="bert", **sizes, **common, steps=6, out=teacher))
    out = str(tmp_path / "student")
    job = train(PretrainOptions(model="distilbert", teacher=teacher, **common, steps=8, out=out))
    assert job.model.config.n_layer == 2 and job.run.rows[-1]["val_loss"] < job.run.rows[0]["val_loss"]
    resumed = train(PretrainOptions(out=out, resume=True))
    assert resumed.step == 8 and resumed.model.teacher
    for changes, words in (
        ({"model": "roberta"}, "roberta learns from no teacher: give --model distilbert"),
        ({"layers": 1}, "says what --layers is: leave --layers out"),
    ):
        wrong = {"model": "distilbert", "teacher": teacher, **common, "steps": 1, "out": str(tmp_path / "x")}
        with pytest.raises(InputError, match=words):
            train(PretrainOptions(**wrong | changes))
        assert not (tmp_path / "x").exists()


def test_the_generator_s_words_are_drawn_from_its_probabilities():
    model = small("electra")
    ids = np.full((4000, 5), 7)
    targets = np.full((4000, 5), ops.IGNORED)
    targets[:, 2] = 3
    seen, replaced = model.filled_in(ids, targets, ops.Key.of(0))
    logits, _ = model.forward(ids[:1], grad=False)
    p, _ = ops.softmax_forward(logits[0, 2])
    found = np.bincount(seen[:, 2], minlength=11) / 4000
    assert np.abs(found - p).max() < 0.04, "five standard deviations of 4,000 draws"
    assert (seen[:, [0, 1, 3, 4]] == 7).all(), "what was not covered stays"
    assert np.array_equal(replaced[:, 2], seen[:, 2] != 3) and not replaced[:, [0, 1, 3, 4]].any()
    again, _ = model.filled_in(ids, targets, ops.Key.of(0))
    other, _ = model.filled_in(ids, targets, ops.Key.of(1))
    assert np.array_equal(again, seen) and not np.array_equal(other, seen)


def test_electra_has_a_gradient_at_every_token_and_none_through_the_drawing():
    """The discriminator's loss alone leaves the generator's own weights without a gradient."""
    model, given = small("electra"), inputs("electra")
    _, cache = model.loss(**given)
    dpairs = ops.cross_entropy_backward(1.0, cache["told"])
    real = given["mask"]
    assert (dpairs[..., 1][real] != 0).all() and (dpairs[..., 1][~real] == 0).all()
    dh = model.words.backward(dpairs[..., 1], cache["replaced"])
    model.hidden_backward(dh, cache["hidden"])
    own = [name for name, p in model.generator.named_parameters() if p.grad is not None]
    assert own and all(name.startswith(("tokens", "positions", "segments", "ln_embed")) for name in own), own


def test_electra_tells_replaced_words_of_one_batch():
    model = ELECTRA(ELECTRA.Config(**(SIZES | {"n_embd": 16, "embedding_size": 16, "generator_heads": 1})), seed=0)
    rows = np.random.default_rng(0).integers(10, size=(4, 9))
    batch = masked(10, 11, 0.3)(rows, np.random.default_rng(0))._replace(share=1.0)
    learn_by_heart(model, 200, batch.ids, batch.targets, **batch.inputs)
    seen, replaced = model.filled_in(batch.ids, batch.targets)
    scores = model.replaced_scores(seen)
    assert ((scores > 0) == replaced).mean() > 0.9


def test_a_discriminator_without_its_generator_is_opened_with_a_warning(tmp_path):
    model = small("electra")
    tensors = {name: parameter.data for name, parameter in model.named_parameters()}
    published = {name: t for name, t in model.to_published(tensors).items() if not name.startswith("generator.")}
    with pytest.warns(UserWarning, match="a discriminator without its generator"):
        plain = model.from_published(published, tmp_path)
    assert set(plain) == set(tensors)
    assert not plain["generator.h.0.attn.c_attn.weight"].any() and plain["h.0.attn.c_attn.weight"].any()


def test_the_boundary_objective_uses_no_state_inside_the_span():
    """The boundary's loss of a span does not change when the states inside it are replaced."""
    model = small("spanbert")
    rng = np.random.default_rng(0)
    h = rng.standard_normal((1, 8, 6))
    edges = np.zeros((1, 8, 2), int)
    edges[0, 2:5] = 1, 5
    places = np.zeros((1, 8), int)
    places[0, 2:5] = 0, 1, 2
    before, _ = model.boundary.forward(h, edges, places)
    h[0, 2:5] = rng.standard_normal((3, 6))
    after, _ = model.boundary.forward(h, edges, places)
    assert same(snapshot([before[0, 2:5]]), snapshot([after[0, 2:5]]))
    assert len({row.tobytes() for row in before[0, 2:5]}) == 3, "the places tell its tokens apart"


def test_spanbert_learns_one_batch_from_the_edges_alone():
    rows = np.random.default_rng(0).integers(10, size=(4, 9))
    batch = spans(10, 11, rate=0.3)(rows, np.random.default_rng(0))
    model = SpanBERT(SpanBERT.Config(**(SIZES | {"n_embd": 16})), seed=0)
    learn_by_heart(model, 200, batch.ids, batch.targets, **batch.inputs)
    h, _ = model.hidden(batch.ids, grad=False, mask=batch.mask)
    y, _ = model.boundary.forward(h, batch.span_edges, batch.span_places)
    loss, _ = ops.linear_cross_entropy_forward(y, model.head.value, batch.targets, model.words.bias.value)
    assert loss < 0.2


def test_roberta_counts_positions_from_its_padding_and_leaves_it_out():
    """As the authors' code: the first row is that behind the padding's id, and padding has a row of its own."""
    model = small("roberta", pad_token_id=3, vocab_size=20)
    config = model.config.to_dict()
    assert config["pad_token_id"] == 3 and config["max_position_embeddings"] == 8 + 4
    assert RoBERTa.Config.from_dict(config) == model.config
    _, rows = model.place(np.array([[5, 3, 6, 7], [3, 3, 1, 3]]))
    assert rows.tolist() == [[4, 3, 5, 6], [3, 3, 4, 3]]
    _, rows = model.place(np.array([[5, 3, 6, 7]]), positions=np.array([0, 0, 1, 7]))
    assert rows.tolist() == [4, 4, 5, 11], "positions that are given count from the first token"
    tensors = {name: parameter.data for name, parameter in model.named_parameters()}
    published = model.to_published(tensors)["roberta.embeddings.position_embeddings.weight"]
    assert same(snapshot([published]), snapshot([model.positions_embed.weight.data])), "rows that no text uses are kept"


def test_without_padding_no_token_is_left_out():
    model = small("roberta")
    config = model.config.to_dict()
    assert config["pad_token_id"] == -1 and config["max_position_embeddings"] == 8, "as transformers reads it"
    assert RoBERTa.Config.from_dict(config) == model.config
    assert model.place(np.array([[5, 1, 6]]))[1].tolist() == [0, 1, 2]


def test_a_roberta_of_an_earlier_version_has_its_old_numbers(tmp_path):
    """It wrote no padding, and two rows before those of positions."""
    model = small("roberta")
    ids = np.arange(8)[None]
    expected, _ = model.forward(ids, grad=False)
    config = model.config.to_dict() | {"max_position_embeddings": 10}
    del config["pad_token_id"]
    tensors = published(model)
    name = "roberta.embeddings.position_embeddings.weight"
    tensors[name] = np.pad(tensors[name], ((2, 0), (0, 0)))
    checkpoint.save_model(tmp_path, config, tensors)
    again = open_model(tmp_path, dtype=np.float64)
    assert again.config == model.config
    assert same(snapshot([again.forward(ids, grad=False)[0]]), snapshot([expected]))


def test_a_roberta_of_another_program_that_says_nothing_has_its_padding(tmp_path):
    """transformers takes 1 for it. (A file of ours says with which configuration it was written.)"""
    model = small("roberta", pad_token_id=1)
    config = model.config.to_dict()
    del config["pad_token_id"]
    tensors = published(model)
    disk.write_json(tmp_path / "config.json", config)
    safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    assert open_model(tmp_path).config == model.config


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("roberta", {"pad_token_id": 11, "max_position_embeddings": 30}, "pad_token_id 11, and vocab_size 11: give a"),
        ("roberta", {"pad_token_id": 8}, "max_position_embeddings 8 and pad_token_id 8: no row is left for a token"),
        ("roberta", {"pad_token_id": -2}, "pad_token_id -2: give the id of a token, or null"),
        ("xlm", {"pad_index": 11}, "pad_token_id 11, and vocab_size 11: give a token's id"),
    ],
)
def test_a_padding_that_cannot_be_is_refused(name, values, words):
    model = small(name)
    with pytest.raises(InputError, match=words):
        model.Config.from_dict(model.config.to_dict() | values)


def test_xlm_sees_as_many_tokens_as_are_not_padding():
    model = small("xlm", pad_token_id=3)
    ids = np.array([[3, 5, 3, 6, 7, 3]])
    mask = np.array([[True, True, True, False, False, False]])
    by_count, _ = model.hidden(ids, grad=False)
    assert same(snapshot([by_count]), snapshot([model.hidden(ids, grad=False, mask=mask)[0]]))
    every = np.ones_like(mask)
    assert np.abs(by_count - model.hidden(ids, grad=False, mask=every)[0]).max() > 1e-3
    plain = small("xlm")
    assert same(*(snapshot([plain.hidden(ids, grad=False, **more)[0]]) for more in ({}, {"mask": every})))


def test_a_student_of_a_roberta_leaves_out_the_rows_before_the_first_position():
    teacher = small("roberta", pad_token_id=2)
    student = DistilBERT.student_of(teacher, n_positions=5)
    segment = teacher.segments_embed.weight.data[0]
    assert same(*(snapshot([a]) for a in (
        student.positions_embed.weight.data, teacher.positions_embed.weight.data[3:8] + segment,
    )))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("roberta", {"segments": np.ones((1, 5), int)}, "segment 1 is out of range: this model has 1"),
        ("distilbert", {"segments": np.zeros((1, 5), int)}, "DistilBERT has no segments"),
        ("albert", {"past": []}, "so it cannot go on from a past"),
    ],
)
def test_wrong_calls_have_one_clear_line(name, given, words):
    with pytest.raises(InputError, match=words):
        small(name).hidden(np.arange(5)[None], **given)


@pytest.mark.parametrize(
    ("edges", "places", "words"),
    [
        (np.full((3, 5, 2), 5), np.zeros((3, 5), int), "edge 5 is out of range: the text has 5 tokens"),
        (np.zeros((3, 5, 2), int), np.full((3, 5), 10), "a span has at most 10 tokens"),
        (np.zeros((3, 5), int), np.zeros((3, 5), int), "one pair and one place for each id"),
    ],
)
def test_wrong_spans_have_one_clear_line(edges, places, words):
    given = inputs("spanbert") | {"span_edges": edges, "span_places": places}
    with pytest.raises(InputError, match=words):
        small("spanbert").loss(**given)


@pytest.mark.parametrize(
    ("model", "rate", "words"),
    [
        ("bert", 1.0, "--mask-rate 1.0: give a share of the tokens above 0 and below 1"),
        ("bert", 0.0, "--mask-rate 0.0: give a share"),
        ("gpt1", 0.2, "gpt1 covers no tokens"),
    ],
)
def test_a_rate_that_cannot_be_is_refused(model, rate, words, tmp_path):
    options = PretrainOptions(model=model, data="stories:50", steps=1, mask_rate=rate, out=str(tmp_path / "run"))
    with pytest.raises(InputError, match=words):
        train(options)
    assert not (tmp_path / "run").exists()
