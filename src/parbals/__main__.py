"""``python -m parbals`` is ``parbals``."""

from parbals.cli import main

main()
