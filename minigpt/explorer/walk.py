"""The walk of the gradient from the loss down to the embedding: which step of it makes which row of the picture.

A row is a value of the stream: {"name": of the value, "label": a word of the page, "i": its block, for that word}.
"""

from typing import Any

from minigpt.explorer.named_pass import is_post_norm, stream_names
from minigpt.models.language_model import LanguageModel

Row = dict[str, Any]


def names_of_stream(model: LanguageModel) -> dict[str, Any]:
    """What the page calls the stream of a model, and the way back through it; is it only added to (pre-norm)?"""
    return {"pre_norm": not is_post_norm(model), "stream": stream_rows(model), "walk": walk(model)}


def stream_rows(model: LanguageModel) -> list[Row]:
    """The residual stream after the embedding and after each block, as rows."""
    first, *after_blocks = stream_names(model)
    rows = [_row(first, "stream.embedding")]
    for i, name in enumerate(after_blocks):
        rows.append(_row(name, "stream.block", i))
    return rows


def walk(model: LanguageModel) -> list[dict[str, Any]]:
    """The steps in the order of the backward pass: {"key": of its sentence, "name": of its name, "i": block, "rows"}.

    Every block does the same, so that the sentence is said of the last one, and the others refer to it.
    """
    stream = stream_rows(model)
    top = stream[-1]
    steps = [_step("loss", "loss", [])]
    if is_post_norm(model):
        norm = "post"
        steps.append(_step("head", "head", [top]))
    else:
        norm = "pre"
        steps.append(_step("head_norm", "head_norm", [_row("ln_f", "ln_f"), top]))
    last = len(model.h) - 1
    for i in reversed(range(len(model.h))):
        of_mlp, of_attention = _sums(model, i)
        of_attention.append(stream[i])
        mlp = f"mlp_{norm}" if i == last else "again_mlp"
        attention = f"attn_{norm}" if i == last else "again_attn"
        steps.append(_step(mlp, "mlp", of_mlp, i))
        steps.append(_step(attention, "attn", of_attention, i))
    steps.append(_step("embedding", "embedding", []))
    return steps


def _sums(model: LanguageModel, i: int) -> tuple[list[Row], list[Row]]:
    """The rows inside block i that the MLP's step fills, and those of attention's step above the stream below."""
    after_attention = _row(f"h.{i}.x_attn", "stream.sum_attn", i)
    if is_post_norm(model):
        after_mlp = _row(f"h.{i}.x_mlp", "stream.sum_mlp", i)
        after_norm = _row(f"h.{i}.ln_1", "stream.norm", i)
        return [after_mlp, after_norm], [after_attention]
    if getattr(model.h[i], "is_parallel", False):  # attention and MLP read one stream: no sum lies between them
        return [], []
    return [after_attention], []


def _row(name: str, label: str, i: int | None = None) -> Row:
    return {"name": name, "label": label, "i": i}


def _step(key: str, name: str, rows: list[Row], i: int | None = None) -> dict[str, Any]:
    return {"key": key, "name": name, "rows": rows, "i": i}
