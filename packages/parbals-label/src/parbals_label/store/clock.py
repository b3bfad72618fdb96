"""The clock that leases run by: it goes on evenly when somebody sets the machine's clock.

It starts at the machine's time and then counts seconds for itself, asleep or awake. So within one
process no lease ends early or lasts for years because a clock jumped; between processes the page
starts its leases again (``Queue.restart_leases``), whatever the clock says.
"""

import time

__all__ = ["moment"]


def _seconds() -> float:
    """Seconds that nobody can set, those of a sleeping machine included where that is known."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


_START = time.time() - _seconds()


def moment() -> float:
    """Seconds since 1970, as far as the machine knew when the process started."""
    return _START + _seconds()
