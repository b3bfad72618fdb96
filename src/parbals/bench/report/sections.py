"""The parts of the report's page, each a function from results to HTML."""

import re
from collections import Counter
from collections.abc import Sequence
from html import escape

from parbals.bench.grid import Suite, settings_sentence
from parbals.bench.records import RunRecord
from parbals.bench.report.collect import Setting
from parbals.bench.report.findings import headlines, stage_times
from parbals.bench.report.measures import MEASURES
from parbals.bench.report.names import dataset_name
from parbals.bench.report.paper import agreements
from parbals.bench.report.pictures import ONE_AT_A_TIME, ONE_VS_ALL, SAVED, Picture
from parbals.bench.report.plots import inline_svg
from parbals.bench.report.render import titled, to_html
from parbals.bench.report.summaries import TIMES_HEAD, agreement_tables, savings_table, times_cells
from parbals.bench.report.tables import all_tables, leaderboards

__all__ = ["agreement", "curves", "footer", "header", "leaderboard", "savings", "tables", "times"]

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_GROUPS = {
    ONE_AT_A_TIME: "The model is refitted after every single label, so nothing is redundant. Dotted: as many labels "
    "of the same data, chosen in batches.",
    ONE_VS_ALL: "The same data with another class as the positive one.",
}


def header(
    suite: Suite, records: Sequence[RunRecord], settings: Sequence[Setting], metric: str
) -> str:
    missing = len(suite.runs) - len(records)
    waiting = f'<p class="soft">{missing:,} runs of the suite are still missing; they are not counted.</p>\n'
    cards = "".join(
        f'<div class="card"><div class="number">{number:,}</div>{escape(what)}</div>\n'
        for number, what in (
            (len(records), "runs"),
            (len({setting.dataset for setting in settings}), "datasets"),
            (len({record.run.strategy for record in records}), "strategies"),
            (sum(record.run.budget.total for record in records), "labels given"),
        )
    )
    says = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in headlines(settings, metric))
    paper = '<a href="#paper">Beside the paper</a>' if agreement_tables(settings) else ""
    saved = '<a href="#saved">Labels saved</a>' if savings_table(settings, metric) else ""
    time = '<a href="#time">Run time</a>' if stage_times(settings) else ""
    return f"""<h1>{escape(suite.title)}</h1>
<p class="lead">Labels are expensive. Each strategy starts from the same few random labels, then chooses batch after
batch of further points; the same Bayesian model is fitted to whatever it chose and tested on data that nobody chose
from. The better the choices, the faster the model improves.</p>
<h2 id="found">What was found</h2>
<ul class="says">
{says}</ul>
{waiting if missing else ""}<div class="cards">
{cards}</div>
<nav><a href="#curves">Pictures</a><a href="#leaderboard">Leaderboard</a><a href="#tables">Tables</a>{paper}
{saved}{time}</nav>
"""


def curves(settings: Sequence[Setting], pictures: Sequence[Picture], metric: str) -> str:
    groups: dict[str, list[str]] = {}
    overview = ""
    for number, picture in enumerate(pictures):
        svg = inline_svg(picture.figure, f"f{number}", picture.description)
        if picture.group == SAVED:
            overview = f'<figure class="wide">{svg}</figure>\n'
        else:
            groups.setdefault(picture.group, []).append(f"<figure>{svg}</figure>\n")
    # What is read first is open; the rest is one click away.
    parts = []
    for place, (group, figures) in enumerate(groups.items()):
        opened = " open" if place == 0 or group == ONE_AT_A_TIME else ""
        said = f"<p>{escape(_GROUPS[group])}</p>\n" if group in _GROUPS else ""
        parts.append(
            f"<details{opened}><summary>{escape(group)} ({len(figures)})</summary>\n{said}"
            f'<div class="grid">\n{"".join(figures)}</div></details>\n'
        )
    return f"""<h2 id="curves">Learning curves</h2>
<p>How {_lower(metric)} changes with labels. Bands are 95 % intervals of the mean (in crowded pictures, and with few
seeds, of the main lines alone). Lines start together; where they part, better choices begin to pay.</p>
{overview}{"".join(parts)}"""


def leaderboard(settings: Sequence[Setting], metric: str) -> str:
    parts = []
    best = MEASURES[metric].best
    for kind, board in leaderboards(settings, metric).items():
        rows = "".join(
            f"<tr><th scope=row>{escape(place.name)}</th><td>{place.n_best}</td><td>{place.n_top} "
            f"of {place.n_settings}</td><td>{_bar(place.n_top, place.n_settings)}</td></tr>\n"
            for place in board
        )
        head = f"<td></td><th scope=col>{best} mean</th><th scope=col>among the top</th><td></td>"
        parts.append(titled(kind, f"<thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody>"))
    return f"""<h2 id="leaderboard">Leaderboard</h2>
<p>Over all datasets and budgets, by {_lower(metric)}: how often each strategy has the {best} mean, and how often it is
among the top. One label at a time is not counted, for there ParBaLS EPIG is EPIG.</p>
<div class="grid">
{"".join(parts)}</div>
"""


def tables(settings: Sequence[Setting], metric: str) -> str:
    """All tables by every measure; radio buttons show one measure at a time."""
    buttons, panels = [], []
    for key, measure in MEASURES.items():
        found = all_tables(settings, key)
        paper = (
            " Small figures below ours are the paper's own."
            if any(table.has_paper for table in found)
            else ""
        )
        checked = " checked" if key == metric else ""
        buttons.append(
            f'<input type="radio" name="measure" id="by-{key}"{checked}><label for="by-{key}">{measure.title}</label>\n'
        )
        panels.append(
            f'<div class="panel {key}">\n<p>{escape(measure.explained)} The {measure.best} mean of a column is '
            f"<u>underlined</u>.{paper}</p>\n{''.join(to_html(table) for table in found)}</div>\n"
        )
    return f"""<h2 id="tables">Final {_lower(metric)}, and other measures</h2>
<p>After the last round: mean over seeds ± half of the 95 % Student-t interval. In each column the best mean is
<u>underlined</u>; all that cannot be told apart from it (Welch's t-test, p ≥ 0.05) are <b>bold</b>.</p>
<div class="switch">
{"".join(buttons)}{"".join(panels)}</div>
"""


def agreement(settings: Sequence[Setting]) -> str:
    found = agreement_tables(settings)
    if not found:
        return ""
    compared = [row for row in agreements(settings) if row.agrees is not None]
    agreeing = sum(bool(row.agrees) for row in compared)
    tested = [row.p for row in compared if row.p is not None]
    alike = f"Welch's test, with the paper's 10 seeds, gives p ≥ 0.05 for {sum(p >= 0.05 for p in tested)}."
    return f"""<h2 id="paper">Agreement with the paper</h2>
<p>Every figure that the paper gives for a dataset we ran. A figure agrees when our mean is no further from it than is
allowed: both half-widths of the 95 % intervals together. {agreeing} of {len(compared)} agree.
{alike if tested else ""}</p>
<div class="agree">
{"".join(to_html(table) for table in found)}</div>
"""


def savings(settings: Sequence[Setting], metric: str) -> str:
    found = savings_table(settings, metric)
    if not found:
        return ""
    return f"""<h2 id="saved">Labels saved</h2>
<p>How many labels fewer than Random a strategy needs for the same {_lower(metric)}: the best that both mean curves
reach. "+80 of 300" means that Random needs 300 labels for it and the strategy 220; a minus means more.
"Not reached": the strategy never gets beyond where Random starts. For medians that counts as the worst possible, all
labels spent and none of Random's saved (-100 % or below).</p>
{"".join(to_html(table) for table in found)}"""


def times(settings: Sequence[Setting]) -> str:
    found = stage_times(settings)
    if not found:
        return ""
    head = "".join(f"<th scope=col>{name}</th>" for name in TIMES_HEAD)
    parts = []
    for device, of_device in found.items():
        longest = max(t.select_once for t in of_device)
        rows = "".join(
            f"<tr><th scope=row>{escape(t.line.name)}</th>{''.join(f'<td>{cell}</td>' for cell in times_cells(t))}"
            f"<td>{_bar(t.select_once, longest)}</td></tr>\n"
            for t in of_device
        )
        content = f"<thead><tr><td></td>{head}<td></td></tr></thead><tbody>\n{rows}</tbody>"
        parts.append(titled(f"Run time on {device}", content))
    apart = " The runs were made on different machines: compare times within a table, never between tables."
    return f"""<h2 id="time">Run time</h2>
<p>One batch is the median time to choose one; the first batches of a process include the time to compile. The other
columns are means over runs. Fitting and predicting are the same for everyone; choosing is not. One label at a time is
not counted.{apart if len(found) > 1 else ""}</p>
{"".join(parts)}"""


def footer(suite: Suite, records: Sequence[RunRecord]) -> str:
    versions = dict.fromkeys(", ".join(f"{k} {v}" for k, v in r.versions.items()) for r in records)
    return f"""<footer>
{_notes(records)}<p>Suite “{escape(suite.name)}”: {escape(settings_sentence(suite.settings))}. All strategies of one
seed share the initial set and, in every round, the random candidates and targets.</p>
{"".join(f"<p>{escape(line)}</p>" for line in versions)}
</footer>
"""


def _notes(records: Sequence[RunRecord]) -> str:
    """Every note once.

    Records do not say whose note it is, but what all runs on a dataset carry is about the dataset.

    Doubts of the model and the strategies come first; those that differ in their numbers alone are
    told once.
    """
    n_runs = Counter(record.run.dataset for record in records)
    counts = Counter((note, record.run.dataset) for record in records for note in record.notes)
    doubts: dict[str, dict[str, list[RunRecord]]] = {}
    for record in records:
        for note in record.notes:
            if counts[note, record.run.dataset] < n_runs[record.run.dataset]:
                doubts.setdefault(_NUMBER.sub("0", note), {}).setdefault(note, []).append(record)
    said = []
    for found in doubts.values():
        runs = {record.key: record.run for noted in found.values() for record in noted}
        where = ", ".join(dict.fromkeys(dataset_name(run.dataset) for run in runs.values()))
        more = f" (and {len(found) - 1} more with other numbers)" if len(found) > 1 else ""
        said.append(
            (f"{len(runs):,} of {len(records):,} runs ({where})", f"{next(iter(found))}{more}")
        )
    for (note, dataset), count in counts.items():
        if count == n_runs[dataset]:
            said.append((f"all {count:,} runs on {dataset_name(dataset)}", note))
    return "".join(f"<p><b>Noted in {where}:</b> {escape(note)}</p>\n" for where, note in said)


def _lower(metric: str) -> str:
    title = MEASURES[metric].title
    return title if title == "F1" else title.lower()


def _bar(part: float, whole: float) -> str:
    share = 100 * part / whole if whole else 0
    return f'<span class="of"><span class="bar" style="width:{share:.0f}%"></span></span>'
