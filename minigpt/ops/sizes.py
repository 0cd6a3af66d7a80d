"""The letters of a shape line, and what each stands for in one call.

    sizes = Sizes()
    sizes.take(x, (2, 4))     with x (*,C): now C is 4
    sizes.take(g, (3,))       with g (C,): "g has shape (3,); x (2, 4) has C = 4, so g must be (4,)"
"""

from typing import Any, NamedTuple

from minigpt.ops.shapes import Tensor, factors

ANY = "*"  # leading axes
Shape = tuple[int, ...]


class Known(NamedTuple):
    """The size of an axis, or a shape where it is `*`, and what says so: "x (2, 4) has C = 4"."""

    size: Any
    source: str


class Sizes:
    """What is known of the letters so far, from the arrays that were taken."""

    def __init__(self):
        self.known: dict[str, Known] = {}

    def __getitem__(self, letter: str) -> Any:
        return self.known[letter].size

    def get(self, letter: str, default: int) -> Any:
        """The size of a letter; the default where no array has it."""
        return self[letter] if letter in self.known else default

    def set(self, letter: str, size: int, source: str) -> None:
        """Give a letter a size that no array tells."""
        self.known[letter] = Known(size, source)

    def take(self, tensor: Tensor, shape: Shape) -> str | None:
        """Learn from an array of this shape. Returns what is wrong with it, in one sentence, or None."""
        name = tensor.name
        lettered = [axis for axis in tensor.axes if axis != ANY]
        start = len(shape) - len(lettered)
        if start < 0 or (start and ANY not in tensor.axes):
            return f"{name} has shape {shape}: give it the axes {_axes(tensor)}"
        if ANY in tensor.axes:
            leading = shape[:start]
            source = f"{name} {shape} has the leading axes {leading}"
            if self.known.setdefault(ANY, Known(leading, source)).size != leading:
                return self._mismatch(ANY, tensor, shape)
        for axis, size in zip(lettered, shape[start:], strict=True):
            times, letter = factors(axis)
            if size % times:
                return f"{name} has shape {shape}: {size} is not a multiple of {times}"
            source = f"{name} {shape} has {axis} = {size}"
            if self.known.setdefault(letter, Known(size // times, source)).size * times != size:
                return self._mismatch(letter, tensor, shape)
        return None

    def _mismatch(self, letter: str, tensor: Tensor, shape: Shape) -> str:
        source = self.known[letter].source
        wanted = self._wanted(tensor)
        return f"{tensor.name} has shape {shape}; {source}, so {tensor.name} must be {wanted}"

    def _wanted(self, tensor: Tensor) -> str:
        """The shape that an array must have, as far as the arrays before it tell: "(4,6)", "(4,O)"."""
        wanted = []
        for axis in tensor.axes:
            times, letter = (1, ANY) if axis == ANY else factors(axis)
            if letter not in self.known:
                wanted.append(axis)
            elif axis == ANY:
                wanted += self[ANY]
            else:
                wanted.append(times * self[letter])
        return _in_brackets(wanted)


def _axes(tensor: Tensor) -> str:
    """As in a shape line: "(*,C)"; of a single axis "(C,)"."""
    if tensor.axes == (ANY,):
        return "(*)"
    return _in_brackets(tensor.axes)


def _in_brackets(axes) -> str:
    """ "(2,3)", "(4,)", "()"."""
    comma = "," if len(axes) == 1 else ""
    return f"({','.join(map(str, axes))}{comma})"
