"""One self-contained page about a demo run: nothing is loaded from elsewhere, texts are escaped."""

import base64
from collections.abc import Iterable
from html import escape
from importlib import resources

import numpy as np
from parbals import __version__
from parbals.strategies.table import DEFAULT, UNIFORM, strategy_title
from parbals.strategies.table import STRATEGIES as TABLE
from parbals.wording import percent

from parbals_bench.demo.plots import COLOURS, curves, map_figure
from parbals_bench.demo.run import SIMILAR, STRATEGIES, Demo
from parbals_bench.report.page import whole_page
from parbals_bench.report.plots import inline_svg, to_png
from parbals_bench.report.stats import mean_interval
from parbals_bench.report.tables import number, text_table, to_html
from parbals_bench.run.metrics import METRICS

__all__ = ["build_report", "curve_sentences", "worth_sentences"]

_SHOWN_METRICS = ("accuracy", "f1")
_LONGEST_TEXT = 190
_ON_THE_PAGE = """parbals init mine messages.csv --text message --classes ham,spam
parbals serve mine            # label in the browser"""
_IN_PYTHON = """learner = parbals.ActiveLearner(frame, classes=["ham", "spam"])
batch = learner.ask(20)       # positions of the rows to label
learner.tell(batch, labels)
print(learner.report())"""


def build_report(demo: Demo, places: dict[int, np.ndarray]) -> str:
    """The whole page; ``places``: where :func:`~parbals_bench.demo.plots.pool_map` put messages."""
    sections = (
        _header(demo),
        _problem(demo),
        _choices(demo),
        _map(demo, places),
        _curves(demo),
        _next(),
        _footer(demo),
    )
    styles = (("parbals_bench.report", "report.css"), ("parbals_bench.demo", "report.css"))
    css = [resources.files(folder).joinpath(name).read_text("utf-8") for folder, name in styles]
    title = "parbals demo: which messages should be labelled next?"
    return whole_page(title, "".join(css), "".join(sections))


def worth_sentences(demo: Demo) -> list[str]:
    """How much each first batch repeats itself, and what ours teaches beside the others."""
    sentences = [
        f"{strategy_title(strategy)}: {percent(batch.redundancy)} of what its messages know is "
        "said twice."
        for strategy, batch in demo.first.items()
    ]
    ours = demo.first[DEFAULT].joint
    compared = [
        f"{ours / batch.joint:.1f} times as much as the {strategy_title(other)} batch"
        for other, batch in demo.first.items()
        if other != DEFAULT and batch.joint > 0
    ]
    if compared:
        sentences.append(
            f"The {strategy_title(DEFAULT)} batch teaches {' and '.join(compared)}, for the same "
            "labelling work."
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
        if other == DEFAULT:
            continue
        gap = mean_interval(final[DEFAULT] - final[other])  # paired: a seed is a split of the data
        lead = (
            f"{strategy_title(DEFAULT)} ended {abs(gap.mean):.1f} points "
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


def _header(demo: Demo) -> str:
    cards = "".join(
        f'<div class="card" style="--method: {COLOURS[name]}"><h3>{strategy_title(name)}</h3>'
        f'<div class="number">{percent(demo.values(name, "accuracy")[:, -1].mean() / 100)}</div>'
        f"of new messages sorted rightly after {demo.budget.total} labels.<br>"
        f"<b>{percent(batch.redundancy)}</b> of what its first batch knows is said twice."
        f"{_beside_random(demo, name)}</div>\n"
        for name, batch in demo.first.items()
    )
    return f"""<h1>Which messages should be labelled next?</h1>
<p class="lead">Labels cost time, so each should teach the model something new. A batch of the
messages that score best one by one often asks the same question again and again. ParBaLS builds a
batch in which every message still has something to add. This page shows both on
{len(demo.pool):,} real text messages.</p>
<div class="grid narrow">
{cards}</div>
"""


def _beside_random(demo: Demo, strategy: str) -> str:
    random = demo.first[UNIFORM].joint
    if strategy == UNIFORM or random <= 0:
        return ""
    times = demo.first[strategy].joint / random
    return f"<br>It teaches <b>{times:.1f}</b> times as much as the random one."


def _problem(demo: Demo) -> str:
    budget, run = demo.budget, demo.records[STRATEGIES[0]][0].run
    return f"""<h2>The problem</h2>
<p>A spam filter has to be built from a pile of unlabelled text messages. A person can say "ham"
(wanted) or "spam" for a few of them: {budget.initial} drawn at random to begin with, then
{budget.rounds} batches of {budget.batch}. After each batch the model learns from all labels so far,
and the next batch is chosen. What should be in it?</p>
<p>The model knows how unsure it is. A message is worth labelling when its label would also settle
<em>other</em> messages that the model wavers about.</p>
<p>Accuracy is measured on {demo.n_test:,} further messages that no method ever sees.
{percent(demo.spam_share)} of messages are spam, so calling everything ham would already be
{percent(1 - demo.spam_share)} accurate: look at the F1 score of spam too.</p>
<details><summary>Details: how a message is scored</summary>
<p>The model is a Bayesian classifier, which holds a whole range of plausible opinions. EPIG and
ParBaLS choose by how far a label is expected to lower the error on {run.settings.n_targets} target
messages, which stand for what the filter is meant for. What a batch teaches is measured on this
page by the information, in nats, that its labels carry about those of the target messages.</p>
</details>
"""


def _choices(demo: Demo) -> str:
    largest = max(float(batch.judged.initial_scores.max()) for batch in demo.first.values())
    cards = "".join(_batch_card(demo, name, max(largest, 1e-12)) for name in STRATEGIES)
    return f"""<h2>What each method chose first</h2>
<p>All methods start from the same model. The pale bar is what a message would teach by itself, the
strong bar what it still teaches once those above it are labelled. Messages that teach most come
first; the label is what the person answered. "Repeats" marks near-duplicates.</p>
<div class="grid narrow">
{cards}</div>
<p class="soft">All batches are measured in the same way, however they were chosen. The messages are
real, and some are coarse.</p>
"""


def _batch_card(demo: Demo, strategy: str, largest: float) -> str:
    batch = demo.first[strategy]
    judged = batch.judged
    # The judge orders the batch by information; its positions count within the batch.
    similarity = batch.similarity[np.ix_(judged.indices, judged.indices)]
    items = []
    for rank, position in enumerate(judged.indices):
        row = int(batch.rows[position])
        text, label = demo.pool.texts[row], escape(str(demo.pool.labels[row]))
        alone, given = float(judged.initial_scores[rank]), float(judged.scores[rank])
        twins = np.flatnonzero(similarity[rank, :rank] >= SIMILAR)
        flag = f' <span class="chip flag">repeats {twins[0] + 1}</span>' if len(twins) else ""
        shown = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1].rstrip() + "…"
        items.append(
            f'<li><span class="rank">{rank + 1}.</span> {escape(shown)} '
            f'<span class="chip {label}">{label}</span>{flag}'
            f'<div class="worth"><span class="alone" style="width:{_share(alone, largest)}"></span>'
            f'<span style="width:{_share(given, largest)}"></span></div></li>\n'
        )
    return (
        f'<section class="card" style="--method: {COLOURS[strategy]}">'
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


def _map(demo: Demo, places: dict[int, np.ndarray]) -> str:
    pictures = {name: to_png(map_figure(demo, places, (name,))) for name in STRATEGIES}
    figures = "".join(
        f'<figure><img alt="Map of the pool with the first batch of {strategy_title(name)}" '
        f'src="data:image/png;base64,{base64.b64encode(png).decode("ascii")}"></figure>\n'
        for name, png in pictures.items()
    )
    return f"""<h2>How much the batches repeat themselves</h2>
<p>Each dot is a message, and messages that read alike to the model lie together. Darker dots are
spam. The large dots are the first batch of each method; a line joins two near-duplicates.</p>
<div class="grid narrow">
{figures}</div>
{_list(worth_sentences(demo))}
<details><summary>Details</summary>
<p>The map is a t-SNE projection of {len(places):,} messages. What is said twice is 1 less what the
messages teach together, as a share of what they would teach one by one. Labels that nobody has
given yet are drawn from the model, so both carry a little chance.</p></details>
"""


def _curves(demo: Demo) -> str:
    words = {name: f"{METRICS[name].title} against the number of labels" for name in _SHOWN_METRICS}
    figures = "".join(
        f"<figure>{inline_svg(curves(demo, metric), metric, description)}</figure>\n"
        for metric, description in words.items()
    )
    tables = "".join(_table(demo, name) for name in _SHOWN_METRICS)
    return f"""<h2>How accuracy grew</h2>
{_list(curve_sentences(demo))}
<div class="grid">
{figures}</div>
<p class="soft">Every seed has its own split of the data and its own initial labels, shared by all
methods. F1 is that of spam.</p>
<div class="grid">
{tables}</div>
"""


def _table(demo: Demo, metric: str) -> str:
    what = "mean ± half of the 95% interval" if demo.n_seeds > 1 else "one run"
    values = [demo.values(name, metric) for name in STRATEGIES]
    rows = {
        f"{n_labels} labels": [number(mean_interval(x[:, step]), 1) for x in values]
        for step, n_labels in enumerate(demo.budget.n_labels)
    }
    titles = [strategy_title(name) for name in STRATEGIES]
    return to_html(text_table(f"{METRICS[metric].title}, % ({what})", titles, rows))


def _next() -> str:
    return f"""<h2>What to do next</h2>
<p>Try it on your own data, in the browser:</p>
<pre><code>{escape(_ON_THE_PAGE)}</code></pre>
<p>or in Python, with a data frame or any matrix of features:</p>
<pre><code>{escape(_IN_PYTHON)}</code></pre>
<p>A few seeds are enough for a picture, not for a verdict: <code>parbals demo --seeds 10</code>
narrows the intervals. <code>parbals doctor</code> says what is installed and how fast this machine
is.</p>
"""


def _footer(demo: Demo) -> str:
    seconds = {
        name: np.mean([run.seconds["select"] for run in records])
        for name, records in demo.records.items()
    }
    times = ", ".join(f"{strategy_title(name)} {mean:.2f} s" for name, mean in seconds.items())
    notes = "".join(f"<p><b>The model warned:</b> {escape(note)}</p>\n" for note in demo.notes)
    return f"""<footer>
<details><summary>Details: how this was made</summary>
{notes}<p>parbals {escape(__version__)}. The model and its {demo.X_pool.shape[1]} features (words,
how a message is written and what its words mean) are those of <code>parbals init</code>, fitted on
the pool alone; batches of {demo.budget.batch}. Copies of a message never lie on both sides of the
split. Mean time to choose one batch here, with compiling: {times}.</p></details>
<p>Data: SMS Spam Collection by Tiago A. Almeida and José María Gómez Hidalgo, UCI Machine Learning
Repository, <a href="https://doi.org/10.24432/C5CC84">doi.org/10.24432/C5CC84</a>, licensed
<a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>.</p>
</footer>
"""


def _list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="says">{items}</ul>'


def _share(value: float, largest: float) -> str:
    return f"{100 * min(1.0, max(0.0, value / largest)):.1f}%"
