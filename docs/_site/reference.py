"""Sphinx directives that generate reference pages from the code, so that they stay up to date.

    ```{parbals-strategies}      the table of strategies
    ```{parbals-commands}        every command with its options
    ```{parbals-routes}          every route of the labelling page's API

Each directive yields Markdown lines, which the page's own parser reads.
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
    """Yield a table with one row for each built-in strategy."""
    from parbals.strategies.table import STRATEGIES

    yield "| name | an item is | needs | random | cost | reference |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, strategy in STRATEGIES.items():
        requirements = {
            "target set": strategy.needs_target,
            "features": strategy.needs_features,
            "labels": strategy.needs_labels,
            "number of classes": strategy.needs_classes,
            "a model": strategy.needs_model,
        }
        needs = [word for word, is_needed in requirements.items() if is_needed]
        is_random = "yes" if strategy.stochastic else ""
        cells = [f"`{name}`", strategy.about, ", ".join(needs), is_random, strategy.cost]
        yield f"| {' | '.join([*cells, strategy.reference])} |"


def command_lines() -> Iterator[str]:
    """Yield a section for each command: description, usage, options."""
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
    r"""Yield the help text of a command; paragraphs after ``\b`` are preformatted."""
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        lines = paragraph.removeprefix("\b").strip("\n").splitlines()
        if paragraph.startswith("\b"):
            lines = ["```text", *lines, "```"]
        yield from lines
        yield ""


def route_lines() -> Iterator[str]:
    """Yield a table with one row for each route: address, description, status codes."""
    from parbals_label.web.address import PageAddress
    from parbals_label.web.serve import make_app

    # Routes use their session only when they are called, and nothing calls them here.
    schema = make_app(MagicMock(), token="none", address=PageAddress()).app.openapi()
    yield "| route | description | status codes |"
    yield "| --- | --- | --- |"
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            text = " ".join(route.get("description", "").split())
            codes = ", ".join(sorted(route["responses"]))
            yield f"| `{method.upper()} {path}` | {text} | {codes} |"


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
