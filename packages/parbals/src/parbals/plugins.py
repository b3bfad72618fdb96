"""Entry points of other packages: found by name, loaded on first use."""

from collections.abc import Container, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from parbals.errors import InputError, MissingDependencyError
from parbals.installing import install_command

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["entry_points", "extension", "load_entry", "loadable_entries", "other_entries"]

T = TypeVar("T")


def entry_points(group: str) -> "Iterable[EntryPoint]":
    """Entry points of a group, of all installed packages."""
    from importlib import metadata  # slow to import, and few commands need it

    return metadata.entry_points(group=group)


def other_entries(group: str, built_in: Container[str]) -> "dict[str, EntryPoint]":
    """Entry points of a group by name, except those that would shadow a built-in name."""
    return {entry.name: entry for entry in entry_points(group=group) if entry.name not in built_in}


def load_entry(entry: "EntryPoint", expected: type[T], noun: str, type_name: str) -> T:
    """Load an entry point, which must be an instance of the ``expected`` type.

    Error messages call it a ``noun``, and its type ``type_name``.
    """
    try:
        loaded = entry.load()
    except Exception as error:
        raise InputError(
            f"The {noun} {entry.name!r} ({entry.value}) cannot be loaded: {error}."
        ) from error
    if not isinstance(loaded, expected):
        raise InputError(
            f"The {noun} {entry.name!r} ({entry.value}) is a {type(loaded).__name__}; its entry "
            f"point must name a {type_name}."
        )
    return loaded


def loadable_entries(
    entries: "dict[str, EntryPoint]", expected: type[T], noun: str, type_name: str
) -> dict[str, T]:
    """The entry points that can be loaded; the others are skipped."""
    loaded: dict[str, T] = {}
    for name, entry in entries.items():
        with suppress(InputError):
            loaded[name] = load_entry(entry, expected, noun, type_name)
    return loaded


def extension(name: str) -> Any:
    """An attribute of ``parbals`` from another package (group ``parbals.extensions``)."""
    for entry in entry_points(group="parbals.extensions"):
        if entry.name == name:
            return entry.load()
    raise MissingDependencyError(
        f"parbals.{name} needs a package that is not installed: {install_command('parbals[label]')}"
    )
