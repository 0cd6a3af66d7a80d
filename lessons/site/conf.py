"""What Sphinx is told. `build.py` starts it, once for each language; nothing is loaded from elsewhere."""

import os
import shutil
from importlib.metadata import files
from pathlib import Path

import course
import folds
import narrow
import search

LANGUAGE = os.environ.get("MINIGPT_SITE_LANGUAGE", "en")
WORDS = course.WORDS[LANGUAGE]
HAS_KOREAN = any((course.LESSONS / "ko").glob("[0-9][0-9]_*.md"))

project = "minigpt"
html_title = "minigpt"
author = "the authors of minigpt"
language = LANGUAGE
root_doc = "index"
extensions = ["myst_nb"]
exclude_patterns = ["_extra"]
templates_path = ["templates"]

nb_execution_mode = "off"  # the lessons have run already: see lessons.py
nb_merge_streams = True
nb_code_prompt_show = nb_code_prompt_hide = WORDS["drawing"]
myst_enable_extensions = ["dollarmath", "colon_fence", "html_image", "attrs_inline"]
myst_heading_anchors = 4
smartquotes = False
highlight_language = "none"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["hangul.css", "site.css", ("print.css", {"media": "print"})]
html_js_files = ["folds.js", ("progress.js", course.progress(LANGUAGE))]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": []}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "quick.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_permalinks_icon = "#"
html_use_index = False
html_search_language = search.SearchWithKorean.lang  # in both editions: the English glossary has Korean terms
html_show_search_summary = False  # it would fetch each page, which a browser refuses where the site lies on a disk
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

mathjax_path = "mathjax/tex-svg.js"  # one file, with its glyphs: nothing else is loaded
mathjax3_config = {
    "options": {"enableMenu": False, "processHtmlClass": "tex2jax_process|mathjax_process|math|output_area"},
    "svg": {"fontCache": "local"},
}


def copy_mathjax(app, error) -> None:
    """Put MathJax, which the extra `site` installs, among the files of the site."""
    if error is None:
        (found,) = (file for file in files("sphinx-mathjax-offline") if file.as_posix().endswith("mathjax/tex-svg.js"))
        place = Path(app.outdir, "_static", "mathjax", "tex-svg.js")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found.locate(), place)


def quick_links() -> list[tuple[str, str, str]]:
    """(address from the top of this edition, its title, its language if it is another one) of pages beside these."""
    top = "" if LANGUAGE == "en" else "../"
    found = [(f"{top}explorer.html?lang={LANGUAGE}", WORDS["explorer"], "")]
    found.append(("book.html", WORDS["book"], ""))
    if LANGUAGE == "ko":
        found.append(("../index.html", WORDS["other"], "en"))
    elif HAS_KOREAN:
        found.append(("ko/index.html", WORDS["other"], "ko"))
    return found


html_context = {"quick_links": quick_links()}


def translate_theme(app) -> None:
    """Let the theme speak Korean where its own translation is missing."""
    said = WORDS.get("theme", {})
    gettext, ngettext = app.translator.gettext, app.translator.ngettext
    environment = app.builder.templates.environment
    environment.install_gettext_callables(lambda text: said.get(text) or gettext(text), ngettext, newstyle=True)


def fit_narrow_screens(app, name, template, context, doctree) -> None:
    """Let code wrap and tables stack on narrow screens."""
    if context.get("body"):
        context["body"] = narrow.page(context["body"], name)


def setup(app) -> None:
    """Called by Sphinx."""
    app.add_search_language(search.SearchWithKorean)
    app.connect("doctree-resolved", folds.fold)
    app.connect("html-page-context", fit_narrow_screens)
    if WORDS.get("theme"):
        app.connect("builder-inited", translate_theme)
    app.connect("build-finished", copy_mathjax)
