"""Pictures of a learner: where it stands as HTML for a notebook, and as a matplotlib figure.

The HTML has no scripts, no styles of its own and nothing from elsewhere. Whatever came from the
user (names, labels) is escaped. Nothing is computed but what is seen: a model where the last batch
needs one, and no report.
"""

from collections.abc import Iterator, Sequence
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

__all__ = ["Seen", "as_figure", "as_html"]

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#767676")
"""Okabe and Ito's, which the colour-blind can tell apart; further classes begin again."""
_POINTS, _ITEMS = 600, 10  # of the map, and of the last batch, that are drawn
_WIDTH, _HEIGHT, _EDGE = 320, 220, 34
_GREY = "#9a9a9a"
_LONGEST = 60


@dataclass(frozen=True)
class Seen:
    """What pictures are drawn of: ``batch`` is the last one, ``reports`` all that were made."""

    state: State
    ids: Sequence[Any] | None
    batch: Batch | None
    reports: Sequence[Report]

    @property
    def title(self) -> str:
        state = self.state
        return f"{len(state.labels):,} of {state.n_items:,} labelled, {len(state.pending):,} out"

    @property
    def curves(self) -> list[tuple[list[tuple[int, Estimate]], str, str]]:
        """Errors after so many labels, as far as there are any, each with its colour and name."""
        expected = [
            (r.n_labelled, r.expected_error) for r in self.reports if r.expected_error.known
        ]
        measured = [(r.n_labelled, r.measured_error) for r in self.reports if r.measured_error]
        found = [(expected, _COLOURS[0], "expected"), (measured, _COLOURS[3], "measured")]
        return [curve for curve in found if curve[0]]

    def map(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Items along the two directions in which they differ most.

        Places (n, 2) in [-1, 1], class numbers (n,), -1 without a label, and whether an item is in
        the last batch (n,). The background and the axes are those of 600 items drawn by the seed:
        the picture keeps still. All that are labelled or in the last batch are there as well.
        """
        setup, n_items = self.state.setup, self.state.n_items
        out = np.zeros(0, np.int64) if self.batch is None else self.batch.indices
        if setup.pool.is_distributed:
            return np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(0, bool)
        generator = derive_generator(setup.seed, "map")
        some = np.sort(generator.choice(n_items, min(n_items, _POINTS), replace=False))
        mean, axes, _ = principal(setup.pool_rows(some), 2)
        positions = np.union1d(some, np.concatenate([self.state.labelled, out]).astype(np.int64))
        places = np.zeros((len(positions), 2))
        places[:, : len(axes)] = (setup.pool_rows(positions).astype(np.float64) - mean) @ axes.T
        low, high = places.min(axis=0), places.max(axis=0)
        places = 2.0 * (places - low) / np.maximum(high - low, 1e-12) - 1.0
        classes = [self.state.labels.get(p, -1) for p in positions.tolist()]
        return places, np.array(classes, np.int64), np.isin(positions, out)

    def last_items(self, batch: Batch) -> Iterator[tuple[Any, Any, str]]:
        """Names, labels ("" without one) and reasons of the last batch's first ten items."""
        state, setup, shown = self.state, self.state.setup, batch.indices[:_ITEMS]
        probs, audit = None, set(setup.audit.tolist())
        if state.can_fit and len(state.training[0]):
            probs = setup.predicted(state.fitted(), shown)
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
            name = position if self.ids is None else self.ids[position]
            yield name, "" if number is None else setup.classes[number], reason


def as_figure(seen: Seen) -> Any:
    """A matplotlib figure: errors after each report, and the pool with its labels."""
    figures = need("matplotlib.figure", "Plotting", "parbals[plot]")
    figure = figures.Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for points, colour, name in seen.curves:
        labels = [n for n, _ in points]
        means, lows, highs = zip(*((e.mean, e.low, e.high) for _, e in points), strict=True)
        left.plot(labels, means, "o-", color=colour, label=name)
        left.fill_between(labels, lows, highs, color=colour, alpha=0.15, linewidth=0)
        if len(points) == 1:  # a band has no width yet
            left.vlines(labels, lows, highs, color=colour, alpha=0.4)
    left.set(xlabel="labels", ylabel="error", title=seen.title, xlim=(0, None), ylim=(0, None))
    if seen.curves:
        left.legend(frameon=False)
    places, classes, is_out = seen.map()
    right.scatter(*places[classes < 0].T, s=5, color=_GREY, alpha=0.5)
    for number, label in enumerate(seen.state.setup.classes):
        here = places[classes == number]
        right.scatter(*here.T, s=18, color=_COLOURS[number % len(_COLOURS)], label=str(label))
    right.scatter(*places[is_out].T, s=45, facecolors="none", edgecolors="black", label="batch")
    right.set(xticks=[], yticks=[], title="the pool")
    right.legend(frameon=False, fontsize="small")
    return figure


def as_html(seen: Seen) -> str:
    """The state, the curve beside the map, and the last batch."""
    pictures = "".join(
        f'<div style="margin:6px 18px 6px 0">{picture}</div>'
        for picture in (_curve(seen), _map(seen))
        if picture
    )
    row = f'<div style="display:flex;flex-wrap:wrap">{pictures}</div>'
    return (
        '<div style="font-size:13px;line-height:1.45;max-width:700px">'
        f"{_state(seen)}{row}{_last(seen)}</div>"
    )


def _state(seen: Seen) -> str:
    chips = "".join(
        '<span style="margin-right:14px;white-space:nowrap"><svg width="10" height="10">'
        f'<circle cx="5" cy="5" r="4.5" fill="{_COLOURS[number % len(_COLOURS)]}"/></svg> '
        f"{_text(label)} <b>{count:,}</b></span>"
        for number, (label, count) in enumerate(seen.state.class_balance().items())
    )
    advice = f"<div>{_text(seen.reports[-1].advice, 1_000)}</div>" if seen.reports else ""
    return f"<div><b>{seen.title}</b></div><div>{chips}</div>{advice}"


def _svg(title: str, *parts: str) -> str:
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{title}" font-size="11" fill="currentColor">'
        f'<text x="{_EDGE}" y="14" font-weight="600">{title}</text>{"".join(parts)}</svg>'
    )


def _curve(seen: Seen) -> str:
    """Error against labels, with the interval as a band."""
    curves = seen.curves
    if not curves:
        return (
            '<div style="opacity:.7">report() shows how good the model is, and draws it here.</div>'
        )
    every = [point for points, *_ in curves for point in points]
    most, highest = max(n for n, _ in every), max(e.high for _, e in every)
    # A wide first interval must not press the curve flat: what is above the picture is cut.
    top = max(min(highest, 2.5 * max(e.mean for _, e in every)), 0.02)
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
    for place, (points, colour, name) in enumerate(curves):
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


def _map(seen: Seen) -> str:
    places, classes, is_out = seen.map()
    if not len(places):
        return ""
    x = 12 + (places[:, 0] + 1.0) * 0.5 * (_WIDTH - 24)
    y = 30 + (1.0 - places[:, 1]) * 0.5 * (_HEIGHT - 44)

    def circle(place: int, size: float, style: str) -> str:
        return f'<circle cx="{x[place]:.1f}" cy="{y[place]:.1f}" r="{size}" {style}/>'

    parts = [
        f'<rect x="2" y="20" width="{_WIDTH - 4}" height="{_HEIGHT - 24}" rx="4" fill="none" '
        f'stroke="{_GREY}" opacity="0.5"/>'
    ]
    for place in np.argsort(classes >= 0, kind="stable").tolist():  # labelled ones on top
        number = int(classes[place])
        if number < 0:
            parts.append(circle(place, 1.5, f'fill="{_GREY}" opacity="0.55"'))
        else:
            parts.append(circle(place, 3.5, f'fill="{_COLOURS[number % len(_COLOURS)]}"'))
    for place in np.flatnonzero(is_out).tolist():
        parts.append(circle(place, 6, 'fill="none" stroke="currentColor"'))
    return _svg("The pool; rings: the last batch", *parts)


def _last(seen: Seen) -> str:
    if seen.batch is None:
        return ""
    cell = 'style="text-align:left;padding:1px 14px 1px 0"'
    rows = "".join(
        f"<tr><td {cell}>{_text(name)}</td><td {cell}>{_text(label)}</td>"
        f"<td {cell}>{_text(reason, 200)}</td></tr>"
        for name, label, reason in seen.last_items(seen.batch)
    )
    more = f" (the first {_ITEMS})" if len(seen.batch) > _ITEMS else ""
    head = "".join(f"<th {cell}>{name}</th>" for name in ("item", "label", "why"))
    return (
        f"<div><b>Last batch</b>: {len(seen.batch)} items{more}</div>"
        '<table style="border-collapse:collapse;margin:2px 0;font-size:inherit">'
        f"<tr>{head}</tr>{rows}</table>"
    )


def _text(value: Any, longest: int = _LONGEST) -> str:
    """A user's words, safe in HTML and not too long."""
    text = str(value)
    return escape(text if len(text) <= longest else f"{text[: longest - 1]}…")
