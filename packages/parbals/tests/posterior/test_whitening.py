"""The prior as a map: whitened rows and weights are two views of the same logits."""

import numpy as np
import pytest
from parbals.posterior.whitening import Whitening

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
