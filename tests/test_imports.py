"""The import graph has no circle, of any size, also counting imports for type checkers alone."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from repository import SOURCES


def modules() -> dict[str, Path]:
    """Every module of the three packages, by its dotted name."""
    paths = {}
    for source in SOURCES:
        for path in source.rglob("*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            paths[".".join(parts).removesuffix(".__init__")] = path
    return paths


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Modules of ours that a file imports, wherever in it, and for whatever reason."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def graph() -> dict[str, set[str]]:
    paths = modules()
    # The front door names its rooms for type checkers; nobody inside comes in through it.
    doors = {"parbals"}
    return {
        name: set(imported(path, paths)) - {name} - doors
        for name, path in paths.items()
        if name not in doors
    }


def test_no_module_imports_itself_through_others():
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(reversed(error.args[1]))) from None


def test_the_packages_are_there():
    """The graph is not empty: a test that finds nothing to look at cannot fail."""
    names = graph()
    assert {"parbals.strategies.greedy", "parbals_label.store.store"} <= set(names)
    assert sum(map(len, names.values())) > 1_000
