"""The table of strategies: one line each, nothing registered by import magic.

Strategies of other packages are found through the entry-point group ``parbals.strategies``; each entry names a
:class:`Strategy`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from parbals.batches.problem import Problem
from parbals.errors import InputError
from parbals.plugins import load_entry, loadable_entries, other_entries
from parbals.strategies import (
    badge,
    bald,
    batchbald,
    confidence,
    coreset,
    entropy,
    epig,
    galaxy,
    glister,
    margin,
    parbals_epig,
    parbals_map_epig,
    power_bald,
    power_epig,
    random,
    softmax_bald,
    softmax_epig,
    softrank_bald,
    softrank_epig,
)
from parbals.types import Batch

__all__ = ["STRATEGIES", "Strategy", "all_strategies", "strategy_named"]

_GROUP = "parbals.strategies"


@dataclass(frozen=True)
class Strategy:
    """A pure function from a problem to a batch, what it needs, and what it costs.

    Attributes:
        select: the function. The same problem always gives the same batch; all randomness comes from
            ``problem.seed``.
        needs_target: predictive samples of a target set.
        needs_features: features of the pool.
        needs_labels: labels known so far, with the model's predictions there.
        batch_aware: a point's chance depends on the points chosen before it.
        stochastic: other seeds give other batches by design.
        uses_predictions: what the model predicts matters at all.
        conditions_model: given our own model, its posterior is conditioned during the batch.
        options: names accepted in ``select_batch(options={...})``.
        cost: operations, in the axis letters N M K C D B U, L labelled points.
        reference: where it was published.
    """

    select: Callable[[Problem], Batch]
    needs_target: bool = False
    needs_features: bool = False
    needs_labels: bool = False
    batch_aware: bool = False
    stochastic: bool = False
    uses_predictions: bool = True
    conditions_model: bool = False
    options: tuple[str, ...] = ()
    cost: str = ""
    reference: str = ""


_POWER = "Kirsch et al. 2023"
_EPIG_COST = "N·M·K·C²"

STRATEGIES: dict[str, Strategy] = {
    "random": Strategy(random.select_random, stochastic=True, uses_predictions=False, cost="N"),
    "confidence": Strategy(confidence.select_confidence, cost="N·K·C", reference="Lewis and Gale 1994"),
    "margin": Strategy(margin.select_margin, cost="N·K·C", reference="Scheffer et al. 2001"),
    "entropy": Strategy(entropy.select_entropy, cost="N·K·C", reference="Settles 2009"),
    "coreset": Strategy(
        coreset.select_coreset,
        needs_features=True,
        uses_predictions=False,
        batch_aware=True,
        cost="N·(L+B)·D",
        reference="Sener and Savarese 2018",
    ),
    "badge": Strategy(
        badge.select_badge,
        needs_features=True,
        batch_aware=True,
        stochastic=True,
        cost="N·(K·C + B·D)",
        reference="Ash et al. 2020",
    ),
    "galaxy": Strategy(
        galaxy.select_galaxy,
        needs_labels=True,
        batch_aware=True,
        cost="N·(K·C + C·ln N)",
        reference="Zhang et al. 2022",
    ),
    "glister": Strategy(
        glister.select_glister,
        needs_features=True,
        needs_labels=True,
        batch_aware=True,
        cost="N·L·(D + B·C)",
        reference="Killamsetty et al. 2021",
    ),
    "bald": Strategy(bald.select_bald, cost="N·K·C", reference="Houlsby et al. 2011"),
    "power-bald": Strategy(power_bald.select_power_bald, stochastic=True, cost="N·K·C", reference=_POWER),
    "softmax-bald": Strategy(softmax_bald.select_softmax_bald, stochastic=True, cost="N·K·C", reference=_POWER),
    "softrank-bald": Strategy(softrank_bald.select_softrank_bald, stochastic=True, cost="N·K·C", reference=_POWER),
    "batchbald": Strategy(
        batchbald.select_batchbald, batch_aware=True, cost="B·N·K·C·min(C^B, S)", reference="Kirsch et al. 2019"
    ),
    "epig": Strategy(epig.select_epig, needs_target=True, cost=_EPIG_COST, reference="Bickford Smith et al. 2023"),
    "power-epig": Strategy(
        power_epig.select_power_epig, needs_target=True, stochastic=True, cost=_EPIG_COST, reference=_POWER
    ),
    "softmax-epig": Strategy(
        softmax_epig.select_softmax_epig, needs_target=True, stochastic=True, cost=_EPIG_COST, reference=_POWER
    ),
    "softrank-epig": Strategy(
        softrank_epig.select_softrank_epig, needs_target=True, stochastic=True, cost=_EPIG_COST, reference=_POWER
    ),
    "parbals-map-epig": Strategy(
        parbals_map_epig.select_parbals_map_epig,
        needs_target=True,
        batch_aware=True,
        conditions_model=True,
        cost="B·N·K·(M·C² or K·C)",
        reference="Hu and Mussmann 2026",
    ),
    "parbals-epig": Strategy(
        parbals_epig.select_parbals_epig,
        needs_target=True,
        batch_aware=True,
        conditions_model=True,
        cost="U·B·N·K·(M·C² or K·C)",
        reference="Hu and Mussmann 2026",
    ),
}

_THEIRS = (Strategy, "strategy", "parbals.strategies.Strategy")


def strategy_named(name: str) -> Strategy:
    """Look a strategy up, ours or an installed package's, or say which there are."""
    if isinstance(name, str) and name in STRATEGIES:
        return STRATEGIES[name]
    others = _other_entries()
    if isinstance(name, str) and name in others:
        return load_entry(others[name], *_THEIRS)
    raise InputError(f"There is no strategy {name!r}; choose one of: {', '.join([*STRATEGIES, *others])}.")


def all_strategies() -> dict[str, Strategy]:
    """Ours, then those of installed packages. One of theirs that cannot be loaded stops nothing but itself."""
    return STRATEGIES | loadable_entries(_other_entries(), *_THEIRS)


def _other_entries() -> dict[str, EntryPoint]:
    return other_entries(_GROUP, STRATEGIES)
