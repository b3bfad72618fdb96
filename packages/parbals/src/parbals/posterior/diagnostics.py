"""What a posterior says about its own quality, and when that is bad enough to tell the user."""

import warnings
from dataclasses import dataclass

from parbals.errors import PosteriorWarning

__all__ = ["Diagnostics", "warn_if_unreliable"]


@dataclass(frozen=True)
class Diagnostics:
    """Travels with every fitted model.

    Attributes:
        inference: "smc", "ep", "nuts" or "laplace".
        n_samples: K, the number of draws.
        effective_sample_size: what the draws are worth: (Σw)²/Σw² for weighted particles (those
            at one place count as one), the smallest effective number of draws of any training
            logit for NUTS.
        acceptance: mean Metropolis acceptance of the last move.
        correlation: what is left of each particle's start after the moves, 0 = forgotten (of
            the training logits, root mean square, or of |V|², whichever is more).
        drift: largest change of a training logit's mean during the last moves, in posterior
            standard deviations; large means the population was still travelling.
        n_moves, n_gradients: how much work the moves were.
        step_size: the angle of one integrator step after adaptation.
        n_reweighted: labels taken in by reweighting since the particles last moved.
        divergences: divergent NUTS transitions.
        r_hat: largest split-R̂ of any training logit (NUTS).
        prior: one sentence about the prior that was chosen.
        problems: one sentence for each failed check, with a remedy; empty when all is well.
    """

    inference: str
    n_samples: int
    effective_sample_size: float
    acceptance: float = float("nan")
    correlation: float = float("nan")
    drift: float = float("nan")
    n_moves: int = 0
    n_gradients: int = 0
    step_size: float = float("nan")
    n_reweighted: int = 0
    divergences: int = 0
    r_hat: float = float("nan")
    prior: str = ""
    problems: tuple[str, ...] = ()


def warn_if_unreliable(diagnostics: Diagnostics) -> None:
    """Tell the user about every failed check; a posterior is never used silently after one."""
    for problem in diagnostics.problems:
        warnings.warn(problem, PosteriorWarning, stacklevel=3)
