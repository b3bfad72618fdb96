"""The trusted reference: BlackJAX's No-U-Turn sampler on the log posterior as it is defined.

The density is written out from the definition (not in the form the population moves use), in
float64, so that agreement between the two is evidence. Sampling runs in coordinates whitened at the
mode: a linear change of variables that leaves the posterior as it is and makes short warm-ups
enough.
"""

from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from parbals.arrays import bucket, pad_rows
from parbals.posterior.closed.laplace import laplace_reference
from parbals.posterior.diagnostics import Diagnostics
from parbals.posterior.particles.smc import jax_key
from parbals.posterior.predictive import contrast_basis
from parbals.randomness import derive_generator

__all__ = ["NutsDraws", "draw_nuts", "effective_draws", "split_r_hat"]

N_CHAINS = 4
N_WARM_UP = 400
_FEWEST_DRAWS = 32
"""Fewer draws a chain than this say nothing about whether the chains agree."""


class NutsDraws(NamedTuple):
    """Contrast weights V (D+1, J, K) and how the chains behaved."""

    coefficients: np.ndarray
    diagnostics: Diagnostics


def draw_nuts(
    seed: int, X: np.ndarray, labels: np.ndarray, n_classes: int, prior_scale: float, n_samples: int
) -> NutsDraws:
    """Draws from four chains on design rows X (n, D+1), cut to ``n_samples``."""
    generator = derive_generator(seed, "nuts", len(X))
    reference = laplace_reference(X, labels, n_classes, prior_scale)
    rows = bucket(len(X))
    n_draws = max(-(-n_samples // N_CHAINS), _FEWEST_DRAWS)
    with jax.enable_x64(True):
        start = generator.standard_normal((N_CHAINS, *reference.mean.shape))
        chains = _run_chains(
            jax_key(generator),
            start,
            pad_rows(X, rows),
            pad_rows(labels.astype(np.int32), rows),
            pad_rows(np.ones(len(X)), rows),
            reference.mean,
            reference.factor,
            prior_scale,
            n_classes=n_classes,
            n_draws=n_draws,
        )
        z, divergences = np.asarray(chains[0]), int(chains[1])
    logits = (z.reshape(-1, *z.shape[2:]).swapaxes(1, 2) @ (X @ reference.factor).T).reshape(
        *z.shape[:2], -1
    )
    # Without rows there is no logit that the chains could disagree on.
    r_hat = float(split_r_hat(logits).max(initial=1.0))
    ess = float(effective_draws(logits).min(initial=N_CHAINS * n_draws))
    # Interleave the chains, so that the first K draws use them all equally.
    whitened = z.swapaxes(0, 1).reshape(-1, *reference.mean.shape)[:n_samples]
    n_drawn = N_CHAINS * n_draws
    return NutsDraws(
        reference.colour(np.moveaxis(whitened, 0, 2)),
        Diagnostics(
            inference="nuts",
            n_samples=n_samples,
            effective_sample_size=n_samples * min(ess / n_drawn, 1.0),
            divergences=divergences,
            r_hat=r_hat,
            problems=_problems(divergences, r_hat, n_drawn),
        ),
    )


def _problems(divergences: int, r_hat: float, n_drawn: int) -> tuple[str, ...]:
    # Few draws make R-hat noisy even for perfect chains: its excess over 1 is of order 1/draws.
    limit = 1.05 + 10.0 / n_drawn
    problems = []
    if divergences > 0.02 * n_drawn:
        problems.append(
            f"NUTS had {divergences} divergent transitions: standardise the features or use a "
            "smaller prior_scale."
        )
    if not r_hat <= limit:
        problems.append(
            f"The NUTS chains disagree (R-hat {r_hat:.2f}): raise n_samples, or standardise the "
            "features."
        )
    return tuple(problems)


@partial(jax.jit, static_argnames=("n_classes", "n_draws"))
def _run_chains(
    key: Key[Array, ""],
    start: Float[Array, "chains d J"],
    X: Float[Array, "n d"],
    labels: Int[Array, " n"],
    present: Float[Array, " n"],
    mean: Float[Array, "d J"],
    factor: Float[Array, "d d"],
    prior_scale: float,
    *,
    n_classes: int,
    n_draws: int,
) -> tuple[Float[Array, "chains S d J"], Array]:
    """Draws and the number of divergent transitions."""
    basis = jnp.asarray(contrast_basis(n_classes))

    def log_posterior(z: Float[Array, "d J"]) -> Float[Array, ""]:
        weights = mean + factor @ z
        log_probs = jax.nn.log_softmax(X @ weights @ basis.T, axis=1)
        chosen = jnp.take_along_axis(log_probs, labels[:, None], axis=1)[:, 0]
        return jnp.sum(present * chosen) - 0.5 * jnp.sum(jnp.square(weights)) / prior_scale**2

    def one_chain(chain_key: Key[Array, ""], position: Float[Array, "d J"]) -> tuple[Array, Array]:
        warm_up_key, draw_key = jax.random.split(chain_key)
        warm_up = blackjax.window_adaptation(blackjax.nuts, log_posterior)
        (state, parameters), _ = warm_up.run(warm_up_key, position, num_steps=N_WARM_UP)
        kernel = blackjax.nuts(log_posterior, **parameters)

        def step(state: Any, step_key: Key[Array, ""]) -> tuple[Any, tuple[Array, Array]]:
            state, info = kernel.step(step_key, state)
            return state, (state.position, info.is_divergent)

        _, draws = jax.lax.scan(step, state, jax.random.split(draw_key, n_draws))
        return draws

    z, divergent = jax.vmap(one_chain)(jax.random.split(key, N_CHAINS), start)
    return z, divergent.sum()


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
