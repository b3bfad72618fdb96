"""Array shapes are checked while the tests run: in the first calls of a function in each test.

Later calls of the same test come from the same loop, and checking all of them would more than
double the time of the tests. ``pyproject.toml`` names the modules whose functions are checked.
"""

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from beartype import beartype

__all__ = ["check_first_calls", "start_test"]

N_CHECKS = 10
"""A call has two: of the arguments, then of the arguments and the returned value."""

_n_checks: Counter[tuple[str, str]] = Counter()
_unchecked: set[Any] = set()


def check_first_calls(signature: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker that jaxtyping applies to a function with the signature of one of ours.

    Functions inside a function are made anew in each of its calls: they count as one.
    """
    name = (signature.__module__, signature.__qualname__)
    checker = functools.cache(lambda: beartype(signature))

    @functools.wraps(signature)
    def check(*arguments: Any, **named: Any) -> None:
        _n_checks[name] += 1
        if _n_checks[name] <= N_CHECKS:
            checker()(*arguments, **named)
        elif _n_checks[name] == N_CHECKS + 1:
            _leave_unchecked(*name)

    return check


def start_test() -> None:
    """Check every function again."""
    _n_checks.clear()
    for function in _unchecked:
        vars(function).pop("__no_type_check__", None)
    _unchecked.clear()


def _leave_unchecked(module: str, qualified_name: str) -> None:
    """Mark a function as ``typing.no_type_check`` does: jaxtyping then calls it directly."""
    function: Any = sys.modules[module]
    for name in qualified_name.split("."):
        function = getattr(function, name, None)
    if inspect.isfunction(function):
        function.__no_type_check__ = True  # type: ignore[attr-defined]
        _unchecked.add(function)
