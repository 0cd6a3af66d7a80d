"""The exception for mistakes of the caller: it tells what was given, what was expected, and what to do."""


class InputError(ValueError):
    """Something given from outside cannot be used: a file, an option, a shape, an id.

    The message is one line and complete without a traceback; the command line prints it and exits with status 2.
    """


def check_ranges(options, least: int, *names: str) -> None:
    """Raises InputError for one of these options that is below `least`, infinite or not a number. None is none."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not least <= value < float("inf"):
            raise InputError(f"--{name.replace('_', '-')} {value}: give {least} or more")
