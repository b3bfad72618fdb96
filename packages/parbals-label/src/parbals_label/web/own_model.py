"""A model of the user's own at work behind the page: a thread of the process that holds it."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from parbals.errors import first_line

from parbals_label.store.store import Store
from parbals_label.web.steps import Chooser, Reporter

__all__ = ["OwnModel"]

_BATCH = 20
_PAUSE = 0.3


class OwnModel:
    """Does what the page's worker does, with a learner of ``own`` arguments (``model``, ...).

    Whenever answers have come it renews the report and the predictions, and then the items that
    nobody has seen yet; half of the time is left to the rest of the process. A model that fails is
    tried again with the next answer, and meanwhile the page shows what there is.
    """

    def __init__(self, folder: Path, own: Mapping[str, Any]) -> None:
        self._folder, self._own = folder, own
        self._ending, self._last = threading.Event(), ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after what is being computed."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with Store.open(self._folder) as store:
            chooser = Chooser(store, self._hear, self._own)
            reporter = Reporter(store, self._hear, self._own)
            seen, pause = 0, 0.0
            while not self._ending.wait(pause):
                began, answers = time.monotonic(), sum(store.revision()[:2])
                try:
                    reporter.step()
                    if answers != seen:
                        seen = answers
                        chooser.step(_BATCH, renew=True)
                except Exception as error:  # models of other people raise anything
                    self._say(f"The model failed: {type(error).__name__}: {first_line(error)}")
                pause = max(_PAUSE, time.monotonic() - began)

    def _hear(self, *, state: str = "", message: str | None = None, **_: Any) -> None:
        if state == "failed" and message:
            self._say(message)

    def _say(self, sentence: str) -> None:
        """In the notebook, once."""
        if sentence != self._last:
            self._last = sentence
            click.echo(sentence)
