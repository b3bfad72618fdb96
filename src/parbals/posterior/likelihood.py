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

__all__ = [
    "RowTerms",
    "class_probs",
    "contrast_basis",
    "curvature",
    "log_likelihood_terms",
    "softmax",
]


class RowTerms(NamedTuple):
    """Per row n and particle k: ln p(y_n | f_nk) and its gradient in the contrast logits f."""

    log_likelihood: Float[Array, "n K"]
    gradient: Float[Array, "n J K"]


def contrast_basis(n_classes: int) -> np.ndarray:
    """Orthonormal basis (C, C-1) of the vectors that sum to zero (Helmert's)."""
    basis = np.zeros((n_classes, n_classes - 1))
    for j in range(1, n_classes):
        basis[:j, j - 1] = -1.0
        basis[j, j - 1] = j
        basis[:, j - 1] /= np.sqrt(j * (j + 1))
    return basis


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last axis (NumPy, for the float64 work on the host)."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def curvature(probs: np.ndarray) -> np.ndarray:
    """Mean curvature of -ln p in the contrast coordinates: (1 - Σ_c p_c²) / (C - 1).

    The Hessian in class logits is diag(p) - ppᵀ; its trace is 1 - Σp² and none of it lies along the
    vector of ones. For two classes this is the whole Hessian, 2 p (1-p).
    """
    return (1.0 - np.square(probs).sum(axis=-1)) / (probs.shape[-1] - 1)


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


def class_probs(contrasts: Float[Array, "N J K"], n_classes: int) -> Float[Array, "N C K"]:
    """Class probabilities from contrast logits."""
    if n_classes == 2:
        positive = jax.nn.sigmoid(np.asarray(np.sqrt(2.0), contrasts.dtype) * contrasts[:, 0])
        return jnp.stack([1.0 - positive, positive], axis=1)
    basis = jnp.asarray(contrast_basis(n_classes), contrasts.dtype)
    return jax.nn.softmax(jnp.einsum("cj,njk->nck", basis, contrasts), axis=1)
