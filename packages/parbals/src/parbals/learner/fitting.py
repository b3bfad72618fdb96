"""The model of a learner: ours, or a copy of the user's own, fitted to labels."""

from typing import TYPE_CHECKING, Any

import numpy as np

from parbals.learner.models import fresh_copy
from parbals.machine import several_threads
from parbals.posterior.estimator import LogisticModel
from parbals.strategies.choose import CheckedModel

if TYPE_CHECKING:
    from parbals.learner.active import ActiveLearner

__all__ = ["fit_model"]


@several_threads()  # the library alone would spin more than it computes
def fit_model(
    learner: "ActiveLearner",
    positions: np.ndarray,
    numbers: np.ndarray,
    seed: int,
    near: Any = None,
) -> Any:
    """The learner's model of these labels; one of the user's own comes wrapped in its checks.

    Args:
        positions, numbers: (n,) pool items and their class numbers.
        seed: of draws from the posterior; a model of the user's own has its own.
        near: what this function made of nearly the same labels, a start where there are thousands.
    """
    if learner.model is not None:
        own = fresh_copy(learner.model, warn=False)  # the warning came with the learner
        ours = isinstance(own, LogisticModel) and own.prior_scale == "auto"
        more = (learner.pool_moments,) if ours else ()
        own.fit(learner.pool_rows(positions), numbers, *more)
        return CheckedModel(own, len(learner.classes))
    model = LogisticModel(
        learner.n_samples,
        learner.prior_scale,
        learner.inference,
        classes=np.arange(len(learner.classes)),
        random_state=seed,
    )
    pool = learner.pool_moments if learner.prior_scale == "auto" else None
    if len(positions) == 0:
        return model.fit_prior(learner.pool_rows(np.zeros(1, int)).shape[1], pool)
    return model.fit(learner.pool_rows(positions), numbers, pool, near)
