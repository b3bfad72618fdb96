"""``python -m parbals`` is ``parbals``."""

from parbals.cli.main import program

program()
