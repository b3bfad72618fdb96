"""Small posteriors for tests of scores and universes."""

import numpy as np
import pytest
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.strategies.scoring import build_context


@pytest.fixture
def small_context():
    """A function: the scoring context of five columns, ``n_inside`` of them with labels."""

    def make(generator, n_latents, n_inside, deviations):
        roots = 0.3 * generator.standard_normal((n_latents, n_inside, n_inside))
        roots += np.eye(n_inside)
        location = generator.standard_normal((n_inside, n_latents))
        basis = np.linalg.qr(generator.standard_normal((5, n_inside)))[0]
        latents = Latents(Whitening.diagonal(deviations), basis, location, roots)
        return build_context(latents, generator.standard_normal((6, 4)))

    return make
