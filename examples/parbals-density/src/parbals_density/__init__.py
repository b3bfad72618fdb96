"""Information density: uncertain points that stand for many others (Settles and Craven, 2008).

score(x) = H(p̄(x)) · (mean over the pool of the cosine similarity to x, moved to 0..1) ^ power
"""

import numpy as np
from parbals.errors import InputError
from parbals.strategies import Batch, Problem, Strategy, batch_of

__all__ = ["DENSITY", "select_density"]


def select_density(problem: Problem) -> Batch:
    """Top-B by entropy times density; the option ``power`` says how much density counts (1)."""
    power = problem.options.get("power", 1.0)
    if not isinstance(power, int | float) or not power >= 0:
        raise InputError(f"power is {power!r}; it must be a number of at least 0.")
    probs = problem.mean_probs
    entropy = -(probs * np.log(np.where(probs > 0, probs, 1.0))).sum(axis=1)
    features = problem.require_features()
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    directions = features / np.where(lengths > 0, lengths, 1.0)
    # The mean similarity to all points at once.
    density = (1.0 + directions @ directions.mean(axis=0)) / 2.0
    scores = np.where(problem.candidates(), entropy * density**power, -np.inf)
    chosen = np.argsort(-scores, kind="stable")[: problem.batch_size]
    return batch_of(problem, chosen, scores[chosen])


DENSITY = Strategy(
    select_density,
    title="Density",
    about="chosen because the model is unsure of it and many others are like it",
    needs_features=True,
    options=("power",),
    cost="N·D",
    reference="Settles and Craven 2008",
)
