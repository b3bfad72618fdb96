"""Long chains of NumPyro's NUTS on the full model: C weight vectors and biases, as it is defined.

Nothing here is shared with the library: neither the density (all C weight vectors, no contrasts),
nor the coordinates (no whitening by the mode), nor the sampler.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from oracles.definition import log_softmax


def numpyro_model(X, y, n_classes, prior_scale):
    weights = numpyro.sample(
        "weights", dist.Normal(0.0, prior_scale).expand([n_classes, X.shape[1]]).to_event(2)
    )
    biases = numpyro.sample("biases", dist.Normal(0.0, prior_scale).expand([n_classes]).to_event(1))
    numpyro.sample("y", dist.Categorical(logits=X @ weights.T + biases), obs=y)


def numpyro_chains(data, *, n_draws, seed, n_chains=4, n_warm_up=1000, thin=1, dense=True):
    """Class probabilities (chains, S, T, C) at the test points."""
    with jax.enable_x64(True):
        kernel = NUTS(numpyro_model, dense_mass=dense, target_accept_prob=0.9)
        mcmc = MCMC(
            kernel,
            num_warmup=n_warm_up,
            num_samples=n_draws * thin,
            thinning=thin,
            num_chains=n_chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(
            jax.random.key(seed),
            jnp.asarray(data.X),
            jnp.asarray(data.y),
            data.n_classes,
            data.prior_scale,
        )
        samples = {
            name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()
        }
    logits = (
        np.einsum("td,ksmd->kstm", data.X_test, samples["weights"])
        + samples["biases"][:, :, None, :]
    )
    return np.exp(log_softmax(logits))
