"""Options that commands of projects and of the experiment share."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from parbals.cli.base import RareOption

__all__ = ["ENCODE_WITH", "comma_list", "flag", "grouped", "names", "option"]


def comma_list(context: Any, parameter: Any, value: str | None) -> tuple[str, ...]:
    """Parse the value of an option that takes A,B,...

    >>> comma_list(None, None, "ham, spam")
    ('ham', 'spam')
    """
    if value is None:
        return ()
    return tuple(word.strip() for word in value.split(",") if word.strip())


def option(
    declaration: str,
    help: str,
    type: Any = None,
    *,
    argument: str | None = None,
    former: str | None = None,
    rare: bool = False,
    **attributes: Any,
) -> Callable[[Any], Any]:
    """An option declared as people read it, "--name VALUE"; its default is shown.

    ``argument`` is the name of the function's argument, where it differs from that of the option;
    ``former`` an earlier name of the option, which still works.
    The help of a command only names ``rare`` options.
    """
    name, _, metavar = declaration.partition(" ")
    declarations = [text for text in (name, former, argument) if text is not None]
    return click.option(
        *declarations,
        cls=RareOption if rare else click.Option,
        type=type,
        metavar=metavar or None,
        help=help,
        show_default=attributes.get("default") is not None,
        **attributes,
    )


def flag(name: str, help: str, *, rare: bool = False) -> Callable[[Any], Any]:
    """An option without a value."""
    return click.option(name, is_flag=True, help=help, cls=RareOption if rare else click.Option)


def names(declaration: str, help: str, **attributes: Any) -> Callable[[Any], Any]:
    """An option that takes A,B,..."""
    return option(declaration, help, callback=comma_list, **attributes)


def grouped(
    argument: str, combine: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Several options that a command receives as one argument, made of their values by ``combine``.

    The command's argument ``argument`` is ``combine(**values)``.
    """

    def decorate(command: Any) -> Any:
        def no_command() -> None:
            pass

        for add_option in options:
            add_option(no_command)
        parameters = no_command.__click_params__  # type: ignore[attr-defined]
        keys = [parameter.name for parameter in parameters]

        @wraps(command)
        def call(*arguments: Any, **values: Any) -> Any:
            group = {key: values.pop(key) for key in keys}
            values[argument] = combine(**group)
            return command(*arguments, **values)

        for add_option in reversed(options):
            add_option(call)
        return call

    return decorate


def _encoder_options(**values: Any) -> Any:
    from parbals_label.encoders.base import Options

    return Options(**values)


ENCODE_WITH = grouped(
    "encode_with",
    _encoder_options,
    option(
        "--batch-size N",
        "Encode this many items at once.",
        click.IntRange(1, 256),
        default=32,
        rare=True,
    ),
    option(
        "--device NAME",
        "Run the encoder on this device: cuda, cuda:1, cpu, ...  [default: a GPU if there is one]",
        rare=True,
    ),
    flag("--half", "Compute and store features in half precision.", rare=True),
    flag("--skip-bad", "Leave unreadable images blank instead of stopping.", rare=True),
)
"""How an encoder is run: an ``Options`` of :mod:`parbals_label.encoders.base`."""
