"""One self-contained page about a demo run: nothing is loaded from anywhere else, and every text is
escaped."""

import base64
from html import escape
from importlib import resources

import numpy as np

from parbals import __version__
from parbals.bench.report.html import whole_page
from parbals.demo.names import DARK, LIGHT, METRIC_NAMES, name_of
from parbals.demo.plots import curve_png, map_png
from parbals.demo.run import DemoResult
from parbals.demo.summary import SIMILAR, curve_sentences, half_width, worth_of, worth_sentences

__all__ = ["build_report"]

_LONGEST_TEXT = 190
_RULES = {
    "random": "Drawn blindly: nobody asks what the model needs to know.",
    "epig": "Every message is scored by itself, and the highest scores are taken.",
    "parbals-epig": "Built one message at a time; each is scored given those already in the batch.",
}
_NEXT_STEPS = """import parbals

model = parbals.BayesianLogisticRegression(classes=["ham", "spam"], random_state=0).fit(X_labelled, y_labelled)
batch = parbals.select_batch_from_model(model, X_pool, batch_size=20, random_state=0)
print(batch.explain())        # label X_pool[batch.indices], add them, fit again"""


def build_report(result: DemoResult, places: dict[int, np.ndarray]) -> str:
    """The whole page; ``places`` is where :func:`parbals.demo.plots.pool_map` put the messages."""
    sections = (
        _header(result),
        _problem(result),
        _choices(result),
        _map(result, places),
        _curves(result),
        _next(),
        _footer(result),
    )
    css = resources.files("parbals.demo").joinpath("report.css").read_text("utf-8")
    return whole_page(
        "parbals demo: which messages should be labelled next?", css, "".join(sections)
    )


def _header(result: DemoResult) -> str:
    cards = []
    for strategy in result.settings.strategies:
        worth = worth_of(result.first, strategy)
        final = 100 * result.metric("accuracy", strategy)[:, -1].mean()
        cards.append(
            f'<div class="card method {_css_class(strategy)}"><h3>{escape(name_of(strategy))}</h3>'
            f'<div class="number">{worth.joint:.0f} mnat</div>of information in its first batch, '
            f"<b>{worth.redundancy_text}</b> redundant.<br>Accuracy after "
            f"{result.settings.n_labels[-1]} labels: <b>{final:.1f}%</b></div>\n"
        )
    return f"""<h1>Which messages should be labelled next?</h1>
<p class="lead">Labels cost time, so each should teach the model something new. A batch of the individually best
messages often asks the same question again and again. ParBaLS builds a batch in which every message still has something
to add. This page shows both on {len(result.first.pool):,} real text messages.</p>
<div class="grid">
{"".join(cards)}</div>
"""


def _problem(result: DemoResult) -> str:
    settings, first = result.settings, result.first
    return f"""<h2>The problem</h2>
<p>A spam filter has to be built from a pile of unlabelled text messages. A person can say "ham" (wanted) or "spam" for
a few of them: {settings.n_initial} drawn at random to begin with, then {settings.n_rounds} batches of
{settings.batch_size}. After each batch the model learns from all labels so far, and the next batch is chosen. What
should be in it?</p>
<p>The model is a Bayesian classifier: it holds not one opinion but {settings.n_samples} plausible ones. A message is
worth labelling when those opinions disagree about it in a way that also decides <em>other</em> messages. EPIG measures
that: the information that a label is expected to give about the labels of {first.n_target} target messages, which stand
for what the filter is meant for. Its unit is the nat; a thousandth is a mnat.</p>
<p>Accuracy is measured on {first.n_test:,} further messages that no method ever sees.
{100 * result.spam_share:.0f}% of messages are spam, so calling everything ham would already be
{100 * (1 - result.spam_share):.0f}% accurate: look at the F1 score of spam too.</p>
"""


def _choices(result: DemoResult) -> str:
    largest = max(float(judged.initial_scores.max()) for judged in result.first.judged.values())
    cards = "".join(
        _batch_card(result, strategy, max(largest, 1e-12))
        for strategy in result.settings.strategies
    )
    return f"""<h2>What each method chose first</h2>
<p>All methods start from the same model. The pale bar is what a message would tell by itself, the strong bar what it
still tells once those above it are labelled. Messages are listed with the most informative first; the label is what
the person answered. "Repeats" marks near-duplicates: wordings with a cosine similarity of at least {SIMILAR}.</p>
<div class="grid">
{cards}</div>
<p class="soft">All batches are measured in the same way, by a fresh posterior that had no part in choosing them. The
messages are real, and some are coarse.</p>
"""


def _batch_card(result: DemoResult, strategy: str, largest: float) -> str:
    first = result.first
    batch, judged = first.batches[strategy], first.judged[strategy]
    # The judge orders the batch by information; its positions count within the batch.
    similarity = first.similarity[strategy][np.ix_(judged.indices, judged.indices)]
    rows = []
    for rank, position in enumerate(judged.indices):
        item = int(batch.indices[position])
        text, label = first.pool.texts[item], str(first.pool.labels[item])
        alone, given = float(judged.initial_scores[rank]), float(judged.scores[rank])
        twins = np.flatnonzero(similarity[rank, :rank] >= SIMILAR)
        flag = f' <span class="chip flag">repeats {twins[0] + 1}</span>' if len(twins) else ""
        shown = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1].rstrip() + "…"
        rows.append(
            f'<li><span class="rank">{rank + 1}.</span> {escape(shown)} '
            f'<span class="chip {escape(label)}">{escape(label)}</span>{flag}'
            f'<div class="bar"><span class="alone" style="width:{_percent(alone, largest)}"></span>'
            f'<span style="width:{_percent(given, largest)}"></span></div>'
            f'<span class="amount">{1000 * alone:.1f} mnat alone, {1000 * given:.1f} given those above</span></li>\n'
        )
    worth = worth_of(first, strategy)
    return (
        f'<section class="card method {_css_class(strategy)}"><h3>{escape(name_of(strategy))}</h3>'
        f"<div>{_RULES.get(strategy, '')}</div>"
        f'<div class="amount">together {worth.joint:.0f} mnat · mean similarity of two wordings {worth.similarity:.2f}'
        f'</div><ol class="items">\n{"".join(rows)}</ol></section>\n'
    )


def _map(result: DemoResult, places: dict[int, np.ndarray]) -> str:
    figures = "".join(
        _picture(
            f"Map of the pool with the first batch of {name_of(strategy)}",
            *(map_png(result, places, strategy, theme) for theme in (LIGHT, DARK)),
        )
        for strategy in result.settings.strategies
    )
    return f"""<h2>How much the batches repeat themselves</h2>
<p>Each dot is a message, and messages that read alike to the model lie together (a t-SNE projection of
{len(places):,} of them). Darker dots are spam. The large dots are the first batch of each method.</p>
<div class="grid">
{figures}</div>
{_says(worth_sentences(result.first))}
<p class="soft">The numbers come from posterior samples, so they carry sampling noise: without overlap, "together" can
come out slightly above or below "one by one".</p>
"""


def _curves(result: DemoResult) -> str:
    figures = "".join(
        _picture(
            f"{METRIC_NAMES[metric]} against the number of labels",
            *(curve_png(result, metric, theme) for theme in (LIGHT, DARK)),
        )
        for metric in ("accuracy", "spam_f1")
    )
    n_seeds = result.settings.n_seeds
    lines = (
        f"Mean over {n_seeds} seeds; the band is one standard error of it."
        if n_seeds > 1
        else "One seed."
    )
    return f"""<h2>How accuracy grew</h2>
{_says(curve_sentences(result))}
<div class="grid">
{figures}</div>
<p class="soft">{lines} Every seed has its own split of the data and its own initial labels, shared by all methods.</p>
<div class="grid">
<div class="scroll">{_table(result, "accuracy")}</div>
<div class="scroll">{_table(result, "spam_f1")}</div>
</div>
"""


def _table(result: DemoResult, metric: str) -> str:
    strategies = result.settings.strategies
    head = "".join(f'<th class="{_css_class(s)}">{escape(name_of(s))}</th>' for s in strategies)
    rows = []
    for step, n_labels in enumerate(result.settings.n_labels):
        cells = "".join(
            f"<td>{_mean(100 * result.metric(metric, s)[:, step])}</td>" for s in strategies
        )
        rows.append(f"<tr><td>{n_labels}</td>{cells}</tr>\n")
    interval = "mean ± half of the 95% interval" if result.settings.n_seeds > 1 else "one run"
    return (
        f'<p><b>{METRIC_NAMES[metric]} in %</b> <span class="soft">({interval})</span></p>'
        f"<table><thead><tr><th>labels</th>{head}</tr></thead><tbody>\n{''.join(rows)}</tbody></table>\n"
    )


def _next() -> str:
    return f"""<h2>What to do next</h2>
<p>Run it on your own data: any matrix of features will do, for example the embeddings you already have.</p>
<pre><code>{escape(_NEXT_STEPS)}</code></pre>
<p>A few seeds are enough for a picture, not for a verdict: <code>parbals demo --seeds 10</code>
narrows the intervals. <code>parbals doctor</code> says what is installed and how fast this machine is.</p>
"""


def _footer(result: DemoResult) -> str:
    settings = result.settings
    times = ", ".join(
        f"{name_of(s)} "
        f"{np.mean([t.seconds for t in result.traces if t.strategy == s]) / settings.n_rounds:.2f} "
        "s"
        for s in settings.strategies
    )
    notes = "".join(f"<p><b>The model warned:</b> {escape(note)}</p>\n" for note in result.notes)
    return f"""<footer>
{notes}<p>parbals {escape(__version__)}. {settings.n_samples} posterior samples, {settings.n_features} features
(TF-IDF of words and word pairs, truncated SVD, fitted on the pool alone), batches of {settings.batch_size}. Copies of a
message never lie on both sides of the split. Mean time to choose one batch here: {times}.</p>
<p>Data: SMS Spam Collection by Tiago A. Almeida and José María Gómez Hidalgo, UCI Machine Learning Repository,
<a href="https://doi.org/10.24432/C5CC84">doi.org/10.24432/C5CC84</a>, licensed
<a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>.</p>
</footer>
"""


def _picture(alt: str, light: bytes, dark: bytes) -> str:
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{_data_uri(dark)}">'
        f'<img alt="{escape(alt)}" src="{_data_uri(light)}"></picture></figure>\n'
    )


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _says(sentences: list[str]) -> str:
    return (
        '<ul class="says">'
        + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
        + "</ul>"
    )


def _mean(values: np.ndarray) -> str:
    spread = half_width(values)
    return f"{values.mean():.1f}" + ("" if np.isnan(spread) else f" ± {spread:.1f}")


def _percent(value: float, largest: float) -> str:
    return f"{100 * min(1.0, max(0.0, value / largest)):.1f}%"


def _css_class(strategy: str) -> str:
    return escape(strategy, quote=True)
