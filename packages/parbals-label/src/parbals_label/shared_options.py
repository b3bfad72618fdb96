"""Options that commands of projects and of the experiment share."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

__all__ = ["ENCODE_WITH", "comma_list", "flag", "names", "option", "packed"]


def comma_list(context: Any, parameter: Any, value: str | None) -> tuple[str, ...]:
    """The callback of an option that takes A,B,..."""
    return () if value is None else tuple(part.strip() for part in value.split(",") if part.strip())


def option(
    declared: str, words: str, kind: Any = None, *, to: str | None = None, **how: Any
) -> Callable[[Any], Any]:
    """An option as people read of it, "--name VALUE"; its default is shown, ``to`` is its name."""
    name, _, metavar = declared.partition(" ")
    how |= {"type": kind, "metavar": metavar or None, "help": words}
    is_shown = how.get("default") is not None
    return click.option(name, *filter(None, [to]), show_default=is_shown, **how)


def flag(name: str, words: str) -> Callable[[Any], Any]:
    """An option without a value."""
    return click.option(name, is_flag=True, help=words)


def names(declared: str, words: str, **how: Any) -> Callable[[Any], Any]:
    """An option that takes A,B,..."""
    return option(declared, words, callback=comma_list, **how)


def packed(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Options that come to a command as one argument: what ``make`` makes of their values."""

    def add(command: Any) -> Any:
        def none() -> None:
            pass

        for each in options:
            each(none)
        keys = [parameter.name for parameter in none.__click_params__]  # type: ignore[attr-defined]

        @wraps(command)
        def with_one(*arguments: Any, **values: Any) -> Any:
            values[name] = make(**{key: values.pop(key) for key in keys})
            return command(*arguments, **values)

        for each in reversed(options):
            each(with_one)
        return with_one

    return add


def _options(**values: Any) -> Any:
    from parbals_label.encoders.base import Options

    return Options(**values)


ENCODE_WITH = packed(
    "encode_with",
    _options,
    option("--batch-size", "Items encoded at once.", click.IntRange(1, 256), default=32),
    option("--device NAME", "cuda, cuda:1, cpu, ...; by default the GPU if there is one."),
    flag("--half", "Compute and store in half precision."),
    flag("--skip-bad", "Leave unreadable images blank instead of stopping at them."),
)
"""How an encoder is run."""
