"""The one exception for mistakes that are the caller's: it says what was given, what was expected, and what to do."""


class InputError(ValueError):
    """Something given from outside cannot be used: a file, an option, a shape, an id.

    The message is one line and complete without a traceback; the command line prints it and exits with status 2.
    """
