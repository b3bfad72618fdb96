"""In the processes of a soak: a wall clock that is off by what a file says, and may jump any time.

Python runs this when it starts, since the folder lies on its path. Leases and sessions read this
clock; the times that stand beside answers come from ``datetime``, which is left alone.
"""

import os
import time

_file = os.environ.get("PARBALS_SOAK_CLOCK")
_true = time.time


def _jumped():
    try:
        with open(_file, encoding="ascii") as file:
            return _true() + float(file.read() or 0)
    except (OSError, ValueError):
        return _true()


if _file:
    time.time = _jumped
