"""One self-contained page about a grid, with tables and pictures beside it as files for a paper."""

import tomllib
from dataclasses import replace
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from parbals.errors import InputError
from parbals_label.files import whole_file

from parbals_bench.report.beside import beside_paper
from parbals_bench.report.plots import inline_svg, to_png, to_svg
from parbals_bench.report.results import ONE_AT_A_TIME, ONE_VS_ALL, SAVED, Results
from parbals_bench.report.tables import Table, to_html, to_latex
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.grid import read_suite
from parbals_bench.run.metrics import OWN_METRIC, metric_named

__all__ = ["build_page", "fill", "read_results", "whole_page", "write_report"]

_LINKS = ("Beside the paper", "Labels saved")
_GROUPS = {
    ONE_AT_A_TIME: "The model is refitted after every single label, so nothing is redundant. "
    "Dotted: as many labels of the same data, chosen in batches.",
    ONE_VS_ALL: "The same data with another class as the positive one.",
}


def read_results(stored: ResultsFiles, metric: str = "accuracy") -> Results:
    """Results stored in a folder or a packed file; a suite without a name gets that of the file."""
    report_metric = None if metric == OWN_METRIC else metric_named(metric)
    suite = read_suite(stored.suite_text(), str(stored.path / "suite.toml"))
    suite_table = tomllib.loads(suite.text)
    if "name" not in suite_table:
        title = str(suite_table.get("title", stored.name))
        suite = replace(suite, name=stored.name, title=title)
    by_key = {record.key: record for record in stored.records()}
    records = tuple(by_key[run.key] for run in suite.runs if run.key in by_key)
    if not records:
        raise InputError(
            f"{stored.path} holds no finished run of its suite yet; go on with `parbals bench run`."
        )
    if report_metric is not None:
        return Results(suite, records, report_metric)
    own_metric = Results(suite, records).metrics.get(OWN_METRIC)
    if own_metric is None:
        raise InputError(
            f"The runs in {stored.path} have no metric of their own; set metric in [settings] of "
            "the suite and run it again."
        )
    return Results(suite, records, own_metric)


def write_report(results: Results, out: Path) -> list[Path]:
    """Write ``report.html``, ``tables.tex`` and ``curves/*.png|svg``; return their paths."""
    tables = _tables(results)
    files = {
        "report.html": build_page(results).encode(),
        "tables.tex": "\n".join(map(to_latex, tables)).encode(),
    }
    for name, figure in results.figures.items():
        files[f"curves/{name}.png"] = to_png(figure)
        files[f"curves/{name}.svg"] = to_svg(figure).encode()
    try:
        (out / "curves").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} cannot be made: {error.strerror}.") from error
    for name, content in files.items():
        with whole_file(out / name) as file:
            file.write(content)
    return [out / name for name in files]


def build_page(results: Results) -> str:
    """The page as HTML: pictures, then tables; it loads nothing and has no script."""
    suite = results.suite
    records = results.records
    metric = results.metric
    missing = len(suite.runs) - len(records)
    waiting = f"{missing:,} runs of the suite are still missing; they are not counted."
    optional = {"agreement": _agreement, "savings": _savings}
    sections = {name: section(results) for name, section in optional.items()}
    links = zip(sections, ("#paper", "#saved"), _LINKS, strict=True)
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in record.versions.items())
        for record in records
    )
    body = fill(
        "parbals_bench.report",
        "report.html",
        title=escape(suite.title),
        waiting=f'<p class="soft">{waiting}</p>\n' if missing else "",
        cards=_cards(results),
        links="".join(
            f'<a href="{target}">{text}</a>' for name, target, text in links if sections[name]
        ),
        metric=metric.in_words,
        best=metric.best,
        curves=_curves(results),
        leaderboards="".join(map(to_html, results.leaderboard_tables)),
        metrics=_metrics(results),
        notes="".join(
            f"<p><b>Noted in {escape(where)}:</b> {escape(note)}</p>\n"
            for where, note in results.notes
        ),
        suite=escape(suite.name),
        settings=escape(suite.settings.in_words),
        versions="".join(f"<p>{escape(line)}</p>" for line in versions),
        **sections,
    )
    return whole_page(f"{suite.title}: results", body)


def whole_page(title: str, body: str, css: str = "") -> str:
    """The document around ``body``, which is HTML already; the title is escaped here."""
    styles = fill("parbals_bench.report", "report.css") + css
    return fill("parbals_bench.report", "page.html", title=escape(title), css=styles, body=body)


def fill(package: str, name: str, **values: str) -> str:
    """Fill a template of a package; the values of its ``$names`` are HTML already."""
    text = resources.files(package).joinpath(name).read_text("utf-8")
    return Template(text).substitute(values)


def _tables(results: Results) -> list[Table]:
    """For the files: the report's own metric first, then the summaries, then every other metric."""
    other_metrics = [name for name in results.metrics if name != results.metric.key]
    return [
        *results.tables[results.metric.key],
        *results.curve_tables[results.metric.key],
        *results.leaderboard_tables,
        *beside_paper(results.agreements),
        *results.savings_tables,
        *(table for name in other_metrics for table in results.tables[name]),
        *(table for name in other_metrics for table in results.curve_tables[name]),
    ]


def _cards(results: Results) -> str:
    runs = [record.run for record in results.records]
    numbers = {
        "runs": len(runs),
        "datasets": len({run.dataset for run in runs}),
        "strategies": len({run.strategy for run in runs}),
        "labels given": sum(run.budget.total for run in runs),
    }
    return "".join(
        f'<div class="card"><div class="number">{number:,}</div>{caption}</div>\n'
        for caption, number in numbers.items()
    )


def _curves(results: Results) -> str:
    overview = ""
    if SAVED in results.figures:
        words = (
            "The share of labels that each strategy saves against Random, a dot for every setting"
        )
        svg = inline_svg(results.figures[SAVED], "f0", words)
        overview = f'<figure class="wide">{svg}</figure>\n'
    groups: dict[str, list[str]] = {}
    for number, picture in enumerate(results.pictures, 1):
        svg = inline_svg(results.figures[picture.name], f"f{number}", picture.description)
        groups.setdefault(picture.group, []).append(f"<figure>{svg}</figure>\n")
    # The first group is open; the others are one click away.
    sections = []
    for index, (group, figures) in enumerate(groups.items()):
        opened = " open" if index == 0 or group == ONE_AT_A_TIME else ""
        about = f"<p>{escape(_GROUPS[group])}</p>\n" if group in _GROUPS else ""
        sections.append(
            f"<details{opened}><summary>{escape(group)} ({len(figures)})</summary>\n{about}"
            f'<div class="grid">\n{"".join(figures)}</div></details>\n'
        )
    return overview + "".join(sections)


def _metrics(results: Results) -> str:
    """All tables by every metric; radio buttons show one metric at a time."""
    buttons = []
    panels = []
    for key, metric in results.metrics.items():
        tables = [*results.tables[key], *results.curve_tables[key]]
        checked = " checked" if key == results.metric.key else ""
        buttons.append(
            f'<input type="radio" name="metric" id="by-{key}"{checked}>'
            f'<label for="by-{key}">{metric.title}</label>\n'
        )
        panels.append(
            f'<div class="panel {key}">\n<p>{escape(metric.explanation)} The {metric.best} mean of '
            f"a column is <u>underlined</u>.</p>\n{''.join(map(to_html, tables))}</div>\n"
        )
    return "".join(buttons + panels)


def _agreement(results: Results) -> str:
    tables = beside_paper(results.agreements)
    if not tables:
        return ""
    return f"""<h2 id="paper">Agreement with the paper</h2>
<p>Every figure that the paper gives for what we ran. Intervals overlap when our mean is no further
from the paper's than is allowed: both half-widths of the 95 % intervals together. Welch's test
compares the means with the paper's number of seeds.</p>
<div class="agree">
{"".join(map(to_html, tables))}</div>
"""


def _savings(results: Results) -> str:
    if not results.savings_tables:
        return ""
    return f"""<h2 id="saved">Labels saved</h2>
<p>How many labels fewer than Random a strategy needs for the same {results.metric.in_words}: the
best that both mean curves reach. "+80 of 300" means that Random needs 300 labels for it and the
strategy 220; a minus means more. "Not reached": the strategy never gets beyond where Random starts.
For medians that counts as the worst possible, all labels spent and none of Random's saved (-100 %
or below).</p>
{"".join(map(to_html, results.savings_tables))}"""
