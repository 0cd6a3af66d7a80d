"""The search of the site finds Korean words with and without particles: 기울기 where a page says 기울기를.

Sphinx compares whole words. Here a page and a query are split in the same way, in Python and in JavaScript: each word
loses the particles at its end. What is left may be no word, but it is the same on both sides.
"""

import re

from sphinx.search import SearchEnglish

AFTER_ONE = "을|를|은|는|에서|으로|에는"  # cut off behind one syllable or more
AFTER_TWO = (  # behind two syllables or more, or behind a Latin letter or a digit
    "이|가|의|에|에게|와|과|로|도|만|들|나|라|란|까지|부터|보다|처럼|마다|조차|밖에|만큼|이나|이란|이라|이라는|라는|라고|이라고"
    "|입니다|이다|이고|이며|이면|이므로|이지만|인|일|한|할|함|합니다|된|될|됨|됩니다|(?:하|되)[가-힣]{0,3}"
)
PARTICLES = (
    f"(?:(?<=[가-힣])(?:{AFTER_ONE})"
    f"|(?:(?<=[가-힣]{{2}})|(?<=[A-Za-z0-9]))(?:{AFTER_ONE}|{AFTER_TWO})(?:{AFTER_ONE}|{AFTER_TWO})*)$"
)
SPLIT = """
var splitQuery = (query) => query
  .split(/[^\\p{Letter}\\p{Number}_]+/u)
  .map((word) => word.replace(/%s/u, ""))
  .filter((word) => word);
"""


class SearchWithKorean(SearchEnglish):
    """English words by their stems, Korean words without their particles."""

    lang = "en-ko"
    js_splitter_code = SPLIT % PARTICLES

    def split(self, text: str) -> list[str]:
        return [re.sub(PARTICLES, "", word) for word in super().split(text)]
