"""Directives that write reference pages from the code, so that these cannot fall behind it.

    ```{parbals-strategies}      the strategy table
    ```{parbals-commands}        every command with its options
    ```{parbals-routes}          every route of the labelling page's API

Each is a list of Markdown lines, which the page's own parser reads.
"""

from collections.abc import Callable, Iterator
from inspect import cleandoc
from typing import Any
from unittest.mock import MagicMock

import click
from docutils import nodes
from docutils.statemachine import StringList
from parbals.cli.base import RareOption
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def strategy_lines() -> Iterator[str]:
    """One row for each strategy that parbals brings."""
    from parbals.strategies.table import STRATEGIES

    yield "| name | an item is | needs | other seeds, other batches | cost | from |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, strategy in STRATEGIES.items():
        needs = [
            word
            for word, needed in (
                ("target set", strategy.needs_target),
                ("features", strategy.needs_features),
                ("labels", strategy.needs_labels),
            )
            if needed
        ]
        seeds = "yes" if strategy.stochastic else ""
        cells = [f"`{name}`", strategy.about, ", ".join(needs), seeds, strategy.cost]
        yield f"| {' | '.join([*cells, strategy.reference])} |"


def command_lines() -> Iterator[str]:
    """A section for each command: what it does, how it is called, its options."""
    from parbals.cli.main import parbals

    yield from _command(parbals, click.Context(parbals, info_name="parbals"))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _command(inner, click.Context(inner, info_name=name, parent=context))
        return
    yield f"## {context.command_path}"
    yield ""
    yield from _help(command)
    yield "```text"
    yield " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield "```"
    yield ""
    for parameter in command.params:
        if isinstance(parameter, RareOption):
            names, text = parameter.full_help_record(context)
        elif isinstance(parameter, click.Option) and not parameter.hidden:
            names, text = parameter.get_help_record(context) or ("", "")
        else:
            continue
        yield f"* `{names}`: {' '.join(text.split())}"
    yield ""


def _help(command: click.Command) -> Iterator[str]:
    r"""The text of a command; what follows ``\b`` is kept as it is."""
    for part in cleandoc(command.help or "").split("\n\n"):
        kept = part.startswith("\b")
        lines = part.removeprefix("\b").strip("\n").splitlines()
        yield from (["```text", *lines, "```", ""] if kept else [*lines, ""])


def route_lines() -> Iterator[str]:
    """A row for each route: what it is called by, and what it does."""
    from parbals_label.web.place import Place
    from parbals_label.web.serve import make_app

    # Routes look at their session when they are called; nothing calls them here.
    schema = make_app(MagicMock(), token="none", place=Place()).app.openapi()
    yield "| route | what it does | answers |"
    yield "| --- | --- | --- |"
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            text = " ".join(route.get("description", "").split())
            answers = ", ".join(sorted(route["responses"]))
            yield f"| `{method.upper()} {path}` | {text} | {answers} |"


def _directive(make: Callable[[], Iterator[str]]) -> type[SphinxDirective]:
    class Written(SphinxDirective):
        def run(self) -> list[nodes.Node]:
            lines = StringList(list(make()), source=make.__name__)
            section = nodes.container()
            self.state.nested_parse(lines, 0, section, match_titles=True)
            return section.children

    return Written


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("parbals-strategies", _directive(strategy_lines))
    app.add_directive("parbals-commands", _directive(command_lines))
    app.add_directive("parbals-routes", _directive(route_lines))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
