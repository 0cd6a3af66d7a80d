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


def first_column(line: str) -> str:
    """A line of code up to a gap of three spaces, behind which there may be words."""
    return re.split(r"(?<=\S) {3,}", line)[0]


NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
LARGE_ENGLISH = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
LARGE_KOREAN = {"천": 1e3, "만": 1e4, "억": 1e8}
IN_WORDS = dict(
    zero="0", no="0", one="1", single="1", once="1", first="1", a="1", two="2", both="2", twice="2", second="2",
    half="2", three="3", third="3", thirds="3", mirrored="0", four="4", quarter="4", five="5", six="6", seven="7", eight="8", nine="9", ten="10",
    tenth="10", eleven="11", twelve="12", twenty="20", hundred="100", thousand="1000", million="1000000",
)  # fmt: skip


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
    words = {IN_WORDS.get(word) for word in re.findall("[a-z]+", english.lower())}
    found = [f"number lost: {number}" for number in mine - others]
    return found + [f"number added: {number}" for number in others - mine if number not in words]


# --- is it Korean? ---------------------------------------------------------------------------------------------------

ENGLISH_WORDS = re.compile(
    r"(?<![\w\"'-])(the|of|is|are|was|and|with|for|that|this|it|its|from|we|you|which|not|into|when)(?![\w\"'-])"
)
QUOTED = re.compile(r"\"[^\"]*\"|\*[^*가-힣]*\*")
WORD = re.compile(r"(?<![\w-])[a-z]{3,}(?![\w-])")  # not a name, which has a capital letter
MANY = 6  # English words in a paragraph: then there are at least twice as many syllables of Hangul
TRANSLATED_STYLE = re.compile(r"당신|그것은|그것들|[가-힣]어지게 되|되어지|되어진|보여지|에 의해(?! )|지게 됩니다|[어아해세에예네]요[.?!]")


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
    "gradient": {"경사 하강법"}, "projection": {"사영"}, "target": {"목표"}, "clipping": {"클리핑"}, "warm-up": {"워밍업"},
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
NO_PARTICLE = set(  # words that end so
    "모은 결과 효과 초과 통과 사과 증가 평가 추가 차이 사이 길이 높이 깊이 너비 나이 많이 같이 거의 가까이 나란히 따로 서로 바로 "
    "그대로 새로 스스로 실제로 별로 먼저 이 가 로 와 과 은 을 또는 대로 마음대로 하나하나 앞으로 도로 차례로 나아가 함께이 "
    "거꾸로 종이 회로 경로 통로 제대로 멋대로 절대로 오로 홀로 주로 학과 조각이 나와 도와 들어와 가져와 돌아와 다가와 "
    "의미가 아이 놀이 풀이 덧붙이 붙이 빠르 되풀이 보이 쓰이 움직이 줄이 높이 모이 섞이 밀리 들이 기울이 더이 끌어와 넘어와 "
    "이야기와 국가 전문가 대가 누군가 무언가 언젠가 인가 는가 하는가 한가 있는가 가능한가 비슷한가 나아가 들어가 올라가 내려가 "
    "돌아가 지나가 나가 넘어가 따라가 되돌아가 가 거쳐가 더해가 흘러가 걸어가 다음과 이와 그와 높게이 떨어져이 가을 마을 노을"
    .split()
)  # fmt: skip
VOWEL, CONSONANT, RIEUL = "", "C", "ㄹ"
LETTERS = {**dict.fromkeys("lLrR", RIEUL), **dict.fromkeys("mMnN", CONSONANT)}
DIGITS = {**dict.fromkeys("178", RIEUL), **dict.fromkeys("036", CONSONANT)}
WORDS = {  # how a word in Latin letters ends where it is read aloud
    CONSONANT: "out dout top mean run norm step at hot hat onehot target tom embedding attn attention flashattention "
    "zhang adam down own up pop token main nan learn n_head epsilon plan transformation in gain span sin log lion",
    RIEUL: "total gimpel model scale tensorflow_l cell label l",
    VOWEL: "linear key picked rows check square plus parts seed loss exp erf weight share reshape transpose rate milk "
    "happy ledger ops gradcheck gradient backward allclose numpy cupy pytorch openai face press hendrycks kingma adamw "
    "loshchilov albert mlp gelu relu gb mb eps rstd std lse softmax cache forward py ids normalizer lr tanh var "
    "folder words rust windows conv1d compare parameters entropy new place added mask past tokens accumulate x_hat attn_c c_proj proj block sameness ann "
    "beta phi varphi lambda mu sigma theta pi alpha gamma tau top_k float keep mia bert dropout_ backwards ln",
}
SOUND = {word: sound for sound, words in WORDS.items() for word in words.split()}
SOUND.update({"x_hat": CONSONANT, "ln": CONSONANT, "lr": RIEUL, "ann": CONSONANT, "block": CONSONANT})


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
        is_hangul = bool(HANGUL.match(word[-1]))
        if word + form in NO_PARTICLE or is_hangul and form in ("는", "이", "이라고", "라고", "가", "로"):
            continue  # 있는, 높이, 이것이라고: endings and words of other kinds
        heard = sound(word)
        if heard is None:
            found.append(f"how does {word} end? Add it to WORDS")
        elif form in ("으로", "로"):
            found += [] if (form == "으로") == (heard == CONSONANT) else [word + form]
        elif (form in AFTER_CONSONANT) != bool(heard):
            found.append(word + form)
    return found
