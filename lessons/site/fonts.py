"""A font with the Hangul of the site, for readers whose machine has none: `write(site)`.

It is cut from NanumGothic, which koreanize-matplotlib brings, to the letters that stand on the pages of an edition.
It lies in a style sheet, because Firefox takes no font that is a file of its own from a disk. Pages name it first:
Chromium 150 leaves words empty where a font that comes late stands behind one without Hangul.
"""

import base64
import importlib.util
import io
import re
from pathlib import Path

from fontTools import subset

NAME = "hangul.css"  # static/ has an empty one
FAMILY = "minigpt Hangul"  # the license keeps the name of the original for the original
RANGE = "unicode-range: U+1100-11FF, U+3130-318F, U+AC00-D7A3;"
OF_MACHINE = {  # weight: the fonts of macOS, Windows, Android and Linux
    400: ["AppleSDGothicNeo-Regular", "Malgun Gothic", "Noto Sans CJK KR", "NanumGothic"],
    700: ["AppleSDGothicNeo-Bold", "Malgun Gothic Bold", "Noto Sans CJK KR Bold", "NanumGothic Bold"],
}
HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
SHEET = re.compile(r"<link [^>]*\bhangul\.css\b[^>]*>")
LINK = "한국어판"  # the letters of what leads from an English page to the Korean edition
OF_TOOLS = ["TSI0", "TSI1", "TSI2", "TSI3", "TSI5"]  # tables that no browser reads


def original() -> Path:
    """The file of NanumGothic."""
    package = importlib.util.find_spec("koreanize_matplotlib")
    return Path(package.origin).parent / "fonts" / "NanumGothic.ttf"


def cut(letters: set[str]) -> bytes:
    """A font in WOFF2 with these letters alone."""
    options = subset.Options(flavor="woff2", hinting=False, name_IDs=[0, 1, 2, 3, 4, 5, 6, 8])
    options.drop_tables += OF_TOOLS
    font = subset.load_font(str(original()), options)
    cutter = subset.Subsetter(options)
    cutter.populate(text="".join(sorted(letters)))
    cutter.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6):
            record.string = FAMILY if record.nameID != 6 else FAMILY.replace(" ", "")
    made = io.BytesIO()
    subset.save_font(font, made, options)
    return made.getvalue()


def style(letters: set[str]) -> str:
    """A style sheet with the Hangul of the machine, "Hangul", and with these letters; "" where there are none."""
    if not letters:
        return ""
    data = base64.b64encode(cut(letters)).decode()
    faces = [f'"{FAMILY}"; src: url("data:font/woff2;base64,{data}") format("woff2")']
    for weight, names in OF_MACHINE.items():
        found = ", ".join(f'local("{name}")' for name in names)
        faces.append(f'"Hangul"; font-weight: {weight}; src: {found}')
    return "".join(f"@font-face {{ font-family: {face}; {RANGE} }}\n" for face in faces)


def write(site: Path) -> None:
    """Put a font into the style sheet of each edition of a built site, and into its explorer.

    An English page whose only Korean word is the link to the other edition has that word's font in itself.
    """
    explorer = site / "explorer.html"
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    letters = {path: set(HANGUL.findall(text)) for path, text in pages.items()}
    own = f"<style>{style(letters[explorer])}</style>\n</head>"
    save(explorer, pages[explorer].replace("</head>", own, 1))
    korean = {path for path in pages if path.is_relative_to(site / "ko")}
    english = pages.keys() - korean - {explorer}
    for folder, paths in ((site, english), (site / "ko", korean)):
        if paths:
            save(folder / "_static" / NAME, style(set().union(*(letters[path] for path in paths))))
    of_link = f"<style>{style(set(LINK))}</style>"
    for path in english:
        if letters[path] <= set(LINK):
            save(path, SHEET.sub(of_link, pages[path]))


def save(path: Path, text: str) -> None:
    """Write a text."""
    path.write_text(text, encoding="utf-8", newline="\n")
