"""The table of strategies: one line each, nothing registered by import magic.

A row is all that the rest of the package knows of a strategy: what it needs, what it is called, how
it is drawn, and a sentence for people. The algorithm is loaded when it first chooses, so that
looking at the table needs no JAX. Strategies of other packages are found through the entry-point
group ``parbals.strategies``; each entry names a :class:`Strategy`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

from parbals.errors import InputError
from parbals.plugins import load_entry, loadable_entries, other_entries

if TYPE_CHECKING:
    from parbals.strategies.problem import Problem
    from parbals.types import Batch

__all__ = ["COLD_START", "DEFAULT", "STRATEGIES", "UNIFORM", "Strategy"]
__all__ += ["all_strategies", "strategy_named", "strategy_title"]

DEFAULT = "parbals-epig"
COLD_START = "kmeans"
"""Chooses the first batch, where there is no label and no description of the classes yet."""
UNIFORM = "random"
"""What every other strategy is compared with."""

_GROUP = "parbals.strategies"


@dataclass(frozen=True)
class Strategy:
    """A pure function from a problem to a batch, what it needs, and what it costs.

    Attributes:
        select: the function. The same problem always gives the same batch; all randomness comes
            from ``problem.seed``.
        title: its name in tables and pictures; "" is the name it is asked for by.
        about: why an item was chosen, to follow "This item was" in a sentence for people.
        needs_target: predictive samples of a target set.
        needs_features: features of the pool.
        needs_labels: labels known so far, with the model's predictions there.
        holds_out: judges by labels that the model was not fitted on; an experiment keeps some back.
        batch_aware: a point's chance depends on the points chosen before it.
        stochastic: other seeds give other batches by design.
        uses_predictions: what the model predicts matters at all.
        averages: looks at averaged predictions alone, so that a single sample will do.
        conditions_model: given our own model, its posterior is conditioned during the batch.
        closed_form: given a Gaussian posterior it needs no samples (without a target set: given two
            classes as well).
        options: names accepted in ``select_batch(options={...})``.
        cost: operations, in the axis letters N M K C D B U, L labelled points.
        reference: where it was published.
        tables: which of the paper's two kinds of table it stands in, "bayesian" and "heuristics";
            what is not the paper's stands in none.
        style: colour, dashes, marker and width of its line in pictures; None takes a spare one.
    """

    select: Callable[["Problem"], "Batch"]
    title: str = ""
    about: str = "chosen by its score"
    needs_target: bool = False
    needs_features: bool = False
    needs_labels: bool = False
    holds_out: bool = False
    batch_aware: bool = False
    stochastic: bool = False
    uses_predictions: bool = True
    averages: bool = False
    conditions_model: bool = False
    closed_form: bool = False
    options: tuple[str, ...] = ()
    cost: str = ""
    reference: str = ""
    tables: tuple[str, ...] = ()
    style: tuple[str, str, str, float] | None = None


def _at(place: str) -> Callable[["Problem"], "Batch"]:
    """The function ``module:name`` of this folder, loaded when it is first called."""
    module, _, name = place.partition(":")

    def select(problem: "Problem") -> "Batch":
        algorithm: Callable[[Problem], Batch] = getattr(
            import_module(f"parbals.strategies.{module}"), name
        )
        return algorithm(problem)

    return select


_HEURISTICS, _BAYESIAN, _BOTH = ("heuristics",), ("bayesian",), ("bayesian", "heuristics")
_POWER = "Kirsch et al. 2023"
_EPIG_COST = "N·M·K·C²"
_UNSURE = "chosen because the model is unsure of it"
_INFORMS = "chosen because its label would say much about the model"
_HELPS = "chosen because its label would improve the predictions"
_TOGETHER = (
    "chosen together with the others of its batch, so that their labels improve the predictions "
    "and do not repeat each other"
)
# Okabe and Ito's colours, which the colour-blind can tell apart; lines of one colour differ in
# dashes and marker.
_BLACK, _ORANGE, _SKY, _GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
_BLUE, _RED, _PINK, _GREY = "#0072b2", "#d55e00", "#cc79a7", "#767676"

# fmt: off
STRATEGIES: dict[str, Strategy] = {
    "random": Strategy(
        _at("top:select_random"), "Random", "drawn at random",
        stochastic=True, uses_predictions=False, cost="N",
        tables=_BOTH, style=(_BLACK, ":", "o", 1.6)),
    "confidence": Strategy(
        _at("top:select_confidence"), "Confidence", _UNSURE,
        averages=True, cost="N·K·C", reference="Lewis and Gale 1994",
        tables=_HEURISTICS, style=(_ORANGE, "-", "s", 1.6)),
    "margin": Strategy(
        _at("top:select_margin"), "Margin", "chosen because two classes are nearly equally likely",
        averages=True, cost="N·K·C", reference="Scheffer et al. 2001",
        tables=_HEURISTICS, style=(_ORANGE, "--", "h", 1.6)),
    "entropy": Strategy(
        _at("top:select_entropy"), "Entropy", _UNSURE,
        averages=True, cost="N·K·C", reference="Settles 2009",
        tables=_HEURISTICS, style=(_ORANGE, ":", "p", 1.6)),
    "coreset": Strategy(
        _at("coreset:select_coreset"), "CoreSet",
        "chosen because it is far from everything that was chosen before",
        needs_features=True, uses_predictions=False, batch_aware=True,
        cost="N·(L+B)·D", reference="Sener and Savarese 2018",
        tables=_HEURISTICS, style=(_PINK, "--", "<", 1.6)),
    "kmeans": Strategy(
        _at("kmeans:select_kmeans"), "k-means",
        "chosen because it is typical of many items that nothing is known of",
        needs_features=True, uses_predictions=False, batch_aware=True,
        cost="N·(L+B)·D", reference="Lloyd 1982", style=(_SKY, ":", "s", 1.6)),
    "badge": Strategy(
        _at("badge:select_badge"), "BADGE",
        "chosen because the model is unsure of it and it differs from the others of its batch",
        needs_features=True, batch_aware=True, stochastic=True,
        averages=True, cost="N·(K·C + B·D)", reference="Ash et al. 2020",
        tables=_HEURISTICS, style=(_GREEN, "-.", "P", 1.6)),
    "galaxy": Strategy(
        _at("galaxy:select_galaxy"), "GALAXY",
        "chosen because it lies between items with different labels",
        needs_labels=True, batch_aware=True,
        averages=True, cost="N·(K·C + C·ln N)", reference="Zhang et al. 2022",
        tables=_HEURISTICS, style=(_RED, "-.", "*", 1.6)),
    "glister": Strategy(
        _at("glister:select_glister"), "GLISTER",
        "chosen because learning from it would help on labels that are known",
        needs_features=True, needs_labels=True, holds_out=True, batch_aware=True,
        averages=True, cost="N·L·(D + B·C)", reference="Killamsetty et al. 2021",
        tables=_HEURISTICS, style=(_GREY, "--", "X", 1.6)),
    "bald": Strategy(
        _at("top:select_bald"), "BALD", _INFORMS,
        closed_form=True, cost="N·K·C", reference="Houlsby et al. 2011",
        tables=_BAYESIAN, style=(_RED, "-", "^", 1.6)),
    "power-bald": Strategy(
        _at("top:select_power_bald"), "PowerBALD", _INFORMS,
        stochastic=True, closed_form=True, cost="N·K·C", reference=_POWER,
        tables=_BAYESIAN, style=(_RED, "--", "<", 1.6)),
    "softmax-bald": Strategy(
        _at("top:select_softmax_bald"), "SoftmaxBALD", _INFORMS,
        stochastic=True, closed_form=True, cost="N·K·C", reference=_POWER,
        tables=_BAYESIAN, style=(_PINK, "-.", ">", 1.6)),
    "softrank-bald": Strategy(
        _at("top:select_softrank_bald"), "SoftRankBALD", _INFORMS,
        stochastic=True, closed_form=True, cost="N·K·C", reference=_POWER,
        tables=_BAYESIAN, style=(_PINK, ":", "X", 1.6)),
    "batchbald": Strategy(
        _at("batchbald:select_batchbald"), "BatchBALD",
        "chosen together with the others of its batch, whose labels say most about the model",
        batch_aware=True, cost="B·N·K·C·min(C^B, S)", reference="Kirsch et al. 2019",
        tables=_BAYESIAN, style=(_ORANGE, "-", "h", 1.6)),
    "epig": Strategy(
        _at("top:select_epig"), "EPIG", _HELPS,
        needs_target=True, closed_form=True,
        cost=_EPIG_COST, reference="Bickford Smith et al. 2023",
        tables=_BAYESIAN, style=(_GREEN, "-", "v", 1.6)),
    "power-epig": Strategy(
        _at("top:select_power_epig"), "PowerEPIG", _HELPS,
        needs_target=True, stochastic=True, closed_form=True, cost=_EPIG_COST, reference=_POWER,
        tables=_BAYESIAN, style=(_GREEN, "--", "d", 1.6)),
    "softmax-epig": Strategy(
        _at("top:select_softmax_epig"), "SoftmaxEPIG", _HELPS,
        needs_target=True, stochastic=True, closed_form=True, cost=_EPIG_COST, reference=_POWER,
        tables=_BAYESIAN, style=(_GREY, "-.", "P", 1.6)),
    "softrank-epig": Strategy(
        _at("top:select_softrank_epig"), "SoftRankEPIG", _HELPS,
        needs_target=True, stochastic=True, closed_form=True, cost=_EPIG_COST, reference=_POWER,
        tables=_BAYESIAN, style=(_GREY, "--", "p", 1.6)),
    "parbals-map-epig": Strategy(
        _at("parbals:select_parbals_map_epig"), "ParBaLS-MAP EPIG", _TOGETHER,
        needs_target=True, batch_aware=True, conditions_model=True,
        closed_form=True, cost="B·N·K·(M·C² or K·C)", reference="Hu and Mussmann 2026",
        tables=_BOTH, style=(_SKY, "--", "D", 2.0)),
    "parbals-epig": Strategy(
        _at("parbals:select_parbals_epig"), "ParBaLS EPIG", _TOGETHER,
        needs_target=True, batch_aware=True, conditions_model=True,
        closed_form=True, cost="U·B·N·K·(M·C² or K·C)", reference="Hu and Mussmann 2026",
        tables=_BOTH, style=(_BLUE, "-", "o", 2.6)),
}
# fmt: on

_THEIRS = (Strategy, "strategy", "parbals.strategies.Strategy")


def strategy_named(name: str) -> Strategy:
    """Look a strategy up, ours or an installed package's, or say which there are."""
    if isinstance(name, str) and name in STRATEGIES:
        return STRATEGIES[name]
    others = _other_entries()
    if isinstance(name, str) and name in others:
        return load_entry(others[name], *_THEIRS)
    names = ", ".join([*STRATEGIES, *others])
    raise InputError(f"There is no strategy {name!r}; choose one of: {names}.")


def strategy_title(name: str) -> str:
    """What a strategy is called in tables; one that is not installed here by its own name."""
    try:
        return strategy_named(name).title or name
    except InputError:
        return name


def all_strategies() -> dict[str, Strategy]:
    """Ours, then those of installed packages.

    One of theirs that cannot be loaded stops nothing but itself.
    """
    return STRATEGIES | loadable_entries(_other_entries(), *_THEIRS)


def _other_entries() -> dict[str, EntryPoint]:
    return other_entries(_GROUP, STRATEGIES)
