"""The learnt prior: its scale and shape, and sensible defaults where labels are uninformative."""

import numpy as np
import parbals
import pytest
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.prior import (
    PoolMoments,
    _pair_label_noise,
    converged_sites,
    evidence_profile,
    learn_prior,
)
from parbals.posterior.closed.sites import Sites
from parbals.posterior.closed.whitening import Whitening
from scipy.special import expit
from scipy.stats import multivariate_normal


def make_labelled_rows(n_rows, scale, n_features=8, n_classes=2, seed=0):
    """Rows of unit variance; labels from weights under which a logit has deviation ``scale``."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows, n_features))
    weights = scale / np.sqrt(n_features) * generator.standard_normal((n_features, n_classes))
    logits = X @ weights
    return X, np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)


def deviation(prior, rows):
    """Standard deviation of a class's logit over the rows, without the intercept."""
    whitened = prior.whitening.rows(np.column_stack([rows, np.ones(len(rows))]))[:, :-1]
    return float(np.sqrt(np.square(whitened).sum(axis=1).mean()))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_scale_of_the_labels_is_recovered(n_classes):
    """Within a factor of two on average over twelve draws, from 120 labels."""
    for scale in (1.0, 8.0):
        log_ratios = []
        for seed in range(12):
            X, y = make_labelled_rows(120, scale, n_classes=n_classes, seed=seed)
            log_ratios.append(np.log(learn_prior(X, y, n_classes, PoolMoments.of(X)).scale / scale))
        assert abs(np.mean(log_ratios)) < np.log(2.0)


def test_the_scale_is_that_of_logits_over_the_pool():
    X, y = make_labelled_rows(60, 3.0)
    prior = learn_prior(X, y, 2, PoolMoments.of(X))
    assert deviation(prior, X) == pytest.approx(prior.scale)


@pytest.mark.parametrize(("factor", "offset"), [(1e-4, 0.0), (1e3, 0.0), (1.0, 1e4)])
def test_neither_units_nor_offsets_of_the_features_matter(factor, offset):
    X, y = make_labelled_rows(80, 3.0)
    plain = learn_prior(X[:40], y[:40], 2, PoolMoments.of(X))
    moved = factor * X + offset
    other = learn_prior(moved[:40], y[:40], 2, PoolMoments.of(moved))
    assert other.scale == pytest.approx(plain.scale, rel=0.02)
    assert deviation(other, moved) == pytest.approx(deviation(plain, X), rel=0.02)


def test_columns_of_very_different_units_are_standardised():
    """Without standardising, one column of large numbers would dominate."""
    X, y = make_labelled_rows(150, 8.0, seed=1)
    units = np.geomspace(1.0, 1e5, X.shape[1])
    assert learn_prior(X * units, y, 2, PoolMoments.of(X * units)).shape == "columns"


def test_columns_of_one_kind_are_never_standardised():
    """Standardising would whiten an encoder's directions, most of which are noise."""
    X, _ = make_labelled_rows(400, 8.0, seed=1)
    X = X * np.geomspace(1.0, 30.0, X.shape[1])
    y = (X[:, 0] > 0).astype(int)  # labels that only the weakest column explains
    assert learn_prior(X, y, 2, PoolMoments.of(X)).shape == "directions"


def test_directions_that_vary_most_are_believed_first():
    """Labels that follow the leading direction give it a larger share than those that do not."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 20)) * np.geomspace(4.0, 0.5, 20)
    share = {}
    for column in (0, 19):
        y = (X[:, column] > 0).astype(int)
        weights = learn_prior(X[:80], y[:80], 2, PoolMoments.of(X)).whitening.weights(np.eye(21))
        variances = np.square(weights[:-1]).sum(axis=1)
        share[column] = variances[0] / variances[19]
    assert share[0] > 3.0 * share[19]


def taught(n_rows, share=0.1, n_features=20, seed=0):
    """Rows of an encoder that was fine-tuned on two classes: two distant clusters."""
    generator = np.random.default_rng(seed)
    y = (generator.random(n_rows) < share).astype(int)
    X = 0.05 * generator.standard_normal((n_rows, n_features))
    X[:, 0] += 2.0 * y
    return X, y


def test_even_means_that_all_directions_are_alike_however_the_pool_varies():
    X, y = taught(400)
    prior = learn_prior(X[:60], y[:60], 2, PoolMoments.of(X), even=True)
    assert prior.shape == "even"
    deviations = np.linalg.norm(prior.whitening.coloured(np.eye(21))[:-1], axis=1)
    np.testing.assert_allclose(deviations, deviations[0])


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_an_even_prior_puts_the_boundary_between_heaps_of_any_size(share):
    """With an intercept that is small against the logits, it would lie at the larger cluster."""
    X, y = taught(400, share)
    between = np.zeros((2, 20))
    between[:, 0] = 0.7, 1.3
    learner = parbals.ActiveLearner(X, [0, 1], prior_scale="even", random_state=0)
    learner.tell(range(60), y[:60])
    assert learner.predict(between).tolist() == [0, 1]


def test_neither_the_order_of_labels_nor_that_of_classes_matters():
    X, y = make_labelled_rows(300, 4.0, n_classes=3)
    pool = PoolMoments.of(X)
    order = np.random.default_rng(0).permutation(300)
    plain = learn_prior(X, y, 3, pool)
    shuffled = learn_prior(X[order], y[order], 3, pool)
    assert shuffled.scale == pytest.approx(plain.scale, rel=1e-9)
    np.testing.assert_allclose(shuffled.whitening.left, plain.whitening.left, atol=1e-9)
    assert learn_prior(X, 2 - y, 3, pool).scale == pytest.approx(plain.scale, rel=1e-3)


@pytest.mark.parametrize("labels", [[], [1], [0, 0, 0, 0, 0]])
def test_without_two_classes_it_is_the_prior_before_any_label(labels):
    X, _ = make_labelled_rows(50, 3.0)
    prior = learn_prior(X[: len(labels)], np.array(labels, int), 2, PoolMoments.of(X))
    assert prior.scale == pytest.approx(3.0)
    assert "the initial one" in prior.description


@pytest.mark.parametrize("n_classes", [2, 3, 12, 40])
@pytest.mark.parametrize("n_labels", [2, 5, 60])
def test_few_labels_separable_data_and_classes_without_labels_are_sane(n_classes, n_labels):
    X, _ = make_labelled_rows(100, 3.0)
    y = (X[:, 0] > 0).astype(int) if n_classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
    y[:2] = 0, 1
    prior = learn_prior(X[:n_labels], y[:n_labels], n_classes, PoolMoments.of(X))
    assert 0.3 < prior.scale < 100.0
    assert f"learnt from {n_labels} labels" in prior.description


def test_a_hundred_classes_are_compared_with_their_neighbours():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 10))
    y = np.arange(300) % 100
    assert np.isfinite(learn_prior(X, y, 100, PoolMoments.of(X)).scale)


def test_labelled_rows_alone_say_how_features_vary_once_there_are_enough():
    X, y = make_labelled_rows(60, 3.0)
    assert learn_prior(X[:15], y[:15], 2, None).shape == "even"
    assert learn_prior(X, y, 2, None).shape in ("directions", "columns")


def test_labels_near_a_boundary_count_together_with_the_earlier_ones():
    """All labels are used: the uncertain ones alone would make the scale much too small."""
    X, y = make_labelled_rows(3_000, 8.0, n_features=20, seed=1)
    pool = PoolMoments.of(X)
    first = np.arange(100)
    model = parbals.BayesianLogisticRegression(2, inference="ep").fit(X[first], y[first], pool)
    sure = model.predict_proba(X).max(axis=1)
    sure[first] = 2.0
    near = np.argsort(sure)[:300]
    both = np.append(first, near)
    together = learn_prior(X[both], y[both], 2, pool)
    assert "learnt from 400 labels" in together.description
    assert together.scale == pytest.approx(8.0, rel=0.4)
    assert learn_prior(X[near], y[near], 2, pool).scale < 0.6 * together.scale


def test_a_fit_that_begins_with_its_sites_ends_the_same():
    X, y = make_labelled_rows(150, 4.0, n_features=60)
    prior = learn_prior(X, y, 2, PoolMoments.of(X))
    twice = prior.whitening.times(np.sqrt(2.0))
    design = np.column_stack([X, np.ones(150)])
    cold = fit_gaussian(design, y, twice, None)
    warm = fit_gaussian(design, y, twice, prior.sites)
    assert warm.n_sweeps < cold.n_sweeps
    np.testing.assert_allclose(warm.predict_proba(design), cold.predict_proba(design), atol=1e-6)


@pytest.mark.parametrize("inference", ["ep", "smc", "laplace"])
def test_the_prior_is_described_and_predictions_do_not_depend_on_units(inference):
    X, y = make_labelled_rows(90, 4.0, seed=2)
    models = [
        parbals.BayesianLogisticRegression(200, inference=inference, random_state=0).fit(
            rows[:40], y[:40], rows
        )
        for rows in (X, 1e3 * X - 5e3)
    ]
    assert models[0].diagnostics_.prior.startswith("The prior is learnt from 40 labels")
    assert models[0].prior_scale_ == pytest.approx(models[1].prior_scale_, rel=1e-3)
    first, second = (
        model.predict_proba(rows[40:])
        for model, rows in zip(models, (X, 1e3 * X - 5e3), strict=True)
    )
    np.testing.assert_allclose(first, second, atol=0.02)


def test_a_number_is_the_deviation_of_every_weight():
    model = parbals.BayesianLogisticRegression(4_000, 0.5, "laplace", classes=[0, 1])
    draws = model.fit_prior(3).coef_samples_[:, 1] - model.coef_samples_[:, 0]
    error = 4.0 * np.sqrt(0.5) / np.sqrt(2.0 * 4_000)
    np.testing.assert_allclose(draws.std(axis=0), 0.5 * np.sqrt(2.0), atol=error)
    assert (model.prior_scale_, model.prior_shape_) == (0.5, "given")


FINE = {"tolerance": 1e-9, "max_sweeps": 200}


def make_rows_and_signs(n_rows=12, n_features=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows, n_features))
    signs = np.where(generator.random(n_rows) < expit(2.0 * X[:, 0]), 1.0, -1.0)
    return X, signs


def test_it_is_the_density_of_what_the_sites_observed():
    """Sites are observations ν/τ with variances 1/τ, whose density is known."""
    X, _ = make_rows_and_signs()
    generator = np.random.default_rng(1)
    sites = Sites(generator.uniform(0.2, 2.0, 12), generator.standard_normal(12))
    scales = np.array([0.3, 1.0, 5.0])
    log_evidence = evidence_profile(X, sites, 2.0).log_evidence(np.log(scales))
    observed = sites.linear_terms / sites.precisions
    dense = [
        multivariate_normal.logpdf(
            observed, cov=s**2 * X @ X.T + 4.0 + np.diag(1.0 / sites.precisions)
        )
        for s in scales
    ]
    np.testing.assert_allclose(np.diff(log_evidence), np.diff(dense), atol=1e-9)


def test_at_converged_sites_its_slope_is_that_of_the_true_evidence():
    """Two labels, by quadrature; expectation propagation is not exact, but close."""
    grid = np.linspace(-40.0, 40.0, 801)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    rows = np.array([[1.0, 0.0], [0.6, 0.9]])

    def true(log_scale):
        cov = np.exp(2.0 * log_scale) * rows @ rows.T + 1.0
        density = multivariate_normal.pdf(f, cov=cov)
        return np.log((density * expit(f[..., 0]) * expit(-f[..., 1])).sum())

    at = np.log(3.0)
    h = 0.05
    inside = np.column_stack([3.0 * rows, np.ones(2)])
    sites = converged_sites(inside, np.array([1.0, -1.0]), **FINE)
    low, high = evidence_profile(rows, sites, 1.0).log_evidence(np.array([at - h, at + h]))
    slope = (true(at + h) - true(at - h)) / (2.0 * h)
    assert (high - low) / (2.0 * h) == pytest.approx(slope, abs=0.01)


def test_its_slope_is_that_of_the_true_evidence_where_labels_are_noisy():
    """Two labels that are wrong at times, by quadrature."""
    grid = np.linspace(-40.0, 40.0, 801)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    rows = np.array([[1.0, 0.0], [0.6, 0.9]])
    noise = np.array([0.1, 0.5])

    def true(log_scale):
        cov = np.exp(2.0 * log_scale) * rows @ rows.T + 1.0
        density = multivariate_normal.pdf(f, cov=cov)
        first = noise[0] + (1.0 - noise[0]) * expit(f[..., 0])
        second = noise[1] + (1.0 - noise[1]) * expit(-f[..., 1])
        return np.log((density * first * second).sum())

    at = np.log(3.0)
    h = 0.05
    inside = np.column_stack([3.0 * rows, np.ones(2)])
    sites = converged_sites(inside, np.array([1.0, -1.0]), label_noise=noise, **FINE)
    low, high = evidence_profile(rows, sites, 1.0).log_evidence(np.array([at - h, at + h]))
    slope = (true(at + h) - true(at - h)) / (2.0 * h)
    assert (high - low) / (2.0 * h) == pytest.approx(slope, abs=0.02)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_certain_likelihoods_are_labels_and_flat_ones_are_none(n_classes):
    X, y = make_labelled_rows(90, 3.0, n_classes=n_classes)
    pool = PoolMoments.of(X)
    plain = learn_prior(X, y, n_classes, pool)
    certain = learn_prior(X, y, n_classes, pool, likelihoods=np.eye(n_classes)[y])
    assert certain.scale == plain.scale
    guesses = np.random.default_rng(1).integers(n_classes, size=90)
    flat = np.ones((90, n_classes))
    both = learn_prior(
        np.concatenate([X, X]),
        np.concatenate([y, guesses]),
        n_classes,
        pool,
        likelihoods=np.concatenate([np.eye(n_classes)[y], flat]),
    )
    assert both.scale == pytest.approx(plain.scale, rel=0.02)


def test_a_third_class_counts_for_both_of_a_pair():
    """λ + (1 - λ) σ(f) is w_a σ(f) + w_b σ(-f) + ½ W, up to a factor."""
    w = np.array([[0.7, 0.1, 0.2], [0.2, 0.6, 0.2]])
    noise = _pair_label_noise(w, np.array([0, 1]))
    f = np.linspace(-3.0, 3.0, 7)
    likelihood = 0.7 * expit(f) + 0.1 * expit(-f) + 0.5 * 0.2
    formula = noise[0] + (1.0 - noise[0]) * expit(f)
    np.testing.assert_allclose(formula / formula[0], likelihood / likelihood[0])


def test_its_sites_are_those_of_the_fit():
    X, signs = make_rows_and_signs()
    posterior = fit_gaussian(X, (signs > 0).astype(int), Whitening.diagonal(np.full(3, 2.0)))
    sites = converged_sites(2.0 * X, signs, **FINE)
    np.testing.assert_allclose(sites.precisions, posterior.sites.precisions, atol=1e-6)
    np.testing.assert_allclose(sites.linear_terms, posterior.sites.linear_terms, atol=1e-6)


def test_a_stack_is_its_members_and_padding_counts_for_nothing():
    X, signs = make_rows_and_signs()
    stack = np.stack([X, 3.0 * X])
    padded = np.pad(stack, ((0, 0), (0, 2), (0, 0)))
    together = converged_sites(padded, np.append(signs, [0.0, 0.0]), **FINE)
    assert (together.precisions[:, -2:] == 0.0).all()
    for member, (rows, padded_rows) in enumerate(zip(stack, padded, strict=True)):
        alone = converged_sites(rows, signs, **FINE)
        np.testing.assert_allclose(
            together.linear_terms[member, :-2], alone.linear_terms, atol=1e-6
        )
        values = [
            evidence_profile(factors, sites, 2.0).log_evidence(np.array([0.0, 1.0]))
            for factors, sites in (
                (rows, alone),
                (padded_rows, Sites(*(x[member] for x in together))),
            )
        ]
        np.testing.assert_allclose(values[0], values[1], atol=1e-6)
