"""The particle population: exact where quadrature is possible, and conditioned on new labels."""

import numpy as np
import parbals
import pytest
from oracles.checks import ALPHA, agreement, predictive_values, summarise_draws, summarise_exact
from oracles.definition import Data, exact_moments
from parbals.machine import several_threads
from parbals.posterior import smc
from parbals.posterior.closed.laplace import laplace_reference
from parbals.posterior.closed.latents import RowSpace
from parbals.posterior.hmc import WhitenedPosterior, move
from parbals.posterior.predictive import add_bias
from parbals.posterior.smc import condition_population, draw_population, systematic_resample

X_TEST = np.array([[-2.0], [-0.5], [0.3], [1.0], [3.0]])
N_SAMPLES = 2000


def one_feature(n=12, scale=1.0, prior_scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n, 1))
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * X[:, 0] / scale))).astype(int)
    return Data(X, y, scale * X_TEST, prior_scale=prior_scale)


def model(data, **options):
    options = {
        "n_samples": N_SAMPLES,
        "prior_scale": data.prior_scale,
        "inference": "smc",
        "classes": [0, 1],
        "random_state": 0,
    } | options
    return parbals.BayesianLogisticRegression(**options).fit(data.X, data.y)


def agrees_with_quadrature(fitted, data):
    exact = exact_moments(data)
    summary = summarise_draws(
        predictive_values(fitted.sample_proba(data.X_test)), fitted.sample_weights
    )
    return agreement(summary, summarise_exact(exact.mean, exact.sd))


@pytest.mark.parametrize(
    ("n", "scale", "prior_scale"),
    [
        (1, 1.0, 1.0),
        (12, 1.0, 1.0),
        (30, 1.0, 1.0),
        (12, 0.01, 1.0),
        (12, 10.0, 1.0),
        (12, 1.0, 0.1),
        (12, 1.0, 10.0),
    ],
)
def test_predictions_equal_quadrature(n, scale, prior_scale):
    data = one_feature(n, scale, prior_scale)
    assert agrees_with_quadrature(model(data), data).p_value > ALPHA


@pytest.mark.full
def test_nuts_equals_quadrature_and_can_be_conditioned():
    """Draws are not independent: their effective sample size counts."""
    data = one_feature(13)
    fitted = model(data._replace(X=data.X[:12], y=data.y[:12]), inference="nuts", n_samples=400)
    assert fitted.population is None
    fitted = fitted.condition(data.X[12:], data.y[12:])
    exact = exact_moments(data)
    probs = fitted.sample_proba(data.X_test)[:, :, 1].astype(np.float64)
    z = (probs.mean(axis=1) - exact.mean) / exact.sd
    assert np.abs(z).max() < 5 / np.sqrt(fitted.diagnostics_.effective_sample_size)


def test_laplace_would_not_pass():
    """The check has power: it rejects a Gaussian at the mode."""
    data = one_feature(12, 3.0, 1.0)
    assert agrees_with_quadrature(model(data, inference="laplace"), data).p_value < ALPHA


def test_labels_one_at_a_time_equal_quadrature():
    data = one_feature(20)
    fitted = model(data._replace(X=data.X[:4], y=data.y[:4]))
    for x, y in zip(data.X[4:], data.y[4:], strict=True):
        fitted = fitted.condition(x[None], [y])
    assert agrees_with_quadrature(fitted, data).p_value > ALPHA


def test_many_labels_at_once_equal_quadrature():
    data = one_feature(30)
    fitted = model(data._replace(X=data.X[:2], y=data.y[:2])).condition(data.X[2:], data.y[2:])
    assert agrees_with_quadrature(fitted, data).p_value > ALPHA


def test_one_label_is_a_reweighting():
    data = one_feature(30)
    fitted = model(data)
    conditioned = fitted.condition([[0.1]], [1])
    likelihood = fitted.sample_proba([[0.1]])[0, :, 1].astype(np.float64)
    np.testing.assert_allclose(conditioned.sample_weights, likelihood / likelihood.sum(), rtol=1e-4)
    assert (conditioned.sample_proba(X_TEST) == fitted.sample_proba(X_TEST)).all()
    assert conditioned.diagnostics_.n_reweighted == 1
    assert conditioned.diagnostics_.effective_sample_size < N_SAMPLES


def test_a_worn_population_is_resampled_and_moved():
    data = one_feature(6)
    conditioned = model(data).condition(np.repeat([[2.0]], 6, axis=0), [1, 0, 1, 1, 0, 1])
    np.testing.assert_allclose(conditioned.sample_weights, 1 / N_SAMPLES)
    assert conditioned.diagnostics_.n_reweighted == 0
    assert conditioned.diagnostics_.n_moves > 0


def test_conditioning_keeps_the_old_population():
    X = add_bias(np.random.default_rng(0).standard_normal((10, 3)))
    y = np.arange(10, dtype=np.int32) % 2
    population = draw_population(0, X, y, 2, 64)
    before = population.coefficients.copy(), population.log_weights.copy()
    conditioned = condition_population(population, X[:2], y[:2], seed=0)
    assert len(conditioned.X) == 12
    assert len(population.X) == 10
    assert (population.coefficients == before[0]).all()
    assert (population.log_weights == before[1]).all()


def along(data, n_features=60, seed=0):
    """One feature as a direction among many: the same predictions, with fewer rows than columns."""
    direction = np.random.default_rng(seed).standard_normal(n_features)
    direction /= np.linalg.norm(direction)
    return direction, data._replace(X=data.X * direction, X_test=data.X_test * direction)


@pytest.mark.full
def test_with_more_features_than_labels_particles_equal_quadrature(monkeypatch):
    """A fit, one label that reweights, and many that move, always in the row space."""
    shapes = []

    def recording_move(generator, posterior, state, *arguments):
        shapes.append(state.whitened.shape)
        return move(generator, posterior, state, *arguments)

    monkeypatch.setattr(smc, "move", recording_move)
    data = one_feature(24, 2.0)
    _, wide = along(data)
    fitted = model(wide._replace(X=wide.X[:8], y=wide.y[:8]))
    for n_before, n in ((8, 9), (9, 24)):
        fitted = fitted.condition(wide.X[n_before:n], wide.y[n_before:n])
        exact = exact_moments(data._replace(X=data.X[:n], y=data.y[:n]))
        summary = summarise_draws(
            predictive_values(fitted.sample_proba(wide.X_test)), fitted.sample_weights
        )
        assert agreement(summary, summarise_exact(exact.mean, exact.sd)).p_value > ALPHA
    assert fitted.diagnostics_.n_reweighted == 0  # the last labels moved the particles
    assert {shape[0] for shape in shapes} == {8, 24}


@pytest.mark.parametrize("n_more", [0, 12])
def test_across_the_rows_the_posterior_is_the_prior(n_more):
    """After a fit, and after resampling: every particle keeps its own orthogonal component."""
    direction, wide = along(one_feature(20, 2.0, prior_scale=0.8))
    fitted = model(wide._replace(X=wide.X[:8], y=wide.y[:8]))
    fitted = fitted.condition(wide.X[8 : 8 + n_more], wide.y[8 : 8 + n_more]) if n_more else fitted
    weights = fitted.coef_samples_[:, 1] - fitted.coef_samples_[:, 0]  # (K, D), N(0, 2σ²) each
    across = (weights - np.outer(weights @ direction, direction)) / (0.8 * np.sqrt(2.0))
    n_values = N_SAMPLES * (len(direction) - 1)
    assert np.square(across).sum() == pytest.approx(n_values, abs=5 * np.sqrt(2 * n_values))
    assert np.abs(across.mean(axis=0)).max() < 5 / np.sqrt(N_SAMPLES)
    within = weights @ direction
    correlations = (across * (within - within.mean())[:, None]).mean(axis=0) / within.std()
    assert np.abs(correlations).max() < 5 / np.sqrt(N_SAMPLES)
    assert len(np.unique(across[:, 0])) == N_SAMPLES


@pytest.mark.full
def test_the_row_space_gives_the_moments_of_the_whole_space(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 30))
    y = rng.integers(0, 3, 10)
    X_test = rng.standard_normal((4, 30))
    data = Data(0.5 * X, y, 0.5 * X_test)
    few = model(data, classes=[0, 1, 2])
    monkeypatch.setattr(smc, "row_space", lambda *_: RowSpace())
    whole = model(data, classes=[0, 1, 2], random_state=1)
    summaries = [
        summarise_draws(predictive_values(m.sample_proba(data.X_test))) for m in (few, whole)
    ]
    assert agreement(*summaries).p_value > ALPHA


N_FEWER = 400


def make_data(n, d, n_classes, scale, seed=1):
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n, d))
    logits = X @ rng.standard_normal((d, n_classes))
    y = (logits + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    return add_bias(X), y.astype(np.int32)


def further(population, n_moves, seed):
    """Weights of the same particles after more moves."""
    X = population.X
    labels = population.labels
    n_classes = population.n_classes
    reference = laplace_reference(X, labels, n_classes)
    generator = np.random.default_rng(seed)
    posterior = WhitenedPosterior(reference, X, labels, n_classes)
    state = posterior.at(reference.whiten(population.coefficients).astype(np.float32))
    with several_threads() as workers:
        for _ in range(n_moves):
            step = population.diagnostics.step_size
            state = move(generator, posterior, state, step, workers).state
    return reference.colour(state.whitened)


@pytest.mark.full
@pytest.mark.parametrize(("n", "d", "scale"), [(40, 10, 1.0), (60, 3, 3.0)])
def test_sixty_more_moves_do_not_change_the_size_of_the_weights(n, d, scale):
    """|V|² is forgotten last: particles that stop when their logits look mixed are too small."""
    X, y = make_data(n, d, 4, scale)
    n_fits = 16
    shifts = []
    for seed in range(n_fits):
        population = draw_population(seed, X, y, 4, N_FEWER)
        before = np.square(population.coefficients).sum(axis=(0, 1))
        after = np.square(further(population, 60, seed)).sum(axis=(0, 1))
        shifts.append((after.mean() - before.mean()) / after.std())
    error = np.sqrt(2.0 / (n_fits * N_FEWER))
    assert abs(np.mean(shifts)) < 3.3 * error


def test_systematic_resampling_is_unbiased_and_even():
    weights = np.array([0.5, 0.25, 0.2, 0.05, 0.0])
    rng = np.random.default_rng(0)
    counts = np.array(
        [np.bincount(systematic_resample(rng, weights, 10), minlength=5) for _ in range(2000)]
    )
    assert (counts >= np.floor(10 * weights)).all()
    assert (counts <= np.ceil(10 * weights)).all()
    np.testing.assert_allclose(counts.mean(axis=0), 10 * weights, atol=4 * 0.5 / np.sqrt(2000))
