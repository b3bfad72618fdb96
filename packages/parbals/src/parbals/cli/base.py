"""Base classes of the commands: short help, rare options, nearest names, options from a file.

The help of a command shows the options that most people need. Rare ones work as well; they are
named below the others, ``--help-all`` explains them, and a file given by ``--settings`` may hold
them.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Any

import click

from parbals.errors import InputError

__all__ = ["SETTINGS", "Command", "CommandTable", "Group", "RareOption", "nearest"]


def nearest(name: str, known: Iterable[str]) -> str:
    """A question after the nearest known name, to end a message with; empty without a near one.

    >>> nearest("serv", ["status", "serve"])
    " Did you mean 'serve'?"
    """
    matches = get_close_matches(name, list(known), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


class CommandTable(Mapping[str, click.Command]):
    """The commands of a package by name; the file of a command is loaded when it is looked up.

    Args:
        package: where the files are.
        functions: name of a command → ``"file:function"``.

    >>> CommandTable("parbals.cli", {"doctor": "commands:doctor"})["doctor"].name
    'doctor'
    """

    def __init__(self, package: str, functions: Mapping[str, str]) -> None:
        self._package = package
        self._functions = functions

    def __getitem__(self, name: str) -> click.Command:
        file, _, function = self._functions[name].partition(":")
        command = getattr(import_module(f"{self._package}.{file}"), function)
        assert isinstance(command, click.Command)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


class RareOption(click.Option):
    """An option that the help names without explaining it."""

    def __init__(self, *declarations: Any, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes | {"hidden": True})

    def full_help_record(self, context: click.Context) -> tuple[str, str]:
        """Name and help of the option, as other options show them."""
        self.hidden = False
        try:
            return self.get_help_record(context) or ("", "")
        finally:
            self.hidden = True


def _print_full_help(context: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    rare = _rare_options(context.command)
    formatter = context.make_formatter()
    with formatter.section("Rare options"):
        formatter.write_dl([option.full_help_record(context) for option in rare])
    click.echo(f"{context.get_help()}\n\n{formatter.getvalue().rstrip()}")
    context.exit()


def _rare_options(command: click.Command) -> list[RareOption]:
    return [option for option in command.params if isinstance(option, RareOption)]


class Command(click.Command):
    """A command that names its rare options below its help, and suggests -n for --n."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        if _rare_options(self):
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    hidden=True,
                    callback=_print_full_help,
                    help="Explain the rare options, too.",
                )
            )

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(context, args)
        except click.NoSuchOption as error:
            short_name = error.option_name[1:]
            names = [name for parameter in self.get_params(context) for name in parameter.opts]
            # click looks for near names among the long ones only
            if len(short_name) == 2 and short_name in names:
                context.fail(f"No such option {error.option_name!r}. Did you mean {short_name!r}?")
            raise

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(context, formatter)
        names = ", ".join(option.opts[0] for option in _rare_options(self))
        if names:
            formatter.write_paragraph()
            sentence = f"More options, explained by --help-all: {names}."
            formatter.write(fill(sentence, formatter.width, break_on_hyphens=False) + "\n")


class Group(click.Group):
    """A group of commands that answers an unknown name with the nearest one."""

    command_class = Command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(context, name) is None and not context.resilient_parsing:
            if name.startswith("-"):
                return super().resolve_command(context, args)
            suggestion = nearest(name, self.list_commands(context))
            context.fail(f"No such command {name!r}.{suggestion}")
        return super().resolve_command(context, args)


Group.group_class = Group


def _read_settings(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Take the values of a TOML file as defaults of the options of this command."""
    if path is None:
        return
    import tomllib

    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from None
    options = {
        option.opts[0].lstrip("-"): option
        for option in context.command.params
        if isinstance(option, click.Option) and option.expose_value
    }
    defaults = {}
    for key, value in values.items():
        name = key.replace("_", "-")
        if name not in options:
            raise InputError(
                f"{path}: {key!r} is no option of `{context.command_path}`.{nearest(name, options)}"
            )
        option = options[name]
        is_comma_list = isinstance(value, list) and not option.multiple
        defaults[option.name or name] = ",".join(map(str, value)) if is_comma_list else value
    context.default_map = defaults


SETTINGS = click.option(
    "--settings",
    metavar="FILE.toml",
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_read_settings,
    help="Read options, rare ones too, from a file with lines such as batch-size = 64.",
)
"""Options of a command from a file; those on the command line win."""
