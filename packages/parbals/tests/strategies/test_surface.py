"""The surface against dense matrices: covariances, and the score of every row by its formula."""

import numpy as np
import pytest
from brute_force import covariance_with
from parbals.mixture import sigmoid_means
from parbals.posterior.closed.classes import fit_classes
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.whitening import Whitening
from parbals.race import balanced, class_slopes
from parbals.strategies.backends import jax, numpy
from parbals.strategies.surface import covariance, rows_of, surface_of


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
    known, prior = (
        with_ones(X[:n_labels]),
        Whitening.diagonal(np.full(n_features + 1, np.sqrt(2.0))),
    )
    fitted = (
        fit_gaussian(known, labels, prior)
        if n_classes == 2
        else fit_classes(known, labels, n_classes, prior)
    )
    return fitted.latents, X[n_labels:-11], X[-11:]


def structured(mean, variance):
    """(n, A, A): a for one latent, diag(g) - g gᵀ / Σ g for more."""
    if mean.shape[1] == 1:
        p, slope = sigmoid_means(mean, variance, 1)
        return (slope**2 / (p * (1.0 - p)))[:, :, None]
    p, slope = (part.T for part in class_slopes(mean.T, variance.T))
    gains = balanced(slope**2 / (p * (1.0 - p)), np)
    total = gains.sum(axis=1)[:, None, None]
    return gains[:, :, None] * np.eye(gains.shape[1]) - gains[:, :, None] * gains[:, None] / total


def brute_force(latents, X, X_target):
    """½ mean Σ_kl c_k c_l M_kl M'_kl with every covariance and every matrix written out."""
    rows, targets = with_ones(X), with_ones(X_target)
    covariance = np.einsum("nd,adm->anm", rows, covariance_with(latents, targets))
    here, there = (structured(*latents.marginals(R)) for R in (rows, targets))
    form = np.einsum("knm,lnm,nkl,mkl->nm", covariance, covariance, here, there)
    return 0.5 * form.mean(axis=1)


def test_rows_are_seen_as_the_dense_posterior_sees_them(parts):
    latents, X, X_target = parts
    surface = surface_of(latents, X_target)
    rows = rows_of(surface, with_ones(X).astype(np.float32))
    mean, variance = latents.marginals(with_ones(X))
    np.testing.assert_allclose(rows.mean, mean.T, atol=1e-4)
    np.testing.assert_allclose(rows.variance, variance.T, rtol=1e-4)
    found = covariance(rows, surface.target_rows)[:, :, : len(X_target)]
    expected = with_ones(X) @ covariance_with(latents, with_ones(X_target))
    np.testing.assert_allclose(found, expected, atol=1e-4)


WALKS = [numpy.walk, jax.walk]
FEWER_WALKS = [
    pytest.param(numpy.walk, id="NumPy"),
    pytest.param(jax.walk, marks=pytest.mark.full, id="JAX"),
]


@pytest.mark.parametrize("walk", FEWER_WALKS)
def test_scores_are_those_of_brute_force(parts, walk):
    scores = walk(surface_of(parts[0], parts[2]), parts[1], score="form")
    np.testing.assert_allclose(scores, brute_force(*parts), rtol=2e-3)


@pytest.mark.parametrize(
    "score",
    ["screen", "decision", *(pytest.param(s, marks=pytest.mark.full) for s in ("form", "epig"))],
)
def test_a_cpu_and_a_device_say_the_same(parts, score, monkeypatch):
    """The screen on a CPU by quadratic forms, on a device by pairs."""
    monkeypatch.setattr(numpy.ScreenBefore, "pays", lambda surface: True)
    latents, X, X_target = parts
    if score == "epig" and len(latents.roots) > 1:
        score = "form"  # the EPIG itself is of two classes
    surface = surface_of(latents, X_target)
    one, other = (walk(surface, X, score=score) for walk in WALKS)
    np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.parametrize("walk", FEWER_WALKS)
def test_neither_blocks_nor_padding_matter(parts, walk, monkeypatch):
    latents, X, X_target = parts
    X = np.tile(X, (12, 1))  # several blocks of 128
    surface = surface_of(latents, X_target)
    whole = walk(surface, X, score="form")
    monkeypatch.setattr(jax, "_TABLE_BYTES", {"cpu": 1, "gpu": 1})
    monkeypatch.setattr(numpy, "_TABLE_ENTRIES", 1)
    np.testing.assert_allclose(walk(surface, X, score="form"), whole, rtol=1e-5)
    twice = surface_of(latents, np.tile(X_target, (2, 1)))  # the same mean over other padding
    np.testing.assert_allclose(walk(twice, X, score="form"), whole, rtol=1e-4)


@pytest.mark.parametrize("walk", FEWER_WALKS)
def test_a_mapped_file_is_scored_as_an_array_is(parts, walk, tmp_path):
    latents, X, X_target = parts
    np.save(tmp_path / "rows.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    surface = surface_of(latents, X_target)
    one, other = (walk(surface, rows, score="form") for rows in (mapped, X))
    np.testing.assert_array_equal(one, other)
