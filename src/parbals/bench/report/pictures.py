"""Which pictures a report has: each figure is drawn once, for the page and for the files."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from parbals.bench.report.collect import Setting
from parbals.bench.report.findings import batched, overview, savings
from parbals.bench.report.measures import MEASURES
from parbals.bench.report.names import ALL_CLASSES, KINDS
from parbals.bench.report.plots import curve_figure, savings_figure

__all__ = ["ONE_AT_A_TIME", "ONE_VS_ALL", "SAVED", "Picture", "draw_pictures"]

SAVED, ONE_AT_A_TIME, ONE_VS_ALL = (
    "Labels saved",
    "One label at a time",
    "Each class against the others",
)
_FEW = 7


@dataclass(frozen=True)
class Picture:
    """A figure, where it belongs on the page, its file name without ending, and words for those who
    cannot see it."""

    group: str
    name: str
    description: str
    figure: Figure


def draw_pictures(settings: Sequence[Setting], metric: str = "accuracy") -> list[Picture]:
    """The overview first, then a learning curve per setting, in groups by budget."""
    title = MEASURES[metric].title
    pictures = []
    saved = overview(savings(settings, metric))
    if saved:
        description = (
            "The share of labels that each strategy saves against Random, a dot for every setting"
        )
        pictures.append(Picture(SAVED, "labels-saved", description, savings_figure(saved)))
    for setting in settings:
        for kind, strategies in _kinds(setting):
            beside = batched(setting, settings) if setting.budget.batch == 1 else []
            figure = curve_figure(setting, strategies, metric, beside)
            positive = "all classes" if setting.positive == ALL_CLASSES else setting.positive or ""
            name = _file_name(f"{setting.dataset} {positive} {setting.budget} {kind}", pictures)
            words = f"{title} on {setting.name} against the number of labels, {kind}, budget {setting.budget}"
            pictures.append(Picture(_group(setting), name, words, figure))
    return pictures


def _group(setting: Setting) -> str:
    if setting.is_one_vs_all:
        return ONE_VS_ALL
    return ONE_AT_A_TIME if setting.budget.batch == 1 else f"Budget {setting.budget.spelt}"


def _kinds(setting: Setting) -> list[tuple[str, tuple[str, ...]]]:
    """One picture per setting where everything fits into it, else one per kind of table."""
    known = {name for names in KINDS.values() for name in names}
    everything = tuple(dict.fromkeys(line.strategy for line in setting.lines()))
    if len(setting.lines()) <= _FEW:
        return [("all strategies", everything)] if everything else []
    others = tuple(name for name in everything if name not in known)
    (bayesian, ours), (heuristics, theirs) = KINDS.items()
    pictures = [(bayesian, ours), (heuristics, theirs + others)]
    return [(kind, names) for kind, names in pictures if setting.lines(names)]


def _file_name(text: str, others: Sequence[Picture]) -> str:
    """Classes that differ in other characters alone are numbered, so that no picture replaces
    another."""
    name = "-".join("".join(c if c.isalnum() or c in "+." else " " for c in text).lower().split())
    taken = {picture.name for picture in others}
    return next(
        new
        for new in (name, *(f"{name}-{n}" for n in range(2, len(taken) + 3)))
        if new not in taken
    )
