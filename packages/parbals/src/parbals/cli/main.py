"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from types import FrameType

import click

from parbals import __version__
from parbals.cli.commands import doctor, strategies
from parbals.cli.output import shown
from parbals.errors import MissingDependencyError, ParbalsError, ProjectDamagedError, ProjectError

__all__ = ["main", "program"]

_REFUSED = 2
_NO_PROJECT = 3
_INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C
_TERMINATED = 143  # and by SIGTERM
_INTERRUPTION = "parbals: interrupted; nothing was left half-written."

_ELSEWHERE = {
    "label": "add backup certify check drill edit embed estimate export forget history init "
    "invite label label-studio log next people predict release restore revoke salvage serve "
    "sessions status tell withdraw",
    "bench": "bench data demo",
}
"""Commands of packages that stand on this one, by the name of their entry point and extra."""


class _Commands(click.Group):
    """Our commands, and those that other packages bring (entry-point group ``parbals.commands``).

    An entry point names a tuple of commands. Where a command of ours is looked for, the package
    that has it is loaded and no other.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted({*super().list_commands(context), *_brought()})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        found = super().get_command(context, name)
        if found is not None:
            return found
        home = next((home for home, names in _ELSEWHERE.items() if name in names.split()), None)
        found = _brought(home).get(name)
        if found is None and home is not None:
            raise MissingDependencyError(
                f"`parbals {name}` comes with a package that is not installed: "
                f"pip install 'parbals[{home}]'"
            )
        return found


@cache
def _brought(home: str | None = None) -> dict[str, click.Command]:
    """Commands of other packages, or of one, by name."""
    entries = entry_points(group="parbals.commands")
    groups = [entry.load() for entry in entries if home in (None, entry.name)]
    return {command.name or "": command for group in groups for command in group}


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM: a command ends as it does by Ctrl-C."""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="parbals", message="%(prog)s %(version)s")
def parbals() -> None:
    """Choose the batch of items whose labels will improve a model most.

    \b
    Example:
      parbals demo        see it work on real text messages
      parbals strategies  what batches can be chosen by
      parbals init spam messages.csv --text message --classes ham,spam
      parbals serve spam  label in the browser
    """


parbals.add_command(doctor)
parbals.add_command(strategies)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exit codes: 0 done, 2 refused, 3 no usable project there, 130 Ctrl-C,
    143 SIGTERM.

    A command may have others of its own: ``status --until-error`` 4 for "not yet". Our own errors
    are one sentence on the error stream.
    """
    try:
        code = parbals.main(arguments, prog_name="parbals", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except ParbalsError as error:
        click.echo(f"parbals: {shown(str(error))}", err=True)
        code = _NO_PROJECT if isinstance(error, ProjectError | ProjectDamagedError) else _REFUSED
    except (KeyboardInterrupt, click.Abort) as end:
        click.echo(_INTERRUPTION, err=True)
        by_signal = any(isinstance(error, _TerminatedError) for error in (end, end.__context__))
        code = _TERMINATED if by_signal else _INTERRUPTED
    sys.exit(code or 0)


def _end_at_once(ignored: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C where Python can only ignore it, as in a callback of the garbage collector, ends the
    program as a crash would: files are written whole or not at all."""
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    click.echo(_INTERRUPTION, err=True)
    os._exit(_TERMINATED if isinstance(ignored.exc_value, _TerminatedError) else _INTERRUPTED)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _TerminatedError


def program() -> None:
    """What the shell starts."""
    sys.unraisablehook = _end_at_once
    signal.signal(signal.SIGTERM, _terminate)
    try:
        main()
    except SystemExit as end:
        if end.code in (_INTERRUPTED, _TERMINATED) and "jax" in sys.modules:
            # A tidy exit would take the compiler's threads down with a crash of their own.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(end.code))
        raise
