"""One self-contained page about a grid, with tables and pictures beside it as files for a paper."""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import Suite, read_suite
from parbals.bench.packed import SUFFIX, PackedResults
from parbals.bench.records import RunRecord
from parbals.bench.report import sections
from parbals.bench.report.collect import Setting, collect
from parbals.bench.report.html import whole_page
from parbals.bench.report.measures import MEASURES, measure_named
from parbals.bench.report.pictures import Picture, draw_pictures
from parbals.bench.report.plots import to_png, to_svg
from parbals.bench.report.render import TextTable, to_latex, to_markdown
from parbals.bench.report.summaries import (
    agreement_tables,
    leaderboard_tables,
    savings_table,
    times_table,
)
from parbals.bench.report.tables import Table, all_tables
from parbals.errors import InputError
from parbals.files import whole_file

__all__ = ["build_report", "write_report"]


def write_report(
    results: ResultsFolder | PackedResults,
    out: Path,
    metric: str = "accuracy",
    *,
    pictures: bool = True,
) -> list[Path]:
    """Write ``report.html``, ``tables.md``, ``tables.tex`` and ``curves/*.png|svg``; returns what
    was written."""
    metric = measure_named(metric).key
    suite = _suite_of(results)
    order = {run.key: place for place, run in enumerate(suite.runs)}
    records = sorted(
        (r for r in results.records() if r.key in order), key=lambda record: order[record.key]
    )
    if not records:
        raise InputError(
            f"{results.path} holds no finished run of its suite yet; go on with `parbals bench "
            "run`."
        )
    settings = collect(records, suite.settings)
    drawn = draw_pictures(settings, metric)
    tables = _tables(settings, metric)
    files: dict[str, bytes] = {
        "report.html": build_report(suite, records, metric, drawn).encode(),
        "tables.md": "\n".join(to_markdown(table) for table in tables).encode(),
        "tables.tex": "\n".join(to_latex(table) for table in tables).encode(),
    }
    for picture in drawn if pictures else ():
        files[f"curves/{picture.name}.png"] = to_png(picture.figure)
        files[f"curves/{picture.name}.svg"] = to_svg(picture.figure).encode()
    try:
        (out / "curves").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} cannot be made: {error.strerror}.") from error
    for name, content in files.items():
        with whole_file(out / name) as file:
            file.write(content)
    return [out / name for name in files]


def build_report(
    suite: Suite,
    records: Sequence[RunRecord],
    metric: str = "accuracy",
    pictures: Sequence[Picture] | None = None,
) -> str:
    """The page: what was found, pictures, then tables.

    It loads nothing, has no script, and every text is escaped.
    """
    settings = collect(records, suite.settings)
    drawn = draw_pictures(settings, metric) if pictures is None else pictures
    parts = (
        sections.header(suite, records, settings, metric),
        sections.curves(settings, drawn, metric),
        sections.leaderboard(settings, metric),
        sections.tables(settings, metric),
        sections.agreement(settings),
        sections.savings(settings, metric),
        sections.times(settings),
        sections.footer(suite, records),
    )
    css = resources.files("parbals.bench").joinpath("report.css").read_text("utf-8")
    return whole_page(f"{suite.title}: results", css, "".join(parts))


def _suite_of(results: ResultsFolder | PackedResults) -> Suite:
    """A suite that has no name is called after its folder or file."""
    suite = read_suite(results.suite_text(), str(results.path / "suite.toml"))
    given = tomllib.loads(suite.text)
    if "name" in given:
        return suite
    name = results.path.resolve().name.removesuffix(SUFFIX)
    return replace(suite, name=name, title=str(given.get("title", name)))


def _tables(settings: Sequence[Setting], metric: str) -> list[Table | TextTable]:
    """For the files: the report's own metric first, then the summaries, then every other metric."""
    found: list[Table | TextTable] = [
        *all_tables(settings, metric),
        *leaderboard_tables(settings, metric),
    ]
    found += [*agreement_tables(settings), *savings_table(settings, metric), *times_table(settings)]
    for other in MEASURES:
        if other != metric:
            found += all_tables(settings, other)
    return found
