"""Predictions of held-out labels come to the scale of a surer model."""

import numpy as np
from parbals.learner.numbers.expectation import sharpened
from parbals_label.project.adapting import as_sure


class TestAsSure:
    def test_it_is_the_power_at_which_both_expect_as_many_errors(self):
        generator = np.random.default_rng(0)
        before, probs = generator.dirichlet([1.0] * 3, 400), generator.dirichlet([1.0] * 3, 50)
        after = sharpened(generator.dirichlet([1.0] * 3, 500), 0.4)
        wanted = after.max(axis=1).mean()
        degrees = np.linspace(0.2, 1.0, 4_001)
        sure = [sharpened(before, degree).max(axis=1).mean() for degree in degrees]
        degree = degrees[np.argmin(np.abs(np.array(sure) - wanted))]
        np.testing.assert_allclose(
            as_sure(probs, before, after), sharpened(probs, degree), atol=1e-3
        )

    def test_what_is_as_sure_already_stays(self):
        some = np.random.default_rng(1).dirichlet([1.0] * 2, 100)
        np.testing.assert_allclose(as_sure(some[:9], some, some), some[:9], atol=1e-6)

    def test_where_no_power_is_enough_the_farthest_is_taken(self):
        flat, sure = np.full((5, 2), 0.5), np.tile([1.0, 0.0], (5, 1))
        found = as_sure(np.array([[0.6, 0.4]]), flat, sure)
        assert found[0, 0] > 0.99
        np.testing.assert_allclose(
            as_sure(np.array([[0.6, 0.4]]), sure, flat)[0, 0], 0.505, atol=1e-3
        )
