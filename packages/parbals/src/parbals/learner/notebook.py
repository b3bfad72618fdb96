"""A learner in a notebook: a picture of where it stands, a figure, and the labelling page.

The picture is HTML and SVG without scripts, styles of its own or anything from elsewhere. Whatever
came from the user (names, labels) is escaped.
"""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from parbals.files import need
from parbals.learner.view import COLOURS, View, view_of
from parbals.plugins import extension
from parbals.types import Estimate
from parbals.wording import percent

if TYPE_CHECKING:
    from parbals.learner.active import ActiveLearner

__all__ = ["Shown"]

_WIDTH, _HEIGHT, _EDGE = 320, 220, 34
_GREY = "#9a9a9a"
_LONGEST = 60


class Shown:
    """The methods of a learner that show it."""

    def _repr_html_(self) -> str:
        view = view_of(cast("ActiveLearner", self))
        parts = [_state(view), _row(_curve(view), _map(view)), _last(view)]
        return (
            f'<div style="font-size:13px;line-height:1.45;max-width:700px">{"".join(parts)}</div>'
        )

    def plot(self) -> Any:
        """A matplotlib figure: expected error after each report, and the pool with its labels."""
        figures = need("matplotlib.figure", "Plotting", "matplotlib")
        view = view_of(cast("ActiveLearner", self))
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
            right.scatter(*here.T, s=18, color=COLOURS[number % len(COLOURS)], label=str(label))
        right.scatter(
            *view.places[view.is_out].T, s=45, facecolors="none", edgecolors="black", label="batch"
        )
        right.set(xticks=[], yticks=[], title="the pool")
        right.legend(frameon=False, fontsize="small")
        return figure

    def serve(
        self,
        items: Any = None,
        *,
        folder: str | Path | None = None,
        wait: bool = True,
        **options: Any,
    ) -> Any:
        """Open the labelling page on this learner's data; the labels come back when it ends.

        A model of your own works in a thread of this process while people label.

        Args:
            items: what people see of each of the N items: texts, or mappings or a data frame of
                columns. By default the features, which few people can label by.
            folder: a new folder for the project behind the page, which keeps every label and can be
                used by ``parbals serve`` later. By default a temporary one, removed at the end.
            wait: until the page is stopped (interrupt the kernel, or Ctrl-C), then take its labels
                over; returns how many are new. False returns at once something with ``link`` and
                ``stop()``, which does that.
            options: ``port``, ``host`` and ``browser`` as in ``parbals serve``.
        """
        served = extension("serve", "learner.serve()")(self, items, folder, **options)
        return served.wait() if wait else served


def _title(view: View) -> str:
    return f"{view.n_labelled:,} of {view.n_items:,} labelled, {view.n_pending:,} out"


def _lines(view: View) -> list[tuple[list[tuple[int, Estimate]], str, str]]:
    """The curves there are, each with its colour and name."""
    lines = [(view.curve, COLOURS[0], "expected"), (view.measured, COLOURS[3], "measured")]
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
    colour = COLOURS[number % len(COLOURS)]
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
        colour = COLOURS[number % len(COLOURS)] if known else _GREY
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
