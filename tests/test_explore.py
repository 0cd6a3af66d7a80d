"""`minigpt explore`: the page is put together from parts that keep their rules, and nothing of the reader's is lost."""

import base64
import dataclasses
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import browser
import numpy as np
import pytest
from small_family import opened

from minigpt import GPT1, GPT2, GPT1Config, GPT2Config, models, ops
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.explorer import job, named_pass, packing, page, recorded, walk
from minigpt.explorer.bundle import ENTRY, BundleError, bundle
from minigpt.explorer.entries import mistake_entries
from minigpt.explorer.modules import read_modules
from minigpt.gradcheck import checker, results
from minigpt.jobs.fill import covered_ids
from minigpt.models.lstm import LSTM, LSTMConfig
from minigpt.tokenizer import TRAINERS, CharTokenizer, GPT1Tokenizer, GPT2Tokenizer

TEXT = "the cat sat on the mat . a dog saw the cat ."
TEMPLATE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'">
<meta name="generator" content="minigpt explore"><title>page</title><!-- style --></head>
<body><!-- models --><!-- script --></body></html>
"""
DTYPES = pytest.mark.parametrize("dtype", packing.DTYPES)


VARIANT = {"activation_function": "gelu", "n_inner": 5, "scale_attn_by_inverse_layer_idx": True,
           "scale_attn_weights": False, "tie_word_embeddings": False}  # fmt: skip


# --- models for trials -----------------------------------------------------------------------------------------------


def sizes(vocab_size: int, **more) -> dict:
    return {"vocab_size": vocab_size, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2} | more


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, str]:
    """Small models of several kinds, by name."""
    home = tmp_path_factory.mktemp("models")
    letters, bytes_ = CharTokenizer.train(TEXT), GPT2Tokenizer.train(TEXT, 260, progress=False)
    words = GPT1Tokenizer.train(TEXT, 60, pipeline="rules", progress=False)
    made = {
        "letters": (GPT1(GPT1Config(**sizes(letters.vocab_size))), letters),
        "bytes": (GPT2(GPT2Config(**sizes(bytes_.vocab_size))), bytes_),
        "words": (GPT1(GPT1Config(**sizes(words.vocab_size))), words),
        "large": (GPT2(GPT2Config(**sizes(letters.vocab_size, n_embd=408, n_head=4))), letters),
        "lstm": (LSTM(LSTMConfig(vocab_size=letters.vocab_size, n_positions=16, n_embd=8, n_layer=1)), letters),
        "half": (GPT2(GPT2Config(**sizes(letters.vocab_size))), letters),
        "variant": (GPT2(GPT2Config(**sizes(letters.vocab_size), **VARIANT)), letters),
    }
    for name, (model, tokenizer) in made.items():
        tokenizer.save(home / name)
        model.save(home / name, dtype="bfloat16" if name == "half" else None)
    return {name: str(home / name) for name in made}


@pytest.fixture
def stand_in(tmp_path, monkeypatch) -> Path:
    """A page of a few lines in the place of the real one."""
    view = tmp_path / "parts" / "view"
    view.mkdir(parents=True)
    (view / "page.html").write_text(TEMPLATE, encoding="utf-8")
    (view / "style.css").write_text("p { color: black }\n", encoding="utf-8")
    (view / "app.js").write_text("document.title = 'it runs';\n", encoding="utf-8")
    words = tmp_path / "parts" / "words.toml"
    words.write_text('[en]\ntitle = "Explorer"\n[ko]\ntitle = "탐색기"\n', encoding="utf-8")
    monkeypatch.setattr(page, "modules", lambda: read_modules(view.parent))
    monkeypatch.setattr(page, "TEMPLATE", view / "page.html")
    monkeypatch.setattr(page, "STYLE", view / "style.css")
    monkeypatch.setattr(page, "WORDS_FILE", words)
    return view


def explore(capsys, *words) -> tuple[int, str, str]:
    """Exit status, what was printed, and what was complained of."""
    status = main(["explore", *map(str, words)])
    said = capsys.readouterr()
    return status, said.out, said.err


def held(path: Path) -> dict:
    """What the script of a page reads."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="models">(.*?)</script>', text, re.DOTALL)
    return json.loads(found.group(1))


# --- the bundle ------------------------------------------------------------------------------------------------------


def modules(**texts: str) -> dict[str, str]:
    """`modules(app=..., ops_a=...)` are app.js and ops/a.js."""
    return {f"{name.replace('_', '/')}.js": text for name, text in texts.items()}


def test_modules_stand_after_what_they_import_each_once_without_imports_and_exports():
    sources = modules(
        app='import { twice } from "./ops/twice.js";\nimport { one, Two } from "./one.js";\ntwice(one());\n',
        ops_twice='import { one } from "../one.js";\nexport const twice = (x) => x * 2 * one();\n',
        one="// export no more\nexport function one() {}\nexport class Two {}\nexport async function later() {}\n",
    )
    script = bundle(sources, "app.js")
    assert script.index("// one.js") < script.index("// ops/twice.js") < script.index("// app.js")
    assert script.count("function one()") == 1 and "async function later() {}" in script
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)


@pytest.mark.parametrize(("texts", "says"), [
    ({"app": 'import { a } from "./a.js";\n', "a": 'import { b } from "./b.js";\nexport const a = 1;\n',
      "b": 'import { a } from "./a.js";\nexport const b = 1;\n'}, "circle: a.js <- b.js <- a.js"),
    ({"app": 'import { b } from "./a.js";\n', "a": "export const a = 1;\nconst b = 2;\n"}, "a.js exports no b"),
    ({"app": 'import { a } from "./missing.js";\n'}, "no module missing.js, which app.js imports"),
    ({"app": 'import { a as b } from "./a.js";\n', "a": "export const a = 1;\n"}, "app.js: import"),
    ({"app": 'import * as a from "./a.js";\n', "a": "export const a = 1;\n"}, "app.js: import"),
    ({"app": 'import a from "./a.js";\n', "a": "export const a = 1;\n"}, "app.js: import"),
    ({"app": 'import {\n  a } from "./a.js";\n', "a": "export const a = 1;\n"}, "app.js: import"),
    ({"app": "const a = 1;\nexport { a };\n"}, "app.js: export"),
    ({"app": "export default 3;\n"}, "app.js: export"),
    ({"app": "export let a = 3;\n"}, "app.js: export"),
    ({"app": 'const a = await import("./a.js");\n'}, "app.js: const a"),
    ({"app": 'const a = "</script>";\n'}, "</script"),
])  # fmt: skip
def test_a_module_that_breaks_a_rule_is_named(texts, says):
    with pytest.raises(BundleError, match=re.escape(says)):
        bundle(modules(**texts), "app.js")


def test_the_script_of_the_page_holds_every_module_and_node_can_read_it(tmp_path):
    script = bundle(page.modules())
    for name in page.modules():
        assert f"// {name}\n" in script, f"{name} is imported by none"
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert script.rindex("\n// ") == script.index(f"\n// {ENTRY}") or f"// {ENTRY}" in script
    node = shutil.which("node")
    if node:
        file = tmp_path / "script.mjs"
        file.write_text(script, encoding="utf-8")
        done = subprocess.run([node, "--check", str(file)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def unpack(text: str, dtype: str) -> np.ndarray:
    """The numbers that `packing.pack` has written, as (N,) float32."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(2, -1)
    bits = np.ascontiguousarray(planes.T).view("<u2").reshape(-1)
    return packing.from_bits(bits, dtype)


# --- numbers ---------------------------------------------------------------------------------------------------------


@DTYPES
def test_numbers_come_back_exactly_as_they_were_rounded(dtype):
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(1000).astype(np.float32) * np.exp(rng.uniform(-20, 10, 1000)).astype(np.float32)
    numbers[:6] = 0, -0.0, np.inf, -np.inf, 1, -1
    once = unpack(packing.pack(numbers, dtype), dtype)
    assert once.dtype == np.float32 and once.shape == numbers.shape
    digits = {"bfloat16": 8, "float16": 11}[dtype]
    usual = (np.abs(numbers) > 1e-4) & np.isfinite(once)
    assert usual.sum() > 500
    assert np.abs(once[usual] / numbers[usual] - 1).max() <= 2.0**-digits
    again = unpack(packing.pack(once, dtype), dtype)
    assert again.tobytes() == once.tobytes(), "a second time nothing is rounded, not even the sign of a zero"
    assert unpack(packing.pack(numbers[:0], dtype), dtype).shape == (0,)


@DTYPES
def test_every_pattern_of_16_bits_survives(dtype):
    bits = np.arange(1 << 16, dtype="<u2")
    numbers = packing.from_bits(bits, dtype)
    plain = ~np.isnan(numbers)
    assert np.array_equal(packing.to_bits(numbers, dtype)[plain], bits[plain])


def test_bytes_of_packed_numbers_are_low_ones_then_high_ones():
    packed = packing.pack(np.array([1.0, -2.0, 3.0]), "bfloat16")  # 0x3f80, 0xc000, 0x4040
    assert zlib.decompress(base64.b64decode(packed)) == bytes.fromhex("80 00 40 3f c0 40")


def test_the_kind_of_16_bits_that_keeps_most():
    third = np.array([1 / 3], np.float32)
    half = unpack(packing.pack(third, "bfloat16"), "bfloat16")
    assert packing.best_dtype([half, np.ones(3)]) == "bfloat16"
    assert packing.best_dtype([half, third]) == "float16"
    assert packing.best_dtype([third, np.array([1e5])]) == "bfloat16", "float16 ends at 65504"


# --- the page --------------------------------------------------------------------------------------------------------


def test_a_page_holds_the_model_its_tokenizer_the_text_and_the_words(folders, stand_in, tmp_path, capsys):
    out = tmp_path / "new" / "page.html"
    status, said, _ = explore(capsys, folders["bytes"], "--text", "the </script> cat", "-o", out)
    assert status == 0 and said.startswith(f"{out}: ") and "now: open it" in said
    text = out.read_text(encoding="utf-8")
    assert page.is_ours(out) and text.count("</script>") == 2 and "<style>\np { color" in text
    found = held(out)
    assert found["text"] == "the </script> cat" and found["recorded"] is None
    assert found["words"]["ko"]["title"] == "탐색기" and found["mistakes"] == mistake_entries()
    (one,), (tokenizer,) = found["models"], found["tokenizers"]
    model = GPT2.load(folders["bytes"])
    assert one["config"] == model.config.to_dict() and one["title"]["en"] == "bytes (GPT-2)" and one["tokenizer"] == 0
    numbers = unpack(one["weights"], one["dtype"])
    for entry, (name, parameter) in zip(one["parameters"], model.named_parameters(), strict=True):
        part = numbers[entry["offset"] :][: parameter.data.size].reshape(entry["shape"])
        assert entry["name"] == name and part.shape == parameter.data.shape
        assert np.abs(part - parameter.data).max() <= 2.0**-11 * np.abs(parameter.data).max()
    assert tokenizer["kind"] == "byte-level" and len(tokenizer["vocab"]) == 260 and len(tokenizer["merges"]) == 3
    assert tokenizer["special"] == {"<|endoftext|>": 259}


def test_weights_that_have_16_bits_already_are_kept_to_the_bit(folders, stand_in, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert explore(capsys, folders["half"], "--text", "the cat", "-o", out)[0] == 0
    (one,) = held(out)["models"]
    numbers = unpack(one["weights"], one["dtype"])
    weights = [parameter.data.reshape(-1) for parameter in GPT2.load(folders["half"]).parameters()]
    assert np.array_equal(numbers, np.concatenate(weights))


def test_our_page_may_be_written_again_and_a_failure_leaves_it(folders, stand_in, tmp_path, capsys, monkeypatch):
    out = tmp_path / "page.html"
    assert explore(capsys, folders["letters"], "--text", "the cat", "-o", out)[0] == 0
    assert explore(capsys, folders["letters"], "--text", "a dog", "-o", out)[0] == 0
    assert held(out)["text"] == "a dog"

    def full(file):
        raise OSError(28, "No space left on device")

    before = out.read_bytes()
    monkeypatch.setattr("os.fsync", full)
    status, _, wrong = explore(capsys, folders["letters"], "--text", "the mat", "-o", out)
    assert status == 2 and "the disk is full" in wrong
    assert out.read_bytes() == before and sorted(path.name for path in tmp_path.glob("*page*")) == ["page.html"]


class Addresses(html.parser.HTMLParser):
    """All that a page would load, or lead to: attributes src, href, action, ...; and the number of its policies."""

    def __init__(self):
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        self.policy: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        for name in ("src", "href", "action", "srcset", "data", "poster", "formaction", "xlink:href"):
            if values.get(name) is not None:
                self.found.append((tag, name, values[name]))
        if values.get("http-equiv", "").lower() == "content-security-policy":
            self.policy.append(values["content"])


@pytest.fixture(scope="module")
def default_page(tmp_path_factory) -> Path:
    """The page of `minigpt explore`, as everybody gets it."""
    out = tmp_path_factory.mktemp("page") / "explorer.html"
    job.explore(job.ExploreOptions(out=str(out)), say=lambda line: None)
    return out


def test_the_page_is_small_and_holds_both_models(default_page):
    assert default_page.stat().st_size < 3_000_000
    found = held(default_page)
    assert [one["name"] for one in found["models"]] == ["gpt1", "gpt2"] and len(found["tokenizers"]) == 1
    assert {one["dtype"] for one in found["models"]} == {"bfloat16"}
    assert {one["config"]["model_type"] for one in found["models"]} == {"openai-gpt", "gpt2"}


def test_the_page_has_its_mark_and_all_of_its_parts(default_page):
    text = default_page.read_text(encoding="utf-8")
    assert page.is_ours(default_page) and not page.PLACES.search(text)
    for tag in ("<style>", "</style>", '<script type="application/json" id="models">', '<script type="module">'):
        assert text.count(tag) == 1, tag
    assert text.count("</script") == 2


def test_the_page_asks_for_nothing_and_forbids_it(default_page):
    text = default_page.read_text(encoding="utf-8")
    seen = Addresses()
    seen.feed(text)
    assert [one for one in seen.found if not one[2].startswith(("#", "data:"))] == []
    (policy,) = seen.policy
    assert "default-src 'none'" in policy and "http" not in policy and "connect-src" not in policy
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1)
    assert not re.search(r"@import|url\((?!['\"]?data:)", style)
    script = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL).group(1)
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", script + style))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "the name of SVG is no address that is asked"
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b", script)


def test_both_languages_have_the_same_words():
    words = page.read_toml(page.WORDS_FILE)
    assert set(words) == {"en", "ko"} and set(words["en"]) == set(words["ko"])
    for key, sentence in words["en"].items():
        blanks = set(re.findall(r"\{(\w+)\}", sentence))
        assert sentence.strip() and set(re.findall(r"\{(\w+)\}", words["ko"][key])) == blanks, key
        assert words["ko"][key].strip(), key


def test_the_page_judges_a_gradient_by_the_bounds_of_the_gradient_check():
    script = "".join(page.read_text(page.JS / file) for file in ("differences.js", "view/check.js"))
    found = {name: float(number) for name, number in re.findall(r"^const ([A-Z]+) = (\S+);", script, re.MULTILINE)}
    assert found == {"HAPPY": results.HAPPY, "SUSPICIOUS": results.SUSPICIOUS, "EPS": checker.EPS}
    words = page.read_toml(page.WORDS_FILE)
    for language in ("en", "ko"):
        for key, bounds in {"happy": ("1e-7",), "suspicious": ("1e-7", "1e-4"), "wrong": ("1e-4",)}.items():
            said = [float(one) for one in re.findall(r"1e-\d+", words[language][f"check.{key}"])]
            assert said == [float(one) for one in bounds], key
    assert (results.HAPPY, results.SUSPICIOUS) == (1e-7, 1e-4), "the words of the page say these"


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.fixture
def refused(capsys, tmp_path, stand_in):
    """`refused(words, says)`: status 2, one line that holds these words, and no page."""

    def check(*words, says: str, out: Path | None = None):
        path = out or tmp_path / "out" / "page.html"
        status, said, wrong = explore(capsys, *words, "-o", path)
        assert status == 2 and said == "" and wrong.count("\n") == 1, (status, said, wrong)
        for part in says.split(" … "):
            assert part in wrong, wrong
        assert not path.parent.exists() or out is not None

    return check


def test_texts_that_are_refused(folders, refused):
    refused(folders["letters"], "--text", "", says="--text is empty")
    refused(folders["letters"], "--text", " \n", says="--text is empty")
    refused(folders["letters"], "--text", "c", says="has 1 token for letters … two or more")
    refused(folders["letters"], "--text", "the cat sat on th", says="17 tokens … at most 16")
    refused(folders["letters"], "--text", "the 고양 😀", says="none of '고' (U+ACE0), '양' (U+C591), '😀' (U+1F600)")
    refused(folders["letters"], "--text", "고양이가있는그림", says="'가' (U+AC00), '있' (U+C788) and 3 more")
    refused(folders["bytes"], "--text", "\ud800 the", says="no UTF-8")
    refused("--text", "the cat " * 60, says="at most 96: give a shorter text")


def test_models_that_are_refused(folders, refused, tmp_path):
    refused(folders["lstm"], says="LSTM, and a page computes GPT-1 and GPT-2: … --record")
    refused(tmp_path / "nothing", says="is not a model directory")
    too_large = "weights would make a page of about 10. … limit is 10 MB … --record"
    refused(folders["large"], "--text", "the cat", says=too_large)
    variant = "its config.json has n_inner 5: the page computes as the released models do: with --record it shows"
    refused(folders["variant"], "--text", "the cat", says=variant)
    refused("--record", says="--record: name a model")
    damaged = tmp_path / "damaged"
    shutil.copytree(folders["letters"], damaged)
    weights = damaged / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-100] ^= 1
    weights.write_bytes(raw)
    refused(damaged, says=f"{weights}")
    weights.write_bytes(raw[:-100])
    refused(damaged, says=f"{weights}")
    model = GPT1.load(folders["letters"])
    model.h[1].ln_1.weight.data[3] = np.nan
    model.save(damaged, overwrite=True)
    refused(damaged, says="h.1.ln_1.weight holds numbers that are not finite")


def test_places_that_are_refused(folders, refused, tmp_path):
    line = (folders["letters"], "--text", "the cat")
    mine = tmp_path / "notes.html"
    mine.write_text("<html>mine", encoding="utf-8")
    refused(*line, out=mine, says="is no page of minigpt explore: give another name")
    assert mine.read_text(encoding="utf-8") == "<html>mine"
    refused(*line, out=tmp_path, says=f"{tmp_path} is a folder: give the name of a file")
    refused(*line, out=mine / "page.html", says=f"{mine} is a file, not a folder")
    mine.write_text("x" * page.MARK_WITHIN + page.MARK, encoding="utf-8")
    refused(*line, out=mine, says="is no page of minigpt explore")
    refused(*line, out=tmp_path / "a\0b.html", says="cannot be the name of a file")
    if os.name == "posix":
        refused(*line, out=tmp_path / "\ud800.html", says="cannot be the name of a file")


def test_a_place_without_permission_is_refused_before_anything_is_computed(folders, refused, tmp_path, monkeypatch):
    def never(*args):
        raise AssertionError("computed, though the page cannot be written")

    line = (folders["large"], "--record", "--text", "the cat")
    monkeypatch.setattr(recorded, "record", never)
    monkeypatch.setattr(os, "access", lambda path, how: Path(path) != tmp_path)
    refused(*line, out=tmp_path / "new.html", says="you may not write in the folder")


def test_a_page_that_cannot_be_read_is_not_called_another_file(folders, refused, tmp_path, monkeypatch):
    def shut(path, *args, **options):
        raise PermissionError(13, "Permission denied", str(path))

    ours = tmp_path / "ours.html"
    ours.write_text(page.MARK, encoding="utf-8")
    monkeypatch.setattr(Path, "open", shut)
    refused("--text", "the cat", out=ours, says="cannot be read (Permission denied)")


@pytest.mark.skipif(os.name != "posix", reason="links need a right of their own elsewhere")
def test_a_link_is_followed_and_stays_a_link(folders, refused, stand_in, tmp_path, capsys):
    link, file = tmp_path / "link.html", tmp_path / "site" / "page.html"
    link.symlink_to(file)
    for text in ("the cat", "a dog"):  # first the page is not there yet
        assert explore(capsys, folders["letters"], "--text", text, "-o", link)[0] == 0
        assert link.is_symlink() and held(file)["text"] == text
    circle = tmp_path / "circle.html"
    circle.symlink_to(circle)
    refused(folders["letters"], "--text", "the cat", out=circle, says="cannot be the name of a file")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every name is Unicode")
def test_a_model_in_a_folder_whose_name_is_no_utf_8_has_a_page(folders, stand_in, tmp_path, capsys):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xff"))
    shutil.copytree(folders["letters"], folder)
    out = tmp_path / "page.html"
    assert main(["explore", str(folder), "--text", "the cat", "-o", str(out)]) == 0
    assert held(out)["models"][0]["name"] == "m\ufffd"


@pytest.mark.skipif(os.name != "posix", reason="no folder may have such a name elsewhere")
@pytest.mark.parametrize(
    ("name", "visible"),
    [("red\x1b[31m", "redU+001B[31m"), ("gpt\u202etxt", "gptU+202Etxt"), ("a\nb", "aU+000Ab"), ("곰 é", "곰 é")],
)
def test_a_name_of_a_folder_cannot_steer_a_terminal_or_a_line(name, visible, folders, stand_in, tmp_path, capsys):
    shutil.copytree(folders["letters"], tmp_path / name)
    out = tmp_path / "page.html"
    status, said, _ = explore(capsys, tmp_path / name, "--text", "the cat", "-o", out)
    assert status == 0 and f"{visible} (GPT-1)" in said and said.replace("\n", "").isprintable()
    assert held(out)["models"][0]["title"]["ko"] == f"{visible} (GPT-1)"


def test_a_recorded_pass_that_overflows_is_refused(refused, folders, tmp_path):
    model = GPT2.load(folders["half"])
    model.h[0].ln_1.weight.data[:] = 1e30
    shutil.copytree(folders["half"], tmp_path / "huge")
    model.save(tmp_path / "huge", overwrite=True)
    says = "huge: this pass overflows: … too large for float32"
    refused(tmp_path / "huge", "--record", "--text", "the cat", says=says)


def test_a_value_that_is_written_onto_its_option_is_shown_with_a_space(capsys):
    for word, says in (("-ofoo.html", "write -o foo.html"), ("-out", "did you mean --out?")):
        assert main(["explore", word]) == 2
        assert says in capsys.readouterr().err


def test_a_folder_that_may_not_be_written(folders, refused, tmp_path, monkeypatch):
    def shut(path, *args, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "touch", shut)
    refused(
        folders["letters"], "--text", "the cat", out=tmp_path / "page.html", says="cannot write … Permission denied"
    )
    assert not (tmp_path / "page.html").exists()


def test_a_character_that_becomes_the_unknown_token_is_a_warning(folders, stand_in, tmp_path, capsys):
    status, said, _ = explore(capsys, folders["words"], "--text", "the cat 고", "-o", tmp_path / "page.html")
    assert status == 0 and "none of '고' (U+ACE0): it reads the unknown token" in said.splitlines()[0]


# --- named and recorded values ---------------------------------------------------------------------------------------

FLOAT64 = pytest.mark.parametrize("kind", ["gpt1", "gpt2", "bert", "variant"])


def moved(kind: str):
    """A model in float64 whose parameters are all away from where they began."""
    card = models.card({"variant": "gpt2"}.get(kind, kind))
    more = VARIANT if kind == "variant" else {}
    model = card.model(card.model.Config(**sizes(11, **more)), dtype=np.float64)
    rng = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return model


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "variant"])
def test_named_values_lead_to_the_gradients_of_the_parameters(kind):
    """Each parameter's gradient follows from the values around it, so names, values and gradients belong together."""
    model = moved(kind)
    ids, targets = [3, 1, 4, 1, 5, 9], [1, 4, 1, 5, 9, -100]
    done = named_pass.named_pass(model, ids, targets)
    parameters = dict(model.named_parameters())
    learned = {name: parameters[name] for name in parameters if not name.startswith("sentences.")}  # the other task
    found = {name: parameter.grad.copy() for name, parameter in learned.items()}
    model.zero_grad()
    loss, cache = model.loss(np.array([ids]), np.array([targets]))
    model.loss_backward(cache)
    for name, parameter in learned.items():
        np.testing.assert_allclose(found[name], parameter.grad, rtol=1e-9, atol=1e-12, err_msg=name)
    assert done.loss == pytest.approx(float(loss))
    values = done.values
    for i in range(2):
        h = f"h.{i}"

        def value(name):
            return values[f"{h}.{name}"].value  # noqa: B023

        def gradient(name):
            return values[f"{h}.{name}"].gradient  # noqa: B023

        pairs = {
            "mlp.c_proj.weight": value("mlp.a").T @ gradient("mlp"),
            "mlp.c_fc.bias": gradient("mlp.f").sum(axis=0),
            "attn.c_proj.weight": value("attn.heads").T @ gradient("attn"),
            "attn.c_attn.bias": gradient("attn.qkv").sum(axis=0),
            "ln_1.bias": gradient("ln_1").sum(axis=0),
            "ln_2.bias": gradient("ln_2").sum(axis=0),
        }
        for name, expected in pairs.items():
            np.testing.assert_allclose(expected, found[f"{h}.{name}"], rtol=1e-8, atol=1e-10, err_msg=name)
        q, k, _ = np.split(value("attn.qkv"), 3, axis=-1)
        dq = np.split(gradient("attn.qkv"), 3, axis=-1)[0]
        for head in range(2):
            columns = slice(4 * head, 4 * head + 4)
            scale = 1 / (i + 1) if kind == "variant" else 1 / 2
            s = scale * q[:, columns] @ k[:, columns].T
            if kind == "bert":
                np.testing.assert_allclose(value("attn.s")[head], s, atol=1e-10)
            else:
                np.testing.assert_allclose(np.tril(value("attn.s")[head]), np.tril(s), atol=1e-10)
                assert np.isneginf(value("attn.s")[head][0, 1:]).all()
            np.testing.assert_allclose(scale * gradient("attn.s")[head] @ k[:, columns], dq[:, columns], atol=1e-10)
    table = found["wpe.weight" if "wpe.weight" in found else "positions_embed.weight"]
    np.testing.assert_allclose(values["positions"].gradient, table[:6], atol=1e-10)
    if kind == "bert":
        of_segment = values["segments"].gradient.sum(axis=0)
        np.testing.assert_allclose(of_segment, found["segments_embed.weight"][0], atol=1e-10)
    else:
        np.testing.assert_array_equal(values["x"].gradient, values["tokens"].gradient)


@FLOAT64
def test_the_gradient_of_the_stream_is_the_slope_of_the_loss(kind):
    """At each name of the stream and of the sums: move one number there, and see what the loss does."""
    model = moved(kind)
    ids, targets = [3, 1, 4, 1, 5], [1, 4, 1, 5, 9]
    done = named_pass.named_pass(model, ids, targets)
    post = {"x_attn": "ln_1", "x_mlp": "ln_2"}
    places = post if kind in ("gpt1", "bert") else {"x_attn": None, "x": None}
    for name, norm in places.items():
        eps, i, (t, c) = 1e-5, 0, (2, 3)
        losses = []
        for by in (eps, -eps):
            losses.append(_nudged_loss(model, i, name, norm, (t, c), by, ids, targets))
        slope = (losses[0] - losses[1]) / (2 * eps)
        assert slope == pytest.approx(done.values[f"h.{i}.{name}"].gradient[t, c], rel=1e-6), name


def _nudged_loss(model, i, name, norm, place, by, ids, targets) -> float:
    """The loss when one number of a sum in block i is moved."""
    block = model.h[i]
    add, calls = ops.add, []
    wanted = 0 if name == "x_attn" else 1
    inside = []

    def moving(x, y):
        out = add(x, y)
        if inside:
            calls.append(1)
            if len(calls) == wanted + 1:
                out = out.copy()
                out[0][place] += by
        return out

    def forward(*args, **options):
        inside.append(1)
        try:
            return type(block).forward(block, *args, **options)
        finally:
            inside.pop()

    try:
        ops.add, block.forward = moving, forward
        loss, _ = model.loss(np.array([ids]), np.array([targets]), grad=False)
    finally:
        ops.add = add
        del block.forward
    return float(loss)


AFTER_GPT2 = {  # what each has that GPT-2 has not
    "llama": {"n_kv_head": 1},
    "mistral": {"n_kv_head": 1, "sliding_window": 3},
    "gpt_neox": {"rotary_share": 0.5},
    "one after the other": {"rotary_share": 0.5, "use_parallel_residual": False},
}


def decoder_of(kind: str, vocab_size: int, dtype=np.float64):
    """A small decoder after GPT-2 whose parameters are all away from where they began."""
    card = models.card({"one after the other": "gpt_neox"}.get(kind, kind))
    model = card.model(card.model.Config(**sizes(vocab_size, n_inner=12, **AFTER_GPT2[kind])), dtype=dtype)
    rng = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape).astype(dtype)
    return model


@pytest.mark.parametrize("kind", AFTER_GPT2)
def test_named_values_of_a_decoder_lead_to_the_gradients_of_its_parameters(kind):
    """As of GPT-2, above; and heads that share keys and values, queries and keys that turn, and a window."""
    model = decoder_of(kind, 11)
    ids, targets = [3, 1, 4, 1, 5, 9], [1, 4, 1, 5, 9, -100]
    done = named_pass.named_pass(model, ids, targets)
    found = {name: parameter.grad.copy() for name, parameter in model.named_parameters()}
    model.zero_grad()
    loss, cache = model.loss(np.array([ids]), np.array([targets]))
    model.loss_backward(cache)
    assert done.loss == pytest.approx(float(loss))
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(found[name], parameter.grad, rtol=1e-9, atol=1e-12, err_msg=name)
    gated = kind in ("llama", "mistral")
    into, out = (("gate", "up"), "down") if gated else (("c_fc",), "c_proj")
    inside = {"gate": "mlp.f", "c_fc": "mlp.f", "up": "mlp.up"}
    for i in range(2):
        value = {name.removeprefix(f"h.{i}."): both.value for name, both in done.values.items()}
        gradient = {name.removeprefix(f"h.{i}."): both.gradient for name, both in done.values.items()}
        pairs = {f"mlp.{part}.weight": value["ln_2"].T @ gradient[inside[part]] for part in into}
        pairs |= {
            f"mlp.{out}.weight": value["mlp.a"].T @ gradient["mlp"],
            "attn.c_proj.weight": value["attn.heads"].T @ gradient["attn"],
            "attn.c_attn.weight": value["ln_1"].T @ gradient["attn.qkv"],
        }
        for name, expected in pairs.items():
            np.testing.assert_allclose(expected, found[f"h.{i}.{name}"], rtol=1e-8, atol=1e-10, err_msg=name)
        _check_attention_of(model, value, gradient)
    np.testing.assert_array_equal(done.values["x"].gradient, done.values["tokens"].gradient)
    sums = [name for name in done.values if name.endswith("x_attn")]
    assert len(sums) == (0 if kind == "gpt_neox" else 2), "only where one comes after the other there is a sum between"


def _check_attention_of(model, value, gradient) -> None:
    """Weights, heads, and the gradients of queries, from the packed queries, keys and values of 6 places."""
    config = model.config
    heads = value["attn.qkv"].reshape(6, -1, 4)
    turned = _turned(model, heads[:, : config.n_head + config.n_kv_head], 1)
    dq = gradient["attn.qkv"].reshape(6, -1, 4)[:, : config.n_head]
    window = getattr(config, "sliding_window", None) or 6
    for head in range(config.n_head):
        group = head * config.n_kv_head // config.n_head
        k, v = turned[:, config.n_head + group], heads[:, config.n_head + config.n_kv_head + group]
        p = value["attn.p"][head]
        s = turned[:, head] @ k.T / 2
        seen = np.tril(np.ones((6, 6), bool)) & ~np.tril(np.ones((6, 6), bool), -window)
        np.testing.assert_allclose(value["attn.s"][head][seen], s[seen], atol=1e-10)
        assert np.isneginf(value["attn.s"][head][~seen]).all() and (p[~seen] == 0).all()
        np.testing.assert_allclose(value["attn.heads"][:, 4 * head : 4 * head + 4], p @ v, atol=1e-10)
        dturned = gradient["attn.s"][head] @ k / 2
        np.testing.assert_allclose(_turned(model, dturned[:, None], -1)[:, 0], dq[:, head], atol=1e-10)


def _turned(model, heads, way):
    """heads (T,*,4), of which column j and j + R are a complex number that turns by the place times its frequency."""
    r = len(model.frequencies)
    angles = np.arange(len(heads))[:, None, None] * model.frequencies
    pairs = (heads[..., :r] + 1j * heads[..., r : 2 * r]) * np.exp(1j * way * angles)
    return np.concatenate([pairs.real, pairs.imag, heads[..., 2 * r :]], axis=-1)


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "bert", *AFTER_GPT2])
def test_the_rows_of_the_walk_are_the_stream_from_the_last_block_down_to_the_embedding(kind):
    """Each sum of the stream once, and its norms where they lie in it, or before the head: in the backward order."""
    model = decoder_of(kind, 11) if kind in AFTER_GPT2 else moved(kind)
    done = named_pass.named_pass(model, [3, 1, 4], [1, 4, -100])
    norms = ("ln_1", "ln_2") if named_pass.is_post_norm(model) else ("ln_f",)
    in_stream = [name for name in done.values if name.split(".")[-1] in ("x", "x_attn", "x_mlp", *norms)]
    steps = walk.walk(model)
    assert [row["name"] for step in steps for row in step["rows"]] == in_stream[::-1]
    assert [row["name"] for row in walk.stream_rows(model)] == named_pass.stream_names(model)
    assert [(step["name"], step["i"]) for step in steps[2:-1]] == [("mlp", 1), ("attn", 1), ("mlp", 0), ("attn", 0)]


@pytest.mark.parametrize("kind", AFTER_GPT2)
def test_a_recorded_page_of_a_decoder(kind, stand_in, refused, tmp_path, capsys):
    """A page does not compute it, and shows a recorded pass; the lens goes through its last norm."""
    text = CharTokenizer.train(TEXT)
    model = decoder_of(kind, text.vocab_size, np.float32)
    model.save(tmp_path / "decoder")
    text.save(tmp_path / "decoder")
    says = f"{type(model).__name__}, and a page computes GPT-1 and GPT-2: … --record"
    refused(tmp_path / "decoder", "--text", "the cat", says=says)
    words = (tmp_path / "decoder", "--record", "--text", "the cat sat", "-o", tmp_path / "page.html")
    status, _, _ = explore(capsys, *words)
    assert status == 0
    (one,) = held(tmp_path / "page.html")["recorded"]
    assert one["after_gpt2"] is True and one["pre_norm"] is True and one["both_sides"] is False
    done = named_pass.named_pass(model, one["ids"], one["targets"])
    assert [entry["name"] for entry in one["values"]] == list(done.values)
    of_head = recorded.most_probable(done.logits, one["targets"])
    for of_lens, row in zip(one["lens"][-1]["top"], of_head, strict=True):
        assert dict(of_lens) == pytest.approx(dict(row), rel=1e-3), "after the last block the lens is the head"


def test_a_recorded_page_shows_what_was_computed(folders, stand_in, tmp_path, capsys):
    out = tmp_path / "page.html"
    status, said, _ = explore(capsys, folders["large"], "--record", "--text", "the cat sat", "-o", out)
    assert status == 0 and out.stat().st_size < 6_000_000
    found = held(out)
    (one,) = found["recorded"]
    assert found["models"] == []
    model = GPT2.load(folders["large"])
    tokenizer = CharTokenizer.load(folders["large"])
    ids = tokenizer.encode("the cat sat")
    assert one["ids"] == ids and one["targets"] == [*ids[1:], -100]
    loss, _ = model.loss(np.array([ids]), np.array([one["targets"]]), grad=False)
    assert one["loss"] == pytest.approx(float(loss), rel=1e-5)
    done = named_pass.named_pass(model, ids, one["targets"])
    numbers = unpack(one["numbers"], one["dtype"])
    assert [entry["name"] for entry in one["values"]] == list(done.values)
    compared = 0
    for entry in one["values"]:
        for part in ("value", "gradient"):
            if entry[part] is None:
                continue
            expected = getattr(done.values[entry["name"]], part)
            start = entry[part]["offset"]
            kept = numbers[start : start + expected.size].reshape(entry["shape"]) * entry[part]["scale"]
            finite = np.isfinite(expected)
            assert np.array_equal(np.isfinite(kept), finite)
            kept, expected = kept[finite], expected[finite]
            assert np.abs(kept - expected).max() <= 2.0**-11 * np.abs(expected).max() + 1e-12
            compared += 1
    assert compared >= 20
    assert [one["name"] for one in one["lens"]] == ["x", "h.0.x", "h.1.x"] == named_pass.stream_names(model)
    top = one["lens"][-1]["top"]
    of_head = recorded.most_probable(done.logits, one["targets"])
    for of_lens, row in zip(top, of_head, strict=True):
        assert dict(of_lens) == pytest.approx(dict(row), rel=1e-4), "after the last block the lens is the head"
    for row, target in zip(top[:-1], ids[1:], strict=True):
        chances = [p for _, p in row[: recorded.TOP]]
        assert chances == sorted(chances, reverse=True) and target in [i for i, _ in row]
        assert {str(i) for i, _ in row} <= set(one["labels"])


@pytest.fixture
def bert(tmp_path):
    """A small BERT with its own special tokens, and its folder."""
    model, text = opened("bert", special=["[MASK]", "[CLS]", "[SEP]"])
    model.save(tmp_path / "bert")
    text.save(tmp_path / "bert")
    return model, text, str(tmp_path / "bert")


@pytest.mark.parametrize("text", ["the cat [MASK] on the <mask> .", "the cat sat"])
def test_a_recorded_page_of_an_encoder(text, bert, stand_in, tmp_path, capsys):
    """Targets are what it tells at covered places; where none is covered, the tokens themselves, but not [CLS]."""
    model, tokenizer, folder = bert
    status, said, _ = explore(capsys, folder, "--record", "--text", text, "-o", tmp_path / "page.html")
    assert status == 0 and "bert (BERT)" in said
    (one,) = held(tmp_path / "page.html")["recorded"]
    mask, cls, sep = (tokenizer.ids[name] for name in ("[MASK]", "[CLS]", "[SEP]"))
    ids = one["ids"]
    assert one["both_sides"] is True and ids[0] == cls and ids[-1] == sep
    logits, _ = model.forward(np.array([ids]), grad=False)
    best = logits[0].argmax(axis=-1)
    if "MASK" in text:
        covered = [i for i, token in enumerate(ids) if token == mask]
        assert len(covered) == 2 and covered == [i for i, target in enumerate(one["targets"]) if target >= 0]
        assert all(target in (-100, best[i]) for i, target in enumerate(one["targets"]))
    else:
        assert one["targets"] == [-100, *ids[1:-1], -100]
    assert [row[0][0] for row in one["lens"][-1]["top"]] == best.tolist(), "after the last block the lens is the head"
    assert [one["config"][key] for key in ("n_layer", "n_head", "n_embd")] == [2, 2, 8]
    p = next(entry for entry in one["values"] if entry["name"] == "h.0.attn.p")
    start = p["value"]["offset"]
    weights = unpack(one["numbers"], one["dtype"])[start : start + 2 * len(ids) ** 2] * p["value"]["scale"]
    assert np.allclose(weights.reshape(2, len(ids), -1).sum(axis=-1), 1, atol=0.01)
    assert (weights.reshape(2, len(ids), -1)[:, 0, 1:] > 0).all(), "the first token sees the others"


def body_of(name: str, folder: Path):
    """A small body without a head for words, with its own special tokens, and its tokenizer; both lie in the folder."""
    model, text = opened(name, special=["[MASK]", "[CLS]", "[SEP]"])
    body = type(model)(dataclasses.replace(model.config, form="Model"), seed=3)
    body.save(folder)
    text.save(folder)
    return body, text


@pytest.mark.parametrize("name", ["bert", "distilbert", "electra"])
def test_a_recorded_page_of_a_body_holds_what_a_body_has(name, stand_in, tmp_path, capsys):
    """Tokens, states and attention of its forward pass; no target, loss, gradient or prediction; it is said once."""
    model, text = body_of(name, tmp_path / name)
    words = (tmp_path / name, "--record", "--text", "the cat [MASK] on", "-o", tmp_path / "page.html")
    status, said, _ = explore(capsys, *words)
    left_out = "the page shows its tokens, states, attention and norms, and no predictions, loss or gradients"
    assert status == 0 and said.count(f"{name} has no head for words: {left_out}\n") == 1
    (one,) = held(tmp_path / "page.html")["recorded"]
    ids = one["ids"]
    assert ids == covered_ids(text, "the cat [MASK] on") and text.ids["[MASK]"] in ids
    assert one["tells_words"] is False and one["loss"] is None and one["targets"] == [-100] * len(ids)
    assert one["lens"] == [{"name": one_name, "top": None} for one_name in ("x", "h.0.ln_2", "h.1.ln_2")]
    assert set(one["labels"]) == set(map(str, ids))
    h, _ = model.hidden(np.array([ids]), grad=False)
    numbers = unpack(one["numbers"], one["dtype"])
    kept = {}
    for entry in one["values"]:
        assert entry["gradient"] is None and (entry["norms"] is None or entry["norms"]["gradient"] is None)
        start, size = entry["value"]["offset"], int(np.prod(entry["shape"]))
        kept[entry["name"]] = numbers[start : start + size].reshape(entry["shape"]) * entry["value"]["scale"]
    assert np.abs(kept["h.1.ln_2"] - h[0]).max() < 2e-3
    assert np.allclose(kept["h.0.attn.p"].sum(axis=-1), 1, atol=0.01) and (kept["h.0.attn.p"] > 0).all()
    norms = next(entry["norms"]["value"] for entry in one["values"] if entry["name"] == "h.1.ln_2")
    assert norms == pytest.approx(np.linalg.norm(h[0], axis=-1).tolist(), rel=1e-4)
    assert "segments" in kept or name == "distilbert"


def test_a_body_forgets_the_way_back_that_named_its_values(tmp_path):
    model, _ = body_of("bert", tmp_path / "bert")
    done = named_pass.named_states(model, [3, 1, 4])
    assert done.loss is None and {both.gradient for both in done.values.values()} == {None}
    assert [name for name, parameter in model.named_parameters() if parameter.grad is not None] == []


def test_a_page_that_predicts_words_says_that_it_does(bert, stand_in, tmp_path, capsys):
    _, _, folder = bert
    _, said, _ = explore(capsys, folder, "--record", "--text", "the cat", "-o", tmp_path / "page.html")
    assert held(tmp_path / "page.html")["recorded"][0]["tells_words"] is True and "no head" not in said


@pytest.mark.parametrize("name", ["albert", "electra", "deberta", "xlnet", "bart", "elmo"])
def test_a_model_whose_parts_a_page_does_not_know(name, refused, tmp_path, capsys):
    model, text = opened(name)
    capsys.readouterr()
    model.save(tmp_path / name)
    text.save(tmp_path / name)
    says = f"a page does not know the parts of a {type(model).__name__}"
    refused(tmp_path / name, "--record", "--text", "the cat", says=says)


def test_a_variant_that_a_page_cannot_compute_is_recorded_and_nothing_else(refused, tmp_path, capsys, stand_in):
    text = CharTokenizer.train(TEXT)
    GPT2(GPT2Config(**sizes(text.vocab_size, activation_function="gelu"))).save(tmp_path / "exact")
    text.save(tmp_path / "exact")
    refused(tmp_path / "exact", "--text", "the cat", says="activation_function 'gelu' … with --record")
    status, _, _ = explore(capsys, tmp_path / "exact", "--record", "--text", "the cat", "-o", tmp_path / "page.html")
    assert status == 0


def test_a_published_tokenizer_is_shown_in_a_recording_and_nowhere_else(refused, tmp_path, capsys, stand_in):
    """The page cannot encode with it: it shows the tokens of the recorded text by their names."""
    text = TRAINERS["wordpiece"](TEXT, 60, progress=False)
    GPT2(GPT2Config(**sizes(text.vocab_size))).save(tmp_path / "pieces")
    text.save(tmp_path / "pieces")
    refused(tmp_path / "pieces", "--text", "the cat", says="show this model with --record")
    status, _, _ = explore(capsys, tmp_path / "pieces", "--record", "--text", "the cat", "-o", tmp_path / "page.html")
    assert status == 0
    (one,) = held(tmp_path / "page.html")["recorded"]
    assert one["ids"] == text.encode("the cat")
    assert one["labels"].items() >= {str(text.ids[token]): token for token in ("the", "cat")}.items()


def test_a_published_tokenizer_of_bytes_is_shown_as_bytes(tmp_path, capsys, stand_in):
    """Its names write a character for each byte: `Ġcat` is ` cat`, and shown so."""
    text = TRAINERS["gpt2"](TEXT, 270, progress=False)
    decoder_of("llama", text.vocab_size, np.float32).save(tmp_path / "bytes")
    merges = [f"{left} {right}" for left, right in text.merges]
    digits_and_bytes = [{"type": "Digits"}, {"type": "ByteLevel", "add_prefix_space": False}]
    described = {
        "model": {"type": "BPE", "vocab": text.ids, "merges": merges},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": digits_and_bytes},
        "decoder": {"type": "ByteLevel"},
    }
    (tmp_path / "bytes" / "tokenizer.json").write_text(json.dumps(described), encoding="utf-8")
    status, _, _ = explore(capsys, tmp_path / "bytes", "--record", "--text", "the cat", "-o", tmp_path / "page.html")
    assert status == 0
    (one,) = held(tmp_path / "page.html")["recorded"]
    assert "".join(one["labels"][str(i)] for i in one["ids"]) == "the␣cat"


def test_a_recording_keeps_to_its_size(monkeypatch):
    done = named_pass.named_pass(moved("gpt2"), [3, 1, 4], [1, 4, -100])
    room = recorded.Numbers(room=200)
    entries = recorded._values(done, room)
    kept = [entry["name"] for entry in entries if entry["value"]]
    assert room.length <= 200 and kept and set(kept) < {entry["name"] for entry in entries}
    assert {"h.0.attn.p", "h.1.attn.p"} <= set(kept), "attention comes first"
    norms = {entry["name"]: entry["norms"] for entry in entries if entry["norms"]}
    assert {"x", "h.0.x_attn", "h.1.x", "ln_f"} <= set(norms) and "h.0.attn.p" not in norms
    assert all(len(one["value"]) == len(one["gradient"]) == 3 for one in norms.values())
    everything = recorded._values(done, recorded.Numbers())
    assert [entry["name"] for entry in everything if not entry["value"]] == [], "a small model is kept whole"


def test_nothing_watches_a_model_after_its_pass():
    model = moved("gpt1")
    named_pass.named_pass(model, [1, 2], [2, -100])
    with pytest.raises(InputError):
        named_pass.named_pass(model, [1, 99], [2, -100])
    for block in model.h:
        for module in (block, block.attn, block.mlp, block.ln_1):
            assert not {"forward", "backward"} & set(vars(module))


def test_without_a_browser_tests_are_skipped_or_fail_where_one_must_be(monkeypatch):
    """Else a machine that should try the page in a browser could leave it out, and nobody would see it."""
    monkeypatch.delenv("MINIGPT_NEED_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no browser here"):
        browser.absent("no browser here")
    monkeypatch.setenv("MINIGPT_NEED_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="MINIGPT_NEED_BROWSER is 1, and no browser here"):
        browser.absent("no browser here")
