"""Labelled tasks from the story world: six kinds of question whose answers follow from what a text tells.

    >>> from minigpt.data.stories import tasks
    >>> train = tasks.examples("entailment", 2000)           # a list of `minigpt.data.examples.Example`
    >>> test = tasks.examples("entailment", 500, split="test")

No single word gives an answer away. What decides is told in the text, who did what to whom, or it is what every reader
of the stories knows, which animal eats what: see `stories.scripts`. No sentence is ever in two splits: a checksum of
its text decides where it belongs, and each sentence of an example is drawn until it fits.
"""

import re
from itertools import product

from minigpt.data.examples import Example, Task
from minigpt.data.stories import VARIETY, story
from minigpt.data.stories import words as w
from minigpt.data.stories.scripts import KNOWING, SCRIPTS, TENTHS, Script, Stuck, others, sentences
from minigpt.data.stories.teller import PATTERNS, Chance
from minigpt.data.stories.world import Event, look_up
from minigpt.errors import InputError
from minigpt.files import sections

TASKS = {
    "acceptability": Task("classification", ("wrong", "right"), "matthews"),
    "sentiment": Task("classification", ("sad", "happy")),
    "entailment": Task("entailment", ("no", "yes")),
    "similarity": Task("similarity", ("different", "same"), "f1"),
    "endings": Task("choice"),
    "pronouns": Task("choice"),
}
MOST = 20_000
WORDS = 64  # of the longest example, with one choice
PATIENCE = 1000  # so many texts in a row that bring nothing new, and there are no more
STATES = ("has", "at", "lies", "in", "broken", "eats", "stored")  # what an entailment or a pronoun is about
ENDINGS = ("found", "inside", "give", "feed", "get")  # how a text can end

_TABLES = sections.read(__file__, "tasks.txt")
BOUND = set(_TABLES["bound"][0].split())
SAME = [(kind, pools.split()) for kinds, pools in (line.split(": ") for line in _TABLES["same"])
        for kind in kinds.split(", ")]


def examples(name: str, n: int, split: str = "train", seed: int = 0, variety: int = VARIETY) -> list[Example]:
    """The first `n` examples (1 to 20,000) of a task, all different; of every two, one has each label.

    A pure function of its arguments. split: train, valid or test; variety: 1 to 3, see `stories.story`. Raises
    InputError for what is out of range, and where the world has fewer than `n` examples.
    """
    if name not in TASKS:
        raise InputError(f"the story world has no task {name!r}: choose {', '.join(TASKS)}")
    if split not in TENTHS:
        raise InputError(f"unknown split {split!r}: choose one of {', '.join(dict.fromkeys(TENTHS))}")
    for what, value, *ends in (("size", n, 1, MOST), ("seed", seed, 0, 2**32 - 1), ("variety", variety, 1, VARIETY)):
        if not ends[0] <= value <= ends[1]:
            raise InputError(f"task {what} {value} is out of range: choose {ends[0]} to {ends[1]}")
    key = f"{name} {split} {seed} {variety}"
    script, coin = Script(key, variety, split, name == "pronouns"), Chance(key + " labels")
    first = [int(coin.chance(0.5)) for _ in range((n + 1) // 2)]
    made, misses = {}, 0
    while len(made) < n:
        script.clear()
        try:
            example = MAKERS[name](script, first[len(made) // 2] ^ len(made) % 2)
        except Stuck:
            example = None
        if example and example[::2] not in made and len(" ".join(example.texts + example.choices[1:]).split()) <= WORDS:
            made[example[::2]], misses = example, 0
        elif (misses := misses + 1) > PATIENCE:
            raise InputError(f"{name} has no more than about {len(made)} {split} examples at variety {variety}: ask for"
                             f" fewer, or for a variety up to {VARIETY}")
    return list(made.values())


def prompt(text: str) -> str:
    """What to put after a text of "sentiment" to ask for the mood of its child, happy or sad: " She was very"."""
    return f" {'She' if {one.name for one in w.GIRLS} & set(re.findall('[A-Z][a-z]+', text)) else 'He'} was very"


def _ask(t, names, say):
    """Tell a script, and say about it the true and the false state of a pair, both of such names."""
    pairs = [(a, b) for a, b in t.pick(SCRIPTS + 5 * KNOWING)(t) if a.how in names]
    if t.same_gender:
        pairs = [(a, b) for a, b in pairs if a.who is not b.who and a.who.gender == b.who.gender]
    for a, b in t.mixed(pairs):
        problems = t.world.problem(a), t.world.problem(b)
        if all(problems) or not any(problems):
            continue
        try:
            return say(b, a) if problems[0] else say(a, b)
        except Stuck:  # this split has no words for it: ask for something else
            pass
    raise Stuck


def _entailment(t, label):
    """A text, and a sentence that is true after it, or not. The false one is about the same people and things."""
    said = _ask(t, STATES, lambda true, false: t.alike(true if label else false))
    return Example((t.text(), *said), label)


def _pronouns(t, label):
    """A text, and its last sentence with each of two names where a pronoun of their gender would stand."""
    said = _ask(t, STATES, t.alike)
    return Example((t.text(),), label, said[::-1] if label else said)


def _endings(t, label):
    """A text, a question about it, and two sentences with which it could end."""
    def say(true, false):
        question = true._replace(kind="question", where=t.pick(others(w.FAMILY, true.who)))
        return t.alike(question) + t.alike(true, false)
    question, *said = _ask(t, ENDINGS, say)
    return Example((t.text(), question), label, tuple(said[::-1] if label else said))


LUCK = {"luck": ("gift", "found", "mended"), "loss": ("lost", "stolen", "broken", "wind")}


def _sentiment(t, label):
    """A child has luck with one thing, and none with another. What came last decides how it feels."""
    hero, _, place = t.scene()
    things = []
    for kind in ("loss", "luck") if label else ("luck", "loss"):
        how = t.pick(LUCK[kind])
        table = t.breakable if how in ("mended", "broken") else t.light if how == "wind" else t.things
        to = t.animals if how == "stolen" else w.FAMILY + w.WORKERS
        things.append(t(kind, hero, others(table, *things), to=to, where=w.SPOTS[place], how=how).what)
    return Example((t.text(),), label)


def _acceptability(t, label):
    """A sentence of a story, as it is, or with one small word one or two words further back than it can stand."""
    if not t.heard:
        t.heard = t.mixed(story(int(t.random() * 2**32), variety=t.variety or VARIETY).sentences)
    right = t.heard.pop().text
    words, far = right.split(" "), t.pick((1, 2))
    at = [i for i in range(1, len(words) - far)
          if words[i] in BOUND and not re.search(r'[.,!?"]', "".join(words[i:i + far]))]
    if not at or len(sentences(right)) > 1:
        raise Stuck
    i = t.pick(at)
    last, marks = re.fullmatch(r"(.*?)(\W*)", words[i + far]).groups()
    wrong = " ".join([*words[:i], *words[i + 1:i + far], last, words[i] + marks, *words[i + far + 1:]])
    if not (t.fits(right) and t.fits(wrong)):
        raise Stuck
    return Example((right if label else wrong,), label)


def _similarity(t, label):
    """Two sentences in different words: do they tell the same? If not, one role is another's, or two are exchanged."""
    kind, names = t.pick(SAME)
    kind, _, how = kind.partition(".")
    pools = dict(zip(Event._fields[1:], (getattr(t, name, None) for name in names), strict=False))
    event = t.draw(kind, *pools.values(), how)
    if pools["who"] is pools["to"] and t.chance(0.3):
        changed = event._replace(who=event.to, to=event.who)
    else:  # everything is another
        pools = {role: pool and tuple(one for one in pool if one not in event) for role, pool in pools.items()}
        changed = t.draw(kind, *pools.values(), how)
    t.known.update(filter(None, (*event[1:5], *changed[1:5])))
    roles = {role for role, pool in pools.items() if pool}
    ways = [[form for form in forms if {part[0] for part in form.parts if part.__class__ is tuple} == roles
             and ("what", "name") not in form.parts]  # "Here is your car" does not say which
            for forms in look_up(PATTERNS, kind, how)]
    one, two = t.mixed(list(filter(None, ways))[: None if t.variety is None else t.variety + 1])[:2]
    for first, second in t.mixed(product(one, two))[:12]:
        texts = t.alone(event, first), t.alone(event if label else changed, second)
        if all(map(t.fits, texts)) and event.who is not event.to and changed.who is not changed.to:
            return Example(texts, label)
    raise Stuck


MAKERS = {"acceptability": _acceptability, "sentiment": _sentiment, "entailment": _entailment,
          "similarity": _similarity, "endings": _endings, "pronouns": _pronouns}
