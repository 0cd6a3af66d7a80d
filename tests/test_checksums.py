"""What is written here cannot change unnoticed, and what cannot be is refused before any memory is taken for it."""

import json
import shutil
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import safetensors.numpy
from helpers import same, same_weights, small_gpt1, small_gpt2, snapshot
from test_train import options, text

from minigpt import GPT1, GPT2, models, open_model
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.files.checkpoint import load_config, load_tensors, save_tensors
from minigpt.files.disk import write_text
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare, reopen
from minigpt.models.family.bert import BERT, BERTConfig
from minigpt.models.lstm import LSTM, LSTMConfig

__all__ = ["text"]  # a fixture

SIZES = {"vocab_size": 11, "n_positions": 8, "n_embd": 6, "n_layer": 1, "n_head": 1}


@pytest.fixture
def folder(tmp_path):
    small_gpt2(np.float32).save(tmp_path / "model")
    return tmp_path / "model"


def refused(folder, *parts) -> str:
    """The message with which a folder is refused: one line with these parts."""
    with pytest.raises(InputError) as caught:
        open_model(folder)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message
    return message


def edit_config(folder, **values):
    write_text(folder / "config.json", json.dumps(load_config(folder) | values))


def without_marks(folder):
    """As if another program had written the weights: no checksum, and no configuration beside them."""
    path = folder / "model.safetensors"
    safetensors.numpy.save_file(load_tensors(path)[0], path, {"format": "pt"})


# --- one bit ---------------------------------------------------------------------------------------------------------


def test_every_flipped_bit_of_a_file_is_noticed(tmp_path):
    """In the length, the header with its metadata, and the numbers."""
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": np.arange(3, dtype=np.float32)}, {"run": '{"step": 3}'})
    whole = path.read_bytes()
    noticed = 0
    for at in range(0, 8 * len(whole), 3):  # every third: each byte, and each bit of a byte
        changed = bytearray(whole)
        changed[at // 8] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(InputError) as caught:
            load_tensors(path)
        noticed += "its checksum is" in str(caught.value)
    assert noticed > 250, "many of them leave a file that only the checksum can tell from a good one"


def test_the_message_names_both_checksums(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    refused(folder, str(path), "its checksum is ", ", the file says ", "it is damaged; take another copy of it")


def test_files_without_a_checksum_open_as_before(folder):
    before = snapshot([p.data for p in open_model(folder).parameters()])
    without_marks(folder)
    assert b"sha256" not in (folder / "model.safetensors").read_bytes()
    assert same(before, snapshot([p.data for p in open_model(folder).parameters()]))


def test_a_file_that_another_program_changed_and_marked_as_it_was_is_refused(tmp_path):
    path = tmp_path / "x"
    save_tensors(path, {"a": np.zeros(3)})
    with safetensors.safe_open(path, framework="numpy") as file:
        marks = file.metadata()
    assert set(marks) == {"sha256", "format", "written_by"}
    safetensors.numpy.save_file({"a": np.ones(3)}, path, marks)
    with pytest.raises(InputError, match="save it without this metadata if another program changed it"):
        load_tensors(path)


def test_saving_holds_nothing_twice(tmp_path):
    """80 MB are written in a process that may take 60 MB more than it has."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc")
    script = f"""if True:
        import resource
        import numpy as np
        from minigpt.files.checkpoint import save_tensors
        tensors = {{str(i): np.ones(5_000_000, np.float32) for i in range(4)}}
        held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + 60_000_000, held + 60_000_000))
        save_tensors({str(tmp_path / "x")!r}, tensors)
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x").stat().st_size > 80_000_000


# --- config.json -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [{"n_head": 3}, {"n_head": 1}, {"layer_norm_epsilon": 1e-4}, {"resid_pdrop": 0.5}, {"initializer_range": 0.5},
     {"eos_token_id": 3}, {"activation_function": "gelu_fast"}],
)  # fmt: skip
def test_an_edited_configuration_is_noticed(folder, values):
    ((key, value),) = values.items()
    was = load_config(folder)[key]
    edit_config(folder, **values)
    refused(folder, f"config.json: {key} is {value!r}, and the weights were saved with {was!r}: put that back")


def test_what_was_added_to_a_configuration_or_written_in_another_way_is_no_change(folder):
    edit_config(folder, transformers_version="5", resid_pdrop=0)
    assert open_model(folder).config.resid_pdrop == 0
    edit_config(folder, resid_pdrop=False)
    refused(folder, "resid_pdrop False: give a number")


def test_a_rate_is_changed_by_an_argument_of_load(folder):
    assert GPT2.load(folder, resid_pdrop=0.25).config.resid_pdrop == 0.25
    with pytest.raises(InputError, match="GPT2Config has no 'foo': there are model_type, vocab_size"):
        GPT2.load(folder, foo=24)


def test_a_key_that_stands_twice_is_refused(folder):
    text = (folder / "config.json").read_text(encoding="utf-8")
    write_text(folder / "config.json", text.replace("{", '{"n_head": 3,', 1))
    refused(folder, "config.json is not JSON (the key 'n_head' stands in it twice)")


@pytest.mark.parametrize(
    ("key", "value"),
    [("add_cross_attention", True), ("is_encoder_decoder", True), ("pruned_heads", {"0": [1]}),
     ("quantization_config", {"bits": 4})],
)  # fmt: skip
def test_a_variant_that_is_not_built_here_is_refused_by_name(folder, key, value):
    without_marks(folder)
    edit_config(folder, **{key: value})
    refused(folder, f"config.json has {key} {value!r}")
    refused(folder, ": only models with ")


@pytest.mark.parametrize(
    ("key", "value"),
    [("num_attention_heads", 1), ("hidden_size", 12), ("n_ctx", 16), ("num_hidden_layers", 1), ("hidden_size", None)],
)
def test_two_names_of_one_thing_must_agree(folder, key, value):
    without_marks(folder)
    edit_config(folder, **{key: value})
    refused(folder, f" and {key} {value!r}, which are two names of one thing")


@pytest.mark.parametrize("values", [{"eos_token_id": "x"}, {"bos_token_id": -1}, {"layer_norm_epsilon": float("nan")},
                                    {"resid_pdrop": float("inf")}, {"embd_pdrop": True}, {"n_layer": 2.0},
                                    {"n_embd": None}, {"n_head": "2"}, {"resid_pdrop": -0.1}])  # fmt: skip
def test_a_value_of_a_wrong_type_is_named(folder, values):
    without_marks(folder)
    edit_config(folder, **values)
    refused(folder, next(iter(values)))


def test_other_names_of_the_sizes_are_understood(folder):
    without_marks(folder)
    names = {"n_positions": "n_ctx", "n_embd": "hidden_size", "n_layer": "num_hidden_layers",
             "n_head": "num_attention_heads"}  # fmt: skip
    values = {names.get(key, key): value for key, value in load_config(folder).items()}
    write_text(folder / "config.json", json.dumps(values))
    assert open_model(folder).config == small_gpt2().config


@pytest.mark.parametrize("name", ["gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh", "gelu_accurate"])
def test_other_names_of_the_same_activation_are_understood(folder, name):
    without_marks(folder)
    edit_config(folder, activation_function=name)
    assert open_model(folder).config.activation_function == name


# --- sizes that cannot be --------------------------------------------------------------------------------------------


def small(kind):
    if kind is BERT:
        return BERT(BERTConfig(**SIZES))
    if kind is LSTM:
        return LSTM(LSTMConfig(**SIZES))
    return small_gpt1() if kind is GPT1 else small_gpt2()


HUGE = [
    {"n_layer": 1_000_000}, {"n_embd": 10**9}, {"vocab_size": 2**31 - 1}, {"n_positions": 2**31 - 1},
    {"vocab_size": 2**40}, {"n_hidden": 10**9}, {"n_segments": 2**31 - 1},
]  # fmt: skip


@pytest.mark.parametrize("values", HUGE)
@pytest.mark.parametrize("kind", [GPT1, GPT2, BERT, LSTM])
def test_a_model_that_is_far_too_large_is_refused_at_once(kind, values, tmp_path):
    """Within a second of work, and in 200 MB: opening it and `minigpt info`."""
    resource = pytest.importorskip("resource", reason="needs limits of memory")
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc")
    small(kind).save(tmp_path)
    known = load_config(tmp_path)
    names = {"n_layer": "num_hidden_layers", "n_embd": "hidden_size", "n_positions": "max_position_embeddings",
             "n_segments": "type_vocab_size"} if kind is BERT else {}  # fmt: skip
    ((key, value),) = values.items()
    key = names.get(key, key)
    if key not in known:
        pytest.skip(f"{kind.__name__} has no {key}")
    edit_config(tmp_path, **{key: value, **({"n_head": 1, "num_attention_heads": 1} if "n_head" in known else {})})
    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    start = time.process_time()
    resource.setrlimit(resource.RLIMIT_AS, (held + 200_000_000, before[1]))
    try:
        if not (kind is LSTM and key == "n_positions"):  # nothing of an LSTM has a row for each position
            refused(tmp_path)
            assert main(["info", str(tmp_path)]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert time.process_time() - start < 1


def test_a_split_model_that_is_far_too_large(folder):
    tensors, _ = load_tensors(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    where = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for file in set(where.values()):
        save_tensors(folder / file, {name: tensor for name, tensor in tensors.items() if where[name] == file})
    write_text(folder / "model.safetensors.index.json", json.dumps({"weight_map": where}))
    assert open_model(folder).config.n_layer == 2
    edit_config(folder, n_layer=1_000_000)
    refused(folder, "n_layer is 1,000,000, and the weights are 28 tensors in all")


# --- sound files that other programs write ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [small_gpt1, small_gpt2])
def test_a_file_that_keeps_the_head_and_drops_the_embedding(make, tmp_path):
    model = make(np.float32)
    model.save(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors, _ = load_tensors(path)
    embedding = next(name for name in tensors if name in ("wte.weight", "tokens_embed.weight"))
    tensors["lm_head.weight"] = tensors.pop(embedding)
    save_tensors(path, tensors)
    assert same(*(snapshot([p.data for p in m.parameters()]) for m in (model, open_model(tmp_path))))
    edit_config(tmp_path, tie_word_embeddings=False)
    refused(tmp_path, f"tensor {embedding} is missing")


def padded(folder, rows, in_config):
    """Rows of zeros behind the vocabulary, as another program writes them."""
    path = folder / "model.safetensors"
    tensors, _ = load_tensors(path)
    n, c = tensors["wte.weight"].shape
    tensors["wte.weight"] = np.concatenate([tensors["wte.weight"], np.zeros((rows - n, c), np.float32)])
    safetensors.numpy.save_file(tensors, path, {"format": "pt"})
    if in_config:
        edit_config(folder, vocab_size=rows)


@pytest.mark.parametrize("in_config", [True, False])
def test_rows_behind_the_vocabulary_are_left_out(in_config, tmp_path):
    from minigpt.tokenizer import GPT2Tokenizer

    tokens = GPT2Tokenizer.train("the cat sat on the mat. " * 20, 270)
    model = small_gpt2(np.float32, vocab_size=tokens.vocab_size)
    model.save(tmp_path)
    tokens.save(tmp_path)
    padded(tmp_path, 320, in_config)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again, _ = models.open_both(tmp_path)
    assert len(told) == in_config
    if in_config:
        n_unused = 320 - tokens.vocab_size
        assert f"the last {n_unused} of 320 rows of the token embedding belong to no token" in str(told[0].message)
    assert same_weights(model, again)
    assert open_model(tmp_path).config.vocab_size == (320 if in_config else tokens.vocab_size)


def test_rows_that_are_no_filling_are_refused(tmp_path):
    model = small_gpt2(np.float32)
    model.save(tmp_path)
    padded(tmp_path, 17, in_config=False)
    refused(tmp_path, "wte.weight has shape (17, 6); the configuration wants (11, 6)")


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept_run(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "run"
    loop(prepare(options(text, folder)))
    return folder


@pytest.fixture
def run(kept_run, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(kept_run, tmp_path / "run")


def damage_state(run, *path, value):
    """Change a value in the state of a run, as one who also computes the checksum anew."""
    tensors, metadata = load_tensors(run / "resume.safetensors")
    state = json.loads(metadata["run"])
    place = state
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    save_tensors(run / "resume.safetensors", tensors, {"run": json.dumps(state)})


@pytest.mark.parametrize(
    ("path", "value"),
    [(("step",), -1), (("step",), True), (("step",), 10**40), (("step",), "3"), (("best",), float("nan")),
     (("best",), None), (("options",), []), (("config",), None), (("text",), 3), (("options", "lr"), "x"),
     (("options", "lr"), None), (("options", "lr"), -1.0), (("options", "dropout"), None), (("options", "batch"), 2.5),
     (("options", "batch"), True), (("options", "align"), float("nan")), (("options", "data"), None),
     (("config", "n_layer"), 1_000_000), (("config", "n_embd"), 10**9), (("config", "n_head"), "x")],
)  # fmt: skip
def test_a_state_that_cannot_be_is_refused_in_one_line(run, path, value):
    damage_state(run, *path, value=value)
    with pytest.raises(InputError) as caught:
        reopen(PretrainOptions(out=str(run)))
    assert "\n" not in str(caught.value)
    assert main(["train", "--resume", "--out", str(run)]) == 2


def test_one_bit_of_a_kept_run(run):
    path = run / "resume.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(InputError, match="resume.safetensors: its checksum is"):
        reopen(PretrainOptions(out=str(run)))


def test_another_number_in_the_table_of_losses(run):
    path = run / "loss.csv"
    whole = path.read_text(encoding="utf-8")
    lines = whole.split("\n")
    first = lines[1].split(",")
    first[2] = "0.125"
    lines[1] = ",".join(first)
    write_text(path, "\n".join(lines))
    with pytest.raises(InputError, match="loss.csv is not the table of this run, or it is damaged: move it away"):
        reopen(PretrainOptions(out=str(run)))
    write_text(path, lines[0] + "\n")
    with pytest.raises(InputError, match="loss.csv is not the table of this run"):
        reopen(PretrainOptions(out=str(run)))
    path.unlink()
    assert reopen(PretrainOptions(out=str(run))).step > 0
