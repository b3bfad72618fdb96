"""Tables as Markdown, as LaTeX (booktabs) and as HTML."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from math import isnan

from parbals.bench.report.measures import Measure
from parbals.bench.report.stats import Interval, Standing
from parbals.bench.report.tables import Entry, Table

__all__ = ["TextTable", "number", "titled", "to_html", "to_latex", "to_markdown"]

_MARKDOWN = re.compile(r"([\\`*_\[\]|~$#])")
_TEX = str.maketrans(
    {mark: f"\\{mark}" for mark in "&%$#_{}"}
    | {"\\": "\\textbackslash{}", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}"}
    | {"<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", "\n": " "}
    | {"[": "{[}", "*": "{*}"}  # bare, either would belong to the \\ that ends the row above
    | {"×": "$\\times$", "±": "$\\pm$", "−": "$-$"}
)


@dataclass(frozen=True)
class TextTable:
    """A table of plain texts; the first column names the rows."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def number(interval: Interval, digits: int) -> str:
    """ "89.38 ± 0.36"; a single seed has no interval."""
    half = "" if isnan(interval.half_width) else f" ± {interval.half_width:.{digits}f}"
    return f"{interval.mean:.{digits}f}{half}"


def to_markdown(table: Table | TextTable) -> str:
    head, rows = _texts(table, _markdown, _plain)
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return f"### {_plain(_title(table))}\n\n" + "\n".join(lines) + "\n"


def to_latex(table: Table | TextTable) -> str:
    """A booktabs table (``\\usepackage{booktabs}``)."""
    head, rows = _texts(table, _latex, _tex)
    caption = _tex(_title(table))
    if isinstance(table, Table):
        best = table.measure.best.capitalize()
        caption += f". {best} mean underlined; bold if Welch's $p \\geq 0.05$ against it."
    return "\n".join(
        [
            "\\begin{table}",
            f"\\caption{{{caption}}}",
            "\\centering",
            f"\\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}",
            "\\toprule",
            f"{' & '.join(head)} \\\\",
            "\\midrule",
            *(f"{' & '.join(row)} \\\\" for row in rows),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def to_html(table: Table | TextTable) -> str:
    head, rows = _texts(table, _html, escape)
    top = "".join(f"<th scope=col>{cell}</th>" if cell else "<td></td>" for cell in head)
    body = "".join(
        f"<tr><th scope=row>{row[0]}</th>"
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>\n"
        for row in rows
    )
    return titled(_title(table), f"<thead><tr>{top}</tr></thead><tbody>\n{body}</tbody>")


def titled(title: str, content: str) -> str:
    """A table of HTML; its title stays in sight while a wide table scrolls below it."""
    return (
        f'<div class="titled"><p class="title">{escape(title)}</p>\n'
        f'<div class="scroll"><table aria-label="{escape(title)}">{content}</table></div></div>\n'
    )


def _title(table: Table | TextTable) -> str:
    return f"{table.title}: {_in_unit(table.measure)}" if isinstance(table, Table) else table.title


def _in_unit(measure: Measure) -> str:
    return f"{measure.title.lower() if measure.key != 'f1' else 'F1'}, {measure.unit}"


def _texts(
    table: Table | TextTable,
    write: Callable[[str, Standing, str | None], str],
    plain: Callable[[str], str],
) -> tuple[list[str], list[list[str]]]:
    if isinstance(table, TextTable):
        return [plain(cell) for cell in table.head], [
            [plain(cell) for cell in row] for row in table.rows
        ]
    digits = table.measure.digits
    rows = [
        [plain(name), *(_cell(entry, digits, write) for entry in row)]
        for name, row in table.rows.items()
    ]
    return ["", *(plain(column) for column in table.columns)], rows


def _cell(
    entry: Entry | None, digits: int, write: Callable[[str, Standing, str | None], str]
) -> str:
    if entry is None:
        return "–"
    paper = None if entry.paper is None else f"{entry.paper[0]:.2f} ± {entry.paper[1]:.2f}"
    return write(number(entry.standing.interval, digits), entry.standing, paper)


def _markdown(text: str, standing: Standing, paper: str | None) -> str:
    text = f"**{text}**" if standing.is_top else text
    text = f"<u>{text}</u>" if standing.is_best else text
    return text if paper is None else f"{text}<br>paper {paper}"


def _latex(text: str, standing: Standing, paper: str | None) -> str:
    text = text.replace(" ± ", " \\pm ")
    text = f"$\\mathbf{{{text}}}$" if standing.is_top else f"${text}$"
    text = f"\\underline{{{text}}}" if standing.is_best else text
    if paper is None:
        return text
    published = paper.replace("±", "\\pm")
    return f"{text} {{\\scriptsize (paper ${published}$)}}"


def _html(text: str, standing: Standing, paper: str | None) -> str:
    text = f"<b>{text}</b>" if standing.is_top else text
    text = f"<u>{text}</u>" if standing.is_best else text
    return text if paper is None else f'{text}<span class="paper">paper {paper}</span>'


def _tex(text: str) -> str:
    return text.translate(_TEX)


def _plain(text: str) -> str:
    """Markdown that shows the text as it is: no mark-up, no HTML, and no end of the cell."""
    text = _MARKDOWN.sub(r"\\\1", " ".join(text.splitlines()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
