"""The paper's model and search in one line, beside the learner's own defaults."""

from collections.abc import Hashable, Sequence
from typing import Any

from parbals.learner.active import ActiveLearner

__all__ = ["paper_learner"]


def paper_learner(X_pool: Any, classes: Sequence[Hashable], **terms: Any) -> ActiveLearner:
    """The paper's model and search as a learner; ``terms`` are those of :class:`ActiveLearner`.

    A prior of scale 1 sampled 400 times, ParBaLS EPIG with 10 universes for log loss, 10,000
    candidates and 1,000 targets. The posterior is particles, which pseudo-labels move;
    ``inference="nuts"`` is the paper's sampler, whose draws they reweigh.
    """
    paper: dict[str, Any] = {
        "n_samples": 400,
        "prior_scale": 1.0,
        "inference": "smc",
        "metric": "log-loss",
        "n_universes": 10,
        "n_candidates": 10_000,
        "n_targets": 1_000,
    }
    return ActiveLearner(X_pool, classes, **(paper | terms))
