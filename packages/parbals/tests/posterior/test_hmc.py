"""The moves: the whitened density is the posterior, padding is invisible, the law is right."""

import jax
import numpy as np
import pytest
from oracles.definition import log_posterior
from parbals.posterior.contrasts import contrast_basis
from parbals.posterior.hmc import move_population, whitened_posterior
from parbals.posterior.likelihood import log_likelihood_terms
from parbals.posterior.reference import laplace_reference


def labelled(n, d, n_classes=2, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([scale * rng.standard_normal((n, d)), np.ones(n)])
    return X, rng.integers(0, n_classes, n).astype(np.int32)


def whitened_log_density(posterior, z, n_classes):
    """-|z|²/2 - R(z) from the formula of the module, in NumPy."""
    design, offset, labels, present, curvature, slope = (np.asarray(part) for part in posterior)
    logits = np.einsum("nd,djk->njk", design, z)
    terms = jax.jit(log_likelihood_terms, static_argnums=2)(
        offset[:, :, None] + logits, labels, n_classes
    )
    likelihood = (present[:, None] * np.asarray(terms.log_likelihood)).sum(axis=0)
    pull = np.einsum("dj,djk->k", slope, z)
    bend = 0.5 * np.einsum("n,njk->k", present * curvature, np.square(logits))
    return likelihood - pull + bend - 0.5 * np.square(z).sum(axis=(0, 1))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_whitened_density_is_the_posterior(n_classes):
    """Differences of log density equal those of the definition; padding rows add nothing.

    Also for rows that arrived after the reference was built.
    """
    X, y = labelled(12, 3, n_classes)
    reference = laplace_reference(X[:8], y[:8], n_classes, 1.3)
    z = np.random.default_rng(1).standard_normal((4, n_classes - 1, 6)).astype(np.float32)
    weights = np.einsum("cj,djk->kcd", contrast_basis(n_classes), reference.colour(z))
    expected = log_posterior(weights, X[:, :-1], y, 1.3)
    for n_rows in (12, 64):
        ours = whitened_log_density(whitened_posterior(reference, X, y, n_rows), z, n_classes)
        np.testing.assert_allclose(ours - ours[0], expected - expected[0], atol=2e-4)


def moved(z, posterior, step, max_moves):
    """Moves, called as a fit calls them, so that programs compiled for other tests serve again."""
    return move_population(
        jax.random.key(0),
        z,
        posterior,
        np.float32(step),
        max_moves,
        np.float32(-1.0),
        n_classes=2,
        short_share=0.0,
    )


def test_padding_does_not_change_the_moves():
    X, y = labelled(10, 3)
    reference = laplace_reference(X, y, 2, 1.0)
    z = np.random.default_rng(1).standard_normal((4, 1, 128)).astype(np.float32)
    one, other = (moved(z, whitened_posterior(reference, X, y, n), 0.3, 3) for n in (16, 32))
    np.testing.assert_allclose(one.whitened, other.whitened, atol=1e-4)
    assert float(one.correlation) == pytest.approx(float(other.correlation), abs=1e-3)


def test_without_labels_one_quarter_turn_forgets_everything():
    """With no remainder the rotation is exact: always accepted, whatever the dimension."""
    nothing = np.empty((0, 41)), np.empty(0, int)
    reference = laplace_reference(*nothing, 2, 1.0)
    z = np.full((41, 1, 128), 3.0, np.float32)
    result = moved(z, whitened_posterior(reference, *nothing, 16), 1.5, 6)
    assert float(result.acceptance) == pytest.approx(1.0, abs=1e-3)
    after = np.asarray(result.whitened)
    assert after.mean() == pytest.approx(0.0, abs=4 / np.sqrt(z.size))
    assert after.var() == pytest.approx(1.0, abs=4 * np.sqrt(2 / z.size))


def test_the_step_size_finds_its_acceptance():
    X, y = labelled(30, 3, scale=3.0)
    posterior = whitened_posterior(laplace_reference(X, y, 2, 3.0), X, y, 32)
    z = np.random.default_rng(1).standard_normal((4, 1, 128)).astype(np.float32)
    for start in (1e-3, 1.5):
        result = moved(z, posterior, start, 30)
        assert 0.6 < float(result.acceptance) <= 1.0
        assert float(result.step_size) > 0.05
