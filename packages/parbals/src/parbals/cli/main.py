"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import FrameType

import click

from parbals import __version__
from parbals.cli.base import Group
from parbals.cli.commands import doctor, strategies
from parbals.cli.output import printable
from parbals.cli.spelling import new_spelling
from parbals.environment import command_environment
from parbals.errors import MissingDependencyError, ParbalsError, ProjectDamagedError, ProjectError
from parbals.installing import install_command
from parbals.plugins import entry_points

__all__ = ["main", "program"]

_REFUSED = 2
_NO_PROJECT = 3
_INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C
_TERMINATED = 143  # and by SIGTERM
_INTERRUPTION = (
    "parbals: interrupted; what is printed above as done is stored, and nothing was left "
    "half-written."
)

_SECTIONS = {
    "Project": ("init", "add", "edit", "target", "embed", "adapt"),
    "Label": ("serve", "next", "tell", "label", "label-studio", "labels", "queue"),
    "Results": ("status", "measure", "estimate", "predict", "export"),
    "Manage": ("team", "backup", "doctor"),
    "Research": ("strategies", "demo", "bench"),
}
"""The sections of `parbals --help`."""

_LIBRARY_COMMANDS = ("doctor", "strategies")
_BENCH_COMMANDS = ("demo", "bench")
_EXTRAS = {
    name: "bench" if name in _BENCH_COMMANDS else "label"
    for names in _SECTIONS.values()
    for name in names
    if name not in _LIBRARY_COMMANDS
}
_EXTRAS["check"] = "label"  # hidden: what `parbals doctor DIR` runs
"""The extra of parbals that brings a command; also the name of its entry point."""

_MODULES = {"label": "parbals_label.cli", "bench": "parbals_bench.cli"}
"""Where the tables of our own packages' commands are: entry points would take as long to read as a
command may take.
"""

_MISSING = {
    "label": "To label your data, install parbals-label",
    "bench": "To run the demo and the benchmarks, install parbals-bench",
}
"""What the help says of an extra that is not installed."""

_TITLE_WIDTH = 10
_NAME_WIDTH = 14


class _Program(Group):
    """The commands of parbals and of other packages (entry-point group ``parbals.commands``).

    An entry point names a tuple of commands. To run one of our commands, only the file that has
    it is loaded.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        installed = {*super().list_commands(context), *_installed_commands()}
        in_sections = [name for names in _SECTIONS.values() for name in names]
        others = sorted(installed.difference(in_sections))
        return [name for name in in_sections if name in installed] + others

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        command = super().get_command(context, name)
        if command is not None:
            return command
        extra = _EXTRAS.get(name)
        command = _installed_commands(extra).get(name)
        if command is None and extra is not None:
            raise MissingDependencyError(
                f"`parbals {name}` comes with a package that is not installed: "
                f"{install_command(f'parbals[{extra}]')}"
            )
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(context, new_spelling(args))

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, each with the first sentence of its help."""
        visible = {}
        for name in self.list_commands(context):
            command = self.get_command(context, name)
            if command is not None and not command.hidden:
                visible[name] = command
        in_sections = {name for names in _SECTIONS.values() for name in names}
        others = tuple(name for name in visible if name not in in_sections)
        for title, names in {**_SECTIONS, "Others": others}.items():
            section = {name: visible[name] for name in names if name in visible}
            if section:
                formatter.write_paragraph()
                _write_section(formatter, title, section)
        formatter.write_paragraph()
        for extra, sentence in _MISSING.items():
            if not _installed_commands(extra):
                formatter.write(f"{sentence}: {install_command(f'parbals[{extra}]')}\n")
        formatter.write("`parbals COMMAND --help` explains a command and shows examples.\n")


def _write_section(
    formatter: click.HelpFormatter, title: str, commands: dict[str, click.Command]
) -> None:
    """Write a line for each command; the first one begins with the title of the section."""
    width = formatter.width - _TITLE_WIDTH - _NAME_WIDTH
    heading = title
    for name, command in commands.items():
        words = command.get_short_help_str(width)
        formatter.write(f"{heading:<{_TITLE_WIDTH}}{name:<{_NAME_WIDTH}}{words}\n")
        heading = ""


@cache
def _installed_commands(extra: str | None = None) -> Mapping[str, click.Command]:
    """Commands of other packages, or of the package that an extra brings, by name."""
    if extra is None:
        groups = [entry.load() for entry in entry_points(group="parbals.commands")]
        return {command.name or "": command for group in groups for command in group}
    if find_spec(_MODULES[extra].partition(".")[0]) is None:
        return {}
    commands: Mapping[str, click.Command] = import_module(_MODULES[extra]).BY_NAME
    return commands


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM: a command ends as it does by Ctrl-C."""


@click.group(
    cls=_Program,
    options_metavar="",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="parbals", message="%(prog)s %(version)s")
def parbals() -> None:
    """Choose the items most worth labelling, label them, and train a model.

    \b
    Example: label the messages in messages.csv as ham or spam.
      parbals init spam messages.csv --text message --classes ham,spam
      parbals serve spam                    # label in the browser
      parbals status spam                   # see the estimated error
      parbals export spam --out labels.csv  # labels and predictions
    """


parbals.add_command(doctor)
parbals.add_command(strategies)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Exit codes: 0 done, 2 refused, 3 no usable project, 130 Ctrl-C, 143 SIGTERM; a command may add
    its own, as ``status --until-error`` does (4, not yet). Errors of parbals are one sentence on
    the error stream.
    """
    try:
        code = parbals.main(arguments, prog_name="parbals", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except ParbalsError as error:
        click.echo(f"parbals: {printable(str(error))}", err=True)
        code = _NO_PROJECT if isinstance(error, ProjectError | ProjectDamagedError) else _REFUSED
    except (KeyboardInterrupt, click.Abort) as end:
        click.echo(_INTERRUPTION, err=True)
        by_signal = any(isinstance(error, _TerminatedError) for error in (end, end.__context__))
        code = _TERMINATED if by_signal else _INTERRUPTED
    sys.exit(code or 0)


def _end_at_once(ignored: "sys.UnraisableHookArgs") -> None:
    """End the program where Python could only ignore Ctrl-C, as in a garbage collector's callback.

    It ends as a crash would: files are written whole or not at all.
    """
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    click.echo(_INTERRUPTION, err=True)
    os._exit(_TERMINATED if isinstance(ignored.exc_value, _TerminatedError) else _INTERRUPTED)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _TerminatedError


def program() -> None:
    """Run the command line as the shell starts it."""
    sys.unraisablehook = _end_at_once
    signal.signal(signal.SIGTERM, _terminate)
    os.environ |= {**command_environment(), **os.environ}
    try:
        main()
    except SystemExit as end:
        if end.code in (_INTERRUPTED, _TERMINATED) and "jax" in sys.modules:
            # A tidy exit would take the compiler's threads down with a crash of their own.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(end.code))
        # Nothing is left to collect that matters, and a last look at all objects takes as long as
        # a tenth of `parbals status`.
        gc.freeze()
        raise
