"""The answer to `minigpt explore`: which models, which text, what a page can hold of them, and where it goes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigpt.errors import InputError, shown
from minigpt.explorer import page, recorded, subject
from minigpt.explorer.entries import model_entry, tokenizer_entry
from minigpt.explorer.subject import Subject
from minigpt.jobs.option_fields import argument, option

SENTENCE = "Once upon a time there was a girl named Anna. She lost her red ball in the park."
PANELS = ("lens", "attention", "stream", "backward", "inspect", "mistakes", "depth")
OF_WORDS = ("lens", "backward", "mistakes")  # they show predictions, the loss, and what comes back from it


@dataclass(kw_only=True)
class ExploreOptions:
    """What `minigpt explore` can be told."""

    folder: str | None = argument(
        "a directory with a GPT-1 or GPT-2, or with --record of a relative (default: a small one of each of the two)",
        default=None, metavar="MODEL",
    )
    text: str = option(SENTENCE, "what the page shows first", metavar="TEXT")
    out: str = option("explorer.html", "the page to write", metavar="FILE", short="-o")
    record: bool = option(False, "of a model too large for a page: compute here, and show the numbers of this text")

    def check(self) -> None:
        """Raises InputError for values that cannot be, and for a place where no page can be written."""
        if not self.text.strip():
            raise InputError("--text is empty: give a sentence")
        try:
            self.text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"--text {shown(self.text)} is no UTF-8: type it again, or paste it") from error
        if not self.out:
            raise InputError("--out is empty: give the name of a file, such as explorer.html")
        if self.record and self.folder is None:
            raise InputError("--record: name a model; the two small ones compute in the page itself")
        page.check_place(Path(self.out))


def explore(
    options: ExploreOptions, say: Callable[[str], object] = print, site: dict[str, Any] | None = None
) -> Path:
    """Write the page, say what it holds, and return its path.

    site: of a page in the site of the course, where its links lead, as addresses from the page in each language:
    {"home": {"en": "index.html", "ko": …}, "lessons": {"attention": {"number": "03", "address": {"en": …, "ko": …}}}},
    a lesson for each panel that has one. A page that stands alone leads nowhere.
    Raises InputError for options that cannot be used, for a model that cannot be opened, is too large for a page or is
    neither GPT-1 nor GPT-2, and for a text that it cannot read. A page is written whole or not at all.
    """
    options.check()
    subjects = subject.shipped() if options.folder is None else [subject.given(options.folder, options.record)]
    for one in subjects:
        subject.check_text(options.text, one)
        subject.warn_of_unknown(options.text, one, say)
        if not one.model.tells_words:
            left_out = "the page shows its tokens, states, attention and norms, and no predictions, loss or gradients"
            say(f"{one.name} has no head for words: {left_out}")
    data = content(subjects, options.text, options.record) | {"site": site}
    path = Path(options.out)
    text = page.assemble(data)
    page.write(path, text)
    say(f"{path}: {subject.megabytes(len(text.encode()))} MB, {' and '.join(map(subject.described, subjects))}")
    say("now: open it in a browser; it needs no network")
    return path


def content(subjects: list[Subject], text: str, record: bool = False) -> dict[str, Any]:
    """What the script of the page reads, as values of JSON: models with their weights, or a recorded pass.

    panels: the names of those that it shows; kinds: see `page.words_of`.
    """
    tell_words = all(one.model.tells_words for one in subjects)
    panels = [name for name in PANELS if tell_words or name not in OF_WORDS]
    found: dict[str, Any] = {"text": text, "panels": panels, "models": [], "tokenizers": []}
    if record:
        passes = [recorded.record(one, text) for one in subjects]
        return found | {"recorded": passes, "kinds": recorded.kinds_of(passes)}
    for one in subjects:
        tokenizer = tokenizer_entry(one.tokenizer)
        if tokenizer not in found["tokenizers"]:
            found["tokenizers"].append(tokenizer)
        found["models"].append(model_entry(one) | {"tokenizer": found["tokenizers"].index(tokenizer)})
    return found | {"recorded": None, "kinds": []}
