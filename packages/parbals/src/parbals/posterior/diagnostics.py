"""What a posterior says about its own quality, and when that is bad enough to tell the user."""

import warnings
from dataclasses import dataclass

import numpy as np

from parbals.errors import PosteriorWarning

__all__ = ["Diagnostics", "effective_draws", "split_r_hat", "warn_if_unreliable"]


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


def split_r_hat(draws: np.ndarray) -> np.ndarray:
    """Gelman and Rubin's R̂ (Q,) of draws (chains, S, Q), every chain cut in half; 1: all agree.

    (BlackJAX's diagnostics give the same numbers; run outside one compiled program they compile a
    hundred small ones for every new number of rows, which took longer than the sampling.)
    """
    half = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :half], draws[:, -half:]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt(between / within + (half - 1) / half)


def effective_draws(draws: np.ndarray) -> np.ndarray:
    """Effective number (Q,) of draws in chains (chains, S, Q), by Geyer's initial sequence.

    N / (1 + 2 Σ_t ρ_t), where the autocorrelations ρ_t are summed in pairs for as long as those are
    positive, and each pair is cut to the one before it: for a reversible chain they decrease.
    """
    n_chains, n_draws, _ = draws.shape
    centred = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n_draws, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n_draws].mean(axis=0) / n_draws
    within = covariance[0] * n_draws / (n_draws - 1)
    total = covariance[0] + draws.mean(axis=1).var(axis=0, ddof=1)
    correlation = 1.0 - (within - covariance * n_draws / (n_draws - 1)) / total
    correlation[0] = 1.0
    even = n_draws - n_draws % 2
    pairs = correlation[:even].reshape(even // 2, 2, -1).sum(axis=1)
    pairs = np.minimum.accumulate(
        np.where(np.logical_and.accumulate(pairs > 0, axis=0), pairs, 0.0), axis=0
    )
    n_total = n_chains * n_draws
    # Antithetic chains can beat independence; their estimate is noisy, so it is capped as in Stan.
    return n_total / np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1.0 / np.log10(n_total))
