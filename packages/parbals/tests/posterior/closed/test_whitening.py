"""The prior as a map: whitened rows and weights are two views of the same logits."""

import numpy as np
import pytest
from parbals.posterior.closed.whitening import INTERCEPT_SD, POWERS, PoolMoments, Shape, Whitening

GENERATOR = np.random.default_rng(0)
CENTRE = np.append(GENERATOR.standard_normal(4), 0.0)
MAPS = {
    "diagonal": Whitening.diagonal(np.arange(1.0, 6.0), CENTRE),
    "whole": Whitening(CENTRE, np.ones(5), GENERATOR.standard_normal((5, 5)), np.eye(5)),
    "low rank": Whitening(
        CENTRE,
        np.arange(1.0, 6.0),
        GENERATOR.standard_normal((5, 2)),
        GENERATOR.standard_normal((2, 5)),
    ),
}
X = np.column_stack([GENERATOR.standard_normal((7, 4)), np.ones(7)])


@pytest.mark.parametrize("name", MAPS)
def test_weights_give_plain_rows_the_logits_that_whitened_ones_have(name):
    v = GENERATOR.standard_normal((5, 2, 3))
    expected = np.tensordot(MAPS[name].rows(X), v, axes=1)
    np.testing.assert_allclose(np.tensordot(X, MAPS[name].weights(v), axes=1), expected)


@pytest.mark.parametrize("name", MAPS)
def test_a_factor_multiplies_every_row(name):
    np.testing.assert_allclose(MAPS[name].times(3.0).rows(X), 3.0 * MAPS[name].rows(X))


@pytest.mark.parametrize("name", MAPS)
def test_rows_that_pad_stay_zeros(name):
    assert not MAPS[name].rows(np.zeros((2, 5))).any()


def test_without_a_centre_rows_are_scaled():
    np.testing.assert_array_equal(Whitening.diagonal(np.full(5, 2.0)).rows(X), 2.0 * X)


def pool(n_rows=400, n_columns=6, seed=0):
    generator = np.random.default_rng(seed)
    mixed = generator.standard_normal((n_rows, n_columns)) * np.geomspace(10.0, 0.1, n_columns)
    return mixed @ generator.standard_normal((n_columns, n_columns)) + 50.0


def design(rows):
    return np.column_stack([rows, np.ones(len(rows))])


def mean_square(whitening, rows):
    """Variance of a logit over the pool: of whitened rows, without the intercept."""
    return np.square(whitening.rows(design(rows))[:, :-1]).sum(axis=1).mean()


@pytest.mark.parametrize("units", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("power", POWERS)
def test_scale_one_is_a_deviation_of_one_in_any_units(power, units):
    rows = units * pool()
    moments = PoolMoments.of(rows)
    whitening = moments.whitening(moments.variances(Shape(power)))
    assert mean_square(whitening, rows) == pytest.approx(1.0)
    assert whitening.rows(design(rows))[0, -1] == INTERCEPT_SD


def test_standardised_columns_count_alike():
    rows = pool()
    whitened = PoolMoments.of(rows).whitening_by_columns(3.0).rows(design(rows))[:, :-1]
    np.testing.assert_allclose(whitened.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(whitened.var(axis=0), 9.0 / 6.0)


def test_columns_of_any_units_count_where_they_vary():
    """A time stamp varies little beside its mean; a share varies little beside an income."""
    generator = np.random.default_rng(0)
    units = np.array([1e3, 1e-3, 1e6, 0.0])
    means = np.array([1.6e9, 0.0, 0.0, 7.3])
    rows = generator.standard_normal((500, 4)) * units + means
    pool = PoolMoments.of(rows)
    assert pool.has_mixed_units
    spread = pool.standardised(rows).std(axis=0)
    np.testing.assert_allclose(spread, [3**-0.5] * 3 + [0.0], rtol=1e-6)
    assert not PoolMoments.of(rows[:, 3:]).has_mixed_units


def test_a_column_that_does_not_vary_has_no_weight_of_its_own():
    rows = pool()
    rows[:, 2] = 7.0
    whitened = PoolMoments.of(rows).whitening_by_columns(1.0).rows(design(rows))
    assert not whitened[:, 2].any()
    assert np.isfinite(whitened).all()


def test_power_one_is_the_covariance():
    rows = pool()
    moments = PoolMoments.of(rows)
    whitening = moments.whitening(moments.variances(Shape(1.0)))
    weights = whitening.weights(np.eye(7))[:-1, :-1]
    covariance = np.cov(rows.T, bias=True)
    expected = covariance / np.trace(covariance @ covariance)
    np.testing.assert_allclose(weights @ weights.T, expected, atol=1e-12)


@pytest.mark.parametrize("power", POWERS)
def test_wide_rows_keep_every_column_and_their_scale(power):
    """Beyond 512 columns the orthogonal complement of the directions has one variance."""
    rows = np.random.default_rng(0).standard_normal((700, 600)) * np.geomspace(10.0, 0.1, 600)
    moments = PoolMoments.of(rows)
    whitening = moments.whitening(moments.variances(Shape(power)))
    assert mean_square(whitening, rows) == pytest.approx(1.0, rel=0.05)
    if power:
        assert whitening.left.shape == (601, 512)
        dense = whitening.weights(np.eye(601))[:-1, :-1]
        assert np.linalg.matrix_rank(dense) == 600


@pytest.mark.parametrize("rows", [np.ones((1, 3)), np.full((5, 3), 4.0), np.zeros((2, 3))])
def test_rows_without_variance_give_a_finite_prior(rows):
    moments = PoolMoments.of(rows)
    for whitening in (
        moments.whitening(moments.variances(Shape(1.0))),
        moments.whitening_by_columns(1.0),
    ):
        assert np.isfinite(whitening.rows(design(rows + 1.0))).all()


@pytest.mark.parametrize("n_columns", [6, 600])
def test_coordinates_have_the_same_logits_as_the_whitening(n_columns):
    rows = pool(n_columns=6) if n_columns == 6 else np.random.default_rng(0).normal(size=(90, 600))
    moments = PoolMoments.of(rows)
    variances = moments.variances(Shape(1.0))
    whitened = moments.whitening(variances).rows(design(rows[:9]))[:, :-1]
    inside = moments.coordinates(rows[:9]) * np.sqrt(variances)
    np.testing.assert_allclose(inside @ inside.T, whitened @ whitened.T, atol=1e-9)
    standardised = moments.standardised(rows[:9])
    whitened = moments.whitening_by_columns(1.0).rows(design(rows[:9]))[:, :-1]
    np.testing.assert_allclose(standardised, whitened, atol=1e-12)
