"""The command line: one file for each group of commands, one way to say things."""

from parbals.cli.main import program

__all__ = ["program"]
