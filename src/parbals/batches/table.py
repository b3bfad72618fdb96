"""The table of strategies: one line each, nothing registered by import magic."""

from collections.abc import Callable
from typing import NamedTuple

from parbals.batches import parbals, top
from parbals.batches.problem import Problem
from parbals.errors import InputError
from parbals.types import Batch

__all__ = ["STRATEGIES", "Strategy", "strategy_named"]


class Strategy(NamedTuple):
    """A pure function from a problem to a batch, and what it needs."""

    select: Callable[[Problem], Batch]
    needs_target: bool
    batch_aware: bool


STRATEGIES: dict[str, Strategy] = {
    "random": Strategy(top.select_random, needs_target=False, batch_aware=False),
    "confidence": Strategy(top.select_confidence, needs_target=False, batch_aware=False),
    "margin": Strategy(top.select_margin, needs_target=False, batch_aware=False),
    "entropy": Strategy(top.select_entropy, needs_target=False, batch_aware=False),
    "bald": Strategy(top.select_bald, needs_target=False, batch_aware=False),
    "epig": Strategy(top.select_epig, needs_target=True, batch_aware=False),
    "parbals-map-epig": Strategy(parbals.select_parbals_map, needs_target=True, batch_aware=True),
    "parbals-epig": Strategy(parbals.select_parbals, needs_target=True, batch_aware=True),
}


def strategy_named(name: str) -> Strategy:
    """Look a strategy up, or say which there are."""
    if name not in STRATEGIES:
        raise InputError(f"There is no strategy {name!r}; choose one of: {', '.join(STRATEGIES)}.")
    return STRATEGIES[name]
