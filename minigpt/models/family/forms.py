"""What stands on a body in files of Hugging Face transformers, and under which names: data, and one reader of it.

transformers has a class for each choice of heads: BertModel is a body, BertForMaskedLM tells words, and so on. A model
here is built with the heads that its file has, and saved as what it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Places = Sequence[str]  # the published name of a module, or a list of the three of them for q, k and v
Names = dict[str, list[str]]  # name of a parameter here -> its published names

WITHOUT = " without its pooler"  # a body that its class would have with one


class Form(NamedTuple):
    """One class of transformers: the heads that stand on a body, each by its published name.

    words: what tells words: {module or parameter here: its published name}. dense, scores: the layers of a head that
    reads one state of a text, with `act` between them; a body may have the first one alone, its pooler. places: a layer
    that gives scores at each place. n: how many scores; None: one for each label. bias: have the scores one?
    """

    words: dict[str, str] | None = None
    dense: str | None = None
    act: str = "tanh"
    scores: str | None = None
    places: str | None = None
    n: int | None = None
    bias: bool = True

    @property
    def parts(self) -> set[str]:
        """The published names of all that it has."""
        several = [*(self.words or {}).values(), self.dense, self.scores, self.places]
        return {name for name in several if name is not None}

    @property
    def of_places(self) -> dict[str, str]:
        """{module here: its published name} of the heads that do not tell words."""
        modules = {"sentences.pooler": self.dense, "sentences.scores": self.scores, "places": self.places}
        return {module: name for module, name in modules.items() if name is not None}

    @property
    def has_labels(self) -> bool:
        """Are its scores those of the labels of a task, one for a whole text?"""
        return self.scores is not None and self.n is None

    @property
    def has_token_labels(self) -> bool:
        """Are its scores those of labels at each place?"""
        return self.places is not None and self.n is None


class Layout(NamedTuple):
    """How one type of model stands in files.

    prefix: with which its classes begin, "Bert". body: the name of the body, with which the names of its modules begin.
    modules, block: {module here: its name in the body}, of those beside the blocks and of a block's, where both have {}
    for its number. head: where a head of its own stands. forms: {rest of the name of a class: what it has}.
    """

    prefix: str
    body: str
    modules: Mapping[str, Places]
    block: Mapping[str, Places]
    head: str
    forms: dict[str, Form]

    def class_of(self, form: str) -> str:
        """The class of transformers that has this form."""
        return self.prefix + form.removesuffix(WITHOUT)


def in_layers(layer: str, parts: Mapping[str, Places], block: str = "h.{}") -> dict[str, Places]:
    """The modules of a block, with the name of the block before each, and that of the published layer before its name.

    Both have {} for their number.
    """
    within = inside(layer, parts)
    return {f"{block}.{module}": several for module, several in within.items()}


def inside(outer: str, places: Mapping[str, Places]) -> dict[str, Places]:
    """These modules, with the name of the module in which they stand before each published name."""
    return {module: [f"{outer}.{name}" for name in _several(place)] for module, place in places.items()}


def _several(place: Places) -> list[str]:
    return place if isinstance(place, list) else [str(place)]


def at_places(choices: Form | None = None) -> dict[str, Form]:
    """The forms that give scores at each place; and what chooses one of several texts, where it is known."""
    found = {
        "ForTokenClassification": Form(places="classifier"),
        "ForQuestionAnswering": Form(places="qa_outputs", n=2),
    }
    return found if choices is None else found | {"ForMultipleChoice": choices._replace(n=1)}


def named(layout: Layout, architectures: object) -> str | None:
    """The form whose class a config.json names; None where it names none, or one that is not known here."""
    if not isinstance(architectures, list) or not architectures:
        return None
    fitting = [form for form in layout.forms if str(architectures[0]).endswith(form)]
    return max(fitting, key=len, default=None)


def found(layout: Layout, form: str | None, usual: str, names: Iterable[str]) -> str:
    """The form of which all tensors are there, given their names: the one that is named, or one that has more.

    form: as config.json names it, None where it does not. Where some of its tensors are missing it is the named one all
    the same, so that the first of them is missed by name; usual: without a name.
    """
    there = {plain_name(name) for name in names}
    there |= {name.rpartition(".")[0] for name in there}
    in_body = {f"{layout.body}.{name}" for name in there}  # as a file of the body alone has them
    whole = [one for one, has in layout.forms.items() if has.parts <= there | in_body]
    if form is None:
        return max(whole, key=lambda one: len(layout.forms[one].parts), default=usual)
    if form not in whole:
        bare = form + WITHOUT
        return bare if bare in layout.forms else form
    wider = [one for one in whole if layout.forms[one].parts >= layout.forms[form].parts]
    return max(wider, key=lambda one: (len(layout.forms[one].parts), one == form))


def plain_name(name: str) -> str:
    """The name of a tensor as it is today: a LayerNorm once had gamma and beta."""
    module, _, part = name.rpartition(".")
    today = {"gamma": "weight", "beta": "bias"}
    return f"{module}.{today[part]}" if part in today else name


def names_of(places: Mapping[str, Places], has: set[str], n_layer: int = 1) -> Names:
    """{parameter: its published names} of these modules and parameters, as far as a model has them.

    has: the names of its parameters. n_layer: of how many blocks the numbers take the place of {}.
    """
    found = {}
    for i in range(n_layer):
        for place_here, place in places.items():
            here = place_here.format(i)
            several = [name.format(i) for name in _several(place)]
            if here in has:
                found[here] = several
            for part in ("weight", "bias"):
                if f"{here}.{part}" in has:
                    found[f"{here}.{part}"] = [f"{name}.{part}" for name in several]
    return found
