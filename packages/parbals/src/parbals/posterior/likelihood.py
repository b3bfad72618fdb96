"""The softmax likelihood in contrast coordinates, which halve the two-class model exactly.

A softmax with class weights W (C, D+1) does not change when one vector is added to every class.
With independent N(0, σ²) priors that shared direction is independent of the data, so it can be left
out: write W = Q V with an orthonormal basis Q (C, C-1) of the contrasts (columns orthogonal to the
vector of ones). Then V (C-1, D+1) again has independent N(0, σ²) coordinates, and the class
probabilities have exactly the distribution they have under W. For two classes V is one vector and

    p(class 1 | x) = sigmoid(√2 v·x),   √2 v ~ N(0, 2σ²)  =  the law of w₁ - w₀.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from parbals.posterior.contrasts import contrast_basis

__all__ = ["RowTerms", "log_likelihood_terms"]


class RowTerms(NamedTuple):
    """Per row n and particle k: ln p(y_n | f_nk) and its gradient in the contrast logits f."""

    log_likelihood: Float[Array, "n K"]
    gradient: Float[Array, "n J K"]


def log_likelihood_terms(
    contrasts: Float[Array, "n J K"], labels: Int[Array, " n"], n_classes: int
) -> RowTerms:
    """ln p(y | f) and ∂/∂f for every row and particle at once; J = C-1."""
    if n_classes == 2:
        root2 = np.asarray(np.sqrt(2.0), contrasts.dtype)
        sign = jnp.where(labels == 1, root2, -root2)[:, None, None]
        margin = sign * contrasts
        return RowTerms(jax.nn.log_sigmoid(margin)[:, 0], sign * jax.nn.sigmoid(-margin))
    basis = jnp.asarray(contrast_basis(n_classes), contrasts.dtype)
    log_probs = jax.nn.log_softmax(jnp.einsum("cj,njk->nck", basis, contrasts), axis=1)
    chosen = jax.nn.one_hot(labels, n_classes, dtype=contrasts.dtype)
    residual = chosen[:, :, None] - jnp.exp(log_probs)
    return RowTerms(
        jnp.einsum("nck,nc->nk", log_probs, chosen), jnp.einsum("nck,cj->njk", residual, basis)
    )
