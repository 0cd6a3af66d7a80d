"""The text of a learner's file, changed so that every number it computes is rounded to 9 digits.

After each operation and each call the value is rounded: arrays, NumPy's longer floats, complex numbers, and numbers of
Python. `derived.py` tells by it how a gradient was computed.
"""

import ast
import inspect

NAME = "_rounded"


def rounded(text: str) -> str:
    """The text of a Python file that computes the same with rounded numbers. Raises ValueError where it is too odd."""
    tree = _Rounding().visit(ast.parse(text))
    first = 0
    while first < len(tree.body) and _stands_first(tree.body[first]):
        first += 1
    tree.body[first:first] = ast.parse(inspect.getsource(_rounded)).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _stands_first(node):
    """A docstring, or an import from __future__: nothing may stand before it."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.ImportFrom) and node.module == "__future__"


class _Rounding(ast.NodeTransformer):
    """Puts every operation and every call into a call that rounds its value."""

    def _value(self, node):
        self.generic_visit(node)
        return ast.Call(ast.Name(NAME, ast.Load()), [node], [])

    visit_BinOp = _value
    visit_Call = _value

    def visit_AugAssign(self, node):
        """`x += h` and `x[i] += h` change x in place: it is rounded in the next line."""
        self.generic_visit(node)
        target = node.target if isinstance(node.target, ast.Name) else node.target.value
        changed = ast.parse(ast.unparse(target), mode="eval").body
        call = ast.Call(ast.Name(NAME, ast.Load()), [changed], [])
        if isinstance(node.target, ast.Name):
            return [node, ast.Assign([node.target], call)]
        return [node, ast.Expr(call)]


def _rounded(value, bits=29):
    """A value with this many bits in each number. An array is changed in place: the file may write into a view of it.

    It is copied into the text, and needs nothing of this file. A complex number is rounded as a whole: a part that is
    far smaller than the other one is lost. Numbers in float32 stay.
    """
    import numpy as np

    if type(value) is tuple:
        return tuple(map(_rounded, value))
    if type(value).__module__ in ("decimal", "fractions"):
        return type(value)(_rounded(float(value)))
    if type(value) in (float, complex):
        return type(value)(_rounded(np.array(value)))
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "fc" or value.dtype.itemsize < 8:
        return value
    numbers = np.asarray(value)
    size = abs(numbers)
    _, exponent = np.frexp(size)
    unit = np.ldexp(np.ones_like(size), np.maximum(exponent, -900) - bits)
    found = np.round(numbers / unit) * unit
    found = np.where(np.isfinite(found), found, numbers)
    if isinstance(value, np.generic):
        return found.astype(value.dtype)[()]
    if value.flags.writeable:
        value[...] = found
    return value
