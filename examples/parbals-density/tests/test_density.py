"""The whole contract of parbals, inherited, and what is particular to this strategy."""

import numpy as np
import parbals
import pytest
from parbals.errors import InputError
from parbals.testing import StrategyContract, make_inputs


class TestDensity(StrategyContract):
    strategy = "density"


class TestDensityWithPower(StrategyContract):
    strategy = "density"
    options = {"power": 3.0}  # noqa: RUF012


def test_without_density_it_is_entropy():
    inputs = make_inputs()
    flat = parbals.select_batch(**inputs, batch_size=8, strategy="density", options={"power": 0})
    assert (
        flat.indices.tolist()
        == parbals.select_batch(**inputs, batch_size=8, strategy="entropy").indices.tolist()
    )


def test_a_crowd_counts():
    features = np.array([[1.0, 0.0]] * 9 + [[-1.0, 0.0]])
    probs = np.full((10, 1, 2), 0.5)
    chosen = parbals.select_batch(
        probs, batch_size=9, strategy="density", pool_features=features
    ).indices
    assert set(chosen.tolist()) == set(range(9))


def test_a_bad_power_is_refused():
    with pytest.raises(InputError, match="power is -1"):
        parbals.select_batch(
            **make_inputs(), batch_size=1, strategy="density", options={"power": -1}
        )
