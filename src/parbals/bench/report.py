"""One self-contained page about a grid, with tables and pictures beside it as files for a paper."""

from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from parbals.atomic import whole_file
from parbals.bench.collect import Setting, collect
from parbals.bench.findings import headlines, savings, stage_times
from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import Suite, read_suite, settings_sentence
from parbals.bench.names import KINDS
from parbals.bench.plots import curve_figure, inline_svg, to_png, to_svg
from parbals.bench.records import RunRecord
from parbals.bench.tables import (
    Table,
    ablation_tables,
    leaderboards,
    main_tables,
    one_vs_all_tables,
    to_html,
    to_latex,
    to_markdown,
)
from parbals.errors import InputError

__all__ = ["build_report", "write_report"]


def write_report(folder: ResultsFolder, out: Path, *, pictures: bool = True) -> list[Path]:
    """Write ``report.html``, ``tables.md``, ``tables.tex`` and ``curves/*.png|svg``; returns what was written."""
    suite = read_suite(folder.suite_text(), "suite.toml")
    wanted = {run.key for run in suite.runs}
    order = {run.key: place for place, run in enumerate(suite.runs)}
    records = sorted((r for r in folder.records() if r.key in wanted), key=lambda record: order[record.key])
    if not records:
        raise InputError(f"{folder.path} holds no finished run of its suite yet; go on with `parbals bench run`.")
    settings = collect(records, suite.settings)
    files: dict[str, bytes] = {"report.html": build_report(suite, records).encode()}
    tables = all_tables(settings)
    files["tables.md"] = "\n".join(to_markdown(table) for table in tables).encode()
    files["tables.tex"] = "\n".join(to_latex(table) for table in tables).encode()
    for kind, setting, strategies in _pictures(settings) if pictures else ():
        figure = curve_figure(setting, strategies)
        name = _file_name(f"{setting.dataset} {setting.positive or ''} {setting.budget} {kind}")
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


def all_tables(settings: Sequence[Setting]) -> list[Table]:
    """Every table of accuracy, in the order of the report."""
    return [*main_tables(settings), *one_vs_all_tables(settings), *ablation_tables(settings)]


def build_report(suite: Suite, records: Sequence[RunRecord]) -> str:
    """The page; nothing in it is loaded from anywhere else, and every text is escaped."""
    settings = collect(records, suite.settings)
    sections = (
        _header(suite, records, settings),
        _tables(settings),
        _leaderboard(settings),
        _curves(settings),
        _savings(settings),
        _times(settings),
        _footer(suite, records),
    )
    css = resources.files("parbals.bench").joinpath("report.css").read_text("utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{escape(suite.title)}: results</title>
<style>
{css}</style>
</head>
<body>
<main>
{"".join(sections)}</main>
</body>
</html>
"""


def _header(suite: Suite, records: Sequence[RunRecord], settings: Sequence[Setting]) -> str:
    n_datasets = len({setting.dataset for setting in settings})
    n_strategies = len({record.run.strategy for record in records})
    n_labels = sum(record.run.budget.total for record in records)
    missing = len(suite.runs) - len(records)
    waiting = f'<p class="soft">{missing:,} runs of the suite are still missing; they are not counted.</p>' * bool(
        missing
    )
    cards = "".join(
        f'<div class="card"><div class="number">{number:,}</div>{escape(what)}</div>\n'
        for number, what in (
            (len(records), "runs"),
            (n_datasets, "datasets"),
            (n_strategies, "strategies"),
            (n_labels, "labels given"),
        )
    )
    says = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in headlines(settings))
    return f"""<h1>{escape(suite.title)}</h1>
<p class="lead">Labels are expensive. Each strategy starts from the same few random labels, then chooses batch after
batch of further points; the same Bayesian model is fitted to whatever it chose and tested on data that nobody chose
from. The better the choices, the faster the model improves.</p>
<div class="cards">
{cards}</div>
<ul class="says">
{says}</ul>
{waiting}<nav><a href="#tables">Tables</a><a href="#leaderboard">Leaderboard</a><a href="#curves">Learning curves</a>
<a href="#saved">Labels saved</a><a href="#time">Run time</a></nav>
"""


def _tables(settings: Sequence[Setting]) -> str:
    tables = all_tables(settings)
    paper = " Small figures below ours are the paper's own." if any(table.has_paper for table in tables) else ""
    return f"""<h2 id="tables">Final test accuracy</h2>
<p>In per cent, mean over seeds ± half of the 95 % Student-t interval. In each column the highest mean is
<u>underlined</u>; all that cannot be told apart from it (Welch's t-test, p ≥ 0.05) are <b>bold</b>.{paper}</p>
{"".join(to_html(table) for table in tables)}"""


def _leaderboard(settings: Sequence[Setting]) -> str:
    parts = []
    for kind, board in leaderboards(settings).items():
        rows = "".join(
            f"<tr><th scope=row>{escape(place.name)}</th><td>{place.n_best}</td>"
            f"<td>{place.n_top} of {place.n_settings}</td>"
            f'<td><span class="of"><span class="bar" style="width:{_share(place.n_top, place.n_settings)}"></span>'
            "</span></td></tr>\n"
            for place in board
        )
        parts.append(
            f'<div class="scroll"><table><caption>{escape(kind)}</caption><thead><tr><td></td>'
            "<th scope=col>highest mean</th><th scope=col>among the top</th><td></td></tr></thead><tbody>\n"
            f"{rows}</tbody></table></div>\n"
        )
    return f"""<h2 id="leaderboard">Leaderboard</h2>
<p>Over all datasets and budgets: how often each strategy has the highest mean, and how often it is among the top.
One label at a time is not counted, for there ParBaLS EPIG is EPIG.</p>
<div class="grid">
{"".join(parts)}</div>
"""


def _curves(settings: Sequence[Setting]) -> str:
    figures = []
    for number, (kind, setting, strategies) in enumerate(_pictures(settings)):
        description = f"Test accuracy on {setting.name} against the number of labels, {kind}, budget {setting.budget}"
        svg = inline_svg(curve_figure(setting, strategies), f"f{number}", description)
        figures.append(f"<figure>{svg}</figure>\n")
    return f"""<h2 id="curves">Learning curves</h2>
<p>How accuracy grows with labels. Bands are 95 % intervals of the mean (in crowded pictures, and with few seeds, of the
main lines alone). Lines start together; where they part, better choices begin to pay.</p>
<div class="grid">
{"".join(figures)}</div>
"""


def _savings(settings: Sequence[Setting]) -> str:
    found = savings(settings)
    if not found:
        return ""
    columns = [s for s in settings if any(saving.setting is s for saving in found)]
    lines = list(dict.fromkeys(saving.line for saving in found))
    by_place = {(saving.line, id(saving.setting)): saving.found for saving in found}
    head = "".join(f"<th scope=col>{escape(s.name)}<br>{s.budget}</th>" for s in columns)
    rows = []
    for line in lines:
        cells = []
        for setting in columns:
            saved = by_place.get((line, id(setting)))
            cells.append("<td>–</td>" if saved is None else f"<td>{saved.saved:+.0f} of {saved.reference:.0f}</td>")
        rows.append(f"<tr><th scope=row>{escape(line.name)}</th>{''.join(cells)}</tr>\n")
    return f"""<h2 id="saved">Labels saved</h2>
<p>How many labels fewer than Random a strategy needs for the same accuracy: the highest that both mean curves reach.
"+80 of 300" means that Random needs 300 labels for it and the strategy 220; a minus means that it needs more.</p>
<div class="scroll"><table><thead><tr><td></td>{head}</tr></thead><tbody>
{"".join(rows)}</tbody></table></div>
"""


def _times(settings: Sequence[Setting]) -> str:
    times = stage_times(settings)
    longest = max(t.select_once for t in times)
    rows = "".join(
        f"<tr><th scope=row>{escape(t.line.name)}</th><td>{_seconds(t.select_once)}</td><td>{_seconds(t.select)}</td>"
        f"<td>{_seconds(t.fit)}</td><td>{_seconds(t.predict)}</td><td>{t.n_runs}</td>"
        f'<td><span class="of"><span class="bar" style="width:{_share(t.select_once, longest)}"></span></span></td>'
        "</tr>\n"
        for t in times
    )
    return f"""<h2 id="time">Run time</h2>
<p>Mean over all runs of a strategy. Fitting and predicting are the same for everyone; choosing is not. The first
batches of a process include the time to compile, so one batch is the median of its run.</p>
<div class="scroll"><table><thead><tr><td></td><th scope=col>one batch</th><th scope=col>all batches</th>
<th scope=col>fitting</th><th scope=col>predicting</th><th scope=col>runs</th><td></td></tr></thead><tbody>
{rows}</tbody></table></div>
"""


def _footer(suite: Suite, records: Sequence[RunRecord]) -> str:
    versions = list(dict.fromkeys(", ".join(f"{k} {v}" for k, v in r.versions.items()) for r in records))
    notes: dict[str, int] = {}
    for record in records:
        for note in record.notes:
            notes[note] = notes.get(note, 0) + 1
    doubts = "".join(
        f"<p><b>Noted in {count:,} runs:</b> {escape(note)}</p>\n"
        for note, count in sorted(notes.items(), key=lambda item: -item[1])[:5]
    )
    return f"""<footer>
{doubts}<p>Suite “{escape(suite.name)}”: {escape(settings_sentence(suite.settings))}. All strategies of one seed share
the initial set and, in every round, the random candidates and targets.</p>
{"".join(f"<p>{escape(line)}</p>" for line in versions[:3])}
</footer>
"""


def _pictures(settings: Sequence[Setting]) -> list[tuple[str, Setting, tuple[str, ...]]]:
    """One picture per setting where everything fits into it, else one per kind of table."""
    known = {name for names in KINDS.values() for name in names}
    pictures = []
    for setting in settings:
        others = tuple(x.strategy for x in setting.lines() if x.strategy not in known)
        everything = tuple(x.strategy for x in setting.lines())
        if len(everything) <= 7:
            pictures.append(("all strategies", setting, everything))
            continue
        for kind, strategies in KINDS.items():
            shown = strategies + (others if kind == list(KINDS)[1] else ())
            pictures.append((kind, setting, shown))
    return [(kind, setting, names) for kind, setting, names in pictures if setting.lines(names)]


def _file_name(text: str) -> str:
    return "-".join("".join(c if c.isalnum() or c in "+." else " " for c in text).lower().split())


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:.0f}%"


def _seconds(value: float) -> str:
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"
