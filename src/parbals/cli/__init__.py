"""The command line: one file for each group of commands, one way to say things."""

from parbals.cli.main import main, program

__all__ = ["main", "program"]
