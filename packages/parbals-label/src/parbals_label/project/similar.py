"""How many items depend on a label: a number that people can picture beside an item."""

import numpy as np
from parbals.learner.active import ActiveLearner
from parbals.posterior.predictive import add_bias

__all__ = ["similar_items"]

_DEPENDS = 0.5


def similar_items(learner: ActiveLearner, positions: np.ndarray) -> dict[str, int]:
    """Position → about how many items of the pool have a prediction that hangs on this label.

    An item depends on another where the posterior correlation of their scores,

        ρ_a = cov(f_a(x), f_a(x')) / (sd f_a(x) · sd f_a(x')),

    is above a half on average over the channels a: learning one then moves the other. It is counted
    among the targets (M, D) and scaled to the pool. Empty for models that are not Gaussian.
    """
    model = learner.fitted() if learner.can_fit else None
    gaussian = getattr(model, "gaussian", None)
    if gaussian is None or not len(learner.state.training[0]):
        return {}
    channels = gaussian.channels
    there, here = (
        add_bias(np.asarray(rows, np.float64))
        for rows in (learner.state.target_rows(), learner.setup.pool_rows(positions))
    )
    covariance = there @ channels.covariance_with(here)  # (A, M, B)
    spread = [np.sqrt(np.maximum(channels.marginals(X)[1].T, 1e-30)) for X in (there, here)]
    correlation = (covariance / (spread[0][:, :, None] * spread[1][:, None])).mean(axis=0)
    share = (correlation > _DEPENDS).mean(axis=0)  # (B,)
    counts = np.rint(share * learner.pool.n_rows).astype(int).tolist()
    return {str(p): n for p, n in zip(np.asarray(positions).tolist(), counts, strict=True)}
