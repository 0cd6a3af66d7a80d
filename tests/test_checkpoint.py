"""Files: what is saved comes back, what is damaged is refused in one line, and what was there is never lost."""

import errno
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from helpers import batch, same, same_weights, small_gpt1, snapshot

import minigpt
from minigpt import GPT1
from minigpt.errors import InputError
from minigpt.files import disk
from minigpt.files.checkpoint import load_config, load_tensors, save_tensors
from minigpt.files.disk import write_text
from minigpt.files.lock import locked

TENSORS = {
    "float32": np.arange(12, dtype=np.float32).reshape(3, 4),
    "float64": np.linspace(0, 1, 5),
    "float16": np.ones((2, 1, 3), np.float16),
    "int64": np.array([[-1, 2**40]]),
    "uint8": np.arange(7, dtype=np.uint8),
    "number": np.array(2.5),
    "empty": np.zeros((0, 3), np.float32),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(10.0)[::3],
    "한국어": np.array([1.0]),
}


def one_line(caught) -> str:
    """The message of an InputError, which must be one line."""
    text = str(caught.value)
    assert "\n" not in text and text
    return text


@pytest.fixture
def folder(tmp_path) -> Path:
    """A directory with a small model."""
    small_gpt1(np.float32).save(tmp_path / "model")
    return tmp_path / "model"


# --- round trips -----------------------------------------------------------------------------------------------------


def test_tensors_come_back(tmp_path):
    path = tmp_path / "new" / "folder" / "some.safetensors"
    save_tensors(path, TENSORS, {"step": "3", "한": "국"})
    tensors, metadata = load_tensors(str(path))
    assert metadata == {"format": "pt", "step": "3", "한": "국"} and list(tensors) and set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype and same([tensors[name]], [tensor]), name
    assert os.listdir(path.parent) == ["some.safetensors"]


def test_the_library_reads_what_is_written_here(tmp_path):
    """And the other way round."""
    save_tensors(tmp_path / "ours", TENSORS)
    theirs = safetensors.numpy.load_file(tmp_path / "ours")
    assert {name: a.tolist() for name, a in theirs.items()} == {name: a.tolist() for name, a in TENSORS.items()}
    plain = {name: np.array(a, order="C") for name, a in TENSORS.items()}
    safetensors.numpy.save_file(plain, tmp_path / "theirs")
    assert load_tensors(tmp_path / "theirs")[0].keys() == TENSORS.keys()


def test_the_numbers_begin_at_a_multiple_of_eight(tmp_path):
    for n in range(1, 12):
        save_tensors(tmp_path / "t", {"x" * n: np.ones(3)})
        assert int.from_bytes((tmp_path / "t").read_bytes()[:8], "little") % 8 == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_comes_back(tmp_path, dtype):
    model = small_gpt1(dtype, dropout=0.25)
    model.save(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors"]
    again = GPT1.load(tmp_path, dtype=dtype)
    assert again.config == model.config
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert same_weights(model, again)
    ids, _ = batch(model)
    assert same(snapshot([model.forward(ids)[0]]), snapshot([again.forward(ids)[0]]))
    other = GPT1.load(str(tmp_path), dtype=np.float16)
    assert {p.data.dtype for p in other.parameters()} == {np.dtype(np.float16)}
    quiet = GPT1.load(tmp_path, resid_pdrop=0.0)
    assert quiet.config.resid_pdrop == 0 and quiet.config.attn_pdrop == 0.25


def test_the_configuration_is_hugging_faces(folder):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "openai-gpt" and config["n_embd"] == 6 and config["afn"] == "gelu"
    assert load_config(folder) == config
    assert (folder / "config.json").read_bytes().endswith(b"}\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_files_are_as_readable_as_others_of_this_user(tmp_path):
    save_tensors(tmp_path / "a", TENSORS)
    write_text(tmp_path / "b", "text")
    (tmp_path / "c").touch()
    assert len({(tmp_path / name).stat().st_mode for name in "abc"}) == 1


# --- what others write -----------------------------------------------------------------------------------------------


def rewrite(folder, change):
    """Change the tensors of a model directory."""
    path = folder / "model.safetensors"
    save_tensors(path, change(load_tensors(path)[0]))


def test_prefix_masks_and_stored_head_are_understood(folder):
    expected = snapshot([p.data for p in GPT1.load(folder).parameters()])
    mask = np.tril(np.ones((1, 1, 8, 8), np.float32))

    def as_published(tensors):
        tensors |= {f"h.{i}.attn.bias": mask for i in range(2)}
        tensors = {f"transformer.{name}": tensor for name, tensor in tensors.items()}
        return tensors | {"lm_head.weight": tensors["transformer.tokens_embed.weight"]}

    rewrite(folder, as_published)
    assert same(expected, snapshot([p.data for p in GPT1.load(folder).parameters()]))
    assert "h.0.attn.c_attn.bias" in GPT1.load(folder).read_tensors(folder)


def test_a_head_of_its_own_is_refused(folder):
    rewrite(folder, lambda t: t | {"lm_head.weight": t["tokens_embed.weight"] + 1})
    with pytest.raises(InputError, match="lm_head.weight differs from the token embedding"):
        GPT1.load(folder)


def test_half_precision_is_widened(folder):
    rewrite(folder, lambda t: {name: a.astype(np.float16) for name, a in t.items()})
    assert {p.data.dtype for p in GPT1.load(folder).parameters()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {n: a for n, a in t.items() if n != "h.1.ln_2.bias"}, "tensor h.1.ln_2.bias is missing"),
        (lambda t: t | {"h.2.ln_1.bias": np.ones(6)}, "tensor h.2.ln_1.bias does not belong to this model"),
        (lambda t: t | {"h.0.ln_1.bias": np.ones(5)}, r"ln_1.bias has shape \(5,\); the configuration wants \(6,\)"),
        (lambda t: t | {"h.0.ln_1.bias": np.ones((1, 6))}, r"h.0.ln_1.bias has shape \(1, 6\)"),
        (lambda t: t | {"h.0.ln_1.bias": np.ones(6, np.int32)}, "h.0.ln_1.bias holds int32; expected floating-point"),
        (lambda t: {}, "tensor .* is missing"),
    ],
)
def test_tensors_that_do_not_fit_are_named(folder, change, message):
    rewrite(folder, change)
    with pytest.raises(InputError, match=message) as caught:
        GPT1.load(folder)
    assert str(folder) in one_line(caught)


# --- damaged and foreign ---------------------------------------------------------------------------------------------


def pytorch_file(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")


DAMAGE = {
    "truncated": lambda path, data: path.write_bytes(data[:-1]),
    "half": lambda path, data: path.write_bytes(data[: len(data) // 2]),
    "only a length": lambda path, data: path.write_bytes(data[:8]),
    "longer": lambda path, data: path.write_bytes(data + b"x"),
    "empty": lambda path, data: path.write_bytes(b""),
    "zeros": lambda path, data: path.write_bytes(bytes(len(data))),
    "text": lambda path, data: path.write_text("no weights, but a text\n" * 50, encoding="utf-8"),
    "a PyTorch file": lambda path, data: pytorch_file(path),
    "a huge header": lambda path, data: path.write_bytes(b"\xff" * 7 + b"\x7f" + data[8:]),
    "a broken header": lambda path, data: path.write_bytes(data.replace(b'"dtype"', b'"dtipe"')),
    "offsets outside": lambda path, data: path.write_bytes(data.replace(b'"data_offsets": [0', b'"data_offsets": [9')),
    "not UTF-8": lambda path, data: path.write_bytes(data[:12] + b"\xff\xfe" + data[14:]),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused(folder, kind):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    DAMAGE[kind](path, data)
    assert path.read_bytes() != data
    with pytest.raises(InputError, match="is not a whole safetensors file") as caught:
        GPT1.load(folder)
    assert str(path) in one_line(caught)


@pytest.mark.parametrize("seed", range(60))
def test_no_damage_gives_another_error(folder, seed):
    """A random byte of the header changed: the model loads with other numbers or is refused, and nothing else."""
    path, rng = folder / "model.safetensors", np.random.default_rng(seed)
    data = bytearray(path.read_bytes())
    data[rng.integers(8 + int.from_bytes(data[:8], "little"))] = rng.integers(256)
    path.write_bytes(data)
    try:
        GPT1.load(folder)
    except InputError as error:
        assert "\n" not in str(error)


def test_missing_files(folder, tmp_path):
    for nowhere in (tmp_path / "nowhere", tmp_path, folder / "config.json"):
        with pytest.raises(InputError, match="is not a model directory: it has no config.json"):
            GPT1.load(nowhere)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="model.safetensors does not exist"):
        GPT1.load(folder)
    (folder / "model.safetensors").mkdir()
    with pytest.raises(InputError, match="model.safetensors does not exist"):
        GPT1.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b"\xff\xfe{}", "is not UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", "holds a list of JSON, expected an object"),
        (b"{}", "names no model_type"),
        (b'{"model_type": "gpt2"}', "holds a model of type 'gpt2'; expected 'openai-gpt'"),
        (b'{"model_type": "openai-gpt"}', "config.json has no n_embd, n_head, n_layer, n_positions, vocab_size"),
    ],
)
def test_a_bad_configuration_is_refused(folder, text, message):
    (folder / "config.json").write_bytes(text)
    with pytest.raises(InputError, match=message) as caught:
        GPT1.load(folder)
    one_line(caught)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_head": 4}, "n_embd 6 is not a multiple of n_head 4"),
        ({"n_layer": -1}, "n_layer is -1"),
        ({"n_layer": "two"}, "n_layer is 'two'"),
        ({"afn": "gelu_new"}, "afn is 'gelu_new': built here are gelu, "),
        ({"n_layer": 3}, "n_layer is 3, and the weights were saved with 2: put that back"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(folder, values, message):
    edit_config(folder, values)
    with pytest.raises(InputError, match=message) as caught:
        GPT1.load(folder)
    one_line(caught)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab_size": 12}, r"tokens_embed.weight has shape \(11, 6\); the configuration wants \(12, 6\)"),
        ({"n_layer": 3}, "tensor h.2.attn.c_attn.bias is missing"),
        ({"n_layer": 1}, "tensor h.1.attn.c_attn.bias does not belong"),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights_of_another_program(folder, values, message):
    """Such weights do not say with which configuration they were saved: the first tensor that does not fit is named."""
    edit_config(folder, values)
    tensors, _ = load_tensors(folder / "model.safetensors")
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InputError, match=message) as caught:
        GPT1.load(folder)
    one_line(caught)


def edit_config(folder, values):
    config = load_config(folder) | values
    write_text(folder / "config.json", json.dumps(config))


def test_unknown_keys_are_left_out(folder):
    write_text(folder / "config.json", json.dumps(load_config(folder) | {"transformers_version": "5", "n_ctx": 8}))
    assert GPT1.load(folder).config.n_positions == 8


# --- nothing is lost -------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path):
    """A file of each kind with something in it; afterwards it must still be there, whole and alone."""
    save_tensors(tmp_path / "w.safetensors", {"x": np.arange(4.0)})
    write_text(tmp_path / "t.txt", "before")
    yield tmp_path
    assert load_tensors(tmp_path / "w.safetensors")[0]["x"].tolist() == [0, 1, 2, 3]
    assert (tmp_path / "t.txt").read_text(encoding="utf-8") == "before"
    assert sorted(os.listdir(tmp_path)) == ["t.txt", "w.safetensors"]


def attempts(folder):
    big = {"x": np.zeros(100_000), "y": np.zeros(7)}
    return [lambda: save_tensors(folder / "w.safetensors", big), lambda: write_text(folder / "t.txt", "after" * 9999)]


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_full_disk(kept, monkeypatch, function):
    monkeypatch.setattr(os, function, full)
    for attempt in attempts(kept):
        with pytest.raises(InputError, match="the disk is full; what was there before is untouched"):
            attempt()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit on the size of files")
def test_a_disk_that_fills_up_while_writing(kept):
    """For real: a process that may write files of 4 KB at most."""
    script = f"""if True:
        import resource
        import numpy as np
        from pathlib import Path
        from minigpt.files.checkpoint import save_tensors
        from minigpt.files.disk import write_text
        from minigpt.errors import InputError
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        folder = Path({str(kept)!r})
        for attempt in (lambda: save_tensors(folder / "w.safetensors", {{"x": np.zeros(100_000)}}),
                        lambda: write_text(folder / "t.txt", "after" * 9999)):
            try:
                attempt()
            except InputError as error:
                print(error)
    """
    done = run(script)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all("cannot write" in line and "untouched" in line for line in lines), done


def run(script, **options):
    environment = os.environ | {"PYTHONPATH": str(Path(minigpt.__file__).parents[1])}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_device_without_space(kept, monkeypatch):
    """What is written beside lands on a full device."""
    opened = Path.open

    def onto_full(self, *args, **kwargs):
        return opened(Path("/dev/full") if self.suffix == ".part" else self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", onto_full)
    with pytest.raises(InputError, match="the disk is full; what was there before is untouched"):
        attempts(kept)[0]()


def test_killed_while_writing(tmp_path):
    """The old file is whole; the half of a new one lies beside, and the next holder of the folder's lock removes it."""
    path = tmp_path / "w.safetensors"
    save_tensors(path, {"x": np.arange(4.0)})
    script = f"""if True:
        import os
        import numpy as np
        from minigpt.files import tensors
        whole = tensors._write
        def half(path, *content):
            whole(path, *content)
            os.truncate(path, os.path.getsize(path) // 2)
            os._exit(9)  # as a kill does: nothing runs after it
        tensors._write = half
        tensors.save_tensors({str(path)!r}, {{"x": np.ones(4)}})
    """
    environment = os.environ | {"PYTHONPATH": str(Path(minigpt.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", script], env=environment).returncode == 9
    assert list(tmp_path.glob(".*.part")), "the child was not killed while it wrote"
    tensors, _ = load_tensors(path)
    assert tensors["x"].tolist() == [0, 1, 2, 3]
    with locked(tmp_path):
        assert set(os.listdir(tmp_path)) == {path.name, ".lock"}
    assert os.listdir(tmp_path) == [path.name]


def test_a_place_that_cannot_be_written(kept):
    """A file where a folder is wanted, a folder where a file is wanted."""
    with pytest.raises(InputError, match="cannot write .*untouched"):
        save_tensors(kept / "t.txt" / "w.safetensors", {"x": np.zeros(1)})
    with pytest.raises(InputError, match="cannot write .*untouched"):
        write_text(kept / "t.txt" / "deeper" / "t.txt", "x")
    (kept / "folder").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        write_text(kept / "folder", "x")
    (kept / "folder").rmdir()


def test_a_directory_that_cannot_be_synced_is_no_error(tmp_path, monkeypatch):
    """Windows and some network drives: the file is there all the same."""
    real = disk._sync
    monkeypatch.setattr(disk, "_sync", lambda path: full() if path.is_dir() else real(path))
    write_text(tmp_path / "t.txt", "there")
    assert (tmp_path / "t.txt").read_text(encoding="utf-8") == "there"


def test_line_ends_are_the_same_everywhere(tmp_path):
    write_text(tmp_path / "t.txt", "é\n한\n")
    assert (tmp_path / "t.txt").read_bytes() == "é\n한\n".encode()


def test_text_that_has_no_utf_8_leaves_nothing_behind(tmp_path):
    write_text(tmp_path / "a.txt", "before")
    with pytest.raises(InputError, match="cannot write .*a.txt"):
        write_text(tmp_path / "a.txt", "\udcff")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "before"
