"""Keeps a Label Studio project supplied with the items worth labelling, and takes its labels."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from typing import Protocol

from parbals.errors import ProjectError
from parbals.files import locked

from parbals_label.label_studio.client import Client
from parbals_label.label_studio.connection import Connection, Result, Rules
from parbals_label.label_studio.server import ServerError
from parbals_label.store.store import Store

__all__ = ["Result", "Rules", "Waiting", "keep_supplied"]

_LONGEST = 60.0


class Waiting(Protocol):
    """How a run waits, and is stopped."""

    @property
    def reason(self) -> str | None:
        """Why to stop; None to go on."""

    def wait(self, seconds: float) -> bool:
        """Wait that long; False when it is time to stop instead."""


def keep_supplied(
    store: Store,
    client: Client,
    number: int,
    rules: Rules,
    stop: Waiting,
    *,
    say: Callable[[str], None],
) -> Result:
    """Supply project ``number`` until ``stop`` says so, every item is labelled, or once.

    A server that does not answer is tried again, for ever; everything else that is wrong ends it.
    """
    with ExitStack() as held:
        return _keep(store, client, number, rules, stop, say, held)


def _keep(
    store: Store,
    client: Client,
    number: int,
    rules: Rules,
    stop: Waiting,
    say: Callable[[str], None],
    held: ExitStack,
) -> Result:
    connection, waits = None, 0
    result = Result()
    while True:
        try:
            if connection is None:
                connection = Connection(store, client, number, rules, result, say)
                held.enter_context(_sole(store, connection.uid))
            done = connection.round()
            if waits:
                say(f"{client.url} answers again.")
            waits = 0
        except ServerError as error:
            if rules.once:
                raise
            if not waits:
                say(f"{error} Trying again until it does; nothing is lost.")
            waits += 1
            done = False
            if connection is not None:
                connection.doubt()  # what was asked for last may have been done or not
        if rules.once or done or stop.reason:
            result.ended = "once" if rules.once else (stop.reason or "done")
            break
        pause = rules.every if not waits else min(_LONGEST, rules.every * 2.0 ** min(waits, 10))
        if not stop.wait(pause):
            result.ended = stop.reason or "interrupted"
            break
    return result


@contextmanager
def _sole(store: Store, uid: str) -> Iterator[None]:
    """Two runs would hand the same items to the same server."""
    name = blake2b(uid.encode(), digest_size=6).hexdigest()
    busy = ProjectError(
        "Another process already supplies this Label Studio project from this folder; stop it "
        "first."
    )
    with locked(store.folder / f"label-studio-{name}.lock", busy):
        yield
