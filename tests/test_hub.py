"""Published models: found on this machine, or downloaded from a small hub that runs on it. Nothing here leaves it."""

import hashlib
import http.server
import re
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from helpers import same_weights, small_gpt2

from minigpt import GPT2, models, open_model
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.files import hub
from minigpt.tokenizer.gpt2 import GPT2Tokenizer

pytestmark = pytest.mark.usefixtures("quick_runs")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Hub:
    """Serves the files of any repository as huggingface.co does, and misbehaves as told.

    requests: (method, path, Range, Authorization) of what came in.
    """

    def __init__(self, files: dict[str, bytes]):
        self.files, self.requests = files, []
        self.commits = {COMMIT}
        self.newest = COMMIT
        self.etags = {}  # announced in place of the true checksum
        self.sizes = {}  # announced in place of the true size
        self.cuts = []  # how many bytes of the next answers to send before hanging up
        self.ignores_range = False
        self.location = None  # where the weights are redirected to
        self.announces_location = True  # or only those are redirected who fetch them
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                outer.answer(self)

            def do_GET(self):
                outer.answer(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def got(self, method: str) -> list[str]:
        """The names of the files that were requested so."""
        return [path.rsplit("/", 1)[-1] for kind, path, *_ in self.requests if kind == method]

    def answer(self, request):
        wanted = request.headers.get("Range")
        self.requests.append((request.command, request.path, wanted, request.headers.get("Authorization")))
        request.close_connection = True
        repository, revision, name = re.fullmatch(r"/(.+)/resolve/(\w+)/(.+)", request.path).groups()
        revision = self.newest if revision == "main" else revision
        if revision not in self.commits or name not in self.files:
            request.send_response(404)
            request.send_header("X-Error-Code", "RevisionNotFound" if name in self.files else "EntryNotFound")
            request.send_header("Content-Length", "0")
            request.send_header("Connection", "close")
            request.end_headers()
            return
        data = self.files[name]
        body = data
        redirects = self.location and (request.command == "GET" or self.announces_location)
        if redirects and name == "model.safetensors":
            body = b""
            request.send_response(302)
            request.send_header("Location", f"{self.location}{request.path}")
        elif wanted and not self.ignores_range:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            body = data[start:]
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            request.send_response(200)
        etag = self.etags.get(name, sha256(data))
        request.send_header("X-Repo-Commit", revision)
        request.send_header("ETag", f'"{etag}"')
        request.send_header("X-Linked-Etag", f'"{etag}"')
        request.send_header("X-Linked-Size", str(self.sizes.get(name, len(data))))
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Connection", "close")
        request.end_headers()
        if request.command == "HEAD":
            return
        if self.cuts and name == "model.safetensors":
            body = body[: self.cuts.pop(0)]
        request.wfile.write(body)


@contextmanager
def serving(files):
    served = Hub(files)
    thread = threading.Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.server.shutdown()
        served.server.server_close()
        thread.join()


WEIGHTS = np.random.default_rng(0).bytes(100_000)
SMALL = {"config.json": b"{}", "vocab.json": b'{"a": 0}', "merges.txt": b"#version: 0.2\n"}
FILES = SMALL | {"model.safetensors": WEIGHTS}


def publish(monkeypatch, files, name="gpt2", known=None):
    """Enter files into the table of published models, with the checksums of those that are known (default: all)."""
    sums = {file: sha256(files[file]) for file in (files if known is None else known)}
    model = hub.Published("openai-community/gpt2", COMMIT, list(FILES), sha256=sums)
    monkeypatch.setitem(hub.PUBLISHED, name, model)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A home folder of its own for each test; the caches are in it, and no proxy stands before this machine."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("MINIGPT_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    if "huggingface_hub.constants" in sys.modules:
        monkeypatch.setattr(sys.modules["huggingface_hub.constants"], "HF_HUB_CACHE", str(tmp_path / "hf"))


@pytest.fixture
def library(tmp_path, monkeypatch):
    """huggingface_hub, whose cache is in a folder of the test; it waits for nothing."""
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (extra hub)")
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return sys.modules["huggingface_hub"]


@pytest.fixture
def without_library(monkeypatch):
    """As if huggingface_hub were not installed."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)


@pytest.fixture
def server(monkeypatch):
    publish(monkeypatch, FILES)
    with serving(dict(FILES)) as server:
        yield server


def contents(folder):
    """{name: bytes} of the files of a folder, without those that huggingface_hub keeps for itself."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def in_cache(tmp_path):
    """The names and sizes of all whole contents in the cache of huggingface_hub."""
    return sorted(path.stat().st_size for path in (tmp_path / "hf").glob("models--*/blobs/*"))


# --- what is fetched -------------------------------------------------------------------------------------------------


def test_a_download_goes_to_the_cache_of_huggingface_hub(server, library, tmp_path, capsys):
    folder = hub.download("gpt2", source=server.url)
    assert folder == tmp_path / "hf" / "models--openai-community--gpt2" / "snapshots" / COMMIT
    assert contents(folder) == FILES
    assert all(f"/openai-community/gpt2/resolve/{COMMIT}/" in path for _, path, *_ in server.requests)
    told = capsys.readouterr().err
    total = sum(len(data) for data in FILES.values())
    assert f"openai-community/gpt2, commit 0123456789ab: 4 files, {total:,} bytes, from 127.0.0.1" in told
    assert "config.json, vocab.json, merges.txt, model.safetensors: the published files" in told
    assert 'now: minigpt sample gpt2 --prompt "The old man"' in told
    assert hub.find("gpt2") == folder


def test_a_second_download_fetches_nothing(server, library, capsys):
    first = hub.download("gpt2", source=server.url)
    server.requests.clear()
    assert hub.download("gpt2", source=server.url) == first and not server.requests
    told = capsys.readouterr().err.splitlines()
    assert told[-5:-1] == [f"{first / file} is there already: the published file" for file in list(FILES)]


def test_out_names_the_folder(server, library, tmp_path, capsys):
    assert hub.download("gpt2", "out", server.url) == hub.Path("out")
    assert contents(tmp_path / "out") == FILES
    assert "now: minigpt sample out" in capsys.readouterr().err


def test_minigpt_cache_names_the_folder(server, library, tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "mine"))
    assert hub.download("gpt2", source=server.url) == tmp_path / "mine" / "gpt2"
    assert contents(tmp_path / "mine" / "gpt2") == FILES
    assert hub.find("gpt2") == tmp_path / "mine" / "gpt2"


@pytest.mark.parametrize("cuts", [[1_000], [40_000], [99_000], [10_000, 50_000, 1_000]])
def test_a_broken_connection_is_taken_up_again(server, library, monkeypatch, cuts):
    monkeypatch.setattr(library.constants, "DOWNLOAD_CHUNK_SIZE", 1_000)  # the library keeps whole chunks
    server.cuts = list(cuts)
    assert contents(hub.download("gpt2", source=server.url)) == FILES
    begins = [f"bytes={n}-" for n in np.cumsum(cuts)]
    assert [wanted for kind, path, wanted, _ in server.requests if wanted] == begins


def test_a_server_that_ignores_range(server, library):
    """It sends the whole file again, and that is what ends up on the disk: once."""
    server.ignores_range, server.cuts = True, [30_000]
    assert contents(hub.download("gpt2", source=server.url)) == FILES


def test_weights_may_come_from_another_host_which_is_named(server, library, capsys):
    with serving(dict(FILES)) as other:
        server.location = other.url.replace("127.0.0.1", "localhost")
        assert contents(hub.download("gpt2", "out", server.url)) == FILES
        assert other.got("GET") == ["model.safetensors"] and "model.safetensors" not in server.got("GET")
    assert "from 127.0.0.1, localhost" in capsys.readouterr().err


def test_no_token_is_sent(server, library, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.download("gpt2", source=server.url)
    assert [authorization for *_, authorization in server.requests] == [None] * len(server.requests)


def test_a_checksum_that_is_not_known_is_told_and_the_announced_one_compared(server, library, monkeypatch, capsys):
    publish(monkeypatch, FILES, known=["vocab.json", "merges.txt"])
    data = server.files["config.json"]
    server.etags["config.json"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # as git names it
    assert contents(hub.download("gpt2", source=server.url)) == FILES
    told = capsys.readouterr().err
    assert f"config.json, model.safetensors: no published sha256 is known; compared with what {server.url}" in told
    assert "vocab.json, merges.txt: the published files" in told
    folder = hub.download("gpt2", source=server.url)
    told = capsys.readouterr().err
    assert f"{folder / 'config.json'} is there already: no published sha256 is known" in told
    assert f"{folder / 'vocab.json'} is there already: the published file" in told


# --- models of which less is known ------------------------------------------------------------------------------------

BERT = {"config.json": b"{}", "vocab.txt": b"[PAD]\n", "model.safetensors": WEIGHTS, "tokenizer_config.json": b"{}"}


@pytest.fixture
def family():
    with serving(dict(BERT)) as server:
        yield server


@pytest.mark.parametrize("name", ["bert-base-uncased", "google-bert/bert-base-uncased"])
def test_without_a_pinned_commit_the_newest_is_taken_and_that_is_said(name, family, library, tmp_path, capsys):
    """What it has of the other files of a tokenizer comes too; what it has not is left out."""
    folder = hub.download(name, source=family.url)
    assert contents(folder) == BERT and folder.name == COMMIT
    assert folder.parent.parent.name == "models--google-bert--bert-base-uncased"
    assert all("/resolve/main/" in path or f"/resolve/{COMMIT}/" in path for _, path, *_ in family.requests)
    told = capsys.readouterr().err
    assert "its newest commit, for none is pinned: 0123456789ab: 4 files" in told
    assert "vocab.txt, model.safetensors, tokenizer_config.json: no published sha256 is known; compared with" in told
    assert hub.find(name) == folder
    family.requests.clear()
    assert hub.download(name, source=family.url) == folder and not family.requests


def test_a_folder_of_a_model_of_the_family(family, library, tmp_path, capsys):
    assert main(["download", "distilbert-base-uncased", "--out", "here", "--from", family.url]) == 0
    assert contents(tmp_path / "here") == BERT and capsys.readouterr().out == "here\n"


def test_what_a_model_needs_is_not_left_out(family, library):
    del family.files["vocab.txt"]
    with pytest.raises(InputError, match=r"bert-base-uncased/resolve/main/vocab.txt: 404"):
        hub.download("bert-base-uncased", source=family.url)
    assert family.got("GET") == []


def test_weights_in_a_pickle_alone_are_not_fetched(family, library, capsys):
    """And how they are converted is said."""
    family.files["pytorch_model.bin"] = family.files.pop("model.safetensors")
    assert main(["download", "google/electra-small-discriminator", "--from", family.url]) == 2
    error = capsys.readouterr().err
    assert "google/electra-small-discriminator has its weights only as a pickle, pytorch_model.bin" in error
    assert 'M.from_pretrained("google/electra-small-discriminator").save_pretrained("FOLDER")' in error
    assert error.count("\n") == 1 and family.got("GET") == [] and "by hand" not in error
    del family.files["pytorch_model.bin"]
    with pytest.raises(InputError, match="main/model.safetensors: 404"):
        hub.download("electra-small-discriminator", source=family.url)


# --- what is already there -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repository", ["openai-community/gpt2", "gpt2"])
def test_what_another_program_downloaded_is_used(server, library, tmp_path, repository):
    """transformers stores a model under the name that its user typed, the old one (gpt2) or the new one."""
    for file in FILES:
        library.hf_hub_download(repository, file, revision=COMMIT, endpoint=server.url)
    server.requests.clear()
    found = hub.find("gpt2")
    assert contents(found) == FILES
    assert found.parent.parent.name == "models--" + repository.replace("/", "--")
    assert hub.download("gpt2", source=server.url) == found and not server.requests


@pytest.mark.parametrize("repository", ["openai-community/gpt2", "gpt2"])
def test_only_what_is_missing_is_fetched(server, library, repository):
    """transformers needs no vocab.json where there is a tokenizer.json."""
    for file in ("config.json", "model.safetensors"):
        library.hf_hub_download(repository, file, revision=COMMIT, endpoint=server.url)
    server.requests.clear()
    with pytest.raises(InputError, match="minigpt download gpt2"):
        hub.find("gpt2")
    assert contents(hub.download("gpt2", source=server.url)) == FILES
    assert server.got("GET") == ["vocab.json", "merges.txt"]


def test_the_same_weights_of_another_commit_are_not_fetched_again(server, library, tmp_path):
    another = "f" * 40
    server.commits.add(another)
    library.hf_hub_download("gpt2", "model.safetensors", revision=another, endpoint=server.url)
    refs = tmp_path / "hf" / "models--gpt2" / "refs"
    refs.mkdir()
    (refs / "main").write_text(another)
    server.requests.clear()
    assert contents(hub.download("gpt2", source=server.url)) == FILES
    assert server.got("GET") == ["config.json", "vocab.json", "merges.txt"]


def test_a_cached_model_is_copied_to_out_and_not_fetched(server, library):
    hub.download("gpt2", source=server.url)
    server.requests.clear()
    assert contents(hub.download("gpt2", "out", server.url)) == FILES
    assert server.got("GET") == []


def test_hf_home_moves_the_cache(server, library, tmp_path, monkeypatch):
    """In a process of its own, for huggingface_hub reads the variable once. GPT-1 has no known checksums."""
    server.commits.add(hub.PUBLISHED["gpt1"].commit)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "moved"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    command = [sys.executable, "-m", "minigpt", "download", "gpt1", "--from", server.url]
    done = subprocess.run(command, capture_output=True, text=True, cwd=hub.Path(hub.__file__).parents[2])
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "moved" / "hub" / "models--openai-community--openai-gpt" / "snapshots"
    assert done.stdout == f"{folder / hub.PUBLISHED['gpt1'].commit}\n"
    assert contents(folder / hub.PUBLISHED["gpt1"].commit) == FILES


def test_importing_the_package_does_not_import_huggingface_hub(library):
    code = "import sys, minigpt.cli, minigpt.models, minigpt.files.hub; sys.exit('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=hub.Path(hub.__file__).parents[2])
    assert done.returncode == 0


@pytest.mark.parametrize("out", [None, "out"])
def test_nothing_that_is_there_is_overwritten(server, library, tmp_path, out):
    folder = tmp_path / "out" if out else hub.home("gpt2")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("mine", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    with pytest.raises(InputError, match=r"config.json is there, and it is another file .* move it away"):
        hub.download("gpt2", out, server.url)
    assert (folder / "config.json").read_text(encoding="utf-8") == "mine" and not server.requests


def test_files_placed_by_hand_come_first_and_are_completed(server, library, tmp_path):
    hub.download("gpt2", source=server.url)
    server.requests.clear()
    folder = tmp_path / "home" / ".cache" / "minigpt" / "gpt2"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    assert hub.find("gpt2") == folder == hub.download("gpt2", source=server.url)
    assert contents(folder) == FILES and server.got("GET") == []


def test_a_folder_of_that_name_comes_first(tmp_path):
    assert hub.find("gpt2-of-mine") == hub.Path("gpt2-of-mine")
    with pytest.raises(InputError, match="gpt2-xl is neither a folder here nor downloaded .* minigpt download gpt2-xl"):
        hub.find("gpt2-xl")
    (tmp_path / "gpt2-xl").mkdir()
    assert hub.find("gpt2-xl") == hub.Path("gpt2-xl")


def test_the_folder_for_files_placed_by_hand(monkeypatch, tmp_path):
    assert hub.home("gpt2") == tmp_path / "home" / ".cache" / "minigpt" / "gpt2"
    monkeypatch.setenv("MINIGPT_CACHE", str(tmp_path / "mine"))
    assert hub.home("gpt2") == tmp_path / "mine" / "gpt2"


# --- what is refused -------------------------------------------------------------------------------------------------


def refused(server, *parts, out=None):
    """The message of a download that must fail: one line that says how to go on by hand."""
    with pytest.raises(InputError) as caught:
        hub.download("gpt2", out, server.url)
    message = str(caught.value)
    assert "\n" not in message
    address = f"https://huggingface.co/openai-community/gpt2/resolve/{COMMIT}/"
    for part in (*parts, "or place the files by hand: config.json (sha256 ", address):
        assert part in message
    return message


def test_another_checksum_is_refused_before_anything_is_fetched(server, library, tmp_path):
    server.files["model.safetensors"] = WEIGHTS[:-1] + b"!"
    refused(server, f"the published file {sha256(WEIGHTS)}: nothing was fetched")
    assert server.got("GET") == [] and in_cache(tmp_path) == []


@pytest.mark.parametrize("out", [None, "out"])
def test_wrong_content_under_the_right_checksum_is_removed(server, library, tmp_path, out):
    server.files["model.safetensors"] = WEIGHTS[:-1] + b"!"
    server.etags["model.safetensors"] = sha256(WEIGHTS)
    refused(server, f"the published file has {sha256(WEIGHTS)}: it was removed", out=out)
    kept = contents(tmp_path / "out") if out else in_cache(tmp_path)
    assert kept == (SMALL if out else sorted(len(data) for data in SMALL.values()))
    server.files["model.safetensors"] = WEIGHTS
    assert contents(hub.download("gpt2", out, server.url)) == FILES


def test_wrong_content_is_removed_where_only_the_server_knows_the_checksum(server, library, monkeypatch, tmp_path):
    publish(monkeypatch, FILES, known=[])
    server.etags["config.json"] = "0" * 40
    refused(server, "config.json came with the checksum", "it was removed", "sha256 not known")
    assert in_cache(tmp_path) == []


def test_a_file_without_any_checksum_is_refused(server, library, monkeypatch):
    publish(monkeypatch, FILES, known=[])
    server.etags["config.json"] = "abc"
    refused(server, "config.json: no published sha256 is known, and the server announces none")
    assert server.got("GET") == []


def test_another_host_that_sends_something_else(server, library, tmp_path):
    with serving(FILES | {"model.safetensors": b"12345"}) as other:
        server.location = other.url
        refused(server)
        server.sizes["model.safetensors"] = 5
        refused(server, f"the published file has {sha256(WEIGHTS)}: it was removed")
    assert 5 not in in_cache(tmp_path)


def test_another_host_without_https(server, library):
    server.location = "http://example.invalid"
    refused(server, "http://example.invalid/", "is no address to download from: give one that begins with https://")
    assert server.got("GET") == []


@pytest.mark.parametrize("host", ["example.invalid", "huggingface.co.invalid", "evil-hf.co", "127.0.0.1.invalid"])
def test_another_host_that_is_not_known(server, library, host):
    server.location = f"https://{host}"
    refused(server, f"sends us on to the host {host}, which is not known: expected 127.0.0.1, huggingface.co, hf.co")
    assert server.got("GET") == []


@pytest.mark.parametrize("location", ["https://example.invalid", "http://example.invalid"])
def test_a_redirection_that_was_not_announced(server, library, location):
    """The server tells one thing, and sends those who fetch the weights to another place."""
    server.location, server.announces_location = location, False
    refused(server, "cannot fetch model.safetensors", "example.invalid")
    assert server.got("GET")[-1] == "model.safetensors"


@pytest.mark.parametrize("host", ["cdn-lfs.huggingface.co", "cas-bridge.xethub.hf.co", "huggingface.co"])
def test_the_hosts_of_the_hub_are_known(host):
    hub._require_known(f"https://{host}/x", "https://huggingface.co")
    hub._require_known(f"https://{host}/x", "https://a-mirror.example")
    hub._require_known("https://cdn.a-mirror.example/x", "https://a-mirror.example")
    for address in (f"http://{host}/x", "http://127.0.0.1/x", "https://127.0.0.1/x"):
        with pytest.raises(InputError):
            hub._require_known(address, "https://huggingface.co")


@pytest.mark.parametrize(("file", "size"), [("config.json", 2 << 20), ("model.safetensors", 10**12)])
def test_a_file_that_is_far_too_large_is_refused_before_anything_is_fetched(server, library, file, size):
    server.sizes[file] = size
    refused(server, f"{file} announces {size} bytes, and it can have", "nothing was fetched")
    assert server.got("GET") == []


def test_the_library_is_left_as_it_was(server, library):
    """Other programs in this process may fetch from where they like."""
    before = dict(library.utils.get_session().event_hooks)
    hub.download("gpt2", source=server.url)
    assert library.utils.get_session().event_hooks == before


def test_a_file_that_is_cut_short(server, library, tmp_path):
    server.files["model.safetensors"] = WEIGHTS[:60_000]
    server.etags["model.safetensors"], server.sizes["model.safetensors"] = sha256(WEIGHTS), len(WEIGHTS)
    refused(server, "cannot fetch model.safetensors", "Consistency check failed")
    assert in_cache(tmp_path) == sorted(len(data) for data in SMALL.values())


def test_a_connection_that_breaks_again_and_again(server, library):
    server.cuts = [30_000] + [0] * 50
    refused(server, "cannot fetch model.safetensors")
    server.cuts.clear()
    assert contents(hub.download("gpt2", source=server.url)) == FILES


def test_a_file_that_is_not_there(server, library):
    del server.files["merges.txt"]
    refused(server, "merges.txt: 404")


def test_a_commit_that_is_not_there(server, library):
    server.commits.clear()
    refused(server, "config.json: 404")


def test_a_server_that_is_gone(server, library):
    with serving({}) as gone:
        pass
    refused(gone, "cannot fetch", "refused")


@pytest.mark.parametrize("url", ["nowhere", "htp://x", "http://", "https://", "file:///etc", "http://example.invalid"])
def test_an_address_that_is_none(url, library):
    with pytest.raises(InputError, match="is no address to download from: give one that begins with https://"):
        hub.download("gpt2", source=url)


def test_the_library_kept_offline(server, library, monkeypatch):
    monkeypatch.setattr(library.constants, "HF_HUB_OFFLINE", True)
    refused(server, "cannot fetch", "offline mode is enabled")
    assert not server.requests


def test_an_unknown_model(capsys):
    assert main(["download", "gpt3"]) == 2
    error = capsys.readouterr().err
    assert "unknown model 'gpt3': choose gpt1, gpt2, gpt2-medium, gpt2-large, gpt2-xl, bert-base-uncased, " in error


# --- without the library ---------------------------------------------------------------------------------------------


def test_a_download_without_the_library_says_what_to_do(without_library, tmp_path, capsys):
    assert main(["download", "gpt2-large"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "pip install huggingface_hub;" in error and "minigpt[" not in error
    model = hub.PUBLISHED["gpt2-large"]
    for file in list(FILES):
        assert f"{file} (sha256 {model.sha256[file]})" in error
    assert f"https://huggingface.co/openai-community/gpt2-large/resolve/{model.commit}/" in error
    assert f"into {hub.home('gpt2-large')}" in error


def test_files_placed_by_hand_are_checked_without_the_library(without_library, monkeypatch, tmp_path, capsys):
    publish(monkeypatch, FILES)
    hub.home("gpt2").mkdir(parents=True)
    for file, data in FILES.items():
        (hub.home("gpt2") / file).write_bytes(data)
    assert hub.find("gpt2") == hub.home("gpt2")
    assert main(["download", "gpt2"]) == 0
    assert capsys.readouterr().out == f"{hub.home('gpt2')}\n"
    (hub.home("gpt2") / "merges.txt").write_bytes(b"other")
    assert main(["download", "gpt2"]) == 2
    assert "merges.txt is there, and it is another file" in capsys.readouterr().err


# --- the table -------------------------------------------------------------------------------------------------------


SIZES = [name for name in hub.PUBLISHED if name.startswith("gpt2")]


def test_gpt2_is_known_whole_and_what_is_known_of_others_is_a_commit_or_a_checksum():
    for name, model in hub.PUBLISHED.items():
        assert model.commit is None or re.fullmatch("[0-9a-f]{40}", model.commit)
        known = {model.gguf} if model.gguf else {*model.files, *model.maybe}
        assert set(model.sha256) == (set(known) if name in SIZES or model.package else set())
        assert all(re.fullmatch("[0-9a-f]{64}", known) for known in model.sha256.values())
        assert bool(model.repository) != bool(model.package and model.wheel and model.folder)
        assert len(set(model.files)) == len(model.files) and not set(model.files) & set(model.maybe)
    assert len(SIZES) == 4 and all(hub.PUBLISHED[name].commit for name in (*SIZES, "gpt1"))
    weights = [model.sha256[model.gguf or "model.safetensors"] for model in hub.PUBLISHED.values() if model.sha256]
    assert len(set(weights)) == len(weights), "each size has weights of its own"


def test_the_known_checksums_are_those_of_the_released_vocabulary(eval_data):
    for name, file in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        found = hub.sha256(eval_data / "gpt2_vocab" / name)
        assert [hub.PUBLISHED[name].sha256[file] for name in SIZES] == [found] * 4


def test_the_hash_of_a_small_file_is_that_of_git(tmp_path):
    (tmp_path / "x").write_bytes(b"hello\n")
    assert hub.git_hash(tmp_path / "x") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_no_command_installs_by_a_name_that_belongs_to_another_project():
    """On the public index `minigpt` is not this project; commands install from its folder: pip install -e ".[hub]"."""
    root = hub.Path(hub.__file__).parents[2]
    assert re.search(r"^name = (\S+)$", (root / "setup.cfg").read_text(encoding="utf-8"), re.M)[1] == "minigpt-by-hand"
    texts = [path for pattern in ("*.md", "*.py", "*.txt", "*.toml") for path in root.glob(f"*/**/{pattern}")]
    for path in (*texts, root / "README.md", root / ".ci" / "run"):
        if not any(part.startswith(".venv") for part in path.parts):
            text = path.read_text(encoding="utf-8", errors="ignore")
            assert not re.search(r"pip3? (install|download)( [-\w.]+)*? ['\"]?minigpt(?![-_.\w/])", text), path


# --- a model, from the command line ----------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A tiny GPT-2 in the folder `source`, published as gpt2."""
    text = GPT2Tokenizer.train("the cat sat on the mat. " * 20, 270)
    model = small_gpt2(np.float32, vocab_size=text.vocab_size, n_positions=16)
    model.save(tmp_path / "source")
    text.save(tmp_path / "source")
    publish(monkeypatch, {file: (tmp_path / "source" / file).read_bytes() for file in list(FILES)})
    return model


@pytest.fixture
def tiny(model, tmp_path):
    """A server that has it."""
    with serving({file: (tmp_path / "source" / file).read_bytes() for file in list(FILES)}) as server:
        yield server


def test_download_and_use_by_name(model, tiny, library, tmp_path, capsys):
    assert main(["download", "gpt2", "--from", tiny.url + "/"]) == 0
    assert capsys.readouterr().out == f"{hub.find('gpt2')}\n"
    again, text = models.open_both("gpt2")
    assert type(again) is GPT2 and type(text) is GPT2Tokenizer and text.decode(text.encode("the cat")) == "the cat"
    assert same_weights(model, again)
    assert main(["info", "gpt2"]) == 0 and f"{text.vocab_size} x 6" in capsys.readouterr().out
    assert main(["sample", "gpt2", "--prompt", "the cat", "--tokens", "3"]) == 0


def test_training_goes_on_from_a_downloaded_model(model, tiny, library, tmp_path, capsys):
    (tmp_path / "t.txt").write_text("the cat sat on the mat. a dog saw the cat.\n" * 60, encoding="utf-8")
    arguments = ["train", "--init", "gpt2", "--data", "t.txt", "--steps", "2", "--batch", "2", "--model", "gpt2"]
    assert main(arguments) == 2
    assert "gpt2 is neither a folder here nor downloaded to" in capsys.readouterr().err
    assert main(["download", "gpt2", "--from", tiny.url]) == 0
    assert main(arguments) == 0
    assert type(open_model("runs/gpt2-t-from-gpt2")) is GPT2
    capsys.readouterr()
    assert main(["tokenizer", "encode", "gpt2", "the"]) == 0
    assert main(["tokenizer", "decode", "gpt2", capsys.readouterr().out.split()[0]]) == 0, "its vocabulary is found too"


def test_a_model_placed_by_hand_opens_without_the_library(model, without_library, tmp_path):
    hub.home("gpt2").parent.mkdir(parents=True)
    (tmp_path / "source").rename(hub.home("gpt2"))
    assert type(open_model("gpt2")) is GPT2
