"""What a cache keeps alive, array by array."""

from typing import Any

from minigpt.ops.overrides import OverrideCache


def arrays(cache: Any, name: str = "") -> dict[str, Any]:
    """The arrays that a cache keeps alive, however deep, each once, by the path where it is first met."""
    found = {}
    for path, array in _walk(cache, name):
        found.setdefault(id(array), (path, array))
    return dict(found.values())


def _walk(value: Any, path: str):
    if hasattr(value, "nbytes") and hasattr(value, "dtype"):
        yield path, value
        return
    if isinstance(value, OverrideCache):
        value = value.saved
    if isinstance(value, dict):
        named = value.items()
    elif isinstance(value, (tuple, list)):
        named = zip(getattr(value, "_fields", range(len(value))), value, strict=True)
    else:
        named = ()
    for key, item in named:
        yield from _walk(item, ".".join(part for part in (path, str(key)) if part))


def ledger(cache: Any, name: str = "") -> dict[str, int]:
    """What a cache costs, line by line, in bytes: {"h.0.mlp.x": 3072, "h.0.mlp.a": 12288, ...}.

    name: what stands before every path.
    """
    return {path: array.nbytes for path, array in arrays(cache, name).items()}


def nbytes(cache: Any) -> int:
    """Bytes that a cache keeps alive: the sum of its ledger."""
    return sum(ledger(cache).values())
