"""The paper's model and search settings as a learner."""

from collections.abc import Hashable, Sequence
from typing import Any

from parbals.learner.active import ActiveLearner
from parbals.learner.settings import PosteriorSettings, SearchSettings

__all__ = ["paper_learner"]


def paper_learner(X_pool: Any, classes: Sequence[Hashable], **arguments: Any) -> ActiveLearner:
    """Create an :class:`ActiveLearner` with the paper's settings.

    They are a prior of scale 1, 400 posterior samples, ParBaLS EPIG with 10 universes for log loss,
    10,000 candidates and 1,000 targets. One thing differs: the samples are particles (SMC), which
    are reweighted and moved when a universe adds a pseudo-label. The paper samples by NUTS and only
    reweights; ``inference="nuts"`` does so.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> learner = paper_learner(X, ["ham", "spam"], random_state=0, n_samples=100)
    >>> learner.metric, learner.setup.inference, learner.setup.n_samples
    ('log-loss', 'smc', 100)

    Args:
        X_pool: (N, D) features.
        classes: the class labels.
        **arguments: of :class:`ActiveLearner`, in place of the paper's.
    """
    paper: dict[str, Any] = {
        "metric": "log-loss",
        "posterior": PosteriorSettings(n_samples=400, prior_scale=1.0, inference="smc"),
        "search": SearchSettings(n_universes=10, n_candidates=10_000, n_targets=1_000),
    }
    return ActiveLearner(X_pool, classes, **(paper | arguments))
