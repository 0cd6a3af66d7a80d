"""The search of the site: a Korean word is found with any particle, and Python and JavaScript split alike."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if os.environ.get("MINIGPT_NEED_SITE") != "1":
    pytest.importorskip("sphinx", reason="sphinx is not installed (extra site)")
SITE = Path(__file__).parent.parent / "lessons" / "site"
sys.path.append(str(SITE))

import search  # noqa: E402

FOUND = {  # what a page or a reader writes: what is compared
    "기울기를 기울기가 기울기만큼 기울기이며 기울기": "기울기",
    "어텐션 어텐션에서 어텐션에서의 어텐션만으로는 어텐션입니다": "어텐션",
    "역전파 역전파할 역전파하는 역전파됩니다": "역전파",
    "소프트맥스를 소프트맥스에": "소프트맥스",
    "손실 손실은 손실의": "손실",
    "값 값을 값은": "값",
    "온도 온도를 온도에서": "온도",
    "Adam을 Adam의 Adam": "Adam",
    "layernorm(LayerNorm, layernorm)은": None,  # each word stays as it is
}


def split(text: str) -> list[str]:
    return search.SearchWithKorean({}).split(text)


@pytest.mark.parametrize("text", FOUND)
def test_a_word_is_found_with_any_particle(text):
    found = split(text)
    assert set(found) == ({FOUND[text]} if FOUND[text] else {"layernorm", "LayerNorm", "은"})


def test_no_word_is_lost_and_none_grows():
    words = "이 그 을 를 차이 결과 언어 정의 최대 의의 가가 하나 하나의 03에서".split()
    assert all(len(split(word)) == 1 and word.startswith(split(word)[0]) and split(word)[0] for word in words)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_query_is_split_as_the_pages_are():
    pages = [path.read_text(encoding="utf-8") for path in sorted((SITE.parent / "ko").glob("0[39]_*.md"))]
    code = search.SearchWithKorean.js_splitter_code
    code += 'const text = require("fs").readFileSync(0, "utf-8"); console.log(JSON.stringify(splitQuery(text)));'
    for text in [*FOUND, *pages]:
        done = subprocess.run(["node", "-e", code], input=text, capture_output=True, encoding="utf-8", timeout=60)
        assert json.loads(done.stdout) == split(text), done.stderr
