"""One self-contained page about a demo run: nothing is loaded from elsewhere, texts are escaped."""

from collections.abc import Iterable
from html import escape

import numpy as np
from matplotlib.figure import Figure
from parbals import __version__
from parbals.strategies.table import DEFAULT_STRATEGY, RANDOM_STRATEGY, strategy_title
from parbals.strategies.table import STRATEGIES as TABLE
from parbals.wording import percent

from parbals_bench.datasets.table import dataset_title
from parbals_bench.demo.run import STRATEGIES, Demo
from parbals_bench.report.page import fill, whole_page
from parbals_bench.report.plots import Curve, curve_figure, inline_svg, styles_of
from parbals_bench.report.stats import mean_interval
from parbals_bench.report.tables import number, text_table, to_html
from parbals_bench.run.metrics import METRICS

__all__ = ["build_report", "curve_sentences", "curves", "worth_sentences"]

_COLOURS = {name: style[0] for name, style in zip(STRATEGIES, styles_of(STRATEGIES), strict=True)}
_SHOWN_METRICS = ("accuracy", "f1")
_LONGEST_TEXT = 190


def curves(demo: Demo, metric: str) -> Figure:
    """The learning curves of one metric: mean over seeds with its 95 % interval."""
    lines = [
        Curve(strategy_title(name), name, demo.budget.n_labels, demo.values(name, metric) / 100)
        for name in STRATEGIES
    ]
    title = f"{dataset_title('sms-spam')}  ·  {demo.budget.spelt}"
    figure = curve_figure(lines, title, METRICS[metric])
    figure.axes[0].set_xticks(demo.budget.n_labels)
    return figure


def build_report(demo: Demo) -> str:
    """The whole page."""
    budget = demo.budget
    settings = demo.records[DEFAULT_STRATEGY][0].run.settings
    largest = max(float(batch.evaluation.initial_scores.max()) for batch in demo.first.values())
    words = {name: f"{METRICS[name].title} against the number of labels" for name in _SHOWN_METRICS}
    seconds = {
        name: np.mean([run.seconds["select"] for run in records])
        for name, records in demo.records.items()
    }
    times = ", ".join(f"{strategy_title(name)} {mean:.2f} s" for name, mean in seconds.items())
    notes = "".join(f"<p><b>The model warned:</b> {escape(note)}</p>\n" for note in demo.notes)
    body = fill(
        "parbals_bench.demo",
        "report.html",
        n_pool=f"{len(demo.pool):,}",
        cards="".join(_card(demo, name) for name in demo.first),
        initial=str(budget.initial),
        rounds=str(budget.rounds),
        batch=str(budget.batch),
        n_test=f"{demo.n_test:,}",
        spam=percent(demo.spam_share),
        ham=percent(1 - demo.spam_share),
        n_targets=str(settings.n_targets),
        batches="".join(_batch_card(demo, name, max(largest, 1e-12)) for name in STRATEGIES),
        worth=_list(worth_sentences(demo)),
        grew=_list(curve_sentences(demo)),
        curves="".join(
            f"<figure>{inline_svg(curves(demo, metric), metric, description)}</figure>\n"
            for metric, description in words.items()
        ),
        tables="".join(_table(demo, name) for name in _SHOWN_METRICS),
        notes=notes,
        version=escape(__version__),
        n_features=str(demo.X_pool.shape[1]),
        times=times,
    )
    title = "parbals demo: which messages should be labelled next?"
    return whole_page(title, body, fill("parbals_bench.demo", "report.css"))


def worth_sentences(demo: Demo) -> list[str]:
    """How much each first batch repeats itself, and what ours tells the model beside the others."""
    sentences = [
        f"{strategy_title(strategy)}: {percent(batch.redundancy)} of the information in its "
        "messages is redundant."
        for strategy, batch in demo.first.items()
    ]
    ours = demo.first[DEFAULT_STRATEGY].joint
    compared = [
        f"{ours / batch.joint:.1f} times as much as the {strategy_title(other)} batch"
        for other, batch in demo.first.items()
        if other != DEFAULT_STRATEGY and batch.joint > 0
    ]
    if compared:
        sentences.append(
            f"The {strategy_title(DEFAULT_STRATEGY)} batch tells the model "
            f"{' and '.join(compared)}, for the same labelling work."
        )
    return sentences


def curve_sentences(demo: Demo) -> list[str]:
    """What the learning curves show, without claiming more than the seeds support."""
    final = {strategy: demo.values(strategy, "accuracy")[:, -1] for strategy in STRATEGIES}
    order = sorted(final, key=lambda strategy: -final[strategy].mean())
    means = ", ".join(
        f"{strategy_title(name)} {percent(final[name].mean() / 100)}" for name in order
    )
    seeds = "one seed" if demo.n_seeds == 1 else f"{demo.n_seeds} seeds"
    sentences = [
        f"With {demo.budget.total} labels the mean test accuracy over {seeds} was: {means}."
    ]
    for other in STRATEGIES:
        if other == DEFAULT_STRATEGY:
            continue
        gap = mean_interval(
            final[DEFAULT_STRATEGY] - final[other]
        )  # paired: a seed is a split of the data
        lead = (
            f"{strategy_title(DEFAULT_STRATEGY)} ended {abs(gap.mean):.1f} points "
            f"{'above' if gap.mean >= 0 else 'below'} {strategy_title(other)}"
        )
        interval = f"(95% interval ±{gap.half_width:.1f})"
        if np.isnan(gap.half_width):
            sentences.append(f"{lead} in this one run; a single run proves nothing, try --seeds 5.")
        elif abs(gap.mean) > gap.half_width:
            sentences.append(f"{lead} {interval}, a clear difference here.")
        else:
            sentences.append(f"{lead} {interval}, which {seeds} cannot tell from no difference.")
    return sentences


def _card(demo: Demo, strategy: str) -> str:
    batch = demo.first[strategy]
    random_information = demo.first[RANDOM_STRATEGY].joint
    accuracy = demo.values(strategy, "accuracy")[:, -1].mean() / 100
    beside = ""
    if strategy != RANDOM_STRATEGY and random_information > 0:
        times = batch.joint / random_information
        beside = f"<br>It tells the model <b>{times:.1f}</b> times as much as the random one."
    return (
        f'<div class="card" style="--method: {_COLOURS[strategy]}">'
        f"<h3>{strategy_title(strategy)}</h3>"
        f'<div class="number">{percent(accuracy)}</div>'
        f"of new messages sorted rightly after {demo.budget.total} labels.<br>"
        f"<b>{percent(batch.redundancy)}</b> of the information in its first batch is redundant."
        f"{beside}</div>\n"
    )


def _batch_card(demo: Demo, strategy: str, largest: float) -> str:
    batch = demo.first[strategy]
    evaluation = batch.evaluation
    # The evaluation orders the batch by information; its indices are positions in the batch.
    items = []
    for rank, position in enumerate(evaluation.indices):
        row = int(batch.rows[position])
        text = demo.pool.texts[row]
        if len(text) > _LONGEST_TEXT:
            text = text[: _LONGEST_TEXT - 1].rstrip() + "…"
        label = escape(str(demo.pool.labels[row]))
        alone = float(evaluation.initial_scores[rank])
        conditional = float(evaluation.scores[rank])
        items.append(
            f'<li><span class="rank">{rank + 1}.</span> {escape(text)} '
            f'<span class="chip {label}">{label}</span>'
            f'<div class="worth"><span class="alone" style="width:{_share(alone, largest)}"></span>'
            f'<span style="width:{_share(conditional, largest)}"></span></div></li>\n'
        )
    return (
        f'<section class="card" style="--method: {_COLOURS[strategy]}">'
        f"<h3>{strategy_title(strategy)}</h3>"
        f"<div>Each message was {_rule(strategy)}.</div>"
        f'<ol class="items">\n{"".join(items)}</ol></section>\n'
    )


def _rule(strategy: str) -> str:
    row = TABLE[strategy]
    if not row.uses_predictions:
        return row.about
    how = "given those already in the batch" if row.batch_aware else "by itself"
    return f"{row.about}; each was scored {how}"


def _table(demo: Demo, metric: str) -> str:
    caption = "mean ± half of the 95% interval" if demo.n_seeds > 1 else "one run"
    values = [demo.values(name, metric) for name in STRATEGIES]
    rows = {
        f"{n_labels} labels": [number(mean_interval(x[:, step]), 1) for x in values]
        for step, n_labels in enumerate(demo.budget.n_labels)
    }
    titles = [strategy_title(name) for name in STRATEGIES]
    return to_html(text_table(f"{METRICS[metric].title}, % ({caption})", titles, rows))


def _list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="says">{items}</ul>'


def _share(value: float, largest: float) -> str:
    return f"{100 * min(1.0, max(0.0, value / largest)):.1f}%"
