"""Deeper parts of a lesson as folds of its page: a section whose title opens and closes it.

`notebooks.py` marks such a section by a container of the class `deeper` below its title, whose words say how long it
takes to read. `static/folds.js` opens a fold into which a link leads.
"""

from docutils import nodes

OPENED = '<details class="deeper"><summary>'
CLOSED = "</details>"


def fold(app, doctree, name: str) -> None:
    """Put what is below the title of each marked section into a fold."""
    for mark in list(doctree.findall(nodes.container)):
        if "deeper" in mark["classes"]:
            section = mark.parent
            title, *below = [child for child in section.children if child is not mark]
            minutes = f'<span class="minutes">{mark.astext()}</span></summary>'
            section.children = []
            section.extend([html(OPENED), title, html(minutes), *below, html(CLOSED)])


def html(text: str) -> nodes.raw:
    """A piece of HTML among other nodes."""
    return nodes.raw("", text, format="html")
