"""Labelled tasks from the story world: eight kinds of question whose answers follow from what a text tells.

    >>> from minigpt.data.stories import tasks
    >>> train = tasks.examples("entailment", 2000)           # a list of `minigpt.data.examples.Example`
    >>> test = tasks.examples("entailment", 500, split="test")

No single word gives an answer away. What decides is told in the text, who did what to whom, or it is what every reader
of the stories knows, which animal eats what: see `stories.scripts`. No sentence is ever in two splits: a checksum of
its text decides where it belongs, and each sentence of an example is drawn until it fits. Two tasks are cut out of
whole stories (continuation, cloze): of these, no story is in two splits.
"""

import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path

from minigpt.data.examples import Example, Task
from minigpt.data.stories import VARIETY, story
from minigpt.data.stories import split_of as split_of_story
from minigpt.data.stories import words as w
from minigpt.data.stories.scripts import KNOWING, N_TRIES, SCRIPTS, SPLITS, Script, Stuck, others, sentences
from minigpt.data.stories.teller import PATTERNS, Chance, Form, Pattern, Slot
from minigpt.data.stories.world import ROLES, Event, look_up
from minigpt.errors import InputError
from minigpt.files.disk import read_toml

TASKS = {
    "acceptability": Task("classification", ("wrong", "right"), "matthews"),
    "sentiment": Task("classification", ("sad", "happy")),
    "entailment": Task("entailment", ("no", "yes")),
    "similarity": Task("similarity", ("different", "same"), "f1"),
    "endings": Task("choice"),
    "pronouns": Task("choice"),
    "continuation": Task("entailment", ("no", "yes")),
    "cloze": Task("choice"),
}
MOST_EXAMPLES = 20_000
MOST_WORDS = 64  # of the longest example, with one choice
PATIENCE = 1000  # after so many texts in a row that bring nothing new, there are no more
STATES = ("has", "at", "lies", "in", "broken", "eats", "stored")  # what an entailment or a pronoun is about
ENDINGS = ("found", "inside", "give", "feed", "get")  # how a text can end
KINDS_OF_LUCK = ("gift", "found", "mended")
KINDS_OF_LOSS = ("lost", "stolen", "broken", "wind")

_TABLES = read_toml(Path(__file__).with_name("tasks.toml"))
BOUND = set(_TABLES["bound"].split())

SAME: list[tuple[str, dict[str, str]]] = []  # (kind of event, {role: the list of `Script` from which it is drawn})
for _table in _TABLES["same"]:
    _lists = {role: _table[role] for role in ROLES if role in _table}
    for _event in _table["events"]:
        SAME.append((_event, _lists))


def examples(name: str, n: int, split: str = "train", seed: int = 0, variety: int = VARIETY) -> list[Example]:
    """The first `n` examples (1 to 20,000) of a task, all different; of every two, one has each label.

    A pure function of its arguments. split: train, valid or test; variety: 1 to 3, see `stories.story`. Raises
    InputError for what is out of range, and where the world has fewer than `n` examples.
    """
    _check(name, n, split, seed, variety)
    key = f"{name} {split} {seed} {variety}"
    script = Script(key, variety, split, same_gender=name == "pronouns")
    labels = _labels(n, Chance(key + " labels"))
    made = {}
    leads = Counter()  # of a pair of names: how much more often the one is right than the other
    n_failed = 0  # in a row
    while len(made) < n:
        script.clear()
        try:
            example = MAKERS[name](script, labels[len(made)])
        except Stuck:
            example = None
        is_new = example and _content(example) not in made
        if is_new and _n_words(example) <= MOST_WORDS and (name != "pronouns" or _is_balanced(example, leads)):
            made[_content(example)] = example
            n_failed = 0
        else:
            n_failed += 1
        if n_failed > PATIENCE:
            few = f"{name} has no more than about {len(made)} {split} examples at variety {variety}"
            raise InputError(f"{few}: ask for fewer, or for a variety up to {VARIETY}")
    return list(made.values())


def _check(name: str, n: int, split: str, seed: int, variety: int) -> None:
    """Raise InputError for an argument of `examples` that is out of range."""
    if name not in TASKS:
        raise InputError(f"the story world has no task {name!r}: choose {', '.join(TASKS)}")
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    _check_range("size", n, 1, MOST_EXAMPLES)
    _check_range("seed", seed, 0, 2**32 - 1)
    _check_range("variety", variety, 1, VARIETY)


def _check_range(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InputError(f"task {what} {value} is out of range: choose {least} to {most}")


def _labels(n: int, coin: Chance) -> list[int]:
    """n labels, 0 or 1: of every two one is drawn, and the other is the other one."""
    labels = []
    while len(labels) < n:
        label = int(coin.chance(0.5))
        labels += [label, 1 - label]
    return labels[:n]


def _content(example: Example) -> tuple:
    """What makes an example differ from another: everything but the label."""
    return example.texts, example.choices


def _is_balanced(example: Example, leads: Counter) -> bool:
    """Is each of the two names of a pronoun right as often as the other, or once more? Then count this example too.

    Some questions have words in one split only: `The flour is beside the stove` may be there, and `The apples are on
    the stall` not. Then flour would be right more often than apples, and a name would give the answer away.
    """
    one, two = (set(choice.split()) for choice in example.choices)
    names = [tuple(sorted(one - two)), tuple(sorted(two - one))]
    pair = tuple(sorted(names))
    lead = leads[pair] + (1 if names[example.label] == pair[0] else -1)
    if abs(lead) > 1:
        return False
    leads[pair] = lead
    return True


def _n_words(example: Example) -> int:
    """The words of an example with one choice: all its texts, and the last choice."""
    read = example.texts + example.choices[1:]
    return len(" ".join(read).split())


def prompt(text: str) -> str:
    """What to put after a text of "sentiment" to ask for the mood of its child, happy or sad: " She was very"."""
    names = re.findall("[A-Z][a-z]+", text)
    is_girl = any(girl.name in names for girl in w.GIRLS)
    return " She was very" if is_girl else " He was very"


# ------------------------------------------------------------------------------------- one function makes each example


def _about_a_state(t: Script, names: tuple[str, ...], say: Callable[[Event, Event], tuple]) -> tuple[str, ...]:
    """Tell a script, and return `say(true state, false state)` for a pair of states with such names.

    Raises Stuck where there is none for which this split has words.
    """
    script = t.pick(SCRIPTS + 5 * KNOWING)
    pairs = []
    for a, b in script(t):
        if a.how in names and _is_allowed(t, a, b):
            pairs.append((a, b))
    for a, b in t.mixed(pairs):
        a_is_true = not t.world.problem(a)
        b_is_true = not t.world.problem(b)
        if a_is_true == b_is_true:
            continue
        try:
            return say(a, b) if a_is_true else say(b, a)
        except Stuck:  # this split has no words for it: try another pair
            pass
    raise Stuck


def _is_allowed(t: Script, a: Event, b: Event) -> bool:
    """A pronoun can only be about two states whose subjects are two of one gender."""
    if not t.same_gender:
        return True
    return a.who is not b.who and a.who.gender == b.who.gender


def _in_order(label: int, right: str, wrong: str) -> tuple[str, str]:
    """Two choices, of which the one with the number `label` is right."""
    return (wrong, right) if label else (right, wrong)


def _entailment(t: Script, label: int) -> Example:
    """A text, and a sentence that is true after it, or not. The false one is about the same people and things."""

    def say(true: Event, false: Event) -> tuple[str, ...]:
        return t.alike(true if label else false)

    (hypothesis,) = _about_a_state(t, STATES, say)
    return Example((t.text(), hypothesis), label)


def _pronouns(t: Script, label: int) -> Example:
    """A text, and its last sentence with each of two names where a pronoun of their gender would stand."""
    right, wrong = _about_a_state(t, STATES, t.alike)
    return Example((t.text(),), label, _in_order(label, right, wrong))


def _endings(t: Script, label: int) -> Example:
    """A text, a question about it, and two sentences with which it could end."""

    def say(true: Event, false: Event) -> tuple[str, ...]:
        speaker = t.pick(others(w.FAMILY, true.who))
        question = true._replace(kind="question", where=speaker)
        return t.alike(question) + t.alike(true, false)

    question, right, wrong = _about_a_state(t, ENDINGS, say)
    return Example((t.text(), question), label, _in_order(label, right, wrong))


def _continuation(t: Script, label: int) -> Example:
    """Four sentences of a story, and the sentence that ended it, or that ended another story of the same child."""
    context, right, wrong = _two_endings(t)
    return Example((context, right if label else wrong), label)


def _cloze(t: Script, label: int) -> Example:
    """Four sentences of a story, the sentence that ended it, and the one that ended another story of the same child."""
    context, right, wrong = _two_endings(t)
    return Example((context,), label, _in_order(label, right, wrong))


def _two_endings(t: Script) -> tuple[str, str, str]:
    """The last sentences of a story of this split, its ending, and that of the last such story about the same child.

    What is right here is wrong for the next story. So no ending is right more often than it is wrong.
    """
    told = story(int(t.random() * 2**32), variety=t.variety or VARIETY)
    *_, one, two, three, four, right = (sentence.text for sentence in told.sentences)
    context = " ".join((one, two, three, four))
    children = [child.name for child in w.CHILDREN if child.name in context]
    if not children or split_of_story(told.text) != t.split:
        raise Stuck
    wrong = t.endings.get(children[0], right)
    t.endings[children[0]] = right
    if wrong == right:
        raise Stuck
    return context, right, wrong


def _sentiment(t: Script, label: int) -> Example:
    """A child has luck with one thing, and none with another. What came last decides how it feels."""
    hero, place = t.scene()
    things = []
    for kind in ("loss", "luck") if label else ("luck", "loss"):
        how = t.pick(KINDS_OF_LUCK if kind == "luck" else KINDS_OF_LOSS)
        if how in ("mended", "broken"):
            table = t.breakable
        elif how == "wind":
            table = t.light
        else:
            table = t.things
        other = t.animals if how == "stolen" else w.FAMILY + w.WORKERS
        thing = others(table, *things)
        event = t(kind, hero, thing, to=other, where=w.SPOTS[place], how=how)
        things.append(event.what)
    return Example((t.text(),), label)


def _acceptability(t: Script, label: int) -> Example:
    """A sentence of a story, as it is, or with one small word one or two words further back than it can stand."""
    if not t.unused:
        index = int(t.random() * 2**32)
        t.unused = t.mixed(story(index, variety=t.variety or VARIETY).sentences)
    right = t.unused.pop().text
    words = right.split(" ")
    distance = t.pick((1, 2))
    movable = []
    for i in range(1, len(words) - distance):
        passed = "".join(words[i : i + distance])
        if words[i] in BOUND and not re.search(r'[.,!?"]', passed):
            movable.append(i)
    if not movable or len(sentences(right)) > 1:
        raise Stuck
    wrong = _move_back(words, t.pick(movable), distance)
    if not t.fits(right) or not t.fits(wrong):
        raise Stuck
    return Example((right if label else wrong,), label)


def _move_back(words: list[str], i: int, distance: int) -> str:
    """The sentence of these words with word `i` so many words later; a mark after the last of them goes with it."""
    last, marks = re.fullmatch(r"(.*?)(\W*)", words[i + distance]).groups()
    passed = words[i + 1 : i + distance]
    rest = words[i + distance + 1 :]
    return " ".join([*words[:i], *passed, last, words[i] + marks, *rest])


def _similarity(t: Script, label: int) -> Example:
    """Two sentences in different words: do they tell the same? If not, one role is another's, or two are exchanged."""
    kind, lists = t.pick(SAME)
    kind, _, how = kind.partition(".")
    options = _options(t, lists)
    event = t.draw(kind, *options.values(), how)
    changed = _changed(t, event, options)
    for entity in (*event[1:5], *changed[1:5]):
        if entity:
            t.known.add(entity)
    told = event if label else changed
    one, two = t.mixed(_whole_patterns(t, event, set(lists)))[:2]
    both = list(product(one, two))
    for first, second in t.mixed(both)[:N_TRIES]:
        texts = (t.alone(event, first), t.alone(told, second))
        if not all(map(t.fits, texts)):
            continue
        if event.who is not event.to and changed.who is not changed.to:
            return Example(texts, label)
    raise Stuck


Options = dict[str, tuple | None]


def _options(t: Script, lists: dict[str, str]) -> Options:
    """{role: what can stand in it; None: nothing} for who, what, to and where."""
    options = {}
    for role in ("who", "what", "to", "where"):
        name = lists.get(role)
        options[role] = getattr(t, name) if name else None
    return options


def _changed(t: Script, event: Event, options: Options) -> Event:
    """An event of the same kind that is another: two of its roles are exchanged, or all of them are another's."""
    if options["who"] is options["to"] and t.chance(0.3):
        return event._replace(who=event.to, to=event.who)
    rest = []
    for choices in options.values():
        if choices:
            choices = tuple(one for one in choices if one not in event)
        rest.append(choices)
    return t.draw(event.kind, *rest, event.how)


def _whole_patterns(t: Script, event: Event, roles: set[str]) -> list[list[Form]]:
    """The patterns that this variety allows, of those that have forms that tell all of the roles: these forms."""
    patterns = []
    for pattern in look_up(PATTERNS, event.kind, event.how):
        forms = _whole_forms(pattern, roles)
        if forms:
            patterns.append(forms)
    if t.variety is None:
        return patterns
    return patterns[: t.variety + 1]


def _whole_forms(pattern: Pattern, roles: set[str]) -> list[Form]:
    """The forms of a pattern that tell all of the roles, and which thing of its name it is."""
    forms = []
    for form in pattern:
        slots = [part for part in form.parts if isinstance(part, Slot)]
        told = {slot.role for slot in slots}
        if told == roles and Slot("what", "name") not in slots:  # "Here is your car" does not tell which
            forms.append(form)
    return forms


MAKERS = {
    "acceptability": _acceptability,
    "sentiment": _sentiment,
    "entailment": _entailment,
    "similarity": _similarity,
    "endings": _endings,
    "pronouns": _pronouns,
    "continuation": _continuation,
    "cloze": _cloze,
}
