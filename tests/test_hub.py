"""Downloads, from a server on this machine: whole, broken, resumed, refused. Nothing here leaves the machine."""

import hashlib
import http.server
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from helpers import same, small_gpt2, snapshot

from minigpt import models
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.files import hub
from minigpt.models.gpt2 import GPT2
from minigpt.tokenizer.gpt2 import GPT2Tokenizer


class Server:
    """Serves `files` by the last part of their address, and misbehaves as told."""

    def __init__(self, files: dict[str, bytes]):
        self.files, self.asked = files, []  # asked: (file, the Range that came with it)
        self.cuts = []  # how many bytes of the next answers to send before hanging up
        self.ignores_range = self.shifts = self.silent_length = False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.answer(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/some/where"

    def answer(self, request):
        name, wanted = request.path.rsplit("/", 1)[-1], request.headers.get("Range")
        self.asked.append((name, wanted))
        request.close_connection = True
        if name not in self.files:
            request.send_error(404)
            return
        data, start = self.files[name], 0
        if wanted and not self.ignores_range:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                request.send_response(416)
                request.send_header("Content-Range", f"bytes */{len(data)}")
                request.send_header("Content-Length", "0")
                request.end_headers()
                return
            request.send_response(206)
            begin = start + self.shifts
            request.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            request.send_response(200)
        body = data[start:]
        if not self.silent_length:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)


@contextmanager
def serving(files):
    server = Server(files)
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        server.server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


DATA = np.random.default_rng(0).bytes(100_000)
SUM = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server():
    with serving({"data.bin": DATA}) as server:
        yield server


def fetch(server, tmp_path, known=SUM):
    path = tmp_path / "new" / "data.bin"
    hub.fetch(f"{server.url}/data.bin", path, known)
    return path


# --- one file --------------------------------------------------------------------------------------------------------


def test_a_whole_file(server, tmp_path):
    path = fetch(server, tmp_path)
    assert path.read_bytes() == DATA and server.asked == [("data.bin", None)]
    assert [p.name for p in path.parent.iterdir()] == ["data.bin"]


@pytest.mark.parametrize("cuts", [[1], [40_000], [99_999], [10_000, 50_000, 1]])
def test_a_broken_connection_is_taken_up_again(server, tmp_path, cuts):
    server.cuts = list(cuts)
    assert fetch(server, tmp_path).read_bytes() == DATA
    begins = np.cumsum([0, *cuts])[1:]
    assert server.asked == [("data.bin", None)] + [("data.bin", f"bytes={n}-") for n in begins]


def test_what_a_killed_download_left_is_gone_on_with(server, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "data.bin.part").write_bytes(DATA[:70_000])
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert server.asked == [("data.bin", "bytes=70000-")]


def test_a_server_that_ignores_range(server, tmp_path):
    """It sends the whole file again, and that is what ends up on the disk: once."""
    server.ignores_range, server.cuts = True, [30_000]
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert [wanted for _, wanted in server.asked] == [None, "bytes=30000-"]


def test_a_server_that_ignores_range_and_always_breaks_off_is_given_up(server, tmp_path):
    server.ignores_range, server.cuts = True, [30_000] * 50
    with pytest.raises(InputError, match="broke at 30,000"):
        fetch(server, tmp_path)
    assert len(server.asked) == 2, "once more, and then no more"



def test_a_server_that_sends_another_range(server, tmp_path):
    server.shifts, server.cuts = True, [30_000]
    with pytest.raises(InputError, match="the server sends another part of the file than it was asked for"):
        fetch(server, tmp_path)
    assert (tmp_path / "new" / "data.bin.part").read_bytes() == DATA[:30_000]


def test_a_part_that_is_whole_already(server, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "data.bin.part").write_bytes(DATA)
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert server.asked == [("data.bin", "bytes=100000-")]


def test_a_part_that_is_too_long_is_of_another_file(server, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "data.bin.part").write_bytes(DATA + b"more")
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert server.asked == [("data.bin", "bytes=100004-"), ("data.bin", None)]


def test_a_connection_that_breaks_for_good(server, tmp_path):
    server.cuts = [30_000, 0]
    with pytest.raises(InputError, match="the connection broke at 30,000 of 100,000 bytes, which are kept"):
        fetch(server, tmp_path)
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert server.asked[-1] == ("data.bin", "bytes=30000-")


def test_a_server_that_does_not_say_how_long(server, tmp_path):
    """A part could not be told from the whole."""
    server.silent_length = True
    with pytest.raises(InputError, match="the server does not say how long the file is"):
        fetch(server, tmp_path)


@pytest.mark.parametrize("part", [b"", DATA[:500], b"x" * 500])
def test_a_wrong_checksum_is_refused_and_removed(server, tmp_path, part):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "data.bin.part").write_bytes(part)
    known = SUM if part.startswith(b"x") else hashlib.sha256(b"another file").hexdigest()
    with pytest.raises(InputError, match=f"the published file {known}: it was removed") as caught:
        fetch(server, tmp_path, known)
    assert list((tmp_path / "new").iterdir()) == [] and "\n" not in str(caught.value)


def test_a_file_that_is_not_there(server, tmp_path):
    server.files.clear()
    with pytest.raises(InputError, match=r"cannot fetch http://127.0.0.1:\d+/some/where/data.bin: HTTP Error 404"):
        fetch(server, tmp_path)


def test_a_server_that_is_gone(tmp_path):
    with serving({}) as server:
        pass
    with pytest.raises(InputError, match=r"cannot fetch .*refused"):
        fetch(server, tmp_path)


@pytest.mark.parametrize("url", ["nowhere", "htp://x", "http://", "http://256.0.0.1:99999/x"])
def test_an_address_that_is_none(url, tmp_path):
    with pytest.raises(InputError, match="cannot fetch") as caught:
        hub.fetch(url, tmp_path / "x")
    assert "\n" not in str(caught.value)


# --- a model ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of downloaded models, and a place of its own for the test."""
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A server with a tiny GPT-2 as Hugging Face has it, whose checksums are the known ones; and the model."""
    text = GPT2Tokenizer.train("the cat sat on the mat. " * 20, 270)
    model = small_gpt2(np.float32, vocab_size=text.vocab_size, n_positions=16)
    model.save(tmp_path / "source")
    text.save(tmp_path / "source")
    files = {name: (tmp_path / "source" / name).read_bytes() for name in hub.FILES}
    for name, data in files.items():
        monkeypatch.setitem(hub.SHA256, ("gpt2", name), hashlib.sha256(data).hexdigest())
    with serving(files) as server:
        yield server, model


def test_download_and_use_by_name(published, cache, capsys):
    server, model = published
    server.cuts = [5, 60]
    assert main(["download", "gpt2", "--from", server.url + "/"]) == 0
    assert capsys.readouterr().out == f"{cache / 'gpt2'}\n"
    assert sorted(p.name for p in (cache / "gpt2").iterdir()) == sorted(hub.FILES)
    again, text = models.open_both("gpt2")
    assert type(again) is GPT2 and type(text) is GPT2Tokenizer and text.decode(text.encode("the cat")) == "the cat"
    assert same(*(snapshot([p.data for p in m.parameters()]) for m in (model, again)))
    assert main(["info", "gpt2"]) == 0 and f"{text.vocab_size} x 6" in capsys.readouterr().out
    assert main(["sample", "gpt2", "--prompt", "the cat", "--tokens", "3"]) == 0
    asked = len(server.asked)
    assert main(["download", "gpt2", "--from", server.url]) == 0
    assert len(server.asked) == asked and capsys.readouterr().out.count("is there already") == 4


def test_training_goes_on_from_a_downloaded_model(published, cache, tmp_path, capsys):
    server, _ = published
    (tmp_path / "t.txt").write_text("the cat sat on the mat. a dog saw the cat.\n" * 60, encoding="utf-8")
    arguments = ["train", "--init", "gpt2", "--data", "t.txt", "--steps", "2", "--batch", "2", "--model", "gpt2"]
    assert main(arguments) == 2
    assert "gpt2 is neither a folder here nor downloaded to" in capsys.readouterr().err
    assert main(["download", "gpt2", "--from", server.url]) == 0
    assert main(arguments) == 0
    assert type(models.open_model("runs/gpt2-t-from-gpt2")) is GPT2
    capsys.readouterr()
    assert main(["tokenizer", "encode", "gpt2", "the"]) == 0
    assert main(["tokenizer", "decode", "gpt2", capsys.readouterr().out.split()[0]]) == 0, "its vocabulary is found too"


def test_a_folder_of_that_name_comes_first(cache, tmp_path):
    assert hub.find("gpt2-of-mine") == hub.Path("gpt2-of-mine")
    with pytest.raises(InputError, match="minigpt download gpt2-xl"):
        hub.find("gpt2-xl")
    (tmp_path / "gpt2-xl").mkdir()
    assert hub.find("gpt2-xl") == hub.Path("gpt2-xl")


def test_files_placed_by_hand(published, cache, tmp_path):
    (tmp_path / "source").rename(tmp_path / "moved")
    cache.mkdir()
    (tmp_path / "moved").rename(cache / "gpt2")
    assert type(models.open_model("gpt2")) is GPT2


def test_nothing_that_is_there_is_overwritten(published, tmp_path):
    server, _ = published
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.json").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="config.json is there, and it is another file: move it away"):
        hub.download("gpt2", tmp_path / "out", server.url)
    assert (tmp_path / "out" / "config.json").read_text(encoding="utf-8") == "mine" and not server.asked


def test_a_model_that_is_not_the_published_one(published, cache, capsys):
    server, _ = published
    server.files["model.safetensors"] = server.files["model.safetensors"][:-1] + b"!"
    assert main(["download", "gpt2", "--from", server.url]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "it was removed; try again, or, by hand, place" in error
    assert sorted(p.name for p in (cache / "gpt2").iterdir()) == ["config.json", "merges.txt", "vocab.json"]


def test_a_server_that_is_gone_says_where_to_place_the_files(cache, capsys):
    with serving({}) as server:
        pass
    assert main(["download", "gpt2-medium", "--from", server.url]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "refused" in error and f"in {cache / 'gpt2-medium'}" in error
    for file in hub.FILES:
        assert file in error
    assert "from https://huggingface.co/openai-community/gpt2-medium/tree/" in error


def test_a_missing_file_says_so_too(published, cache, capsys):
    server, _ = published
    del server.files["merges.txt"]
    assert main(["download", "gpt2", "--from", server.url]) == 2
    assert "merges.txt: HTTP Error 404" in capsys.readouterr().err.splitlines()[-1]


def test_an_unknown_model(cache, capsys):
    assert main(["download", "gpt3"]) == 2
    assert "unknown model 'gpt3': choose gpt1, gpt2, gpt2-medium, gpt2-large, gpt2-xl" in capsys.readouterr().err


def test_addresses_are_those_of_the_publisher(cache, monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "fetch", lambda url, path, known: asked.append((url, path, known)))
    for name in hub.REPOSITORIES:
        hub.download(name)
    base = "https://huggingface.co/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e"
    file = "model.safetensors"
    assert (f"{base}/{file}", cache / "gpt2" / file, hub.SHA256["gpt2", file]) in asked
    assert asked[0][0] == "https://huggingface.co/openai-community/openai-gpt/resolve/main/config.json"
    assert len(asked) == 20


def test_the_known_checksums_are_those_of_the_released_vocabulary(eval_data):
    for name, file in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        found = hub.sha256(eval_data / "gpt2_vocab" / name)
        assert found == hub.SHA256["gpt2", file] == hub.SHA256["gpt2-xl", file]


def test_the_folder_of_downloads(monkeypatch, tmp_path):
    monkeypatch.delenv("MINIGPT_CACHE", raising=False)
    assert hub.home("gpt2").parts[-3:] == (".cache", "minigpt", "gpt2")
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path))
    assert hub.home("gpt2") == tmp_path / "gpt2"
