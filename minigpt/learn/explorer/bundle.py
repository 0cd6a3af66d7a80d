"""The JavaScript of the page, many small modules, as the text of one script.

Their rules are few, so that lines can be put together without reading the language: every name at the top of a module
is unique among all modules; a module exports functions, classes and constants where they are defined, and imports them
by their own names, one import a line. Node runs the same modules one by one, in tests.
"""

import posixpath
import re

ENTRY = "view/app.js"

IMPORT = re.compile(r'^import \{ ([\w$]+(?:, [\w$]+)*) \} from "(\.\.?/[\w./-]+\.js)";\s*$')
EFFECT = re.compile(r"^\s*(?:import|export)\b|\bimport\s*[(.]")
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) )")
TOP = re.compile(r"^(?:export )?(?:async )?(?:function\*?|class|const|let|var) ([\w$]+)")
UNPACKED = re.compile(r"^(?:export )?(?:const|let|var) [\[{]")


class BundleError(ValueError):
    """A module does not keep the rules; the message names the file, the line and the rule."""


def bundle(sources: dict[str, str], entry: str = ENTRY) -> str:
    """The text of one script: the module `entry` after all that it imports, each once. sources: {module: its text}

    Raises BundleError for a module that is missing or does not keep the rules, for one that imports itself through
    others, and for a name that two modules have.
    """
    modules = Modules(sources)
    modules.add(entry, ())
    script = "\n".join(modules.texts)
    if "</script" in script.lower():
        raise BundleError("a module holds </script, which would end the script: write <\\/script in its place")
    return script


class Modules:
    """The modules that were read so far. texts: without imports and exports, in an order in which they can run."""

    def __init__(self, sources: dict[str, str]):
        self.sources = sources
        self.texts: list[str] = []
        self.exported: dict[str, set[str]] = {}  # of each module that is done
        self.owners: dict[str, str] = {}  # {name at the top: its module}

    def add(self, name: str, importing: tuple[str, ...]) -> None:
        """Add a module after those that it imports. importing: the modules that led here. Raises BundleError."""
        if name in self.exported:
            return
        if name in importing:
            raise BundleError(f"modules import each other in a circle: {' -> '.join((*importing, name))}")
        lines = self._read(name, importing)
        exported = set()
        kept = [f"// {name}"]
        for number, line in enumerate(lines, 1):
            place = f"{name}, line {number}"
            found = IMPORT.match(line)
            if found:
                self._import(found, name, place, (*importing, name))
                continue
            plain = EXPORT.sub("", line)
            _check(plain, place)
            top = TOP.match(line)
            if top:
                self._own(top.group(1), name, place)
            if top and plain != line:
                exported.add(top.group(1))
            kept.append(plain)
        self.exported[name] = exported
        self.texts.append("\n".join(kept) + "\n")

    def _read(self, name: str, importing: tuple[str, ...]) -> list[str]:
        if name not in self.sources:
            by = f", which {importing[-1]} imports" if importing else ""
            raise BundleError(f"there is no module {name}{by}")
        return self.sources[name].splitlines()

    def _import(self, found: re.Match, name: str, place: str, importing: tuple[str, ...]) -> None:
        """Add the module that an import names, and see that it exports what is taken from it."""
        names, address = found.groups()
        other = posixpath.normpath(posixpath.join(posixpath.dirname(name), address))
        self.add(other, importing)
        for one in names.split(", "):
            if one not in self.exported[other]:
                raise BundleError(f"{place}: {other} exports no {one}")

    def _own(self, top: str, name: str, place: str) -> None:
        owner = self.owners.setdefault(top, name)
        if owner != name:
            raise BundleError(f"{place}: {owner} has the name {top} too: names at the top of a module are unique")


def _check(line: str, place: str) -> None:
    """Raises BundleError for an import or export that is left, and for names at the top that cannot be seen."""
    code = line.partition("//")[0]
    if EFFECT.search(code):
        rule = 'imports are import { a, b } from "./x.js"; in one line, and exports stand before function, class, const'
        raise BundleError(f"{place}: {line.strip()[:60]}: {rule}")
    if UNPACKED.match(line):
        raise BundleError(f"{place}: {line.strip()[:60]}: a line at the top of a module defines one name")
