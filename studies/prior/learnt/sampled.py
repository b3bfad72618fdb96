"""Scale and power of the prior sampled jointly with the weights by NUTS; two classes.

    ln s ~ N(ln 3, 1),   α ~ U(0, 2),   u ~ N(0, I),   b ~ N(0, 2 · 2²),
    f = Σ_j s √(2 v_j(α)) u_j z_j + b,        v_j(α) of :mod:`parbals.posterior.closed.whitening`,

z the row in the pool's principal directions.
"""

import numpy as np
from parbals.posterior.closed.whitening import INTERCEPT_SD, PoolMoments

__all__ = ["sampled_predictions"]

WARM_UP = 500
DRAWS = 1_000


def sampled_predictions(
    X: np.ndarray, y: np.ndarray, pool: PoolMoments, X_test: np.ndarray, seed: int
) -> np.ndarray:
    """(N, 2) mean predictions at X_test of labels 0 and 1 at X (n, D)."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    varies = pool.shares > 1e-9
    shares = jnp.asarray(pool.shares[varies])
    directions = pool.directions[:, varies]

    def coordinates(rows: np.ndarray) -> jnp.ndarray:
        return jnp.asarray((rows - pool.mean) @ directions / np.sqrt(pool.total))

    def deviations(log_scale: jnp.ndarray, power: jnp.ndarray) -> jnp.ndarray:
        return jnp.exp(log_scale) * jnp.sqrt(2.0 * shares**power / jnp.sum(shares ** (1 + power)))

    def model(rows: jnp.ndarray, labels: jnp.ndarray) -> None:
        log_scale = numpyro.sample("log_scale", dist.Normal(jnp.log(3.0), 1.0))
        power = numpyro.sample("power", dist.Uniform(0.0, 2.0))
        u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([len(shares)]))
        b = numpyro.sample("b", dist.Normal(0.0, np.sqrt(2.0) * INTERCEPT_SD))
        logits = rows @ (deviations(log_scale, power) * u) + b
        numpyro.sample("label", dist.BernoulliLogits(logits), obs=labels)

    chain = MCMC(NUTS(model), num_warmup=WARM_UP, num_samples=DRAWS, progress_bar=False)
    chain.run(jax.random.PRNGKey(seed), coordinates(X), jnp.asarray(y))
    drawn = chain.get_samples()
    weights = jax.vmap(deviations)(drawn["log_scale"], drawn["power"]) * drawn["u"]
    probs = jax.nn.sigmoid(coordinates(X_test) @ weights.T + drawn["b"]).mean(axis=1)
    return np.stack([1.0 - probs, probs], axis=1)
