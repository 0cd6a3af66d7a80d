"""minigpt: GPT-1, GPT-2 and their relatives in NumPy and CuPy, with every gradient written by hand.

The public face, all that most programs need:

    from minigpt import ops, gradcheck              # the operations; are their gradients right?
    from minigpt import GPT1, GPT2, open_model      # the models; one from a folder, or a published one by its name
    from minigpt import load_tokenizer              # its tokenizer

Everything else has a place of its own: `minigpt.nn`, `minigpt.models`, `minigpt.data`, `minigpt.tokenizer`,
`minigpt.evaluation`, `minigpt.jobs`. What is named here is imported when it is first used.
"""

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minigpt import gradcheck, ops
    from minigpt.models.gpt1 import GPT1, GPT1Config
    from minigpt.models.gpt2 import GPT2, GPT2Config
    from minigpt.models.registry import open_model
    from minigpt.tokenizer import load as load_tokenizer

__version__ = "0.1.0"

__all__ = ["GPT1", "GPT2", "GPT1Config", "GPT2Config", "gradcheck", "load_tokenizer", "open_model", "ops"]

# When a product is done, the threads of OpenBLAS keep their cores busy in case there is soon another: for a tenth of a
# second after a product no other thread gets them. 2^4 cycles are enough. It is read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

_HOMES = {  # name -> (module, its name there)
    "GPT1": ("minigpt.models.gpt1", "GPT1"),
    "GPT1Config": ("minigpt.models.gpt1", "GPT1Config"),
    "GPT2": ("minigpt.models.gpt2", "GPT2"),
    "GPT2Config": ("minigpt.models.gpt2", "GPT2Config"),
    "load_tokenizer": ("minigpt.tokenizer", "load"),
    "open_model": ("minigpt.models.registry", "open_model"),
}


def __getattr__(name: str):
    if name in ("gradcheck", "ops"):
        return importlib.import_module(f"minigpt.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'minigpt' has no attribute {name!r}: it has {', '.join(__all__)}")
    module, there = _HOMES[name]
    return getattr(importlib.import_module(module), there)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
