"""`minigpt check FILE`: a learner's operations against finite differences, alone and then in place."""

import types
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from minigpt import ops
from minigpt.errors import InputError
from minigpt.gradcheck.judge import describe, judge
from minigpt.jobs.check import Report, check_seed, models, pair_of


def run(file: str | Path, seed: int = 0, say: Callable[[str], None] = print) -> bool:
    """Print a table of relative errors; True if all of them are happy.

    file: Python with pairs such as layernorm_forward and layernorm_backward. Where its pairs are right, they are also
    tried as an override: in the composites that call them, and in small models.
    Raises InputError for a file that is missing, cannot be run, or has no pair.
    """
    check_seed(seed)
    module = load(file)
    with ops.using(module):  # refuses a file with no pair, or with half of one
        report = Report(say)
        written = operations_in(module)
        for op in written:
            report.add(judge(op, *pair_of(module, op), seed))
        if report.failed:
            say("Once these are right, they are also tried in place: in the composites and in small models.")
            return report.close()
        for op in ops.composites:
            if op not in written:
                first_case = islice(judge(op, *pair_of(ops, op), seed), 1)
                report.add(first_case, "with it: ")
        report.add(models(seed, n_layer=1), "with it: ")
        return report.close()


def load(file: str | Path) -> types.ModuleType:
    """Run a Python file and return it as a module; nothing is left beside it.

    Raises InputError for a file that is missing, is not Python, or raises.
    """
    path = Path(file)
    if not path.is_file():
        raise InputError(f"{path} is not a file: give Python with a pair such as layernorm_forward, layernorm_backward")
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        message = getattr(error, "msg", error)
        raise InputError(f"{path}{where}: this is not Python: {message}") from error
    try:
        exec(code, vars(module))
    except (Exception, SystemExit) as error:
        raise InputError(f"{path} cannot be run: {describe(error)}") from error
    return module


def operations_in(module: types.ModuleType) -> list[str]:
    """The operations of which a module has both passes, written there and not imported from `minigpt.ops`."""
    written = {name for name, value in vars(module).items() if value is not getattr(ops, name, None)}
    return [op for op in ops.names if written >= {f"{op}_forward", f"{op}_backward"}]
