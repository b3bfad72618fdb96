"""``python -m parbals`` is ``parbals``."""

from parbals.cli import program

program()
