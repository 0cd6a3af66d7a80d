"""A poster for the wall of a classroom: one token's way through GPT-2, with the gradient's way back below it.

    python lessons/poster/poster.py                              # poster_en.pdf, and poster_ko.pdf
    python lessons/poster/poster.py --language ko --out folder

A page of A2, of vectors. All numbers are those of the GPT-2 in `data/explorer/gpt2`, computed here. The words are in
`words_en.toml` and `words_ko.toml`. For Korean a font is needed: one of the system, or `pip install
koreanize-matplotlib`, which brings one.
"""

import argparse
import importlib.util
import logging
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from minigpt import load_tokenizer, open_model, ops, plot  # noqa: E402  (after the path of the repository)
from minigpt.errors import InputError  # noqa: E402
from minigpt.explorer.named_pass import NamedPass, Value, named_pass  # noqa: E402

MODEL = HERE.parents[1] / "data" / "explorer" / "gpt2"
TEXT = "There once was a cheerful boy called Tom. One cold morning, he went to the"
NEXT = " kitchen"
LANGUAGES = ("en", "ko")
A2 = (23.39, 16.54)  # inches, 594 by 420 mm
BLUE, RED, GRAY = "#1f5fa8", "#b3261e", "#555555"
PASSES_BY = ((0, 3), (3, 6))  # from the embedding to the first "+", and from there to the second: see STEPS


class Step(NamedTuple):
    """A step of the way.

    words: the name of its table in the words; of: the name of the value that it makes; forward, backward: its formulas.
    """

    words: str
    of: str
    forward: tuple[str, ...]
    backward: tuple[str, ...]


NORM = (r"$\hat{x} = (x-\mu)\,/\,\sigma$", r"$\mathrm{out} = g\,\hat{x} + b$")
NORM_BACK = (
    r"$d\hat{x} = g\,d\mathrm{out}$",
    r"$dx = (d\hat{x} - \overline{d\hat{x}} - \hat{x}\,\overline{\hat{x}\,d\hat{x}})\,/\,\sigma$",
)
EMBEDDING = (r"$x = W_e[\mathrm{id}] + W_p[t]$",)
EMBEDDING_BACK = (r"$dW_e[\mathrm{id}]$ += $dx$", r"$dW_p[t]$ += $dx$")
ATTENTION = (
    r"$q, k, v = x\,W_q, x\,W_k, x\,W_v$",
    r"$p = \mathrm{softmax}(q\,k^T / \sqrt{d})$",
    r"$\mathrm{out} = (p\,v)\,W_o$",
)
ATTENTION_BACK = (
    r"$do = d\mathrm{out}\,W_o^T$, $dv = p^T do$",
    r"$dp = do\,v^T$",
    r"$ds = p\,(dp - \sum p\,dp)$",
    r"$dq = ds\,k/\sqrt{d}$, $dk = ds^T q/\sqrt{d}$",
)
ADD = (r"$x \leftarrow x + \mathrm{out}$",)
ADD_BACK = (r"$d\mathrm{out} = dx$",)
MLP = (r"$f = x\,W_1 + b_1$", r"$\mathrm{out} = \mathrm{gelu}(f)\,W_2 + b_2$")
MLP_BACK = (r"$df = (d\mathrm{out}\,W_2^T)\,\mathrm{gelu}'(f)$", r"$dx = df\,W_1^T$, $dW_1 = x^T df$")
HEAD = (r"$z = x\,W_e^T$, $p = \mathrm{softmax}(z)$", r"$L = -\ln p[\mathrm{next}]$")
HEAD_BACK = (r"$dz = p - 1[\mathrm{next}]$", r"$dx = dz\,W_e$, $dW_e$ += $dz^T x$")
STEPS = (
    Step("embedding", "x", EMBEDDING, EMBEDDING_BACK),
    Step("ln_1", "h.0.ln_1", NORM, NORM_BACK),
    Step("attention", "h.0.attn", ATTENTION, ATTENTION_BACK),
    Step("add_1", "h.0.x_attn", ADD, ADD_BACK),
    Step("ln_2", "h.0.ln_2", NORM, NORM_BACK),
    Step("mlp", "h.0.mlp", MLP, MLP_BACK),
    Step("add_2", "h.0.x", ADD, ADD_BACK),
    Step("blocks", "h.3.x", ("$x$",), ("$dx$",)),
    Step("ln_f", "ln_f", NORM, NORM_BACK),
    Step("logits", "logits", HEAD, HEAD_BACK),
)


def words(language: str) -> dict:
    """What the poster says in this language, "en" or "ko"."""
    with (HERE / f"words_{language}.toml").open("rb") as file:
        return tomllib.load(file)


def find_font(language: str) -> None:
    """Let matplotlib draw the letters of a language. Raises InputError where no font has them."""
    manager = plot.plt.matplotlib.font_manager.fontManager
    brought = importlib.util.find_spec("koreanize_matplotlib")
    if brought:
        for name in ("NanumGothic", "NanumGothicBold"):
            manager.addfont(Path(brought.origin).parent / "fonts" / f"{name}.ttf")
    said = "".join(str(words(language)))
    if plot.readable(said) != said:
        raise InputError("no font here has Korean letters: pip install koreanize-matplotlib")


class Followed:
    """A pass of the model over the text, of which only the last token is answered for."""

    def __init__(self):
        self.model = open_model(str(MODEL))
        self.tokenizer = load_tokenizer(str(MODEL))
        self.ids = self.tokenizer.encode(TEXT)
        (self.right,) = self.tokenizer.encode(NEXT)
        targets = [-100] * (len(self.ids) - 1) + [self.right]
        self.passed: NamedPass = named_pass(self.model, self.ids, targets)
        self.p = softmax(self.passed.logits[-1])

    @property
    def tokens(self) -> list[str]:
        """The text, token by token."""
        return [self.word(token) for token in self.ids]

    def word(self, token: int) -> str:
        """A token of the vocabulary, without the space before it."""
        return self.tokenizer.decode([token]).strip()

    def row(self, name: str) -> Value:
        """A value at the token that we follow, and its gradient: (C,) each."""
        both = self.passed.values[name]
        return Value(both.value[-1], both.gradient[-1])

    def stream(self) -> list[str]:
        """The names of the residual stream: after the embedding, after each attention and each MLP."""
        halves = [f"h.{i}.{half}" for i in range(len(self.model.h)) for half in ("x_attn", "x")]
        return ["x", *halves]

    def answer(self, x: np.ndarray) -> np.ndarray:
        """The probabilities that the last norm and the head give a row of the stream. x (C,) -> p (V,)"""
        normed, _ = self.model.ln_f.forward(x[None])
        return softmax((normed @ self.model.wte.weight.data.T)[0])


def softmax(z: np.ndarray) -> np.ndarray:
    """z (V,) -> p (V,)"""
    p, _ = ops.softmax_forward(z[None])
    return p[0]


class Poster:
    """The page. All lengths are inches; (0, 0) is the lower left corner."""

    def __init__(self, followed: Followed, said: dict):
        self.followed, self.said = followed, said
        width, height = A2
        self.figure = plot.plt.figure(figsize=A2, layout="none")
        self.page = self.figure.add_axes((0, 0, 1, 1))
        self.page.set(xlim=(0, width), ylim=(0, height))
        self.page.set_axis_off()
        self.title(height)
        self.sentence(14.3)
        self.way(top=13.45)
        self.looks(self.panel(1.4, "looks", width=4.9))
        self.lens(self.panel(8.0, "lens", width=4.4))
        self.sizes(self.panel(13.6, "sizes", width=3.7))
        self.answer(self.panel(18.7, "answer", width=4.0))
        self.text(width - 0.7, 0.3, "python lessons/poster/poster.py", 9, GRAY, ha="right", family="monospace")

    def text(self, x: float, y: float, text: str, size: float, color: str = "black", **more) -> None:
        """Text whose upper left corner is at (x, y)."""
        self.page.text(x, y, text, size=size, color=color, **{"va": "top"} | more)

    def title(self, height: float) -> None:
        """What this is, and of which model."""
        config = self.followed.model.config
        of_model = {"layers": config.n_layer, "columns": config.n_embd, "heads": config.n_head}
        self.text(0.7, height - 0.5, self.said["title"], size=44, weight="bold")
        about = self.said["about"].format(**of_model, tokens=config.vocab_size)
        self.text(0.7, height - 1.35, about, size=17, color=GRAY)

    def sentence(self, y: float) -> None:
        """The tokens of the text in boxes, with their numbers; the last one is followed, the next one is not seen."""
        tokens = [*self.followed.tokens, self.followed.word(self.followed.right)]
        ids = [*self.followed.ids, self.followed.right]
        last = len(tokens) - 2
        x = 0.7
        for i, (token, number) in enumerate(zip(tokens, ids, strict=True)):
            width = 0.36 + 0.145 * max(len(token), 3)
            color, face, line = GRAY, "white", "-"
            if i == last:
                color, face = BLUE, "#dbe7f5"
            if i > last:
                color, line = RED, "--"
            box = plot.plt.Rectangle((x, y - 0.28), width, 0.56, facecolor=face, edgecolor=color, lw=2, linestyle=line)
            self.page.add_patch(box)
            self.text(x + width / 2, y, token, 19, color, ha="center", va="center")
            self.text(x + width / 2, y - 0.36, f"{self.said['id']} {number}", 10, GRAY, ha="center")
            if i == last:
                note = f"{self.said['token']}: {self.said['position']} {i}"
                self.text(x + width, y + 0.56, note, 13, color, ha="right")
            if i > last:
                self.text(x, y + 0.56, self.said["next"], 13, color)
            x += width + 0.12

    def way(self, top: float) -> None:
        """The steps, side by side: above what each makes, below the gradient that comes back to it."""
        left, right = 0.7, A2[0] - 0.7
        each = (right - left) / len(STEPS)
        back = top - 3.95
        self.text(right, top, self.said["left"], 13, GRAY, ha="right")
        for i, step in enumerate(STEPS):
            x = left + i * each
            value, gradient = self.followed.row(step.of)
            said = self.said[step.words]
            self.text(x, top - 0.5, said["name"], 17, BLUE, weight="bold")
            self.step(x, top - 0.85, each, said["does"], step.forward, value, BLUE)
            self.step(x, back - 0.4, each, said["back"], step.backward, gradient, RED)
            if i:
                self.arrow((x - 0.4, top - 2.45), (x - 0.06, top - 2.45), BLUE)
                self.arrow((x - 0.06, back - 2.0), (x - 0.4, back - 2.0), RED)
        for start, end in PASSES_BY:
            self.bypass(left + start * each, left + end * each, top - 1.72, BLUE)
            self.bypass(left + end * each, left + start * each, back - 1.27, RED)
        self.block(left + each, 6 * each, top)
        self.text(left, top + 0.1, self.said["forward"], 20, BLUE, weight="bold", backgroundcolor="white")
        self.text(left, back + 0.05, self.said["backward"], 20, RED, weight="bold", backgroundcolor="white")

    def block(self, x: float, width: float, top: float) -> None:
        """A dotted line around the steps of a block."""
        line = plot.plt.Rectangle((x - 0.17, top - 7.7), width - 0.04, 7.55, fill=False, edgecolor=GRAY, lw=1.5)
        line.set_linestyle(":")
        self.page.add_patch(line)
        note = f"{self.said['once']}; {self.said['same']}"
        self.text(x + width / 2, top, note, 13, GRAY, ha="center", backgroundcolor="white")

    def bypass(self, start: float, end: float, y: float, color: str) -> None:
        """A line that leaves the stream and comes back to it: the row passes by attention, or by the MLP."""
        start, end = start + 0.78, end + 0.78
        self.page.plot([start, start, end], [y - 0.12, y, y], color=color, lw=2)
        self.arrow((end, y + 0.01), (end, y - 0.14), color)

    def step(self, x, y, each, does, formula, row, color) -> None:
        """One step of one direction: what it does, its formula, and the row that it makes, in colours."""
        size = self.followed.model.config.vocab_size
        self.text(x, y, wrapped(does.format(tokens=size), 27), 10.5, GRAY)
        self.square(x, y - 2.17, (each - 0.3) * 0.8, 1.15, row)
        length = self.said["length"].format(f"{np.linalg.norm(row):.3g}")
        self.text(x, y - 2.22, f"{self.said['shape'].format(len(row))}, {length}", 10, GRAY)
        self.text(x, y - 2.46, "\n".join(formula), 10.5, color, linespacing=1.3)

    def square(self, x: float, y: float, width: float, height: float, row: np.ndarray) -> None:
        """A row of numbers as a small table of colours: orange below 0, purple above, white at 0."""
        across = 12 if len(row) < 200 else 35
        largest = np.abs(row).max()
        axes = self.figure.add_axes((x / A2[0], y / A2[1], width / A2[0], height / A2[1]))
        table = row.reshape(-1, across)
        axes.pcolormesh(table[::-1], cmap="PuOr", vmin=-largest, vmax=largest, edgecolor="white", linewidth=0.3)
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)

    def arrow(self, start: tuple, end: tuple, color: str) -> None:
        """A short arrow."""
        self.page.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": color, "lw": 2})

    def panel(self, x: float, name: str, width: float, y: float = 1.15, height: float = 3.2):
        """Axes with a title and a line that explains them."""
        left = x - 0.7
        self.text(left, y + height + 0.95, self.said[name], 18, weight="bold")
        self.text(left, y + height + 0.58, wrapped(self.said[f"{name}_about"], 62), 11.5, GRAY)
        axes = self.figure.add_axes((x / A2[0], y / A2[1], width / A2[0], height / A2[1]))
        axes.grid(visible=False)
        return axes

    def looks(self, axes) -> None:
        """The attention weights of the token that we follow: a row for each head of each block."""
        layers, heads = self.followed.model.config.n_layer, self.followed.model.config.n_head
        weights = [self.followed.passed.values[f"h.{i}.attn.p"].value[:, -1] for i in range(layers)]
        axes.pcolormesh(np.concatenate(weights), cmap="Blues", vmin=0, vmax=1, edgecolor="white", linewidth=0.5)
        axes.set_xticks(np.arange(len(self.followed.tokens)) + 0.5, self.followed.tokens, rotation=60, size=11)
        places = [i * heads + heads / 2 for i in range(layers)]
        axes.set_yticks(places, [self.said["block"].format(i + 1) for i in range(layers)], size=11)
        for i in range(1, layers):
            axes.axhline(i * heads, color=GRAY, lw=1.5)
        axes.invert_yaxis()

    def lens(self, axes) -> None:
        """The three likeliest tokens after each step of the stream."""
        stream = self.followed.stream()
        probabilities = [self.followed.answer(self.followed.row(name).value) for name in stream]
        best = [p.argsort()[::-1][:3] for p in probabilities]
        shares = [p[tokens] for p, tokens in zip(probabilities, best, strict=True)]
        axes.pcolormesh(np.array(shares), cmap="Blues", vmin=0, vmax=1, edgecolor="white", linewidth=0.5)
        for i, (tokens, share) in enumerate(zip(best, shares, strict=True)):
            for j, (token, one) in enumerate(zip(tokens, share, strict=True)):
                color = "white" if one > 0.55 else "black"
                text = f"{self.followed.word(token)}  {one:.0%}"
                axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", size=12, color=color)
        axes.set_yticks(np.arange(len(stream)) + 0.5, self.places(), size=11)
        axes.set_xticks([])
        axes.invert_yaxis()

    def places(self) -> list[str]:
        """The names of the steps of the stream: embedding, attention 1, MLP 1, …"""
        names = [self.said["start"]]
        for i in range(self.followed.model.config.n_layer):
            names += [self.said["attention_of"].format(i + 1), self.said["mlp_of"].format(i + 1)]
        return names

    def sizes(self, axes) -> None:
        """The lengths of the row and of its gradient, along the stream."""
        rows = [self.followed.row(name) for name in self.followed.stream()]
        for part, color, name, mark in (("value", BLUE, "values", "o"), ("gradient", RED, "gradients", "s")):
            lengths = [np.linalg.norm(getattr(row, part)) for row in rows]
            axes.semilogy(lengths, marker=mark, color=color, lw=2.5, label=self.said[name])
        axes.set_xticks(range(len(rows)), self.places(), rotation=60, size=11)
        axes.legend(fontsize=12)

    def answer(self, axes) -> None:
        """The probabilities of the likeliest tokens, and the gradient of their logits."""
        p = self.followed.p
        gradient = self.followed.row("logits").gradient
        best = p.argsort()[::-1][:8]
        axes.barh(range(len(best)), p[best], color=[RED if token == self.followed.right else BLUE for token in best])
        for i, token in enumerate(best):
            text = f"{p[token]:.1%}    dz = {gradient[token]:+.3f}"
            axes.text(p[token] + 0.01, i, text, va="center", size=12, color=RED if gradient[token] < 0 else "black")
        axes.set_yticks(range(len(best)), [self.followed.word(token) for token in best], size=13)
        axes.set(xlim=(0, 1.9 * p.max()), xticks=[])
        loss = f"$L = -\\ln\\, {p[self.followed.right]:.3f} = {self.followed.passed.loss:.3f}$"
        axes.text(0, -0.06, loss, transform=axes.transAxes, va="top", size=20)
        axes.invert_yaxis()


def wrapped(text: str, width: int) -> str:
    """Lines of at most so many columns, of which a Korean letter takes two."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and columns(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def columns(text: str) -> int:
    """How wide a text is: a Korean letter is nearly as wide as two others."""
    return sum(2 if letter >= "가" else 1 for letter in text)


def write(language: str, path: Path) -> None:
    """Draw the poster of a language into a file. Raises InputError where no font has its letters."""
    find_font(language)
    poster = Poster(Followed(), words(language))
    save(poster.figure, path, poster.said["title"])


def save(figure, path: Path, title: str) -> None:
    """Write a page of vectors, and close the figure."""
    for noisy in ("fontTools", "matplotlib.font_manager"):  # about parts of a font that are left out, and its weights
        logging.getLogger(noisy).setLevel(logging.ERROR)
    with plot.plt.rc_context({"pdf.fonttype": 42, "savefig.dpi": 100}):
        figure.savefig(path, bbox_inches=None, metadata={"CreationDate": None, "Title": title})
    plot.plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--language", choices=LANGUAGES, help="the poster of one language alone")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder; without it the current one")
    given = parser.parse_args()
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        for language in [given.language] if given.language else LANGUAGES:
            path = given.out / f"poster_{language}.pdf"
            write(language, path)
            print(f"poster: {path}")
    except (InputError, OSError) as error:
        print(f"poster.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
