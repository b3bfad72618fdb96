"""JAX's precision, and what importing parbals leaves alone."""

import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
from parbals.accelerators import compiled, working_precision


def test_double_precision_is_scoped_to_the_call():
    with working_precision(np.dtype(np.float64)):
        assert jnp.zeros(1).dtype == jnp.float64
    assert jnp.zeros(1).dtype == jnp.float32


def test_a_formula_is_compiled_once_for_each_of_its_options():
    def scaled(x, *, by, xp):
        return xp.square(x) * by

    assert compiled(scaled, by=2) is compiled(scaled, by=2)
    assert compiled(scaled, by=3)(np.arange(3.0, dtype=np.float32)).tolist() == [0.0, 3.0, 12.0]


def test_nothing_is_written_or_configured_for_the_user(tmp_path):
    code = """
import jax, numpy as np
before = dict(jax.config.values)
import parbals, parbals.accelerators, parbals.scores.rows
probs = np.full((20, 8, 2), 0.5, np.float32)
parbals.select_batch(probs, probs, 2, random_state=0)
assert jax.config.values == before
"""
    environment = os.environ | {"PARBALS_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
