"""Precision and safe logarithms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parbals.numerics import entropy, safe_reciprocal, use_disk_cache, working_precision


def test_impossible_events_contribute_nothing():
    assert safe_reciprocal(jnp.array([0.0, 2.0])).tolist() == [0.0, 0.5]
    assert entropy(jnp.array([1.0, 0.0])) == 0.0
    assert entropy(jnp.array([0.5, 0.5])) == pytest.approx(np.log(2))


def test_reciprocals_of_tiny_probabilities_stay_finite_when_multiplied():
    by_p = safe_reciprocal(jnp.array([1e-38, 1e-30, 1e-10], jnp.float32))
    assert jnp.isfinite(by_p * by_p).all()
    assert float(by_p[2]) == pytest.approx(1e10, rel=1e-6)


def test_double_precision_is_scoped_to_the_call():
    with working_precision(np.dtype(np.float64)):
        assert jnp.zeros(1).dtype == jnp.float64
    assert jnp.zeros(1).dtype == jnp.float32


def test_compiled_programs_can_be_kept_in_a_folder(tmp_path):
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    use_disk_cache(tmp_path)
    try:
        assert jax.config.jax_compilation_cache_dir == str(tmp_path)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
