"""The table of strategies: one entry each; importing a module registers nothing.

An entry is all that the rest of the package knows about a strategy: its inputs, its title, its line
style in plots, and a sentence for users. The algorithm is loaded on first use, so reading the table
does not import NumPy. Strategies of other packages are found through the entry-point group
``parbals.strategies``; each entry point names a :class:`Strategy`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from parbals.errors import InputError
from parbals.plugins import load_entry, loadable_entries, other_entries

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from parbals.strategies.problem import Problem
    from parbals.types import Batch

__all__ = [
    "COLD_START_STRATEGY",
    "DEFAULT_STRATEGY",
    "RANDOM_STRATEGY",
    "STRATEGIES",
    "Strategy",
    "all_strategies",
    "strategy_named",
    "strategy_title",
]

DEFAULT_STRATEGY = "parbals-epig"
COLD_START_STRATEGY = "kmeans"
"""Chooses items while there are neither labels nor descriptions of the classes."""
RANDOM_STRATEGY = "random"
"""The baseline of all other strategies."""


@dataclass(frozen=True)
class Strategy:
    """A query strategy: a pure function from a problem to a batch, its inputs and its cost.

    >>> from parbals.strategies import Strategy, batch_of
    >>> def select_first(problem):
    ...     chosen = problem.candidates().nonzero()[0][: problem.batch_size]
    ...     return batch_of(problem, chosen, scores=0.0 * chosen)
    >>> FIRST = Strategy(select_first, title="First", about="the next item of the file")

    Attributes:
        select: the function. It is deterministic: all randomness comes from ``problem.seed``.
        title: name in tables and plots; "" stands for the name of the entry.
        about: why an item was chosen, to complete the sentence "This item was ...".
        needs_target: needs predictive samples of a target set.
        needs_features: needs features of the pool.
        needs_labels: needs the labels so far, with the model's predictions there.
        needs_classes: needs the number of classes.
        needs_model: has the model predict other rows than those of the pool.
        holds_out: needs labels that the model was not fitted on; experiments hold some out.
        batch_aware: a choice depends on the points chosen before it in the batch.
        stochastic: other seeds give other batches by design.
        uses_predictions: uses the model's predictions.
        averages: uses averaged predictions only, so that a single sample suffices.
        conditions_model: conditions the posterior of a parbals model while the batch grows.
        closed_form: needs no samples given a Gaussian posterior (strategies without a target set
            only with two classes).
        options: names accepted in ``select_batch(options={...})``.
        cost: number of operations, in the axis letters N M K C D B U, and L labelled points.
        reference: publication.
        tables: the paper's tables that include it, "bayesian" and "heuristics"; empty for
            strategies that are not in the paper.
        style: colour, dashes, marker and width of its line in plots; None takes a spare one.
    """

    select: Callable[["Problem"], "Batch"]
    title: str = ""
    about: str = "chosen by its score"
    needs_target: bool = False
    needs_features: bool = False
    needs_labels: bool = False
    needs_classes: bool = False
    needs_model: bool = False
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


def _lazy(reference: str) -> Callable[["Problem"], "Batch"]:
    """The function ``module:name`` of this folder, loaded when it is first called."""
    module, _, name = reference.partition(":")

    def select(problem: "Problem") -> "Batch":
        algorithm: Callable[[Problem], Batch] = getattr(
            import_module(f"parbals.strategies.{module}"), name
        )
        return algorithm(problem)

    return select


_HEURISTICS = ("heuristics",)
_BAYESIAN = ("bayesian",)
_BOTH = ("bayesian", "heuristics")
_GUMBEL_TOP_K = "Kirsch et al. 2023"
_EPIG_COST = "N·M·K·C²"
_UNSURE = "chosen because the model is unsure of it"
_INFORMS = "chosen because its label would be informative about the model"
_HELPS = "chosen because its label would improve the predictions"
_TOGETHER = (
    "chosen together with the others of its batch, so that their labels improve the predictions "
    "and do not repeat each other"
)
# Okabe and Ito's colour-blind safe palette; lines of one colour differ in dashes and marker.
_BLACK = "#000000"
_ORANGE = "#e69f00"
_SKY = "#56b4e9"
_GREEN = "#009e73"
_BLUE = "#0072b2"
_RED = "#d55e00"
_PINK = "#cc79a7"
_GREY = "#767676"

# fmt: off
STRATEGIES: dict[str, Strategy] = {
    "random": Strategy(
        _lazy("top:select_random"), "Random", "drawn at random",
        stochastic=True, uses_predictions=False, cost="N",
        tables=_BOTH, style=(_BLACK, ":", "o", 1.6)),
    "confidence": Strategy(
        _lazy("top:select_confidence"), "Confidence", _UNSURE,
        averages=True, cost="N·K·C", reference="Lewis and Gale 1994",
        tables=_HEURISTICS, style=(_ORANGE, "-", "s", 1.6)),
    "margin": Strategy(
        _lazy("top:select_margin"), "Margin",
        "chosen because two classes are nearly equally likely",
        averages=True, cost="N·K·C", reference="Scheffer et al. 2001",
        tables=_HEURISTICS, style=(_ORANGE, "--", "h", 1.6)),
    "entropy": Strategy(
        _lazy("top:select_entropy"), "Entropy", _UNSURE,
        averages=True, cost="N·K·C", reference="Settles 2009",
        tables=_HEURISTICS, style=(_ORANGE, ":", "p", 1.6)),
    "coreset": Strategy(
        _lazy("coreset:select_coreset"), "CoreSet",
        "chosen because it is far from all items chosen before",
        needs_features=True, uses_predictions=False, batch_aware=True,
        cost="N·(L+B)·D", reference="Sener and Savarese 2018",
        tables=_HEURISTICS, style=(_PINK, "--", "<", 1.6)),
    "kmeans": Strategy(
        _lazy("kmeans:select_kmeans"), "k-means",
        "chosen because it is typical of many unlabelled items",
        needs_features=True, uses_predictions=False, batch_aware=True,
        cost="N·(L+B)·D", reference="Lloyd 1982", style=(_SKY, ":", "s", 1.6)),
    "typiclust": Strategy(
        _lazy("typiclust:select_typiclust"), "TypiClust",
        "chosen because it is typical of a cluster with few labels",
        needs_features=True, uses_predictions=False, batch_aware=True,
        cost="N·(L+B)·D + N²·D/(L+B)", reference="Hacohen et al. 2022",
        style=(_PINK, "-", "s", 1.6)),
    "probcover": Strategy(
        _lazy("probcover:select_probcover"), "ProbCover",
        "chosen because many items without a label are near it",
        needs_features=True, needs_classes=True, uses_predictions=False, batch_aware=True,
        cost="N²·D", reference="Yehuda et al. 2022", style=(_RED, ":", "D", 1.6)),
    "dropquery": Strategy(
        _lazy("dropquery:select_dropquery"), "DropQuery",
        "chosen from items whose predicted class changes when features are dropped at random",
        needs_features=True, needs_model=True, batch_aware=True, stochastic=True, averages=True,
        cost="N·D·(C+B)", reference="Gupte et al. 2024", style=(_BLUE, ":", "^", 1.6)),
    "badge": Strategy(
        _lazy("badge:select_badge"), "BADGE",
        "chosen because the model is unsure of it and it differs from the others of its batch",
        needs_features=True, batch_aware=True, stochastic=True,
        averages=True, cost="N·(K·C + B·D)", reference="Ash et al. 2020",
        tables=_HEURISTICS, style=(_GREEN, "-.", "P", 1.6)),
    "galaxy": Strategy(
        _lazy("galaxy:select_galaxy"), "GALAXY",
        "chosen because it lies between items with different labels",
        needs_labels=True, batch_aware=True,
        averages=True, cost="N·(K·C + C·ln N)", reference="Zhang et al. 2022",
        tables=_HEURISTICS, style=(_RED, "-.", "*", 1.6)),
    "glister": Strategy(
        _lazy("glister:select_glister"), "GLISTER",
        "chosen because training on it would improve predictions of held-out labels",
        needs_features=True, needs_labels=True, holds_out=True, batch_aware=True,
        averages=True, cost="N·L·(D + B·C)", reference="Killamsetty et al. 2021",
        tables=_HEURISTICS, style=(_GREY, "--", "X", 1.6)),
    "bald": Strategy(
        _lazy("top:select_bald"), "BALD", _INFORMS,
        closed_form=True, cost="N·K·C", reference="Houlsby et al. 2011",
        tables=_BAYESIAN, style=(_RED, "-", "^", 1.6)),
    "power-bald": Strategy(
        _lazy("top:select_power_bald"), "PowerBALD", _INFORMS,
        stochastic=True, closed_form=True, cost="N·K·C", reference=_GUMBEL_TOP_K,
        tables=_BAYESIAN, style=(_RED, "--", "<", 1.6)),
    "softmax-bald": Strategy(
        _lazy("top:select_softmax_bald"), "SoftmaxBALD", _INFORMS,
        stochastic=True, closed_form=True, cost="N·K·C", reference=_GUMBEL_TOP_K,
        tables=_BAYESIAN, style=(_PINK, "-.", ">", 1.6)),
    "softrank-bald": Strategy(
        _lazy("top:select_softrank_bald"), "SoftRankBALD", _INFORMS,
        stochastic=True, closed_form=True, cost="N·K·C", reference=_GUMBEL_TOP_K,
        tables=_BAYESIAN, style=(_PINK, ":", "X", 1.6)),
    "batchbald": Strategy(
        _lazy("batchbald:select_batchbald"), "BatchBALD",
        "chosen together with its batch, whose labels are jointly most informative about the model",
        batch_aware=True, cost="B·N·K·C·min(C^B, S)", reference="Kirsch et al. 2019",
        tables=_BAYESIAN, style=(_ORANGE, "-", "h", 1.6)),
    "epig": Strategy(
        _lazy("top:select_epig"), "EPIG", _HELPS,
        needs_target=True, closed_form=True,
        cost=_EPIG_COST, reference="Bickford Smith et al. 2023",
        tables=_BAYESIAN, style=(_GREEN, "-", "v", 1.6)),
    "power-epig": Strategy(
        _lazy("top:select_power_epig"), "PowerEPIG", _HELPS,
        needs_target=True, stochastic=True, closed_form=True,
        cost=_EPIG_COST, reference=_GUMBEL_TOP_K,
        tables=_BAYESIAN, style=(_GREEN, "--", "d", 1.6)),
    "softmax-epig": Strategy(
        _lazy("top:select_softmax_epig"), "SoftmaxEPIG", _HELPS,
        needs_target=True, stochastic=True, closed_form=True,
        cost=_EPIG_COST, reference=_GUMBEL_TOP_K,
        tables=_BAYESIAN, style=(_GREY, "-.", "P", 1.6)),
    "softrank-epig": Strategy(
        _lazy("top:select_softrank_epig"), "SoftRankEPIG", _HELPS,
        needs_target=True, stochastic=True, closed_form=True,
        cost=_EPIG_COST, reference=_GUMBEL_TOP_K,
        tables=_BAYESIAN, style=(_GREY, "--", "p", 1.6)),
    "parbals-map-epig": Strategy(
        _lazy("parbals:select_parbals_map_epig"), "ParBaLS-MAP EPIG", _TOGETHER,
        needs_target=True, batch_aware=True, conditions_model=True,
        closed_form=True, cost="B·N·K·(M·C² or K·C)", reference="Hu and Mussmann 2026",
        tables=_BOTH, style=(_SKY, "--", "D", 2.0)),
    "parbals-epig": Strategy(
        _lazy("parbals:select_parbals_epig"), "ParBaLS EPIG", _TOGETHER,
        needs_target=True, batch_aware=True, conditions_model=True,
        closed_form=True, cost="U·B·N·K·(M·C² or K·C)", reference="Hu and Mussmann 2026",
        tables=_BOTH, style=(_BLUE, "-", "o", 2.6)),
}
# fmt: on

_ENTRY_POINT_GROUP = "parbals.strategies"
_TYPE_NAME = "parbals.strategies.Strategy"


def strategy_named(name: str) -> Strategy:
    """The strategy with this name, built in or from an installed package.

    >>> strategy_named("bald").title
    'BALD'
    """
    if isinstance(name, str) and name in STRATEGIES:
        return STRATEGIES[name]
    entries = _other_entries()
    if isinstance(name, str) and name in entries:
        return load_entry(entries[name], Strategy, "strategy", _TYPE_NAME)
    names = ", ".join([*STRATEGIES, *entries])
    raise InputError(f"There is no strategy {name!r}; choose one of: {names}.")


def strategy_title(name: str) -> str:
    """The title of a strategy in tables; the name itself if the strategy is not installed."""
    try:
        return strategy_named(name).title or name
    except InputError:
        return name


def unused_target_sentence(name: str) -> str | None:
    """Say that a strategy does not use a target set; None for one that does.

    >>> unused_target_sentence("margin")
    'Margin does not use the target set when it chooses; ParBaLS EPIG and EPIG do.'
    """
    if strategy_named(name).needs_target:
        return None
    titles = " and ".join(strategy_title(other) for other in (DEFAULT_STRATEGY, "epig"))
    return f"{strategy_title(name)} does not use the target set when it chooses; {titles} do."


def all_strategies() -> dict[str, Strategy]:
    """The built-in strategies, then those of installed packages that can be loaded."""
    return STRATEGIES | loadable_entries(_other_entries(), Strategy, "strategy", _TYPE_NAME)


def _other_entries() -> "dict[str, EntryPoint]":
    """Entry points of other packages, by name."""
    return other_entries(_ENTRY_POINT_GROUP, STRATEGIES)
