"""The explorer's page in a browser: opened from the disk, ready, and watched until the end of a test."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from browser import watched

OPEN = "() => window.minigptExplorer.ready.then(() => true)"


def settled(page: Any) -> None:
    """Wait until what was chosen is drawn: the state changes at once, the drawing one or two frames later."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@contextlib.contextmanager
def visits(browser: Any, page_file: Path) -> Iterator[Callable[..., Any]]:
    """Yields a function that opens the page, or another file. At the end no page has asked for anything, or complained.

    Its arguments: ready: is it waited for? script: what runs before the page. still: its clock stands. Others are those
    of `browser.watched`.
    """
    contexts = []

    def open_page(
        file: Path = page_file, ready: bool = True, script: str = "", still: bool = False, **options: Any
    ) -> Any:
        context = watched(browser, **options)
        watch = context.__enter__()
        contexts.append((context, watch, file))
        if script:
            watch.page.add_init_script(script)
        if still:
            watch.page.clock.install()
        watch.page.goto(file.as_uri())
        if ready:
            assert watch.page.evaluate(OPEN)
        if still:
            watch.page.clock.pause_at(watch.page.evaluate("() => Date.now()") / 1000 + 1)
        return watch.page

    yield open_page
    for context, watch, file in contexts:
        elsewhere, complaints = watch.elsewhere(file.as_uri()), watch.complaints
        context.__exit__(None, None, None)
        assert elsewhere == [] and complaints == []
        assert watch.requests[0] == file.as_uri()
