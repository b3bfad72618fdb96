"""The page's second process: it chooses items for the queue and renews report, predictions and map.

Orders come as JSON lines on standard input, {"choose": n, "renew": whether instead of what waits};
what it is doing goes to standard output in the same way. Two threads work, each with a store of its
own: one chooses, the other reports, so that neither waits for a program that the other compiles.
Both keep to one core and out of the way of labelling. The process ends when its input does, and may
be cut off at any time: nobody waits for it, since the server hands out quick items meanwhile
(:mod:`parbals_label.project.quick`).
"""

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from parbals_label.store.store import Store
from parbals_label.web.steps import Chooser, Reporter, load_engine

__all__ = ["main"]

_NICENESS = 10
_LOOK_AGAIN = 0.5


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    _give_way()
    out, speaking = sys.stdout, threading.Lock()
    sys.stdout = sys.stderr  # a library that prints must not be taken for us
    inbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda number, frame: _end(inbox))

    def say(**words: Any) -> None:
        with speaking:
            out.write(json.dumps(words) + "\n")
            out.flush()

    say(state="starting")
    _clear_drafts(folder)
    with Store.open(folder) as store:
        chooser = Chooser(store, say)
        say(state="idle")
        load_engine()  # before two threads ask for it at once
        threading.Thread(target=_keep_reporting, args=(folder, say), daemon=True).start()
        if not store.n_labelled:
            chooser.rehearse()
        while (order := inbox.get()) is not None:
            with suppress(queue.Empty):
                while True:
                    later = inbox.get_nowait()
                    if later is None:
                        return
                    order = later  # what is asked for last counts
            chooser.step(int(order.get("choose", 0)), renew=bool(order.get("renew")))


def _give_way() -> None:
    """Whoever labels comes first: the model computes when the server has nothing to do.

    Linux lets a process that is merely nice end its turn of a few milliseconds first, of which a
    label meets several; one that is idle it interrupts at once.
    """
    with suppress(AttributeError, OSError):
        os.nice(_NICENESS)
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _keep_reporting(folder: Path, say: Callable[..., None]) -> None:
    try:
        with Store.open(folder) as store:
            reporter = Reporter(store, say)
            while True:
                if not reporter.step():
                    time.sleep(_LOOK_AGAIN)
    except BaseException:  # a mistake of ours ends the process, which is then started again
        traceback.print_exc()
        os._exit(1)


def _listen(inbox: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in sys.stdin:
        with suppress(ValueError):
            inbox.put(json.loads(line))
    _end(inbox)


def _end(inbox: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    """End soon: at the next order, or in the middle of a long computation.

    Nothing that was stored is half-written.
    """
    inbox.put(None)
    late = threading.Timer(2.0, os._exit, (0,))
    late.daemon = True
    late.start()


def _clear_drafts(folder: Path) -> None:
    """Files that a worker left half-written when it was cut off."""
    for pattern in (".predictions.*.tmp", ".map.*.tmp"):
        for path in folder.glob(pattern):
            with suppress(OSError):
                path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
