"""The reference of the package: every public module, class and function, with its signature and docstring."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import markup
import operations
from course import ROOT
from markup import code, fence
from sources import api_label

import minigpt
from minigpt import ops

HOME = ROOT / "minigpt"
WIDTH = 88  # columns of a signature, before it is broken into lines


class Entry(NamedTuple):
    """A class or a function: "minigpt.nn.layers", its node, and for a class its public methods."""

    module: str
    node: ast.ClassDef | ast.FunctionDef
    methods: list[ast.FunctionDef]

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def label(self) -> str:
        return api_label(self.module, self.name)


class Module(NamedTuple):
    """A public module: its name, its docstring, its entries, and the names of its `__all__`."""

    name: str
    doc: str
    entries: list[Entry]
    exported: list[str]
    imported: dict[str, str]  # name -> the module it comes from


def write(folder: Path) -> list[Path]:
    """Write `index.md` and a page for each folder of the package, as MyST Markdown. Returns their paths."""
    by_page = pages()
    texts = {f"{name}.md": page(name, modules) for name, modules in by_page.items()}
    texts["index.md"] = index(by_page)
    return markup.write_pages(folder, texts)


# --- what there is ---------------------------------------------------------------------------------------------------


def pages() -> dict[str, list[Module]]:
    """{"minigpt.nn": its modules, itself the first}, in alphabetical order, the public face first."""
    found: dict[str, list[Module]] = {}
    for path in sorted(HOME.rglob("*.py"), key=_place):
        if path.name == "__init__.py" or not path.stem.startswith("_"):
            found.setdefault(_package(path), []).append(module(path))
    return found


def _place(path: Path) -> tuple:
    return path.parent.parts, path.name != "__init__.py", path.name


def _package(path: Path) -> str:
    return ".".join(path.parent.relative_to(ROOT).parts)


def module(path: Path) -> Module:
    """A file of the package, read and not run."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    entries = []
    exported = []
    imported = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            entries.append(Entry(name, node, _methods(node)))
        elif isinstance(node, ast.ImportFrom):
            imported |= {alias.asname or alias.name: node.module or "" for alias in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed = getattr(node.value, "elts", [])  # one that is computed is left out
            exported = [item.value for item in listed if _is_name(item)]
    return Module(name, ast.get_docstring(tree) or "", entries, exported, imported)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()


def _methods(node: ast.AST) -> list[ast.FunctionDef]:
    """The methods of a class that are public and say what they do."""
    if not isinstance(node, ast.ClassDef):
        return []
    found = [item for item in node.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]
    return [method for method in found if ast.get_docstring(method)]


# --- the index -------------------------------------------------------------------------------------------------------


def index(by_page: dict[str, list[Module]]) -> str:
    """The public face, and a table of the pages."""
    rows = []
    for name, modules in by_page.items():
        about = markup.escaped(_first(modules[0].doc))
        rows.append([f"[{code(name)}](#{page_label(name)})", about])
    hidden = "\n".join(by_page)
    return "\n".join([
        markup.label("api"),
        "# API reference\n",
        "Every public module, class and function, with its docstring. Shapes stand in brackets: `x (B,T,C)`; `*` "
        "stands for any leading axes, and the letters are those of the lessons: `B` texts, `T` positions, `C` "
        "channels, `NH` heads, `V` tokens of the vocabulary.\n",
        "## The public face\n",
        "`import minigpt` has all that most programs need:\n",
        face(),
        "## All modules\n",
        markup.table(["module", "what it is"], rows),
        f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{hidden}\n```\n",
    ])  # fmt: skip


def face() -> str:
    """A table of `minigpt.__all__`."""
    rows = []
    for name in minigpt.__all__:
        module_name, there = minigpt._HOMES.get(name, (f"minigpt.{name}", ""))
        if there:
            entry = find(module_name, there)
            target, doc = entry.label, ast.get_docstring(entry.node) or ""
        else:
            target, doc = page_label(module_name), _doc(module_name)
        rows.append([f"[{code('minigpt.' + name)}](#{target})", markup.escaped(_first(doc))])
    return markup.table(["name", "what it is"], rows)


def _doc(name: str) -> str:
    return module(HOME.joinpath(*name.split(".")[1:], "__init__.py")).doc


def find(module_name: str, name: str) -> Entry:
    """The entry with this name. Raises KeyError where there is none."""
    base = ROOT.joinpath(*module_name.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    entries = {entry.name: entry for entry in module(path).entries}
    return entries[name]


def page_label(name: str) -> str:
    """The label of a page."""
    return api_label(name)


def _first(doc: str) -> str:
    """The first paragraph of a docstring, without what is no sentence."""
    return doc.strip().split("\n\n")[0].replace("\n", " ").removesuffix(":")


# --- a page ----------------------------------------------------------------------------------------------------------


def page(name: str, modules: list[Module]) -> str:
    """A folder of the package: its own docstring, and a section for each module."""
    package, *others = modules
    parts = [markup.label(page_label(name)), f"# {code(name)}\n", markup.docstring(package.doc)]
    if name == "minigpt":
        parts += [face()]
    elif name == "minigpt.ops":
        parts += [_operations()]
    elif package.exported:
        parts += [_exported(package)]
    parts += [_entry(entry, "##") for entry in package.entries]
    for one in others:
        short = one.name.rsplit(".", 1)[1]
        parts += [markup.label(api_label(one.name)), f"## {code(short)}\n", markup.docstring(one.doc)]
        parts += [_entry(entry, "###") for entry in one.entries]
    return "\n".join(part for part in parts if part)


def _operations() -> str:
    """The table of operations, in place of functions that the table makes."""
    rows = [[operations.linked(op), code(operations.shape_lines(op)[0])] for op in ops.names]
    text = "The operations, each as `ops.NAME_forward` and `ops.NAME_backward`:\n"
    return text + markup.table(["operation", "forward"], rows)


def _exported(package: Module) -> str:
    """What a package offers by itself, each name with a link to where it is written."""
    items = []
    for name in package.exported:
        home = package.imported.get(name, package.name)
        try:
            items.append(f"[{code(name)}](#{find(home, name).label})")
        except (KeyError, FileNotFoundError):
            items.append(code(name))
    return f"From {code(package.name)} itself: {', '.join(items)}.\n"


def _entry(entry: Entry, heading: str) -> str:
    """A class with its methods, or a function, below a heading of this level."""
    kind = "class " if isinstance(entry.node, ast.ClassDef) else ""
    parts = [markup.label(entry.label), f"{heading} {kind}{code(entry.name)}\n", fence(signature(entry.node), "python")]
    parts.append(_documented(ast.get_docstring(entry.node), names_of(entry.node)))
    for method in entry.methods:
        parts.append(fence(signature(method), "python"))
        parts.append(_documented(ast.get_docstring(method), names_of(method)))
    return "\n".join(part for part in parts if part)


def names_of(node: ast.AST) -> frozenset[str]:
    """The names of arguments, and for a class of its fields too, which a docstring may describe."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            found.add(inner.attr)
        elif isinstance(inner, ast.arg):
            found.add(inner.arg)
        elif isinstance(inner, ast.AnnAssign | ast.AugAssign) and isinstance(inner.target, ast.Name):
            found.add(inner.target.id)
    return frozenset(found)


def _documented(doc: str | None, names: frozenset[str]) -> str:
    """A docstring; a first line of shapes is code."""
    if not doc:
        return ""
    first, _, rest = doc.partition("\n")
    if " -> " in first and re.search(r"\(.*\)", first):
        return f"{code(first)}\n\n{markup.docstring(rest, names)}"
    return markup.docstring(doc, names)


# --- signatures ------------------------------------------------------------------------------------------------------


def signature(node: ast.ClassDef | ast.FunctionDef) -> str:
    """How it is called, as it is written; a long one is broken into lines."""
    if isinstance(node, ast.ClassDef):
        return _of_class(node)
    lines = [f"@{ast.unparse(one)}" for one in node.decorator_list if ast.unparse(one) in SHOWN]
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return "\n".join([*lines, _call(f"def {node.name}", _arguments(node.args), returned)])


SHOWN = ("property", "classmethod", "staticmethod")


def _of_class(node: ast.ClassDef) -> str:
    """A class with what its constructor takes: the arguments of __init__, or its fields."""
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
    made = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    bases = [ast.unparse(base) for base in node.bases]
    if made:
        return _call(f"class {node.name}", _arguments(made[0].args)[1:])
    if fields:
        return _call(f"class {node.name}", [_field(item) for item in fields])
    return f"class {node.name}({', '.join(bases)})"


def _field(item: ast.AnnAssign) -> str:
    value = item.value
    text = f"{ast.unparse(item.target)}: {ast.unparse(item.annotation)}"
    if isinstance(value, ast.Call) and "argument" in ast.unparse(value.func):
        defaults = [word.value for word in value.keywords if word.arg == "default"] + value.args[1:2]
        value = None
        for default in defaults[:1]:
            value = default
    return f"{text} = {ast.unparse(value)}" if value is not None else text


def _arguments(args: ast.arguments) -> list[str]:
    """Each argument as it is written, with its default."""
    positional = [*args.posonlyargs, *args.args]
    without = len(positional) - len(args.defaults)
    found = []
    for i, arg in enumerate(positional):
        default = args.defaults[i - without] if i >= without else None
        found.append(_argument(arg, default))
        if i + 1 == len(args.posonlyargs):
            found.append("/")
    if args.vararg:
        found.append("*" + ast.unparse(args.vararg))
    elif args.kwonlyargs:
        found.append("*")
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        found.append(_argument(arg, default))
    if args.kwarg:
        found.append("**" + ast.unparse(args.kwarg))
    return found


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(arg)
    equals = " = " if arg.annotation else "="
    return ast.unparse(arg) + equals + ast.unparse(default)


def _call(name: str, arguments: list[str], returned: str = "") -> str:
    short = f"{name}({', '.join(arguments)}){returned}"
    if len(short) <= WIDTH:
        return short
    inside = "\n".join(f"    {argument}," for argument in arguments)
    return f"{name}(\n{inside}\n){returned}"
