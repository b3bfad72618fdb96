"""What other packages add to our tables by entry points: found by name, loaded when asked for."""

from collections.abc import Container
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from parbals.errors import InputError, MissingDependencyError
from parbals.installing import install_command

__all__ = ["extension", "load_entry", "loadable_entries", "other_entries"]

T = TypeVar("T")


def other_entries(group: str, ours: Container[str]) -> dict[str, EntryPoint]:
    """Entry points of a group by name, without those that would shadow one of ours."""
    return {entry.name: entry for entry in entry_points(group=group) if entry.name not in ours}


def load_entry(entry: EntryPoint, kind: type[T], what: str, shown: str) -> T:
    """What an entry point names; messages call it a ``what``, and its class ``shown``."""
    try:
        loaded = entry.load()
    except Exception as error:
        raise InputError(
            f"The {what} {entry.name!r} ({entry.value}) cannot be loaded: {error}."
        ) from error
    if not isinstance(loaded, kind):
        raise InputError(
            f"The {what} {entry.name!r} ({entry.value}) is a {type(loaded).__name__}; its entry "
            f"point must name a {shown}."
        )
    return loaded


def loadable_entries(
    entries: dict[str, EntryPoint], kind: type[T], what: str, shown: str
) -> dict[str, T]:
    """All that can be loaded: one that cannot stops nothing but itself."""
    loaded: dict[str, T] = {}
    for name, entry in entries.items():
        with suppress(InputError):
            loaded[name] = load_entry(entry, kind, what, shown)
    return loaded


def extension(name: str) -> Any:
    """What a package that stands on this one adds to it (group ``parbals.extensions``)."""
    for entry in entry_points(group="parbals.extensions", name=name):
        return entry.load()
    raise MissingDependencyError(
        f"parbals.{name} needs a package that is not installed: {install_command('parbals[label]')}"
    )
