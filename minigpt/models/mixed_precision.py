"""Mixed precision: layers compute with copies of the parameters in bfloat16, and the optimiser keeps float32.

Half as many bytes are read, and tensor cores multiply them. Updates are smaller than bfloat16 can tell apart, so they
are added to the float32 numbers, and the copy is rounded anew (Micikevicius et al. 2018, section 3.1). A layer takes
`Parameter.value`, whichever that is; here the copies are made and taken away.
"""

import contextlib
from collections.abc import Iterable

from minigpt.device.arrays import named_dtype
from minigpt.nn import Parameter


def make_copies(parameters: Iterable[Parameter], dtype: str | None) -> None:
    """Let layers compute with copies of the parameters in this dtype, "bfloat16"; None: with the parameters."""
    for parameter in parameters:
        if dtype is None or parameter.always_wide:
            parameter.low = None
        else:
            parameter.low = parameter.data.astype(named_dtype(dtype))


@contextlib.contextmanager
def without_copies(parameters: Iterable[Parameter]):
    """Inside, these parameters have no copies in fewer bits; afterwards they have them again."""
    copies = [(parameter, parameter.low) for parameter in parameters if parameter.low is not None]
    for parameter, _ in copies:
        parameter.low = None
    try:
        yield
    finally:
        for parameter, low in copies:
            parameter.low = low
