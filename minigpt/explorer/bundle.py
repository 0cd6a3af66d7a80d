"""The JavaScript of the page, many small modules, as the text of one script.

Their rules are few, so that lines can be put together without reading the language: a module exports functions, classes
and constants where they are defined, and imports them by their own names, one import a line; every name at the top of a
module is unique among all modules, as a browser refuses a script that defines one twice. Node runs the same modules one
by one, in tests.
"""

import posixpath
import re
from graphlib import CycleError, TopologicalSorter

ENTRY = "view/app.js"

IMPORT = re.compile(r'^import \{ ([\w$]+(?:, [\w$]+)*) \} from "(\.\.?/[\w./-]+\.js)";\s*$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) ([\w$]+))", re.MULTILINE)
LEFT_OVER = re.compile(r"^\s*(?:import|export)\b|\bimport\s*[(.]")


class BundleError(ValueError):
    """A module does not keep the rules; the message names it, and the rule."""


def bundle(sources: dict[str, str], entry: str = ENTRY) -> str:
    """The text of one script: the module `entry` after all that it imports, each once. sources: {module: its text}

    Raises BundleError for a module that is missing or does not keep the rules, and for one that imports itself through
    others.
    """
    graph: dict[str, list[str]] = {}
    todo = [entry]
    while todo:
        name = todo.pop()
        if name not in graph:
            graph[name] = _imported(name, sources)
            todo += graph[name]
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise BundleError(f"modules import each other in a circle: {' <- '.join(error.args[1])}") from error
    script = "\n".join(f"// {name}\n{_plain(name, sources[name])}" for name in order)
    if "</script" in script.lower():
        raise BundleError("a module holds </script, which would end the script: write <\\/script in its place")
    return script


def _imported(name: str, sources: dict[str, str]) -> list[str]:
    """The modules that a module imports; they are there, and export what it takes from them."""
    found = []
    for names, address in IMPORT.findall(sources[name]):
        other = posixpath.normpath(posixpath.join(posixpath.dirname(name), address))
        if other not in sources:
            raise BundleError(f"there is no module {other}, which {name} imports")
        for one in names.split(", "):
            if one not in EXPORT.findall(sources[other]):
                raise BundleError(f"{name}: {other} exports no {one}")
        found.append(other)
    return found


def _plain(name: str, text: str) -> str:
    """A module without its imports and exports. Raises BundleError where one is left, which has another form."""
    plain = EXPORT.sub("", IMPORT.sub("", text))
    for line in plain.splitlines():
        if LEFT_OVER.search(line.partition("//")[0]):
            rule = 'imports are import { a, b } from "./x.js"; in one line; exports are of a function, class or const'
            raise BundleError(f"{name}: {line.strip()[:60]}: {rule}")
    return plain
