"""The pages of the operations: one for each of the table, and an index."""

import html
import inspect
import re
from pathlib import Path

import markup
import sources
from markup import code, escaped, fence

from minigpt import ops
from minigpt.ops import reference

TITLES = {
    "reference": "Reference: the mathematics, for NumPy and CuPy",
    "fast": "Fast: the same on a processor",
    "cuda": "CUDA: the same on a GPU",
}
SITUATION = {"built": "Built and derived in", "used": "Used in", "named": "Treated in"}


def write(folder: Path) -> list[Path]:
    """Write `index.md` and a page for each operation into a folder, as MyST Markdown. Returns their paths.

    The pages of the lessons are expected in `../lessons/`, those of the API in `../api/`, the benchmarks' beside them.
    """
    pages = {f"{op}.md": page(op) for op in ops.names}
    pages["index.md"] = index()
    return markup.write_pages(folder, pages)


def label_of(op: str) -> str:
    """The label of an operation's page."""
    return "op-" + op.replace("_", "-")


def linked(op: str) -> str:
    """A link to an operation's page, by its name in code."""
    return f"[{code(op)}](#{label_of(op)})"


def lesson_link(lesson: sources.Lesson) -> str:
    """A link to a lesson, by number and title."""
    return markup.document(f"{lesson.number} · {lesson.title}", f"../lessons/{lesson.name}")


# --- the index -------------------------------------------------------------------------------------------------------


def index() -> str:
    """The table of all operations, and how a pair is used."""
    shelves = {"Primitives": ops.primitives, "Composites": ops.composites}
    about = {
        "Primitives": "Each is a pair of pure functions, forward and backward, in a file of its own.",
        "Composites": "Coarse parts of a block. Their reference calls primitives; a fast one does all at once.",
    }
    parts = [
        markup.label("operations"),
        "# Operations\n",
        "Everything that a model of this course computes is an operation. It has a forward function, which returns "
        "the output and a cache, and a backward function, which turns the gradient of the output and the cache into "
        "the gradients of the inputs:\n",
        fence(
            "out, cache = ops.layernorm_forward(x, g, b, eps=1e-5)\ndx, dg, db = ops.layernorm_backward(dout, cache)",
            "python",
        ),
        "All implementations of an operation have the same signature and pass the same tests: the *reference* is "
        "written to be read, *fast* runs on a processor, *cuda* on a GPU. `*` in a shape stands for any leading "
        "axes. On the pages $dx$ is the gradient of the loss with respect to $x$, the `dx` of the code.\n",
    ]
    for shelf, names in shelves.items():
        rows = [_row(op) for op in names]
        head = ["operation", "lesson", "implementations", "forward"]
        parts += [f"## {shelf}\n", about[shelf] + "\n", markup.table(head, rows)]
    hidden = "\n".join(op for op in ops.names)
    parts.append(f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{hidden}\n```\n")
    return "\n".join(parts)


def _row(op: str) -> list[str]:
    there = sources.citing(op)
    first = (there["built"] or there["used"] or there["named"])[:1]
    of = [name for name in TITLES if sources.pair(op, name)]
    lesson = ", ".join(markup.document(one.number, f"../lessons/{one.name}") for one in first)
    title = f"[{sources.words()[op].title}](#{label_of(op)})"
    return [title, lesson, ", ".join(of), code(shape_lines(op)[0])]


# --- a page ----------------------------------------------------------------------------------------------------------


def page(op: str) -> str:
    """The page of one operation."""
    about = sources.words()[op]
    parts = [
        markup.label(label_of(op)),
        f"# {about.title}\n",
        _opening(op),
        "## Shapes\n",
        _shapes(op),
        "## Formula\n",
        _formula(op),
        "## Both passes\n",
        _passes(op),
        "## What the cache keeps\n",
        _cache(op),
        "## Implementations\n",
        _implementations(op),
        _measured(op),
        _mistakes(op),
        _exercises(op),
        "## Where it is used\n",
        _uses(op),
    ]
    return "\n".join(part for part in parts if part)


def shape_lines(op: str) -> tuple[str, str]:
    """The first lines of both docstrings: what goes in and what comes out."""
    docs = [_doc(op, way) for way in ("forward", "backward")]
    return docs[0].splitlines()[0].strip(), docs[1].splitlines()[0].strip()


def _doc(op: str, way: str) -> str:
    function = getattr(ops, f"{op}_{way}")
    return inspect.getdoc(function) or ""


def _opening(op: str) -> str:
    """What it is, its lesson, its papers."""
    module = inspect.getmodule(getattr(reference, f"{op}_forward"))
    sentence = (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    sentence = re.sub(r" \([^()]*\d{4}[^()]*\)| \(GPT-1[^()]*\)", "", sentence)  # the papers stand below
    kind = "composite" if op in ops.composites else "primitive"
    lines = [f"{code(f'ops.{op}_forward')} and {code(f'ops.{op}_backward')}: a {kind} of the table.\n"]
    if kind == "primitive":
        lines.append(escaped(sentence) + "\n")
    lines.append(f"**Papers.** {escaped(sources.words()[op].paper)}\n")
    there = sources.citing(op)
    lesson = there["built"] or there["named"] or there["used"]
    lines.append(f"**Lesson.** {', '.join(map(lesson_link, lesson))}\n")
    return "\n".join(lines)


def _shapes(op: str) -> str:
    forward, backward = shape_lines(op)
    return markup.listed([f"forward: {code(forward)}", f"backward: {code(backward)}"])


def _formula(op: str) -> str:
    """Both formulas in TeX, and the docstrings in the letters of the code."""
    about = sources.words()[op]
    parts = []
    for way, tex in (("Forward", about.forward), ("Backward", about.backward)):
        parts += [f"**{way}**\n", f"```{{math}}\n{_aligned(tex)}\n```\n", _explained(op, way.lower())]
    return "\n".join(parts)


def _aligned(tex: str) -> str:
    """Equations below each other, one "=" below the other."""
    lines = [line.replace(" = ", " &= ", 1) for line in tex.strip().splitlines()]
    if len(lines) == 1:
        return tex.strip()
    rows = " \\\\[0.4em]\n".join(lines)
    return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


# An equation: a name, =, and what follows, up to the end of the sentence or to the words that explain it.
NAME = r"(?:\w+(?:\[[^\]]*\])?(?:, \w+)*|cos\(a, b\))"
END = r"(?=\. |: |[:.]$|,? +(?:over the|where|without|which|in nats|position|mean and|with the)\b|,   |, \w = |$)"
EQUATION = re.compile(rf"(?<![\w`(])({NAME} = [^=`]+?){END}")


def _explained(op: str, way: str) -> str:
    """The rest of a docstring, as it is written, its equations as code."""
    doc = _doc(op, way).partition("\n\n")[2]
    names = frozenset(inspect.signature(getattr(ops, f"{op}_{way}")).parameters)
    first, _, rest = doc.partition("\n\n")
    flat = EQUATION.sub(r"`\1`", first.replace("\n", " "))
    return markup.docstring(re.sub(" +", " ", flat), names) + "\n" + markup.docstring(rest, names)


def _passes(op: str) -> str:
    """The source of both passes, forward above backward."""
    of = sources.pair(op, "reference")
    parts = [f"From {code(_path(of.file))}."]
    if "    # " in of.backward:
        parts[0] += " In the backward, a comment names the forward line that the lines below it undo."
    parts[0] += "\n"
    parts += [fence(of.forward, "python"), fence(of.backward, "python")]
    if of.beside:
        parts.append(markup.details("What they call beside them", fence(of.beside, "python")))
    return "\n".join(parts)


def _path(path: Path) -> str:
    return path.relative_to(sources.ROOT).as_posix()


def _cache(op: str) -> str:
    """What each implementation keeps, for one small input."""
    rows = []
    given = {}
    for implementation in TITLES:
        if sources.pair(op, implementation) is None:
            continue
        if implementation == "cuda":
            names = ", ".join(code(name) for name in sources.cache_fields(op, "cuda"))
            rows.append(["cuda", names, ""])
            continue
        found, given = sources.kept(op, implementation)
        names = ", ".join(f"{code(one.name)} {_times(one.shape)}" for one in found) or _no_array(op, implementation)
        total = sum(one.bytes for one in found)
        rows.append([implementation, names, f"{total:,}"])
    inputs = ", ".join(f"{code(name)} {_times(shape)}" for name, shape in given.items())
    text = f"For {inputs} in float64. An input that is kept costs no further memory: the cache refers to it.\n"
    return text + markup.table(["implementation", "arrays that are kept", "bytes"], rows, numbers=[2])


def _no_array(op: str, implementation: str) -> str:
    return f"no array, only {', '.join(map(code, sources.cache_fields(op, implementation)))}"


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) if shape else "one number"


def _implementations(op: str) -> str:
    """The files of each implementation, one after the other, closed at first."""
    there = {name: sources.pair(op, name) for name in TITLES}
    jumps = [f"[{name}](#{label_of(op)}-{name})" for name, of in there.items() if of]
    parts = ["The same pair, " + (", ".join(jumps)) + ".\n"]
    for name, of in there.items():
        if of is None:
            parts.append(f"*{name}*: it has none of its own, so the reference runs.\n")
            continue
        parts += [markup.label(f"{label_of(op)}-{name}"), f"### {TITLES[name]}\n"]
        parts += [_file(path) for path in (of.file, *of.kernels)]
        beside = [f"[{code(one)}](#{sources.api_label(one)})" for one in sources.modules_beside(of.file)]
        if beside:
            parts.append(f"It imports {', '.join(beside)}.\n")
    return "\n".join(parts)


def _file(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    summary = f"<code>{html.escape(_path(path))}</code>, {lines} lines"
    return markup.details(summary, fence(text, "python" if path.suffix == ".py" else "cuda"))


def _measured(op: str) -> str:
    """Recorded figures, with where they come from."""
    rows = []
    for name, row in sources.measured(op).items():
        about = row["measured"]
        where = f"{about['processor']}, {about['threads']} threads, {about['date']}"
        if name == "gradcheck":
            what = f"gradient check, all cases ({row['tensors']} tensors)"
            figure = f"{row['seconds'] * 1000:.0f} ms; largest relative error {row['worst error']:.0e}"
            page_of = "gradcheck"
        else:
            what = f"training step of {name.partition(', ')[2]} with the reference in place of fast, over all fast"
            figure = f"{row['ratio']:.2f} ({row['from']:.2f} to {row['to']:.2f})"
            page_of = "effects"
        rows.append([what, figure, markup.document(where, f"../benchmarks/{page_of}")])
    if not rows:
        return ""
    return "## Measured\n" + markup.table(["what", "figure", "where"], rows)


def _mistakes(op: str) -> str:
    """The titles of its mistakes in the museum."""
    rows = [[str(one.number), escaped(one.title), str(one.level)] for one in sources.mistakes(op)]
    if not rows:
        return ""
    text = "Wrong versions of this operation that the course keeps; a mistake can be in either pass. The judge, "
    text += "`minigpt check FILE`, compares the outputs with the library's and the gradients with finite differences, "
    text += "and finds each of them. "
    text += "`minigpt learn bug` gives you a model with one of them in it. Level 1 is the easiest to find.\n"
    return "## Mistakes to find\n\n" + text + markup.table(["number", "mistake", "level"], rows)


def _exercises(op: str) -> str:
    by_name = {one.number: one for one in sources.lessons()}
    items = []
    for one in sources.exercises(op):
        lesson = by_name[one.lesson]
        title = re.sub(r"^Exercise \d+: | \(lesson \d+\)", "", one.title)
        items.append(f"{lesson_link(lesson)}: {escaped(title)} {code(one.file)}")
    return "## Exercises\n\n" + markup.listed(items) if items else ""


def _uses(op: str) -> str:
    """Lessons, composites, and the classes of the package that call it."""
    parts = []
    for how, there in sources.citing(op).items():
        if there:
            parts.append(f"**{SITUATION[how]}**\n\n" + markup.listed([lesson_link(one) for one in there]))
    if sources.composites_with(op):
        parts.append("**Composites that call it**\n\n" + markup.listed(list(map(linked, sources.composites_with(op)))))
    callers = []
    for one in sources.callers(op):
        callers.append(f"[{code(f'{one.module}.{one.name}')}](#{sources.api_label(one.module, one.name)})")
    if callers:
        parts.append("**Callers in the package**\n\n" + markup.listed(callers))
    return "\n".join(parts)
