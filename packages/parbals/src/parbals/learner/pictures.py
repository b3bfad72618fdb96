"""Pictures of a learner: where it stands as HTML for a notebook, and as a matplotlib figure.

The HTML has no scripts, no styles of its own and nothing from elsewhere. Whatever came from the
user (names, labels) is escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from parbals.features.pca import principal
from parbals.files import need
from parbals.learner.numbers.report import Report
from parbals.learner.state import State
from parbals.randomness import derive_generator
from parbals.strategies.table import STRATEGIES
from parbals.types import Batch, Estimate
from parbals.wording import percent, why_words

__all__ = ["LastItem", "View", "as_figure", "as_html", "view_of"]

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#767676")
"""Okabe and Ito's, which the colour-blind can tell apart; further classes begin again."""
_POINTS, _ITEMS = 600, 10  # of the map, and of the last batch, that are drawn
_WIDTH, _HEIGHT, _EDGE = 320, 220, 34
_GREY = "#9a9a9a"
_LONGEST = 60


@dataclass(frozen=True)
class LastItem:
    """An item of the last batch: its name, its label if it has one, and why it was chosen."""

    name: Any
    label: Any
    reason: str


@dataclass(frozen=True)
class View:
    """Plain values for pictures.

    Attributes:
        counts: labels of each class; n_items, n_labelled, n_pending: of the pool.
        curve: (labels, expected error) of every report so far; measured: what audits said then.
        places: (n, 2) some items of the pool, all that are labelled or out among them.
        classes: (n,) their class numbers, -1 without a label; is_out: (n,) in the last batch.
        last: the last batch; n_last: how many items it had.
        advice: of the latest report; None before the first.
    """

    n_items: int
    n_labelled: int
    n_pending: int
    counts: dict[Any, int]
    curve: list[tuple[int, Estimate]]
    measured: list[tuple[int, Estimate]]
    places: np.ndarray
    classes: np.ndarray
    is_out: np.ndarray
    last: list[LastItem]
    n_last: int
    advice: str | None


def view_of(
    state: State, ids: Sequence[Any] | None, batch: Batch | None, reports: Sequence[Report]
) -> View:
    """A learner as it stands; fits a model where the last batch needs one, makes no report."""
    out = np.zeros(0, np.int64) if batch is None else batch.indices
    positions, places = _places(state, out)
    return View(
        n_items=state.n_items,
        n_labelled=len(state.labels),
        n_pending=len(state.pending),
        counts=state.class_balance(),
        curve=[(r.n_labelled, r.expected_error) for r in reports if r.expected_error.known],
        measured=[(r.n_labelled, r.measured_error) for r in reports if r.measured_error],
        places=places,
        classes=np.array([state.labels.get(p, -1) for p in positions.tolist()], np.int64),
        is_out=np.isin(positions, out),
        last=[] if batch is None else _last_items(state, ids, batch),
        n_last=len(out),
        advice=reports[-1].advice if reports else None,
    )


def _places(state: State, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (n,) and places (n, 2) in [-1, 1] along the two directions that differ most.

    The background and the axes are those of 600 items drawn by the seed: the picture keeps still.
    """
    setup, n_items = state.setup, state.n_items
    if setup.pool.is_distributed:
        return np.zeros(0, np.int64), np.zeros((0, 2))
    generator = derive_generator(setup.seed, "map")
    some = np.sort(generator.choice(n_items, min(n_items, _POINTS), replace=False))
    centre, axes, _ = principal(setup.pool_rows(some), 2)
    positions = np.union1d(some, np.concatenate([state.labelled, out]).astype(np.int64))
    places = np.zeros((len(positions), 2))
    rows = setup.pool_rows(positions).astype(np.float64)
    places[:, : len(axes)] = (rows - centre) @ axes.T
    low, high = places.min(axis=0), places.max(axis=0)
    return positions, 2.0 * (places - low) / np.maximum(high - low, 1e-12) - 1.0


def _last_items(state: State, ids: Sequence[Any] | None, batch: Batch) -> list[LastItem]:
    """The first ten items of a batch, each with how sure the model of today's labels is of it."""
    setup, shown = state.setup, batch.indices[:_ITEMS]
    audit = set(setup.audit.tolist())
    probs = None
    if state.can_fit and len(state.training[0]):
        probs = setup.predicted(state.fitted(), shown)
    items = []
    for place, position in enumerate(shown.tolist()):
        number = state.labels.get(position)
        if position in audit:
            reason = "Drawn at random, to measure the error."
        elif probs is None:
            entry = STRATEGIES.get(batch.strategy)
            about = "chosen by its score" if entry is None else entry.about
            reason = f"{about[0].upper()}{about[1:]}."
        elif number is not None:  # what the model thinks of it now is not why it was chosen
            reason = "The model has learnt from it since."
        else:
            names = map(str, setup.classes)
            reason = why_words(dict(zip(names, probs[place].tolist(), strict=True)))
        label = None if number is None else setup.classes[number]
        items.append(LastItem(position if ids is None else ids[position], label, reason))
    return items


def as_html(view: View) -> str:
    """The state, the curve beside the map, and the last batch."""
    parts = [_state(view), _row(_curve(view), _map(view)), _last(view)]
    return f'<div style="font-size:13px;line-height:1.45;max-width:700px">{"".join(parts)}</div>'


def as_figure(view: View) -> Any:
    """A matplotlib figure: expected error after each report, and the pool with its labels."""
    figures = need("matplotlib.figure", "Plotting", "parbals[plot]")
    figure = figures.Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for points, colour, name in _lines(view):
        labels = [n for n, _ in points]
        means, lows, highs = zip(*((e.mean, e.low, e.high) for _, e in points), strict=True)
        left.plot(labels, means, "o-", color=colour, label=name)
        left.fill_between(labels, lows, highs, color=colour, alpha=0.15, linewidth=0)
        if len(points) == 1:  # a band has no width yet
            left.vlines(labels, lows, highs, color=colour, alpha=0.4)
    left.set(xlabel="labels", ylabel="error", title=_title(view))
    left.set(xlim=(0, None), ylim=(0, None))
    if view.curve or view.measured:
        left.legend(frameon=False)
    open_items = view.classes < 0
    right.scatter(*view.places[open_items].T, s=5, color=_GREY, alpha=0.5)
    for number, label in enumerate(view.counts):
        here = view.places[view.classes == number]
        right.scatter(*here.T, s=18, color=_COLOURS[number % len(_COLOURS)], label=str(label))
    right.scatter(
        *view.places[view.is_out].T, s=45, facecolors="none", edgecolors="black", label="batch"
    )
    right.set(xticks=[], yticks=[], title="the pool")
    right.legend(frameon=False, fontsize="small")
    return figure


def _title(view: View) -> str:
    return f"{view.n_labelled:,} of {view.n_items:,} labelled, {view.n_pending:,} out"


def _lines(view: View) -> list[tuple[list[tuple[int, Estimate]], str, str]]:
    """The curves there are, each with its colour and name."""
    lines = [(view.curve, _COLOURS[0], "expected"), (view.measured, _COLOURS[3], "measured")]
    return [line for line in lines if line[0]]


def _state(view: View) -> str:
    chips = "".join(
        f'<span style="margin-right:14px;white-space:nowrap">{_dot(number)} '
        f"{_text(label)} <b>{count:,}</b></span>"
        for number, (label, count) in enumerate(view.counts.items())
    )
    advice = f"<div>{_text(view.advice, 1_000)}</div>" if view.advice else ""
    return f"<div><b>{_title(view)}</b></div><div>{chips}</div>{advice}"


def _dot(number: int) -> str:
    colour = _COLOURS[number % len(_COLOURS)]
    return f'<svg width="10" height="10"><circle cx="5" cy="5" r="4.5" fill="{colour}"/></svg>'


def _row(*pictures: str) -> str:
    cells = "".join(f'<div style="margin:6px 18px 6px 0">{x}</div>' for x in pictures if x)
    return f'<div style="display:flex;flex-wrap:wrap">{cells}</div>'


def _svg(title: str, *parts: str) -> str:
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{title}" font-size="11" fill="currentColor">'
        f'<text x="{_EDGE}" y="14" font-weight="600">{title}</text>{"".join(parts)}</svg>'
    )


def _curve(view: View) -> str:
    """Error against labels, with the interval as a band."""
    lines = _lines(view)
    if not lines:
        return (
            '<div style="opacity:.7">report() shows how good the model is, and draws it here.</div>'
        )
    most = max(n for points, *_ in lines for n, _ in points)
    highest = max(e.high for points, *_ in lines for _, e in points)
    # A wide first interval must not press the curve flat: what is above the picture is cut.
    top = max(min(highest, 2.5 * max(e.mean for points, *_ in lines for _, e in points)), 0.02)
    width, height, low = _WIDTH - _EDGE - 8, _HEIGHT - 56, 24

    def at(n: float, value: float) -> str:
        x, y = _EDGE + width * n / max(most, 1), low + height * (1.0 - min(value, top) / top)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<path d="M{at(0, top)} V{low + height} H{_EDGE + width}" fill="none" stroke="{_GREY}"/>',
        f'<text x="{_EDGE - 4}" y="{low + 8}" text-anchor="end">{percent(top)}</text>',
        f'<text x="{_EDGE - 4}" y="{low + height}" text-anchor="end">0</text>',
        f'<text x="{_EDGE + width}" y="{low + height + 14}" text-anchor="end">{most:,} '
        "labels</text>",
    ]
    for place, (points, colour, name) in enumerate(lines):
        band = [at(n, e.high) for n, e in points] + [at(n, e.low) for n, e in reversed(points)]
        parts.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity=".15"/>')
        if len(points) == 1:  # a band has no width yet
            ends = f'points="{band[0]} {band[1]}" stroke="{colour}"'
            parts.append(f'<polyline {ends} stroke-width="2" opacity=".4"/>')
        path = " ".join(at(n, e.mean) for n, e in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for n, e in points:
            x, y = at(n, e.mean).split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>')
        start = _EDGE + 100 * place
        parts.append(f'<text x="{start}" y="{_HEIGHT - 4}" fill="{colour}">{name} error</text>')
    return _svg("Error", *parts)


def _map(view: View) -> str:
    """Items along the two directions in which they differ most; rings are the last batch."""
    if not len(view.places):
        return ""
    x = 12 + (view.places[:, 0] + 1.0) * 0.5 * (_WIDTH - 24)
    y = 30 + (1.0 - view.places[:, 1]) * 0.5 * (_HEIGHT - 44)
    parts = []
    for place in np.argsort(view.classes >= 0, kind="stable").tolist():  # labelled ones on top
        number = int(view.classes[place])
        known = number >= 0
        colour = _COLOURS[number % len(_COLOURS)] if known else _GREY
        size, opacity = (3.5, 1.0) if known else (1.5, 0.55)
        parts.append(
            f'<circle cx="{x[place]:.1f}" cy="{y[place]:.1f}" r="{size}" fill="{colour}" '
            f'opacity="{opacity}"/>'
        )
    parts += [
        f'<circle cx="{x[p]:.1f}" cy="{y[p]:.1f}" r="6" fill="none" stroke="currentColor"/>'
        for p in np.flatnonzero(view.is_out).tolist()
    ]
    frame = (
        f'<rect x="2" y="20" width="{_WIDTH - 4}" height="{_HEIGHT - 24}" rx="4" fill="none" '
        f'stroke="{_GREY}" opacity="0.5"/>'
    )
    return _svg("The pool; rings: the last batch", frame, *parts)


def _last(view: View) -> str:
    if not view.last:
        return ""
    cell = 'style="text-align:left;padding:1px 14px 1px 0"'
    rows = "".join(
        f"<tr><td {cell}>{_text(item.name)}</td><td {cell}>"
        f"{'' if item.label is None else _text(item.label)}</td>"
        f"<td {cell}>{_text(item.reason, 200)}</td></tr>"
        for item in view.last
    )
    more = f" (the first {len(view.last)})" if view.n_last > len(view.last) else ""
    head = "".join(f"<th {cell}>{name}</th>" for name in ("item", "label", "why"))
    return (
        f"<div><b>Last batch</b>: {view.n_last} items{more}</div>"
        '<table style="border-collapse:collapse;margin:2px 0;font-size:inherit">'
        f"<tr>{head}</tr>{rows}</table>"
    )


def _text(value: Any, longest: int = _LONGEST) -> str:
    """A user's words, safe in HTML and not too long."""
    text = str(value)
    return escape(text if len(text) <= longest else f"{text[: longest - 1]}…")
