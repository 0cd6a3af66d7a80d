"""What can be told of a Korean translation by a program: its formulas, code, numbers, terms, particles, and its style.

Each function returns faults, a line for each: an empty list is what a good translation gives.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from glossary import rows

DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"\$([^$]+)\$")
SPAN = re.compile(r"`([^`]+)`")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HANGUL = re.compile("[가-힣]")
ADDRESS = re.compile(r"\]\([^)]*\)|<!--.*?-->|<[^>]*>", re.DOTALL)


# --- parts of a text -------------------------------------------------------------------------------------------------


def code_blocks(text: str) -> list[str]:
    """Blocks that are indented by four spaces below an empty line, and fenced ones."""
    found = FENCED.findall(text)
    lines = ["", *FENCED.sub("", text).splitlines()]
    block: list[str] = []
    for before, line in zip(lines, lines[1:], strict=False):
        is_code = line.startswith("    ") and (block or not before.strip())
        if is_code:
            block.append(line)
        elif block:
            found.append("\n".join(block))
            block = []
    return [*found, "\n".join(block)] if block else found


def formulas(text: str) -> Counter:
    """How often each formula occurs, displayed or in a line, without white space and the words in it."""
    left = prose_with_formulas(text)
    found = DISPLAY.findall(left) + INLINE.findall(DISPLAY.sub("", left))
    return Counter(re.sub(r"\s", "", re.sub(r"\\text\{[^}]*\}", r"\\text{}", formula)) for formula in found)


def spans(text: str) -> Counter:
    """How often each piece of code between backticks occurs."""
    return Counter(" ".join(span.split()) for span in SPAN.findall(without_blocks(text)))


def without_blocks(text: str) -> str:
    """The text without its blocks of code."""
    for block in code_blocks(text):
        text = text.replace(block, "")
    return text


def prose_with_formulas(text: str) -> str:
    """The text without code and without the addresses of links."""
    return SPAN.sub("", ADDRESS.sub("] ", without_blocks(text)))


def prose(text: str) -> str:
    """The text without code, formulas and addresses."""
    return INLINE.sub("", DISPLAY.sub("", prose_with_formulas(text)))


# --- formulas, code and numbers --------------------------------------------------------------------------------------


def other_formulas(english: str, korean: str) -> list[str]:
    """Formulas and pieces of code that one of the texts has more often. The words of a block of code may be Korean."""
    found = []
    for name, part in (("formula", formulas), ("code", spans)):
        mine, others = part(english), part(korean)
        found += [f"{name} lost: {text}" for text in mine - others]
        found += [f"{name} added: {text}" for text in others - mine]
    both = [code_blocks(text) for text in (english, korean)]
    if [list(map(first_column, block.splitlines())) for block in both[0]] != [
        list(map(first_column, block.splitlines())) for block in both[1]
    ]:
        found.append("a block of code is another one")
    return found


OPERATION = re.compile(r"([^\s|]+) ([-=+*/@<>]) (?=([^\s|]+))")
ITEM = re.compile(r"^ *(?:-|\*|\d\.) ", re.MULTILINE)


def operations(text: str) -> Counter:
    """How often each operation stands in the prose without TeX, with what is left and right of it: ("1", "-", "p")."""
    found = OPERATION.findall(" ".join(ITEM.sub("", prose(text)).split()))
    return Counter((operand(left), sign, operand(right)) for left, sign, right in found)


def operand(word: str) -> str:
    """What stands beside an operation, without brackets and particles; nothing where it is a word of a language."""
    name = re.sub(r"[가-힣].*", "", re.sub(r"^.*[가-힣]\(", "", word)).strip("().,;:?!*")
    return "" if re.fullmatch("[a-z]{3,}", name) else name


def other_operations(english: str, korean: str) -> list[str]:
    """Operations in the prose without TeX that one of the texts has more often."""
    mine, others = operations(english), operations(korean)
    found = [f"operation lost: {' '.join(operation)}" for operation in mine - others]
    return found + [f"operation added: {' '.join(operation)}" for operation in others - mine]


def first_column(line: str) -> str:
    """A line of code up to a gap of three spaces, behind which there may be words."""
    return re.split(r"(?<=\S) {3,}", line)[0]


NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
LARGE_ENGLISH = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
LARGE_KOREAN = {"천": 1e3, "만": 1e4, "억": 1e8}
IN_WORDS = {  # the number that an English word may become in figures
    "0": "zero no none mirrored", "1": "a one single once first", "2": "two both twice second half",
    "3": "three third thirds", "4": "four quarter", "5": "five", "6": "six", "7": "seven", "8": "eight", "9": "nine",
    "10": "ten tenth", "11": "eleven", "12": "twelve", "20": "twenty", "100": "hundred", "1000": "thousand",
}  # fmt: skip


def numbers(text: str, large: dict[str, float]) -> Counter:
    """How often each number occurs in the prose, as Python writes it; 116 million and 1억 1,600만 are 116000000."""
    unit = "|".join(large)
    text = " ".join(prose(text).split())
    values: list[float] = []
    end = -1  # where the last number with a unit ended: 1억 1,600만 is one number
    for match in re.finditer(rf"({NUMBER.pattern})(?: ?({unit})(?![a-z]))?", text):
        is_only = large is LARGE_KOREAN and "." in match[1]  # 0.5만: only 0.5
        value = float(match[1].replace(",", "")) * (1 if is_only else large.get(match[2], 1))
        if large is LARGE_KOREAN and text[end : match.start()] == " ":
            values[-1] += value
        else:
            values.append(value)
        end = match.end() if match[2] else -1
    return Counter(f"{value:.12g}" for value in values)


def other_numbers(english: str, korean: str) -> list[str]:
    """Numbers that one of the texts has more often. Korean may write in figures what is a word in English."""
    mine, others = numbers(english, LARGE_ENGLISH), numbers(korean, LARGE_KOREAN)
    words = set(re.findall("[a-z]+", english.lower()))
    in_words = {figure for figure, names in IN_WORDS.items() if words & set(names.split())}
    found = [f"number lost: {number}" for number in mine - others]
    return found + [f"number added: {number}" for number in others - mine if number not in in_words]


# --- is it Korean? ---------------------------------------------------------------------------------------------------

ENGLISH_WORDS = re.compile(
    r"(?<![\w\"'-])(the|of|is|are|was|and|with|for|that|this|it|its|from|we|you|which|not|into|when)(?![\w\"'-])"
)
QUOTED = re.compile(r"\"[^\"]*\"|\*[^*가-힣]*\*")
WORD = re.compile(r"(?<![\w-])[a-z]{3,}(?![\w-])")  # not a name, which has a capital letter
MANY = 6  # English words in a paragraph: then there are at least twice as many syllables of Hangul
TRANSLATED_STYLE = re.compile(
    r"당신|그것은|그것들|[가-힣]어지게 되|되어지|되어진|보여지|에 의해(?! )|지게 됩니다|[어아해세에예네]요[.?!]"
)


def not_korean(korean: str) -> list[str]:
    """Words and paragraphs that are still English, and expressions that no textbook uses."""
    found = []
    for paragraph in re.split(r"\n\s*\n", prose(korean)):
        said = QUOTED.sub("", paragraph)
        found += [f"an English word: {word}" for word in ENGLISH_WORDS.findall(said)]
        words = len(WORD.findall(said))
        if words >= MANY and len(HANGUL.findall(said)) < 2 * words:
            found.append(f"a paragraph that is hardly Korean: {paragraph.strip()[:60]}")
    found += [f"not the style of a textbook: {words}" for words in TRANSLATED_STYLE.findall(prose(korean))]
    return found


def lost_emphasis(korean: str) -> list[str]:
    """Signs of emphasis that Markdown does not read: **(x)**는, where a bracket is inside and a syllable outside."""
    found = []
    text = prose_with_formulas(without_blocks(korean).replace("`", "\u2022"))
    text = re.sub(r"(?<=\s)\*(?=\s)", "", text)  # a product
    for paragraph in text.split("\n\n"):
        for pieces in (paragraph.split("**"), paragraph.replace("**", "").split("*")):
            for inside, outside in zip(pieces[1::2], pieces[2::2], strict=False):
                if re.search(r"[^\w\s]$", inside) and re.match(r"\w", outside):
                    found.append(f"emphasis that ends before a syllable: {inside[-20:]}*{outside[:8]}")
    return found


# --- terms -----------------------------------------------------------------------------------------------------------

ALSO = {  # what a term may be in Korean beside the words of the glossary
    "score": {"점수"}, "share": {"가중치", "몫"}, "attention weight": {"가중치"}, "saturated": {"포화"},
    "gradient": {"경사 하강법"}, "projection": {"사영"}, "target": {"목표"}, "clipping": {"클리핑"},
    "warm-up": {"워밍업"},
}  # fmt: skip
NOT_A_TERM = {  # English words that have another meaning as well
    "forward", "central", "share", "unit", "rank", "merge", "bit", "key", "head", "a", "tile", "queue", "context",
    "dout", "lse", "one-shot", "schedule", "span", "teacher", "student", "warp", "lane", "kernel",
}  # fmt: skip


@lru_cache
def terms() -> dict[str, set[str]]:
    """For each English term of the glossary its Korean words; an abbreviation stays one in Korean, too."""
    found: dict[str, set[str]] = {}
    for english, korean, _, _ in rows():
        mine, others = parts(english), parts(korean)
        for number, names in enumerate(mine):
            pairs = others[number] if len(mine) == len(others) else set().union(*others)
            for name in names:
                kept = {name} if re.search("[A-Z].*[A-Z]|^Adam$", name) else set()
                found[name] = pairs | kept | ALSO.get(name, set())
    return found


def parts(term: str) -> list[set[str]]:
    """The words of each part of a term: "순전파, 역전파" has two parts, "매개변수(파라미터)" one of two words."""
    term = re.sub(r"\(of [^)]*\)", "", term)
    found = []
    for part in re.split(r"[,:·]", term):
        words = re.split(r"[()]", part.replace("`", ""))
        found.append({word.strip() for word in words if word.strip()})
    return found


def other_terms(english: str, korean: str) -> list[str]:
    """Terms of the glossary in the English prose whose Korean words the Korean prose lacks."""
    mine, others = (" ".join(re.sub(r"[*_]", "", prose(text)).split()) for text in (english, korean))
    mine = re.sub(r"\"[^\"]*\"", "", mine)  # what is quoted stays English
    found = []
    for term, words in terms().items():
        name = term if re.search("[A-Z]", term) else f"(?i:{re.escape(term)})"
        is_there = term not in NOT_A_TERM and re.search(rf"(?<![\w-]){name}(?:s|es)?(?![\w-])", mine)
        if is_there and not any(word in others for word in words):
            found.append(f"{term} is none of {sorted(words)}")
    return found


# --- particles -------------------------------------------------------------------------------------------------------

AFTER_CONSONANT = {"은": "는", "을": "를", "과": "와", "이": "가", "으로": "로", "이라고": "라고"}
PARTICLE = "이라고|라고|으로|은|는|을|를|과|와|이|가|로"
END = r"(?![가-힣])"
NO_PARTICLE = {"모은", "마을", "가을", "노을"}  # words that end so
VOWEL, CONSONANT, RIEUL = "", "C", "ㄹ"
LETTERS = {**dict.fromkeys("lLrR", RIEUL), **dict.fromkeys("mMnN", CONSONANT)}
DIGITS = {**dict.fromkeys("178", RIEUL), **dict.fromkeys("036", CONSONANT)}
WORDS = {  # how a word in Latin letters ends where it is read aloud
    CONSONANT: "activation at attention attn block down dropout epsilon flashattention hat learn logit mean nan norm "
    "onehot out own pop run step target tom top up zhang adam",
    RIEUL: "gimpel lr total",
    VOWEL: "accumulate adamw added albert allclose backward beta cache check compare conv1d entropy erf exp explore "
    "face folder forward gelu gradcheck gradient happy hendrycks ids key kingma lambda ledger linear loshchilov loss "
    "mask milk nest normalizer numpy openai parameters parts past phi picked place plus press proj pytorch ranks rate "
    "relu reshape rows rstd rust sameness second seed share softmax square tanh tokens transpose var weight windows "
    "words",
}
SOUND = {word: end for end, words in WORDS.items() for word in words.split()}


@lru_cache
def nouns() -> set[str]:
    """The Korean words of the glossary: what stands behind one of them is a particle."""
    return {word.split()[-1] for words in terms().values() for word in words if HANGUL.search(word)}


def sound(word: str) -> str | None:
    """What a word ends with where it is read aloud: nothing, "ㄹ", or another consonant; None where it is not known."""
    end = word[-1]
    if HANGUL.match(end):
        final = unicodedata.normalize("NFD", end)[2:]
        return VOWEL if not final else RIEUL if final == "\u11af" else CONSONANT
    if end.isdigit():
        return DIGITS.get(end, VOWEL)
    last = re.split(r"[_.]", word)[-1]
    for name in (word.lower(), last.lower(), last.lower().removeprefix("d")):
        if len(name) > 1 and name in SOUND:
            return SOUND[name]
    if len(last) <= 3 or last.isupper():
        return LETTERS.get(end, VOWEL)
    return None


def read_aloud(formula: str) -> str | None:
    """The last word of a formula or of a piece of code as it is read aloud; None where there are several ways."""
    if re.search(r"\^\\?top$|\^\{?T\}?$|\^\{?\\top\}?$", formula):
        return "전치"
    if re.search(r"\^(?:\w|\{[^{}]*\}|\{.*\})$", formula):
        return "제곱"
    if re.search(r"''?$", formula):
        return "프라임"
    if re.search(r"[/]|\\hat|\\frac|[+=*@]$", formula):
        return None
    formula = re.sub(r"\\(?:mathrm|mathbf|text|sqrt)|_(?=\{)|[{}]", " ", formula)
    found = re.findall(r"[A-Za-z_]\w*(?:\.\w+)*|\d+", formula)
    return found[-1] if found else None


def with_last_words(text: str) -> str:
    """The prose with the last word of each formula and of each piece of code in its place."""

    def word(match: re.Match) -> str:
        return read_aloud(match.group(1).strip()) or "\u2022"

    text = INLINE.sub(word, DISPLAY.sub("", SPAN.sub(word, ADDRESS.sub("] ", without_blocks(text)))))
    return re.sub(r"[*]", "", text)


def wrong_particles(text: str) -> list[str]:
    """Words whose particle does not fit the sound before it, and words in Latin letters of which no sound is known."""
    found = []
    text = re.sub(r"(?<=[가-힣])\([^()]*\)(?=[가-힣])", "", with_last_words(text)).replace("%", "퍼센트")
    for word, form in re.findall(rf"(?<![가-힣\w])([가-힣]+?|[A-Za-z_][\w.]*?|\d[\d,.]*)({PARTICLE}){END}", text):
        is_other = HANGUL.match(word[-1]) and form not in ("은", "을", "를", "과", "와", "으로") and word not in nouns()
        if is_other or word + form in NO_PARTICLE:
            continue  # 있는, 높이, 바로: endings, and words of other kinds
        heard = sound(word)
        if heard is None:
            found.append(f"how does {word} end? Add it to WORDS")
        elif form in ("으로", "로"):
            found += [] if (form == "으로") == (heard == CONSONANT) else [word + form]
        elif (form in AFTER_CONSONANT) != bool(heard):
            found.append(word + form)
    return found
