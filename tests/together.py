"""Many small checks as one test: pytest needs more time for a case than such a check does."""

import inspect
from collections.abc import Callable, Iterable

import pytest


def together(cases: Iterable) -> Callable:
    """A decorator: one test that makes a check for every case, and tells the name of each case that fails.

    cases: values, each the first argument of the check and its own name; or {name: the first arguments, a tuple}. What
    other arguments a check has are fixtures, which all cases share.
    """
    named = cases if isinstance(cases, dict) else {str(case): (case,) for case in cases}
    assert named, "there is nothing to check"
    given = len(next(iter(named.values())))

    def decorate(check: Callable) -> Callable:
        fixtures = list(inspect.signature(check).parameters)[given:]

        def test(request):
            shared = [request.getfixturevalue(fixture) for fixture in fixtures]
            failed = [found for name in named if (found := _fault(check, name, [*named[name], *shared]))]
            if failed:
                pytest.fail("\n".join([f"{len(failed)} of {len(named)} cases fail:", *failed]), pytrace=False)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate


def _fault(check: Callable, name: str, arguments: list) -> str:
    """What is wrong with a case; "" where nothing is."""
    try:
        check(*arguments)
    except (Exception, pytest.fail.Exception) as error:
        return f"{name}: {type(error).__name__}: {error}"
    return ""
