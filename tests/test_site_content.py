"""The pages that are written from the code: operations, the reference of the package, recorded benchmarks."""

import ast
import html
import inspect
import json
import re
import sys
from pathlib import Path

import pytest

import minigpt
from minigpt import ops
from minigpt.learn.museum.pieces import pieces

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "lessons" / "site"))

import api  # noqa: E402
import figures  # noqa: E402
import markup  # noqa: E402
import operations  # noqa: E402
import results  # noqa: E402
import sources  # noqa: E402

import benchmarks  # noqa: E402

RESULTS = sorted(path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json"))
LESSONS = sorted(path.stem for path in (ROOT / "lessons").glob("[0-9][0-9]_*.py"))


DRAWN = ("memory", "scaling", "defaults")  # rows, curves, ranges; what the others draw, a slow test does


def not_drawn(plots):
    """figures.rows or figures.curves, whose plots are told in words and not drawn."""
    return lambda *values, **more: plots(*values, **more)._replace(draw=lambda narrow: None)


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    """{"operations/gelu": its text, ...}: all pages, written once."""
    folder = tmp_path_factory.mktemp("source")
    written = operations.write(folder / "operations") + api.write(folder / "api")
    for name in DRAWN:
        benchmarks.plots(name, folder / "drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "rows", not_drawn(figures.rows))
        patch.setattr(figures, "curves", not_drawn(figures.curves))
        patch.setattr(figures, "_svg", lambda figure, name: f'<svg id="{name}"></svg>')
        written += benchmarks.write(folder / "benchmarks", drawn=folder / "drawn")
    assert all(path.is_file() for path in written)
    return {path.relative_to(folder).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
            for path in folder.rglob("*.md")}  # fmt: skip


# --- operations ------------------------------------------------------------------------------------------------------


def stands_in(part: str | re.Pattern, text: str) -> bool:
    return part in text if isinstance(part, str) else bool(part.search(text))


def problems_of_operation(op: str, text: str) -> list[str]:
    """What the page of an operation lacks."""
    wanted = {}
    for way in ("forward", "backward"):
        function = getattr(sources.reference, f"{op}_{way}")
        wanted[f"{way}: shape line"] = f"{way}: `{inspect.getdoc(function).splitlines()[0]}`"
        wanted[f"{way}: source"] = inspect.getsource(function).strip()
        wanted[f"{way}: formula"] = f"**{way.capitalize()}**\n\n```{{math}}"
    for name in ("reference", "fast", "cuda"):
        if hasattr(sources.PACKAGES[name], f"{op}_forward"):
            wanted[f"implementation {name}"] = f"(op-{op.replace('_', '-')}-{name})="
            wanted[f"cache of {name}"] = re.compile(rf"^\| {name} \| (no array, only )?`", re.MULTILINE)
    found = [what for what, part in wanted.items() if not stands_in(part, text)]
    uses = text[text.index("## Where it is used") :] if "## Where it is used" in text else ""
    if not re.search(r"\{doc\}`\d\d · [^`]+<\.\./lessons/\d\d_\w+>`", uses):
        found.append("no lesson cites it")
    return found


@pytest.mark.parametrize("op", ops.names)
def test_every_operation_has_its_page(op, pages):
    text = pages[f"operations/{op}"]
    assert problems_of_operation(op, text) == []
    assert f"](#op-{op.replace('_', '-')})" in pages["operations/index"] and f"\n{op}\n" in pages["operations/index"]


def test_a_page_that_lacks_something_is_found(pages):
    text = pages["operations/gelu"]
    for part, lost in {
        "x (*) -> out (*)": {"forward: shape line", "forward: source"},
        "du_dx = _C * (1 + 3 * _A * x * x)": {"backward: source"},
        "(op-gelu-cuda)=": {"implementation cuda"},
        "../lessons/": {"no lesson cites it"},
    }.items():
        assert set(problems_of_operation("gelu", text.replace(part, ""))) == lost


def test_the_formulas_are_those_of_the_table():
    assert list(sources.words()) == list(ops.names)
    for op, about in sources.words().items():
        outputs = re.findall(r"(d?\w+) \(", operations.shape_lines(op)[1].partition("->")[2])
        said = about.backward.replace("\\text{", "").replace("}", "")
        for name in outputs:
            plain = name.rstrip("012")
            assert plain in said, f"{op}: the backward says nothing about {name}"


def test_kernels_and_the_files_they_include_are_shown(pages):
    for op, files in {"layernorm": ["layernorm.cu", "common.cuh", "rows.cuh"], "gelu": ["gelu.cu"]}.items():
        for file in files:
            text = (ROOT / "minigpt" / "ops" / "cuda" / file).read_text(encoding="utf-8")
            assert text.strip() in pages[f"operations/{op}"], file
    assert "minigpt/ops/cuda/attention_mma.cu" in pages["operations/self_attention"]
    assert "[`minigpt.ops.cuda.products`](#api-minigpt-ops-cuda-products)" in pages["operations/mlp"]


def test_what_a_cache_keeps_is_what_the_ledger_says(pages):
    from minigpt.ops.cases import case

    with ops.using("reference"):
        _, cache = case("layernorm").run(ops.layernorm_forward)
    assert f"`rstd` 2×3×1, `g` 15 | {ops.nbytes(cache)} |" in pages["operations/layernorm"]


def test_mistakes_are_named_and_never_mended(pages):
    for piece in pieces():
        if piece.op not in ops.names:
            continue
        text = pages[f"operations/{piece.op}"]
        section = text[text.index("## Mistakes to find") :].partition("\n## ")[0]
        assert markup.escaped(piece.title) in section
        assert "a mistake can be in either pass" in section and "Wrong backward passes" not in section
        for line in piece.change.strip().splitlines():
            if line[:2] in ("+ ", "- ") and line[2:].strip():
                assert line[2:].strip() not in section, f"{piece.name} shows its line"


def test_lessons_know_their_operations_and_operations_their_lessons():
    assert sources.operations_of("05_gelu_and_the_mlp")[:2] == ["gelu", "mlp"]
    assert sources.operations_of("06_layernorm")[:2] == ["layernorm", "rmsnorm"]
    assert sources.operations_of("no_lesson") == []
    for op in ops.names:
        there = [lesson for group in sources.citing(op).values() for lesson in group]
        assert there and all(op in sources.operations_of(lesson.name) for lesson in there)
    assert all(operations.linked(op) == f"[`{op}`](#op-{op.replace('_', '-')})" for op in ops.names)


def test_callers_exercises_and_figures_are_found(pages, monkeypatch):
    assert "[`minigpt.nn.layers.LayerNorm`](#api-minigpt-nn-layers-class-layernorm)" in pages["operations/layernorm"]
    assert [one.file for one in sources.exercises("rmsnorm")] == ["06_rmsnorm.py", "21_rmsnorm.py"]
    assert "06_layernorm.py" in pages["operations/layernorm"]
    assert list(sources.composites_with("attention")) == ["self_attention", "cross_attention"]
    row = sources.recorded("effects")["6x384 without fast layernorm"]
    assert f"{row['ratio']:.2f} ({row['from']:.2f} to {row['to']:.2f})" in pages["operations/layernorm"]
    assert all("gradient check, all cases" in pages[f"operations/{op}"] for op in ops.names)
    monkeypatch.setattr(sources, "recorded", lambda name: {})
    assert operations._measured("rmsnorm") == ""  # nothing is recorded


# --- the reference of the package ------------------------------------------------------------------------------------


def public_names() -> list[tuple[str, str]]:
    """(module, name) of every public class and function at the top of a public file of the package."""
    found = []
    for path in sorted((ROOT / "minigpt").rglob("*.py")):
        if path.name.startswith("_") and path.name != "__init__.py":
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found.append((module, node.name))
    return found


def test_every_public_name_has_its_place(pages):
    names = public_names()
    assert len(names) > 600
    labels = labels_of(pages)
    for module, name in names:
        assert api.api_label(module, name) in labels, f"{module}.{name} is on no page"


def test_the_public_face_is_on_the_first_page(pages):
    labels = labels_of(pages)
    for name in minigpt.__all__:
        face = pages["api/index"].partition("## All modules")[0]
        [target] = re.findall(rf"\[`minigpt\.{name}`\]\(#([\w-]+)\)", face)
        assert target in labels
    for op in ops.names:
        assert operations.linked(op) in pages["api/minigpt.ops"]


def test_signatures_are_those_of_python(pages):
    text = pages["api/minigpt.nn"]
    assert "class Past(capacity: int, padding: Array | None = None)" in text
    assert "def layernorm_forward(x, g, b, *, eps=1e-05)" in pages["api/minigpt.ops.reference"]
    tree = ast.parse("def f(a, /, b: int, *args, c=1, d: str | None = None, **kw) -> list[int]: ...")
    assert api.signature(tree.body[0]) == (
        "def f(a, /, b: int, *args, c=1, d: str | None = None, **kw) -> list[int]"
    )  # fmt: skip


def words_of(text: str) -> list[str]:
    """The words of a text, without the signs by which Markdown marks code, lists and breaks."""
    text = re.sub(r"^`{3,}\w*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\(\n|$)", r"\1", text)
    text = re.sub(r"\\(?=[^a-zA-Z0-9\s])", "", text)
    text = re.sub(r"^- (?=`\w)|`", " ", text, flags=re.MULTILINE)
    return re.sub(r"[\s,;:.\\]+", " ", text).split()


def test_docstrings_lose_no_word():
    seen = 0
    for path in sorted((ROOT / "minigpt").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                doc = ast.get_docstring(node)
                names = frozenset() if isinstance(node, ast.Module) else api.names_of(node)
                assert words_of(markup.docstring(doc, names)) == words_of(doc), path
                seen += 1
    assert seen > 1500


def test_docstrings_keep_lists_code_and_breaks():
    text = "What it does, in 2 * 3 = 6 steps of x_hat.\n\n    out = f(x)\n\n- one\n- two\n\nlast:\n    a b c d"
    found = markup.docstring(text)
    assert "2 \\* 3 = 6 steps of x\\_hat." in found and "```python\nout = f(x)\n```" in found
    assert "- one" in found and "- two" in found and "last:\n\n```text\na b c d\n```" in found
    assert markup.docstring("short line\nanother one") == "short line\\\nanother one\n\n"
    about = markup.docstring("What. x: an array; y: another. Raises InputError for none.", frozenset("xy"))
    assert about == "What.\n\n- `x`: an array.\n- `y`: another.\n\nRaises InputError for none.\n"


# --- recorded benchmarks ---------------------------------------------------------------------------------------------


def problems_of_result(name: str, text: str) -> list[str]:
    """What the page of a recorded benchmark lacks."""
    rows = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    found = []
    plots = re.findall(r'<svg role="img" aria-label="([^"]+)"', text)
    if not plots or len(plots) % 2:
        found.append("no plot in both layouts")
    if any(not re.search(r"\d", alt) for alt in plots):
        found.append("a plot is not told in words")
    if f"benchmarks/{name}.py" not in text:
        found.append("no script")
    for row, about in rows.items():
        measured = about["measured"]
        if f"| {markup.escaped(row)} |" not in text and f"<summary>{html.escape(row)}</summary>" not in text:
            found.append(f"no row {row}")
        for value in about.values():
            if isinstance(value, list) and value and isinstance(value[-1], float) and str(value[-1]) not in text:
                found.append(f"no series of {row}")
        if markup.escaped(measured["processor"]) not in text or measured["versions"]["numpy"] not in text:
            found.append("no machine")
    return sorted(set(found))


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_a_page_with_a_plot(name, pages):
    assert problems_of_result(name, pages[f"benchmarks/{name}"]) == []
    assert f"](#benchmark-{name.replace('_', '-')})" in pages["benchmarks/index"]


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_every_plot_is_drawn(name, tmp_path):
    """The layout of each figure, in both widths. The quick tests above draw three results, one of each kind of plot."""
    text = benchmarks.plots(name, tmp_path)
    assert text.count("<svg role=") == text.count("</svg>") >= 2
    assert not re.search(r' d="[^"]*nan', text)


def test_a_result_that_lacks_something_is_found(pages):
    text = pages["benchmarks/memory"]
    for part, lost in {
        'role="img"': "no plot in both layouts",
        "benchmarks/memory.py": "no script",
        "AMD EPYC": "no machine",
        "| PyTorch eager |": "no row PyTorch eager",
    }.items():
        assert problems_of_result("memory", text.replace(part, "")) == [lost]


def test_targets_that_were_missed_are_shown(pages):
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    missed = 0
    for name in RESULTS:
        rows = benchmarks.rows_of(name)
        for target in results.of(name).targets:
            value = rows[target.row][target.column]
            words = "at least" if target.at_least else "at most"
            line = f"{value:.2f} | {words} {target.value:g} | {markup.escaped(target.row)} |"
            verdict = "met" if target.met(value) else "**missed**"
            assert f"| {verdict} | {line}" in pages[f"benchmarks/{name}"]
            assert re.search(rf"\| {target.value:g} (x|MB)", readme), f"{target} is not in benchmarks/README.md"
            missed += not target.met(value)
    assert missed == readme.count("**no**")


def test_a_result_that_nothing_is_written_about_is_shown_too():
    rows = {"a": {"kind": "first", "seconds": 1.5}, "b": {"kind": "second", "seconds": 2.5}}
    [plot] = results.of("something_new").plots(rows)
    text = figures.embedded(plot, "new")
    assert text.count("<svg") == 2 and "seconds: a 1.5, b 2.5" in text and "#010203" not in text
    identifiers = re.findall(r'\bid="([^"]+)"', text)
    assert len(identifiers) == len(set(identifiers)) > 10
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert targets and {one or other for one, other in targets} <= set(identifiers)


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", figures.COLORS)
@pytest.mark.parametrize("background", ["#ffffff", "#131416"])
def test_marks_can_be_seen_on_light_and_dark_pages(color, background):
    high, low = sorted([luminance(color), luminance(background)], reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 3


# --- links -----------------------------------------------------------------------------------------------------------


def labels_of(pages: dict[str, str]) -> set[str]:
    """The places that links can name. No two may have the same name."""
    found = [label for text in pages.values() for label in re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)]
    assert len(found) == len(set(found))
    return set(found)


def broken_links(pages: dict[str, str]) -> list[str]:
    """Links to documents or labels that do not exist."""
    documents = {*pages, *(f"lessons/{name}" for name in LESSONS)}
    labels = labels_of(pages)
    found = []
    for name, text in pages.items():
        prose = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
        for path in re.findall(r"\{doc\}`[^`<]*<([^>]+)>`", prose):
            place = (Path("/") / name).parent / path
            if place.resolve().relative_to(Path("/").resolve()).as_posix() not in documents:
                found.append(f"{name}: {path}")
        found += [f"{name}: #{label}" for label in re.findall(r"\]\(#([^)]+)\)", prose) if label not in labels]
        found += [f"{name}: {url}" for url in re.findall(r"\]\((?!#)([^)]*)\)", prose)]
        folder = name.rpartition("/")[0]
        for entry in re.findall(r"^```\{toctree\}\n(?::.*\n)*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            found += [f"{name}: {line}" for line in entry.split() if f"{folder}/{line}" not in documents]
    return found


def test_every_link_leads_to_a_page(pages):
    assert sum(text.count("{doc}") for text in pages.values()) > 100
    assert broken_links(pages) == []


def test_a_broken_link_is_found(pages):
    for old, new in {
        "<../lessons/06_layernorm>": "<../lessons/06_layer_norm>",
        "](#op-layernorm-fast)": "](#op-layernorm-faster)",
        "(op-layernorm-cuda)=": "",
    }.items():
        text = pages["operations/layernorm"]
        assert old in text
        assert broken_links(pages | {"operations/layernorm": text.replace(old, new)})


def test_every_page_is_in_a_list_of_pages(pages):
    for folder in ("operations", "api", "benchmarks"):
        listed = pages[f"{folder}/index"]
        for name in pages:
            if name.startswith(f"{folder}/") and not name.endswith("/index"):
                assert f"\n{name.partition('/')[2]}\n" in listed, name


def test_plots_are_drawn_again_only_after_a_change(tmp_path, monkeypatch):
    first = benchmarks.plots("memory", tmp_path)
    [kept] = tmp_path.iterdir()
    kept.write_text("drawn before", encoding="utf-8")
    assert benchmarks.plots("memory", tmp_path) == "drawn before"
    results_before = benchmarks.RESULTS
    monkeypatch.setattr(benchmarks, "RESULTS", tmp_path / "results")
    benchmarks.RESULTS.mkdir()
    text = (results_before / "memory.json").read_text(encoding="utf-8")
    (benchmarks.RESULTS / "memory.json").write_text(text.replace("PyTorch eager", "PyTorch eager "), encoding="utf-8")
    rows = json.loads(text)["rows"]
    monkeypatch.setattr(benchmarks, "rows_of", lambda name: rows)
    assert benchmarks.plots("memory", tmp_path) == first  # the same to the byte
    assert len(list(tmp_path.glob("*.html"))) == 1


def test_a_page_that_has_not_changed_keeps_its_time(tmp_path):
    [path] = markup.write_pages(tmp_path, {"a.md": "one"})
    before = path.stat().st_mtime_ns
    markup.write_pages(tmp_path, {"a.md": "one"})
    assert path.stat().st_mtime_ns == before
    markup.write_pages(tmp_path, {"a.md": "two"})
    assert path.read_text(encoding="utf-8") == "two"
