"""The check of the site finds each kind of fault by its name; and the built site has none.

`MINIGPT_SITE` names the folder of a built site. Without it the site itself is not checked here; with
`MINIGPT_NEED_SITE=1` that is a failure.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest
from browser import chromium
from helpers import each

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "lessons" / "site"))

import check  # noqa: E402
from checks import files, pages  # noqa: E402

HEAD = '<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>A page</title>{head}</head><body>'
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
RIGHT = f"""<h1 id="one">One</h1><p>Text with <a href="other.html#two">a link</a>, <a href="https://example.org/">one
that is followed outside</a>, <code>$$ \\frac</code>, <a href="#one">an anchor</a>.</p><h2>Two</h2><h3>Three</h3>
<img src="{PNG}" alt="a dot"><pre style="overflow-x: auto"><code>{"x = 1; " * 300}</code></pre>
<p style="color: #777; font-size: 30px">Large text may be paler.</p>
<div style="background: #000">
<div style="background: rgb(255 255 255 / 0.9)"><p>On grey</p></div></div>"""


def put(folder: Path, name: str, body: str, language: str = "en", head: str = "") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = HEAD.format(language=language, head=head) + body + "</body></html>"
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def site(tmp_path) -> Path:
    """A site of three pages with nothing wrong."""
    put(tmp_path, "index.html", RIGHT)
    put(tmp_path, "other.html", '<h1>Other</h1><h2 id="two">Two</h2><p><a href="ko/index.html">Korean</a></p>')
    put(tmp_path, "ko/index.html", '<h1>하나</h1><p><a href="../index.html#one">English</a></p>', "ko")
    return tmp_path


# --- without a browser ---------------------------------------------------------------------------------------------


def test_a_site_with_nothing_wrong(site):
    assert files.check(site) == []


IN_FILES = {  # what is added to the page: what the fault says
    '<a href="missing.html">x</a>': "line 1: broken link: missing.html",
    '<a href="other.html#three">x</a>': "line 1: broken anchor: other.html#three",
    '<a href="#three">x</a>': "line 1: broken anchor: #three",
    '<a href="/other.html">x</a>': "line 1: broken link: /other.html begins at the root of the host, so it works from"
    " one address only",
    '<a href="ko/">x</a>': "line 1: broken link: ko/ is a folder, which has no page when it is opened from a disk",
    '<a href="../x.html">x</a>': "line 1: broken link: ../x.html leaves the site",
    '<a href="note%20book.ipynb">x</a>': "line 1: broken link: note%20book.ipynb",
    '<img src="dot.png" alt="a dot">': "line 1: broken link: dot.png",
    '<img srcset="dot.png 2x" src="ko/index.html" alt="a dot">': "line 1: broken link: dot.png",
    f'<img src="{PNG}">': f"missing alt text: {PNG[:80]}",
    f'<img src="{PNG}" alt="">': f"missing alt text: {PNG[:80]}",
    f'<img src="{PNG}" alt="../_images/dot.png">': "alt text is the name of a file: ../_images/dot.png",
    '<script src="https://example.org/x.js"></script>': "line 1: outside request: https://example.org/x.js",
    '<img src="//example.org/x.png" alt="x">': "line 1: outside request: //example.org/x.png",
    '<link rel="stylesheet" href="https://example.org/x.css">': "line 1: outside request: https://example.org/x.css",
    '<p style="background: url(https://example.org/x.png)">x</p>': "in a style: outside request:"
    " https://example.org/x.png",
    "<style>@import 'missing.css';</style>": "in a style: broken link: missing.css",
    '<iframe src="other.html"></iframe>': "line 1: a frame without a title",
    "<h1>Two</h1>": "2 headings h1, expected one",
    "<h2>Two</h2><h4>Four</h4>": "heading h4 follows h2",
    '<p id="one">x</p><p id="one">x</p>': "id twice: one",
    f'<img srcset="" src="{PNG}" alt="a dot">': "line 1: srcset names no picture",
    '<a href="http://[x">x</a>': "line 1: broken link: http://[x cannot be followed: Invalid IPv6 URL",
    f'<a href="{"x" * 5000}">x</a>': f"line 1: broken link: {'x' * 80} cannot be followed: File name too long",
    '<a href="a%00b">x</a>': "line 1: broken link: a%00b cannot be followed: embedded null byte",
    "<![x": "cannot be read: unknown status keyword 'x' in marked section",
}


@pytest.mark.parametrize("added", IN_FILES)
def test_a_fault_in_a_file_is_found(site, added):
    put(site, "other.html", f'<h1>Other</h1><h2 id="two">Two</h2>{added}')
    assert files.check(site) == [files.Fault("other.html", IN_FILES[added])]


def test_a_srcset_may_hold_commas_and_sizes():
    assert files.in_srcset(" a.png, b.png 2x ,c.png 3x,") == ["a.png", "b.png", "c.png"]
    assert files.in_srcset(f"{PNG} 1x, b.png 2x") == [PNG, "b.png"]
    assert files.in_srcset(" , ") == []


def test_what_is_no_page_is_a_fault_and_all_others_are_found_too(site, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "x.html"
    outside.write_text("a page", encoding="utf-8")
    (site / "a.html").mkdir()
    (site / "b.html").write_bytes(b"caf\xe9")
    (site / "c.html").symlink_to(outside)
    (site / "d.html").symlink_to(site / "gone.html")
    (site / "e.css").mkdir()
    (site / "f.css").write_bytes(b"caf\xe9")
    put(site, "other.html", '<h1>Other</h1><p id="two"><a href="missing.html">x</a></p>')
    found = {str(fault) for fault in files.check(site)}
    assert found >= {
        "a.html  is no file, but its name ends like that of one: .html",
        "b.html  is not UTF-8: byte 3 is 0xe9",
        "c.html  is a link to a file outside the site",
        "d.html  is a link to a file that is not there",
        "e.css  is no file, but its name ends like that of one: .css",
        "f.css  is not UTF-8: byte 3 is 0xe9",
        "other.html  line 1: broken link: missing.html",
    }
    assert [path.name for path in files.html_files(site)] == ["b.html", "index.html", "index.html", "other.html"]


def test_a_page_in_the_wrong_language_and_one_without_title(site):
    put(site, "ko/index.html", "<h1>One</h1>", "en")
    (site / "other.html").write_text('<html lang="en"><h1 id="two">x</h1></html>', encoding="utf-8")
    found = [str(fault) for fault in files.check(site)]
    assert found == ["ko/index.html  language is 'en', expected 'ko'", "other.html  no title"]


def test_a_style_sheet_that_loads_from_outside(site):
    sheet = (
        "/* url(https://example.org/no) */ @font-face { src: url('https://example.org/font.woff2'); } p { color: red }"
    )
    (site / "style.css").write_text(sheet, encoding="utf-8")
    assert [str(fault) for fault in files.check(site)] == [
        "style.css  in a style: outside request: https://example.org/font.woff2"
    ]


def test_the_command_says_what_is_wrong_and_its_status_is_1(site, capsys):
    assert check.main([str(site), "--no-browser"]) == 0
    put(site, "other.html", '<h1>Other</h1><p id="two"><a href="missing.html">x</a></p>')
    assert check.main([str(site), "--no-browser"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "other.html  line 1: broken link: missing.html"
    assert lines[2].startswith("3 pages, 1 fault, ")


def test_a_folder_without_a_site_is_refused_in_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        check.main([str(tmp_path)])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("it has no index.html; build it first")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--only", "typo"], "no page has this in its name"),
        (["--no-browser", "--screenshots", "x"], "leave out --no-browser"),
        (["--no-browser", "--only", "other"], "leave out --no-browser"),
        (["--screenshots", "other.html"], "File exists; give the name of a folder"),
    ],
)
def test_an_option_that_cannot_be_followed_is_refused(given, said, site, monkeypatch, capsys):
    monkeypatch.chdir(site)
    with pytest.raises(SystemExit) as ended:
        check.main([".", *given])
    assert ended.value.code == 2 and said in capsys.readouterr().err.splitlines()[-1]


def test_only_pages_of_the_site_are_counted_by_their_names_in_it(tmp_path, monkeypatch, capsys):
    put(tmp_path / "st", "index.html", RIGHT)
    put(tmp_path / "st", "list.html", RIGHT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check, "in_browser", lambda site, only, screenshots: [])
    check.main(["st", "--only", "st"])
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 page, ")


@pytest.mark.parametrize("program", ["none", "false"])
def test_without_a_browser_the_status_is_2(program, site, tmp_path, monkeypatch, capsys):
    pytest.importorskip("playwright", reason="playwright is not installed (extra site)")
    false = shutil.which("false")
    if program == "false" and not false:
        pytest.skip("this system has no program that fails")
    monkeypatch.setenv("MINIGPT_CHROMIUM", false if program == "false" else str(tmp_path / "none"))
    assert check.main([str(site)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("check: ") and "MINIGPT_CHROMIUM can name" in said and said.count("\n") == 1


def test_an_interrupted_check_is_one_line(site, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(check.files, "check", interrupted)
    assert check.main([str(site), "--no-browser"]) == 130
    assert capsys.readouterr().err == "check: interrupted\n"


# --- in a browser --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.mark.slow
def test_pages_with_nothing_wrong(site, browser):
    assert pages.check(browser, site) == []


def seen(what: str, widths=(390, 1280), themes=("light", "dark")) -> set[tuple]:
    """A fault as it is found at each of these widths in each of these themes."""
    return {(what, width, theme) for width in widths for theme in themes}


DARK = "<style>@media (prefers-color-scheme: dark) { body { background: #111 } h1, h2 { color: #333 } }</style>"
SIDEWAYS = "<div style='width: 600px; background: #eee'>wide</div>"
IN_PAGES = {  # what is added to a page: what is found at which widths and in which themes
    "<script>console.error('no')</script>": {("console error: no", None, "")},
    "<script>console.warn('no')</script>": {("console warning: no", None, "")},
    "<script>throw new Error('no')</script>": {("console error: no", None, "")},
    "<p style='color: #999'>pale</p>": seen('contrast 2.85: p "pale"'),
    "<p style='opacity: 0.5'>faded</p>": seen('contrast 3.98: p "faded"'),
    "<p style='background: linear-gradient(#fff, #222)'>on two</p>": seen('contrast 1.32: p "on two"'),
    "<svg width='99' height='40'><rect width='99' height='40' fill='#444'/><text y='20'>drawn</text></svg>": seen(
        'contrast 2.16: text "drawn"'
    ),
    DARK: seen('contrast 1.49: h1 "Other"', themes=["dark"]) | seen('contrast 1.49: h2#two "Two"', themes=["dark"]),
    "<p>where \\(x^2\\) is</p>": seen('raw TeX: p "where \\(x^2\\) is"'),
    "<mjx-merror data-mjx-error='Undefined'>x</mjx-merror>": seen("TeX error: Undefined"),
    SIDEWAYS: seen('scrolls sideways: the page is 608 px wide, because of div "wide"', widths=[390]),
    f"<div style='overflow-x: auto'>{SIDEWAYS}</div>": seen('scrolls sideways: div "wide"', widths=[390]),
    "<script>document.body.append(new Image()); document.images[0].src = 'data:,'</script>": (
        seen("picture not loaded: data:,") | seen("missing alt text: data:,")
    ),
}


@pytest.fixture(scope="module")
def found_in_pages(browser, tmp_path_factory) -> dict[str, set]:
    """{what was added to a page: the faults that were found there}, of a site with a page for each."""
    site = tmp_path_factory.mktemp("pages")
    pages_of = {f"{number:02}.html": added for number, added in enumerate([*IN_PAGES, ""])}
    for name, added in pages_of.items():
        put(site, name, f'<h1>Other</h1><h2 id="two">Two</h2>{added}')
    found = {added: set() for added in pages_of.values()}
    for fault in pages.check(browser, site):
        if not fault.what.startswith("from the disk: "):
            found[pages_of[fault.page]].add((fault.what, fault.width, fault.theme))
    return found


@pytest.mark.slow
@each("added", ["", *IN_PAGES])
def test_a_fault_of_a_page_is_found(added, found_in_pages):
    """And none of a page before it: one tab opens all of them."""
    assert found_in_pages[added] == IN_PAGES.get(added, set())


OUTSIDE = {
    "<script>fetch('http://example.org/x').catch(() => {})</script>": "outside request: http://example.org/x",
    "<img src='https://example.org/x.png' alt='x'>": "outside request: https://example.org/x.png",
    "<link rel='stylesheet' href='missing.css'>": "missing file (404): missing.css",
}


@pytest.mark.slow
@pytest.mark.parametrize("added", OUTSIDE)
def test_a_request_to_another_host_or_for_a_missing_file_is_found(site, browser, added):
    put(site, "other.html", f'<h1>Other</h1><h2 id="two">Two</h2>{added}')
    assert OUTSIDE[added] in {fault.what for fault in pages.check(browser, site, only="other")}


@pytest.mark.slow
def test_what_works_from_a_server_alone_is_found(site, browser):
    """A module in a file of its own is not loaded from a disk."""
    (site / "x.js").write_text("export const x = 1;", encoding="utf-8")
    put(site, "other.html", '<h1>Other</h1><h2 id="two">Two</h2><script type="module" src="x.js"></script>')
    found = pages.check(browser, site, only="other")
    assert found and all(fault.what.startswith("from the disk: ") for fault in found)


@pytest.mark.slow
def test_the_book_is_looked_at_once_and_its_faults_are_found(site, browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("screenshots")
    put(site, "book.html", f"<h1>Book</h1>{SIDEWAYS}")
    found = pages.check(browser, site, only="book", screenshots=folder)
    assert {(fault.what, fault.width, fault.theme) for fault in found} == IN_PAGES[SIDEWAYS] - seen(
        'scrolls sideways: the page is 608 px wide, because of div "wide"', [390], ["dark"]
    )
    assert [path.name for path in folder.iterdir()] == ["book-390-light.png"]


@pytest.mark.slow
def test_screenshots_are_kept(site, browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("screenshots")
    pages.check(browser, site, only="ko/", screenshots=folder)
    expected = {f"ko-index-{width}-{theme}.png" for width in (390, 1280) for theme in ("light", "dark")}
    assert {path.name for path in folder.iterdir()} == expected


FOLDS = """<!doctype html><meta charset="utf-8"><script src="folds.js"></script>
<a href="#deep">there</a> <a href="#inside">inside</a>
<article><section id="deep"><details class="deeper"><summary>Deep</summary><p id="inside">x</p></details></section>
<section id="other"><details class="deeper"><summary>Other</summary><p>y</p></details></section></article>
"""


@pytest.mark.slow
def test_a_link_into_a_fold_opens_it_and_paper_opens_all(browser, tmp_path):
    script = Path(__file__).parent.parent / "lessons" / "site" / "static" / "folds.js"
    (tmp_path / "folds.js").write_bytes(script.read_bytes())
    (tmp_path / "page.html").write_text(FOLDS, encoding="utf-8")
    page, address = browser.new_page(), (tmp_path / "page.html").as_uri()

    def opened():
        return page.eval_on_selector_all("details", "all => all.map(one => one.open)")

    for target in ("deep", "inside"):
        page.goto("about:blank")
        page.goto(address)
        assert opened() == [False, False]
        page.click(f"a[href='#{target}']")
        page.wait_for_function("document.querySelector('details').open", timeout=5000)
        page.evaluate("document.querySelector('details').open = false")
        page.click(f"a[href='#{target}']")  # the same link once more
        page.wait_for_function("document.querySelector('details').open", timeout=5000)
        page.goto("about:blank")
        page.goto(f"{address}#{target}")
        assert opened() == [True, False]
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened() == [True, True]
    page.close()


@pytest.mark.slow
def test_nothing_is_wrong_with_the_built_site(browser):
    named = os.environ.get("MINIGPT_SITE")
    if not named or not (Path(named) / "index.html").is_file():
        reason = f"MINIGPT_SITE is {named!r}: it names the folder of a built site"
        if os.environ.get("MINIGPT_NEED_SITE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    site = Path(named)
    faults = [*files.check(site), *pages.check(browser, site)]
    assert not faults, "\n".join(map(str, faults))
