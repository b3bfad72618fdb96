"""The trusted reference: BlackJAX's No-U-Turn sampler (NUTS) on the log posterior by definition.

The density is written out from the definition (not in the form that the population's moves use), in
float64, so that agreement between the two is evidence. Sampling takes place in coordinates whitened
at the mode: a linear change of variables, exact, after which a short warm-up is enough.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from parbals.arrays import bucket, pad_rows
from parbals.posterior.closed.laplace import laplace_reference
from parbals.posterior.predictive import contrast_basis
from parbals.randomness import derive_generator
from parbals.types import Diagnostics

__all__ = ["draw_nuts"]

N_CHAINS = 4
N_WARM_UP = 400
_MIN_DRAWS_PER_CHAIN = 32
"""With fewer draws the agreement of the chains cannot be judged."""
_MAX_DIVERGENT_SHARE = 0.02
_MAX_R_HAT = 1.05


def draw_nuts(
    seed: int, X: np.ndarray, labels: np.ndarray, n_classes: int, n_samples: int
) -> tuple[np.ndarray, Diagnostics]:
    """Draw contrast weights V (D+1, J, K) by four chains on design rows X (n, D+1).

    The prior of every weight is N(0, 1).
    """
    generator = derive_generator(seed, "nuts", len(X))
    reference = laplace_reference(X, labels, n_classes)
    n_rows = bucket(len(X))
    n_draws = max(-(-n_samples // N_CHAINS), _MIN_DRAWS_PER_CHAIN)
    n_total = N_CHAINS * n_draws
    with jax.enable_x64(True):
        start = generator.standard_normal((N_CHAINS, *reference.mean.shape))
        chains = _run_chains(
            jax.random.key(int(generator.integers(2**32))),
            start,
            pad_rows(X, n_rows),
            pad_rows(labels.astype(np.int32), n_rows),
            pad_rows(np.ones(len(X)), n_rows),
            reference.mean,
            reference.factor,
            n_classes=n_classes,
            n_draws=n_draws,
        )
        z = np.asarray(chains.draws)
        divergences = int(chains.divergences)
        # Without rows there is no logit that the chains could disagree on.
        r_hat = float(np.asarray(chains.r_hat)[: len(X)].max(initial=1.0))
        ess = float(np.asarray(chains.ess)[: len(X)].min(initial=n_total))
    # Interleave the chains, so that the first K draws use them all equally.
    whitened = z.swapaxes(0, 1).reshape(-1, *reference.mean.shape)[:n_samples]
    diagnostics = Diagnostics(
        inference="nuts",
        n_samples=n_samples,
        effective_sample_size=n_samples * min(ess / n_total, 1.0),
        divergences=divergences,
        r_hat=r_hat,
        problems=tuple(_problems(divergences, r_hat, n_total)),
    )
    return reference.colour(np.moveaxis(whitened, 0, 2)), diagnostics


def _problems(divergences: int, r_hat: float, n_draws: int) -> Iterator[str]:
    """Describe every failed check of the chains."""
    advice = "standardise the features"
    if divergences > _MAX_DIVERGENT_SHARE * n_draws:
        yield (
            f"NUTS had {divergences} divergent transitions: {advice} or use a smaller prior_scale."
        )
    # Few draws make R-hat noisy even for perfect chains: its excess over 1 is of order 1/draws.
    if not r_hat <= _MAX_R_HAT + 10.0 / n_draws:
        yield f"The NUTS chains disagree (R-hat {r_hat:.2f}): raise n_samples, or {advice}."


class _Chains(NamedTuple):
    """Draws of all chains, and their diagnostics.

    R-hat and effective sample size are (n, J), one for every row and contrast; those of padding
    rows are meaningless.
    """

    draws: Float[Array, "chains S d J"]
    divergences: Array  # their number
    r_hat: Array  # split-R̂ of the logits
    ess: Array  # effective sample size of the logits


@partial(jax.jit, static_argnames=("n_classes", "n_draws"))
def _run_chains(
    key: Key[Array, ""],
    start: Float[Array, "chains d J"],
    X: Float[Array, "n d"],
    labels: Int[Array, " n"],
    is_present: Float[Array, " n"],
    mean: Float[Array, "d J"],
    factor: Float[Array, "d d"],
    *,
    n_classes: int,
    n_draws: int,
) -> _Chains:
    """Warm up and run all chains; ``is_present`` (n,) is 0 for padding rows."""
    basis = jnp.asarray(contrast_basis(n_classes))

    def log_posterior(z: Float[Array, "d J"]) -> Float[Array, ""]:
        weights = mean + factor @ z
        log_probs = jax.nn.log_softmax(X @ weights @ basis.T, axis=1)
        label_log_probs = jnp.take_along_axis(log_probs, labels[:, None], axis=1)[:, 0]
        return jnp.sum(is_present * label_log_probs) - 0.5 * jnp.sum(jnp.square(weights))

    def run_chain(chain_key: Key[Array, ""], position: Float[Array, "d J"]) -> tuple[Array, Array]:
        warm_up_key, draw_key = jax.random.split(chain_key)
        warm_up = blackjax.window_adaptation(blackjax.nuts, log_posterior)
        (state, parameters), _ = warm_up.run(warm_up_key, position, num_steps=N_WARM_UP)
        kernel = blackjax.nuts(log_posterior, **parameters)

        def step(state: Any, step_key: Key[Array, ""]) -> tuple[Any, tuple[Array, Array]]:
            state, info = kernel.step(step_key, state)
            return state, (state.position, info.is_divergent)

        _, draws = jax.lax.scan(step, state, jax.random.split(draw_key, n_draws))
        return draws

    z, divergent = jax.vmap(run_chain)(jax.random.split(key, N_CHAINS), start)
    logits = jnp.einsum("nd,csdj->csnj", X @ factor, z)
    half = n_draws // 2
    halves = jnp.concatenate([logits[:, :half], logits[:, -half:]])
    r_hat = blackjax.diagnostics.potential_scale_reduction(halves)
    ess = blackjax.diagnostics.effective_sample_size(logits)
    return _Chains(draws=z, divergences=divergent.sum(), r_hat=r_hat, ess=ess)
