"""Scores of texts: against one forward pass per token, against known numbers, on the published files; and bad input."""

import json
import math

import numpy as np
import pytest
from helpers import small_gpt1

from minigpt import GPT1, GPT2, GPT1Config, GPT2Config
from minigpt.cli import main
from minigpt.cli.main import parser
from minigpt.data.published.layout import Written
from minigpt.errors import InputError
from minigpt.evaluation import metrics, prompts, scoring, tasks_as_text, writing
from minigpt.evaluation.detokenizers import DETOKENIZERS, detokenized
from minigpt.evaluation.perplexity import perplexity, read_as_it_came
from minigpt.evaluation.report import Report
from minigpt.evaluation.task_files import read_passages, read_pronouns
from minigpt.files.disk import read_text
from minigpt.jobs.evaluate import TASKS, EvaluateOptions, evaluate
from minigpt.jobs.instruct.examples import template_for
from minigpt.tokenizer import CharTokenizer, GPT2Tokenizer

TEXT = "the cat sat on the mat. a dog saw the cat,\nand the dog ran. was it a good dog? it was\n"
NO_DROPOUT = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}


@pytest.fixture
def characters() -> CharTokenizer:
    return CharTokenizer.train(TEXT + "=:;'!QATLDRS")


@pytest.fixture
def model(characters) -> GPT1:
    return small_gpt1(vocab_size=characters.vocab_size, n_positions=128)


def brute(model, ids) -> np.ndarray:
    """log P of ids[1:], with one forward pass for each token, by the definition."""
    found = []
    for t in range(1, len(ids)):
        logits = model.forward(np.array([ids[:t]]), grad=False)[0][0, -1]
        found.append(logits[ids[t]] - np.log(np.exp(logits).sum()))
    return np.array(found)


def values(report) -> dict[str, float]:
    return {measure.name: measure.value for measure in report.measures}


def counts(report) -> dict[str, int]:
    return {measure.of: measure.n for measure in report.measures}


# --- the core --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "logits"), [(2048, 1 << 22), (20, 40), (1, 1)])
def test_scores_are_those_of_one_forward_pass_per_token(model, constants, batch, logits):
    """Rows of different lengths and starts, in batches of any size, with logits in pieces of any size."""
    constants.set(scored_tokens=batch, scored_logits=logits)
    rng = np.random.default_rng(0)
    rows = [rng.integers(model.config.vocab_size, size=n).tolist() for n in (5, 2, 9, 9, 3, 7)]
    rows += model.generate(np.array([[3]]), 4, temperature=0).tolist()
    starts = [1, 1, 8, 3, 2, 4, 2]
    for row, start, found in zip(rows, starts, scoring.log_probabilities(model, rows, starts), strict=True):
        expected = brute(model, row)[start - 1 :]
        np.testing.assert_allclose(found.log_p, expected, rtol=1e-10)
        assert found.log_p.dtype == np.float64 and found.cut == 0
        assert math.isclose(found.total, expected.sum()) and math.isclose(found.mean, expected.mean())
        likeliest = model.forward(np.array([row]), grad=False)[0][0].argmax(axis=-1)[:-1]
        assert (found.greedy == (likeliest == row[1:])[start - 1 :]).all()
    assert found.greedy.all() and len(found.greedy) == 3


def test_a_row_that_is_too_long_loses_its_oldest_tokens():
    model = small_gpt1(n_positions=8)
    row = np.random.default_rng(1).integers(11, size=20).tolist()
    found, short = scoring.log_probabilities(model, [row, row[:6]], [17, 1])
    np.testing.assert_allclose(found.log_p, brute(model, row[-9:])[-3:], rtol=1e-10)
    np.testing.assert_allclose(short.log_p, brute(model, row[:6]), rtol=1e-10)
    assert found.cut == 11 and short.cut == 0


@pytest.mark.parametrize(("row", "start"), [([1], 1), ([1, 2], 2), ([1, 2], 0), ([1] * 20, 2)])
def test_nothing_to_score_or_too_much(row, start):
    with pytest.raises(InputError, match="tokens to score"):
        scoring.log_probabilities(small_gpt1(n_positions=8), [row], start)


def test_no_rows_no_scores(model):
    assert scoring.log_probabilities(model, []) == []


def test_a_text_begins_after_the_end_of_another_or_of_a_line(characters):
    assert scoring.opening(characters) == [characters.ids["\n"]]
    assert scoring.opening(CharTokenizer("ab")) == []
    byte_level = GPT2Tokenizer.train(TEXT, 260, progress=False)
    assert scoring.opening(byte_level) == [byte_level.end_of_text_id]


def test_continuations_are_scored_after_their_context(model, characters):
    after, alone = scoring.continuations(model, characters, [("the cat", " sat"), ("", "the cat")])
    ids = characters.encode("\nthe cat sat")
    np.testing.assert_allclose(after.log_p, brute(model, ids)[-4:], rtol=1e-10)
    np.testing.assert_allclose(alone.log_p, brute(model, ids)[:7], rtol=1e-10)
    no_line_end = CharTokenizer("abc")
    first_token_free = scoring.continuations(small_gpt1(vocab_size=3), no_line_end, [("", "cab")])[0]
    assert len(first_token_free.log_p) == 2


# --- perplexity ------------------------------------------------------------------------------------------------------


def silent(kind, vocab_size: int, n_positions: int = 16):
    """A model whose weights are all zero: every token is equally likely."""
    config = {GPT1: GPT1Config, GPT2: GPT2Config}[kind]
    model = kind(config(vocab_size=vocab_size, n_positions=n_positions, n_embd=4, n_layer=1, n_head=2, **NO_DROPOUT))
    for parameter in model.parameters():
        parameter.data[...] = 0
    return model


@pytest.mark.parametrize("kind", [GPT1, GPT2])
@pytest.mark.parametrize("stride", [None, 5, 1])
def test_who_knows_nothing_has_the_vocabulary_as_perplexity(kind, stride, characters):
    report = perplexity(silent(kind, characters.vocab_size), characters, TEXT, stride=stride)
    per_token = report.measures[0]
    assert math.isclose(per_token.value, characters.vocab_size, rel_tol=1e-12)
    assert math.isclose(per_token.low, per_token.high, rel_tol=1e-6) and per_token.n == len(TEXT)
    bits = math.log2(characters.vocab_size)
    assert math.isclose(values(report)["bits per character"], bits, rel_tol=1e-12)
    per_word = values(report)["perplexity per word"]
    assert math.isclose(math.log2(per_word), bits * len(TEXT) / len(TEXT.split()), rel_tol=1e-12)


@pytest.mark.parametrize(("context", "stride"), [(128, None), (16, None), (16, 16), (16, 5), (16, 1), (7, 3), (1, 1)])
def test_strided_perplexity_is_that_of_one_forward_pass_per_token(model, characters, context, stride):
    ids = characters.encode("\n" + TEXT)
    step, nats, contexts = stride or context, 0.0, []
    for t in range(1, len(ids)):
        windows = range(0, len(ids), step)  # the first that has token t as a target scores it
        begin = next(begin for begin in windows if begin < t <= begin + context)
        logits = model.forward(np.array([ids[begin:t]]), grad=False)[0][0, -1]
        nats -= logits[ids[t]] - np.log(np.exp(logits).sum())
        contexts.append(t - begin)
    report = perplexity(model, characters, TEXT, context=context, stride=stride)
    assert math.isclose(math.log(report.measures[0].value), nats / len(TEXT), rel_tol=1e-10)
    assert report.measures[0].n == len(contexts) == len(TEXT)
    assert min(contexts[context:], default=context) >= context - step + 1


def test_every_unit_of_a_text_is_counted():
    text = "é 한국어 ab\nc \n"
    tokenizer = CharTokenizer.train(text)
    report = perplexity(silent(GPT1, tokenizer.vocab_size), tokenizer, text)
    expected = {"token": 12, "word": 4, "word and line end": 6, "byte": 19, "character": 12}
    assert counts(report) == expected
    bits = 12 * math.log2(tokenizer.vocab_size)
    assert math.isclose(values(report)["bits per byte"], bits / 19)
    assert math.isclose(math.log2(values(report)["perplexity per word and line end"]), bits / 6)


def test_more_context_helps_and_the_report_says_how_it_was_had(model, characters):
    report = perplexity(model, characters, TEXT, context=16, stride=4)
    windows = 1 + math.ceil((len(TEXT) - 16) / 4)
    assert report.notes == [f"context 16, stride 4: {windows} windows; de-tokeniser: none"]
    assert report.measures[0].low < report.measures[0].value < report.measures[0].high


def test_one_window_tells_nothing_of_the_spread(model, characters):
    first = perplexity(model, characters, "the cat").measures[0]
    assert first.low == 0 and first.high == math.inf
    assert "inf" in str(Report([first], []))


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("wikitext", "a two @-@ part 1 @,@ 000 @.@ 5", "a two-part 1,000.5"),
        ("wikitext", "film , cast : Ed ( Li Po ) ; 5 [ ... ] .", "film, cast: Ed (Li Po); 5 [...]."),
        ("wikitext", 'as " Craig " in " Teddy \'s Story " .', 'as "Craig" in "Teddy\'s Story".'),
        ("wikitext", " \n = = Career = = \n \n = Ed = \n", "\n== Career ==\n\n= Ed =\n"),
        ("wikitext", "he said ' Yeah , we love ' to the dogs ' tails", "he said 'Yeah, we love' to the dogs' tails"),
        ("wikitext", "days ' rest , known as ' A ' and Eliot 's ' B '", "days' rest, known as 'A' and Eliot's 'B'"),
        ("wikitext", "30 ° N.", "30°N."),
        ("ptb", "he 's here, did n't pay $ 1 or N # 1 \n a", "he's here, didn't pay $1 or 1 #1\na"),
        ("lambada", "“No,” she ‘said’ ``so''", "\"No,\" she 'said' \"so\""),
        ("none", " @-@ “ ", " @-@ “ "),
    ],
)  # fmt: skip
def test_detokenizers(name, given, expected):
    assert detokenized(given, name) == expected


def test_wikitext2_is_counted_as_published(eval_data, monkeypatch):
    """As if every token had the probability 1 / V, so that only the counting takes time."""
    tokenizer = GPT2Tokenizer.load(eval_data / "gpt2_vocab")

    def uniform(model, rows, starts):
        lengths = [len(row) - start for row, start in zip(rows, starts, strict=True)]
        return [scoring.Scored(np.full(n, -math.log(tokenizer.vocab_size)), np.zeros(n, bool), 0) for n in lengths]

    monkeypatch.setattr("minigpt.evaluation.perplexity.log_probabilities", uniform)
    text = read_text(eval_data / "wikitext2" / "test.txt")
    nobody = silent(GPT2, tokenizer.vocab_size, n_positions=1024)
    originals = {"word": 241_211, "word and line end": 245_569, "byte": 1_256_449, "character": 1_255_018}
    for detokenizer, tokens in (("none", 295_877), ("wikitext", 278_233)):
        report = perplexity(nobody, tokenizer, text, detokenize=detokenizer)
        assert counts(report) == originals | {"token": tokens}
        assert math.isclose(report.measures[0].value, 50_257, rel_tol=1e-9)


def test_the_wikitext_rewrite_leaves_no_trace_of_the_tokens(eval_data):
    text = detokenized(read_text(eval_data / "wikitext2" / "test.txt"), "wikitext")
    for trace in (" @-@ ", " @,@ ", " @.@ ", " , ", " . ", "( ", " )", " 's ", "s ' ", " \n"):
        assert trace not in text, trace


# --- LAMBADA, Winograd, multiple choice ------------------------------------------------------------------------------


def test_lambada_is_what_greedy_writing_gives(model, characters):
    """Right if the model, left alone after the context, would write the last word."""
    contexts = ["the cat sat on the", "a dog saw the", "was it", "it", "and the cat,"]
    written = []
    for context in contexts[:3]:
        ids = characters.encode("\n" + context + " ")
        new = model.generate(np.array([ids]), 3, temperature=0)[0, len(ids) :]
        written.append(characters.decode(new))
    words = [word if word.isalpha() else "dog" for word in written] + ["cat", "was"]
    passages = [f"{context} {word}" for context, word in zip(contexts, words, strict=True)]
    right, nats, last = [], [], []
    for context, word in zip(contexts, words, strict=True):
        ids = characters.encode(f"\n{context}")
        new = model.generate(np.array([ids]), len(word) + 1, temperature=0)[0, len(ids) :]
        right.append(characters.decode(new) == " " + word)
        log_p = brute(model, characters.encode(f"\n{context} {word}"))[-len(word) - 1 :]
        nats.append(-log_p.sum())
        last.append(-log_p[-1])
    found = values(tasks_as_text.lambada(model, characters, passages))
    assert found["last word, accuracy"] == np.mean(right)
    assert math.isclose(found["last word, perplexity"], math.exp(np.mean(nats)), rel_tol=1e-9)
    assert math.isclose(found["last token, perplexity"], math.exp(np.mean(last)), rel_tol=1e-9)
    assert found["last token, accuracy"] >= found["last word, accuracy"]


def test_lambada_strictly_needs_every_token_of_the_word(characters):
    """A model that always says "t": `cat` ends with the likeliest token, and only `ttt` would be all of them."""
    model = silent(GPT1, characters.vocab_size)
    model.h[0].ln_2.bias.data[0] = 1
    model.head.data[characters.ids["t"], 0] = 1
    found = values(tasks_as_text.lambada(model, characters, ["the cat", "on the dog"]))
    assert found["last word, accuracy"] == 0 and found["last token, accuracy"] == 0.5


@pytest.mark.parametrize(
    ("text", "candidate", "before", "after"),
    [
        ("It rained because [MASK]  was wet. ", "The cat", "It rained because the cat", " was wet."),
        ("She saw it.  [MASK]  ran. ", "the dog", "She saw it. The dog", " ran."),
        ("[MASK] sat.", "a dog", "A dog", " sat."),
        ("He met  [MASK] . ", "Theo", "He met Theo", "."),
        ('"No!" [MASK] said.', "his dog", '"No!" His dog', " said."),
    ],
)
def test_a_candidate_takes_the_place_of_the_mask(text, candidate, before, after):
    assert prompts.substitute(text, candidate) == (before, after)


def test_winograd_full_and_partial_are_the_sums_of_their_tokens(model, characters):
    records = [("the [MASK] sat on the mat.", ["cat", "dog"], 0), ("was [MASK] a good dog?", ["it", "the cat"], 1)]
    right = {"full": [], "partial": []}
    for text, names, answer in records:
        start, end = text.split("[MASK]")
        full, partial = [], []
        for name in names:
            log_p = brute(model, characters.encode("\n" + start + name + end))
            full.append(log_p.sum())
            partial.append(log_p[len(start + name) :].sum())
        right["full"].append(np.argmax(full) == answer)
        right["partial"].append(np.argmax(partial) == answer)
        ours = scoring.continuations(model, characters, [prompts.substitute(text, name) for name in names])
        np.testing.assert_allclose([one.total for one in ours], partial, rtol=1e-10)
    found = values(tasks_as_text.winograd(model, characters, records))
    for name in ("full", "partial"):
        assert found[f"accuracy, {name} scoring"] == np.mean(right[name])


def test_winograd_leaves_out_what_the_model_cannot_see_and_says_so(model, characters):
    short = ("the [MASK] sat on the mat.", ["cat", "dog"], 0)
    long = ("the [MASK] sat on the mat." + " was it a good dog?" * 7, ["cat", "dog"], 0)
    found = tasks_as_text.winograd(model, characters, [short, long, short])
    assert [measure.n for measure in found.measures] == [2, 2]
    told = "1 of 3 items are longer than the 128 tokens that the model sees and were left out: number 2"
    assert found.notes == [told]
    assert values(found) == values(tasks_as_text.winograd(model, characters, [short, short]))
    with pytest.raises(InputError, match="every text is longer than the 128 tokens"):
        tasks_as_text.winograd(model, characters, [long])


def test_winograd_leaves_out_schemas_with_two_gaps_and_says_so(model, characters, tmp_path):
    """The files made from WinoBias have some: 30 of the 1,584 in winobias_dev.txt, the first at line 131.

    Four records of anti_stereotyped_2.txt have a candidate twice, the first at line 1901.
    """
    path = tmp_path / "winobias.txt"
    one = "the [MASK] sat on the mat.\n[MASK]\ncat,dog\ncat\n\n"
    two = "it was [MASK] and was it [MASK]?\n[MASK]\ncat,dog\ndog\n\n"
    path.write_text(one + two + one, encoding="utf-8")
    records = list(read_pronouns(path).items)
    found = tasks_as_text.winograd(model, characters, records)
    assert [measure.n for measure in found.measures] == [2, 2]
    assert found.notes == ["1 of 3 items have more than one [MASK] and were left out: number 2"]
    assert values(found) == values(tasks_as_text.winograd(model, characters, [records[0], records[2]]))
    with pytest.raises(InputError, match=r"no item is left to score: 1 of 1 items have more than one \[MASK\]"):
        tasks_as_text.winograd(model, characters, [records[1]])
    long = ("the [MASK] sat on the mat." + " was it a good dog?" * 7, ["cat", "dog"], 0)
    both = tasks_as_text.winograd(model, characters, [records[1], long, records[0]])
    assert [note.split(": ")[1] for note in both.notes] == ["number 1", "number 2"] and both.measures[0].n == 1
    alike = one.replace("cat,dog", "cat,cat")
    path.write_text(two.replace("cat,dog", "dog,dog") + alike + one, encoding="utf-8")
    left_out = tasks_as_text.winograd(model, characters, list(read_pronouns(path).items))
    assert left_out.notes == ["1 of 3 items have more than one [MASK] and were left out: number 1",
                              "1 of 3 items have a candidate twice and were left out: number 2"]  # fmt: skip
    assert values(left_out) == values(tasks_as_text.winograd(model, characters, [records[0]]))
    with pytest.raises(InputError, match="no item is left to score: 1 of 1 items have a candidate twice"):
        tasks_as_text.winograd(model, characters, [(records[0][0], ("cat", "cat"), 0)])
    path.write_text(one + one.replace("[MASK] sat", "cat sat") + one, encoding="utf-8")
    with pytest.raises(InputError, match="line 6: expected a text that goes on after its"):
        list(read_pronouns(path).items)


def test_an_item_with_a_choice_that_does_not_fit_is_left_out_and_counted(model, characters):
    good = ("the cat", ["sat", "ran"], 0)
    long = ("a dog", ["saw it", "was good" * 20], 0)
    fits = ("a dog", ["saw it", "w" * 127], 0)  # with the space before it, as many as the model has positions
    found = tasks_as_text.choose(model, characters, [good, long, good, fits])
    told = "1 of 4 items have a choice with no tokens to score, or more than 128, and were left out: number 2"
    assert found.notes == [told, *found.notes[1:]] and {measure.n for measure in found.measures} == {3}
    assert values(found) == values(tasks_as_text.choose(model, characters, [good, good, fits]))
    with pytest.raises(InputError, match="no item is left to score: 1 of 1 items have a choice with"):
        tasks_as_text.choose(model, characters, [long])


def test_who_cannot_tell_gets_what_a_guess_would_get(characters):
    model = silent(GPT1, characters.vocab_size, 64)
    records = [("the [MASK] sat on the mat.", ["cat", "dog"], 0)] * 6  # the right one first, as in wsc273.txt
    assert values(tasks_as_text.winograd(model, characters, records)) == dict.fromkeys(
        ("accuracy, full scoring", "accuracy, partial scoring"), 0.5
    )
    assert scoring.credit([3, 3], 1) == 0.5
    assert scoring.credit([1, 5], 1) == 1 and scoring.credit([1, 5], 0) == 0
    assert scoring.credit([2, 2, 2], 0) == 1 / 3


def test_choices_by_mean_and_by_sum(characters):
    """With equal probabilities the mean ties and the sum takes the shortest: length alone decides."""
    model = silent(GPT1, characters.vocab_size, 64)
    records = [("the cat", ["sat on the mat", "ran"], 0), ("a dog", ["saw it", "was good"], 0)]
    found = values(tasks_as_text.choose(model, characters, records))
    assert found == {"accuracy, mean of log P": 0.5, "accuracy, sum of log P": 0.5}
    found = values(tasks_as_text.choose(model, characters, records[:1]))
    assert found == {"accuracy, mean of log P": 0.5, "accuracy, sum of log P": 0.0}


def test_choices_are_the_means_of_their_tokens(model, characters):
    choices = ["sat", "ran on the mat", "was good"]
    means = [brute(model, characters.encode(f"\nthe dog {one}"))[len("the dog") :].mean() for one in choices]
    for label in range(3):
        found = values(tasks_as_text.choose(model, characters, [("the dog", choices, label)]))
        assert found["accuracy, mean of log P"] == float(np.argmax(means) == label)


@pytest.mark.parametrize(
    ("context", "choice", "pair"),
    [("a", "b", ("a", " b")), ("a ", "b ", ("a", " b")), ("a\n", " b", ("a\n", "b")), ("", "b", ("", "b"))],
)
def test_the_space_before_a_choice_is_its_own_however_it_came(context, choice, pair):
    assert tasks_as_text.spaced(context, choice) == pair


# --- tasks as text ---------------------------------------------------------------------------------------------------


def test_prompts_break_off_where_the_answer_would_begin():
    one = [("a b", "c")]
    assert prompts.summary_prompt("x.") == "x.\nTL;DR:"
    assert prompts.summary_prompt("x.", one) == "a b\nTL;DR: c\n\nx.\nTL;DR:"
    assert prompts.translation_prompt("x", one) == "a b = c\nx ="
    assert prompts.answer_prompt("x?", one, document="d") == "d\nQ: a b\nA: c\nQ: x?\nA:"
    assert prompts.sentiment_prompt("x", one) == "a b very c\nx very"


class Parrot:
    """In the place of a model: says what it was told to, whatever the prompt, and remembers the prompts."""

    config = GPT1Config(vocab_size=5, n_positions=40, n_embd=2, n_layer=1, n_head=1)

    def __init__(self, tokenizer, says: list[str]):
        self.tokenizer, self.says, self.prompts = tokenizer, says, []

    def generate(self, ids, n_tokens, **options):
        self.prompts.append(self.tokenizer.decode(ids[0]))
        self.options = options
        return np.concatenate([ids, [self.tokenizer.encode(self.says[len(self.prompts) - 1])]], axis=1)


def pairs(*records) -> list[Written]:
    return [Written(given, (wanted,)) for given, wanted in records]


def test_what_the_model_writes_is_cut_and_compared_word_by_word(characters):
    parrot = Parrot(characters, [" a dog. the cat\nthe", " on the\nmat. it sat."])
    records = pairs(("the", "a"), ("mat", "A dog!"), ("cat", "the mat"))
    report = writing.write("translate", parrot, characters, records, shots=1)
    assert parrot.prompts == ["\nthe = a\nmat =", "\nthe = a\ncat ="]
    assert report.outputs == ["a dog.", "on the"]
    found = values(report)
    assert found["exact match"] == 0.5 and found["F1 of words"] == (1 + 0.5) / 2
    assert parrot.options["top_k"] == 1 and parrot.options["temperature"] == 0


def test_what_comes_after_the_end_of_text_is_not_part_of_an_answer():
    text = GPT2Tokenizer.train("the cat sat on the mat", 270, progress=False)

    class Ends(Parrot):
        def generate(self, ids, n_tokens, **options):
            self.prompts.append("")
            new = [*text.encode(" the cat"), text.end_of_text_id, *text.encode(" sat")]
            return np.concatenate([ids, [new]], axis=1)

    for task in ("answer", "summarise"):
        report = writing.write(task, Ends(text, []), text, pairs(("who", "The cat")))
        assert report.outputs == ["the cat"] and values(report)["exact match"] == 1


def test_summaries_are_three_sentences_drawn_from_the_likeliest_two(characters):
    parrot = Parrot(characters, [" a cat. a dog! it sat. it ran.", "was it a good dog? it was"])
    records = pairs(("the cat sat on the mat", "it"), ("a cat sat on a mat", "a b c d"))
    report = writing.write("summarise", parrot, characters, records)
    assert report.outputs == ["a cat. a dog! it sat.", "was it a good dog? it was"]
    assert parrot.options["top_k"] == 2 and parrot.options["temperature"] == 1
    assert parrot.options["seed"] == 1, "the second text is drawn with a seed of its own"
    assert parrot.prompts == ["sat on the mat\nTL;DR:"[-20:], "t sat on a mat\nTL;DR:"[-20:]]
    assert report.notes[-1:] == ["2 of 2 texts exceed the model's context: their oldest tokens were cut off"]
    expected = [2 * 1 / (6 + 1), 2 * 1 / (7 + 4)]
    assert math.isclose(values(report)["F1 of words"], np.mean(expected))


def test_an_answer_is_one_line(characters):
    parrot = Parrot(characters, [" it was. a dog\nQ: was it"])
    report = writing.write("answer", parrot, characters, pairs(("was it?", "It was a dog")))
    assert report.outputs == ["it was. a dog"] and values(report)["exact match"] == 1
    assert parrot.prompts == ["\nQ: was it?\nA:"]


def test_sentiment_is_the_likelier_of_two_words():
    tokenizer = CharTokenizer.train(TEXT + "positive negative very")
    model = small_gpt1(vocab_size=tokenizer.vocab_size, n_positions=128)
    ids = [tokenizer.encode(f"\nit was very positive\nthe cat ran very {word}") for word in tasks_as_text.SENTIMENTS]
    means = [brute(model, row)[-9:].mean() for row in ids]
    for label, word in enumerate(tasks_as_text.SENTIMENTS):
        records = [("it was", "positive"), ("the cat ran", word)]
        found = values(tasks_as_text.sentiment(model, tokenizer, records, shots=1))
        assert found["accuracy, mean of log P"] == float(np.argmax(means) == label)


# --- intervals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(5, 10, 0.2366, 0.7634), (0, 10, 0, 0.2775), (10, 10, 0.7225, 1), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_against_published_values(right, n, low, high):
    np.testing.assert_allclose(metrics.wilson(right, n), (low, high), atol=6e-5)


def test_wilson_holds_the_truth_nineteen_times_of_twenty():
    rng = np.random.default_rng(0)
    truths = rng.random(4000)
    intervals = [metrics.wilson(rng.binomial(40, truth), 40) for truth in truths]
    inside = [low <= truth <= high for truth, (low, high) in zip(truths, intervals, strict=True)]
    assert 0.93 < np.mean(inside) < 0.975


def test_the_interval_of_a_mean():
    np.testing.assert_allclose(metrics.mean_interval([1, 2, 3, 4]), (2.5, 2.5 - 1.26517, 2.5 + 1.26517), atol=1e-5)
    np.testing.assert_allclose(metrics.mean_interval([2, 4, 6, 8], [2, 2, 2, 2]), metrics.mean_interval([1, 2, 3, 4]))
    assert metrics.mean_interval([5]) == (5, -math.inf, math.inf)


def test_the_interval_of_a_ratio_holds_the_truth_nineteen_times_of_twenty():
    """Windows of different sizes: NLL in proportion to the size, and noise."""
    rng, inside = np.random.default_rng(1), []
    for _ in range(1000):
        sizes = rng.integers(1, 100, size=60)
        _, low, high = metrics.mean_interval(3 * sizes + rng.normal(size=60) * sizes**0.5, sizes)
        inside.append(low < 3 < high)
    assert 0.92 < np.mean(inside) < 0.975


# --- the command, and bad input --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    """A small GPT-2 that has learnt nothing, with a byte-level vocabulary, which spells every text."""
    path = tmp_path_factory.mktemp("models") / "small"
    tokenizer = GPT2Tokenizer.train(TEXT * 9, 300, progress=False)
    sizes = {"n_positions": 256, "n_embd": 8, "n_layer": 1, "n_head": 2}
    GPT2(GPT2Config(vocab_size=tokenizer.vocab_size, **sizes)).save(path)
    tokenizer.save(path)
    return str(path)


def lines(*records) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


RECORD = "It was wet, so [MASK] ran. \n[MASK]\nthe cat ,the dog \nthe dog \n\n"
FILES = {
    "perplexity": TEXT,
    "lambada": lines({"text": "the cat sat on the mat"}, {"text": "a dog ran"}),
    "winograd": RECORD * 2,
    "choice": lines({"context": "a", "choices": ["b", "c"], "label": 1}),
    "sentiment": lines({"input": "a", "output": "positive"}, {"input": "b", "output": "negative"}),
    "summarise": lines({"input": "a cat sat.", "output": "a cat"}),
    "translate": lines({"input": "a", "output": "b"}, {"input": "c", "output": "d"}),
    "answer": lines({"input": "a?", "output": "b"}),
}


@pytest.mark.parametrize("task", FILES)
def test_every_task_runs_from_the_command_line(task, folder, tmp_path, capsys):
    (tmp_path / "file").write_text(FILES[task], encoding="utf-8")
    out = tmp_path / "out.json"
    assert main(["eval", folder, task, str(tmp_path / "file"), "--json", str(out), "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{task}: ") and "95 % interval" in shown
    found = json.loads(out.read_text(encoding="utf-8"), parse_constant=pytest.fail)  # Infinity is not JSON
    assert found["task"] == task and found["measures"]
    for measure in found["measures"]:
        assert measure["name"] in shown and measure["n"] >= 1 and measure["low"] is None or (
            measure["low"] <= measure["value"] <= (measure["high"] if measure["high"] is not None else math.inf)
        )
    assert len(found["outputs"]) == (len(FILES[task].splitlines()) if task in writing.WRITTEN else 0)


@pytest.mark.parametrize("task", ["winograd", "translate"])
def test_a_limit_takes_the_first_items(task, folder, tmp_path, capsys):
    (tmp_path / "file").write_text(FILES[task], encoding="utf-8")
    given = {"folder": folder, "task": task, "file": str(tmp_path / "file"), "device": "cpu"}
    assert evaluate(EvaluateOptions(**given)).measures[0].n == 2
    assert evaluate(EvaluateOptions(**given, limit=1)).measures[0].n == 1


def test_the_command_line_names_every_task_and_detokenizer():
    command = parser()._subparsers._group_actions[0].choices["eval"]
    choices = {action.dest: action.choices for action in command._actions}
    assert choices["task"] == tuple(TASKS) and choices["detokenize"] == (*DETOKENIZERS, "auto")
    options = {name for task in TASKS.values() for name in task.options}
    assert options <= set(choices)


BAD = [
    ("perplexity", "", [], "is empty"),
    ("perplexity", " \n", [], "is empty"),
    ("perplexity", None, [], "cannot be read (No such file"),
    ("perplexity", b"caf\xe9", [], "is not UTF-8"),
    ("perplexity", "a", [], "the text has 1 token: give two or more"),
    ("perplexity", TEXT, ["--stride", "0"], "--stride 0: choose 1 to 256"),
    ("perplexity", TEXT, ["--stride", "9", "--context", "8"], "--stride 9: choose 1 to 8"),
    ("perplexity", TEXT, ["--context", "257"], "--context 257: this model has 256 positions: choose 1 to 256"),
    ("perplexity", TEXT, ["--context", "0"], "--context 0"),
    ("perplexity", TEXT, ["--shots", "1"], "--shots is no option of perplexity: it has --context"),
    ("perplexity", TEXT, ["--shots", "3"], "--shots is no option of perplexity"),
    ("winograd", RECORD, ["--detokenize", "ptb"], "--detokenize is no option of winograd: it has --layout, --limit"),
    ("winograd", RECORD, ["--limit", "0"], "--limit 0: give 1 or more"),
    ("winograd", RECORD + "It was wet.\n[MASK]\na,b\na\n\n", [], "line 6: expected a text that goes on after"),
    ("winograd", "I saw [MASK] there.\n[MASK]\na\na\n\n", [], "line 1: expected a text that goes on after"),
    ("winograd", RECORD.replace("the dog \n\n", "a cow\n\n"), [], "line 1: expected"),
    ("winograd", RECORD.replace(" ran. ", ""), [], "line 1: expected"),
    ("winograd", RECORD.replace("\n\n", "\n") + RECORD, [], "line 1: expected"),
    ("lambada", FILES["lambada"] + "{oops\n", [], "line 3: expected an object, {...}, got '{oops'"),
    ("lambada", FILES["lambada"] + "\n" + FILES["lambada"], [], "line 3: expected"),
    ("lambada", lines({"text": "word "}), [], "line 1: expected {\"text\""),
    ("lambada", lines({"words": "the cat"}), [], "line 1: expected {\"text\""),
    ("lambada", lines(["text"]), [], "line 1: expected {\"text\""),
    ("lambada", lines({"text": 3}), [], "line 1: expected {\"text\""),
    ("choice", lines({"context": "a", "choices": ["b"], "label": 0}), [], "line 1: expected {\"context\""),
    ("choice", lines({"context": "a", "choices": "bc", "label": 0}), [], "line 1: expected"),
    ("choice", lines({"context": "a", "choices": ["b", " "], "label": 0}), [], "line 1: expected"),
    ("choice", lines({"context": "a", "choices": ["b", "c"], "label": 2}), [], "line 1: expected"),
    ("choice", lines({"context": "a", "choices": ["b", "c"], "label": -1}), [], "line 1: expected"),
    ("choice", lines({"context": "a", "choices": ["b", "c"], "label": True}), [], "line 1: expected"),
    ("choice", lines({"context": "a", "choices": ["b", "c d" * 400], "label": 0}), [], "tokens to score"),
    ("sentiment", lines({"input": "a", "output": "good"}), [], "\"positive\" or \"negative\"}, got"),
    ("translate", lines({"input": "a", "output": 5}), [], "line 1: expected {\"input\": text"),
    ("translate", FILES["translate"], ["--shots", "2"], "--shots 2: choose 0 to 1"),
    ("translate", FILES["translate"], ["--shots", "-1"], "--shots -1"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "content", "options", "words"), BAD)
def test_bad_input_gets_one_clear_line(task, content, options, words, folder, tmp_path, capsys):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    assert main(["eval", folder, task, str(path), *options, "--json", str(tmp_path / "out.json")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and captured.err.startswith("minigpt: ")
    assert words in captured.err
    assert not (tmp_path / "out.json").exists()


def test_results_that_are_there_are_not_overwritten(folder, tmp_path, capsys):
    (tmp_path / "file").write_text(TEXT, encoding="utf-8")
    kept = tmp_path / "kept.json"
    kept.write_text("precious", encoding="utf-8")
    assert main(["eval", folder, "perplexity", str(tmp_path / "file"), "--json", str(kept)]) == 2
    assert "is there already: give another name" in capsys.readouterr().err
    assert kept.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("parent", ["no", "file"])
def test_results_that_could_not_be_kept_are_not_computed(parent, folder, tmp_path, capsys):
    (tmp_path / "file").write_text(TEXT, encoding="utf-8")
    out = tmp_path / parent / "x.json"
    assert main(["eval", folder, "perplexity", str(tmp_path / "file"), "--json", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and f"there is no folder {out.parent} to write to" in captured.err


def test_a_library_user_is_told_too():
    for task, options in (("nonsense", {}), ("lambada", {"stride": 3})):
        with pytest.raises(InputError, match="unknown task|no option"):
            evaluate(EvaluateOptions(folder="folder", task=task, file="file", **options))
    with pytest.raises(InputError, match="unknown de-tokeniser 'wiki'"):
        detokenized("a", "wiki")


def test_a_file_of_windows_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf" + lines({"text": "a b"}).encode().replace(b"\n", b"\r\n"))
    assert list(read_passages(path).items) == ["a b"]


def test_bytes_are_counted_in_the_file_as_it_came(tmp_path):
    """The model reads one line end and no byte order mark; the bytes and characters of both are counted."""
    path = tmp_path / "file"
    raw = b"\xef\xbb\xbf" + "é 한국어 ab\r\nc \r\n".encode()
    path.write_bytes(raw)
    text = read_as_it_came(path)
    assert text.encode("utf-8") == raw
    tokenizer = CharTokenizer.train("é 한국어 ab\nc \n")
    report = perplexity(silent(GPT1, tokenizer.vocab_size), tokenizer, text)
    expected = {"token": 12, "word": 4, "word and line end": 6, "byte": len(raw), "character": 15}
    assert counts(report) == expected


# --- the published files ---------------------------------------------------------------------------------------------


def test_the_published_files_are_read_whole(eval_data):
    records = list(read_pronouns(eval_data / "winograd" / "wsc273.txt").items)
    assert len(records) == 273 and {answer for _, _, answer in records} == {0}
    halves = [prompts.substitute(text, name) for text, names, _ in records for name in names]
    assert not [half for half in halves if "  " in "".join(half) or "MASK" in "".join(half) or " ." in "".join(half)]
    tokenizer = GPT2Tokenizer.load(eval_data / "gpt2_vocab")
    for before, after in halves:  # the cut falls between words: nothing changes because the halves are encoded apart
        assert tokenizer.encode(before) + tokenizer.encode(after) == tokenizer.encode(before + after)
    passages = list(read_passages(eval_data / "lambada" / "lambada_test.jsonl").items)
    assert len(passages) == 5153
    for passage in passages:
        cut = tasks_as_text.LAST_WORD.search(passage).start()
        assert tokenizer.encode(passage[:cut]) + tokenizer.encode(passage[cut:]) == tokenizer.encode(passage)


@pytest.mark.parametrize(
    ("task", "file", "limit"),
    [
        ("winograd", "winograd/wsc273.txt", []),
        ("lambada", "lambada/lambada_test.jsonl", ["--limit", "200"]),
        pytest.param("lambada", "lambada/lambada_test.jsonl", [], marks=pytest.mark.slow),
        pytest.param("perplexity", "wikitext2/test.txt", ["--detokenize", "wikitext"], marks=pytest.mark.slow),
    ],
)
def test_a_small_model_is_tried_on_the_published_files(task, file, limit, folder, eval_data, capsys):
    assert main(["eval", folder, task, str(eval_data / file), *limit]) == 0
    shown = capsys.readouterr().out
    n = {"winograd": "273 items", "perplexity": "241,211 words"}.get(task, "200 items" if limit else "5,153 items")
    assert n in shown and "nan" not in shown


def test_a_passage_without_a_last_word_to_score_is_left_out_and_counted(model, characters):
    found = tasks_as_text.lambada(model, characters, ["the cat", "do n't", "a dog " + "o" * 128], detokenize="ptb")
    assert found.notes[:2] == [
        "1 of 3 items are one word after --detokenize ptb and were left out: number 2",
        "1 of 3 items end with a word of more than 128 tokens to score and were left out: number 3",
    ]
    assert {measure.n for measure in found.measures} == {1}
    assert values(found) == values(tasks_as_text.lambada(model, characters, ["the cat"]))
    with pytest.raises(InputError, match="no item is left to score: 1 of 1 items are one word after --detokenize ptb"):
        tasks_as_text.lambada(model, characters, ["do n't"], detokenize="ptb")


def test_states_are_judged_as_klue_judges_them():
    """By loops, as KLUE's code has it: the F1 of each turn; a state of no parts is right or wrong as a whole."""
    wanted = ["a-b-c; a-d-e f", "a-b-c", "none", "none"]
    written = ["a-d-e f;a-b-c", "a-b-c; x-y-z; x-y-q", "none", "a-b-c"]
    records = [Written("user: x", (state,), metric="state") for state in wanted]
    joint, slots = writing.WRITTEN["state"].measures(written, records).measures
    shares = []
    for mine, theirs in zip(written, wanted, strict=True):
        gold, found = (
            [part.strip() for part in state.split(";") if part.strip() != "none"] for state in (theirs, mine)
        )
        both = sum(part in found for part in gold)
        precision, recall = both / max(1, len(found)), both / max(1, len(gold))
        f1 = 2 * precision * recall / (precision + recall) if both else 0.0
        shares.append(f1 if gold else float(not found))
    assert (joint.name, joint.value, joint.n) == ("joint goal accuracy", 0.5, 4)
    assert slots.value == pytest.approx(np.mean(shares))


def test_a_state_is_asked_for_as_instruct_asks_a_model_without_a_template():
    pytest.importorskip("jinja2")
    text = GPT2Tokenizer.train("ab", 257, progress=False)
    template = template_for(None, text, "gpt2")
    user = [{"role": "user", "content": "user: a\nsys: b\nuser: c"}]
    (asked,) = template.render_all([(user, True)])
    assert asked == prompts.state_prompt("user: a\nsys: b\nuser: c")
