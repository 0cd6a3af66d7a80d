"""The explorer's page in Chromium: its size, the time to its first picture, and the frames a second of its play.

    python benchmarks/explorer.py                                            # a minute; needs playwright and Chromium
    python benchmarks/explorer.py --picture lessons/pictures/explorer.webp   # records the picture of README.md, too

The picture is the play of GPT-2, a frame for each part: forward, a rest at the loss, and back.
"""

import argparse
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
from PIL import Image

from minigpt.explorer.job import ExploreOptions, explore

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from browser import chromium, watched

SIZES = {"wide": (1280, 800), "telephone": (390, 844)}
VISITS = 5
FRAME = 130  # milliseconds of a frame of the picture
REST = 1200  # at the loss, and at the end
WIDTH = 900  # pixels of the picture
READY = "() => window.minigptExplorer.ready.then(() => true)"
FIRST_PICTURE = """() => window.minigptExplorer.ready.then(() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))))"""
PLAY = """() => new Promise((done) => {
  const times = [];
  let before = performance.now();
  document.querySelector('[data-focus="stage.play"]').click();
  const look = () => {
    const now = performance.now();
    times.push(now - before);
    before = now;
    if (document.querySelector("#stage .play").classList.contains("strong")) done(times);
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


def measure(browser: Any, address: str, size: tuple[int, int]) -> dict[str, float]:
    """Milliseconds from the address to the first picture, the median of some visits, and frames of one play."""
    width, height = size
    first = []
    for _ in range(VISITS):
        with watched(browser, width=width, height=height) as watch:
            watch.page.goto(address)
            first.append(watch.page.evaluate(FIRST_PICTURE))
    with watched(browser, width=width, height=height) as watch:
        watch.page.goto(address)
        watch.page.evaluate(READY)
        times = sorted(watch.page.evaluate(PLAY))
    return {
        "first_picture_ms": round(sorted(first)[VISITS // 2]),
        "play_seconds": round(sum(times) / 1000, 1),
        "frames_per_second": round(1000 * len(times) / sum(times), 1),
        "slowest_of_20_ms": round(times[int(0.95 * len(times))], 1),
    }


def record(browser: Any, address: str, path: Path) -> None:
    """Write the play of GPT-2 as an animated picture."""
    frames, lasts = [], []
    with watched(browser, width=1280, height=900) as watch:
        watch.page.goto(address)
        watch.page.evaluate(READY)
        watch.page.evaluate("() => window.minigptExplorer.change({ shown: '1' })")
        last = int(watch.page.locator("#stage input").get_attribute("max"))
        for at in range(last + 1):
            watch.page.evaluate("(at) => window.minigptExplorer.change({ at, shown: '1' })", at)
            watch.page.wait_for_timeout(50)
            shot = Image.open(io.BytesIO(watch.page.locator("#stage .model-drawing").screenshot())).convert("RGB")
            frames.append(shot.resize((WIDTH, round(WIDTH * shot.height / shot.width)), Image.Resampling.LANCZOS))
            lasts.append(REST if at in (last // 2, last) else FRAME)
    first, *more = frames
    kind = {"save_all": True, "append_images": more, "duration": lasts, "loop": 0}
    first.save(path, quality=50, method=6, minimize_size=True, **kind)


def main() -> None:
    """Measure, print, and record what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where the animated picture goes, such as explorer.webp")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page = Path(folder) / "explorer.html"
        explore(ExploreOptions(out=str(page)), say=lambda line: None)
        print(f"{machine.processor()}: a page of {page.stat().st_size:,} bytes")
        for name, size in SIZES.items():
            print(f"{name}: {measure(browser, page.as_uri(), size)}")
        if given.picture:
            record(browser, page.as_uri(), given.picture)
            print(f"{given.picture}: {given.picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
