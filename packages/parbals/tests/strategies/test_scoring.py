"""Scores and covariances against dense matrices."""

import numpy as np
import pytest
from brute_force import covariance_with
from parbals.mixture import sigmoid_means
from parbals.posterior.closed.classes import fit_classes
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.whitening import Whitening
from parbals.race import class_slopes, curvatures_from_diagonal
from parbals.strategies.backends import jax, numpy
from parbals.strategies.scoring import build_context, covariance, project_design


def with_ones(X):
    return np.concatenate([X, np.ones((len(X), 1))], axis=1)


@pytest.fixture(
    params=[
        *((2, 6, 12), (4, 20, 4)),
        *(pytest.param(shape, marks=pytest.mark.full) for shape in ((2, 20, 4), (4, 6, 12))),
    ],
    ids=str,
)
def parts(request):
    """Latents of a fitted posterior, 37 rows of features to score and 11 targets."""
    n_classes, n_labels, n_features = request.param
    generator = np.random.default_rng(n_labels)
    X = generator.standard_normal((n_labels + 48, n_features))
    logits = X @ generator.standard_normal((n_features, n_classes))
    labels = np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)[:n_labels]
    labelled = with_ones(X[:n_labels])
    prior = Whitening.diagonal(np.full(n_features + 1, np.sqrt(2.0)))
    fitted = (
        fit_gaussian(labelled, labels, prior)
        if n_classes == 2
        else fit_classes(labelled, labels, n_classes, prior)
    )
    return fitted.latents, X[n_labels:-11], X[-11:]


def structured(mean, variance):
    """(n, A, A): a for one latent, diag(g) - g gᵀ / Σ g for more."""
    if mean.shape[1] == 1:
        p, slope = sigmoid_means(mean, variance, 1)
        return (slope**2 / (p * (1.0 - p)))[:, :, None]
    p, slope = (array.T for array in class_slopes(mean.T, variance.T))
    gains = curvatures_from_diagonal(slope**2 / (p * (1.0 - p)), np)
    total = gains.sum(axis=1)[:, None, None]
    return gains[:, :, None] * np.eye(gains.shape[1]) - gains[:, :, None] * gains[:, None] / total


def brute_force(latents, X, X_target):
    """½ mean Σ_kl c_k c_l M_kl M'_kl with every covariance and every matrix written out."""
    rows = with_ones(X)
    targets = with_ones(X_target)
    covariance = np.einsum("nd,adm->anm", rows, covariance_with(latents, targets))
    at_rows, at_targets = (structured(*latents.marginals(R)) for R in (rows, targets))
    form = np.einsum("knm,lnm,nkl,mkl->nm", covariance, covariance, at_rows, at_targets)
    return 0.5 * form.mean(axis=1)


def test_projected_rows_have_the_moments_of_the_dense_posterior(parts):
    latents, X, X_target = parts
    context = build_context(latents, X_target)
    rows = project_design(context, with_ones(X).astype(np.float32))
    mean, variance = latents.marginals(with_ones(X))
    np.testing.assert_allclose(rows.mean, mean.T, atol=1e-4)
    np.testing.assert_allclose(rows.variance, variance.T, rtol=1e-4)
    cov = covariance(rows, context.target_rows)[:, :, : len(X_target)]
    expected = with_ones(X) @ covariance_with(latents, with_ones(X_target))
    np.testing.assert_allclose(cov, expected, atol=1e-4)


SCORERS = [numpy.score_pool, jax.score_pool]
FEWER_SCORERS = [
    pytest.param(numpy.score_pool, id="NumPy"),
    pytest.param(jax.score_pool, marks=pytest.mark.full, id="JAX"),
]


@pytest.mark.parametrize("score_pool", FEWER_SCORERS)
def test_scores_are_those_of_brute_force(parts, score_pool):
    scores = score_pool(build_context(parts[0], parts[2]), parts[1], score="quadratic")
    np.testing.assert_allclose(scores, brute_force(*parts), rtol=2e-3)


@pytest.mark.parametrize(
    "score",
    [
        "screen",
        "decision",
        *(pytest.param(s, marks=pytest.mark.full) for s in ("quadratic", "epig")),
    ],
)
def test_both_backends_give_the_same_scores(parts, score, monkeypatch):
    """The screen on a CPU by quadratic forms, on a device by pairs."""
    monkeypatch.setattr(numpy.QuadraticScreen, "is_cheaper", lambda context: True)
    latents, X, X_target = parts
    if score == "epig" and len(latents.roots) > 1:
        score = "quadratic"  # closed-form EPIG needs two classes
    context = build_context(latents, X_target)
    first, second = (score_pool(context, X, score=score) for score_pool in SCORERS)
    np.testing.assert_allclose(first, second, rtol=1e-4)


@pytest.mark.parametrize("score_pool", FEWER_SCORERS)
def test_neither_blocks_nor_padding_matter(parts, score_pool, monkeypatch):
    latents, X, X_target = parts
    X = np.tile(X, (12, 1))  # several blocks of 128
    context = build_context(latents, X_target)
    whole = score_pool(context, X, score="quadratic")
    monkeypatch.setattr(jax, "_TABLE_BYTES", {"cpu": 1, "gpu": 1})
    monkeypatch.setattr(numpy, "_TABLE_ENTRIES", 1)
    np.testing.assert_allclose(score_pool(context, X, score="quadratic"), whole, rtol=1e-5)
    twice = build_context(latents, np.tile(X_target, (2, 1)))  # the same mean over other padding
    np.testing.assert_allclose(score_pool(twice, X, score="quadratic"), whole, rtol=1e-4)
    unpadded = build_context(latents, X_target, is_padded=False)
    assert len(unpadded.share) == len(X_target) < len(context.share)
    np.testing.assert_allclose(score_pool(unpadded, X, score="quadratic"), whole, rtol=1e-4)


@pytest.mark.parametrize("score_pool", FEWER_SCORERS)
def test_a_mapped_file_is_scored_as_an_array_is(parts, score_pool, tmp_path):
    latents, X, X_target = parts
    np.save(tmp_path / "rows.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    context = build_context(latents, X_target)
    first, second = (score_pool(context, rows, score="quadratic") for rows in (mapped, X))
    np.testing.assert_array_equal(first, second)
